//! What the release feed says of the versions that run here.

use axum::Json;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use slipway_api::error::ErrorBody;
use slipway_store::runtimes;
use utoipa::{IntoParams, ToSchema};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::http::releases::{self, Feed};
use crate::identity::auth::Caller;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReleasesQuery {
    /// The version of whoever asks, to hear of that too.
    client: Option<String>,
}

#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReleaseStatus {
    /// `none` (the operator set none), `ok` or `failed`.
    feed: &'static str,
    /// Why the feed cannot be used.
    #[serde(skip_serializing_if = "String::is_empty")]
    problem: String,
    /// The newest version; empty: not known.
    latest: String,
    /// What is new in it.
    #[serde(skip_serializing_if = "String::is_empty")]
    changelog: String,
    components: Vec<ComponentVersion>,
}

#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ComponentVersion {
    /// `client`, `platform` or `runtime`.
    component: &'static str,
    /// Of a runtime.
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    /// Empty: it was never heard of.
    version: String,
    /// Empty, `available` or `required`.
    update: String,
    /// Why.
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

/// Which updates there are, for the platform, the account's runtimes and whoever asks.
#[utoipa::path(get, path = "/api/releases", tag = "gitops", params(ReleasesQuery),
    responses((status = 200, body = ReleaseStatus), (status = 401, body = ErrorBody)))]
pub(crate) async fn status(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<ReleasesQuery>,
) -> Result<Json<ReleaseStatus>, ApiError> {
    let scope = caller.scope();
    let rows = server.store().read(move |tx| runtimes::list(tx, scope)).await?;
    let read = releases::feed(&server).await;
    let (feed, problem) = match &read {
        None => ("none", String::new()),
        Some(Ok(_)) => ("ok", String::new()),
        Some(Err(why)) => ("failed", why.clone()),
    };
    let known = read.and_then(Result::ok);
    let latest = known.as_ref().and_then(|feed| feed.latest());
    let client = query.client.map(|version| judged(known.as_deref(), "client", String::new(), version));
    let platform = judged(known.as_deref(), "platform", String::new(), env!("CARGO_PKG_VERSION").to_owned());
    let runtimes = rows.into_iter().map(|row| judged(known.as_deref(), "runtime", row.name, row.version));
    Ok(Json(ReleaseStatus {
        feed,
        problem,
        latest: latest.map(|release| release.version.clone()).unwrap_or_default(),
        changelog: latest.map(|release| release.changelog.clone()).unwrap_or_default(),
        components: client.into_iter().chain([platform]).chain(runtimes).collect(),
    }))
}

fn judged(feed: Option<&Feed>, component: &'static str, name: String, version: String) -> ComponentVersion {
    let verdict = feed.map(|feed| feed.judge(&version)).unwrap_or_default();
    ComponentVersion { component, name, version, update: verdict.update.to_owned(), message: verdict.why }
}
