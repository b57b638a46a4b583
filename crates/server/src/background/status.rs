//! How background tasks of this process go.
//!
//! In: the driver says when a round begins and how it ended. Out: rows for the health page, `slipway admin jobs`, `/readyz`
//! and `/metrics`. A task that keeps failing is logged at its 1st, 2nd, 4th, 8th … failure in a row: often enough to be
//! found, seldom enough to be read.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::background::driver::{Outcome, Task};
use crate::ctx::Server;

/// After so many failures in a row a task is called failing: one may be a database that restarts.
pub(crate) const FAILING: u64 = 3;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) description: &'static str,
    /// Whoever holds this runs it; `None` for each process by itself.
    pub(crate) lease: Option<&'static str>,
    pub(crate) rounds: u64,
    pub(crate) last_run_ms: Option<i64>,
    pub(crate) took: Option<Duration>,
    /// When its pause is over; a commit may wake it before.
    pub(crate) next_run_ms: Option<i64>,
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

    pub(super) fn register(&self, task: &Task) {
        self.with(task.name, |job| {
            job.description = task.description;
            job.lease = task.lease;
        });
    }

    pub(crate) fn leads(&self, name: &'static str, epoch: Option<i64>) {
        let mut leading = self.leading.lock().expect("not poisoned");
        match epoch {
            Some(epoch) => leading.insert(name, epoch),
            None => leading.remove(name),
        };
        drop(leading);
        if epoch.is_none() {
            // Whoever leads next says when it runs.
            let mut known = self.known.lock().expect("not poisoned");
            for job in known.values_mut().filter(|job| job.lease == Some(name)) {
                job.next_run_ms = None;
            }
        }
    }

    pub(crate) fn leading(&self) -> BTreeMap<&'static str, i64> {
        self.leading.lock().expect("not poisoned").clone()
    }

    pub(super) fn began(&self, name: &'static str, now_ms: i64) {
        self.with(name, |job| {
            job.last_run_ms = Some(now_ms);
            job.next_run_ms = None;
        });
    }

    pub(super) fn next(&self, name: &'static str, now_ms: i64, pause: Duration) {
        let pause_ms = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
        self.with(name, |job| job.next_run_ms = Some(now_ms.saturating_add(pause_ms)));
    }

    /// Gives back how many rounds in a row have failed.
    pub(super) fn ended(&self, server: &Server, task: &Task, took: Duration, outcome: &Outcome) -> u64 {
        self.with(task.name, |job| job.took = Some(took));
        note(server, task.name, outcome.as_ref().err().map(|failure| failure.0.clone()))
    }

    fn note(&self, name: &'static str, now_ms: i64, error: Option<String>) -> u64 {
        self.with(name, |job| {
            job.rounds += 1;
            job.last_run_ms.get_or_insert(now_ms);
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
        })
    }

    fn with<T>(&self, name: &'static str, change: impl FnOnce(&mut Job) -> T) -> T {
        change(self.known.lock().expect("not poisoned").entry(name).or_default())
    }
}

/// One round is over of a task that waits by itself.
pub(crate) fn ran<T, E: std::fmt::Display>(server: &Server, name: &'static str, outcome: Result<T, E>) {
    server.inner.jobs.with(name, |job| job.last_run_ms = Some(server.now_ms()));
    note(server, name, outcome.err().map(|error| error.to_string()));
}

fn note(server: &Server, name: &'static str, error: Option<String>) -> u64 {
    let failures = server.inner.jobs.note(name, server.now_ms(), error.clone());
    if let Some(error) = error.filter(|_| failures.is_power_of_two()) {
        tracing::warn!(error, job = name, failures, "A background job failed; retrying.");
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_failing_after_three_in_a_row_and_fine_after_one_that_went_well() {
        let jobs = Jobs::default();
        for (round, failing) in [(1, false), (2, false), (3, true)] {
            jobs.note("schedules", round, Some("away".into()));
            assert_eq!(jobs.list()[0].1.is_failing(), failing);
        }
        jobs.note("schedules", 4, None);
        let job = &jobs.list()[0].1;
        assert_eq!((job.failures, job.failures_total, job.last_success_ms), (0, 3, Some(4)));
        assert_eq!((job.is_failing(), &job.error, job.rounds), (false, &None, 4));
    }

    #[test]
    fn who_leads_no_longer_does_not_say_when_it_runs_next() {
        let jobs = Jobs::default();
        jobs.with("schedules", |job| job.lease = Some("schedules"));
        jobs.leads("schedules", Some(7));
        jobs.next("schedules", 1_000, Duration::from_secs(2));
        assert_eq!(jobs.list()[0].1.next_run_ms, Some(3_000));
        jobs.leads("schedules", None);
        assert_eq!(jobs.list()[0].1.next_run_ms, None);
    }
}
