//! A Workflow, what it names and what runs for it → what becomes of its nodes, and what to do now.
//!
//! In: the object as it is in the cluster with its status, the templates that it refers to, its pods, what the programs in them said,
//! and the time. Out: the status, pods to create and to delete, events, and when to look again. The same in gives the same out: a reconcile that
//! was killed anywhere is planned again from what the cluster holds then, and pods have names that follow from their nodes, so that none
//! is made twice.

mod arguments;
mod cache;
mod capture;
mod compose;
mod dag;
mod execute;
mod expand;
mod finish;
mod globals;
mod hooks;
mod http;
mod leaf;
mod library;
pub mod locks;
mod manifest;
mod nodes;
mod observed;
mod outputs;
mod patch;
mod pods;
mod preview;
mod refused;
mod retry;
mod steps;
mod sweep;
mod timeouts;

pub use capture::readers;
pub use globals::config_maps;
pub use http::Answer;
pub use library::{Library, TemplateKey, arguments_with, effective};
pub use nodes::{is_completed, is_fulfilled};
pub use observed::{Action, Event, Observed, Plan, Refusal};
pub use preview::{Played, play, play_saying};

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use slipway_crd::workflow::{LabelFrom, Workflow, WorkflowSpec, WorkflowStatus};

use crate::scope::Scope;

/// Templates inside of templates; upstream has the same limit.
const DEPTH_MAX: usize = 100;
/// Nodes of one workflow: a template that calls itself twice would have more of them than a machine can hold.
const NODES_MAX: usize = 120_000;
/// Memory is taken as it is used.
const STACK: usize = 64 << 20;
/// A claim that is refused for now is asked for again.
const CLAIM_AGAIN: SignedDuration = SignedDuration::from_secs(10);

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let status = &observed.workflow.status;
    let has_ended = matches!(status.phase.as_str(), "Succeeded" | "Failed" | "Error");
    let spec = match effective(&observed.workflow, &observed.library) {
        Ok(spec) => spec,
        Err(_) if has_ended => observed.workflow.spec.clone(),
        Err(why) => return refused(observed, &format!("invalid spec: {why}"), now),
    };
    if has_ended {
        let mut run = Run::new(observed, spec, now);
        run.release_locks();
        run.sweep();
        return Plan { status: run.status, actions: run.actions, ..Plan::default() };
    }
    let unsupported = refused::unsupported(&spec, observed);
    if !unsupported.is_empty() {
        return refused(observed, &unsupported.join("; "), now);
    }
    if let Err(why) = globals::supplied(&spec, observed) {
        return refused(observed, &format!("invalid spec: {why}"), now);
    }
    on_a_large_stack(|| {
        let mut run = Run::new(observed, spec, now);
        run.operate();
        match run.overflow {
            Some(why) => overflown(observed, run.spec, &why, now),
            None => run.into_plan(),
        }
    })
}

/// Templates call each other as deep as [`DEPTH_MAX`], which is more than the stack of whoever asks may hold.
fn on_a_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let large = std::thread::Builder::new().stack_size(STACK);
        let done = large.spawn_scoped(scope, work).expect("a thread can be started").join();
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// It is ended as it was before this plan: what the plan would have begun is not begun.
fn overflown(observed: &Observed, spec: WorkflowSpec, why: &str, now: Timestamp) -> Plan {
    let mut run = Run::new(observed, spec, now);
    run.status.started_at.get_or_insert_with(|| now.to_string());
    run.end_everything(why);
    run.close("Error", why);
    run.release_locks();
    run.sweep();
    run.into_plan()
}

/// Nothing is started: the status says why.
fn refused(observed: &Observed, message: &str, now: Timestamp) -> Plan {
    let mut status = observed.workflow.status.clone();
    finish::end(&mut status, "Error", message, now);
    status.started_at.get_or_insert_with(|| now.to_string());
    let event = Event { reason: "WorkflowFailed", warning: true, message: message.to_owned() };
    Plan { labels: finish::labels(&status), status, events: vec![event], ..Plan::default() }
}

/// When an ended workflow is deleted, by its `ttlStrategy`.
pub fn expires_at(workflow: &Workflow, library: &Library) -> Option<Timestamp> {
    let status = &workflow.status;
    let spec = effective(workflow, library).unwrap_or_else(|_| workflow.spec.clone());
    let ttl = spec.ttl_strategy.as_ref()?;
    let special = match status.phase.as_str() {
        "Succeeded" => ttl.seconds_after_success,
        _ => ttl.seconds_after_failure,
    };
    let ended: Timestamp = status.finished_at.as_deref()?.parse().ok()?;
    ended.checked_add(SignedDuration::from_secs(special.or(ttl.seconds_after_completion)?)).ok()
}

/// One plan in the making.
struct Run<'a> {
    observed: &'a Observed,
    spec: WorkflowSpec,
    name: String,
    now: Timestamp,
    status: WorkflowStatus,
    globals: Scope,
    /// By their names.
    pods: BTreeMap<String, &'a Value>,
    actions: Vec<Action>,
    events: Vec<Event>,
    requeue_at: Option<Timestamp>,
    /// Pods that run or are about to, for `parallelism`.
    active: i64,
    depth: usize,
    /// It came to [`NODES_MAX`] or [`DEPTH_MAX`]: why it ends.
    overflow: Option<String>,
    /// Steps and tasks whose printed result is read by others; found out when a pod is made.
    readers: OnceCell<Arc<BTreeSet<String>>>,
}

/// Why something does not go on.
#[derive(Debug)]
enum Halt {
    /// A limit is reached: later.
    Limit,
    /// It cannot be carried out.
    Error(String),
}

impl From<String> for Halt {
    fn from(why: String) -> Self {
        Self::Error(why)
    }
}

impl<'a> Run<'a> {
    fn new(observed: &'a Observed, spec: WorkflowSpec, now: Timestamp) -> Self {
        let pods = observed.pods.iter();
        let pods = pods.filter_map(|pod| Some((pod["metadata"]["name"].as_str()?.to_owned(), pod)));
        let status = observed.workflow.status.clone();
        let mut run = Self {
            observed,
            name: observed.workflow.metadata.name.clone(),
            globals: globals::of(observed, &spec, &status),
            spec,
            now,
            status,
            pods: pods.collect(),
            actions: Vec::new(),
            events: Vec::new(),
            requeue_at: None,
            active: 0,
            depth: 0,
            overflow: None,
            readers: observed.readers.clone().map(OnceCell::from).unwrap_or_default(),
        };
        run.active = run.count_active();
        run
    }

    fn operate(&mut self) {
        if !self.may_begin_at_all() {
            return;
        }
        if (self.status.phase.is_empty() || self.status.phase == "Pending") && !self.begin() {
            return;
        }
        self.assess_pods();
        if self.spec.suspend == Some(true) && self.spec.shutdown.is_empty() {
            return;
        }
        self.check_deadline();
        let entry = execute::Call {
            name: self.name.clone(),
            template: execute::Asked::named(&self.entrypoint()),
            arguments: self.spec.arguments.clone(),
            ..execute::Call::default()
        };
        let ended = match self.execute(&entry) {
            Ok(node) => node,
            Err(Halt::Limit) => None,
            Err(Halt::Error(why)) => {
                self.fail_node(&entry, &why);
                self.node_id_of(&entry.name)
            }
        };
        self.finish(ended);
        self.keep_results();
        self.release_locks();
        self.sweep();
    }

    /// False: it does not begin, or not now.
    fn begin(&mut self) -> bool {
        let wrong = self.computed_labels().err().map(|why| Refusal::ForGood(format!("invalid spec: {why}")));
        match wrong.or_else(|| self.make_claims()) {
            Some(Refusal::ForGood(why)) => {
                self.status.started_at.get_or_insert_with(|| self.now.to_string());
                finish::end(&mut self.status, "Error", &why, self.now);
                return false;
            }
            Some(Refusal::ForNow(why)) => {
                self.status.phase = "Pending".into();
                self.status.message = why;
                let later = self.now.checked_add(CLAIM_AGAIN).unwrap_or(Timestamp::MAX);
                self.look_again_at(later);
                return false;
            }
            None => {}
        }
        self.status.phase = "Running".into();
        self.status.message.clear();
        self.status.started_at = Some(self.now.to_string());
        self.status.finished_at = None;
        let message = "Workflow Running".to_owned();
        self.events.push(Event { reason: "WorkflowRunning", warning: false, message });
        self.keep_template();
        true
    }

    /// What it is made of is kept as it was at the beginning: whoever changes or deletes it later changes nothing here.
    fn keep_template(&mut self) {
        let Some(reference) = &self.observed.workflow.spec.workflow_template_ref else { return };
        let key = TemplateKey::new(reference.cluster_scope, &reference.name);
        if self.status.stored_workflow_template_spec.is_none() {
            self.status.stored_workflow_template_spec = self.observed.library.specs.get(&key).cloned();
        }
    }

    fn entrypoint(&self) -> String {
        self.spec.entrypoint.clone()
    }

    /// `workflowMetadata.labelsFrom`.
    fn computed_labels(&self) -> Result<BTreeMap<String, String>, String> {
        let from = self.spec.workflow_metadata.iter().flat_map(|metadata| &metadata.labels_from);
        let label =
            |(name, from): (&String, &LabelFrom)| match self.globals.evaluate(&from.expression, self.now) {
                Ok(value) => Ok((name.clone(), value)),
                Err(why) => Err(format!("workflowMetadata.labelsFrom.{name}: {why}")),
            };
        from.map(label).collect()
    }

    /// The earliest of all moments counts.
    fn look_again_at(&mut self, at: Timestamp) {
        if at > self.now {
            self.requeue_at = Some(self.requeue_at.map_or(at, |known| known.min(at)));
        } else {
            self.requeue_at = Some(self.now);
        }
    }

    /// `spec.activeDeadlineSeconds`: whatever runs is ended then.
    fn check_deadline(&mut self) {
        let Some(seconds) = self.spec.active_deadline_seconds else { return };
        let started = self.status.started_at.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
        let Some(end) =
            started.and_then(|started| started.checked_add(SignedDuration::from_secs(seconds)).ok())
        else {
            return;
        };
        if end > self.now {
            self.look_again_at(end);
        } else if self.spec.shutdown.is_empty() {
            self.end_everything(timeouts::EXCEEDED);
        }
    }

    fn is_ending(&self) -> bool {
        !self.spec.shutdown.is_empty()
    }

    fn into_plan(mut self) -> Plan {
        self.status.progress = nodes::progress(&self.status);
        // One that cannot be computed ended the workflow at its beginning.
        let computed = self.computed_labels().unwrap_or_default();
        let metadata = self.spec.workflow_metadata.take().unwrap_or_default();
        let mut labels = metadata.labels;
        labels.extend(computed);
        // The engine's own go last.
        labels.extend(finish::labels(&self.status));
        Plan {
            labels,
            annotations: metadata.annotations,
            status: self.status,
            actions: self.actions,
            events: self.events,
            requeue_at: self.requeue_at,
        }
    }
}
