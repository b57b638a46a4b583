//! Rollouts of the Applications that somebody may see. What is asked of one goes to its runtime ([`super::proxied`]).

use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use slipway_api::error::ErrorBody;
use slipway_api::rollout::ListedRollout;
use utoipa::IntoParams;

use crate::ctx::Server;
use crate::gitops::applications::visible;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only those in this phase: `Healthy`, `Progressing`, `Paused`, `Degraded`.
    phase: Option<String>,
    /// Only those of this runtime.
    runtime: Option<String>,
}

/// Rollouts among the resources of Applications, those that need somebody first. Whoever may see an Application sees its Rollouts.
#[utoipa::path(get, path = "/api/gitops/rollouts", tag = "gitops", params(ListQuery),
    responses((status = 200, body = [ListedRollout]), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody)))]
pub(crate) async fn list_rollouts(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<Vec<ListedRollout>>, ApiError> {
    let rows = server.store().read(move |tx| visible(tx, &caller, None)).await?;
    let fits = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
    let mut all: Vec<ListedRollout> = Vec::new();
    for row in rows.into_iter().filter(|row| fits(&query.runtime, &row.runtime)) {
        let (runtime, namespace, name) = (&row.runtime, &row.namespace, &row.name);
        let rollouts = row.rollouts.into_iter().filter(|rollout| fits(&query.phase, &rollout.phase));
        all.extend(rollouts.map(|rollout| ListedRollout {
            runtime: runtime.clone(),
            application_namespace: namespace.clone(),
            application: name.clone(),
            rollout,
        }));
    }
    all.sort_by(|a, b| {
        let of = |one: &ListedRollout| {
            let rollout = &one.rollout;
            (urgency(&rollout.phase), one.runtime.clone(), rollout.namespace.clone(), rollout.name.clone())
        };
        of(a).cmp(&of(b))
    });
    Ok(Json(all))
}

fn urgency(phase: &str) -> usize {
    ["Degraded", "Paused", "Progressing"].iter().position(|one| *one == phase).unwrap_or(3)
}
