//! How one reconcile ended, and when the next one is due.

use std::time::{Duration, Instant};

use slipway_cluster::ClusterError;
use slipway_model::{Backoff, Next};

/// When to reconcile again although nothing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// As was decided before: nothing was looked at this time.
    Unchanged,
    /// Not before something wakes it.
    Never,
    /// At this time, whatever was decided before.
    At(Instant),
    /// After this time at the latest: an earlier time stays, so that an object that is woken often is still polled.
    Within(Duration),
    /// With the same wake after this time: what it asked for could not be answered yet.
    Again(Duration),
}

impl Requeue {
    /// At this time, and after `net` at the latest, in case that something was not heard; without a time, after that.
    pub fn due(at: Option<jiff::Timestamp>, now: jiff::Timestamp, net: Duration) -> Self {
        let after = at.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        Self::At(Instant::now() + after.unwrap_or(net).min(net))
    }
}

/// Why a reconcile ended early.
#[derive(Debug)]
pub enum Stop {
    /// The object changed meanwhile: reconcile it again, at once.
    Changed,
    /// It does not exist any more.
    Gone,
    /// The lease of its shard ran out: whoever has it now goes on.
    Fenced,
    Failed(Failure),
}

/// What an operator reads, and what the shell goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub message: String,
    pub next: Next,
}

impl Stop {
    pub fn failed(message: impl Into<String>, next: Next) -> Self {
        Self::Failed(Failure { message: message.into(), next })
    }
}

impl From<ClusterError> for Stop {
    fn from(error: ClusterError) -> Self {
        match error {
            error if error.is_conflict() => Self::Changed,
            error if error.is_fenced() => Self::Fenced,
            error => Self::failed(error.to_string(), error.next()),
        }
    }
}

/// How long a failure is waited out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    pub first: Duration,
    /// Delays double up to this one. It is also how often something that needs a person is tried.
    pub max: Duration,
}

impl Retry {
    /// The same delay each time.
    pub const fn every(delay: Duration) -> Self {
        Self { first: delay, max: delay }
    }

    /// `failures`: how often in a row, this one included.
    pub fn delay(self, next: Next, failures: u32) -> Duration {
        match next {
            Next::Retry => Backoff::pause(self.first, self.max, failures),
            Next::WaitMs(ms) => Duration::from_millis(ms),
            Next::NeedsHuman => self.max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_decides_how_long_is_waited() {
        let retry = Retry { first: Duration::from_secs(1), max: Duration::from_secs(60) };
        for (next, failures, expected) in [
            (Next::Retry, 1, 1_000),
            (Next::Retry, 3, 4_000),
            (Next::Retry, 40, 60_000),
            (Next::WaitMs(2_500), 9, 2_500),
            (Next::NeedsHuman, 1, 60_000),
        ] {
            assert_eq!(retry.delay(next, failures), Duration::from_millis(expected), "{next:?} {failures}");
        }
        assert_eq!(Retry::every(Duration::from_secs(2)).delay(Next::Retry, 9), Duration::from_secs(2));
    }

    #[test]
    fn a_conflict_is_no_failure_and_a_lost_lease_neither() {
        let refused = |code, reason: &str| ClusterError::Refused {
            what: "x".into(),
            code,
            reason: reason.into(),
            message: "y".into(),
        };
        assert!(matches!(Stop::from(refused(409, "Conflict")), Stop::Changed));
        assert!(matches!(Stop::from(ClusterError::Fenced { what: "x".into() }), Stop::Fenced));
        let Stop::Failed(failure) = Stop::from(refused(503, "ServiceUnavailable")) else {
            panic!("a failure")
        };
        assert_eq!(failure, Failure { message: "x: y".into(), next: Next::Retry });
    }
}
