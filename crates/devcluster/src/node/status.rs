//! A pod's status from what its containers do. Pure: states in, status out.

use serde_json::{Map, Value, json};

use crate::controllers::set_condition;
use crate::value::{Json as _, now};

/// One container as the status shows it.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) image_id: String,
    pub(super) container_id: String,
    pub(super) restarts: i64,
    /// `{"running": …}`, `{"waiting": …}` or `{"terminated": …}`.
    pub(super) state: Value,
    pub(super) last: Value,
    pub(super) started: bool,
    pub(super) ready: bool,
    pub(super) sidecar: bool,
}

impl View {
    fn exit_code(&self) -> Option<i64> {
        self.state.int_at("terminated.exitCode")
    }

    fn is_running(&self) -> bool {
        self.state.get("running").is_some()
    }

    fn to_json(&self) -> Value {
        let last = if self.last.is_null() { json!({}) } else { self.last.clone() };
        let mut out = json!({
            "name": self.name, "image": self.image, "imageID": self.image_id, "restartCount": self.restarts,
            "state": self.state, "lastState": last, "ready": self.ready, "started": self.started,
        });
        if !self.container_id.is_empty() {
            out["containerID"] = json!(self.container_id);
        }
        out
    }
}

/// Decides the phase by Kubernetes' rules.
pub(super) fn phase(policy: &str, init: &[View], main: &[View]) -> &'static str {
    let init_failed = init.iter().any(|c| !c.sidecar && c.exit_code().is_some_and(|code| code != 0)) && policy == "Never";
    if init_failed {
        return "Failed";
    }
    let init_done = init.iter().all(|c| if c.sidecar { c.started || c.exit_code().is_some() } else { c.exit_code() == Some(0) });
    if !init_done {
        return "Pending";
    }
    let waiting_first = main.iter().any(|c| c.state.get("waiting").is_some() && c.last.is_null());
    let running = main.iter().filter(|c| c.is_running() || (c.state.get("waiting").is_some() && !c.last.is_null())).count();
    let ended = main.iter().filter(|c| c.exit_code().is_some()).count();
    let failed = main.iter().filter(|c| c.exit_code().is_some_and(|code| code != 0)).count();
    if waiting_first && running == 0 && ended == 0 {
        return "Pending";
    }
    if waiting_first && policy != "Never" && running == 0 && ended < main.len() {
        return "Pending";
    }
    if running > 0 || waiting_first {
        return "Running";
    }
    match policy {
        "Always" => "Running",
        "OnFailure" if failed > 0 => "Running",
        _ if failed > 0 => "Failed",
        _ => "Succeeded",
    }
}

pub(super) struct Facts<'a> {
    pub(super) init: &'a [View],
    pub(super) main: &'a [View],
    pub(super) ip: &'a str,
    pub(super) sandbox: bool,
    pub(super) host_ip: &'a str,
    /// The pod has failed as a whole, for this reason.
    pub(super) failed: Option<(&'a str, &'a str)>,
}

pub(super) fn build(pod: &Value, facts: &Facts<'_>) -> Value {
    let mut status = pod.get("status").cloned().unwrap_or(json!({}));
    let policy = pod.str_at("spec.restartPolicy");
    let phase = if facts.failed.is_some() { "Failed" } else { phase(policy, facts.init, facts.main) };
    status.set_at("phase", json!(phase));
    if let Some((reason, message)) = facts.failed {
        status.set_at("reason", json!(reason));
        status.set_at("message", json!(message));
    }
    status.default_at("startTime", json!(now()));
    status.set_at("hostIP", json!(facts.host_ip));
    status.set_at("hostIPs", json!([{"ip": facts.host_ip}]));
    if !facts.ip.is_empty() {
        status.set_at("podIP", json!(facts.ip));
        status.set_at("podIPs", json!([{"ip": facts.ip}]));
    }
    if !facts.init.is_empty() {
        status.set_at("initContainerStatuses", Value::Array(facts.init.iter().map(View::to_json).collect()));
    }
    status.set_at("containerStatuses", Value::Array(facts.main.iter().map(View::to_json).collect()));
    let conditions = conditions(pod, &status, facts, phase);
    status.set_at("conditions", Value::Array(conditions));
    status
}

fn conditions(pod: &Value, status: &Value, facts: &Facts<'_>, phase: &str) -> Vec<Value> {
    let mut list = status.list_at("conditions").to_vec();
    let finished = matches!(phase, "Succeeded" | "Failed");
    let mut set = |ty: &str, ok: bool, reason: &str, message: String| {
        let mut condition = json!({"type": ty, "status": if ok { "True" } else { "False" }, "lastProbeTime": null});
        if !ok {
            condition["reason"] = json!(reason);
            if !message.is_empty() {
                condition["message"] = json!(message);
            }
        } else if reason == "PodCompleted" {
            condition["reason"] = json!(reason);
        }
        set_condition(&mut list, condition);
    };
    set("PodReadyToStartContainers", facts.sandbox && !finished, "", String::new());
    let incomplete: Vec<&str> = facts
        .init
        .iter()
        .filter(|c| if c.sidecar { !c.started } else { c.exit_code() != Some(0) })
        .map(|c| c.name.as_str())
        .collect();
    if finished && phase == "Succeeded" {
        set("Initialized", true, "PodCompleted", String::new());
    } else {
        set("Initialized", incomplete.is_empty(), "ContainersNotInitialized", format!("containers with incomplete status: [{}]", incomplete.join(" ")));
    }
    let unready: Vec<&str> = facts
        .main
        .iter()
        .chain(facts.init.iter().filter(|c| c.sidecar))
        .filter(|c| !c.ready)
        .map(|c| c.name.as_str())
        .collect();
    let gates: Vec<&str> = pod
        .list_at("spec.readinessGates")
        .iter()
        .map(|g| g.str_at("conditionType"))
        .filter(|ty| !pod.list_at("status.conditions").iter().any(|c| c.str_at("type") == *ty && c.str_at("status") == "True"))
        .collect();
    let (reason, message) = match phase {
        "Succeeded" => ("PodCompleted", String::new()),
        "Failed" => ("PodFailed", String::new()),
        _ => ("ContainersNotReady", format!("containers with unready status: [{}]", unready.join(" "))),
    };
    let ready = unready.is_empty() && !finished;
    set("ContainersReady", ready, reason, message.clone());
    if ready && !gates.is_empty() {
        let text = format!("the status of pod readiness gate \"{}\" is not \"True\"", gates.join(", "));
        set("Ready", false, "ReadinessGatesNotReady", text);
    } else {
        set("Ready", ready, reason, message);
    }
    list
}

pub(super) fn waiting(reason: &str, message: &str) -> Value {
    let mut inner = Map::new();
    inner.insert("reason".to_owned(), json!(reason));
    if !message.is_empty() {
        inner.insert("message".to_owned(), json!(message));
    }
    json!({"waiting": inner})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(state: Value) -> View {
        View {
            name: "a".into(),
            image: String::new(),
            image_id: String::new(),
            container_id: String::new(),
            restarts: 0,
            ready: state.get("running").is_some(),
            started: state.get("running").is_some(),
            state,
            last: Value::Null,
            sidecar: false,
        }
    }

    #[test]
    fn the_phase_follows_the_containers() {
        let running = || view(json!({"running": {}}));
        let creating = || view(waiting("ContainerCreating", ""));
        let ended = |code: i64| view(json!({"terminated": {"exitCode": code}}));
        let crashing = || View { last: json!({"terminated": {"exitCode": 1}}), ..view(waiting("CrashLoopBackOff", "")) };
        for (policy, init, main, expected) in [
            ("Always", vec![], vec![creating()], "Pending"),
            ("Always", vec![], vec![running()], "Running"),
            ("Always", vec![], vec![crashing()], "Running"),
            ("Always", vec![running()], vec![creating()], "Pending"),
            ("Always", vec![ended(0)], vec![running(), ended(0)], "Running"),
            ("Never", vec![], vec![ended(0)], "Succeeded"),
            ("Never", vec![], vec![ended(0), ended(1)], "Failed"),
            ("Never", vec![ended(1)], vec![creating()], "Failed"),
            ("OnFailure", vec![], vec![ended(0)], "Succeeded"),
            ("OnFailure", vec![], vec![ended(1)], "Running"),
            ("Never", vec![], vec![running(), ended(1)], "Running"),
        ] {
            assert_eq!(phase(policy, &init, &main), expected, "{policy} {init:?} {main:?}");
        }
    }
}
