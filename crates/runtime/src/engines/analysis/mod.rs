//! AnalysisRuns: metrics are measured when they are due, and judged.
//!
//! In: AnalysisRuns, the Secrets that their arguments name, and what providers answer. Out: their status. What a measurement means is decided in
//! the pure room `rollout`; values of Secrets are put into questions and nowhere else.

mod job;
mod provider;
mod secrets;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use slipway_cluster::{Cluster, Propagation};
use slipway_crd::analysis::{AnalysisRun, AnalysisTemplate, Measurement, Metric};
use slipway_crd::names::{API_VERSION, GROUP};
use slipway_net::Rules;
use slipway_reconcile::{
    EventWriter, Key, Kind, Note, Reconciler, Requeue, Retry, StatusAt, StatusChange, Stop, Wake, Watch,
    save_status,
};
use slipway_rollout::analysis::{Assessed, Task, assess, due, is_completed, resolved};
use slipway_rollout::lint::problems_of_metrics;

use super::guard::Guard;
use super::rollouts::{UNTIL_READ, guard, ours};
use super::{Engine, Peers};
use crate::context::Context;
use crate::metrics::{Metrics, Of};
use secrets::Unable;

const ANALYSIS_RUN: Kind = Kind::new(GROUP, "AnalysisRun");
/// The safety net, in case that something was not heard.
const LOOK_AGAIN: Duration = Duration::from_secs(600);

/// Of each text of a measurement.
const TEXT_BYTES_MAX: usize = 8 << 10;

pub(crate) struct Analysis {
    cluster: Cluster,
    events: Arc<EventWriter>,
    instance_id: String,
    guard: Guard,
    metrics: Arc<Metrics>,
    /// Where credentials of providers are.
    namespace: String,
    /// Which addresses may be asked.
    egress: Rules,
}

impl Engine for Analysis {
    fn new(context: &Context, _: &Peers) -> Self {
        Self {
            cluster: context.cluster().clone(),
            events: context.events.clone(),
            instance_id: context.config.rollouts_instance_id(),
            guard: guard(),
            metrics: context.metrics.clone(),
            namespace: context.config.namespace.clone(),
            egress: context.config.egress.clone(),
        }
    }
}

impl Reconciler for Analysis {
    const NAME: &'static str = "analysis";
    const KIND: Kind = ANALYSIS_RUN;
    const MANAGER: &'static str = "rollouts-controller";
    const RETRY: Retry = Retry { first: Duration::from_millis(500), max: Duration::from_secs(30) };

    /// Measurements wait for answers of others.
    fn workers(&self) -> usize {
        16
    }

    fn watches() -> Vec<Watch<Self>> {
        vec![Watch::itself(), Watch::owned()]
    }

    fn keys(&self) -> Vec<Key> {
        let runs = self.cluster.live_of_kind(GROUP, ANALYSIS_RUN.kind);
        runs.iter().filter_map(|live| Key::of(ANALYSIS_RUN, &live.key)).collect()
    }

    async fn reconcile(&self, key: &Key, _: Wake) -> Result<Requeue, Stop> {
        let outcome = self.reconcile_one(key).await;
        if let Err(Stop::Failed(_)) = &outcome {
            self.metrics.rollouts.failed(Of::AnalysisRun, &key.namespace, &key.name);
        }
        outcome
    }

    fn finished(&self, key: &Key, took: Duration) {
        self.metrics.rollouts.finished(&self.cluster, Of::AnalysisRun, key, took);
    }
}

/// The templates that a Rollout or an Experiment of the namespace may name: its own, and the cluster's.
pub(super) fn templates(cluster: &Cluster, namespace: &str) -> Vec<AnalysisTemplate> {
    let of = |kind: &str| cluster.live_of_kind(GROUP, kind);
    let all = of("AnalysisTemplate").into_iter().filter(|live| live.key.namespace == namespace);
    let all = all.chain(of("ClusterAnalysisTemplate"));
    all.filter_map(|live| serde_json::from_value(live.object()?).ok()).collect()
}

impl Analysis {
    async fn reconcile_one(&self, key: &Key) -> Result<Requeue, Stop> {
        if [(GROUP, "AnalysisRun"), ("batch", "Job")]
            .iter()
            .any(|(group, kind)| self.cluster.is_waiting(group, kind))
        {
            return Ok(Requeue::Again(UNTIL_READ));
        }
        let ours = ours(&self.cluster, key, &self.instance_id, |one: &AnalysisRun| &one.metadata);
        let (run, version) = ours.ok_or(Stop::Gone)?;
        self.guard.check(&self.cluster, &self.instance_id).await?;
        if run.metadata.deletion_timestamp.is_some() {
            return Ok(Requeue::Never);
        }
        let now = Timestamp::now();
        let assessed = if is_completed(&run.status.phase) {
            assess(&run, &[], Vec::new(), now)
        } else {
            match self.measured(&run, now).await {
                Ok(assessed) => assessed,
                Err(Unable::Wrong(why)) => cannot_be_run(&run, why, now),
                Err(Unable::Later(error)) => return Err(error.into()),
            }
        };
        if assessed.delete {
            let uid = Some(run.metadata.uid.as_str());
            self.cluster.delete(&key.object(), uid, Propagation::Background, false).await?;
            return Ok(Requeue::Never);
        }
        self.write_down(key, &run, &assessed, &version).await?;
        Ok(Requeue::due(assessed.requeue_at, Timestamp::now(), LOOK_AGAIN))
    }

    async fn measured(&self, run: &AnalysisRun, now: Timestamp) -> Result<Assessed, Unable> {
        // When something is due is decided without the Secrets.
        let (plain, hidden) = secrets::without(&run.spec.args);
        let metrics: Result<Vec<Metric>, String> =
            run.spec.metrics.iter().map(|metric| resolved(metric, &plain)).collect();
        let metrics = metrics?;
        // One that has begun goes on as it was begun.
        if run.status.metric_results.is_empty() {
            let problems = problems_of_metrics(&metrics);
            if !problems.is_empty() {
                return Err(Unable::Wrong(format!("Analysis spec invalid: {}", problems.join("; "))));
            }
        }
        let tasks = due(run, &metrics, now);
        let arguments = if tasks.is_empty() {
            secrets::Arguments::default()
        } else {
            self.arguments(run, plain, &hidden).await?
        };
        let taken: Vec<(usize, Measurement)> =
            futures::future::join_all(tasks.into_iter().map(|task| self.take(run, task, &arguments))).await;
        Ok(assess(run, &metrics, taken, Timestamp::now()))
    }

    async fn take(
        &self,
        run: &AnalysisRun,
        task: Task,
        arguments: &secrets::Arguments,
    ) -> (usize, Measurement) {
        let started = task.under_way.as_ref().and_then(|before| before.started_at.clone());
        let started = started.unwrap_or_else(|| provider::written(Timestamp::now()));
        let mut measurement = match resolved(&run.spec.metrics[task.at], &arguments.values) {
            Ok(metric) => self.ask(run, &metric, &task).await,
            Err(why) => provider::failed(why),
        };
        measurement.started_at = Some(started);
        arguments.hide(&mut measurement);
        bound(&mut measurement);
        (task.at, measurement)
    }

    /// Writes the status if it differs, onto the version that was looked at, and tells what happened.
    async fn write_down(
        &self,
        key: &Key,
        run: &AnalysisRun,
        assessed: &Assessed,
        version: &str,
    ) -> Result<(), Stop> {
        let json = |status| serde_json::to_value(status).unwrap_or_default();
        let (before, after) = (json(&run.status), json(&assessed.status));
        let change = StatusChange { before: &before, after: &after, version };
        save_status(&self.cluster, key, API_VERSION, StatusAt::Object, change).await?;
        let about = json!({"apiVersion": API_VERSION, "kind": "AnalysisRun", "metadata": run.metadata});
        for event in &assessed.events {
            let note = Note { reason: event.reason, warning: event.warning, message: event.message.clone() };
            self.events.record(&about, Self::MANAGER, &note);
        }
        Ok(())
    }
}

/// Conditions saw all of an answer. Written down is its beginning: a page of megabytes, ten times, is more than an object may hold, and a
/// run whose status cannot be written never ends.
fn bound(measurement: &mut Measurement) {
    let texts = [&mut measurement.message, &mut measurement.value];
    for text in texts.into_iter().chain(measurement.metadata.values_mut()) {
        if text.len() > TEXT_BYTES_MAX {
            text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
            text.push('…');
        }
    }
}

fn cannot_be_run(run: &AnalysisRun, why: String, now: Timestamp) -> Assessed {
    let mut status = run.status.clone();
    status.phase = slipway_rollout::analysis::ERROR.to_owned();
    status.message = why;
    status.completed_at = Some(provider::written(now));
    Assessed { status, events: Vec::new(), requeue_at: None, delete: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_is_written_down_in_part() {
        let mut measurement = Measurement {
            value: "ö".repeat(1 << 20),
            message: "x".repeat(1 << 20),
            metadata: [
                ("groups".to_owned(), "y".repeat(1 << 20)),
                ("job-name".to_owned(), "u.rate.1".to_owned()),
            ]
            .into(),
            ..Measurement::default()
        };
        bound(&mut measurement);
        assert!(serde_json::to_string(&measurement).expect("writable").len() < 32 << 10);
        assert!(measurement.value.ends_with("ö…"), "it is cut between letters");
        assert_eq!(measurement.metadata["job-name"], "u.rate.1");
    }
}
