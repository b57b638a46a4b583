//! How long an update takes, and how much of that it waited for people: `status.duration`.

use jiff::Timestamp;
use slipway_crd::rollout::RolloutDuration;

use super::observed::written;
use super::{Play, conditions, pause};
use crate::names::{condition, pause as reasons, reason};

impl Play<'_> {
    /// After pauses and the abort were written, from what there was and what is now.
    pub(super) fn write_duration(&mut self) {
        let mut duration = self.prev().duration.clone();
        let status = &self.status;
        let changed = self.prev().current_pod_hash.is_empty()
            || self.canary().map_or_else(|| self.is_another_template(), |_| self.is_another_update());
        let promoted = !status.stable_rs.is_empty() && status.stable_rs == status.current_pod_hash;
        let reached = self.new.is_some_and(|new| self.sets[new].available >= self.replicas());
        let (completed, aborted) = (promoted && reached, self.is_aborted());
        if let Some(one) =
            duration.as_mut().filter(|one| one.rollout_started_at.is_some() && one.finished_at.is_none())
        {
            if changed {
                if self.is_rollback() {
                    let outcome = if self.is_fast_rollback() { "FastRolledBack" } else { "RolledBack" };
                    one.completion_status = outcome.into();
                } else {
                    finish(one, "Superseded", self.now);
                }
            }
            if self.promoted_by_order && one.completion_status.is_empty() {
                one.completion_status = "FastPromoted".into();
            }
            if one.finished_at.is_none() && (completed || aborted) {
                let known = std::mem::take(&mut one.completion_status);
                let outcome = if !known.is_empty() {
                    known
                } else if completed {
                    "Promoted".to_owned()
                } else {
                    "Aborted".to_owned()
                };
                finish(one, &outcome, self.now);
                if completed {
                    self.status.duration = duration;
                    return;
                }
            }
        }
        let over = duration.as_ref().is_none_or(|one| one.finished_at.is_some() && !completed);
        let retried = !aborted
            && conditions::get(self.prev(), condition::PROGRESSING)
                .is_some_and(|one| [reason::ABORTED, reason::RETRY].contains(&one.reason.as_str()));
        if over && (changed && !completed || retried) {
            let rollout_started_at = Some(written(self.now));
            duration = Some(RolloutDuration { rollout_started_at, ..RolloutDuration::default() });
        }
        if let Some(one) = duration.as_mut().filter(|one| one.finished_at.is_none()) {
            match (self.waits_for_a_person(), one.manual_pause_started_at.is_some()) {
                (true, false) => one.manual_pause_started_at = Some(written(self.now)),
                (false, true) => end_pause(one, self.now),
                _ => {}
            }
        }
        self.status.duration = duration;
    }

    /// Nothing but a person lets it go on.
    fn waits_for_a_person(&self) -> bool {
        let by_hand = |why: &str| match why {
            reasons::CANARY_STEP => {
                let (step, _) = self.step();
                step.and_then(|step| step.pause.as_ref()).is_some_and(|step| pause::seconds(step).is_none())
            }
            reasons::BLUE_GREEN => self.blue_green().is_some_and(|one| one.auto_promotion_seconds == 0),
            _ => true,
        };
        self.ro.spec.paused || self.status.pause_conditions.iter().any(|one| by_hand(&one.reason))
    }
}

fn finish(duration: &mut RolloutDuration, outcome: &str, now: Timestamp) {
    end_pause(duration, now);
    duration.finished_at = Some(written(now));
    duration.completion_status = outcome.to_owned();
}

fn end_pause(duration: &mut RolloutDuration, now: Timestamp) {
    let Some(since) = duration.manual_pause_started_at.take() else { return };
    let since: Timestamp = since.parse().unwrap_or(now);
    let seconds = now.duration_since(since).as_secs().max(0);
    duration.total_manual_pause_duration_seconds =
        Some(duration.total_manual_pause_duration_seconds.unwrap_or(0) + seconds);
}
