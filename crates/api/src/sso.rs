//! Identity providers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SsoSettings {
    pub display_name: String,
    /// Discovery is at `<issuer>/.well-known/openid-configuration`; the provider must name exactly this issuer.
    pub issuer: String,
    pub client_id: String,
    pub scopes: Vec<String>,
    /// The claim that lists a person's groups; each becomes a team. None: no teams from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups_claim: Option<String>,
    /// People whom the provider vouches for become members; otherwise they need an invitation to their e-mail.
    pub create_members: bool,
    /// Members of this group are Administrators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_group: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SsoClient {
    pub id: String,
    pub name: String,
    /// `oidc`.
    pub kind: String,
    pub enabled: bool,
    pub settings: SsoSettings,
    pub has_secret: bool,
    /// Register this at the provider.
    pub callback_url: String,
    pub login_url: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateSsoClient {
    /// Lowercase letters, digits and hyphens; part of the callback address.
    pub name: String,
    pub settings: SsoSettings,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeSsoClient {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<SsoSettings>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}
