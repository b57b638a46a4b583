//! Pods that are not kept: those whose node has ended while they still run, and those that `podGC` names.
//!
//! Found anew by every plan, also of a workflow that has ended: a reconcile that was killed after it wrote the status and before it
//! deleted anything is made good by the next one.

use serde_json::Value;
use slipway_crd::workflow::NodeStatus;

use super::nodes::is_completed;
use super::{Action, Run};

impl Run<'_> {
    pub(super) fn sweep(&mut self) {
        let ended = self.status.finished_at.is_some();
        let nodes = self.status.nodes.values().filter(|node| node.r#type == "Pod" && is_completed(node));
        let gone: Vec<String> = nodes
            .filter_map(|node| {
                let name = self.pod_of(node);
                let pod =
                    self.pods.get(&name).filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())?;
                (is_running(pod) || self.is_not_kept(node, ended)).then_some(name)
            })
            .collect();
        self.actions.extend(gone.into_iter().map(Action::DeletePod));
    }

    fn is_not_kept(&self, node: &NodeStatus, ended: bool) -> bool {
        let strategy = self.spec.pod_gc.as_ref().map(|rule| rule.strategy.as_str()).unwrap_or_default();
        match strategy {
            "OnPodCompletion" => true,
            "OnPodSuccess" => node.phase == "Succeeded",
            "OnWorkflowCompletion" => ended,
            "OnWorkflowSuccess" => ended && self.status.phase == "Succeeded",
            _ => false,
        }
    }
}

pub(super) fn is_running(pod: &Value) -> bool {
    let status = &pod["status"];
    let containers = status["containerStatuses"].as_array().into_iter().flatten();
    let main_ended =
        containers.filter(|one| one["name"] == "main").any(|one| one["state"]["terminated"].is_object());
    !matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) && !main_ended
}
