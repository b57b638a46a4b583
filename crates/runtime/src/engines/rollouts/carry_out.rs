//! Writes of a plan, in its order; then the status, if the Rollout is still the one that was looked at; then the events.

use serde_json::{Value, json};
use slipway_cluster::{Cluster, ObjectKey, Propagation, WriteOptions};
use slipway_crd::names::API_VERSION;
use slipway_reconcile::{Key, Note, StatusAt, StatusChange, Stop, save_status};
use slipway_rollout::plan::{Action, Event, Observed, Plan};

use super::{Happened, Reconciler as _, Rollouts};

pub(super) fn makes_a_replica_set(plan: &Plan) -> bool {
    plan.actions
        .iter()
        .any(|action| matches!(action, Action::Create(object) if object["kind"] == "ReplicaSet"))
}

impl Rollouts {
    pub(super) async fn carry_out(
        &self,
        key: &Key,
        observed: &Observed,
        plan: &Plan,
        mut version: String,
    ) -> Result<(), Stop> {
        for action in &plan.actions {
            let answer = act(&self.cluster, action).await?;
            // Our own write makes another version of the Rollout.
            if answer["kind"] == "Rollout"
                && let Some(newer) = answer["metadata"]["resourceVersion"].as_str()
            {
                newer.clone_into(&mut version);
            }
        }
        self.write_status(key, observed, plan, &version).await?;
        let about =
            json!({"apiVersion": API_VERSION, "kind": "Rollout", "metadata": observed.rollout.metadata});
        for event in &plan.events {
            let note = Note { reason: event.reason, warning: event.warning, message: event.message.clone() };
            self.events.record(&about, Self::MANAGER, &note);
            self.metrics.rollouts.event(&key.namespace, &key.name, event.warning, event.reason);
        }
        if !plan.events.is_empty() {
            let mut after = serde_json::to_value(&observed.rollout).unwrap_or_default();
            after["status"] = serde_json::to_value(&plan.status).unwrap_or_default();
            for event in &plan.events {
                let Event { reason, warning, .. } = *event;
                self.messages.tell(&Happened { reason, warning, rollout: &after });
            }
        }
        Ok(())
    }

    async fn write_status(
        &self,
        key: &Key,
        observed: &Observed,
        plan: &Plan,
        version: &str,
    ) -> Result<(), Stop> {
        let json = |status| serde_json::to_value(status).unwrap_or_default();
        let (before, after) = (json(&observed.rollout.status), json(&plan.status));
        // Whoever promotes or aborts writes here too: a decision about an older status is thought over.
        let change = StatusChange { before: &before, after: &after, version };
        save_status(&self.cluster, key, API_VERSION, StatusAt::Subresource, change).await
    }
}

/// One write of a plan, of Rollouts and of Experiments.
pub(crate) async fn act(cluster: &Cluster, action: &Action) -> Result<Value, Stop> {
    let options = WriteOptions::default();
    match action {
        Action::Create(object) => match cluster.create(object, options).await {
            Err(error) if error.already_exists() => {
                // It is read into the copy, so that the next plan knows it.
                cluster.read(&ObjectKey::of(object)).await?;
                Err(Stop::Changed)
            }
            other => Ok(other?),
        },
        Action::Patch { target, patch } => {
            match cluster.merge(&target.object(), patch, options).await {
                // Gone, or written by somebody else meanwhile: the next plan is about what there is then.
                Err(error) if error.is_not_found() || error.is_conflict() => {
                    cluster.read(&ObjectKey::of(&target.object())).await?;
                    Err(Stop::Changed)
                }
                other => Ok(other?),
            }
        }
        Action::Delete { target, uid } => {
            let object = ObjectKey::of(&target.object());
            cluster.delete(&object, Some(uid), Propagation::Background, false).await?;
            Ok(Value::Null)
        }
        Action::Evict { target } => {
            match cluster.evict(&target.namespace, &target.name).await {
                // A budget forbids it for now; the plan looks again.
                Err(error) if error.is_too_many_requests() => {
                    tracing::info!(pod = %target.name, "A disruption budget keeps a pod from being restarted.");
                }
                Err(error) if error.is_not_found() => {}
                other => other?,
            }
            Ok(Value::Null)
        }
    }
}
