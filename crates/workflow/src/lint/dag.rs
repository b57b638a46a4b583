//! A graph of tasks: what waits for what, and that nothing waits for itself.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use slipway_crd::workflow::{Dag, Step};
use slipway_yaml::finding::Wrongs;

use super::names;
use super::scope::Scope;
use super::spec::Around;
use super::steps::{check_node, is_expanded};
use crate::depends::Depends;
use crate::tags::{self, Tag};

/// `scope` grows by what the tasks leave.
pub(super) fn check(
    dag: &Dag,
    value: &Value,
    around: &Around<'_>,
    scope: &mut Scope,
    wrongs: &mut Wrongs<'_>,
) {
    if dag.tasks.is_empty() {
        return wrongs.add("", "`tasks` is missing");
    }
    names::check(dag.tasks.iter().map(|task| task.name.as_str()), names::of_node, &mut wrongs.below("tasks"));
    let graph = edges(dag, wrongs);
    let circular = cycle(&graph);
    if let Some(cycle) = &circular {
        wrongs.add("tasks", format!("they wait for each other: {}", cycle.join(" → ")));
    }
    check_targets(dag, scope, wrongs);
    let mut nothing = Vec::new();
    let known: BTreeMap<&str, _> = dag
        .tasks
        .iter()
        .map(|task| {
            let mut quiet = Wrongs::new(&mut nothing);
            let found =
                around.resolve(&task.template, task.template_ref.as_ref(), task.inline.as_ref(), &mut quiet);
            (task.name.as_str(), (found, is_expanded(task)))
        })
        .collect();
    for (at, task) in dag.tasks.iter().enumerate() {
        let mut here = wrongs.below(&format!("tasks.{at}"));
        let text = &value["tasks"][at];
        let mut inside = scope.clone();
        let named = named_tasks(text, &graph);
        // Only of those that it names: a long chain has as many ancestors as tasks.
        let before = if named.is_empty() { BTreeSet::new() } else { ancestors(&graph, &task.name) };
        for name in named.iter().filter(|name| before.contains(**name)) {
            if let Some((resolved, expanded)) = known.get(*name) {
                inside.put_ended(resolved.template(), &format!("tasks.{name}"), *expanded);
            }
        }
        // In a circle everything waits for everything; that has been said.
        if circular.is_none() {
            check_waits(task, text, &before, &graph, &mut inside, &mut here);
        }
        check_node(task, text, &format!("tasks.{}", task.name), around, &inside, &mut here);
    }
    for (name, (resolved, expanded)) in &known {
        scope.put_ended(resolved.template(), &format!("tasks.{name}"), *expanded);
    }
}

/// Which tasks each waits for; says what of that is wrong.
fn edges(dag: &Dag, wrongs: &mut Wrongs<'_>) -> BTreeMap<String, Vec<String>> {
    let names: BTreeSet<&str> = dag.tasks.iter().map(|task| task.name.as_str()).collect();
    let expanded: BTreeSet<&str> =
        dag.tasks.iter().filter(|task| is_expanded(task)).map(|task| task.name.as_str()).collect();
    let by_condition = dag.tasks.iter().any(|task| !task.depends.is_empty());
    let waits = by_condition || dag.tasks.iter().any(|task| !task.dependencies.is_empty());
    let mut graph = BTreeMap::new();
    for (at, task) in dag.tasks.iter().enumerate() {
        let mut here = wrongs.below(&format!("tasks.{at}"));
        if by_condition && !task.dependencies.is_empty() {
            here.add("dependencies", "a graph has `depends` or `dependencies`, not both");
        }
        if by_condition && task.continue_on.is_some() {
            here.add("continueOn", "with `depends` say what may fail there: `a.Succeeded || a.Failed`");
        }
        if waits && task.name.starts_with(|letter: char| letter.is_ascii_digit()) {
            here.add(
                "name",
                "the name of a task does not begin with a digit where tasks wait for each other",
            );
        }
        let mut after: Vec<String> = task.dependencies.clone();
        let mut field = "dependencies";
        if !task.depends.is_empty() {
            field = "depends";
            match Depends::parse(&task.depends) {
                Ok(depends) => {
                    for (name, ending) in depends.tasks() {
                        if ending.is_some_and(|ending| ending.is_about_items())
                            && names.contains(name)
                            && !expanded.contains(name)
                        {
                            here.add(
                                field,
                                format!("`{name}` has no items: AnySucceeded and AllFailed are about loops"),
                            );
                        }
                        after.push(name.to_owned());
                    }
                }
                Err(error) => here.add(field, format!("it cannot be read: {error}")),
            }
        }
        for name in after.iter().filter(|name| !names.contains(name.as_str()) && !tags::is_open(name)) {
            here.add(field, format!("there is no task `{name}`"));
        }
        after.retain(|name| names.contains(name.as_str()));
        graph.insert(task.name.clone(), after);
    }
    graph
}

fn check_targets(dag: &Dag, scope: &Scope, wrongs: &mut Wrongs<'_>) {
    tags::in_text(&dag.target, &mut |tag| scope.check_tag(tag, &mut wrongs.below("target")));
    for name in dag.target.split_whitespace().filter(|name| !name.contains("{{") && !name.contains("}}")) {
        if !dag.tasks.iter().any(|task| task.name == name) {
            wrongs.add("target", format!("there is no task `{name}`"));
        }
    }
}

/// A task names what another one leaves, and does not wait for it: said once, here, and not again as an unknown name.
fn check_waits(
    task: &Step,
    text: &Value,
    before: &BTreeSet<String>,
    graph: &BTreeMap<String, Vec<String>>,
    inside: &mut Scope,
    wrongs: &mut Wrongs<'_>,
) {
    let mut missed = BTreeSet::new();
    let parts = text
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| !matches!(name.as_str(), "hooks" | "onExit" | "inline"));
    for (name, part) in parts {
        tags::each(part, &mut |place, tag| {
            let Tag::Name(tag) = tag else { return };
            let Some(other) = tag.strip_prefix("tasks.").and_then(|rest| rest.split('.').next()) else {
                return;
            };
            if other != task.name && graph.contains_key(other) && !before.contains(other) && tag.contains('.')
            {
                let mut here = wrongs.part(name);
                here.place(place)
                    .add("", format!("`{{{{{tag}}}}}`: `{}` does not wait for `{other}`", task.name));
                missed.insert(format!("tasks.{other}."));
            }
        });
    }
    missed.into_iter().for_each(|beginning| inside.open(beginning));
}

/// The tasks of the graph whose outcome it names.
fn named_tasks<'a>(text: &Value, graph: &'a BTreeMap<String, Vec<String>>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    tags::each(text, &mut |_, tag| {
        let Tag::Name(tag) = tag else { return };
        let name = tag.strip_prefix("tasks.").and_then(|rest| rest.split('.').next());
        found.extend(name.and_then(|name| graph.get_key_value(name)).map(|(name, _)| name.as_str()));
    });
    found
}

/// Every task that has ended before this one begins.
fn ancestors(graph: &BTreeMap<String, Vec<String>>, name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&String> = graph.get(name).into_iter().flatten().collect();
    while let Some(name) = next.pop() {
        if found.insert(name.clone()) {
            next.extend(graph.get(name).into_iter().flatten());
        }
    }
    found
}

/// Names that wait for each other, the first one again at the end.
pub(crate) fn cycle(graph: &BTreeMap<String, Vec<String>>) -> Option<Vec<String>> {
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for start in graph.keys().map(String::as_str) {
        // A stack of our own: a chain may be as long as a graph has tasks.
        let mut path: Vec<(&str, usize)> = vec![(start, 0)];
        let mut on_path = BTreeSet::from([start]);
        while let Some((name, at)) = path.last().copied() {
            if done.contains(name) {
                on_path.remove(name);
                path.pop();
                continue;
            }
            let Some(next) = graph.get(name).and_then(|after| after.get(at)) else {
                done.insert(name);
                on_path.remove(name);
                path.pop();
                continue;
            };
            if let Some(last) = path.last_mut() {
                last.1 += 1;
            }
            if on_path.contains(next.as_str()) {
                let from = path.iter().position(|(seen, _)| seen == next).unwrap_or_default();
                let names = path[from..].iter().map(|(name, _)| (*name).to_owned());
                return Some(names.chain([next.clone()]).collect());
            }
            on_path.insert(next);
            path.push((next, 0));
        }
    }
    None
}
