//! Steps: groups that follow each other, members that run beside each other. What one of them names must have ended before.

use std::collections::BTreeSet;

use serde_json::Value;
use slipway_crd::workflow::{Step, Template};
use slipway_yaml::finding::Wrongs;

use super::scope::Scope;
use super::spec::{Around, Resolved};
use super::{arguments, names, template};
use crate::tags;

/// `scope` grows by what the steps leave.
pub(super) fn check(
    one: &Template,
    value: &Value,
    around: &Around<'_>,
    scope: &mut Scope,
    wrongs: &mut Wrongs<'_>,
) {
    let mut seen = BTreeSet::new();
    for (group_at, group) in one.steps.iter().flatten().enumerate() {
        let mut ended = Vec::new();
        for (at, step) in group.iter().enumerate() {
            let mut here = wrongs.below(&format!("steps.{group_at}.{at}"));
            check_name(&step.name, &mut seen, &mut here);
            for (field, there) in
                [("dependencies", !step.dependencies.is_empty()), ("depends", !step.depends.is_empty())]
            {
                if there {
                    here.add(field, "only tasks of a `dag` have it: steps wait for the group before them");
                }
            }
            let prefix = format!("steps.{}", step.name);
            let text = &value["steps"][group_at][at];
            ended.push((
                prefix.clone(),
                check_node(step, text, &prefix, around, scope, &mut here),
                is_expanded(step),
            ));
        }
        for (prefix, resolved, expanded) in &ended {
            scope.put_ended(resolved.template(), prefix, *expanded);
        }
    }
}

fn check_name<'a>(name: &'a str, seen: &mut BTreeSet<&'a str>, wrongs: &mut Wrongs<'_>) {
    if name.is_empty() {
        return wrongs.add("", "`name` is missing");
    }
    if let Some(message) = names::of_node(name) {
        wrongs.add("name", message);
    }
    if !seen.insert(name) {
        wrongs.add("name", format!("`{name}` is there twice"));
    }
}

pub(super) fn is_expanded(step: &Step) -> bool {
    step.with_items.is_some() || !step.with_param.is_empty() || step.with_sequence.is_some()
}

/// What steps and tasks share: the template, its arguments, the loop, hooks. Gives the template that it names.
pub(super) fn check_node<'a>(
    step: &Step,
    text: &Value,
    prefix: &str,
    around: &Around<'a>,
    scope: &Scope,
    wrongs: &mut Wrongs<'_>,
) -> Resolved<'a> {
    let resolved = around.resolve(&step.template, step.template_ref.as_ref(), step.inline.as_ref(), wrongs);
    check_loop(step, wrongs);
    arguments::check_names(&step.arguments, &mut wrongs.below("arguments"));
    arguments::check_values(&step.arguments, &mut wrongs.below("arguments"));
    if let Some(known) = resolved.template() {
        arguments::check_given(known, resolved.label(), &step.arguments, wrongs);
        arguments::check_heard(known, resolved.label(), &step.arguments, wrongs);
    }
    if let Resolved::Inline(inline) = &resolved {
        template::check(inline, &text["inline"], around, &mut wrongs.below("inline"));
    }
    let mut inside = scope.clone();
    inside.put_items(step);
    // A hook runs when its step has begun, or ended.
    let mut after = inside.clone();
    after.put_ended(resolved.template(), prefix, is_expanded(step));
    for (name, part) in text.as_object().into_iter().flatten() {
        match name.as_str() {
            // It has a scope of its own.
            "inline" => {}
            "hooks" | "onExit" => after.check(part, &mut wrongs.part(name)),
            "withItems" | "withParam" | "withSequence" => scope.check(part, &mut wrongs.part(name)),
            _ => inside.check(part, &mut wrongs.part(name)),
        }
    }
    for (name, hook) in &step.hooks {
        let mut here = wrongs.below("hooks");
        around.check_hook(name, hook, &mut here.part(name));
    }
    if !step.on_exit.is_empty() {
        let mut found = Vec::new();
        around.resolve(&step.on_exit, None, None, &mut Wrongs::new(&mut found));
        found.into_iter().for_each(|wrong| wrongs.add("onExit", wrong.message));
    }
    resolved
}

fn check_loop(step: &Step, wrongs: &mut Wrongs<'_>) {
    let there = [
        ("withItems", step.with_items.as_ref().is_some_and(|items| !items.is_empty())),
        ("withParam", !step.with_param.is_empty()),
        ("withSequence", step.with_sequence.is_some()),
    ];
    let named: Vec<&str> = there.into_iter().filter_map(|(name, there)| there.then_some(name)).collect();
    if named.len() > 1 {
        wrongs.add("", format!("{} are both there; choose one", named.join(" and ")));
    }
    if !step.with_param.is_empty() && !tags::is_open(&step.with_param) {
        match serde_json::from_str::<Value>(&step.with_param) {
            Ok(Value::Array(_)) => {}
            _ => wrongs.add("withParam", "a list in JSON, or `{{…}}` that becomes one"),
        }
    }
    let Some(sequence) = &step.with_sequence else { return };
    match (&sequence.count, &sequence.end) {
        (Some(_), Some(_)) => wrongs.add("withSequence", "`count` and `end` are both there; choose one"),
        (None, None) => wrongs.add("withSequence", "`count` or `end` is missing"),
        _ => {}
    }
    for (field, number) in [("count", &sequence.count), ("start", &sequence.start), ("end", &sequence.end)] {
        let Some(text) = number.as_ref().map(arguments::plain).filter(|text| !tags::is_open(text)) else {
            continue;
        };
        if text.parse::<i64>().is_err() {
            wrongs.add(&format!("withSequence.{field}"), format!("`{text}` is no whole number"));
        }
    }
}
