//! Applications declared in Git by whoever asks: created, edited and deleted as a commit of their own.
//!
//! In: an Application or a patch of one, and the file that it belongs into. Out: a commit whose author is the asker, or all that
//! is wrong, before anything is committed. The file is read and the commit is made with the asker's own token; what the
//! Application names is looked at as the engine would ([`validate`]). Nothing is written to the cluster: who syncs the file does that.

mod document;
mod validate;

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde_json::{Value, json};
use slipway_api::declaration::{Declaration, Declared};
use slipway_api::error::ErrorDetail;
use slipway_api::git_proxy::{GitCommit, GitFile};
use slipway_crd::{Application, ApplicationSource, names};
use slipway_reconcile::Key;
use slipway_source::normalise_repo_url;
use slipway_yaml::to_yaml;

use super::git::{Reached, Seen, check, make, refused};
use super::{AppPath, Asker, Proxy, Refusal, Running, app_key};
use crate::engines::applications::sources::is_chart;

pub(super) async fn create(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
    path: AppPath,
    Json(request): Json<Declaration>,
) -> Result<Json<Declared>, Refusal> {
    let (running, key) = (proxy.running()?, app_key(path));
    let mut wanted = request.application.clone().unwrap_or_default();
    only_what_is_declared(&wanted, true)?;
    if let Some(fields) = wanted.as_object_mut() {
        fields.entry("apiVersion").or_insert_with(|| names::API_VERSION.into());
        fields.entry("kind").or_insert_with(|| "Application".into());
    }
    wanted["metadata"]["name"] =
        wanted["metadata"].get("name").cloned().unwrap_or_else(|| key.name.as_str().into());
    wanted["metadata"]["namespace"] =
        wanted["metadata"].get("namespace").cloned().unwrap_or_else(|| key.namespace.as_str().into());
    let mut warnings = sound(running, &key, &wanted, true).await?;
    let reached = reach(running, &asker, &request).await?;
    let base = match reached.see(running, revision(&request), &request.file).await? {
        Seen::Empty if !request.base.is_empty() => return Err(empty(&request)),
        Seen::Empty => String::new(),
        Seen::At { commit, text: None } => commit,
        Seen::At { .. } => {
            let message = format!(
                "{} has a file `{}` already: choose another, or edit what it declares",
                request.repository, request.file
            );
            return Err(Refusal::new(StatusCode::CONFLICT, "FILE_EXISTS", message));
        }
    };
    let content = Some(to_yaml(&wanted));
    let change = Change { base, content, verb: "Create", warnings: &mut warnings };
    finish(&proxy, &reached, &request, &key, change).await
}

pub(super) async fn edit(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
    path: AppPath,
    Json(request): Json<Declaration>,
) -> Result<Json<Declared>, Refusal> {
    let (running, key) = (proxy.running()?, app_key(path));
    let patch = request.application.clone().unwrap_or_default();
    only_what_is_declared(&patch, false)?;
    let Opened { reached, base, found } = declared(running, &asker, &request, &key).await?;
    let mut after = found.object.clone();
    document::merge(&mut after, &patch);
    let mut warnings = sound(running, &key, &after, false).await?;
    let changed = found.replaced(&after);
    if changed.comments_lost {
        warnings.push(format!("comments beside the Application in `{}` are not kept", request.file));
    }
    let change = Change { base, content: changed.text, verb: "Change", warnings: &mut warnings };
    finish(&proxy, &reached, &request, &key, change).await
}

pub(super) async fn delete(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
    path: AppPath,
    Json(request): Json<Declaration>,
) -> Result<Json<Declared>, Refusal> {
    let (running, key) = (proxy.running()?, app_key(path));
    if request.application.is_some() {
        return Err(refused("BAD_REQUEST", "a deletion has no `application`"));
    }
    let Opened { reached, base, found } = declared(running, &asker, &request, &key).await?;
    let changed = found.removed();
    let mut warnings = Vec::new();
    if changed.comments_lost {
        warnings
            .push(format!("`{}` goes with the comments in it: nothing else is declared there", request.file));
    }
    let finalizers = found.object["metadata"]["finalizers"].as_array();
    let cascades =
        |name: &Value| name.as_str().is_some_and(|name| name.starts_with(names::RESOURCES_FINALIZER));
    warnings.push(match finalizers.is_some_and(|all| all.iter().any(cascades)) {
        true => "what it deployed is deleted with it (resources-finalizer)".into(),
        false => "what it deployed stays: it has no resources-finalizer".into(),
    });
    let change = Change { base, content: changed.text, verb: "Delete", warnings: &mut warnings };
    finish(&proxy, &reached, &request, &key, change).await
}

/// Only what people declare: names are in the address, and status and operation are no business of Git's.
fn only_what_is_declared(application: &Value, whole: bool) -> Result<(), Refusal> {
    let is_map = |value: Option<&Value>| value.is_none_or(Value::is_object);
    let fits =
        application.is_object() && is_map(application.get("metadata")) && is_map(application.get("spec"));
    if !fits {
        let what = if whole { "an Application" } else { "a merge patch of one" };
        return Err(refused("BAD_REQUEST", format!("`application` has to be {what}, as JSON")));
    }
    let mut wrong = Vec::new();
    for field in ["status", "operation"] {
        if application.get(field).is_some() {
            wrong.push(field.to_owned());
        }
    }
    let fixed: &[&str] = if whole { &[] } else { &["name", "namespace"] };
    let set = [
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "generateName",
        "ownerReferences",
    ];
    for field in set.iter().chain(fixed) {
        if application["metadata"].get(field).is_some() {
            wrong.push(format!("metadata.{field}"));
        }
    }
    if !whole {
        let kind = ["apiVersion", "kind"].into_iter().filter(|field| application.get(field).is_some());
        wrong.extend(kind.map(str::to_owned));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(refused("BAD_REQUEST", format!("leave out what is not declared: {}", wrong.join(", ")))),
    }
}

/// What is worth knowing of an Application that nothing is wrong with.
async fn sound(running: &Running, key: &Key, object: &Value, is_new: bool) -> Result<Vec<String>, Refusal> {
    let app: Application = serde_json::from_value(object.clone()).map_err(|error| {
        let message = format!("this is no Application: {error}");
        invalid(vec![ErrorDetail { path: String::new(), message }])
    })?;
    let checked = validate::check(running, key, &app, is_new).await;
    match checked.findings.is_empty() {
        true => Ok(checked.warnings),
        false => Err(invalid(checked.findings)),
    }
}

fn invalid(details: Vec<ErrorDetail>) -> Refusal {
    let lines = details.iter().map(|ErrorDetail { path, message }| match path.is_empty() {
        true => message.clone(),
        false => format!("{path}: {message}"),
    });
    let message = lines.collect::<Vec<_>>().join("\n");
    Refusal { details, ..refused("INVALID_APPLICATION", message) }
}

async fn reach(running: &Arc<Running>, asker: &Asker, request: &Declaration) -> Result<Reached, Refusal> {
    Reached::open(running, asker, &request.provider, &request.host, &request.repository).await
}

fn revision(request: &Declaration) -> &str {
    if request.base.is_empty() { &request.branch } else { &request.base }
}

fn empty(request: &Declaration) -> Refusal {
    let message = format!("{} has no commit yet: there is nothing to change", request.repository);
    Refusal::new(StatusCode::CONFLICT, "EMPTY_REPOSITORY", message)
}

/// What an edit and a deletion begin with.
struct Opened {
    reached: Reached,
    /// The commit that the file was read at.
    base: String,
    found: document::Found,
}

/// The Application as the file declares it.
async fn declared(
    running: &Arc<Running>,
    asker: &Asker,
    request: &Declaration,
    key: &Key,
) -> Result<Opened, Refusal> {
    let reached = reach(running, asker, request).await?;
    let (base, text) = match reached.see(running, revision(request), &request.file).await? {
        Seen::Empty => return Err(empty(request)),
        Seen::At { commit, text } => (commit, text),
    };
    let Declaration { repository, file, .. } = request;
    let missing = |message: String| Refusal::new(StatusCode::NOT_FOUND, "NOT_DECLARED", message);
    let text = text.ok_or_else(|| missing(format!("{repository} has no file `{file}`")))?;
    let found = document::find(&text, &key.namespace, &key.name)
        .map_err(|error| refused("NOT_READABLE", format!("`{file}` of {repository}: {error}")))?;
    let found =
        found.ok_or_else(|| missing(format!("`{file}` of {repository} declares no Application {key}")))?;
    Ok(Opened { reached, base, found })
}

struct Change<'a> {
    base: String,
    /// None: the file is deleted.
    content: Option<String>,
    verb: &'static str,
    warnings: &'a mut Vec<String>,
}

/// Commits it, unless it was only to be looked at, and asks who syncs the file to look at once.
async fn finish(
    proxy: &Proxy,
    reached: &Reached,
    request: &Declaration,
    key: &Key,
    change: Change<'_>,
) -> Result<Json<Declared>, Refusal> {
    let running = proxy.running()?;
    let syncing = syncing(running, reached.url(), request);
    let mut answer = Declared {
        outcome: "valid".into(),
        synced_by: syncing
            .iter()
            .map(|app| format!("{}/{}", app.metadata.namespace, app.metadata.name))
            .collect(),
        warnings: std::mem::take(change.warnings),
        ..Declared::default()
    };
    if syncing.is_empty() {
        answer.warnings.push(format!(
            "no Application of this runtime is seen to sync `{}` of {}: nothing comes of it until one does",
            request.file, request.repository
        ));
    }
    let message = match request.message.trim() {
        "" => format!("{} Application {key}", change.verb),
        message => message.to_owned(),
    };
    let commit = GitCommit {
        provider: request.provider.clone(),
        host: request.host.clone(),
        repository: request.repository.clone(),
        branch: request.branch.clone(),
        base: change.base,
        message,
        files: vec![GitFile { path: request.file.clone(), content: change.content }],
    };
    if request.dry_run {
        check(&commit)?;
        return Ok(Json(answer));
    }
    let made = make(running, reached, &commit).await?;
    if made.outcome != "no-change" {
        for app in &syncing {
            let patch = json!({"metadata": {"annotations": {names::REFRESH: "normal"}}});
            // It is committed, whatever becomes of this; the next poll finds it too.
            if let Err(refusal) = proxy.write(app, patch).await {
                answer
                    .warnings
                    .push(format!("{} could not be refreshed: {}", app.metadata.name, refusal.message));
            }
        }
    }
    Ok(Json(Declared {
        outcome: made.outcome,
        commit: made.commit,
        branch: made.branch,
        author: made.author,
        ..answer
    }))
}

/// The Applications that apply what stands in the file.
fn syncing(running: &Running, url: &str, request: &Declaration) -> Vec<Application> {
    let repository = normalise_repo_url(url);
    let apps =
        running.inventory.applications().into_iter().filter_map(|key| running.inventory.application(&key));
    let holds = |source: &ApplicationSource| {
        // Which branch is the default one, only the repository knows.
        let branch = request.branch.is_empty()
            || ["", "HEAD", request.branch.as_str()].contains(&source.target_revision.as_str());
        !is_chart(source)
            && normalise_repo_url(&source.repo_url) == repository
            && branch
            && lies_in(&request.file, source)
    };
    apps.map(|(app, _)| app).filter(|app| app.spec.effective_sources().iter().any(holds)).collect()
}

fn lies_in(file: &str, source: &ApplicationSource) -> bool {
    let folder = source.path.trim_start_matches("./").trim_matches('/');
    let below = match folder {
        "" | "." => Some(file),
        folder => file.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')),
    };
    let recurse = source.directory.as_ref().is_some_and(|directory| directory.recurse);
    below.is_some_and(|rest| recurse || !rest.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_lies_in_a_source_or_it_does_not() {
        let source = |path: &str, recurse: bool| -> ApplicationSource {
            serde_json::from_value(json!({"repoURL": "r", "path": path, "directory": {"recurse": recurse}}))
                .unwrap()
        };
        for (file, path, recurse, fits) in [
            ("apps/a.yaml", "apps", false, true),
            ("apps/a.yaml", "./apps/", false, true),
            ("a.yaml", ".", false, true),
            ("apps/x/a.yaml", "apps", false, false),
            ("apps/x/a.yaml", "apps", true, true),
            ("apps2/a.yaml", "apps", true, false),
        ] {
            assert_eq!(lies_in(file, &source(path, recurse)), fits, "{file} in {path}");
        }
    }

    #[test]
    fn only_declarations_are_taken() {
        assert!(only_what_is_declared(&json!({"metadata": {"name": "a"}, "spec": {}}), true).is_ok());
        assert!(only_what_is_declared(&json!({"spec": {"project": "a"}}), false).is_ok());
        for (wrong, whole) in [
            (json!(null), true),
            (json!([]), false),
            (json!({"spec": null}), false),
            (json!({"metadata": "x"}), true),
            (json!({"status": {}}), true),
            (json!({"operation": {"sync": {}}}), false),
            (json!({"metadata": {"uid": "x"}}), true),
            (json!({"metadata": {"name": "other"}}), false),
            (json!({"kind": "AppProject"}), false),
        ] {
            assert!(only_what_is_declared(&wrong, whole).is_err(), "{wrong}");
        }
    }
}
