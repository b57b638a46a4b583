//! Registries of images that the account is connected to: contexts of type `registry` under the addresses and in the
//! shape that published clients know, and what a build gets of them.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Map, Value, json};
use slipway_api::context::{Context, ContextMetadata, ContextSpec};
use slipway_api::error::ErrorBody;
use slipway_api::registry::Registry;
use slipway_store::{Tx, contexts};

use crate::ci::contexts::{self as shared, KeptContext};
use crate::ci::registries::{TYPE, is, reach, text};
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;

fn shown(row: &contexts::Context) -> Registry {
    let mut data = match shared::shown(row).spec.data {
        Value::Object(data) => data,
        _ => Map::new(),
    };
    let (default, primary) = (is(&data, "default"), is(&data, "primary"));
    data.remove("default");
    data.remove("primary");
    let mut registry: Registry = serde_json::from_value(Value::Object(data)).unwrap_or_default();
    registry.id = row.id.to_string();
    registry.name = Some(row.name.clone());
    (registry.default, registry.primary) = (Some(default), Some(primary));
    registry
}

/// As a context, over what is there already: what a client leaves out stays as it is.
fn as_context(registry: Registry, name: String, old: Option<Value>) -> Result<Context, ApiError> {
    // What is there already keeps its fields: a new one could look like another host for its password.
    let is_new = old.is_none();
    let mut data = match old {
        Some(Value::Object(old)) => old,
        _ => Map::new(),
    };
    let new = serde_json::to_value(&registry).map_err(|error| ApiError::bad_request(error.to_string()))?;
    for (key, value) in new.as_object().into_iter().flatten() {
        if key != "_id" && key != "name" {
            data.insert(key.clone(), value.clone());
        }
    }
    if is_new && text(&data, "provider").is_empty() {
        data.insert("provider".into(), json!("other"));
    }
    if let Err(why) = reach(&data) {
        return Err(ApiError::findings("this registry is not valid", &[why]));
    }
    Ok(Context {
        api_version: "v1".into(),
        kind: "context".into(),
        metadata: ContextMetadata { name, ..ContextMetadata::default() },
        spec: ContextSpec { kind: TYPE.into(), data: Value::Object(data), other: Map::new() },
        owner: None,
        note: None,
    })
}

/// By name or id.
pub(crate) fn find(
    tx: &mut Tx<'_>,
    caller: &Caller,
    wanted: &str,
    action: &str,
) -> Result<contexts::Context, ApiError> {
    let rows = contexts::list(tx, caller.scope())?;
    let found =
        rows.into_iter().find(|row| row.kind == TYPE && (row.name == wanted || row.id.to_string() == wanted));
    let row = found.ok_or_else(|| ApiError::not_found(format!("registry `{wanted}`")))?;
    shared::require(tx, caller, action, &row)?;
    Ok(row)
}

/// There is one default: the others are it no longer.
fn only_default(tx: &mut Tx<'_>, kept: &KeptContext<'_>, id: &str) -> Result<(), ApiError> {
    for row in contexts::list(tx, kept.caller.scope())?.into_iter().filter(|row| row.kind == TYPE) {
        if row.id.to_string() != id && shown(&row).default == Some(true) {
            let other = Registry { default: Some(false), ..Registry::default() };
            let context = as_context(other, row.name.clone(), Some(kept.opened(&row)))?;
            contexts::replace(tx, kept.caller.scope(), &kept.row(context, Some(&row))?)?;
        }
    }
    Ok(())
}

/// Registries of the account, with their secrets masked.
#[utoipa::path(get, path = "/api/registries", tag = "registries", responses((status = 200, body = [Registry]), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Vec<Registry>>, ApiError> {
    let found = server
        .look(move |tx| {
            let rows = contexts::list(tx, caller.scope())?.into_iter().filter(|row| row.kind == TYPE);
            let mut found = Vec::new();
            for row in rows {
                if shared::require(tx, &caller, "read", &row).is_ok() {
                    found.push(shown(&row));
                }
            }
            Ok(found)
        })
        .await?;
    Ok(Json(found))
}

/// One registry, by name or id.
#[utoipa::path(get, path = "/api/registries/{name}", tag = "registries", params(("name" = String, Path)),
    responses((status = 200, body = Registry), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Registry>, ApiError> {
    Ok(Json(server.look(move |tx| Ok(shown(&find(tx, &caller, &name, "read")?))).await?))
}

/// Connect a registry. Steps use it by its name.
#[utoipa::path(post, path = "/api/registries", tag = "registries", request_body = Registry,
    responses((status = 200, body = Registry), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Json(registry): Json<Registry>,
) -> Result<Json<Registry>, ApiError> {
    let name = registry.name.clone().unwrap_or_default();
    let context = as_context(registry, name, None)?;
    let key = server.data_key(caller.principal.account).await?;
    let inner = server.clone();
    let made = server
        .change(move |tx| {
            let kept = KeptContext { server: &inner, key: &key, caller: &caller };
            let row = kept.row(context.clone(), None)?;
            shared::require(tx, &caller, "create", &row)?;
            // Whoever may not connect one is told that, and not what would be wrong with it.
            shared::check(&context, false)?;
            contexts::create(tx, caller.scope(), &row)?;
            let made = shown(&row);
            if made.default == Some(true) {
                only_default(tx, &kept, &made.id)?;
            }
            let entry = Entry::new("create", "registry", row.id, &row.name).after(&made);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(made)
        })
        .await?;
    Ok(Json(made))
}

/// Edit a registry. What is omitted or sent back masked stays unchanged; for another host the password must be entered again.
#[utoipa::path(patch, path = "/api/registries/{name}", tag = "registries", params(("name" = String, Path)), request_body = Registry,
    responses((status = 200, body = Registry), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn change(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Json(registry): Json<Registry>,
) -> Result<Json<Registry>, ApiError> {
    let key = server.data_key(caller.principal.account).await?;
    let inner = server.clone();
    let changed = server
        .change(move |tx| {
            let old = find(tx, &caller, &name, "update")?;
            let kept = KeptContext { server: &inner, key: &key, caller: &caller };
            let new_name = registry.name.clone().unwrap_or_else(|| old.name.clone());
            if new_name != old.name && contexts::by_name(tx, caller.scope(), &new_name)?.is_some() {
                return Err(ApiError::conflict(format!("there is already a context `{new_name}`")));
            }
            let context = as_context(registry, new_name, Some(shared::shown(&old).spec.data))?;
            shared::check(&context, true)?;
            let new = kept.row(context, Some(&old))?;
            contexts::replace(tx, caller.scope(), &new)?;
            let after = shown(&new);
            if after.default == Some(true) {
                only_default(tx, &kept, &after.id)?;
            }
            let entry = Entry::new("update", "registry", new.id, &new.name).before(shown(&old)).after(&after);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(after)
        })
        .await?;
    Ok(Json(changed))
}

/// Disconnect a registry. The images in it stay.
#[utoipa::path(delete, path = "/api/registries/{name}", tag = "registries", params(("name" = String, Path)),
    responses((status = 200, body = String), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<String>, ApiError> {
    let gone = server
        .change(move |tx| {
            let row = find(tx, &caller, &name, "delete")?;
            contexts::delete(tx, caller.scope(), row.id)?;
            let entry = Entry::new("delete", "registry", row.id, &row.name).before(shown(&row));
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(row.id.to_string())
        })
        .await?;
    Ok(Json(gone))
}
