//! Accounts, their members, invitations, teams and service accounts.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    #[serde(rename = "_id")]
    pub id: String,
    pub name: String,
    /// `active`, `suspended` or `deleted`.
    pub status: String,
    pub created: String,
    #[schema(value_type = Object)]
    pub settings: Value,
    #[schema(value_type = Object)]
    pub limits: Value,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ChangeAccount {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The whole of the settings; what is left out has its default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub settings: Option<Value>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateAccount {
    pub name: String,
    /// E-mail of its first Administrator: invited, or added at once when known to the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_email: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub limits: Option<Value>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedAccount {
    pub account: Account,
    /// When its Administrator was invited: the link to send them, shown once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invitation_url: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct AdminChangeAccount {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The whole of the limits; what is left out is not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub limits: Option<Value>,
}

/// `suspend`, `activate` or `restore`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AccountStatusChange {
    pub action: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AddMember {
    pub email: String,
    #[serde(default)]
    pub role: Option<String>,
}

/// A member of the account.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    #[serde(rename = "_id")]
    pub id: String,
    pub user_name: String,
    pub email: String,
    /// `User` or `Admin`.
    pub role: String,
    /// May do something here now: neither suspended in this account nor disabled on the platform.
    pub enabled: bool,
    /// By an Administrator, in this account alone.
    #[serde(default)]
    pub suspended: bool,
    pub teams: Vec<String>,
    pub created: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_login: Option<String>,
}

/// A member or an invited person, as the published Terraform provider reads them.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountUser {
    #[serde(rename = "_id")]
    pub id: String,
    pub user_name: String,
    pub email: String,
    /// `pending` until the invitation is accepted, then `new`.
    pub status: String,
    pub roles: Vec<String>,
    /// The link to send to somebody who was just invited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invite_url: Option<String>,
}

/// Somebody's address, in either of the two ways in which published clients write it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserDetails {
    #[serde(default)]
    pub user_details: String,
    #[serde(default)]
    pub user_name: String,
    #[serde(default)]
    pub email: String,
}

impl UserDetails {
    pub fn address(&self) -> String {
        if self.email.is_empty() { self.user_details.clone() } else { self.email.clone() }
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ChangeMember {
    /// `User` or `Admin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// True: nothing of theirs works in this account until it is false again. Their other accounts are as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
}

/// Somebody on the platform, in whichever accounts.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlatformUser {
    #[serde(rename = "_id")]
    pub id: String,
    pub user_name: String,
    pub email: String,
    pub enabled: bool,
    pub platform_admin: bool,
    pub accounts: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_login: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangePlatformUser {
    /// A disabled person gets in nowhere, by no way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_admin: Option<bool>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Invitation {
    #[serde(rename = "_id")]
    pub id: String,
    pub email: String,
    pub role: String,
    pub teams: Vec<String>,
    pub invited_by: String,
    pub created: String,
    pub expires: String,
    pub expired: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CreateInvitation {
    pub email: String,
    #[serde(default)]
    pub role: Option<String>,
    /// Names or ids of teams.
    #[serde(default)]
    pub teams: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedInvitation {
    pub invitation: Invitation,
    /// The link to send, shown once.
    pub url: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct InvitationToken {
    pub token: String,
}

/// What an invited person sees before accepting.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvitationView {
    pub account_name: String,
    pub email: String,
    pub role: String,
    /// The person has an account on the platform already: the password asked for is their own.
    pub known: bool,
    /// Whether a password opens the account; if not, one of its identity providers does.
    #[serde(default)]
    pub password: bool,
    /// Identity providers of the account: accept by `POST /api/auth/{name}/invitation`.
    #[serde(default)]
    pub sso: Vec<crate::auth::SsoOption>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AcceptInvitation {
    pub token: String,
    /// How to be called; kept as it is for somebody known.
    #[serde(default)]
    pub name: Option<String>,
    /// A new password, or the present one of somebody known.
    pub password: String,
}

/// In the shape that the published CLI reads.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Team {
    #[serde(rename = "_id")]
    pub id: String,
    pub name: String,
    /// `default` (everybody) or `admin` (Administrators). A team that people are put into has none: published clients take
    /// one that they did not write for a change.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    pub account: String,
    /// `manual` or `sso`.
    pub source: String,
    pub tags: Vec<String>,
    pub users: Vec<TeamMember>,
    /// Apart from people, for the same reason.
    #[serde(rename = "serviceAccounts", default)]
    pub service_accounts: Vec<TeamMember>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TeamMember {
    #[serde(rename = "_id")]
    pub id: String,
    #[serde(rename = "userName")]
    pub user_name: String,
    /// `user` or `service-account`.
    #[serde(default)]
    pub kind: String,
    /// `manual`, `sso`, or `role` where membership goes by role.
    #[serde(default)]
    pub source: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct CreateTeam {
    pub name: String,
    #[serde(default)]
    pub tags: Vec<String>,
    /// Ids of people and service accounts.
    #[serde(default)]
    pub users: Vec<String>,
}

/// A team that was just made: the members by id alone, as published clients read it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedTeam {
    #[serde(rename = "_id")]
    pub id: String,
    pub name: String,
    pub account: String,
    pub source: String,
    pub tags: Vec<String>,
    pub users: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RenameTeam {
    pub name: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TeamReference {
    #[serde(rename = "_id")]
    pub id: String,
    pub name: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAccount {
    #[serde(rename = "_id")]
    pub id: String,
    pub name: String,
    /// The same, as published clients read it.
    pub user_name: String,
    pub role: String,
    pub roles: Vec<String>,
    pub enabled: bool,
    /// Those that it was put into; those that go by role are not among them.
    pub teams: Vec<TeamReference>,
    pub keys: usize,
    pub created: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateServiceAccount {
    #[serde(alias = "userName")]
    pub name: String,
    #[serde(default)]
    pub role: Option<String>,
    /// How published clients say the role.
    #[serde(default)]
    pub assign_admin_role: bool,
    /// Names or ids of teams.
    #[serde(default, alias = "teamIds")]
    pub teams: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeServiceAccount {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The name in the words of published clients. They say everything each time and leave out what is empty: with this,
    /// no `assignAdminRole` means that it is no Administrator, and no `teamIds` that it is in no team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assign_admin_role: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_ids: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The whole list of teams, by name or id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teams: Option<Vec<String>>,
}
