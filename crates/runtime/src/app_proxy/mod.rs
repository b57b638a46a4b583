//! The app-proxy: what browsers and CLIs ask a runtime directly, because manifests and diffs never leave it.
//!
//! Whether the asker may is decided by the control plane, which gave them a pass for one operation on one Application of this
//! runtime: nobody sends a cookie or a key here. Every route has its operation, and the control plane is asked whether the
//! pass is for it; what changes something is asked about each time, and a pass for it is good once. Answers hold masked
//! objects only.

mod actions;
mod deployment;
mod orders;
mod reads;
mod running;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use slipway_api::ErrorBody;
use slipway_api::application::{PassQuestion, ProxyAnswer, ProxyOperation, ProxyQuestion, changes_something};
use slipway_cluster::{ClusterError, WriteOptions};
use slipway_crd::{Application, names};
use slipway_reconcile::Key;

use crate::Handle;
use crate::engines::applications::observe::Observed;
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
        ProxyOperation::Diff => get(reads::diff),
        ProxyOperation::Plan => get(reads::plan),
        ProxyOperation::Manifests => get(reads::manifests),
        ProxyOperation::Sync => post(orders::sync_now),
        ProxyOperation::Refresh => post(orders::refresh),
        ProxyOperation::Rollback => post(orders::rollback),
        ProxyOperation::Terminate => post(orders::terminate),
        ProxyOperation::SyncPolicy => post(orders::sync_policy),
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

type AppPath = Path<(String, String)>;

fn app_key(Path((namespace, name)): AppPath) -> Key {
    Key::new(crate::engines::APPLICATION, namespace, name)
}

fn done(message: &str) -> Json<Value> {
    Json(json!({"message": message}))
}
