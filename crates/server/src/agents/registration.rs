//! How a runner comes to its key: an administrator makes a token for a name, the runner trades it for a key of its own.
//!
//! The secret of the key is made by the runner and never sent: the server gets its digest. A token is good for an hour
//! and for one secret, so trading it twice with the same secret is trading it once (an answer may get lost), and
//! whoever finds it later can do nothing with it. A runner's name is the runtime environment that its builds ask for.

use axum::Json;
use axum::extract::{Path, State};
use slipway_api::agent::{CreateRunner, RegisterRunner, RegisteredRunner, RunnerToken};
use slipway_api::error::ErrorBody;
use slipway_model::ApiKeyId;
use slipway_store::identity::{self, ApiKey, Subject};
use slipway_store::{Scope, Tx, builds};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::tokens;
use crate::identity::trail::{Actor, Entry, Trail};
use crate::seams;

pub(crate) const TOKEN_LIVES_MS: i64 = 3_600_000;
/// Scopes of a key row that is a token: it opens nothing but the registration.
pub(super) const UNUSED: &str = "register";
const USED: &str = "registered:";

/// Create a registration token for a runner. An existing runner of that name keeps its key until the token is used.
#[utoipa::path(post, path = "/api/runners", tag = "runners", request_body = CreateRunner,
    responses((status = 200, body = RunnerToken), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Json(request): Json<CreateRunner>,
) -> Result<Json<RunnerToken>, ApiError> {
    crate::http::input::plain_name("a runner", &request.name)?;
    let account = caller.scope().account();
    let scopes = vec![UNUSED.to_owned()];
    let token =
        tokens::new_key(server.seams(), account, "registration", Subject::Runner, &request.name, scopes);
    let expires = seams::rfc3339(token.row.created_ms + TOKEN_LIVES_MS);
    let (row, name) = (token.row, request.name.clone());
    server
        .change(move |tx| {
            for old in identity::keys_of(tx, caller.scope(), Subject::Runner, &name)? {
                if is_token(&old) {
                    identity::delete_key(tx, caller.scope(), old.id)?;
                }
            }
            identity::create_key(tx, &row)?;
            let entry = Entry::new("create", "runner-token", row.id, &name);
            Ok(caller.trail.allowed(tx, &caller.actor(), &entry)?)
        })
        .await?;
    Ok(Json(RunnerToken { name: request.name, token: token.text.expose().clone(), expires }))
}

/// Exchange a registration token for a key. It needs no other credential; a token is valid once.
#[utoipa::path(post, path = "/api/agent/runner/register", tag = "runners", request_body = RegisterRunner,
    responses((status = 200, body = RegisteredRunner), (status = 400, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn register(
    State(server): State<Server>,
    trail: Trail,
    Json(request): Json<RegisterRunner>,
) -> Result<Json<RegisteredRunner>, ApiError> {
    let digest = request.secret_digest.to_ascii_lowercase();
    if digest.len() != 64 || !digest.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(ApiError::bad_request("`secretDigest` is the SHA-256 of the runner's secret, in hex"));
    }
    let (inner, noting) = (server.clone(), trail.clone());
    let registered = server
        .change(move |tx| {
            let token = by_token(tx, &inner, &request.token)?;
            let scope = Scope::of(token.account);
            let actor = Actor::unknown(Some(token.account), &format!("runner {}", token.subject));
            let used = token.scopes.iter().find_map(|word| word.strip_prefix(USED));
            if let Some(used) = used {
                let kept = identity::keys_of(tx, scope, Subject::Runner, &token.subject)?;
                let kept = kept.into_iter().find(|key| !is_token(key) && key.secret_hash == digest);
                return match kept.filter(|_| tokens::same(used, &digest)) {
                    Some(key) => Ok(Ok(RegisteredRunner { name: token.subject, key_id: key.id.to_string() })),
                    // Somebody has this token who should not: that is worth knowing.
                    None => Ok(Err((actor, Entry::new("register", "runner", token.id, &token.subject)))),
                };
            }
            for old in identity::keys_of(tx, scope, Subject::Runner, &token.subject)? {
                if !is_token(&old) {
                    identity::delete_key(tx, scope, old.id)?;
                }
            }
            let mut key = tokens::new_key(
                inner.seams(),
                token.account,
                "runner",
                Subject::Runner,
                &token.subject,
                Vec::new(),
            );
            key.row.prefix = digest[..6].to_owned();
            key.row.secret_hash.clone_from(&digest);
            identity::create_key(tx, &key.row)?;
            identity::change_key(tx, scope, token.id, &token.name, &[format!("{USED}{digest}")])?;
            let entry = Entry::new("register", "runner", key.row.id, &token.subject);
            noting.allowed(tx, &actor, &entry)?;
            Ok(Ok(RegisteredRunner { name: token.subject, key_id: key.row.id.to_string() }))
        })
        .await?;
    match registered {
        Ok(registered) => Ok(Json(registered)),
        Err((actor, entry)) => {
            let why = "the registration token was already used by another runner";
            tracing::warn!(address = trail.address(), "A registration token was used a second time.");
            trail.afterwards(actor, entry.because(why), "denied", 409).await?;
            Err(ApiError::conflict(
                "this registration token was already used by another runner: if that runner is not yours, remove it with `slipway runner uninstall`; then create a new token",
            ))
        }
    }
}

/// Delete a runner: its key stops working, and its builds go to others.
#[utoipa::path(delete, path = "/api/runners/{name}", tag = "runners", params(("name" = String, Path)),
    responses((status = 200, body = bool), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<bool>, ApiError> {
    server
        .change(move |tx| {
            let keys = identity::keys_of(tx, caller.scope(), Subject::Runner, &name)?;
            if keys.is_empty() {
                return Err(ApiError::not_found(format!("runner `{name}`")));
            }
            identity::delete_keys_of(tx, caller.scope(), Subject::Runner, &name)?;
            // Whoever removes it says that it will not be back.
            builds::forget_unknown(tx, caller.scope(), &name, &[])?;
            builds::runner_gone(tx, caller.scope(), &name)?;
            let entry = Entry::new("delete", "runner", &name, &name);
            Ok(caller.trail.allowed(tx, &caller.actor(), &entry)?)
        })
        .await?;
    Ok(Json(true))
}

/// Such a row authenticates nobody.
pub(crate) fn is_token(key: &ApiKey) -> bool {
    key.subject_kind == Subject::Runner && !key.scopes.is_empty()
}

fn by_token(tx: &mut Tx<'_>, server: &Server, text: &str) -> Result<ApiKey, ApiError> {
    let refused = || {
        ApiError::bad_request(
            "this registration token is unknown or has expired: create a new one with `slipway runner token NAME`",
        )
    };
    let (id, secret) = text.split_once('.').ok_or_else(refused)?;
    let id: ApiKeyId = id.parse().map_err(|_| refused())?;
    let row = identity::key_by_id(tx, id)?;
    let kept = row.as_ref().map_or("", |row| row.secret_hash.as_str());
    let matches = tokens::same(kept, &tokens::digest(secret));
    row.filter(|row| matches && is_token(row) && server.now_ms() - row.created_ms < TOKEN_LIVES_MS)
        .ok_or_else(refused)
}
