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
    fn lead(&mut self, service: &str, at: Option<usize>) {
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
        self.lead(&canary.stable_service, self.stable);
        let back = self.is_aborted() && canary.traffic_routing.is_none();
        let of_canary = if back { self.stable } else { self.new };
        self.lead(&canary.canary_service, of_canary);
    }
}
