//! Which share of the requests the new version may have now. Pods come before requests: a version gets no more than its available pods
//! are for, and it keeps the pods that its requests need until they go elsewhere.

use slipway_crd::rollout::{
    Canary, Rollout, SetHeaderRoute, SetMirrorRoute, TrafficWeights, WeightDestination,
};

use super::Play;
use super::sizes::{max_weight, share};
use crate::names::reason;
use crate::routing::{self, Router, Wanted};

/// The data plane is asked again after so many seconds, in case that nothing else is heard.
const VERIFY: i64 = 10;

/// What a weight is a part of.
pub(crate) fn max_weight_of(rollout: &Rollout) -> i64 {
    rollout.canary().map_or(crate::replicas::MAX_WEIGHT, max_weight)
}

/// What the requests are to be divided into.
#[derive(Default)]
struct Division {
    weight: i64,
    additional: Vec<WeightDestination>,
    /// Routes by header and mirrors may stand.
    routes: bool,
}

impl Play<'_> {
    /// Tells the routers, in an order that has an answering version behind every share at every moment.
    pub(super) fn route(&mut self, canary: &Canary) {
        if canary.traffic_routing.is_none() {
            self.weights = None;
            return;
        }
        // Before there is a stable version there is nothing to divide.
        let (Some(new), Some(stable)) = (self.new, self.stable) else { return };
        let division = self.division(canary);
        if !self.may_be(canary, division.weight) {
            let (name, available) = (self.sets[stable].name.clone(), self.sets[stable].available);
            self.held = Some(format!(
                "the weight stays until {name}, which gets more requests then, has the pods for them ({available} are available)"
            ));
            return;
        }
        let back = self.is_aborted() && (division.weight == 0 || !canary.dynamic_stable_scale);
        if back {
            let (_, service) = self.services(canary);
            self.lead(&service, self.stable);
        }
        let (to_canary, to_stable) = (self.canary_hash(new), self.sets[stable].hash.clone());
        let before = self.prev().canary.weights.as_ref().map_or(0, |weights| weights.canary.weight);
        let needed = share(self.replicas(), before, max_weight(canary));
        let answers = self.set_of(&to_canary).is_some_and(|at| self.sets[at].available >= needed);
        let (headers, mirrors) = if division.routes { self.routes(canary) } else { (Vec::new(), Vec::new()) };
        let mut wanted = Wanted {
            rollout: self.ro,
            weight: division.weight,
            most: max_weight(canary),
            additional: &division.additional,
            // While requests go there it is pointed at nobody who cannot answer.
            canary_hash: Some(to_canary.as_str()).filter(|_| answers),
            stable_hash: Some(to_stable.as_str()),
            settled: false,
            headers,
            mirrors,
            now: self.now,
        };
        let mut verified = None;
        for router in routing::routers(self.ro) {
            wanted.settled = false;
            let wrote = self.tell_router(router.as_ref(), &wanted);
            let settled = Wanted { canary_hash: Some(&to_canary), settled: true, ..wanted.clone() };
            self.tell_router_where(router.as_ref(), &settled);
            let taken = router.verified(&wanted, &self.seen);
            // What is written now is taken later.
            let taken = if wrote { taken.map(|_| false) } else { taken };
            verified = match (verified, taken) {
                (None, taken) => taken,
                (verified, None) => verified,
                (Some(one), Some(other)) => Some(one && other),
            };
            if let Some(at) = router.look_at(&wanted, &self.seen) {
                self.look_at(at);
            }
        }
        if verified == Some(false) {
            self.look_at(self.after(VERIFY));
        }
        if let Some(why) = self.untold.take() {
            // A part of the routers may know by now; what is claimed is what all of them were told.
            self.held = Some(format!("the router cannot be told: {why}"));
            return self.look_at(self.after(VERIFY));
        }
        self.note_weights(canary, division, to_canary, to_stable, verified);
    }

    /// What requests still go by, although the wanted version is the stable one; none: everything that was to be told is told.
    pub(super) fn unrouted(&self) -> Option<&'static str> {
        let canary = self.canary()?;
        let hash = self.status.current_pod_hash.as_str();
        let names = |service: &String| service.is_empty() || self.selector_of(service) == hash;
        let led = [&canary.stable_service, &canary.canary_service].into_iter().all(names);
        // Without pods nothing can be pointed at them.
        if !led && self.replicas() > 0 && canary.ping_pong.is_none() {
            return Some("waiting for services to select the stable version");
        }
        canary.traffic_routing.as_ref()?;
        let is_home = |weights: &TrafficWeights| {
            let of = [&weights.canary.pod_template_hash, &weights.stable.pod_template_hash];
            weights.canary.weight == 0
                && weights.additional.is_empty()
                && weights.verified != Some(false)
                && of.into_iter().all(|one| one == hash)
        };
        let told = self.held.is_none() && self.status.canary.weights.as_ref().is_some_and(is_home);
        (!told).then_some("waiting for routes to lead to the stable version")
    }

    /// Destinations, then shares. True when a share or a route was written.
    fn tell_router(&mut self, router: &dyn Router, wanted: &Wanted<'_>) -> bool {
        self.tell_router_where(router, wanted);
        match router.weigh(wanted, &self.seen) {
            Ok(writes) => self.write_routes(writes),
            Err(why) => {
                self.cannot_tell(why);
                false
            }
        }
    }

    fn tell_router_where(&mut self, router: &dyn Router, wanted: &Wanted<'_>) {
        match router.point(wanted, &self.seen) {
            Ok(writes) => {
                self.write_routes(writes);
            }
            Err(why) => self.cannot_tell(why),
        }
    }

    fn cannot_tell(&mut self, why: String) {
        self.warn(reason::TRAFFIC_ERROR, why.clone());
        self.untold = Some(why);
    }

    fn write_routes(&mut self, writes: Vec<routing::Write>) -> bool {
        let mut wrote = false;
        for write in writes {
            if let Some(action) = self.seen.action(&write) {
                self.plan.actions.push(action);
                wrote = true;
            }
            self.seen.take(&write);
        }
        wrote
    }

    /// The Services of the stable and of the new version.
    pub(super) fn services(&self, canary: &Canary) -> (String, String) {
        let (stable, new) = routing::services(self.ro, canary.ping_pong.is_some());
        (stable.to_owned(), new.to_owned())
    }

    /// The version that the canary's destination stands for: on the way back from an update, the one that is left.
    fn canary_hash(&self, new: usize) -> String {
        self.left_behind().unwrap_or_else(|| self.sets[new].hash.clone())
    }

    /// Somebody went back to the stable version while it was small: it grows before the requests come back.
    pub(super) fn left_behind(&self) -> Option<String> {
        self.canary().filter(|canary| canary.dynamic_stable_scale && canary.traffic_routing.is_some())?;
        let weights = self.prev().canary.weights.as_ref()?;
        let new = &self.sets[self.new?];
        let left = &weights.canary.pod_template_hash;
        let on_the_way = self.is_fully_promoted() && *left != new.hash && new.available < self.replicas();
        on_the_way.then(|| left.clone())
    }

    fn division(&self, canary: &Canary) -> Division {
        let only = |weight: i64| Division { weight, ..Division::default() };
        let Some(new) = self.new.map(|new| &self.sets[new]) else { return only(0) };
        let most = max_weight(canary);
        if self.left_behind().is_some() {
            return only(self.weight_on_the_way_back(canary));
        }
        if self.is_fully_promoted() {
            return only(0);
        }
        if self.is_aborted() {
            return only(self.weight_on_the_way_back(canary));
        }
        if new.available == 0 {
            return Division { additional: self.experiment_weights(), ..Division::default() };
        }
        let now = self.prev().canary.weights.as_ref().map_or(0, |weights| weights.canary.weight);
        if self.prev().promote_full {
            return if canary.dynamic_stable_scale {
                only((most * new.available / self.replicas().max(1)).min(most))
            } else {
                only(now)
            };
        }
        let (step, Some(index)) = self.step() else { return only(0) };
        let wanted = if step.is_some() { self.desired_weight(canary) } else { most };
        // Less is possible at once; more when the pods for it are there.
        let weight = if wanted <= now || self.has_desired_sizes(canary) {
            wanted
        } else {
            let done = canary.steps.iter().take(usize::try_from(index).unwrap_or(0));
            done.rev().find_map(|step| step.set_weight).unwrap_or(0)
        };
        let additional = if step.is_some() { self.experiment_weights() } else { Vec::new() };
        Division { weight, additional, routes: true }
    }

    /// After an abort: at once where the stable version has kept its pods, as it grows where it has not.
    fn weight_on_the_way_back(&self, canary: &Canary) -> i64 {
        let (Some(stable), replicas) = (self.stable, self.replicas()) else { return 0 };
        if !canary.dynamic_stable_scale || replicas == 0 {
            return 0;
        }
        let most = max_weight(canary);
        let goal = most - most * self.sets[stable].available.min(replicas) / replicas;
        // Never more again because a pod of the stable version blinks.
        let now = self.prev().canary.weights.as_ref().map(|weights| weights.canary.weight);
        now.map_or(goal, |now| goal.min(now))
    }

    /// Whoever gets more requests has the pods for them. A stable version that is broken does not keep its requests from leaving it.
    fn may_be(&self, canary: &Canary, weight: i64) -> bool {
        let (Some(new), Some(stable)) = (self.new, self.stable) else { return false };
        let now = self.prev().canary.weights.as_ref().map(|weights| weights.canary.weight);
        if now.is_some_and(|now| weight >= now) {
            return true;
        }
        let available = self.sets[stable].available;
        let all_at_once = self.is_fully_promoted() || (self.is_aborted() && !canary.dynamic_stable_scale);
        if all_at_once && self.left_behind().is_none() {
            return available > 0 || self.sets[new].available == 0;
        }
        let most = max_weight(canary);
        let needed = self.replicas() * (most - weight) / most;
        available >= needed
            || canary.replica_progress_threshold.is_some() && self.is_far_enough(canary, Some(stable), needed)
    }

    /// The routes that the steps so far ask for, in the last word on each name.
    fn routes<'c>(&self, canary: &'c Canary) -> (Vec<&'c SetHeaderRoute>, Vec<&'c SetMirrorRoute>) {
        let (_, index) = self.step();
        let done = usize::try_from(index.unwrap_or(0)).unwrap_or(0) + 1;
        let (mut headers, mut mirrors): (Vec<&SetHeaderRoute>, Vec<&SetMirrorRoute>) =
            (Vec::new(), Vec::new());
        for step in canary.steps.iter().take(done) {
            if let Some(route) = &step.set_header_route {
                headers.retain(|one| one.name != route.name);
                headers.push(route);
            }
            if let Some(route) = &step.set_mirror_route {
                mirrors.retain(|one| one.name != route.name);
                mirrors.push(route);
            }
        }
        headers.retain(|route| !route.r#match.is_empty());
        mirrors.retain(|route| !route.r#match.is_empty());
        (headers, mirrors)
    }

    fn note_weights(
        &mut self,
        canary: &Canary,
        division: Division,
        to_canary: String,
        to_stable: String,
        verified: Option<bool>,
    ) {
        let (of_stable, of_canary) = (canary.stable_service.clone(), canary.canary_service.clone());
        let others: i64 = division.additional.iter().map(|one| one.weight).sum();
        let of = |weight: i64, service_name: String, pod_template_hash: String| WeightDestination {
            weight,
            service_name,
            pod_template_hash,
            ..WeightDestination::default()
        };
        let weights = TrafficWeights {
            canary: of(division.weight, of_canary, to_canary),
            stable: of((max_weight(canary) - division.weight - others).max(0), of_stable, to_stable),
            additional: division.additional,
            verified,
            ..TrafficWeights::default()
        };
        let prev = self.prev().canary.weights.as_ref();
        let mut said = Vec::new();
        match prev.map(|prev| prev.canary.weight) {
            None => said.push(format!("to {}", weights.canary.weight)),
            Some(before) if before != weights.canary.weight => {
                said.push(format!("from {before} to {}", weights.canary.weight));
            }
            Some(_) => {}
        }
        if prev.is_some_and(|prev| prev.additional != weights.additional) {
            let all = weights.additional.iter().map(|one| format!("{}: {}", one.service_name, one.weight));
            said.push(format!("additional: [{}]", all.collect::<Vec<_>>().join(", ")));
        }
        if !said.is_empty() {
            self.tell(reason::WEIGHT, format!("Traffic weight updated {}", said.join(", ")));
        }
        self.weights = Some(weights);
    }

    /// The share that the step asks for is written, and taken as far as that is told.
    pub(super) fn has_weight(&self, weight: i64) -> bool {
        // Without pods nobody is given a share, and none is waited for.
        let weight = if self.replicas() == 0 { 0 } else { weight };
        self.weights
            .as_ref()
            .is_some_and(|weights| weights.canary.weight == weight && weights.verified != Some(false))
    }

    /// Pods for so much of the requests, that a version which still has them keeps.
    pub(super) fn pods_for_requests(
        &self,
        canary: &Canary,
        hash: &str,
        weights: Option<&TrafficWeights>,
    ) -> i64 {
        let of = weights.filter(|weights| weights.canary.pod_template_hash == hash);
        of.map_or(0, |weights| share(self.replicas(), weights.canary.weight, max_weight(canary)))
    }
}
