//! What a plan is made from, and what it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use slipway_crd::workflow::{Http, TaskResult, Workflow, WorkflowStatus};

use super::Library;
use super::http::Answer;
use super::locks::Locks;

#[derive(Debug, Default)]
pub struct Observed {
    pub workflow: Workflow,
    pub library: Library,
    /// All pods that have the label of the workflow.
    pub pods: Vec<Value>,
    /// What the programs in pods said, by the id of the node.
    pub results: BTreeMap<String, TaskResult>,
    /// The image with the program that captures what containers leave; none: nothing is captured.
    pub executor_image: Option<String>,
    /// What came back from calls, or why nothing did, by the id of the node.
    pub answers: BTreeMap<String, Result<Answer, String>>,
    /// Pods that the API server did not make just now, by their names.
    pub refused: BTreeMap<String, Refusal>,
    /// Steps whose printed result is read by others ([`super::readers`]); none: it is found out when it is needed.
    pub readers: Option<Arc<BTreeSet<String>>>,
    /// ConfigMaps of the workflow's namespace that it names, by their names; those that are not there are missing.
    pub config_maps: BTreeMap<String, Value>,
    /// Who else holds and waits for what this workflow wants to have for itself; none: nobody looks after that here.
    pub locks: Option<Locks>,
}

/// Why a pod was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A quota, a server that is busy: it is tried again.
    ForNow(String),
    /// It will never be taken.
    ForGood(String),
}

/// What there is to do now: what is created is created before the status is written, what is deleted is deleted after it.
#[derive(Debug, Default)]
pub struct Plan {
    pub status: WorkflowStatus,
    /// Labels and annotations that the Workflow is to have.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub actions: Vec<Action>,
    pub events: Vec<Event>,
    pub requeue_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// One that is there already is the same.
    CreatePod(Box<Value>),
    DeletePod(String),
    CreateClaim(Box<Value>),
    DeleteClaim(String),
    /// Asked once, while nobody knows the answer.
    Call {
        node: String,
        http: Box<Http>,
    },
    /// What a node left is kept for others: an entry of a ConfigMap that is a cache.
    Remember {
        config_map: String,
        key: String,
        entry: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub reason: &'static str,
    pub warning: bool,
    pub message: String,
}
