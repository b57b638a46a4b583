//! What nodes leave for others: names in the scope of those that follow, and the outputs of steps and graphs.

use serde_json::{Value, json};
use slipway_crd::workflow::{NodeStatus, Outputs, Parameter, Step, Template};

use super::Run;
use super::nodes::is_fulfilled;
use crate::scope::{Scope, text_of};

impl Run<'_> {
    /// `steps.NAME.…` or `tasks.NAME.…` of a step that has ended, or of all that it stood for.
    pub(super) fn publish(&self, word: &str, parent: &str, step: &Step, scope: &mut Scope) {
        let name = format!("{parent}.{}", step.name);
        let prefix = format!("{word}.{}", step.name);
        let many = step.with_items.is_some() || !step.with_param.is_empty() || step.with_sequence.is_some();
        // A task has a node of its own for its items; items of a step belong to the group.
        let Some(node) = self.node(&name) else {
            let group = self.node(parent).filter(|_| many);
            return group.into_iter().for_each(|group| self.publish_all(&prefix, &name, group, scope));
        };
        if !is_fulfilled(node) {
            return;
        }
        self.publish_node(&prefix, node, scope);
        if many {
            self.publish_all(&prefix, &name, node, scope);
        }
    }

    fn publish_node(&self, prefix: &str, node: &NodeStatus, scope: &mut Scope) {
        let mut set = |name: &str, value: &str| scope.set(format!("{prefix}.{name}"), value);
        set("id", &node.id);
        set("status", &node.phase);
        set("ip", &node.pod_ip);
        set("hostNodeName", &node.host_node_name);
        set("startedAt", node.started_at.as_deref().unwrap_or_default());
        set("finishedAt", node.finished_at.as_deref().unwrap_or_default());
        let Some(outputs) = &node.outputs else { return };
        if let Some(code) = &outputs.exit_code {
            set("exitCode", code);
        }
        if let Some(result) = &outputs.result {
            set("outputs.result", result);
        }
        for parameter in &outputs.parameters {
            if let Some(value) = &parameter.value {
                set(&format!("outputs.parameters.{}", parameter.name), &text_of(value));
            }
        }
    }

    /// Of a step that stood for many: lists, in the order of its items.
    fn publish_all(&self, prefix: &str, name: &str, group: &NodeStatus, scope: &mut Scope) {
        let start = format!("{name}(");
        let children = group.children.iter().filter_map(|child| self.status.nodes.get(child));
        let mut found: Vec<(usize, &NodeStatus)> = children
            .filter_map(|node| {
                let (number, _) = node.name.strip_prefix(&start)?.split_once(':')?;
                Some((number.parse().ok()?, node))
            })
            .collect();
        found.sort_by_key(|(at, _)| *at);
        if found.is_empty() || !found.iter().all(|(_, node)| is_fulfilled(node)) {
            return;
        }
        let outputs = || found.iter().filter_map(|(_, node)| node.outputs.as_ref());
        let results: Vec<Value> = outputs().filter_map(|one| one.result.as_deref()).map(read).collect();
        scope.set(format!("{prefix}.outputs.result"), json!(results).to_string());
        let each: Vec<Value> = outputs()
            .filter(|one| !one.parameters.is_empty())
            .map(|one| {
                one.parameters.iter().map(|one| (one.name.clone(), json!(value_of(one)))).collect::<Value>()
            })
            .collect();
        scope.set(format!("{prefix}.outputs.parameters"), json!(each).to_string());
        let mut names: Vec<&str> =
            outputs().flat_map(|one| &one.parameters).map(|one| one.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let all: Vec<Value> = outputs()
                .flat_map(|one| &one.parameters)
                .filter(|one| one.name == name)
                .map(|one| read(&value_of(one)))
                .collect();
            scope.set(format!("{prefix}.outputs.parameters.{name}"), json!(all).to_string());
        }
    }

    /// The outputs of steps or a graph, out of those of its children.
    pub(super) fn outputs_of_children(
        &mut self,
        template: &Template,
        scope: &Scope,
    ) -> Result<Option<Outputs>, String> {
        if template.outputs.parameters.is_empty() {
            return Ok(None);
        }
        let mut parameters = Vec::new();
        for wanted in &template.outputs.parameters {
            let from = wanted.value_from.clone().unwrap_or_default();
            let found = if from.expression.is_empty() {
                scope.fill_whole_text(&from.parameter, self.now)
            } else {
                scope.evaluate(&from.expression, self.now)
            };
            let value = match (found, &from.default) {
                (Ok(value), _) => value,
                (Err(_), Some(default)) => text_of(default),
                (Err(why), None) => return Err(format!("outputs.parameters.{}: {why}", wanted.name)),
            };
            let parameter = Parameter {
                name: wanted.name.clone(),
                global_name: wanted.global_name.clone(),
                value: Some(Value::String(value)),
                ..Parameter::default()
            };
            self.publish_globally(&parameter);
            parameters.push(parameter);
        }
        Ok(Some(Outputs { parameters, ..Outputs::default() }))
    }

    /// `globalName`: known everywhere from now on.
    pub(super) fn publish_globally(&mut self, parameter: &Parameter) {
        if parameter.global_name.is_empty() {
            return;
        }
        let Some(value) = &parameter.value else { return };
        let name = parameter.global_name.clone();
        self.globals.set(format!("workflow.outputs.parameters.{name}"), text_of(value));
        let outputs = self.status.outputs.get_or_insert_default();
        outputs.parameters.retain(|known| known.name != name);
        outputs.parameters.push(Parameter { name, value: Some(value.clone()), ..Parameter::default() });
    }
}

fn value_of(parameter: &Parameter) -> String {
    parameter.value.as_ref().map(text_of).unwrap_or_default()
}

/// What is JSON is taken as such in a list, anything else as text.
fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}
