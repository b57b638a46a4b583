//! Which version a Service selects. A Service is never pointed at a version that has no available pod.

use std::collections::BTreeMap;

use serde_json::json;

use super::observed::text;
use super::{Action, Observed, Play, Target};
use crate::names::{self, reason};

/// The versions that Services select now; a Service without one is not in it.
pub(super) fn selectors(observed: &Observed) -> BTreeMap<String, String> {
    let all = observed.services.iter();
    all.map(|(name, service)| (name.clone(), text(&service["spec"]["selector"][names::HASH])))
        .filter(|(_, hash)| !hash.is_empty())
        .collect()
}

impl Play<'_> {
    pub(super) fn selector_of(&self, service: &str) -> String {
        self.selectors.get(service).cloned().unwrap_or_default()
    }

    fn is_ours(&self, service: &str) -> bool {
        let annotations =
            self.observed.services.get(service).map(|service| &service["metadata"]["annotations"]);
        annotations.is_some_and(|annotations| annotations[names::MANAGED_BY].is_string())
    }

    /// Points the Service at the version.
    pub(super) fn switch(&mut self, service: &str, hash: &str) {
        let before = self.selector_of(service);
        if service.is_empty() || hash.is_empty() || (before == hash && self.is_ours(service)) {
            return;
        }
        let mut patch = json!({"spec": {"selector": {names::HASH: hash}}});
        if !self.is_ours(service) {
            patch["metadata"]["annotations"][names::MANAGED_BY] = self.ro.metadata.name.as_str().into();
        }
        let target = Target::new("v1", "Service", &self.ro.metadata.namespace, service);
        self.plan.actions.push(Action::patch(target, patch));
        self.selectors.insert(service.to_owned(), hash.to_owned());
        self.tell(
            reason::SWITCH_SERVICE,
            format!("Switched selector for service '{service}' from '{before}' to '{hash}'"),
        );
    }

    /// Points a canary's Service at the version, once it can answer: all of its pods where the Service was nobody's before, one otherwise.
    pub(super) fn lead(&mut self, service: &str, at: Option<usize>) {
        let Some(set) = at.map(|at| &self.sets[at]) else { return };
        if service.is_empty() || self.selector_of(service) == set.hash {
            return;
        }
        let ready = if self.is_ours(service) { set.available > 0 } else { set.is_fully_available() };
        if ready {
            let hash = set.hash.clone();
            self.switch(service, &hash);
        }
    }

    pub(super) fn canary_services(&mut self) {
        let Some(canary) = self.canary() else { return };
        let routed = canary.traffic_routing.is_some();
        if canary.ping_pong.is_some() {
            // Those of an update that is over have changed their roles: none of them is pointed elsewhere then.
            let (stable, new) = self.services(canary);
            self.lead(&stable, self.stable);
            if !self.is_fully_promoted() && !self.is_aborted() && self.may_take_requests() {
                self.lead(&new, self.new);
            }
        }
        self.lead(&canary.stable_service, self.stable);
        if self.is_aborted() {
            // With a router it goes back together with the weights.
            if !routed {
                self.lead(&canary.canary_service, self.stable);
            }
        } else if self.left_behind().is_none() && self.may_take_requests() {
            self.lead(&canary.canary_service, self.new);
        }
    }

    /// The new version has the pods for the requests that another one still gets in the canary's name.
    fn may_take_requests(&self) -> bool {
        let (Some(canary), Some(new)) = (self.canary(), self.new) else { return false };
        let Some(weights) = &self.prev().canary.weights else { return true };
        let needed = self.pods_for_requests(canary, &weights.canary.pod_template_hash, Some(weights));
        self.is_fully_promoted()
            || weights.canary.pod_template_hash == self.sets[new].hash
            || self.sets[new].available >= needed
    }
}
