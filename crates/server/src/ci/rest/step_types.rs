//! Definitions of steps that an account has of its own, as the published CLI writes and reads them (`kind: step-type`).
//!
//! A version that is written again is replaced; its digest says so to whoever pinned it. Runners ask for those that a
//! build needs (`agent::step_types`).

use std::collections::BTreeMap;

use aws_lc_rs::digest;
use axum::Json;
use axum::extract::{Path, Query, State};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use slipway_api::error::ErrorBody;
use slipway_store::step_types::{self, StepType};
use slipway_store::{Scope, StoreError, Tx};
use utoipa::{IntoParams, ToSchema};

use crate::ci::step_types::ordering;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;
use crate::seams;

const BODY_BYTES_MAX: usize = 64 << 10;

/// All of them are looked through for a build that names one.
const VERSIONS_MAX: usize = 200;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StepTypePage {
    #[schema(value_type = Vec<Object>)]
    docs: Vec<Manifest>,
    total: usize,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct StepTypeQuery {
    /// Part of the name.
    name: Option<String>,
    /// The whole name.
    id: Option<String>,
    category: Option<String>,
    offset: Option<usize>,
    limit: Option<usize>,
}

/// Kept as the text that came in: the order of steps is the order they run in.
type Manifest = BTreeMap<String, Box<RawValue>>;

fn metadata(manifest: &Manifest) -> Result<Value, StoreError> {
    let text = manifest.get("metadata").map_or("{}", |raw| raw.get());
    serde_json::from_str(text).map_err(StoreError::corrupt)
}

fn shown(row: &StepType) -> Result<Manifest, StoreError> {
    let mut manifest: Manifest = serde_json::from_str(&row.body).map_err(StoreError::corrupt)?;
    let mut metadata = metadata(&manifest)?;
    metadata["created_at"] = json!(seams::rfc3339(row.created_ms));
    metadata["updated_at"] = json!(seams::rfc3339(row.updated_ms));
    // Beside the metadata: published clients compare those with what they wrote.
    manifest.insert("digest".into(), to_raw_value(&row.digest).map_err(StoreError::corrupt)?);
    manifest.insert("metadata".into(), to_raw_value(&metadata).map_err(StoreError::corrupt)?);
    Ok(manifest)
}

/// The highest version of each name.
fn latest(rows: Vec<StepType>) -> Vec<StepType> {
    let mut best: BTreeMap<String, StepType> = BTreeMap::new();
    for row in rows {
        let newer = |known: &StepType| ordering(&row.version) > ordering(&known.version);
        if best.get(&row.name).is_none_or(newer) {
            best.insert(row.name.clone(), row);
        }
    }
    best.into_values().collect()
}

/// `NAME` is its highest version, `NAME:VERSION` that one.
fn find(tx: &mut Tx<'_>, scope: Scope, wanted: &str) -> Result<StepType, ApiError> {
    let (name, version) = match wanted.rsplit_once(':') {
        Some((name, version)) => (name, Some(version)),
        None => (wanted, None),
    };
    let mut rows = step_types::list(tx, scope)?;
    rows.retain(|row| row.name == name && version.is_none_or(|version| version == row.version));
    latest(rows).pop().ok_or_else(|| ApiError::not_found(format!("step type `{wanted}`")))
}

/// Step types, the highest version of each.
#[utoipa::path(get, path = "/api/step-types", tag = "step-types", params(StepTypeQuery),
    responses((status = 200, body = StepTypePage), (status = 401, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<StepTypeQuery>,
) -> Result<Json<StepTypePage>, ApiError> {
    let rows = server.look(move |tx| Ok(latest(step_types::list(tx, caller.scope())?))).await?;
    let part = query.name.unwrap_or_default();
    let mut docs = Vec::new();
    for row in rows.iter().filter(|row| row.name.contains(&part)) {
        let manifest = shown(row)?;
        let metadata = metadata(&manifest)?;
        let in_category = query.category.as_ref().is_none_or(|wanted| {
            metadata["categories"].as_array().into_iter().flatten().any(|one| one == wanted)
        });
        if in_category && query.id.as_ref().is_none_or(|id| *id == row.name) {
            docs.push(manifest);
        }
    }
    let total = docs.len();
    let docs = docs.into_iter().skip(query.offset.unwrap_or(0)).take(query.limit.unwrap_or(100)).collect();
    Ok(Json(StepTypePage { docs, total }))
}

/// One step type: `NAME`, or `NAME:VERSION`.
#[utoipa::path(get, path = "/api/step-types/{name}", tag = "step-types", params(("name" = String, Path)),
    responses((status = 200, body = Object), (status = 404, body = ErrorBody)))]
pub(crate) async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Manifest>, ApiError> {
    let row = server.look(move |tx| find(tx, caller.scope(), &name)).await?;
    Ok(Json(shown(&row)?))
}

/// Versions of a step type, the highest first.
#[utoipa::path(get, path = "/api/step-types/{name}/versions", tag = "step-types", params(("name" = String, Path)),
    responses((status = 200, body = [String]), (status = 404, body = ErrorBody)))]
pub(crate) async fn versions(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Vec<String>>, ApiError> {
    let found = server
        .look(move |tx| {
            // Of `NAME:VERSION` too: whoever looks at one version asks which others there are.
            let name = find(tx, caller.scope(), &name)?.name;
            let rows = step_types::list(tx, caller.scope())?;
            let mut all: Vec<_> =
                rows.into_iter().filter(|row| row.name == name).map(|row| row.version).collect();
            all.sort_by_key(|version| std::cmp::Reverse(ordering(version)));
            Ok(all)
        })
        .await?;
    Ok(Json(found))
}

/// The name and version of a manifest, or everything that is wrong with it.
fn check(text: &RawValue) -> Result<(String, String), ApiError> {
    let manifest: Value =
        serde_json::from_str(text.get()).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let mut wrong = Vec::new();
    if manifest["kind"] != "step-type" {
        wrong.push("`kind` is not `step-type`".to_owned());
    }
    let name = manifest["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    if name.is_empty() || name.len() > 200 || !name.chars().all(plain) {
        wrong.push("`metadata.name` may only have letters, digits, `-`, `_`, `.` and `/`".to_owned());
    }
    let version = manifest["metadata"]["version"].as_str().unwrap_or("0.0.0").to_owned();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.');
    if version.len() > 50 || !version.chars().all(plain) {
        wrong.push(format!("`{version}` is not a version such as 1.2.3"));
    }
    let spec = &manifest["spec"];
    if !spec["steps"].is_object() && !spec["stepsTemplate"].is_string() {
        wrong.push("it has neither `spec.steps` nor `spec.stepsTemplate`".to_owned());
    }
    for field in ["arguments", "returns"] {
        if let Some(Err(error)) = spec[field].as_str().map(serde_json::from_str::<Value>) {
            wrong.push(format!("`spec.{field}` is a text that is not JSON: {error}"));
        }
    }
    if text.get().len() > BODY_BYTES_MAX {
        wrong.push(format!("it is longer than {BODY_BYTES_MAX} bytes"));
    }
    if wrong.is_empty() {
        return Ok((name, version));
    }
    Err(ApiError::findings("this step type is not valid", &wrong))
}

async fn keep(
    server: Server,
    caller: Caller,
    manifest: Box<RawValue>,
    new: bool,
) -> Result<Json<Manifest>, ApiError> {
    let (name, version) = check(&manifest)?;
    let now_ms = server.now_ms();
    let body = manifest.get().to_owned();
    let digest = format!("sha256:{}", hex::encode(digest::digest(&digest::SHA256, body.as_bytes())));
    let row = StepType { name, version, body, digest, created_ms: now_ms, updated_ms: now_ms };
    let made = server
        .change(move |tx| {
            let scope = caller.scope();
            let known = step_types::list(tx, scope)?;
            let old = known.iter().find(|old| old.name == row.name && old.version == row.version);
            if new && old.is_some() {
                return Err(ApiError::conflict(format!(
                    "version {1} of step type `{0}` already exists: replace it, or choose another version",
                    row.name, row.version
                )));
            }
            if old.is_none() && known.len() >= VERSIONS_MAX {
                return Err(ApiError::over_limit(format!(
                    "the account has {VERSIONS_MAX} versions of step types, which is the limit: delete old ones"
                )));
            }
            step_types::put(tx, scope, &row)?;
            let what = format!("{}:{} {}", row.name, row.version, row.digest);
            let word = if old.is_some() { "replace" } else { "create" };
            let entry = Entry::new(word, "step-type", &row.name, &row.name).after(what);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(shown(&row)?)
        })
        .await?;
    Ok(Json(made))
}

/// Create a version of a step type.
#[utoipa::path(post, path = "/api/step-types", tag = "step-types", request_body = Object,
    responses((status = 200, body = Object), (status = 400, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Json(manifest): Json<Box<RawValue>>,
) -> Result<Json<Manifest>, ApiError> {
    keep(server, caller, manifest, true).await
}

/// Replace a version of a step type, or add one.
#[utoipa::path(put, path = "/api/step-types/{name}", tag = "step-types", params(("name" = String, Path)), request_body = Object,
    responses((status = 200, body = Object), (status = 400, body = ErrorBody)))]
pub(crate) async fn replace(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Json(manifest): Json<Box<RawValue>>,
) -> Result<Json<Manifest>, ApiError> {
    let (written, _) = check(&manifest)?;
    if name.rsplit_once(':').map_or(name.as_str(), |(name, _)| name) != written {
        return Err(ApiError::bad_request(format!(
            "`metadata.name` is `{written}`, but the URL says `{name}`"
        )));
    }
    keep(server, caller, manifest, false).await
}

/// Delete all versions of a step type, or `NAME:VERSION`.
#[utoipa::path(delete, path = "/api/step-types/{name}", tag = "step-types", params(("name" = String, Path)),
    responses((status = 200, body = String), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<String>, ApiError> {
    server
        .change(move |tx| {
            let row = find(tx, caller.scope(), &name)?;
            let version = name.contains(':').then_some(row.version.as_str());
            step_types::delete(tx, caller.scope(), &row.name, version)?;
            let entry =
                Entry::new("delete", "step-type", &row.name, &row.name).after(version.unwrap_or("all"));
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(())
        })
        .await?;
    Ok(Json("ok".into()))
}
