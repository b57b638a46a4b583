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
    /// The same for programs: which field of what was sent is meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<ErrorDetail>,
    /// Find the server's log lines of this call by it.
    #[serde(rename = "requestId", default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// One thing that is wrong with what was sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorDetail {
    /// From the root of the body: `spec.triggers[0].repo`.
    pub path: String,
    pub message: String,
}
