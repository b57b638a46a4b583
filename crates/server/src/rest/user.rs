//! Signing in and out, and who one is.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use slipway_access::{Role, Who};
use slipway_api::auth::{LoginRequest, User, UserAccount};
use slipway_api::error::ErrorBody;
use slipway_model::Secret;
use slipway_store::identity;

use crate::auth::{self, COOKIE, Caller};
use crate::ctx::Server;
use crate::error::ApiError;
use crate::tokens;

/// Sign in with e-mail and password; the answer sets a session cookie.
#[utoipa::path(post, path = "/api/auth/login", tag = "auth", request_body = LoginRequest,
    responses((status = 200, body = User), (status = 401, body = ErrorBody), (status = 429, body = ErrorBody)))]
pub(crate) async fn login(
    State(server): State<Server>,
    Json(request): Json<LoginRequest>,
) -> Result<impl IntoResponse, ApiError> {
    let user = auth::check_password(&server, request.email.trim(), Secret::new(request.password)).await?;
    let (token, csrf) = (tokens::random_token(server.seams()), tokens::random_token(server.seams()));
    let (hash, kept, now_ms, id) = (tokens::digest(&token), csrf.clone(), server.now_ms(), user.id);
    server.store().write(move |tx| identity::create_session(tx, &hash, id, &kept, now_ms)).await?;
    let secure = if server.public_url().starts_with("https:") { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={token}; Path=/; HttpOnly; SameSite=Lax{secure}");
    let account = UserAccount {
        id: user.account.to_string(),
        name: user.account_name.clone(),
        runtime_environment: None,
    };
    let body = User {
        id: user.id.to_string(),
        user_name: user.name,
        email: user.email,
        roles: vec![user.role],
        active_account_name: user.account_name,
        account: vec![account],
        csrf_token: Some(csrf),
    };
    Ok(([(header::SET_COOKIE, cookie)], Json(body)))
}

/// End this browser's session.
#[utoipa::path(post, path = "/api/auth/logout", tag = "auth", responses((status = 204)))]
pub(crate) async fn logout(
    State(server): State<Server>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, ApiError> {
    if let Some(token) = auth::session_token(&headers) {
        let hash = tokens::digest(token.expose());
        server.store().write(move |tx| identity::end_session(tx, &hash)).await?;
    }
    let cookie = format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0");
    Ok((axum::http::StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]))
}

/// Who is signed in.
#[utoipa::path(get, path = "/api/user", tag = "auth", responses((status = 200, body = User), (status = 401, body = ErrorBody)))]
pub(crate) async fn me(State(server): State<Server>, caller: Caller) -> Result<Json<User>, ApiError> {
    let scope = caller.scope();
    let name = server.store().read(move |tx| identity::account_name(tx, scope)).await?;
    let Who::User { id, name: user_name, email, role } = caller.principal.who else {
        return Err(ApiError::forbidden("this key does not speak for a person"));
    };
    let account = UserAccount {
        id: caller.principal.account.to_string(),
        name: name.clone(),
        runtime_environment: Some("local".into()),
    };
    let roles = match role {
        Role::Administrator => vec!["User".to_owned(), role.as_str().to_owned()],
        Role::User => vec![role.as_str().to_owned()],
    };
    Ok(Json(User {
        id: id.to_string(),
        user_name,
        email,
        roles,
        active_account_name: name,
        account: vec![account],
        csrf_token: caller.csrf,
    }))
}
