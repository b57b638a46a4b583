//! Writes of a plan, in its order; then the status, if the Rollout is still the one that was looked at; then the events.

use serde_json::{Value, json};
use slipway_cluster::{ObjectKey, Propagation, WriteOptions};
use slipway_crd::names::API_VERSION;
use slipway_reconcile::{Key, Note, Stop, merge_patch};
use slipway_rollout::plan::{Action, Observed, Plan};

use super::{Reconciler as _, Rollouts};

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
            let answer = self.act(key, action).await?;
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
        }
        Ok(())
    }

    async fn act(&self, key: &Key, action: &Action) -> Result<Value, Stop> {
        let options = WriteOptions::default();
        match action {
            Action::Create(object) => match self.cluster.create(object, options).await {
                Err(error) if error.already_exists() => {
                    // It is read into the copy, so that the next plan knows it.
                    self.cluster.read(&ObjectKey::of(object)).await?;
                    Err(Stop::Changed)
                }
                other => Ok(other?),
            },
            Action::Patch { target, patch } => {
                match self.cluster.merge(&target.object(), patch, options).await {
                    Err(error) if error.is_not_found() => {
                        self.cluster.read(&ObjectKey::of(&target.object())).await?;
                        Err(Stop::Changed)
                    }
                    other => Ok(other?),
                }
            }
            Action::Delete { target, uid } => {
                let object = ObjectKey::of(&target.object());
                self.cluster.delete(&object, Some(uid), Propagation::Background, false).await?;
                Ok(Value::Null)
            }
            Action::Evict { target } => {
                match self.cluster.evict(&target.namespace, &target.name).await {
                    // A budget forbids it for now; the plan looks again.
                    Err(error) if error.is_too_many_requests() => {
                        tracing::info!(rollout = %key, pod = %target.name, "A disruption budget keeps a pod from being restarted.");
                    }
                    Err(error) if error.is_not_found() => {}
                    other => other?,
                }
                Ok(Value::Null)
            }
        }
    }

    async fn write_status(
        &self,
        key: &Key,
        observed: &Observed,
        plan: &Plan,
        version: &str,
    ) -> Result<(), Stop> {
        let json = |status| serde_json::to_value(status).unwrap_or_default();
        let Some(status) = merge_patch(&json(&observed.rollout.status), &json(&plan.status)) else {
            return Ok(());
        };
        let target = json!({"apiVersion": API_VERSION, "kind": "Rollout", "metadata": {"namespace": key.namespace, "name": key.name}});
        // Whoever promotes or aborts writes here too: a decision about an older status is thought over.
        let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
        match self.cluster.merge_subresource(&target, "status", &patch).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_conflict() => {
                self.cluster.read(&key.object()).await?;
                Err(Stop::Changed)
            }
            Err(error) if error.is_not_found() => Err(Stop::Gone),
            Err(error) => Err(error.into()),
        }
    }
}
