//! The status after a plan: counts, promotion, conditions, phase.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use slipway_crd::rollout::{BlueGreenStatus, CanaryStatus, RolloutCondition, RolloutStatus};

use super::observed::text;
use super::{Play, conditions};
use crate::names::{self, condition, reason};
use crate::{identity, phase};

const PROGRESS_DEADLINE: i64 = 600;

impl Play<'_> {
    /// The version is another one than the status tells of.
    pub(super) fn is_another_template(&self) -> bool {
        let known = &self.prev().current_pod_hash;
        !known.is_empty() && *known != self.current_hash()
    }

    fn current_hash(&self) -> String {
        let computed = || identity::template_hash(&self.template, self.prev().collision_count);
        self.new.map_or_else(computed, |new| self.sets[new].hash.clone())
    }

    /// What does not depend on the strategy. Conditions and what is not computed stay as they are.
    pub(super) fn base_status(&mut self) {
        let prev = self.prev();
        let conditions = std::mem::take(&mut self.status.conditions);
        let restarted_at = self.status.restarted_at.take();
        self.status = RolloutStatus {
            conditions,
            restarted_at,
            alb: prev.alb.clone(),
            albs: prev.albs.clone(),
            other: prev.other.clone(),
            stable_rs: prev.stable_rs.clone(),
            collision_count: prev.collision_count,
            current_pod_hash: self.current_hash(),
            observed_generation: prev.observed_generation.clone(),
            workload_observed_generation: prev.workload_observed_generation.clone(),
            canary: CanaryStatus {
                weights: self.weights.clone(),
                other: prev.canary.other.clone(),
                ..CanaryStatus::default()
            },
            blue_green: BlueGreenStatus {
                other: prev.blue_green.other.clone(),
                ..BlueGreenStatus::default()
            },
            ..RolloutStatus::default()
        };
        let runs = self.runs.clone();
        self.status.canary.current_step_analysis_run_status = runs.step;
        self.status.canary.current_background_analysis_run_status = runs.background;
        self.status.canary.current_experiment.clone_from(&self.experiment);
        self.status.blue_green.pre_promotion_analysis_run_status = runs.pre;
        self.status.blue_green.post_promotion_analysis_run_status = runs.post;
        self.status.promote_full = prev.promote_full && self.status.current_pod_hash != self.status.stable_rs;
        conditions::remove(&mut self.status, condition::INVALID_SPEC);
    }

    /// How many pods there are, by what users of the strategy count.
    pub(super) fn count(&mut self) {
        self.status.replicas = self.total(|set| set.actual);
        self.status.updated_replicas = self.new.map_or(0, |new| self.sets[new].actual);
        self.status.ready_replicas = self.total(|set| set.ready);
        self.status.available_replicas = self.total(|set| set.available);
        self.status.hpa_replicas = self.status.replicas;
        self.status.selector = selector_text(&self.selector);
        let active =
            self.set_of(&self.status.blue_green.active_selector).filter(|_| self.blue_green().is_some());
        if let Some(active) = active.map(|at| &self.sets[at]) {
            self.status.hpa_replicas = active.actual;
            self.status.available_replicas = active.available;
            self.status.ready_replicas = active.ready;
            self.status.selector = selector_text(&active.selector);
        }
    }

    /// As at the beginning of an update.
    pub(super) fn reset_status(&mut self) {
        self.pause.forget();
        self.status.restarted_at.clone_from(&self.ro.spec.restart_at);
        self.status.promote_full = false;
    }

    pub(super) fn is_rollback(&self) -> bool {
        let (Some(new), Some(stable)) = (self.new, self.stable) else { return false };
        self.prev().stable_rs == self.sets[new].hash || self.sets[new].created < self.sets[stable].created
    }

    pub(super) fn is_rollback_within_window(&self) -> bool {
        let (Some(new), Some(stable)) = (self.new, self.stable) else { return false };
        let window = self.ro.spec.rollback_window.as_ref().map_or(0, |window| window.revisions);
        let (from, to) = (self.sets[new].created, self.sets[stable].created);
        if from >= to || window <= 0 {
            return false;
        }
        let between = self.sets.iter().filter(|set| {
            from < set.created && set.created < to && !set.annotations.contains_key(names::EXPERIMENT_NAME)
        });
        i64::try_from(between.count()).is_ok_and(|count| count < window)
    }

    /// Back to a version that is known to work.
    pub(super) fn is_fast_rollback(&self) -> bool {
        let Some(new) = self.new.filter(|_| self.is_rollback()) else { return false };
        let kept = self.new_is_within_delay && self.blue_green().is_some();
        kept || self.is_rollback_within_window() || self.prev().stable_rs == self.sets[new].hash
    }

    /// Why the wanted version becomes the stable one now; `None`: it does not.
    pub(super) fn reason_to_promote(&self, index: Option<i64>) -> Option<String> {
        if self.stable.is_none() {
            return Some("Initial deploy".into());
        }
        let way_back = || {
            let within = self.is_rollback_within_window();
            self.is_fast_rollback()
                .then(|| if within { "Rollback within window" } else { "Fast rollback" }.to_owned())
        };
        let asked = || self.prev().promote_full.then(|| "Full promotion requested".to_owned());
        if let Some(canary) = self.canary() {
            let new = self.new?;
            let enough = self.sets[new].available >= self.replicas();
            if self.is_aborted() || !(enough || self.is_far_enough(canary, self.new, self.replicas())) {
                return None;
            }
            // The data plane may still send requests to the version that would leave.
            let waits = self.weights.as_ref().is_some_and(|weights| weights.verified == Some(false));
            if waits && canary.traffic_routing.is_some() {
                return None;
            }
            let steps = canary.steps.len();
            let done = steps == 0 || index == i64::try_from(steps).ok();
            return asked()
                .or_else(way_back)
                .or_else(|| done.then(|| format!("Completed all {steps} canary steps")));
        }
        self.blue_green()?;
        let active = &self.status.blue_green.active_selector;
        if active.is_empty() {
            return Some("Initial deploy".into());
        }
        if *active != self.status.current_pod_hash {
            return None;
        }
        let good = !self.is_aborted() && self.is_post_promotion_done();
        let done = || good.then(|| "Completed blue-green update".to_owned());
        asked().or_else(way_back).or_else(done)
    }

    pub(super) fn promote(&mut self, why: &str) {
        self.pause.forget();
        self.status.promote_full = false;
        self.status.blue_green.scale_up_preview_check_point = false;
        if let Some(canary) = self.canary() {
            let steps = i64::try_from(canary.steps.len()).unwrap_or(i64::MAX);
            self.status.current_step_index = (steps > 0).then_some(steps);
        }
        if self.status.stable_rs != self.status.current_pod_hash {
            self.promoted_by_order = self.prev().promote_full && !self.status.stable_rs.is_empty();
            self.status.stable_rs.clone_from(&self.status.current_pod_hash);
            if self.canary().is_some_and(|canary| canary.ping_pong.is_some()) {
                let now = &mut self.status.canary.stable_ping_pong;
                *now = if now == "ping" { "pong" } else { "ping" }.to_owned();
            }
            let (revision, hash) = (self.revision(), self.status.current_pod_hash.clone());
            self.tell(
                reason::COMPLETED,
                format!("Rollout completed update to revision {revision} ({hash}): {why}"),
            );
            self.plan.again = true;
        }
    }

    /// Everything that follows from the rest of the status.
    pub(super) fn write_status(&mut self) {
        self.status.observed_generation = self.ro.metadata.generation.to_string();
        self.status.workload_observed_generation = match &self.observed.workload {
            Some(workload) => workload["metadata"]["generation"].as_i64().unwrap_or(0).to_string(),
            None => String::new(),
        };
        self.abort_when_late();
        self.write_pause();
        self.write_duration();
        self.write_conditions();
        self.write_phase();
        self.tell_of_pause();
        self.look_at_deadline();
    }

    /// Nothing is claimed before it is written: the routes come home in the plan after the promotion.
    pub(super) fn write_phase(&mut self) {
        let (mut phase, mut message) = phase::computed(&self.ro.spec, &self.status);
        if let Some(why) = self.unrouted().filter(|_| phase == phase::HEALTHY) {
            (phase, message) = (phase::PROGRESSING, why.to_owned());
        }
        (self.status.phase, self.status.message) = (phase.to_owned(), message);
    }

    fn tell_of_pause(&mut self) {
        let (before, after) =
            (!self.prev().pause_conditions.is_empty(), self.status.pause_conditions.first());
        match (before, after.map(|one| one.reason.clone())) {
            (false, Some(why)) => self.tell(reason::PAUSED, format!("Rollout is paused ({why})")),
            (true, None) if self.status.aborted_at.is_none() => {
                self.tell(reason::RESUMED, "Rollout is resumed")
            }
            _ => {}
        }
    }

    fn deadline_seconds(&self) -> i64 {
        self.ro.spec.progress_deadline_seconds.unwrap_or(PROGRESS_DEADLINE)
    }

    /// When the update counts as stuck, if nothing moves until then.
    fn deadline(&self, status: &RolloutStatus) -> Option<Timestamp> {
        let progressing = conditions::get(status, condition::PROGRESSING)?;
        if [reason::ABORTED, reason::PAUSED].contains(&progressing.reason.as_str()) {
            return None;
        }
        let since: Timestamp = progressing.last_update_time.parse().ok()?;
        since.checked_add(SignedDuration::from_secs(self.deadline_seconds())).ok()
    }

    fn is_timed_out(&self, status: &RolloutStatus) -> bool {
        let reason = conditions::get(status, condition::PROGRESSING).map(|one| one.reason.as_str());
        reason == Some(reason::TIMED_OUT) || self.deadline(status).is_some_and(|deadline| deadline < self.now)
    }

    /// Waiting is no lack of progress here: for a person, a measurement, or for pods that leave later.
    fn may_take_long(&self) -> bool {
        let (step, _) = self.step();
        let waits = step
            .is_some_and(|step| step.pause.is_some() || step.analysis.is_some() || step.experiment.is_some());
        let paused = conditions::is_true(self.prev(), condition::PAUSED);
        waits || paused || self.others().into_iter().any(|at| self.sets[at].deadline().is_some())
    }

    fn late_message(&self) -> String {
        match self.new {
            Some(new) => format!("ReplicaSet \"{}\" has timed out progressing.", self.sets[new].name),
            None => format!("Rollout \"{}\" has timed out progressing.", self.ro.metadata.name),
        }
    }

    fn abort_when_late(&mut self) {
        let asked = self.ro.spec.progress_deadline_abort && !self.is_aborted() && !is_completed(&self.status);
        if asked && !self.is_progressing() && !self.may_take_long() && self.is_timed_out(self.prev()) {
            let message = self.late_message();
            self.warn(reason::ABORTED, message.clone());
            self.pause.abort = Some(message);
            self.plan.again = true;
        }
    }

    fn is_progressing(&self) -> bool {
        let (before, after) = (self.prev(), &self.status);
        let by_strategy = if self.blue_green().is_some() {
            before.blue_green.active_selector != after.blue_green.active_selector
                || before.blue_green.preview_selector != after.blue_green.preview_selector
        } else {
            let stepped = before.current_step_index.is_some()
                && after.current_step_index.is_some()
                && before.current_step_index != after.current_step_index;
            before.stable_rs != after.stable_rs
                || stepped
                || before.current_step_hash != after.current_step_hash
        };
        let older = |status: &RolloutStatus| status.replicas - status.updated_replicas;
        by_strategy
            || after.updated_replicas != before.updated_replicas
            || older(after) < older(before)
            || after.ready_replicas > before.ready_replicas
            || after.available_replicas > before.available_replicas
    }

    fn is_healthy(&self) -> bool {
        let (status, replicas) = (&self.status, self.replicas());
        let done = if let Some(blue_green) = self.blue_green() {
            let preview = blue_green.preview_service.is_empty()
                || status.blue_green.preview_selector == status.current_pod_hash;
            preview && status.blue_green.active_selector == status.current_pod_hash
        } else {
            let steps = self.canary().map_or(0, |canary| canary.steps.len());
            let stepped = steps == 0
                || status.current_step_index.is_none_or(|index| usize::try_from(index).ok() == Some(steps));
            stepped && is_completed(status) && status.replicas == replicas && self.unrouted().is_none()
        };
        let observed = self.prev().observed_generation == self.ro.metadata.generation.to_string();
        done && observed && status.updated_replicas == replicas && status.available_replicas == replicas
    }

    fn write_conditions(&mut self) {
        let now = self.now;
        let paused = !self.status.pause_conditions.is_empty() || self.ro.spec.paused;
        let healthy = self.is_healthy();
        let mut became_unhealthy = false;
        if healthy && !paused {
            conditions::set(
                &mut self.status,
                condition::HEALTHY,
                "True",
                reason::HEALTHY,
                "Rollout is healthy",
                now,
            );
        } else if conditions::get(self.prev(), condition::HEALTHY).is_some() {
            became_unhealthy = conditions::set(
                &mut self.status,
                condition::HEALTHY,
                "False",
                reason::HEALTHY,
                "Rollout is not healthy",
                now,
            );
        }
        if self.is_aborted() {
            let mut message = format!("Rollout aborted update to revision {}", self.revision());
            if let Some(why) = &self.pause.abort {
                message += &format!(": {why}");
            }
            if conditions::set(
                &mut self.status,
                condition::PROGRESSING,
                "False",
                reason::ABORTED,
                message.clone(),
                now,
            ) {
                self.warn(reason::ABORTED, message);
            }
        } else {
            self.write_progress(healthy, became_unhealthy);
        }
        let available = match self.canary() {
            Some(_) => self.total(|set| set.available) >= self.replicas(),
            None => self.is_active_saturated(),
        };
        let (value, message) = if available {
            ("True", "Rollout has minimum availability")
        } else {
            ("False", "Rollout does not have minimum availability")
        };
        conditions::set(&mut self.status, condition::AVAILABLE, value, reason::AVAILABLE, message, now);
        self.write_failure();
        let completed = is_completed(&self.status);
        let value = if completed { "True" } else { "False" };
        if conditions::set(
            &mut self.status,
            condition::COMPLETED,
            value,
            reason::COMPLETED,
            reason::COMPLETED,
            now,
        ) && !completed
        {
            let (revision, hash) = (self.revision(), self.status.current_pod_hash.clone());
            self.tell(
                reason::NOT_COMPLETED,
                format!("Rollout not completed, started update to revision {revision} ({hash})"),
            );
        }
    }

    fn write_progress(&mut self, healthy: bool, became_unhealthy: bool) {
        let now = self.now;
        let name = self.new.map(|new| self.sets[new].name.clone()).unwrap_or_default();
        if healthy {
            let message = format!("ReplicaSet \"{name}\" has successfully progressed.");
            conditions::set(
                &mut self.status,
                condition::PROGRESSING,
                "True",
                reason::NEW_SET_AVAILABLE,
                message,
                now,
            );
        } else if self.is_progressing() || became_unhealthy {
            let (reason, message) = if is_completed(&self.status) && became_unhealthy {
                (reason::NOT_AVAILABLE, "Rollout does not have minimum availability".to_owned())
            } else {
                (reason::SET_UPDATED, format!("ReplicaSet \"{name}\" is progressing."))
            };
            let before =
                conditions::get(self.prev(), condition::PROGRESSING).filter(|one| one.status == "True");
            let since = before.map(|one| one.last_transition_time.clone());
            // Also with the same reason: the time of the last progress is what the deadline counts from.
            conditions::remove(&mut self.status, condition::PROGRESSING);
            conditions::set(&mut self.status, condition::PROGRESSING, "True", reason, message, now);
            if let (Some(since), Some(one)) = (since, self.status.conditions.last_mut()) {
                one.last_transition_time = since;
            }
        } else if !self.may_take_long() && self.is_timed_out(&self.status) {
            let message = self.late_message();
            conditions::set(
                &mut self.status,
                condition::PROGRESSING,
                "False",
                reason::TIMED_OUT,
                message,
                now,
            );
        }
    }

    /// Pods that cannot be made: of the wanted version before others.
    fn write_failure(&mut self) {
        let of_new = self.new.and_then(|new| self.sets[new].failures.first());
        let failure = of_new.or_else(|| self.sets.iter().find_map(|set| set.failures.first())).cloned();
        conditions::remove(&mut self.status, condition::REPLICA_FAILURE);
        if let Some(failure) = failure {
            self.status.conditions.push(RolloutCondition {
                r#type: condition::REPLICA_FAILURE.into(),
                status: text(&failure["status"]),
                last_update_time: text(&failure["lastTransitionTime"]),
                last_transition_time: text(&failure["lastTransitionTime"]),
                reason: text(&failure["reason"]),
                message: text(&failure["message"]),
                ..RolloutCondition::default()
            });
        }
    }

    fn look_at_deadline(&mut self) {
        let paused = !self.status.pause_conditions.is_empty() || self.ro.spec.paused;
        let late = self.is_timed_out(&self.status);
        if self.status.phase == "Healthy" || paused || late || self.status.abort || self.may_take_long() {
            return;
        }
        if let Some(deadline) = self.deadline(&self.status) {
            let after = deadline.checked_add(SignedDuration::from_secs(1)).unwrap_or(deadline);
            self.look_at(after);
        }
    }
}

fn is_completed(status: &RolloutStatus) -> bool {
    !status.stable_rs.is_empty() && status.stable_rs == status.current_pod_hash
}

/// `app=web,tier in (a,b)`, as autoscalers read it.
fn selector_text(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut parts: Vec<String> = labels.map(|(name, value)| format!("{name}={}", text(value))).collect();
    parts.sort();
    for one in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = text(&one["key"]);
        let mut values: Vec<String> = one["values"].as_array().into_iter().flatten().map(text).collect();
        values.sort();
        let values = values.join(",");
        parts.push(match one["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("Exists") => key,
            _ => format!("!{key}"),
        });
    }
    parts.join(",")
}
