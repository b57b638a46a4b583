//! The engines of this process. Adding one is a folder here, and a row in [`ENGINES`].

pub(crate) mod analysis;
pub(crate) mod application_sets;
pub(crate) mod applications;
pub(crate) mod cron_workflows;
pub(crate) mod experiments;
mod guard;
pub(crate) mod hydrator;
pub(crate) mod notifications;
pub(crate) mod rollouts;
pub(crate) mod workflows;

use std::sync::Arc;

use slipway_cluster::Subscription;
use slipway_crd::{Application, names};
use slipway_reconcile::{Key, Kind, Reconciler, Shell, subscriptions};

pub(crate) use analysis::Analysis;
pub(crate) use application_sets::ApplicationSets;
pub(crate) use applications::Applications;
pub(crate) use cron_workflows::CronWorkflows;
pub(crate) use experiments::Experiments;
pub(crate) use hydrator::Hydrator;
pub(crate) use notifications::Notifier;
pub(crate) use rollouts::Rollouts;
pub(crate) use workflows::Workflows;

use crate::Config;
use crate::context::Context;
use crate::report::engines::{ReportedApplications, ReportedSets};
use hydrator::Hydrations;
use notifications::Notices;

pub(crate) const APPLICATION: Kind = Kind::new(names::GROUP, "Application");
pub(crate) const APPLICATION_SET: Kind = Kind::new(names::GROUP, "ApplicationSet");

/// An engine, and how it is made.
pub(crate) trait Engine: Reconciler {
    fn new(context: &Context, peers: &Peers) -> Self;
}

/// What engines let each other read and ask, beyond waking each other by their [`slipway_reconcile::Task`]s. An engine of
/// which nobody wants anything has nothing here.
pub(crate) struct Peers {
    pub(crate) applications: applications::View,
    pub(crate) hydrations: Arc<Hydrations>,
    pub(crate) notices: Arc<Notices>,
}

impl Peers {
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            applications: applications::View::new(context),
            hydrations: Arc::new(Hydrations::new(context)),
            notices: Arc::new(Notices::new(context)),
        }
    }
}

/// An engine without its type.
struct Row {
    name: &'static str,
    add: fn(Shell, &Context, &Peers) -> Shell,
    subscriptions: fn() -> Vec<Subscription>,
}

const fn row<E: Engine>() -> Row {
    Row {
        name: E::NAME,
        add: |shell, context, peers| shell.with(E::new(context, peers)),
        subscriptions: subscriptions::<E>,
    }
}

/// The table.
const ENGINES: [Row; 11] = [
    row::<Applications>(),
    row::<ApplicationSets>(),
    row::<Hydrator>(),
    row::<Notifier>(),
    row::<Rollouts>(),
    row::<Analysis>(),
    row::<Experiments>(),
    row::<Workflows>(),
    row::<CronWorkflows>(),
    row::<ReportedApplications>(),
    row::<ReportedSets>(),
];

/// Engines that run only where the configuration names them.
pub(crate) const OF_ROLLOUTS: &[&str] = &[Rollouts::NAME, Analysis::NAME, Experiments::NAME];
pub(crate) const OF_WORKFLOWS: &[&str] = &[Workflows::NAME, CronWorkflows::NAME];

/// What can be switched off, by its name: a controller of Argo does it then. Reporting is not among them.
pub const fn engine_names() -> [&'static str; 9] {
    [
        Applications::NAME,
        ApplicationSets::NAME,
        Hydrator::NAME,
        Notifier::NAME,
        Rollouts::NAME,
        Analysis::NAME,
        Experiments::NAME,
        Workflows::NAME,
        CronWorkflows::NAME,
    ]
}

/// Those of the table, reporting included.
pub(crate) fn all_names() -> Vec<&'static str> {
    ENGINES.iter().map(|row| row.name).collect()
}

/// Those that are not switched off.
pub(crate) fn shell(context: &Context, peers: &Peers) -> Shell {
    let shell = Shell::new(context.tasks.clone(), context.shards.clone());
    let on = ENGINES.iter().filter(|row| !context.config.is_off(row.name));
    on.fold(shell, |shell, row| (row.add)(shell, context, peers))
}

/// What the home cluster has to keep and to announce: what the engines watch, and what their settings are read from.
pub(crate) fn subscriptions_at_home(config: &Config) -> Vec<Subscription> {
    let settings =
        ["Secret", "ConfigMap"].map(|kind| Subscription::kind("", kind).in_namespace(&config.namespace));
    // What an engine that is off would watch is kept for nobody; reports are made of the rest all the same.
    let is_named = |name: &str| OF_ROLLOUTS.contains(&name) || OF_WORKFLOWS.contains(&name);
    let on = ENGINES.iter().filter(|row| !is_named(row.name) || !config.is_off(row.name));
    let engines = on.flat_map(|row| (row.subscriptions)());
    subscriptions_elsewhere().into_iter().chain(settings).chain(engines).collect()
}

/// The same for clusters that are only deployed to.
pub(crate) fn subscriptions_elsewhere() -> Vec<Subscription> {
    vec![Subscription::group(names::GROUP), Subscription::kind("", "Namespace").quiet()]
}

pub(crate) fn key_of(app: &Application) -> Key {
    Key::new(APPLICATION, &app.metadata.namespace, &app.metadata.name)
}
