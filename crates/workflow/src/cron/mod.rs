//! A CronWorkflow, its Workflows and the time → which Workflow begins now, which are ended or deleted, and when to look again.
//!
//! Pure, and the same over restarts: the name of a Workflow follows from the moment that it is for, and that moment is written down
//! together with what was decided about it. A moment that passed while nobody looked is made up for, the latest one alone, if it is not
//! longer ago than `startingDeadlineSeconds`, or [`PATIENCE`] where that is not said.

mod schedule;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_crd::names::API_VERSION;
use slipway_crd::workflow::{CronWorkflow, CronWorkflowStatus, WorkflowCondition};

use crate::scope::{Scope, text_of};
pub use schedule::{Schedules, every};

/// So late a Workflow still begins where nothing else is said: longer than an engine takes to be started again.
pub const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

pub const CRON_WORKFLOW: &str = "workflows.argoproj.io/cron-workflow";
const SCHEDULED_TIME: &str = "workflows.argoproj.io/scheduled-time";
const COMPLETED: &str = "cronworkflows.argoproj.io/completed";
const USED_SCHEDULE: &str = "cronworkflows.argoproj.io/last-used-schedule";
/// Until when it was decided what begins; `suspended` while nothing does.
const DECIDED: &str = "cronworkflows.slipway.dev/decided-until";
const INSTANCE_ID: &str = "workflows.argoproj.io/controller-instanceid";
/// Names of Workflows end with a dash and ten digits, and may have 63 letters.
const NAME_MAX: usize = 52;

#[derive(Debug, Default)]
pub struct Observed {
    pub cron: CronWorkflow,
    /// The Workflows that it owns.
    pub children: Vec<Value>,
    /// Why the API server did not take the Workflow of this moment.
    pub refused: Option<String>,
}

#[derive(Debug, Default)]
pub struct Plan {
    pub status: CronWorkflowStatus,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// In this order: what begins before the status is written, what ends and goes after it.
    pub actions: Vec<Action>,
    pub requeue_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// One that is there already is the same.
    Create(Box<Value>),
    /// It is ended at once; its name.
    Terminate(String),
    Delete(String),
}

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let cron = &observed.cron;
    let mut next = Plan { status: cron.status.clone(), ..Plan::default() };
    count(&mut next.status, &observed.children);
    next.status.conditions.retain(|known| known.r#type != "SpecError");
    let schedules = match Schedules::of(&cron.spec).and_then(|all| named(cron).map(|()| all)) {
        Ok(schedules) => schedules,
        Err(why) => {
            next.status.conditions.push(condition("SpecError", &why));
            clear(&mut next, observed);
            return next;
        }
    };
    if is_stopped(&mut next, cron, now) {
        clear(&mut next, observed);
        return next;
    }
    next.status.phase = "Active".into();
    let used = schedules.written();
    let decided = cron.metadata.annotation(DECIDED);
    if cron.spec.suspend {
        next.annotations.insert(DECIDED.into(), "suspended".into());
    } else {
        // Whoever changes the schedule, or lets it go on, asks for what comes, not for what would have been.
        let changed = cron.metadata.annotation(USED_SCHEDULE).is_some_and(|before| before != used);
        let from = if changed || decided == Some("suspended") { now } else { since(cron) };
        let due = schedules.latest(from, now).filter(|due| is_in_time(cron, *due, now));
        if let Some(due) = due {
            decide(&mut next, observed, due, now);
        }
        if due.is_some() || changed || decided == Some("suspended") {
            next.annotations.insert(DECIDED.into(), due.unwrap_or(now).to_string());
        }
        next.requeue_at = schedules.next(due.unwrap_or(from), now);
    }
    next.annotations.insert(USED_SCHEDULE.into(), used);
    replace(&mut next, observed);
    clear(&mut next, observed);
    next
}

/// `Replace`: those of moments before the last one are ended. Found anew by every plan: one that was killed between what it wrote down and what it
/// ended is made good by the next one.
fn replace(next: &mut Plan, observed: &Observed) {
    let last =
        observed.cron.status.last_scheduled_time.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
    if observed.cron.spec.concurrency_policy != "Replace" || last.is_none() {
        return;
    }
    for child in observed.children.iter().filter(|child| !has_ended(child)) {
        let at = child["metadata"]["annotations"][SCHEDULED_TIME].as_str();
        let at = at.and_then(|at| at.parse::<Timestamp>().ok());
        let is_told = child["spec"]["shutdown"].as_str().is_some_and(|word| !word.is_empty());
        let terminate = Action::Terminate(text_of(&child["metadata"]["name"]));
        if at.is_some() && at < last && !is_told && !next.actions.contains(&terminate) {
            next.actions.push(terminate);
        }
    }
}

fn named(cron: &CronWorkflow) -> Result<(), String> {
    let length = cron.metadata.name.len();
    if length <= NAME_MAX {
        Ok(())
    } else {
        Err(format!("its name has {length} letters, and may have {NAME_MAX}"))
    }
}

/// The last moment that was decided about.
pub fn since(cron: &CronWorkflow) -> Timestamp {
    let time = |text: Option<&str>| text.and_then(|text| text.parse::<Timestamp>().ok());
    let known = [
        time(cron.metadata.annotation(DECIDED)),
        time(cron.status.last_scheduled_time.as_deref()),
        time(cron.metadata.creation_timestamp.as_deref()),
    ];
    known.into_iter().flatten().max().unwrap_or(Timestamp::UNIX_EPOCH)
}

fn is_in_time(cron: &CronWorkflow, due: Timestamp, now: Timestamp) -> bool {
    let said = cron.spec.starting_deadline_seconds.filter(|seconds| *seconds > 0);
    let patience = said.map_or(PATIENCE, SignedDuration::from_secs);
    now.duration_since(due) <= patience
}

/// What begins at this moment.
fn decide(next: &mut Plan, observed: &Observed, due: Timestamp, now: Timestamp) {
    let cron = &observed.cron;
    next.status.conditions.retain(|known| known.r#type != "SubmissionError");
    if let Some(why) = &observed.refused {
        next.status.conditions.push(condition("SubmissionError", why));
        return;
    }
    let name = child_name(cron, due);
    let made = observed.children.iter().any(|child| child["metadata"]["name"] == name.as_str());
    if !made {
        match runs_now(cron, now) {
            Ok(true) => {}
            Ok(false) => return,
            Err(why) => {
                next.status.conditions.push(condition("SubmissionError", &format!("when: {why}")));
                return;
            }
        }
        let running = observed.children.iter().filter(|child| !has_ended(child));
        match cron.spec.concurrency_policy.as_str() {
            "Forbid" if running.clone().next().is_some() => return,
            "Replace" => {
                let names = running.map(|child| Action::Terminate(text_of(&child["metadata"]["name"])));
                next.actions.extend(names);
            }
            _ => {}
        }
        let child = child(cron, due);
        next.status.active.push(reference(&child));
        next.actions.insert(0, Action::Create(Box::new(child)));
    }
    next.status.last_scheduled_time = Some(due.to_string());
}

pub fn child_name(cron: &CronWorkflow, due: Timestamp) -> String {
    format!("{}-{}", cron.metadata.name, due.as_second())
}

/// The Workflow of a moment.
pub fn child(cron: &CronWorkflow, due: Timestamp) -> Value {
    let mut child = workflow(cron);
    child["metadata"]["name"] = child_name(cron, due).into();
    child["metadata"]["annotations"][SCHEDULED_TIME] = due.to_string().into();
    child
}

/// A Workflow as the CronWorkflow has it, without a name: for one that somebody begins by hand as well.
pub fn workflow(cron: &CronWorkflow) -> Value {
    let metadata = cron.spec.workflow_metadata.clone().unwrap_or_default();
    let (mut labels, annotations) = (metadata.labels, metadata.annotations);
    labels.insert(CRON_WORKFLOW.into(), cron.metadata.name.clone());
    if let Some(id) = cron.metadata.labels.get(INSTANCE_ID) {
        labels.insert(INSTANCE_ID.into(), id.clone());
    }
    let mut object = json!({
        "apiVersion": API_VERSION,
        "kind": "Workflow",
        "metadata": {
            "namespace": cron.metadata.namespace,
            "labels": labels,
            "ownerReferences": [{"apiVersion": API_VERSION, "kind": "CronWorkflow", "name": cron.metadata.name,
                "uid": cron.metadata.uid, "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": cron.spec.workflow_spec,
    });
    if !annotations.is_empty() {
        object["metadata"]["annotations"] = json!(annotations);
    }
    if !metadata.finalizers.is_empty() {
        object["metadata"]["finalizers"] = json!(metadata.finalizers);
    }
    if let Some(template) = &cron.spec.workflow_spec.workflow_template_ref {
        let kind = if template.cluster_scope { "cluster-workflow-template" } else { "workflow-template" };
        object["metadata"]["labels"][format!("workflows.argoproj.io/{kind}")] = template.name.as_str().into();
    }
    object
}

fn reference(child: &Value) -> Value {
    let metadata = &child["metadata"];
    json!({"apiVersion": API_VERSION, "kind": "Workflow", "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]})
}

fn has_ended(child: &Value) -> bool {
    child["status"]["finishedAt"].is_string()
}

/// Those that have ended since the last look are counted, each once: it leaves the list of the active ones in the same write.
fn count(status: &mut CronWorkflowStatus, children: &[Value]) {
    let active = std::mem::take(&mut status.active);
    let last = status.last_scheduled_time.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
    for child in children {
        let name = &child["metadata"]["name"];
        let known = active.iter().any(|one| one["name"] == *name);
        let at = child["metadata"]["annotations"][SCHEDULED_TIME].as_str();
        let at = at.and_then(|at| at.parse::<Timestamp>().ok());
        // Made, and not written down before somebody died.
        let unknown = at.is_some() && at > last;
        if !has_ended(child) {
            status.active.push(reference(child));
        } else if known || unknown {
            match child["status"]["phase"].as_str() {
                Some("Succeeded") => status.succeeded += 1,
                _ => status.failed += 1,
            }
        }
    }
}

/// The oldest of those that have ended, beyond the limits.
fn clear(next: &mut Plan, observed: &Observed) {
    let spec = &observed.cron.spec;
    let limits = [
        (true, spec.successful_jobs_history_limit.unwrap_or(3)),
        (false, spec.failed_jobs_history_limit.unwrap_or(1)),
    ];
    for (well, limit) in limits {
        let ended = observed.children.iter().filter(|child| {
            has_ended(child)
                && (child["status"]["phase"] == "Succeeded") == well
                && child["metadata"]["deletionTimestamp"].is_null()
        });
        let mut ended: Vec<(String, String)> = ended
            .map(|child| (text_of(&child["status"]["finishedAt"]), text_of(&child["metadata"]["name"])))
            .collect();
        ended.sort();
        let kept = usize::try_from(limit).unwrap_or_default();
        let gone = ended.len().saturating_sub(kept);
        next.actions.extend(ended.into_iter().take(gone).map(|(_, name)| Action::Delete(name)));
    }
}

fn condition(kind: &str, message: &str) -> WorkflowCondition {
    WorkflowCondition {
        r#type: kind.into(),
        status: "True".into(),
        message: message.into(),
        ..WorkflowCondition::default()
    }
}

/// `cronworkflow.…`, for its own conditions.
fn scope(cron: &CronWorkflow, status: &CronWorkflowStatus) -> Scope {
    let mut scope = Scope::default();
    scope.set("cronworkflow.name", cron.metadata.name.as_str());
    scope.set("cronworkflow.namespace", cron.metadata.namespace.as_str());
    scope.set("cronworkflow.succeeded", status.succeeded);
    scope.set("cronworkflow.failed", status.failed);
    scope.set("cronworkflow.lastScheduledTime", json!(status.last_scheduled_time));
    for (group, entries) in [("labels", &cron.metadata.labels), ("annotations", &cron.metadata.annotations)] {
        scope.set(format!("cronworkflow.{group}.json"), json!(entries).to_string());
        for (name, value) in entries {
            scope.set(format!("cronworkflow.{group}.{name}"), value.as_str());
        }
    }
    scope
}

fn runs_now(cron: &CronWorkflow, now: Timestamp) -> Result<bool, String> {
    let when = cron.spec.when.trim();
    if when.is_empty() {
        return Ok(true);
    }
    let scope = scope(cron, &cron.status);
    if when.contains("{{") { crate::when::holds(when, &scope, now) } else { scope.holds(when, now) }
}

/// `stopStrategy`: it has run for the last time.
fn is_stopped(next: &mut Plan, cron: &CronWorkflow, now: Timestamp) -> bool {
    if next.status.phase == "Stopped" {
        return true;
    }
    let Some(strategy) = &cron.spec.stop_strategy else { return false };
    let text = if strategy.expression.is_empty() { &strategy.condition } else { &strategy.expression };
    match scope(cron, &next.status).holds(text, now) {
        Ok(false) => false,
        Ok(true) => {
            next.status.phase = "Stopped".into();
            next.labels.insert(COMPLETED.into(), "true".into());
            true
        }
        Err(why) => {
            next.status.conditions.push(condition("SpecError", &format!("stopStrategy: {why}")));
            false
        }
    }
}
