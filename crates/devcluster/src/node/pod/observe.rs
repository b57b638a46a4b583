//! What is seen of a pod's containers, and what it means for them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Unit, Worker, host_ip, id_text, spec_of};
use crate::node::container::{log_file, message_file};
use crate::node::death;
use crate::node::logs;
use crate::node::probe::{self, Health, Subject};
use crate::value::{Json as _, now, parse_time, time_text};

impl Worker {
    /// Finds containers that an earlier process started.
    pub(super) async fn adopt(&mut self, pod: &Value) -> Result<(), String> {
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
    pub(super) async fn observe(&mut self, pod: &Value) -> Result<(), String> {
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
        if unit.death.is_none() {
            unit.death = death::watch(details.int_at("State.Pid").unwrap_or(0), self.notify.clone());
        }
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

    pub(super) fn end(&mut self, name: &str, state: Value) {
        let Some(unit) = self.units.get_mut(name) else { return };
        unit.stop_probes();
        if let Some(watching) = unit.death.take() {
            watching.abort();
        }
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
}

fn engine_time(text: &str) -> String {
    parse_time(text).map(time_text).unwrap_or_else(now)
}

pub(super) fn pod_ip(details: &Value) -> String {
    let direct = details.str_at("NetworkSettings.IPAddress");
    if !direct.is_empty() {
        return direct.to_owned();
    }
    let networks = details.map_at("NetworkSettings.Networks").into_iter().flatten();
    networks.map(|(_, n)| n.str_at("IPAddress")).find(|ip| !ip.is_empty()).unwrap_or("127.0.0.1").to_owned()
}
