//! Trying triggers: which of a pipeline's would fire for an event that somebody describes, and why the others not.

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use slipway_api::error::ErrorBody;
use slipway_model::{Comment, PullRequestEvent, RepoEvent};
use utoipa::ToSchema;

use crate::ci::triggers::matching;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TryEvent {
    /// `owner/name`; each trigger's own when left out.
    repo: Option<String>,
    /// `push.heads`, `pullrequest.opened`, …
    event: String,
    branch: String,
    /// Of a pull request.
    target: Option<String>,
    fork: bool,
    comment: Option<String>,
    /// The commit's message.
    message: String,
    changed_files: Option<Vec<String>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Tried {
    trigger: String,
    fires: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Try out the triggers of a pipeline: which would fire. Nothing is started.
#[utoipa::path(post, path = "/api/pipelines/{name}/triggers/try", tag = "triggers", params(("name" = String, Path)), request_body = TryEvent,
    responses((status = 200, body = [Tried]), (status = 404, body = ErrorBody)))]
pub(crate) async fn attempt(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Json(described): Json<TryEvent>,
) -> Result<Json<Vec<Tried>>, ApiError> {
    let tried = server
        .look(move |tx| {
            let row = crate::ci::rest::pipelines::find(tx, &caller, &name, "read")?;
            let pipeline = crate::ci::pipelines::stored(&row)?;
            let tries = pipeline.spec.triggers.iter().map(|trigger| {
                let event = event(&described, trigger.context().unwrap_or_default(), &trigger.repo);
                let outcome = if matching::is_skipped(&event) {
                    Err("the commit message skips the build".to_owned())
                } else {
                    matching::fires(trigger, &event)
                };
                Tried { trigger: trigger.name.clone(), fires: outcome.is_ok(), reason: outcome.err() }
            });
            Ok(tries.collect())
        })
        .await?;
    Ok(Json(tried))
}

fn event(described: &TryEvent, context: &str, repo: &str) -> RepoEvent {
    let general = described.event.split('.').next().unwrap_or_default();
    let mut events = vec![described.event.clone()];
    if !described.event.contains("comment") && general != described.event {
        events.insert(0, general.to_owned());
    }
    let is_pull_request = general == "pullrequest";
    RepoEvent {
        context: context.to_owned(),
        repo: described.repo.clone().unwrap_or_else(|| repo.to_owned()),
        events,
        branch: described.branch.clone(),
        message: described.message.clone(),
        changed_paths: described.changed_files.clone(),
        pull_request: is_pull_request.then(|| PullRequestEvent {
            target: described.target.clone().unwrap_or_default(),
            is_fork: described.fork,
            ..PullRequestEvent::default()
        }),
        comment: described.comment.clone().map(|text| Comment { text, ..Comment::default() }),
        ..RepoEvent::default()
    }
}
