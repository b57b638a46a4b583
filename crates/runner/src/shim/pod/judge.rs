//! What the status of a pod means for the step that runs in it. Pure: an object in, a judgement out.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// Not begun yet; perhaps with something that people should know meanwhile.
    Waiting {
        note: Option<String>,
    },
    /// It will not begin by itself, or only with luck: `patient` gives it a while.
    Stuck {
        why: String,
        patient: bool,
    },
    Running,
    Ended {
        code: i32,
        message: Option<String>,
    },
    /// Something that had to succeed before the step did not.
    Unprepared {
        container: String,
        code: i32,
    },
    /// The cluster took the pod away from under the step; another attempt may fare better.
    Taken {
        why: String,
    },
    TimedOut,
}

/// Ends of a pod that are the cluster's doing and not the step's.
const TAKEN: [&str; 6] =
    ["Evicted", "NodeLost", "NodeShutdown", "Terminated", "Preempting", "UnexpectedAdmissionError"];

pub(super) fn judge(pod: &Value, container: &str) -> Seen {
    let status = &pod["status"];
    let reason = status["reason"].as_str().unwrap_or_default();
    let message = status["message"].as_str().unwrap_or_default().trim();
    let state = status["containerStatuses"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|found| found["name"] == container)
        .map_or(&Value::Null, |found| &found["state"]);
    if reason == "DeadlineExceeded" {
        return Seen::TimedOut;
    }
    let taken = || Seen::Taken { why: sentence("the cluster ended the step's pod", reason, message) };
    if TAKEN.contains(&reason) {
        return taken();
    }
    if let Some(ended) = state.get("terminated") {
        let killed =
            ended["exitCode"].as_i64().is_some_and(|code| code > 128) && ended["reason"] != "OOMKilled";
        if killed && pod["metadata"]["deletionTimestamp"].is_string() {
            return Seen::Taken { why: "somebody deleted the step's pod".to_owned() };
        }
        return terminated(ended, limit(pod, container));
    }
    if state.get("running").is_some() {
        return Seen::Running;
    }
    if let Some(seen) = before(pod) {
        return seen;
    }
    if status["phase"] == "Failed" {
        return taken();
    }
    if let Some(waiting) = state.get("waiting") {
        return waiting_for(waiting, image(pod, "containers", container));
    }
    unscheduled(status)
}

/// What runs before the step, or beside it from before on.
fn before(pod: &Value) -> Option<Seen> {
    for found in pod["status"]["initContainerStatuses"].as_array().into_iter().flatten() {
        let name = found["name"].as_str().unwrap_or_default();
        if let Some(waiting) = found["state"].get("waiting") {
            let seen = waiting_for(waiting, image(pod, "initContainers", name));
            if matches!(seen, Seen::Stuck { .. }) {
                return Some(seen);
            }
        }
        let code = found["state"]["terminated"]["exitCode"].as_i64().unwrap_or(0);
        let restarts = pod["spec"]["initContainers"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|container| container["name"] == name && container["restartPolicy"] == "Always");
        if code != 0 && !restarts {
            let code = i32::try_from(code).unwrap_or(-1);
            return Some(Seen::Unprepared { container: name.to_owned(), code });
        }
    }
    None
}

fn image<'a>(pod: &'a Value, list: &str, container: &str) -> &'a str {
    pod["spec"][list]
        .as_array()
        .and_then(|all| all.iter().find(|found| found["name"] == container))
        .and_then(|found| found["image"].as_str())
        .unwrap_or_default()
}

fn terminated(ended: &Value, memory: Option<&str>) -> Seen {
    let code = ended["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(-1);
    let said = ended["message"].as_str().unwrap_or_default().trim();
    let message = match ended["reason"].as_str().unwrap_or_default() {
        "OOMKilled" => Some(match memory {
            Some(limit) => format!(
                "the step used more memory than its limit of {limit} and was killed: make it use less, or raise the runner's --memory"
            ),
            None => "the node ran out of memory and killed the step".to_owned(),
        }),
        "ContainerStatusUnknown" => {
            return Seen::Taken { why: "the node lost sight of the step's container".to_owned() };
        }
        "StartError" | "ContainerCannotRun" => Some(format!(
            "the container could not start: {said}. Check that the image has the program, and a shell if the step has `commands`"
        )),
        _ => None,
    };
    Seen::Ended { code, message }
}

fn limit<'a>(pod: &'a Value, container: &str) -> Option<&'a str> {
    let all = pod["spec"]["containers"].as_array()?;
    all.iter().find(|found| found["name"] == container)?["resources"]["limits"]["memory"].as_str()
}

fn waiting_for(waiting: &Value, image: &str) -> Seen {
    let said = waiting["message"].as_str().unwrap_or_default().trim();
    match waiting["reason"].as_str().unwrap_or_default() {
        "InvalidImageName" => {
            Seen::Stuck { why: format!("`{image}` is not the name of an image: {said}"), patient: false }
        }
        "ErrImageNeverPull" => Seen::Stuck {
            why: format!("image {image} is not on the node and may not be pulled"),
            patient: false,
        },
        _ if said.contains("invalid reference format") => {
            Seen::Stuck { why: format!("`{image}` is not the name of an image: {said}"), patient: false }
        }
        "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" => {
            let refused =
                ["not found", "denied", "unauthorized", "authorization", "forbidden", "manifest unknown"];
            let lower = said.to_lowercase();
            // Back-off repeats the first error without its reason.
            let patient = !refused.iter().any(|word| lower.contains(word));
            Seen::Stuck {
                why: format!(
                    "image {image} cannot be pulled: {said}. Check its name and tag, and that the nodes reach its registry; a private registry needs a pull secret, which the runner is given with --image-pull-secret"
                ),
                patient,
            }
        }
        reason @ ("CreateContainerConfigError" | "CreateContainerError" | "RunContainerError") => {
            Seen::Stuck { why: sentence("the container cannot be made", reason, said), patient: true }
        }
        _ => Seen::Waiting { note: None },
    }
}

fn unscheduled(status: &Value) -> Seen {
    let found = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False");
    let note = found.map(|condition| {
        let why = condition["message"].as_str().unwrap_or_default();
        format!("The step waits for a node: {why}")
    });
    Seen::Waiting { note }
}

fn sentence(what: &str, reason: &str, message: &str) -> String {
    match (reason, message) {
        ("", "") => what.to_owned(),
        (reason, "") => format!("{what} ({reason})"),
        ("", message) => format!("{what}: {message}"),
        (reason, message) => format!("{what} ({reason}): {message}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(state: Value) -> Value {
        json!({
            "spec": {"containers": [{"name": "step", "image": "registry/app:1", "resources": {"limits": {"memory": "64Mi"}}}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "other", "state": {"terminated": {"exitCode": 9}}}, {"name": "step", "state": state}]},
        })
    }

    #[test]
    fn the_steps_own_container_decides() {
        assert_eq!(judge(&pod(json!({"running": {}})), "step"), Seen::Running);
        let ended = judge(&pod(json!({"terminated": {"exitCode": 3, "reason": "Error"}})), "step");
        assert_eq!(ended, Seen::Ended { code: 3, message: None });
        let Seen::Ended { code: 137, message: Some(text) } =
            judge(&pod(json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})), "step")
        else {
            panic!("it ended by its memory")
        };
        assert!(text.contains("64Mi"), "{text}");
    }

    #[test]
    fn an_image_that_is_refused_is_given_up_and_one_that_is_out_of_reach_is_waited_for() {
        let waiting = |message: &str| {
            judge(&pod(json!({"waiting": {"reason": "ErrImagePull", "message": message}})), "step")
        };
        let Seen::Stuck { why, patient: false } = waiting("pull access denied") else { panic!("refused") };
        assert!(why.contains("registry/app:1") && why.contains("--image-pull-secret"), "{why}");
        assert!(matches!(waiting("dial tcp: connection refused"), Seen::Stuck { patient: true, .. }));
        assert!(matches!(
            judge(&pod(json!({"waiting": {"reason": "ContainerCreating"}})), "step"),
            Seen::Waiting { note: None }
        ));
    }

    #[test]
    fn what_the_cluster_does_to_a_pod_is_not_the_steps_fault() {
        let mut deleted = pod(json!({"terminated": {"exitCode": 137, "reason": "Error"}}));
        assert!(matches!(judge(&deleted, "step"), Seen::Ended { code: 137, .. }));
        deleted["metadata"]["deletionTimestamp"] = json!("2026-11-16T03:00:01Z");
        assert!(matches!(judge(&deleted, "step"), Seen::Taken { .. }));
        let mut evicted = pod(json!({"terminated": {"exitCode": 137}}));
        evicted["status"]["reason"] = json!("Evicted");
        evicted["status"]["message"] = json!("The node was low on memory.");
        assert!(matches!(judge(&evicted, "step"), Seen::Taken { why } if why.contains("low on memory")));
        let unscheduled = json!({"status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 Insufficient cpu."}]}});
        assert!(
            matches!(judge(&unscheduled, "step"), Seen::Waiting { note: Some(note) } if note.contains("Insufficient cpu"))
        );
    }
}
