//! A Rollout as people follow it: its steps and where it stands among them, weights, measurements, versions, and what can be asked of it.
//!
//! In: the Rollout with its ReplicaSets, runs and experiments, and the time. Out: values to show ([`Player`]). By what was written about the
//! Rollout alone, so that it is right beside any controller; Services, routes and templates are not looked at.

mod runs;
mod steps;

use jiff::Timestamp;
use serde_json::Value;
use slipway_crd::rollout::Rollout;

pub use runs::{Measured, Metric, Run};
pub use steps::{State, Step};

use crate::orders::{Order, writes};
use crate::plan::{Observed, waiting};
use crate::{names, phase};

#[derive(Debug, Clone, PartialEq)]
pub struct Player {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// `Canary`, `BlueGreen` or nothing.
    pub strategy: &'static str,
    pub phase: String,
    pub message: String,
    /// Why it is not moving; empty when it is where it should be.
    pub waiting: String,
    pub steps: Vec<Step>,
    /// The step that is under way, from 0; all of them are done where it is their number.
    pub step: Option<i64>,
    pub weights: Option<Weights>,
    /// Newest first.
    pub versions: Vec<Version>,
    /// Newest first.
    pub runs: Vec<Run>,
    pub desired: i64,
    pub updated: i64,
    pub ready: i64,
    pub available: i64,
    pub offers: Vec<Offer>,
}

/// The share of the wanted version, of [`Self::most`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weights {
    pub now: i64,
    pub wanted: i64,
    pub most: i64,
    /// True: a router divides the requests. Otherwise the pods that are available do.
    pub routed: bool,
    /// What the data plane says about it, if it says something.
    pub verified: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub revision: i64,
    pub name: String,
    pub hash: String,
    /// `stable`, `canary`, `active`, `preview`.
    pub roles: Vec<&'static str>,
    pub images: Vec<String>,
    pub desired: i64,
    pub ready: i64,
    pub available: i64,
    pub created: String,
    /// When its pods leave, where that is decided.
    pub leaves: Option<String>,
}

/// Something that can be asked of it; with a reason, not now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub order: Order,
    pub refused: Option<String>,
}

/// What people are offered, in the order of use.
const OFFERED: [Order; 7] = [
    Order::Resume,
    Order::SkipStep,
    Order::PromoteFull,
    Order::Pause,
    Order::Abort,
    Order::Retry,
    Order::Restart,
];

/// Services, routes and templates of `observed` may be left out.
pub fn player(observed: &Observed, now: Timestamp) -> Player {
    let rollout = &observed.rollout;
    let (metadata, status) = (&rollout.metadata, &rollout.status);
    let (phase, message) = phase::of(rollout);
    let strategy = match (rollout.canary(), rollout.blue_green()) {
        (Some(_), _) => "Canary",
        (_, Some(_)) => "BlueGreen",
        _ => "",
    };
    let steps = steps::of(observed);
    let versions = versions(observed);
    let offer = |order: Order| {
        let refused = writes(&order, rollout, &[], None, now).err();
        Offer { order, refused }
    };
    Player {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        strategy,
        phase: phase.to_owned(),
        message,
        waiting: waiting(observed, now),
        step: status.current_step_index.filter(|_| !steps.is_empty()),
        steps,
        weights: weights(rollout, &versions),
        versions,
        runs: runs::of(observed),
        desired: rollout.replicas(),
        updated: status.updated_replicas,
        ready: status.ready_replicas,
        available: status.available_replicas,
        offers: OFFERED.into_iter().map(offer).collect(),
    }
}

fn is_promoted(rollout: &Rollout) -> bool {
    let status = &rollout.status;
    !status.stable_rs.is_empty() && status.stable_rs == status.current_pod_hash
}

fn weights(rollout: &Rollout, versions: &[Version]) -> Option<Weights> {
    let canary = rollout.canary()?;
    let status = &rollout.status;
    let most = crate::plan::max_weight_of(rollout);
    let promoted = is_promoted(rollout);
    let wanted = if promoted || status.promote_full {
        most
    } else if status.abort || status.stable_rs.is_empty() {
        0
    } else {
        let at = usize::try_from(status.current_step_index.unwrap_or(0)).unwrap_or(0);
        if at >= canary.steps.len() {
            most
        } else {
            canary.steps.iter().take(at + 1).rev().find_map(|step| step.set_weight).unwrap_or(0)
        }
    };
    let told = status.canary.weights.as_ref().filter(|_| canary.traffic_routing.is_some());
    let now = match told {
        // By the versions that both destinations stand for: after a promotion that is the wanted one twice.
        Some(weights) => [&weights.canary, &weights.stable]
            .into_iter()
            .filter(|one| one.pod_template_hash == status.current_pod_hash)
            .map(|one| one.weight)
            .sum(),
        None => {
            let of = |ours: bool| -> i64 {
                versions
                    .iter()
                    .filter(|one| (one.hash == status.current_pod_hash) == ours)
                    .map(|one| one.available)
                    .sum()
            };
            let (new, old) = (of(true), of(false));
            if new + old == 0 { 0 } else { (new * most + (new + old) / 2) / (new + old) }
        }
    };
    let verified = told.and_then(|weights| weights.verified);
    Some(Weights { now, wanted, most, routed: canary.traffic_routing.is_some(), verified })
}

fn versions(observed: &Observed) -> Vec<Version> {
    let rollout = &observed.rollout;
    let status = &rollout.status;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    let mut all: Vec<Version> = observed
        .replica_sets
        .iter()
        .filter(|set| crate::plan::is_controlled_by(set, &rollout.metadata.uid))
        .map(|set| {
            let metadata = &set["metadata"];
            let hash = text(&metadata["labels"][names::HASH]);
            let roles = [
                (&status.stable_rs, "stable"),
                (&status.blue_green.active_selector, "active"),
                (&status.blue_green.preview_selector, "preview"),
            ];
            let mut roles: Vec<&str> =
                roles.into_iter().filter(|(of, _)| **of == hash).map(|(_, role)| role).collect();
            if rollout.canary().is_some() && hash == status.current_pod_hash && hash != status.stable_rs {
                roles.push("canary");
            }
            let containers = set["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten();
            Version {
                revision: text(&metadata["annotations"][names::REVISION]).parse().unwrap_or(0),
                name: text(&metadata["name"]),
                hash,
                roles,
                images: containers.map(|container| text(&container["image"])).collect(),
                desired: number(&set["spec"]["replicas"]),
                ready: number(&set["status"]["readyReplicas"]),
                available: number(&set["status"]["availableReplicas"]),
                created: text(&metadata["creationTimestamp"]),
                leaves: metadata["annotations"][names::SCALE_DOWN_DEADLINE]
                    .as_str()
                    .filter(|at| !at.is_empty())
                    .map(str::to_owned),
            }
        })
        .collect();
    all.sort_by(|a, b| (b.revision, &b.name).cmp(&(a.revision, &a.name)));
    all
}
