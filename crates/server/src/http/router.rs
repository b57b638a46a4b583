//! All routes with their policies, and what surrounds every call: limits, request ids, logs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use slipway_access::{Policy, Resource};
use utoipa::openapi::{InfoBuilder, OpenApiBuilder};
use utoipa_axum::routes;

use crate::agents as agent;
use crate::agents::rest::{agents, server_certificates};
use crate::background::rest::health;
use crate::ci::git_host;
use crate::ci::rest::{
    annotations, approvals, badges, builds, connections, contexts, debug, hermes, hooks, images, log_socket,
    logs, pipelines, projects, registries, repos, restarts, revisions, runs, runtime_environments,
    step_types, texts, triggers, validator,
};
use crate::ctx::Server;
use crate::facts::rest::messages;
use crate::gitops::peers;
use crate::gitops::rest::{applications, clusters, entities, proxied, rollouts, runtimes, tunnel};
use crate::http::error::ApiError;
use crate::http::graphql::{self, Endpoint};
use crate::http::rest::{releases, version};
use crate::http::routes::{Door, Routes};
use crate::http::{metrics, refusals, web};
use crate::identity::rest::{
    account_users, accounts, admin, audit, auth, domains, explain, identities, invitations, keys, rules,
    service_accounts, sign_in, sso, teams, usage, user, users,
};

pub(crate) const BODY_BYTES_MAX: usize = 8 << 20;
const GRAPHQL_BYTES_MAX: usize = 256 << 10;

/// Everything the control plane answers.
pub fn router(server: &Server) -> axum::Router {
    let (api, document) = described(server).finish();
    let document = Arc::new(document.to_pretty_json().expect("the document is JSON"));
    let other = undescribed(server, document).finish().0;
    let pages = server.clone();
    api.layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .merge(other)
        .fallback(move |method, uri, headers| web::serve(pages.clone(), method, uri, headers))
        .layer(from_fn_with_state(server.clone(), own_roles))
        // Before anything of the platform sees the request.
        .layer(from_fn_with_state(server.clone(), tunnel::by_host))
        .layer(from_fn_with_state(server.clone(), around))
}

/// Every way in, described or not.
pub fn doors(server: &Server) -> Vec<Door> {
    let (described, undescribed) = (described(server), undescribed(server, Arc::default()));
    [described.doors(), undescribed.doors()].concat()
}

/// What is no part of the described API.
fn undescribed(server: &Server, document: Arc<String>) -> Routes {
    let endpoint = Endpoint(Arc::new(graphql::schema()));
    Routes::new(server.clone(), utoipa::openapi::OpenApi::default())
        .plain(
            Policy::Git,
            &[Method::GET, Method::POST],
            "/git/{owner}/{repo}/{*rest}",
            any(git_host::serve).layer(DefaultBodyLimit::disable()),
        )
        // Every field asks for itself, and there are no mutations.
        .plain_reading(
            Policy::Known,
            &[Method::GET, Method::POST],
            "/2.0/api/graphql",
            get(graphql::subscribe)
                .post(graphql::query)
                .layer::<_, std::convert::Infallible>(axum::Extension(endpoint))
                .layer(DefaultBodyLimit::max(GRAPHQL_BYTES_MAX)),
        )
        // Announcements are believed by their signature, and a followed log by the key in its address.
        .plain(Policy::Public, &[Method::POST], "/api/webhooks/git/{id}", post(hooks::receive))
        .plain(Policy::Public, &[Method::POST], "/nomios/{kind}", post(hermes::announce))
        .plain(Policy::Public, &[Method::GET], "/ws/{account}/{id}", get(log_socket::follow))
        .plain(Policy::Runtime, &[Method::GET], slipway_tunnel::PATH, get(tunnel::open))
        // Believed by what it is sealed with, which only processes of the platform can do.
        .plain(Policy::Public, &[Method::GET], peers::PATH, get(tunnel::peer))
        // A runtime asks for itself who somebody is, by the pass that they were given; giving it was recorded.
        .plain(
            Policy::Public,
            &[Method::GET, Method::POST],
            "/tunnels/{label}/{*rest}",
            get(tunnel::by_path).post(tunnel::by_path).layer(DefaultBodyLimit::disable()),
        )
        // Without a login: that it lives, and whether it can work; nothing about what it is.
        .plain(Policy::Public, &[Method::GET], "/healthz", get(|| async { "ok" }))
        .plain(Policy::Public, &[Method::GET], "/readyz", get(ready))
        .plain(Policy::Platform(Resource::Metrics), &[Method::GET], "/metrics", get(scrape))
        .plain(
            Policy::Known,
            &[Method::GET],
            "/api/openapi.json",
            get(move || async move { ([(header::CONTENT_TYPE, "application/json")], document.to_string()) }),
        )
        .plain(
            Policy::Public,
            &[],
            "/api/{*rest}",
            any(|| async { ApiError::not_found("this API path: /api/openapi.json lists all") }),
        )
}

/// What another role answers is refused here with its name, so that a wrong route in front of the processes shows.
async fn own_roles(State(server): State<Server>, request: Request, next: Next) -> Response {
    let upgrade = request.headers().contains_key(header::UPGRADE);
    match server.inner.roles.answers(request.uri().path(), upgrade) {
        Ok(()) => next.run(request).await,
        Err(role) => {
            let message = format!(
                "this process has the roles {}; this path is served by {}: send the request to a process with that role",
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
    let routes = Routes::new(server.clone(), OpenApiBuilder::new().info(info).build());
    let routes = identity(routes);
    let routes = administration(routes);
    let routes = pipelines(routes);
    routes
        .with(Policy::Member(Resource::Gitops), routes!(applications::list))
        .with(Policy::Member(Resource::Gitops), routes!(applications::one))
        .with(Policy::Member(Resource::Gitops), routes!(runtimes::runtimes))
        .with(Policy::Member(Resource::Gitops), routes!(runtimes::runtime))
        .fresh(Policy::Administrator(Resource::Gitops), routes!(runtimes::create_runtime))
        .fresh(Policy::Administrator(Resource::Gitops), routes!(runtimes::change_runtime))
        .fresh(Policy::Administrator(Resource::Gitops), routes!(runtimes::renew_token))
        .with(Policy::Administrator(Resource::Gitops), routes!(runtimes::revoke_token))
        .with(Policy::Administrator(Resource::Gitops), routes!(entities::list_entities))
        .with(Policy::Member(Resource::Gitops), routes!(clusters::list_clusters))
        .with(Policy::Member(Resource::Gitops), routes!(rollouts::list_rollouts))
        .with(Policy::Member(Resource::Gitops), routes!(releases::status))
        .with(Policy::Member(Resource::Agents), routes!(applications::runners))
        .fresh(Policy::Administrator(Resource::Agents), routes!(agent::registration::create))
        .with(Policy::Administrator(Resource::Agents), routes!(agent::registration::delete))
        .with(Policy::Administrator(Resource::Gitops), routes!(runtimes::delete_runtime))
        .with(Policy::Public, routes!(agent::registration::register))
        .with(Policy::Runner, routes!(agent::sync::sync))
        .with(Policy::Runner, routes!(agent::runner::report_build))
        .with(Policy::Runner, routes!(agent::runner::append_logs))
        .with(Policy::Runner, routes!(agent::step_types::step_types_for_build))
        .with(Policy::Runner, routes!(agent::errands::answer_errand))
        .with(Policy::Runner, routes!(agent::shells::shell_output))
        .with(Policy::Runner, routes!(agent::shells::shell_input))
        .with(Policy::Member(Resource::Agents), routes!(agents::list))
        .fresh(Policy::Administrator(Resource::Agents), routes!(agents::create))
        .with(Policy::Member(Resource::Agents), routes!(agents::one))
        .with(Policy::Member(Resource::Agents), routes!(agents::one_by_name))
        .with(Policy::Administrator(Resource::Agents), routes!(agents::change))
        .with(Policy::Administrator(Resource::Agents), routes!(agents::delete))
        .with(Policy::Member(Resource::Builds), routes!(agents::of_build))
        .with(Policy::Member(Resource::Agents), routes!(runtime_environments::list))
        .with(Policy::Member(Resource::Agents), routes!(runtime_environments::one))
        .with(Policy::Administrator(Resource::Agents), routes!(runtime_environments::change))
        .with(Policy::Administrator(Resource::Agents), routes!(runtime_environments::make_default))
        .with(Policy::Administrator(Resource::Agents), routes!(runtime_environments::delete))
        .with(Policy::Administrator(Resource::Agents), routes!(runtime_environments::register))
        .with(Policy::Administrator(Resource::Agents), routes!(server_certificates::sign))
        .with(Policy::Runner, routes!(agents::tasks))
        .with(Policy::Runner, routes!(agents::status))
        .with(Policy::Runner, routes!(agents::alive))
        .with(Policy::Runtime, routes!(agent::runtime::events))
        .with(Policy::Runtime, routes!(agent::runtime::report_entities))
        .with(Policy::Runtime, routes!(runtimes::own_identity))
        .reading(Policy::Runtime, routes!(proxied::application))
}

/// Signing in, who one is, and one's keys.
fn identity(routes: Routes) -> Routes {
    routes
        .with(Policy::Public, routes!(auth::login))
        .with(Policy::Public, routes!(auth::logout))
        .with(Policy::Public, routes!(auth::options))
        .reading(Policy::Public, routes!(invitations::look))
        .with(Policy::Public, routes!(invitations::accept))
        .with(Policy::Public, routes!(sign_in::begin))
        .with(Policy::Public, routes!(sign_in::callback))
        .with(Policy::Public, routes!(sign_in::accept_through))
        .with(Policy::Oneself, routes!(identities::list))
        .fresh(Policy::Oneself, routes!(sign_in::link))
        .fresh(Policy::Oneself, routes!(identities::unlink))
        .with(Policy::Oneself, routes!(auth::confirm))
        .with(Policy::Oneself, routes!(auth::change_password))
        .with(Policy::Oneself, routes!(auth::sessions))
        .with(Policy::Oneself, routes!(auth::end_session))
        .with(Policy::Known, routes!(user::me))
        .with(Policy::Known, routes!(version::of_server))
        .with(Policy::Oneself, routes!(user::change_account))
        .reading(Policy::Proxied, routes!(proxied::pass))
        .with(Policy::Member(Resource::Keys), routes!(keys::list))
        .with(Policy::Member(Resource::Keys), routes!(keys::one))
        .fresh(Policy::Member(Resource::Keys), routes!(keys::create))
        .fresh(Policy::Member(Resource::Keys), routes!(keys::change))
        .with(Policy::Member(Resource::Keys), routes!(keys::delete))
        .with(Policy::Administrator(Resource::Keys), routes!(keys::one_of_service_account))
        .fresh(Policy::Administrator(Resource::Keys), routes!(keys::create_for_service_account))
        .fresh(Policy::Administrator(Resource::Keys), routes!(keys::change_of_service_account))
        .with(Policy::Administrator(Resource::Keys), routes!(keys::delete_of_service_account))
}

/// What administrators of an account and of the platform do.
fn administration(routes: Routes) -> Routes {
    let admin = Policy::Administrator;
    let platform = Policy::Platform(Resource::Platform);
    routes
        .with(Policy::Member(Resource::Account), routes!(accounts::one))
        .fresh(admin(Resource::Account), routes!(accounts::change))
        .with(Policy::Member(Resource::Account), routes!(domains::list))
        .fresh(platform, routes!(domains::verify))
        .fresh(platform, routes!(domains::take_back))
        .fresh(platform, routes!(admin::release_address))
        .with(admin(Resource::Users), routes!(users::list))
        .with(admin(Resource::Users), routes!(account_users::list_of_account))
        .fresh(admin(Resource::Users), routes!(account_users::add))
        .fresh(admin(Resource::Users), routes!(account_users::readdress))
        .fresh(admin(Resource::Users), routes!(account_users::promote))
        .fresh(admin(Resource::Users), routes!(account_users::demote))
        .with(admin(Resource::Users), routes!(account_users::take_out))
        .with(admin(Resource::Users), routes!(users::one))
        .fresh(admin(Resource::Users), routes!(users::change))
        .with(admin(Resource::Users), routes!(users::remove))
        .with(admin(Resource::Users), routes!(invitations::list))
        .fresh(admin(Resource::Users), routes!(invitations::create))
        .fresh(admin(Resource::Users), routes!(invitations::resend))
        .with(admin(Resource::Users), routes!(invitations::revoke))
        .with(Policy::Member(Resource::Teams), routes!(teams::list))
        .fresh(admin(Resource::Teams), routes!(teams::create))
        .with(Policy::Member(Resource::Teams), routes!(teams::one))
        .fresh(admin(Resource::Teams), routes!(teams::change))
        .fresh(admin(Resource::Teams), routes!(teams::rename))
        .with(admin(Resource::Teams), routes!(teams::delete))
        .fresh(admin(Resource::Teams), routes!(teams::assign))
        .with(admin(Resource::Teams), routes!(teams::unassign))
        .with(admin(Resource::ServiceAccounts), routes!(service_accounts::list))
        .fresh(admin(Resource::ServiceAccounts), routes!(service_accounts::create))
        .with(admin(Resource::ServiceAccounts), routes!(service_accounts::one))
        .fresh(admin(Resource::ServiceAccounts), routes!(service_accounts::change))
        .with(admin(Resource::ServiceAccounts), routes!(service_accounts::delete))
        .with(admin(Resource::Rules), routes!(rules::list))
        .fresh(admin(Resource::Rules), routes!(rules::create))
        .with(admin(Resource::Rules), routes!(rules::kinds))
        .with(admin(Resource::Rules), routes!(rules::one))
        .fresh(admin(Resource::Rules), routes!(rules::replace))
        .fresh(admin(Resource::Rules), routes!(rules::set_tags))
        .fresh(admin(Resource::Rules), routes!(rules::delete))
        .with(Policy::Member(Resource::Rules), routes!(explain::explain))
        .with(admin(Resource::Audit), routes!(audit::list))
        .with(admin(Resource::Audit), routes!(audit::download))
        .with(admin(Resource::Audit), routes!(audit::entities))
        .with(admin(Resource::Audit), routes!(audit::verify))
        .with(Policy::Member(Resource::Contexts), routes!(contexts::list))
        .with(Policy::Member(Resource::Contexts), routes!(contexts::create))
        .with(Policy::Member(Resource::Contexts), routes!(contexts::create_with_slash))
        .with(Policy::Member(Resource::Contexts), routes!(contexts::one))
        .with(Policy::Member(Resource::Contexts), routes!(contexts::prepare))
        .with(Policy::Member(Resource::Contexts), routes!(contexts::replace))
        .with(Policy::Member(Resource::Contexts), routes!(contexts::patch))
        .with(Policy::Member(Resource::Contexts), routes!(contexts::delete))
        .with(Policy::Member(Resource::Contexts), routes!(connections::test_context))
        .with(Policy::Member(Resource::Contexts), routes!(connections::test_registry))
        .with(Policy::Member(Resource::Contexts), routes!(registries::list))
        .with(Policy::Member(Resource::Contexts), routes!(registries::create))
        .with(Policy::Member(Resource::Contexts), routes!(registries::one))
        .with(Policy::Member(Resource::Contexts), routes!(registries::change))
        .with(Policy::Member(Resource::Contexts), routes!(registries::delete))
        .with(Policy::Member(Resource::Usage), routes!(usage::status))
        .with(admin(Resource::Sso), routes!(sso::list))
        .fresh(admin(Resource::Sso), routes!(sso::create))
        .fresh(admin(Resource::Sso), routes!(sso::change))
        .with(admin(Resource::Sso), routes!(sso::delete))
        .with(platform, routes!(admin::accounts))
        .fresh(platform, routes!(admin::create_account))
        .with(platform, routes!(admin::account))
        .fresh(platform, routes!(admin::change_account))
        .fresh(platform, routes!(admin::delete_account))
        .fresh(platform, routes!(admin::set_status))
        .fresh(platform, routes!(admin::add_member))
        .with(platform, routes!(admin::users))
        .fresh(platform, routes!(admin::change_user))
        .fresh(platform, routes!(account_users::activate))
        .with(platform, routes!(admin::audit))
        .with(platform, routes!(admin::verify_audit))
        .fresh(platform, routes!(admin::rotate_secrets))
        .with(platform, routes!(health::health))
        .with(platform, routes!(messages::list))
        .fresh(platform, routes!(messages::again))
        .fresh(platform, routes!(messages::all_again))
}

fn pipelines(routes: Routes) -> Routes {
    routes
        .with(Policy::Member(Resource::Pipelines), routes!(pipelines::list))
        .with(Policy::Member(Resource::Pipelines), routes!(pipelines::create))
        .with(Policy::Member(Resource::Pipelines), routes!(pipelines::one))
        .with(Policy::Member(Resource::Pipelines), routes!(pipelines::replace))
        .with(Policy::Member(Resource::Pipelines), routes!(pipelines::delete))
        .with(Policy::Member(Resource::Builds), routes!(runs::run))
        .with(Policy::Member(Resource::Builds), routes!(texts::run_text))
        .with(Policy::Member(Resource::Builds), routes!(runs::debug))
        .with(Policy::Member(Resource::Pipelines), routes!(revisions::list))
        .with(Policy::Member(Resource::Pipelines), routes!(revisions::diff))
        .with(Policy::Member(Resource::Pipelines), routes!(revisions::restore))
        .reading(Policy::Member(Resource::Pipelines), routes!(triggers::attempt))
        .with(Policy::Member(Resource::Pipelines), routes!(projects::list))
        .with(Policy::Member(Resource::Pipelines), routes!(projects::create))
        .with(Policy::Member(Resource::Pipelines), routes!(projects::one))
        .with(Policy::Member(Resource::Pipelines), routes!(projects::one_by_name))
        .with(Policy::Member(Resource::Pipelines), routes!(projects::change))
        .with(Policy::Member(Resource::Pipelines), routes!(projects::delete))
        .with(Policy::Member(Resource::Pipelines), routes!(hermes::triggers))
        .with(Policy::Member(Resource::Pipelines), routes!(hermes::triggers_of_pipeline))
        .with(Policy::Member(Resource::Pipelines), routes!(hermes::triggers_of_event))
        .with(Policy::Member(Resource::Pipelines), routes!(hermes::connect))
        .with(Policy::Member(Resource::Pipelines), routes!(hermes::disconnect))
        .with(Policy::Member(Resource::Pipelines), routes!(hermes::events))
        .with(Policy::Member(Resource::Pipelines), routes!(hermes::event))
        .disclosing(Policy::Administrator(Resource::Pipelines), routes!(hermes::endpoint))
        .with(Policy::Administrator(Resource::Pipelines), routes!(hermes::create_event))
        .with(Policy::Administrator(Resource::Pipelines), routes!(hermes::create_event_with_slash))
        .with(Policy::Administrator(Resource::Pipelines), routes!(hermes::delete_event))
        .with(Policy::Member(Resource::Pipelines), routes!(hermes::types))
        .with(Policy::Member(Resource::Pipelines), routes!(hooks::list))
        .fresh(Policy::Administrator(Resource::Pipelines), routes!(hooks::secret))
        .with(Policy::Member(Resource::Builds), routes!(annotations::list))
        .with(Policy::Member(Resource::Builds), routes!(annotations::set))
        .with(Policy::Member(Resource::Builds), routes!(annotations::delete))
        .with(Policy::Member(Resource::Builds), routes!(images::list))
        .with(Policy::Member(Resource::Pipelines), routes!(step_types::list))
        .with(Policy::Member(Resource::Pipelines), routes!(step_types::one))
        .with(Policy::Member(Resource::Pipelines), routes!(step_types::versions))
        .with(Policy::Administrator(Resource::Pipelines), routes!(step_types::create))
        .with(Policy::Administrator(Resource::Pipelines), routes!(step_types::replace))
        .with(Policy::Administrator(Resource::Pipelines), routes!(step_types::delete))
        .with(Policy::Public, routes!(badges::build))
        .with(Policy::Public, routes!(logs::signed))
        .with(Policy::Member(Resource::Builds), routes!(approvals::answer))
        .changing(Policy::Member(Resource::Builds), routes!(approvals::approve))
        .changing(Policy::Member(Resource::Builds), routes!(approvals::deny))
        .with(Policy::Member(Resource::Builds), routes!(debug::debug_order))
        .with(Policy::Member(Resource::Builds), routes!(debug::open_shell))
        .with(Policy::Member(Resource::Builds), routes!(debug::shell_printed))
        .quiet(Policy::Member(Resource::Builds), routes!(debug::shell_typed))
        .with(Policy::Member(Resource::Builds), routes!(debug::close_shell))
        .with(Policy::Member(Resource::Builds), routes!(restarts::restart_from))
        .with(Policy::Member(Resource::Builds), routes!(builds::reports))
        .reading(Policy::Member(Resource::Pipelines), routes!(validator::validate))
        .with(Policy::Member(Resource::Builds), routes!(builds::list))
        .with(Policy::Member(Resource::Builds), routes!(builds::one))
        .changing(Policy::Member(Resource::Builds), routes!(restarts::restart))
        .with(Policy::Member(Resource::Builds), routes!(builds::progress))
        .with(Policy::Member(Resource::Builds), routes!(builds::terminate))
        .with(Policy::Member(Resource::Builds), routes!(logs::whole))
        .with(Policy::Member(Resource::Builds), routes!(logs::follow))
        .with(Policy::Member(Resource::Repos), routes!(repos::list))
        .with(Policy::Administrator(Resource::Repos), routes!(repos::create))
}

/// Whoever asks wants to know before they give up themselves.
const READY_WITHIN: Duration = Duration::from_secs(1);

/// Ready: the database answers. What works less well besides is named, and takes nobody out of a balancer.
async fn ready(State(server): State<Server>) -> Response {
    if let Err(why) = database_answers(&server).await {
        tracing::error!(why, "Not ready.");
        return ApiError::unavailable("not ready: the database does not respond").into_response();
    }
    let mut degraded = Vec::new();
    if !server.inner.bus.is_up() {
        degraded.push("the message broker does not respond".to_owned());
    }
    if !server.inner.live.is_up() {
        degraded.push("the cache does not respond".to_owned());
    }
    let failing = server.inner.jobs.list().into_iter().filter(|(_, job)| job.is_failing());
    degraded
        .extend(failing.map(|(name, job)| {
            format!("background job `{name}` has failed {} times in a row", job.failures)
        }));
    if degraded.is_empty() {
        return "ready".into_response();
    }
    format!("ready, but {}", degraded.join("; ")).into_response()
}

/// A look that takes longer goes on by itself, and the next one waits for it: an outage does not use up the readers.
pub(crate) async fn database_answers(server: &Server) -> Result<(), String> {
    let (probe, store) = (server.inner.probe.clone(), server.store().clone());
    let look = async move {
        let turn = probe.lock_owned().await;
        let looking = tokio::spawn(async move {
            let looked = store.read(slipway_store::identity::first_account).await;
            drop(turn);
            looked.map(drop).map_err(|error| error.to_string())
        });
        looking.await.unwrap_or_else(|error| Err(error.to_string()))
    };
    match tokio::time::timeout(READY_WITHIN, look).await {
        Ok(answer) => answer,
        Err(_) => Err("no answer within a second".into()),
    }
}

async fn scrape(State(server): State<Server>) -> impl IntoResponse {
    let text = metrics::render(&server).await;
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

/// What is known of a call before anybody looks at it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestInfo {
    pub(crate) id: String,
    pub(crate) address: String,
}

tokio::task_local! {
    static REQUEST_ID: String;
}

/// Of the call that is being answered, for its error.
pub(crate) fn request_id() -> Option<String> {
    REQUEST_ID.try_with(Clone::clone).ok()
}

/// A request id for every call, in the answer and in the log.
async fn around(State(server): State<Server>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = hex::encode(server.seams().random::<8>());
    let address = client_address(&server, &request);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    request.extensions_mut().insert(RequestInfo { id: id.clone(), address: address.clone() });
    let span = tracing::info_span!("request", id, %method, path, address);
    let answered = tracing::Instrument::instrument(next.run(request), span.clone());
    let mut response = REQUEST_ID.scope(id.clone(), answered).await;
    if path.starts_with("/api/") {
        response = refusals::in_our_words(response, &id).await;
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", value);
    }
    protect(&server, &path, response.headers_mut());
    let (status, took) = (response.status().as_u16(), started.elapsed());
    server.inner.metrics.request(method.as_str(), &route, status, took);
    let _entered = span.enter();
    tracing::debug!(status, took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX), "Answered.");
    response
}

/// What every answer tells the browser. Answers of the API hold keys and people's data: no cache keeps them, unless the
/// handler says that one may.
fn protect(server: &Server, path: &str, headers: &mut HeaderMap) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    let is_page = !["/api/", "/2.0/", "/tunnels/", "/git/", "/ws/", "/metrics"]
        .iter()
        .any(|part| path.starts_with(part));
    if !is_page && !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if server.public_url().starts_with("https:") {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.insert(header::STRICT_TRANSPORT_SECURITY, year);
    }
}

/// What a client says about itself is believed only when a proxy that was named vouches for it.
fn client_address(server: &Server, request: &Request) -> String {
    let Some(ConnectInfo(peer)) = request.extensions().get::<ConnectInfo<SocketAddr>>() else {
        return "unknown".into();
    };
    let peer = peer.ip().to_canonical();
    let trusted = &server.inner.config.network.trusted_proxies;
    if trusted.contains(&peer) {
        // The last address that no trusted proxy has is the client's: those before it anybody can write.
        let forwarded = forwarded_for(request.headers());
        let client = forwarded.into_iter().rev().find(|address| !trusted.contains(address));
        return client.unwrap_or(peer).to_string();
    }
    peer.to_string()
}

fn forwarded_for(headers: &HeaderMap) -> Vec<std::net::IpAddr> {
    headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|part| part.trim().parse().ok())
        .collect()
}
