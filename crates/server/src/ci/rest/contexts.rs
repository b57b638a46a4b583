//! Shared configuration and integrations: read masked, written sealed, decrypted for those who may, used by builds.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use slipway_access::{Resource, Role};
use slipway_api::context::Context;
use slipway_api::error::ErrorBody;
use slipway_store::{Tx, contexts};
use utoipa::IntoParams;

use crate::ci::contexts::{check, entity, find, require, row, shown, unsealed, used_by};
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::access;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;
use crate::seal::DataKey;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ContextQuery {
    /// Only of this type, or of types that begin with it.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// With secrets, for those who may; recorded.
    decrypt: Option<String>,
}

impl ContextQuery {
    fn decrypts(&self) -> bool {
        self.decrypt.as_deref().is_some_and(|text| text != "false")
    }
}

/// Puts the secrets in, if the caller may have them.
fn decrypt(
    tx: &mut Tx<'_>,
    key: &DataKey,
    caller: &Caller,
    row: &contexts::Context,
    _may_see: &access::Disclosure,
) -> Result<Context, ApiError> {
    let mut context = shown(row);
    if context.metadata.forbid_decrypt {
        return Err(ApiError::forbidden(format!(
            "the secrets of context `{}` are write-only: only builds get them",
            row.name
        )));
    }
    require(tx, caller, "update", row).map_err(|_| {
        ApiError::forbidden(format!("only those who may edit context `{}` can read its secrets", row.name))
    })?;
    if let Some(data) = unsealed(key, caller.scope(), row) {
        context.spec.data = data;
    }
    Ok(context)
}

/// Contexts, with their secrets masked.
#[utoipa::path(get, path = "/api/contexts", tag = "contexts", params(ContextQuery),
    responses((status = 200, body = [Context]), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<ContextQuery>,
) -> Result<Json<Vec<Context>>, ApiError> {
    let key = server.data_key(caller.principal.account).await?;
    let may_see = query.decrypts().then(|| access::disclose(&caller, Resource::Contexts)).transpose()?;
    let opens = may_see.is_some();
    let work = move |tx: &mut Tx<'_>| {
        let mut found = Vec::new();
        for row in contexts::list(tx, caller.scope())? {
            let wanted = query
                .kind
                .as_deref()
                .is_none_or(|kind| row.kind == kind || row.kind.starts_with(&format!("{kind}.")));
            if !wanted || require(tx, &caller, "read", &row).is_err() {
                continue;
            }
            // In a list, what may not be read stays masked.
            match may_see.as_ref().map(|may_see| decrypt(tx, &key, &caller, &row, may_see)) {
                Some(Ok(context)) => {
                    let entry = Entry::new("decrypt", "context", row.id, &row.name);
                    caller.trail.record(tx, &caller.actor(), &entry, "allowed", 200)?;
                    found.push(context);
                }
                _ => found.push(shown(&row)),
            }
        }
        Ok(found)
    };
    let found = if opens { server.change(work).await? } else { server.look(work).await? };
    Ok(Json(found))
}

/// One context. With `decrypt=true` also its secrets, for those who may edit it; every access is recorded.
#[utoipa::path(get, path = "/api/contexts/{name}", tag = "contexts", params(("name" = String, Path), ContextQuery),
    responses((status = 200, body = Context), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<ContextQuery>,
) -> Result<Json<Context>, ApiError> {
    if !query.decrypts() {
        return Ok(Json(server.look(move |tx| Ok(shown(&find(tx, &caller, &name, "read")?))).await?));
    }
    let may_see = access::disclose(&caller, Resource::Contexts)?;
    let key = server.data_key(caller.principal.account).await?;
    let context = server
        .change(move |tx| {
            let row = find(tx, &caller, &name, "read")?;
            let context = decrypt(tx, &key, &caller, &row, &may_see)?;
            let entry = Entry::new("decrypt", "context", row.id, &row.name);
            caller.trail.record(tx, &caller.actor(), &entry, "allowed", 200)?;
            Ok(context)
        })
        .await?;
    Ok(Json(context))
}

/// One context, at the path that the published CLI uses.
#[utoipa::path(get, path = "/api/contexts/{name}/prepare", tag = "contexts", params(("name" = String, Path), ContextQuery),
    responses((status = 200, body = Context), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn prepare(
    server: State<Server>,
    caller: Caller,
    name: Path<String>,
    query: Query<ContextQuery>,
) -> Result<Json<Context>, ApiError> {
    one(server, caller, name, query).await
}

async fn make(server: Server, caller: Caller, context: Context) -> Result<Json<Context>, ApiError> {
    check(&context, false)?;
    let key = server.data_key(caller.principal.account).await?;
    let inner = server.clone();
    let made = server
        .change(move |tx| {
            let row = row(&inner, &key, &caller, context, None)?;
            require(tx, &caller, "create", &row)?;
            contexts::create(tx, caller.scope(), &row)?;
            let made = shown(&row);
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("create", "context", row.id, &row.name).after(&made),
            )?;
            Ok(made)
        })
        .await?;
    Ok(Json(made))
}

/// Create a context.
#[utoipa::path(post, path = "/api/contexts", tag = "contexts", request_body = Context,
    responses((status = 200, body = Context), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Json(context): Json<Context>,
) -> Result<Json<Context>, ApiError> {
    make(server, caller, context).await
}

/// Create a context, at the path that the published CLI uses.
#[utoipa::path(post, path = "/api/contexts/", tag = "contexts", request_body = Context,
    responses((status = 200, body = Context), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create_with_slash(
    State(server): State<Server>,
    caller: Caller,
    Json(context): Json<Context>,
) -> Result<Json<Context>, ApiError> {
    make(server, caller, context).await
}

async fn put(
    server: Server,
    caller: Caller,
    name: String,
    mut context: Context,
) -> Result<Json<Context>, ApiError> {
    if context.metadata.name.is_empty() {
        context.metadata.name.clone_from(&name);
    }
    let key = server.data_key(caller.principal.account).await?;
    let inner = server.clone();
    let changed = server
        .change(move |tx| {
            let old = find(tx, &caller, &name, "update")?;
            let sent = context.clone();
            if context.metadata.name != old.name {
                let users = used_by(tx, caller.scope(), &old.name)?;
                if !users.is_empty() {
                    return Err(ApiError::conflict(format!(
                        "context `{name}` cannot be renamed, pipelines use it: {}",
                        users.join(", ")
                    )));
                }
            }
            let new = row(&inner, &key, &caller, context, Some(&old))?;
            if entity(&old).kind != entity(&new).kind && caller.principal.role() != Some(Role::Administrator) {
                return Err(ApiError::forbidden(format!(
                    "other access rules would apply to context `{name}`: only an Administrator can turn shared configuration into a Git integration, or back"
                )));
            }
            access::keep_what_rules_look_at(tx, &caller, &entity(&old), &entity(&new))?;
            // What it becomes has to be allowed too: nobody moves a secret to where others see it without the right to.
            require(tx, &caller, "update", &new)?;
            // Whoever may not change it is told that, and not what would be wrong with it.
            check(&sent, old.kind == new.kind)?;
            contexts::replace(tx, caller.scope(), &new)?;
            let after = shown(&new);
            let entry = Entry::new("update", "context", new.id, &new.name).before(shown(&old)).after(&after);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(after)
        })
        .await?;
    Ok(Json(changed))
}

/// Replace a context. A secret that is sent back masked keeps its value, unless its host changes: then it must be entered again.
#[utoipa::path(put, path = "/api/contexts/{name}", tag = "contexts", params(("name" = String, Path)), request_body = Context,
    responses((status = 200, body = Context), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn replace(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Json(context): Json<Context>,
) -> Result<Json<Context>, ApiError> {
    put(server, caller, name, context).await
}

/// Replace a context: the published CLI sends the whole context here.
#[utoipa::path(patch, path = "/api/contexts/{name}", tag = "contexts", params(("name" = String, Path)), request_body = Context,
    responses((status = 200, body = Context), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn patch(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Json(context): Json<Context>,
) -> Result<Json<Context>, ApiError> {
    put(server, caller, name, context).await
}

/// Delete a context. Refused while a pipeline uses it.
#[utoipa::path(delete, path = "/api/contexts/{name}", tag = "contexts", params(("name" = String, Path)),
    responses((status = 200, body = String), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn delete(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<String>, ApiError> {
    let gone = name.clone();
    server
        .change(move |tx| {
            let row = find(tx, &caller, &name, "delete")?;
            let users = used_by(tx, caller.scope(), &row.name)?;
            if !users.is_empty() {
                return Err(ApiError::conflict(format!(
                    "context `{name}` cannot be deleted, pipelines use it: {}; remove it from those first",
                    users.join(", ")
                )));
            }
            contexts::delete(tx, caller.scope(), row.id)?;
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("delete", "context", row.id, &row.name).before(shown(&row)),
            )?;
            Ok(())
        })
        .await?;
    Ok(Json(gone))
}
