//! Who one is, and in which account.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use slipway_access::{Role, Who};
use slipway_api::auth::{User, UserAccount};
use slipway_api::error::ErrorBody;
use slipway_model::{AccountId, UserId};
use slipway_store::identity::{self, AccountStatus};
use slipway_store::{Scope, Tx};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::{Caller, Credential};
use crate::identity::sessions;
use crate::identity::trail::Entry;
use crate::seams;
use crate::settings::AccountSettings;

fn is_open(membership: &identity::Membership) -> bool {
    membership.account_status == AccountStatus::Active && !membership.suspended
}

fn roles(role: Role) -> Vec<String> {
    match role {
        Role::Administrator => vec!["User".to_owned(), role.as_str().to_owned()],
        Role::User => vec![role.as_str().to_owned()],
    }
}

/// A person as a member of one of their accounts.
pub(crate) fn shown(
    tx: &mut Tx<'_>,
    id: UserId,
    account: AccountId,
    csrf: Option<&str>,
) -> Result<User, ApiError> {
    let scope = Scope::of(account);
    let member = identity::member(tx, scope, id)?.ok_or_else(ApiError::unauthenticated)?;
    let role = Role::parse(&member.role).unwrap_or(Role::User);
    let teams = identity::teams_of(tx, scope, &id.to_string(), role == Role::Administrator)?;
    let admins = crate::identity::rest::account_users::administrators(tx, scope)?;
    let accounts = identity::memberships_of(tx, id)?;
    let accounts = accounts.into_iter().filter(is_open);
    Ok(User {
        id: id.to_string(),
        user_name: member.user.name,
        email: member.user.email,
        roles: roles(role),
        active_account_name: identity::account_name(tx, scope)?,
        account: accounts
            .map(|membership| UserAccount {
                id: membership.account.to_string(),
                same_id: membership.account.to_string(),
                name: membership.account_name,
                role: membership.role,
                active: membership.account == account,
                runtime_environment: Some("local".into()),
                admins: if membership.account == account { admins.clone() } else { Vec::new() },
            })
            .collect(),
        platform_admin: member.user.platform_admin,
        teams: teams.into_iter().map(|team| team.name).collect(),
        kind: "user".into(),
        csrf_token: csrf.map(str::to_owned),
        session_ends: None,
    })
}

/// Who is signed in.
#[utoipa::path(get, path = "/api/user", tag = "auth", responses((status = 200, body = User), (status = 401, body = ErrorBody)))]
pub(crate) async fn me(State(server): State<Server>, caller: Caller) -> Result<Json<User>, ApiError> {
    let user = server
        .look(move |tx| {
            let account = caller.principal.account;
            match &caller.principal.who {
                Who::User { id, .. } => {
                    let mut user = shown(tx, *id, account, caller.csrf())?;
                    user.platform_admin = caller.principal.is_platform();
                    if caller.is_vouched() {
                        // Whom a provider vouches for is a person of that account; where else they are is not its business.
                        user.account.retain(|account| account.active);
                    }
                    if let Credential::Session(session) = &caller.credential
                        && let Some(row) = identity::session(tx, &session.token_hash)?
                        && let Some(account) = identity::account_by_id(tx, account)?
                    {
                        let settings = AccountSettings::of(&account);
                        let quiet_ms = row.last_seen_ms + settings.inactivity_ms();
                        let ends_ms = quiet_ms.min(row.created_ms + settings.absolute_ms());
                        user.session_ends = Some(seams::rfc3339(ends_ms));
                    }
                    Ok(user)
                }
                Who::ServiceAccount { id, name, role, teams } => {
                    let account_name = identity::account_name(tx, caller.scope())?;
                    let account = UserAccount {
                        id: account.to_string(),
                        same_id: account.to_string(),
                        name: account_name.clone(),
                        role: role.as_str().into(),
                        active: true,
                        runtime_environment: Some("local".into()),
                        admins: crate::identity::rest::account_users::administrators(tx, caller.scope())?,
                    };
                    Ok(User {
                        id: id.to_string(),
                        user_name: name.clone(),
                        email: String::new(),
                        roles: roles(*role),
                        active_account_name: account_name,
                        account: vec![account],
                        platform_admin: false,
                        teams: teams.iter().map(|team| team.name.clone()).collect(),
                        kind: "service-account".into(),
                        csrf_token: None,
                        session_ends: None,
                    })
                }
                _ => Err(ApiError::forbidden("this key does not belong to a user or a service account")),
            }
        })
        .await?;
    Ok(Json(user))
}

/// A session by password enters accounts that are entered by password.
fn enterable(tx: &mut Tx<'_>, account: AccountId) -> Result<(), ApiError> {
    let account = identity::account_by_id(tx, account)?.ok_or_else(|| ApiError::not_found("the account"))?;
    match AccountSettings::of(&account).password_login {
        true => Ok(()),
        false => Err(ApiError::forbidden(format!(
            "account `{}` requires its identity provider: sign out, and choose it on the sign-in page",
            account.name
        ))),
    }
}

/// Switch to another of your accounts, by name or id. The session id changes; a key stays in its account.
#[utoipa::path(post, path = "/api/user/changeaccount/{account}", tag = "auth", params(("account" = String, Path)),
    responses((status = 200, body = User), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn change_account(
    State(server): State<Server>,
    caller: Caller,
    Path(wanted): Path<String>,
) -> Result<impl IntoResponse, ApiError> {
    let Credential::Session(session) = caller.credential.clone() else {
        return Err(ApiError::bad_request(
            "a key belongs to one account: create a key in the other account instead",
        ));
    };
    let (id, _) = crate::identity::rest::auth::person(&caller)?;
    if caller.is_vouched() {
        return Err(ApiError::forbidden(
            "you signed in with the identity provider of this account: sign out, then sign in to the other account",
        ));
    }
    let inner = server.clone();
    let (opened, account) = server
        .change(move |tx| {
            let all = identity::memberships_of(tx, id)?;
            let found = all.into_iter().find(|membership| {
                is_open(membership)
                    && (membership.account_name == wanted || membership.account.to_string() == wanted)
            });
            let there =
                found.ok_or_else(|| ApiError::not_found(format!("account `{wanted}` among yours")))?;
            enterable(tx, there.account)?;
            identity::set_active_account(tx, id, there.account)?;
            let opened = sessions::rotate(tx, &inner, &session, there.account, None)?;
            let entry = Entry::new("switch-account", "user", id, "").after(&there.account_name);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok((opened, there.account))
        })
        .await?;
    let csrf = opened.csrf.clone();
    let body = server.look(move |tx| shown(tx, id, account, Some(&csrf))).await?;
    let mut headers = HeaderMap::new();
    if let Ok(cookie) = opened.cookie.parse() {
        headers.insert(header::SET_COOKIE, cookie);
    }
    Ok((headers, Json(body)))
}
