//! The app-proxy: what browsers and CLIs ask a runtime directly, because manifests and diffs never leave it.
//!
//! Whether the asker may is decided by the control plane, which gave them a pass for one operation on one Application of this
//! runtime: nobody sends a cookie or a key here. Every route has its operation, and the control plane is asked whether the
//! pass is for it ([`asking`]). Answers hold masked objects only.

mod actions;
mod asking;
mod clusters;
mod declare;
mod deletion;
mod deployment;
mod events;
mod exec;
mod git;
mod graphql;
mod live;
mod logs;
mod orders;
mod own_log;
mod peer;
mod reads;
mod rollouts;
mod running;
mod tree;

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Path};
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use slipway_api::ErrorBody;
use slipway_api::application::{ProxyAbout, ProxyOperation};
use slipway_api::error::ErrorDetail;
use slipway_cluster::{ClusterError, WriteOptions};
use slipway_crd::{Application, names};
use slipway_reconcile::Key;
use slipway_source::without_userinfo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Handle;
use crate::engines::applications::observe::Observed;
use crate::report::outward::masked;
use asking::{Asker, Passes, authorise, authorise_git};
pub use graphql::sdl as app_proxy_graphql;
pub(crate) use running::Running;

/// Logs that are followed and commands in pods at once: each holds a connection to the cluster.
const STREAMS_MAX: usize = 64;

#[derive(Clone)]
struct Proxy {
    handle: Handle,
    passes: Arc<Passes>,
    streams: Arc<Semaphore>,
}

/// The routes under `/app-proxy/api`.
pub fn app_proxy_router(handle: Handle) -> Router {
    let proxy = Proxy { handle, passes: Arc::default(), streams: Arc::new(Semaphore::new(STREAMS_MAX)) };
    let mut router = Router::new();
    for operation in ProxyOperation::ALL.iter().copied() {
        let (word, state) = (operation.word(), (proxy.clone(), operation));
        router = match operation.about() {
            ProxyAbout::Application => {
                let path = format!("/app-proxy/api/applications/{{namespace}}/{{name}}/{word}");
                router.route(&path, handler(operation).layer(from_fn_with_state(state, authorise)))
            }
            ProxyAbout::Git => {
                let path = format!("/app-proxy/api/git/{word}");
                router.route(&path, handler(operation).layer(from_fn_with_state(state, authorise_git)))
            }
            ProxyAbout::Cluster => {
                let path = format!("/app-proxy/api/clusters/{word}");
                router.route(&path, handler(operation).layer(from_fn_with_state(state, authorise_git)))
            }
            ProxyAbout::Runtime => {
                let path = format!("/app-proxy/api/runtime/{word}");
                router.route(&path, handler(operation).layer(from_fn_with_state(state, authorise_git)))
            }
        };
    }
    // A provider sends a browser there: no pass can come with it, and nothing is done.
    let router = router.route("/app-proxy/api/git-auth/{provider}/callback", get(git::callback));
    let rest = router.with_state(proxy);
    graphql::router(rest.clone()).merge(rest)
}

/// What does each operation: one that is new has to stand here, and is asked about before it runs.
fn handler(operation: ProxyOperation) -> MethodRouter<Proxy> {
    match operation {
        ProxyOperation::Diff => get(reads::diff),
        ProxyOperation::Plan => get(reads::plan),
        ProxyOperation::Manifests => get(reads::manifests),
        ProxyOperation::Tree => get(reads::tree),
        ProxyOperation::Events => get(events::events),
        ProxyOperation::Resource => get(reads::resource),
        ProxyOperation::Live => get(live::live),
        ProxyOperation::Sync => post(orders::sync_now),
        ProxyOperation::Refresh => post(orders::refresh),
        ProxyOperation::Rollback => post(orders::rollback),
        ProxyOperation::Terminate => post(orders::terminate),
        ProxyOperation::SyncPolicy => post(orders::sync_policy),
        ProxyOperation::Actions => get(actions::list),
        ProxyOperation::Action => post(actions::run),
        ProxyOperation::Logs => post(logs::logs),
        ProxyOperation::DeleteResource => post(deletion::delete),
        ProxyOperation::Exec => get(exec::exec),
        ProxyOperation::Create => post(declare::create),
        ProxyOperation::Edit => post(declare::edit),
        ProxyOperation::Delete => post(declare::delete),
        ProxyOperation::RolloutPause => post(rollouts::pause),
        ProxyOperation::RolloutResume => post(rollouts::resume),
        ProxyOperation::RolloutPromoteFull => post(rollouts::promote_full),
        ProxyOperation::RolloutSkipCurrentStep => post(rollouts::skip_current_step),
        ProxyOperation::RolloutAbort => post(rollouts::abort),
        ProxyOperation::RolloutRetry => post(rollouts::retry),
        ProxyOperation::RolloutRestart => post(rollouts::restart),
        ProxyOperation::GitTokens => get(git::tokens),
        ProxyOperation::GitRegister => post(git::register),
        ProxyOperation::GitForget => post(git::forget),
        ProxyOperation::GitAuthorize => post(git::authorize),
        ProxyOperation::GitConnect => post(git::connect),
        ProxyOperation::GitOrganizations => get(git::organizations),
        ProxyOperation::GitRepositories => get(git::repositories),
        ProxyOperation::GitBranches => get(git::branches),
        ProxyOperation::ClusterAdd => post(clusters::add),
        ProxyOperation::ClusterRemove => post(clusters::remove),
        ProxyOperation::RuntimeLogs => post(own_log::read),
        // Its own limit stands before it.
        ProxyOperation::GitCommit => post(git::commit).layer(DefaultBodyLimit::disable()),
    }
}

/// An answer that is an error.
struct Refusal {
    status: StatusCode,
    name: &'static str,
    message: String,
    details: Vec<ErrorDetail>,
}

impl Refusal {
    fn new(status: StatusCode, name: &'static str, message: impl Into<String>) -> Self {
        Self { status, name, message: message.into(), details: Vec::new() }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = ErrorBody {
            status: self.status.as_u16(),
            code: self.status.as_u16().to_string(),
            name: self.name.into(),
            message: without_userinfo(&self.message),
            details: masked(self.details),
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

impl Proxy {
    fn running(&self) -> Result<&Arc<Running>, Refusal> {
        self.handle.running.get().ok_or_else(|| {
            Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "STARTING",
                "the runtime is starting; try again in a moment",
            )
        })
    }

    /// A place for something that goes on.
    fn stream(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.streams.clone().try_acquire_owned().map_err(|_| {
            Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                "TOO_MANY_STREAMS",
                format!(
                    "{STREAMS_MAX} logs and commands are open at this runtime: close one, or try again later"
                ),
            )
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
