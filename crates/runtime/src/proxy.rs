//! The app-proxy: what browsers and CLIs ask a runtime directly, because manifests and diffs never leave it.
//!
//! Who asks is checked with the control plane, by the asker's own cookie or key; answers hold masked objects only.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use slipway_api::ErrorBody;
use slipway_api::application::{ApplicationDiff, ApplicationPlan, PlanStep, ResourceDiff, SyncRequest};
use slipway_api::auth::User;
use slipway_cluster::{ClusterError, WriteOptions};
use slipway_crd::{Application, InitiatedBy, Operation, SyncOperation, names};
use slipway_gitops::diff::{block_text, masked, unified};
use slipway_gitops::sync::{self, Action, SyncProgress};
use slipway_gitops::{SyncCode, object};

use crate::Handle;
use crate::engine::Engine;
use crate::observe::Observed;
use crate::queue::AppKey;
use crate::reconcile::is_running;

/// How long an answer about who somebody is may be used again.
const TRUST: Duration = Duration::from_secs(2);

/// Users by a fingerprint of the headers that they sent, and when the control plane was asked.
type KnownUsers = HashMap<[u8; 32], (Instant, User)>;

#[derive(Clone)]
struct Proxy {
    handle: Handle,
    http: reqwest::Client,
    known: Arc<Mutex<KnownUsers>>,
}

/// The routes under `/app-proxy/api/applications`.
pub fn app_proxy_router(handle: Handle) -> Router {
    let http = reqwest::Client::builder()
        .timeout(Duration::from_secs(10))
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .expect("a client with static settings builds");
    let proxy = Proxy { handle, http, known: Arc::default() };
    let at = |verb: &str| format!("/app-proxy/api/applications/{{namespace}}/{{name}}/{verb}");
    Router::new()
        .route(&at("diff"), get(diff))
        .route(&at("plan"), get(plan))
        .route(&at("manifests"), get(manifests))
        .route(&at("sync"), post(sync_now))
        .route(&at("refresh"), post(refresh))
        .route(&at("rollback"), post(rollback))
        .route(&at("terminate"), post(terminate))
        .layer(axum::middleware::from_fn_with_state(proxy.clone(), authorise))
        .with_state(proxy)
}

/// An answer that is an error.
struct Refusal {
    status: StatusCode,
    name: &'static str,
    message: String,
}

impl Refusal {
    fn new(status: StatusCode, name: &'static str, message: impl Into<String>) -> Self {
        Self { status, name, message: message.into() }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = ErrorBody {
            status: self.status.as_u16(),
            code: self.status.as_u16().to_string(),
            name: self.name.into(),
            message: self.message,
            request_id: None,
        };
        (self.status, Json(body)).into_response()
    }
}

impl From<ClusterError> for Refusal {
    fn from(error: ClusterError) -> Self {
        if error.is_conflict() {
            return Self::new(
                StatusCode::CONFLICT,
                "CONFLICT",
                "the application changed meanwhile; try again",
            );
        }
        Self::new(StatusCode::BAD_GATEWAY, "CLUSTER_ERROR", error.to_string())
    }
}

/// What a rule has to allow for each verb of a path; those that only look need `VIEW`.
fn right_for(path: &str) -> &'static str {
    match path.rsplit('/').next().unwrap_or_default() {
        "sync" => "SYNC",
        "refresh" => "REFRESH",
        "rollback" => "APP_ROLLBACK",
        "terminate" => "TERMINATE_SYNC",
        _ => "VIEW",
    }
}

/// Asks the control plane whether this caller may do this to this Application, with the headers that came.
async fn authorise(
    State(proxy): State<Proxy>,
    Path((namespace, name)): AppPath,
    mut request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let asked = Asked { namespace, name, action: right_for(request.uri().path()) };
    let user = proxy.user(request.headers(), &asked).await?;
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    // A cookie is sent by any page that the browser shows; the token only by ours.
    if changes && !request.headers().contains_key("authorization") {
        let token = request.headers().get("x-csrf-token").and_then(|value| value.to_str().ok());
        if user.csrf_token.is_none() || token != user.csrf_token.as_deref() {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "CSRF",
                "the page is out of date; load it again",
            ));
        }
    }
    request.extensions_mut().insert(user);
    Ok(next.run(request).await)
}

/// What somebody wants to do to which Application.
struct Asked {
    namespace: String,
    name: String,
    action: &'static str,
}

impl Proxy {
    fn engine(&self) -> Result<&Arc<Engine>, Refusal> {
        self.handle.engine.get().ok_or_else(|| {
            Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "STARTING",
                "the runtime is starting; try again in a moment",
            )
        })
    }

    async fn user(&self, headers: &HeaderMap, asked: &Asked) -> Result<User, Refusal> {
        let unknown = || Refusal::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", "sign in first");
        let sent: Vec<(&str, &[u8])> = ["authorization", "cookie", "x-access-token"]
            .iter()
            .filter_map(|name| Some((*name, headers.get(*name)?.as_bytes())))
            .collect();
        if sent.is_empty() {
            return Err(unknown());
        }
        let mut hash = Sha256::new();
        let what = [("namespace", &asked.namespace), ("name", &asked.name)];
        let what = what.map(|(part, value)| (part, value.as_bytes()));
        for (name, value) in sent.iter().chain(&what).chain(&[("action", asked.action.as_bytes())]) {
            hash.update(name);
            hash.update((value.len() as u64).to_be_bytes());
            hash.update(value);
        }
        let print: [u8; 32] = hash.finalize().into();
        {
            let mut known = self.known.lock().expect("no panic while locked");
            known.retain(|_, (asked, _)| asked.elapsed() < TRUST);
            if let Some((_, user)) = known.get(&print) {
                return Ok(user.clone());
            }
        }
        let Some(server) = self.engine()?.config.server.clone() else {
            return Err(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "NO_CONTROL_PLANE",
                "this runtime runs alone; use kubectl on the Application instead",
            ));
        };
        // Its own key says which runtime asks: people of another account are strangers here.
        let mut question = self
            .http
            .get(format!("{}/api/access/application", server.base()))
            .query(&[("action", asked.action), ("namespace", &asked.namespace), ("name", &asked.name)])
            .header("x-slipway-runtime", server.key().expose());
        for (name, value) in sent {
            question = question.header(name, value);
        }
        let answer = question.send().await.map_err(|_| {
            Refusal::new(
                StatusCode::BAD_GATEWAY,
                "CONTROL_PLANE_AWAY",
                "the control plane does not answer; try again",
            )
        })?;
        match answer.status().as_u16() {
            200 => {}
            status @ (403 | 404) => {
                let said: Option<ErrorBody> = answer.json().await.ok();
                let message = said.map_or_else(|| "you may not do this here".to_owned(), |body| body.message);
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN);
                return Err(Refusal::new(status, "FORBIDDEN", message));
            }
            _ => return Err(unknown()),
        }
        let user: User = answer.json().await.map_err(|_| unknown())?;
        self.known.lock().expect("no panic while locked").insert(print, (Instant::now(), user.clone()));
        Ok(user)
    }

    fn application(&self, key: &AppKey) -> Result<Application, Refusal> {
        let engine = self.engine()?;
        let found = engine.application(key).filter(|_| engine.governs(&key.namespace));
        found.map(|(app, _)| app).ok_or_else(|| {
            Refusal::new(StatusCode::NOT_FOUND, "NOT_FOUND", format!("there is no application {key} here"))
        })
    }

    /// A look of its own, beside the loop: it reads and changes nothing.
    async fn observe(&self, key: &AppKey) -> Result<(Application, Observed), Refusal> {
        let engine = self.engine()?;
        let app = self.application(key)?;
        let observed = engine.look_beside(key, &app).await;
        Ok((app, observed))
    }

    /// Patches the Application if it is still the one that was looked at.
    async fn patch(&self, app: &Application, mut patch: Value) -> Result<(), Refusal> {
        let engine = self.engine()?;
        patch["metadata"]["resourceVersion"] = app.metadata.resource_version.clone().into();
        let target = json!({"apiVersion": names::API_VERSION, "kind": "Application",
            "metadata": {"namespace": app.metadata.namespace, "name": app.metadata.name}});
        engine.cluster.merge(&target, &patch, WriteOptions::default()).await?;
        Ok(())
    }
}

type AppPath = Path<(String, String)>;

fn app_key(Path((namespace, name)): AppPath) -> AppKey {
    AppKey { namespace, name }
}

fn comparable(observed: &Observed) -> Result<(), Refusal> {
    match &observed.comparison.context.error {
        Some(error) => Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "COMPARISON_ERROR", error.clone())),
        None => Ok(()),
    }
}

async fn diff(State(proxy): State<Proxy>, path: AppPath) -> Result<Json<ApplicationDiff>, Refusal> {
    let (_, observed) = proxy.observe(&app_key(path)).await?;
    comparable(&observed)?;
    let resources = observed
        .comparison
        .resources
        .iter()
        .filter(|resource| !resource.hook)
        .map(|resource| {
            let (live, desired) = match &resource.diff {
                Some(diff) => (diff.live.clone(), diff.predicted.clone()),
                None => (Value::Null, Value::Null),
            };
            let change = match (live.is_null(), desired.is_null(), resource.status) {
                (true, false, _) => "add",
                (false, true, _) => "delete",
                (_, _, Some(SyncCode::OutOfSync)) => "change",
                _ => "same",
            };
            let name = format!("{}/{}", resource.key.kind, resource.key.name);
            ResourceDiff {
                group: resource.key.group.clone(),
                kind: resource.key.kind.clone(),
                namespace: resource.key.namespace.clone(),
                name: resource.key.name.clone(),
                change: change.into(),
                unified: if change == "same" { String::new() } else { unified(&name, &live, &desired) },
                live: block_text(&live),
                desired: block_text(&desired),
            }
        })
        .collect();
    Ok(Json(ApplicationDiff { resources }))
}

#[derive(Deserialize)]
struct PlanQuery {
    prune: Option<bool>,
}

async fn plan(
    State(proxy): State<Proxy>,
    path: AppPath,
    Query(query): Query<PlanQuery>,
) -> Result<Json<ApplicationPlan>, Refusal> {
    let (app, observed) = proxy.observe(&app_key(path)).await?;
    comparable(&observed)?;
    let automated_prune = app.spec.automation().is_some_and(|automated| automated.prune == Some(true));
    let revision =
        observed.desired.as_ref().and_then(|d| d.revisions().into_iter().next()).unwrap_or_default();
    let operation = SyncOperation {
        prune: query.prune.unwrap_or(automated_prune),
        sync_options: app.spec.sync_options().to_vec(),
        ..SyncOperation::default()
    };
    let progress = SyncProgress::start(Timestamp::now(), &revision);
    let plan = sync::plan(&observed.comparison, &operation, &progress);
    let steps = plan
        .steps
        .iter()
        .map(|step| PlanStep {
            phase: step.phase.as_str().into(),
            wave: step.wave,
            action: action(&step.action).into(),
            resource: step.key.to_string(),
            why: step.why.clone(),
        })
        .collect();
    let waiting = plan.waiting.iter().map(|waiting| waiting.sentence.clone()).collect();
    Ok(Json(ApplicationPlan { revision, steps, waiting, text: sync::explain(&plan) }))
}

fn action(action: &Action) -> &'static str {
    match action {
        Action::Apply { .. } => "apply",
        Action::Prune { .. } => "prune",
        Action::RunHook { .. } => "run hook",
        Action::ReleaseHook { .. } => "release hook",
        Action::DeleteHook { .. } => "delete hook",
    }
}

#[derive(Serialize)]
struct ManifestView {
    group: String,
    kind: String,
    namespace: String,
    name: String,
    /// Where it was written; the line is 0 for what a tool made.
    file: String,
    line: usize,
    yaml: String,
}

async fn manifests(State(proxy): State<Proxy>, path: AppPath) -> Result<Json<Value>, Refusal> {
    let (_, observed) = proxy.observe(&app_key(path)).await?;
    comparable(&observed)?;
    let sensitive = proxy.engine()?.settings().sensitive_annotations.clone();
    let views: Vec<ManifestView> = observed
        .desired
        .iter()
        .flat_map(|desired| desired.with_origins())
        .map(|(manifest, origin)| ManifestView {
            group: object::group(manifest).into(),
            kind: object::kind(manifest).into(),
            namespace: object::namespace(manifest).into(),
            name: object::name(manifest).into(),
            file: origin.file.clone(),
            line: origin.line,
            yaml: block_text(&masked(manifest, &sensitive)),
        })
        .collect();
    let revisions = observed.desired.as_ref().map(|desired| desired.revisions()).unwrap_or_default();
    Ok(Json(json!({"revisions": revisions, "manifests": views})))
}

fn busy(app: &Application) -> Result<(), Refusal> {
    if is_running(app) || app.operation.is_some() {
        return Err(Refusal::new(
            StatusCode::CONFLICT,
            "OPERATION_IN_PROGRESS",
            "another operation is already in progress; wait for it or terminate it",
        ));
    }
    Ok(())
}

fn done(message: &str) -> Json<Value> {
    Json(json!({"message": message}))
}

async fn sync_now(
    State(proxy): State<Proxy>,
    Extension(user): Extension<User>,
    path: AppPath,
    body: Option<Json<SyncRequest>>,
) -> Result<Json<Value>, Refusal> {
    let request = body.map(|Json(body)| body).unwrap_or_default();
    let app = proxy.application(&app_key(path))?;
    busy(&app)?;
    let operation = Operation {
        sync: Some(SyncOperation {
            revision: request.revision.unwrap_or_default(),
            prune: request.prune,
            dry_run: request.dry_run,
            sync_options: app.spec.sync_options().to_vec(),
            ..SyncOperation::default()
        }),
        initiated_by: InitiatedBy { username: user.user_name, ..InitiatedBy::default() },
        retry: app.spec.sync_policy.as_ref().and_then(|policy| policy.retry.clone()).unwrap_or_default(),
        ..Operation::default()
    };
    proxy.patch(&app, json!({"operation": operation})).await?;
    Ok(done("the sync was asked for"))
}

async fn refresh(State(proxy): State<Proxy>, path: AppPath) -> Result<Json<Value>, Refusal> {
    let app = proxy.application(&app_key(path))?;
    proxy.patch(&app, json!({"metadata": {"annotations": {names::REFRESH: "normal"}}})).await?;
    Ok(done("the refresh was asked for"))
}

#[derive(Deserialize)]
struct RollbackRequest {
    id: i64,
    #[serde(default)]
    prune: bool,
}

/// Syncs what was deployed before. Automation would undo it at once, so it is switched off in the same write.
async fn rollback(
    State(proxy): State<Proxy>,
    Extension(user): Extension<User>,
    path: AppPath,
    Json(request): Json<RollbackRequest>,
) -> Result<Json<Value>, Refusal> {
    let app = proxy.application(&app_key(path))?;
    busy(&app)?;
    let entry = app.status.history.iter().find(|entry| entry.id == request.id).ok_or_else(|| {
        Refusal::new(
            StatusCode::NOT_FOUND,
            "NOT_FOUND",
            format!("there is no deployment {} in the history", request.id),
        )
    })?;
    let operation = Operation {
        sync: Some(SyncOperation {
            revision: entry.revision.clone(),
            revisions: entry.revisions.clone(),
            source: entry.source.clone(),
            sources: entry.sources.clone(),
            prune: request.prune,
            sync_options: app.spec.sync_options().to_vec(),
            ..SyncOperation::default()
        }),
        initiated_by: InitiatedBy { username: user.user_name, ..InitiatedBy::default() },
        ..Operation::default()
    };
    let mut patch = json!({"operation": operation});
    let mut message = "the rollback was asked for";
    if app.spec.automation().is_some() {
        patch["spec"] = json!({"syncPolicy": {"automated": {"enabled": false}}});
        message = "the rollback was asked for, and automated sync was switched off so that it lasts";
    }
    proxy.patch(&app, patch).await?;
    Ok(done(message))
}

async fn terminate(State(proxy): State<Proxy>, path: AppPath) -> Result<Json<Value>, Refusal> {
    let app = proxy.application(&app_key(path))?;
    if !is_running(&app) {
        return Err(Refusal::new(StatusCode::CONFLICT, "NOTHING_RUNNING", "no operation is in progress"));
    }
    proxy.patch(&app, json!({"status": {"operationState": {"phase": "Terminating"}}})).await?;
    Ok(done("the operation is being ended"))
}
