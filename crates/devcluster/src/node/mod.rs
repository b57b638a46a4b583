//! The one machine: runs pods as real containers through Podman or Docker.
//!
//! Comes in: pods that are bound to the node. Goes out: containers, and the pods' status. Containers outlive this
//! process; after a restart they are found again by their labels, and those without a pod are removed.

mod config;
mod container;
mod death;
mod engine;
mod exec;
mod logs;
mod network;
mod pause;
mod pod;
mod probe;
mod status;
mod volumes;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub(crate) use engine::{Engine, find_engine};
pub(crate) use exec::{Exec, ExecWish, Reader, connect};
pub(crate) use logs::{LogOptions, Source as LogSource, stream_logs};
pub(crate) use network::{NODE_PORTS, is_service_address, remove_route};
pub(crate) use volumes::open_folders;

use crate::api::Cluster;
use crate::bootstrap::NODE;
use crate::value::{Json as _, now, now_micro};

/// Which container engine to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    Podman,
    Docker,
    /// Pods stay Pending. For tests of the API alone.
    Off,
}

/// What the rest of the cluster asks the node.
#[derive(Default)]
pub(crate) struct NodeLink {
    engine: OnceLock<Arc<Engine>>,
    missing: RwLock<Option<String>>,
}

impl NodeLink {
    /// Why pods cannot run here, if they cannot.
    pub(crate) fn unavailable(&self) -> Option<String> {
        self.missing.read().expect("node lock").clone()
    }

    pub(crate) fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.get().cloned()
    }

    /// Known before the API answers, so that no pod is bound to a node that cannot run it.
    pub(crate) fn set(&self, engine: Result<Engine, String>) {
        match engine {
            Ok(engine) => drop(self.engine.set(Arc::new(engine))),
            Err(reason) => *self.missing.write().expect("node lock") = Some(reason),
        }
    }
}

/// Keeps the node object fresh and runs pods until `shutdown`.
pub(crate) async fn run(cluster: Arc<Cluster>, api: SocketAddr, shutdown: CancellationToken) {
    write_node(&cluster, api).await;
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(heartbeat(cluster.clone(), api, shutdown.clone()));
    tasks.spawn(network::serve(cluster.clone(), api, shutdown.clone()));
    if let Some(engine) = cluster.node.engine() {
        tasks.spawn(run_pods(cluster, engine, shutdown));
    }
    while tasks.join_next().await.is_some() {}
}

async fn heartbeat(cluster: Arc<Cluster>, api: SocketAddr, shutdown: CancellationToken) {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(Duration::from_secs(30)) => {}
        }
        write_node(&cluster, api).await;
    }
}

fn node_facts(cluster: &Cluster, api: SocketAddr) -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = read("/proc/meminfo")
        .lines()
        .find_map(|l| l.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok())
        .unwrap_or(0);
    let os = read("/etc/os-release")
        .lines()
        .find_map(|l| l.strip_prefix("PRETTY_NAME=").map(|v| v.trim_matches('"').to_owned()))
        .unwrap_or_default();
    let capacity = json!({"cpu": cpus.to_string(), "memory": format!("{memory}Ki"), "pods": "110", "ephemeral-storage": "100Gi"});
    let runtime = cluster
        .node
        .engine()
        .map(|e| e.describe().replace(' ', "://"))
        .unwrap_or_else(|| "none://".to_owned());
    json!({
        "capacity": capacity, "allocatable": capacity,
        "addresses": [{"type": "InternalIP", "address": api.ip().to_string()}, {"type": "Hostname", "address": NODE}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": api.port()}},
        "nodeInfo": {
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }, "operatingSystem": "linux",
            "kernelVersion": read("/proc/sys/kernel/osrelease").trim(), "osImage": os, "machineID": "", "systemUUID": "",
            "bootID": read("/proc/sys/kernel/random/boot_id").trim(), "containerRuntimeVersion": runtime,
            "kubeletVersion": "v1.34.4+slipway", "kubeProxyVersion": "",
        },
    })
}

async fn write_node(cluster: &Cluster, api: SocketAddr) {
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let labels = json!({"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux", "kubernetes.io/arch": arch, "node-role.kubernetes.io/control-plane": ""});
    if let Err(error) =
        crate::bootstrap::ensure(cluster, "nodes", "", NODE, json!({"metadata": {"labels": labels}})).await
    {
        tracing::warn!(%error, "Cannot write the node object.");
        return;
    }
    let lease = json!({"spec": {"holderIdentity": NODE, "leaseDurationSeconds": 120}});
    let _ =
        crate::bootstrap::ensure(cluster, "coordination.k8s.io/leases", "kube-node-lease", NODE, lease).await;
    let _ = cluster
        .modify("coordination.k8s.io/leases", "kube-node-lease", NODE, "", "kubelet", |lease| {
            lease.set_at("spec.renewTime", json!(now_micro()))
        })
        .await;
    let facts = node_facts(cluster, api);
    let missing = cluster.node.unavailable();
    let ready = match &missing {
        None => {
            json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "containers can run"})
        }
        Some(why) => {
            json!({"type": "Ready", "status": "False", "reason": "NoContainerEngine", "message": why})
        }
    };
    let written = cluster
        .modify("nodes", "", NODE, "status", "kubelet", |node| {
            let mut conditions = node.list_at("status.conditions").to_vec();
            let time = now();
            // Heartbeats would be a write each time; they move once a minute at most.
            let fresh = conditions.iter().any(|c| c.str_at("type") == "Ready" && crate::value::seconds_since(c.str_at("lastHeartbeatTime")) < 300 && c.str_at("status") == ready.str_at("status"));
            if fresh {
                return;
            }
            for mut condition in [
                json!({"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory", "message": "kubelet has sufficient memory available"}),
                json!({"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure", "message": "kubelet has no disk pressure"}),
                json!({"type": "PIDPressure", "status": "False", "reason": "KubeletHasSufficientPID", "message": "kubelet has sufficient PID available"}),
                ready,
            ] {
                condition.set_at("lastHeartbeatTime", json!(time));
                crate::controllers::set_condition(&mut conditions, condition);
            }
            node.set_at("status", facts);
            node.set_at("status.conditions", Value::Array(conditions));
        })
        .await;
    if let Err(error) = written {
        tracing::warn!(%error, "Cannot write the node's status.");
    }
}

/// One task per pod; a nudge makes it look at the pod again.
struct Pods {
    cluster: Arc<Cluster>,
    engine: Arc<Engine>,
    shutdown: CancellationToken,
    tasks: HashMap<String, (String, Arc<Notify>, tokio::task::JoinHandle<()>)>,
}

impl Pods {
    fn nudge(&mut self, pod: &Value) {
        if pod.str_at("spec.nodeName") != NODE {
            return;
        }
        let uid = pod.uid().to_owned();
        self.tasks.retain(|_, (_, _, task)| !task.is_finished());
        if let Some((_, notify, _)) = self.tasks.get(&uid) {
            notify.notify_one();
            return;
        }
        if self.cluster.store.find_uid(&uid).is_none() {
            return;
        }
        let notify = Arc::new(Notify::new());
        let worker = pod::Worker::new(self.cluster.clone(), self.engine.clone(), pod, notify.clone());
        let task = tokio::spawn(worker.run(self.shutdown.clone()));
        self.tasks.insert(uid, (pod.namespace().to_owned(), notify, task));
    }

    fn nudge_uid(&self, uid: &str) {
        if let Some((_, notify, _)) = self.tasks.get(uid) {
            notify.notify_one();
        }
    }

    fn nudge_namespace(&self, namespace: &str) {
        self.tasks
            .values()
            .filter(|(ns, _, _)| ns == namespace)
            .for_each(|(_, notify, _)| notify.notify_one());
    }
}

async fn run_pods(cluster: Arc<Cluster>, engine: Arc<Engine>, shutdown: CancellationToken) {
    if let Err(error) = engine.prepare().await {
        tracing::error!(%error, "The container engine is not usable.");
        *cluster.node.missing.write().expect("node lock") = Some(error);
        return;
    }
    remove_orphans(&cluster, &engine).await;
    let (died, mut deaths) = tokio::sync::mpsc::channel(256);
    let follow = tokio::spawn(engine::follow_deaths(engine.clone(), died, shutdown.clone()));
    let mut pods =
        Pods { cluster: cluster.clone(), engine, shutdown: shutdown.clone(), tasks: HashMap::new() };
    'relist: loop {
        let (version, objects) = cluster.store.list("pods", None);
        for stored in objects {
            pods.nudge(&stored.value());
        }
        let watches = ["pods", "configmaps", "secrets", "persistentvolumeclaims"]
            .map(|kind| cluster.store.watch(kind, version));
        let [Some(mut changes), Some(mut configs), Some(mut secrets), Some(mut claims)] = watches else {
            continue;
        };
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break 'relist,
                uid = deaths.recv() => match uid {
                    Some(uid) if !uid.is_empty() => pods.nudge_uid(&uid),
                    // The event stream was interrupted: anything may have happened.
                    Some(_) => continue 'relist,
                    None => break 'relist,
                },
                events = changes.next() => match events {
                    Some(events) => events.iter().for_each(|event| pods.nudge(&event.object.value())),
                    None => continue 'relist,
                },
                events = configs.next() => match events {
                    Some(events) => events.iter().for_each(|event| pods.nudge_namespace(&event.object.key.namespace)),
                    None => continue 'relist,
                },
                events = secrets.next() => match events {
                    Some(events) => events.iter().for_each(|event| pods.nudge_namespace(&event.object.key.namespace)),
                    None => continue 'relist,
                },
                events = claims.next() => match events {
                    Some(events) => events.iter().for_each(|event| pods.nudge_namespace(&event.object.key.namespace)),
                    None => continue 'relist,
                },
            }
        }
    }
    for (_, (_, _, task)) in pods.tasks {
        let _ = task.await;
    }
    let _ = follow.await;
}

/// Removes every container of the cluster with this id.
pub(crate) async fn remove_all(engine: &Engine) -> Result<usize, String> {
    let names: Vec<String> = engine.list_own().await?.into_iter().map(|(name, _)| name).collect();
    engine.remove(&names).await;
    Ok(names.len())
}

pub(crate) async fn count_all(engine: &Engine) -> Result<usize, String> {
    Ok(engine.list_own().await?.len())
}

/// Containers of this cluster whose pod is gone; they are left over from a crash.
async fn remove_orphans(cluster: &Cluster, engine: &Engine) {
    let Ok(containers) = engine.list_own().await else { return };
    let mut gone: Vec<String> = Vec::new();
    for (name, uid) in containers {
        if cluster.store.find_uid(&uid).is_none() {
            gone.push(name);
        }
    }
    if !gone.is_empty() {
        tracing::info!(count = gone.len(), "Removing containers whose pods are gone.");
        engine.remove(&gone).await;
    }
    let folder = cluster.data.join("pods");
    for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        if cluster.store.find_uid(&entry.file_name().to_string_lossy()).is_none() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
