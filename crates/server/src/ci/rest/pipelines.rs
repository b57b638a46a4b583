//! Pipelines: read, make, replace, delete and check. [`super::runs`] starts them.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use slipway_access::{Resource, decide_on};
use slipway_api::error::ErrorBody;
use slipway_api::pipeline::{Pipeline, PipelineList};
use slipway_forge::remote::Provider;
use slipway_store::{Ask, StoreError, Tx, contexts, hooks, pipelines, projects};
use utoipa::IntoParams;

use crate::ci::orders;
use crate::ci::pipelines::stored;
use crate::ci::providers;
use crate::ci::rest::definition;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::access::{self, Granted, ProjectTags, project_of};
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;
use crate::seams;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Part of the name.
    id: Option<String>,
    offset: Option<usize>,
    limit: Option<usize>,
    /// Only of this project.
    #[serde(rename = "projectId")]
    project_id: Option<String>,
    /// Only with this tag.
    #[serde(rename = "labels[tags]")]
    tag: Option<String>,
}

/// Pipelines by name.
#[utoipa::path(get, path = "/api/pipelines", tag = "pipelines", params(ListQuery),
    responses((status = 200, body = PipelineList), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<PipelineList>, ApiError> {
    let found = server
        .look(move |tx| {
            let scope = caller.scope();
            let rules = access::rules_about(tx, &caller, "pipeline")?;
            let tags = ProjectTags::load(tx, scope)?;
            let all = projects::list(tx, scope)?;
            // An id that is nowhere has no pipelines.
            let project = query.project_id.as_ref().map(|id| {
                all.iter().find(|project| project.id.to_string() == *id).map_or("/", |found| &found.name)
            });
            let part = query.id.clone().unwrap_or_default();
            let mut rows = Vec::new();
            for row in pipelines::list(tx, scope)? {
                let Ok(body) = stored(&row) else { continue };
                let fits = row.name.contains(&part)
                    && project.is_none_or(|project| project_of(&row.name) == project)
                    && query.tag.as_deref().is_none_or(|tag| access::tags(&body).contains(&tag));
                let entity = access::pipeline_entity(&row.name, &body, &tags);
                if fits && decide_on(&caller.principal, &rules, "read", &entity).allowed {
                    rows.push(row);
                }
            }
            let count = i64::try_from(rows.len()).unwrap_or(i64::MAX);
            let page = rows.iter().skip(query.offset.unwrap_or(0)).take(query.limit.unwrap_or(25));
            let docs = page.map(|row| shown(row, &all)).collect::<Result<_, _>>()?;
            Ok(PipelineList { docs, count })
        })
        .await?;
    Ok(Json(found))
}

/// As people and clients see it: with what the server knows of it, and without secrets.
pub(crate) fn shown(row: &pipelines::Pipeline, projects: &[projects::Project]) -> Result<Pipeline, ApiError> {
    let mut pipeline = stored(row)?;
    let project = project_of(&row.name);
    let metadata = &mut pipeline.metadata;
    metadata.id = row.id.to_string();
    metadata.name.clone_from(&row.name);
    project.clone_into(&mut metadata.project);
    metadata.revision = row.revision;
    metadata.created_at = seams::rfc3339(row.created_ms);
    metadata.updated_at = seams::rfc3339(row.updated_ms);
    let short = row.name.split_once('/').map_or(row.name.as_str(), |(_, short)| short);
    metadata.other.insert("shortName".into(), short.into());
    if let Some(project) = projects.iter().find(|known| known.name == project) {
        metadata.other.insert("projectId".into(), project.id.to_string().into());
    }
    orders::mask_variables(&mut pipeline.spec.variables);
    definition::mask_triggers(&mut pipeline);
    pipeline.warnings = definition::warnings(&pipeline);
    Ok(pipeline)
}

/// The pipeline, if the caller may do this to it.
pub(crate) fn find(
    tx: &mut Tx<'_>,
    caller: &Caller,
    name: &str,
    action: &str,
) -> Result<pipelines::Pipeline, ApiError> {
    find_granted(tx, caller, name, action).map(|(row, _)| row)
}

/// The same with the decision, for what asks for one.
pub(super) fn find_granted(
    tx: &mut Tx<'_>,
    caller: &Caller,
    name: &str,
    action: &str,
) -> Result<(pipelines::Pipeline, Granted), ApiError> {
    let what = format!("pipeline `{name}`");
    tx.fetch(asks_find(caller, name))?;
    let row = pipelines::by_name(tx, caller.scope(), name)?.ok_or_else(|| ApiError::not_found(&what))?;
    let (body, tags) = (stored(&row)?, ProjectTags::load(tx, caller.scope())?);
    let entity = access::pipeline_entity(&row.name, &body, &tags);
    let granted = access::require(tx, caller, action, "read", &entity, &what)??;
    Ok((row, granted))
}

/// What [`find`] asks.
pub(super) fn asks_find(caller: &Caller, name: &str) -> Vec<Ask> {
    let scope = caller.scope();
    let mut asked = vec![pipelines::asks_by_name(scope, name), projects::asks_list(scope)];
    asked.extend(access::asks_rules_about(caller, "pipeline"));
    asked
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OneQuery {
    /// With the values of encrypted variables, for those who may change the pipeline; recorded.
    decrypt_variables: Option<String>,
}

/// One pipeline, by name or id.
#[utoipa::path(get, path = "/api/pipelines/{name}", tag = "pipelines", params(("name" = String, Path), OneQuery),
    responses((status = 200, body = Pipeline), (status = 404, body = ErrorBody)))]
pub(crate) async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<OneQuery>,
) -> Result<Json<Pipeline>, ApiError> {
    let opens = query.decrypt_variables.is_some_and(|text| text != "false");
    if !opens {
        let found = server.look(move |tx| {
            let row = find(tx, &caller, &name, "read")?;
            shown(&row, &projects::list(tx, caller.scope())?)
        });
        return Ok(Json(found.await?));
    }
    let account = caller.principal.account;
    let key = server.data_key(account).await?;
    let may_see = access::disclose(&caller, Resource::Pipelines)?;
    let found = server
        .change(move |tx| {
            let row = find(tx, &caller, &name, "update")?;
            let mut pipeline = shown(&row, &projects::list(tx, caller.scope())?)?;
            pipeline.spec.variables = stored(&row)?.spec.variables;
            orders::disclose(&may_see, &key, account, &mut pipeline.spec.variables);
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("decrypt", "pipeline", row.id, &row.name),
            )?;
            Ok(pipeline)
        })
        .await?;
    Ok(Json(found))
}

/// Everything that is checked and completed before a pipeline is kept, in the transaction that keeps it.
fn prepare(
    tx: &mut Tx<'_>,
    server: &Server,
    caller: &Caller,
    pipeline: &mut Pipeline,
    old: Option<&Pipeline>,
) -> Result<(), ApiError> {
    definition::complete(pipeline, server.seams());
    pipeline.warnings.clear();
    let mut wrong = definition::problems(pipeline);
    let (scope, account) = (caller.scope(), caller.principal.account);
    // Most have none, and need not look at the others.
    if definition::crons(pipeline) > 0 {
        let others = pipelines::list(tx, scope)?;
        let others = others.iter().filter(|row| old.is_none_or(|old| old.metadata.name != row.name));
        definition::check_crons_of_account(pipeline, others, &mut wrong);
    }
    for (index, trigger) in pipeline.spec.triggers.iter().enumerate() {
        let Some(name) = trigger.context() else { continue };
        let known = contexts::by_name(tx, scope, name)?;
        match known.as_ref().and_then(|context| Provider::of_context(&context.kind)) {
            None => wrong.push(definition::problem(
                format!("spec.triggers[{index}].context"),
                format!("trigger `{}`: there is no Git integration `{name}`", trigger.name),
            )),
            Some(_) => {
                let context = known.as_ref().expect("it has a kind");
                let entity = crate::ci::contexts::entity(context);
                access::refuse(access::may(tx, caller, "use", &entity)?, true, name)?;
            }
        }
    }
    if !wrong.is_empty() {
        return Err(ApiError::fields("this pipeline is not valid", wrong));
    }
    let key = server.keyring().account(tx, account)?;
    let before = old.map(|old| old.spec.variables.clone()).unwrap_or_default();
    orders::seal_variables(&key, server.seams(), account, &mut pipeline.spec.variables, &before);
    definition::seal_triggers(pipeline, old, &key, server.seams(), account);
    for trigger in pipeline.spec.triggers.iter().filter(|trigger| trigger.kind == "git") {
        if let Some(context) = trigger.context() {
            hooks::ensure(tx, &providers::new_hook(server, &key, account, context, &trigger.repo))?;
        }
    }
    Ok(())
}

/// Create a pipeline, and its project if it does not exist.
#[utoipa::path(post, path = "/api/pipelines", tag = "pipelines", request_body = Pipeline,
    responses((status = 200, body = Pipeline), (status = 400, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Json(mut pipeline): Json<Pipeline>,
) -> Result<Json<Pipeline>, ApiError> {
    let inner = server.clone();
    let made = server
        .change(move |tx| {
            let scope = caller.scope();
            prepare(tx, &inner, &caller, &mut pipeline, None)?;
            crate::ci::rest::projects::admit(tx, &inner, &caller, project_of(&pipeline.metadata.name))?;
            let now_ms = inner.now_ms();
            let row = pipelines::Pipeline {
                id: inner.seams().new_id(),
                name: pipeline.metadata.name.clone(),
                body: serde_json::to_string(&pipeline).map_err(StoreError::corrupt)?,
                revision: 0,
                created_ms: now_ms,
                updated_ms: now_ms,
            };
            let tags = ProjectTags::load(tx, scope)?;
            let entity = access::pipeline_entity(&row.name, &pipeline, &tags);
            access::refuse(access::may(tx, &caller, "create", &entity)?, true, &row.name)?;
            access::keep_names_that_rules_look_at(tx, &caller, &[&row.name])?;
            pipelines::create(tx, scope, &row, &caller.principal.display_name())?;
            let made = shown(&row, &projects::list(tx, scope)?)?;
            let entry = Entry::new("create", "pipeline", row.id, &row.name).after(&made);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(made)
        })
        .await?;
    Ok(Json(made))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplaceQuery {
    disable_revision_check: Option<bool>,
}

/// Replace a pipeline. Without `disableRevisionCheck` its `metadata.revision` must be the current one.
#[utoipa::path(put, path = "/api/pipelines/{name}", tag = "pipelines", params(("name" = String, Path), ReplaceQuery), request_body = Pipeline,
    responses((status = 200, body = Pipeline), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn replace(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<ReplaceQuery>,
    Json(pipeline): Json<Pipeline>,
) -> Result<Json<Pipeline>, ApiError> {
    let inner = server.clone();
    let changed = server
        .change(move |tx| {
            let expect = (query.disable_revision_check != Some(true)).then_some(pipeline.metadata.revision);
            put(tx, &inner, &caller, &name, pipeline, expect, "update")
        })
        .await?;
    Ok(Json(changed))
}

/// The one way in which a pipeline changes.
pub(crate) fn put(
    tx: &mut Tx<'_>,
    server: &Server,
    caller: &Caller,
    name: &str,
    mut pipeline: Pipeline,
    expect: Option<i64>,
    action: &str,
) -> Result<Pipeline, ApiError> {
    let scope = caller.scope();
    let known = find(tx, caller, name, "update")?;
    let old = stored(&known)?;
    prepare(tx, server, caller, &mut pipeline, Some(&old))?;
    if project_of(&pipeline.metadata.name) != project_of(&known.name) {
        crate::ci::rest::projects::admit(tx, server, caller, project_of(&pipeline.metadata.name))?;
    }
    // Tags decide who may what: nobody tags or moves a pipeline into or out of reach without the right to.
    let tags = ProjectTags::load(tx, scope)?;
    let entity = access::pipeline_entity(&pipeline.metadata.name, &pipeline, &tags);
    access::refuse(access::may(tx, caller, "update", &entity)?, true, name)?;
    access::keep_what_rules_look_at(tx, caller, &access::pipeline_entity(&known.name, &old, &tags), &entity)?;
    if pipeline.metadata.name != known.name {
        access::keep_names_that_rules_look_at(tx, caller, &[&known.name, &pipeline.metadata.name])?;
    }
    let body = serde_json::to_string(&pipeline).map_err(StoreError::corrupt)?;
    let (id, author) = (known.id, caller.principal.display_name());
    let change = pipelines::Change {
        name: &pipeline.metadata.name,
        body: &body,
        expect,
        author: &author,
        now_ms: server.now_ms(),
    };
    pipelines::replace(tx, scope, id, &change)?;
    let row = pipelines::by_name(tx, scope, &id.to_string())?
        .ok_or_else(|| ApiError::not_found(format!("pipeline `{name}`")))?;
    let projects = projects::list(tx, scope)?;
    let after = shown(&row, &projects)?;
    let entry = Entry::new(action, "pipeline", id, &row.name).before(shown(&known, &projects)?).after(&after);
    caller.trail.allowed(tx, &caller.actor(), &entry)?;
    Ok(after)
}

/// Delete a pipeline. Its builds are kept.
#[utoipa::path(delete, path = "/api/pipelines/{name}", tag = "pipelines", params(("name" = String, Path)),
    responses((status = 200, body = String), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<String>, ApiError> {
    let id = server
        .change(move |tx| {
            let row = find(tx, &caller, &name, "delete")?;
            let before = shown(&row, &projects::list(tx, caller.scope())?)?;
            pipelines::delete(tx, caller.scope(), row.id)?;
            let entry = Entry::new("delete", "pipeline", row.id, &row.name).before(before);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(row.id)
        })
        .await?;
    Ok(Json(id.to_string()))
}
