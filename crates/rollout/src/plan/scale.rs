//! Sizing ReplicaSets: of the wanted version, of those that leave, and how long they stay.

use serde_json::{Map, Value, json};

use super::observed::written;
use super::{Action, Play};
use crate::names::{self, pause, reason};

/// Kept for somebody who goes back at once, when nothing is said.
const SCALE_DOWN_DELAY: i64 = 30;
const HISTORY: i64 = 10;

impl Play<'_> {
    /// Sets the size. True when it was another one before.
    pub(super) fn scale(&mut self, at: usize, size: i64) -> bool {
        let replicas = self.replicas();
        let delayed = self.is_scale_down_delayed_by_abort();
        let set = &mut self.sets[at];
        let before = set.wanted;
        let mut annotations = Map::new();
        let desired = replicas.to_string();
        if set.annotations.get(names::DESIRED_REPLICAS) != Some(&desired) {
            set.annotations.insert(names::DESIRED_REPLICAS.into(), desired.clone());
            annotations.insert(names::DESIRED_REPLICAS.into(), desired.into());
        }
        if size == 0 && !delayed && set.annotations.remove(names::SCALE_DOWN_DEADLINE).is_some() {
            annotations.insert(names::SCALE_DOWN_DEADLINE.into(), Value::Null);
        }
        if before == size && annotations.is_empty() {
            return false;
        }
        set.wanted = size;
        let (name, revision) = (set.name.clone(), set.revision().unwrap_or(0));
        let mut patch = json!({});
        if before != size {
            patch["spec"]["replicas"] = size.into();
        }
        if !annotations.is_empty() {
            patch["metadata"]["annotations"] = annotations.into();
        }
        self.plan.actions.push(Action::patch(self.target_of(at), patch));
        if before != size {
            let way = if before < size { "up" } else { "down" };
            self.tell(
                reason::SCALING,
                format!("Scaled {way} ReplicaSet {name} (revision {revision}) from {before} to {size}"),
            );
        }
        before != size
    }

    fn annotate(&mut self, at: usize, name: &str, value: Option<String>) {
        let patch = json!({"metadata": {"annotations": {name: value}}});
        match value {
            Some(value) => self.sets[at].annotations.insert(name.to_owned(), value),
            None => self.sets[at].annotations.remove(name),
        };
        self.plan.actions.push(Action::patch(self.target_of(at), patch));
    }

    /// Somebody changed the number of replicas: nothing but sizes is looked at, so that it takes effect at once.
    pub(super) fn is_scaling_event(&self) -> bool {
        let replicas = self.replicas();
        let of_interest = [self.new, self.stable].into_iter().flatten().map(|at| &self.sets[at]);
        of_interest.filter(|set| set.wanted > 0).any(|set| {
            let noted = set.annotations.get(names::DESIRED_REPLICAS);
            noted.and_then(|text| text.parse::<i64>().ok()).is_some_and(|noted| noted != replicas)
        })
    }

    pub(super) fn scale_only(&mut self) {
        self.only_sizes = true;
        if self.blue_green().is_some() {
            self.blue_green_sets();
        } else if let Some(canary) = self.canary() {
            self.canary_sets(canary);
            // What is halted is sized all the same once it goes on; until then the number is noted, so that this ends.
            for at in [self.new, self.stable].into_iter().flatten() {
                let size = self.sets[at].wanted;
                self.scale(at, size);
            }
        }
        self.count();
        self.write_status();
    }

    /// The wanted version stays for a while after an abort.
    pub(super) fn is_scale_down_delayed_by_abort(&self) -> bool {
        if !self.is_aborted() || self.stable.is_none() {
            return false;
        }
        let (delay, asked) = self.abort_delay();
        if delay.is_none() {
            return false;
        }
        match self.canary() {
            Some(canary) => canary.traffic_routing.is_some() && (!canary.dynamic_stable_scale || asked),
            None => true,
        }
    }

    /// Whoever is needed again is not scaled down any more.
    pub(super) fn remove_deadlines(&mut self) {
        let new = self.new.filter(|_| !self.is_scale_down_delayed_by_abort());
        for at in [new, self.distinct_stable()].into_iter().flatten() {
            if self.sets[at].deadline().is_some() {
                self.annotate(at, names::SCALE_DOWN_DEADLINE, None);
            }
        }
    }

    /// The size of the wanted version. True when it was another one before.
    pub(super) fn scale_new(&mut self) -> bool {
        let Some(new) = self.new else { return false };
        let mut size = match (self.canary(), self.blue_green()) {
            (Some(canary), _) => self.sizes(canary, self.weights.as_ref()).new,
            (_, Some(blue_green)) => self.preview_size(blue_green),
            _ => return false,
        };
        if self.is_scale_down_delayed_by_abort() {
            let (Some(delay), _) = self.abort_delay() else { return false };
            match (self.sets[new].deadline().is_some(), self.sets[new].time_left(self.now)) {
                (true, Some(at)) => {
                    self.look_at(at);
                    let same = self.sets[new].wanted;
                    self.scale(new, same);
                    return false;
                }
                (true, None) => size = 0,
                (false, _) => {
                    let same = self.sets[new].wanted;
                    self.scale(new, same);
                    // Not before the stable version can take everything.
                    if self.stable.is_some_and(|stable| self.sets[stable].available >= self.replicas())
                        && same > 0
                    {
                        let at = self.after(delay);
                        self.annotate(new, names::SCALE_DOWN_DEADLINE, Some(written(at)));
                        self.look_at(at);
                    }
                    return false;
                }
            }
        }
        self.scale(new, size)
    }

    /// Versions that are neither wanted nor stable leave. True when something was sized.
    pub(super) fn scale_others(&mut self) -> bool {
        let others: Vec<usize> = self.others().into_iter().filter(|at| self.sets[*at].wanted > 0).collect();
        if others.is_empty() {
            return false;
        }
        if self.canary().is_some() {
            self.scale_others_of_canary(others)
        } else {
            self.scale_others_of_blue_green(others)
        }
    }

    /// Newest first.
    fn by_revision(&self, mut sets: Vec<usize>) -> Vec<usize> {
        sets.sort_by_key(|at| (self.sets[*at].revision(), self.sets[*at].created));
        sets.reverse();
        sets
    }

    fn scale_others_of_canary(&mut self, others: Vec<usize>) -> bool {
        let Some(canary) = self.canary() else { return false };
        let mut scaled = false;
        // Pods that do not work go first: nobody misses them, and they would stand in the way.
        for at in others.iter().copied() {
            let (wanted, available) = (self.sets[at].wanted, self.sets[at].available);
            if available < wanted && canary.traffic_routing.is_none() {
                scaled |= self.scale(at, available);
            }
        }
        let (_, unavailable) = self.bounds();
        let mut spare = self.total(|set| set.available) - (self.replicas() - unavailable);
        let routed = canary.traffic_routing.is_some();
        let mut kept = 0;
        for at in self.by_revision(others) {
            let size = self.sets[at].wanted;
            if spare <= 0 || size == 0 || (routed && self.is_referenced(at)) {
                continue;
            }
            let goal = if !routed {
                (size - spare).max(0)
            } else if (self.is_fully_promoted() || self.sets[at].deadline().is_some())
                && !canary.dynamic_stable_scale
            {
                self.delayed_size(at, &mut kept, size)
            } else {
                0
            };
            if goal != size {
                scaled |= self.scale(at, goal);
                spare -= size - goal;
            }
        }
        scaled
    }

    fn scale_others_of_blue_green(&mut self, others: Vec<usize>) -> bool {
        if super::pause::condition_of(self.prev(), pause::INCONCLUSIVE_RUN).is_some() {
            return false;
        }
        let delay = self.blue_green().and_then(|blue_green| blue_green.scale_down_delay_seconds);
        let switched =
            self.new.is_some_and(|new| self.sets[new].hash == self.prev().blue_green.active_selector);
        if delay.is_none() && switched && !self.is_fully_promoted() && !self.is_post_promotion_done() {
            // It may have to come back.
            return false;
        }
        let (mut scaled, mut kept) = (false, 0);
        for at in self.by_revision(others) {
            if self.is_referenced(at) {
                continue;
            }
            let goal = self.delayed_size(at, &mut kept, self.replicas());
            if goal != self.sets[at].wanted {
                scaled |= self.scale(at, goal);
            }
        }
        scaled
    }

    /// The size of a version that nobody needs any more: it is kept for a while, and of several only the newest.
    fn delayed_size(&mut self, at: usize, kept: &mut i64, replicas: i64) -> i64 {
        let (delay, limit) = match (self.canary(), self.blue_green()) {
            (Some(canary), _) => (canary.scale_down_delay_seconds, canary.scale_down_delay_revision_limit),
            (_, Some(blue_green)) => {
                (blue_green.scale_down_delay_seconds, blue_green.scale_down_delay_revision_limit)
            }
            _ => (None, None),
        };
        let limit = limit.unwrap_or(i64::MAX);
        if self.sets[at].deadline().is_none() {
            if *kept >= limit {
                return 0;
            }
            *kept += 1;
            let seconds = delay.unwrap_or(SCALE_DOWN_DELAY);
            if seconds <= 0 {
                return 0;
            }
            let until = self.after(seconds);
            self.annotate(at, names::SCALE_DOWN_DEADLINE, Some(written(until)));
            self.look_at(until);
            return self.sets[at].wanted;
        }
        *kept += 1;
        match self.sets[at].time_left(self.now) {
            Some(until) if *kept <= limit => {
                self.look_at(until);
                replicas
            }
            _ => 0,
        }
    }

    /// Requests may still reach it.
    fn is_referenced(&self, at: usize) -> bool {
        let hash = &self.sets[at].hash;
        let prev = self.prev();
        let mut known = vec![
            &prev.stable_rs,
            &prev.current_pod_hash,
            &prev.blue_green.active_selector,
            &prev.blue_green.preview_selector,
        ];
        if let Some(weights) = &prev.canary.weights {
            known.extend([&weights.canary.pod_template_hash, &weights.stable.pod_template_hash]);
        }
        !hash.is_empty()
            && (known.contains(&hash) || self.selectors.values().any(|selector| selector == hash))
    }

    /// Of versions that have no pods any more only so many are kept.
    pub(super) fn trim_history(&mut self) {
        let limit = self.ro.spec.revision_history_limit.unwrap_or(HISTORY).max(0);
        let others: Vec<usize> = self.others().into_iter().filter(|at| !self.sets[*at].deleting).collect();
        let surplus = others.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
        for at in others.into_iter().take(surplus) {
            let set = &self.sets[at];
            if set.wanted == 0 && set.actual == 0 && set.observed {
                self.plan
                    .actions
                    .push(Action::Delete { target: self.target_of(at), uid: self.sets[at].uid.clone() });
            }
        }
    }
}
