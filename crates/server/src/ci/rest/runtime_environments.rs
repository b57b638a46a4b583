//! Runtime environments, as the installer of the published runner describes them and the published CLI shows them.
//!
//! A description says where and how the pods of builds run that an agent makes (`agent::workload` reads it). What an agent
//! serves without one, and every runner of ours, is a runtime environment too: pipelines name it in the same way.

use axum::Json;
use axum::extract::{Path, Query, RawQuery, State};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use slipway_api::error::ErrorBody;
use slipway_store::runtime_environments::{self, RuntimeEnvironment};
use slipway_store::{StoreError, Tx, agents, builds};
use utoipa::{IntoParams, ToSchema};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;
use crate::seams;

/// What the published installer builds on; there is one here, and it is the defaults of `agent::workload`.
const BASE: &str = "system/default/hybrid/k8s_low_limits";
const BODY_BYTES_MAX: usize = 256 << 10;

/// A runtime environment as it was described, with what is known about it.
#[derive(Debug, serde::Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub(crate) struct ShownRuntime(Value);

fn shown(caller: &Caller, row: &RuntimeEnvironment, is_default: bool) -> Result<ShownRuntime, ApiError> {
    let mut body: Map<String, Value> = serde_json::from_str(&row.body).map_err(StoreError::corrupt)?;
    let metadata = body.entry("metadata").or_insert_with(|| json!({}));
    metadata["name"] = json!(row.name);
    metadata["changedBy"] = json!(row.changed_by);
    metadata["updatedAt"] = json!(seams::rfc3339(row.at_ms));
    body.insert("version".into(), json!(row.version));
    body.insert("description".into(), json!(row.description));
    body.insert("accountId".into(), json!(caller.principal.account.to_string()));
    body.insert("isDefault".into(), json!(is_default));
    body.insert("default".into(), json!(is_default));
    Ok(ShownRuntime(Value::Object(body)))
}

/// Those that somebody described, those that agents serve, and runners of ours.
fn all(tx: &mut Tx<'_>, caller: &Caller) -> Result<Vec<RuntimeEnvironment>, StoreError> {
    let scope = caller.scope();
    let mut found = runtime_environments::list(tx, scope)?;
    let mut add = |name: String, agent: bool, description: String| {
        if !found.iter().any(|known| known.name == name) {
            let body = json!({"metadata": {"agent": agent}, "extends": []}).to_string();
            let (changed_by, at_ms) = (String::new(), 0);
            found.push(RuntimeEnvironment { name, version: 1, body, description, changed_by, at_ms });
        }
    };
    for agent in agents::list(tx, scope)? {
        for runtime in agent.runtimes {
            add(runtime, true, format!("served by agent {}", agent.name));
        }
    }
    for runner in builds::runners(tx, scope)? {
        add(runner.name, false, "a runner of Slipway".into());
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

fn find(tx: &mut Tx<'_>, caller: &Caller, name: &str) -> Result<RuntimeEnvironment, ApiError> {
    all(tx, caller)?
        .into_iter()
        .find(|known| known.name == name)
        .ok_or_else(|| ApiError::not_found(format!("runtime environment `{name}`")))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    limit: Option<usize>,
    offset: Option<usize>,
}

/// Runtime environments of the account.
#[utoipa::path(get, path = "/api/runtime-environments", tag = "runtime-environments", params(ListQuery),
    responses((status = 200, body = [ShownRuntime])))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<Vec<ShownRuntime>>, ApiError> {
    let found = server
        .look(move |tx| {
            let default = runtime_environments::default_name(tx, caller.scope())?;
            all(tx, &caller)?
                .iter()
                .skip(query.offset.unwrap_or(0))
                .take(query.limit.unwrap_or(usize::MAX))
                .map(|row| shown(&caller, row, default.as_ref() == Some(&row.name)))
                .collect::<Result<Vec<_>, _>>()
        })
        .await?;
    Ok(Json(found))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OneQuery {
    /// As it was in this version.
    version: Option<i64>,
    /// Every version that is kept, newest first, instead of the newest.
    history: Option<bool>,
}

/// A runtime environment, or with `history` every version of it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum OneOrAll {
    #[schema(value_type = ShownRuntime)]
    One(Value),
    #[schema(value_type = Vec<ShownRuntime>)]
    All(Vec<Value>),
}

/// One runtime environment.
#[utoipa::path(get, path = "/api/runtime-environments/{name}", tag = "runtime-environments", params(("name" = String, Path), OneQuery),
    responses((status = 200, body = OneOrAll), (status = 404, body = ErrorBody)))]
pub(crate) async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<OneQuery>,
) -> Result<Json<OneOrAll>, ApiError> {
    let found = server
        .look(move |tx| {
            let newest = find(tx, &caller, &name)?;
            let is_default = runtime_environments::default_name(tx, caller.scope())?.as_ref() == Some(&name);
            let versions = runtime_environments::versions(tx, caller.scope(), &name)?;
            if query.history == Some(true) {
                let all = versions.iter().map(|row| shown(&caller, row, is_default).map(|shown| shown.0));
                return Ok(OneOrAll::All(all.collect::<Result<_, _>>()?));
            }
            let row = match query.version {
                Some(version) => {
                    versions.into_iter().find(|row| row.version == version).ok_or_else(|| {
                        ApiError::not_found(format!("version {version} of runtime environment `{name}`"))
                    })?
                }
                None => newest,
            };
            Ok(OneOrAll::One(shown(&caller, &row, is_default)?.0))
        })
        .await?;
    Ok(Json(found))
}

/// Where a part of the description has another shape than it is read with, said before it is kept.
fn check(name: &str, body: &Map<String, Value>) -> Result<(), ApiError> {
    let object = |value: Option<&Value>| value.is_none_or(|value| value.is_object() || value.is_null());
    for key in ["metadata", "runtimeScheduler", "dockerDaemonScheduler"] {
        if !object(body.get(key)) {
            return Err(ApiError::bad_request(format!(
                "{key} of runtime environment `{name}` must be an object"
            )));
        }
    }
    let written = body.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
    match written.filter(|written| *written != name) {
        Some(other) => Err(ApiError::bad_request(format!(
            "metadata.name is `{other}`, but the URL names runtime environment `{name}`"
        ))),
        None => Ok(()),
    }
}

fn good_name(name: &str) -> Result<(), ApiError> {
    let letter = |c: char| c.is_ascii_alphanumeric() || "/-_.:@".contains(c);
    if name.is_empty() || name.len() > 200 || !name.chars().all(letter) {
        return Err(ApiError::bad_request(format!(
            "`{name}` is not a valid name for a runtime environment: use up to 200 letters, digits, and / - _ . : @"
        )));
    }
    Ok(())
}

/// The next version: what is given in the place of what was there, part by part.
pub(crate) fn put(
    tx: &mut Tx<'_>,
    caller: &Caller,
    name: &str,
    given: Map<String, Value>,
    description: Option<String>,
    now_ms: i64,
) -> Result<RuntimeEnvironment, ApiError> {
    good_name(name)?;
    check(name, &given)?;
    let scope = caller.scope();
    let known = runtime_environments::find(tx, scope, name)?;
    let mut body: Map<String, Value> = match &known {
        Some(known) => serde_json::from_str(&known.body).map_err(StoreError::corrupt)?,
        None => Map::new(),
    };
    let hybrid = body.get("metadata").and_then(|metadata| metadata.get("agent")).cloned();
    let description = description
        .or_else(|| given.get("description").and_then(Value::as_str).map(str::to_owned))
        .or_else(|| known.as_ref().map(|known| known.description.clone()))
        .unwrap_or_default();
    body.extend(given);
    // Kept by us and told with every answer.
    for ours in ["version", "description", "accountId", "isDefault", "default", "history"] {
        body.remove(ours);
    }
    body.entry("extends").or_insert_with(|| json!([BASE]));
    let metadata = body.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    metadata["name"] = json!(name);
    if metadata.get("agent").is_none() {
        metadata["agent"] = hybrid.unwrap_or(json!(true));
    }
    let body = Value::Object(body).to_string();
    if body.len() > BODY_BYTES_MAX {
        return Err(ApiError::bad_request(format!(
            "a runtime environment has at most {BODY_BYTES_MAX} bytes"
        )));
    }
    let changed_by = caller.principal.display_name();
    let mut row = RuntimeEnvironment {
        name: name.to_owned(),
        version: 0,
        body,
        description,
        changed_by,
        at_ms: now_ms,
    };
    row.version = runtime_environments::put(tx, scope, &row)?;
    let entry = Entry::new("update", "runtime-environment", name, name).after(&row.body);
    caller.trail.allowed(tx, &caller.actor(), &entry)?;
    Ok(row)
}

/// Create or replace a runtime environment. `extend` may be given several times.
#[utoipa::path(put, path = "/api/runtime-environments/{name}", tag = "runtime-environments",
    params(("name" = String, Path), ("extend" = Option<Vec<String>>, Query), ("description" = Option<String>, Query)),
    request_body = ShownRuntime,
    responses((status = 200, body = ShownRuntime), (status = 400, body = ErrorBody)))]
pub(crate) async fn change(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    Json(mut body): Json<Map<String, Value>>,
) -> Result<Json<ShownRuntime>, ApiError> {
    let (extends, description) = wanted(query.as_deref().unwrap_or_default());
    if !extends.is_empty() {
        body.insert("extends".into(), json!(extends));
    }
    let now_ms = server.now_ms();
    let changed = server
        .change(move |tx| {
            let row = put(tx, &caller, &name, body, description, now_ms)?;
            let default = runtime_environments::default_name(tx, caller.scope())?;
            shown(&caller, &row, default.as_ref() == Some(&name))
        })
        .await?;
    Ok(Json(changed))
}

/// What a query says that names one thing several times.
fn wanted(query: &str) -> (Vec<String>, Option<String>) {
    let (mut extends, mut description) = (Vec::new(), None);
    let whole: Option<reqwest::Url> = format!("http://query/?{query}").parse().ok();
    for (key, value) in whole.iter().flat_map(reqwest::Url::query_pairs) {
        match key.as_ref() {
            "extend" | "extend[]" if !value.is_empty() => extends.push(value.into_owned()),
            "description" if !value.is_empty() => description = Some(value.into_owned()),
            _ => {}
        }
    }
    (extends, description)
}

/// Choose the default runtime environment of pipelines.
#[utoipa::path(put, path = "/api/runtime-environments/default/{name}", tag = "runtime-environments", params(("name" = String, Path)),
    responses((status = 200, body = ShownRuntime), (status = 404, body = ErrorBody)))]
pub(crate) async fn make_default(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<ShownRuntime>, ApiError> {
    let changed = server
        .change(move |tx| {
            let row = find(tx, &caller, &name)?;
            runtime_environments::make_default(tx, caller.scope(), &name)?;
            let entry = Entry::new("make-default", "runtime-environment", &name, &name);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            shown(&caller, &row, true)
        })
        .await?;
    Ok(Json(changed))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeleteQuery {
    /// Although it is the default.
    force: Option<bool>,
}

/// Delete a runtime environment. Agents no longer serve it; its builds go to others.
#[utoipa::path(delete, path = "/api/runtime-environments/{name}", tag = "runtime-environments", params(("name" = String, Path), DeleteQuery),
    responses((status = 200, body = String), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn delete(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<DeleteQuery>,
) -> Result<Json<String>, ApiError> {
    server
        .change(move |tx| {
            let scope = caller.scope();
            find(tx, &caller, &name)?;
            if builds::runners(tx, scope)?.iter().any(|runner| runner.name == name) {
                return Err(ApiError::conflict(format!(
                    "`{name}` is a runner: remove it with `slipway runner uninstall {name}`"
                )));
            }
            let is_default = runtime_environments::default_name(tx, scope)?.as_ref() == Some(&name);
            if is_default && query.force != Some(true) {
                return Err(ApiError::conflict(format!(
                    "runtime environment `{name}` is the default: choose another default first, or delete it with force"
                )));
            }
            for mut agent in agents::list(tx, scope)? {
                if agent.runtimes.contains(&name) {
                    agent.runtimes.retain(|runtime| *runtime != name);
                    agents::update(tx, scope, &agent)?;
                }
            }
            runtime_environments::delete(tx, scope, &name)?;
            let entry = Entry::new("delete", "runtime-environment", &name, &name);
            Ok(caller.trail.allowed(tx, &caller.actor(), &entry)?)
        })
        .await?;
    Ok(Json("ok".into()))
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RegisterCluster {
    runtime_environment_name: String,
    namespace: String,
    cluster_name: String,
    storage_class_name: Option<String>,
    service_account: Option<String>,
    #[schema(value_type = Object)]
    node_selector: Option<Value>,
    #[schema(value_type = Object)]
    annotations: Option<Value>,
    /// An agent in that cluster makes its pods.
    agent: bool,
}

/// Register a cluster for builds as a runtime environment, as the installer of the published runner does.
#[utoipa::path(post, path = "/api/custom_clusters/register", tag = "runtime-environments", request_body = RegisterCluster,
    responses((status = 200, body = ShownRuntime), (status = 400, body = ErrorBody)))]
pub(crate) async fn register(
    State(server): State<Server>,
    caller: Caller,
    Json(body): Json<RegisterCluster>,
) -> Result<Json<ShownRuntime>, ApiError> {
    crate::http::input::plain_name("a namespace", &body.namespace)?;
    let name = body.runtime_environment_name;
    let mut cluster = json!({"namespace": body.namespace, "inCluster": body.agent,
        "clusterProvider": {"accountId": caller.principal.account.to_string(), "selector": body.cluster_name}});
    let mut scheduler = json!({"type": "KubernetesPod"});
    if let Some(account) = body.service_account {
        cluster["serviceAccount"] = json!(account);
    }
    if let Some(selector) = body.node_selector.filter(Value::is_object) {
        cluster["nodeSelector"] = selector;
    }
    if let Some(annotations) = body.annotations.filter(Value::is_object) {
        scheduler["annotations"] = annotations;
    }
    scheduler["cluster"] = cluster.clone();
    let mut claim = json!({"name": "dind"});
    if let Some(class) = body.storage_class_name {
        claim["storageClassName"] = json!(class);
    }
    let described = json!({
        "metadata": {"name": name, "agent": body.agent},
        "runtimeScheduler": scheduler,
        "dockerDaemonScheduler": {"type": "DindKubernetesPod", "cluster": cluster, "pvcs": [claim]},
    });
    let Value::Object(described) = described else { unreachable!("written as an object") };
    let now_ms = server.now_ms();
    let made = server
        .change(move |tx| {
            let row = put(tx, &caller, &name, described, None, now_ms)?;
            let default = runtime_environments::default_name(tx, caller.scope())?;
            shown(&caller, &row, default.as_ref() == Some(&name))
        })
        .await?;
    Ok(Json(made))
}
