//! The output of a step that writes it into a file of the runner's storage: what has come, each byte once.
//!
//! A node keeps only so much of a container's log, and throws the rest away; this file is whole, and where it was
//! read up to is a number. It does not know what the bytes are.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// At one look: a step that writes without end must still be stoppable.
const LOOK_BYTES_MAX: usize = 4 << 20;

pub(super) struct Tail {
    file: File,
    at: u64,
    /// New bytes that an earlier supervisor has already written.
    ahead: u64,
    buffer: Vec<u8>,
}

impl Tail {
    /// `None` where the step has no such file.
    pub(super) fn open(path: &Path, at: u64, ahead: u64) -> io::Result<Option<Self>> {
        match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => Ok(Some(Self { file, at, ahead, buffer: vec![0; 1 << 16] })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn nothing_ahead(&mut self) {
        self.ahead = 0;
    }

    /// Gives what is new to `take`, with the place up to which it then was read. False when nothing was there.
    pub(super) fn read(&mut self, mut take: impl FnMut(&[u8], u64) -> io::Result<()>) -> io::Result<bool> {
        let mut seen = 0;
        while seen < LOOK_BYTES_MAX {
            let count = match self.file.read_at(&mut self.buffer, self.at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                count => count?,
            };
            if count == 0 {
                // Emptied by the step itself: what it writes now is at the beginning.
                if seen == 0 && self.file.metadata()?.len() < self.at {
                    self.at = 0;
                    continue;
                }
                break;
            }
            self.at += count as u64;
            let passed = usize::try_from(self.ahead).unwrap_or(usize::MAX).min(count);
            self.ahead -= passed as u64;
            take(&self.buffer[passed..count], self.at)?;
            seen += count;
        }
        Ok(seen > 0)
    }

    /// Nobody reads more of it, so it may not fill the disk. The step goes on writing at the new end.
    pub(super) fn discard(&mut self) -> io::Result<()> {
        self.at = 0;
        self.file.set_len(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read(tail: &mut Tail) -> (String, u64) {
        let (mut text, mut place) = (Vec::new(), 0);
        tail.read(|bytes, at| {
            text.extend_from_slice(bytes);
            place = at;
            Ok(())
        })
        .unwrap();
        (String::from_utf8(text).unwrap(), place)
    }

    #[test]
    fn what_comes_is_given_once_and_by_the_next_reader_from_where_the_last_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        assert!(Tail::open(&path, 0, 0).unwrap().is_none());
        let mut step = OpenOptions::new().append(true).create(true).open(&path).unwrap();
        let mut tail = Tail::open(&path, 0, 0).unwrap().unwrap();
        assert!(!tail.read(|_, _| Ok(())).unwrap());
        step.write_all(b"one\ntw").unwrap();
        assert_eq!(read(&mut tail), ("one\ntw".to_owned(), 6));
        step.write_all(b"o\n").unwrap();
        // It wrote down 6, wrote one byte more into the output, and died.
        assert_eq!(read(&mut Tail::open(&path, 6, 1).unwrap().unwrap()), ("\n".to_owned(), 8));
        step.set_len(0).unwrap();
        step.write_all(b"new\n").unwrap();
        assert_eq!(read(&mut Tail::open(&path, 8, 0).unwrap().unwrap()), ("new\n".to_owned(), 4));
    }

    #[test]
    fn what_is_discarded_takes_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut step = OpenOptions::new().append(true).create(true).open(&path).unwrap();
        step.write_all(&[b'x'; 1000]).unwrap();
        let mut tail = Tail::open(&path, 1000, 0).unwrap().unwrap();
        tail.discard().unwrap();
        step.write_all(b"y").unwrap();
        assert_eq!(step.metadata().unwrap().len(), 1);
        assert_eq!(read(&mut tail), ("y".to_owned(), 1));
    }
}
