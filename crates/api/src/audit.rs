//! The audit trail.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    pub seq: i64,
    pub created_at: String,
    pub actor_kind: String,
    pub user_id: String,
    pub user_name: String,
    pub address: String,
    pub action: String,
    pub entity: String,
    pub entity_id: String,
    pub entity_name: String,
    /// `allowed`, `denied` or `failed`.
    pub outcome: String,
    pub status: i64,
    pub method: String,
    pub path: String,
    pub request_id: String,
    /// `before`, `after` and `reason`, without secrets.
    #[schema(value_type = Object)]
    pub detail: Value,
    /// Ties the record to the one before it.
    pub hash: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    pub docs: Vec<AuditRecord>,
    pub total: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditVerification {
    pub ok: bool,
    pub records: i64,
    /// Keep it elsewhere, with the number of records: it proves later what was there now.
    pub head: String,
    pub problems: Vec<String>,
}
