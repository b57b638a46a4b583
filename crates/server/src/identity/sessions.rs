//! Opening, rotating and ending browser sessions.

use axum::http::HeaderMap;
use slipway_model::{AccountId, SsoClientId, UserId};
use slipway_store::identity::{self, Session};
use slipway_store::{StoreError, Tx};

use crate::ctx::Server;
use crate::identity::auth::{BROWSER_COOKIE, BROWSER_KNOWN_MS, COOKIE, SessionRef};
use crate::identity::tokens;

/// What the browser is given; only hashes are kept.
pub(crate) struct Opened {
    pub(crate) cookie: String,
    pub(crate) csrf: String,
}

/// Who signs in, to which account, how, from where.
pub(crate) struct SignIn<'a> {
    pub(crate) user: UserId,
    pub(crate) account: AccountId,
    pub(crate) method: &'a str,
    /// The identity provider that vouches for them.
    pub(crate) client: Option<SsoClientId>,
    pub(crate) address: &'a str,
    pub(crate) agent: &'a str,
}

/// A session id is never taken from the browser: each sign-in makes a new one.
pub(crate) fn open(tx: &mut Tx<'_>, server: &Server, sign_in: &SignIn<'_>) -> Result<Opened, StoreError> {
    let (token, csrf) = (tokens::random_token(server.seams()), tokens::random_token(server.seams()));
    let now_ms = server.now_ms();
    let session = Session {
        id: server.seams().new_id(),
        token_hash: tokens::digest(&token),
        user: sign_in.user,
        account: sign_in.account,
        csrf: csrf.clone(),
        created_ms: now_ms,
        last_seen_ms: now_ms,
        authenticated_ms: now_ms,
        address: sign_in.address.to_owned(),
        agent: sign_in.agent.chars().take(200).collect(),
        method: sign_in.method.to_owned(),
        client: sign_in.client,
    };
    identity::create_session(tx, &session)?;
    Ok(Opened { cookie: cookie(server, &token), csrf })
}

/// After a change of rights: the old id opens nothing any more, and how long the session may live does not start anew.
pub(crate) fn rotate(
    tx: &mut Tx<'_>,
    server: &Server,
    old: &SessionRef,
    account: AccountId,
    authenticated: Option<&str>,
) -> Result<Opened, StoreError> {
    let kept = identity::session(tx, &old.token_hash)?
        .ok_or_else(|| StoreError::NotFound { what: "this session".into() })?;
    identity::end_session(tx, &old.token_hash)?;
    let (token, csrf) = (tokens::random_token(server.seams()), tokens::random_token(server.seams()));
    let now_ms = server.now_ms();
    let session = Session {
        id: server.seams().new_id(),
        token_hash: tokens::digest(&token),
        csrf: csrf.clone(),
        account,
        last_seen_ms: now_ms,
        authenticated_ms: if authenticated.is_some() { now_ms } else { kept.authenticated_ms },
        address: authenticated.map_or(kept.address, str::to_owned),
        ..kept
    };
    identity::create_session(tx, &session)?;
    Ok(Opened { cookie: cookie(server, &token), csrf })
}

fn cookie(server: &Server, token: &str) -> String {
    format!("{COOKIE}={token}; Path=/; HttpOnly; SameSite=Lax{}", secure(server))
}

/// The browser is known from now on: what strangers guess does not lock it out. Gives the cookie that it is known by.
pub(crate) fn remember(
    tx: &mut Tx<'_>,
    server: &Server,
    user: UserId,
    browser: Option<&str>,
) -> Result<String, StoreError> {
    let token = match browser {
        Some(token) if identity::knows_browser(tx, user, &tokens::digest(token))? => token.to_owned(),
        _ => tokens::random_token(server.seams()),
    };
    identity::remember_browser(tx, user, &tokens::digest(&token), server.now_ms())?;
    let seconds = BROWSER_KNOWN_MS / 1000;
    Ok(format!(
        "{BROWSER_COOKIE}={token}; Path=/api/auth; HttpOnly; SameSite=Strict; Max-Age={seconds}{}",
        secure(server)
    ))
}

pub(crate) fn secure(server: &Server) -> &'static str {
    if server.public_url().starts_with("https:") { "; Secure" } else { "" }
}

pub(crate) fn ended(server: &Server) -> String {
    format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Lax{}; Max-Age=0", secure(server))
}

pub(crate) fn agent(headers: &HeaderMap) -> &str {
    headers.get(axum::http::header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
