//! What this engine cannot carry out yet, by name: a workflow that asks for it is not begun.

use slipway_crd::workflow::{Parameter, RetryStrategy, Synchronization, Template, WorkflowSpec};

use super::Observed;
use super::capture::results_read_in;
use super::library::each_step;
use super::locks;

/// Labels by which the engine and its clients know what is what.
const OWN_LABELS: &[&str] = &[
    "workflows.argoproj.io/phase",
    "workflows.argoproj.io/completed",
    "workflows.argoproj.io/controller-instanceid",
];

/// What the engine has, for templates that need it.
struct Means<'a> {
    /// A program that captures what containers leave.
    captures: bool,
    /// Somebody who looks after locks.
    locks: bool,
    namespace: &'a str,
}

pub(super) fn unsupported(spec: &WorkflowSpec, observed: &Observed) -> Vec<String> {
    let means = Means {
        captures: observed.executor_image.is_some(),
        locks: observed.locks.is_some(),
        namespace: &observed.workflow.metadata.namespace,
    };
    let library = &observed.library;
    let mut found = Vec::new();
    let metadata = spec.workflow_metadata.as_ref();
    let labels = metadata.iter().flat_map(|one| one.labels.keys().chain(one.labels_from.keys()));
    let own = labels.filter(|label| OWN_LABELS.contains(&label.as_str()));
    found.extend(own.map(|label| format!("spec.workflowMetadata: the label {label} is the engine's own")));
    found.extend(spec.synchronization.iter().flat_map(|one| of_locks("spec.", one, &means)));
    let mut say = |place: &str, there: bool| {
        if there {
            found.push(format!("{place} is not supported yet"));
        }
    };
    say("spec.podDisruptionBudget", spec.pod_disruption_budget.is_some());
    say("spec.executorPlugins", !spec.executor_plugins.is_empty());
    say("spec.artifactGC", spec.artifact_gc.is_some());
    say("spec.archiveLogs", spec.archive_logs == Some(true));
    say("spec.metrics", spec.metrics.is_some());
    say("spec.arguments.artifacts", !spec.arguments.artifacts.is_empty());
    let other = |one: &Parameter| {
        one.value.is_none() && one.value_from.as_ref().is_some_and(|from| from.config_map_key_ref.is_none())
    };
    say(
        "spec.arguments.parameters.valueFrom other than `configMapKeyRef`",
        spec.arguments.parameters.iter().any(other),
    );
    let gc = spec.pod_gc.as_ref();
    say("spec.podGC.labelSelector", gc.is_some_and(|gc| gc.label_selector.is_some()));
    say("spec.podGC.deleteDelayDuration", gc.is_some_and(|gc| !gc.delete_delay_duration.is_empty()));
    let places_attempts = |strategy: &RetryStrategy| strategy.affinity.is_some();
    say("spec.retryStrategy.affinity", spec.retry_strategy.as_ref().is_some_and(places_attempts));
    if let Some(defaults) = &spec.template_defaults {
        found.extend(of_template("spec.templateDefaults", defaults, &means));
    }
    for template in &spec.templates {
        found.extend(of_template(&format!("template `{}`", template.name), template, &means));
    }
    for (key, spec) in &library.specs {
        for template in &spec.templates {
            found.extend(of_template(
                &format!("template `{}/{}`", key.scope(), template.name),
                template,
                &means,
            ));
        }
    }
    found.sort();
    found.dedup();
    found
}

fn of_locks(place: &str, wanted: &Synchronization, means: &Means<'_>) -> Vec<String> {
    if !means.locks {
        return vec![format!(
            "{place}synchronization is not supported where several engines share their work; start it with --alone"
        )];
    }
    let parts = locks::unsupported(wanted, means.namespace);
    parts.into_iter().map(|what| format!("{place}synchronization: {what} is not supported yet")).collect()
}

fn of_template(place: &str, template: &Template, means: &Means<'_>) -> Vec<String> {
    let captures = means.captures;
    let leaf = template.steps.is_none() && template.dag.is_none() && template.suspend.is_none();
    let parameters = &template.outputs.parameters;
    let rows = [
        ("containerSet", template.container_set.is_some()),
        ("resource", template.resource.is_some()),
        ("http.bodyFrom", template.http.as_ref().is_some_and(|http| http.body_from.is_some())),
        ("outputs.parameters of http", template.http.is_some() && !parameters.is_empty()),
        ("data", template.data.is_some()),
        ("plugin", template.plugin.is_some()),
        ("inputs.artifacts", !template.inputs.artifacts.is_empty()),
        ("outputs.artifacts", !template.outputs.artifacts.is_empty()),
        ("outputs.parameters.valueFrom other than `path`", leaf && parameters.iter().any(is_no_path)),
        ("metrics", template.metrics.is_some()),
        ("timeout of steps and graphs", !leaf && !template.timeout.is_empty()),
        ("pendingTimeout of steps and graphs", !leaf && !template.pending_timeout.is_empty()),
        ("archiveLocation", template.archive_location.is_some()),
        (
            "retryStrategy.affinity",
            template.retry_strategy.as_ref().is_some_and(|strategy| strategy.affinity.is_some()),
        ),
    ];
    let rows = rows.into_iter().filter(|(_, there)| *there);
    let mut all: Vec<String> =
        rows.map(|(what, _)| format!("{place}: {what} is not supported yet")).collect();
    let wanted = template.synchronization.iter();
    all.extend(wanted.flat_map(|one| of_locks(&format!("{place}: "), one, means)));
    let text = || serde_json::to_string(template).unwrap_or_default();
    if !captures && ((leaf && !parameters.is_empty()) || !results_read_in(&text()).is_empty()) {
        all.push(format!("{place}: outputs of containers need an executor image, and the engine has none"));
    }
    each_step(template, &mut |step| {
        let inline = step.inline.clone().map(serde_json::from_value::<Template>);
        if let Some(Ok(inline)) = inline {
            all.extend(of_template(&format!("{place}, inline template of `{}`", step.name), &inline, means));
        }
    });
    all
}

fn is_no_path(parameter: &Parameter) -> bool {
    parameter.value_from.as_ref().is_none_or(|from| from.path.is_empty())
}
