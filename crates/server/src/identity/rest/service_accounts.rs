//! Service accounts: robots with keys.

use axum::Json;
use axum::extract::{Path, State};
use slipway_access::Role;
use slipway_api::error::ErrorBody;
use slipway_api::identity::{ChangeServiceAccount, CreateServiceAccount, ServiceAccount, TeamReference};
use slipway_store::identity::{self, Subject};
use slipway_store::{Scope, Tx};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::rest::accounts::QUARANTINE_MS;
use crate::identity::rest::invitations::teams;
use crate::identity::trail::Entry;
use crate::seams;

fn shown(tx: &mut Tx<'_>, scope: Scope, row: &identity::ServiceAccount) -> Result<ServiceAccount, ApiError> {
    let (id, administrator) = (row.id.to_string(), row.role == Role::Administrator.as_str());
    let teams = identity::teams_of(tx, scope, &id, administrator)?;
    let keys = identity::keys_of(tx, scope, Subject::ServiceAccount, &id)?.len();
    let teams = teams.into_iter().filter(|team| team.kind == "custom");
    Ok(ServiceAccount {
        id,
        name: row.name.clone(),
        user_name: row.name.clone(),
        role: row.role.clone(),
        roles: vec![row.role.clone()],
        enabled: row.enabled,
        teams: teams.map(|team| TeamReference { id: team.id.to_string(), name: team.name }).collect(),
        keys,
        created: seams::rfc3339(row.created_ms),
    })
}

fn find(tx: &mut Tx<'_>, scope: Scope, wanted: &str) -> Result<identity::ServiceAccount, ApiError> {
    identity::service_account(tx, scope, wanted)?
        .ok_or_else(|| ApiError::not_found(format!("service account `{wanted}`")))
}

/// Service accounts.
#[utoipa::path(get, path = "/api/service-users", tag = "service-accounts", responses((status = 200, body = [ServiceAccount]), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Vec<ServiceAccount>>, ApiError> {
    let rows = server
        .look(move |tx| {
            let scope = caller.scope();
            identity::service_accounts(tx, scope)?.iter().map(|row| shown(tx, scope, row)).collect()
        })
        .await?;
    Ok(Json(rows))
}

/// Create a service account. Its keys are created with `POST /api/auth/key?subjectType=service-account&subjectReference=NAME`.
#[utoipa::path(post, path = "/api/service-users", tag = "service-accounts", request_body = CreateServiceAccount,
    responses((status = 200, body = ServiceAccount), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Json(request): Json<CreateServiceAccount>,
) -> Result<Json<ServiceAccount>, ApiError> {
    crate::http::input::free_name("a service account", &request.name)?;
    let said = request.role.as_deref().or(request.assign_admin_role.then_some(Role::Administrator.as_str()));
    let role = crate::http::input::role_by(&caller, said)?;
    let (id, now_ms) = (server.seams().new_id(), server.now_ms());
    let made = server
        .change(move |tx| {
            let scope = caller.scope();
            let row = identity::ServiceAccount {
                id,
                name: request.name,
                role: role.as_str().into(),
                enabled: true,
                created_ms: now_ms,
            };
            identity::create_service_account(tx, scope, &row)?;
            for team in teams(tx, scope, &request.teams)? {
                if let Ok(team) = team.parse() {
                    identity::add_to_team(tx, team, &id.to_string(), "manual")?;
                }
            }
            let made = shown(tx, scope, &row)?;
            let entry = Entry::new("create", "service-account", id, &row.name).after(&made);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(made)
        })
        .await?;
    Ok(Json(made))
}

/// One service account, by name or id.
#[utoipa::path(get, path = "/api/service-users/{name}", tag = "service-accounts", params(("name" = String, Path)),
    responses((status = 200, body = ServiceAccount), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<ServiceAccount>, ApiError> {
    let found = server
        .look(move |tx| {
            let row = find(tx, caller.scope(), &name)?;
            shown(tx, caller.scope(), &row)
        })
        .await?;
    Ok(Json(found))
}

/// The role that a change asks for, if it does.
fn role_asked(request: &ChangeServiceAccount) -> Option<&str> {
    let whole = request.user_name.as_ref().map(|_| false);
    request.role.as_deref().or(request.assign_admin_role.or(whole).map(|administrator| match administrator {
        true => Role::Administrator.as_str(),
        false => Role::User.as_str(),
    }))
}

/// Edit the name, role or teams of a service account, or disable it: its keys stop working at once, until it is enabled again.
#[utoipa::path(patch, path = "/api/service-users/{name}", tag = "service-accounts", params(("name" = String, Path)), request_body = ChangeServiceAccount,
    responses((status = 200, body = ServiceAccount), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn change(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Json(request): Json<ChangeServiceAccount>,
) -> Result<Json<ServiceAccount>, ApiError> {
    let role =
        role_asked(&request).map(|text| crate::http::input::role_by(&caller, Some(text))).transpose()?;
    let called = request.user_name.clone().or(request.name);
    if let Some(name) = &called {
        crate::http::input::free_name("a service account", name)?;
    }
    let whole = request.user_name.map(|_| Vec::new());
    let teams = request.teams.or(request.team_ids).or(whole);
    let now_ms = server.now_ms();
    let changed = server
        .change(move |tx| {
            let scope = caller.scope();
            let row = find(tx, scope, &name)?;
            let before = shown(tx, scope, &row)?;
            let role = role.map_or_else(|| row.role.clone(), |role| role.as_str().to_owned());
            identity::update_service_account(
                tx,
                scope,
                row.id,
                &role,
                request.enabled.unwrap_or(row.enabled),
            )?;
            if let Some(name) = called.filter(|name| *name != row.name) {
                identity::rename_service_account(tx, scope, row.id, &name, now_ms)?;
                let account = scope.account().to_string();
                identity::quarantine(tx, "service-account", &account, &row.name, now_ms + QUARANTINE_MS)?;
            }
            if let Some(wanted) = &teams {
                set_teams(tx, scope, &row.id.to_string(), wanted)?;
            }
            let row = find(tx, scope, &row.id.to_string())?;
            let after = shown(tx, scope, &row)?;
            let entry =
                Entry::new("update", "service-account", row.id, &row.name).before(before).after(&after);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(after)
        })
        .await?;
    Ok(Json(changed))
}

fn set_teams(tx: &mut Tx<'_>, scope: Scope, member: &str, wanted: &[String]) -> Result<(), ApiError> {
    let wanted = teams(tx, scope, wanted)?;
    for team in identity::teams(tx, scope)?.into_iter().filter(|team| team.kind == "custom") {
        if wanted.contains(&team.id.to_string()) {
            identity::add_to_team(tx, team.id, member, "manual")?;
        } else {
            identity::remove_from_team(tx, team.id, member)?;
        }
    }
    Ok(())
}

/// Delete a service account and its keys. Its name stays reserved for a while.
#[utoipa::path(delete, path = "/api/service-users/{name}", tag = "service-accounts", params(("name" = String, Path)),
    responses((status = 200, body = String), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<String>, ApiError> {
    let until_ms = server.now_ms() + QUARANTINE_MS;
    let gone = server
        .change(move |tx| {
            let scope = caller.scope();
            let row = find(tx, scope, &name)?;
            let before = shown(tx, scope, &row)?;
            identity::delete_service_account(tx, scope, row.id)?;
            identity::quarantine(tx, "service-account", &scope.account().to_string(), &row.name, until_ms)?;
            let entry = Entry::new("delete", "service-account", row.id, &row.name).before(before);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(row.id.to_string())
        })
        .await?;
    Ok(Json(gone))
}
