//! Report, second half: the control plane hears what changed, as state, never as a story.
//!
//! Sending twice is sending once. After a failure, and at the beginning, everything is sent.

pub(crate) mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use slipway_api::application as wire;
use slipway_api::runtime::RuntimeReport;
use slipway_crd::Application;
use slipway_reconcile::Key;
use slipway_source::GitCache;
use tokio::sync::{Notify, watch};

use crate::Config;
use crate::engine::Engine;
use crate::engines::applications::observe::Observed;
use crate::settings::RepositoryAccess;

pub(crate) struct Reporter {
    enabled: bool,
    inner: Mutex<Inner>,
    signal: Notify,
    /// How many orders there were, and how many of them the control plane knows of.
    orders: AtomicU64,
    told: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    known: BTreeMap<Key, wire::Application>,
    changed: BTreeSet<Key>,
    removed: BTreeSet<Key>,
    /// Applications that were reconciled since the start, whatever was found.
    reconciled: BTreeSet<Key>,
    /// Operations that were asked for through us and that no reconcile has seen yet.
    ordered: BTreeMap<Key, (Instant, wire::Operation)>,
}

/// What goes out in one round.
#[derive(Default)]
struct Round {
    applications: Vec<wire::Application>,
    removed: Vec<String>,
    /// Which orders it tells of.
    ordered: u64,
}

/// What one body may weigh; the control plane takes twice as much.
const PAGE_BYTES: usize = 4 << 20;
/// How long whoever asked for an operation waits for the control plane to hear of it.
const ORDER_TOLD: Duration = Duration::from_secs(5);
/// An operation that no reconcile has seen for so long was taken back by somebody.
const ORDER_UNSEEN: Duration = Duration::from_secs(30);
/// Changes that come together are told together.
const GATHER: Duration = Duration::from_millis(50);
/// Until everything was reconciled once, a complete report is owed.
const EARLY: Duration = Duration::from_millis(500);
/// A control plane that forgot us learns of us again.
const HEARTBEAT: Duration = Duration::from_secs(20);

impl Reporter {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            enabled: config.server.is_some(),
            inner: Mutex::default(),
            signal: Notify::new(),
            orders: AtomicU64::new(0),
            told: watch::Sender::new(0),
        }
    }

    /// False without a control plane: nobody wants to hear anything.
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Takes the new state in; nothing happens when it is as before.
    #[expect(clippy::too_many_arguments, reason = "one caller, and each is another thing that was observed")]
    pub(crate) async fn changed(
        &self,
        app: &Application,
        place: view::Place,
        observed: &Observed,
        family: &[Value],
        waiting: &[String],
        git: &Arc<GitCache>,
        access: &RepositoryAccess,
    ) {
        let key = crate::engines::key_of(app);
        let mut wire = view::application(app, place, observed, family, waiting);
        view::name_commits(app, &mut wire, git, access).await;
        let mut inner = self.inner.lock().expect("no panic while locked");
        // A reconcile that began before the order does not take it back.
        if let Some((at, ordered)) = inner.ordered.get(&key) {
            let seen = wire.operation.as_ref().is_some_and(|seen| seen.id == ordered.id);
            if seen || at.elapsed() > ORDER_UNSEEN {
                inner.ordered.remove(&key);
            } else {
                wire.operation = Some(ordered.clone());
            }
        }
        let same = inner.known.get(&key).is_some_and(|known| {
            wire.observed_at.clone_from(&known.observed_at);
            *known == wire
        });
        if same {
            return;
        }
        wire.observed_at = jiff::Timestamp::now().to_string();
        inner.removed.remove(&key);
        inner.changed.insert(key.clone());
        inner.known.insert(key, wire);
        drop(inner);
        self.signal.notify_one();
    }

    /// An operation was asked for: the control plane hears of it before whoever asked is answered. Gives up after a
    /// while; then it hears of it with the next reconcile.
    pub(crate) async fn ordered(&self, key: &Key, operation: wire::Operation) {
        let number = {
            let mut inner = self.inner.lock().expect("no panic while locked");
            let Some(known) = inner.known.get_mut(key) else { return };
            known.operation = Some(operation.clone());
            view::REQUESTED.clone_into(&mut known.summary);
            known.observed_at = jiff::Timestamp::now().to_string();
            inner.ordered.insert(key.clone(), (Instant::now(), operation));
            inner.changed.insert(key.clone());
            self.orders.fetch_add(1, Ordering::SeqCst) + 1
        };
        self.signal.notify_one();
        let mut told = self.told.subscribe();
        let _ = tokio::time::timeout(ORDER_TOLD, told.wait_for(|told| *told >= number)).await;
    }

    pub(crate) fn reconciled(&self, key: &Key) {
        if self.enabled {
            self.inner.lock().expect("no panic while locked").reconciled.insert(key.clone());
        }
    }

    pub(crate) fn removed(&self, key: &Key) {
        let mut inner = self.inner.lock().expect("no panic while locked");
        inner.changed.remove(key);
        inner.ordered.remove(key);
        if inner.known.remove(key).is_some() {
            inner.removed.insert(key.clone());
            drop(inner);
            self.signal.notify_one();
        }
    }

    fn take(&self, complete: bool) -> Round {
        let mut inner = self.inner.lock().expect("no panic while locked");
        let changed = std::mem::take(&mut inner.changed);
        let removed = std::mem::take(&mut inner.removed);
        let applications = if complete {
            inner.known.values().cloned().collect()
        } else {
            changed.iter().filter_map(|key| inner.known.get(key)).cloned().collect()
        };
        let ordered = self.orders.load(Ordering::SeqCst);
        Round { applications, removed: removed.iter().map(Key::to_string).collect(), ordered }
    }
}

/// Applications in bodies that the control plane takes, each with at least one.
fn pages(applications: Vec<wire::Application>) -> Vec<Vec<wire::Application>> {
    let mut pages = vec![Vec::new()];
    let mut bytes = 0;
    for app in applications {
        let weight = serde_json::to_string(&app).map_or(0, |text| text.len());
        if bytes > 0 && bytes + weight > PAGE_BYTES {
            pages.push(Vec::new());
            bytes = 0;
        }
        bytes += weight;
        pages.last_mut().expect("there is one from the start").push(app);
    }
    pages
}

impl Engine {
    /// What rules about the Application may look at besides its names.
    pub(crate) fn place(&self, app: &Application) -> view::Place {
        let (destination_name, destination_server) = self.destination_names(app);
        let label = self.tracking_label();
        let git_sources = view::git_sources(app, label.as_deref());
        view::Place { destination_name, destination_server, git_sources }
    }

    pub(crate) async fn send_reports(self: Arc<Self>) {
        let Some(server) = self.config.server.clone() else { return std::future::pending().await };
        let mut owed = true;
        let mut failures = 0_u32;
        loop {
            // A complete report takes away what it does not name, so it must not be early.
            let complete = owed && self.reconciled_all();
            let round = self.reporter.take(complete);
            let ordered = round.ordered;
            match self.send_round(&server, round, complete).await {
                Ok(()) => {
                    failures = 0;
                    owed &= !complete;
                    self.reporter.told.send_replace(ordered);
                }
                Err(error) => {
                    failures += 1;
                    owed = true;
                    if failures == 1 {
                        tracing::warn!(%error, "The control plane could not be told; everything is told again later.");
                    }
                    tokio::time::sleep(Duration::from_millis(250 << failures.min(6))).await;
                    continue;
                }
            }
            let rest = if owed { EARLY } else { HEARTBEAT };
            tokio::select! {
                () = self.reporter.signal.notified() => tokio::time::sleep(GATHER).await,
                () = tokio::time::sleep(rest) => {}
            }
        }
    }

    /// One report, in as many bodies as it takes. Only the last one of a complete report takes away what none named.
    async fn send_round(
        &self,
        server: &slipway_api::Client,
        round: Round,
        complete: bool,
    ) -> Result<(), String> {
        let mut pages = pages(round.applications).into_iter().peekable();
        let (mut reported, mut removed) = (Vec::new(), round.removed);
        while let Some(applications) = pages.next() {
            let last = pages.peek().is_none();
            let names: Vec<String> =
                applications.iter().map(|app| format!("{}/{}", app.namespace, app.name)).collect();
            let report = RuntimeReport {
                runtime: self.config.name.clone(),
                version: self.config.version.clone(),
                ingress_url: self.config.ingress_url.clone(),
                cluster: self.config.cluster.clone(),
                applications,
                complete: complete && last,
                reported: if complete && last { std::mem::take(&mut reported) } else { Vec::new() },
                removed: if last { std::mem::take(&mut removed) } else { Vec::new() },
            };
            let sending = server.post::<_, Value>("/2.0/api/events", &report);
            match tokio::time::timeout(Duration::from_secs(30), sending).await {
                // Without a readable body it was still taken in.
                Ok(Ok(_) | Err(slipway_api::ClientError::Unexpected { .. })) => {}
                // One alone that is too large must not keep the others from being told for ever.
                Ok(Err(error)) if error.status() == Some(413) && names.len() == 1 && !last => {
                    tracing::warn!(application = %names[0], "An Application is too large for the control plane, which goes on showing its state before.");
                }
                Ok(Err(error)) => return Err(error.to_string()),
                Err(_) => return Err("the control plane does not answer".to_owned()),
            }
            reported.extend(names);
        }
        Ok(())
    }

    fn reconciled_all(&self) -> bool {
        let applications = self.applications();
        let inner = self.reporter.inner.lock().expect("no panic while locked");
        applications.iter().all(|key| inner.reconciled.contains(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_applications_are_told_in_bodies_that_fit() {
        let app = |number: usize, weight: usize| wire::Application {
            name: format!("app-{number}"),
            summary: "x".repeat(weight),
            ..wire::Application::default()
        };
        let apps: Vec<_> = (0..10_000).map(|number| app(number, 2_000)).collect();
        let pages_of_all = pages(apps.clone());
        assert!(pages_of_all.len() > 4, "{}", pages_of_all.len());
        assert!(
            pages_of_all
                .iter()
                .all(|page| serde_json::to_string(page).expect("plain").len() < PAGE_BYTES + 100_000)
        );
        assert_eq!(pages_of_all.concat(), apps);
        assert_eq!(pages(Vec::new()), [Vec::new()], "an empty report is one body");
        let heavy = pages(vec![app(1, 1), app(2, PAGE_BYTES), app(3, 1)]);
        assert_eq!(heavy.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
    }
}
