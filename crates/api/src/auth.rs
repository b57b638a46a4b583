//! Signing in, who one is, and one's keys.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LoginRequest {
    pub email: String,
    pub password: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ConfirmRequest {
    pub password: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ChangePassword {
    pub current: String,
    pub new: String,
}

/// What the sign-in page needs, and nothing more.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LoginOptions {
    pub password: bool,
    pub sso: Vec<SsoOption>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SsoOption {
    pub name: String,
    pub display_name: String,
    /// Go there with the browser; add `?return_to=/path` to come back to a page.
    pub login_url: String,
}

/// In the shape that the published CLI reads.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct User {
    #[serde(rename = "_id")]
    pub id: String,
    pub user_name: String,
    pub email: String,
    /// `User`, and `Admin` for an Administrator of the active account.
    pub roles: Vec<String>,
    pub active_account_name: String,
    pub account: Vec<UserAccount>,
    /// Administers the platform, above its accounts.
    #[serde(default)]
    pub platform_admin: bool,
    #[serde(default)]
    pub teams: Vec<String>,
    /// `user` or `service-account`.
    #[serde(default = "user_kind")]
    pub kind: String,
    /// Browsers send it back in `X-CSRF-Token` with every call that changes something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csrf_token: Option<String>,
    /// When this browser's session ends unless it is used, and when it ends in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_ends: Option<String>,
}

fn user_kind() -> String {
    "user".into()
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserAccount {
    #[serde(rename = "_id")]
    pub id: String,
    /// The same: published clients differ in where they look.
    #[serde(rename = "id", default)]
    pub same_id: String,
    pub name: String,
    #[serde(default)]
    pub role: String,
    #[serde(default)]
    pub active: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_environment: Option<String>,
    /// Ids of its Administrators, also of those who have not accepted yet. Of the active account.
    #[serde(default)]
    pub admins: Vec<String>,
}

/// One of one's browser sessions.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    pub id: String,
    pub account: String,
    pub created: String,
    pub last_seen: String,
    pub address: String,
    pub agent: String,
    /// `password`, or the name of an identity provider.
    pub method: String,
    /// The one that this call came with.
    pub current: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    #[serde(rename = "_id")]
    pub id: String,
    pub name: String,
    pub token_prefix: String,
    pub created: String,
    pub scopes: Vec<String>,
    pub subject: ApiKeySubject,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ApiKeySubject {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(rename = "ref")]
    pub reference: String,
    /// For people.
    #[serde(default)]
    pub name: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CreateApiKey {
    pub name: String,
    /// Empty: whatever its owner may.
    #[serde(default)]
    pub scopes: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ChangeApiKey {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
}
