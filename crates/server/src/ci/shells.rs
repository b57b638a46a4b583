//! Shells in paused steps, between the person and the runner: bytes at offsets, in memory and nowhere else.
//!
//! In: what a person types and what a shell prints, each from a call that was checked before. Out: the bytes after an
//! offset, for whoever waits. The newest of them are kept so that a call that got lost is asked again; older ones are
//! gone, and whoever is behind sees by the offset how many. Between processes they go through the cache, which keeps
//! nothing either. It does not know who may speak.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use slipway_api::debug::ShellBytes;
use tokio::sync::watch;

use crate::ctx::Server;
use crate::http::error::ApiError;

/// Of one direction of one shell.
const KEPT_BYTES: usize = 256 << 10;
pub(crate) const PIECE_BYTES_MAX: usize = 64 << 10;
/// A shell that nobody has said anything in for so long is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    /// What the person types.
    In,
    /// What the shell prints.
    Out,
}

/// What one process tells the others.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Piece {
    shell: String,
    way: Way,
    #[serde(flatten)]
    bytes: ShellBytes,
}

#[derive(Default)]
struct Stream {
    /// Offset of the first byte that is kept.
    from: u64,
    kept: Vec<u8>,
    closed: Option<String>,
}

impl Stream {
    fn end(&self) -> u64 {
        self.from + self.kept.len() as u64
    }

    /// What is known already is passed over; a gap is kept as one.
    fn put(&mut self, offset: u64, bytes: &[u8], closed: Option<String>) {
        let known = usize::try_from(self.end().saturating_sub(offset)).unwrap_or(usize::MAX);
        let fresh = bytes.get(known..).unwrap_or_default();
        if offset > self.end() {
            (self.from, self.kept) = (offset, Vec::new());
        }
        self.kept.extend_from_slice(fresh);
        let over = self.kept.len().saturating_sub(KEPT_BYTES);
        self.kept.drain(..over);
        self.from += over as u64;
        self.closed = self.closed.take().or(closed);
    }

    fn after(&self, offset: u64) -> ShellBytes {
        // Who knows more than we do spoke with this process before it was started again: counting begins anew.
        let at = if offset > self.end() { self.from } else { offset.max(self.from) };
        let skip = usize::try_from(at - self.from).unwrap_or(usize::MAX);
        let rest = self.kept.get(skip..).unwrap_or_default();
        let rest = &rest[..rest.len().min(PIECE_BYTES_MAX)];
        let last = at + rest.len() as u64 >= self.end();
        ShellBytes { offset: at, bytes: STANDARD.encode(rest), closed: self.closed.clone().filter(|_| last) }
    }
}

struct Entry {
    streams: HashMap<Way, Stream>,
    changed: watch::Sender<()>,
    at: Instant,
}

#[derive(Default)]
pub(crate) struct Shells(Mutex<HashMap<String, Entry>>);

impl Shells {
    fn with<T>(&self, shell: &str, work: impl FnOnce(&mut Entry) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Looked through when one comes, not with every letter.
        if !all.contains_key(shell) {
            all.retain(|_, entry| entry.at.elapsed() < FORGET_AFTER);
        }
        let entry = all.entry(shell.to_owned()).or_insert_with(|| Entry {
            streams: HashMap::new(),
            changed: watch::Sender::new(()),
            at: Instant::now(),
        });
        entry.at = Instant::now();
        work(entry)
    }

    fn put(&self, piece: &Piece) {
        let Ok(bytes) = STANDARD.decode(&piece.bytes.bytes) else { return };
        self.with(&piece.shell, |entry| {
            let stream = entry.streams.entry(piece.way).or_default();
            stream.put(piece.bytes.offset, &bytes, piece.bytes.closed.clone());
            entry.changed.send_replace(());
        });
    }

    /// From another process.
    pub(crate) fn hear(&self, piece: &Piece) {
        self.put(piece);
    }

    fn end(&self, shell: &str, way: Way) -> u64 {
        self.with(shell, |entry| entry.streams.entry(way).or_default().end())
    }

    fn look(&self, shell: &str, way: Way, after: u64) -> (ShellBytes, watch::Receiver<()>) {
        self.with(shell, |entry| {
            let bytes = entry.streams.entry(way).or_default().after(after);
            (bytes, entry.changed.subscribe())
        })
    }
}

/// Takes bytes; those of a person go after what was typed before.
pub(crate) fn put(
    server: &Server,
    shell: &str,
    way: Way,
    offset: Option<u64>,
    bytes: ShellBytes,
) -> Result<(), ApiError> {
    let length = STANDARD
        .decode(&bytes.bytes)
        .map_err(|_| ApiError::bad_request("the bytes of a shell must be base64"))?
        .len();
    if length > PIECE_BYTES_MAX {
        return Err(ApiError::bad_request(format!(
            "a request can hold at most {PIECE_BYTES_MAX} bytes of a shell"
        )));
    }
    let shells = &server.inner.shells;
    let offset = offset.unwrap_or_else(|| shells.end(shell, way));
    let piece = Piece { shell: shell.to_owned(), way, bytes: ShellBytes { offset, ..bytes } };
    shells.put(&piece);
    crate::http::fan_out::say_shell(server, piece);
    Ok(())
}

/// The bytes after `after`, at once or when there are some; none when time is up.
pub(crate) async fn take(server: &Server, shell: &str, way: Way, after: u64, wait: Duration) -> ShellBytes {
    let until = tokio::time::Instant::now() + wait;
    loop {
        let (bytes, mut changed) = server.inner.shells.look(shell, way, after);
        if !bytes.bytes.is_empty() || bytes.closed.is_some() {
            return bytes;
        }
        tokio::select! {
            () = server.inner.shutdown.cancelled() => return bytes,
            () = tokio::time::sleep_until(until) => return bytes,
            _ = changed.changed() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_come_twice_count_once_and_old_ones_are_seen_to_be_gone() {
        let mut stream = Stream::default();
        stream.put(0, b"hello ", None);
        stream.put(3, b"lo world", None);
        assert_eq!(STANDARD.decode(stream.after(0).bytes).unwrap(), b"hello world");
        assert_eq!(STANDARD.decode(stream.after(6).bytes).unwrap(), b"world");
        stream.put(11, &vec![b'x'; KEPT_BYTES], Some("it has ended".into()));
        let first = stream.after(0);
        assert_eq!(first.offset, 11, "eleven bytes are gone");
        assert_eq!(first.closed, None, "there is more before the end");
        let last = stream.after(stream.end());
        assert_eq!((last.bytes.as_str(), last.closed.as_deref()), ("", Some("it has ended")));
    }

    #[test]
    fn a_gap_shows_in_the_offset() {
        let mut stream = Stream::default();
        stream.put(0, b"abc", None);
        stream.put(10, b"z", None);
        assert_eq!((stream.after(3).offset, stream.end()), (10, 11));
    }

    #[test]
    fn who_knows_more_than_a_process_that_was_started_again_is_told_from_its_beginning() {
        let mut stream = Stream::default();
        stream.put(0, b"new", None);
        assert_eq!(
            (stream.after(100).offset, STANDARD.decode(stream.after(100).bytes).unwrap()),
            (0, b"new".to_vec())
        );
    }
}
