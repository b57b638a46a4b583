//! All routes with their policies, and what surrounds every call: limits, request ids, logs.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use slipway_access::Policy;
use utoipa::openapi::{InfoBuilder, OpenApiBuilder};
use utoipa_axum::routes;

use crate::ctx::Server;
use crate::graphql::{self, Endpoint};
use crate::rest::{applications, builds, keys, logs, pipelines, repos, user, validator};
use crate::routes::Routes;
use crate::{agent, git_host, web};

const BODY_BYTES_MAX: usize = 8 << 20;

/// Everything the control plane answers. `beside` is mounted on the same address (a runtime's app-proxy).
pub fn router(server: &Server, beside: Option<axum::Router>) -> axum::Router {
    let (api, document) = described(server).finish();
    let document = Arc::new(document.to_pretty_json().expect("the document is JSON"));
    let shown = document.clone();
    let git = Routes::new(server.clone(), utoipa::openapi::OpenApi::default())
        .plain(
            Policy::Git,
            "/git/{owner}/{repo}/{*rest}",
            any(git_host::serve).layer(DefaultBodyLimit::disable()),
        )
        .plain(Policy::Member, "/2.0/api/graphql", get(graphql::subscribe).post(graphql::query))
        .finish()
        .0
        .layer(axum::Extension(Endpoint(Arc::new(graphql::schema()))));
    let mut app = api
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .merge(git)
        .route("/healthz", get(|| async { "ok" }))
        .route(
            "/api/openapi.json",
            get(move || async move { ([("content-type", "application/json")], shown.to_string()) }),
        )
        .route(
            "/api/{*rest}",
            any(|| async {
                crate::ApiError::not_found("this path of the API: /api/openapi.json lists them")
            }),
        );
    if let Some(beside) = beside {
        app = app.merge(beside);
    }
    app.fallback(web::serve).layer(from_fn_with_state(server.clone(), own_roles)).layer(from_fn(around))
}

/// What another role answers is refused here with its name, so that a wrong route in front of the processes shows.
async fn own_roles(State(server): State<Server>, request: Request, next: Next) -> Response {
    let upgrade = request.headers().contains_key(header::UPGRADE);
    match server.inner.roles.answers(request.uri().path(), upgrade) {
        Ok(()) => next.run(request).await,
        Err(role) => {
            let message = format!(
                "this process has the roles {}; this path belongs to {}: send it to a process that has that role",
                server.inner.roles,
                role.name()
            );
            crate::ApiError::misdirected(message).into_response()
        }
    }
}

/// The OpenAPI document of this version.
pub fn openapi(server: &Server) -> String {
    described(server).finish().1.to_pretty_json().expect("the document is JSON")
}

fn described(server: &Server) -> Routes {
    let info = InfoBuilder::new()
        .title("Slipway")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("Pipelines, GitOps and their agents. Send an API key in the Authorization header."))
        .build();
    Routes::new(server.clone(), OpenApiBuilder::new().info(info).build())
        .with(Policy::Public, routes!(user::login))
        .with(Policy::Public, routes!(user::logout))
        .with(Policy::Member, routes!(user::me))
        .with(Policy::Member, routes!(keys::list))
        .with(Policy::Member, routes!(keys::create))
        .with(Policy::Member, routes!(keys::delete))
        .with(Policy::Member, routes!(pipelines::list))
        .with(Policy::Member, routes!(pipelines::create))
        .with(Policy::Member, routes!(pipelines::one))
        .with(Policy::Member, routes!(pipelines::replace))
        .with(Policy::Member, routes!(pipelines::delete))
        .with(Policy::Member, routes!(pipelines::run))
        .with(Policy::Member, routes!(validator::validate))
        .with(Policy::Member, routes!(builds::list))
        .with(Policy::Member, routes!(builds::one))
        .changing(Policy::Member, routes!(builds::restart))
        .with(Policy::Member, routes!(builds::progress))
        .with(Policy::Member, routes!(builds::terminate))
        .with(Policy::Member, routes!(logs::whole))
        .with(Policy::Member, routes!(logs::follow))
        .with(Policy::Member, routes!(repos::list))
        .with(Policy::Administrator, routes!(repos::create))
        .with(Policy::Member, routes!(applications::list))
        .with(Policy::Member, routes!(applications::one))
        .with(Policy::Member, routes!(applications::runtimes))
        .with(Policy::Member, routes!(applications::runners))
        .with(Policy::Runner, routes!(agent::runner::sync))
        .with(Policy::Runner, routes!(agent::runner::report_build))
        .with(Policy::Runner, routes!(agent::runner::append_logs))
        .with(Policy::Runtime, routes!(agent::runtime::events))
        .with(Policy::Runtime, routes!(agent::runtime::report_applications))
}

/// A request id for every call, in the answer and in the log.
async fn around(request: Request, next: Next) -> Response {
    let mut bytes = [0; 8];
    // Without randomness the id is a poorer one, and the call goes on.
    let _ = getrandom::fill(&mut bytes);
    let id = hex::encode(bytes);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let span = tracing::info_span!("request", id, %method, path);
    let mut response = tracing::Instrument::instrument(next.run(request), span.clone()).await;
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", value);
    }
    let _entered = span.enter();
    tracing::debug!(status = response.status().as_u16(), "Answered.");
    response
}
