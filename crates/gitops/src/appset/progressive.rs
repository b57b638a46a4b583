//! RollingSync: Applications are synced step by step, each step when those before it are healthy.
//!
//! Automation is taken from the Applications; the ApplicationSet asks for their syncs itself. Where each stands
//! is in `status.applicationStatus`, and nothing else is remembered.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use slipway_crd::{
    Application, ApplicationSet, ApplicationSetApplicationStatus, ApplicationSetCondition, ConditionType,
    HealthCode, OperationPhase, SetConditionType, SyncCode,
};

use super::conditions::condition;
use super::update::{difference, normal};

const WAITING: &str = "Waiting";
const PENDING: &str = "Pending";
const PROGRESSING: &str = "Progressing";
const HEALTHY: &str = "Healthy";

/// The steps, if the ApplicationSet rolls out in steps.
pub fn steps_of(set: &ApplicationSet) -> Option<&[Value]> {
    let strategy = set.spec.strategy.as_ref()?;
    let rolling = strategy["type"].as_str() == Some("RollingSync") && strategy["rollingSync"].is_object();
    rolling.then(|| strategy["rollingSync"]["steps"].as_array().map(Vec::as_slice).unwrap_or_default())
}

pub(super) fn deletes_in_reverse(set: &ApplicationSet) -> bool {
    let order = set.spec.strategy.as_ref().and_then(|strategy| strategy["deletionOrder"].as_str());
    steps_of(set).is_some_and(|steps| !steps.is_empty())
        && order.is_some_and(|order| order.eq_ignore_ascii_case("Reverse"))
}

/// Which step (from 0) each Application is in: the first that takes its labels.
pub(super) fn step_by_name(steps: &[Value], applications: &[Value]) -> BTreeMap<String, usize> {
    let mut by_name = BTreeMap::new();
    for application in applications {
        let name = application["metadata"]["name"].as_str().unwrap_or_default();
        if let Some(step) = steps.iter().position(|step| takes(step, &application["metadata"]["labels"])) {
            by_name.entry(name.to_owned()).or_insert(step);
        }
    }
    by_name
}

fn takes(step: &Value, labels: &Value) -> bool {
    step["matchExpressions"].as_array().into_iter().flatten().all(|expression| {
        let listed = |value: &str| {
            expression["values"].as_array().into_iter().flatten().any(|one| one.as_str() == Some(value))
        };
        let value = labels[expression["key"].as_str().unwrap_or_default()].as_str();
        match (expression["operator"].as_str(), value) {
            (Some("In"), Some(value)) => listed(value),
            (Some("NotIn"), Some(value)) => !listed(value),
            (Some("In"), None) => false,
            // Without the label nothing speaks against it.
            (_, None) => true,
            _ => false,
        }
    })
}

/// What a rollout in steps makes of a look.
pub(super) struct Rollout {
    pub(super) statuses: Vec<ApplicationSetApplicationStatus>,
    pub(super) condition: ApplicationSetCondition,
    /// The Applications with automation off, and with a sync asked for where it is their turn.
    pub(super) desired: Vec<Value>,
    pub(super) notes: Vec<String>,
}

/// `current`: the set's own Applications.
pub(super) fn roll(
    set: &ApplicationSet,
    steps: &[Value],
    desired: &[Value],
    current: &[Value],
    now: &str,
) -> Rollout {
    let by_name = step_by_name(steps, desired);
    let mut statuses: Vec<ApplicationSetApplicationStatus> = current
        .iter()
        .filter_map(|live| serde_json::from_value(live.clone()).ok().map(|read: Application| (live, read)))
        .map(|(live, read)| next_status(set, &by_name, desired, live, &read, now))
        .collect();
    let in_turn = in_turn(steps.len(), &by_name, &statuses);
    start(steps, &by_name, &in_turn, &mut statuses, now);
    let mut notes = Vec::new();
    let mut unstepped = 0;
    for status in &statuses {
        if !by_name.contains_key(&status.application) {
            unstepped += 1;
        }
    }
    if unstepped > 0 {
        notes.push(format!(
            "{unstepped} applications match no step of the rollout and are never synced by it; give them a label that \
             a step takes"
        ));
    }
    let pending: BTreeSet<&str> = statuses
        .iter()
        .filter(|status| status.status == PENDING && in_turn.contains(status.application.as_str()))
        .map(|status| status.application.as_str())
        .collect();
    let desired = desired.iter().map(|application| rolled(application, &pending)).collect();
    let condition = progress(steps.len(), &statuses);
    Rollout { condition, desired, notes, statuses }
}

fn revisions(application: &Application) -> Vec<String> {
    let sync = &application.status.sync;
    if !sync.revisions.is_empty() {
        return sync.revisions.clone();
    }
    Some(sync.revision.clone()).into_iter().filter(|revision| !revision.is_empty()).collect()
}

/// Times are written in whole seconds: what happens within the same one may well have come later.
fn is_since(a: &str, b: &str) -> bool {
    match (a.parse::<jiff::Timestamp>(), b.parse::<jiff::Timestamp>()) {
        (Ok(a), Ok(b)) => a.as_second() >= b.as_second(),
        _ => false,
    }
}

fn next_status(
    set: &ApplicationSet,
    by_name: &BTreeMap<String, usize>,
    desired: &[Value],
    live: &Value,
    application: &Application,
    now: &str,
) -> ApplicationSetApplicationStatus {
    let name = &application.metadata.name;
    let known = set.status.application_status.iter().find(|status| status.application == *name);
    let mut status = known.cloned().unwrap_or_else(|| ApplicationSetApplicationStatus {
        application: name.clone(),
        status: WAITING.into(),
        message: "No Application status found, defaulting status to Waiting".into(),
        target_revisions: revisions(application),
        last_transition_time: Some(now.to_owned()),
        ..ApplicationSetApplicationStatus::default()
    });
    let before = status.status.clone();
    let since = status.last_transition_time.clone().unwrap_or_default();
    status.step = by_name.get(name).map_or(-1, |step| *step as i64 + 1).to_string();
    let mut move_to = |status: &mut ApplicationSetApplicationStatus, to: &str, message: &str| {
        status.status = to.into();
        status.message = message.into();
        status.last_transition_time = Some(now.to_owned());
    };
    // A new Application has its turn before anybody compared it. What is then learned is no change: the sync that was
    // asked for in the meantime would be asked for again.
    if status.target_revisions.is_empty() {
        status.target_revisions = revisions(application);
    }
    let revision_changed = status.target_revisions != revisions(application);
    let spec_changed = spec_differs(desired, live, name);
    if revision_changed || spec_changed {
        status.target_revisions = revisions(application);
        let message = match (revision_changed, spec_changed) {
            (true, true) => {
                "Application has pending changes (revision and spec differ), setting status to Waiting"
            }
            (true, false) => "Application has pending changes, setting status to Waiting",
            _ => "Application has pending changes (spec differs), setting status to Waiting",
        };
        move_to(&mut status, WAITING, message);
    }
    let synced = application.status.sync.status == SyncCode::Synced;
    let healthy = application.status.health.status == HealthCode::Healthy;
    if status.status == WAITING {
        if synced && healthy {
            move_to(&mut status, HEALTHY, "Application resource has synced, updating status to Healthy");
        } else if synced {
            move_to(
                &mut status,
                PROGRESSING,
                "Application resource has synced, updating status to Progressing",
            );
        }
        return status;
    }
    if before == PENDING {
        pending_next(&mut status, application, &since, &mut move_to);
    }
    if before == PROGRESSING && healthy && synced {
        move_to(
            &mut status,
            HEALTHY,
            "Application resource became Healthy, updating status from Progressing to Healthy",
        );
    }
    status
}

fn pending_next(
    status: &mut ApplicationSetApplicationStatus,
    application: &Application,
    since: &str,
    move_to: &mut impl FnMut(&mut ApplicationSetApplicationStatus, &str, &str),
) {
    // Only what was seen after it became its turn counts.
    let seen = application.status.reconciled_at.as_deref().is_none_or(|at| is_since(at, since));
    let operation =
        application.status.operation_state.as_ref().filter(|state| is_since(&state.started_at, since));
    let broken = application
        .status
        .conditions
        .iter()
        .any(|c| matches!(c.kind, ConditionType::InvalidSpecError | ConditionType::UnknownError));
    match operation {
        Some(state) => {
            let message = match state.phase {
                OperationPhase::Succeeded => {
                    "Application resource completed a sync successfully, updating status from Pending to Progressing"
                }
                OperationPhase::Failed | OperationPhase::Error => {
                    "Application resource completed a sync, updating status from Pending to Progressing"
                }
                _ => "Application resource became Progressing, updating status from Pending to Progressing",
            };
            move_to(status, PROGRESSING, message);
        }
        None if seen && broken => {
            let message = "Application resource has error and cannot sync, updating status to Progressing";
            move_to(status, PROGRESSING, message);
        }
        None => {}
    }
}

/// Whether the live spec is another than the one to come, automation aside.
fn spec_differs(desired: &[Value], live: &Value, name: &str) -> bool {
    let Some(wanted) = desired.iter().find(|one| one["metadata"]["name"].as_str() == Some(name)) else {
        return false;
    };
    let wanted = normal(&without_automation(wanted));
    match (wanted, normal(live)) {
        (Ok(wanted), Ok(live)) => difference(&live["spec"], &wanted["spec"]).is_some(),
        _ => false,
    }
}

/// Those whose step has come: every step up to the first that is not all healthy.
fn in_turn<'n>(
    steps: usize,
    by_name: &'n BTreeMap<String, usize>,
    statuses: &[ApplicationSetApplicationStatus],
) -> BTreeSet<&'n str> {
    let mut turn = BTreeSet::new();
    for step in 0..steps {
        let names: Vec<&str> =
            by_name.iter().filter(|(_, of)| **of == step).map(|(name, _)| name.as_str()).collect();
        turn.extend(names.iter().copied());
        let all_healthy = names.iter().all(|name| {
            statuses.iter().any(|status| status.application == *name && status.status == HEALTHY)
        });
        if !all_healthy {
            break;
        }
    }
    turn
}

/// Moves Applications whose turn it is from Waiting to Pending, as many as the step allows at once.
fn start(
    steps: &[Value],
    by_name: &BTreeMap<String, usize>,
    in_turn: &BTreeSet<&str>,
    statuses: &mut [ApplicationSetApplicationStatus],
    now: &str,
) {
    for (index, step) in steps.iter().enumerate() {
        let of_step =
            |status: &ApplicationSetApplicationStatus| by_name.get(&status.application) == Some(&index);
        let total = statuses.iter().filter(|status| of_step(status)).count();
        let mut busy = statuses
            .iter()
            .filter(|status| of_step(status) && matches!(status.status.as_str(), PENDING | PROGRESSING))
            .count();
        let most = max_update(&step["maxUpdate"], total);
        for status in statuses.iter_mut().filter(|status| by_name.get(&status.application) == Some(&index)) {
            let allowed = most.is_none_or(|most| busy < most);
            if status.status == WAITING && in_turn.contains(status.application.as_str()) && allowed {
                status.status = PENDING.into();
                status.message =
                    "Application moved to Pending status, watching for the Application resource to start Progressing"
                        .into();
                status.last_transition_time = Some(now.to_owned());
                busy += 1;
            }
        }
    }
}

/// How many at once: a number or a share of the step, rounded down but not to nothing; `0` and `0%` mean none.
fn max_update(value: &Value, total: usize) -> Option<usize> {
    match value {
        Value::Number(number) => usize::try_from(number.as_i64().unwrap_or(0)).ok(),
        Value::String(text) => {
            let share: usize = text.strip_suffix('%')?.trim().parse().ok()?;
            Some(if share == 0 { 0 } else { (total * share / 100).max(1) })
        }
        _ => None,
    }
}

fn progress(steps: usize, statuses: &[ApplicationSetApplicationStatus]) -> ApplicationSetCondition {
    let unfinished = (1..=steps).find(|step| {
        let of_step = |status: &&ApplicationSetApplicationStatus| status.step == step.to_string();
        statuses.iter().filter(of_step).any(|status| status.status != HEALTHY)
    });
    match unfinished {
        Some(step) => condition(
            SetConditionType::RolloutProgressing,
            true,
            "ApplicationSetModified",
            &format!("ApplicationSet is performing rollout of step {step}"),
        ),
        None => condition(
            SetConditionType::RolloutProgressing,
            false,
            "ApplicationSetRolloutComplete",
            "ApplicationSet Rollout has completed",
        ),
    }
}

fn without_automation(application: &Value) -> Value {
    let mut without = application.clone();
    if without["spec"]["syncPolicy"]["automated"].is_object() {
        without["spec"]["syncPolicy"]["automated"]["enabled"] = json!(false);
    }
    without
}

fn rolled(application: &Value, pending: &BTreeSet<&str>) -> Value {
    let policy = &application["spec"]["syncPolicy"];
    let automated = policy["automated"].is_object() && policy["automated"]["enabled"] != json!(false);
    let prune = automated && policy["automated"]["prune"] == json!(true);
    let mut rolled = without_automation(application);
    let name = application["metadata"]["name"].as_str().unwrap_or_default();
    if pending.contains(name) {
        let mut sync = json!({});
        if prune {
            sync["prune"] = json!(true);
        }
        if let Some(options) = policy["syncOptions"].as_array().filter(|options| !options.is_empty()) {
            sync["syncOptions"] = json!(options);
        }
        let retry = if policy["retry"].is_object() { policy["retry"].clone() } else { json!({"limit": 5}) };
        rolled["operation"] = json!({
            "initiatedBy": {"username": "applicationset-controller", "automated": true},
            "info": [{
                "name": "Reason",
                "value": "ApplicationSet RollingSync triggered a sync of this Application resource",
            }],
            "sync": sync,
            "retry": retry,
        });
    }
    rolled
}
