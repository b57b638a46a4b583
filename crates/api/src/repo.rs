//! Repositories of the built-in Git host.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Repository {
    pub id: String,
    /// `owner/name`.
    pub name: String,
    pub clone_url: String,
    pub default_branch: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<RepositoryHead>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepositoryHead {
    pub sha: String,
    pub message: String,
    pub author: String,
    pub pushed_at: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CreateRepository {
    /// `owner/name`.
    pub name: String,
}
