//! What administrators of the platform do: accounts, people across accounts, the platform's own audit trail, keys, health.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::{Deserialize, Serialize};
use slipway_access::Role;
use slipway_api::audit::{AuditPage, AuditVerification};
use slipway_api::error::ErrorBody;
use slipway_api::identity::{
    Account, AccountStatusChange, AddMember, AdminChangeAccount, ChangePlatformUser, CreateAccount,
    CreatedAccount, PlatformUser,
};
use slipway_model::AccountId;
use slipway_store::identity::{self, AccountStatus};
use slipway_store::{Scope, Tx};
use utoipa::{IntoParams, ToSchema};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::http::limits::Limits;
use crate::identity::accounts::find;
use crate::identity::auth::Caller;
use crate::identity::rest::accounts::{rename, shown};
use crate::identity::rest::audit::{AuditQuery, page, verification};
use crate::identity::rest::{domains, invitations};
use crate::identity::trail::Entry;
use crate::seal::PLATFORM;
use crate::{bootstrap, seams};

/// Both chains see it: the platform's, and that of the account it was done to.
pub(crate) fn record(
    tx: &mut Tx<'_>,
    caller: &Caller,
    account: AccountId,
    entry: &Entry,
) -> Result<(), ApiError> {
    caller.trail.allowed(tx, &caller.actor().in_chain(PLATFORM), entry)?;
    caller.trail.record(tx, &caller.actor().in_chain(account), entry, "allowed", 200)?;
    Ok(())
}

/// Every account of the platform, deleted ones too.
#[utoipa::path(get, path = "/api/admin/accounts", tag = "platform", responses((status = 200, body = [Account]), (status = 403, body = ErrorBody)))]
pub(crate) async fn accounts(State(server): State<Server>) -> Result<Json<Vec<Account>>, ApiError> {
    let rows = server.store().read(identity::accounts).await?;
    Ok(Json(rows.iter().map(shown).collect()))
}

fn limits(value: Option<serde_json::Value>) -> Result<Option<Limits>, ApiError> {
    let limits: Option<Limits> = value
        .map(serde_json::from_value)
        .transpose()
        .map_err(|error| ApiError::bad_request(format!("limits: {error}")))?;
    let problems = limits.as_ref().map(Limits::problems).unwrap_or_default();
    if problems.is_empty() { Ok(limits) } else { Err(ApiError::findings("limits", &problems)) }
}

/// Create an account and invite its Administrator. A known user with a verified address is added at once.
#[utoipa::path(post, path = "/api/admin/accounts", tag = "platform", request_body = CreateAccount,
    responses((status = 200, body = CreatedAccount), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create_account(
    State(server): State<Server>,
    caller: Caller,
    Json(request): Json<CreateAccount>,
) -> Result<Json<CreatedAccount>, ApiError> {
    crate::http::input::plain_name("an account", &request.name)?;
    let limits = limits(request.limits)?;
    let email = request.admin_email.as_deref().map(crate::http::input::email).transpose()?;
    let inner = server.clone();
    let made = server
        .change(move |tx| {
            let id: AccountId = inner.seams().new_id();
            bootstrap::make_account(tx, &inner, id, &request.name)?;
            if let Some(limits) = &limits {
                identity::set_account_limits(tx, id, &serde_json::to_string(limits).unwrap_or_default())?;
            }
            let admin = Role::Administrator.as_str();
            let mut invitation_url = None;
            if let Some(email) = &email {
                match identity::user_by_email(tx, email)? {
                    Some(user) if domains::proven(tx, &user)? => {
                        identity::add_member(tx, Scope::of(id), user.id, admin, inner.now_ms())?;
                    }
                    // Whoever is here under this address may not be whom it belongs to: they accept, or they do not.
                    _ => {
                        let by = caller.principal.display_name();
                        let (_, token) = invitations::invite(tx, &inner, id, email, admin, Vec::new(), &by)?;
                        invitation_url = Some(invitations::invitation_url(&inner, &token));
                    }
                }
            }
            let account =
                identity::account_by_id(tx, id)?.ok_or_else(|| ApiError::not_found("the account"))?;
            let entry = Entry::new("create", "account", id, &account.name).after(shown(&account));
            record(tx, &caller, id, &entry)?;
            Ok(CreatedAccount { account: shown(&account), invitation_url })
        })
        .await?;
    Ok(Json(made))
}

/// One account, by name or id.
#[utoipa::path(get, path = "/api/admin/accounts/{account}", tag = "platform", params(("account" = String, Path)),
    responses((status = 200, body = Account), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn account(
    State(server): State<Server>,
    Path(wanted): Path<String>,
) -> Result<Json<Account>, ApiError> {
    Ok(Json(server.look(move |tx| Ok(shown(&find(tx, &wanted)?))).await?))
}

/// Rename an account or change its limits.
#[utoipa::path(patch, path = "/api/admin/accounts/{account}", tag = "platform", params(("account" = String, Path)), request_body = AdminChangeAccount,
    responses((status = 200, body = Account), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn change_account(
    State(server): State<Server>,
    caller: Caller,
    Path(wanted): Path<String>,
    Json(request): Json<AdminChangeAccount>,
) -> Result<Json<Account>, ApiError> {
    let limits = limits(request.limits)?;
    let inner = server.clone();
    let changed = server
        .change(move |tx| {
            let before = find(tx, &wanted)?;
            if let Some(name) = &request.name {
                rename(tx, &inner, &before, name)?;
            }
            if let Some(limits) = &limits {
                identity::set_account_limits(
                    tx,
                    before.id,
                    &serde_json::to_string(limits).unwrap_or_default(),
                )?;
            }
            let after = find(tx, &before.id.to_string())?;
            let entry = Entry::new("update", "account", after.id, &after.name)
                .before(shown(&before))
                .after(shown(&after));
            record(tx, &caller, after.id, &entry)?;
            Ok(shown(&after))
        })
        .await?;
    Ok(Json(changed))
}

fn set(
    tx: &mut Tx<'_>,
    server: &Server,
    caller: &Caller,
    wanted: &str,
    action: &str,
) -> Result<Account, ApiError> {
    let before = find(tx, wanted)?;
    let status = match (action, before.status) {
        ("suspend", AccountStatus::Active) => AccountStatus::Suspended,
        ("activate", AccountStatus::Suspended) | ("restore", AccountStatus::Deleted) => AccountStatus::Active,
        ("delete", AccountStatus::Active | AccountStatus::Suspended) => AccountStatus::Deleted,
        ("suspend" | "activate" | "restore" | "delete", now) => {
            return Err(ApiError::conflict(format!(
                "account `{}` is {}: it cannot {action}",
                before.name,
                now.as_str()
            )));
        }
        _ => {
            return Err(ApiError::bad_request(format!(
                "unknown action `{action}`: use suspend, activate or restore"
            )));
        }
    };
    if status != AccountStatus::Active && before.id == caller.principal.account {
        return Err(ApiError::conflict("this is your current account: switch to another one first"));
    }
    identity::set_account_status(tx, before.id, status, server.now_ms())?;
    let after = find(tx, &before.id.to_string())?;
    let entry =
        Entry::new(action, "account", after.id, &after.name).before(shown(&before)).after(shown(&after));
    record(tx, caller, after.id, &entry)?;
    Ok(shown(&after))
}

/// Suspend, activate or restore an account. In a suspended account nobody can sign in and no key works; all data is kept.
#[utoipa::path(post, path = "/api/admin/accounts/{account}/status", tag = "platform", params(("account" = String, Path)), request_body = AccountStatusChange,
    responses((status = 200, body = Account), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn set_status(
    State(server): State<Server>,
    caller: Caller,
    Path(wanted): Path<String>,
    Json(request): Json<AccountStatusChange>,
) -> Result<Json<Account>, ApiError> {
    if request.action == "delete" {
        return Err(ApiError::bad_request("delete an account with DELETE"));
    }
    let inner = server.clone();
    Ok(Json(server.change(move |tx| set(tx, &inner, &caller, &wanted, &request.action)).await?))
}

/// Delete an account. It can be restored; its name stays reserved.
#[utoipa::path(delete, path = "/api/admin/accounts/{account}", tag = "platform", params(("account" = String, Path)),
    responses((status = 200, body = Account), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn delete_account(
    State(server): State<Server>,
    caller: Caller,
    Path(wanted): Path<String>,
) -> Result<Json<Account>, ApiError> {
    let inner = server.clone();
    Ok(Json(server.change(move |tx| set(tx, &inner, &caller, &wanted, "delete")).await?))
}

/// Add an existing user to an account: by id, or by a verified address.
#[utoipa::path(post, path = "/api/admin/accounts/{account}/adduser", tag = "platform", params(("account" = String, Path)), request_body = AddMember,
    responses((status = 200, body = Account), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn add_member(
    State(server): State<Server>,
    caller: Caller,
    Path(wanted): Path<String>,
    Json(request): Json<AddMember>,
) -> Result<Json<Account>, ApiError> {
    let (email, role, now_ms) = (
        request.email.trim().to_lowercase(),
        crate::http::input::role_by(&caller, request.role.as_deref())?,
        server.now_ms(),
    );
    let changed = server
        .change(move |tx| {
            let account = find(tx, &wanted)?;
            let scope = Scope::of(account.id);
            let what = || ApiError::not_found(format!("user `{email}`"));
            let user = match email.parse() {
                Ok(id) => identity::user_by_id(tx, id)?.ok_or_else(what)?,
                Err(_) => {
                    let user = identity::user_by_email(tx, &email)?.ok_or_else(what)?;
                    if !domains::proven(tx, &user)? {
                        return Err(unproven(&user));
                    }
                    user
                }
            };
            let email = user.email.clone();
            if identity::member(tx, scope, user.id)?.is_some() {
                return Err(ApiError::conflict(format!("`{email}` is already a member")));
            }
            if let Some(refusal) = crate::http::limits::refusal(tx, scope, "seats")? {
                return Err(ApiError::over_limit(refusal));
            }
            identity::add_member(tx, scope, user.id, role.as_str(), now_ms)?;
            let entry = Entry::new("add-member", "account", account.id, &account.name)
                .after(serde_json::json!({"email": email, "role": role.as_str()}));
            record(tx, &caller, account.id, &entry)?;
            Ok(shown(&account))
        })
        .await?;
    Ok(Json(changed))
}

/// Somebody's address may be somebody else's: whoever invited them chose it.
pub(crate) fn unproven(user: &identity::User) -> ApiError {
    ApiError::conflict(format!(
        "the address `{}` is not verified for this person: identify them by id ({}), invite them, or verify the domain for one of their accounts",
        user.email, user.id
    ))
}

/// Take an address away from a user who does not own it. They keep their account under a placeholder address;
/// their sessions end, and the owner of the address can be invited.
#[utoipa::path(post, path = "/api/admin/users/{user}/release-address", tag = "platform", params(("user" = String, Path)),
    responses((status = 200, body = PlatformUser), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn release_address(
    State(server): State<Server>,
    caller: Caller,
    Path(wanted): Path<String>,
) -> Result<Json<PlatformUser>, ApiError> {
    let changed = server
        .change(move |tx| {
            let what = || ApiError::not_found(format!("user `{wanted}`"));
            let id = wanted.parse().map_err(|_| what())?;
            let user = identity::user_by_id(tx, id)?.ok_or_else(what)?;
            if domains::proven(tx, &user)? {
                return Err(ApiError::conflict(
                    "this address is verified as theirs: remove the domain from the account first",
                ));
            }
            identity::readdress_user(tx, id, &format!("released-{id}@invalid"))?;
            identity::end_sessions_of(tx, id, None)?;
            let entry = Entry::new("release-address", "platform-user", id, &user.email).before(&user.email);
            caller.trail.allowed(tx, &caller.actor().in_chain(PLATFORM), &entry)?;
            for membership in identity::memberships_of(tx, id)? {
                let actor = caller.actor().in_chain(membership.account);
                caller.trail.record(tx, &actor, &entry, "allowed", 200)?;
            }
            let user = identity::user_by_id(tx, id)?.ok_or_else(what)?;
            shown_user(tx, user)
        })
        .await?;
    Ok(Json(changed))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsersQuery {
    limit: Option<i64>,
    /// From 1.
    page: Option<i64>,
}

fn shown_user(tx: &mut Tx<'_>, user: identity::User) -> Result<PlatformUser, ApiError> {
    let accounts = identity::memberships_of(tx, user.id)?;
    Ok(PlatformUser {
        id: user.id.to_string(),
        user_name: user.name,
        email: user.email,
        enabled: user.enabled,
        platform_admin: user.platform_admin,
        accounts: accounts.into_iter().map(|membership| membership.account_name).collect(),
        last_login: user.last_login_ms.map(seams::rfc3339),
    })
}

/// All users of the platform.
#[utoipa::path(get, path = "/api/admin/users", tag = "platform", params(UsersQuery),
    responses((status = 200, body = [PlatformUser]), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn users(
    State(server): State<Server>,
    Query(query): Query<UsersQuery>,
) -> Result<Json<Vec<PlatformUser>>, ApiError> {
    let limit = query.limit.unwrap_or(100).clamp(1, 1000);
    let offset = (query.page.unwrap_or(1).max(1) - 1).saturating_mul(limit);
    let users = server
        .look(move |tx| {
            let users = identity::users_everywhere(tx, limit, offset)?;
            users.into_iter().map(|user| shown_user(tx, user)).collect()
        })
        .await?;
    Ok(Json(users))
}

/// Disable a user everywhere, or make them an administrator of the platform. Their sessions end.
#[utoipa::path(patch, path = "/api/admin/users/{user}", tag = "platform", params(("user" = String, Path)), request_body = ChangePlatformUser,
    responses((status = 200, body = PlatformUser), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn change_user(
    State(server): State<Server>,
    caller: Caller,
    Path(wanted): Path<String>,
    Json(request): Json<ChangePlatformUser>,
) -> Result<Json<PlatformUser>, ApiError> {
    let changed = server
        .change(move |tx| {
            let what = || ApiError::not_found(format!("user `{wanted}`"));
            let id = match wanted.parse() {
                Ok(id) => id,
                Err(_) => identity::user_by_email(tx, &wanted.to_lowercase())?.ok_or_else(what)?.id,
            };
            let user = identity::user_by_id(tx, id)?.ok_or_else(what)?;
            let loses = request.enabled == Some(false) || request.platform_admin == Some(false);
            if loses && user.platform_admin && user.enabled && identity::platform_admins(tx)? <= 1 {
                return Err(ApiError::conflict(
                    "this is the last administrator of the platform: appoint another one first",
                ));
            }
            if let Some(enabled) = request.enabled {
                identity::set_user_enabled(tx, id, enabled)?;
            }
            if let Some(platform) = request.platform_admin {
                identity::set_platform_admin(tx, id, platform)?;
            }
            identity::end_sessions_of(tx, id, None)?;
            let before = shown_user(tx, user)?;
            let user = identity::user_by_id(tx, id)?.ok_or_else(what)?;
            let after = shown_user(tx, user)?;
            let entry = Entry::new("update", "platform-user", id, &after.email).before(before).after(&after);
            caller.trail.allowed(tx, &caller.actor().in_chain(PLATFORM), &entry)?;
            Ok(after)
        })
        .await?;
    Ok(Json(changed))
}

/// The audit log of the platform: changes of accounts and users, and denied anonymous requests.
#[utoipa::path(get, path = "/api/admin/audit", tag = "platform", params(AuditQuery),
    responses((status = 200, body = AuditPage), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn audit(
    State(server): State<Server>,
    Query(query): Query<AuditQuery>,
) -> Result<Json<AuditPage>, ApiError> {
    page(&server, PLATFORM.to_owned(), query).await
}

/// Verify the audit log of the platform.
#[utoipa::path(get, path = "/api/admin/audit/verify", tag = "platform",
    responses((status = 200, body = AuditVerification), (status = 403, body = ErrorBody)))]
pub(crate) async fn verify_audit(State(server): State<Server>) -> Result<Json<AuditVerification>, ApiError> {
    verification(&server, PLATFORM).await
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rotated {
    /// Names the new master key; it is in no answer and no log.
    master: String,
    data_keys: usize,
}

/// Create a new master key and re-encrypt every account's data key with it. The old one becomes useless.
#[utoipa::path(post, path = "/api/admin/secrets/rotate", tag = "platform",
    responses((status = 200, body = Rotated), (status = 403, body = ErrorBody), (status = 503, body = ErrorBody)))]
pub(crate) async fn rotate_secrets(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Rotated>, ApiError> {
    let (data_keys, master) = server.rotate_secrets(Some(&caller)).await?;
    Ok(Json(Rotated { master, data_keys }))
}
