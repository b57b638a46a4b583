//! A Deployment whose pods the Rollout takes over: its generation is noted, and it is scaled down as was asked for.

use serde_json::json;

use super::{Action, Play, Target};
use crate::names;

impl Play<'_> {
    pub(super) fn note_workload(&mut self) {
        let (Some(reference), Some(workload)) = (&self.ro.spec.workload_ref, &self.observed.workload) else {
            return;
        };
        let generation = workload["metadata"]["generation"].as_i64().unwrap_or(0).to_string();
        if self.ro.metadata.annotations.get(names::WORKLOAD_GENERATION) != Some(&generation) {
            let patch = json!({"metadata": {"annotations": {names::WORKLOAD_GENERATION: generation}}});
            self.plan.actions.push(Action::patch(self.rollout(), patch));
        }
        if reference.kind != "Deployment" || self.revision() > 1 {
            return;
        }
        let healthy = self.prev().phase == "Healthy";
        let size = match reference.scale_down.as_str() {
            "onsuccess" | "progressively" if healthy => 0,
            "progressively" if self.prev().ready_replicas > 0 => {
                (self.replicas() - self.prev().ready_replicas).max(0)
            }
            _ => return,
        };
        if workload["spec"]["replicas"].as_i64().unwrap_or(1) != size {
            let target = Target::new("apps/v1", "Deployment", &self.ro.metadata.namespace, &reference.name);
            self.plan.actions.push(Action::patch(target, json!({"spec": {"replicas": size}})));
        }
    }
}
