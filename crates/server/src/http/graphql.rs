//! GraphQL: the same nouns as REST, and one subscription that tells pages what to ask for again.

use std::sync::Arc;

use async_graphql::{Context, EmptyMutation, Guard, Object, Schema, SimpleObject, Subscription};
use async_graphql_axum::{GraphQLProtocol, GraphQLResponse, GraphQLWebSocket};
use axum::extract::{State, WebSocketUpgrade};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt};
use slipway_access::{Policy, Resource, Verb, Who, decide};
use slipway_model::ChangeKind;
use slipway_store::builds::Filter;
use slipway_store::{builds, usage};

use crate::ctx::Server;
use crate::http::changes::{self, News};
use crate::http::error::ApiError;
use crate::http::graphql_limits::DocumentLimits;
use crate::http::limits;
use crate::identity::auth::Caller;

pub(crate) type SlipwaySchema = Schema<Query, EmptyMutation, Changes>;

const DEPTH_MAX: usize = 12;
const COMPLEXITY_MAX: usize = 1000;
const RECURSION_MAX: usize = 32;
const DIRECTIVES_MAX: usize = 5;
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// A stream looks this often whether it may still be open, besides when it hears of a change of rights.
pub(crate) const RECHECK: std::time::Duration = std::time::Duration::from_secs(3);

pub(crate) fn schema() -> SlipwaySchema {
    Schema::build(Query, EmptyMutation, Changes)
        .limit_depth(DEPTH_MAX)
        .limit_complexity(COMPLEXITY_MAX)
        .limit_recursive_depth(RECURSION_MAX)
        .limit_directives(DIRECTIVES_MAX)
        .extension(DocumentLimits)
        .finish()
}

/// Every field passes the same decision as a route does.
struct Door(Policy);

impl Guard for Door {
    async fn check(&self, context: &Context<'_>) -> async_graphql::Result<()> {
        let caller = context.data_unchecked::<Caller>();
        decide(Some(&caller.principal), self.0, Verb::Read).map_err(|denied| {
            let error: ApiError = denied.into();
            async_graphql::Error::new(error.to_string())
        })
    }
}

pub(crate) struct Query;

#[derive(SimpleObject)]
struct Me {
    id: String,
    name: String,
    email: String,
    role: String,
}

#[derive(SimpleObject)]
struct BuildNode {
    id: String,
    status: String,
    pipeline_name: String,
    created: String,
    finished: Option<String>,
    branch_name: Option<String>,
    revision: Option<String>,
    message: Option<String>,
}

#[derive(SimpleObject)]
struct ApplicationNode {
    runtime: String,
    namespace: String,
    name: String,
    sync_status: String,
    health_status: String,
    summary: String,
    revision: Option<String>,
}

#[Object]
impl Query {
    /// Who is signed in.
    #[graphql(guard = "Door(Policy::Known)")]
    async fn me(&self, context: &Context<'_>) -> Option<Me> {
        match &context.data_unchecked::<Caller>().principal.who {
            Who::User { id, name, email, role, .. } => Some(Me {
                id: id.to_string(),
                name: name.clone(),
                email: email.clone(),
                role: role.as_str().to_owned(),
            }),
            Who::ServiceAccount { id, name, role, .. } => Some(Me {
                id: id.to_string(),
                name: name.clone(),
                email: String::new(),
                role: role.as_str().to_owned(),
            }),
            _ => None,
        }
    }

    /// Builds, newest first.
    #[graphql(guard = "Door(Policy::Member(Resource::Builds))", complexity = "5 + child_complexity")]
    async fn builds(
        &self,
        context: &Context<'_>,
        #[graphql(default = 25)] limit: i32,
    ) -> async_graphql::Result<Vec<BuildNode>> {
        let (server, caller) =
            (context.data_unchecked::<Server>(), context.data_unchecked::<Caller>().clone());
        let rows = server.store().read(move |tx| {
            let pipelines = crate::ci::pipelines::readable(tx, &caller)?;
            let filter = Filter { limit: i64::from(limit.clamp(1, 500)), pipelines, ..Filter::default() };
            builds::list(tx, caller.scope(), &filter)
        });
        let (rows, _) = rows.await.map_err(refuse)?;
        let shown =
            rows.into_iter().map(crate::ci::builds::shown).collect::<Result<Vec<_>, _>>().map_err(refuse)?;
        let nodes = shown.into_iter().map(|build| BuildNode {
            id: build.id,
            status: build.status,
            pipeline_name: build.pipeline_name,
            created: build.created,
            finished: build.finished,
            branch_name: build.branch_name,
            revision: build.revision,
            message: build.message,
        });
        Ok(nodes.collect())
    }

    /// Applications of every runtime.
    #[graphql(guard = "Door(Policy::Member(Resource::Gitops))", complexity = "5 + child_complexity")]
    async fn applications(&self, context: &Context<'_>) -> async_graphql::Result<Vec<ApplicationNode>> {
        let (server, caller) =
            (context.data_unchecked::<Server>(), context.data_unchecked::<Caller>().clone());
        let rows = server
            .store()
            .read(move |tx| crate::gitops::applications::visible(tx, &caller, None))
            .await
            .map_err(refuse)?;
        let nodes = rows.into_iter().map(|app| ApplicationNode {
            runtime: app.runtime,
            namespace: app.namespace,
            name: app.name,
            sync_status: app.sync_status.to_string(),
            health_status: app.health_status.to_string(),
            summary: app.summary,
            revision: app.revision.map(|revision| revision.sha),
        });
        Ok(nodes.collect())
    }

    /// How much of its limits the account uses.
    #[graphql(guard = "Door(Policy::Member(Resource::Usage))")]
    async fn limits_status(&self, context: &Context<'_>) -> async_graphql::Result<Vec<LimitState>> {
        let (server, scope) =
            (context.data_unchecked::<Server>(), context.data_unchecked::<Caller>().scope());
        let counted = server
            .store()
            .read(move |tx| Ok((limits::Limits::load(tx, scope.account())?, usage::count(tx, scope)?)));
        let (allowed, used) = counted.await.map_err(refuse)?;
        let states = limits::states(&allowed, &used).into_iter().map(|state| LimitState {
            name: state.name.to_owned(),
            used: state.used,
            limit: state.limit,
            is_reached: state.is_reached,
            is_exceeded: state.is_exceeded,
            is_enforced: state.is_enforced,
        });
        Ok(states.collect())
    }
}

#[derive(SimpleObject)]
struct LimitState {
    name: String,
    used: i64,
    /// Absent: no limit.
    limit: Option<i64>,
    is_reached: bool,
    is_exceeded: bool,
    /// Whether one more is refused.
    is_enforced: bool,
}

fn refuse(error: impl Into<ApiError>) -> async_graphql::Error {
    let error = error.into();
    tracing::error!(?error, "A GraphQL query failed.");
    async_graphql::Error::new("internal error: see the server's log")
}

pub(crate) struct Changes;

/// Something changed; ask for it again.
#[derive(SimpleObject)]
struct ChangeNode {
    /// build, pipeline, application, runtime or repository.
    kind: String,
    id: String,
}

#[Subscription]
impl Changes {
    /// What changes in the account, from now on, of what you may see. Kind `all` after a gap: ask for everything again.
    #[graphql(guard = "Door(Policy::Known)")]
    async fn changes(&self, context: &Context<'_>) -> impl Stream<Item = ChangeNode> + use<> {
        let (server, caller) =
            (context.data_unchecked::<Server>().clone(), context.data_unchecked::<Caller>().clone());
        let stop = server.inner.shutdown.clone().cancelled_owned();
        let revoked = revoked(server.clone(), caller.clone());
        let changes = changes::of(server, caller).map(|news| match news {
            News::Everything => ChangeNode { kind: "all".into(), id: String::new() },
            News::One(change) => ChangeNode { kind: kind(change.kind).to_owned(), id: change.id },
        });
        let over = async move {
            tokio::select! { () = stop => {}, () = revoked => {} }
        };
        changes.take_until(Box::pin(over))
    }
}

/// Ends when the credential that opened a stream is no longer good.
pub(crate) async fn revoked(server: Server, caller: Caller) {
    let mut commits = server.store().subscribe();
    loop {
        if caller.again(&server).await.is_none() {
            return;
        }
        let waited = tokio::time::sleep(RECHECK);
        tokio::pin!(waited);
        loop {
            let heard = tokio::select! {
                () = &mut waited => break,
                heard = commits.recv() => heard,
            };
            let access = |commit: &slipway_store::Committed| {
                commit.changes.iter().any(|change| change.kind == ChangeKind::Access)
            };
            match heard {
                Ok(commit) if !access(&commit) => {}
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
                // A change of rights, or so much happened that there may have been one.
                _ => break,
            }
        }
    }
}

fn kind(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Build => "build",
        ChangeKind::Log => "log",
        ChangeKind::Pipeline => "pipeline",
        ChangeKind::Application => "application",
        ChangeKind::Runtime => "runtime",
        ChangeKind::Repository => "repository",
        ChangeKind::Access => "access",
    }
}

#[derive(Clone)]
pub(crate) struct Endpoint(pub(crate) Arc<SlipwaySchema>);

/// One operation, as JSON. The body is read by the server's own rules: the library's reader knows no limit.
pub(crate) async fn query(
    State(server): State<Server>,
    axum::Extension(endpoint): axum::Extension<Endpoint>,
    caller: Caller,
    axum::Json(request): axum::Json<async_graphql::Request>,
) -> GraphQLResponse {
    endpoint.0.execute(request.data(server).data(caller)).await.into()
}

pub(crate) async fn subscribe(
    State(server): State<Server>,
    axum::Extension(endpoint): axum::Extension<Endpoint>,
    caller: Caller,
    protocol: GraphQLProtocol,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Result<Response, ApiError> {
    // A page of another site could open a socket with this browser's cookie.
    if caller.csrf().is_some() && !same_origin(&headers) {
        return Err(ApiError::forbidden("this page comes from another origin than the server"));
    }
    let (watching, watched) = (server.clone(), caller.clone());
    let mut data = async_graphql::Data::default();
    data.insert(server);
    data.insert(caller);
    let upgrade =
        upgrade.protocols(async_graphql::http::ALL_WEBSOCKET_PROTOCOLS).max_message_size(MESSAGE_BYTES_MAX);
    let answer = upgrade.on_upgrade(move |socket| async move {
        let serving = GraphQLWebSocket::new(socket, (*endpoint.0).clone(), protocol).with_data(data).serve();
        tokio::select! {
            () = serving => {}
            // Whoever lost their rights loses the connection with them.
            () = revoked(watching, watched) => {}
        }
    });
    Ok(answer.into_response())
}

fn same_origin(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok());
    let origin = text(header::ORIGIN).and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    origin.is_some() && origin == text(header::HOST)
}
