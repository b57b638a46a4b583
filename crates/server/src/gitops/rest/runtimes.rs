//! Runtimes: registered by an administrator, who gets a token that is shown once; listed, renamed, revoked, deleted.

use axum::Json;
use axum::extract::{Path, State};
use slipway_access::Who;
use slipway_api::error::ErrorBody;
use slipway_api::runtime::{
    ChangeRuntime, CreateRuntime, Runtime, RuntimeDetail, RuntimeIdentity, RuntimeToken,
};
use slipway_model::AccountId;
use slipway_store::identity::{self, Subject};
use slipway_store::runtimes::{self, Registered};
use slipway_store::{Tx, applications};
use slipway_tunnel::TunnelName;

use crate::ctx::Server;
use crate::gitops::clusters::reported;
use crate::gitops::reach;
use crate::gitops::runtimes::{self as registered, find};
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::tokens::{self, NewKey};
use crate::identity::trail::Entry;

const NETWORKS_MAX: usize = 100;

/// GitOps runtimes.
#[utoipa::path(get, path = "/api/runtimes", tag = "gitops", responses((status = 200, body = [Runtime]), (status = 401, body = ErrorBody)))]
pub(crate) async fn runtimes(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Vec<Runtime>>, ApiError> {
    Ok(Json(registered::list(&server, &caller).await?))
}

/// One GitOps runtime, and for Administrators its open tunnels.
#[utoipa::path(get, path = "/api/runtimes/{name}", tag = "gitops", params(("name" = String, Path)),
    responses((status = 200, body = RuntimeDetail), (status = 404, body = ErrorBody)))]
pub(crate) async fn runtime(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<RuntimeDetail>, ApiError> {
    Ok(Json(registered::detail(&server, &caller, name).await?))
}

fn check_name(account: AccountId, name: &str) -> Result<(), ApiError> {
    TunnelName::new(account, name).map(drop).map_err(|_| {
        ApiError::bad_request(format!(
            "`{name}` is not a valid name for a runtime: use up to 38 lowercase letters, digits and hyphens, with no hyphen at either end"
        ))
    })
}

fn check_free(tx: &mut Tx<'_>, caller: &Caller, name: &str) -> Result<(), ApiError> {
    if runtimes::is_taken(tx, caller.scope(), name)? {
        return Err(ApiError::conflict(format!(
            "there is a runtime `{name}` already: choose another name, or `slipway runtime token {name}` for a new token of that one"
        )));
    }
    Ok(())
}

fn checked_address(text: &str) -> Result<String, ApiError> {
    if text.is_empty() {
        Ok(String::new())
    } else {
        reach::check_address(text).map_err(ApiError::bad_request)
    }
}

fn new_token(server: &Server, account: AccountId, name: &str) -> NewKey {
    tokens::new_key(server.seams(), account, name, Subject::Runtime, name, Vec::new())
}

fn told(server: &Server, name: &str, key: &NewKey) -> RuntimeToken {
    let url = server.public_url();
    let plain = if url.starts_with("https:") { "" } else { " --plain-http" };
    RuntimeToken {
        name: name.to_owned(),
        token: key.text.expose().clone(),
        command: format!("slipway runtime --server {url}{plain}"),
    }
}

/// Register a runtime. Its token is shown now and never again.
#[utoipa::path(post, path = "/api/runtimes", tag = "gitops", request_body = CreateRuntime,
    responses((status = 200, body = RuntimeToken), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create_runtime(
    State(server): State<Server>,
    caller: Caller,
    Json(request): Json<CreateRuntime>,
) -> Result<Json<RuntimeToken>, ApiError> {
    let account = caller.scope().account();
    check_name(account, &request.name)?;
    let address = checked_address(&request.ingress_url)?;
    let (key, now_ms) = (new_token(&server, account, &request.name), server.now_ms());
    let answer = told(&server, &request.name, &key);
    server
        .change(move |tx| {
            check_free(tx, &caller, &request.name)?;
            runtimes::register(tx, caller.scope(), &request.name, &address, now_ms)?;
            identity::create_key(tx, &key.row)?;
            let entry = Entry::new("create", "runtime", &request.name, &request.name).after(&request);
            Ok(caller.trail.allowed(tx, &caller.actor(), &entry)?)
        })
        .await?;
    Ok(Json(answer))
}

/// Create a new token for a runtime. The old one stops working at once.
#[utoipa::path(post, path = "/api/runtimes/{name}/token", tag = "gitops", params(("name" = String, Path)),
    responses((status = 200, body = RuntimeToken), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn renew_token(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<RuntimeToken>, ApiError> {
    let key = new_token(&server, caller.scope().account(), &name);
    let answer = told(&server, &name, &key);
    server
        .change(move |tx| {
            let row = find(tx, &caller, &name)?;
            identity::delete_keys_of(tx, caller.scope(), Subject::Runtime, &row.name)?;
            identity::create_key(tx, &key.row)?;
            tx.changed(caller.scope().account(), slipway_model::ChangeKind::Runtime, &name);
            let entry = Entry::new("create", "runtime-token", key.row.id, &name);
            Ok(caller.trail.allowed(tx, &caller.actor(), &entry)?)
        })
        .await?;
    Ok(Json(answer))
}

/// Revoke the token of a runtime: its connections end at once. What it reported stays.
#[utoipa::path(delete, path = "/api/runtimes/{name}/token", tag = "gitops", params(("name" = String, Path)),
    responses((status = 200, body = bool), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn revoke_token(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<bool>, ApiError> {
    server
        .change(move |tx| {
            find(tx, &caller, &name)?;
            identity::delete_keys_of(tx, caller.scope(), Subject::Runtime, &name)?;
            tx.changed(caller.scope().account(), slipway_model::ChangeKind::Runtime, &name);
            let entry = Entry::new("revoke", "runtime-token", &name, &name);
            Ok(caller.trail.allowed(tx, &caller.actor(), &entry)?)
        })
        .await?;
    Ok(Json(true))
}

/// Rename a runtime, or change how it is reached. What it reported, and its token, stay.
#[utoipa::path(patch, path = "/api/runtimes/{name}", tag = "gitops", params(("name" = String, Path)), request_body = ChangeRuntime,
    responses((status = 200, body = Runtime), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn change_runtime(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Json(change): Json<ChangeRuntime>,
) -> Result<Json<Runtime>, ApiError> {
    let account = caller.scope().account();
    let wanted = change.name.clone().filter(|wanted| *wanted != name);
    if let Some(wanted) = &wanted {
        check_name(account, wanted)?;
    }
    let address = change.ingress_url.as_deref().map(checked_address).transpose()?;
    check_networks(change.allowed_addresses.as_deref().unwrap_or_default())?;
    let by = caller.clone();
    let (row, clusters) = server
        .change(move |tx| {
            let row = find(tx, &caller, &name)?;
            let entry = Entry::new("update", "runtime", &name, &name).before(seen(&row)).after(&change);
            let address = address.unwrap_or_else(|| row.address.clone());
            let allowed = change.allowed_addresses.unwrap_or_else(|| row.allowed.clone());
            runtimes::set_access(tx, caller.scope(), &name, &address, &allowed)?;
            if let Some(wanted) = &wanted {
                check_free(tx, &caller, wanted)?;
                runtimes::rename(tx, caller.scope(), &name, wanted)?;
            }
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            let name = wanted.as_deref().unwrap_or(&name);
            let mut clusters = reported(tx, caller.scope(), Some(name))?;
            Ok((find(tx, &caller, name)?, clusters.remove(name).unwrap_or_default()))
        })
        .await?;
    server.inner.tunnels.networks().forget();
    Ok(Json(registered::after_change(&server, &by, row, clusters).await))
}

fn seen(row: &Registered) -> ChangeRuntime {
    ChangeRuntime {
        name: Some(row.name.clone()),
        ingress_url: Some(row.address.clone()),
        allowed_addresses: Some(row.allowed.clone()),
    }
}

fn check_networks(networks: &[String]) -> Result<(), ApiError> {
    let is_network = |item: &String| {
        let address = item.trim().split('/').next().unwrap_or_default();
        address.parse::<std::net::IpAddr>().is_ok() && slipway_net::Rules::parse(&[item]).is_ok()
    };
    if networks.len() > NETWORKS_MAX {
        return Err(ApiError::bad_request(format!("a runtime's list may have {NETWORKS_MAX} networks")));
    }
    match networks.iter().find(|item| !is_network(item)) {
        Some(wrong) => Err(ApiError::bad_request(format!(
            "`{wrong}` is not an address or a network: use 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32"
        ))),
        None => Ok(()),
    }
}

/// Delete a runtime: its token stops working, and its Applications are no longer shown. Nothing changes in its cluster.
#[utoipa::path(delete, path = "/api/runtimes/{name}", tag = "gitops", params(("name" = String, Path)),
    responses((status = 200, body = bool), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete_runtime(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<bool>, ApiError> {
    server
        .change(move |tx| {
            let known = applications::forget_runtime(tx, caller.scope(), &name)?;
            let keys = identity::keys_of(tx, caller.scope(), Subject::Runtime, &name)?;
            if !known && keys.is_empty() {
                return Err(ApiError::not_found(format!("runtime `{name}`")));
            }
            identity::delete_keys_of(tx, caller.scope(), Subject::Runtime, &name)?;
            let entry = Entry::new("delete", "runtime", &name, &name);
            Ok(caller.trail.allowed(tx, &caller.actor(), &entry)?)
        })
        .await?;
    Ok(Json(true))
}

/// Who the key says that the asking runtime is, and how callers reach it.
#[utoipa::path(get, path = "/api/agent/runtime/self", tag = "agents",
    responses((status = 200, body = RuntimeIdentity), (status = 403, body = ErrorBody)))]
pub(crate) async fn own_identity(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<RuntimeIdentity>, ApiError> {
    let Who::Runtime { name } = caller.principal.who.clone() else {
        return Err(ApiError::forbidden("this needs a runtime's key"));
    };
    let (scope, wanted) = (caller.scope(), name.clone());
    let row = server.store().read(move |tx| runtimes::one(tx, scope, &wanted)).await?;
    let ingress_url = row.map(|row| row.address).unwrap_or_default();
    Ok(Json(RuntimeIdentity { name, platform_url: server.public_url().to_owned(), ingress_url }))
}
