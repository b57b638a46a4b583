//! Blue-green: the wanted version stands beside the active one until all requests are switched at once.

use slipway_crd::rollout::BlueGreen;

use super::{Play, pause};
use crate::names::{self, pause as reasons};

impl Play<'_> {
    pub(super) fn run_blue_green(&mut self, blue_green: &BlueGreen) {
        let Some(new) = self.new else { return };
        let hash = self.sets[new].hash.clone();
        if !self.is_halted() {
            self.switch(&blue_green.preview_service, &hash);
        }
        if self.is_another_template() {
            return self.blue_green_status(blue_green);
        }
        self.restart_pods();
        self.blue_green_sets();
        self.blue_green_pause(blue_green);
        self.switch_active(blue_green);
        self.analyse();
        self.sync_metadata();
        self.blue_green_status(blue_green);
    }

    pub(super) fn blue_green_sets(&mut self) {
        if !self.is_halted() {
            self.remove_deadlines();
        }
        if let Some(stable) = self.stable {
            self.scale(stable, self.replicas());
        }
        if self.new != self.stable {
            self.scale_new();
        }
        self.scale_others();
        self.trim_history();
    }

    /// The wanted version's size: all of its pods, or only a preview until it is promoted.
    pub(super) fn preview_size(&self, blue_green: &BlueGreen) -> i64 {
        let (replicas, prev) = (self.replicas(), self.prev());
        let Some(preview) = blue_green.preview_replica_count else { return replicas };
        let active = self.set_of(&prev.blue_green.active_selector);
        if active.is_none() || active == self.new || prev.promote_full {
            return replicas;
        }
        let known = self.new.is_some_and(|new| self.sets[new].hash == prev.current_pod_hash);
        let goes_on = !self.ro.spec.paused && prev.pause_conditions.is_empty();
        if known && goes_on && prev.blue_green.scale_up_preview_check_point { replicas } else { preview }
    }

    fn is_ready_for_pause(&self, blue_green: &BlueGreen) -> bool {
        let size = self.preview_size(blue_green);
        self.new.is_some_and(|new| self.sets[new].wanted == size && self.sets[new].available == size)
    }

    /// All of its pods are there, and the number of replicas is the one it was sized for.
    pub(super) fn is_saturated(&self, at: usize) -> bool {
        let (set, replicas) = (&self.sets[at], self.replicas());
        let noted = set.annotations.get(names::DESIRED_REPLICAS).and_then(|text| text.parse().ok());
        set.wanted == replicas && noted == Some(replicas) && set.available == replicas
    }

    pub(super) fn is_active_saturated(&self) -> bool {
        self.set_of(&self.status.blue_green.active_selector).is_some_and(|at| self.is_saturated(at))
    }

    /// No pause and no analysis: it is the first version, one that was active a moment ago, or somebody said so.
    fn is_fast_tracked(&self, blue_green: &BlueGreen) -> bool {
        let active = self.selector_of(&blue_green.active_service);
        let is_new = self.new.is_some_and(|new| self.sets[new].hash == active);
        self.is_fast_rollback() || self.prev().promote_full || active.is_empty() || is_new
    }

    fn needs_pause(blue_green: &BlueGreen) -> bool {
        blue_green.auto_promotion_enabled == Some(false) || blue_green.auto_promotion_seconds > 0
    }

    fn blue_green_pause(&mut self, blue_green: &BlueGreen) {
        if self.prev().abort || !self.is_ready_for_pause(blue_green) || self.is_halted() {
            return;
        }
        let passed = self.prev().blue_green.scale_up_preview_check_point;
        if self.is_fast_tracked(blue_green) || passed || !Self::needs_pause(blue_green) {
            return self.pause.remove(reasons::BLUE_GREEN);
        }
        if !self.is_pre_promotion_done() {
            return;
        }
        match pause::condition_of(self.prev(), reasons::BLUE_GREEN) {
            Some(since) => {
                if self.is_blue_green_pause_over(blue_green) {
                    self.pause.remove(reasons::BLUE_GREEN);
                } else if blue_green.auto_promotion_seconds > 0
                    && let Some(end) =
                        pause::end(since, blue_green.auto_promotion_seconds).filter(|end| *end > self.now)
                {
                    self.look_at(end);
                }
            }
            None if !self.prev().controller_pause => self.pause.add.push(reasons::BLUE_GREEN),
            None => {}
        }
    }

    fn is_blue_green_pause_over(&self, blue_green: &BlueGreen) -> bool {
        let prev = self.prev();
        let since = pause::condition_of(prev, reasons::BLUE_GREEN);
        if !self.pause.add.is_empty() {
            return false;
        }
        if prev.blue_green.scale_up_preview_check_point {
            return true;
        }
        if blue_green.auto_promotion_enabled != Some(false) {
            let seconds = blue_green.auto_promotion_seconds;
            let resumed = prev.controller_pause && since.is_none();
            let passed =
                since.and_then(|since| pause::end(since, seconds)).is_some_and(|end| self.now >= end);
            return seconds == 0 || passed || resumed;
        }
        prev.controller_pause && since.is_none()
    }

    fn switch_active(&mut self, blue_green: &BlueGreen) {
        if self.is_halted() {
            return;
        }
        if self.prev().abort {
            // Back at once: the stable version has kept all of its pods.
            let stable = self.prev().stable_rs.clone();
            return self.switch(&blue_green.active_service, &stable);
        }
        let Some(new) = self.new.filter(|new| self.is_ready_for_pause(blue_green) && self.is_saturated(*new))
        else {
            return;
        };
        let passed = self.is_blue_green_pause_over(blue_green) && self.is_pre_promotion_done();
        let go = self.is_fast_tracked(blue_green) || passed;
        if go {
            let hash = self.sets[new].hash.clone();
            self.switch(&blue_green.active_service, &hash);
        }
    }

    fn blue_green_status(&mut self, blue_green: &BlueGreen) {
        self.base_status();
        let prev = self.prev();
        if self.is_another_template() {
            self.reset_status();
            self.plan.again = true;
        }
        if prev.promote_full || self.is_rollback_within_window() {
            self.pause.forget();
        }
        self.status.blue_green.preview_selector = self.selector_of(&blue_green.preview_service);
        self.status.blue_green.active_selector = self.selector_of(&blue_green.active_service);
        match self.reason_to_promote(None) {
            Some(why) => self.promote(&why),
            None => self.status.blue_green.scale_up_preview_check_point = self.is_past_preview(blue_green),
        }
        self.count();
        self.write_status();
    }

    /// The preview was looked at and found good: from here on all pods are made, and it does not go back.
    fn is_past_preview(&self, blue_green: &BlueGreen) -> bool {
        let Some(preview) = blue_green.preview_replica_count else { return false };
        if self.prev().blue_green.scale_up_preview_check_point && !self.is_another_template() {
            return true;
        }
        let available = self.new.map(|new| self.sets[new].available);
        self.is_blue_green_pause_over(blue_green)
            && self.is_pre_promotion_done()
            && available == Some(preview)
    }
}
