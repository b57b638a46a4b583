//! `spec` of a workflow: what it begins with, what it is made of, what ends it.

use serde_json::Value;
use slipway_crd::ObjectMeta;
use slipway_crd::workflow::{LifecycleHook, Step, Synchronization, Template, TemplateRef, WorkflowSpec};
use slipway_yaml::finding::Wrongs;

use super::scope::Scope;
use super::{Library, arguments, metrics, names, template};
use crate::tags;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It runs, now or by a schedule.
    Workflow,
    /// Others refer to it.
    Template,
}

/// What stands around a `spec`.
pub(super) struct Given<'a> {
    pub(super) kind: Kind,
    pub(super) metadata: &'a ObjectMeta,
    pub(super) library: &'a Library,
    /// The `spec` as it is written.
    pub(super) value: &'a Value,
}

/// What the checks of templates share.
pub(super) struct Around<'a> {
    pub(super) spec: &'a WorkflowSpec,
    pub(super) library: &'a Library,
    /// Known everywhere in it.
    pub(super) globals: Scope,
}

/// The template that a step, a task or a hook names.
pub(super) enum Resolved<'a> {
    Known(&'a Template, String),
    Inline(Box<Template>),
    /// In none of the texts, or not to be known before it runs.
    Elsewhere,
    /// It has been said.
    Wrong,
}

impl Resolved<'_> {
    pub(super) fn template(&self) -> Option<&Template> {
        match self {
            Self::Known(template, _) => Some(template),
            Self::Inline(template) => Some(template),
            Self::Elsewhere | Self::Wrong => None,
        }
    }

    pub(super) fn label(&self) -> &str {
        match self {
            Self::Known(_, label) => label,
            _ => "inline",
        }
    }
}

impl<'a> Around<'a> {
    /// Says what is wrong with the reference itself.
    pub(super) fn resolve(
        &self,
        name: &str,
        reference: Option<&TemplateRef>,
        inline: Option<&Value>,
        wrongs: &mut Wrongs<'_>,
    ) -> Resolved<'a> {
        let ways =
            usize::from(!name.is_empty()) + usize::from(reference.is_some()) + usize::from(inline.is_some());
        if ways != 1 {
            let message = if ways == 0 {
                "`template`, `templateRef` or `inline` is missing"
            } else {
                "`template`, `templateRef` and `inline`: choose one"
            };
            wrongs.add("", message);
            return Resolved::Wrong;
        }
        if let Some(inline) = inline {
            // Its shape is judged with it.
            return serde_json::from_value(inline.clone()).map_or(Resolved::Wrong, Resolved::Inline);
        }
        let Some(reference) = reference else { return self.local(name, wrongs) };
        for (field, text) in [("name", &reference.name), ("template", &reference.template)] {
            if text.is_empty() {
                wrongs.add("templateRef", format!("`{field}` is missing"));
            }
        }
        if tags::is_open(&reference.name) || tags::is_open(&reference.template) {
            return Resolved::Elsewhere;
        }
        match self.library.template(reference.cluster_scope, &reference.name, &reference.template) {
            Ok(found) => found.map_or(Resolved::Elsewhere, |template| {
                Resolved::Known(template, format!("{}/{}", reference.name, reference.template))
            }),
            Err(()) => {
                wrongs.add(
                    "templateRef.template",
                    format!("`{}` has no template `{}`", reference.name, reference.template),
                );
                Resolved::Wrong
            }
        }
    }

    fn local(&self, name: &str, wrongs: &mut Wrongs<'_>) -> Resolved<'a> {
        if tags::is_open(name) {
            return Resolved::Elsewhere;
        }
        if let Some(found) = self.spec.templates.iter().find(|template| template.name == name) {
            return Resolved::Known(found, name.to_owned());
        }
        if let Some(reference) = &self.spec.workflow_template_ref {
            match self.library.template(reference.cluster_scope, &reference.name, name) {
                Ok(Some(found)) => return Resolved::Known(found, name.to_owned()),
                Ok(None) => return Resolved::Elsewhere,
                Err(()) => {}
            }
        }
        let known: Vec<&str> =
            self.spec.templates.iter().map(|template| template.name.as_str()).take(8).collect();
        let hint = if known.is_empty() { String::new() } else { format!("; there is {}", known.join(", ")) };
        wrongs.add("template", format!("there is no template `{name}`{hint}"));
        Resolved::Wrong
    }

    /// A hook: what it runs, and when.
    pub(super) fn check_hook(&self, name: &str, hook: &LifecycleHook, wrongs: &mut Wrongs<'_>) {
        if name != "exit" && hook.expression.is_empty() {
            wrongs.add(
                "",
                format!("`expression` is missing: only the hook `exit` needs none, and this one is `{name}`"),
            );
        }
        let resolved = self.resolve(&hook.template, hook.template_ref.as_ref(), None, wrongs);
        arguments::check_names(&hook.arguments, &mut wrongs.below("arguments"));
        if let Some(template) = resolved.template() {
            arguments::check_given(template, resolved.label(), &hook.arguments, wrongs);
            arguments::check_heard(template, resolved.label(), &hook.arguments, wrongs);
        }
    }
}

pub(super) fn check(spec: &WorkflowSpec, given: &Given<'_>, wrongs: &mut Wrongs<'_>) {
    let around = Around { spec, library: given.library, globals: globals(spec, given) };
    names::check(
        spec.templates.iter().map(|one| one.name.as_str()),
        names::of_node,
        &mut wrongs.below("templates"),
    );
    arguments::check_names(&spec.arguments, &mut wrongs.below("arguments"));
    check_begin(spec, given, &around, wrongs);
    check_words(spec, wrongs);
    if let Some(own) = &spec.metrics {
        metrics::check(own, &mut wrongs.below("metrics.prometheus"));
    }
    if let Some(synchronization) = &spec.synchronization {
        check_locks(synchronization, &mut wrongs.below("synchronization"));
    }
    if let Some(retry) = &spec.retry_strategy {
        template::check_retry(retry, &mut wrongs.below("retryStrategy"));
    }
    for (name, hook) in &spec.hooks {
        let mut here = wrongs.below("hooks");
        around.check_hook(name, hook, &mut here.part(name));
    }
    for (at, one) in spec.templates.iter().enumerate() {
        let value = &given.value["templates"][at];
        template::check(one, value, &around, &mut wrongs.below(&format!("templates.{at}")));
    }
}

fn check_begin(spec: &WorkflowSpec, given: &Given<'_>, around: &Around<'_>, wrongs: &mut Wrongs<'_>) {
    let referred = spec.workflow_template_ref.as_ref();
    if referred.is_some_and(|reference| reference.name.is_empty()) {
        wrongs.add("workflowTemplateRef", "`name` is missing");
    }
    let base = referred.and_then(|reference| given.library.spec(reference.cluster_scope, &reference.name));
    let entrypoint = match (spec.entrypoint.as_str(), base) {
        ("", Some(base)) => base.entrypoint.as_str(),
        (own, _) => own,
    };
    if entrypoint.is_empty() && given.kind != Kind::Template && (referred.is_none() || base.is_some()) {
        wrongs.add("", "`entrypoint` is missing: the template that the workflow begins with");
    }
    let mut all = spec.arguments.clone();
    if let Some(base) = base {
        all.parameters.extend(base.arguments.parameters.clone());
        all.artifacts.extend(base.arguments.artifacts.clone());
    }
    for (field, name) in [("entrypoint", entrypoint), ("onExit", spec.on_exit.as_str())] {
        if name.is_empty() {
            continue;
        }
        let mut found = Vec::new();
        let resolved = around.resolve(name, None, None, &mut Wrongs::new(&mut found));
        for wrong in found {
            wrongs.add(field, wrong.message);
        }
        // A template gets its arguments from the workflow that refers to it.
        if let Some(template) = resolved.template().filter(|_| given.kind != Kind::Template) {
            arguments::check_given(template, name, &all, &mut wrongs.below(field));
        }
    }
}

fn check_words(spec: &WorkflowSpec, wrongs: &mut Wrongs<'_>) {
    let pod_gc = spec.pod_gc.as_ref().map_or("", |gc| gc.strategy.as_str());
    let artifact_gc = spec.artifact_gc.as_ref().map_or("", |gc| gc.strategy.as_str());
    let claim_gc = spec.volume_claim_gc.as_ref().map_or("", |gc| gc.strategy.as_str());
    for (path, word, known) in [
        (
            "podGC.strategy",
            pod_gc,
            &["OnPodCompletion", "OnPodSuccess", "OnWorkflowCompletion", "OnWorkflowSuccess"][..],
        ),
        ("artifactGC.strategy", artifact_gc, &["OnWorkflowCompletion", "OnWorkflowDeletion", "Never"][..]),
        ("volumeClaimGC.strategy", claim_gc, &["OnWorkflowCompletion", "OnWorkflowSuccess"][..]),
        ("shutdown", &spec.shutdown, &["Stop", "Terminate"][..]),
    ] {
        arguments::check_word(word, known, &mut wrongs.below(path));
    }
    if spec.parallelism.is_some_and(|number| number < 1) {
        wrongs.add("parallelism", "at least 1; `suspend` holds a workflow");
    }
    if let Some(delay) =
        spec.pod_gc.as_ref().map(|gc| &gc.delete_delay_duration).filter(|delay| !delay.is_empty())
    {
        template::check_duration(delay, &mut wrongs.below("podGC.deleteDelayDuration"));
    }
}

pub(super) fn check_locks(synchronization: &Synchronization, wrongs: &mut Wrongs<'_>) {
    let semaphores =
        synchronization.semaphores.iter().enumerate().map(|(at, one)| (format!("semaphores.{at}"), one));
    let old = synchronization.semaphore.iter().map(|one| ("semaphore".to_owned(), one));
    for (path, one) in semaphores.chain(old) {
        if one.config_map_key_ref.is_some() == one.database.is_some() {
            wrongs.add(&path, "a semaphore has either `configMapKeyRef` or `database`");
        }
    }
    let mutexes = synchronization.mutexes.iter().enumerate().map(|(at, one)| (format!("mutexes.{at}"), one));
    let old = synchronization.mutex.iter().map(|one| ("mutex".to_owned(), one));
    for (path, one) in mutexes.chain(old) {
        if one.name.is_empty() {
            wrongs.add(&path, "`name` is missing");
        }
    }
}

/// What is known everywhere in a workflow.
fn globals(spec: &WorkflowSpec, given: &Given<'_>) -> Scope {
    let mut scope = Scope::default();
    for word in [
        "name",
        "namespace",
        "mainEntrypoint",
        "serviceAccountName",
        "uid",
        "parameters",
        "parameters.json",
        "annotations",
        "annotations.json",
        "labels",
        "labels.json",
        "duration",
        // Empty where no schedule started it.
        "scheduledTime",
    ] {
        scope.put(format!("workflow.{word}"));
    }
    scope.open("workflow.creationTimestamp");
    // What a template itself leaves may be named by what is counted of it.
    scope.open("outputs.");
    if spec.priority.is_some() || given.kind == Kind::Template {
        scope.put("workflow.priority");
    }
    let base = spec.workflow_template_ref.as_ref();
    if !spec.on_exit.is_empty() || !spec.hooks.is_empty() || given.kind == Kind::Template || base.is_some() {
        scope.put("workflow.status");
        scope.put("workflow.failures");
    }
    let base = base.map(|reference| given.library.spec(reference.cluster_scope, &reference.name));
    // Who submits a template or refers to it brings the parameters; what is in the cluster cannot be seen.
    if given.kind == Kind::Template || base == Some(None) {
        scope.open("workflow.parameters.");
    }
    let inherited = base.flatten().map(|base| &base.arguments.parameters);
    for parameter in spec.arguments.parameters.iter().chain(inherited.into_iter().flatten()) {
        scope.put(format!("workflow.parameters.{}", parameter.name));
    }
    put_metadata(spec, given, &mut scope);
    put_global_outputs(spec, &mut scope);
    scope
}

fn put_metadata(spec: &WorkflowSpec, given: &Given<'_>, scope: &mut Scope) {
    let own = spec.workflow_metadata.as_ref();
    let labels = given
        .metadata
        .labels
        .keys()
        .chain(own.into_iter().flat_map(|own| own.labels.keys().chain(own.labels_from.keys())));
    labels.for_each(|key| scope.put(format!("workflow.labels.{key}")));
    let annotations =
        given.metadata.annotations.keys().chain(own.into_iter().flat_map(|own| own.annotations.keys()));
    annotations.for_each(|key| scope.put(format!("workflow.annotations.{key}")));
    if given.kind == Kind::Template || spec.workflow_template_ref.is_some() {
        scope.open("workflow.labels.");
        scope.open("workflow.annotations.");
    }
}

/// Outputs that a template gives to the whole workflow.
fn put_global_outputs(spec: &WorkflowSpec, scope: &mut Scope) {
    let parameters = |template: &Template| {
        template
            .outputs
            .parameters
            .iter()
            .map(|one| ("parameters", one.global_name.clone()))
            .collect::<Vec<_>>()
    };
    let artifacts = |template: &Template| {
        template
            .outputs
            .artifacts
            .iter()
            .map(|one| ("artifacts", one.global_name.clone()))
            .collect::<Vec<_>>()
    };
    for (what, name) in
        spec.templates.iter().flat_map(|template| [parameters(template), artifacts(template)].concat())
    {
        if tags::is_open(&name) {
            scope.open(format!("workflow.outputs.{what}."));
        } else if !name.is_empty() {
            scope.put(format!("workflow.outputs.{what}.{name}"));
        }
    }
    // Templates of others may leave anything.
    let elsewhere = |step: &Step| step.template_ref.is_some() || step.inline.is_some();
    let refers = spec.templates.iter().any(|template| {
        let steps = template.steps.iter().flatten().flatten();
        steps.chain(template.dag.iter().flat_map(|dag| &dag.tasks)).any(elsewhere)
    });
    if refers || spec.workflow_template_ref.is_some() {
        scope.open("workflow.outputs.");
    }
}
