//! Nodes that have no children: a pod, or a pause.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use slipway_crd::workflow::{NodeStatus, Outputs, Template};

use super::execute::Call;
use super::nodes::{Fresh, is_completed, is_leaf};
use super::{Action, Event, Halt, Refusal, Run, retry};
use crate::identity::pod_name;
use crate::scope::{Scope, text_of};

/// How the message of a node begins whose pod could not be made yet.
const NOT_MADE: &str = "the pod is not made yet: ";

impl Run<'_> {
    pub(super) fn count_active(&self) -> i64 {
        let active = self.status.nodes.values().filter(|node| is_leaf(node) && !is_completed(node));
        i64::try_from(active.count()).unwrap_or(i64::MAX)
    }

    /// `spec.parallelism`: pods of the whole workflow.
    pub(super) fn may_run_a_pod(&self, template: &Template) -> bool {
        let is_pod = template.steps.is_none() && template.dag.is_none() && template.suspend.is_none();
        !is_pod || self.spec.parallelism.is_none_or(|limit| self.active < limit)
    }

    pub(super) fn execute_pod(
        &mut self,
        call: &Call,
        template: &Template,
        scope: &Scope,
    ) -> Result<String, Halt> {
        let known = self.node(&call.name);
        if let Some(node) = known.filter(|node| !self.waits_for_its_pod(node)) {
            return Ok(node.id.clone());
        }
        if known.is_none() && !self.may_run_a_pod(template) {
            return Err(Halt::Limit);
        }
        let template_name = match &call.template.reference {
            Some(reference) => reference.template.clone(),
            None => call.template.name.clone(),
        };
        let pod = pod_name(&self.name, &call.name, &template_name);
        let mut scope = scope.clone();
        scope.set("pod.name", pod.as_str());
        // A patch is read before values are put into it.
        let mut template = template.clone();
        let patch = std::mem::take(&mut template.pod_spec_patch);
        let value = serde_json::to_value(&template).map_err(|error| error.to_string())?;
        let mut filled: Template = serde_json::from_value(scope.fill(&value, self.now)?)
            .map_err(|error| format!("the template with its values cannot be read: {error}"))?;
        filled.pod_spec_patch = patch;
        let object = self.compose(&pod, call, &filled, &scope)?;
        if self.node(&call.name).is_none() {
            self.active += 1;
        }
        let id = self.make_node(call, &Fresh { kind: "Pod", phase: "Pending", message: "" });
        match self.observed.refused.get(&pod).cloned() {
            Some(Refusal::ForGood(why)) => self.refuse(call, &why),
            Some(Refusal::ForNow(why)) => self.put_off(&id, &why),
            None => {
                if let Some(node) = self.status.nodes.get_mut(&id) {
                    node.message.clear();
                    node.synchronization_status = None;
                }
                // One that is there already is ours, made before its node was written down.
                if !self.pods.contains_key(&pod) {
                    self.actions.push(Action::CreatePod(Box::new(object)));
                }
            }
        }
        Ok(id)
    }

    /// The API server did not make its pod, and may later. A pod that was made once is not made again, whatever became of it.
    pub(super) fn waits_for_its_pod(&self, node: &NodeStatus) -> bool {
        node.phase == "Pending"
            && (node.message.starts_with(NOT_MADE) || node.synchronization_status.is_some())
            && !self.pods.contains_key(&self.pod_of(node))
    }

    fn refuse(&mut self, call: &Call, why: &str) {
        self.mark(&call.name, "Error", why);
        let message = format!("Error node {}: {why}", call.name);
        self.events.push(Event { reason: "WorkflowNodeError", warning: true, message });
    }

    /// Tried again after as long as it waits already, between a second and a minute.
    fn put_off(&mut self, id: &str, why: &str) {
        let Some(node) = self.status.nodes.get_mut(id) else { return };
        node.message = format!("{NOT_MADE}{why}");
        let began = node.started_at.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
        let waited = began.map(|began| self.now.duration_since(began)).unwrap_or_default();
        let wait = waited.clamp(SignedDuration::from_secs(1), SignedDuration::from_mins(1));
        self.look_again_at(self.now.checked_add(wait).unwrap_or(Timestamp::MAX));
    }

    pub(super) fn execute_suspend(
        &mut self,
        call: &Call,
        template: &Template,
        scope: &Scope,
    ) -> Result<String, Halt> {
        let id = self.make_node(call, &Fresh { kind: "Suspend", phase: "Running", message: "" });
        if let Some(node) = self.status.nodes.get_mut(&id)
            && node.outputs.is_none()
            && !template.outputs.parameters.is_empty()
        {
            node.outputs = Some(template.outputs.clone());
        }
        let duration = template.suspend.as_ref().and_then(|suspend| suspend.duration.as_ref());
        let Some(duration) = duration else { return Ok(id) };
        let wait = retry::seconds(&scope.fill_text(&text_of(duration), self.now)?)?;
        let began = self.status.nodes[&id].started_at.as_deref().and_then(|at| at.parse().ok());
        let end =
            began.unwrap_or(self.now).checked_add(wait).map_err(|_| "the pause is too long".to_owned())?;
        if end <= self.now {
            self.resume(&call.name);
        } else {
            self.look_again_at(end);
        }
        Ok(id)
    }

    /// A pause ends by itself; values that nobody supplied have their defaults.
    fn resume(&mut self, name: &str) {
        if let Some(node) = self.node_mut(name) {
            supply_defaults(node);
        }
        self.mark(name, "Succeeded", "");
    }

    pub(super) fn pod_of(&self, node: &NodeStatus) -> String {
        let template =
            node.template_ref.as_ref().map_or(&node.template_name, |reference| &reference.template);
        pod_name(&self.name, &node.name, template)
    }

    /// Daemons end with what they were started in.
    pub(super) fn stop_daemons(&mut self, boundary: &str) {
        let names: Vec<String> = self
            .status
            .nodes
            .values()
            .filter(|node| node.boundary_id == boundary && node.daemoned == Some(true) && !is_completed(node))
            .map(|node| node.name.clone())
            .collect();
        for name in names {
            self.mark(&name, "Succeeded", "");
        }
    }
}

fn supply_defaults(node: &mut NodeStatus) {
    for parameter in node.outputs.iter_mut().flat_map(|outputs: &mut Outputs| &mut outputs.parameters) {
        let default = parameter.value_from.take().and_then(|from| from.default);
        if parameter.value.is_none() {
            parameter.value = default.map(|default: Value| Value::String(text_of(&default)));
        }
    }
}
