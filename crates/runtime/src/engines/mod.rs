//! The engines of this process. Adding one is a folder here, and a row in [`ENGINES`].

pub(crate) mod application_sets;
pub(crate) mod applications;
pub(crate) mod hydrator;

use std::sync::Arc;

use slipway_cluster::Subscription;
use slipway_crd::{Application, names};
use slipway_reconcile::{Key, Kind, Reconciler, Shell, subscriptions};

pub(crate) use application_sets::ApplicationSets;
pub(crate) use applications::Applications;
pub(crate) use hydrator::Hydrator;

use crate::engine::Engine;
use crate::notifications::Notifier;
use crate::report::engines::{ReportedApplications, ReportedSets};

pub(crate) const APPLICATION: Kind = Kind::new(names::GROUP, "Application");
pub(crate) const APPLICATION_SET: Kind = Kind::new(names::GROUP, "ApplicationSet");

/// An engine without its type.
struct Row {
    name: &'static str,
    add: fn(Shell, Arc<Engine>) -> Shell,
    subscriptions: fn() -> Vec<Subscription>,
}

const fn row<R: Reconciler + From<Arc<Engine>>>() -> Row {
    Row { name: R::NAME, add: |shell, engine| shell.with(R::from(engine)), subscriptions: subscriptions::<R> }
}

/// The table.
const ENGINES: [Row; 6] = [
    row::<Applications>(),
    row::<ApplicationSets>(),
    row::<Hydrator>(),
    row::<Notifier>(),
    row::<ReportedApplications>(),
    row::<ReportedSets>(),
];

/// What can be switched off, by its name: a controller of Argo CD does it then. Reporting is not among them.
pub const fn engine_names() -> [&'static str; 4] {
    [Applications::NAME, ApplicationSets::NAME, Hydrator::NAME, Notifier::NAME]
}

/// Those that are not switched off.
pub(crate) fn shell(engine: &Arc<Engine>) -> Shell {
    let shell = Shell::new(engine.tasks.clone(), engine.shards.clone());
    let on = ENGINES.iter().filter(|row| !engine.config.engines_off.iter().any(|off| off == row.name));
    on.fold(shell, |shell, row| (row.add)(shell, engine.clone()))
}

/// What the home cluster has to keep and to announce: what the engines watch, and what their settings are read from.
pub(crate) fn subscriptions_at_home(namespace: &str) -> Vec<Subscription> {
    let settings = ["Secret", "ConfigMap"].map(|kind| Subscription::kind("", kind).in_namespace(namespace));
    let engines = ENGINES.iter().flat_map(|row| (row.subscriptions)());
    subscriptions_elsewhere().into_iter().chain(settings).chain(engines).collect()
}

/// The same for clusters that are only deployed to.
pub(crate) fn subscriptions_elsewhere() -> Vec<Subscription> {
    vec![Subscription::group(names::GROUP), Subscription::kind("", "Namespace").quiet()]
}

pub(crate) fn key_of(app: &Application) -> Key {
    Key::new(APPLICATION, &app.metadata.namespace, &app.metadata.name)
}
