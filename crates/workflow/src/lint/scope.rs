//! What `{{…}}` may name at a place, and what it names there that is not known.

use std::collections::BTreeSet;

use serde_json::Value;
use slipway_crd::workflow::Template;
use slipway_yaml::finding::Wrongs;

use crate::tags::{self, Tag};

/// Other beginnings belong to somebody else: a script may hold templates of its own.
const OURS: [&str; 7] = ["item.", "steps.", "tasks.", "inputs.", "outputs.", "pod.", "workflow."];

/// Names of the node itself, which nobody means who names another one.
pub(super) const SELF: [&str; 3] = ["pod.name", "steps.name", "tasks.name"];

/// How many names a hint has.
const HINTS: usize = 5;

#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    names: BTreeSet<String>,
    /// Whatever begins like this: what cannot be known before it runs.
    open: BTreeSet<String>,
}

impl Scope {
    pub(super) fn put(&mut self, name: impl Into<String>) {
        self.names.insert(name.into());
    }

    pub(super) fn open(&mut self, beginning: impl Into<String>) {
        self.open.insert(beginning.into());
    }

    fn knows(&self, name: &str) -> bool {
        self.names.contains(name) || self.open.iter().any(|beginning| name.starts_with(beginning.as_str()))
    }

    /// Names all tags below a value that mean nothing here.
    pub(super) fn check(&self, value: &Value, wrongs: &mut Wrongs<'_>) {
        tags::each(value, &mut |place, tag| self.check_tag(tag, &mut wrongs.place(place)));
    }

    pub(super) fn check_tag(&self, tag: Tag<'_>, wrongs: &mut Wrongs<'_>) {
        match tag {
            Tag::Open => wrongs.add("", "`{{` has no `}}`"),
            Tag::Expression("") => wrongs.add("", "the expression between `{{=` and `}}` is missing"),
            Tag::Expression(_) => {}
            Tag::Name("item") if !self.knows("item") => {
                wrongs.warn("", "`{{item}}` stays as it is: there is no `withItems`, `withParam` or `withSequence`, or its items are maps or lists");
            }
            Tag::Name(name) if OURS.iter().any(|ours| name.starts_with(ours)) && !self.knows(name) => {
                wrongs.add("", format!("`{{{{{name}}}}}` is not known here{}", self.hint(name)));
            }
            Tag::Name(_) => {}
        }
    }

    /// What begins alike.
    fn hint(&self, name: &str) -> String {
        let parts: Vec<&str> = name.split('.').collect();
        for length in (1..parts.len()).rev() {
            let beginning = format!("{}.", parts[..length].join("."));
            let alike: Vec<&str> = self
                .names
                .iter()
                .map(String::as_str)
                .filter(|known| known.starts_with(&beginning) && !SELF.contains(known))
                .take(HINTS)
                .collect();
            if !alike.is_empty() {
                return format!("; there is {}", alike.join(", "));
            }
        }
        String::new()
    }

    /// What a step or a task that has ended tells: `prefix` is `steps.NAME` or `tasks.NAME`.
    pub(super) fn put_ended(&mut self, template: Option<&Template>, prefix: &str, expanded: bool) {
        let Some(template) = template else { return self.open(format!("{prefix}.")) };
        for word in ["id", "status", "startedAt", "finishedAt", "hostNodeName"] {
            self.put(format!("{prefix}.{word}"));
        }
        if template.daemon == Some(true) {
            self.put(format!("{prefix}.ip"));
        }
        if has_result(template) {
            self.put(format!("{prefix}.outputs.result"));
            self.put(format!("{prefix}.exitCode"));
        }
        if expanded {
            self.put(format!("{prefix}.outputs.parameters"));
        }
        for parameter in &template.outputs.parameters {
            self.put(format!("{prefix}.outputs.parameters.{}", parameter.name));
        }
        for artifact in &template.outputs.artifacts {
            self.put(format!("{prefix}.outputs.artifacts.{}", artifact.name));
        }
        if let Some(set) = &template.container_set {
            // Its containers are nodes of their own.
            for name in set.containers.iter().filter_map(|container| container["name"].as_str()) {
                self.put(format!("{prefix}.{name}.outputs.result"));
            }
        }
    }

    /// `item` of a loop.
    pub(super) fn put_items(&mut self, step: &slipway_crd::workflow::Step) {
        if !step.with_param.is_empty() {
            self.put("item");
            self.open("item.");
        }
        if step.with_sequence.is_some() {
            self.put("item");
        }
        for item in step.with_items.iter().flatten() {
            match item {
                // The whole of it can be named as well: it is written as JSON.
                Value::Object(fields) => fields.keys().for_each(|key| self.put(format!("item.{key}"))),
                Value::Array(items) => (0..items.len()).for_each(|at| self.put(format!("item.[{at}]"))),
                // A list that is one tag is known later.
                Value::String(text) if tags::is_open(text) => self.open("item."),
                _ => {}
            }
            self.put("item");
        }
    }
}

/// What it prints or answers can be named.
fn has_result(template: &Template) -> bool {
    let main = |set: &slipway_crd::workflow::ContainerSet| {
        set.containers.iter().any(|container| container["name"] == "main")
    };
    template.container.is_some()
        || template.script.is_some()
        || template.data.is_some()
        || template.http.is_some()
        || template.plugin.is_some()
        || template.container_set.as_ref().is_some_and(main)
}
