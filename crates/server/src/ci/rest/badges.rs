//! Badges: the state of a pipeline's last build as a picture, for READMEs.

use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use slipway_api::pipeline::Pipeline;
use slipway_model::BuildStatus;
use slipway_store::builds::{self, Filter};
use slipway_store::{Scope, identity, pipelines};
use utoipa::IntoParams;

use crate::ctx::Server;
use crate::http::error::ApiError;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BadgeQuery {
    account_name: Option<String>,
    pipeline_name: Option<String>,
    branch: Option<String>,
    /// The pipeline's badge token, unless the pipeline is public.
    key: Option<String>,
}

/// The token that shows a pipeline's badge to those who have no login.
pub(crate) fn token(key: &crate::seal::DataKey, pipeline: impl std::fmt::Display) -> String {
    key.chain(&format!("badge\0{pipeline}"))[..32].to_owned()
}

/// Badge of a pipeline: `unknown` unless the pipeline is public or the token is right, and for one that does not exist.
#[utoipa::path(get, path = "/api/badges/build", tag = "badges", params(BadgeQuery),
    responses((status = 200, description = "a picture", body = String, content_type = "image/svg+xml")))]
pub(crate) async fn build(
    State(server): State<Server>,
    Query(query): Query<BadgeQuery>,
) -> Result<Response, ApiError> {
    let inner = server.clone();
    let status = server
        .look(move |tx| {
            let account = match &query.account_name {
                Some(name) => identity::account_by_name(tx, name)?.map(|account| account.id),
                None => identity::first_account(tx)?,
            };
            let (Some(account), Some(name)) = (account, &query.pipeline_name) else { return Ok(None) };
            let scope = Scope::of(account);
            let Some(row) = pipelines::by_name(tx, scope, name)? else { return Ok(None) };
            let pipeline: Pipeline = crate::ci::pipelines::stored(&row)?;
            let public =
                pipeline.metadata.other.get("isPublic").and_then(|value| value.as_bool()) == Some(true);
            let key = inner.keyring().account(tx, account)?;
            let known = query.key.as_deref().is_some_and(|given| same(given, &token(&key, row.id)));
            if !public && !known {
                return Ok(None);
            }
            let filter =
                Filter { pipeline: Some(row.id), branch: query.branch, limit: 1, ..Filter::default() };
            let (found, _) = builds::list(tx, scope, &filter)?;
            Ok(found.first().map(|build| build.status))
        })
        .await?;
    let headers = [(header::CONTENT_TYPE, "image/svg+xml"), (header::CACHE_CONTROL, "no-cache, max-age=0")];
    Ok((headers, picture(status)).into_response())
}

fn same(a: &str, b: &str) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a.as_bytes(), b.as_bytes()).is_ok()
}

fn picture(status: Option<BuildStatus>) -> String {
    let (word, colour) = match status {
        Some(BuildStatus::Success) => ("passing", "#1f883d"),
        Some(BuildStatus::Error) => ("failing", "#cf222e"),
        Some(BuildStatus::Terminated | BuildStatus::Terminating) => ("terminated", "#6e7781"),
        Some(BuildStatus::PendingApproval) => ("waiting for approval", "#9a6700"),
        Some(_) => ("running", "#0969da"),
        None => ("unknown", "#6e7781"),
    };
    // Seven units a letter fit the font that every browser has.
    let right = 12 + 7 * word.len();
    let (left, width) = (44, 44 + right);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="build: {word}"><title>build: {word}</title><rect width="{left}" height="20" fill="#444"/><rect x="{left}" width="{right}" height="20" fill="{colour}"/><g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11"><text x="{}" y="14">build</text><text x="{}" y="14">{word}</text></g></svg>"##,
        left / 2,
        left + right / 2
    )
}
