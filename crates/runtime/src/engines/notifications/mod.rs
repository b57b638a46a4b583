//! Notifies people: after each reconcile of an Application, what `argocd-notifications-cm` says about it is evaluated and sent.
//!
//! A message is marked as sent after the service took it: a process that is killed in between sends it again.

pub(super) mod deliver;
mod email;
mod reconciler;

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use jiff::Timestamp;
use serde_json::json;
use slipway_cluster::{Cluster, ObjectKey, WriteOptions};
use slipway_crd::names;
use slipway_gitops::notify::{Catalog, NOTIFIED, next_state};
use slipway_model::Next;
use slipway_net::Rules;
use slipway_reconcile::{Key, Requeue, Stop, Task, Wake};

use crate::context::Context;
use crate::inventory::Inventory;

pub(crate) const CONFIG: &str = "argocd-notifications-cm";
const SECRET: &str = "argocd-notifications-secret";

/// What is set, and the values that `$key` stands for.
#[derive(Default)]
pub(super) struct Notifications {
    pub(super) catalog: Catalog,
    pub(super) secrets: BTreeMap<String, String>,
}

/// What is set now, and the engine's queue: what the Applications' engine has of this one.
pub(crate) struct Notices {
    current: RwLock<Arc<Notifications>>,
    task: Arc<Task>,
}

impl Notices {
    pub(crate) fn new(context: &Context) -> Self {
        Self { current: RwLock::default(), task: context.tasks.of::<Notifier>() }
    }

    pub(crate) fn reload(&self, cluster: &Cluster, namespace: &str) {
        *self.current.write().expect("no panic while locked") = Arc::new(read(cluster, namespace));
    }

    fn current(&self) -> Arc<Notifications> {
        self.current.read().expect("no panic while locked").clone()
    }

    /// Something about the Application may have changed.
    pub(crate) fn wake(&self, key: &Key) {
        if !self.current().catalog.is_empty() {
            self.task.wake(key.clone(), Wake::STATE);
        }
    }
}

fn read(cluster: &Cluster, namespace: &str) -> Notifications {
    read_from(cluster, namespace, CONFIG, SECRET)
}

/// What a ConfigMap sets, with the values of the Secret beside it.
pub(super) fn read_from(cluster: &Cluster, namespace: &str, map: &str, secret: &str) -> Notifications {
    let object = |kind: &str, name: &str| {
        let key = ObjectKey::new("", kind, namespace, name);
        cluster.live(&key).and_then(|live| live.object()).unwrap_or_default()
    };
    let config = object("ConfigMap", map);
    let data: BTreeMap<String, String> = serde_json::from_value(config["data"].clone()).unwrap_or_default();
    let (catalog, problems) = Catalog::parse(&data);
    for problem in problems {
        tracing::warn!(%problem, config_map = map, "A part of the notifications cannot be used; it is left out.");
    }
    let secret = object("Secret", secret);
    let names = secret["data"].as_object().into_iter().flatten().map(|(name, _)| name);
    let secrets = names
        .filter_map(|name| Some((name.clone(), crate::settings::field(&secret["data"], name)?)))
        .collect();
    Notifications { catalog, secrets }
}

pub(crate) struct Notifier {
    notices: Arc<Notices>,
    cluster: Cluster,
    inventory: Arc<Inventory>,
    /// Which addresses may be asked.
    egress: Rules,
}

impl Notifier {
    /// Sends what is due about one Application.
    async fn notify(&self, key: &Key) -> Result<Requeue, Stop> {
        let notifications = self.notices.current();
        let Some((_, app)) = self.inventory.application(key) else { return Err(Stop::Gone) };
        let now = Timestamp::now();
        let plan = notifications.catalog.plan(&app, &notifications.secrets, now);
        for problem in &plan.problems {
            tracing::warn!(application = %key, %problem, "A notification cannot be made.");
        }
        let mut sent = Vec::new();
        let mut refused = Vec::new();
        for notice in &plan.notices {
            let Some(service) = notifications.catalog.services.get(&notice.service) else {
                tracing::warn!(application = %key, service = %notice.service, "There is no such notification service.");
                continue;
            };
            match deliver::deliver(&self.egress, service, notice, &notifications.secrets).await {
                Ok(()) => sent.push(notice.key.clone()),
                Err(problem) => refused.push(format!("{}: {problem}", notice.service)),
            }
        }
        if let Some(state) = next_state(&app, &sent, &plan.forget, now) {
            let target = json!({"apiVersion": names::API_VERSION, "kind": "Application",
                "metadata": {"namespace": key.namespace, "name": key.name}});
            let patch = json!({"metadata": {"annotations": {NOTIFIED: state}}});
            match self.cluster.merge(&target, &patch, WriteOptions::default()).await {
                Err(error) if error.is_not_found() => return Err(Stop::Gone),
                // Without the mark the messages are sent again, so that this is no reason to hurry.
                Err(error) => return Err(Stop::failed(error.to_string(), Next::Retry)),
                Ok(_) => {}
            }
        }
        if refused.is_empty() {
            return Ok(Requeue::Never);
        }
        Err(Stop::failed(format!("a notification was not taken by {}", refused.join("; ")), Next::Retry))
    }
}
