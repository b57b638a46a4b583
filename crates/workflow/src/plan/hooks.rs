//! What runs beside a node, or after it: `hooks`, and `onExit`.

use slipway_crd::workflow::{Arguments, LifecycleHook, NodeStatus, Step};

use super::Run;
use super::execute::{Asked, Call};
use super::nodes::{is_completed, is_fulfilled};
use crate::scope::Scope;

impl Run<'_> {
    /// Hooks of a step or task. True: one of them has not ended.
    pub(super) fn run_hooks(&mut self, step: &Step, node: &NodeStatus, inside: &Call, scope: &Scope) -> bool {
        if step.hooks.is_empty() && step.on_exit.is_empty() {
            return false;
        }
        let word = if node.name.contains('[') { "steps" } else { "tasks" };
        let mut scope = scope.clone();
        scope.set(format!("{word}.{}.status", step.name), node.phase.as_str());
        let mut waits = false;
        for (name, hook) in &step.hooks {
            waits |= if name == "exit" {
                self.run_exit_hook(hook, node, inside, &scope)
            } else {
                self.run_hook(name, hook, node, inside, &scope)
            };
        }
        if !step.on_exit.is_empty() && !step.hooks.contains_key("exit") {
            let hook = LifecycleHook { template: step.on_exit.clone(), ..LifecycleHook::default() };
            waits |= self.run_exit_hook(&hook, node, inside, &scope);
        }
        waits
    }

    /// After the node has ended, whatever its end was.
    fn run_exit_hook(
        &mut self,
        hook: &LifecycleHook,
        node: &NodeStatus,
        inside: &Call,
        scope: &Scope,
    ) -> bool {
        if !is_completed(node) {
            return false;
        }
        let call = Call { name: format!("{}.onExit", node.name), on_exit: true, ..inside.clone() };
        self.call_hook(&call, hook, &node.id, scope)
    }

    /// As soon as its expression holds.
    fn run_hook(
        &mut self,
        name: &str,
        hook: &LifecycleHook,
        node: &NodeStatus,
        inside: &Call,
        scope: &Scope,
    ) -> bool {
        let call = Call { name: format!("{}.hooks.{name}", node.name), ..inside.clone() };
        if self.node(&call.name).is_none() && !scope.holds(&hook.expression, self.now).unwrap_or(false) {
            return false;
        }
        self.call_hook(&call, hook, &node.id, scope)
    }

    fn call_hook(&mut self, call: &Call, hook: &LifecycleHook, of: &str, scope: &Scope) -> bool {
        let arguments = serde_json::to_value(&hook.arguments).unwrap_or_default();
        let arguments: Arguments = match scope.fill(&arguments, self.now) {
            Ok(value) => serde_json::from_value(value).unwrap_or_default(),
            Err(why) => {
                self.fail_node(call, &why);
                return false;
            }
        };
        let template =
            Asked { name: hook.template.clone(), reference: hook.template_ref.clone(), inline: None };
        let id = self.execute_child(&Call { template, arguments, hooked: true, ..call.clone() });
        let Some(id) = id else { return true };
        self.link(of, &id);
        !is_fulfilled(&self.status.nodes[&id])
    }

    /// Hooks of the whole workflow, except its exit. True: one has not ended.
    pub(super) fn run_workflow_hooks(&mut self) -> bool {
        let Some(root) = self.node_id_of(&self.name.clone()) else { return false };
        let root = self.status.nodes[&root].clone();
        let mut scope = self.globals.clone();
        scope.set("workflow.status", root.phase.as_str());
        let mut waits = false;
        for (name, hook) in self.spec.hooks.clone() {
            if name != "exit" {
                waits |= self.run_hook(&name, &hook, &root, &Call::default(), &scope);
            }
        }
        waits
    }
}
