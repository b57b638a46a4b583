//! The app-proxy: what browsers and CLIs ask a runtime directly, because manifests and diffs never leave it.
//!
//! Whether the asker may is decided by the control plane, which gave them a pass for one operation on one Application of this
//! runtime: nobody sends a cookie or a key here. Every route has its operation, and the control plane is asked whether the
//! pass is for it; what changes something is asked about each time, and a pass for it is good once. Answers hold masked
//! objects only.

mod actions;
mod deployment;
mod running;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Json, Router};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use slipway_api::ErrorBody;
use slipway_api::application::{
    ApplicationDiff, ApplicationPlan, OperationOrdered, PassQuestion, PlanStep, ProxyAnswer, ProxyOperation,
    ProxyQuestion, ResourceDiff, SyncPolicyRequest, SyncRequest, changes_something,
};
use slipway_cluster::{ClusterError, WriteOptions};
use slipway_crd::{Application, Info, InitiatedBy, Operation, SyncOperation, names};
use slipway_gitops::compare::rfc3339;
use slipway_gitops::diff::{block_text, masked, unified};
use slipway_gitops::sync::{self, Action, SyncProgress};
use slipway_gitops::{SyncCode, object};
use slipway_reconcile::Key;

use crate::Handle;
use crate::engines::applications::is_running;
use crate::engines::applications::observe::Observed;
use crate::report::view::{self, OPERATION_ID};
pub(crate) use running::Running;

/// How long an answer about who somebody is may be used again.
const TRUST: Duration = Duration::from_secs(2);

const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What people ask for is short.
const BODY_BYTES_MAX: usize = 64 << 10;

/// Longer than any pass is good.
const REMEMBERED: Duration = Duration::from_secs(180);

/// Who looks, by a fingerprint of the pass that they showed and of what they look at, and when the control plane was asked.
type KnownAskers = HashMap<[u8; 32], (Instant, Asker)>;

fn fingerprint(pass: &str, question: &ProxyQuestion) -> [u8; 32] {
    let what = [
        ("pass", pass.as_bytes()),
        ("namespace", question.namespace.as_bytes()),
        ("name", question.name.as_bytes()),
        ("operation", question.operation.word().as_bytes()),
    ];
    let mut hash = Sha256::new();
    for (name, value) in what {
        hash.update(name);
        hash.update((value.len() as u64).to_be_bytes());
        hash.update(value);
    }
    hash.finalize().into()
}

#[derive(Clone)]
struct Proxy {
    handle: Handle,
    known: Arc<Mutex<KnownAskers>>,
    /// Passes that something was changed with, and when.
    used: Arc<Mutex<HashMap<[u8; 32], Instant>>>,
}

/// The routes under `/app-proxy/api/applications`.
pub fn app_proxy_router(handle: Handle) -> Router {
    let proxy = Proxy { handle, known: Arc::default(), used: Arc::default() };
    let mut router = Router::new();
    for operation in ProxyOperation::ALL {
        let path = format!("/app-proxy/api/applications/{{namespace}}/{{name}}/{}", operation.word());
        let asks = axum::middleware::from_fn_with_state((proxy.clone(), operation), authorise);
        router = router.route(&path, handler(operation).layer(asks));
    }
    router.with_state(proxy)
}

/// What does each operation: one that is new has to stand here, and is asked about before it runs.
fn handler(operation: ProxyOperation) -> MethodRouter<Proxy> {
    match operation {
        ProxyOperation::Diff => get(diff),
        ProxyOperation::Plan => get(plan),
        ProxyOperation::Manifests => get(manifests),
        ProxyOperation::Sync => post(sync_now),
        ProxyOperation::Refresh => post(refresh),
        ProxyOperation::Rollback => post(rollback),
        ProxyOperation::Terminate => post(terminate),
        ProxyOperation::SyncPolicy => post(sync_policy),
        ProxyOperation::Actions => get(actions::list),
        ProxyOperation::Action => post(actions::run),
    }
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
            details: Vec::new(),
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

/// Asks the control plane whether the pass that came is for this. What it is that is done stands with the route; there is no
/// route without.
async fn authorise(
    State((proxy, operation)): State<(Proxy, ProxyOperation)>,
    Path((namespace, name)): AppPath,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, BODY_BYTES_MAX)
        .await
        .map_err(|_| Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", "the body is too large"))?;
    let detail = serde_json::from_slice(&body).ok();
    let question = ProxyQuestion { operation, namespace, name, detail };
    let asker = proxy.asker(pass(&parts.headers)?, question).await?;
    let mut request = Request::from_parts(parts, axum::body::Body::from(body));
    request.extensions_mut().insert(asker);
    Ok(next.run(request).await)
}

fn pass(headers: &HeaderMap) -> Result<&str, Refusal> {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    sent.and_then(|value| value.strip_prefix("Bearer ")).filter(|pass| !pass.is_empty()).ok_or_else(|| {
        Refusal::new(
            StatusCode::UNAUTHORIZED,
            "UNAUTHORIZED",
            "show a pass: POST /api/runtimes/NAME/pass of the control plane gives one",
        )
    })
}

/// Who asked, as the control plane names them.
#[derive(Clone)]
struct Asker(String);

impl Proxy {
    fn running(&self) -> Result<&Running, Refusal> {
        self.handle.running.get().ok_or_else(|| {
            Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "STARTING",
                "the runtime is starting; try again in a moment",
            )
        })
    }

    /// Whoever looks is known for a moment. Whoever changes something is asked about each time, with a pass of its own.
    async fn asker(&self, pass: &str, question: ProxyQuestion) -> Result<Asker, Refusal> {
        let print = fingerprint(pass, &question);
        if changes_something(question.operation) {
            let asker = self.ask(pass, question).await?;
            let mut used = self.used.lock().expect("no panic while locked");
            used.retain(|_, at| at.elapsed() < REMEMBERED);
            return match used.insert(print, Instant::now()) {
                None => Ok(asker),
                Some(_) => Err(Refusal::new(
                    StatusCode::UNAUTHORIZED,
                    "PASS_USED",
                    "this pass was used before: ask the control plane for a new one",
                )),
            };
        }
        {
            let mut known = self.known.lock().expect("no panic while locked");
            known.retain(|_, (asked, _)| asked.elapsed() < TRUST);
            if let Some((_, asker)) = known.get(&print) {
                return Ok(asker.clone());
            }
        }
        let asker = self.ask(pass, question).await?;
        self.known.lock().expect("no panic while locked").insert(print, (Instant::now(), asker.clone()));
        Ok(asker)
    }

    async fn ask(&self, pass: &str, question: ProxyQuestion) -> Result<Asker, Refusal> {
        let Some(server) = self.running()?.server.clone() else {
            return Err(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "NO_CONTROL_PLANE",
                "this runtime runs alone; use kubectl on the Application instead",
            ));
        };
        let question = PassQuestion { pass: pass.to_owned(), question };
        let asking = server.post::<_, ProxyAnswer>("/api/access/application", &question);
        let answer = tokio::time::timeout(ANSWER_WITHIN, asking).await;
        let away = |message: String| Refusal::new(StatusCode::BAD_GATEWAY, "CONTROL_PLANE_AWAY", message);
        let error = match answer {
            Ok(Ok(answer)) => return Ok(Asker(answer.user_name)),
            Ok(Err(error)) => error,
            Err(_) => return Err(away("the control plane does not answer; try again".to_owned())),
        };
        Err(match error.status() {
            Some(401) => Refusal::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", error.to_string()),
            Some(403) => Refusal::new(StatusCode::FORBIDDEN, "FORBIDDEN", error.to_string()),
            Some(404) => Refusal::new(StatusCode::NOT_FOUND, "FORBIDDEN", error.to_string()),
            Some(_) => away(format!("the control plane cannot say whether you may: {error}")),
            None => away("the control plane does not answer; try again".to_owned()),
        })
    }

    fn application(&self, key: &Key) -> Result<Application, Refusal> {
        self.running()?.application(key).ok_or_else(|| {
            Refusal::new(StatusCode::NOT_FOUND, "NOT_FOUND", format!("there is no application {key} here"))
        })
    }

    /// A look of its own, beside the loop: it reads and changes nothing.
    async fn observe(&self, key: &Key) -> Result<(Application, Observed), Refusal> {
        let app = self.application(key)?;
        let observed = self.running()?.view.observe(key, &app).await;
        Ok((app, observed))
    }

    /// Asks for an operation, under an id that whoever asked can wait for.
    async fn order(
        &self,
        app: &Application,
        mut operation: Operation,
        mut patch: Value,
        message: &str,
    ) -> Result<Json<OperationOrdered>, Refusal> {
        let id = operation_id();
        operation.info.push(Info { name: OPERATION_ID.into(), value: id.clone(), ..Info::default() });
        patch["operation"] = json!(operation);
        let requested_at = rfc3339(Timestamp::now());
        self.patch(app, patch).await?;
        let key = crate::engines::key_of(app);
        self.running()?.reporter.ordered(&key, view::pending(&operation)).await;
        Ok(Json(OperationOrdered { message: message.into(), operation_id: id, requested_at }))
    }

    /// Patches the Application if it is still the one that was looked at.
    async fn patch(&self, app: &Application, mut patch: Value) -> Result<(), Refusal> {
        patch["metadata"]["resourceVersion"] = app.metadata.resource_version.clone().into();
        self.write(app, patch).await
    }

    /// Patches the Application as it is now: for what does not depend on the rest of it.
    async fn write(&self, app: &Application, patch: Value) -> Result<(), Refusal> {
        let target = json!({"apiVersion": names::API_VERSION, "kind": "Application",
            "metadata": {"namespace": app.metadata.namespace, "name": app.metadata.name}});
        self.running()?.cluster.merge(&target, &patch, WriteOptions::default()).await?;
        Ok(())
    }
}

fn operation_id() -> String {
    let mut bytes = [0; 12];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has randomness");
    hex::encode(bytes)
}

type AppPath = Path<(String, String)>;

fn app_key(Path((namespace, name)): AppPath) -> Key {
    Key::new(crate::engines::APPLICATION, namespace, name)
}

fn comparable(observed: &Observed) -> Result<(), Refusal> {
    match &observed.comparison.context.error {
        Some(error) => Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "COMPARISON_ERROR", error.clone())),
        None => Ok(()),
    }
}

#[derive(Deserialize)]
struct DiffQuery {
    /// A deployment of the history: what a rollback to it would change.
    deployment: Option<i64>,
}

async fn diff(
    State(proxy): State<Proxy>,
    path: AppPath,
    Query(query): Query<DiffQuery>,
) -> Result<Json<ApplicationDiff>, Refusal> {
    let key = app_key(path);
    let mut app = proxy.application(&key)?;
    if let Some(id) = query.deployment {
        app = deployment::as_deployed(&app, id)?;
    }
    let observed = proxy.running()?.view.observe(&key, &app).await;
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
    let waiting = plan.waiting.iter().map(|waiting| waiting.plain()).collect();
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
    let sensitive = proxy.running()?.settings.get().sensitive_annotations.clone();
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
    Extension(Asker(username)): Extension<Asker>,
    path: AppPath,
    body: Option<Json<SyncRequest>>,
) -> Result<Json<OperationOrdered>, Refusal> {
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
        initiated_by: InitiatedBy { username, ..InitiatedBy::default() },
        retry: app.spec.sync_policy.as_ref().and_then(|policy| policy.retry.clone()).unwrap_or_default(),
        ..Operation::default()
    };
    let patch = json!({});
    proxy.order(&app, operation, patch, "sync requested").await
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RefreshRequest {
    /// Render again even what is in a cache.
    hard: bool,
}

async fn refresh(
    State(proxy): State<Proxy>,
    path: AppPath,
    body: Option<Json<RefreshRequest>>,
) -> Result<Json<Value>, Refusal> {
    let app = proxy.application(&app_key(path))?;
    let hard = body.is_some_and(|Json(body)| body.hard);
    let how = if hard { "hard" } else { "normal" };
    proxy.patch(&app, json!({"metadata": {"annotations": {names::REFRESH: how}}})).await?;
    Ok(done(if hard { "hard refresh requested" } else { "refresh requested" }))
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
    Extension(Asker(username)): Extension<Asker>,
    path: AppPath,
    Json(request): Json<RollbackRequest>,
) -> Result<Json<OperationOrdered>, Refusal> {
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
        initiated_by: InitiatedBy { username, ..InitiatedBy::default() },
        ..Operation::default()
    };
    let mut patch = json!({});
    let mut message = "rollback requested";
    if app.spec.automation().is_some() {
        patch["spec"] = json!({"syncPolicy": {"automated": {"enabled": false}}});
        message = "rollback requested; automated sync was disabled so that it is not undone";
    }
    proxy.order(&app, operation, patch, message).await
}

/// Switches automated sync on or off, which a rollback does too. The rest of the policy stays.
async fn sync_policy(
    State(proxy): State<Proxy>,
    path: AppPath,
    Json(request): Json<SyncPolicyRequest>,
) -> Result<Json<Value>, Refusal> {
    let app = proxy.application(&app_key(path))?;
    let mut automated = serde_json::Map::new();
    let fields = [("enabled", request.automated), ("selfHeal", request.self_heal), ("prune", request.prune)];
    for (name, value) in fields {
        automated.extend(value.map(|value| (name.to_owned(), Value::Bool(value))));
    }
    if automated.is_empty() {
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "NOTHING_TO_CHANGE",
            "give automated, selfHeal or prune",
        ));
    }
    // A policy that is not there would be switched on by writing it.
    let on = request.automated.unwrap_or_else(|| app.spec.automation().is_some());
    automated.insert("enabled".to_owned(), on.into());
    proxy.write(&app, json!({"spec": {"syncPolicy": {"automated": automated}}})).await?;
    Ok(done(if on { "automated sync is on" } else { "automated sync is off" }))
}

async fn terminate(State(proxy): State<Proxy>, path: AppPath) -> Result<Json<Value>, Refusal> {
    let app = proxy.application(&app_key(path))?;
    if !is_running(&app) {
        return Err(Refusal::new(StatusCode::CONFLICT, "NOTHING_RUNNING", "no operation is in progress"));
    }
    proxy.patch(&app, json!({"status": {"operationState": {"phase": "Terminating"}}})).await?;
    Ok(done("the operation is being terminated"))
}
