//! Repositories of the built-in Git host.

use axum::Json;
use axum::extract::State;
use slipway_api::error::ErrorBody;
use slipway_api::repo::{CreateRepository, Repository, RepositoryHead};
use slipway_store::git::{self};

use crate::ci::git_rights;
use crate::ci::repositories::make;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::seams;

/// Repositories, with the latest commit of each one's default branch.
#[utoipa::path(get, path = "/api/repos", tag = "repositories", responses((status = 200, body = [Repository]), (status = 401, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Vec<Repository>>, ApiError> {
    let rows = server
        .look(move |tx| {
            let mut rows = Vec::new();
            for repo in git::list(tx, caller.scope())? {
                if git_rights::require_read(tx, &caller, &repo.name).is_err() {
                    continue;
                }
                let head =
                    git::known_refs(tx, repo.id)?.remove(&format!("refs/heads/{}", repo.default_branch));
                rows.push((repo, head));
            }
            Ok(rows)
        })
        .await?;
    let shown = rows.into_iter().map(|(repo, head)| Repository {
        id: repo.id.to_string(),
        clone_url: server.clone_url(&repo.name),
        name: repo.name,
        default_branch: repo.default_branch,
        head: head.map(|head| RepositoryHead {
            sha: head.sha,
            message: head.message,
            author: head.author,
            pushed_at: seams::rfc3339(head.pushed_ms),
        }),
    });
    Ok(Json(shown.collect()))
}

/// Create an empty repository.
#[utoipa::path(post, path = "/api/repos", tag = "repositories", request_body = CreateRepository,
    responses((status = 200, body = Repository), (status = 400, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Json(request): Json<CreateRepository>,
) -> Result<Json<Repository>, ApiError> {
    let repo = make(&server, caller.scope(), &request.name, Some(&caller)).await?;
    Ok(Json(Repository {
        id: repo.id.to_string(),
        clone_url: server.clone_url(&repo.name),
        name: repo.name,
        default_branch: repo.default_branch,
        head: None,
    }))
}
