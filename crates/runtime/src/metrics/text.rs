//! Everything in one text, counted when it is asked for.

use std::collections::BTreeMap;

use slipway_crd::{Application, ApplicationSet};
use slipway_dialect::prometheus::{Kind, Text};
use slipway_reconcile::{TaskStatus, Tasks};

use super::Labels;
use crate::clusters::{Clusters, Destination, IN_CLUSTER};
use crate::context::Context;
use crate::engines::applications::is_running;
use crate::engines::{ApplicationSets, Applications};
use crate::inventory::Inventory;
use crate::report::outward::without_credentials;
use crate::tunnel::{TunnelCounts, TunnelState};

/// Everything, as Prometheus reads it.
pub(crate) fn text(context: &Context) -> String {
    let mut text = Text::default();
    // Engines that share count each its own, so that sums over all of them are right.
    let ours = context.inventory.applications().into_iter().filter(|key| context.shards.is_ours(key));
    let apps: Vec<Application> =
        ours.filter_map(|key| Some(context.inventory.application(&key)?.0)).collect();
    text.family("argocd_app_info", Kind::Gauge, "Information about application.");
    for app in &apps {
        text.line("argocd_app_info", &info(app), 1.0);
    }
    text.family("argocd_app_condition", Kind::Gauge, "Report application conditions.");
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
    context.metrics.write(&mut text);
    super::rollouts::write(context, &mut text);
    cluster_metrics(&context.clusters, &mut text);
    set_metrics(&context.inventory, &mut text, &apps);
    text.family("argocd_git_request_total", Kind::Counter, "Number of git requests performed.");
    text.plain("argocd_git_request_total", context.renderer.git().remote_calls() as f64);
    let by = slipway_cage::level().map_or("nothing: no tool is started", slipway_cage::Level::describe);
    text.family(
        "slipway_tools_confined",
        Kind::Gauge,
        "What helm, kustomize, jsonnet, plugins and git are confined by.",
    );
    text.line("slipway_tools_confined", &[("by", by)], f64::from(slipway_cage::level().is_ok()));
    text.family("workqueue_depth", Kind::Gauge, "Current depth of workqueue.");
    for (name, depth) in [
        ("app_reconciliation_queue", context.tasks.of::<Applications>().queue().counts().0),
        ("appset_reconciliation_queue", context.tasks.of::<ApplicationSets>().queue().counts().0),
    ] {
        text.line("workqueue_depth", &[("name", name)], depth as f64);
    }
    engine_metrics(&context.tasks, &mut text);
    if context.reporter.is_enabled() {
        context.reporter.queue().write(&mut text);
    }
    tunnel_metrics(&context.config.tunnel, &mut text);
    text.finish()
}

/// How the tunnel of this process fares, if it keeps one.
fn tunnel_metrics(tunnel: &TunnelCounts, text: &mut Text) {
    let Some(state) = tunnel.state() else { return };
    let traffic = tunnel.traffic();
    for (name, kind, help, value) in [
        (
            "slipway_tunnel_open",
            Kind::Gauge,
            "Whether the tunnel to the platform is open.",
            u64::from(state == TunnelState::Open),
        ),
        (
            "slipway_tunnel_opened_total",
            Kind::Counter,
            "How often it was opened; once, and then by reconnecting.",
            tunnel.opened(),
        ),
        (
            "slipway_tunnel_failures_total",
            Kind::Counter,
            "How often it broke or could not be opened.",
            tunnel.failed(),
        ),
        (
            "slipway_tunnel_received_bytes_total",
            Kind::Counter,
            "Bytes that came through it.",
            traffic.received(),
        ),
        ("slipway_tunnel_sent_bytes_total", Kind::Counter, "Bytes that went through it.", traffic.sent()),
    ] {
        text.family(name, kind, help);
        text.plain(name, value as f64);
    }
}

/// How each engine fares.
fn engine_metrics(tasks: &Tasks, text: &mut Text) {
    let engines = tasks.status();
    let mut family = |name: &str, kind: Kind, help: &str, value: fn(&TaskStatus) -> f64| {
        text.family(name, kind, help);
        for engine in &engines {
            text.line(name, &[("engine", engine.engine)], value(engine));
        }
    };
    family("slipway_engine_runs_total", Kind::Counter, "Number of reconciles.", |of| of.runs as f64);
    family("slipway_engine_failures_total", Kind::Counter, "Number of reconciles that failed.", |of| {
        of.failures as f64
    });
    family("slipway_engine_panics_total", Kind::Counter, "Number of reconciles that panicked.", |of| {
        of.panics as f64
    });
    family("slipway_engine_waiting", Kind::Gauge, "Objects that wait for a worker.", |of| of.depth as f64);
    family("slipway_engine_running", Kind::Gauge, "Objects that are being reconciled.", |of| {
        of.running as f64
    });
    family("slipway_engine_failing", Kind::Gauge, "Objects whose last reconcile failed.", |of| {
        of.failing as f64
    });
    family(
        "slipway_engine_last_run_timestamp_seconds",
        Kind::Gauge,
        "When the last reconcile ended.",
        |of| of.last_run.map_or(0.0, |at| at.as_millisecond() as f64 / 1000.0),
    );
}

fn cluster_metrics(clusters: &Clusters, text: &mut Text) {
    let clusters = clusters.all();
    let of = |to: &Destination| vec![("server", to.server.clone())];
    text.family("argocd_cluster_info", Kind::Gauge, "Information about cluster.");
    for to in &clusters {
        let more = [("k8s_version", to.facts().kube_version.clone()), ("name", to.name.clone())];
        text.line("argocd_cluster_info", &[of(to).as_slice(), &more].concat(), 1.0);
    }
    text.family(
        "argocd_cluster_connection_status",
        Kind::Gauge,
        "The k8s cluster current connection status.",
    );
    for to in &clusters {
        text.line("argocd_cluster_connection_status", &of(to), 1.0);
    }
    text.family("argocd_cluster_api_resources", Kind::Gauge, "Number of monitored k8s API resources.");
    for to in &clusters {
        text.line("argocd_cluster_api_resources", &of(to), to.cluster.discovery().all().count() as f64);
    }
    text.family(
        "argocd_cluster_api_resource_objects",
        Kind::Gauge,
        "Number of k8s resource objects in the cache.",
    );
    for to in &clusters {
        text.line("argocd_cluster_api_resource_objects", &of(to), to.cluster.cached_objects() as f64);
    }
}

fn set_metrics(inventory: &Inventory, text: &mut Text, apps: &[Application]) {
    let sets: Vec<ApplicationSet> =
        inventory.application_sets().iter().filter_map(|key| inventory.application_set(key)).collect();
    text.family("argocd_appset_info", Kind::Gauge, "Information about applicationset.");
    for set in &sets {
        let labels = vec![("namespace", set.metadata.namespace.clone()), ("name", set.metadata.name.clone())];
        text.line("argocd_appset_info", &labels, 1.0);
    }
    text.family(
        "argocd_appset_owned_applications",
        Kind::Gauge,
        "Number of applications owned by the applicationset.",
    );
    for set in &sets {
        let labels = vec![("namespace", set.metadata.namespace.clone()), ("name", set.metadata.name.clone())];
        let owned = apps.iter().filter(|app| {
            app.metadata.owner_references.iter().any(|owner| {
                serde_json::to_value(owner).is_ok_and(|owner| owner["uid"] == set.metadata.uid.as_str())
            })
        });
        text.line("argocd_appset_owned_applications", &labels, owned.count() as f64);
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
    let source = app
        .spec
        .effective_sources()
        .first()
        .map(|source| without_credentials(&source.repo_url))
        .unwrap_or_default();
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
        ("sync_status", or_unknown(app.status.sync.status.as_str())),
        ("health_status", or_unknown(app.status.health.status.as_str())),
        ("operation", operation.to_owned()),
    ]);
    labels
}
