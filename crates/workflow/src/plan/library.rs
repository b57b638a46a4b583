//! Templates of other objects, and what a Workflow is with the one that it is made of.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use slipway_crd::workflow::{Arguments, Parameter, Step, Template, Workflow, WorkflowSpec};

/// A WorkflowTemplate, or a ClusterWorkflowTemplate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TemplateKey {
    pub cluster: bool,
    pub name: String,
}

impl TemplateKey {
    pub fn new(cluster: bool, name: &str) -> Self {
        Self { cluster, name: name.to_owned() }
    }

    /// As nodes and stored templates name it.
    pub fn scope(&self) -> String {
        format!("{}/{}", if self.cluster { "cluster" } else { "namespaced" }, self.name)
    }
}

/// The objects that were found.
#[derive(Debug, Clone, Default)]
pub struct Library {
    pub specs: BTreeMap<TemplateKey, WorkflowSpec>,
}

impl Library {
    pub fn add(&mut self, cluster: bool, name: &str, spec: WorkflowSpec) {
        self.specs.insert(TemplateKey::new(cluster, name), spec);
    }

    /// Which objects a spec names, directly; those name others.
    pub fn named_by(spec: &WorkflowSpec) -> BTreeSet<TemplateKey> {
        let mut found = BTreeSet::new();
        if let Some(whole) = &spec.workflow_template_ref {
            found.insert(TemplateKey::new(whole.cluster_scope, &whole.name));
        }
        let hooks = spec.hooks.values().filter_map(|hook| hook.template_ref.as_ref());
        let mut references: Vec<_> = hooks.cloned().collect();
        for template in &spec.templates {
            each_step(template, &mut |step| {
                references.extend(step.template_ref.clone());
                references.extend(step.hooks.values().filter_map(|hook| hook.template_ref.clone()));
            });
        }
        found.extend(references.iter().map(|one| TemplateKey::new(one.cluster_scope, &one.name)));
        found
    }
}

/// Steps and tasks, those of inline templates too.
pub(super) fn each_step(template: &Template, visit: &mut dyn FnMut(&Step)) {
    let steps = template.steps.iter().flatten().flatten();
    let tasks = template.dag.iter().flat_map(|dag| &dag.tasks);
    for step in steps.chain(tasks) {
        visit(step);
        if let Some(inline) = &step.inline
            && let Ok(inline) = serde_json::from_value::<Template>(inline.clone())
        {
            each_step(&inline, visit);
        }
    }
}

/// The spec that counts: the Workflow's own fields go before those of the template that it is made of. A workflow that has begun goes on
/// with what it began with.
pub fn effective(workflow: &Workflow, library: &Library) -> Result<WorkflowSpec, String> {
    let spec = &workflow.spec;
    let Some(reference) = &spec.workflow_template_ref else { return Ok(spec.clone()) };
    let key = TemplateKey::new(reference.cluster_scope, &reference.name);
    let base = match &workflow.status.stored_workflow_template_spec {
        Some(stored) => stored,
        None => library.specs.get(&key).ok_or_else(|| {
            let kind = if key.cluster { "ClusterWorkflowTemplate" } else { "WorkflowTemplate" };
            format!("there is no {kind} `{}`", key.name)
        })?,
    };
    let (Ok(under), Ok(over)) = (serde_json::to_value(base), serde_json::to_value(spec)) else {
        return Err("the spec cannot be written as JSON".into());
    };
    let mut merged = merge(under, over);
    // Lists of named things are put together by name; `merge` has taken those of the Workflow alone.
    merged["arguments"] =
        serde_json::to_value(arguments(&base.arguments, &spec.arguments)).unwrap_or_default();
    if let (Some(own), Some(all)) = (spec_templates(spec), merged["templates"].as_array_mut()) {
        let known: BTreeSet<String> = own.iter().map(|template| template.name.clone()).collect();
        let more = base.templates.iter().filter(|template| !known.contains(&template.name));
        all.extend(more.filter_map(|template| serde_json::to_value(template).ok()));
    }
    serde_json::from_value(merged).map_err(|error| error.to_string())
}

fn spec_templates(spec: &WorkflowSpec) -> Option<&Vec<Template>> {
    (!spec.templates.is_empty()).then_some(&spec.templates)
}

/// Arguments with other values for some of them.
pub fn arguments_with(arguments: &Arguments, values: &[(String, String)]) -> Arguments {
    let mut all = arguments.clone();
    for (name, value) in values {
        let value = Some(Value::String(value.clone()));
        match all.parameters.iter_mut().find(|one| one.name == *name) {
            Some(known) => (known.value, known.value_from) = (value, None),
            None => all.parameters.push(Parameter { name: name.clone(), value, ..Parameter::default() }),
        }
    }
    all
}

/// Arguments of `over` go before those of `under` with the same names.
pub(super) fn arguments(under: &Arguments, over: &Arguments) -> Arguments {
    let mut all = over.clone();
    for parameter in &under.parameters {
        match all.parameters.iter_mut().find(|known| known.name == parameter.name) {
            None => all.parameters.push(parameter.clone()),
            // A name without a value takes the one of the template.
            Some(known) if known.value.is_none() && known.value_from.is_none() => {
                known.value.clone_from(&parameter.value);
                known.value_from.clone_from(&parameter.value_from);
                if known.default.is_none() {
                    known.default.clone_from(&parameter.default);
                }
            }
            Some(_) => {}
        }
    }
    for artifact in &under.artifacts {
        if !all.artifacts.iter().any(|known| known.name == artifact.name) {
            all.artifacts.push(artifact.clone());
        }
    }
    all
}

/// Objects are merged, anything else is taken from `over`.
pub(super) fn merge(under: Value, over: Value) -> Value {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            let mut merged: Map<String, Value> = under;
            for (name, value) in over {
                let before = merged.remove(&name).unwrap_or_default();
                merged.insert(name, merge(before, value));
            }
            Value::Object(merged)
        }
        (under, Value::Null) => under,
        (_, over) => over,
    }
}
