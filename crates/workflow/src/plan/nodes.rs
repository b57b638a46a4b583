//! The nodes of a status: made, linked, ended.

use slipway_crd::workflow::{NodeFlag, NodeStatus, WorkflowStatus};

use super::Run;
use super::execute::Call;
use super::pods::is_handler;
use crate::identity::{display_name, node_id};

/// It ran and came to an end.
pub fn is_completed(node: &NodeStatus) -> bool {
    matches!(node.phase.as_str(), "Succeeded" | "Failed" | "Error")
}

/// Nothing of it has to be waited for: what follows may go on.
pub fn is_fulfilled(node: &NodeStatus) -> bool {
    is_completed(node)
        || matches!(node.phase.as_str(), "Skipped" | "Omitted")
        || (node.daemoned == Some(true) && node.phase != "Pending")
}

pub(super) fn has_failed(node: &NodeStatus) -> bool {
    matches!(node.phase.as_str(), "Failed" | "Error")
}

/// Pods that have ended, of all.
pub(super) fn progress(status: &WorkflowStatus) -> String {
    let leaves = || status.nodes.values().filter(|node| is_leaf(node));
    format!("{}/{}", leaves().filter(|node| is_completed(node)).count(), leaves().count())
}

pub(super) fn is_leaf(node: &NodeStatus) -> bool {
    matches!(node.r#type.as_str(), "Pod" | "HTTP" | "Plugin" | "Container")
}

/// A node to be made.
#[derive(Debug, Clone, Default)]
pub(super) struct Fresh<'a> {
    pub kind: &'a str,
    pub phase: &'a str,
    pub message: &'a str,
}

impl Run<'_> {
    pub(super) fn node_id_of(&self, name: &str) -> Option<String> {
        let id = node_id(&self.name, name);
        self.status.nodes.contains_key(&id).then_some(id)
    }

    pub(super) fn node(&self, name: &str) -> Option<&NodeStatus> {
        self.status.nodes.get(&node_id(&self.name, name))
    }

    pub(super) fn node_mut(&mut self, name: &str) -> Option<&mut NodeStatus> {
        self.status.nodes.get_mut(&node_id(&self.name, name))
    }

    /// Makes a node, or changes nothing about one that is there.
    pub(super) fn make_node(&mut self, call: &Call, fresh: &Fresh<'_>) -> String {
        let id = node_id(&self.name, &call.name);
        if self.status.nodes.contains_key(&id) {
            return id;
        }
        let boundary = self.status.nodes.get(&call.boundary).map(|node| node.name.clone());
        let mut node = NodeStatus {
            id: id.clone(),
            name: call.name.clone(),
            display_name: display_name(&call.name, boundary.as_deref().unwrap_or_default()),
            r#type: fresh.kind.into(),
            phase: fresh.phase.into(),
            message: fresh.message.into(),
            boundary_id: call.boundary.clone(),
            template_scope: call.scope.clone().unwrap_or_else(|| format!("local/{}", self.name)),
            started_at: Some(self.now.to_string()),
            ..NodeStatus::default()
        };
        match &call.template.reference {
            Some(reference) => node.template_ref = Some(reference.clone()),
            None => node.template_name.clone_from(&call.template.name),
        }
        if call.hooked || call.retried {
            node.node_flag =
                Some(NodeFlag { hooked: call.hooked, retried: call.retried, ..NodeFlag::default() });
        }
        if is_fulfilled(&node) {
            node.finished_at = Some(self.now.to_string());
        }
        self.status.nodes.insert(id.clone(), node);
        id
    }

    /// Says how a node is now. One that has ended has ended.
    pub(super) fn mark(&mut self, name: &str, phase: &str, message: &str) {
        let now = self.now.to_string();
        let Some(node) = self.node_mut(name) else { return };
        if is_completed(node) {
            return;
        }
        node.phase = phase.into();
        node.message = message.into();
        if is_completed(node) {
            node.finished_at = Some(now);
            node.daemoned = None;
        }
    }

    pub(super) fn fail_node(&mut self, call: &Call, why: &str) {
        let kind = self.kind_of(call);
        self.make_node(call, &Fresh { kind, phase: "Error", message: why });
        self.mark(&call.name, "Error", why);
    }

    pub(super) fn link(&mut self, parent: &str, child: &str) {
        if let Some(parent) = self.status.nodes.get_mut(parent)
            && parent.id != child
            && !parent.children.iter().any(|known| known == child)
        {
            parent.children.push(child.to_owned());
        }
    }

    /// The nodes at the end of a node: what follows it is linked to them.
    pub(super) fn outbound(&self, id: &str) -> Vec<String> {
        let Some(node) = self.status.nodes.get(id) else { return Vec::new() };
        match node.r#type.as_str() {
            "Steps" | "DAG" if !node.outbound_nodes.is_empty() => {
                node.outbound_nodes.iter().flat_map(|one| self.outbound(one)).collect()
            }
            "TaskGroup" if !node.children.is_empty() => {
                node.children.iter().flat_map(|one| self.outbound(one)).collect()
            }
            "Retry" => match node.children.last() {
                Some(last) => self.outbound(last),
                None => vec![id.to_owned()],
            },
            _ => vec![id.to_owned()],
        }
    }

    /// Whatever has not ended ends now; handlers of the end go on.
    pub(super) fn end_everything(&mut self, message: &str) {
        let running: Vec<String> = self
            .status
            .nodes
            .values()
            .filter(|node| !is_completed(node) && !matches!(node.phase.as_str(), "Skipped" | "Omitted"))
            .filter(|node| !is_handler(node))
            .map(|node| node.name.clone())
            .collect();
        for name in running {
            self.mark(&name, "Failed", message);
        }
    }
}
