//! What the cluster holds, as values: read once from JSON, then only counted.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use slipway_crd::analysis::{AnalysisRun, AnalysisTemplate, Experiment};
use slipway_crd::rollout::Rollout;

use crate::names;
use crate::routing::Seen;

/// Everything that a plan is made from.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    pub rollout: Rollout,
    /// Of the namespace; those of others are left alone.
    pub replica_sets: Vec<Value>,
    /// Of the Rollout's ReplicaSets; needed where pods are restarted or relabelled.
    pub pods: Vec<Value>,
    /// Those that the Rollout names, by name; one that does not exist is not in it.
    pub services: BTreeMap<String, Value>,
    /// The objects of its routers.
    pub routes: Seen,
    /// AnalysisRuns that the Rollout owns.
    pub runs: Vec<AnalysisRun>,
    /// Experiments that the Rollout owns.
    pub experiments: Vec<Experiment>,
    /// The analysis templates that may be named: those of the namespace, and the cluster's.
    pub templates: Vec<AnalysisTemplate>,
    /// What `workloadRef` refers to.
    pub workload: Option<Value>,
    /// Why the Rollout cannot be carried out, beyond what is wrong with it and with its references.
    pub refused: Vec<String>,
}

/// A ReplicaSet of the Rollout. Its numbers change while a plan is made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReplicaSet {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) hash: String,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) created: Timestamp,
    /// `spec.replicas`.
    pub(super) wanted: i64,
    /// Pods that exist, are ready, are available.
    pub(super) actual: i64,
    pub(super) ready: i64,
    pub(super) available: i64,
    /// Its controller has seen its spec.
    pub(super) observed: bool,
    pub(super) deleting: bool,
    pub(super) min_ready_seconds: i64,
    pub(super) template: Value,
    pub(super) selector: Value,
    /// Conditions that say that pods cannot be made.
    pub(super) failures: Vec<Value>,
    /// Nobody owns it, and it would be ours.
    pub(super) orphan: bool,
}

impl ReplicaSet {
    pub(super) fn read(object: &Value) -> Self {
        let number = |value: &Value| value.as_i64().unwrap_or(0);
        let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
        let conditions = status["conditions"].as_array().into_iter().flatten();
        Self {
            name: text(&metadata["name"]),
            uid: text(&metadata["uid"]),
            hash: text(&metadata["labels"][names::HASH]),
            annotations: words(&metadata["annotations"]),
            created: time(&metadata["creationTimestamp"]).unwrap_or(Timestamp::UNIX_EPOCH),
            wanted: spec["replicas"].as_i64().unwrap_or(1),
            actual: number(&status["replicas"]),
            ready: number(&status["readyReplicas"]),
            available: number(&status["availableReplicas"]),
            observed: number(&metadata["generation"]) <= number(&status["observedGeneration"]),
            deleting: metadata["deletionTimestamp"].is_string(),
            min_ready_seconds: number(&spec["minReadySeconds"]),
            template: spec["template"].clone(),
            selector: spec["selector"].clone(),
            failures: conditions.filter(|one| one["type"] == "ReplicaFailure").cloned().collect(),
            orphan: !controlled(metadata),
        }
    }

    pub(super) fn revision(&self) -> Option<i64> {
        self.annotations.get(names::REVISION)?.parse().ok()
    }

    pub(super) fn deadline(&self) -> Option<&str> {
        self.annotations.get(names::SCALE_DOWN_DEADLINE).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// The deadline, if it can be read and has not passed.
    pub(super) fn time_left(&self, now: Timestamp) -> Option<Timestamp> {
        self.deadline()?.parse().ok().filter(|at: &Timestamp| *at > now)
    }

    pub(super) fn is_fully_available(&self) -> bool {
        self.wanted != 0 && self.available != 0 && self.wanted <= self.available
    }
}

fn controlled(metadata: &Value) -> bool {
    metadata["ownerReferences"].as_array().into_iter().flatten().any(|owner| owner["controller"] == true)
}

/// True when this uid is the controller of the object.
pub(crate) fn is_controlled_by(object: &Value, uid: &str) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.into_iter().any(|owner| owner["controller"] == true && owner["uid"] == uid)
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(super) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

pub(super) fn words(value: &Value) -> BTreeMap<String, String> {
    let fields = value.as_object().into_iter().flatten();
    fields.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// As Kubernetes writes a time.
pub(super) fn written(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
