//! Writes of a plan: what is to be there, then the status, if the Workflow is still the one that was looked at, then what is to go.

use std::time::Instant;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use slipway_cluster::{ObjectKey, Propagation};
use slipway_crd::names::API_VERSION;
use slipway_crd::workflow::Workflow;
use slipway_reconcile::{Key, Note, Requeue, Stop, merge_patch, save};
use slipway_workflow::plan::{Action, Observed, Plan, plan};

use super::{Reconciler as _, WORKFLOW, Workflows};

const POD_NAME_FORMAT: &str = "workflows.argoproj.io/pod-name-format";

impl Workflows {
    /// Gives what was observed and planned in the end: pods that are refused change the plan.
    pub(super) async fn carry_out(
        &self,
        key: &Key,
        mut observed: Observed,
        version: &str,
        now: Timestamp,
    ) -> Result<(Observed, Plan), Stop> {
        let mut next = plan(&observed, now);
        loop {
            let (made, refused) = self.create(&observed, &next.actions).await?;
            if refused.is_empty() {
                break;
            }
            observed.pods.extend(made.into_iter().filter(|object| object["kind"] == "Pod"));
            observed.refused.extend(refused);
            next = plan(&observed, now);
        }
        self.remember(key, &next.actions).await?;
        self.write_down(key, &observed, &next, version).await?;
        Ok((observed, next))
    }

    async fn write_down(
        &self,
        key: &Key,
        observed: &Observed,
        plan: &Plan,
        version: &str,
    ) -> Result<(), Stop> {
        self.write_status(key, observed, plan, version).await?;
        for action in &plan.actions {
            let (kind, name) = match action {
                Action::DeletePod(name) => ("Pod", name),
                Action::DeleteClaim(name) => ("PersistentVolumeClaim", name),
                _ => continue,
            };
            let object = ObjectKey::new("", kind, &key.namespace, name);
            match self.cluster.delete(&object, None, Propagation::Background, false).await {
                Err(error) if error.is_not_found() => {}
                other => drop(other?),
            }
        }
        let about =
            json!({"apiVersion": API_VERSION, "kind": WORKFLOW.kind, "metadata": observed.workflow.metadata});
        for event in &plan.events {
            let note = Note { reason: event.reason, warning: event.warning, message: event.message.clone() };
            self.events.record(&about, Self::MANAGER, &note);
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
        let status = merge_patch(&json(&observed.workflow.status), &json(&plan.status));
        let metadata = &observed.workflow.metadata;
        let mut annotations: Vec<(&str, &str)> =
            plan.annotations.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        if metadata.annotation(POD_NAME_FORMAT).is_none() && !plan.labels.is_empty() {
            annotations.push((POD_NAME_FORMAT, "v2"));
        }
        let labels: Map<String, Value> = plan
            .labels
            .iter()
            .filter(|(name, value)| metadata.labels.get(*name) != Some(value))
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect();
        let annotations: Map<String, Value> = annotations
            .into_iter()
            .filter(|(name, value)| metadata.annotation(name) != Some(value))
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect();
        if status.is_none() && labels.is_empty() && annotations.is_empty() {
            return Ok(());
        }
        // Whoever resumes or retries writes here too: a decision about an older status is thought over.
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

    /// Its time is over; its pods go with it.
    pub(super) async fn remove(&self, key: &Key, workflow: &Workflow) -> Result<Requeue, Stop> {
        let uid = Some(workflow.metadata.uid.as_str());
        match self.cluster.delete(&key.object(), uid, Propagation::Background, false).await {
            Err(error) if error.is_not_found() => {}
            other => drop(other?),
        }
        Ok(Requeue::At(Instant::now() + super::LOOK_AGAIN))
    }
}
