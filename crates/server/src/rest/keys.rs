//! API keys of the person who asks. A key's text is shown once, when it is made.

use axum::Json;
use axum::extract::{Path, State};
use slipway_access::Who;
use slipway_api::auth::{ApiKey, ApiKeySubject, CreateApiKey};
use slipway_api::error::ErrorBody;
use slipway_model::UserId;
use slipway_store::identity::{self, Subject};

use crate::auth::Caller;
use crate::ctx::Server;
use crate::error::ApiError;
use crate::{seams, tokens};

fn person(caller: &Caller) -> Result<UserId, ApiError> {
    match &caller.principal.who {
        Who::User { id, .. } => Ok(*id),
        _ => Err(ApiError::forbidden("only a person has API keys")),
    }
}

/// Your API keys, without their secrets.
#[utoipa::path(get, path = "/api/auth/keys", tag = "auth", responses((status = 200, body = [ApiKey]), (status = 401, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Vec<ApiKey>>, ApiError> {
    let (scope, user) = (caller.scope(), person(&caller)?);
    let rows =
        server.store().read(move |tx| identity::keys_of(tx, scope, Subject::User, &user.to_string())).await?;
    let keys = rows.into_iter().map(|row| ApiKey {
        id: row.id.to_string(),
        name: row.name,
        token_prefix: row.prefix,
        created: seams::rfc3339(row.created_ms),
        scopes: row.scopes,
        subject: ApiKeySubject { kind: row.subject_kind.as_str().into(), reference: row.subject },
    });
    Ok(Json(keys.collect()))
}

/// Make an API key. The answer is its text; it is not shown again.
#[utoipa::path(post, path = "/api/auth/key", tag = "auth", request_body = CreateApiKey,
    responses((status = 200, body = String), (status = 400, body = ErrorBody)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Json(request): Json<CreateApiKey>,
) -> Result<Json<String>, ApiError> {
    let user = person(&caller)?;
    if request.name.trim().is_empty() {
        return Err(ApiError::bad_request("an API key needs a name: say what it is for"));
    }
    let account = caller.principal.account;
    let key = tokens::new_key(
        server.seams(),
        account,
        request.name.trim(),
        Subject::User,
        &user.to_string(),
        request.scopes,
    );
    let row = key.row;
    server.store().write(move |tx| identity::create_key(tx, &row)).await?;
    Ok(Json(key.text.expose().clone()))
}

/// Revoke an API key; it stops working at once.
#[utoipa::path(delete, path = "/api/auth/key/{id}", tag = "auth", params(("id" = String, Path)),
    responses((status = 200, body = String), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<String>, ApiError> {
    let (scope, user) = (caller.scope(), person(&caller)?);
    let parsed = id.parse().map_err(|_| ApiError::not_found(format!("API key `{id}`")))?;
    let gone = server
        .store()
        .write(move |tx| {
            let mine = identity::keys_of(tx, scope, Subject::User, &user.to_string())?;
            Ok(mine.iter().any(|key| key.id == parsed) && identity::delete_key(tx, scope, parsed)?)
        })
        .await?;
    if gone { Ok(Json(id)) } else { Err(ApiError::not_found(format!("API key `{id}`"))) }
}
