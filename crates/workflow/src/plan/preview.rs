//! A workflow played without a cluster: pods end as somebody says, pauses are over at once.
//!
//! In: a Workflow, its templates, and how each pod ends. Out: the status at the end, and the pods in the order in which they were made.
//! For tests, and for people who want to see what a file does before they submit it.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_crd::workflow::{Workflow, WorkflowStatus};

use super::{Action, Library, Observed, is_fulfilled, plan};

/// Reconciles of one play; a workflow that needs more does not end.
const ROUNDS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub struct Played {
    pub status: WorkflowStatus,
    /// Pods of one round were made at the same time.
    pub rounds: Vec<Vec<Value>>,
    /// It did not end: nothing moves, or it goes on for ever.
    pub stuck: bool,
}

/// `exit` says with which code the pod of a node ends.
pub fn play(workflow: &Workflow, library: &Library, exit: &dyn Fn(&Value) -> i64) -> Played {
    play_saying(workflow, library, exit, &|_| String::new())
}

/// The same; `says` are the last words of the pod, as the program that captures outputs writes them.
pub fn play_saying(
    workflow: &Workflow,
    library: &Library,
    exit: &dyn Fn(&Value) -> i64,
    says: &dyn Fn(&Value) -> String,
) -> Played {
    let mut now = Timestamp::UNIX_EPOCH;
    let mut observed = Observed {
        workflow: workflow.clone(),
        library: library.clone(),
        executor_image: Some("slipway-executor".into()),
        readers: Some(super::readers(workflow, library).into()),
        locks: Some(super::locks::Locks::default()),
        ..Observed::default()
    };
    let mut played = Played::default();
    for _ in 0..ROUNDS_MAX {
        let next = plan(&observed, now);
        let before = std::mem::replace(&mut observed.workflow.status, next.status);
        let (mut made, mut called) = (Vec::new(), false);
        let ended = !end_pods(&mut observed.pods, exit, says).is_empty();
        for action in next.actions {
            match action {
                Action::CreatePod(pod) => {
                    made.push((*pod).clone());
                    observed.pods.push(*pod);
                }
                Action::DeletePod(name) => {
                    observed.pods.retain(|pod| pod["metadata"]["name"] != name.as_str())
                }
                Action::Remember { config_map, key, entry } => {
                    let map = observed.config_maps.entry(config_map).or_insert_with(
                        || json!({"metadata": {"labels": {"workflows.argoproj.io/configmap-type": "Cache"}}}),
                    );
                    map["data"][&key] = entry.into();
                }
                Action::Call { node, .. } => {
                    let answer = super::Answer { status: 200, ..super::Answer::default() };
                    observed.answers.insert(node, Ok(answer));
                    called = true;
                }
                Action::CreateClaim(_) | Action::DeleteClaim(_) => {}
            }
        }
        let made_some = !made.is_empty();
        if made_some {
            played.rounds.push(made);
        }
        if observed.workflow.status.finished_at.is_some() {
            played.status = observed.workflow.status;
            return played;
        }
        now = now.checked_add(SignedDuration::from_secs(1)).unwrap_or(Timestamp::MAX);
        if let Some(at) = next.requeue_at {
            now = now.max(at);
        } else if !made_some && !ended && !called && observed.workflow.status == before {
            // A pause without an end waits for a person; here it is over.
            if !resume(&mut observed.workflow.status) {
                break;
            }
        }
    }
    played.stuck = true;
    played.status = observed.workflow.status;
    played
}

/// Gives the names of those that ended just now.
fn end_pods(
    pods: &mut [Value],
    exit: &dyn Fn(&Value) -> i64,
    says: &dyn Fn(&Value) -> String,
) -> Vec<String> {
    let mut ended = Vec::new();
    for pod in pods.iter_mut().filter(|pod| pod["status"].is_null()) {
        if pod["metadata"]["annotations"]["workflows.argoproj.io/daemon"] == "true" {
            pod["status"] = json!({"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [{"name": "main", "ready": true, "state": {"running": {}}}]});
        } else {
            let (code, said) = (exit(pod), says(pod));
            let phase = if code == 0 { "Succeeded" } else { "Failed" };
            pod["status"] = json!({"phase": phase, "containerStatuses": [
                {"name": "main", "state": {"terminated": {"exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" }, "message": said}}}]});
        }
        ended.push(pod["metadata"]["name"].as_str().unwrap_or_default().to_owned());
    }
    ended
}

fn resume(status: &mut WorkflowStatus) -> bool {
    let mut found = false;
    for node in status.nodes.values_mut().filter(|node| node.r#type == "Suspend" && !is_fulfilled(node)) {
        node.phase = "Succeeded".into();
        node.finished_at.clone_from(&node.started_at);
        found = true;
    }
    found
}
