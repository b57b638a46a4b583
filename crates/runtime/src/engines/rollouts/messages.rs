//! Who hears of what happened to a Rollout: what `argo-rollouts-notification-configmap` says, with the values of the Secret beside it.
//!
//! Sent beside the loop, so that a slow service slows no Rollout down: a few times, and then given up. What happens while the process dies
//! is told by nobody, as with Argo Rollouts' own controller; the Kubernetes Event is there all the same.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use slipway_cluster::{Cluster, ObjectKey};
use slipway_net::Rules;
use tokio::sync::Semaphore;

use crate::context::Context;
use crate::engines::notifications::{Notifications, deliver, read_from};
use crate::metrics::Metrics;

const CONFIG: &str = "argo-rollouts-notification-configmap";
const SECRET: &str = "argo-rollouts-notification-secret";
/// Messages on their way at once; what comes beyond is dropped, and said.
const ON_THE_WAY_MAX: usize = 64;
/// A service that is away for a moment is asked again after these.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Versions, and what they say.
type Known = ([String; 2], Arc<Notifications>);

pub(crate) struct Messages {
    cluster: Cluster,
    namespace: String,
    egress: Rules,
    metrics: Arc<Metrics>,
    /// As it was read of these versions of both.
    known: Mutex<Option<Known>>,
    free: Arc<Semaphore>,
}

/// Something that happened, and was told as an Event.
pub(crate) struct Happened<'a> {
    pub(crate) reason: &'static str,
    pub(crate) warning: bool,
    /// The Rollout as it is after it.
    pub(crate) rollout: &'a Value,
}

impl Messages {
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            cluster: context.cluster().clone(),
            namespace: context.config.namespace.clone(),
            egress: context.config.egress.clone(),
            metrics: context.metrics.clone(),
            known: Mutex::default(),
            free: Arc::new(Semaphore::new(ON_THE_WAY_MAX)),
        }
    }

    fn current(&self) -> Arc<Notifications> {
        let version = |kind: &str, name: &str| {
            let live = self.cluster.live(&ObjectKey::new("", kind, &self.namespace, name));
            live.map(|live| live.resource_version.clone()).unwrap_or_default()
        };
        let versions = [version("ConfigMap", CONFIG), version("Secret", SECRET)];
        let mut known = self.known.lock().expect("no panic while locked");
        match known.as_ref().filter(|(of, _)| *of == versions) {
            Some((_, notifications)) => notifications.clone(),
            None => {
                let read = Arc::new(read_from(&self.cluster, &self.namespace, CONFIG, SECRET));
                *known = Some((versions, read.clone()));
                read
            }
        }
    }

    /// Tells whoever asked for it.
    pub(crate) fn tell(&self, happened: &Happened<'_>) {
        let notifications = self.current();
        if notifications.catalog.is_empty() {
            return;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &happened.rollout["metadata"];
        let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
        let plan = notifications.catalog.happened(
            happened.reason,
            happened.rollout,
            &notifications.secrets,
            Timestamp::now(),
        );
        for problem in &plan.problems {
            tracing::warn!(rollout = %format!("{namespace}/{name}"), %problem, "A notification cannot be made.");
        }
        for notice in plan.notices {
            let Some(service) = notifications.catalog.services.get(&notice.service).cloned() else {
                tracing::warn!(rollout = %format!("{namespace}/{name}"), service = %notice.service, "There is no such notification service.");
                continue;
            };
            let Ok(place) = self.free.clone().try_acquire_owned() else {
                tracing::warn!(rollout = %format!("{namespace}/{name}"), "Too many notifications are on their way; one is dropped.");
                self.metrics.rollouts.sent(
                    (namespace.as_str(), name.as_str()),
                    happened.warning,
                    happened.reason,
                    false,
                    Duration::ZERO,
                );
                continue;
            };
            let (egress, secrets) = (self.egress.clone(), notifications.clone());
            let (metrics, warning, reason) = (self.metrics.clone(), happened.warning, happened.reason);
            let (namespace, name) = (namespace.clone(), name.clone());
            tokio::spawn(async move {
                let _place = place;
                let began = Instant::now();
                let mut outcome = deliver::deliver(&egress, &service, &notice, &secrets.secrets).await;
                for pause in PAUSES {
                    if outcome.is_ok() {
                        break;
                    }
                    tokio::time::sleep(pause).await;
                    outcome = deliver::deliver(&egress, &service, &notice, &secrets.secrets).await;
                }
                if let Err(problem) = &outcome {
                    tracing::warn!(rollout = %format!("{namespace}/{name}"), service = %notice.service, %problem, "A notification was not taken.");
                }
                metrics.rollouts.sent(
                    (namespace.as_str(), name.as_str()),
                    warning,
                    reason,
                    outcome.is_ok(),
                    began.elapsed(),
                );
            });
        }
    }
}
