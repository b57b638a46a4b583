//! Numbers for dashboards that were drawn for Argo CD: its names, its labels.
//!
//! What is true of objects is counted when somebody asks; only what happened (syncs, reconciles, webhooks) is kept. What
//! is ours alone begins with `slipway_`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::time::Duration;

use slipway_crd::{Application, ApplicationSet, names};
use slipway_reconcile::TaskStatus;

use crate::engine::Engine;
use crate::engines::applications::observe::IN_CLUSTER;
use crate::engines::applications::reconcile::is_running;

/// Upper ends of the reconcile histogram, in seconds.
const BUCKETS: [f64; 7] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];

type Labels = Vec<(&'static str, String)>;

#[derive(Default)]
pub(crate) struct Metrics {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    syncs: BTreeMap<Labels, (u64, f64)>,
    reconciles: BTreeMap<Labels, Histogram>,
    set_reconciles: BTreeMap<Labels, Histogram>,
    webhooks: BTreeMap<Labels, u64>,
    cluster_events: BTreeMap<Labels, u64>,
}

#[derive(Default)]
struct Histogram {
    buckets: [u64; BUCKETS.len()],
    sum: f64,
    count: u64,
}

impl Histogram {
    fn add(&mut self, seconds: f64) {
        for (bucket, end) in self.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= end);
        }
        self.sum += seconds;
        self.count += 1;
    }
}

impl Metrics {
    /// A sync ended for good.
    pub(crate) fn sync(&self, app: &Application, server: &str) {
        let Some(state) = &app.status.operation_state else { return };
        let dry_run = state.operation.sync.as_ref().is_some_and(|sync| sync.dry_run);
        let labels = vec![
            ("namespace", app.metadata.namespace.clone()),
            ("name", app.metadata.name.clone()),
            ("project", app.spec.project_name().to_owned()),
            ("dest_server", server.to_owned()),
            ("phase", state.phase.to_string()),
            ("dry_run", dry_run.to_string()),
        ];
        let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
        let ended = state.finished_at.as_deref().and_then(time);
        let took =
            ended.zip(time(&state.started_at)).map(|(end, start)| end.duration_since(start).as_secs_f64());
        let mut inner = self.inner.lock().expect("no panic while locked");
        let entry = inner.syncs.entry(labels).or_default();
        entry.0 += 1;
        entry.1 += took.unwrap_or_default().max(0.0);
    }

    pub(crate) fn reconciled(&self, namespace: &str, server: &str, took: Duration) {
        let labels = vec![("namespace", namespace.to_owned()), ("dest_server", server.to_owned())];
        self.inner
            .lock()
            .expect("no panic while locked")
            .reconciles
            .entry(labels)
            .or_default()
            .add(took.as_secs_f64());
    }

    pub(crate) fn set_reconciled(&self, namespace: &str, name: &str, took: Duration) {
        let labels = vec![("namespace", namespace.to_owned()), ("name", name.to_owned())];
        let mut inner = self.inner.lock().expect("no panic while locked");
        inner.set_reconciles.entry(labels).or_default().add(took.as_secs_f64());
    }

    pub(crate) fn webhook(&self, provider: &str, accepted: bool) {
        let labels = vec![("provider", provider.to_owned()), ("accepted", accepted.to_string())];
        *self.inner.lock().expect("no panic while locked").webhooks.entry(labels).or_default() += 1;
    }

    pub(crate) fn cluster_events(&self, server: &str, count: usize) {
        let labels = vec![("server", server.to_owned())];
        let mut inner = self.inner.lock().expect("no panic while locked");
        *inner.cluster_events.entry(labels).or_default() += count as u64;
    }

    fn write(&self, text: &mut Text) {
        let inner = self.inner.lock().expect("no panic while locked");
        text.family("argocd_app_sync_total", "counter", "Number of application syncs.");
        for (labels, (count, _)) in &inner.syncs {
            text.line("argocd_app_sync_total", labels, *count as f64);
        }
        text.family(
            "argocd_app_sync_duration_seconds_total",
            "counter",
            "Application sync performance in seconds total.",
        );
        for (labels, (_, seconds)) in &inner.syncs {
            text.line("argocd_app_sync_duration_seconds_total", labels, *seconds);
        }
        text.histogram(
            "argocd_app_reconcile",
            "Application reconciliation performance in seconds.",
            &inner.reconciles,
        );
        text.histogram(
            "argocd_appset_reconcile",
            "Application set reconciliation performance in seconds.",
            &inner.set_reconciles,
        );
        text.family("argocd_webhook_requests_total", "counter", "Number of webhooks that came in.");
        for (labels, count) in &inner.webhooks {
            text.line("argocd_webhook_requests_total", labels, *count as f64);
        }
        text.family("argocd_cluster_events_total", "counter", "Number of processed k8s resource events.");
        for (labels, count) in &inner.cluster_events {
            text.line("argocd_cluster_events_total", labels, *count as f64);
        }
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&'static str, String)], value: f64) {
        self.0.push_str(name);
        if !labels.is_empty() {
            let escape = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let pairs: Vec<_> =
                labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escape(value))).collect();
            let _ = write!(self.0, "{{{}}}", pairs.join(","));
        }
        let _ = writeln!(self.0, " {value}");
    }

    fn histogram(&mut self, name: &str, help: &str, histograms: &BTreeMap<Labels, Histogram>) {
        self.family(name, "histogram", help);
        let (bucket, sum, count) = (format!("{name}_bucket"), format!("{name}_sum"), format!("{name}_count"));
        for (labels, histogram) in histograms {
            let with = |end: String| [labels.as_slice(), &[("le", end)]].concat();
            for (end, value) in BUCKETS.iter().zip(histogram.buckets) {
                self.line(&bucket, &with(end.to_string()), value as f64);
            }
            self.line(&bucket, &with("+Inf".into()), histogram.count as f64);
            self.line(&sum, labels, histogram.sum);
            self.line(&count, labels, histogram.count as f64);
        }
    }
}

impl Engine {
    /// Everything, as Prometheus reads it.
    pub(crate) fn metrics_text(&self) -> String {
        let mut text = Text::default();
        // Engines that share count each its own, so that sums over all of them are right.
        let ours = self.applications().into_iter().filter(|key| self.shards.is_ours(key));
        let apps: Vec<Application> = ours.filter_map(|key| Some(self.application(&key)?.0)).collect();
        text.family("argocd_app_info", "gauge", "Information about application.");
        for app in &apps {
            text.line("argocd_app_info", &info(app), 1.0);
        }
        text.family("argocd_app_condition", "gauge", "Report application conditions.");
        for app in &apps {
            let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
            for condition in &app.status.conditions {
                *counts.entry(condition.kind.as_str()).or_default() += 1.0;
            }
            for (kind, count) in counts {
                let mut labels = named(app);
                labels.push(("condition", kind.to_owned()));
                text.line("argocd_app_condition", &labels, count);
            }
        }
        self.metrics.write(&mut text);
        self.cluster_metrics(&mut text);
        self.set_metrics(&mut text, &apps);
        text.family("argocd_git_request_total", "counter", "Number of git requests performed.");
        text.line("argocd_git_request_total", &[], self.renderer.git().remote_calls() as f64);
        let by = slipway_cage::level().map_or("nothing: no tool is started", slipway_cage::Level::describe);
        text.family(
            "slipway_tools_confined",
            "gauge",
            "What helm, kustomize, jsonnet, plugins and git are confined by.",
        );
        text.line(
            "slipway_tools_confined",
            &[("by", by.to_owned())],
            f64::from(slipway_cage::level().is_ok()),
        );
        text.family("workqueue_depth", "gauge", "Current depth of workqueue.");
        for (name, depth) in [
            ("app_reconciliation_queue", self.apps.queue().counts().0),
            ("appset_reconciliation_queue", self.sets.queue().counts().0),
        ] {
            text.line("workqueue_depth", &[("name", name.to_owned())], depth as f64);
        }
        self.engine_metrics(&mut text);
        text.0
    }

    /// How each engine fares.
    fn engine_metrics(&self, text: &mut Text) {
        let engines = self.tasks.status();
        let mut family = |name: &str, kind: &str, help: &str, value: fn(&TaskStatus) -> f64| {
            text.family(name, kind, help);
            for engine in &engines {
                text.line(name, &[("engine", engine.engine.to_owned())], value(engine));
            }
        };
        family("slipway_engine_runs_total", "counter", "Number of reconciles.", |of| of.runs as f64);
        family("slipway_engine_failures_total", "counter", "Number of reconciles that failed.", |of| {
            of.failures as f64
        });
        family("slipway_engine_panics_total", "counter", "Number of reconciles that panicked.", |of| {
            of.panics as f64
        });
        family("slipway_engine_waiting", "gauge", "Objects that wait for a worker.", |of| of.depth as f64);
        family("slipway_engine_running", "gauge", "Objects that are being reconciled.", |of| {
            of.running as f64
        });
        family("slipway_engine_failing", "gauge", "Objects whose last reconcile failed.", |of| {
            of.failing as f64
        });
        family(
            "slipway_engine_last_run_timestamp_seconds",
            "gauge",
            "When the last reconcile ended.",
            |of| of.last_run.map_or(0.0, |at| at.as_millisecond() as f64 / 1000.0),
        );
    }

    fn cluster_metrics(&self, text: &mut Text) {
        let clusters = self.destinations();
        let of = |to: &crate::clusters::Destination| vec![("server", to.server.clone())];
        text.family("argocd_cluster_info", "gauge", "Information about cluster.");
        for to in &clusters {
            let more = [("k8s_version", to.facts().kube_version.clone()), ("name", to.name.clone())];
            text.line("argocd_cluster_info", &[of(to).as_slice(), &more].concat(), 1.0);
        }
        text.family(
            "argocd_cluster_connection_status",
            "gauge",
            "The k8s cluster current connection status.",
        );
        for to in &clusters {
            text.line("argocd_cluster_connection_status", &of(to), 1.0);
        }
        text.family("argocd_cluster_api_resources", "gauge", "Number of monitored k8s API resources.");
        for to in &clusters {
            text.line("argocd_cluster_api_resources", &of(to), to.cluster.discovery().all().count() as f64);
        }
        text.family(
            "argocd_cluster_api_resource_objects",
            "gauge",
            "Number of k8s resource objects in the cache.",
        );
        for to in &clusters {
            text.line("argocd_cluster_api_resource_objects", &of(to), to.cluster.cached_objects() as f64);
        }
    }

    fn set_metrics(&self, text: &mut Text, apps: &[Application]) {
        let sets = self.cluster.live_of_kind(names::GROUP, "ApplicationSet");
        let sets: Vec<ApplicationSet> = sets
            .iter()
            .filter(|live| self.governs_sets(&live.key.namespace))
            .filter_map(|live| serde_json::from_value(live.object()?).ok())
            .collect();
        text.family("argocd_appset_info", "gauge", "Information about applicationset.");
        for set in &sets {
            let labels =
                vec![("namespace", set.metadata.namespace.clone()), ("name", set.metadata.name.clone())];
            text.line("argocd_appset_info", &labels, 1.0);
        }
        text.family(
            "argocd_appset_owned_applications",
            "gauge",
            "Number of applications owned by the applicationset.",
        );
        for set in &sets {
            let labels =
                vec![("namespace", set.metadata.namespace.clone()), ("name", set.metadata.name.clone())];
            let owned = apps.iter().filter(|app| {
                app.metadata.owner_references.iter().any(|owner| {
                    serde_json::to_value(owner).is_ok_and(|owner| owner["uid"] == set.metadata.uid.as_str())
                })
            });
            text.line("argocd_appset_owned_applications", &labels, owned.count() as f64);
        }
    }
}

fn named(app: &Application) -> Labels {
    vec![
        ("namespace", app.metadata.namespace.clone()),
        ("name", app.metadata.name.clone()),
        ("project", app.spec.project_name().to_owned()),
    ]
}

fn info(app: &Application) -> Labels {
    let or_unknown = |text: &str| if text.is_empty() { "Unknown".to_owned() } else { text.to_owned() };
    let source =
        app.spec.effective_sources().first().map(|source| source.repo_url.clone()).unwrap_or_default();
    let operation = if app.metadata.deletion_timestamp.is_some() {
        "delete"
    } else if app.operation.is_some() || is_running(app) {
        "sync"
    } else {
        ""
    };
    let destination = &app.spec.destination;
    let server = if destination.server.is_empty() { IN_CLUSTER.server } else { &destination.server };
    let mut labels = named(app);
    labels.extend([
        ("autosync_enabled", app.spec.automation().is_some().to_string()),
        ("repo", source),
        ("dest_server", server.to_owned()),
        ("dest_namespace", destination.namespace.clone()),
        ("sync_status", or_unknown(&app.status.sync.status)),
        ("health_status", or_unknown(&app.status.health.status)),
        ("operation", operation.to_owned()),
    ]);
    labels
}
