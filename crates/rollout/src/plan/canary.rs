//! A canary: the wanted version gets its share step by step.

use slipway_crd::rollout::{Canary, CanaryStep};

use super::{Play, pause};
use crate::names::{pause as reasons, reason};
use crate::preview;

impl Play<'_> {
    pub(super) fn run_canary(&mut self, canary: &Canary) {
        if self.is_another_update() {
            return self.canary_status(canary);
        }
        if self.restart_pods() {
            // What is available is not known before they are back.
            return;
        }
        self.sync_metadata();
        self.trim_history();
        self.canary_services();
        self.route(canary);
        self.experiments();
        self.analyse();
        if self.pause.add.is_empty() && !self.canary_sets(canary) {
            self.pause_step(canary);
        }
        self.canary_status(canary);
    }

    /// Sizes of all versions, one after the other. True when one was another before.
    pub(super) fn canary_sets(&mut self, canary: &Canary) -> bool {
        if self.is_halted() {
            return false;
        }
        self.remove_deadlines();
        if let Some(stable) = self.distinct_stable() {
            // By what the routers were told before this plan: pods follow requests, they do not lead.
            let size = self.sizes(canary, self.prev().canary.weights.as_ref()).stable;
            if self.scale(stable, size) {
                return true;
            }
        }
        self.scale_new() || self.scale_others()
    }

    fn pause_step(&mut self, canary: &Canary) {
        if self.ro.spec.paused || self.prev().promote_full || canary.steps.is_empty() {
            return;
        }
        let (Some(CanaryStep { pause: Some(step), .. }), _) = self.step() else { return };
        match pause::condition_of(self.prev(), reasons::CANARY_STEP) {
            None if !self.prev().controller_pause => self.pause.add.push(reasons::CANARY_STEP),
            None => {}
            Some(since) => {
                let end = pause::seconds(step).and_then(|seconds| pause::end(since, seconds));
                if let Some(end) = end.filter(|end| *end > self.now) {
                    self.look_at(end);
                }
            }
        }
    }

    /// The step under way has reached what it is for.
    fn is_step_done(&self, canary: &Canary, step: &CanaryStep) -> bool {
        if self.ro.spec.paused {
            return false;
        }
        if let Some(pause) = &step.pause {
            return self.is_pause_over(pause);
        }
        if step.set_canary_scale.is_some() {
            return self.has_desired_sizes(canary);
        }
        if let Some(weight) = step.set_weight {
            let routed = canary.traffic_routing.is_some();
            return self.has_desired_sizes(canary) && (!routed || self.has_weight(weight));
        }
        if step.analysis.is_some() {
            return self.is_successful(self.runs.step.as_ref());
        }
        if step.experiment.is_some() {
            return self.is_experiment_successful();
        }
        let taken = self.weights.as_ref().and_then(|weights| weights.verified) != Some(false);
        (step.set_header_route.is_some() || step.set_mirror_route.is_some()) && taken
    }

    pub(super) fn canary_status(&mut self, canary: &Canary) {
        self.base_status();
        self.count();
        let prev = self.prev();
        let steps = i64::try_from(canary.steps.len()).unwrap_or(i64::MAX);
        self.status.current_step_hash = self.steps_hash();
        self.status.canary.stable_ping_pong.clone_from(&prev.canary.stable_ping_pong);
        if self.is_another_update() {
            self.begin_again(canary);
            return self.write_status();
        }
        let (step, mut index) = self.step();
        if prev.promote_full || self.is_rollback_within_window() {
            self.pause.forget();
            if steps > 0 {
                index = Some(steps);
            }
        }
        if let Some(why) = self.reason_to_promote(index) {
            self.promote(&why);
            return self.write_status();
        }
        if self.is_aborted() {
            if steps > 0 {
                let promoted = prev.stable_rs == self.status.current_pod_hash;
                self.status.current_step_index = Some(if promoted { steps } else { 0 });
            }
            return self.write_status();
        }
        if let (Some(step), Some(at)) = (step, index)
            && at < steps
            && self.is_step_done(canary, step)
        {
            index = Some(at + 1);
            self.status.canary.current_step_analysis_run_status = None;
            self.status.canary.current_experiment.clear();
            let words = preview::step_words(step);
            self.tell(reason::STEP_COMPLETED, format!("Rollout step {}/{steps} completed ({words})", at + 1));
            self.pause.remove(reasons::CANARY_STEP);
            self.plan.again = true;
        }
        self.status.current_step_index = index;
        self.write_status();
    }

    /// A new update, or one with other steps: from the first step, unless it goes back to what is known to work.
    fn begin_again(&mut self, canary: &Canary) {
        let steps = i64::try_from(canary.steps.len()).unwrap_or(i64::MAX);
        self.reset_status();
        self.status.current_step_index = (steps > 0).then_some(0);
        self.plan.again = true;
        let Some(new) = self.new.filter(|_| steps > 0) else { return };
        if self.prev().stable_rs == self.sets[new].hash {
            self.tell(reason::SKIP_STEPS, "Rollback to stable ReplicaSets");
            self.status.current_step_index = Some(steps);
        } else if self.is_rollback_within_window() && self.sets[new].wanted > 0 {
            self.tell(reason::SKIP_STEPS, "Rollback to active ReplicaSets within RollbackWindow");
            self.status.current_step_index = Some(steps);
        }
    }

    fn steps_hash(&self) -> String {
        let Some(canary) = self.canary() else { return String::new() };
        let steps = if canary.steps.is_empty() {
            serde_json::Value::Null
        } else {
            serde_json::to_value(&canary.steps).unwrap_or_default()
        };
        crate::identity::steps_hash(&steps)
    }

    /// Another template or other steps than the status tells of.
    pub(super) fn is_another_update(&self) -> bool {
        let prev = self.prev();
        prev.current_step_hash != self.steps_hash() || self.is_another_template()
    }
}
