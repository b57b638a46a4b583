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
    /// Offered on everybody's sign-in page, not only on that of the account. For administrators of the platform to say.
    #[serde(default)]
    pub front_page: bool,
    /// Domains that the platform verified for the account: the provider may bring in new people with such addresses.
    #[serde(default)]
    pub domains: Vec<String>,
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
    /// On everybody's sign-in page; an administrator of the platform says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front_page: Option<bool>,
}

/// Where to send the browser, and what it is about to vouch for.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LinkStarted {
    /// At the identity provider.
    pub url: String,
    /// The account whose provider it is.
    pub account: String,
    pub issuer: String,
    /// The provider's name here.
    pub client: String,
}

/// What a person is called at a provider of one of their accounts.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LinkedIdentity {
    /// The provider's name here.
    pub client: String,
    pub account: String,
    pub issuer: String,
    /// Whether it is linked to you; if not, it can be.
    pub linked: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
}

/// A domain whose addresses an account's identity provider may speak for.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifiedDomain {
    pub domain: String,
    pub verified_by: String,
    pub created: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyDomain {
    /// Such as `example.com`.
    pub domain: String,
}
