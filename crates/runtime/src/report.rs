//! Report, second half: the control plane hears what changed, as state, never as a story.
//!
//! Sending twice is sending once. After a failure, and at the beginning, everything is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use slipway_api::application as wire;
use slipway_api::runtime::RuntimeReport;
use slipway_crd::Application;
use slipway_source::GitCache;
use tokio::sync::Notify;

use crate::Config;
use crate::engine::Engine;
use crate::observe::Observed;
use crate::queue::AppKey;
use crate::settings::RepositoryAccess;
use crate::view;

pub(crate) struct Reporter {
    enabled: bool,
    inner: Mutex<Inner>,
    signal: Notify,
}

#[derive(Default)]
struct Inner {
    known: BTreeMap<AppKey, wire::Application>,
    changed: BTreeSet<AppKey>,
    removed: BTreeSet<AppKey>,
    /// Applications that were looked at since the start, whatever was found.
    looked_at: BTreeSet<AppKey>,
}

/// Changes that come together are told together.
const GATHER: Duration = Duration::from_millis(50);
/// Until everything was looked at once, a complete report is owed.
const EARLY: Duration = Duration::from_millis(500);
/// A control plane that forgot us learns of us again.
const HEARTBEAT: Duration = Duration::from_secs(20);

impl Reporter {
    pub(crate) fn new(config: &Config) -> Self {
        Self { enabled: config.server.is_some(), inner: Mutex::default(), signal: Notify::new() }
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
        let key = AppKey { namespace: app.metadata.namespace.clone(), name: app.metadata.name.clone() };
        let mut wire = view::application(app, place, observed, family, waiting);
        view::name_commits(app, &mut wire, git, access).await;
        let mut inner = self.inner.lock().expect("no panic while locked");
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

    pub(crate) fn looked_at(&self, key: &AppKey) {
        if self.enabled {
            self.inner.lock().expect("no panic while locked").looked_at.insert(key.clone());
        }
    }

    pub(crate) fn removed(&self, key: &AppKey) {
        let mut inner = self.inner.lock().expect("no panic while locked");
        inner.changed.remove(key);
        if inner.known.remove(key).is_some() {
            inner.removed.insert(key.clone());
            drop(inner);
            self.signal.notify_one();
        }
    }

    fn take(&self, complete: bool) -> (Vec<wire::Application>, Vec<String>) {
        let mut inner = self.inner.lock().expect("no panic while locked");
        let changed = std::mem::take(&mut inner.changed);
        let removed = std::mem::take(&mut inner.removed);
        let applications = if complete {
            inner.known.values().cloned().collect()
        } else {
            changed.iter().filter_map(|key| inner.known.get(key)).cloned().collect()
        };
        (applications, removed.iter().map(AppKey::to_string).collect())
    }
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
            let complete = owed && self.looked_at_all();
            let (applications, removed) = self.reporter.take(complete);
            let report = RuntimeReport {
                runtime: self.config.name.clone(),
                version: self.config.version.clone(),
                ingress_url: self.config.ingress_url.clone(),
                cluster: self.config.cluster.clone(),
                applications,
                complete,
                removed,
            };
            let sending = server.post::<_, Value>("/2.0/api/events", &report);
            match tokio::time::timeout(Duration::from_secs(30), sending).await {
                // Without a readable body it was still taken in.
                Ok(Ok(_) | Err(slipway_api::ClientError::Unexpected { .. })) => {
                    failures = 0;
                    owed &= !complete;
                }
                outcome => {
                    failures += 1;
                    owed = true;
                    if failures == 1
                        && let Ok(Err(error)) = outcome
                    {
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

    fn looked_at_all(&self) -> bool {
        let applications = self.applications();
        let inner = self.reporter.inner.lock().expect("no panic while locked");
        applications.iter().all(|key| inner.looked_at.contains(key))
    }
}
