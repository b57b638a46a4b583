//! Groups of steps, one after the other; the steps of a group side by side.

use slipway_crd::workflow::{Step, Template};

use super::execute::{Asked, Call};
use super::library::TemplateKey;
use super::nodes::{Fresh, has_failed, is_fulfilled};
use super::{Halt, Run};
use crate::scope::Scope;

impl Run<'_> {
    pub(super) fn execute_steps(
        &mut self,
        call: &Call,
        template: &Template,
        home: &Option<TemplateKey>,
        scope: &Scope,
    ) -> Result<String, Halt> {
        let id = self.make_node(call, &Fresh { kind: "Steps", phase: "Running", message: "" });
        let mut scope = scope.clone();
        scope.set("steps.name", call.name.as_str());
        let groups = template.steps.as_deref().unwrap_or_default();
        let mut before: Option<String> = None;
        for (at, group) in groups.iter().enumerate() {
            let inside = Call {
                boundary: id.clone(),
                home: home.clone(),
                scope: call.scope.clone(),
                on_exit: call.on_exit,
                ..Call::default()
            };
            let name = format!("{}[{at}]", call.name);
            let group_id =
                self.begin_group(&Call { name: name.clone(), ..inside.clone() }, &id, before.as_deref());
            self.execute_group(&name, group, template, &inside, &scope)?;
            let node = &self.status.nodes[&group_id];
            if !is_fulfilled(node) {
                return Ok(id);
            }
            if has_failed(node) {
                let message = node.message.clone();
                self.close_steps(&call.name, &group_id);
                self.stop_daemons(&id);
                self.mark(&call.name, "Failed", &message);
                return Ok(id);
            }
            for step in group {
                self.publish("steps", &name, step, &mut scope);
            }
            before = Some(group_id);
        }
        if let Some(last) = before {
            self.close_steps(&call.name, &last);
        }
        self.stop_daemons(&id);
        match self.outputs_of_children(template, &scope) {
            Ok(outputs) => {
                if let Some(node) = self.status.nodes.get_mut(&id) {
                    node.outputs = outputs;
                }
                self.mark(&call.name, "Succeeded", "");
            }
            Err(why) => self.mark(&call.name, "Error", &why),
        }
        Ok(id)
    }

    /// A group follows whatever was last in the one before.
    fn begin_group(&mut self, call: &Call, steps: &str, before: Option<&str>) -> String {
        if let Some(id) = self.node_id_of(&call.name) {
            return id;
        }
        let id = self.make_node(call, &Fresh { kind: "StepGroup", phase: "Running", message: "" });
        match before {
            None => self.link(steps, &id),
            Some(before) => {
                let children =
                    self.status.nodes.get(before).map(|node| node.children.clone()).unwrap_or_default();
                let mut ends: Vec<String> = children.iter().flat_map(|child| self.outbound(child)).collect();
                if ends.is_empty() {
                    ends.push(before.to_owned());
                }
                for end in ends {
                    self.link(&end, &id);
                }
            }
        }
        id
    }

    fn close_steps(&mut self, name: &str, last_group: &str) {
        let children =
            self.status.nodes.get(last_group).map(|node| node.children.clone()).unwrap_or_default();
        let outbound: Vec<String> = children.iter().flat_map(|child| self.outbound(child)).collect();
        if let Some(node) = self.node_mut(name) {
            node.outbound_nodes = outbound;
        }
    }

    fn execute_group(
        &mut self,
        group: &str,
        steps: &[Step],
        template: &Template,
        inside: &Call,
        scope: &Scope,
    ) -> Result<(), Halt> {
        if self.node(group).is_some_and(is_fulfilled) {
            return Ok(());
        }
        let Some(group_id) = self.node_id_of(group) else { return Ok(()) };
        let (mut waits, mut failed) = (false, None);
        for step in steps {
            let children = self.execute_step(group, step, template, inside, scope);
            for child in children {
                let Some(child) = child else {
                    waits = true;
                    continue;
                };
                self.link(&group_id, &child);
                let node = self.status.nodes[&child].clone();
                let hooks_wait = self.run_hooks(step, &node, inside, scope);
                if !is_fulfilled(&node) || hooks_wait {
                    waits = true;
                } else if has_failed(&node) && !goes_on(step, &node.phase) {
                    failed.get_or_insert(child);
                }
            }
        }
        if waits {
            return Ok(());
        }
        match failed {
            Some(child) => self.mark(group, "Failed", &format!("child '{child}' failed")),
            None => self.mark(group, "Succeeded", ""),
        }
        Ok(())
    }

    /// Gives the nodes of a step; `None` for one that has to wait for its turn.
    fn execute_step(
        &mut self,
        group: &str,
        step: &Step,
        template: &Template,
        inside: &Call,
        scope: &Scope,
    ) -> Vec<Option<String>> {
        let call = Call { name: format!("{group}.{}", step.name), template: asked(step), ..inside.clone() };
        match super::expand::expand(step, scope, self.now) {
            Err(why) => {
                self.fail_node(&call, &why);
                vec![self.node_id_of(&call.name)]
            }
            Ok(None) => vec![self.execute_one(&call, step, template, scope)],
            Ok(Some(items)) if items.is_empty() => {
                vec![Some(self.skip(&call, "Skipped", "Skipped, empty params"))]
            }
            Ok(Some(items)) => items
                .iter()
                .map(|item| {
                    let mut scope = scope.clone();
                    scope.extend(&item.scope);
                    let call = Call { name: format!("{group}.{}", item.name), ..call.clone() };
                    self.execute_one(&call, step, template, &scope)
                })
                .collect(),
        }
    }

    /// One step or task with its values, if its condition holds.
    pub(super) fn execute_one(
        &mut self,
        call: &Call,
        step: &Step,
        template: &Template,
        scope: &Scope,
    ) -> Option<String> {
        if !self.has_room() {
            return None;
        }
        if self.node(&call.name).is_none() {
            if template.fail_fast == Some(true)
                && template.parallelism.is_some()
                && self
                    .status
                    .nodes
                    .values()
                    .any(|node| node.boundary_id == call.boundary && has_failed(node))
            {
                return Some(self.skip(
                    call,
                    "Skipped",
                    "template has failed or errored children and failFast enabled",
                ));
            }
            if !self.may_begin(&call.boundary, template.parallelism, &call.name) {
                return None;
            }
            if !step.when.is_empty() {
                match crate::when::holds(&step.when, scope, self.now) {
                    Ok(true) => {}
                    Ok(false) => {
                        let shown =
                            scope.fill_text(&step.when, self.now).unwrap_or_else(|_| step.when.clone());
                        let message = format!("when '{shown}' evaluated false");
                        return Some(self.skip(call, "Skipped", &message));
                    }
                    Err(why) => {
                        self.fail_node(call, &format!("cannot read `when: {}`: {why}", step.when));
                        return self.node_id_of(&call.name);
                    }
                }
            }
        }
        let arguments = serde_json::to_value(&step.arguments).unwrap_or_default();
        let filled = scope.fill_known(&arguments, self.now);
        let arguments = filled.and_then(|(value, unknown)| match unknown.iter().find(|tag| is_needed(tag)) {
            Some(tag) => Err(format!("failed to resolve {tag}")),
            None => serde_json::from_value(value).map_err(|error| error.to_string()),
        });
        let reference = serde_json::to_value(&call.template.reference).unwrap_or_default();
        let reference = scope
            .fill(&reference, self.now)
            .and_then(|value| serde_json::from_value(value).map_err(|error| error.to_string()));
        let name = scope.fill_text(&call.template.name, self.now);
        match (arguments, reference, name) {
            (Ok(arguments), Ok(reference), Ok(name)) => {
                let template = Asked { name, reference, ..call.template.clone() };
                let result_is_read = self.is_read(&step.name);
                self.execute_child(&Call { arguments, template, result_is_read, ..call.clone() })
            }
            (Err(why), _, _) | (_, Err(why), _) | (_, _, Err(why)) => {
                self.fail_node(call, &why);
                self.node_id_of(&call.name)
            }
        }
    }
}

pub(super) fn asked(step: &Step) -> Asked {
    Asked { name: step.template.clone(), reference: step.template_ref.clone(), inline: step.inline.clone() }
}

/// What stands after it goes on although it ended like this.
pub(super) fn goes_on(step: &Step, phase: &str) -> bool {
    step.continue_on.as_ref().is_some_and(|on| match phase {
        "Failed" => on.failed,
        "Error" => on.error,
        _ => false,
    })
}

/// A tag that has to be known where a step begins: nobody knows it later.
fn is_needed(tag: &str) -> bool {
    let name = tag.trim_start_matches('{').trim_start();
    ["steps.", "tasks.", "inputs.parameters.", "item"].iter().any(|start| name.starts_with(start))
}
