//! Rollouts: versions of pods take over step by step, or all at once.
//!
//! In: Rollouts and what they own and name. Out: what the plan of the pure room `rollout` says, written down in its order, then the status.
//! Decides nothing: a reconcile that was killed anywhere is planned again from what the cluster holds then.

mod carry_out;
mod gather;
mod messages;
mod named;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use slipway_cluster::{Change, Cluster};
use slipway_crd::ObjectMeta;
use slipway_crd::names::GROUP;
use slipway_crd::rollout::Rollout;
use slipway_reconcile::{EventWriter, Key, Kind, Reconciler, Requeue, Retry, Stop, Wake, Watch};
use slipway_rollout::names::INSTANCE_ID;
use slipway_rollout::plan::plan;
use slipway_rollout::routing;

pub(super) use carry_out::act;

use super::guard::Guard;
use super::{Engine, Peers};
use crate::context::Context;
use crate::metrics::{Metrics, Of};
use messages::{Happened, Messages};
use named::Named;

pub(crate) const ROLLOUT: Kind = Kind::new(GROUP, "Rollout");
const SERVICE: Kind = Kind::new("", "Service");
const DEPLOYMENT: Kind = Kind::new("apps", "Deployment");

/// Plans that follow each other at once are carried out in one reconcile, up to so many.
const ROUNDS_MAX: usize = 12;
/// The safety net, in case that something was not heard.
const LOOK_AGAIN: Duration = Duration::from_secs(600);

/// What is being read is looked at again so soon.
pub(super) const UNTIL_READ: Duration = Duration::from_millis(200);

pub(crate) struct Rollouts {
    cluster: Cluster,
    events: Arc<EventWriter>,
    /// Only Rollouts with this label are ours; empty: those without one.
    instance_id: String,
    /// Who names which Service or Deployment.
    named: Named,
    guard: Guard,
    messages: Messages,
    metrics: Arc<Metrics>,
}

impl Engine for Rollouts {
    fn new(context: &Context, _: &Peers) -> Self {
        Self {
            cluster: context.cluster().clone(),
            events: context.events.clone(),
            instance_id: context.config.rollouts_instance_id(),
            named: Named::default(),
            messages: Messages::new(context),
            metrics: context.metrics.clone(),
            guard: guard(),
        }
    }
}

impl Reconciler for Rollouts {
    const NAME: &'static str = "rollouts";
    const KIND: Kind = ROLLOUT;
    const MANAGER: &'static str = "rollouts-controller";
    const RETRY: Retry = Retry { first: Duration::from_millis(500), max: Duration::from_secs(30) };

    fn workers(&self) -> usize {
        8
    }

    fn watches() -> Vec<Watch<Self>> {
        let mut all = vec![
            Watch::itself(),
            Watch::owned(),
            Watch::map(SERVICE, whoever_names),
            Watch::map(DEPLOYMENT, whoever_names),
        ];
        let routes = routing::KINDS.into_iter();
        all.extend(routes.map(|(group, kind)| Watch::map(Kind::new(group, kind), whoever_names)));
        all
    }

    fn keys(&self) -> Vec<Key> {
        self.cluster
            .live_of_kind(GROUP, ROLLOUT.kind)
            .iter()
            .filter_map(|live| Key::of(ROLLOUT, &live.key))
            .collect()
    }

    async fn reconcile(&self, key: &Key, _: Wake) -> Result<Requeue, Stop> {
        let outcome = self.reconcile_one(key).await;
        if let Err(Stop::Failed(_)) = &outcome {
            self.metrics.rollouts.failed(Of::Rollout, &key.namespace, &key.name);
        }
        outcome
    }

    async fn released(&self, key: &Key) {
        self.named.forget(key);
    }

    fn finished(&self, key: &Key, took: Duration) {
        self.metrics.rollouts.finished(&self.cluster, Of::Rollout, key, took);
    }
}

/// What plans of Rollouts and of Experiments are made from. The copy is read kind by kind, and what is not read yet is not gone: without its
/// templates an Experiment would fail for good, and without its Rollout its pods would leave before their requests.
const READ: [(&str, &str); 8] = [
    (GROUP, "Rollout"),
    (GROUP, "Experiment"),
    (GROUP, "AnalysisRun"),
    (GROUP, "AnalysisTemplate"),
    (GROUP, "ClusterAnalysisTemplate"),
    ("apps", "ReplicaSet"),
    ("", "Pod"),
    ("", "Service"),
];

/// True while a part of what plans are made from is being read.
pub(super) fn is_waiting(cluster: &Cluster) -> bool {
    READ.iter().any(|(group, kind)| cluster.is_waiting(group, kind))
}

/// The object, if it is ours to look after, and the version that was read.
pub(super) fn ours<T: DeserializeOwned>(
    cluster: &Cluster,
    key: &Key,
    instance_id: &str,
    metadata: fn(&T) -> &ObjectMeta,
) -> Option<(T, String)> {
    let live = cluster.live(&key.object())?;
    let object: T = serde_json::from_value(live.object()?).ok()?;
    let id = metadata(&object).labels.get(INSTANCE_ID).map(String::as_str).unwrap_or_default();
    (id == instance_id).then(|| (object, live.resource_version.clone()))
}

/// Of all that the controller of Argo Rollouts looks after: AnalysisRuns and Experiments, too.
pub(super) fn guard() -> Guard {
    Guard::new("argo-rollouts-controller-lock", "the Argo Rollouts controller")
}

fn whoever_names(engine: &Rollouts, change: &Change) -> Vec<Key> {
    engine.named.by(&change.key)
}

impl Rollouts {
    async fn reconcile_one(&self, key: &Key) -> Result<Requeue, Stop> {
        if is_waiting(&self.cluster) {
            return Ok(Requeue::Again(UNTIL_READ));
        }
        for _ in 0..ROUNDS_MAX {
            let ours = ours(&self.cluster, key, &self.instance_id, |one: &Rollout| &one.metadata);
            let Some((rollout, version)) = ours else {
                self.named.forget(key);
                return Err(Stop::Gone);
            };
            self.guard.check(&self.cluster, &self.instance_id).await?;
            let mut observed = self.gather(key, rollout).await?;
            let routes = routing::objects(&observed.rollout, &observed.routes);
            if routes.iter().any(|at| self.cluster.is_waiting(&at.group, &at.kind)) {
                return Ok(Requeue::Again(UNTIL_READ));
            }
            let now = Timestamp::now();
            let mut next = plan(&observed, now);
            if carry_out::makes_a_replica_set(&next) {
                // Before another version is made, the API server is asked whether it is there: a copy may be behind, or a ReplicaSet
                // nobody's.
                self.ask_for_replica_sets(key, &mut observed).await?;
                next = plan(&observed, now);
            }
            self.carry_out(key, &observed, &next, version).await?;
            if !next.again {
                return Ok(Requeue::due(next.requeue_at, now, LOOK_AGAIN));
            }
        }
        Ok(Requeue::At(Instant::now()))
    }
}
