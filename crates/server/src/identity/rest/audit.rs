//! The audit trail: read, filtered, as CSV, and checked.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::IntoResponse;
use serde::Deserialize;
use slipway_api::audit::{AuditPage, AuditRecord, AuditVerification};
use slipway_api::error::ErrorBody;
use slipway_store::audit::{self, Filter, Record};
use utoipa::IntoParams;

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail;
use crate::seams;

const EXPORT_MAX: i64 = 50_000;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditQuery {
    user_name: Option<String>,
    user_id: Option<String>,
    /// For example `pipeline` or `team`.
    entity: Option<String>,
    entity_id: Option<String>,
    action: Option<String>,
    /// `allowed`, `denied` or `failed`.
    outcome: Option<String>,
    /// Status of the answer.
    #[serde(rename = "rs_status")]
    rs_status: Option<i64>,
    /// Part of the path or of what changed.
    search: Option<String>,
    /// Milliseconds since 1970.
    from: Option<i64>,
    /// Milliseconds since 1970.
    to: Option<i64>,
    /// Taken from published clients; the order is always that of the chain.
    #[allow(dead_code)]
    sort_field: Option<String>,
    /// `ASK` for oldest first.
    sort_type: Option<String>,
    limit: Option<i64>,
    /// From 1.
    page: Option<i64>,
}

impl AuditQuery {
    fn filter(self, limit_max: i64, limit: i64) -> Filter {
        let limit = self.limit.unwrap_or(limit).clamp(1, limit_max);
        Filter {
            actor_name: self.user_name,
            actor: self.user_id,
            entity: self.entity,
            entity_id: self.entity_id,
            action: self.action,
            outcome: self.outcome,
            status: self.rs_status,
            from_ms: self.from,
            to_ms: self.to,
            search: self.search.filter(|text| !text.is_empty()),
            oldest_first: matches!(self.sort_type.as_deref(), Some("ASK" | "ASC" | "asc")),
            limit,
            offset: (self.page.unwrap_or(1).max(1) - 1).saturating_mul(limit),
        }
    }
}

fn shown(record: Record) -> AuditRecord {
    AuditRecord {
        seq: record.seq,
        created_at: seams::rfc3339(record.at_ms),
        actor_kind: record.actor_kind,
        user_id: record.actor,
        user_name: record.actor_name,
        address: record.address,
        action: record.action,
        entity: record.entity,
        entity_id: record.entity_id,
        entity_name: record.entity_name,
        outcome: record.outcome,
        status: record.status,
        method: record.method,
        path: record.path,
        request_id: record.request_id,
        detail: serde_json::from_str(&record.detail).unwrap_or_default(),
        hash: record.hash,
    }
}

pub(crate) async fn page(
    server: &Server,
    chain: String,
    query: AuditQuery,
) -> Result<Json<AuditPage>, ApiError> {
    let filter = query.filter(1000, 50);
    let (rows, total) = server.store().read(move |tx| audit::list(tx, &chain, &filter)).await?;
    Ok(Json(AuditPage { docs: rows.into_iter().map(shown).collect(), total }))
}

/// Audit log of the account: what was done and what was denied, newest first.
#[utoipa::path(get, path = "/api/audit", tag = "audit", params(AuditQuery),
    responses((status = 200, body = AuditPage), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<AuditQuery>,
) -> Result<Json<AuditPage>, ApiError> {
    page(&server, caller.principal.account.to_string(), query).await
}

/// A cell that a spreadsheet takes for text: one that begins like a formula is quoted out of being one.
fn cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// The audit log as CSV, up to 50,000 rows.
#[utoipa::path(get, path = "/api/audit/download", tag = "audit", params(AuditQuery),
    responses((status = 200, body = String, content_type = "text/csv"), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn download(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<AuditQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (chain, filter) = (caller.principal.account.to_string(), query.filter(EXPORT_MAX, EXPORT_MAX));
    let (rows, _) = server.store().read(move |tx| audit::list(tx, &chain, &filter)).await?;
    let heads = "seq,createdAt,actorKind,userId,userName,address,action,entity,entityId,entityName,outcome,status,method,path,requestId,detail,hash";
    let mut text = format!("{heads}\n");
    for row in rows {
        let (seq, at, status) = (row.seq.to_string(), seams::rfc3339(row.at_ms), row.status.to_string());
        let cells = [
            &seq,
            &at,
            &row.actor_kind,
            &row.actor,
            &row.actor_name,
            &row.address,
            &row.action,
            &row.entity,
            &row.entity_id,
            &row.entity_name,
            &row.outcome,
            &status,
            &row.method,
            &row.path,
            &row.request_id,
            &row.detail,
            &row.hash,
        ];
        text += &cells.map(|text| cell(text)).join(",");
        text += "\n";
    }
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"audit.csv\""),
    ];
    Ok((headers, text))
}

/// Entities and actions in the audit log, for filters.
#[utoipa::path(get, path = "/api/audit/entitiesList", tag = "audit",
    responses((status = 200, body = [audit_entity::AuditEntity]), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn entities(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Vec<audit_entity::AuditEntity>>, ApiError> {
    let chain = caller.principal.account.to_string();
    let pairs = server.store().read(move |tx| audit::entities(tx, &chain)).await?;
    let mut found: Vec<audit_entity::AuditEntity> = Vec::new();
    for (entity, action) in pairs {
        match found.last_mut().filter(|last| last.entity == entity) {
            Some(last) => last.actions.push(action),
            None => found.push(audit_entity::AuditEntity { entity, actions: vec![action] }),
        }
    }
    Ok(Json(found))
}

pub(crate) mod audit_entity {
    use serde::Serialize;
    use utoipa::ToSchema;

    #[derive(Debug, Serialize, ToSchema)]
    pub(crate) struct AuditEntity {
        pub(crate) entity: String,
        pub(crate) actions: Vec<String>,
    }
}

pub(crate) async fn verification(server: &Server, chain: &str) -> Result<Json<AuditVerification>, ApiError> {
    let found = trail::verify(server, chain).await?;
    Ok(Json(AuditVerification {
        ok: found.problems.is_empty(),
        records: found.records,
        head: found.head,
        problems: found.problems,
    }))
}

/// Verify that no record of the account was changed, removed, added or moved.
#[utoipa::path(get, path = "/api/audit/verify", tag = "audit",
    responses((status = 200, body = AuditVerification), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn verify(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<AuditVerification>, ApiError> {
    verification(&server, &caller.principal.account.to_string()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_text_and_nothing_else() {
        for (given, expected) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("=cmd()", "'=cmd()"),
            ("@a,b", "\"'@a,b\""),
        ] {
            assert_eq!(cell(given), expected);
        }
    }
}
