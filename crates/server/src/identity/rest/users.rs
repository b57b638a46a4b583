//! Members of the account.

use axum::Json;
use axum::extract::{Path, State};
use slipway_access::Role;
use slipway_api::error::ErrorBody;
use slipway_api::identity::{ChangeMember, Member};
use slipway_model::UserId;
use slipway_store::{Scope, Tx, identity};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;
use crate::seams;

fn shown(tx: &mut Tx<'_>, scope: Scope, member: identity::Member) -> Result<Member, ApiError> {
    let administrator = member.role == Role::Administrator.as_str();
    let teams = identity::teams_of(tx, scope, &member.user.id.to_string(), administrator)?;
    let enabled = member.is_open();
    Ok(Member {
        id: member.user.id.to_string(),
        user_name: member.user.name,
        email: member.user.email,
        role: member.role,
        enabled,
        suspended: member.suspended,
        teams: teams.into_iter().map(|team| team.name).collect(),
        created: seams::rfc3339(member.user.created_ms),
        last_login: member.user.last_login_ms.map(seams::rfc3339),
    })
}

/// By id or e-mail, or by a name that only one member has.
pub(crate) fn find(tx: &mut Tx<'_>, scope: Scope, wanted: &str) -> Result<identity::Member, ApiError> {
    let id: Option<UserId> = match wanted.parse() {
        Ok(id) => Some(id),
        Err(_) => identity::user_by_email(tx, &wanted.to_lowercase())?.map(|user| user.id),
    };
    let found = match id {
        Some(id) => identity::member(tx, scope, id)?,
        None => None,
    };
    if let Some(found) = found {
        return Ok(found);
    }
    let mut named: Vec<_> = identity::members(tx, scope)?;
    named.retain(|member| member.user.name.to_lowercase() == wanted.to_lowercase());
    if named.len() > 1 {
        let addresses: Vec<_> = named.iter().map(|member| member.user.email.as_str()).collect();
        let addresses = addresses.join(", ");
        return Err(ApiError::bad_request(format!(
            "{} members are called `{wanted}`: identify one by e-mail ({addresses})",
            named.len()
        )));
    }
    named.pop().ok_or_else(|| ApiError::not_found(format!("user `{wanted}` in this account")))
}

/// Members of the account.
#[utoipa::path(get, path = "/api/users", tag = "users", responses((status = 200, body = [Member]), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Vec<Member>>, ApiError> {
    let members = server
        .look(move |tx| {
            let scope = caller.scope();
            identity::members(tx, scope)?.into_iter().map(|member| shown(tx, scope, member)).collect()
        })
        .await?;
    Ok(Json(members))
}

/// One member, by id, e-mail, or a name that only one member has.
#[utoipa::path(get, path = "/api/users/{id}", tag = "users", params(("id" = String, Path)),
    responses((status = 200, body = Member), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Member>, ApiError> {
    let member = server
        .look(move |tx| {
            let member = find(tx, caller.scope(), &id)?;
            shown(tx, caller.scope(), member)
        })
        .await?;
    Ok(Json(member))
}

/// An account without an Administrator can be run by nobody.
fn keep_an_administrator(tx: &mut Tx<'_>, scope: Scope, without: UserId) -> Result<(), ApiError> {
    let left = identity::administrators(tx, scope)?.into_iter().filter(|id| *id != without).count();
    if left == 0 {
        return Err(ApiError::conflict(
            "this is the last Administrator of the account: appoint another one first",
        ));
    }
    Ok(())
}

/// Change a member's role, or suspend or restore them in this account. Their sessions end, so that nothing continues
/// with the old state; keys of somebody who is suspended are refused until they are restored.
#[utoipa::path(patch, path = "/api/users/{id}", tag = "users", params(("id" = String, Path)), request_body = ChangeMember,
    responses((status = 200, body = Member), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn change(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Json(request): Json<ChangeMember>,
) -> Result<Json<Member>, ApiError> {
    let role =
        request.role.as_deref().map(|text| crate::http::input::role_by(&caller, Some(text))).transpose()?;
    let member = server
        .change(move |tx| {
            let scope = caller.scope();
            let member = find(tx, scope, &id)?;
            if let Some(role) = role.filter(|role| role.as_str() != member.role) {
                if role == Role::User && !member.suspended {
                    keep_an_administrator(tx, scope, member.user.id)?;
                }
                identity::set_role(tx, scope, member.user.id, role.as_str())?;
                identity::end_sessions_of(tx, member.user.id, None)?;
            }
            if let Some(suspended) = request.suspended.filter(|suspended| *suspended != member.suspended) {
                if suspended {
                    keep_an_administrator(tx, scope, member.user.id)?;
                }
                identity::set_suspended(tx, scope, member.user.id, suspended)?;
            }
            let after = find(tx, scope, &member.user.id.to_string())?;
            let entry = Entry::new("update", "user", member.user.id, &member.user.email)
                .before(serde_json::json!({"role": member.role, "suspended": member.suspended}))
                .after(serde_json::json!({"role": after.role, "suspended": after.suspended}));
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            shown(tx, scope, after)
        })
        .await?;
    Ok(Json(member))
}

/// Remove a user from the account: their sessions and keys here stop working at once.
#[utoipa::path(delete, path = "/api/users/{id}", tag = "users", params(("id" = String, Path)),
    responses((status = 200, body = String), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn remove(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<String>, ApiError> {
    let gone = server
        .change(move |tx| {
            let scope = caller.scope();
            let member = find(tx, scope, &id)?;
            if member.role == Role::Administrator.as_str() && !member.suspended {
                keep_an_administrator(tx, scope, member.user.id)?;
            }
            identity::remove_member(tx, scope, member.user.id)?;
            let entry = Entry::new("delete", "user", member.user.id, &member.user.email)
                .before(serde_json::json!({"role": member.role}));
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(member.user.id.to_string())
        })
        .await?;
    Ok(Json(gone))
}
