//! The account that one is in.

use axum::Json;
use axum::extract::State;
use slipway_api::error::ErrorBody;
use slipway_api::identity::{Account, ChangeAccount};
use slipway_store::{identity, sso};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::http::limits::Limits;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;
use crate::seams;
use crate::settings::AccountSettings;

/// A name that was given up is kept from others for this long.
pub(crate) const QUARANTINE_MS: i64 = 90 * 24 * 60 * 60 * 1000;

pub(crate) fn shown(account: &identity::Account) -> Account {
    Account {
        id: account.id.to_string(),
        name: account.name.clone(),
        status: account.status.as_str().into(),
        created: seams::rfc3339(account.created_ms),
        settings: serde_json::to_value(AccountSettings::of(account)).unwrap_or_default(),
        limits: serde_json::to_value(Limits::of(account)).unwrap_or_default(),
    }
}

/// Your account, with its settings and limits.
#[utoipa::path(get, path = "/api/account", tag = "account", responses((status = 200, body = Account), (status = 401, body = ErrorBody)))]
pub(crate) async fn one(State(server): State<Server>, caller: Caller) -> Result<Json<Account>, ApiError> {
    let account = caller.principal.account;
    let found = server.store().read(move |tx| identity::account_by_id(tx, account)).await?;
    found.map(|account| Json(shown(&account))).ok_or_else(|| ApiError::not_found("the account"))
}

/// Rename the account, or change its settings.
#[utoipa::path(patch, path = "/api/account", tag = "account", request_body = ChangeAccount,
    responses((status = 200, body = Account), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn change(
    State(server): State<Server>,
    caller: Caller,
    Json(request): Json<ChangeAccount>,
) -> Result<Json<Account>, ApiError> {
    let settings: Option<AccountSettings> = request
        .settings
        .map(serde_json::from_value)
        .transpose()
        .map_err(|error| ApiError::bad_request(format!("settings: {error}")))?;
    let problems = settings.as_ref().map(AccountSettings::problems).unwrap_or_default();
    if !problems.is_empty() {
        return Err(ApiError::findings("settings", &problems));
    }
    let inner = server.clone();
    let account = server
        .change(move |tx| {
            let scope = caller.scope();
            let before = identity::account_by_id(tx, scope.account())?
                .ok_or_else(|| ApiError::not_found("the account"))?;
            if let Some(name) = &request.name {
                rename(tx, &inner, &before, name)?;
            }
            if let Some(settings) = &settings {
                if !settings.password_login && AccountSettings::of(&before).password_login {
                    check_way_in(tx, scope)?;
                }
                let text = serde_json::to_string(settings).unwrap_or_default();
                identity::set_account_settings(tx, scope, &text)?;
            }
            let after = identity::account_by_id(tx, scope.account())?
                .ok_or_else(|| ApiError::not_found("the account"))?;
            let entry = Entry::new("update", "account", before.id, &after.name)
                .before(shown(&before))
                .after(shown(&after));
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(shown(&after))
        })
        .await?;
    Ok(Json(account))
}

/// Nobody locks everybody out: an Administrator must be known at a provider that works before passwords are refused.
fn check_way_in(tx: &mut slipway_store::Tx<'_>, scope: slipway_store::Scope) -> Result<(), ApiError> {
    let clients: Vec<_> =
        sso::list(tx, scope)?.into_iter().filter(|client| client.enabled).map(|client| client.id).collect();
    for id in identity::administrators(tx, scope)? {
        if identity::identities_of(tx, id)?.iter().any(|one| clients.contains(&one.client)) {
            return Ok(());
        }
    }
    Err(ApiError::conflict(
        "without passwords nobody could administer the account: first set up an identity provider and have an Administrator link their identity under Profile",
    ))
}

/// The old name stays out of others' reach for a while.
pub(crate) fn rename(
    tx: &mut slipway_store::Tx<'_>,
    server: &Server,
    account: &identity::Account,
    name: &str,
) -> Result<(), ApiError> {
    crate::http::input::plain_name("an account", name)?;
    if name == account.name {
        return Ok(());
    }
    let now_ms = server.now_ms();
    if identity::is_quarantined(tx, "account", "", name, now_ms)? {
        return Err(ApiError::conflict(format!("account `{name}` already exists")));
    }
    identity::rename_account(tx, slipway_store::Scope::of(account.id), name)?;
    identity::quarantine(tx, "account", "", &account.name, now_ms + QUARANTINE_MS)?;
    Ok(())
}
