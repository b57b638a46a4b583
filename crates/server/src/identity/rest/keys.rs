//! API keys of people and of service accounts. A key's text is shown once, when it is made.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use slipway_access::{Role, Scopes, Who};
use slipway_api::auth::{ApiKey, ApiKeySubject, ChangeApiKey, CreateApiKey};
use slipway_api::error::ErrorBody;
use slipway_store::identity::{self, Subject};
use slipway_store::{Tx, agents};
use utoipa::IntoParams;

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::tokens;
use crate::identity::trail::Entry;
use crate::seams;

const KEYS_OF_ONE_MAX: usize = 100;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubjectQuery {
    /// `user` (oneself, when left out) or `service-account`.
    subject_type: Option<String>,
    /// Name or id of the service account.
    subject_reference: Option<String>,
}

/// Whose keys are meant. Those of a service account are its Administrators' business.
fn subject(tx: &mut Tx<'_>, caller: &Caller, query: &SubjectQuery) -> Result<(Subject, String), ApiError> {
    match query.subject_type.as_deref().unwrap_or("user") {
        "user" => match (&caller.principal.who, &query.subject_reference) {
            (Who::User { id, .. }, None) => Ok((Subject::User, id.to_string())),
            (Who::User { id, .. }, Some(wanted)) if id.to_string() == *wanted => {
                Ok((Subject::User, id.to_string()))
            }
            (Who::User { .. }, Some(_)) => Err(ApiError::forbidden(
                "users create their own keys; for a program, create a service account",
            )),
            (Who::ServiceAccount { id, .. }, None) => Ok((Subject::ServiceAccount, id.to_string())),
            _ => Err(ApiError::forbidden("only people and service accounts have API keys")),
        },
        "service-account" | "serviceUser" | "service-user" => {
            let wanted = query.subject_reference.as_deref().unwrap_or_default();
            if caller.principal.role() != Some(Role::Administrator) {
                return Err(ApiError::forbidden(
                    "only an Administrator of the account can create keys of service accounts",
                ));
            }
            let found = identity::service_account(tx, caller.scope(), wanted)?;
            let robot = found.ok_or_else(|| ApiError::not_found(format!("service account `{wanted}`")))?;
            Ok((Subject::ServiceAccount, robot.id.to_string()))
        }
        other => Err(ApiError::bad_request(format!(
            "unknown subjectType `{other}`: use `user` or `service-account`"
        ))),
    }
}

/// One's own, and for an Administrator those of service accounts.
fn mine(caller: &Caller, row: &identity::ApiKey) -> bool {
    let (kind, id) = caller.principal.reference();
    let own = row.subject_kind.as_str() == kind && row.subject == id;
    let robot = row.subject_kind == Subject::ServiceAccount;
    own || (robot && caller.principal.role() == Some(Role::Administrator))
}

fn shown(
    tx: &mut Tx<'_>,
    server: &Server,
    caller: &Caller,
    row: identity::ApiKey,
) -> Result<ApiKey, ApiError> {
    let name = match row.subject_kind {
        Subject::ServiceAccount => {
            identity::service_account(tx, caller.scope(), &row.subject)?.map(|robot| robot.name)
        }
        _ => match row.subject.parse() {
            Ok(id) => identity::user_by_id(tx, id)?.map(|user| user.name),
            Err(_) => None,
        },
    };
    let used_ms = server.inner.used.last(row.id).or(row.last_used_ms);
    Ok(ApiKey {
        id: row.id.to_string(),
        name: row.name,
        token_prefix: row.prefix,
        created: seams::rfc3339(row.created_ms),
        scopes: row.scopes,
        subject: ApiKeySubject {
            kind: row.subject_kind.as_str().into(),
            reference: row.subject,
            name: name.unwrap_or_default(),
        },
        last_used: used_ms.map(seams::rfc3339),
    })
}

/// Your API keys, and for an Administrator also those of service accounts; without their secrets.
#[utoipa::path(get, path = "/api/auth/keys", tag = "keys", params(SubjectQuery),
    responses((status = 200, body = [ApiKey]), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<SubjectQuery>,
) -> Result<Json<Vec<ApiKey>>, ApiError> {
    let inner = server.clone();
    let keys = server
        .look(move |tx| {
            let narrowed = match query.subject_type.is_some() || query.subject_reference.is_some() {
                true => Some(subject(tx, &caller, &query)?),
                false => None,
            };
            let mut keys = Vec::new();
            for row in identity::keys_of_account(tx, caller.scope())? {
                let wanted = narrowed
                    .as_ref()
                    .is_none_or(|(kind, id)| row.subject_kind == *kind && row.subject == *id);
                if wanted && mine(&caller, &row) {
                    keys.push(shown(tx, &inner, &caller, row)?);
                }
            }
            Ok(keys)
        })
        .await?;
    Ok(Json(keys))
}

/// Create an API key. The answer is its text; it is not shown again.
#[utoipa::path(post, path = "/api/auth/key", tag = "keys", params(SubjectQuery), request_body = CreateApiKey,
    responses((status = 200, body = String), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<SubjectQuery>,
    Json(request): Json<CreateApiKey>,
) -> Result<Json<String>, ApiError> {
    let name = request.name.trim().to_owned();
    check(&name, &request.scopes, &caller)?;
    let inner = server.clone();
    let text = server
        .change(move |tx| {
            let (kind, reference) = subject(tx, &caller, &query)?;
            let held = identity::keys_of(tx, caller.scope(), kind, &reference)?.len();
            if held >= KEYS_OF_ONE_MAX {
                return Err(ApiError::bad_request(format!(
                    "there are already {held} keys: delete some that are not used"
                )));
            }
            let account = caller.principal.account;
            let mut key = tokens::new_key(inner.seams(), account, &name, kind, &reference, request.scopes);
            // A session that a tenant's provider vouched for has no rights over the platform, nor have its keys.
            key.row.platform = caller.principal.is_platform();
            identity::create_key(tx, &key.row)?;
            let entry = Entry::new("create", "api-key", key.row.id, &name).after(
                serde_json::json!({"subject": reference, "kind": kind.as_str(), "scopes": key.row.scopes}),
            );
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(key.text)
        })
        .await?;
    Ok(Json(text.expose().clone()))
}

fn check(name: &str, scopes: &[String], caller: &Caller) -> Result<(), ApiError> {
    if name.is_empty() || name.len() > 200 || name.chars().any(char::is_control) {
        return Err(ApiError::bad_request(
            "an API key needs a name of up to 200 characters: say what it is for",
        ));
    }
    let wanted = Scopes::parse(scopes).map_err(ApiError::bad_request)?;
    if !caller.principal.scopes.cover(&wanted) {
        return Err(ApiError::forbidden(
            "your key is limited to scopes: it cannot create one with more rights",
        ));
    }
    Ok(())
}

fn find(tx: &mut Tx<'_>, caller: &Caller, id: &str) -> Result<identity::ApiKey, ApiError> {
    let what = || ApiError::not_found(format!("API key `{id}`"));
    let parsed = id.parse().map_err(|_| what())?;
    let found = identity::key_by_id(tx, parsed)?.filter(|row| row.account == caller.principal.account);
    found.filter(|row| mine(caller, row)).ok_or_else(what)
}

/// One API key, without its secret.
#[utoipa::path(get, path = "/api/auth/key/{id}", tag = "keys", params(("id" = String, Path)),
    responses((status = 200, body = ApiKey), (status = 404, body = ErrorBody)))]
pub(crate) async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<ApiKey>, ApiError> {
    let inner = server.clone();
    let key = server
        .look(move |tx| {
            if let Some(key) = of_agent(tx, &caller, &id)? {
                return Ok(key);
            }
            let row = find(tx, &caller, &id)?;
            shown(tx, &inner, &caller, row)
        })
        .await?;
    Ok(Json(key))
}

/// For an Administrator: whose key that of an agent is. The published installer asks before it uses one.
fn of_agent(tx: &mut Tx<'_>, caller: &Caller, id: &str) -> Result<Option<ApiKey>, ApiError> {
    let Ok(parsed) = id.parse() else { return Ok(None) };
    let row = identity::key_by_id(tx, parsed)?
        .filter(|row| row.account == caller.principal.account && row.subject_kind == Subject::Runner);
    let Some(row) = row.filter(|_| caller.principal.role() == Some(Role::Administrator)) else {
        return Ok(None);
    };
    let agent = agents::find(tx, caller.scope(), &row.subject)?.filter(|agent| agent.name == row.subject);
    Ok(agent.map(|agent| ApiKey {
        id: row.id.to_string(),
        name: row.name,
        token_prefix: row.prefix,
        created: seams::rfc3339(row.created_ms),
        scopes: row.scopes,
        subject: ApiKeySubject { kind: "agent".into(), reference: agent.id.to_string(), name: agent.name },
        last_used: row.last_used_ms.map(seams::rfc3339),
    }))
}

/// Rename an API key or change its scopes.
#[utoipa::path(patch, path = "/api/auth/key/{id}", tag = "keys", params(("id" = String, Path)), request_body = ChangeApiKey,
    responses((status = 200, body = ApiKey), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn change(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Json(request): Json<ChangeApiKey>,
) -> Result<Json<ApiKey>, ApiError> {
    let inner = server.clone();
    let key = server
        .change(move |tx| {
            let row = find(tx, &caller, &id)?;
            let name = request.name.map_or_else(|| row.name.clone(), |name| name.trim().to_owned());
            let scopes = request.scopes.unwrap_or_else(|| row.scopes.clone());
            check(&name, &scopes, &caller)?;
            identity::change_key(tx, caller.scope(), row.id, &name, &scopes)?;
            let entry = Entry::new("update", "api-key", row.id, &name)
                .before(serde_json::json!({"name": row.name, "scopes": row.scopes}))
                .after(serde_json::json!({"name": name, "scopes": scopes}));
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            let row = find(tx, &caller, &id)?;
            shown(tx, &inner, &caller, row)
        })
        .await?;
    Ok(Json(key))
}

/// Revoke an API key; it stops working at once.
#[utoipa::path(delete, path = "/api/auth/key/{id}", tag = "keys", params(("id" = String, Path)),
    responses((status = 200, body = String), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<String>, ApiError> {
    let gone = id.clone();
    server
        .change(move |tx| {
            let row = find(tx, &caller, &id)?;
            identity::delete_key(tx, caller.scope(), row.id)?;
            let entry = Entry::new("delete", "api-key", row.id, &row.name);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(())
        })
        .await?;
    Ok(Json(gone))
}

/// Whose key it is, in the address: how the published Terraform provider says it.
fn of_service_account(account: String) -> Query<SubjectQuery> {
    Query(SubjectQuery { subject_type: Some("service-account".into()), subject_reference: Some(account) })
}

/// The key of a service account; nothing is found among others' keys.
async fn belongs(server: &Server, caller: &Caller, account: &str, id: &str) -> Result<(), ApiError> {
    let (caller, Query(query), id) = (caller.clone(), of_service_account(account.to_owned()), id.to_owned());
    server
        .look(move |tx| {
            let (kind, reference) = subject(tx, &caller, &query)?;
            let row = find(tx, &caller, &id)?;
            match row.subject_kind == kind && row.subject == reference {
                true => Ok(()),
                false => Err(ApiError::not_found(format!("API key `{id}`"))),
            }
        })
        .await
}

/// Create a key of a service account. The answer is its plain text; it is not shown again.
#[utoipa::path(post, path = "/api/auth/key/service-user/{account}", tag = "keys", params(("account" = String, Path)), request_body = CreateApiKey,
    responses((status = 200, body = String, content_type = "text/plain"), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn create_for_service_account(
    server: State<Server>,
    caller: Caller,
    Path(account): Path<String>,
    request: Json<CreateApiKey>,
) -> Result<String, ApiError> {
    let Json(text) = create(server, caller, of_service_account(account), request).await?;
    Ok(text)
}

/// One key of a service account, without its secret.
#[utoipa::path(get, path = "/api/auth/key/service-user/{account}/{id}", tag = "keys", params(("account" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = ApiKey), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn one_of_service_account(
    State(server): State<Server>,
    caller: Caller,
    Path((account, id)): Path<(String, String)>,
) -> Result<Json<ApiKey>, ApiError> {
    belongs(&server, &caller, &account, &id).await?;
    one(State(server), caller, Path(id)).await
}

/// Rename a key of a service account or change its scopes.
#[utoipa::path(patch, path = "/api/auth/key/service-user/{account}/{id}", tag = "keys", params(("account" = String, Path), ("id" = String, Path)), request_body = ChangeApiKey,
    responses((status = 200, body = ApiKey), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn change_of_service_account(
    State(server): State<Server>,
    caller: Caller,
    Path((account, id)): Path<(String, String)>,
    request: Json<ChangeApiKey>,
) -> Result<Json<ApiKey>, ApiError> {
    belongs(&server, &caller, &account, &id).await?;
    change(State(server), caller, Path(id), request).await
}

/// Revoke a key of a service account; it stops working at once.
#[utoipa::path(delete, path = "/api/auth/key/service-user/{account}/{id}", tag = "keys", params(("account" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = String), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete_of_service_account(
    State(server): State<Server>,
    caller: Caller,
    Path((account, id)): Path<(String, String)>,
) -> Result<Json<String>, ApiError> {
    belongs(&server, &caller, &account, &id).await?;
    delete(State(server), caller, Path(id)).await
}
