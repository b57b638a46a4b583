//! One pod's life: a task that brings its containers to what the pod asks for, and writes down what it sees.
//! This file holds what is known and the order of a round; the parts of a round are beside it.

mod image;
mod observe;
mod report;
mod start;
mod stop;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::container::container_name;
use super::engine::Engine;
use super::probe::Health;
use super::status::waiting;
use super::volumes;
use crate::api::Cluster;
use crate::controllers::{record, record_at};
use crate::value::{Json as _, seconds_since};

const COMPONENT: &str = "kubelet";
const BACKOFF_FIRST: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_secs(300);

/// What is known of one container.
struct Unit {
    attempt: i64,
    /// The attempt has been started and not been seen to end.
    live: bool,
    state: Value,
    last: Value,
    image_id: String,
    container_id: String,
    health: Arc<Mutex<Health>>,
    probes: Option<tokio::task::JoinHandle<()>>,
    /// Nudges us when its process has ended.
    death: Option<tokio::task::JoinHandle<()>>,
    retry_at: Option<Instant>,
    backoff: Duration,
    pull_backoff: Duration,
}

impl Unit {
    fn fresh() -> Self {
        Unit {
            attempt: 0,
            live: false,
            state: waiting("ContainerCreating", ""),
            last: Value::Null,
            image_id: String::new(),
            container_id: String::new(),
            health: Arc::default(),
            probes: None,
            death: None,
            retry_at: None,
            backoff: Duration::ZERO,
            pull_backoff: Duration::ZERO,
        }
    }

    fn ended(&self) -> Option<i64> {
        self.state.int_at("terminated.exitCode")
    }

    fn stop_probes(&mut self) {
        if let Some(task) = self.probes.take() {
            task.abort();
        }
        *self.health.lock().expect("health lock") = Health::default();
    }
}

pub(super) struct Worker {
    cluster: Arc<Cluster>,
    engine: Arc<Engine>,
    namespace: String,
    name: String,
    uid: String,
    folder: PathBuf,
    notify: Arc<Notify>,
    units: BTreeMap<String, Unit>,
    adopted: bool,
    ip: String,
    sandbox: bool,
}

enum Next {
    Wait(Option<Duration>),
    Finished,
}

/// An event of the container that `field` names.
async fn tell(cluster: &Cluster, pod: &Value, field: &str, ty: &str, reason: &str, message: &str) {
    record_at(cluster, pod, field, ty, reason, message, COMPONENT).await;
}

impl Worker {
    pub(super) fn new(cluster: Arc<Cluster>, engine: Arc<Engine>, pod: &Value, notify: Arc<Notify>) -> Self {
        Worker {
            folder: cluster.data.join("pods").join(pod.uid()),
            cluster,
            engine,
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            notify,
            units: BTreeMap::new(),
            adopted: false,
            ip: String::new(),
            sandbox: false,
        }
    }

    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        loop {
            let next = tokio::select! {
                () = shutdown.cancelled() => return,
                next = self.sync() => next,
            };
            let delay = match next {
                Next::Finished => return,
                Next::Wait(delay) => delay.unwrap_or(Duration::from_secs(60)),
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.notify.notified() => {}
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    fn pod(&self) -> Option<Value> {
        self.cluster.get("pods", &self.namespace, &self.name).filter(|pod| pod.uid() == self.uid)
    }

    fn engine_name(&self, container: &str, attempt: i64) -> String {
        container_name(&self.engine, &self.uid, container, attempt)
    }

    async fn sync(&mut self) -> Next {
        let Some(pod) = self.pod() else {
            self.tear_down().await;
            return Next::Finished;
        };
        if !self.adopted
            && let Err(error) = self.adopt(&pod).await
        {
            tracing::warn!(pod = %self.name, %error, "Cannot list the containers of a pod.");
            return Next::Wait(Some(Duration::from_secs(2)));
        }
        if pod.at("metadata.deletionTimestamp").is_some() {
            return self.terminate(&pod).await;
        }
        if matches!(pod.str_at("status.phase"), "Succeeded" | "Failed") {
            self.rest(&pod).await;
            return Next::Wait(Some(Duration::from_secs(3600)));
        }
        let again = self.advance(&pod).await;
        Next::Wait(again)
    }

    /// One round: observe, start what may start, write the status.
    async fn advance(&mut self, pod: &Value) -> Option<Duration> {
        if let Err(error) = self.observe(pod).await {
            tracing::warn!(pod = %self.name, %error, "The container engine did not answer.");
            return Some(Duration::from_secs(2));
        }
        if let Some(limit) = pod.int_at("spec.activeDeadlineSeconds") {
            let spent =
                pod.at("status.startTime").map_or(0, |_| seconds_since(pod.str_at("status.startTime")));
            if spent >= limit {
                return self
                    .fail(
                        pod,
                        "DeadlineExceeded",
                        "Pod was active on the node longer than the specified deadline",
                    )
                    .await;
            }
        }
        let mut again: Option<Duration> =
            pod.int_at("spec.activeDeadlineSeconds").map(|s| Duration::from_secs(s.max(1) as u64));
        let mut soonest = |delay: Option<Duration>| {
            if let Some(delay) = delay {
                again = Some(again.map_or(delay, |have| have.min(delay)));
            }
        };
        self.kill_unhealthy(pod).await;
        let volumes = match volumes::prepare(&self.cluster, pod, &self.folder) {
            Ok(volumes) => volumes,
            Err(why) => {
                record(&self.cluster, pod, "Warning", "FailedMount", &why, COMPONENT).await;
                self.write(pod, None).await;
                return Some(Duration::from_secs(5));
            }
        };
        if !self.sandbox
            && let Err(why) = self.make_sandbox(pod).await
        {
            record(&self.cluster, pod, "Warning", "FailedCreatePodSandBox", &why, COMPONENT).await;
            self.write(pod, None).await;
            return Some(Duration::from_secs(5));
        }
        let policy = pod.str_at("spec.restartPolicy");
        let mut initialized = true;
        for container in pod.list_at("spec.initContainers") {
            let name = container.str_at("name");
            let sidecar = container.str_at("restartPolicy") == "Always";
            let unit = &self.units[name];
            if !sidecar && unit.ended() == Some(0) {
                continue;
            }
            let stop_here = !sidecar && policy == "Never" && unit.ended().is_some();
            if !stop_here {
                soonest(
                    self.ensure(
                        pod,
                        container,
                        if sidecar {
                            "Always"
                        } else if policy == "Never" {
                            "Never"
                        } else {
                            "OnFailure"
                        },
                        &volumes,
                    )
                    .await,
                );
            }
            let unit = &self.units[name];
            let through = if sidecar {
                unit.health.lock().expect("health lock").started
            } else {
                unit.ended() == Some(0)
            };
            if !through {
                initialized = false;
                break;
            }
        }
        if initialized {
            for container in pod.list_at("spec.containers") {
                soonest(self.ensure(pod, container, policy, &volumes).await);
            }
        }
        self.write(pod, None).await;
        again
    }
}

fn spec_of<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    pod.list_at("spec.containers")
        .iter()
        .chain(pod.list_at("spec.initContainers"))
        .find(|c| c.str_at("name") == name)
}

fn field_path(pod: &Value, name: &str) -> String {
    let init = pod.list_at("spec.initContainers").iter().any(|c| c.str_at("name") == name);
    format!("spec.{}{{{name}}}", if init { "initContainers" } else { "containers" })
}

fn id_text(engine: &Engine, id: &str) -> String {
    let name = engine.kind.name();
    format!("{name}://{id}")
}

/// The address under which this machine knows itself; pods with hostNetwork have it too.
fn host_ip() -> String {
    "127.0.0.1".to_owned()
}
