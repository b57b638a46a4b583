//! Teams, in the shapes that the published CLI uses.

use axum::Json;
use axum::extract::{Path, State};
use slipway_access::Role;
use slipway_api::error::ErrorBody;
use slipway_api::identity::{CreateTeam, CreatedTeam, RenameTeam, Team, TeamMember};
use slipway_store::{Scope, Tx, identity, rules};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;

fn shown(tx: &mut Tx<'_>, scope: Scope, team: &identity::Team) -> Result<Team, ApiError> {
    let (mut users, mut service_accounts) = (Vec::new(), Vec::new());
    match team.kind.as_str() {
        "custom" => {
            for (member, source) in identity::team_members(tx, team.id)? {
                if let Some((kind, user_name)) = who(tx, scope, &member)? {
                    let list = if kind == "user" { &mut users } else { &mut service_accounts };
                    list.push(TeamMember { id: member, user_name, kind, source });
                }
            }
        }
        kind => {
            for member in identity::members(tx, scope)? {
                if kind == "default" || member.role == Role::Administrator.as_str() {
                    let (id, user_name) = (member.user.id.to_string(), member.user.name);
                    users.push(TeamMember { id, user_name, kind: "user".into(), source: "role".into() });
                }
            }
        }
    }
    Ok(Team {
        id: team.id.to_string(),
        name: team.name.clone(),
        kind: (team.kind != "custom").then(|| team.kind.clone()),
        account: scope.account().to_string(),
        source: team.source.clone(),
        tags: team.tags.clone(),
        users,
        service_accounts,
    })
}

/// A person or service account of this account, by id.
fn who(tx: &mut Tx<'_>, scope: Scope, id: &str) -> Result<Option<(String, String)>, ApiError> {
    if let Ok(user) = id.parse()
        && let Some(member) = identity::member(tx, scope, user)?
    {
        return Ok(Some(("user".into(), member.user.name)));
    }
    Ok(identity::service_account(tx, scope, id)?
        .filter(|robot| robot.id.to_string() == id)
        .map(|robot| ("service-account".into(), robot.name)))
}

pub(crate) fn find(tx: &mut Tx<'_>, scope: Scope, wanted: &str) -> Result<identity::Team, ApiError> {
    identity::team_by_name(tx, scope, wanted)?.ok_or_else(|| ApiError::not_found(format!("team `{wanted}`")))
}

/// One that people are put into; the two that go by role are as they are.
fn custom(tx: &mut Tx<'_>, scope: Scope, wanted: &str) -> Result<identity::Team, ApiError> {
    let team = find(tx, scope, wanted)?;
    if team.kind != "custom" {
        return Err(ApiError::conflict(format!(
            "team `{}` is defined by a role and cannot be edited: create another team",
            team.name
        )));
    }
    Ok(team)
}

fn check_name(name: &str) -> Result<(), ApiError> {
    crate::http::input::free_name("a team", name)?;
    if [identity::EVERYBODY, identity::ADMINISTRATORS].contains(&name) {
        return Err(ApiError::conflict(format!("team `{name}` already exists")));
    }
    Ok(())
}

/// Teams with their members.
#[utoipa::path(get, path = "/api/team", tag = "teams", responses((status = 200, body = [Team]), (status = 401, body = ErrorBody)))]
pub(crate) async fn list(State(server): State<Server>, caller: Caller) -> Result<Json<Vec<Team>>, ApiError> {
    let teams = server
        .look(move |tx| {
            let scope = caller.scope();
            identity::teams(tx, scope)?.iter().map(|team| shown(tx, scope, team)).collect()
        })
        .await?;
    Ok(Json(teams))
}

/// Create a team.
#[utoipa::path(post, path = "/api/team", tag = "teams", request_body = CreateTeam,
    responses((status = 200, body = CreatedTeam), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Json(request): Json<CreateTeam>,
) -> Result<Json<CreatedTeam>, ApiError> {
    check_name(&request.name)?;
    let (id, now_ms) = (server.seams().new_id(), server.now_ms());
    let team = server
        .change(move |tx| {
            let scope = caller.scope();
            let team = identity::Team {
                id,
                name: request.name,
                kind: "custom".into(),
                source: "manual".into(),
                group: None,
                tags: request.tags,
                created_ms: now_ms,
            };
            identity::create_team(tx, scope, &team)?;
            for member in &request.users {
                put_in(tx, scope, &team, member)?;
            }
            let made = shown(tx, scope, &team)?;
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("create", "team", id, &team.name).after(&made),
            )?;
            Ok(made)
        })
        .await?;
    let Team { id, name, account, source, tags, users, .. } = team;
    let users = users.into_iter().map(|user| user.id).collect();
    Ok(Json(CreatedTeam { id, name, account, source, tags, users }))
}

fn put_in(tx: &mut Tx<'_>, scope: Scope, team: &identity::Team, member: &str) -> Result<(), ApiError> {
    who(tx, scope, member)?
        .ok_or_else(|| ApiError::not_found(format!("user or service account `{member}` in this account")))?;
    identity::add_to_team(tx, team.id, member, "manual")?;
    Ok(())
}

/// One team, by name or id.
#[utoipa::path(get, path = "/api/team/{team}", tag = "teams", params(("team" = String, Path)),
    responses((status = 200, body = Team), (status = 404, body = ErrorBody)))]
pub(crate) async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path(wanted): Path<String>,
) -> Result<Json<Team>, ApiError> {
    let team = server
        .look(move |tx| {
            let team = find(tx, caller.scope(), &wanted)?;
            shown(tx, caller.scope(), &team)
        })
        .await?;
    Ok(Json(team))
}

/// Rename a team, or change its tags and members.
#[utoipa::path(put, path = "/api/team/{team}", tag = "teams", params(("team" = String, Path)), request_body = CreateTeam,
    responses((status = 200, body = Team), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn change(
    State(server): State<Server>,
    caller: Caller,
    Path(wanted): Path<String>,
    Json(request): Json<CreateTeam>,
) -> Result<Json<Team>, ApiError> {
    check_name(&request.name)?;
    let team = server
        .change(move |tx| {
            let scope = caller.scope();
            let team = custom(tx, scope, &wanted)?;
            let before = shown(tx, scope, &team)?;
            call(tx, scope, &team, &request.name, &request.tags)?;
            for (member, source) in identity::team_members(tx, team.id)? {
                if source == "manual" && !request.users.contains(&member) {
                    identity::remove_from_team(tx, team.id, &member)?;
                }
            }
            for member in &request.users {
                put_in(tx, scope, &team, member)?;
            }
            let team = find(tx, scope, &team.id.to_string())?;
            let after = shown(tx, scope, &team)?;
            let entry = Entry::new("update", "team", team.id, &team.name).before(before).after(&after);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(after)
        })
        .await?;
    Ok(Json(team))
}

fn call(
    tx: &mut Tx<'_>,
    scope: Scope,
    team: &identity::Team,
    name: &str,
    tags: &[String],
) -> Result<(), ApiError> {
    let holder = identity::team_by_name(tx, scope, name)?;
    if holder.is_some_and(|holder| holder.id != team.id) {
        return Err(ApiError::conflict(format!("team `{name}` already exists")));
    }
    identity::update_team(tx, scope, team.id, name, tags)?;
    Ok(())
}

/// Rename a team; its members, tags and rules stay.
#[utoipa::path(put, path = "/api/team/{team}/renameTeam", tag = "teams", params(("team" = String, Path)), request_body = RenameTeam,
    responses((status = 200, body = Team), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn rename(
    State(server): State<Server>,
    caller: Caller,
    Path(wanted): Path<String>,
    Json(request): Json<RenameTeam>,
) -> Result<Json<Team>, ApiError> {
    check_name(&request.name)?;
    let team = server
        .change(move |tx| {
            let scope = caller.scope();
            let team = custom(tx, scope, &wanted)?;
            call(tx, scope, &team, &request.name, &team.tags)?;
            let entry = Entry::new("update", "team", team.id, &request.name)
                .before(serde_json::json!({"name": team.name}))
                .after(serde_json::json!({"name": request.name}));
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            let team = find(tx, scope, &team.id.to_string())?;
            shown(tx, scope, &team)
        })
        .await?;
    Ok(Json(team))
}

/// Delete a team. Refused while an access rule uses it.
#[utoipa::path(delete, path = "/api/team/{team}", tag = "teams", params(("team" = String, Path)),
    responses((status = 200, body = String), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn delete(
    State(server): State<Server>,
    caller: Caller,
    Path(wanted): Path<String>,
) -> Result<Json<String>, ApiError> {
    let gone = server
        .change(move |tx| {
            let scope = caller.scope();
            let team = custom(tx, scope, &wanted)?;
            let id = team.id.to_string();
            let used: Vec<_> = rules::list(tx, scope)?
                .into_iter()
                .filter(|rule| rule.teams.contains(&id))
                .map(|rule| format!("{} ({})", rule.id, rule.kind))
                .collect();
            if !used.is_empty() {
                return Err(ApiError::conflict(format!(
                    "team `{}` is used by access rules: {}; edit or delete those first",
                    team.name,
                    used.join(", ")
                )));
            }
            let before = shown(tx, scope, &team)?;
            identity::delete_team(tx, scope, team.id)?;
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("delete", "team", team.id, &team.name).before(before),
            )?;
            Ok(id)
        })
        .await?;
    Ok(Json(gone))
}

/// Add a user or service account to a team.
#[utoipa::path(put, path = "/api/team/{team}/{user}/assignUserToTeam", tag = "teams", params(("team" = String, Path), ("user" = String, Path)),
    responses((status = 200, body = Team), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn assign(
    State(server): State<Server>,
    caller: Caller,
    Path((team, member)): Path<(String, String)>,
) -> Result<Json<Team>, ApiError> {
    move_member(server, caller, team, member, true).await
}

/// Remove a user or service account from a team.
#[utoipa::path(put, path = "/api/team/{team}/{user}/deleteUserFromTeam", tag = "teams", params(("team" = String, Path), ("user" = String, Path)),
    responses((status = 200, body = Team), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn unassign(
    State(server): State<Server>,
    caller: Caller,
    Path((team, member)): Path<(String, String)>,
) -> Result<Json<Team>, ApiError> {
    move_member(server, caller, team, member, false).await
}

async fn move_member(
    server: Server,
    caller: Caller,
    team: String,
    member: String,
    inside: bool,
) -> Result<Json<Team>, ApiError> {
    let team = server
        .change(move |tx| {
            let scope = caller.scope();
            let team = custom(tx, scope, &team)?;
            if inside {
                put_in(tx, scope, &team, &member)?;
            } else if !identity::remove_from_team(tx, team.id, &member)? {
                return Err(ApiError::not_found(format!("`{member}` in team `{}`", team.name)));
            }
            let action = if inside { "add-member" } else { "remove-member" };
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new(action, "team", team.id, &team.name).after(&member),
            )?;
            shown(tx, scope, &team)
        })
        .await?;
    Ok(Json(team))
}
