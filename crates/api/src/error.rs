//! The body of every answer with a status of 400 or more.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    pub status: u16,
    /// Stable, for programs.
    pub code: String,
    pub name: String,
    /// For people: what is wrong, then what to do.
    pub message: String,
    /// Find the server's log lines of this call by it.
    #[serde(rename = "requestId", default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}
