//! The only way to mount a route: with the policy that guards it. The guard also keeps the audit trail.

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use slipway_access::{Policy, Verb, decide};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::ctx::Server;
use crate::http::error::{ApiError, Refusal};
use crate::http::router::RequestInfo;
use crate::identity::auth::{self, Caller};
use crate::identity::trail::{Actor, Trail};

#[derive(Clone)]
struct Guard {
    server: Server,
    policy: Policy,
    /// Published clients change things with GET in a few places; those are guarded as any other change.
    changes: bool,
    /// A browser must have signed in lately.
    fresh: bool,
    /// Every change is recorded, not only denials.
    audits: bool,
    /// A POST that changes nothing: its question is too long for an address.
    reads: bool,
    /// Said in small pieces after something that was recorded: only what fails is.
    quiet: bool,
}

impl Guard {
    fn new(server: &Server, policy: Policy) -> Self {
        Self {
            server: server.clone(),
            policy,
            changes: false,
            fresh: false,
            audits: true,
            reads: false,
            quiet: false,
        }
    }
}

/// One way in: what every test that walks all of them goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Door {
    pub method: String,
    pub path: String,
    /// `public`, `known`, `oneself`, `proxied`, `member`, `administrator`, `platform`, `runner`, `runtime` or `git`.
    pub policy: &'static str,
    /// What a limited key needs; `None` where no scope opens it, or where the handler knows which.
    pub scope: Option<String>,
    /// It may change something.
    pub changes: bool,
}

pub(crate) struct Routes {
    server: Server,
    router: OpenApiRouter<Server>,
    doors: Vec<Door>,
}

impl Routes {
    pub(crate) fn new(server: Server, document: utoipa::openapi::OpenApi) -> Self {
        Self { server, router: OpenApiRouter::with_openapi(document), doors: Vec::new() }
    }

    pub(crate) fn with(self, policy: Policy, route: UtoipaMethodRouter<Server>) -> Self {
        let guard = Guard::new(&self.server, policy);
        self.mount(guard, route)
    }

    /// For a GET that changes something.
    pub(crate) fn changing(self, policy: Policy, route: UtoipaMethodRouter<Server>) -> Self {
        let guard = Guard { changes: true, ..Guard::new(&self.server, policy) };
        self.mount(guard, route)
    }

    /// For what a thief of a browser's cookie would do first.
    pub(crate) fn fresh(self, policy: Policy, route: UtoipaMethodRouter<Server>) -> Self {
        let guard = Guard { fresh: true, ..Guard::new(&self.server, policy) };
        self.mount(guard, route)
    }

    /// For a POST that only reads.
    pub(crate) fn reading(self, policy: Policy, route: UtoipaMethodRouter<Server>) -> Self {
        let guard = Guard { reads: true, ..Guard::new(&self.server, policy) };
        self.mount(guard, route)
    }

    /// For what is said in small pieces after something that was recorded: letters typed into a shell.
    pub(crate) fn quiet(self, policy: Policy, route: UtoipaMethodRouter<Server>) -> Self {
        let guard = Guard { quiet: true, ..Guard::new(&self.server, policy) };
        self.mount(guard, route)
    }

    /// For a GET that answers with a secret: no reading, whatever its method.
    pub(crate) fn disclosing(self, policy: Policy, route: UtoipaMethodRouter<Server>) -> Self {
        let guard = Guard { changes: true, fresh: true, ..Guard::new(&self.server, policy) };
        self.mount(guard, route)
    }

    /// For what is no part of the described API: the Git host, GraphQL, metrics. Its handler keeps the audit trail.
    pub(crate) fn plain(
        self,
        policy: Policy,
        methods: &[Method],
        path: &str,
        route: axum::routing::MethodRouter<Server>,
    ) -> Self {
        let guard = Guard { audits: false, ..Guard::new(&self.server, policy) };
        self.put(guard, methods, path, route)
    }

    /// The same for what changes nothing with any method: a question in a body.
    pub(crate) fn plain_reading(
        self,
        policy: Policy,
        methods: &[Method],
        path: &str,
        route: axum::routing::MethodRouter<Server>,
    ) -> Self {
        let guard = Guard { audits: false, reads: true, ..Guard::new(&self.server, policy) };
        self.put(guard, methods, path, route)
    }

    fn put(
        mut self,
        guard: Guard,
        methods: &[Method],
        path: &str,
        route: axum::routing::MethodRouter<Server>,
    ) -> Self {
        self.doors.extend(methods.iter().map(|method| guard.door(method, path)));
        self.router = self.router.route(path, route.layer(from_fn_with_state(guard, check)));
        self
    }

    fn mount(mut self, guard: Guard, (schemas, mut paths, methods): UtoipaMethodRouter<Server>) -> Self {
        self.doors.extend(declare(&guard, &mut paths));
        self.router = self.router.routes((schemas, paths, methods.layer(from_fn_with_state(guard, check))));
        self
    }

    pub(crate) fn doors(&self) -> &[Door] {
        &self.doors
    }

    pub(crate) fn finish(self) -> (axum::Router, utoipa::openapi::OpenApi) {
        let (router, mut document) = self.router.split_for_parts();
        name_operations(&mut document);
        crate::http::refusals::describe(&mut document);
        (router.with_state(self.server), document)
    }
}

/// Who a route is for stands in the document, where clients and the test of every route read it.
fn declare(guard: &Guard, paths: &mut utoipa::openapi::path::Paths) -> Vec<Door> {
    let mut doors = Vec::new();
    for (path, item) in &mut paths.paths {
        let all = [
            (Method::GET, &mut item.get),
            (Method::PUT, &mut item.put),
            (Method::POST, &mut item.post),
            (Method::PATCH, &mut item.patch),
            (Method::DELETE, &mut item.delete),
        ];
        for (method, operation) in all {
            let Some(operation) = operation else { continue };
            let door = guard.door(&method, path);
            // One entry: several would stand in another order each time.
            let access = serde_json::json!({"policy": door.policy, "scope": door.scope});
            doors.push(door);
            let extensions =
                utoipa::openapi::extensions::ExtensionsBuilder::new().add("x-access", access).build();
            operation.extensions = Some(extensions);
        }
    }
    doors
}

/// Handlers of different nouns share names; an operation's id is `noun.handler`.
fn name_operations(document: &mut utoipa::openapi::OpenApi) {
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete]
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
    let info = request.extensions().get::<RequestInfo>().cloned().unwrap_or_default();
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    let trail = Trail::new(guard.server.clone(), info.id, info.address, method, path);
    let verb = guard.verb(request.method());
    let admitted = admit(&guard, verb, request.method(), request.headers(), &trail).await;
    match admitted {
        Ok(caller) => {
            let actor = caller.as_ref().map(Caller::actor);
            request.extensions_mut().insert(trail.clone());
            if let Some(caller) = caller {
                request.extensions_mut().insert(caller);
            }
            let response = uniform(next.run(request).await).await;
            let outcome = Outcome::of(&response);
            keep_trail(&guard, verb, &trail, actor, outcome).await;
            response
        }
        Err((actor, error)) => {
            let response = refused(guard.policy, error);
            let outcome = Outcome::of(&response);
            keep_trail(&guard, verb, &trail, actor, outcome).await;
            response
        }
    }
}

/// What the framework refuses by itself (a body that is no JSON, a query that does not parse) gets the shape of every refusal.
async fn uniform(response: Response) -> Response {
    const TEXT_BYTES_MAX: usize = 4 << 10;
    let status = response.status();
    let plain = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"));
    if !status.is_client_error() || response.extensions().get::<Refusal>().is_some() || !plain {
        return response;
    }
    let text = axum::body::to_bytes(response.into_body(), TEXT_BYTES_MAX).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let error = match status {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::too_large(),
        _ => ApiError::bad_request(format!("this request is not valid: {text}")),
    };
    error.into_response()
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

impl Guard {
    fn door(&self, method: &Method, path: &str) -> Door {
        let (policy, resource) = match self.policy {
            Policy::Member(resource) => ("member", Some(resource)),
            Policy::Administrator(resource) => ("administrator", Some(resource)),
            Policy::Platform(resource) => ("platform", Some(resource)),
            Policy::Public => ("public", None),
            Policy::Known => ("known", None),
            Policy::Oneself => ("oneself", None),
            Policy::Proxied => ("proxied", None),
            Policy::Runner => ("runner", None),
            Policy::Runtime => ("runtime", None),
            Policy::Git => ("git", None),
        };
        let verb = self.verb(method);
        let scope = resource.map(|resource| match verb {
            Verb::Read => format!("{}:read", resource.word()),
            Verb::Write => resource.word().to_owned(),
        });
        Door { method: method.to_string(), path: path.into(), policy, scope, changes: verb == Verb::Write }
    }

    fn verb(&self, method: &Method) -> Verb {
        let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) && !self.changes;
        if reads || self.reads { Verb::Read } else { Verb::Write }
    }

    /// Agents report all the time: of those only denials are kept. The Git host and an app-proxy's questions keep a
    /// record of their own, which knows what was pushed or done.
    fn keeps_changes(&self) -> bool {
        self.audits
            && !matches!(self.policy, Policy::Runner | Policy::Runtime | Policy::Git | Policy::Proxied)
    }
}

async fn admit(
    guard: &Guard,
    verb: Verb,
    method: &Method,
    headers: &HeaderMap,
    trail: &Trail,
) -> Result<Option<Caller>, (Option<Actor>, ApiError)> {
    let found = match auth::authenticate(&guard.server, headers).await {
        // A stale cookie must not keep anybody from signing in again.
        Err(_) if guard.policy == Policy::Public => None,
        other => other.map_err(|error| (None, error))?,
    };
    let caller = found.map(|(principal, credential)| Caller { principal, credential, trail: trail.clone() });
    let with_actor = |error: ApiError| (caller.as_ref().map(Caller::actor), error);
    decide(caller.as_ref().map(|caller| &caller.principal), guard.policy, verb)
        .map_err(|denied| with_actor(denied.into()))?;
    // Git and agents have no session, and a public route changes nothing in anybody's name. What an app-proxy asks for its
    // caller has a method of its own: whether it changes anything, the operation says.
    if let Some(caller) = caller.as_ref().filter(|_| guard.policy != Policy::Public) {
        if guard.policy != Policy::Proxied {
            auth::check_csrf(caller, method, guard.changes, headers).map_err(with_actor)?;
        }
        if guard.fresh {
            caller.check_fresh(guard.server.now_ms()).map_err(with_actor)?;
        }
    }
    Ok(caller)
}

/// What of an answer the trail needs. The answer itself cannot be lent to something that waits.
struct Outcome {
    status: StatusCode,
    refusal: Option<Refusal>,
}

impl Outcome {
    fn of(response: &Response) -> Self {
        Self { status: response.status(), refusal: response.extensions().get::<Refusal>().cloned() }
    }
}

/// Records what the handler did not: denials of any call, failures of changes, and changes without a record of their own.
async fn keep_trail(guard: &Guard, verb: Verb, trail: &Trail, actor: Option<Actor>, answer: Outcome) {
    let Outcome { status, refusal } = answer;
    let denied = refusal.as_ref().is_some_and(|refusal| refusal.denied);
    let change = verb == Verb::Write && guard.keeps_changes();
    let nothing_to_say =
        !denied && (!change || (status.as_u16() < 400 && (trail.is_recorded() || guard.quiet)));
    if trail.is_settled() || nothing_to_say {
        return;
    }
    let outcome = match (denied, status.as_u16() < 400) {
        (true, _) => "denied",
        (false, true) => "allowed",
        (false, false) => "failed",
    };
    let actor = match actor {
        Some(actor) => actor,
        // Anybody can ask anything: what nobody asked is kept as long as it does not fill the disk.
        None if !guard.server.inner.metrics.anonymous_denial(guard.server.now_ms()) => return,
        None => Actor::unknown(None, "nobody"),
    };
    let mut entry = trail.entry_of_route();
    if let Some(refusal) = refusal {
        entry = entry.because(refusal.reason);
    }
    if let Err(error) = trail.afterwards(actor, entry, outcome, status.as_u16()).await {
        tracing::error!(%error, "Cannot write the audit log.");
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get::<Self>().cloned().ok_or_else(ApiError::unauthenticated)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Trail {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get::<Self>().cloned().ok_or_else(ApiError::unauthenticated)
    }
}
