//! The log of a pod, each byte once: across connections that break and supervisors that die.
//!
//! In: the API's log, each line behind its time. Out: the lines without it. How far that has come is a
//! [`Cursor`], kept in a file beside the output. A log that is read again begins a second too early; what
//! is known of it is passed over. A known line that is not there any more means that the node threw
//! lines away, and the log says so.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::layout::{Lasting, read_if_whole, write_json};

/// Longer than any time that an API server writes.
const TIME_BYTES_MAX: usize = 64;
const GAP: &str =
    "slipway: the node threw away a part of the log before it was read; lines are missing here\n";

/// How far a log has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor {
    /// The time of the line that was begun last, as the API wrote it.
    time: String,
    /// How many lines of that time were begun.
    count: u64,
    /// How many bytes of the last of them are out.
    bytes: u64,
    /// How far the file of the step's output was read.
    #[serde(default)]
    tail: u64,
    /// How long the output was then.
    output: u64,
}

impl Cursor {
    pub(super) fn load(path: &Path) -> io::Result<Self> {
        Ok(read_if_whole(path)?.unwrap_or_default())
    }

    pub(super) fn save(&mut self, path: &Path, output: u64) -> io::Result<()> {
        self.output = output;
        write_json(path, self, Lasting::Process)
    }

    pub(super) fn tail(&self) -> u64 {
        self.tail
    }

    pub(super) fn tail_is_at(&mut self, place: u64) {
        self.tail = place;
    }

    /// Bytes that came out after this was written down.
    pub(super) fn ahead(&self, output: u64) -> u64 {
        output.saturating_sub(self.output)
    }

    /// From when on to read, in whole seconds: the API's grain.
    pub(super) fn since(&self) -> Option<String> {
        let time: jiff::Timestamp = self.time.parse().ok()?;
        jiff::Timestamp::from_second(time.as_second()).ok().map(|time| time.to_string())
    }
}

/// One connection: takes bytes as they come, gives those that are new.
pub(super) struct Reader {
    cursor: Cursor,
    resume: Option<Cursor>,
    /// Lines of the resumed time that were met again.
    met: u64,
    line: Line,
    /// New bytes that an earlier supervisor has already written.
    ahead: u64,
}

enum Line {
    /// Between lines: the time as far as it has been read.
    Time(Vec<u8>),
    Skip,
    /// So many bytes are known already; the rest is new.
    Emit {
        known: u64,
    },
}

impl Reader {
    pub(super) fn new(cursor: Cursor, ahead: u64) -> Self {
        let resume = (!cursor.time.is_empty()).then(|| cursor.clone());
        Self { cursor, resume, met: 0, line: Line::Time(Vec::new()), ahead }
    }

    pub(super) fn cursor(&mut self) -> &mut Cursor {
        &mut self.cursor
    }

    /// What is still known to be written already; the next connection has to know.
    pub(super) fn into_parts(self) -> (Cursor, u64) {
        (self.cursor, self.ahead)
    }

    pub(super) fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            match &mut self.line {
                Line::Time(time) => {
                    let room = TIME_BYTES_MAX.saturating_sub(time.len());
                    let end = bytes.iter().take(room).position(|byte| *byte == b' ' || *byte == b'\n');
                    let taken = end.unwrap_or(bytes.len().min(room));
                    time.extend_from_slice(&bytes[..taken]);
                    bytes = &bytes[taken..];
                    if end.is_some() || time.len() >= TIME_BYTES_MAX {
                        // The blank belongs to the time; the end of an empty line does not.
                        bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
                        let time = String::from_utf8_lossy(time).into_owned();
                        self.line = self.begin(&time, out);
                    }
                }
                Line::Skip | Line::Emit { .. } => {
                    let end = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
                    let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
                    bytes = rest;
                    self.content(part, out);
                    if end.is_some() {
                        self.line = Line::Time(Vec::new());
                    }
                }
            }
        }
    }

    fn begin(&mut self, time: &str, out: &mut Vec<u8>) -> Line {
        let Some(resume) = &self.resume else { return self.new_line(time) };
        if time == resume.time {
            self.met += 1;
            if self.met < resume.count {
                return Line::Skip;
            }
            let known = resume.bytes;
            self.resume = None;
            return Line::Emit { known };
        }
        // Lines of two streams may be written a moment out of order: only what is before the place is known.
        if self.met == 0 && is_before(time, &resume.time) {
            return Line::Skip;
        }
        self.resume = None;
        self.put(GAP.as_bytes(), out);
        self.new_line(time)
    }

    fn new_line(&mut self, time: &str) -> Line {
        if self.cursor.time == time {
            self.cursor.count += 1;
        } else {
            time.clone_into(&mut self.cursor.time);
            self.cursor.count = 1;
        }
        self.cursor.bytes = 0;
        Line::Emit { known: 0 }
    }

    fn content(&mut self, part: &[u8], out: &mut Vec<u8>) {
        let Line::Emit { known } = &mut self.line else { return };
        let passed = usize::try_from(*known).unwrap_or(usize::MAX).min(part.len());
        *known -= passed as u64;
        let fresh = &part[passed..];
        self.cursor.bytes += fresh.len() as u64;
        self.put(fresh, out);
    }

    fn put(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let passed = usize::try_from(self.ahead).unwrap_or(usize::MAX).min(bytes.len());
        self.ahead -= passed as u64;
        out.extend_from_slice(&bytes[passed..]);
    }
}

fn is_before(time: &str, other: &str) -> bool {
    match (time.parse::<jiff::Timestamp>(), other.parse::<jiff::Timestamp>()) {
        (Ok(time), Ok(other)) => time < other,
        _ => time < other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "2026-11-16T03:00:01.000000001Z one\n2026-11-16T03:00:01.000000002Z two\n2026-11-16T03:00:01.000000002Z two\n2026-11-16T03:00:01.000000002Z \n2026-11-16T03:00:02.000000000Z three is long\n2026-11-16T03:00:02.500000000Z no end";
    const TEXT: &str = "one\ntwo\ntwo\n\nthree is long\nno end";

    #[test]
    fn a_log_that_breaks_off_anywhere_comes_out_whole_and_once() {
        for cut in 0..=LOG.len() {
            for grain in [1, 7, LOG.len()] {
                let mut out = Vec::new();
                let mut first = Reader::new(Cursor::default(), 0);
                for part in LOG.as_bytes()[..cut].chunks(grain) {
                    first.feed(part, &mut out);
                }
                let (cursor, ahead) = first.into_parts();
                let mut second = Reader::new(cursor, ahead);
                for part in LOG.as_bytes().chunks(grain) {
                    second.feed(part, &mut out);
                }
                assert_eq!(String::from_utf8(out).unwrap(), TEXT, "cut at {cut}, by {grain}");
            }
        }
    }

    #[test]
    fn a_supervisor_that_dies_between_output_and_cursor_repeats_nothing() {
        let mut out = Vec::new();
        let mut first = Reader::new(Cursor::default(), 0);
        first.feed(&LOG.as_bytes()[..36], &mut out);
        let mut cursor = first.cursor().clone();
        cursor.output = out.len() as u64;
        // This much more was written, and nobody wrote down that it was.
        first.feed(&LOG.as_bytes()[36..110], &mut out);
        let ahead = cursor.ahead(out.len() as u64);
        assert!(ahead > 0);
        Reader::new(cursor, ahead).feed(LOG.as_bytes(), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), TEXT);
    }

    #[test]
    fn lines_that_the_node_threw_away_are_said_to_be_missing() {
        let mut out = Vec::new();
        let mut first = Reader::new(Cursor::default(), 0);
        first.feed(&LOG.as_bytes()[..36], &mut out);
        let (cursor, ahead) = first.into_parts();
        let rest = &LOG[LOG.find("2026-11-16T03:00:02.0").unwrap()..];
        Reader::new(cursor, ahead).feed(rest.as_bytes(), &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, format!("one\n{GAP}three is long\nno end"));
    }

    #[test]
    fn a_log_is_read_again_from_the_whole_second() {
        let cursor = Cursor { time: "2026-11-16T03:00:01.900000001Z".to_owned(), ..Cursor::default() };
        assert_eq!(cursor.since().as_deref(), Some("2026-11-16T03:00:01Z"));
        assert_eq!(Cursor::default().since(), None);
    }
}
