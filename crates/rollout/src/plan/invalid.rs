//! What cannot be carried out, and what the status says about it. Nothing is sized or switched meanwhile.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_crd::rollout::{AnalysisTemplateRef, Rollout, RolloutAnalysis};

use super::{Observed, Plan, conditions};
use crate::analysis::collect;
use crate::lint::{self, Level};
use crate::names::{condition, reason};
use crate::routing::{self, GATEWAY_API};
use crate::{names, phase};

/// What it refers to may come a moment later.
const LOOK_AGAIN: i64 = 20;

/// The pod template and the selector: the Rollout's own, or those of the workload that it refers to.
pub(super) fn resolve(observed: &Observed) -> Result<(Value, Value), Vec<String>> {
    let spec = &observed.rollout.spec;
    let own = || spec.selector.as_ref().map(|selector| serde_json::to_value(selector).unwrap_or_default());
    let Some(reference) = &spec.workload_ref else {
        let template = spec.template.clone().unwrap_or_else(|| json!({}));
        return Ok((template, own().unwrap_or_else(|| json!({}))));
    };
    if !matches!(reference.kind.as_str(), "Deployment" | "ReplicaSet" | "PodTemplate") {
        let kind = &reference.kind;
        return Err(vec![format!("spec.workloadRef.kind: workload of type {kind} is not supported")]);
    }
    let Some(workload) = &observed.workload else {
        let (kind, name) = (&reference.kind, &reference.name);
        return Err(vec![format!("spec.workloadRef.name: {kind} \"{name}\" not found")]);
    };
    let template =
        if reference.kind == "PodTemplate" { &workload["template"] } else { &workload["spec"]["template"] };
    Ok((template.clone(), own().unwrap_or_else(|| workload["spec"]["selector"].clone())))
}

/// Everything that is wrong, at once.
pub(super) fn problems(
    observed: &Observed,
    template: &Value,
    selector: &Value,
    now: Timestamp,
) -> Vec<String> {
    let rollout = &observed.rollout;
    // What was carried out before is written as it should be, until somebody writes it anew.
    let status = &rollout.status;
    let known =
        !status.phase.is_empty() && status.observed_generation == rollout.metadata.generation.to_string();
    let known = known && conditions::get(status, condition::INVALID_SPEC).is_none();
    let mut problems = if known { Vec::new() } else { written_wrong(observed) };
    for (path, name) in named_services(rollout) {
        match observed.services.get(name) {
            None => problems.push(format!("{path}: service \"{name}\" not found")),
            Some(service) => {
                let owner = service["metadata"]["annotations"][names::MANAGED_BY].as_str();
                if let Some(owner) = owner.filter(|owner| *owner != rollout.metadata.name) {
                    problems
                        .push(format!("{path}: service \"{name}\" is managed by another Rollout ({owner})"));
                }
            }
        }
    }
    if rollout.spec.workload_ref.is_some() && (template["spec"].is_null() || selector.is_null()) {
        problems.push("spec.workloadRef: the workload has no pod template or no selector".into());
    }
    for (path, analysis) in analyses(rollout) {
        if let Err(why) = collect(&analysis.templates, &observed.templates) {
            problems.push(format!("{path}.templates: {why}"));
        }
    }
    let steps = rollout.canary().map(|canary| canary.steps.as_slice()).unwrap_or_default();
    for (at, step) in steps.iter().enumerate() {
        for analysis in step.experiment.iter().flat_map(|step| &step.analyses) {
            let named = AnalysisTemplateRef {
                template_name: analysis.template_name.clone(),
                cluster_scope: analysis.cluster_scope,
                ..AnalysisTemplateRef::default()
            };
            if let Err(why) = collect(&[named], &observed.templates) {
                problems.push(format!("spec.strategy.canary.steps[{at}].experiment.analyses: {why}"));
            }
        }
    }
    problems.extend(not_supported(rollout));
    problems.extend(routing::problems(rollout, &observed.routes, now));
    problems.extend(observed.refused.iter().cloned());
    problems
}

/// What the linter finds; Services stand beside the Rollout, as they would in a file.
fn written_wrong(observed: &Observed) -> Vec<String> {
    let rollout = &observed.rollout;
    let object = json!({"apiVersion": rollout.api_version, "kind": "Rollout",
        "metadata": {"name": rollout.metadata.name, "namespace": rollout.metadata.namespace}, "spec": rollout.spec});
    let beside = observed.services.values().map(|service| {
        let mut selector = service["spec"]["selector"].clone();
        if let Some(labels) = selector.as_object_mut() {
            labels.remove(names::HASH);
        }
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": service["metadata"]["name"]}, "spec": {"selector": selector}})
    });
    let texts: Vec<String> = std::iter::once(object).chain(beside).map(|object| object.to_string()).collect();
    let found = lint::check(&texts.join("\n---\n"));
    let errors = found.findings.into_iter().filter(|finding| finding.level == Level::Error);
    errors
        .map(|finding| {
            if finding.path.is_empty() {
                finding.message
            } else {
                format!("{}: {}", finding.path, finding.message)
            }
        })
        .collect()
}

fn named_services(rollout: &Rollout) -> Vec<(&'static str, &str)> {
    let mut all: Vec<(&'static str, &str)> = Vec::new();
    if let Some(blue_green) = rollout.blue_green() {
        all.push(("spec.strategy.blueGreen.activeService", &blue_green.active_service));
        all.push(("spec.strategy.blueGreen.previewService", &blue_green.preview_service));
    }
    if let Some(canary) = rollout.canary() {
        all.push(("spec.strategy.canary.stableService", &canary.stable_service));
        all.push(("spec.strategy.canary.canaryService", &canary.canary_service));
        if let Some(both) = &canary.ping_pong {
            all.push(("spec.strategy.canary.pingPong.pingService", &both.ping_service));
            all.push(("spec.strategy.canary.pingPong.pongService", &both.pong_service));
        }
    }
    all.retain(|(_, name)| !name.is_empty());
    all
}

/// Every analysis that a Rollout asks for, and where it does.
fn analyses(rollout: &Rollout) -> Vec<(String, &RolloutAnalysis)> {
    let mut all: Vec<(String, &RolloutAnalysis)> = Vec::new();
    if let Some(blue_green) = rollout.blue_green() {
        let (pre, post) = (&blue_green.pre_promotion_analysis, &blue_green.post_promotion_analysis);
        all.extend(pre.iter().map(|one| ("spec.strategy.blueGreen.prePromotionAnalysis".to_owned(), one)));
        all.extend(post.iter().map(|one| ("spec.strategy.blueGreen.postPromotionAnalysis".to_owned(), one)));
    }
    if let Some(canary) = rollout.canary() {
        all.extend(canary.analysis.iter().map(|one| ("spec.strategy.canary.analysis".to_owned(), one)));
        let steps = canary.steps.iter().enumerate();
        let steps = steps.filter_map(|(at, step)| Some((at, step.analysis.as_ref()?)));
        all.extend(steps.map(|(at, one)| (format!("spec.strategy.canary.steps[{at}].analysis"), one)));
    }
    all
}

/// True when analysis templates have to be read for it.
pub fn is_analysed(rollout: &Rollout) -> bool {
    let steps = rollout.canary().map(|canary| canary.steps.as_slice()).unwrap_or_default();
    !analyses(rollout).is_empty() || steps.iter().any(|step| step.experiment.is_some())
}

/// The names of all Services that a Rollout speaks of.
pub fn services_of(rollout: &Rollout) -> Vec<&str> {
    named_services(rollout).into_iter().map(|(_, name)| name).collect()
}

/// What this engine cannot do yet is refused by name, instead of being left out in silence.
fn not_supported(rollout: &Rollout) -> Vec<String> {
    let mut all = Vec::new();
    let mut refuse = |path: String| {
        all.push(format!("{path}: not supported by Slipway yet; the Argo Rollouts controller carries it out"))
    };
    let Some(canary) = rollout.canary() else { return all };
    let plugins = canary.traffic_routing.iter().flat_map(|routing| routing.plugins.keys());
    for name in plugins.filter(|name| *name != GATEWAY_API) {
        refuse(format!("spec.strategy.canary.trafficRouting.plugins.{name}"));
    }
    for (at, step) in canary.steps.iter().enumerate() {
        if step.plugin.is_some() {
            refuse(format!("spec.strategy.canary.steps[{at}].plugin"));
        }
    }
    all
}

/// The status of a Rollout that cannot be carried out.
pub(super) fn plan(rollout: &Rollout, problems: &[String], now: Timestamp) -> Plan {
    let mut status = rollout.status.clone();
    let message = format!("The Rollout \"{}\" is invalid: {}", rollout.metadata.name, problems.join("; "));
    if conditions::get(&status, condition::INVALID_SPEC).is_some_and(|one| one.message != message) {
        conditions::remove(&mut status, condition::INVALID_SPEC);
    }
    conditions::set(&mut status, condition::INVALID_SPEC, "True", reason::INVALID_SPEC, message.clone(), now);
    status.observed_generation = rollout.metadata.generation.to_string();
    let (phase, text) = phase::computed(&rollout.spec, &status);
    (status.phase, status.message) = (phase.to_owned(), text);
    let requeue_at = now.checked_add(SignedDuration::from_secs(LOOK_AGAIN)).ok();
    Plan { status, requeue_at, waiting: message, ..Plan::default() }
}
