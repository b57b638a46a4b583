//! Signing in and out, passwords, and one's sessions.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse};
use serde::Deserialize;
use slipway_access::Who;
use slipway_api::auth::{
    ChangePassword, ConfirmRequest, LoginOptions, LoginRequest, SessionInfo, SsoOption, User,
};
use slipway_api::error::ErrorBody;
use slipway_model::{Secret, UserId};
use slipway_store::identity::{self, AccountStatus};
use slipway_store::{Scope, StoreError, Tx, sso};
use utoipa::IntoParams;

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::{self, Caller, Credential, SessionRef};
use crate::identity::passwords::{PASSWORD_BYTES_MAX, check_new_password, hash_of};
use crate::identity::sessions::{self, SignIn};
use crate::identity::tokens;
use crate::identity::trail::{Actor, Entry, Trail};
use crate::seams;
use crate::settings::AccountSettings;

/// Sign in with e-mail and password; the answer sets a session cookie.
#[utoipa::path(post, path = "/api/auth/login", tag = "auth", request_body = LoginRequest,
    responses((status = 200, body = User), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 429, body = ErrorBody)))]
pub(crate) async fn login(
    State(server): State<Server>,
    trail: Trail,
    headers: HeaderMap,
    Json(request): Json<LoginRequest>,
) -> Result<impl IntoResponse, ApiError> {
    let email = request.email.trim().to_lowercase();
    let browser = auth::cookie(&headers, auth::BROWSER_COOKIE);
    let checked = password_of(&server, &trail, &email, request.password, browser.as_deref()).await;
    let user = match checked {
        Ok(user) => user,
        Err(error) => return Err(failed(&server, &trail, &email, error).await),
    };
    let old = auth::session_token(&headers).map(|token| tokens::digest(token.expose()));
    let (agent, inner) = (sessions::agent(&headers).to_owned(), server.clone());
    let (opened, account) = server
        .change(move |tx| {
            let account = account_to_enter(tx, &user, "password")?;
            // Whatever the browser came with is over: an id that somebody planted is not the one signed in.
            if let Some(old) = &old {
                identity::end_session(tx, old)?;
            }
            let sign_in = SignIn {
                user: user.id,
                account,
                method: "password",
                client: None,
                address: trail.address(),
                agent: &agent,
            };
            let opened = sessions::open(tx, &inner, &sign_in)?;
            let known = sessions::remember(tx, &inner, user.id, browser.as_deref())?;
            identity::signed_in(tx, user.id, inner.now_ms())?;
            let entry = Entry::new("login", "session", user.id, &user.email);
            trail.allowed(tx, &Actor::person(account, user.id, &user.name), &entry)?;
            Ok(([opened.cookie, known], (user.id, account, opened.csrf)))
        })
        .await?;
    let (user, account, csrf) = account;
    let body =
        server.look(move |tx| crate::identity::rest::user::shown(tx, user, account, Some(&csrf))).await?;
    Ok((AppendHeaders(opened.map(|cookie| (header::SET_COOKIE, cookie))), Json(body)))
}

async fn password_of(
    server: &Server,
    trail: &Trail,
    email: &str,
    password: String,
    browser: Option<&str>,
) -> Result<identity::User, ApiError> {
    if password.len() > PASSWORD_BYTES_MAX {
        return Err(ApiError::wrong_credentials());
    }
    let from = auth::From { address: trail.address(), browser };
    auth::check_password(server, email, Secret::new(password), &from).await
}

/// A failed sign-in is seen by those whose account it was aimed at.
async fn failed(server: &Server, trail: &Trail, email: &str, error: ApiError) -> ApiError {
    let wanted = email.to_owned();
    let known = server.store().read(move |tx| identity::user_by_email(tx, &wanted)).await.ok().flatten();
    let actor = match known {
        Some(user) => Actor::unknown(Some(user.active_account), email),
        None if server.inner.metrics.anonymous_denial(server.now_ms()) => Actor::unknown(None, email),
        None => return error,
    };
    let entry = Entry::new("login", "session", "", email).because(error.to_string());
    let _ = trail.afterwards(actor, entry, "denied", error.status().as_u16()).await;
    error
}

/// The account a new session is in: the one last used, or any other that is open to the person this way.
pub(crate) fn account_to_enter(
    tx: &mut Tx<'_>,
    user: &identity::User,
    method: &str,
) -> Result<slipway_model::AccountId, ApiError> {
    let mut all = identity::memberships_of(tx, user.id)?;
    all.sort_by_key(|membership| membership.account != user.active_account);
    let (mut by_sso_only, mut suspended) = (false, false);
    for membership in all.iter().filter(|membership| membership.account_status == AccountStatus::Active) {
        if membership.suspended {
            suspended = true;
            continue;
        }
        let account = identity::account_by_id(tx, membership.account)?;
        let password = account.is_none_or(|account| AccountSettings::of(&account).password_login);
        if method != "password" || password {
            return Ok(membership.account);
        }
        by_sso_only = true;
    }
    Err(ApiError::forbidden(if by_sso_only {
        "your account requires its identity provider: choose it on the sign-in page"
    } else if suspended {
        "you are suspended in your account: ask its Administrator"
    } else {
        "you are not a member of any active account: ask its Administrator, or an administrator of the platform if it is suspended"
    }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OptionsQuery {
    /// An account's name, or an e-mail address of a domain that is verified for one: its providers are offered too.
    of: Option<String>,
}

/// Options of the sign-in page. An account's identity provider is only shown to those who name the account.
#[utoipa::path(get, path = "/api/auth/options", tag = "auth", params(OptionsQuery), responses((status = 200, body = LoginOptions)))]
pub(crate) async fn options(
    State(server): State<Server>,
    Query(query): Query<OptionsQuery>,
) -> Result<Json<LoginOptions>, ApiError> {
    let clients = server
        .store()
        .read(move |tx| {
            let mut clients = sso::on_front_page(tx)?;
            if let Some(account) = query.of.as_deref().map(|of| named(tx, of)).transpose()?.flatten() {
                let own = sso::list(tx, Scope::of(account))?.into_iter().filter(|client| client.enabled);
                clients.extend(own.filter(|client| !client.front_page));
            }
            Ok(clients)
        })
        .await?;
    Ok(Json(LoginOptions { password: true, sso: clients.iter().map(sso_option).collect() }))
}

/// The account that somebody means on the sign-in page.
fn named(tx: &mut Tx<'_>, of: &str) -> Result<Option<slipway_model::AccountId>, StoreError> {
    let of = of.trim().to_lowercase();
    let account = match of.rsplit_once('@') {
        Some((_, domain)) => identity::domain(tx, domain)?.map(|row| row.account),
        None => identity::accounts(tx)?.into_iter().find(|account| account.name == of).map(|row| row.id),
    };
    let Some(account) = account else { return Ok(None) };
    let row = identity::account_by_id(tx, account)?;
    Ok(row.filter(|row| row.status == AccountStatus::Active).map(|row| row.id))
}

pub(crate) fn sso_option(client: &sso::SsoClient) -> SsoOption {
    let settings = crate::identity::sso::settings(client);
    SsoOption {
        display_name: match settings.display_name.as_str() {
            "" => client.name.clone(),
            name => name.to_owned(),
        },
        login_url: format!("/api/auth/{}/login", client.name),
        name: client.name.clone(),
    }
}

/// End this browser's session. Like every change by a browser it needs the CSRF token, so that other sites cannot sign users out.
#[utoipa::path(post, path = "/api/auth/logout", tag = "auth", responses((status = 204), (status = 403, body = ErrorBody)))]
pub(crate) async fn logout(
    State(server): State<Server>,
    trail: Trail,
    headers: HeaderMap,
) -> Result<impl IntoResponse, ApiError> {
    if let Some(token) = auth::session_token(&headers) {
        let hash = tokens::digest(token.expose());
        let sent = headers.get("x-csrf-token").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let sent = sent.to_owned();
        server
            .change(move |tx| {
                if let Some(session) = identity::session(tx, &hash)? {
                    if !tokens::same(&session.csrf, &sent) {
                        return Err(ApiError::no_csrf_token());
                    }
                    let name =
                        identity::user_by_id(tx, session.user)?.map(|user| user.name).unwrap_or_default();
                    identity::end_session(tx, &hash)?;
                    let actor = Actor::person(session.account, session.user, &name);
                    trail.allowed(tx, &actor, &Entry::new("logout", "session", session.id, &name))?;
                }
                Ok(())
            })
            .await?;
    }
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, sessions::ended(&server))]))
}

pub(crate) fn person(caller: &Caller) -> Result<(UserId, &str), ApiError> {
    match &caller.principal.who {
        Who::User { id, email, .. } => Ok((*id, email)),
        _ => Err(ApiError::forbidden(
            "only users can do this: service accounts and agents have no password and no session",
        )),
    }
}

pub(crate) fn browser(caller: &Caller) -> Result<&SessionRef, ApiError> {
    match &caller.credential {
        Credential::Session(session) => Ok(session),
        Credential::Key(_) => {
            Err(ApiError::bad_request("this is only for browser sessions; an API key needs no confirmation"))
        }
    }
}

/// Confirm your identity with the password, for actions that need a recent sign-in. The session id changes.
#[utoipa::path(post, path = "/api/auth/confirm", tag = "auth", request_body = ConfirmRequest,
    responses((status = 200, body = User), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody), (status = 429, body = ErrorBody)))]
pub(crate) async fn confirm(
    State(server): State<Server>,
    caller: Caller,
    headers: HeaderMap,
    Json(request): Json<ConfirmRequest>,
) -> Result<impl IntoResponse, ApiError> {
    let (id, email) = person(&caller)?;
    let session = browser(&caller)?.clone();
    let known = auth::cookie(&headers, auth::BROWSER_COOKIE);
    password_of(&server, &caller.trail, email, request.password, known.as_deref()).await?;
    let (inner, account) = (server.clone(), caller.principal.account);
    let opened = server
        .change(move |tx| {
            let opened = sessions::rotate(tx, &inner, &session, account, Some(caller.trail.address()))?;
            caller.trail.allowed(tx, &caller.actor(), &Entry::new("confirm", "session", session.id, ""))?;
            Ok(opened)
        })
        .await?;
    let csrf = opened.csrf.clone();
    let body =
        server.look(move |tx| crate::identity::rest::user::shown(tx, id, account, Some(&csrf))).await?;
    Ok(([(header::SET_COOKIE, opened.cookie)], Json(body)))
}

/// Change your password. Your other sessions end; this one gets a new id.
#[utoipa::path(post, path = "/api/auth/password", tag = "auth", request_body = ChangePassword,
    responses((status = 200, body = User), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody), (status = 429, body = ErrorBody)))]
pub(crate) async fn change_password(
    State(server): State<Server>,
    caller: Caller,
    headers: HeaderMap,
    Json(request): Json<ChangePassword>,
) -> Result<impl IntoResponse, ApiError> {
    let (id, email) = person(&caller)?;
    if caller.principal.scopes.is_limited() {
        return Err(ApiError::forbidden("a key that is limited to scopes cannot change a password"));
    }
    check_new_password(&request.new)?;
    let known = auth::cookie(&headers, auth::BROWSER_COOKIE);
    password_of(&server, &caller.trail, email, request.current, known.as_deref()).await?;
    let hash = hash_of(&server, request.new).await?;
    let (inner, account) = (server.clone(), caller.principal.account);
    let opened = server
        .change(move |tx| {
            identity::set_password(tx, id, &hash)?;
            identity::forget_browsers(tx, id)?;
            let opened = match &caller.credential {
                Credential::Session(session) => {
                    identity::end_sessions_of(tx, id, Some(&session.token_hash))?;
                    Some(sessions::rotate(tx, &inner, session, account, Some(caller.trail.address()))?)
                }
                Credential::Key(_) => {
                    identity::end_sessions_of(tx, id, None)?;
                    None
                }
            };
            caller.trail.allowed(tx, &caller.actor(), &Entry::new("change-password", "user", id, ""))?;
            Ok(opened)
        })
        .await?;
    let csrf = opened.as_ref().map(|opened| opened.csrf.clone());
    let body =
        server.look(move |tx| crate::identity::rest::user::shown(tx, id, account, csrf.as_deref())).await?;
    let mut headers = HeaderMap::new();
    if let Some(cookie) = opened.and_then(|opened| opened.cookie.parse().ok()) {
        headers.insert(header::SET_COOKIE, cookie);
    }
    Ok((headers, Json(body)))
}

/// Your browser sessions.
#[utoipa::path(get, path = "/api/auth/sessions", tag = "auth", responses((status = 200, body = [SessionInfo]), (status = 401, body = ErrorBody)))]
pub(crate) async fn sessions(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Vec<SessionInfo>>, ApiError> {
    // Robots have none.
    let Ok((id, _)) = person(&caller) else { return Ok(Json(Vec::new())) };
    let current = match &caller.credential {
        Credential::Session(session) => Some(session.id),
        Credential::Key(_) => None,
    };
    let rows = server
        .store()
        .read(move |tx| {
            let mut shown = Vec::new();
            for session in identity::sessions_of(tx, id)? {
                let account = match identity::account_name(tx, Scope::of(session.account)) {
                    Err(StoreError::NotFound { .. }) => String::new(),
                    other => other?,
                };
                shown.push(SessionInfo {
                    id: session.id.to_string(),
                    account,
                    created: seams::rfc3339(session.created_ms),
                    last_seen: seams::rfc3339(session.last_seen_ms),
                    address: session.address,
                    agent: session.agent,
                    method: session.method,
                    current: current == Some(session.id),
                });
            }
            Ok(shown)
        })
        .await?;
    Ok(Json(rows))
}

/// End one of your sessions.
#[utoipa::path(delete, path = "/api/auth/sessions/{id}", tag = "auth", params(("id" = String, Path)),
    responses((status = 200, body = String), (status = 404, body = ErrorBody)))]
pub(crate) async fn end_session(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<String>, ApiError> {
    let what = format!("session `{id}`");
    let Ok((user, _)) = person(&caller) else { return Err(ApiError::not_found(what)) };
    let parsed = id.parse().map_err(|_| ApiError::not_found(&what))?;
    server
        .change(move |tx| {
            if !identity::end_session_by_id(tx, user, parsed)? {
                return Err(ApiError::not_found(&what));
            }
            caller.trail.allowed(tx, &caller.actor(), &Entry::new("end", "session", parsed, ""))?;
            Ok(())
        })
        .await?;
    Ok(Json(id))
}
