//! Pauses between tries that grow: each is twice the one before, up to the longest. It knows no clock and sleeps for nobody.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, failures: 0 }
    }

    /// A try failed: how long to wait before the next one.
    pub fn failed(&mut self) -> Duration {
        let pause = self.peek();
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// What [`failed`](Self::failed) would say now.
    pub fn peek(&self) -> Duration {
        Self::pause(self.first, self.max, self.failures.saturating_add(1))
    }

    /// A try succeeded: the next failure is the first again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Tries that failed in a row.
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// The pause after so many failures in a row, the last one included.
    pub fn pause(first: Duration, max: Duration, failures: u32) -> Duration {
        first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_the_longest_and_begin_again() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(200), ms(1_000));
        let pauses: Vec<_> = (0..5).map(|_| backoff.failed()).collect();
        assert_eq!(pauses, [ms(200), ms(400), ms(800), ms(1_000), ms(1_000)]);
        assert_eq!(backoff.failures(), 5);
        backoff.reset();
        assert_eq!((backoff.failures(), backoff.failed()), (0, ms(200)));
        assert_eq!(Backoff::pause(ms(1), ms(60_000), u32::MAX), ms(60_000));
    }
}
