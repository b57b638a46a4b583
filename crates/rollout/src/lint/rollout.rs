//! A Rollout by itself: what it wants of pods, and its strategy.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;
use slipway_crd::rollout::{AntiAffinity, BlueGreen, Rollout, RolloutSpec};
use slipway_dialect::selector::Selector;

use super::{Wrongs, canary};

const DEADLINE_DEFAULT: i64 = 600;
const HISTORY_DEFAULT: i64 = 10;

pub(super) fn check(rollout: &Rollout, wrongs: &mut Wrongs<'_>) {
    let spec = &rollout.spec;
    let mut wrongs = wrongs.below("spec");
    not_below_zero(
        &[
            ("replicas", spec.replicas),
            ("minReadySeconds", Some(spec.min_ready_seconds)),
            ("revisionHistoryLimit", spec.revision_history_limit),
            ("progressDeadlineSeconds", spec.progress_deadline_seconds),
        ],
        &mut wrongs,
    );
    let deadline = spec.progress_deadline_seconds.unwrap_or(DEADLINE_DEFAULT);
    if deadline <= spec.min_ready_seconds {
        wrongs.add(
            "progressDeadlineSeconds",
            format!("{deadline} must be greater than minReadySeconds ({})", spec.min_ready_seconds),
        );
    }
    if let Some(at) = spec.restart_at.as_deref().filter(|at| !is_time(at)) {
        wrongs.add("restartAt", format!("`{at}` is not a time like 2026-01-31T12:00:00Z"));
    }
    workload(spec, &mut wrongs);
    match (&spec.strategy.blue_green, &spec.strategy.canary) {
        (None, None) => wrongs.add("strategy", "`canary` or `blueGreen` is missing"),
        (Some(_), Some(_)) => wrongs.add("strategy", "only one of `canary` and `blueGreen` can be used"),
        (Some(blue_green), None) => {
            check_blue_green(blue_green, spec, &mut wrongs.below("strategy.blueGreen"));
        }
        (None, Some(canary)) => {
            canary::check(canary, rollout, &mut wrongs.below("strategy.canary"));
        }
    }
}

fn not_below_zero(fields: &[(&str, Option<i64>)], wrongs: &mut Wrongs<'_>) {
    for (name, value) in fields {
        if let Some(value) = value.filter(|value| *value < 0) {
            wrongs.add(name, format!("{value} is below zero"));
        }
    }
}

/// Enough for a finding: the API server reads it strictly.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20
        && bytes[4] == b'-'
        && bytes[10] == b'T'
        && (text.ends_with('Z') || text.get(19..).is_some_and(|zone| zone.contains(['+', '-'])))
}

fn workload(spec: &RolloutSpec, wrongs: &mut Wrongs<'_>) {
    let template = spec.template.as_ref().filter(|template| !is_empty_template(template));
    if let Some(reference) = &spec.workload_ref {
        if template.is_some() {
            wrongs.add("template", "leave it out: `workloadRef` says whose template is used");
        }
        for (name, value) in
            [("apiVersion", &reference.api_version), ("kind", &reference.kind), ("name", &reference.name)]
        {
            if value.is_empty() {
                wrongs.add("workloadRef", format!("`{name}` is missing"));
            }
        }
        let kinds = ["Deployment", "ReplicaSet", "PodTemplate"];
        if !reference.kind.is_empty() && !kinds.contains(&reference.kind.as_str()) {
            wrongs.add(
                "workloadRef.kind",
                format!("`{}` has no template that can be used: one of {}", reference.kind, kinds.join(", ")),
            );
        }
        if !["", "never", "onsuccess", "progressively"].contains(&reference.scale_down.as_str()) {
            wrongs.add(
                "workloadRef.scaleDown",
                format!("`{}` is not one of never, onsuccess, progressively", reference.scale_down),
            );
        }
        return;
    }
    let selector = match &spec.selector {
        None => {
            wrongs.add("selector", "is missing: it says which pods belong to the Rollout");
            None
        }
        Some(selector) if selector.match_labels.is_empty() && selector.match_expressions.is_empty() => {
            wrongs.add("selector", "is empty: it would select every pod");
            None
        }
        Some(selector) => {
            let value = serde_json::to_value(selector).unwrap_or_default();
            Selector::parse(&value).map_err(|error| wrongs.add("selector", error)).ok()
        }
    };
    match template {
        None => wrongs.add("template", "is missing: it says which pods are run"),
        Some(template) => check_template(template, selector.as_ref(), &mut wrongs.below("template")),
    }
}

fn is_empty_template(template: &Value) -> bool {
    template["spec"]["containers"].as_array().is_none_or(Vec::is_empty)
        && template["metadata"].as_object().is_none_or(|metadata| metadata.is_empty())
}

/// The pod template of a Rollout or of an experiment.
pub(super) fn check_template(template: &Value, selector: Option<&Selector>, wrongs: &mut Wrongs<'_>) {
    let labels: BTreeMap<String, String> =
        serde_json::from_value(template["metadata"]["labels"].clone()).unwrap_or_default();
    if selector.is_some_and(|selector| !selector.matches(&labels)) {
        wrongs.add("metadata.labels", "the selector does not match the labels of the template");
    }
    let policy = template["spec"]["restartPolicy"].as_str().unwrap_or("Always");
    if policy != "Always" {
        wrongs.add("spec.restartPolicy", format!("`{policy}`: pods that stay have `Always`"));
    }
    if !template["spec"]["activeDeadlineSeconds"].is_null() {
        wrongs.add("spec.activeDeadlineSeconds", "pods that stay have none");
    }
    let containers = template["spec"]["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if containers.is_empty() {
        wrongs.add("spec.containers", "at least one container is needed");
    }
    let mut names = HashSet::new();
    for (list, containers) in [
        ("containers", containers),
        (
            "initContainers",
            template["spec"]["initContainers"].as_array().map(Vec::as_slice).unwrap_or_default(),
        ),
    ] {
        for (at, container) in containers.iter().enumerate() {
            let place = format!("spec.{list}.{at}");
            match container["name"].as_str().unwrap_or_default() {
                "" => wrongs.add(&place, "`name` is missing"),
                name if !names.insert(name) => {
                    wrongs.add(&format!("{place}.name"), format!("`{name}` is there twice"));
                }
                _ => {}
            }
            if container["image"].as_str().unwrap_or_default().is_empty() {
                wrongs.add(&place, "`image` is missing");
            }
        }
    }
}

fn check_blue_green(blue_green: &BlueGreen, spec: &RolloutSpec, wrongs: &mut Wrongs<'_>) {
    if blue_green.active_service.is_empty() {
        wrongs.add("activeService", "is missing: it names the Service that users reach");
    } else if blue_green.active_service == blue_green.preview_service {
        wrongs.add("previewService", "is the same as `activeService`: two Services are needed");
    }
    scale_down_limit(blue_green.scale_down_delay_revision_limit, spec, wrongs);
    not_below_zero(
        &[
            ("previewReplicaCount", blue_green.preview_replica_count),
            ("autoPromotionSeconds", Some(blue_green.auto_promotion_seconds)),
            ("scaleDownDelaySeconds", blue_green.scale_down_delay_seconds),
            ("abortScaleDownDelaySeconds", blue_green.abort_scale_down_delay_seconds),
        ],
        wrongs,
    );
    anti_affinity(blue_green.anti_affinity.as_ref(), wrongs);
}

pub(super) fn scale_down_limit(limit: Option<i64>, spec: &RolloutSpec, wrongs: &mut Wrongs<'_>) {
    let history = spec.revision_history_limit.unwrap_or(HISTORY_DEFAULT);
    if let Some(limit) = limit.filter(|limit| *limit > history) {
        wrongs.add(
            "scaleDownDelayRevisionLimit",
            format!("{limit} is more than revisionHistoryLimit ({history}) keeps"),
        );
    }
}

pub(super) fn anti_affinity(wanted: Option<&AntiAffinity>, wrongs: &mut Wrongs<'_>) {
    let Some(wanted) = wanted else { return };
    let preferred = &wanted.preferred_during_scheduling_ignored_during_execution;
    let required = &wanted.required_during_scheduling_ignored_during_execution;
    if preferred.is_some() == required.is_some() {
        wrongs.add(
            "antiAffinity",
            "needs exactly one of `preferredDuringSchedulingIgnoredDuringExecution` and `requiredDuringSchedulingIgnoredDuringExecution`",
        );
    }
    if let Some(weight) =
        preferred.as_ref().map(|preferred| preferred.weight).filter(|weight| !(1..=100).contains(weight))
    {
        wrongs.add(
            "antiAffinity.preferredDuringSchedulingIgnoredDuringExecution.weight",
            format!("{weight} is not between 1 and 100"),
        );
    }
}
