//! People of the account as the published Terraform provider knows them: an invitation is a person who is `pending`.
//!
//! The addresses and shapes are the provider's. Whoever accepts an invitation and is new here gets its id, so the id that
//! the provider keeps stays the person's. Does not know: how people sign in.

use axum::Json;
use axum::extract::{Path, State};
use slipway_access::Role;
use slipway_api::error::ErrorBody;
use slipway_api::identity::{AccountUser, ChangeMember, CreateInvitation, UserDetails};
use slipway_model::InvitationId;
use slipway_store::identity::{self, AccountStatus};
use slipway_store::{Scope, Tx};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::rest::invitations::{self, Newcomer, invitation_url};
use crate::identity::rest::users;
use crate::identity::tokens;
use crate::identity::trail::Entry;
use crate::seal::PLATFORM;

fn own(caller: &Caller, account: &str) -> Result<(), ApiError> {
    match account == caller.principal.account.to_string() {
        true => Ok(()),
        false => Err(ApiError::not_found(format!("account `{account}`"))),
    }
}

fn member(row: identity::Member) -> AccountUser {
    AccountUser {
        id: row.user.id.to_string(),
        user_name: row.user.name,
        email: row.user.email,
        status: "new".into(),
        roles: vec![row.role],
        invite_url: None,
    }
}

fn pending(row: &identity::Invitation) -> AccountUser {
    AccountUser {
        id: row.id.to_string(),
        user_name: row.email.clone(),
        email: row.email.clone(),
        status: "pending".into(),
        roles: vec![row.role.clone()],
        invite_url: None,
    }
}

fn invited(tx: &mut Tx<'_>, scope: Scope, id: &str) -> Result<Option<identity::Invitation>, ApiError> {
    let Ok(id) = id.parse::<InvitationId>() else { return Ok(None) };
    Ok(identity::invitation(tx, scope, id)?)
}

/// Ids of Administrators, those who have not accepted yet among them.
pub(crate) fn administrators(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<String>, ApiError> {
    let mut ids: Vec<_> = identity::administrators(tx, scope)?.into_iter().map(|id| id.to_string()).collect();
    let rows = identity::invitations(tx, scope)?;
    let pending = rows.iter().filter(|row| row.role == Role::Administrator.as_str());
    ids.extend(pending.map(|row| row.id.to_string()));
    Ok(ids)
}

/// Users of the caller's account, and those who are invited.
#[utoipa::path(get, path = "/api/accounts/{account}/users", tag = "users", params(("account" = String, Path)),
    responses((status = 200, body = [AccountUser]), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn list_of_account(
    State(server): State<Server>,
    caller: Caller,
    Path(account): Path<String>,
) -> Result<Json<Vec<AccountUser>>, ApiError> {
    own(&caller, &account)?;
    let found = server
        .look(move |tx| {
            let scope = caller.scope();
            let mut people: Vec<_> = identity::members(tx, scope)?.into_iter().map(member).collect();
            people.extend(identity::invitations(tx, scope)?.iter().map(pending));
            Ok(people)
        })
        .await?;
    Ok(Json(found))
}

/// Invite a user by e-mail. The answer has the link to send them; it is shown once.
#[utoipa::path(post, path = "/api/accounts/{account}/adduser", tag = "users", params(("account" = String, Path)), request_body = UserDetails,
    responses((status = 200, body = AccountUser), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn add(
    server: State<Server>,
    caller: Caller,
    Path(account): Path<String>,
    Json(details): Json<UserDetails>,
) -> Result<Json<AccountUser>, ApiError> {
    own(&caller, &account)?;
    let request = CreateInvitation { email: details.address(), role: None, teams: Vec::new() };
    let Json(made) = invitations::create(server, caller, Json(request)).await?;
    Ok(Json(AccountUser {
        id: made.invitation.id,
        user_name: made.invitation.email.clone(),
        email: made.invitation.email,
        status: "pending".into(),
        roles: vec![made.invitation.role],
        invite_url: Some(made.url),
    }))
}

/// Invite another address instead, with a new link; the old link becomes invalid. Only until the invitation is accepted.
#[utoipa::path(post, path = "/api/accounts/{account}/{user}/updateuser", tag = "users", params(("account" = String, Path), ("user" = String, Path)), request_body = UserDetails,
    responses((status = 200, body = AccountUser), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn readdress(
    State(server): State<Server>,
    caller: Caller,
    Path((account, user)): Path<(String, String)>,
    Json(details): Json<UserDetails>,
) -> Result<Json<AccountUser>, ApiError> {
    own(&caller, &account)?;
    let email = crate::http::input::email(&details.address())?;
    let inner = server.clone();
    let changed = server
        .change(move |tx| {
            let scope = caller.scope();
            let Some(row) = invited(tx, scope, &user)? else {
                users::find(tx, scope, &user)?;
                return Err(ApiError::conflict(
                    "this user has accepted the invitation and owns the address: remove them and invite the other address",
                ));
            };
            invitations::may_be_invited(tx, scope, &email)?;
            let token = tokens::random_token(inner.seams());
            identity::readdress_invitation(tx, scope, row.id, &email, &tokens::digest(&token))?;
            let entry = Entry::new("update", "invitation", row.id, &email)
                .before(serde_json::json!({"email": row.email}))
                .after(serde_json::json!({"email": email}));
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            let row = identity::Invitation { email, ..row };
            Ok(AccountUser { invite_url: Some(invitation_url(&inner, &token)), ..pending(&row) })
        })
        .await?;
    Ok(Json(changed))
}

/// Give a user the Administrator role.
#[utoipa::path(post, path = "/api/accounts/{account}/{user}/admin", tag = "users", params(("account" = String, Path), ("user" = String, Path)),
    responses((status = 200, body = AccountUser), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn promote(
    server: State<Server>,
    caller: Caller,
    Path((account, user)): Path<(String, String)>,
) -> Result<Json<AccountUser>, ApiError> {
    set_role(server, caller, account, user, Role::Administrator).await
}

/// Take the Administrator role away from a user.
#[utoipa::path(delete, path = "/api/accounts/{account}/{user}/admin", tag = "users", params(("account" = String, Path), ("user" = String, Path)),
    responses((status = 200, body = AccountUser), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn demote(
    server: State<Server>,
    caller: Caller,
    Path((account, user)): Path<(String, String)>,
) -> Result<Json<AccountUser>, ApiError> {
    set_role(server, caller, account, user, Role::User).await
}

async fn set_role(
    server: State<Server>,
    caller: Caller,
    account: String,
    user: String,
    role: Role,
) -> Result<Json<AccountUser>, ApiError> {
    own(&caller, &account)?;
    crate::http::input::role_by(&caller, Some(role.as_str()))?;
    let (asking, wanted) = (caller.clone(), user.clone());
    let waiting = server
        .change(move |tx| {
            let scope = asking.scope();
            let Some(row) = invited(tx, scope, &wanted)? else { return Ok(None) };
            identity::set_invitation_role(tx, scope, row.id, role.as_str())?;
            let entry = Entry::new("update", "invitation", row.id, &row.email)
                .before(serde_json::json!({"role": row.role}))
                .after(serde_json::json!({"role": role.as_str()}));
            asking.trail.allowed(tx, &asking.actor(), &entry)?;
            Ok(Some(pending(&identity::Invitation { role: role.as_str().into(), ..row })))
        })
        .await?;
    if let Some(waiting) = waiting {
        return Ok(Json(waiting));
    }
    let request = ChangeMember { role: Some(role.as_str().into()), suspended: None };
    let Json(changed) = users::change(server, caller, Path(user), Json(request)).await?;
    Ok(Json(AccountUser {
        id: changed.id,
        user_name: changed.user_name,
        email: changed.email,
        status: "new".into(),
        roles: vec![changed.role],
        invite_url: None,
    }))
}

/// Remove a user from the account, or revoke an invitation.
#[utoipa::path(delete, path = "/api/accounts/{account}/{user}", tag = "users", params(("account" = String, Path), ("user" = String, Path)),
    responses((status = 200, body = String), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn take_out(
    server: State<Server>,
    caller: Caller,
    Path((account, user)): Path<(String, String)>,
) -> Result<Json<String>, ApiError> {
    own(&caller, &account)?;
    let (scope, wanted) = (caller.scope(), user.clone());
    let waits = server.look(move |tx| Ok(invited(tx, scope, &wanted)?.is_some())).await?;
    match waits {
        true => invitations::revoke(server, caller, Path(user)).await,
        false => users::remove(server, caller, Path(user)).await,
    }
}

/// Activate an invited user who has not accepted yet: they sign in with an identity provider, as they have no password.
#[utoipa::path(post, path = "/api/admin/user/{user}/activate", tag = "platform", params(("user" = String, Path)),
    responses((status = 200, body = AccountUser), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn activate(
    State(server): State<Server>,
    caller: Caller,
    Path(user): Path<String>,
) -> Result<Json<AccountUser>, ApiError> {
    let inner = server.clone();
    let person = server
        .change(move |tx| {
            let what = || ApiError::not_found(format!("invited user `{user}`"));
            let id: InvitationId = user.parse().map_err(|_| what())?;
            let row = identity::invitation_anywhere(tx, id)?.ok_or_else(what)?;
            let scope = Scope::of(row.account);
            let open = identity::account_by_id(tx, row.account)?
                .is_some_and(|account| account.status == AccountStatus::Active);
            if !open {
                return Err(ApiError::conflict("this user's account is not active: activate it first"));
            }
            let known = identity::user_by_email(tx, &row.email)?;
            let person = match known {
                Some(known) if crate::identity::rest::domains::proven(tx, &known)? => known,
                Some(known) => return Err(crate::identity::rest::admin::unproven(&known)),
                None => {
                    let name = row.email.split('@').next().unwrap_or_default();
                    let new = Newcomer {
                        email: &row.email,
                        name,
                        password_hash: String::new(),
                        account: row.account,
                    };
                    invitations::new_user(tx, &inner, new, Some(&row))?
                }
            };
            invitations::join(tx, &inner, &row, &person)?;
            let entry = Entry::new("accept", "invitation", row.id, &row.email)
                .after(serde_json::json!({"role": row.role, "by": "an administrator of the platform"}));
            caller.trail.allowed(tx, &caller.actor().in_chain(PLATFORM), &entry)?;
            caller.trail.record(tx, &caller.actor().in_chain(row.account), &entry, "allowed", 200)?;
            let joined = identity::member(tx, scope, person.id)?.ok_or_else(what)?;
            Ok(member(joined))
        })
        .await?;
    Ok(Json(person))
}
