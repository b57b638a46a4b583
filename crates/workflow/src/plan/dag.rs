//! Tasks that depend on each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use slipway_crd::workflow::{Dag, Step, Template};

use super::execute::Call;
use super::library::TemplateKey;
use super::nodes::{Fresh, has_failed, is_completed, is_fulfilled};
use super::steps::{asked, goes_on};
use super::{Halt, Run};
use crate::depends::{Depends, Ending};
use crate::identity::node_id;
use crate::scope::Scope;

/// One graph while it is looked at.
struct Graph<'a> {
    template: &'a Template,
    dag: &'a Dag,
    /// With its values.
    target: &'a str,
    tasks: BTreeMap<&'a str, &'a Step>,
    /// What each task waits for.
    waits: BTreeMap<&'a str, Option<Depends>>,
    inside: Call,
    /// The name of the node of the graph.
    name: &'a str,
    id: &'a str,
}

impl<'a> Graph<'a> {
    fn node_name(&self, task: &str) -> String {
        format!("{}.{task}", self.name)
    }

    fn before(&self, task: &str) -> Vec<&str> {
        let waits = self.waits.get(task).and_then(Option::as_ref);
        let mut names: Vec<&str> =
            waits.map(Depends::tasks).unwrap_or_default().into_iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn targets(&self) -> Vec<&'a str> {
        let named: Vec<&str> = self.target.split_whitespace().collect();
        if !named.is_empty() {
            return named
                .into_iter()
                .filter_map(|name| self.tasks.get(name).map(|task| task.name.as_str()))
                .collect();
        }
        let waited: BTreeSet<&str> = self.tasks.keys().flat_map(|task| self.before(task)).collect();
        let last = self.dag.tasks.iter().map(|task| task.name.as_str());
        last.filter(|name| !waited.contains(name)).collect()
    }
}

/// `depends`, or `dependencies` in the same words: what may be gone on after is the task's own business.
fn waits_for(task: &Step, tasks: &BTreeMap<&str, &Step>) -> Result<Option<Depends>, String> {
    if !task.depends.is_empty() {
        return Depends::parse(&task.depends)
            .map(Some)
            .map_err(|why| format!("depends of `{}` cannot be read: {why}", task.name));
    }
    let one = |name: &String| {
        let mut ways = vec![Ending::Succeeded, Ending::Skipped, Ending::Daemoned];
        if let Some(on) = tasks.get(name.as_str()).and_then(|task| task.continue_on.as_ref()) {
            ways.extend(on.failed.then_some(Ending::Failed));
            ways.extend(on.error.then_some(Ending::Errored));
        }
        Depends::Any(ways.into_iter().map(|way| Depends::Task(name.clone(), Some(way))).collect())
    };
    let all: Vec<Depends> = task.dependencies.iter().map(one).collect();
    Ok((!all.is_empty()).then_some(Depends::All(all)))
}

/// A graph that could never end, or would end without having run: who submits it may not have linted it.
fn check(target: &str, waits: &BTreeMap<&str, Option<Depends>>) -> Result<(), String> {
    let mut graph = BTreeMap::new();
    for (task, depends) in waits {
        let tasks = depends.as_ref().map(Depends::tasks).unwrap_or_default();
        let names: Vec<String> = tasks.into_iter().map(|(name, _)| name.to_owned()).collect();
        if let Some(unknown) = names.iter().find(|name| !waits.contains_key(name.as_str())) {
            return Err(format!("`{task}` waits for the task `{unknown}`, which is not there"));
        }
        graph.insert((*task).to_owned(), names);
    }
    if let Some(unknown) = target.split_whitespace().find(|name| !waits.contains_key(name)) {
        return Err(format!("the target `{unknown}` is no task"));
    }
    match crate::lint::cycle(&graph) {
        Some(names) => Err(format!("tasks wait for each other: {}", names.join(" -> "))),
        None => Ok(()),
    }
}

impl Run<'_> {
    pub(super) fn execute_dag(
        &mut self,
        call: &Call,
        template: &Template,
        home: &Option<TemplateKey>,
        scope: &Scope,
    ) -> Result<String, Halt> {
        let id = self.make_node(call, &Fresh { kind: "DAG", phase: "Running", message: "" });
        let Some(dag) = &template.dag else { return Ok(id) };
        let tasks: BTreeMap<&str, &Step> = dag.tasks.iter().map(|task| (task.name.as_str(), task)).collect();
        let mut waits = BTreeMap::new();
        for task in &dag.tasks {
            waits.insert(task.name.as_str(), waits_for(task, &tasks)?);
        }
        let target = scope.fill_text(&dag.target, self.now)?;
        check(&target, &waits)?;
        let inside = Call {
            boundary: id.clone(),
            home: home.clone(),
            scope: call.scope.clone(),
            on_exit: call.on_exit,
            ..Call::default()
        };
        let graph = Graph { template, dag, target: &target, tasks, waits, inside, name: &call.name, id: &id };
        let mut scope = scope.clone();
        scope.set("tasks.name", call.name.as_str());
        let targets = graph.targets();
        let hooks_wait = self.execute_tasks(&graph, &targets, &scope);
        let phase = self.phase_of_dag(&graph, &targets);
        if phase == "Running" || hooks_wait {
            return Ok(id);
        }
        let outbound: Vec<String> = targets
            .iter()
            .filter_map(|task| self.node_id_of(&graph.node_name(task)))
            .flat_map(|node| self.outbound(&node))
            .collect();
        if let Some(node) = self.status.nodes.get_mut(&id) {
            node.outbound_nodes = outbound;
        }
        self.stop_daemons(&id);
        if phase != "Succeeded" {
            self.mark(&call.name, phase, "");
            return Ok(id);
        }
        if !template.outputs.parameters.is_empty() {
            for task in &dag.tasks {
                self.publish("tasks", &call.name, task, &mut scope);
            }
        }
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

    /// Those that a task waits for go before it. True: a hook of one of them has not ended. With a stack of our own: a chain may be as long as the
    /// graph has tasks.
    fn execute_tasks(&mut self, graph: &Graph<'_>, targets: &[&str], scope: &Scope) -> bool {
        // Whether hooks of a task, or of one before it, have not ended; `None`: it is on its way.
        let mut known: BTreeMap<String, Option<bool>> = BTreeMap::new();
        for target in targets {
            let mut path = vec![((*target).to_owned(), false)];
            while let Some((name, is_ready)) = path.pop() {
                let before: Vec<String> = graph.before(&name).into_iter().map(str::to_owned).collect();
                if is_ready {
                    let hooks_wait = before.iter().any(|one| known.get(one) == Some(&Some(true)));
                    let hooks_wait = self.execute_task(graph, &name, &before, hooks_wait, scope);
                    known.insert(name, Some(hooks_wait));
                } else if !known.contains_key(&name) {
                    known.insert(name.clone(), None);
                    path.push((name, true));
                    path.extend(before.into_iter().rev().map(|one| (one, false)));
                }
            }
        }
        known.values().any(|waits| *waits == Some(true))
    }

    fn execute_task(
        &mut self,
        graph: &Graph<'_>,
        name: &str,
        before: &[String],
        mut hooks_wait: bool,
        scope: &Scope,
    ) -> bool {
        let Some(task) = graph.tasks.get(name).copied() else { return false };
        let call = Call { name: graph.node_name(name), template: asked(task), ..graph.inside.clone() };
        if !self.node(&call.name).is_some_and(is_fulfilled) {
            if hooks_wait && self.node(&call.name).is_none() {
                return true;
            }
            let scope = self.scope_of(graph, task, scope);
            self.begin_task(graph, task, &call, before, &scope);
        }
        if (!task.hooks.is_empty() || !task.on_exit.is_empty())
            && let Some(node) = self.node(&call.name).cloned()
        {
            let scope = self.scope_of(graph, task, scope);
            hooks_wait |= self.run_hooks(task, &node, &graph.inside, &scope);
        }
        hooks_wait
    }

    /// With what the task asks of others: a graph may have thousands of them.
    fn scope_of(&self, graph: &Graph<'_>, task: &Step, scope: &Scope) -> Scope {
        let mut scope = scope.clone();
        let text = serde_json::to_string(task).unwrap_or_default();
        for (name, other) in named_in(&text).into_iter().filter_map(|name| graph.tasks.get_key_value(name)) {
            if *name != task.name || !task.hooks.is_empty() {
                self.publish("tasks", graph.name, other, &mut scope);
            }
        }
        scope
    }

    fn begin_task(&mut self, graph: &Graph<'_>, task: &Step, call: &Call, before: &[String], scope: &Scope) {
        let ended = |one: &String| self.node(&graph.node_name(one)).is_some_and(is_fulfilled);
        if !before.iter().all(ended) {
            return;
        }
        let is_new = self.node(&call.name).is_none();
        if is_new
            && let Some(Some(waits)) = graph.waits.get(task.name.as_str())
            && !waits.holds(&|name, ending| self.ended_like(graph, name, ending))
        {
            self.skip(call, "Omitted", "omitted: depends condition not met");
            self.link_task(graph, &call.name, before);
            return;
        }
        match super::expand::expand(task, scope, self.now) {
            Err(why) => self.fail_node(call, &why),
            Ok(None) => {
                self.execute_one(call, task, graph.template, scope);
            }
            Ok(Some(items)) if items.is_empty() => {
                self.skip(call, "Skipped", "Skipped, empty params");
            }
            Ok(Some(items)) => {
                self.make_node(call, &Fresh { kind: "TaskGroup", phase: "Running", message: "" });
                self.link_task(graph, &call.name, before);
                self.execute_items(graph, task, call, &items, scope);
            }
        }
        if is_new {
            self.link_task(graph, &call.name, before);
        }
    }

    fn execute_items(
        &mut self,
        graph: &Graph<'_>,
        task: &Step,
        group: &Call,
        items: &[super::expand::Item],
        scope: &Scope,
    ) {
        let group_id = node_id(&self.name, &group.name);
        let (mut waits, mut phase) = (false, "Succeeded".to_owned());
        for item in items {
            let mut scope = scope.clone();
            scope.extend(&item.scope);
            let call = Call { name: graph.node_name(&item.name), ..group.clone() };
            let Some(child) = self.execute_one(&call, task, graph.template, &scope) else {
                waits = true;
                continue;
            };
            self.link(&group_id, &child);
            let node = &self.status.nodes[&child];
            waits |= !is_fulfilled(node);
            if has_failed(node) {
                phase.clone_from(&node.phase);
            }
        }
        if !waits {
            self.mark(&group.name, &phase, "");
        }
    }

    fn link_task(&mut self, graph: &Graph<'_>, name: &str, before: &[String]) {
        let Some(id) = self.node_id_of(name) else { return };
        if before.is_empty() {
            self.link(graph.id, &id);
            return;
        }
        for one in before {
            let Some(one) = self.node_id_of(&graph.node_name(one)) else { continue };
            for end in self.outbound(&one) {
                self.link(&end, &id);
            }
        }
    }

    fn ended_like(&self, graph: &Graph<'_>, task: &str, ending: Ending) -> bool {
        let Some(node) = self.node(&graph.node_name(task)) else { return false };
        let children = || node.children.iter().filter_map(|child| self.status.nodes.get(child));
        match ending {
            Ending::Succeeded => node.phase == "Succeeded",
            Ending::Failed => node.phase == "Failed",
            Ending::Errored => node.phase == "Error",
            Ending::Skipped => node.phase == "Skipped",
            Ending::Omitted => node.phase == "Omitted",
            Ending::Daemoned => node.daemoned == Some(true) && node.phase != "Pending",
            Ending::AnySucceeded if node.r#type == "TaskGroup" => {
                children().any(|child| child.phase == "Succeeded")
            }
            Ending::AllFailed if node.r#type == "TaskGroup" => {
                children().all(|child| child.phase == "Failed")
            }
            Ending::AnySucceeded => node.phase == "Succeeded",
            Ending::AllFailed => node.phase == "Failed",
        }
    }

    /// The worst of the ways to the targets; what was passed over inherits from what was before it.
    fn phase_of_dag(&self, graph: &Graph<'_>, targets: &[&str]) -> &'static str {
        let mut reached: BTreeMap<String, Option<&'static str>> =
            targets.iter().map(|task| (node_id(&self.name, &graph.node_name(task)), None)).collect();
        let mut queue: VecDeque<(String, &'static str)> = VecDeque::new();
        let mut seen = BTreeSet::new();
        let begin = self.status.nodes.get(graph.id).map(|node| node.children.clone()).unwrap_or_default();
        queue.extend(begin.into_iter().map(|child| (child, "Succeeded")));
        while let Some((id, inherited)) = queue.pop_front() {
            if !seen.insert((id.clone(), inherited)) {
                continue;
            }
            let Some(node) = self.status.nodes.get(&id) else { continue };
            if !is_fulfilled(node) {
                return "Running";
            }
            let phase = if is_completed(node) { of(&node.phase) } else { inherited };
            let task = node.name.strip_prefix(graph.name).and_then(|rest| rest.strip_prefix('.'));
            let task = task.and_then(|task| graph.tasks.get(task));
            let excused = task.is_some_and(|task| goes_on(task, &node.phase));
            let phase = if excused { "Succeeded" } else { phase };
            if let Some(known) = reached.get_mut(&id) {
                if known.is_none_or(|known| known == "Succeeded") {
                    *known = Some(phase);
                }
                continue;
            }
            // What a template leaves inside is behind its own node.
            let next = if matches!(node.r#type.as_str(), "Pod" | "Skipped" | "Suspend" | "HTTP") {
                node.children.clone()
            } else {
                self.outbound(&id)
                    .iter()
                    .filter_map(|end| self.status.nodes.get(end))
                    .flat_map(|end| end.children.iter().cloned())
                    .collect()
            };
            queue.extend(next.into_iter().map(|child| (child, phase)));
        }
        let fail_fast = graph.dag.fail_fast.unwrap_or(true);
        let mut result = "Succeeded";
        for phase in reached.values() {
            match phase {
                None => {
                    result = "Running";
                    if !fail_fast {
                        break;
                    }
                }
                Some(phase @ ("Failed" | "Error")) => {
                    result = phase;
                    if fail_fast {
                        break;
                    }
                }
                Some(_) => {}
            }
        }
        result
    }
}

/// `tasks.NAME` and `tasks['NAME']`.
fn named_in(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for (at, word) in text.match_indices("tasks") {
        let rest = &text[at + word.len()..];
        let rest =
            rest.strip_prefix('.').or_else(|| rest.strip_prefix("['")).or_else(|| rest.strip_prefix("[\\\""));
        let Some(rest) = rest else { continue };
        let end =
            rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-' || letter == '_'));
        found.insert(&rest[..end.unwrap_or(rest.len())]);
    }
    found
}

fn of(phase: &str) -> &'static str {
    match phase {
        "Failed" => "Failed",
        "Error" => "Error",
        _ => "Succeeded",
    }
}
