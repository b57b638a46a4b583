//! Job: a program of the user's own, whose end is the measurement.

use serde_json::{Value, json};
use slipway_cluster::{ClusterError, ObjectKey, Propagation, WriteOptions};
use slipway_crd::analysis::{AnalysisRun, Measurement, Metric};
use slipway_crd::names::API_VERSION;
use slipway_rollout::analysis::{FAILED, SUCCESSFUL, Task};

use super::Analysis;
use super::provider::failed;

const NAME: &str = "job-name";

impl Analysis {
    pub(super) async fn job(
        &self,
        run: &AnalysisRun,
        metric: &Metric,
        config: &Value,
        task: &Task,
    ) -> Measurement {
        let outcome = match &task.under_way {
            None if task.terminate => return failed("the run was ended before it was measured"),
            None => self.start_job(run, metric, config).await,
            Some(before) if task.terminate => self.end_job(run, before).await,
            Some(before) => self.look_at_job(run, before).await,
        };
        outcome.unwrap_or_else(|error| failed(error.to_string()))
    }

    async fn start_job(
        &self,
        run: &AnalysisRun,
        metric: &Metric,
        config: &Value,
    ) -> Result<Measurement, ClusterError> {
        let results = run.status.metric_results.iter().find(|result| result.name == metric.name);
        let number = results.map_or(0, |result| result.count + result.error) + 1;
        // The name is the same when it is tried again after a death: then it is there already.
        let name = format!("{}.{}.{number}", run.metadata.uid, metric.name);
        let owner = json!({"apiVersion": API_VERSION, "kind": "AnalysisRun", "name": run.metadata.name, "uid": run.metadata.uid,
            "controller": true, "blockOwnerDeletion": true});
        let mut labels = fields(&config["metadata"]["labels"]);
        labels["analysisrun.argoproj.io/uid"] = run.metadata.uid.as_str().into();
        let mut annotations = fields(&config["metadata"]["annotations"]);
        annotations["analysisrun.argoproj.io/name"] = run.metadata.name.as_str().into();
        annotations["analysisrun.argoproj.io/metric-name"] = metric.name.as_str().into();
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": config["spec"],
            "metadata": {"name": name, "namespace": run.metadata.namespace, "labels": labels, "annotations": annotations, "ownerReferences": [owner]}});
        match self.cluster.create(&job, WriteOptions::default()).await {
            Err(error) if !error.already_exists() => return Err(error),
            _ => {}
        }
        Ok(running(name))
    }

    async fn look_at_job(
        &self,
        run: &AnalysisRun,
        before: &Measurement,
    ) -> Result<Measurement, ClusterError> {
        let Some(name) = before.metadata.get(NAME) else {
            return Ok(failed("the measurement does not say which Job it is"));
        };
        let key = ObjectKey::new("batch", "Job", &run.metadata.namespace, name);
        let job = match self.cluster.live(&key).and_then(|live| live.object()) {
            Some(job) => Some(job),
            None => self.cluster.read(&key).await?,
        };
        let Some(job) = job.filter(|job| is_of(job, run)) else {
            return Ok(Measurement {
                metadata: before.metadata.clone(),
                ..failed(format!("the Job {name} is gone"))
            });
        };
        let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
        let ended = conditions.into_iter().find(|one| {
            one["status"] == "True" && matches!(one["type"].as_str(), Some("Complete" | "Failed"))
        });
        let mut measurement = running(name.clone());
        if let Some(ended) = ended {
            measurement.phase = if ended["type"] == "Complete" { SUCCESSFUL } else { FAILED }.into();
            measurement.message = if ended["type"] == "Failed" {
                ended["message"].as_str().unwrap_or_default().to_owned()
            } else {
                String::new()
            };
        }
        Ok(measurement)
    }

    async fn end_job(&self, run: &AnalysisRun, before: &Measurement) -> Result<Measurement, ClusterError> {
        let name = before.metadata.get(NAME).cloned().unwrap_or_default();
        let key = ObjectKey::new("batch", "Job", &run.metadata.namespace, &name);
        let job = self.cluster.read(&key).await?.filter(|job| is_of(job, run));
        if let Some(uid) = job.as_ref().and_then(|job| job["metadata"]["uid"].as_str()) {
            self.cluster.delete(&key, Some(uid), Propagation::Background, false).await?;
        }
        Ok(Measurement { phase: SUCCESSFUL.into(), message: "Metric Terminated".into(), ..running(name) })
    }
}

/// What is written there, if it is what belongs there.
fn fields(value: &Value) -> Value {
    if value.is_object() { value.clone() } else { json!({}) }
}

/// A measurement's status names its Job, and whoever may write the run may write any name there.
fn is_of(job: &Value, run: &AnalysisRun) -> bool {
    let owners = job["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.into_iter().any(|owner| owner["uid"] == run.metadata.uid.as_str())
}

fn running(name: String) -> Measurement {
    Measurement {
        phase: "Running".into(),
        metadata: [(NAME.to_owned(), name)].into(),
        ..Measurement::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_somebody_else_is_neither_judged_by_nor_ended() {
        let run: AnalysisRun =
            serde_json::from_value(json!({"metadata": {"name": "r", "uid": "u"}, "spec": {}}))
                .expect("a run");
        let job = |owners: Value| json!({"metadata": {"name": "backup", "ownerReferences": owners}});
        assert!(is_of(&job(json!([{"uid": "u"}])), &run));
        assert!(!is_of(&job(json!([{"uid": "v"}])), &run));
        assert!(!is_of(&job(Value::Null), &run));
        assert_eq!(fields(&json!("text")), json!({}), "labels are fields, whatever somebody wrote");
    }
}
