//! Experiments: versions side by side for a while.
//!
//! In: Experiments and what they own. Out: what the plan of the pure room `rollout` says, written down in its order, then the status. Decides
//! nothing: a reconcile that was killed anywhere is planned again from what the cluster holds then.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::{Cluster, ObjectKey};
use slipway_crd::analysis::Experiment;
use slipway_crd::names::{API_VERSION, GROUP};
use slipway_reconcile::{
    EventWriter, Key, Kind, Note, Reconciler, Requeue, Retry, StatusAt, StatusChange, Stop, Wake, Watch,
    save_status,
};
use slipway_rollout::experiment::{Observed, Plan, plan};

use super::analysis::templates;
use super::guard::Guard;
use super::rollouts::{UNTIL_READ, act, guard, is_waiting, ours};
use super::{Engine, Peers};
use crate::context::Context;
use crate::metrics::{Metrics, Of};

const EXPERIMENT: Kind = Kind::new(GROUP, "Experiment");
/// The safety net, in case that something was not heard.
const LOOK_AGAIN: Duration = Duration::from_secs(600);

pub(crate) struct Experiments {
    cluster: Cluster,
    events: Arc<EventWriter>,
    instance_id: String,
    guard: Guard,
    metrics: Arc<Metrics>,
}

impl Engine for Experiments {
    fn new(context: &Context, _: &Peers) -> Self {
        Self {
            cluster: context.cluster().clone(),
            events: context.events.clone(),
            instance_id: context.config.rollouts_instance_id(),
            guard: guard(),
            metrics: context.metrics.clone(),
        }
    }
}

impl Reconciler for Experiments {
    const NAME: &'static str = "experiments";
    const KIND: Kind = EXPERIMENT;
    const MANAGER: &'static str = "rollouts-controller";
    const RETRY: Retry = Retry { first: Duration::from_millis(500), max: Duration::from_secs(30) };

    fn workers(&self) -> usize {
        4
    }

    fn watches() -> Vec<Watch<Self>> {
        // A Rollout that takes its requests away lets the pods go.
        vec![Watch::itself(), Watch::owned(), Watch::map(super::rollouts::ROLLOUT, of_rollout)]
    }

    fn keys(&self) -> Vec<Key> {
        let all = self.cluster.live_of_kind(GROUP, EXPERIMENT.kind);
        all.iter().filter_map(|live| Key::of(EXPERIMENT, &live.key)).collect()
    }

    async fn reconcile(&self, key: &Key, _: Wake) -> Result<Requeue, Stop> {
        let outcome = self.reconcile_one(key).await;
        if let Err(Stop::Failed(_)) = &outcome {
            self.metrics.rollouts.failed(Of::Experiment, &key.namespace, &key.name);
        }
        outcome
    }

    fn finished(&self, key: &Key, took: Duration) {
        self.metrics.rollouts.finished(&self.cluster, Of::Experiment, key, took);
    }
}

/// The experiments of a Rollout, by its name in theirs.
fn of_rollout(engine: &Experiments, change: &slipway_cluster::Change) -> Vec<Key> {
    let all = engine.cluster.live_of_kind(GROUP, EXPERIMENT.kind);
    let prefix = format!("{}-", change.key.name);
    all.iter()
        .filter(|live| live.key.namespace == change.key.namespace && live.key.name.starts_with(&prefix))
        .filter_map(|live| Key::of(EXPERIMENT, &live.key))
        .collect()
}

impl Experiments {
    async fn reconcile_one(&self, key: &Key) -> Result<Requeue, Stop> {
        if is_waiting(&self.cluster) {
            return Ok(Requeue::Again(UNTIL_READ));
        }
        let ours = ours(&self.cluster, key, &self.instance_id, |one: &Experiment| &one.metadata);
        let (experiment, version) = ours.ok_or(Stop::Gone)?;
        self.guard.check(&self.cluster, &self.instance_id).await?;
        let observed = self.gather(key, experiment);
        let now = Timestamp::now();
        let next = plan(&observed, now);
        let wrote = !next.actions.is_empty();
        self.carry_out(key, &observed, &next, &version).await?;
        if wrote {
            // What was made is looked at at once; its controllers wake it besides.
            return Ok(Requeue::Again(Duration::from_millis(50)));
        }
        Ok(Requeue::due(next.requeue_at, now, LOOK_AGAIN))
    }

    fn gather(&self, key: &Key, experiment: Experiment) -> Observed {
        let uid = experiment.metadata.uid.clone();
        let own = |object: &Value| {
            let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            owners.into_iter().any(|owner| owner["controller"] == true && owner["uid"] == uid.as_str())
        };
        let mut observed = Observed { experiment, ..Observed::default() };
        let root = self.cluster.live(&key.object());
        for live in self.cluster.descendants(root.as_slice()) {
            let Some(object) = live.object().filter(own) else { continue };
            match (live.key.group.as_str(), live.key.kind.as_str()) {
                ("apps", "ReplicaSet") => observed.replica_sets.push(object),
                ("", "Service") => observed.services.push(object),
                (GROUP, "AnalysisRun") => observed.runs.extend(serde_json::from_value(object).ok()),
                _ => {}
            }
        }
        observed.templates = templates(&self.cluster, &key.namespace);
        observed.routed = self.routed(key, &observed.experiment);
        let templates = observed.experiment.spec.templates.iter();
        let sets: Vec<String> =
            templates.clone().map(|template| format!("{}-{}", key.name, template.name)).collect();
        let services: Vec<String> = templates
            .zip(&sets)
            .filter_map(|(template, set)| {
                let given = &template.service.as_ref()?.name;
                Some(if given.is_empty() { set.clone() } else { given.clone() })
            })
            .collect();
        observed.taken_sets = self.taken(key, ("apps", "ReplicaSet"), &observed.replica_sets, &sets);
        observed.taken = self.taken(key, ("", "Service"), &observed.services, &services);
        observed
    }

    /// Services that the Rollout which owns it still sends requests to.
    fn routed(&self, key: &Key, experiment: &Experiment) -> Vec<String> {
        let value = serde_json::to_value(&experiment.metadata).unwrap_or_default();
        let owners = value["ownerReferences"].as_array().into_iter().flatten();
        let rollout =
            owners.into_iter().find(|owner| owner["kind"] == "Rollout" && owner["controller"] == true);
        let Some(name) = rollout.and_then(|owner| owner["name"].as_str()) else { return Vec::new() };
        let rollout = ObjectKey::new(GROUP, "Rollout", &key.namespace, name);
        let rollout = self.cluster.live(&rollout).and_then(|live| live.object()).unwrap_or_default();
        let weights = rollout["status"]["canary"]["weights"]["additional"].as_array().into_iter().flatten();
        weights.filter_map(|one| one["serviceName"].as_str().map(str::to_owned)).collect()
    }

    /// Which of these names are somebody else's. What an Experiment of the same name left is on its way out, and waited for.
    fn taken(&self, key: &Key, (group, kind): (&str, &str), own: &[Value], names: &[String]) -> Vec<String> {
        let is_own = |name: &str| own.iter().any(|one| one["metadata"]["name"] == name);
        let of_another = |object: Value| {
            let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            let mut owners = owners.into_iter().filter(|owner| owner["controller"] == true);
            !owners.any(|owner| owner["kind"] == EXPERIMENT.kind && owner["name"] == key.name.as_str())
        };
        let is_taken = |name: &&String| {
            let there = self.cluster.live(&ObjectKey::new(group, kind, &key.namespace, name));
            !is_own(name) && there.and_then(|live| live.object()).is_some_and(of_another)
        };
        names.iter().filter(is_taken).cloned().collect()
    }

    async fn carry_out(
        &self,
        key: &Key,
        observed: &Observed,
        plan: &Plan,
        version: &str,
    ) -> Result<(), Stop> {
        for action in &plan.actions {
            act(&self.cluster, action).await?;
        }
        let after = serde_json::to_value(&plan.status).unwrap_or_default();
        let change = StatusChange { before: &observed.experiment.status, after: &after, version };
        save_status(&self.cluster, key, API_VERSION, StatusAt::Object, change).await?;
        let about = json!({"apiVersion": API_VERSION, "kind": "Experiment", "metadata": observed.experiment.metadata});
        for event in &plan.events {
            let note = Note { reason: event.reason, warning: event.warning, message: event.message.clone() };
            self.events.record(&about, Self::MANAGER, &note);
        }
        Ok(())
    }
}
