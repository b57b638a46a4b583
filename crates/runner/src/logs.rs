//! The logs of one build on disk: raw text of runner and steps in, masked text at fixed offsets out.
//!
//! Each log is a list of segments. They are masked one after the other into `<step>.log`; `<step>.cursor`
//! says up to where that is done. Both are on disk before a byte counts as there, so what was sent once
//! is never made again differently. It knows nothing of the network.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::journal::Segment;
use crate::layout::{BuildDir, create_private_dir, file_name};
use crate::mask::Masker;

/// Raw bytes looked at in one go.
const CHUNK_BYTES: usize = 1 << 20;

pub(crate) struct Logs {
    dir: BuildDir,
    logs: BTreeMap<String, Log>,
}

struct Log {
    cursor: Cursor,
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Cursor {
    /// The segment being read, and how many of its raw bytes are done.
    segment: usize,
    raw: u64,
    /// Length of the masked text.
    masked: u64,
}

/// Written in place, within one sector, so that one small sync puts it on disk in one piece.
const CURSOR_BYTES: usize = 64;

impl Cursor {
    fn load(path: &Path) -> io::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let mut numbers = text.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Ok(Self { segment: usize::try_from(next()).unwrap_or(0), raw: next(), masked: next() })
    }

    fn save(&self, path: &Path) -> io::Result<()> {
        let text = format!("{} {} {}", self.segment, self.raw, self.masked);
        let text = format!("{text:<width$}\n", width = CURSOR_BYTES - 1);
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()
    }
}

impl Logs {
    pub(crate) fn open(dir: &BuildDir) -> io::Result<Self> {
        create_private_dir(&dir.logs())?;
        Ok(Self { dir: dir.clone(), logs: BTreeMap::new() })
    }

    /// The segments of all logs as the journal has them now; they only ever get more.
    pub(crate) fn follow(&mut self, journal: &BTreeMap<String, Vec<Segment>>) -> io::Result<()> {
        for (name, segments) in journal {
            match self.logs.get_mut(name) {
                Some(log) => log.segments.clone_from(segments),
                None => {
                    let cursor = Cursor::load(&self.cursor_path(name))?;
                    // Text after the cursor was never sent; it is made again.
                    if let Ok(file) = OpenOptions::new().write(true).open(self.text_path(name)) {
                        file.set_len(cursor.masked)?;
                    }
                    self.logs.insert(name.clone(), Log { cursor, segments: segments.clone() });
                }
            }
        }
        Ok(())
    }

    /// Masks what is new. `true` when there may be more at once.
    pub(crate) fn pump(&mut self, masker: &Masker) -> io::Result<bool> {
        let names: Vec<String> =
            self.logs.iter().filter(|(_, log)| !log.done()).map(|(name, _)| name.clone()).collect();
        let mut more = false;
        for name in names {
            more |= self.pump_one(&name, masker)?;
        }
        Ok(more)
    }

    fn pump_one(&mut self, name: &str, masker: &Masker) -> io::Result<bool> {
        let Some(log) = self.logs.get(name) else { return Ok(false) };
        let mut cursor = log.cursor.clone();
        let mut text = String::new();
        let mut full = false;
        while cursor.segment < log.segments.len() && text.len() < CHUNK_BYTES {
            let (bytes, closed) = self.raw(&log.segments[cursor.segment], cursor.raw)?;
            full = bytes.len() == CHUNK_BYTES;
            let at_end = closed && !full;
            let used = masker.mask(&bytes, at_end, &mut text);
            cursor.raw += used as u64;
            if !at_end {
                break;
            }
            cursor.segment += 1;
            cursor.raw = 0;
        }
        if cursor == log.cursor {
            return Ok(false);
        }
        cursor.masked += text.len() as u64;
        if !text.is_empty() {
            let mut file =
                OpenOptions::new().append(true).create(true).mode(0o600).open(self.text_path(name))?;
            file.write_all(text.as_bytes())?;
            file.sync_data()?;
        }
        cursor.save(&self.cursor_path(name))?;
        if let Some(log) = self.logs.get_mut(name) {
            log.cursor = cursor;
        }
        Ok(full)
    }

    /// Raw bytes of a segment from an offset on, and whether no more will come after them.
    fn raw(&self, segment: &Segment, from: u64) -> io::Result<(Vec<u8>, bool)> {
        match segment {
            Segment::Text(text) => {
                let from = usize::try_from(from).unwrap_or(usize::MAX).min(text.len());
                Ok((text.as_bytes()[from..].to_vec(), true))
            }
            Segment::Output { step, attempt } => {
                let dir = self.dir.attempt(step, *attempt);
                // In this order: what is written after the look is read the next time.
                let closed = dir.exit().exists();
                let mut bytes = Vec::new();
                match File::open(dir.output()) {
                    Ok(mut file) => {
                        file.seek(SeekFrom::Start(from))?;
                        file.take(CHUNK_BYTES as u64).read_to_end(&mut bytes)?;
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
                Ok((bytes, closed))
            }
        }
    }

    /// How long each log is now.
    pub(crate) fn lengths(&self) -> BTreeMap<String, u64> {
        self.logs.iter().map(|(name, log)| (name.clone(), log.cursor.masked)).collect()
    }

    /// Everything that will ever be said has been masked.
    pub(crate) fn done(&self) -> bool {
        self.logs.values().all(Log::done)
    }

    fn text_path(&self, name: &str) -> std::path::PathBuf {
        text_path(&self.dir, name)
    }

    fn cursor_path(&self, name: &str) -> std::path::PathBuf {
        self.dir.logs().join(format!("{}.cursor", file_name(name)))
    }
}

impl Log {
    fn done(&self) -> bool {
        self.cursor.segment >= self.segments.len()
    }
}

fn text_path(dir: &BuildDir, name: &str) -> std::path::PathBuf {
    dir.logs().join(format!("{}.log", file_name(name)))
}

/// A piece of a log's masked text that ends with a whole character.
pub(crate) fn read_text(dir: &BuildDir, name: &str, from: u64, to: u64) -> io::Result<String> {
    let mut file = File::open(text_path(dir, name))?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(to.saturating_sub(from)).read_to_end(&mut bytes)?;
    let whole = match std::str::from_utf8(&bytes) {
        Ok(text) => text.len(),
        Err(error) => error.valid_up_to(),
    };
    bytes.truncate(whole);
    String::from_utf8(bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Lasting, write_json};
    use crate::task::{Exit, How};

    fn place() -> (tempfile::TempDir, BuildDir) {
        let dir = tempfile::tempdir().unwrap();
        let build = BuildDir(dir.path().to_owned());
        create_private_dir(&build.attempt("test", 1).0).unwrap();
        (dir, build)
    }

    fn append(build: &BuildDir, text: &str) {
        let path = build.attempt("test", 1).output();
        OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn journal() -> BTreeMap<String, Vec<Segment>> {
        let output = Segment::Output { step: "test".into(), attempt: 1 };
        let segments = vec![Segment::Text("begin\n".into()), output, Segment::Text("end\n".into())];
        BTreeMap::from([("test".to_owned(), segments)])
    }

    fn text(build: &BuildDir, logs: &Logs) -> String {
        read_text(build, "test", 0, logs.lengths()["test"]).unwrap()
    }

    #[test]
    fn a_log_grows_at_fixed_offsets_over_restarts() {
        let (_dir, build) = place();
        let masker = Masker::new(["secret"]);
        let mut logs = Logs::open(&build).unwrap();
        logs.follow(&journal()).unwrap();
        append(&build, "one\nsec");
        logs.pump(&masker).unwrap();
        assert_eq!(text(&build, &logs), "begin\none\n");
        // A crash after text was appended and before the cursor was: made again, not twice.
        OpenOptions::new().append(true).open(text_path(&build, "test")).unwrap().write_all(b"torn").unwrap();
        drop(logs);

        let mut logs = Logs::open(&build).unwrap();
        logs.follow(&journal()).unwrap();
        append(&build, "ret\ntwo\n");
        logs.pump(&masker).unwrap();
        assert_eq!(text(&build, &logs), "begin\none\n*****\ntwo\n");
        assert!(!logs.done());
        let exit = Exit::new(How::Exited, Some(0), None);
        write_json(&build.attempt("test", 1).exit(), &exit, Lasting::Process).unwrap();
        logs.pump(&masker).unwrap();
        assert_eq!(text(&build, &logs), "begin\none\n*****\ntwo\nend\n");
        assert!(logs.done());
    }

    #[test]
    fn a_long_output_comes_in_several_goes_and_whole() {
        let (_dir, build) = place();
        let masker = Masker::new([]);
        let mut logs = Logs::open(&build).unwrap();
        logs.follow(&journal()).unwrap();
        let line = "x".repeat(99) + "\n";
        append(&build, &line.repeat(30_000));
        write_json(
            &build.attempt("test", 1).exit(),
            &Exit::new(How::Exited, Some(0), None),
            Lasting::Process,
        )
        .unwrap();
        while logs.pump(&masker).unwrap() {}
        logs.pump(&masker).unwrap();
        assert_eq!(text(&build, &logs).len(), 10 + 3_000_000);
    }
}
