//! Tells people: after each look at an Application, what `argocd-notifications-cm` says about it is evaluated and sent.
//!
//! A message is marked as sent after the service took it: a process that is killed in between sends it again.

mod deliver;
mod email;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;
use slipway_cluster::{ObjectKey, WriteOptions};
use slipway_crd::names;
use slipway_gitops::notify::{Catalog, NOTIFIED, next_state};

use crate::engine::Engine;
use crate::queue::{AppKey, Wake};

pub(crate) const CONFIG: &str = "argocd-notifications-cm";
pub(crate) const SECRET: &str = "argocd-notifications-secret";
/// A service that did not take a message is asked again after this time.
const RETRY: Duration = Duration::from_secs(60);

/// What is set, and the values that `$key` stands for.
#[derive(Default)]
pub(crate) struct Notifications {
    pub(crate) catalog: Catalog,
    secrets: BTreeMap<String, String>,
}

impl Engine {
    pub(crate) fn read_notifications(&self) -> Notifications {
        let object = |kind: &str, name: &str| {
            let key = ObjectKey::new("", kind, &self.config.namespace, name);
            self.cluster.live(&key).and_then(|live| live.object()).unwrap_or_default()
        };
        let config = object("ConfigMap", CONFIG);
        let data: BTreeMap<String, String> =
            serde_json::from_value(config["data"].clone()).unwrap_or_default();
        let (catalog, problems) = Catalog::parse(&data);
        for problem in problems {
            tracing::warn!(%problem, "A part of argocd-notifications-cm cannot be used; it is left out.");
        }
        let secret = object("Secret", SECRET);
        let names = secret["data"].as_object().into_iter().flatten().map(|(name, _)| name);
        let secrets = names
            .filter_map(|name| Some((name.clone(), crate::settings::field(&secret["data"], name)?)))
            .collect();
        Notifications { catalog, secrets }
    }

    /// Something about the Application may have changed.
    pub(crate) fn consider_telling(&self, key: &AppKey) {
        if !self.notifications().catalog.is_empty() {
            self.notices.add(key.clone(), Wake::STATE);
        }
    }

    /// Tells for ever.
    pub(crate) async fn send_notices(self: Arc<Self>) {
        loop {
            let (key, _) = self.notices.next().await;
            if !self.tell_people(&key).await {
                self.notices.add_at(key.clone(), Instant::now() + RETRY, Wake::STATE);
            }
            self.notices.done(&key);
        }
    }

    /// False: something has to be tried again.
    async fn tell_people(&self, key: &AppKey) -> bool {
        let notifications = self.notifications();
        let Some((_, app)) = self.application(key).filter(|_| self.shards.is_ours(key)) else { return true };
        let now = Timestamp::now();
        let plan = notifications.catalog.plan(&app, &notifications.secrets, now);
        for problem in &plan.problems {
            tracing::warn!(application = %key, %problem, "A notification cannot be made.");
        }
        let mut sent = Vec::new();
        let mut all = true;
        for notice in &plan.notices {
            let Some(service) = notifications.catalog.services.get(&notice.service) else {
                tracing::warn!(application = %key, service = %notice.service, "There is no such notification service.");
                continue;
            };
            match deliver::deliver(service, notice, &notifications.secrets).await {
                Ok(()) => sent.push(notice.key.clone()),
                Err(problem) => {
                    all = false;
                    tracing::warn!(application = %key, service = %notice.service, %problem, "A notification was not taken; it is tried again.");
                }
            }
        }
        let Some(state) = next_state(&app, &sent, &plan.forget, now) else { return all };
        let target = json!({"apiVersion": names::API_VERSION, "kind": "Application",
            "metadata": {"namespace": key.namespace, "name": key.name}});
        let patch = json!({"metadata": {"annotations": {NOTIFIED: state}}});
        match self.cluster.merge(&target, &patch, WriteOptions::default()).await {
            Ok(_) => all,
            Err(error) => {
                tracing::warn!(application = %key, %error, "Who heard what could not be written down.");
                error.is_not_found()
            }
        }
    }
}
