//! An Application as pages show it: tree, commit, operation, and one sentence in plain words.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use slipway_api::application as wire;
use slipway_crd::{Application, ApplicationSource, InitiatedBy, Operation, names};
use slipway_gitops::health::HealthCode;
use slipway_gitops::{ResourceKey, object, tree};
use slipway_source::GitCache;

use crate::engines::applications::observe::Observed;
use crate::engines::applications::reconcile::is_running;
use crate::settings::RepositoryAccess;

/// Which operation it is, among the `info` of an operation.
pub(crate) const OPERATION_ID: &str = "slipway.io/operation-id";

/// More labels than anybody's rules name, of a size that Kubernetes takes.
const LABELS_MAX: usize = 64;

/// Where an Application deploys to, and where it comes from.
pub(crate) struct Place {
    pub(crate) destination_name: String,
    pub(crate) destination_server: String,
    pub(crate) git_sources: Vec<String>,
}

/// The Application that declares this one (an app of apps), by its tracking; and the repository of its manifests, where it
/// is one. Of several nobody can say which one it belongs to.
pub(crate) fn git_sources(app: &Application, label: Option<&str>) -> Vec<String> {
    let metadata = &app.metadata;
    // An id that was copied from another object names that one.
    let own = format!(":argoproj.io/Application:{}/{}", metadata.namespace, metadata.name);
    let declared = match label {
        Some(label) => metadata.labels.get(label).cloned(),
        None => {
            metadata.annotation(names::TRACKING_ID).and_then(|id| id.strip_suffix(&own)).map(str::to_owned)
        }
    };
    let mut sources: Vec<String> = declared.into_iter().filter(|name| !name.is_empty()).collect();
    let mut urls: Vec<String> =
        app.spec.effective_sources().iter().map(|source| without_credentials(&source.repo_url)).collect();
    urls.sort();
    urls.dedup();
    if let [url] = urls.as_slice() {
        sources.extend(Some(url.clone()).filter(|url| !url.is_empty()));
    }
    sources
}

/// `https://user:secret@host/x` is `https://host/x` to whoever reads a report.
fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let host_at = rest[..rest.find('/').unwrap_or(rest.len())].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[host_at..])
}

pub(crate) fn application(
    app: &Application,
    place: Place,
    observed: &Observed,
    family: &[Value],
    waiting: &[String],
) -> wire::Application {
    let spec = &app.spec;
    let status = &app.status;
    let anything_live = observed.comparison.resources.iter().any(|resource| resource.live.is_some());
    let source = spec.effective_sources().first().cloned().unwrap_or_default();
    let commit = observed
        .desired
        .as_ref()
        .and_then(|desired| desired.revisions.first())
        .and_then(|revision| revision.commit.as_ref());
    let revision = match commit {
        Some(commit) => Some(wire::Revision {
            sha: commit.sha.clone(),
            author: commit.author.clone(),
            message: commit.message.clone(),
            date: commit.date.clone(),
        }),
        None => compared_revision(app).map(|sha| wire::Revision { sha, ..wire::Revision::default() }),
    };
    wire::Application {
        runtime: String::new(),
        namespace: app.metadata.namespace.clone(),
        name: app.metadata.name.clone(),
        project: spec.project_name().to_owned(),
        repo_url: source.repo_url,
        path: source.path,
        target_revision: source.target_revision,
        destination: spec.destination.namespace.clone(),
        destination_name: place.destination_name,
        destination_server: place.destination_server,
        git_sources: place.git_sources,
        labels: app.metadata.labels.clone().into_iter().take(LABELS_MAX).collect(),
        sync_status: status.sync.status.clone(),
        health_status: status.health.status.clone(),
        health_message: Some(status.health.message.clone()).filter(|message| !message.is_empty()),
        revision,
        operation: operation(app, waiting),
        summary: summary(app, waiting, anything_live),
        conditions: status
            .conditions
            .iter()
            .map(|condition| wire::Condition {
                kind: condition.kind.clone(),
                message: condition.message.clone(),
                last_transition_time: condition.last_transition_time.clone().unwrap_or_default(),
            })
            .collect(),
        resources: resources(observed, family),
        history: history(app),
        images: status.summary.images.clone(),
        automated: spec.automation().is_some(),
        observed_at: String::new(),
    }
}

fn compared_revision(app: &Application) -> Option<String> {
    let sync = &app.status.sync;
    Some(sync.revisions.first().unwrap_or(&sync.revision).clone()).filter(|sha| !sha.is_empty())
}

/// Who asked for an operation, as pages name them.
fn initiator(by: &InitiatedBy) -> String {
    if by.automated { "automated sync".into() } else { by.username.clone() }
}

/// What was asked for and has not begun.
pub(crate) fn pending(operation: &Operation) -> wire::Operation {
    wire::Operation {
        id: operation_id(operation),
        phase: "Pending".into(),
        initiated_by: initiator(&operation.initiated_by),
        ..wire::Operation::default()
    }
}

/// The id that whoever asked for the operation was given.
pub(crate) fn operation_id(operation: &Operation) -> String {
    let info = operation.info.iter().find(|info| info.name == OPERATION_ID);
    info.map(|info| info.value.clone()).unwrap_or_default()
}

fn operation(app: &Application, waiting: &[String]) -> Option<wire::Operation> {
    if let Some(ordered) = app.operation.as_ref().filter(|_| !is_running(app)) {
        return Some(pending(ordered));
    }
    let state = app.status.operation_state.as_ref()?;
    let running = is_running(app);
    Some(wire::Operation {
        id: operation_id(&state.operation),
        phase: state.phase.clone(),
        message: state.message.clone(),
        started_at: state.started_at.clone(),
        finished_at: state.finished_at.clone(),
        waiting_on: if running { waiting.to_vec() } else { Vec::new() },
        revision: state
            .sync_result
            .as_ref()
            .map(|result| result.revision.clone())
            .filter(|sha| !sha.is_empty()),
        initiated_by: initiator(&state.operation.initiated_by),
    })
}

fn history(app: &Application) -> Vec<wire::Deployment> {
    let entries = app.status.history.iter().rev();
    entries
        .map(|entry| wire::Deployment {
            id: entry.id,
            revision: wire::Revision {
                sha: entry.revisions.first().unwrap_or(&entry.revision).clone(),
                ..wire::Revision::default()
            },
            started_at: entry.deploy_started_at.clone(),
            deployed_at: entry.deployed_at.clone(),
            initiated_by: initiator(&entry.initiated_by),
        })
        .collect()
}

/// Puts author and message to revisions whose commits are here already; nothing is fetched for it.
pub(crate) async fn name_commits(
    app: &Application,
    wire: &mut wire::Application,
    git: &Arc<GitCache>,
    access: &RepositoryAccess,
) {
    let sources = app.spec.effective_sources();
    let Some(source) = sources.first() else { return };
    let history = app.status.history.iter().rev();
    for (entry, deployment) in history.zip(&mut wire.history) {
        let from = entry.source.as_ref().unwrap_or(source);
        name_commit(&mut deployment.revision, from, git, access).await;
    }
    if let Some(revision) = &mut wire.revision
        && revision.author.is_empty()
    {
        name_commit(revision, source, git, access).await;
    }
}

async fn name_commit(
    revision: &mut wire::Revision,
    source: &ApplicationSource,
    git: &Arc<GitCache>,
    access: &RepositoryAccess,
) {
    if let Ok(Some(commit)) = git.known(&access.repository(&source.repo_url), &revision.sha).await {
        revision.author = commit.author;
        revision.message = commit.message;
        revision.date = commit.date;
    }
}

/// What the Application declares, then what that owns.
fn resources(observed: &Observed, family: &[Value]) -> Vec<wire::ResourceNode> {
    let by_uid: BTreeMap<&str, &Value> = family.iter().map(|live| (object::uid(live), live)).collect();
    let mut nodes = Vec::new();
    let mut declared: Vec<(&ResourceKey, &str)> = Vec::new();
    for resource in &observed.comparison.resources {
        let live = resource.live.as_ref();
        if resource.hook && live.is_none() {
            continue;
        }
        let uid = live.map(|live| object::uid(live)).unwrap_or_default();
        declared.push((&resource.key, uid));
        nodes.push(wire::ResourceNode {
            group: resource.key.group.clone(),
            version: resource.version.clone(),
            kind: resource.key.kind.clone(),
            namespace: resource.key.namespace.clone(),
            name: resource.key.name.clone(),
            uid: uid.to_owned(),
            parent_uid: String::new(),
            status: resource.status.map(|status| status.as_str().to_owned()),
            health: resource.health.as_ref().map(|health| health.status.as_str().to_owned()),
            health_message: resource.health.as_ref().map(|h| h.message.clone()).filter(|m| !m.is_empty()),
            requires_pruning: resource.requires_pruning,
            info: live.and_then(|live| info(live)),
        });
    }
    for node in tree(family) {
        if declared.iter().any(|(key, uid)| **key == node.key || *uid == node.uid) {
            continue;
        }
        nodes.push(wire::ResourceNode {
            group: node.key.group.clone(),
            version: node.version.clone(),
            kind: node.key.kind.clone(),
            namespace: node.key.namespace.clone(),
            name: node.key.name.clone(),
            parent_uid: node.parents.first().cloned().unwrap_or_default(),
            status: None,
            health: node.health.as_ref().map(|health| health.status.as_str().to_owned()),
            health_message: node.health.as_ref().map(|h| h.message.clone()).filter(|m| !m.is_empty()),
            requires_pruning: false,
            info: by_uid.get(node.uid.as_str()).and_then(|live| info(live)),
            uid: node.uid,
        });
    }
    nodes
}

/// The one thing about a live object that people look for first.
pub(crate) fn info(live: &Value) -> Option<String> {
    let number = |path: &[&str]| object::integer(live, path);
    match (object::group(live), object::kind(live)) {
        ("", "Pod") => Some(pod_info(live)),
        ("apps", "Deployment" | "StatefulSet" | "ReplicaSet") => {
            let wanted = number(&["spec", "replicas"]).unwrap_or(1);
            Some(format!("{}/{wanted} ready", number(&["status", "readyReplicas"]).unwrap_or(0)))
        }
        ("apps", "DaemonSet") => {
            let wanted = number(&["status", "desiredNumberScheduled"]).unwrap_or(0);
            Some(format!("{}/{wanted} ready", number(&["status", "numberReady"]).unwrap_or(0)))
        }
        ("batch", "Job") => Some(match (number(&["status", "succeeded"]), number(&["status", "failed"])) {
            (Some(done), _) if done > 0 => "succeeded".to_owned(),
            (_, Some(failed)) if failed > 0 => format!("failed {failed} times"),
            _ => "running".to_owned(),
        }),
        ("", "Service") => {
            let ports: Vec<String> = object::list(live, &["spec", "ports"])
                .iter()
                .filter_map(|port| object::integer(port, &["port"]))
                .map(|port| port.to_string())
                .collect();
            let address = object::text(live, &["spec", "clusterIP"]);
            (!ports.is_empty()).then(|| format!("{address}:{}", ports.join(",")))
        }
        ("", "PersistentVolumeClaim") => Some(object::text(live, &["status", "phase"]).to_owned()),
        _ => None,
    }
    .filter(|text| !text.is_empty())
}

fn pod_info(pod: &Value) -> String {
    let containers = object::list(pod, &["status", "containerStatuses"]);
    let total = object::list(pod, &["spec", "containers"]).len();
    let ready = containers.iter().filter(|status| status["ready"] == true).count();
    let mut parts = vec![format!("{ready}/{total} ready")];
    let phase = object::text(pod, &["status", "phase"]);
    if phase == "Pending" || phase == "Failed" {
        parts.push(phase.to_owned());
    }
    if let Some(reason) = pod_trouble(pod, containers) {
        parts.push(reason);
    }
    let restarts: i64 =
        containers.iter().filter_map(|status| object::integer(status, &["restartCount"])).sum();
    if restarts > 0 {
        parts.push(format!("{restarts} restarts"));
    }
    parts.extend(slipway_gitops::images(pod).into_iter().next());
    parts.join(" · ")
}

/// Why a pod does not run, if it says so.
fn pod_trouble(pod: &Value, containers: &[Value]) -> Option<String> {
    let init = object::list(pod, &["status", "initContainerStatuses"]);
    for status in init.iter().chain(containers) {
        let waiting = &status["state"]["waiting"];
        if let Some(reason) =
            waiting["reason"].as_str().filter(|r| !matches!(*r, "ContainerCreating" | "PodInitializing"))
        {
            let message = waiting["message"].as_str().unwrap_or_default();
            return Some(if message.is_empty() { reason.to_owned() } else { format!("{reason}: {message}") });
        }
        let ended = &status["state"]["terminated"];
        if let Some(code) = object::integer(ended, &["exitCode"]).filter(|code| *code != 0) {
            return Some(format!("exit code {code}"));
        }
    }
    let message = object::text(pod, &["status", "message"]);
    if !message.is_empty() {
        return Some(message.to_owned());
    }
    object::list(pod, &["status", "conditions"])
        .iter()
        .find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False")
        .and_then(|condition| condition["message"].as_str())
        .map(str::to_owned)
}

/// Of an operation that has not begun.
pub(crate) const REQUESTED: &str = "A sync was requested and starts shortly.";

/// One sentence: what it is doing or waiting for, or what a person has to do.
fn summary(app: &Application, waiting: &[String], anything_live: bool) -> String {
    let status = &app.status;
    let at = compared_revision(app).map_or("the target revision".to_owned(), |sha| short(&sha));
    if app.metadata.deletion_timestamp.is_some() {
        return "Being deleted, together with the resources it deployed.".to_owned();
    }
    let unreadable =
        status.conditions.iter().find(|c| matches!(c.kind.as_str(), "InvalidSpecError" | "ComparisonError"));
    if let Some(error) = unreadable {
        let why = error.message.trim_end_matches('.');
        let what = match error.kind.as_str() {
            "InvalidSpecError" => "The Application's spec is not valid",
            _ => "Can't render the manifests in Git",
        };
        let rest = if anything_live { "The deployed version keeps running." } else { "Nothing is deployed." };
        return format!("{what}: {why}. {rest}");
    }
    if app.operation.is_some() && !is_running(app) {
        return REQUESTED.to_owned();
    }
    let state = status.operation_state.as_ref();
    if let Some(state) = state.filter(|state| matches!(state.phase.as_str(), "Running" | "Terminating")) {
        let revision = state.sync_result.as_ref().map(|r| short(&r.revision)).filter(|sha| !sha.is_empty());
        let what = revision.unwrap_or(at);
        let why = waiting.first().cloned().unwrap_or_else(|| state.message.clone());
        let why = why.trim_end_matches('.');
        return match state.phase.as_str() {
            "Terminating" => "The sync is being terminated.".to_owned(),
            _ if state.finished_at.is_some() => format!("The sync to {what} failed: {why}."),
            _ if why.is_empty() => format!("Syncing to {what}."),
            _ => format!("Syncing to {what}: {why}."),
        };
    }
    if let Some(condition) = status.conditions.iter().find(|c| c.kind == "SyncError") {
        let why = condition.message.trim_end_matches('.');
        return format!("{why}. Push a fix, or sync manually.");
    }
    let differing = status.resources.iter().filter(|r| r.status == "OutOfSync").count();
    if status.sync.status == "OutOfSync" {
        let total = status.resources.len();
        let differ = if differing == 1 { "differs" } else { "differ" };
        let what = format!("{differing} of {total} resources {differ} from {at}");
        return match (app.spec.automation(), waiting.first()) {
            (Some(_), Some(wait)) => format!("{what}. {}.", wait.trim_end_matches('.')),
            (Some(_), None) if status.resources.iter().any(|r| r.requires_pruning) => {
                format!(
                    "{what}; some are no longer in Git and automatic pruning is off: sync with prune to delete them."
                )
            }
            (Some(_), None) => format!("{what}; a sync will start shortly."),
            (None, _) => format!("{what}; sync to apply the changes."),
        };
    }
    let Some(code) = HealthCode::parse(&status.health.status) else {
        return "Not compared yet.".to_owned();
    };
    let culprits = status.health.message.trim_end_matches('.');
    let culprits = culprits.strip_prefix("Caused by ").unwrap_or(culprits);
    let why = if culprits.is_empty() { String::new() } else { format!(": {culprits}") };
    match code {
        HealthCode::Healthy => format!("Synced to {at} and healthy."),
        HealthCode::Progressing => format!("Synced to {at}; progressing{why}."),
        HealthCode::Degraded => format!("Synced to {at}; degraded{why}."),
        HealthCode::Suspended => format!("Synced to {at}; suspended{why}."),
        HealthCode::Missing => format!("Synced to {at}; missing{why}."),
        HealthCode::Unknown => format!("Synced to {at}; health unknown{why}."),
    }
}

fn short(sha: &str) -> String {
    sha.chars().take(7).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn app(tracking: &str, sources: &[&str]) -> Application {
        let sources: Vec<_> = sources.iter().map(|url| json!({"repoURL": url})).collect();
        serde_json::from_value(json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"namespace": "argocd", "name": "shop", "labels": {"from": "label-parent"},
                "annotations": {"argocd.argoproj.io/tracking-id": tracking}},
            "spec": {"sources": sources, "destination": {"namespace": "x"}},
        }))
        .expect("an Application")
    }

    #[test]
    fn the_summary_is_one_plain_sentence() {
        let with = |status: Value| {
            let mut app = app("", &["https://a"]);
            app.status = serde_json::from_value(status).expect("a status");
            app
        };
        let broken = |kind: &str| {
            with(
                json!({"conditions": [{"type": kind, "message": "a.yaml:3:1: no."}], "sync": {"status": "Unknown"}}),
            )
        };
        let compared = |health: Value| {
            with(json!({"sync": {"status": "Synced", "revision": "dcde864f00"}, "health": health}))
        };
        let running = with(json!({"operationState": {"operation": {}, "phase": "Running", "startedAt": "x",
            "syncResult": {"revision": "dcde864f00"}}}));
        let waits = ["Waiting for hook Job/migrate to finish".to_owned()];
        for (app, waiting, live, expected) in [
            (
                broken("ComparisonError"),
                &[][..],
                true,
                "Can't render the manifests in Git: a.yaml:3:1: no. The deployed version keeps running.",
            ),
            (
                broken("ComparisonError"),
                &[],
                false,
                "Can't render the manifests in Git: a.yaml:3:1: no. Nothing is deployed.",
            ),
            (
                broken("InvalidSpecError"),
                &[],
                false,
                "The Application's spec is not valid: a.yaml:3:1: no. Nothing is deployed.",
            ),
            (
                compared(json!({"status": "Degraded", "message": "Caused by Deployment/web"})),
                &[],
                true,
                "Synced to dcde864; degraded: Deployment/web.",
            ),
            (compared(json!({"status": "Healthy"})), &[], true, "Synced to dcde864 and healthy."),
            (running, &waits, true, "Syncing to dcde864: Waiting for hook Job/migrate to finish."),
        ] {
            assert_eq!(summary(&app, waiting, live), expected);
        }
    }

    #[test]
    fn a_git_source_is_the_declaring_application_and_the_one_repository() {
        let own = "team-a:argoproj.io/Application:argocd/shop";
        let one = ["https://git.example/a.git"];
        assert_eq!(git_sources(&app(own, &one), None), ["team-a", "https://git.example/a.git"]);
        assert_eq!(git_sources(&app(own, &one), Some("from")), ["label-parent", "https://git.example/a.git"]);
        let copied = "team-b:argoproj.io/Application:argocd/other";
        assert_eq!(git_sources(&app(copied, &one), None), one, "somebody else's tracking id");
        assert_eq!(git_sources(&app("", &["https://a", "https://b"]), None), Vec::<String>::new());
        assert_eq!(git_sources(&app("", &["https://me:secret@h/a", "https://h/a"]), None), ["https://h/a"]);
    }
}
