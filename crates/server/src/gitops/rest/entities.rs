//! What runtimes reported, of any kind.

use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use slipway_api::error::ErrorBody;
use slipway_api::report::{Entity, EntityList, ReportedEntity};
use slipway_store::entities::{self, Listed};
use utoipa::IntoParams;

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;

const LIMIT_DEFAULT: i64 = 100;
const LIMIT_MAX: i64 = 500;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// For example `argoproj.io/ApplicationSet`.
    kind: String,
    /// `next` of the page before.
    after: Option<String>,
    /// At most this many, 1 to 500; 100 unless given.
    limit: Option<i64>,
}

/// Custom resources of a kind as runtimes last reported them, by runtime, namespace and name. There are rules about
/// Applications alone, so that this is for Administrators.
#[utoipa::path(get, path = "/api/gitops/entities", tag = "gitops", params(ListQuery),
    responses((status = 200, body = EntityList), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn list_entities(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<EntityList>, ApiError> {
    let limit = query.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(ApiError::bad_request(format!("`limit` must be from 1 to {LIMIT_MAX}")));
    }
    let (scope, kind) = (caller.scope(), query.kind.clone());
    let after = query.after.unwrap_or_default();
    let rows = server.store().read(move |tx| {
        let mut parts = after.splitn(3, '/').chain(std::iter::repeat(""));
        let mut part = || parts.next().unwrap_or_default();
        entities::list(tx, scope, &kind, (part(), part(), part()), limit + 1)
    });
    let mut rows = rows.await?;
    let is_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let place = |row: &Listed| format!("{}/{}/{}", row.runtime, row.namespace, row.name);
    let next = rows.last().filter(|_| is_more).map(place);
    let entities = rows.into_iter().map(|row| shown(&query.kind, row)).collect();
    Ok(Json(EntityList { entities, next }))
}

fn shown(kind: &str, row: Listed) -> ReportedEntity {
    let entity = Entity {
        kind: kind.to_owned(),
        namespace: row.namespace,
        name: row.name,
        uid: row.uid,
        resource_version: row.resource_version,
        // Of a database of an older version: not known until it is reported again.
        state: serde_json::from_str(&row.state).unwrap_or_default(),
        body: serde_json::from_str(&row.body).unwrap_or_default(),
    };
    ReportedEntity { runtime: row.runtime, entity }
}
