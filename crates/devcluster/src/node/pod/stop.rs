//! Ending containers: because a probe gave up, a deadline passed, the pod is done, or it is being deleted.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::{COMPONENT, Next, Unit, Worker, field_path, tell};
use crate::api::{Caller, DeleteOptions};
use crate::controllers::record;
use crate::node::engine::words;
use crate::value::Json as _;
use slipway_container::Kind;

impl Worker {
    /// Ends containers whose liveness or startup probe gave up.
    pub(super) async fn kill_unhealthy(&mut self, pod: &Value) {
        let sick: Vec<(String, String, i64)> = self
            .units
            .iter()
            .filter(|(_, unit)| unit.live)
            .filter_map(|(name, unit)| {
                Some((name.clone(), unit.health.lock().expect("health lock").restart.clone()?, unit.attempt))
            })
            .collect();
        for (name, why, attempt) in sick {
            let text = format!("Container {name} {why}, will be restarted");
            tell(&self.cluster, pod, &field_path(pod, &name), "Normal", "Killing", &text).await;
            let grace = pod.int_at("spec.terminationGracePeriodSeconds").unwrap_or(30);
            self.stop(&[self.engine_name(&name, attempt)], grace).await;
            if let Some(unit) = self.units.get_mut(&name) {
                unit.health.lock().expect("health lock").restart = None;
            }
        }
        if let Err(error) = self.observe(pod).await {
            tracing::debug!(%error, "Cannot observe a pod.");
        }
    }

    async fn stop(&self, names: &[String], grace: i64) {
        if names.is_empty() {
            return;
        }
        let mut args = words(&["stop", "-t", &grace.max(0).to_string()]);
        args.extend(names.iter().cloned());
        let mut command = self.engine.command(&args);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        if let Ok(mut child) = command.spawn() {
            let _ = child.wait().await;
        }
    }

    pub(super) async fn fail(&mut self, pod: &Value, reason: &str, message: &str) -> Option<Duration> {
        record(&self.cluster, pod, "Normal", reason, message, COMPONENT).await;
        self.stop_all(pod, pod.int_at("spec.terminationGracePeriodSeconds").unwrap_or(30)).await;
        let _ = self.observe(pod).await;
        self.write(pod, Some((reason, message))).await;
        Some(Duration::ZERO)
    }

    /// Main containers first, then sidecars in reverse order.
    async fn stop_all(&mut self, pod: &Value, grace: i64) {
        let started = Instant::now();
        let live = |worker: &Worker, container: &Value| {
            let name = container.str_at("name");
            worker
                .units
                .get(name)
                .filter(|u| u.live)
                .map(|u| (container.clone(), worker.engine_name(name, u.attempt), u.attempt))
        };
        let main: Vec<_> = pod.list_at("spec.containers").iter().filter_map(|c| live(self, c)).collect();
        let limit = Duration::from_secs(grace.max(1) as u64);
        let hooks = main.iter().filter_map(|(container, _, attempt)| {
            container.at("lifecycle.preStop").map(|action| self.hook(container, action, *attempt))
        });
        let _ = tokio::time::timeout(limit, futures::future::join_all(hooks)).await;
        let names: Vec<String> = main.into_iter().map(|(_, name, _)| name).collect();
        let left = |grace: i64| (grace - started.elapsed().as_secs() as i64).max(0);
        self.stop(&names, left(grace)).await;
        let side: Vec<_> =
            pod.list_at("spec.initContainers").iter().rev().filter_map(|c| live(self, c)).collect();
        for (_, name, _) in side {
            self.stop(&[name], left(grace).max(1)).await;
        }
    }

    /// A finished pod: nothing runs any more, its logs stay until it is deleted.
    pub(super) async fn rest(&mut self, pod: &Value) {
        if self.units.values().any(|unit| unit.live) {
            let _ = self.observe(pod).await;
            self.stop_all(pod, pod.int_at("spec.terminationGracePeriodSeconds").unwrap_or(30)).await;
        }
        self.units.values_mut().for_each(Unit::stop_probes);
        if let Ok(names) = self.engine.list_pod(&self.uid).await {
            if self.engine.kind == Kind::Podman {
                self.engine.remove(&names).await;
            } else {
                // Docker keeps the logs in the container, so only the sandbox goes.
                self.engine.remove(&[self.engine_name("POD", 0)]).await;
            }
        }
        self.units.values_mut().for_each(|unit| unit.live = false);
    }

    /// The pod is being deleted: stop within its grace, then let the object go.
    pub(super) async fn terminate(&mut self, pod: &Value) -> Next {
        let _ = self.observe(pod).await;
        let live: Vec<String> = self.units.iter().filter(|(_, u)| u.live).map(|(n, _)| n.clone()).collect();
        for name in &live {
            tell(
                &self.cluster,
                pod,
                &field_path(pod, name),
                "Normal",
                "Killing",
                &format!("Stopping container {name}"),
            )
            .await;
        }
        self.units.values_mut().for_each(Unit::stop_probes);
        self.write(pod, None).await;
        let grace = pod.int_at("metadata.deletionGracePeriodSeconds").unwrap_or(30);
        let (cluster, namespace, name, uid) =
            (self.cluster.clone(), self.namespace.clone(), self.name.clone(), self.uid.clone());
        let notify = self.notify.clone();
        tokio::select! {
            () = self.stop_all(pod, grace) => {}
            // Somebody forces the deletion while the containers take their time.
            () = async {
                loop {
                    notify.notified().await;
                    let now = cluster.get("pods", &namespace, &name).filter(|p| p.uid() == uid);
                    if now.is_none_or(|p| p.int_at("metadata.deletionGracePeriodSeconds").unwrap_or(0) < grace) {
                        return;
                    }
                }
            } => {}
        }
        let _ = self.observe(pod).await;
        if let Some(pod) = self.pod() {
            self.write(&pod, None).await;
        }
        self.tear_down().await;
        let options =
            DeleteOptions { grace_seconds: Some(0), uid: Some(self.uid.clone()), ..DeleteOptions::default() };
        let mut caller = Caller::internal(COMPONENT);
        let deleted = self
            .cluster
            .delete(&self.cluster.resource("pods"), &self.namespace, &self.name, &options, &mut caller)
            .await;
        match deleted {
            Err(error) if !error.is_not_found() && !error.is_conflict() => {
                tracing::warn!(pod = %self.name, %error, "Cannot delete a terminated pod.");
                Next::Wait(Some(Duration::from_secs(2)))
            }
            Ok((_, false)) => Next::Wait(Some(Duration::from_secs(3600))),
            _ => Next::Finished,
        }
    }

    pub(super) async fn tear_down(&mut self) {
        self.units.values_mut().for_each(Unit::stop_probes);
        let names = self.engine.list_pod(&self.uid).await.unwrap_or_default();
        self.engine.remove(&names).await;
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
