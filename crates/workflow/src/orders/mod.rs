//! What people do to a workflow that runs → what is written to its object, as clients of Argo Workflows write it.

mod again;
mod selector;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use slipway_crd::workflow::{NodeStatus, Workflow};

pub use again::{Again, retry, submitted_again};
pub use selector::Selector;

use crate::plan::is_fulfilled;
use crate::scope::text_of;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Nothing new begins; exit handlers run.
    Stop,
    /// Everything ends at once.
    Terminate,
    /// Nothing new begins until it is resumed.
    Suspend,
    /// Over every pause that there is now.
    Resume,
}

/// A merge patch, for the version of the object that was read; or why there is nothing to do.
pub fn patch(order: Order, workflow: &Workflow, now: Timestamp) -> Result<Value, String> {
    let name = &workflow.metadata.name;
    if workflow.status.finished_at.is_some() {
        return Err(format!("workflow {name} has ended ({})", workflow.status.phase));
    }
    let version = &workflow.metadata.resource_version;
    let mut patch = json!({"metadata": {"resourceVersion": version}});
    match order {
        Order::Stop => patch["spec"]["shutdown"] = "Stop".into(),
        Order::Terminate => patch["spec"]["shutdown"] = "Terminate".into(),
        Order::Suspend => patch["spec"]["suspend"] = true.into(),
        Order::Resume => {
            let nodes = resumed(workflow, now);
            if nodes.is_empty() && workflow.spec.suspend != Some(true) {
                return Err(format!("workflow {name} does not wait for anybody"));
            }
            patch["spec"]["suspend"] = Value::Null;
            if !nodes.is_empty() {
                patch["status"]["nodes"] = nodes.into();
            }
        }
    }
    Ok(patch)
}

/// What somebody says of a pause.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// Succeeded, Failed or Error; empty: as it is.
    pub phase: String,
    pub message: String,
    pub outputs: BTreeMap<String, String>,
}

/// The pauses that are meant end as somebody says, with the values that somebody supplies.
pub fn set(workflow: &Workflow, which: &Selector, said: &Said, now: Timestamp) -> Result<Value, String> {
    let name = &workflow.metadata.name;
    if workflow.status.finished_at.is_some() {
        return Err(format!("workflow {name} has ended ({})", workflow.status.phase));
    }
    if !matches!(said.phase.as_str(), "" | "Succeeded" | "Failed" | "Error") {
        return Err(format!("a pause ends as Succeeded, Failed or Error, not as `{}`", said.phase));
    }
    let waits = |node: &&NodeStatus| node.r#type == "Suspend" && !is_fulfilled(node) && which.fits(node);
    let mut nodes = Map::new();
    for node in workflow.status.nodes.values().filter(waits) {
        let mut change = json!({});
        if !said.phase.is_empty() {
            change["phase"] = said.phase.as_str().into();
            change["finishedAt"] = now.to_string().into();
        }
        if !said.message.is_empty() {
            change["message"] = said.message.as_str().into();
        }
        if !said.outputs.is_empty() {
            let mut outputs = node.outputs.clone().unwrap_or_default();
            for (name, value) in &said.outputs {
                let known = outputs.parameters.iter_mut().find(|one| one.name == *name);
                let known = known
                    .ok_or_else(|| format!("node {} has no output parameter `{name}`", node.display_name))?;
                known.value = Some(Value::String(value.clone()));
                known.value_from = None;
            }
            change["outputs"]["parameters"] = json!(outputs.parameters);
        }
        nodes.insert(node.id.clone(), change);
    }
    if nodes.is_empty() {
        return Err(format!("workflow {name} has no pause that this fits"));
    }
    Ok(
        json!({"metadata": {"resourceVersion": workflow.metadata.resource_version}, "status": {"nodes": nodes}}),
    )
}

fn resumed(workflow: &Workflow, now: Timestamp) -> Map<String, Value> {
    let mut nodes = Map::new();
    for node in workflow.status.nodes.values() {
        if node.r#type != "Suspend" || is_fulfilled(node) {
            continue;
        }
        let mut change = json!({"phase": "Succeeded", "finishedAt": now.to_string()});
        if let Some(outputs) = &node.outputs {
            let parameters: Vec<Value> = outputs
                .parameters
                .iter()
                .map(|one| {
                    let default = one.value_from.as_ref().and_then(|from| from.default.as_ref());
                    json!({"name": one.name, "value": one.value.as_ref().or(default).map(text_of)})
                })
                .collect();
            change["outputs"] = json!({"parameters": parameters});
        }
        nodes.insert(node.id.clone(), change);
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workflow(status: Value) -> Workflow {
        serde_json::from_value(json!({"metadata": {"name": "wf", "resourceVersion": "7"}, "status": status}))
            .expect("a Workflow")
    }

    #[test]
    fn orders_are_what_clients_write() {
        let now = Timestamp::UNIX_EPOCH;
        let running = workflow(
            json!({"phase": "Running", "nodes": {"wf-1": {"id": "wf-1", "name": "wf.wait", "displayName": "wait",
            "type": "Suspend", "phase": "Running", "outputs": {"parameters": [{"name": "ok", "valueFrom": {"supplied": {}, "default": "no"}}]}}}}),
        );
        assert_eq!(
            patch(Order::Stop, &running, now),
            Ok(json!({"metadata": {"resourceVersion": "7"}, "spec": {"shutdown": "Stop"}}))
        );
        assert_eq!(
            patch(Order::Resume, &running, now),
            Ok(
                json!({"metadata": {"resourceVersion": "7"}, "spec": {"suspend": null}, "status": {"nodes": {"wf-1": {
                "phase": "Succeeded", "finishedAt": "1970-01-01T00:00:00Z", "outputs": {"parameters": [{"name": "ok", "value": "no"}]}}}}})
            )
        );
        let idle = workflow(json!({"phase": "Running"}));
        assert_eq!(patch(Order::Resume, &idle, now), Err("workflow wf does not wait for anybody".into()));
        let ended = workflow(json!({"phase": "Failed", "finishedAt": "1970-01-01T00:00:00Z"}));
        assert_eq!(patch(Order::Stop, &ended, now), Err("workflow wf has ended (Failed)".into()));
    }
}
