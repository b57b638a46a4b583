//! Pods as they are now → their nodes.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use slipway_crd::workflow::{NodeStatus, Outputs};

use super::nodes::is_completed;
use super::{Event, Run, capture};
use crate::scope::text_of;

/// A pod that was made just now may not be seen yet.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// How a node is because of its pod.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    phase: &'static str,
    message: String,
    exit_code: Option<String>,
    /// All containers answer.
    ready: bool,
}

impl Run<'_> {
    pub(super) fn assess_pods(&mut self) {
        let nodes: Vec<NodeStatus> = self
            .status
            .nodes
            .values()
            .filter(|node| {
                node.r#type == "Pod"
                    && !is_completed(node)
                    && !matches!(node.phase.as_str(), "Skipped" | "Omitted")
            })
            .cloned()
            .collect();
        for node in nodes {
            match self.pods.get(&self.pod_of(&node)).copied() {
                Some(pod) => self.take_over(&node, pod),
                None => self.miss(&node),
            }
        }
    }

    fn take_over(&mut self, node: &NodeStatus, pod: &Value) {
        let is_daemon = pod["metadata"]["annotations"]["workflows.argoproj.io/daemon"] == "true";
        let mut seen = see(pod);
        if self.is_ending()
            && !is_handler(node)
            && (self.spec.shutdown == "Terminate" || seen.phase == "Pending")
        {
            self.mark(&node.name, "Failed", &format!("Stopped with strategy '{}'", self.spec.shutdown));
            return;
        }
        if is_daemon && seen.phase == "Succeeded" {
            seen.phase = "Failed";
            seen.message = "the daemon ended by itself".into();
        }
        let words = capture::last_words(pod);
        if let Some(Err(why)) = &words {
            // Code 64 is the program's own; what the command said of itself goes before.
            if matches!(seen.exit_code.as_deref(), None | Some("0" | "64")) {
                seen.phase = "Error";
            }
            seen.message =
                if seen.phase == "Error" { why.clone() } else { format!("{}; {why}", seen.message) };
        }
        let result = self.observed.results.get(&node.id);
        if let Some(node) = self.status.nodes.get_mut(&node.id) {
            pod["spec"]["nodeName"].as_str().unwrap_or_default().clone_into(&mut node.host_node_name);
            if is_daemon && seen.phase == "Running" && seen.ready {
                node.daemoned = Some(true);
                pod["status"]["podIP"].as_str().unwrap_or_default().clone_into(&mut node.pod_ip);
            }
            let said = words.and_then(Result::ok);
            if let Some(outputs) = result.and_then(|result| result.outputs.clone()).or(said) {
                node.outputs = Some(outputs);
            }
            if let Some(code) = &seen.exit_code {
                node.outputs.get_or_insert_with(Outputs::default).exit_code = Some(code.clone());
            }
        }
        let globals: Vec<_> =
            self.status.nodes[&node.id].outputs.iter().flat_map(|one| one.parameters.clone()).collect();
        for parameter in &globals {
            self.publish_globally(parameter);
        }
        let was = node.phase.clone();
        self.mark(&node.name, seen.phase, &seen.message);
        if was != seen.phase && matches!(seen.phase, "Failed" | "Error") {
            let message = format!("Failed node {}: {}", node.name, seen.message);
            self.events.push(Event { reason: "WorkflowNodeFailed", warning: true, message });
        }
        if let Some(ended) = finished_at(pod)
            && let Some(node) = self.status.nodes.get_mut(&node.id)
            && is_completed(node)
        {
            node.finished_at = Some(ended);
        }
    }

    fn miss(&mut self, node: &NodeStatus) {
        // Its pod was never made; it has its turn when the plan comes to it.
        if self.waits_for_its_pod(node) {
            if self.is_ending() && !is_handler(node) {
                self.mark(&node.name, "Failed", &format!("Stopped with strategy '{}'", self.spec.shutdown));
            }
            return;
        }
        let began = node.started_at.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
        let until = began.and_then(|began| began.checked_add(PATIENCE).ok());
        match until {
            Some(until) if until > self.now => self.look_again_at(until),
            _ if self.is_ending() => {
                self.mark(&node.name, "Failed", &format!("Stopped with strategy '{}'", self.spec.shutdown));
            }
            _ => self.mark(&node.name, "Error", "pod deleted"),
        }
    }
}

/// Handlers of the end go on.
pub(super) fn is_handler(node: &NodeStatus) -> bool {
    is_below_exit(&node.name) || node.node_flag.as_ref().is_some_and(|flag| flag.hooked)
}

/// `wf.onExit`, `wf[0].a.onExit[1].b(0:x)`; what an item holds stands in parentheses, and is no name.
fn is_below_exit(name: &str) -> bool {
    let (mut plain, mut depth) = (String::new(), 0_usize);
    for letter in name.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            letter if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    plain.match_indices(".onExit").any(|(at, word)| {
        let after = plain[at + word.len()..].chars().next();
        matches!(after, None | Some('.' | '['))
    })
}

fn see(pod: &Value) -> Seen {
    let status = &pod["status"];
    let phase = status["phase"].as_str().unwrap_or("Pending");
    let main = statuses(status, "containerStatuses").find(|one| one["name"] == "main");
    let exit_code = main.and_then(|main| main["state"]["terminated"]["exitCode"].as_i64());
    let mut seen = Seen { exit_code: exit_code.map(|code| code.to_string()), ..Seen::default() };
    match phase {
        "Pending" => {
            seen.phase = "Pending";
            seen.message = why_pending(status);
        }
        "Running" => {
            seen.phase = "Running";
            seen.ready = statuses(status, "containerStatuses").all(|one| one["ready"] == true);
            // What ends with the main container: sidecars are not waited for.
            if let Some(code) = exit_code {
                seen.phase = if code == 0 { "Succeeded" } else { "Failed" };
                if code != 0 {
                    seen.message = why_failed(pod);
                }
            }
        }
        "Succeeded" => seen.phase = "Succeeded",
        "Failed" if exit_code == Some(0) && status["message"].is_null() => seen.phase = "Succeeded",
        "Failed" => {
            let init = statuses(status, "initContainerStatuses").any(has_failed);
            seen.phase = if init && exit_code.is_none() { "Error" } else { "Failed" };
            seen.message = why_failed(pod);
        }
        other => {
            seen.phase = "Error";
            seen.message = format!("Unexpected pod phase: {other}");
        }
    }
    seen
}

fn statuses<'a>(status: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    status[field].as_array().into_iter().flatten()
}

fn has_failed(container: &Value) -> bool {
    container["state"]["terminated"]["exitCode"].as_i64().is_some_and(|code| code != 0)
}

fn why_pending(status: &Value) -> String {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    for condition in conditions {
        let message = condition["message"].as_str().unwrap_or_default();
        if condition["reason"] == "Unschedulable" && !message.is_empty() {
            return format!("Unschedulable: {message}");
        }
    }
    let all = statuses(status, "initContainerStatuses").chain(statuses(status, "containerStatuses"));
    let mut waiting = all.filter_map(|one| one["state"]["waiting"].as_object());
    waiting
        .next()
        .map(|waiting| {
            let word = |name: &str| waiting.get(name).map(text_of).unwrap_or_default();
            let (reason, message) = (word("reason"), word("message"));
            if message.is_empty() { reason } else { format!("{reason}: {message}") }
        })
        .unwrap_or_default()
}

fn why_failed(pod: &Value) -> String {
    let status = &pod["status"];
    if let Some(message) = status["message"].as_str().filter(|message| !message.is_empty()) {
        return message.to_owned();
    }
    let all = || statuses(status, "initContainerStatuses").chain(statuses(status, "containerStatuses"));
    let main = all().find(|one| one["name"] == "main" && has_failed(one));
    let Some(bad) = main.or_else(|| all().find(|one| has_failed(one))) else {
        return status["reason"].as_str().unwrap_or("pod failed").to_owned();
    };
    let ended = &bad["state"]["terminated"];
    let code = ended["exitCode"].as_i64().unwrap_or_default();
    let reason = ended["reason"].as_str().unwrap_or("Error");
    let name = bad["name"].as_str().unwrap_or_default();
    // What the program that captures outputs says is for the engine.
    let said =
        ended["message"].as_str().map(str::trim).filter(|said| !said.is_empty() && !said.starts_with('{'));
    let said = said.map(|said| format!(": {said}")).unwrap_or_default();
    format!("{name}: {reason} (exit code {code}){said}")
}

fn finished_at(pod: &Value) -> Option<String> {
    let main = statuses(&pod["status"], "containerStatuses").find(|one| one["name"] == "main")?;
    main["state"]["terminated"]["finishedAt"].as_str().map(str::to_owned)
}
