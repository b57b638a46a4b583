//! Numbers for dashboards that were drawn for Argo CD: its names, its labels.
//!
//! What happened (syncs, reconciles, webhooks) is kept here; what is true of objects is counted when somebody asks
//! ([`text`]). What is ours alone begins with `slipway_`.

mod rollouts;
mod text;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use slipway_crd::Application;
use slipway_dialect::prometheus::{Histogram, Kind, Text};

pub(crate) use rollouts::{Of, RolloutMetrics};
pub(crate) use text::text;

/// Upper ends of the reconcile histogram, in seconds.
static BUCKETS: [f64; 7] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];

type Labels = Vec<(&'static str, String)>;
type Durations = BTreeMap<Labels, Histogram<7>>;

#[derive(Default)]
pub(crate) struct Metrics {
    pub(crate) rollouts: RolloutMetrics,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    syncs: BTreeMap<Labels, (u64, f64)>,
    reconciles: Durations,
    set_reconciles: Durations,
    webhooks: BTreeMap<Labels, u64>,
    cluster_events: BTreeMap<Labels, u64>,
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
        let mut inner = self.inner.lock().expect("no panic while locked");
        add(&mut inner.reconciles, labels, took);
    }

    pub(crate) fn set_reconciled(&self, namespace: &str, name: &str, took: Duration) {
        let labels = vec![("namespace", namespace.to_owned()), ("name", name.to_owned())];
        let mut inner = self.inner.lock().expect("no panic while locked");
        add(&mut inner.set_reconciles, labels, took);
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
        text.family("argocd_app_sync_total", Kind::Counter, "Number of application syncs.");
        for (labels, (count, _)) in &inner.syncs {
            text.line("argocd_app_sync_total", labels, count);
        }
        text.family(
            "argocd_app_sync_duration_seconds_total",
            Kind::Counter,
            "Application sync performance in seconds total.",
        );
        for (labels, (_, seconds)) in &inner.syncs {
            text.line("argocd_app_sync_duration_seconds_total", labels, seconds);
        }
        for (name, help, durations) in [
            ("argocd_app_reconcile", "Application reconciliation performance in seconds.", &inner.reconciles),
            (
                "argocd_appset_reconcile",
                "Application set reconciliation performance in seconds.",
                &inner.set_reconciles,
            ),
        ] {
            text.family(name, Kind::Histogram, help);
            for (labels, histogram) in durations {
                text.histogram(name, labels, histogram);
            }
        }
        text.family("argocd_webhook_requests_total", Kind::Counter, "Number of webhooks that came in.");
        for (labels, count) in &inner.webhooks {
            text.line("argocd_webhook_requests_total", labels, count);
        }
        text.family("argocd_cluster_events_total", Kind::Counter, "Number of processed k8s resource events.");
        for (labels, count) in &inner.cluster_events {
            text.line("argocd_cluster_events_total", labels, count);
        }
    }
}

fn add(durations: &mut Durations, labels: Labels, took: Duration) {
    durations.entry(labels).or_insert_with(|| Histogram::new(&BUCKETS)).add(took.as_secs_f64());
}
