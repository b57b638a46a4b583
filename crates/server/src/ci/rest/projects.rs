//! Projects: read, make, change, delete.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use slipway_access::decide_on;
use slipway_api::error::ErrorBody;
use slipway_api::pipeline::{Project, ProjectChange, ProjectList, Variable};
use slipway_store::{Scope, StoreError, Tx, contexts, pipelines, projects};
use utoipa::IntoParams;

use crate::ci::orders;
use crate::ci::projects::entity;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::access;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;
use crate::seams;

const PIPELINES_MAX: usize = 500;

pub(crate) fn variables(row: &projects::Project) -> Result<Vec<Variable>, StoreError> {
    serde_json::from_str(&row.variables).map_err(StoreError::corrupt)
}

fn shown(row: &projects::Project, pipelines_number: usize) -> Result<Project, ApiError> {
    let mut variables = variables(row)?;
    orders::mask_variables(&mut variables);
    Ok(Project {
        id: row.id.to_string(),
        project_name: row.name.clone(),
        tags: row.tags.clone(),
        variables,
        contexts: row.contexts.clone(),
        favorite: None,
        pipelines_number: i64::try_from(pipelines_number).unwrap_or(i64::MAX),
        updated_at: seams::rfc3339(row.updated_ms),
    })
}

fn count(tx: &mut Tx<'_>, scope: Scope, project: &str) -> Result<usize, StoreError> {
    // A name without a project belongs to `default`.
    let bare = access::project_of("") == project;
    let count = pipelines::count_named(tx, scope, &format!("{project}/"), bare)?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// One more pipeline in the project: made when it is not there, refused when it is full.
pub(crate) fn admit(
    tx: &mut Tx<'_>,
    server: &Server,
    caller: &Caller,
    project: &str,
) -> Result<(), ApiError> {
    let scope = caller.scope();
    match projects::by_name(tx, scope, project)? {
        Some(_) if count(tx, scope, project)? >= PIPELINES_MAX => Err(ApiError::over_limit(format!(
            "project `{project}` has {PIPELINES_MAX} pipelines, which is the limit: use another project"
        ))),
        Some(_) => Ok(()),
        None => {
            let made = projects::ensure(tx, scope, server.seams().new_id(), project, server.now_ms())?;
            access::refuse(access::may(tx, caller, "create", &entity(&made))?, true, project)
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Part of the name.
    name: Option<String>,
    /// Only with this tag.
    tags: Option<String>,
    offset: Option<usize>,
    limit: Option<usize>,
}

/// Projects by name.
#[utoipa::path(get, path = "/api/projects", tag = "projects", params(ListQuery),
    responses((status = 200, body = ProjectList), (status = 401, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<ProjectList>, ApiError> {
    let found = server
        .look(move |tx| {
            let scope = caller.scope();
            let rules = access::rules_about(tx, &caller, "project")?;
            let part = query.name.clone().unwrap_or_default();
            let mut rows = projects::list(tx, scope)?;
            rows.retain(|row| {
                decide_on(&caller.principal, &rules, "read", &entity(row)).allowed
                    && row.name.contains(&part)
                    && query.tags.as_ref().is_none_or(|tag| row.tags.contains(tag))
            });
            let mut pipelines_of: BTreeMap<String, usize> = BTreeMap::new();
            for row in pipelines::list(tx, scope)? {
                *pipelines_of.entry(access::project_of(&row.name).to_owned()).or_default() += 1;
            }
            let number = |project: &str| pipelines_of.get(project).copied().unwrap_or(0);
            let total = i64::try_from(rows.len()).unwrap_or(i64::MAX);
            let page = rows.iter().skip(query.offset.unwrap_or(0)).take(query.limit.unwrap_or(500));
            let projects = page.map(|row| shown(row, number(&row.name))).collect::<Result<_, _>>()?;
            Ok(ProjectList { projects, total })
        })
        .await?;
    Ok(Json(found))
}

/// By id or name.
pub(crate) fn find(
    tx: &mut Tx<'_>,
    caller: &Caller,
    wanted: &str,
    action: &str,
) -> Result<projects::Project, ApiError> {
    let (scope, what) = (caller.scope(), format!("project `{wanted}`"));
    let by_id = match wanted.parse() {
        Ok(id) => projects::by_id(tx, scope, id)?,
        Err(_) => None,
    };
    let row = match by_id {
        Some(row) => row,
        None => projects::by_name(tx, scope, wanted)?.ok_or_else(|| ApiError::not_found(&what))?,
    };
    access::require(tx, caller, action, "read", &entity(&row), &what)??;
    Ok(row)
}

async fn look(server: Server, caller: Caller, wanted: String) -> Result<Json<Project>, ApiError> {
    let found = server
        .look(move |tx| {
            let row = find(tx, &caller, &wanted, "read")?;
            let number = count(tx, caller.scope(), &row.name)?;
            shown(&row, number)
        })
        .await?;
    Ok(Json(found))
}

/// One project, by id or name.
#[utoipa::path(get, path = "/api/projects/{id}", tag = "projects", params(("id" = String, Path)),
    responses((status = 200, body = Project), (status = 404, body = ErrorBody)))]
pub(crate) async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Project>, ApiError> {
    look(server, caller, id).await
}

/// One project by its name, at the path that the published CLI uses.
#[utoipa::path(get, path = "/api/projects/name/{name}", tag = "projects", params(("name" = String, Path)),
    responses((status = 200, body = Project), (status = 404, body = ErrorBody)))]
pub(crate) async fn one_by_name(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Project>, ApiError> {
    look(server, caller, name).await
}

fn check_name(name: &str, wrong: &mut Vec<String>) {
    let good =
        !name.is_empty() && name.len() <= 100 && !name.contains('/') && !name.chars().any(char::is_control);
    if !good {
        wrong.push(format!(
            "`{name}` is not a valid name for a project: use up to 100 characters, without `/`"
        ));
    }
}

fn check(
    tx: &mut Tx<'_>,
    scope: Scope,
    name: &str,
    variables: &[Variable],
    shared: &[String],
) -> Result<(), ApiError> {
    let mut wrong = Vec::new();
    check_name(name, &mut wrong);
    let mut of_variables = Vec::new();
    crate::ci::rest::definition::check_variables("", "variables", variables, &mut of_variables);
    wrong.extend(of_variables.into_iter().map(|detail| detail.message));
    for context in shared {
        if contexts::by_name(tx, scope, context)?.is_none() {
            wrong.push(format!("there is no context `{context}`"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(ApiError::findings("this project is not valid", &wrong)) }
}

/// Create a project.
#[utoipa::path(post, path = "/api/projects", tag = "projects", request_body = Project,
    responses((status = 200, body = Project), (status = 400, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Json(mut project): Json<Project>,
) -> Result<Json<Project>, ApiError> {
    let account = caller.principal.account;
    let key = server.data_key(account).await?;
    orders::seal_variables(&key, server.seams(), account, &mut project.variables, &[]);
    let (id, now_ms) = (server.seams().new_id(), server.now_ms());
    let made = server
        .change(move |tx| {
            check(tx, caller.scope(), &project.project_name, &project.variables, &project.contexts)?;
            let row = projects::Project {
                id,
                name: project.project_name,
                tags: project.tags,
                variables: serde_json::to_string(&project.variables).map_err(StoreError::corrupt)?,
                contexts: project.contexts,
                created_ms: now_ms,
                updated_ms: now_ms,
            };
            access::refuse(access::may(tx, &caller, "create", &entity(&row))?, true, &row.name)?;
            projects::create(tx, caller.scope(), &row)?;
            let made = shown(&row, 0)?;
            let entry = Entry::new("create", "project", row.id, &row.name).after(&made);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(made)
        })
        .await?;
    Ok(Json(made))
}

/// A renamed project renames its pipelines, which rules may know by name.
fn keep_names(tx: &mut Tx<'_>, caller: &Caller, old: &str, new: &str) -> Result<(), ApiError> {
    let mut names = Vec::new();
    for row in pipelines::list(tx, caller.scope())? {
        if let Some(rest) = row.name.strip_prefix(old).and_then(|rest| rest.strip_prefix('/')) {
            names.extend([format!("{new}/{rest}"), row.name.clone()]);
        }
    }
    access::keep_names_that_rules_look_at(tx, caller, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Edit a project. Renaming it renames its pipelines too.
#[utoipa::path(patch, path = "/api/projects/{id}", tag = "projects", params(("id" = String, Path)), request_body = ProjectChange,
    responses((status = 200, body = Project), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn change(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Json(change): Json<ProjectChange>,
) -> Result<Json<Project>, ApiError> {
    let account = caller.principal.account;
    let key = server.data_key(account).await?;
    let inner = server.clone();
    let changed = server
        .change(move |tx| {
            let (scope, old) = (caller.scope(), find(tx, &caller, &id, "update")?);
            let before = variables(&old)?;
            let mut after = change.variables.unwrap_or_else(|| before.clone());
            orders::seal_variables(&key, inner.seams(), account, &mut after, &before);
            let row = projects::Project {
                name: change.project_name.unwrap_or_else(|| old.name.clone()),
                tags: change.tags.unwrap_or_else(|| old.tags.clone()),
                variables: serde_json::to_string(&after).map_err(StoreError::corrupt)?,
                contexts: change.contexts.unwrap_or_else(|| old.contexts.clone()),
                updated_ms: inner.now_ms(),
                ..old.clone()
            };
            check(tx, scope, &row.name, &after, &row.contexts)?;
            // Tags decide who may what: nobody tags a project into or out of reach without the right to.
            access::refuse(access::may(tx, &caller, "update", &entity(&row))?, true, &row.name)?;
            access::keep_what_rules_look_at(tx, &caller, &entity(&old), &entity(&row))?;
            if row.name != old.name {
                keep_names(tx, &caller, &old.name, &row.name)?;
            }
            projects::update(tx, scope, &row)?;
            if row.name != old.name {
                pipelines::rename_project(tx, scope, &old.name, &row.name)?;
            }
            let number = count(tx, scope, &row.name)?;
            let shown_now = shown(&row, number)?;
            let entry = Entry::new("update", "project", row.id, &row.name)
                .before(shown(&old, number)?)
                .after(&shown_now);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(shown_now)
        })
        .await?;
    Ok(Json(changed))
}

/// Delete a project. Refused while it has pipelines.
#[utoipa::path(delete, path = "/api/projects/{id}", tag = "projects", params(("id" = String, Path)),
    responses((status = 200, body = String), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn delete(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<String>, ApiError> {
    let gone = server
        .change(move |tx| {
            let row = find(tx, &caller, &id, "delete")?;
            let number = count(tx, caller.scope(), &row.name)?;
            if number > 0 {
                return Err(ApiError::conflict(format!(
                    "project `{}` has {number} pipelines: delete or move them first",
                    row.name
                )));
            }
            projects::delete(tx, caller.scope(), row.id)?;
            let entry = Entry::new("delete", "project", row.id, &row.name).before(shown(&row, 0)?);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(row.id)
        })
        .await?;
    Ok(Json(gone.to_string()))
}
