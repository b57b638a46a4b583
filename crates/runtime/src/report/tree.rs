//! The resources of an Application as pages show them: what it declares, what that owns, and the one thing about each that
//! people look for first. Never a manifest.

use std::collections::BTreeMap;

use serde_json::Value;
use slipway_api::application as wire;
use slipway_crd::{Application, ResourceStatus};
use slipway_gitops::{ResourceKey, object, tree};

use crate::engines::applications::observe::Observed;

/// What the Application's own status says of its resources, where nobody looked into the cluster: without what they own.
pub(super) fn declared(app: &Application) -> Vec<wire::ResourceNode> {
    let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let node = |resource: &ResourceStatus| wire::ResourceNode {
        group: resource.group.clone(),
        version: resource.version.clone(),
        kind: resource.kind.clone(),
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
        status: Some(resource.status.clone()).filter(|status| !status.is_empty()),
        health: resource
            .health
            .as_ref()
            .map(|health| health.status.clone())
            .filter(|status| !status.is_empty()),
        health_message: resource.health.as_ref().and_then(|health| text(&health.message)),
        requires_pruning: resource.requires_pruning,
        ..wire::ResourceNode::default()
    };
    app.status.resources.iter().filter(|resource| !resource.hook).map(node).collect()
}

/// What the Application declares, then what that owns.
pub(crate) fn resources(observed: &Observed, family: &[Value]) -> Vec<wire::ResourceNode> {
    let by_uid: BTreeMap<&str, &Value> = family.iter().map(|live| (object::uid(live), live)).collect();
    let mut nodes = Vec::new();
    let mut declared: Vec<(&ResourceKey, &str)> = Vec::new();
    for resource in &observed.comparison.resources {
        let live = resource.live.as_ref();
        if resource.hook && live.is_none() {
            continue;
        }
        let uid = live.map(|live| object::uid(live)).unwrap_or_default();
        declared.push((&resource.key, uid));
        nodes.push(wire::ResourceNode {
            group: resource.key.group.clone(),
            version: resource.version.clone(),
            kind: resource.key.kind.clone(),
            namespace: resource.key.namespace.clone(),
            name: resource.key.name.clone(),
            uid: uid.to_owned(),
            parent_uid: String::new(),
            status: resource.status.map(Into::into),
            health: resource.health.as_ref().map(|health| health.status.into()),
            health_message: resource.health.as_ref().map(|h| h.message.clone()).filter(|m| !m.is_empty()),
            requires_pruning: resource.requires_pruning,
            info: live.and_then(|live| info(live)),
        });
    }
    for node in tree(family) {
        if declared.iter().any(|(key, uid)| **key == node.key || *uid == node.uid) {
            continue;
        }
        nodes.push(wire::ResourceNode {
            group: node.key.group.clone(),
            version: node.version.clone(),
            kind: node.key.kind.clone(),
            namespace: node.key.namespace.clone(),
            name: node.key.name.clone(),
            parent_uid: node.parents.first().cloned().unwrap_or_default(),
            status: None,
            health: node.health.as_ref().map(|health| health.status.into()),
            health_message: node.health.as_ref().map(|h| h.message.clone()).filter(|m| !m.is_empty()),
            requires_pruning: false,
            info: by_uid.get(node.uid.as_str()).and_then(|live| info(live)),
            uid: node.uid,
        });
    }
    nodes
}

/// The one thing about a live object that people look for first.
pub(crate) fn info(live: &Value) -> Option<String> {
    let number = |path: &[&str]| object::integer(live, path);
    match (object::group(live), object::kind(live)) {
        ("", "Pod") => Some(pod_info(live)),
        ("apps", "Deployment" | "StatefulSet" | "ReplicaSet") => {
            let wanted = number(&["spec", "replicas"]).unwrap_or(1);
            Some(format!("{}/{wanted} ready", number(&["status", "readyReplicas"]).unwrap_or(0)))
        }
        ("apps", "DaemonSet") => {
            let wanted = number(&["status", "desiredNumberScheduled"]).unwrap_or(0);
            Some(format!("{}/{wanted} ready", number(&["status", "numberReady"]).unwrap_or(0)))
        }
        ("batch", "Job") => Some(match (number(&["status", "succeeded"]), number(&["status", "failed"])) {
            (Some(done), _) if done > 0 => "succeeded".to_owned(),
            (_, Some(failed)) if failed > 0 => format!("failed {failed} times"),
            _ => "running".to_owned(),
        }),
        ("", "Service") => {
            let ports: Vec<String> = object::list(live, &["spec", "ports"])
                .iter()
                .filter_map(|port| object::integer(port, &["port"]))
                .map(|port| port.to_string())
                .collect();
            let address = object::text(live, &["spec", "clusterIP"]);
            (!ports.is_empty()).then(|| format!("{address}:{}", ports.join(",")))
        }
        ("", "PersistentVolumeClaim") => Some(object::text(live, &["status", "phase"]).to_owned()),
        _ => None,
    }
    .filter(|text| !text.is_empty())
}

fn pod_info(pod: &Value) -> String {
    let containers = object::list(pod, &["status", "containerStatuses"]);
    let total = object::list(pod, &["spec", "containers"]).len();
    let ready = containers.iter().filter(|status| status["ready"] == true).count();
    let mut parts = vec![format!("{ready}/{total} ready")];
    let phase = object::text(pod, &["status", "phase"]);
    if phase == "Pending" || phase == "Failed" {
        parts.push(phase.to_owned());
    }
    if let Some(reason) = pod_trouble(pod, containers) {
        parts.push(reason);
    }
    let restarts: i64 =
        containers.iter().filter_map(|status| object::integer(status, &["restartCount"])).sum();
    if restarts > 0 {
        parts.push(format!("{restarts} restarts"));
    }
    parts.extend(slipway_gitops::images(pod).into_iter().next());
    parts.join(" · ")
}

/// Why a pod does not run, if it says so.
fn pod_trouble(pod: &Value, containers: &[Value]) -> Option<String> {
    let init = object::list(pod, &["status", "initContainerStatuses"]);
    for status in init.iter().chain(containers) {
        let waiting = &status["state"]["waiting"];
        if let Some(reason) =
            waiting["reason"].as_str().filter(|r| !matches!(*r, "ContainerCreating" | "PodInitializing"))
        {
            let message = waiting["message"].as_str().unwrap_or_default();
            return Some(if message.is_empty() { reason.to_owned() } else { format!("{reason}: {message}") });
        }
        let ended = &status["state"]["terminated"];
        if let Some(code) = object::integer(ended, &["exitCode"]).filter(|code| *code != 0) {
            return Some(format!("exit code {code}"));
        }
    }
    let message = object::text(pod, &["status", "message"]);
    if !message.is_empty() {
        return Some(message.to_owned());
    }
    object::list(pod, &["status", "conditions"])
        .iter()
        .find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False")
        .and_then(|condition| condition["message"].as_str())
        .map(str::to_owned)
}
