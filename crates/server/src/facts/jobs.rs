//! What runs in the background of this process, and how it goes.
//!
//! In: each loop says after every round whether it went well. Out: rows for the health page, `/readyz` and `/metrics`. A loop
//! that keeps failing is logged at its 1st, 2nd, 4th, 8th … failure in a row: often enough to be found, seldom enough to be read.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::ctx::Server;

/// After so many failures in a row a loop is called failing: one may be a database that restarts.
pub(crate) const FAILING: u64 = 3;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) last_run_ms: i64,
    pub(crate) last_success_ms: Option<i64>,
    /// In a row, up to now.
    pub(crate) failures: u64,
    pub(crate) failures_total: u64,
    pub(crate) error: Option<String>,
}

impl Job {
    pub(crate) fn is_failing(&self) -> bool {
        self.failures >= FAILING
    }
}

#[derive(Default)]
pub(crate) struct Jobs {
    known: Mutex<BTreeMap<&'static str, Job>>,
    /// What this process leads now, with the epoch of its lease.
    leading: Mutex<BTreeMap<&'static str, i64>>,
}

impl Jobs {
    pub(crate) fn list(&self) -> Vec<(&'static str, Job)> {
        let known = self.known.lock().expect("not poisoned");
        known.iter().map(|(name, job)| (*name, job.clone())).collect()
    }

    pub(crate) fn leads(&self, name: &'static str, epoch: Option<i64>) {
        let mut leading = self.leading.lock().expect("not poisoned");
        match epoch {
            Some(epoch) => leading.insert(name, epoch),
            None => leading.remove(name),
        };
    }

    pub(crate) fn leading(&self) -> BTreeMap<&'static str, i64> {
        self.leading.lock().expect("not poisoned").clone()
    }

    fn note(&self, name: &'static str, now_ms: i64, error: Option<String>) -> u64 {
        let mut known = self.known.lock().expect("not poisoned");
        let job = known.entry(name).or_default();
        job.last_run_ms = now_ms;
        match error {
            None => {
                job.last_success_ms = Some(now_ms);
                job.failures = 0;
                job.error = None;
            }
            Some(error) => {
                job.failures += 1;
                job.failures_total += 1;
                job.error = Some(error);
            }
        }
        job.failures
    }
}

/// One round of a loop is over.
pub(crate) fn ran<T, E: std::fmt::Display>(server: &Server, name: &'static str, outcome: Result<T, E>) {
    let jobs = &server.inner.jobs;
    let Err(error) = outcome else {
        jobs.note(name, server.now_ms(), None);
        return;
    };
    let failures = jobs.note(name, server.now_ms(), Some(error.to_string()));
    if failures.is_power_of_two() {
        tracing::warn!(%error, job = name, failures, "A background job failed; retrying.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_failing_after_three_in_a_row_and_fine_after_one_that_went_well() {
        let jobs = Jobs::default();
        for (round, failing) in [(1, false), (2, false), (3, true)] {
            jobs.note("clock", round, Some("away".into()));
            assert_eq!(jobs.list()[0].1.is_failing(), failing);
        }
        jobs.note("clock", 4, None);
        let job = &jobs.list()[0].1;
        assert_eq!((job.failures, job.failures_total, job.last_success_ms), (0, 3, Some(4)));
        assert_eq!((job.is_failing(), &job.error), (false, &None));
    }
}
