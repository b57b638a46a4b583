//! Annotations on builds, pipelines, projects and images, as the published CLI sets them.

use axum::Json;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_api::error::ErrorBody;
use slipway_store::{Tx, annotations};
use utoipa::{IntoParams, ToSchema};

use crate::ci::annotations::is_fine;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnnotationQuery {
    entity_id: Option<String>,
    /// `build` (also `workflow`), `pipeline`, `project` or `image`.
    entity_type: Option<String>,
    key: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Annotation {
    #[serde(rename = "_id", default)]
    id: String,
    #[serde(default)]
    entity_id: String,
    #[serde(default)]
    entity_type: String,
    #[serde(default)]
    key: String,
    #[serde(default)]
    #[schema(value_type = String)]
    value: Value,
    #[serde(rename = "type", default)]
    kind: String,
}

fn kind(word: &str) -> Result<&'static str, ApiError> {
    match word {
        "build" | "workflow" => Ok("build"),
        "pipeline" => Ok("pipeline"),
        "project" => Ok("project"),
        "image" => Ok("image"),
        other => Err(ApiError::bad_request(format!(
            "`{other}` cannot be annotated: use build, pipeline, project or image"
        ))),
    }
}

/// Whoever may change the entity may annotate it; whoever may see it sees its annotations. Gives back the id under
/// which they are kept, by whatever name it was asked for.
fn require(tx: &mut Tx<'_>, caller: &Caller, kind: &str, id: &str, change: bool) -> Result<String, ApiError> {
    let action = match (kind, change) {
        (_, false) => "read",
        ("build", true) => "run",
        (_, true) => "update",
    };
    match kind {
        "build" => crate::ci::rest::builds::find_in(tx, caller, id, action).map(|row| row.id.to_string()),
        "pipeline" => crate::ci::rest::pipelines::find(tx, caller, id, action).map(|row| row.id.to_string()),
        "project" => crate::ci::rest::projects::find(tx, caller, id, action).map(|row| row.id.to_string()),
        _ => Ok(id.to_owned()),
    }
}

fn needed<'q>(value: Option<&'q String>, what: &str) -> Result<&'q str, ApiError> {
    value
        .map(String::as_str)
        .filter(|text| !text.is_empty())
        .ok_or_else(|| ApiError::bad_request(format!("{what} is needed")))
}

/// Annotations of an entity.
#[utoipa::path(get, path = "/api/annotations", tag = "annotations", params(AnnotationQuery),
    responses((status = 200, body = [Annotation]), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<AnnotationQuery>,
) -> Result<Json<Vec<Annotation>>, ApiError> {
    let found = server
        .look(move |tx| {
            let kind = kind(needed(query.entity_type.as_ref(), "entityType")?)?;
            let id = needed(query.entity_id.as_ref(), "entityId")?;
            let kept = require(tx, &caller, kind, id, false)?;
            let all = annotations::of(tx, caller.scope(), kind, &kept)?;
            Ok(all.into_iter().map(|row| shown(kind, id, &row)).collect())
        })
        .await?;
    Ok(Json(found))
}

fn shown(kind: &str, id: &str, row: &annotations::Annotation) -> Annotation {
    let value: Value = serde_json::from_str(&row.value).unwrap_or_default();
    let word = match value {
        Value::Number(_) => "number",
        Value::Bool(_) => "boolean",
        _ => "string",
    };
    Annotation {
        id: format!("{kind}/{id}/{}", row.name),
        entity_id: id.to_owned(),
        entity_type: kind.to_owned(),
        key: row.name.clone(),
        value,
        kind: word.into(),
    }
}

/// Set one annotation.
#[utoipa::path(post, path = "/api/annotations", tag = "annotations", request_body = Annotation,
    responses((status = 200, body = Annotation), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn set(
    State(server): State<Server>,
    caller: Caller,
    Json(new): Json<Annotation>,
) -> Result<Json<Annotation>, ApiError> {
    let now_ms = server.now_ms();
    let made = server
        .change(move |tx| {
            let kind = kind(&new.entity_type)?;
            if !is_fine(&new.key, &new.value) {
                return Err(ApiError::bad_request(
                    "an annotation has a key of letters, digits, `_`, `-` and `.`, and one value of up to 10000 characters",
                ));
            }
            let kept = require(tx, &caller, kind, &new.entity_id, true)?;
            let row = annotations::Annotation { name: new.key, value: new.value.to_string(), at_ms: now_ms };
            annotations::set(tx, caller.scope(), kind, &kept, &row)?;
            let made = shown(kind, &new.entity_id, &row);
            let entry = Entry::new("annotate", kind, &new.entity_id, &row.name).after(&made);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(made)
        })
        .await?;
    Ok(Json(made))
}

/// Delete an annotation, or all of an entity.
#[utoipa::path(delete, path = "/api/annotations", tag = "annotations", params(AnnotationQuery),
    responses((status = 200, body = String), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<AnnotationQuery>,
) -> Result<Json<String>, ApiError> {
    server
        .change(move |tx| {
            let kind = kind(needed(query.entity_type.as_ref(), "entityType")?)?;
            let id = needed(query.entity_id.as_ref(), "entityId")?;
            let kept = require(tx, &caller, kind, id, true)?;
            annotations::delete(tx, caller.scope(), kind, &kept, query.key.as_deref())?;
            let entry = Entry::new("remove-annotation", kind, id, query.key.as_deref().unwrap_or("all"));
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(())
        })
        .await?;
    Ok(Json("ok".into()))
}
