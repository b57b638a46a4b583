//! Pauses and the abort: what this plan adds to them and takes away, and what that makes of the status.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use slipway_crd::rollout::{PauseCondition, PauseStep, RolloutStatus};

use super::observed::written;
use super::{Play, conditions};
use crate::names::{condition, pause, reason};

#[derive(Debug, Default)]
pub(super) struct Pause {
    pub(super) add: Vec<&'static str>,
    remove: Vec<&'static str>,
    pub(super) clear: bool,
    /// Why it is aborted by this plan.
    pub(super) abort: Option<String>,
    pub(super) remove_abort: bool,
}

impl Pause {
    pub(super) fn is_aborted(&self, status: &RolloutStatus) -> bool {
        !self.remove_abort && (self.abort.is_some() || status.abort)
    }

    pub(super) fn remove(&mut self, reason: &'static str) {
        self.remove.push(reason);
    }

    /// Ends the update as if nobody had paused or aborted it.
    pub(super) fn forget(&mut self) {
        self.clear = true;
        self.remove_abort = true;
    }
}

/// Seconds of a pause; `None`: until somebody goes on.
pub(super) fn seconds(step: &PauseStep) -> Option<i64> {
    match step.duration.as_ref()? {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => slipway_dialect::duration::parse_or_seconds(text).map(|ms| ms / 1_000),
        _ => None,
    }
}

pub(super) fn condition_of<'a>(status: &'a RolloutStatus, reason: &str) -> Option<&'a PauseCondition> {
    status.pause_conditions.iter().find(|one| one.reason == reason)
}

/// When a pause that began then is over.
pub(super) fn end(since: &PauseCondition, seconds: i64) -> Option<Timestamp> {
    let since: Timestamp = since.start_time.parse().ok()?;
    since.checked_add(SignedDuration::from_secs(seconds)).ok()
}

impl Play<'_> {
    /// Conditions follow what people paused, resumed or retried, before anything else is thought about. True: they changed.
    pub(super) fn note_pause(&mut self) -> bool {
        let prev = self.prev();
        let progressing = conditions::get(prev, condition::PROGRESSING);
        let has = |wanted: &str| progressing.is_some_and(|one| one.reason == wanted);
        let (was_paused, was_aborted) = (has(reason::PAUSED), has(reason::ABORTED));
        let is_paused = !prev.pause_conditions.is_empty() || self.ro.spec.paused;
        let is_completed = !prev.stable_rs.is_empty() && prev.stable_rs == prev.current_pod_hash;
        let now = self.now;
        let mut changed = false;
        let mut set = |of: &str, value: &str, reason: &str, message: &str| {
            changed |= conditions::set(&mut self.status, of, value, reason, message, now);
        };
        if is_paused != was_paused && !was_aborted && !is_completed {
            let (reason, message) = if is_paused {
                (reason::PAUSED, "Rollout is paused")
            } else {
                (reason::RESUMED, "Rollout is resumed")
            };
            set(condition::PROGRESSING, "Unknown", reason, message);
        }
        if !prev.abort && was_aborted {
            set(condition::PROGRESSING, "Unknown", reason::RETRY, "Retrying Rollout after abort");
        }
        if is_paused != conditions::is_true(prev, condition::PAUSED) && !was_aborted {
            let value = if is_paused { "True" } else { "False" };
            set(condition::PAUSED, value, reason::PAUSED, "Rollout is paused");
        }
        if changed {
            self.status.observed_generation = self.ro.metadata.generation.to_string();
            self.write_phase();
        }
        changed
    }

    /// Nothing is sized or switched: a person paused it, or an analysis could not tell. Whoever aborts wants it back all the same.
    pub(super) fn is_halted(&self) -> bool {
        let paused = self.ro.spec.paused || condition_of(self.prev(), pause::INCONCLUSIVE_RUN).is_some();
        paused && !self.is_aborted()
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.pause.is_aborted(self.prev())
    }

    /// Abort and pauses, as they are after this plan.
    pub(super) fn write_pause(&mut self) {
        let prev = self.prev();
        let now = written(self.now);
        (self.status.controller_pause, self.status.pause_conditions) = (false, Vec::new());
        if self.is_aborted() {
            self.status.abort = true;
            self.status.aborted_at = prev.aborted_at.clone().or(Some(now));
            return;
        }
        (self.status.abort, self.status.aborted_at) = (false, None);
        if self.pause.clear {
            return;
        }
        let mut by_us = prev.controller_pause;
        let kept =
            prev.pause_conditions.iter().filter(|one| !self.pause.remove.contains(&one.reason.as_str()));
        let mut all: Vec<PauseCondition> = kept.cloned().collect();
        for reason in &self.pause.add {
            if condition_of(prev, reason).is_none() {
                let (reason, start_time) = ((*reason).to_owned(), now.clone());
                all.push(PauseCondition { reason, start_time, ..PauseCondition::default() });
                by_us = true;
            }
        }
        if all.is_empty() {
            // Somebody resumed it: that is known until it had its effect.
            let waits = self.blue_green().is_some()
                && !self.status.blue_green.scale_up_preview_check_point
                && self.status.blue_green.active_selector != self.status.current_pod_hash;
            self.status.controller_pause =
                by_us && (self.only_sizes || waits) && prev.pause_conditions.is_empty();
        } else {
            (self.status.controller_pause, self.status.pause_conditions) = (by_us, all);
        }
    }

    /// A pause step that is over: somebody went on, or its time has passed.
    pub(super) fn is_pause_over(&self, step: &PauseStep) -> bool {
        let prev = self.prev();
        match (condition_of(prev, pause::CANARY_STEP), seconds(step)) {
            (None, _) => prev.controller_pause,
            (Some(since), Some(seconds)) => end(since, seconds).is_some_and(|end| self.now >= end),
            (Some(_), None) => false,
        }
    }
}
