//! An Application as pages show it: tree, commit, operation, and one sentence in plain words.
//!
//! In: the custom resource, and what its engine observed beside it, if it was our own engine and it is switched on. Out: what
//! is reported. Everything but the tree below the declared resources and the names of commits is on the custom resource.

use std::sync::Arc;

use serde_json::Value;
use slipway_api::application as wire;
use slipway_crd::{Application, ApplicationSource, HealthCode, Operation, SyncCode, names};
use slipway_source::GitCache;

use crate::engines::applications::is_running;
use crate::engines::applications::observe::Observed;
use crate::report::outward::without_credentials;
use crate::report::releases::{history, initiator, why_of};
use crate::report::summary::summary;
use crate::report::{results, rollouts, tree};
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

/// What the engine saw beside the custom resource.
#[derive(Clone, Copy)]
pub(crate) struct Beside<'a> {
    pub(crate) observed: &'a Observed,
    /// The live objects and everything that they own.
    pub(crate) family: &'a [Value],
    pub(crate) waiting: &'a [String],
}

impl Beside<'_> {
    fn anything_live(&self) -> bool {
        self.observed.comparison.resources.iter().any(|resource| resource.live.is_some())
    }
}

/// `beside` is absent where no engine of ours looks after it: then the custom resource says everything.
pub(crate) fn application(app: &Application, place: Place, beside: Option<Beside<'_>>) -> wire::Application {
    let spec = &app.spec;
    let status = &app.status;
    let anything_live = beside.map_or_else(|| is_anything_there(app), |beside| beside.anything_live());
    let waiting = beside.map(|beside| beside.waiting).unwrap_or_default();
    let source = spec.effective_sources().first().cloned().unwrap_or_default();
    let commit = beside
        .and_then(|beside| beside.observed.desired.as_ref())
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
        repo_url: without_credentials(&source.repo_url),
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
        health_changed_at: status.health.last_transition_time.clone(),
        revision,
        operation: operation(app, waiting),
        summary: summary(app, waiting, anything_live),
        conditions: status
            .conditions
            .iter()
            .map(|condition| wire::Condition {
                kind: condition.kind.to_string(),
                message: condition.message.clone(),
                last_transition_time: condition.last_transition_time.clone().unwrap_or_default(),
            })
            .collect(),
        resources: match beside {
            Some(beside) => tree::resources(beside.observed, beside.family),
            None => tree::declared(app),
        },
        history: history(app),
        images: status.summary.images.clone(),
        automated: spec.automation().is_some(),
        rollouts: beside.map(|beside| rollouts::of(beside.family)).unwrap_or_default(),
        observed_at: String::new(),
    }
}

/// As far as the status tells.
fn is_anything_there(app: &Application) -> bool {
    let health = |resource: &slipway_crd::ResourceStatus| resource.health.as_ref().map(|h| h.status.clone());
    app.status.resources.iter().any(|resource| {
        resource.status == SyncCode::Synced
            || health(resource).is_some_and(|health| health != HealthCode::Missing)
    })
}

pub(super) fn compared_revision(app: &Application) -> Option<String> {
    let sync = &app.status.sync;
    Some(sync.revisions.first().unwrap_or(&sync.revision).clone()).filter(|sha| !sha.is_empty())
}

/// What was asked for and has not begun.
pub(crate) fn pending(operation: &Operation) -> wire::Operation {
    wire::Operation {
        id: operation_id(operation),
        phase: "Pending".into(),
        initiated_by: initiator(&operation.initiated_by),
        automated: operation.initiated_by.automated,
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
    let (results, more_results) = results::of(state);
    Some(wire::Operation {
        id: operation_id(&state.operation),
        phase: state.phase.to_string(),
        message: state.message.clone(),
        started_at: state.started_at.clone(),
        finished_at: state.finished_at.clone(),
        waiting_on: if running { waiting.to_vec() } else { Vec::new() },
        revision: state
            .sync_result
            .as_ref()
            .map(|result| result.revision.clone())
            .filter(|sha| !sha.is_empty()),
        revisions: state.sync_result.as_ref().map(|result| result.revisions.clone()).unwrap_or_default(),
        initiated_by: initiator(&state.operation.initiated_by),
        automated: state.operation.initiated_by.automated,
        why: why_of(app, state),
        results,
        more_results,
    })
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

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(in crate::report) fn app(tracking: &str, sources: &[&str]) -> Application {
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
