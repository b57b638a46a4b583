//! The only way to mount a route: with the policy that guards it.

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use slipway_access::{Policy, decide};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::auth::{self, Caller};
use crate::ctx::Server;
use crate::error::ApiError;

#[derive(Clone)]
struct Guard {
    server: Server,
    policy: Policy,
    /// Published clients change things with GET in a few places; those are guarded as any other change.
    changes: bool,
}

pub(crate) struct Routes {
    server: Server,
    router: OpenApiRouter<Server>,
}

impl Routes {
    pub(crate) fn new(server: Server, document: utoipa::openapi::OpenApi) -> Self {
        Self { server, router: OpenApiRouter::with_openapi(document) }
    }

    pub(crate) fn with(self, policy: Policy, route: UtoipaMethodRouter<Server>) -> Self {
        self.mount(policy, false, route)
    }

    /// For a GET that changes something.
    pub(crate) fn changing(self, policy: Policy, route: UtoipaMethodRouter<Server>) -> Self {
        self.mount(policy, true, route)
    }

    /// For what is no part of the described API: the Git host, GraphQL.
    pub(crate) fn plain(
        mut self,
        policy: Policy,
        path: &str,
        route: axum::routing::MethodRouter<Server>,
    ) -> Self {
        let guard = Guard { server: self.server.clone(), policy, changes: false };
        self.router = self.router.route(path, route.layer(from_fn_with_state(guard, check)));
        self
    }

    fn mount(
        mut self,
        policy: Policy,
        changes: bool,
        (schemas, paths, methods): UtoipaMethodRouter<Server>,
    ) -> Self {
        let guard = Guard { server: self.server.clone(), policy, changes };
        self.router = self.router.routes((schemas, paths, methods.layer(from_fn_with_state(guard, check))));
        self
    }

    pub(crate) fn finish(self) -> (axum::Router, utoipa::openapi::OpenApi) {
        let (router, mut document) = self.router.split_for_parts();
        name_operations(&mut document);
        crate::refusals::describe(&mut document);
        (router.with_state(self.server), document)
    }
}

/// Handlers of different nouns share names; an operation's id is `noun.handler`.
fn name_operations(document: &mut utoipa::openapi::OpenApi) {
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete]
            .into_iter()
            .filter_map(Option::as_mut);
        for operation in operations {
            let noun = operation.tags.as_ref().and_then(|tags| tags.first());
            if let (Some(noun), Some(id)) = (noun, &operation.operation_id) {
                operation.operation_id = Some(format!("{noun}.{id}"));
            }
        }
    }
}

async fn check(
    axum::extract::State(guard): axum::extract::State<Guard>,
    mut request: Request,
    next: Next,
) -> Response {
    let admitted = admit(&guard, request.method(), request.headers()).await;
    match admitted {
        Ok(Some(caller)) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Ok(None) => next.run(request).await,
        Err(error) => refused(guard.policy, error),
    }
}

/// Git asks its user for a password when it sees this header. A browser would too, over the sign-in page.
fn refused(policy: Policy, error: ApiError) -> Response {
    let asks = policy == Policy::Git && error.status() == StatusCode::UNAUTHORIZED;
    let mut response = error.into_response();
    if asks {
        let realm =
            HeaderValue::from_static(r#"Basic realm="Slipway: any user name, an API key as password""#);
        response.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
    }
    response
}

async fn admit(guard: &Guard, method: &Method, headers: &HeaderMap) -> Result<Option<Caller>, ApiError> {
    let caller = match auth::authenticate(&guard.server, headers).await {
        // A stale cookie must not keep anybody from signing in again.
        Err(_) if guard.policy == Policy::Public => None,
        other => other?,
    };
    decide(caller.as_ref().map(|caller| &caller.principal), guard.policy)?;
    // Git and agents have no session, and a public route changes nothing in anybody's name.
    if let Some(caller) = caller.as_ref().filter(|_| guard.policy != Policy::Public) {
        auth::check_csrf(caller, method, guard.changes, headers)?;
    }
    Ok(caller)
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get::<Self>().cloned().ok_or_else(ApiError::unauthenticated)
    }
}
