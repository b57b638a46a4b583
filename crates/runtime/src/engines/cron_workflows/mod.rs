//! CronWorkflows: Workflows that begin by the clock.
//!
//! In: CronWorkflows and the Workflows that they own. Out: what the plan of the pure room `workflow` says: a Workflow is created, then what was decided is
//! written down, then others are ended and deleted. The name of a Workflow follows from its moment: a process that died anywhere is
//! followed by one that makes none twice and misses none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use slipway_cluster::{Cluster, ObjectKey, Propagation, WriteOptions};
use slipway_crd::names::{API_VERSION, GROUP};
use slipway_crd::workflow::CronWorkflow;
use slipway_reconcile::{
    EventWriter, Key, Kind, Note, Reconciler, Requeue, Retry, Stop, Wake, Watch, merge_patch, save,
};
use slipway_workflow::cron::{Action, Observed, Plan, plan};

use super::guard::Guard;
use super::workflows::{INSTANCE_ID, LOOK_AGAIN, WORKFLOW, guard};
use super::{Engine, Peers};
use crate::context::Context;

const CRON_WORKFLOW: Kind = Kind::new(GROUP, "CronWorkflow");

pub(crate) struct CronWorkflows {
    cluster: Cluster,
    events: Arc<EventWriter>,
    instance_id: String,
    namespace: Option<String>,
    guard: Guard,
}

impl Engine for CronWorkflows {
    fn new(context: &Context, _: &Peers) -> Self {
        let config = context.config.workflows.clone().unwrap_or_default();
        Self {
            cluster: context.cluster().clone(),
            events: context.events.clone(),
            instance_id: config.instance_id,
            namespace: config.namespace,
            guard: guard(),
        }
    }
}

impl Reconciler for CronWorkflows {
    const NAME: &'static str = "cron-workflows";
    const KIND: Kind = CRON_WORKFLOW;
    const MANAGER: &'static str = "workflow-controller";
    const RETRY: Retry = Retry { first: Duration::from_millis(200), max: Duration::from_secs(30) };

    fn workers(&self) -> usize {
        4
    }

    fn watches() -> Vec<Watch<Self>> {
        vec![Watch::itself(), Watch::owned()]
    }

    fn keys(&self) -> Vec<Key> {
        let all = self.cluster.live_of_kind(GROUP, CRON_WORKFLOW.kind);
        all.iter().filter_map(|live| Key::of(CRON_WORKFLOW, &live.key)).collect()
    }

    async fn reconcile(&self, key: &Key, _: Wake) -> Result<Requeue, Stop> {
        if [CRON_WORKFLOW, WORKFLOW].iter().any(|kind| self.cluster.is_waiting(kind.group, kind.kind)) {
            // What is not read yet is not gone.
            return Ok(Requeue::Again(Duration::from_millis(200)));
        }
        let live = self.cluster.live(&key.object()).ok_or(Stop::Gone)?;
        let cron = live.object().and_then(|object| serde_json::from_value::<CronWorkflow>(object).ok());
        let Some(cron) = cron.filter(|cron| self.is_ours(cron)) else { return Ok(Requeue::Never) };
        self.guard.check(&self.cluster, &self.instance_id).await?;
        let children = self.cluster.descendants(std::slice::from_ref(&live));
        let children = children.iter().filter(|child| WORKFLOW.is(&child.key));
        let children = children.filter_map(|child| child.object()).collect();
        let now = Timestamp::now();
        let mut observed = Observed { cron, children, refused: None };
        let mut next = plan(&observed, now);
        if let Some(why) = self.create(&observed, &next).await? {
            observed.refused = Some(why);
            next = plan(&observed, now);
        }
        self.write_down(key, &observed, &next, &live.resource_version).await?;
        self.end_and_delete(key, &next.actions).await?;
        Ok(Requeue::due(next.requeue_at, now, LOOK_AGAIN))
    }
}

impl CronWorkflows {
    fn is_ours(&self, cron: &CronWorkflow) -> bool {
        let metadata = &cron.metadata;
        let id = metadata.labels.get(INSTANCE_ID).map(String::as_str).unwrap_or_default();
        let here = self.namespace.as_ref().is_none_or(|namespace| *namespace == metadata.namespace);
        here && id == self.instance_id && metadata.deletion_timestamp.is_none()
    }

    /// Why the API server did not take it, if it will never take it.
    async fn create(&self, observed: &Observed, next: &Plan) -> Result<Option<String>, Stop> {
        for action in &next.actions {
            let Action::Create(object) = action else { continue };
            match self.cluster.create(object, WriteOptions::default()).await {
                Ok(_) => self.say(
                    observed,
                    "Submitted",
                    false,
                    &format!("Workflow {} began", object["metadata"]["name"]),
                ),
                Err(error) if error.already_exists() => {
                    // Made before it was written down, by us or by whoever was here before.
                    let known = self.cluster.read(&ObjectKey::of(object)).await?.unwrap_or_default();
                    let mut owners = known["metadata"]["ownerReferences"].as_array().into_iter().flatten();
                    if !owners.any(|owner| owner["uid"] == observed.cron.metadata.uid.as_str()) {
                        return Ok(Some(
                            "there is a Workflow of its name that belongs to somebody else".into(),
                        ));
                    }
                }
                Err(error) if matches!(error.code(), Some(400 | 403 | 404 | 413 | 422)) => {
                    let why = error.to_string();
                    self.say(observed, "SubmissionFailed", true, &why);
                    return Ok(Some(why));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    fn say(&self, observed: &Observed, reason: &'static str, warning: bool, message: &str) {
        let about = json!({"apiVersion": API_VERSION, "kind": CRON_WORKFLOW.kind, "metadata": observed.cron.metadata});
        let note = Note { reason, warning, message: message.to_owned() };
        self.events.record(&about, Self::MANAGER, &note);
    }

    async fn write_down(
        &self,
        key: &Key,
        observed: &Observed,
        next: &Plan,
        version: &str,
    ) -> Result<(), Stop> {
        let json = |status| serde_json::to_value(status).unwrap_or_default();
        let metadata = &observed.cron.metadata;
        let labels = changed(&next.labels, &metadata.labels);
        let annotations = changed(&next.annotations, &metadata.annotations);
        let status = merge_patch(&json(&observed.cron.status), &json(&next.status));
        if status.is_none() && labels.is_empty() && annotations.is_empty() {
            return Ok(());
        }
        let mut patch = json!({"metadata": {}});
        if !labels.is_empty() {
            patch["metadata"]["labels"] = labels.into();
        }
        if !annotations.is_empty() {
            patch["metadata"]["annotations"] = annotations.into();
        }
        if let Some(status) = status {
            patch["status"] = status;
        }
        save(&self.cluster, key, API_VERSION, patch, version).await.map(drop)
    }

    async fn end_and_delete(&self, key: &Key, actions: &[Action]) -> Result<(), Stop> {
        for action in actions {
            let done = match action {
                Action::Create(_) => continue,
                Action::Terminate(name) => {
                    let target = json!({"apiVersion": API_VERSION, "kind": WORKFLOW.kind,
                        "metadata": {"namespace": key.namespace, "name": name}});
                    let patch = json!({"spec": {"shutdown": "Terminate"}});
                    self.cluster.merge(&target, &patch, WriteOptions::default()).await.map(drop)
                }
                Action::Delete(name) => {
                    let object = ObjectKey::new(GROUP, WORKFLOW.kind, &key.namespace, name);
                    self.cluster.delete(&object, None, Propagation::Background, false).await.map(drop)
                }
            };
            match done {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Those that the object does not have like this.
fn changed(wanted: &BTreeMap<String, String>, known: &BTreeMap<String, String>) -> Map<String, Value> {
    let differs = |(name, value): &(&String, &String)| known.get(*name) != Some(*value);
    wanted.iter().filter(differs).map(|(name, value)| (name.clone(), value.as_str().into())).collect()
}
