//! What people ask of a Rollout: promote, abort, go back. The same writes as `kubectl argo rollouts` makes, so that either works with any engine.
//!
//! In: the order, the Rollout and its versions. Out: patches, or a sentence why there is nothing to do. Knows neither who asks nor whether they may.

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_crd::rollout::Rollout;

use crate::names;
use crate::plan::Target;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Goes on: over a pause, or to the next step.
    Promote,
    /// Goes on over a pause, and nothing else.
    Resume,
    /// To the next step, whatever this one waits for.
    SkipStep,
    /// All at once: no steps, pauses and analyses any more.
    PromoteFull,
    Abort,
    Retry,
    Pause,
    /// Pods older than now are replaced.
    Restart,
    /// Back to a revision; `None`: to the one before.
    Undo(Option<i64>),
    /// Container (`*`: all) and image.
    SetImage(Vec<(String, String)>),
}

/// One patch.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    pub target: Target,
    /// `status`, or the object itself.
    pub subresource: Option<&'static str>,
    pub patch: Patch,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    Merge(Value),
    /// RFC 6902, for what a merge cannot replace.
    Json(Value),
}

/// The patches of an order. `sets`: the ReplicaSets of the Rollout; `workload`: what its `workloadRef` refers to.
pub fn writes(
    order: &Order,
    rollout: &Rollout,
    sets: &[Value],
    workload: Option<&Value>,
    now: Timestamp,
) -> Result<Vec<Write>, String> {
    let (status, spec) = (&rollout.status, &rollout.spec);
    let name = &rollout.metadata.name;
    let updating = status.current_pod_hash != status.stable_rs;
    let write =
        |subresource, patch| Write { target: target(rollout), subresource, patch: Patch::Merge(patch) };
    let of_status = |patch: Value| Ok(vec![write(Some("status"), json!({"status": patch}))]);
    match order {
        Order::Promote => promote(rollout),
        Order::Resume if spec.paused || !status.pause_conditions.is_empty() => promote(rollout),
        Order::Resume => Err(format!("{name} is not paused")),
        Order::SkipStep => skip_step(rollout),
        Order::PromoteFull if updating => of_status(json!({"promoteFull": true})),
        Order::PromoteFull => Err(format!("{name} has no update under way that could be promoted")),
        Order::Abort if status.abort => Err(format!("{name} is aborted already")),
        Order::Abort if !updating => {
            Err(format!("{name} has no update under way that could be aborted; go back with `undo`"))
        }
        Order::Abort => of_status(json!({"abort": true})),
        Order::Retry if status.abort => of_status(json!({"abort": false})),
        Order::Retry => Err(format!("{name} was not aborted")),
        Order::Pause if spec.paused => Err(format!("{name} is paused already")),
        Order::Pause => Ok(vec![write(None, json!({"spec": {"paused": true}}))]),
        Order::Restart => {
            let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            Ok(vec![write(None, json!({"spec": {"restartAt": at}}))])
        }
        Order::Undo(to) => {
            let template = template_of(rollout, sets, *to)?;
            let (target, at) = template_place(rollout, workload);
            let patch = Patch::Json(json!([{"op": "replace", "path": at, "value": template}]));
            Ok(vec![Write { target, subresource: None, patch }])
        }
        Order::SetImage(images) => set_image(rollout, workload, images),
    }
}

fn target(rollout: &Rollout) -> Target {
    Target::new(
        slipway_crd::names::API_VERSION,
        "Rollout",
        &rollout.metadata.namespace,
        &rollout.metadata.name,
    )
}

/// Where the pod template stands: in the Rollout, or in the workload that it refers to.
fn template_place(rollout: &Rollout, workload: Option<&Value>) -> (Target, &'static str) {
    let Some((reference, _)) = rollout.spec.workload_ref.as_ref().zip(workload) else {
        return (target(rollout), "/spec/template");
    };
    let at = if reference.kind == "PodTemplate" { "/template" } else { "/spec/template" };
    (Target::new(&reference.api_version, &reference.kind, &rollout.metadata.namespace, &reference.name), at)
}

fn promote(rollout: &Rollout) -> Result<Vec<Write>, String> {
    let (status, name) = (&rollout.status, &rollout.metadata.name);
    let mut writes = Vec::new();
    let mut add = |subresource, patch| {
        writes.push(Write { target: target(rollout), subresource, patch: Patch::Merge(patch) })
    };
    if rollout.spec.paused {
        add(None, json!({"spec": {"paused": false}}));
    }
    let steps = rollout.canary().map_or(0, |canary| canary.steps.len());
    let index = status.current_step_index.unwrap_or(0);
    let left = usize::try_from(index).is_ok_and(|index| index < steps);
    if !status.pause_conditions.is_empty() {
        add(Some("status"), json!({"status": {"pauseConditions": null}}));
    } else if !rollout.spec.paused && left && status.current_pod_hash != status.stable_rs && !status.abort {
        add(Some("status"), json!({"status": {"currentStepIndex": index + 1, "pauseConditions": null}}));
    }
    if writes.is_empty() {
        return Err(format!("{name} waits for nobody; `--full` skips what is left of an update"));
    }
    Ok(writes)
}

fn skip_step(rollout: &Rollout) -> Result<Vec<Write>, String> {
    let (status, name) = (&rollout.status, &rollout.metadata.name);
    let steps = rollout.canary().map_or(0, |canary| canary.steps.len());
    let index = status.current_step_index.unwrap_or(0);
    let left = usize::try_from(index).is_ok_and(|index| index < steps);
    if !left || status.current_pod_hash == status.stable_rs {
        return Err(format!("{name} is at no step that could be skipped"));
    }
    if status.abort {
        return Err(format!("{name} is aborted: retry it first"));
    }
    let patch = json!({"status": {"currentStepIndex": index + 1, "pauseConditions": null}});
    Ok(vec![Write { target: target(rollout), subresource: Some("status"), patch: Patch::Merge(patch) }])
}

fn revision(set: &Value) -> Option<i64> {
    set["metadata"]["annotations"][names::REVISION].as_str()?.parse().ok()
}

fn template_of(rollout: &Rollout, sets: &[Value], to: Option<i64>) -> Result<Value, String> {
    let name = &rollout.metadata.name;
    let mut all: Vec<(i64, &Value)> = sets.iter().filter_map(|set| Some((revision(set)?, set))).collect();
    all.sort_by_key(|(revision, _)| *revision);
    let known: Vec<String> = all.iter().map(|(revision, _)| revision.to_string()).collect();
    let found = match to {
        Some(to) => all.iter().find(|(revision, _)| *revision == to),
        None => all.len().checked_sub(2).and_then(|before| all.get(before)),
    };
    let Some((_, set)) = found else {
        return Err(format!(
            "{name} has no such revision; there are {}",
            if known.is_empty() { "none".into() } else { known.join(", ") }
        ));
    };
    let mut template = set["spec"]["template"].clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove(names::HASH);
    }
    // What was injected for a role is not what somebody wrote.
    let injected = set["metadata"]["annotations"][names::EPHEMERAL_METADATA].as_str().unwrap_or_default();
    let injected: Value = serde_json::from_str(injected).unwrap_or_default();
    for part in ["labels", "annotations"] {
        let names: Vec<String> =
            injected[part].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        if let Some(fields) = template["metadata"][part].as_object_mut() {
            fields.retain(|name, _| !names.contains(name));
        }
    }
    Ok(template)
}

fn set_image(
    rollout: &Rollout,
    workload: Option<&Value>,
    images: &[(String, String)],
) -> Result<Vec<Write>, String> {
    let (target, at) = template_place(rollout, workload);
    let own = || rollout.spec.template.clone().unwrap_or_default();
    let template = workload.and_then(|workload| workload.pointer(at).cloned()).unwrap_or_else(own);
    let mut operations = Vec::new();
    for (container, image) in images {
        let mut any = false;
        for list in ["initContainers", "containers", "ephemeralContainers"] {
            for (index, one) in template["spec"][list].as_array().into_iter().flatten().enumerate() {
                if container == "*" || one["name"] == container.as_str() {
                    any = true;
                    operations.push(json!({"op": "replace", "path": format!("{at}/spec/{list}/{index}/image"), "value": image}));
                }
            }
        }
        if !any {
            return Err(format!("{} has no container {container}", rollout.metadata.name));
        }
    }
    Ok(vec![Write { target, subresource: None, patch: Patch::Json(operations.into()) }])
}
