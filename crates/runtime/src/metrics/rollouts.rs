//! Numbers for dashboards that were drawn for Argo Rollouts: its names, its labels. Of Rollouts that this process looks after.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use serde::de::DeserializeOwned;
use slipway_cluster::Cluster;
use slipway_crd::analysis::{AnalysisRun, AnalysisTemplate, Experiment};
use slipway_crd::names::GROUP;
use slipway_crd::rollout::Rollout;
use slipway_dialect::prometheus::{Histogram, Kind, Text};
use slipway_reconcile::{Key, Reconciler as _};
use slipway_rollout::names::{INSTANCE_ID, condition, reason};

use super::Labels;
use crate::context::Context;
use crate::engines::{Analysis, Experiments, Rollouts};

/// Upper ends of all histograms, in seconds.
static BUCKETS: [f64; 5] = [0.01, 0.15, 0.25, 0.5, 1.0];

/// What is looked after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Of {
    Rollout,
    AnalysisRun,
    Experiment,
}

/// What happened. Of objects that are gone nothing is kept.
#[derive(Default)]
pub(crate) struct RolloutMetrics {
    inner: Mutex<Inner>,
}

type Object = (Of, String, String);
/// By namespace and name.
type Named<T> = BTreeMap<(String, String), T>;
/// By type and reason.
type Counted<T> = BTreeMap<(&'static str, String), T>;

#[derive(Default)]
struct Inner {
    reconciles: BTreeMap<Object, (Option<Histogram<5>>, u64)>,
    events: Named<Counted<u64>>,
    /// Messages that were taken, and those that were not.
    sent: Named<Counted<(u64, u64)>>,
    sending: Named<Histogram<5>>,
}

impl RolloutMetrics {
    fn reconciled(&self, of: Of, namespace: &str, name: &str, took: Duration) {
        let mut inner = self.inner.lock().expect("no panic while locked");
        let (histogram, _) = inner.reconciles.entry((of, namespace.to_owned(), name.to_owned())).or_default();
        histogram.get_or_insert_with(|| Histogram::new(&BUCKETS)).add(took.as_secs_f64());
    }

    /// After each reconcile. What is gone is forgotten: a run for each update, over years, is no reason to grow.
    pub(crate) fn finished(&self, cluster: &Cluster, of: Of, key: &Key, took: Duration) {
        if cluster.live(&key.object()).is_some() {
            self.reconciled(of, &key.namespace, &key.name, took);
        } else {
            self.forget(of, &key.namespace, &key.name);
        }
    }

    pub(crate) fn failed(&self, of: Of, namespace: &str, name: &str) {
        let mut inner = self.inner.lock().expect("no panic while locked");
        inner.reconciles.entry((of, namespace.to_owned(), name.to_owned())).or_default().1 += 1;
    }

    pub(crate) fn event(&self, namespace: &str, name: &str, warning: bool, reason: &str) {
        let mut inner = self.inner.lock().expect("no panic while locked");
        let of = inner.events.entry((namespace.to_owned(), name.to_owned())).or_default();
        *of.entry((kind(warning), reason.to_owned())).or_default() += 1;
    }

    pub(crate) fn sent(
        &self,
        (namespace, name): (&str, &str),
        warning: bool,
        reason: &str,
        taken: bool,
        took: Duration,
    ) {
        let mut inner = self.inner.lock().expect("no panic while locked");
        let object = (namespace.to_owned(), name.to_owned());
        let histogram = inner.sending.entry(object.clone()).or_insert_with(|| Histogram::new(&BUCKETS));
        histogram.add(took.as_secs_f64());
        let counts =
            inner.sent.entry(object).or_default().entry((kind(warning), reason.to_owned())).or_default();
        if taken { counts.0 += 1 } else { counts.1 += 1 }
    }

    /// It is gone.
    fn forget(&self, of: Of, namespace: &str, name: &str) {
        let mut inner = self.inner.lock().expect("no panic while locked");
        let object = (namespace.to_owned(), name.to_owned());
        if of == Of::Rollout {
            inner.events.remove(&object);
            inner.sent.remove(&object);
            inner.sending.remove(&object);
        }
        inner.reconciles.remove(&(of, object.0, object.1));
    }

    fn write(&self, text: &mut Text) {
        let inner = self.inner.lock().expect("no panic while locked");
        let named = |namespace: &String, name: &String| -> Labels {
            vec![("namespace", namespace.clone()), ("name", name.clone())]
        };
        for (of, metric, help, error, error_help) in [
            (
                Of::Rollout,
                "rollout_reconcile",
                "Rollout reconciliation performance.",
                "rollout_reconcile_error",
                "Reconciles of Rollouts that failed.",
            ),
            (
                Of::AnalysisRun,
                "analysis_run_reconcile",
                "Analysis Run reconciliation performance.",
                "analysis_run_reconcile_error",
                "Reconciles of AnalysisRuns that failed.",
            ),
            (
                Of::Experiment,
                "experiment_reconcile",
                "Experiments reconciliation performance.",
                "experiment_reconcile_error",
                "Reconciles of Experiments that failed.",
            ),
        ] {
            let ours = || inner.reconciles.iter().filter(move |((one, ..), _)| *one == of);
            text.family(metric, Kind::Histogram, help);
            for ((_, namespace, name), (histogram, _)) in ours() {
                if let Some(histogram) = histogram {
                    text.histogram(metric, &named(namespace, name), histogram);
                }
            }
            text.family(error, Kind::Counter, error_help);
            for ((_, namespace, name), (_, errors)) in ours().filter(|(_, (_, errors))| *errors > 0) {
                text.line(error, &named(namespace, name), errors);
            }
        }
        let with = |namespace: &String, name: &String, (kind, reason): &(&'static str, String)| -> Labels {
            let mut labels = named(namespace, name);
            labels.extend([("type", (*kind).to_owned()), ("reason", reason.clone())]);
            labels
        };
        text.family("rollout_events_total", Kind::Counter, "Count of rollout events");
        for ((namespace, name), all) in &inner.events {
            for (what, count) in all {
                text.line("rollout_events_total", &with(namespace, name, what), count);
            }
        }
        for (metric, help, is_error) in [
            ("notification_send_success", "Notification send success.", false),
            ("notification_send_error", "Error sending the notification", true),
        ] {
            text.family(metric, Kind::Counter, help);
            for ((namespace, name), all) in &inner.sent {
                for (what, (taken, refused)) in all {
                    let count = if is_error { refused } else { taken };
                    if *count > 0 {
                        text.line(metric, &with(namespace, name, what), count);
                    }
                }
            }
        }
        text.family("notification_send", Kind::Histogram, "Notification send performance.");
        for ((namespace, name), histogram) in &inner.sending {
            text.histogram("notification_send", &named(namespace, name), histogram);
        }
    }
}

fn kind(warning: bool) -> &'static str {
    if warning { "Warning" } else { "Normal" }
}

/// What is true of the objects now, and what happened. Nothing where no Rollouts are looked after.
pub(super) fn write(context: &Context, text: &mut Text) {
    let is_on = |name: &str| !context.config.is_off(name);
    if ![Rollouts::NAME, Analysis::NAME, Experiments::NAME].into_iter().any(is_on) {
        return;
    }
    rollouts(text, &all::<Rollout>(context, "Rollout", |one| &one.metadata));
    runs(text, &all::<AnalysisRun>(context, "AnalysisRun", |one| &one.metadata));
    experiments(text, &all::<Experiment>(context, "Experiment", |one| &one.metadata));
    let mut templates = all::<AnalysisTemplate>(context, "AnalysisTemplate", |one| &one.metadata);
    templates.extend(all::<AnalysisTemplate>(context, "ClusterAnalysisTemplate", |one| &one.metadata));
    templates_info(text, &templates);
    context.metrics.rollouts.write(text);
}

/// Those that are this engine's; templates are everybody's.
fn all<T: DeserializeOwned>(
    context: &Context,
    kind: &str,
    metadata: fn(&T) -> &slipway_crd::ObjectMeta,
) -> Vec<T> {
    let id = context.config.rollouts_instance_id();
    let live = context.cluster().live_of_kind(GROUP, kind);
    let read = live.iter().filter_map(|live| serde_json::from_value(live.object()?).ok());
    let ours = |one: &T| {
        let own = metadata(one).labels.get(INSTANCE_ID).map(String::as_str).unwrap_or_default();
        kind.ends_with("Template") || own == id
    };
    read.filter(ours).collect()
}

fn named(metadata: &slipway_crd::ObjectMeta, more: &[(&'static str, &str)]) -> Labels {
    let mut labels = vec![("namespace", metadata.namespace.clone()), ("name", metadata.name.clone())];
    labels.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
    labels
}

fn rollouts(text: &mut Text, all: &[Rollout]) {
    text.family("rollout_info", Kind::Gauge, "Information about rollout.");
    for one in all {
        let (strategy, router) = strategy(one);
        let labels = [("strategy", strategy), ("traffic_router", router), ("phase", phase(one))];
        text.line("rollout_info", &named(&one.metadata, &labels), 1);
    }
    type Number = fn(&Rollout) -> i64;
    let numbers: [(&str, &str, Number); 4] = [
        ("rollout_info_replicas_available", "The number of available replicas per rollout.", |one| {
            one.status.available_replicas
        }),
        ("rollout_info_replicas_unavailable", "The number of unavailable replicas per rollout.", |one| {
            one.status.replicas - one.status.available_replicas
        }),
        ("rollout_info_replicas_desired", "The number of desired replicas per rollout.", Rollout::replicas),
        ("rollout_info_replicas_updated", "The number of updated replicas per rollout.", |one| {
            one.status.updated_replicas
        }),
    ];
    for (metric, help, number) in numbers {
        text.family(metric, Kind::Gauge, help);
        for one in all {
            text.line(metric, &named(&one.metadata, &[]), number(one));
        }
    }
    text.family("rollout_phase", Kind::Gauge, "The state of the rollout (rollout_info says it too).");
    for one in all {
        let (strategy, _) = strategy(one);
        for word in ["Completed", "Progressing", "Paused", "Timeout", "Error", "Abort"] {
            let labels = named(&one.metadata, &[("strategy", strategy), ("phase", word)]);
            text.line("rollout_phase", &labels, u8::from(phase(one) == word));
        }
    }
}

fn strategy(rollout: &Rollout) -> (&'static str, &'static str) {
    let Some(canary) = rollout.canary() else {
        return (if rollout.blue_green().is_some() { "blueGreen" } else { "none" }, "");
    };
    let Some(routing) = &canary.traffic_routing else { return ("canary", "") };
    let routers = [
        (routing.app_mesh.is_some(), "AppMesh"),
        (routing.smi.is_some(), "SMI"),
        (routing.nginx.is_some(), "Nginx"),
        (routing.istio.is_some(), "Istio"),
        (routing.ambassador.is_some(), "Ambassador"),
        (routing.alb.is_some(), "ALB"),
        (routing.traefik.is_some(), "Traefik"),
        (routing.apisix.is_some(), "Apisix"),
        (!routing.plugins.is_empty(), "Plugin"),
    ];
    ("canary", routers.into_iter().find(|(is, _)| *is).map_or("", |(_, name)| name))
}

/// By its conditions, in the words of these metrics, which are not those of the status.
fn phase(rollout: &Rollout) -> &'static str {
    let of = |name: &str| rollout.status.conditions.iter().find(|one| one.r#type == name);
    if of(condition::INVALID_SPEC).is_some() {
        return "InvalidSpec";
    }
    match of(condition::PROGRESSING).map(|one| one.reason.as_str()) {
        Some(reason::NEW_SET_AVAILABLE) => "Completed",
        Some(reason::PAUSED) => "Paused",
        Some(reason::TIMED_OUT) => "Timeout",
        Some(reason::ABORTED) => "Abort",
        Some("ReplicaSetCreateError") => "Error",
        _ => "Progressing",
    }
}

const PHASES: [&str; 6] = ["Pending", "Error", "Failed", "Successful", "Running", "Inconclusive"];

fn or_pending(phase: &str) -> &str {
    if phase.is_empty() { "Pending" } else { phase }
}

fn runs(text: &mut Text, all: &[AnalysisRun]) {
    text.family("analysis_run_info", Kind::Gauge, "Information about analysis run.");
    for one in all {
        text.line("analysis_run_info", &named(&one.metadata, &[("phase", one.status.phase.as_str())]), 1);
    }
    text.family(
        "analysis_run_phase",
        Kind::Gauge,
        "The state of the analysis run (analysis_run_info says it too).",
    );
    for one in all {
        for word in PHASES {
            let value = u8::from(or_pending(&one.status.phase) == word);
            text.line("analysis_run_phase", &named(&one.metadata, &[("phase", word)]), value);
        }
    }
    text.family("analysis_run_metric_type", Kind::Gauge, "The type of a metric of an analysis run.");
    for one in all {
        for metric in &one.spec.metrics {
            let labels = [("metric", metric.name.as_str()), ("type", provider(&metric.provider))];
            text.line("analysis_run_metric_type", &named(&one.metadata, &labels), 1);
        }
    }
    text.family("analysis_run_metric_phase", Kind::Gauge, "The state of a metric of an analysis run.");
    for one in all {
        for metric in &one.spec.metrics {
            let result = one.status.metric_results.iter().find(|result| result.name == metric.name);
            let phase = or_pending(result.map(|result| result.phase.as_str()).unwrap_or_default());
            let dry_run = result.is_some_and(|result| result.dry_run).to_string();
            for word in PHASES {
                let labels = [
                    ("metric", metric.name.as_str()),
                    ("type", provider(&metric.provider)),
                    ("dry_run", dry_run.as_str()),
                    ("phase", word),
                ];
                let value = u8::from(phase == word);
                text.line("analysis_run_metric_phase", &named(&one.metadata, &labels), value);
            }
        }
    }
}

/// As the metrics of Argo Rollouts name providers.
fn provider(provider: &BTreeMap<String, serde_json::Value>) -> &str {
    match provider.keys().next().map(String::as_str).unwrap_or_default() {
        "prometheus" => "Prometheus",
        "job" => "Job",
        "web" => "WebMetric",
        "datadog" => "Datadog",
        "newRelic" => "NewRelic",
        "wavefront" => "Wavefront",
        "kayenta" => "Kayenta",
        "cloudWatch" => "CloudWatch",
        "graphite" => "Graphite",
        "influxdb" => "Influxdb",
        "skywalking" => "SkyWalking",
        other => other,
    }
}

fn experiments(text: &mut Text, all: &[Experiment]) {
    let phase = |one: &Experiment| one.status["phase"].as_str().unwrap_or_default().to_owned();
    text.family("experiment_info", Kind::Gauge, "Information about Experiment.");
    for one in all {
        text.line("experiment_info", &named(&one.metadata, &[("phase", phase(one).as_str())]), 1);
    }
    text.family(
        "experiment_phase",
        Kind::Gauge,
        "The state of the experiment (experiment_info says it too).",
    );
    for one in all {
        for word in PHASES {
            let value = u8::from(or_pending(&phase(one)) == word);
            text.line("experiment_phase", &named(&one.metadata, &[("phase", word)]), value);
        }
    }
}

fn templates_info(text: &mut Text, all: &[AnalysisTemplate]) {
    text.family("analysis_template_info", Kind::Gauge, "Information about analysis templates.");
    for one in all {
        text.line("analysis_template_info", &named(&one.metadata, &[]), 1);
    }
    text.family("analysis_template_metric_info", Kind::Gauge, "Metrics of analysis templates.");
    for one in all {
        for metric in &one.spec.metrics {
            let labels = [("type", provider(&metric.provider)), ("metric", metric.name.as_str())];
            text.line("analysis_template_metric_info", &named(&one.metadata, &labels), 1);
        }
    }
}
