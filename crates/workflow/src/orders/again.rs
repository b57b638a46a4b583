//! A workflow that ended badly goes on from where it failed; any workflow is submitted once more.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use slipway_crd::names::API_VERSION;
use slipway_crd::workflow::{NodeStatus, Workflow};

use crate::identity::pod_name;
use crate::plan::arguments_with;

/// What has to be done for a workflow to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct Again {
    /// Gone before the patch is written: new ones have the same names.
    pub pods: Vec<String>,
    /// A merge patch, for the version of the object that was read.
    pub patch: Value,
}

const BAD: [&str; 2] = ["Failed", "Error"];

/// What failed, and what came after it, is forgotten and done again; what ended well stays.
pub fn retry(workflow: &Workflow, parameters: &[(String, String)], now: Timestamp) -> Result<Again, String> {
    let (name, status) = (&workflow.metadata.name, &workflow.status);
    if !BAD.contains(&status.phase.as_str()) {
        let phase = if status.phase.is_empty() { "Pending" } else { &status.phase };
        return Err(format!(
            "workflow {name} is {phase}: only one that Failed, or ended with an Error, can be retried"
        ));
    }
    if status.nodes.is_empty() {
        return Err(format!("workflow {name} never began anything: submit it again"));
    }
    let is_bad = |node: &NodeStatus| BAD.contains(&node.phase.as_str());
    let holds_others = |node: &NodeStatus| {
        matches!(node.r#type.as_str(), "Steps" | "StepGroup" | "DAG" | "TaskGroup" | "Retry")
    };
    // What is below something that went well all the same is left alone.
    let matters = |node: &NodeStatus| {
        node.boundary_id.is_empty() || status.nodes.get(&node.boundary_id).is_none_or(is_bad)
    };
    let mut gone: BTreeSet<&str> = BTreeSet::new();
    let handler = format!("{name}.onExit");
    for node in status.nodes.values() {
        let bad_leaf = is_bad(node) && !holds_others(node) && matters(node);
        // A group that could not be carried out has nothing inside that failed.
        let empty = is_bad(node) && node.children.is_empty() && matters(node);
        if bad_leaf || empty || node.name.starts_with(&handler) {
            forget(&node.id, workflow, &mut gone);
        }
    }
    let mut nodes = Map::new();
    let mut pods = Vec::new();
    for node in status.nodes.values() {
        if gone.contains(node.id.as_str()) {
            nodes.insert(node.id.clone(), Value::Null);
            if node.r#type == "Pod" {
                let template = node.template_ref.as_ref().map_or(&node.template_name, |one| &one.template);
                pods.push(pod_name(name, &node.name, template));
            }
            continue;
        }
        let kept = |list: &[String]| -> Vec<String> {
            list.iter().filter(|id| !gone.contains(id.as_str())).cloned().collect()
        };
        let mut change = Map::new();
        if is_bad(node) && holds_others(node) {
            change.insert("phase".into(), "Running".into());
            change.insert("message".into(), Value::Null);
            change.insert("finishedAt".into(), Value::Null);
            change.insert("startedAt".into(), now.to_string().into());
            change.insert("outboundNodes".into(), Value::Null);
        }
        if kept(&node.children) != node.children {
            change.insert("children".into(), json!(kept(&node.children)));
        }
        if !change.is_empty() {
            nodes.insert(node.id.clone(), Value::Object(change));
        }
    }
    let mut patch = json!({
        "metadata": {
            "resourceVersion": workflow.metadata.resource_version,
            "labels": {"workflows.argoproj.io/completed": "false", "workflows.argoproj.io/phase": "Running",
                "workflows.argoproj.io/workflow-archiving-status": null},
        },
        "spec": {"shutdown": null, "suspend": null},
        "status": {"phase": null, "message": null, "finishedAt": null, "startedAt": now.to_string(), "nodes": nodes,
            "persistentVolumeClaims": null, "synchronization": null,
            "conditions": [{"type": "Completed", "status": "False"}]},
    });
    if !parameters.is_empty() {
        patch["spec"]["arguments"]["parameters"] =
            json!(arguments_with(&workflow.spec.arguments, parameters).parameters);
    }
    Ok(Again { pods, patch })
}

/// A node and all that followed from it.
fn forget<'a>(id: &'a str, workflow: &'a Workflow, gone: &mut BTreeSet<&'a str>) {
    let mut rest = vec![id];
    while let Some(id) = rest.pop() {
        let Some(node) = workflow.status.nodes.get(id) else { continue };
        if gone.insert(&node.id) {
            rest.extend(node.children.iter().map(String::as_str));
            // Nodes inside of it that are not below it by their own links.
            let inside = workflow.status.nodes.values().filter(|one| one.boundary_id == node.id);
            rest.extend(inside.map(|one| one.id.as_str()));
        }
    }
}

/// A new Workflow of the same spec.
pub fn submitted_again(workflow: &Workflow, parameters: &[(String, String)]) -> Value {
    let metadata = &workflow.metadata;
    let ours = ["completed", "phase", "workflow-archiving-status", "resubmitted-from-workflow"]
        .map(|label| format!("workflows.argoproj.io/{label}"));
    let mut labels: Map<String, Value> = metadata
        .labels
        .iter()
        .filter(|(label, _)| !ours.contains(label))
        .map(|(label, value)| (label.clone(), value.as_str().into()))
        .collect();
    labels.insert("workflows.argoproj.io/resubmitted-from-workflow".into(), metadata.name.as_str().into());
    let mut spec = workflow.spec.clone();
    spec.shutdown.clear();
    spec.suspend = None;
    spec.arguments = arguments_with(&spec.arguments, parameters);
    let prefix = if metadata.generate_name.is_empty() {
        format!("{}-", metadata.name)
    } else {
        metadata.generate_name.clone()
    };
    json!({"apiVersion": API_VERSION, "kind": "Workflow",
        "metadata": {"generateName": prefix, "namespace": metadata.namespace, "labels": labels}, "spec": spec})
}
