//! How long the server has not been heard, for a supervisor: after too much silence the build may be another runner's,
//! and the step stops before that one begins.
//!
//! In: a file that the runner writes whenever the server answers, with how much silence is too much (0: none is).
//! Out: whether it is. Counted on a clock that nobody sets; a runner that is gone, stopped or cut off looks the same.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// One `stat` each.
const LOOK: Duration = Duration::from_millis(500);

pub(super) struct Silence {
    file: Option<PathBuf>,
    written: Option<SystemTime>,
    since: Instant,
    most: Option<Duration>,
    look_at: Instant,
}

impl Silence {
    pub(super) fn new(file: Option<PathBuf>) -> Self {
        let now = Instant::now();
        let mut silence = Self { file, written: None, since: now, most: None, look_at: now };
        silence.look(now);
        // The attempt may have begun in the middle of a silence.
        if let (Some(written), Some(most)) = (silence.written, silence.most) {
            let age = SystemTime::now().duration_since(written).unwrap_or_default().min(most);
            silence.since = now.checked_sub(age).unwrap_or(now);
        }
        silence
    }

    /// Too much, if it is.
    pub(super) fn too_long(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if now >= self.look_at {
            self.look(now);
        }
        self.most.filter(|most| now.duration_since(self.since) > *most)
    }

    fn look(&mut self, now: Instant) {
        self.look_at = now + LOOK;
        let Some(file) = &self.file else { return };
        let written = std::fs::metadata(file).and_then(|found| found.modified()).ok();
        if written.is_none() || written == self.written {
            return;
        }
        (self.written, self.since) = (written, now);
        let most = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<u64>().ok());
        self.most = most.filter(|ms| *ms > 0).map(Duration::from_millis);
    }
}

/// Why the step stopped, for its log.
pub(super) fn sentence(most: Duration) -> String {
    format!(
        "the server was not heard for {} s, and another runner may have the build: the step was stopped",
        most.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_from_the_last_word_and_ends_with_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("heard");
        let mut silence = Silence::new(Some(file.clone()));
        assert!(silence.too_long().is_none(), "nobody has said how much is too much");
        std::fs::write(&file, "1").unwrap();
        silence.look(Instant::now());
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(silence.too_long(), Some(Duration::from_millis(1)));
        std::fs::write(&file, "60000").unwrap();
        silence.look(Instant::now());
        assert!(silence.too_long().is_none());
        // An attempt that begins long after the last word.
        std::fs::write(&file, "10").unwrap();
        let old = SystemTime::now() - Duration::from_secs(60);
        std::fs::File::open(&file).unwrap().set_modified(old).unwrap();
        let mut late = Silence::new(Some(file));
        std::thread::sleep(Duration::from_millis(1));
        assert!(late.too_long().is_some());
    }
}
