//! Bringing a pod up: its sandbox, and containers that may run and do not.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::observe::pod_ip;
use super::{BACKOFF_FIRST, BACKOFF_MAX, Worker, field_path, host_ip, id_text, tell};
use crate::node::container::{Start, StartError, container_name, log_file, start_sandbox};
use crate::node::engine::words;
use crate::node::probe;
use crate::node::status::waiting;
use crate::value::{Json as _, now};

impl Worker {
    pub(super) async fn make_sandbox(&mut self, pod: &Value) -> Result<(), String> {
        // A sandbox that is there but stopped (a reboot) has lost its network, and its containers with it.
        let stale = self.engine.list_pod(&self.uid).await?;
        if !stale.is_empty() {
            self.engine.remove(&stale).await;
            let names: Vec<String> =
                self.units.iter().filter(|(_, u)| u.live).map(|(n, _)| n.clone()).collect();
            for name in names {
                let gone = json!({"terminated": {"exitCode": 255, "reason": "Unknown", "finishedAt": now(), "startedAt": now()}});
                self.end(&name, gone);
            }
        }
        start_sandbox(&self.cluster, &self.engine, pod).await?;
        let details = self.engine.inspect(&[self.engine_name("POD", 0)]).await?;
        self.ip = match details.first() {
            Some(_) if pod.bool_at("spec.hostNetwork") => host_ip(),
            Some(details) => pod_ip(details),
            None => String::new(),
        };
        self.sandbox = true;
        Ok(())
    }

    /// Starts a container that is not running and may run. Says when to look again.
    pub(super) async fn ensure(
        &mut self,
        pod: &Value,
        container: &Value,
        policy: &str,
        volumes: &BTreeMap<String, PathBuf>,
    ) -> Option<Duration> {
        let name = container.str_at("name").to_owned();
        let unit = self.units.get_mut(&name)?;
        if unit.live {
            return None;
        }
        let was_up = unit.ended().is_some() || !unit.last.is_null();
        if let Some(code) = unit.ended() {
            let restart = match policy {
                "Always" => true,
                "OnFailure" => code != 0,
                _ => false,
            };
            if !restart {
                return None;
            }
        }
        if let Some(left) = unit
            .retry_at
            .map(|at| at.saturating_duration_since(Instant::now()))
            .filter(|left| !left.is_zero())
        {
            if unit.ended().is_some() {
                let text = format!(
                    "back-off {} restarting failed container={name} pod={}_{}({})",
                    go_duration(unit.backoff),
                    self.name,
                    self.namespace,
                    self.uid
                );
                unit.last = std::mem::replace(&mut unit.state, waiting("CrashLoopBackOff", &text));
                let field = field_path(pod, &name);
                tell(
                    &self.cluster,
                    pod,
                    &field,
                    "Warning",
                    "BackOff",
                    &format!(
                        "Back-off restarting failed container {name} in pod {}_{}({})",
                        self.name, self.namespace, self.uid
                    ),
                )
                .await;
            }
            return Some(left);
        }
        if let Err(delay) = self.ensure_image(pod, container).await {
            return Some(delay);
        }
        let unit = self.units.get_mut(&name)?;
        let old = self.engine.clone();
        let attempt = if was_up { unit.attempt + 1 } else { unit.attempt };
        if was_up {
            if unit.ended().is_some() {
                unit.last = unit.state.clone();
            }
            let finished = container_name(&old, &self.uid, &name, attempt - 1);
            old.remove(&[finished]).await;
            let _ = std::fs::remove_file(log_file(&self.folder, &name, attempt - 2));
        }
        self.start(pod, container, attempt, volumes).await
    }

    async fn start(
        &mut self,
        pod: &Value,
        container: &Value,
        attempt: i64,
        volumes: &BTreeMap<String, PathBuf>,
    ) -> Option<Duration> {
        let name = container.str_at("name").to_owned();
        let field = field_path(pod, &name);
        // Environment may refer to the pod's own address.
        let mut with_ip = pod.clone();
        with_ip.set_at("status.podIP", json!(self.ip));
        let start = Start {
            cluster: &self.cluster,
            engine: &self.engine,
            pod: &with_ip,
            container,
            attempt,
            folder: &self.folder,
            volumes,
        };
        let result = start.run().await;
        let unit = self.units.get_mut(&name)?;
        match result {
            Ok(id) => {
                unit.attempt = attempt;
                unit.live = true;
                unit.container_id = id_text(&self.engine, &id);
                unit.pull_backoff = Duration::ZERO;
                unit.backoff =
                    if unit.backoff.is_zero() { BACKOFF_FIRST } else { (unit.backoff * 2).min(BACKOFF_MAX) };
                if attempt == 0 || unit.last.is_null() {
                    // The first restart is immediate; the wait begins with the second.
                    unit.backoff = Duration::ZERO;
                }
                unit.retry_at = None;
                unit.state = json!({"running": {"startedAt": now()}});
                tell(&self.cluster, pod, &field, "Normal", "Created", &format!("Created container: {name}"))
                    .await;
                tell(&self.cluster, pod, &field, "Normal", "Started", &format!("Started container {name}"))
                    .await;
                self.post_start(pod, container, attempt).await;
                // The next look sees it running, or already ended.
                Some(Duration::ZERO)
            }
            Err(StartError::Config(why)) => {
                unit.state = waiting("CreateContainerConfigError", &why);
                tell(&self.cluster, pod, &field, "Warning", "Failed", &format!("Error: {why}")).await;
                Some(Duration::from_secs(10))
            }
            Err(StartError::Engine(why)) => {
                unit.attempt = attempt;
                let time = now();
                let code = if why.contains("not found") || why.contains("no such file") { 127 } else { 128 };
                let state = json!({"terminated": {"exitCode": code, "reason": "StartError", "message": why, "startedAt": "1970-01-01T00:00:00Z", "finishedAt": time}});
                unit.backoff =
                    if unit.backoff.is_zero() { BACKOFF_FIRST } else { (unit.backoff * 2).min(BACKOFF_MAX) };
                tell(&self.cluster, pod, &field, "Warning", "Failed", &format!("Error: {why}")).await;
                let backoff = unit.backoff;
                self.end(&name, state);
                Some(backoff)
            }
        }
    }

    async fn post_start(&mut self, pod: &Value, container: &Value, attempt: i64) {
        let Some(action) = container.at("lifecycle.postStart") else { return };
        let name = container.str_at("name");
        if let Err(why) = self.hook(container, action, attempt).await {
            let text = format!("PostStartHook failed: {why}");
            tell(&self.cluster, pod, &field_path(pod, name), "Warning", "FailedPostStartHook", &text).await;
            self.engine.call(&words(&["kill", &self.engine_name(name, attempt)])).await.ok();
        }
    }

    pub(super) async fn hook(&self, container: &Value, action: &Value, attempt: i64) -> Result<(), String> {
        if let Some(exec) = action.get("exec") {
            return probe::exec_in(&self.engine, &self.engine_name(container.str_at("name"), attempt), exec)
                .await;
        }
        if let Some(get) = action.get("httpGet") {
            return probe::http_get(container, &self.ip, get).await;
        }
        if let Some(seconds) = action.int_at("sleep.seconds") {
            tokio::time::sleep(Duration::from_secs(seconds.max(0) as u64)).await;
        }
        Ok(())
    }
}

fn go_duration(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds < 60 => format!("{seconds}s"),
        seconds => format!("{}m{}s", seconds / 60, seconds % 60),
    }
}
