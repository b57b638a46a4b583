//! Actions on one live object of an Application: restart, pause, scale, run now, and what argocd-cm adds in Lua.
//!
//! Only objects of the Application's tree ([`super::tree`]) can be acted on; what an action creates stays in the
//! namespace of the object, and the project has to permit its kind. Writes go out as a sync's do.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_api::application::{ActionRequest, ResourceAction, ResourceActions, ResourceRef};
use slipway_cluster::{ObjectKey, WriteOptions};
use slipway_crd::Application;
use slipway_gitops::actions::{self, ActionError, ActionInfo, Impact};
use slipway_gitops::{lua, object, project};
use slipway_reconcile::merge_patch;

use super::tree::Tree;
use super::{AppPath, Proxy, Refusal, Running, done};

fn unprocessable(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "ACTION_FAILED", message)
}

/// The live object, if the Application deployed it or what it belongs to.
async fn target(proxy: &Proxy, path: AppPath, of: &ResourceRef) -> Result<(Application, Value), Refusal> {
    let tree = Tree::of(proxy, path)?;
    let wanted = ObjectKey::new(&of.group, &of.kind, &of.namespace, &of.resource_name);
    tree.find(&wanted)?;
    let found = tree.to.cluster.read(&wanted).await?.ok_or_else(|| tree.nothing(&wanted))?;
    Ok((tree.app, found))
}

/// What can be done to the object, and the script of each action that argocd-cm defines.
fn offered(running: &Running, object: &Value) -> Result<Vec<(ActionInfo, Option<String>)>, Refusal> {
    let settings = running.settings.get();
    let custom = settings.custom_actions(object::group(object), object::kind(object));
    let mut all = Vec::new();
    if custom.is_none_or(|custom| custom.merge_built_in) {
        all.extend(actions::discover(object).into_iter().map(|info| (info, None)));
    }
    if let Some(custom) = custom {
        let found = lua::discover(&custom.discovery, object, Timestamp::now());
        for info in found.map_err(|error| unprocessable(error.to_string()))? {
            let defined = custom.definitions.iter().find(|definition| definition.name == info.name);
            if let Some(defined) = defined {
                all.retain(|(known, _)| known.name != info.name);
                all.push((info, Some(defined.script.clone())));
            }
        }
    }
    Ok(all)
}

pub(super) async fn list(
    State(proxy): State<Proxy>,
    path: AppPath,
    Query(of): Query<ResourceRef>,
) -> Result<Json<ResourceActions>, Refusal> {
    let (_, object) = target(&proxy, path, &of).await?;
    let all = offered(proxy.running()?, &object)?;
    let actions = all.into_iter().map(|(info, _)| ResourceAction {
        name: info.name,
        disabled: info.disabled,
        display_name: info.display_name,
        parameters: info.parameters,
    });
    Ok(Json(ResourceActions { actions: actions.collect() }))
}

pub(super) async fn run(
    State(proxy): State<Proxy>,
    path: AppPath,
    Json(request): Json<ActionRequest>,
) -> Result<Json<Value>, Refusal> {
    let of = ResourceRef {
        group: request.group,
        kind: request.kind,
        namespace: request.namespace,
        resource_name: request.resource_name,
    };
    let (app, object) = target(&proxy, path, &of).await?;
    let running = proxy.running()?;
    let chosen = offered(running, &object)?.into_iter().find(|(info, _)| info.name == request.action);
    let now = Timestamp::now();
    let impacts = match chosen {
        Some((info, _)) if info.disabled => {
            let error = ActionError::Disabled {
                name: info.name,
                object: format!("{}/{}", of.kind, of.resource_name),
            };
            return Err(Refusal::new(StatusCode::CONFLICT, "ACTION_DISABLED", error.to_string()));
        }
        Some((_, Some(script))) => lua::run_action(&script, &object, &request.parameters, now)
            .map_err(|error| unprocessable(error.to_string()))?,
        _ => vec![
            actions::run(&object, &request.action, &request.parameters, now)
                .map_err(|error| unprocessable(error.to_string()))?,
        ],
    };
    for impact in impacts {
        apply(running, &app, &object, impact).await?;
    }
    Ok(done(&format!("action {} was run on {}/{}", request.action, of.kind, of.resource_name)))
}

async fn apply(running: &Running, app: &Application, object: &Value, impact: Impact) -> Result<(), Refusal> {
    let to = running.permits().clusters.destination(app).map_err(|error| unprocessable(error.message()))?;
    let cluster = running.permits().writer(app, &to).map_err(unprocessable)?;
    match impact {
        Impact::Patch(changed) => {
            if ObjectKey::of(&changed) != ObjectKey::of(object) {
                return Err(unprocessable("an action may only change the object that it is run on"));
            }
            let Some(mut patch) = merge_patch(object, &changed) else { return Ok(()) };
            let status = patch.as_object_mut().and_then(|patch| patch.remove("status"));
            if let Some(status) = status {
                cluster.merge_subresource(object, "status", &json!({"status": status})).await?;
            }
            if patch.as_object().is_some_and(|patch| !patch.is_empty()) {
                cluster.merge(object, &patch, WriteOptions::default()).await?;
            }
        }
        Impact::Create(mut made) => {
            let home = object::namespace(object);
            if object::namespace(&made).is_empty() && !home.is_empty() {
                made["metadata"]["namespace"] = home.into();
            }
            let namespaced = !object::namespace(&made).is_empty();
            let (group, kind, name) = (object::group(&made), object::kind(&made), object::name(&made));
            let project = running.permits().project(app).map_err(|failure| unprocessable(failure.message))?;
            let permitted = object::namespace(&made) == home
                && project::permits_kind(&project, group, kind, name, namespaced);
            if !permitted {
                return Err(unprocessable(format!(
                    "the action would create {kind}/{name}, which is outside of the object's namespace or which project '{}' does not permit",
                    app.spec.project_name()
                )));
            }
            cluster.create(&made, WriteOptions::default()).await?;
        }
    }
    Ok(())
}
