//! Identity providers: their settings, and signing in through one.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use slipway_access::Role;
use slipway_api::error::ErrorBody;
use slipway_api::sso::{ChangeSsoClient, CreateSsoClient, SsoClient, SsoSettings};
use slipway_model::Secret;
use slipway_store::identity::{self, AccountStatus};
use slipway_store::sso::{self, SsoLogin};
use slipway_store::{Scope, Tx};
use utoipa::IntoParams;

use super::invitations::{Newcomer, join, new_user};
use crate::auth::{self, Caller};
use crate::ctx::Server;
use crate::error::{ApiError, Refusal};
use crate::housekeeping::SSO_LOGIN_MS;
use crate::oidc::{self, Claims, SetOut};
use crate::sessions::{self, SignIn};
use crate::trail::{Actor, Entry, Trail};
use crate::{limits, tokens};

/// Why a sign-in failed, for the sign-in page to show.
const PROBLEM_COOKIE: &str = "slipway_sign_in_problem";
/// Holds the browser that set out to the one that comes back.
const BROWSER_COOKIE: &str = "slipway_sso";

fn settings(row: &sso::SsoClient) -> SsoSettings {
    serde_json::from_str(&row.settings).unwrap_or_default()
}

fn callback_url(server: &Server, name: &str) -> String {
    format!("{}/api/auth/{name}/callback", server.public_url())
}

fn shown(server: &Server, row: &sso::SsoClient) -> SsoClient {
    SsoClient {
        id: row.id.to_string(),
        name: row.name.clone(),
        kind: row.kind.clone(),
        enabled: row.enabled,
        settings: settings(row),
        has_secret: row.secret.is_some(),
        callback_url: callback_url(server, &row.name),
        login_url: format!("{}/api/auth/{}/login", server.public_url(), row.name),
    }
}

fn place(row: &sso::SsoClient) -> String {
    format!("sso/{}/{}", row.account, row.id)
}

fn check(settings: &SsoSettings) -> Result<(), ApiError> {
    let mut wrong = Vec::new();
    if !(settings.issuer.starts_with("https://") || settings.issuer.starts_with("http://")) {
        wrong.push("settings.issuer is the provider's address, with https://".to_owned());
    }
    if settings.client_id.is_empty() {
        wrong.push("settings.clientId is what the provider calls this platform".to_owned());
    }
    if settings.admin_group.is_some() && settings.groups_claim.is_none() {
        wrong.push("settings.adminGroup needs settings.groupsClaim".to_owned());
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(ApiError::findings("this identity provider cannot be kept", &wrong))
    }
}

/// Identity providers of the account.
#[utoipa::path(get, path = "/api/idp", tag = "sso", responses((status = 200, body = [SsoClient]), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Vec<SsoClient>>, ApiError> {
    let scope = caller.scope();
    let rows = server.store().read(move |tx| sso::list(tx, scope)).await?;
    Ok(Json(rows.iter().map(|row| shown(&server, row)).collect()))
}

/// Names that are parts of other addresses under `/api/auth/`.
const TAKEN: [&str; 8] = ["key", "keys", "login", "logout", "sessions", "invitation", "password", "confirm"];

/// Add an identity provider (OpenID Connect). Its discovery is asked for at once, so that a wrong address is found now.
#[utoipa::path(post, path = "/api/idp", tag = "sso", request_body = CreateSsoClient,
    responses((status = 200, body = SsoClient), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Json(request): Json<CreateSsoClient>,
) -> Result<Json<SsoClient>, ApiError> {
    super::plain_name("an identity provider", &request.name)?;
    if TAKEN.contains(&request.name.as_str()) {
        return Err(ApiError::bad_request(format!(
            "`{}` is part of another address here: choose another name",
            request.name
        )));
    }
    check(&request.settings)?;
    oidc::discover(&server.inner.egress, &request.settings)
        .await
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    let key = server.data_key(caller.principal.account).await?;
    let mut row = sso::SsoClient {
        id: server.seams().new_id(),
        account: caller.principal.account,
        name: request.name,
        kind: "oidc".into(),
        settings: serde_json::to_string(&request.settings).unwrap_or_default(),
        secret: None,
        enabled: true,
        created_ms: server.now_ms(),
    };
    row.secret = request.client_secret.map(|secret| key.seal(server.seams(), &place(&row), &secret));
    let inner = server.clone();
    let made = server
        .change(move |tx| {
            sso::create(tx, &row)?;
            let made = shown(&inner, &row);
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("create", "sso", row.id, &row.name).after(&made),
            )?;
            Ok(made)
        })
        .await?;
    Ok(Json(made))
}

fn find(tx: &mut Tx<'_>, caller: &Caller, name: &str) -> Result<sso::SsoClient, ApiError> {
    let found = sso::by_name(tx, name)?.filter(|row| row.account == caller.principal.account);
    found.ok_or_else(|| ApiError::not_found(format!("identity provider `{name}`")))
}

/// Change an identity provider, or switch it off.
#[utoipa::path(patch, path = "/api/idp/{name}", tag = "sso", params(("name" = String, Path)), request_body = ChangeSsoClient,
    responses((status = 200, body = SsoClient), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn change(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Json(request): Json<ChangeSsoClient>,
) -> Result<Json<SsoClient>, ApiError> {
    if let Some(settings) = &request.settings {
        check(settings)?;
    }
    let key = server.data_key(caller.principal.account).await?;
    let inner = server.clone();
    let changed = server
        .change(move |tx| {
            let mut row = find(tx, &caller, &name)?;
            let before = shown(&inner, &row);
            // A secret is for the provider it was given for: another issuer does not get it.
            let moved = request.settings.as_ref().is_some_and(|new| new.issuer != settings(&row).issuer);
            if moved && request.client_secret.is_none() && row.secret.is_some() {
                return Err(ApiError::bad_request("another issuer needs a clientSecret of its own"));
            }
            if let Some(settings) = &request.settings {
                row.settings = serde_json::to_string(settings).unwrap_or_default();
            }
            if let Some(secret) = &request.client_secret {
                row.secret = Some(key.seal(inner.seams(), &place(&row), secret));
            }
            row.enabled = request.enabled.unwrap_or(row.enabled);
            sso::update(tx, caller.scope(), &row)?;
            let after = shown(&inner, &row);
            let entry = Entry::new("update", "sso", row.id, &row.name).before(before).after(&after);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(after)
        })
        .await?;
    Ok(Json(changed))
}

/// Remove an identity provider. People who came through it stay members.
#[utoipa::path(delete, path = "/api/idp/{name}", tag = "sso", params(("name" = String, Path)),
    responses((status = 200, body = String), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<String>, ApiError> {
    let gone = name.clone();
    server
        .change(move |tx| {
            let row = find(tx, &caller, &name)?;
            sso::delete(tx, caller.scope(), row.id)?;
            caller.trail.allowed(tx, &caller.actor(), &Entry::new("delete", "sso", row.id, &row.name))?;
            Ok(())
        })
        .await?;
    Ok(Json(gone))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct BeginQuery {
    /// A page of this site to come back to, beginning with `/`.
    return_to: Option<String>,
    /// Somebody who is signed in wants to be known by the provider too.
    link: Option<bool>,
}

/// A path of this site and nothing that a browser could take for another one.
pub(crate) fn safe_return(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && !path.chars().any(|c| c == '\\' || c.is_control() || c.is_whitespace())
}

fn open_client(tx: &mut Tx<'_>, name: &str) -> Result<sso::SsoClient, ApiError> {
    let what = || ApiError::not_found(format!("identity provider `{name}`"));
    let row = sso::by_name(tx, name)?.filter(|row| row.enabled).ok_or_else(what)?;
    let account = identity::account_by_id(tx, row.account)?;
    account.filter(|account| account.status == AccountStatus::Active).ok_or_else(what)?;
    Ok(row)
}

/// Sign in through an identity provider: sends the browser there.
#[utoipa::path(get, path = "/api/auth/{client}/login", tag = "auth", params(("client" = String, Path), BeginQuery),
    responses((status = 302), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn begin(
    State(server): State<Server>,
    Path(name): Path<String>,
    Query(query): Query<BeginQuery>,
    headers: HeaderMap,
) -> Response {
    match set_out(&server, name, query, &headers).await {
        Ok(onward) => onward.into_response(),
        Err(error) => refused(&server, &headers, error),
    }
}

async fn set_out(
    server: &Server,
    name: String,
    query: BeginQuery,
    headers: &HeaderMap,
) -> Result<(StatusCode, HeaderMap), ApiError> {
    let return_to = query.return_to.unwrap_or_else(|| "/".to_owned());
    if !safe_return(&return_to) {
        return Err(ApiError::bad_request("return_to is a page of this site, beginning with one `/`"));
    }
    let link_user = match query.link {
        Some(true) => match auth::authenticate(server, headers).await? {
            Some((principal, auth::Credential::Session(_))) => Some(principal.reference().1),
            _ => return Err(ApiError::unauthenticated()),
        },
        _ => None,
    };
    let row = server.look(move |tx| open_client(tx, &name)).await?;
    let settings = settings(&row);
    let provider = oidc::discover(&server.inner.egress, &settings)
        .await
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    // 256 random bits each.
    let [state, nonce, verifier, browser] = [(); 4].map(|()| tokens::random_token(server.seams()));
    let redirect_uri = callback_url(server, &row.name);
    let out = SetOut { state: &state, nonce: &nonce, verifier: &verifier, redirect_uri: &redirect_uri };
    let address = oidc::authorization_url(&provider, &settings, &out)
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    let login = SsoLogin {
        state_hash: tokens::digest(&state),
        client: row.name,
        nonce,
        verifier,
        return_to,
        browser_hash: tokens::digest(&browser),
        link_user,
        created_ms: server.now_ms(),
    };
    server.store().write(move |tx| sso::begin_login(tx, &login)).await?;
    let secure = sessions::secure(server);
    let cookie =
        format!("{BROWSER_COOKIE}={browser}; Path=/api/auth; HttpOnly; SameSite=Lax; Max-Age=600{secure}");
    redirect(&address, &[cookie])
}

fn redirect(to: &str, cookies: &[String]) -> Result<(StatusCode, HeaderMap), ApiError> {
    let mut headers = HeaderMap::new();
    let value = |text: &str| {
        HeaderValue::from_str(text).map_err(|_| ApiError::bad_request("this address cannot be used"))
    };
    headers.insert(header::LOCATION, value(to)?);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for cookie in cookies {
        headers.append(header::SET_COOKIE, value(cookie)?);
    }
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
    let sentence: String = error.to_string().bytes().map(cookie_letter).collect();
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

/// As `decodeURIComponent` reads it.
fn cookie_letter(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CallbackQuery {
    code: Option<String>,
    state: Option<String>,
    error: Option<String>,
}

/// Where the identity provider sends the browser back to.
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
    let over =
        || ApiError::bad_request("this sign-in is over or was not begun in this browser: begin it again");
    let (Some(state), Some(browser)) = (query.state, auth::cookie(headers, BROWSER_COOKIE)) else {
        return Err(over());
    };
    let state_hash = tokens::digest(&state);
    let login = server.store().write(move |tx| sso::finish_login(tx, &state_hash)).await?.ok_or_else(over)?;
    let old = server.now_ms() - login.created_ms > SSO_LOGIN_MS;
    if old || login.client != name || !tokens::same(&login.browser_hash, &tokens::digest(&browser)) {
        return Err(over());
    }
    if let Some(error) = query.error {
        let word: String =
            error.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(60).collect();
        return Err(ApiError::bad_request(format!("the identity provider refused: {word}")));
    }
    let code = query.code.ok_or_else(over)?;
    let row = server.look(move |tx| open_client(tx, &name)).await?;
    let key = server.data_key(row.account).await?;
    let secret: Option<Secret<String>> =
        row.secret.as_deref().and_then(|sealed| key.unseal(&place(&row), sealed));
    let settings = settings(&row);
    let redirect_uri = callback_url(server, &row.name);
    let out =
        SetOut { state: &state, nonce: &login.nonce, verifier: &login.verifier, redirect_uri: &redirect_uri };
    let claims = match oidc::exchange(&server.inner.egress, &settings, secret.as_ref(), &code, &out).await {
        Ok(claims) => claims,
        Err(error) => {
            let entry = Entry::new("login", "session", "", &row.name).because(error.to_string());
            let _ =
                trail.afterwards(Actor::unknown(Some(row.account), &row.name), entry, "denied", 401).await;
            return Err(ApiError::refused_sign_in(error.to_string()));
        }
    };
    let (inner, agent) = (server.clone(), sessions::agent(headers).to_owned());
    let (return_to, account, aimed_at) = (login.return_to.clone(), row.account, trail.clone());
    let called = claims.email.clone().unwrap_or_else(|| claims.sub.clone());
    let opened = server
        .change(move |tx| {
            let user = who(tx, &inner, &row, &settings, &claims, login.link_user.as_deref())?;
            sync_teams(tx, &inner, &row, &settings, &claims, &user)?;
            let sign_in = SignIn {
                user: user.id,
                account: row.account,
                method: &row.name,
                address: trail.address(),
                agent: &agent,
            };
            let opened = sessions::open(tx, &inner, &sign_in)?;
            identity::signed_in(tx, user.id, inner.now_ms())?;
            let entry = Entry::new("login", "session", user.id, &user.email)
                .after(serde_json::json!({"through": row.name}));
            trail.allowed(tx, &Actor::person(row.account, user.id, &user.name), &entry)?;
            Ok(opened)
        })
        .await;
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) => {
            // A failed sign-in is seen by those whose account it was aimed at.
            let entry = Entry::new("login", "session", "", &called).because(error.to_string());
            let (actor, status) = (Actor::unknown(Some(account), &called), error.status().as_u16());
            let _ = aimed_at.afterwards(actor, entry, "denied", status).await;
            return Err(error);
        }
    };
    let forget = format!("{BROWSER_COOKIE}=; Path=/api/auth; HttpOnly; SameSite=Lax; Max-Age=0");
    redirect(&return_to, &[opened.cookie, forget])
}

/// The person whom the provider vouches for: found by issuer and subject, never by e-mail.
fn who(
    tx: &mut Tx<'_>,
    server: &Server,
    row: &sso::SsoClient,
    settings: &SsoSettings,
    claims: &Claims,
    link: Option<&str>,
) -> Result<identity::User, ApiError> {
    let (scope, now_ms) = (Scope::of(row.account), server.now_ms());
    let known = identity::user_by_identity(tx, &claims.iss, &claims.sub)?;
    let user = match (known, link.and_then(|id| id.parse().ok())) {
        (Some(user), None) => user,
        (Some(user), Some(id)) if user.id == id => user,
        (Some(_), Some(_)) => return Err(ApiError::conflict("this identity belongs to another person here")),
        (None, Some(id)) => {
            let user = identity::user_by_id(tx, id)?.ok_or_else(ApiError::unauthenticated)?;
            identity::link_identity(tx, &claims.iss, &claims.sub, user.id, now_ms)?;
            user
        }
        (None, None) => newcomer(tx, server, row, settings, claims)?,
    };
    if !user.enabled {
        return Err(ApiError::refused_sign_in(
            "this person is disabled here: ask an administrator of the platform",
        ));
    }
    let member = identity::member(tx, scope, user.id)?;
    if member.as_ref().is_some_and(|member| member.suspended) {
        return Err(ApiError::refused_sign_in("you are suspended in this account: ask its Administrator"));
    }
    if member.is_none() {
        if let Some(invitation) = invited(tx, server, scope, &user.email)? {
            join(tx, server, &invitation, &user)?;
            return Ok(user);
        }
        if !settings.create_members {
            return Err(ApiError::refused_sign_in(
                "you are not a member of this account: ask its Administrator for an invitation",
            ));
        }
        become_member(tx, server, scope, &user)?;
    }
    Ok(user)
}

fn become_member(
    tx: &mut Tx<'_>,
    server: &Server,
    scope: Scope,
    user: &identity::User,
) -> Result<(), ApiError> {
    if let Some(refusal) = limits::refusal(tx, scope, "seats")? {
        return Err(ApiError::over_limit(refusal));
    }
    identity::add_member(tx, scope, user.id, Role::User.as_str(), server.now_ms())?;
    Ok(())
}

/// An invitation of this address that is still good.
fn invited(
    tx: &mut Tx<'_>,
    server: &Server,
    scope: Scope,
    email: &str,
) -> Result<Option<identity::Invitation>, ApiError> {
    let all = identity::invitations(tx, scope)?;
    Ok(all.into_iter().find(|one| one.email == email && one.expires_ms >= server.now_ms()))
}

/// Somebody who was never here: by invitation to an address that the provider has checked, or because all are welcome.
fn newcomer(
    tx: &mut Tx<'_>,
    server: &Server,
    row: &sso::SsoClient,
    settings: &SsoSettings,
    claims: &Claims,
) -> Result<identity::User, ApiError> {
    let email = claims.email.as_deref().filter(|_| claims.email_verified).map(super::email).transpose()?;
    let Some(email) = email else {
        return Err(ApiError::refused_sign_in(
            "the identity provider does not vouch for your e-mail address",
        ));
    };
    if let Some(known) = identity::user_by_email(tx, &email)? {
        if identity::waits_to_be_met(tx, Scope::of(row.account), &known)? {
            identity::link_identity(tx, &claims.iss, &claims.sub, known.id, server.now_ms())?;
            return Ok(known);
        }
        // Whoever controls the provider could otherwise become anybody whose address they write down.
        return Err(ApiError::refused_sign_in(
            "somebody with this e-mail is here already: sign in as before, then link this identity provider in your settings",
        ));
    }
    let invitation = invited(tx, server, Scope::of(row.account), &email)?;
    if invitation.is_none() && !settings.create_members {
        return Err(ApiError::refused_sign_in(
            "you are not a member of this account: ask its Administrator for an invitation",
        ));
    }
    let name = claims.name.as_deref().or(claims.preferred_username.as_deref());
    let name = name
        .filter(|name| !name.trim().is_empty())
        .map_or_else(|| email.split('@').next().unwrap_or_default(), str::trim);
    let new = Newcomer { email: &email, name, password_hash: String::new(), account: row.account };
    let user = new_user(tx, server, new, invitation.as_ref())?;
    identity::link_identity(tx, &claims.iss, &claims.sub, user.id, server.now_ms())?;
    if let Some(invitation) = invitation {
        join(tx, server, &invitation, &user)?;
    }
    Ok(user)
}

/// A group becomes a team. Teams that were made by hand are not the provider's to fill, whatever its groups are called.
fn sync_teams(
    tx: &mut Tx<'_>,
    server: &Server,
    row: &sso::SsoClient,
    settings: &SsoSettings,
    claims: &Claims,
    user: &identity::User,
) -> Result<(), ApiError> {
    let Some(claim) = &settings.groups_claim else { return Ok(()) };
    let (scope, member, client) = (Scope::of(row.account), user.id.to_string(), row.id.to_string());
    let groups = claims.groups(claim);
    let mut wanted = Vec::new();
    for group in &groups {
        let name = team_name(group);
        if super::plain_name("a team", &name).is_err()
            || [identity::EVERYBODY, identity::ADMINISTRATORS].contains(&name.as_str())
        {
            continue;
        }
        let ours = Some((client.clone(), group.clone()));
        let team = match identity::team_by_name(tx, scope, &name)? {
            Some(mut team) => {
                if team.source == "sso" && team.group.is_none() {
                    identity::claim_team(tx, team.id, &client, group)?;
                    team.group.clone_from(&ours);
                }
                team
            }
            None => {
                let team = identity::Team {
                    id: server.seams().new_id(),
                    name,
                    kind: "custom".into(),
                    source: "sso".into(),
                    group: ours.clone(),
                    tags: Vec::new(),
                    created_ms: server.now_ms(),
                };
                identity::create_team(tx, scope, &team)?;
                team
            }
        };
        // Another group, or another provider's, whose name comes out the same does not open this team.
        if team.source == "sso" && team.group == ours {
            identity::add_to_team(tx, team.id, &member, "sso")?;
            wanted.push(team.id);
        }
    }
    for team in identity::teams(tx, scope)?
        .into_iter()
        .filter(|team| team.source == "sso" && !wanted.contains(&team.id))
        .filter(|team| team.group.as_ref().is_none_or(|(of, _)| *of == client))
    {
        identity::remove_from_team(tx, team.id, &member)?;
    }
    if let Some(admins) = &settings.admin_group {
        let role = if groups.contains(admins) { Role::Administrator } else { Role::User };
        let others = identity::administrators(tx, scope)?.into_iter().any(|id| id != user.id);
        // The last Administrator stays one, whatever the provider thinks.
        if role == Role::Administrator || others {
            identity::set_role(tx, scope, user.id, role.as_str())?;
        }
    }
    Ok(())
}

/// `Platform Team` → `platform-team`.
fn team_name(group: &str) -> String {
    let mapped: String = group
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(63)
        .collect();
    mapped.trim_matches('-').to_owned()
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

    #[test]
    fn groups_have_names_that_teams_can_have() {
        assert_eq!(team_name("Platform Team"), "platform-team");
        assert_eq!(team_name("org:dev_ops"), "org-dev-ops");
        assert_eq!(team_name("--x--"), "x");
    }
}
