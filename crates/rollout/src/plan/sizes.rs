//! How many pods the wanted and the stable version are to have now, by the step that is under way.

use slipway_crd::rollout::{Canary, SetCanaryScale, TrafficWeights};

use super::Play;
use super::observed::ReplicaSet;
use crate::replicas::{self, MAX_WEIGHT, Pods, Sizes, Wanted};

/// What the abort waits before pods go, when nothing is said.
const ABORT_DELAY: i64 = 30;

fn pods(set: &ReplicaSet) -> Pods {
    Pods { wanted: set.wanted, available: set.available }
}

pub(super) fn share(replicas: i64, weight: i64, of: i64) -> i64 {
    let parts = replicas.saturating_mul(weight);
    parts.div_euclid(of) + i64::from(parts.rem_euclid(of) != 0)
}

pub(super) fn max_weight(canary: &Canary) -> i64 {
    canary
        .traffic_routing
        .as_ref()
        .and_then(|routing| routing.max_traffic_weight)
        .unwrap_or(MAX_WEIGHT)
        .max(1)
}

impl Play<'_> {
    /// Seconds until the pods of an aborted version go; `None`: they stay. And whether somebody said so.
    pub(super) fn abort_delay(&self) -> (Option<i64>, bool) {
        let asked = match (self.canary(), self.blue_green()) {
            (Some(canary), _) => canary.abort_scale_down_delay_seconds,
            (_, Some(blue_green)) => blue_green.abort_scale_down_delay_seconds,
            _ => None,
        };
        match asked {
            Some(0) => (None, true),
            Some(seconds) => (Some(seconds), true),
            None => (Some(ABORT_DELAY), false),
        }
    }

    /// The weight of the last `setWeight` so far.
    fn set_weight(&self, canary: &Canary) -> i64 {
        if self.prev().abort {
            return 0;
        }
        let (Some(_), Some(index)) = self.step() else { return max_weight(canary) };
        let done = canary.steps.iter().take(usize::try_from(index).unwrap_or(0) + 1);
        done.rev().find_map(|step| step.set_weight).unwrap_or(0)
    }

    /// The weight that the pods are to be ready for.
    pub(super) fn desired_weight(&self, canary: &Canary) -> i64 {
        let aborted = self.prev().abort && canary.dynamic_stable_scale;
        let (Some(new), Some(stable), true) = (self.new, self.stable, aborted) else {
            return self.set_weight(canary);
        };
        // Step by step back, as the stable version grows.
        let missing = self.replicas() - self.sets[stable].available;
        // Pods that somebody wants to keep for a while do not hold it up.
        let missing = if self.abort_delay().1 { missing } else { missing.max(self.sets[new].available) };
        let weights = canary.steps.iter().rev().filter_map(|step| step.set_weight);
        weights
            .into_iter()
            .find(|weight| share(self.replicas(), *weight, max_weight(canary)) < missing)
            .unwrap_or(0)
    }

    /// What a step `setCanaryScale` asks for; it counts with a router alone.
    fn canary_scale<'c>(&self, canary: &'c Canary) -> Option<&'c SetCanaryScale> {
        canary.traffic_routing.as_ref()?;
        if self.prev().abort && self.abort_delay().0.is_some() {
            return None;
        }
        let (Some(_), Some(index)) = self.step() else { return None };
        let done = canary.steps.iter().take(usize::try_from(index).unwrap_or(0) + 1);
        done.rev().find_map(|step| step.set_canary_scale.as_ref()).filter(|scale| !scale.match_traffic_weight)
    }

    fn goes_to_the_end(&self) -> bool {
        let prev = self.prev();
        prev.promote_full || prev.stable_rs.is_empty() || prev.current_pod_hash == prev.stable_rs
    }

    /// Pods beyond the wanted number, and pods that may be missing.
    pub(super) fn bounds(&self) -> (i64, i64) {
        let replicas = self.replicas();
        match (self.canary(), self.blue_green()) {
            (Some(canary), _) => {
                replicas::bounds(canary.max_surge.as_ref(), canary.max_unavailable.as_ref(), replicas)
            }
            (_, Some(blue_green)) => {
                let none = serde_json::Value::from(0);
                let unavailable = blue_green.max_unavailable.as_ref().unwrap_or(&none);
                let (_, unavailable) = replicas::bounds(Some(&1.into()), Some(unavailable), replicas);
                (0, unavailable)
            }
            _ => (0, 0),
        }
    }

    /// The sizes to set now. `weights`: what routers were told.
    pub(super) fn sizes(&self, canary: &Canary, weights: Option<&TrafficWeights>) -> Sizes {
        if canary.traffic_routing.is_some() {
            self.routed_sizes(canary, weights)
        } else {
            self.basic_sizes(canary)
        }
    }

    fn basic_sizes(&self, canary: &Canary) -> Sizes {
        let (surge, unavailable) = self.bounds();
        let weight = if self.goes_to_the_end() { max_weight(canary) } else { self.desired_weight(canary) };
        let unavailable = if self.replicas() == 0 { 0 } else { unavailable };
        let wanted =
            Wanted { replicas: self.replicas(), weight, max_weight: max_weight(canary), surge, unavailable };
        let older = self.others().into_iter().map(|at| self.sets[at].wanted).sum();
        let of = |at: Option<usize>| at.map(|at| pods(&self.sets[at]));
        replicas::basic(&wanted, of(self.new), of(self.distinct_stable()), older)
    }

    fn routed_sizes(&self, canary: &Canary, weights: Option<&TrafficWeights>) -> Sizes {
        let (replicas, most) = (self.replicas(), max_weight(canary));
        let at_least = |size: i64| match canary.min_pods_per_replica_set {
            Some(least) if size > 0 => size.max(least.min(replicas)),
            _ => size,
        };
        let scale = self.canary_scale(canary).filter(|_| !self.goes_to_the_end());
        let weight = match scale {
            _ if self.goes_to_the_end() => most,
            Some(SetCanaryScale { weight: Some(weight), replicas: None, .. }) => *weight,
            Some(_) => 0,
            None => self.desired_weight(canary),
        };
        let mut new = match scale.and_then(|scale| scale.replicas) {
            Some(replicas) => replicas,
            None => at_least(share(replicas, weight, most)),
        };
        let hash = self.new.map(|at| self.sets[at].hash.as_str()).unwrap_or_default();
        if scale.is_none() && !self.prev().abort {
            new = new.max(self.pods_for_requests(canary, hash, weights));
        }
        if !canary.dynamic_stable_scale {
            return Sizes { new, stable: replicas };
        }
        let mut stable = share(replicas, most - weight, most);
        if let Some(weights) = weights {
            // Whoever still gets requests keeps the pods for them.
            stable = stable.max(share(replicas, weights.stable.weight, most));
            if self.prev().abort {
                new = new.max(share(replicas, weights.canary.weight, most));
            }
        }
        Sizes { new: at_least(new), stable: at_least(stable) }
    }

    /// Enough of the pods that a step wants are available.
    pub(super) fn is_far_enough(&self, canary: &Canary, at: Option<usize>, wanted: i64) -> bool {
        let Some(set) = at.map(|at| &self.sets[at]) else { return false };
        let threshold = canary.replica_progress_threshold.as_ref().filter(|threshold| threshold.value >= 0);
        match threshold {
            None => set.wanted == wanted && set.available == wanted,
            Some(threshold) if threshold.r#type == "Percent" => {
                wanted == 0 || set.available * 100 >= threshold.value * wanted
            }
            Some(threshold) => set.available >= threshold.value,
        }
    }

    /// The pods that the step under way asks for are there.
    pub(super) fn has_desired_sizes(&self, canary: &Canary) -> bool {
        let sizes = self.sizes(canary, self.weights.as_ref());
        if !self.is_far_enough(canary, self.new, sizes.new) {
            return false;
        }
        let routed = canary.traffic_routing.is_some();
        // Made is enough: a stable version whose pods are broken must not stop a good one.
        let stable_is_made = self
            .stable
            .is_some_and(|at| self.sets[at].wanted == sizes.stable && self.sets[at].actual == sizes.stable);
        if !(stable_is_made || routed && canary.dynamic_stable_scale) {
            return false;
        }
        routed || self.others().into_iter().all(|at| self.sets[at].available == 0)
    }
}
