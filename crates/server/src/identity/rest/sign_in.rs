//! Signing in through an account's identity provider, linking an identity to oneself, accepting an invitation that way.
//!
//! A provider speaks for one account: it says who comes into that account, and nothing it says counts in another or on
//! the platform. Whom it may bring in is in [`vouched`].

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use slipway_api::error::ErrorBody;
use slipway_api::identity::InvitationToken;
use slipway_api::sso::{LinkStarted, SsoSettings};
use slipway_model::Secret;
use slipway_store::identity::{self, AccountStatus};
use slipway_store::sso::{self, SsoLogin};
use slipway_store::{Scope, Tx};
use utoipa::IntoParams;

use crate::background::housekeeping::SSO_LOGIN_MS;
use crate::ctx::Server;
use crate::http::error::{ApiError, Refusal};
use crate::identity::auth::{self, Caller, SessionRef};
use crate::identity::oidc::{self, Claims, SetOut};
use crate::identity::rest::sso_teams::sync_teams;
use crate::identity::rest::{invitations, vouched};
use crate::identity::sessions::{self, SignIn};
use crate::identity::sso::{callback_url, place, settings};
use crate::identity::tokens;
use crate::identity::trail::{Actor, Entry, Trail};

/// Why a sign-in failed, for the sign-in page to show.
const PROBLEM_COOKIE: &str = "slipway_sign_in_problem";
/// Holds the browser that set out to the one that comes back.
const BROWSER_COOKIE: &str = "slipway_sso";

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct BeginQuery {
    /// A page of this site to come back to, beginning with `/`.
    return_to: Option<String>,
}

/// A path of this site and nothing that a browser could take for another one.
pub(crate) fn safe_return(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && !path.chars().any(|c| c == '\\' || c.is_control() || c.is_whitespace())
}

fn open_client(tx: &mut Tx<'_>, name: &str) -> Result<(sso::SsoClient, identity::Account), ApiError> {
    let what = || ApiError::not_found(format!("identity provider `{name}`"));
    let row = sso::by_name(tx, name)?.filter(|row| row.enabled).ok_or_else(what)?;
    let account = identity::account_by_id(tx, row.account)?;
    let account = account.filter(|account| account.status == AccountStatus::Active).ok_or_else(what)?;
    Ok((row, account))
}

/// What somebody sets out for. A plain sign-in has neither.
#[derive(Default)]
struct Errand {
    return_to: String,
    /// Who is signed in, and the hash of that session.
    link: Option<(String, String)>,
    /// Hash of an invitation's token.
    invitation: Option<String>,
}

/// Sign in with an identity provider: redirects the browser to it.
#[utoipa::path(get, path = "/api/auth/{client}/login", tag = "auth", params(("client" = String, Path), BeginQuery),
    responses((status = 302), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn begin(
    State(server): State<Server>,
    Path(name): Path<String>,
    Query(query): Query<BeginQuery>,
    headers: HeaderMap,
) -> Response {
    let begun = async {
        let return_to = query.return_to.unwrap_or_else(|| "/".to_owned());
        if !safe_return(&return_to) {
            return Err(ApiError::bad_request(
                "return_to must be a page of this site that begins with a single `/`",
            ));
        }
        let (row, _) = server.look(move |tx| open_client(tx, &name)).await?;
        let (address, cookie) = set_out(&server, &row, Errand { return_to, ..Errand::default() }).await?;
        redirect(&address, &[cookie])
    };
    match begun.await {
        Ok(onward) => onward.into_response(),
        Err(error) => refused(&server, &headers, error),
    }
}

/// Start linking an identity of one of your accounts' providers. The answer names account and issuer, and
/// where to redirect the browser; nothing is linked before it returns.
#[utoipa::path(post, path = "/api/user/identities/{client}", tag = "auth", params(("client" = String, Path)),
    responses((status = 200, body = LinkStarted), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn link(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<impl IntoResponse, ApiError> {
    let session = crate::identity::rest::auth::browser(&caller)?.clone();
    let (id, _) = crate::identity::rest::auth::person(&caller)?;
    let (row, account) = server
        .look(move |tx| {
            let found = open_client(tx, &name)?;
            // Somebody else's provider has no business with this person, whatever a link in a mail says.
            let member = identity::member(tx, Scope::of(found.0.account), id)?;
            member.filter(identity::Member::is_open).map(|_| found).ok_or_else(|| {
                ApiError::not_found(format!("identity provider `{name}` of one of your accounts"))
            })
        })
        .await?;
    within_reach(&session, &row)?;
    let errand = Errand {
        return_to: "/profile".to_owned(),
        link: Some((id.to_string(), session.token_hash)),
        invitation: None,
    };
    let (url, cookie) = set_out(&server, &row, errand).await?;
    let body = LinkStarted { url, account: account.name, issuer: settings(&row).issuer, client: row.name };
    Ok((cookies(&[cookie])?, Json(body)))
}

/// A session that a provider vouched for decides about that provider's account and about nothing else.
fn within_reach(session: &SessionRef, row: &sso::SsoClient) -> Result<(), ApiError> {
    if session.client.is_none() || session.client == Some(row.id) {
        return Ok(());
    }
    Err(ApiError::forbidden(
        "you signed in with an identity provider: sign in with your password to link another",
    ))
}

/// Accept an invitation with an identity provider of the account: the answer says where to redirect the browser.
#[utoipa::path(post, path = "/api/auth/{client}/invitation", tag = "auth", params(("client" = String, Path)), request_body = InvitationToken,
    responses((status = 200, body = LinkStarted), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn accept_through(
    State(server): State<Server>,
    Path(name): Path<String>,
    Json(request): Json<InvitationToken>,
) -> Result<impl IntoResponse, ApiError> {
    let (inner, token) = (server.clone(), request.token.clone());
    let (row, account) = server
        .look(move |tx| {
            let (row, account) = open_client(tx, &name)?;
            let (_, invites) = invitations::by_token(tx, &inner, &token)?;
            if invites.id != account.id {
                return Err(ApiError::not_found(format!("identity provider `{name}` of this account")));
            }
            Ok((row, account))
        })
        .await?;
    let errand =
        Errand { return_to: "/".to_owned(), link: None, invitation: Some(tokens::digest(&request.token)) };
    let (url, cookie) = set_out(&server, &row, errand).await?;
    let body = LinkStarted { url, account: account.name, issuer: settings(&row).issuer, client: row.name };
    Ok((cookies(&[cookie])?, Json(body)))
}

/// Notes down the errand; gives the provider's address and the cookie that ties the way back to this browser.
async fn set_out(
    server: &Server,
    row: &sso::SsoClient,
    errand: Errand,
) -> Result<(String, String), ApiError> {
    let settings = settings(row);
    let provider = oidc::discover(&server.inner.egress, &settings)
        .await
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    // 256 random bits each.
    let [state, nonce, verifier, browser] = [(); 4].map(|()| tokens::random_token(server.seams()));
    let redirect_uri = callback_url(server, &row.name);
    let out = SetOut { state: &state, nonce: &nonce, verifier: &verifier, redirect_uri: &redirect_uri };
    let address = oidc::authorization_url(&provider, &settings, &out)
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    let (link_user, link_session) = errand.link.unzip();
    let login = SsoLogin {
        state_hash: tokens::digest(&state),
        client: row.name.clone(),
        nonce,
        verifier,
        return_to: errand.return_to,
        browser_hash: tokens::digest(&browser),
        link_user,
        link_session,
        invitation: errand.invitation,
        created_ms: server.now_ms(),
    };
    server.store().write(move |tx| sso::begin_login(tx, &login)).await?;
    let secure = sessions::secure(server);
    let cookie =
        format!("{BROWSER_COOKIE}={browser}; Path=/api/auth; HttpOnly; SameSite=Lax; Max-Age=600{secure}");
    Ok((address, cookie))
}

fn value(text: &str) -> Result<HeaderValue, ApiError> {
    HeaderValue::from_str(text).map_err(|_| ApiError::bad_request("this address is not valid"))
}

fn cookies(cookies: &[String]) -> Result<HeaderMap, ApiError> {
    let mut headers = HeaderMap::new();
    for cookie in cookies {
        headers.append(header::SET_COOKIE, value(cookie)?);
    }
    Ok(headers)
}

fn redirect(to: &str, set: &[String]) -> Result<(StatusCode, HeaderMap), ApiError> {
    let mut headers = cookies(set)?;
    headers.insert(header::LOCATION, value(to)?);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok((StatusCode::FOUND, headers))
}

/// A person is shown the sign-in page with the sentence on it; a program gets the error as every other.
///
/// The sentence travels in a cookie: in the address anybody could write one and send people there.
fn refused(server: &Server, headers: &HeaderMap, error: ApiError) -> Response {
    let person = headers
        .get_all(header::ACCEPT)
        .iter()
        .any(|value| value.to_str().is_ok_and(|value| value.contains("text/html")));
    if !person {
        return error.into_response();
    }
    // As `decodeURIComponent` reads it.
    let sentence = slipway_dialect::percent::encode(&error.to_string());
    let secure = sessions::secure(server);
    let cookie = format!("{PROBLEM_COOKIE}={sentence}; Path=/login; SameSite=Lax; Max-Age=60{secure}");
    let mut response = match redirect("/login", &[cookie]) {
        Ok(onward) => onward.into_response(),
        Err(_) => return error.into_response(),
    };
    // The guard of the route records it as the refusal it is.
    let refusal = error.into_response().extensions_mut().remove::<Refusal>();
    if let Some(refusal) = refusal {
        response.extensions_mut().insert(refusal);
    }
    response
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CallbackQuery {
    code: Option<String>,
    state: Option<String>,
    error: Option<String>,
}

/// Redirect target of the identity provider.
#[utoipa::path(get, path = "/api/auth/{client}/callback", tag = "auth", params(("client" = String, Path), CallbackQuery),
    responses((status = 302), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn callback(
    State(server): State<Server>,
    trail: Trail,
    Path(name): Path<String>,
    Query(query): Query<CallbackQuery>,
    headers: HeaderMap,
) -> Response {
    match come_back(&server, trail, name, query, &headers).await {
        Ok(onward) => onward.into_response(),
        Err(error) => refused(&server, &headers, error),
    }
}

async fn come_back(
    server: &Server,
    trail: Trail,
    name: String,
    query: CallbackQuery,
    headers: &HeaderMap,
) -> Result<(StatusCode, HeaderMap), ApiError> {
    let (state, login) = the_one_that_set_out(server, &name, &query, headers).await?;
    if let Some(error) = query.error {
        let word: String =
            error.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(60).collect();
        return Err(ApiError::bad_request(format!("the identity provider refused: {word}")));
    }
    let code = query.code.ok_or_else(over)?;
    let (row, _) = server.look(move |tx| open_client(tx, &name)).await?;
    let settings = settings(&row);
    let claims = match ask(server, &row, &settings, &login, &state, &code).await {
        Ok(claims) => claims,
        Err(reason) => {
            let entry = Entry::new("login", "session", "", &row.name).because(reason.clone());
            let _ =
                trail.afterwards(Actor::unknown(Some(row.account), &row.name), entry, "denied", 401).await;
            return Err(ApiError::refused_sign_in(reason));
        }
    };
    let called = claims.email.clone().unwrap_or_else(|| claims.sub.clone());
    let (account, aimed_at, return_to) = (row.account, trail.clone(), login.return_to.clone());
    let arrived = arrive(server, trail, row, settings, claims, login, headers).await;
    let session = match arrived {
        Ok(session) => session,
        Err(error) => {
            // A failed sign-in is seen by those whose account it was aimed at.
            let entry = Entry::new("login", "session", "", &called).because(error.to_string());
            let (actor, status) = (Actor::unknown(Some(account), &called), error.status().as_u16());
            let _ = aimed_at.afterwards(actor, entry, "denied", status).await;
            return Err(error);
        }
    };
    let forget = format!("{BROWSER_COOKIE}=; Path=/api/auth; HttpOnly; SameSite=Lax; Max-Age=0");
    let set: Vec<String> = session.into_iter().chain([forget]).collect();
    redirect(&return_to, &set)
}

fn over() -> ApiError {
    ApiError::bad_request("this sign-in has expired or was started in another browser: sign in again")
}

/// State and browser together find one errand, once.
async fn the_one_that_set_out(
    server: &Server,
    name: &str,
    query: &CallbackQuery,
    headers: &HeaderMap,
) -> Result<(String, SsoLogin), ApiError> {
    let (Some(state), Some(browser)) = (query.state.clone(), auth::cookie(headers, BROWSER_COOKIE)) else {
        return Err(over());
    };
    let state_hash = tokens::digest(&state);
    let login = server.store().write(move |tx| sso::finish_login(tx, &state_hash)).await?.ok_or_else(over)?;
    let old = server.now_ms() - login.created_ms > SSO_LOGIN_MS;
    if old || login.client != name || !tokens::same(&login.browser_hash, &tokens::digest(&browser)) {
        return Err(over());
    }
    Ok((state, login))
}

async fn ask(
    server: &Server,
    row: &sso::SsoClient,
    settings: &SsoSettings,
    login: &SsoLogin,
    state: &str,
    code: &str,
) -> Result<Claims, String> {
    let key = server.data_key(row.account).await.map_err(|error| error.to_string())?;
    let secret: Option<Secret<String>> =
        row.secret.as_deref().and_then(|sealed| key.unseal(&place(row), sealed));
    let redirect_uri = callback_url(server, &row.name);
    let out = SetOut { state, nonce: &login.nonce, verifier: &login.verifier, redirect_uri: &redirect_uri };
    oidc::exchange(&server.inner.egress, settings, secret.as_ref(), code, &out)
        .await
        .map_err(|error| error.to_string())
}

/// What the errand was for. Gives the cookie of a new session; an identity that was linked opens none.
async fn arrive(
    server: &Server,
    trail: Trail,
    row: sso::SsoClient,
    settings: SsoSettings,
    claims: Claims,
    login: SsoLogin,
    headers: &HeaderMap,
) -> Result<Option<String>, ApiError> {
    let (inner, agent) = (server.clone(), sessions::agent(headers).to_owned());
    let present = auth::session_token(headers).map(|token| tokens::digest(token.expose()));
    server
        .change(move |tx| {
            let vouching = vouched::Vouching { server: &inner, row: &row, settings: &settings, claims: &claims };
            if let Some(link_user) = &login.link_user {
                // The session that asked for it, still open, in this very browser.
                let asked = login.link_session.as_ref().filter(|asked| present.as_ref() == Some(asked));
                let session = asked.map(|hash| identity::session(tx, hash)).transpose()?.flatten();
                let session =
                    session.filter(|session| session.user.to_string() == *link_user).ok_or_else(over)?;
                let user = vouching.link(tx, session.user)?;
                let after = serde_json::json!({"issuer": claims.iss, "subject": claims.sub, "account": row.account.to_string()});
                let entry = Entry::new("link", "identity", user.id, &row.name).after(after);
                trail.allowed(tx, &Actor::person(session.account, user.id, &user.name), &entry)?;
                if session.account != row.account {
                    let actor = Actor::person(row.account, user.id, &user.name);
                    trail.record(tx, &actor, &entry, "allowed", 200)?;
                }
                return Ok(None);
            }
            let user = vouching.enter(tx, login.invitation.as_deref())?;
            sync_teams(tx, &inner, &row, &settings, &claims, &user)?;
            let sign_in = SignIn {
                user: user.id,
                account: row.account,
                method: &row.name,
                client: Some(row.id),
                address: trail.address(),
                agent: &agent,
            };
            let opened = sessions::open(tx, &inner, &sign_in)?;
            identity::signed_in(tx, user.id, inner.now_ms())?;
            let entry = Entry::new("login", "session", user.id, &user.email)
                .after(serde_json::json!({"through": row.name}));
            trail.allowed(tx, &Actor::person(row.account, user.id, &user.name), &entry)?;
            Ok(Some(opened.cookie))
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_comes_back_to_this_site_only() {
        for (path, expected) in [
            ("/", true),
            ("/builds?x=1#y", true),
            ("//evil.example", false),
            ("/\\evil.example", false),
            ("https://evil.example", false),
            ("", false),
            ("/a\r\nset-cookie: x", false),
            ("/\t/evil.example", false),
        ] {
            assert_eq!(safe_return(path), expected, "{path:?}");
        }
    }
}
