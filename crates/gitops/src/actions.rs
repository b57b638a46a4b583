//! What people do to one live object by a click: restart, pause, scale, run now.
//!
//! Comes in: an object, the name of an action, its parameters and the time. Goes out: the changed object or a new one;
//! the shell sends the difference as a merge patch (its `status` part to the status subresource).

use crate::object::{self, at, integer, list, text};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// An action that an object offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActionInfo {
    pub name: String,
    /// Known for this kind, but pointless in its present state.
    pub disabled: bool,
    pub display_name: String,
    pub icon_class: String,
    pub parameters: Vec<String>,
}

/// What an action does to one object.
#[derive(Debug, Clone, PartialEq)]
pub enum Impact {
    Patch(Value),
    Create(Value),
}

/// Why an action was not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    #[error("{kind} has no action `{name}`")]
    Unknown { kind: String, name: String },
    #[error("action `{name}` does not fit the state of {object}")]
    Disabled { name: String, object: String },
    #[error("action `{name}` needs the parameter `{parameter}`: {problem}")]
    Parameter { name: String, parameter: String, problem: String },
}

const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";
const RECONCILE_AT: &str = "reconcile.fluxcd.io/requestedAt";
const KEDA_PAUSED: &str = "autoscaling.keda.sh/paused";
const KEDA_PAUSED_REPLICAS: &str = "autoscaling.keda.sh/paused-replicas";

/// The actions of an object, by name.
pub fn discover(object: &Value) -> Vec<ActionInfo> {
    let flag = |path: &[&str]| at(object, path).and_then(Value::as_bool) == Some(true);
    let (group, kind) = (object::group(object), object::kind(object));
    let paused = flag(&["spec", "paused"]);
    let suspended = flag(&["spec", "suspend"]);
    let mut actions = match (group, kind) {
        ("apps", "Deployment") => {
            vec![action("restart", paused), action("pause", paused), action("resume", !paused), scale()]
        }
        ("apps", "StatefulSet") => vec![action("restart", false), scale()],
        ("apps", "DaemonSet") => vec![action("restart", false)],
        ("batch", "CronJob") => {
            vec![action("create-job", false), action("suspend", suspended), action("resume", !suspended)]
        }
        ("batch", "Job") => {
            let ended = list(object, &["status", "conditions"]).iter().any(|c| {
                matches!(text(c, &["type"]), "Complete" | "Failed") && text(c, &["status"]) == "True"
            });
            vec![action("suspend", suspended || ended), action("resume", !suspended || ended)]
        }
        ("argoproj.io", "Rollout") => rollout(object),
        ("argoproj.io", "AnalysisRun") => {
            let over = matches!(
                text(object, &["status", "phase"]),
                "Successful" | "Failed" | "Error" | "Inconclusive"
            );
            vec![action("terminate", over || flag(&["spec", "terminate"]))]
        }
        ("argoproj.io", "Application") => vec![action("toggle-auto-sync", false)],
        ("argoproj.io", "CronWorkflow" | "WorkflowTemplate" | "ClusterWorkflowTemplate") => {
            vec![action("create-workflow", false)]
        }
        ("external-secrets.io", "ExternalSecret") => vec![action("refresh", false)],
        ("external-secrets.io", "PushSecret") => vec![action("push", false)],
        ("keda.sh", "ScaledObject") => {
            let held = is_keda_paused(object);
            let replicas =
                ActionInfo { parameters: vec!["replicas".into()], ..action("paused-replicas", false) };
            vec![action("pause", held), replicas, action("resume", !held)]
        }
        ("keda.sh", "ScaledJob") => {
            vec![action("pause", is_keda_paused(object)), action("resume", !is_keda_paused(object))]
        }
        ("k8s.mariadb.com", "MariaDB") => vec![action("suspend", suspended), action("resume", !suspended)],
        ("postgresql.cnpg.io", "Cluster") => {
            let asleep = object::annotation(object, "cnpg.io/hibernation") == Some("on");
            vec![
                action("restart", false),
                action("reload", false),
                action("suspend", asleep),
                action("resume", !asleep),
            ]
        }
        (group, "Alert" | "Provider") if group.ends_with(".toolkit.fluxcd.io") => {
            vec![action("suspend", suspended), action("resume", !suspended)]
        }
        (group, _) if group.ends_with(".toolkit.fluxcd.io") => {
            vec![action("reconcile", suspended), action("suspend", suspended), action("resume", !suspended)]
        }
        _ => Vec::new(),
    };
    actions.sort_by(|a, b| a.name.cmp(&b.name));
    actions
}

fn action(name: &str, disabled: bool) -> ActionInfo {
    ActionInfo { name: name.into(), disabled, ..ActionInfo::default() }
}

fn scale() -> ActionInfo {
    ActionInfo { parameters: vec!["replicas".into()], ..action("scale", false) }
}

fn is_keda_paused(object: &Value) -> bool {
    object::annotation(object, KEDA_PAUSED) == Some("true")
        || object::annotation(object, KEDA_PAUSED_REPLICAS).is_some()
}

fn rollout(object: &Value) -> Vec<ActionInfo> {
    let flag = |path: &[&str]| at(object, path).and_then(Value::as_bool) == Some(true);
    let waits = !list(object, &["status", "pauseConditions"]).is_empty();
    let paused = flag(&["spec", "paused"]) || waits;
    let aborted = flag(&["status", "abort"]);
    let (current, stable) =
        (text(object, &["status", "currentPodHash"]), text(object, &["status", "stableRS"]));
    let updating = !current.is_empty() && current != stable;
    let steps = list(object, &["spec", "strategy", "canary", "steps"]).len() as i64;
    let step = integer(object, &["status", "currentStepIndex"]).unwrap_or(0);
    vec![
        action("restart", false),
        action("pause", paused),
        action("resume", !paused),
        action("abort", !updating || aborted),
        action("retry", !aborted),
        action("promote-full", !updating || flag(&["status", "promoteFull"])),
        action("skip-current-step", steps == 0 || step >= steps),
    ]
}

/// Runs an action.
pub fn run(
    object: &Value,
    name: &str,
    parameters: &BTreeMap<String, String>,
    now: Timestamp,
) -> Result<Impact, ActionError> {
    let known = discover(object).into_iter().find(|a| a.name == name);
    let Some(known) = known else {
        return Err(ActionError::Unknown { kind: object::kind(object).into(), name: name.into() });
    };
    if known.disabled {
        let shown = object::ResourceKey::of(object).to_string();
        return Err(ActionError::Disabled { name: name.into(), object: shown });
    }
    let stamp = crate::compare::rfc3339(now);
    let replicas = || -> Result<i64, ActionError> {
        let wrong = |problem: &str| ActionError::Parameter {
            name: name.into(),
            parameter: "replicas".into(),
            problem: problem.into(),
        };
        let given = parameters.get("replicas").ok_or_else(|| wrong("it is missing"))?;
        given.trim().parse().ok().filter(|n| *n >= 0).ok_or_else(|| wrong("a whole number from 0 on"))
    };
    let mut changed = object.clone();
    let is_cnpg = object::group(object) == "postgresql.cnpg.io";
    let is_keda = object::group(object) == "keda.sh";
    let is_rollout = object::kind(object) == "Rollout";
    match name {
        "create-job" => return Ok(Impact::Create(job_of(object, now))),
        "create-workflow" => return Ok(Impact::Create(workflow_of(object, now))),
        "restart" if is_rollout => set(&mut changed, &["spec", "restartAt"], stamp.into()),
        "restart" if is_cnpg => object::set_annotation(&mut changed, RESTARTED_AT, &stamp),
        "restart" => {
            set(&mut changed, &["spec", "template", "metadata", "annotations", RESTARTED_AT], stamp.into())
        }
        "reload" => object::set_annotation(&mut changed, "cnpg.io/reloadedAt", &stamp),
        "scale" => set(&mut changed, &["spec", "replicas"], replicas()?.into()),
        "pause" if is_keda => object::set_annotation(&mut changed, KEDA_PAUSED, "true"),
        "paused-replicas" => {
            object::set_annotation(&mut changed, KEDA_PAUSED_REPLICAS, &replicas()?.to_string())
        }
        "resume" if is_keda => {
            unset(&mut changed, &["metadata", "annotations", KEDA_PAUSED]);
            unset(&mut changed, &["metadata", "annotations", KEDA_PAUSED_REPLICAS]);
        }
        "suspend" if is_cnpg => object::set_annotation(&mut changed, "cnpg.io/hibernation", "on"),
        "resume" if is_cnpg => object::set_annotation(&mut changed, "cnpg.io/hibernation", "off"),
        "pause" => set(&mut changed, &["spec", "paused"], true.into()),
        "resume" if is_rollout => {
            unset(&mut changed, &["status", "pauseConditions"]);
            if at(&changed, &["spec", "paused"]).is_some() {
                set(&mut changed, &["spec", "paused"], false.into());
            }
        }
        "resume" if object::kind(object) == "Deployment" => unset(&mut changed, &["spec", "paused"]),
        "suspend" => set(&mut changed, &["spec", "suspend"], true.into()),
        "resume" => set(&mut changed, &["spec", "suspend"], false.into()),
        "abort" => set(&mut changed, &["status", "abort"], true.into()),
        "retry" => set(&mut changed, &["status", "abort"], false.into()),
        "promote-full" => set(&mut changed, &["status", "promoteFull"], true.into()),
        "skip-current-step" => {
            let step = integer(object, &["status", "currentStepIndex"]).unwrap_or(0);
            set(&mut changed, &["status", "currentStepIndex"], (step + 1).into());
            unset(&mut changed, &["status", "pauseConditions"]);
        }
        "terminate" => set(&mut changed, &["spec", "terminate"], true.into()),
        "refresh" | "push" => object::set_annotation(&mut changed, "force-sync", &stamp),
        "reconcile" => object::set_annotation(&mut changed, RECONCILE_AT, &stamp),
        "toggle-auto-sync" => {
            let automated = at(object, &["spec", "syncPolicy", "automated"]);
            let is_on = automated.is_some_and(|a| a.get("enabled").and_then(Value::as_bool) != Some(false));
            set(&mut changed, &["spec", "syncPolicy", "automated", "enabled"], (!is_on).into());
        }
        _ => return Err(ActionError::Unknown { kind: object::kind(object).into(), name: name.into() }),
    }
    Ok(Impact::Patch(changed))
}

fn set(object: &mut Value, path: &[&str], value: Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut here = object;
    for field in parents {
        let Some(map) = here.as_object_mut() else { return };
        here = map.entry(*field).or_insert_with(|| Value::Object(Map::new()));
        if here.is_null() {
            *here = Value::Object(Map::new());
        }
    }
    if let Some(map) = here.as_object_mut() {
        map.insert((*last).to_string(), value);
    }
}

fn unset(object: &mut Value, path: &[&str]) {
    let Some((last, parents)) = path.split_last() else { return };
    let parent = parents.iter().try_fold(object, |value, field| value.get_mut(*field));
    if let Some(map) = parent.and_then(Value::as_object_mut) {
        map.remove(*last);
    }
}

/// A name of its own that still says where it comes from; names hold at most 63 characters here.
fn run_name(object: &Value, now: Timestamp) -> String {
    let stamp = now.strftime("%Y%m%d%H%M%S").to_string();
    let own: String = object::name(object).chars().take(62 - stamp.len()).collect();
    format!("{own}-{stamp}")
}

fn job_of(object: &Value, now: Timestamp) -> Value {
    let template = at(object, &["spec", "jobTemplate"]).cloned().unwrap_or_default();
    let mut annotations = at(&template, &["metadata", "annotations"]).cloned().unwrap_or_else(|| json!({}));
    annotations["cronjob.kubernetes.io/instantiate"] = json!("manual");
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": run_name(object, now),
            "namespace": object::namespace(object),
            "labels": at(&template, &["metadata", "labels"]).cloned().unwrap_or_else(|| json!({})),
            "annotations": annotations,
            "ownerReferences": [owner(object)],
        },
        "spec": at(&template, &["spec"]).cloned().unwrap_or_else(|| json!({})),
    })
}

fn workflow_of(object: &Value, now: Timestamp) -> Value {
    let kind = object::kind(object);
    let spec = match kind {
        "CronWorkflow" => at(object, &["spec", "workflowSpec"]).cloned().unwrap_or_else(|| json!({})),
        _ => {
            json!({"workflowTemplateRef": {"name": object::name(object), "clusterScope": kind == "ClusterWorkflowTemplate"}})
        }
    };
    let (label, owners) = match kind {
        "CronWorkflow" => ("workflows.argoproj.io/cron-workflow", json!([owner(object)])),
        "ClusterWorkflowTemplate" => ("workflows.argoproj.io/cluster-workflow-template", json!([])),
        _ => ("workflows.argoproj.io/workflow-template", json!([])),
    };
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {
            "name": run_name(object, now),
            "namespace": object::namespace(object),
            "labels": {label: object::name(object)},
            "ownerReferences": owners,
        },
        "spec": spec,
    })
}

fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": object::api_version(object),
        "kind": object::kind(object),
        "name": object::name(object),
        "uid": object::uid(object),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(api_version: &str, kind: &str, body: Value) -> Value {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "n", "uid": "u"}});
        for (key, value) in body.as_object().into_iter().flatten() {
            object[key] = value.clone();
        }
        object
    }

    fn now() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().expect("a time")
    }

    #[track_caller]
    fn patched(object: &Value, name: &str, replicas: Option<&str>) -> Value {
        let parameters = replicas.map(|n| ("replicas".to_string(), n.to_string())).into_iter().collect();
        match run(object, name, &parameters, now()).expect("runs") {
            Impact::Patch(changed) => changed,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn workloads_restart_pause_and_scale() {
        let deployment = object("apps/v1", "Deployment", json!({"spec": {"replicas": 1}}));
        let restarted = patched(&deployment, "restart", None);
        assert_eq!(
            restarted["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT],
            "2026-01-02T03:04:05Z"
        );
        let paused = patched(&deployment, "pause", None);
        assert_eq!(paused["spec"]["paused"], true);
        assert_eq!(patched(&paused, "resume", None), deployment);
        assert_eq!(patched(&deployment, "scale", Some("4"))["spec"]["replicas"], 4);
        let wrong = run(&deployment, "scale", &[("replicas".to_string(), "-1".to_string())].into(), now());
        assert!(matches!(wrong, Err(ActionError::Parameter { .. })));
        assert!(matches!(
            run(&deployment, "resume", &BTreeMap::new(), now()),
            Err(ActionError::Disabled { .. })
        ));
        assert!(matches!(
            run(&deployment, "explode", &BTreeMap::new(), now()),
            Err(ActionError::Unknown { .. })
        ));
    }

    #[test]
    fn rollouts_are_steered_by_their_status() {
        let rollout = object(
            "argoproj.io/v1alpha1",
            "Rollout",
            json!({
                "spec": {"strategy": {"canary": {"steps": [{"pause": {}}, {"setWeight": 50}]}}},
                "status": {"currentPodHash": "b", "stableRS": "a", "currentStepIndex": 0, "pauseConditions": [{"reason": "CanaryPauseStep"}]},
            }),
        );
        let names: Vec<_> = discover(&rollout).into_iter().filter(|a| !a.disabled).map(|a| a.name).collect();
        assert_eq!(names, ["abort", "promote-full", "restart", "resume", "skip-current-step"]);
        assert!(patched(&rollout, "resume", None)["status"].get("pauseConditions").is_none());
        assert_eq!(patched(&rollout, "skip-current-step", None)["status"]["currentStepIndex"], 1);
        assert_eq!(patched(&patched(&rollout, "abort", None), "retry", None)["status"]["abort"], false);
    }

    #[test]
    fn jobs_are_made_from_cron_jobs() {
        let cron = object(
            "batch/v1",
            "CronJob",
            json!({"spec": {"jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"backoffLimit": 1}}}}),
        );
        let Impact::Create(job) = run(&cron, "create-job", &BTreeMap::new(), now()).expect("runs") else {
            panic!("no job")
        };
        assert_eq!(job["metadata"]["name"], "x-20260102030405");
        assert_eq!((&job["spec"]["backoffLimit"], &job["metadata"]["labels"]["a"]), (&json!(1), &json!("b")));
        assert_eq!(job["metadata"]["ownerReferences"][0]["uid"], "u");
    }

    #[test]
    fn automation_is_toggled_without_losing_its_fields() {
        let app = object(
            "argoproj.io/v1alpha1",
            "Application",
            json!({"spec": {"syncPolicy": {"automated": {"prune": true}}}}),
        );
        let off = patched(&app, "toggle-auto-sync", None);
        assert_eq!(off["spec"]["syncPolicy"]["automated"], json!({"prune": true, "enabled": false}));
        assert_eq!(
            patched(&off, "toggle-auto-sync", None)["spec"]["syncPolicy"]["automated"]["enabled"],
            true
        );
        assert!(discover(&object("v1", "ConfigMap", json!({}))).is_empty());
    }

    #[test]
    fn operators_are_asked_by_annotation() {
        let release = object("helm.toolkit.fluxcd.io/v2", "HelmRelease", json!({"spec": {}}));
        assert_eq!(
            patched(&release, "reconcile", None)["metadata"]["annotations"][RECONCILE_AT],
            "2026-01-02T03:04:05Z"
        );
        let scaled = object("keda.sh/v1alpha1", "ScaledObject", json!({}));
        let paused = patched(&scaled, "paused-replicas", Some("2"));
        assert_eq!(paused["metadata"]["annotations"][KEDA_PAUSED_REPLICAS], "2");
        assert_eq!(patched(&paused, "resume", None)["metadata"]["annotations"], json!({}));
    }
}
