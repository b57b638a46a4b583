//! One pod's life: a task that brings its containers to what the pod asks for, and writes down what it sees.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::container::{Start, StartError, container_name, log_file, message_file, start_sandbox};
use super::engine::{Engine, words};
use super::probe::{self, Health, Subject};
use super::status::{self, Facts, View, waiting};
use super::{EngineChoice, logs, volumes};
use crate::api::{Caller, Cluster, DeleteOptions};
use crate::controllers::{record, record_at};
use crate::value::{Json as _, now, parse_time, seconds_since, time_text};

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
            tracing::warn!(pod = %self.name, %error, "The containers of a pod cannot be listed.");
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

    /// Finds containers that an earlier process started.
    async fn adopt(&mut self, pod: &Value) -> Result<(), String> {
        let names = self.engine.list_pod(&self.uid).await?;
        let containers = pod.list_at("spec.initContainers").iter().chain(pod.list_at("spec.containers"));
        for container in containers {
            let name = container.str_at("name");
            let prefix = format!("slipway_{}_{}_{name}_", self.engine.cluster(), self.uid);
            let newest = names.iter().filter_map(|n| n.strip_prefix(&prefix)?.parse::<i64>().ok()).max();
            let statuses = pod
                .list_at("status.initContainerStatuses")
                .iter()
                .chain(pod.list_at("status.containerStatuses"));
            let known = statuses.into_iter().find(|s| s.str_at("name") == name);
            let mut unit = Unit::fresh();
            if let Some(known) = known {
                unit.attempt = known.int_at("restartCount").unwrap_or(0);
                unit.last = known
                    .get("lastState")
                    .filter(|l| l.get("terminated").is_some())
                    .cloned()
                    .unwrap_or(Value::Null);
                unit.image_id = known.str_at("imageID").to_owned();
                unit.state = known.get("state").cloned().unwrap_or(unit.state);
                if unit.state.get("running").is_some() {
                    unit.live = true;
                }
            }
            if let Some(attempt) = newest {
                if attempt > unit.attempt && unit.ended().is_some() {
                    unit.last = unit.state.clone();
                }
                unit.live = unit.ended().is_none() || attempt > unit.attempt;
                unit.attempt = attempt;
            }
            self.units.insert(name.to_owned(), unit);
        }
        self.adopted = true;
        Ok(())
    }

    /// Looks at the sandbox and at every container that should be running.
    async fn observe(&mut self, pod: &Value) -> Result<(), String> {
        let sandbox = self.engine_name("POD", 0);
        let mut names = vec![sandbox.clone()];
        let live: Vec<(String, String)> = self
            .units
            .iter()
            .filter(|(_, unit)| unit.live)
            .map(|(name, unit)| (name.clone(), self.engine_name(name, unit.attempt)))
            .collect();
        names.extend(live.iter().map(|(_, engine_name)| engine_name.clone()));
        let details = self.engine.inspect(&names).await?;
        let find = |wanted: &str| details.iter().find(|d| d.str_at("Name").trim_start_matches('/') == wanted);
        let box_details = find(&sandbox);
        self.sandbox = box_details.is_some_and(|d| d.bool_at("State.Running"));
        if let Some(details) = box_details.filter(|_| self.sandbox) {
            self.ip = if pod.bool_at("spec.hostNetwork") { host_ip() } else { pod_ip(details) };
        }
        for (name, engine_name) in live {
            match find(&engine_name) {
                Some(details) if details.bool_at("State.Running") => self.seen_running(pod, &name, details),
                Some(details) => self.seen_ended(pod, &name, details).await,
                None => {
                    let gone = json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown",
                        "message": "The container could not be located", "finishedAt": now(), "startedAt": now()}});
                    self.end(&name, gone);
                }
            }
        }
        Ok(())
    }

    fn seen_running(&mut self, pod: &Value, name: &str, details: &Value) {
        let container = spec_of(pod, name).cloned().unwrap_or_default();
        let engine_name = self.engine_name(name, self.units.get(name).map_or(0, |u| u.attempt));
        let Some(unit) = self.units.get_mut(name) else { return };
        unit.state = json!({"running": {"startedAt": engine_time(details.str_at("State.StartedAt"))}});
        unit.container_id = id_text(&self.engine, details.str_at("Id"));
        unit.image_id = details.str_at("Image").trim_start_matches("sha256:").to_owned();
        if unit.probes.as_ref().is_none_or(tokio::task::JoinHandle::is_finished)
            && !unit.health.lock().expect("health lock").started
        {
            let subject = Subject {
                cluster: self.cluster.clone(),
                engine: self.engine.clone(),
                pod: pod.clone(),
                container,
                name: engine_name,
                ip: self.ip.clone(),
                health: unit.health.clone(),
                notify: self.notify.clone(),
            };
            if ["startupProbe", "readinessProbe", "livenessProbe"]
                .iter()
                .all(|p| subject.container.get(*p).is_none())
            {
                *unit.health.lock().expect("health lock") =
                    Health { started: true, ready: true, restart: None };
            } else {
                unit.probes = Some(tokio::spawn(probe::watch(subject)));
            }
        }
    }

    async fn seen_ended(&mut self, pod: &Value, name: &str, details: &Value) {
        let attempt = self.units.get(name).map_or(0, |u| u.attempt);
        let code = details.int_at("State.ExitCode").unwrap_or(0);
        let killed = details.bool_at("State.OOMKilled");
        let reason = if killed {
            "OOMKilled"
        } else if code == 0 {
            "Completed"
        } else {
            "Error"
        };
        let started = engine_time(details.str_at("State.StartedAt"));
        let finished = engine_time(details.str_at("State.FinishedAt"));
        let mut ended = json!({"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": finished,
            "containerID": id_text(&self.engine, details.str_at("Id"))});
        let message = self.termination_message(pod, name, attempt, code);
        if !message.is_empty() {
            ended["message"] = json!(message);
        }
        if let Some(unit) = self.units.get_mut(name) {
            unit.container_id = id_text(&self.engine, details.str_at("Id"));
            unit.image_id = details.str_at("Image").trim_start_matches("sha256:").to_owned();
        }
        self.end(name, json!({"terminated": ended}));
    }

    fn end(&mut self, name: &str, state: Value) {
        let Some(unit) = self.units.get_mut(name) else { return };
        unit.stop_probes();
        unit.live = false;
        let ran = parse_time(state.str_at("terminated.startedAt"))
            .zip(parse_time(state.str_at("terminated.finishedAt")))
            .filter(|(start, _)| start.as_second() > 0)
            .map_or(0, |(start, end)| end.as_second() - start.as_second());
        if ran > 600 {
            unit.backoff = Duration::ZERO;
        }
        unit.retry_at = Some(Instant::now() + unit.backoff);
        unit.state = state;
    }

    fn termination_message(&self, pod: &Value, name: &str, attempt: i64, code: i64) -> String {
        let text = std::fs::read(message_file(&self.folder, name, attempt)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text[..text.len().min(4096)]).into_owned();
        let policy =
            spec_of(pod, name).map(|c| c.str_at("terminationMessagePolicy").to_owned()).unwrap_or_default();
        if text.is_empty() && code != 0 && policy == "FallbackToLogsOnError" {
            return logs::tail_text(&log_file(&self.folder, name, attempt), 80, 2048);
        }
        text
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

    async fn make_sandbox(&mut self, pod: &Value) -> Result<(), String> {
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
    async fn ensure(
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
                record_at(
                    &self.cluster,
                    pod,
                    &field,
                    "Warning",
                    "BackOff",
                    &format!(
                        "Back-off restarting failed container {name} in pod {}_{}({})",
                        self.name, self.namespace, self.uid
                    ),
                    COMPONENT,
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
                record_at(
                    &self.cluster,
                    pod,
                    &field,
                    "Normal",
                    "Created",
                    &format!("Created container: {name}"),
                    COMPONENT,
                )
                .await;
                record_at(
                    &self.cluster,
                    pod,
                    &field,
                    "Normal",
                    "Started",
                    &format!("Started container {name}"),
                    COMPONENT,
                )
                .await;
                self.post_start(pod, container, attempt).await;
                // The next look sees it running, or already ended.
                Some(Duration::ZERO)
            }
            Err(StartError::Config(why)) => {
                unit.state = waiting("CreateContainerConfigError", &why);
                record_at(
                    &self.cluster,
                    pod,
                    &field,
                    "Warning",
                    "Failed",
                    &format!("Error: {why}"),
                    COMPONENT,
                )
                .await;
                Some(Duration::from_secs(10))
            }
            Err(StartError::Engine(why)) => {
                unit.attempt = attempt;
                let time = now();
                let code = if why.contains("not found") || why.contains("no such file") { 127 } else { 128 };
                let state = json!({"terminated": {"exitCode": code, "reason": "StartError", "message": why, "startedAt": "1970-01-01T00:00:00Z", "finishedAt": time}});
                unit.backoff =
                    if unit.backoff.is_zero() { BACKOFF_FIRST } else { (unit.backoff * 2).min(BACKOFF_MAX) };
                record_at(
                    &self.cluster,
                    pod,
                    &field,
                    "Warning",
                    "Failed",
                    &format!("Error: {why}"),
                    COMPONENT,
                )
                .await;
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
            record_at(
                &self.cluster,
                pod,
                &field_path(pod, name),
                "Warning",
                "FailedPostStartHook",
                &text,
                COMPONENT,
            )
            .await;
            self.engine.call(&words(&["kill", &self.engine_name(name, attempt)])).await.ok();
        }
    }

    async fn hook(&self, container: &Value, action: &Value, attempt: i64) -> Result<(), String> {
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

    /// Makes sure that the image is there. The error is how long to wait before the next try.
    async fn ensure_image(&mut self, pod: &Value, container: &Value) -> Result<(), Duration> {
        let (name, image) = (container.str_at("name").to_owned(), container.str_at("image").to_owned());
        let policy = container.str_at("imagePullPolicy");
        let local = self.engine.image_id(&image).await;
        if let (Some(id), Some(unit)) = (&local, self.units.get_mut(&name)) {
            unit.image_id.clone_from(id);
        }
        let wants_fresh = policy == "Always" && !image.starts_with("localhost/");
        if local.is_some() && !wants_fresh {
            return Ok(());
        }
        let field = field_path(pod, &name);
        let unit = self.units.get_mut(&name).ok_or(Duration::from_secs(1))?;
        if policy == "Never" {
            let text = format!("Container image \"{image}\" is not present with pull policy of Never");
            unit.state = waiting("ErrImageNeverPull", &text);
            record_at(&self.cluster, pod, &field, "Warning", "ErrImageNeverPull", &text, COMPONENT).await;
            return Err(Duration::from_secs(10));
        }
        let limit = if local.is_some() { Duration::from_secs(5) } else { Duration::from_secs(600) };
        record_at(
            &self.cluster,
            pod,
            &field,
            "Normal",
            "Pulling",
            &format!("Pulling image \"{image}\""),
            COMPONENT,
        )
        .await;
        let auth = pull_auth(&self.cluster, pod, &self.folder);
        let started = Instant::now();
        match self.engine.pull(&image, auth.as_deref(), limit).await {
            Ok(()) => {
                let text =
                    format!("Successfully pulled image \"{image}\" in {}ms", started.elapsed().as_millis());
                record_at(&self.cluster, pod, &field, "Normal", "Pulled", &text, COMPONENT).await;
                Ok(())
            }
            Err(why) if local.is_some() => {
                // No registry answers, but the image is on this machine: on one machine that is what was meant.
                let text =
                    format!("Container image \"{image}\" already present on machine (pulling failed: {why})");
                record_at(&self.cluster, pod, &field, "Normal", "Pulled", &text, COMPONENT).await;
                Ok(())
            }
            Err(why) => {
                let first = unit.pull_backoff.is_zero();
                unit.pull_backoff =
                    if first { BACKOFF_FIRST } else { (unit.pull_backoff * 2).min(BACKOFF_MAX) };
                let text = format!("Failed to pull image \"{image}\": {why}");
                record_at(&self.cluster, pod, &field, "Warning", "Failed", &text, COMPONENT).await;
                let delay = unit.pull_backoff;
                unit.retry_at = Some(Instant::now() + delay);
                unit.state = waiting("ErrImagePull", &why);
                self.write(pod, None).await;
                if let Some(unit) = self.units.get_mut(&name) {
                    unit.state = waiting(
                        "ImagePullBackOff",
                        &format!("Back-off pulling image \"{image}\": ErrImagePull: {why}"),
                    );
                }
                let text = format!("Back-off pulling image \"{image}\"");
                record_at(&self.cluster, pod, &field, "Normal", "BackOff", &text, COMPONENT).await;
                Err(delay)
            }
        }
    }

    /// Ends containers whose liveness or startup probe gave up.
    async fn kill_unhealthy(&mut self, pod: &Value) {
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
            record_at(&self.cluster, pod, &field_path(pod, &name), "Normal", "Killing", &text, COMPONENT)
                .await;
            let grace = pod.int_at("spec.terminationGracePeriodSeconds").unwrap_or(30);
            self.stop(&[self.engine_name(&name, attempt)], grace).await;
            if let Some(unit) = self.units.get_mut(&name) {
                unit.health.lock().expect("health lock").restart = None;
            }
        }
        if let Err(error) = self.observe(pod).await {
            tracing::debug!(%error, "A pod could not be observed.");
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

    async fn fail(&mut self, pod: &Value, reason: &str, message: &str) -> Option<Duration> {
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
    async fn rest(&mut self, pod: &Value) {
        if self.units.values().any(|unit| unit.live) {
            let _ = self.observe(pod).await;
            self.stop_all(pod, pod.int_at("spec.terminationGracePeriodSeconds").unwrap_or(30)).await;
        }
        self.units.values_mut().for_each(Unit::stop_probes);
        if let Ok(names) = self.engine.list_pod(&self.uid).await {
            if self.engine.kind == EngineChoice::Podman {
                self.engine.remove(&names).await;
            } else {
                // Docker keeps the logs in the container, so only the sandbox goes.
                self.engine.remove(&[self.engine_name("POD", 0)]).await;
            }
        }
        self.units.values_mut().for_each(|unit| unit.live = false);
    }

    /// The pod is being deleted: stop within its grace, then let the object go.
    async fn terminate(&mut self, pod: &Value) -> Next {
        let _ = self.observe(pod).await;
        let live: Vec<String> = self.units.iter().filter(|(_, u)| u.live).map(|(n, _)| n.clone()).collect();
        for name in &live {
            record_at(
                &self.cluster,
                pod,
                &field_path(pod, name),
                "Normal",
                "Killing",
                &format!("Stopping container {name}"),
                COMPONENT,
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
                tracing::warn!(pod = %self.name, %error, "A terminated pod could not be deleted.");
                Next::Wait(Some(Duration::from_secs(2)))
            }
            Ok((_, false)) => Next::Wait(Some(Duration::from_secs(3600))),
            _ => Next::Finished,
        }
    }

    async fn tear_down(&mut self) {
        self.units.values_mut().for_each(Unit::stop_probes);
        let names = self.engine.list_pod(&self.uid).await.unwrap_or_default();
        self.engine.remove(&names).await;
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    fn views(&self, containers: &[Value]) -> Vec<View> {
        containers
            .iter()
            .filter_map(|container| {
                let name = container.str_at("name");
                let unit = self.units.get(name)?;
                let health = unit.health.lock().expect("health lock").clone();
                let sidecar = container.str_at("restartPolicy") == "Always";
                let init = unit.ended() == Some(0);
                Some(View {
                    name: name.to_owned(),
                    image: container.str_at("image").to_owned(),
                    image_id: unit.image_id.clone(),
                    container_id: unit.container_id.clone(),
                    restarts: unit.attempt,
                    state: unit.state.clone(),
                    last: unit.last.clone(),
                    started: unit.live && health.started,
                    ready: (unit.live && health.ready) || (init && !sidecar),
                    sidecar,
                })
            })
            .collect()
    }

    async fn write(&mut self, pod: &Value, failed: Option<(&str, &str)>) {
        let init = self.views(pod.list_at("spec.initContainers"));
        let mut main = self.views(pod.list_at("spec.containers"));
        for view in &mut main {
            // Ready is about serving: a main container that has completed does not.
            view.ready &= view.state.get("running").is_some();
            let initializing = init.iter().any(|c| {
                if c.sidecar { !c.started } else { c.state.int_at("terminated.exitCode") != Some(0) }
            });
            if initializing && view.state.str_at("waiting.reason") == "ContainerCreating" {
                view.state = waiting("PodInitializing", "");
            }
        }
        let host = host_ip();
        let facts =
            Facts { init: &init, main: &main, ip: &self.ip, sandbox: self.sandbox, host_ip: &host, failed };
        let uid = self.uid.clone();
        let result = self
            .cluster
            .modify("pods", &self.namespace, &self.name, "status", COMPONENT, |live| {
                if live.uid() == uid {
                    let status = status::build(live, &facts);
                    live.set_at("status", status);
                }
            })
            .await;
        if let Err(error) = result
            && !error.is_not_found()
        {
            tracing::warn!(pod = %self.name, %error, "A pod's status could not be written.");
        }
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

fn go_duration(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds < 60 => format!("{seconds}s"),
        seconds => format!("{}m{}s", seconds / 60, seconds % 60),
    }
}

fn id_text(engine: &Engine, id: &str) -> String {
    let name = if engine.kind == EngineChoice::Podman { "podman" } else { "docker" };
    format!("{name}://{id}")
}

fn engine_time(text: &str) -> String {
    parse_time(text).map(time_text).unwrap_or_else(now)
}

fn pod_ip(details: &Value) -> String {
    let direct = details.str_at("NetworkSettings.IPAddress");
    if !direct.is_empty() {
        return direct.to_owned();
    }
    let networks = details.map_at("NetworkSettings.Networks").into_iter().flatten();
    networks.map(|(_, n)| n.str_at("IPAddress")).find(|ip| !ip.is_empty()).unwrap_or("127.0.0.1").to_owned()
}

/// The address under which this machine knows itself; pods with hostNetwork have it too.
fn host_ip() -> String {
    "127.0.0.1".to_owned()
}

/// The pod's image pull secrets as one registry configuration.
fn pull_auth(cluster: &Cluster, pod: &Value, folder: &std::path::Path) -> Option<PathBuf> {
    let mut auths = serde_json::Map::new();
    for reference in pod.list_at("spec.imagePullSecrets") {
        let secret = cluster.get("secrets", pod.namespace(), reference.str_at("name"))?;
        let text = secret["data"].get(".dockerconfigjson").and_then(Value::as_str)?;
        let config: Value = serde_json::from_slice(&crate::value::base64_decode(text)?).ok()?;
        auths.extend(config.map_at("auths").cloned().unwrap_or_default());
    }
    if auths.is_empty() {
        return None;
    }
    let folder = folder.join("pull");
    std::fs::create_dir_all(&folder).ok()?;
    crate::tls::write_private(&folder.join("config.json"), json!({"auths": auths}).to_string()).ok()?;
    Some(folder)
}
