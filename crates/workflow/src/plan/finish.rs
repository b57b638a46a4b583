//! The end of a workflow: its exit handler, its phase, and what is cleared away.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json;
use slipway_crd::workflow::{WorkflowCondition, WorkflowStatus};

use super::execute::{Asked, Call};
use super::nodes::{has_failed, is_fulfilled};
use super::{Action, Event, Run};

pub(super) fn end(status: &mut WorkflowStatus, phase: &str, message: &str, now: Timestamp) {
    status.phase = phase.into();
    status.message = message.into();
    status.finished_at = Some(now.to_string());
    status.conditions.retain(|known| known.r#type != "Completed" && known.r#type != "PodRunning");
    for (kind, value) in [("PodRunning", "False"), ("Completed", "True")] {
        status.conditions.push(WorkflowCondition {
            r#type: kind.into(),
            status: value.into(),
            ..WorkflowCondition::default()
        });
    }
}

/// Lists are chosen by these.
pub(super) fn labels(status: &WorkflowStatus) -> BTreeMap<String, String> {
    let done = status.finished_at.is_some();
    BTreeMap::from([
        ("workflows.argoproj.io/phase".to_owned(), status.phase.clone()),
        ("workflows.argoproj.io/completed".to_owned(), done.to_string()),
    ])
}

impl Run<'_> {
    /// Everything that follows when the first node has ended.
    pub(super) fn finish(&mut self, entry: Option<String>) {
        let hooks_wait = self.run_workflow_hooks();
        let root = entry.and_then(|id| self.status.nodes.get(&id)).cloned();
        let Some(root) = root else {
            // Stopped before anything began.
            if self.is_ending() && self.status.nodes.is_empty() {
                let message = format!("Stopped with strategy '{}'", self.spec.shutdown);
                self.close("Failed", &message);
            }
            return;
        };
        if !is_fulfilled(&root) || hooks_wait {
            return;
        }
        let (phase, message) = match root.phase.as_str() {
            "Skipped" | "Omitted" => ("Succeeded".to_owned(), root.message.clone()),
            phase => (phase.to_owned(), root.message.clone()),
        };
        let Some((handler_failed, handler)) = self.run_exit_handler(&phase) else { return };
        let (phase, message) =
            if handler_failed && phase == "Succeeded" { handler } else { (phase, message) };
        let message = if self.is_ending() && phase != "Succeeded" {
            format!("Stopped with strategy '{}'", self.spec.shutdown)
        } else {
            message
        };
        self.close(&phase, &message);
    }

    /// `None`: it has not ended. Else whether it failed, and how.
    fn run_exit_handler(&mut self, phase: &str) -> Option<(bool, (String, String))> {
        let hook = self.spec.hooks.get("exit").cloned();
        let (template, arguments) = match (&hook, self.spec.on_exit.as_str()) {
            (Some(hook), _) => (
                Asked { name: hook.template.clone(), reference: hook.template_ref.clone(), inline: None },
                hook.arguments.clone(),
            ),
            (None, "") => return Some((false, Default::default())),
            (None, name) => (Asked::named(name), self.spec.arguments.clone()),
        };
        if self.spec.shutdown == "Terminate" {
            return Some((false, Default::default()));
        }
        self.globals.set("workflow.status", phase);
        self.globals.set("workflow.failures", self.failures());
        let began = self.status.started_at.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
        let lasted = began.map(|began| self.now.duration_since(began).as_secs_f64()).unwrap_or_default();
        self.globals.set("workflow.duration", format!("{lasted:.6}"));
        // Those of a hook are written by the template's author; those of the workflow are values, and are not read again.
        let arguments = match &hook {
            None => Ok(arguments),
            Some(_) => serde_json::to_value(&arguments)
                .map_err(|error| error.to_string())
                .and_then(|value| self.globals.fill(&value, self.now))
                .and_then(|value| serde_json::from_value(value).map_err(|error| error.to_string())),
        };
        let call = Call {
            name: format!("{}.onExit", self.name),
            template,
            on_exit: true,
            hooked: hook.is_some(),
            ..Call::default()
        };
        let id = match arguments {
            Ok(arguments) => self.execute_child(&Call { arguments, ..call })?,
            Err(why) => {
                self.fail_node(&call, &why);
                self.node_id_of(&call.name)?
            }
        };
        let node = &self.status.nodes[&id];
        is_fulfilled(node).then(|| (has_failed(node), (node.phase.clone(), node.message.clone())))
    }

    /// What failed, as a text with JSON in it.
    fn failures(&self) -> String {
        let failed: Vec<_> = self
            .status
            .nodes
            .values()
            .filter(|node| node.phase == "Failed" || node.phase == "Error")
            .map(|node| {
                json!({
                    "displayName": node.display_name,
                    "message": node.message,
                    "templateName": node.template_name,
                    "phase": node.phase,
                    "podName": self.pod_of(node),
                    "finishedAt": node.finished_at,
                })
            })
            .collect();
        json!(failed).to_string()
    }

    pub(super) fn close(&mut self, phase: &str, message: &str) {
        end(&mut self.status, phase, message, self.now);
        self.clear_claims(phase == "Succeeded");
        let (reason, warning) = match phase {
            "Succeeded" => ("WorkflowSucceeded", false),
            _ => ("WorkflowFailed", true),
        };
        let text = if message.is_empty() { "Workflow completed".to_owned() } else { message.to_owned() };
        self.events.push(Event { reason, warning, message: text });
    }

    /// Claims that were made for the workflow, by default when it succeeded.
    fn clear_claims(&mut self, succeeded: bool) {
        let strategy = self.spec.volume_claim_gc.as_ref().map(|gc| gc.strategy.clone()).unwrap_or_default();
        if succeeded || strategy == "OnWorkflowCompletion" {
            let names: Vec<String> = self.claims().map(|claim| format!("{}-{claim}", self.name)).collect();
            self.actions.extend(names.into_iter().map(Action::DeleteClaim));
        }
    }
}
