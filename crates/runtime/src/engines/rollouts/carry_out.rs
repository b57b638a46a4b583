//! Writes of a plan, in its order; then the status, if the Rollout is still the one that was looked at; then the events.

use serde_json::{Value, json};
use slipway_cluster::{Cluster, ObjectKey, Propagation, WriteOptions};
use slipway_crd::names::API_VERSION;
use slipway_model::Next;
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

/// Whose it is.
fn controller(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true).map(|owner| &owner["uid"])
}

/// The name of what was to be made is taken. A plan knows what its own object made a moment ago; it never sees what is somebody else's, so
/// that planning at once would ask the API server without a pause until that is gone.
fn stopped_by(wanted: &Value, there: Option<&Value>) -> Stop {
    if there.is_none_or(|there| controller(there) == controller(wanted)) {
        return Stop::Changed;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&wanted["kind"]), text(&wanted["metadata"]["name"]));
    Stop::failed(format!("{kind} {name} is there and somebody else's; rename or delete it"), Next::Retry)
}

/// One write of a plan, of Rollouts and of Experiments.
pub(crate) async fn act(cluster: &Cluster, action: &Action) -> Result<Value, Stop> {
    let options = WriteOptions::default();
    match action {
        Action::Create(object) => match cluster.create(object, options).await {
            Err(error) if error.already_exists() => {
                // It is read into the copy, so that the next plan knows it.
                let there = cluster.read(&ObjectKey::of(object)).await?;
                Err(stopped_by(object, there.as_ref()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_somebody_elses_is_not_asked_for_without_a_pause() {
        let of = |uid: &str| json!({"kind": "AnalysisRun", "metadata": {"name": "web-1", "ownerReferences": [{"uid": "x"}, {"controller": true, "uid": uid}]}});
        let orphan = json!({"kind": "AnalysisRun", "metadata": {"name": "web-1"}});
        assert!(matches!(stopped_by(&of("a"), Some(&of("a"))), Stop::Changed), "made a moment ago");
        assert!(matches!(stopped_by(&of("a"), None), Stop::Changed), "gone again");
        for there in [of("b"), orphan] {
            let Stop::Failed(failure) = stopped_by(&of("a"), Some(&there)) else {
                panic!("it is tried again at once")
            };
            assert_eq!(
                failure.message,
                "AnalysisRun web-1 is there and somebody else's; rename or delete it"
            );
        }
    }
}
