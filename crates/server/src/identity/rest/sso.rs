//! Identity providers of an account: their settings. Signing in through one is in [`crate::identity::rest::sign_in`].

use axum::Json;
use axum::extract::{Path, State};
use slipway_api::error::ErrorBody;
use slipway_api::sso::{ChangeSsoClient, CreateSsoClient, SsoClient, SsoSettings};
use slipway_store::{Scope, Tx, identity, sso};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::oidc;
use crate::identity::sso::{callback_url, place, settings};
use crate::identity::trail::Entry;

fn shown(tx: &mut Tx<'_>, server: &Server, row: &sso::SsoClient) -> Result<SsoClient, ApiError> {
    let domains = identity::domains_of(tx, Scope::of(row.account))?;
    Ok(SsoClient {
        id: row.id.to_string(),
        name: row.name.clone(),
        kind: row.kind.clone(),
        enabled: row.enabled,
        settings: settings(row),
        has_secret: row.secret.is_some(),
        front_page: row.front_page,
        domains: domains.into_iter().map(|row| row.domain).collect(),
        callback_url: callback_url(server, &row.name),
        login_url: format!("{}/api/auth/{}/login", server.public_url(), row.name),
    })
}

fn check(settings: &SsoSettings) -> Result<(), ApiError> {
    let mut wrong = Vec::new();
    if !(settings.issuer.starts_with("https://") || settings.issuer.starts_with("http://")) {
        wrong.push("settings.issuer must be the provider's address, with https://".to_owned());
    }
    if settings.client_id.is_empty() {
        wrong
            .push("settings.clientId is required: the client id of this platform at the provider".to_owned());
    }
    if settings.admin_group.is_some() && settings.groups_claim.is_none() {
        wrong.push("settings.adminGroup needs settings.groupsClaim".to_owned());
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(ApiError::findings("this identity provider is not valid", &wrong))
    }
}

/// Identity providers of the account.
#[utoipa::path(get, path = "/api/idp", tag = "sso", responses((status = 200, body = [SsoClient]), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Vec<SsoClient>>, ApiError> {
    let (scope, inner) = (caller.scope(), server.clone());
    let rows = server
        .look(move |tx| {
            let rows = sso::list(tx, scope)?;
            rows.iter().map(|row| shown(tx, &inner, row)).collect()
        })
        .await?;
    Ok(Json(rows))
}

/// Names that are parts of other addresses under `/api/auth/`.
const TAKEN: [&str; 8] = ["key", "keys", "login", "logout", "sessions", "invitation", "password", "confirm"];

/// Add an identity provider (OpenID Connect). Its discovery document is fetched at once, so that a wrong address is found immediately.
#[utoipa::path(post, path = "/api/idp", tag = "sso", request_body = CreateSsoClient,
    responses((status = 200, body = SsoClient), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Json(request): Json<CreateSsoClient>,
) -> Result<Json<SsoClient>, ApiError> {
    crate::http::input::plain_name("an identity provider", &request.name)?;
    if TAKEN.contains(&request.name.as_str()) {
        return Err(ApiError::bad_request(format!("`{}` is reserved: choose another name", request.name)));
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
        // A tenant's button is on the tenant's own sign-in page; one of the platform's is on everybody's.
        front_page: caller.principal.is_platform(),
        created_ms: server.now_ms(),
    };
    row.secret = request.client_secret.map(|secret| key.seal(server.seams(), &place(&row), &secret));
    let inner = server.clone();
    let made = server
        .change(move |tx| {
            sso::create(tx, &row)?;
            let made = shown(tx, &inner, &row)?;
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

/// Edit or disable an identity provider.
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
            let before = shown(tx, &inner, &row)?;
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
            if request.front_page.is_some_and(|wanted| wanted && !row.front_page)
                && !caller.principal.is_platform()
            {
                return Err(ApiError::forbidden(
                    "the sign-in page belongs to the platform: only an administrator of the platform can set frontPage",
                ));
            }
            row.front_page = request.front_page.unwrap_or(row.front_page);
            row.enabled = request.enabled.unwrap_or(row.enabled);
            if moved || !row.enabled {
                // Whom another issuer vouched for, or one that is off, signs in again.
                identity::end_sessions_through(tx, row.id)?;
            }
            sso::update(tx, caller.scope(), &row)?;
            let after = shown(tx, &inner, &row)?;
            let entry = Entry::new("update", "sso", row.id, &row.name).before(before).after(&after);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(after)
        })
        .await?;
    Ok(Json(changed))
}

/// Delete an identity provider. Its users stay members; their sessions through it end.
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
