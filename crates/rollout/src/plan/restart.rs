//! Restarting pods: those that are older than somebody asked for leave, a few at a time, and their ReplicaSets make new ones.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::observed::{is_controlled_by, text, time};
use super::{Action, Play, Target};

/// Pods that left are looked after this often, in case that nothing else is heard.
const CHECK: i64 = 30;

fn is_available(pod: &Value, min_ready_seconds: i64, now: Timestamp) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.into_iter().find(|one| one["type"] == "Ready" && one["status"] == "True");
    let Some(ready) = ready else { return false };
    let since = time(&ready["lastTransitionTime"]).unwrap_or(now);
    let long_enough =
        since.checked_add(SignedDuration::from_secs(min_ready_seconds)).is_ok_and(|at| at <= now);
    !pod["metadata"]["deletionTimestamp"].is_string() && (min_ready_seconds == 0 || long_enough)
}

impl Play<'_> {
    /// True when pods were asked to leave.
    pub(super) fn restart_pods(&mut self) -> bool {
        let asked = self.ro.spec.restart_at.clone();
        let Some(at) = asked.as_deref().and_then(|text| text.parse::<Timestamp>().ok()) else { return false };
        if self.prev().restarted_at == asked {
            return false;
        }
        if at > self.now {
            self.look_at(at);
            return false;
        }
        // The stable version first, then the wanted one.
        let mut order: Vec<usize> = self.stable.into_iter().chain(self.new).chain(self.others()).collect();
        order.dedup();
        let mut pods: Vec<&Value> = Vec::new();
        for set in order {
            pods.extend(self.observed.pods.iter().filter(|pod| is_controlled_by(pod, &self.sets[set].uid)));
        }
        let (_, unavailable) = self.bounds();
        let total = self.total(|set| set.wanted).max(self.replicas());
        let available =
            pods.iter().filter(|pod| is_available(pod, self.ro.spec.min_ready_seconds, self.now)).count();
        let mut may_go = i64::try_from(available).unwrap_or(i64::MAX) - (total - unavailable.max(1));
        let (mut old, mut left) = (0, 0);
        let namespace = self.ro.metadata.namespace.clone();
        for pod in pods {
            if time(&pod["metadata"]["creationTimestamp"]).is_some_and(|created| created >= at) {
                continue;
            }
            old += 1;
            if may_go <= 0 || pod["metadata"]["deletionTimestamp"].is_string() {
                continue;
            }
            let target = Target::new("v1", "Pod", &namespace, &text(&pod["metadata"]["name"]));
            self.plan.actions.push(Action::Evict { target });
            may_go -= 1;
            left += 1;
        }
        if old == left {
            self.status.restarted_at = asked;
        } else {
            self.look_at(self.after(CHECK));
        }
        left > 0
    }
}
