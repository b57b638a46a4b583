//! GraphQL: the same nouns as REST, and one subscription that tells pages what to ask for again.

use std::sync::Arc;

use async_graphql::{Context, EmptyMutation, Object, Schema, SimpleObject, Subscription};
use async_graphql_axum::{GraphQLProtocol, GraphQLRequest, GraphQLResponse, GraphQLWebSocket};
use axum::extract::{State, WebSocketUpgrade};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures::Stream;
use slipway_access::Who;
use slipway_model::ChangeKind;
use slipway_store::builds::Filter;
use slipway_store::{applications, builds};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;

use crate::auth::Caller;
use crate::ctx::Server;
use crate::error::ApiError;

pub(crate) type SlipwaySchema = Schema<Query, EmptyMutation, Changes>;

const DEPTH_MAX: usize = 12;
const COMPLEXITY_MAX: usize = 500;
const MESSAGE_BYTES_MAX: usize = 64 << 10;

pub(crate) fn schema() -> SlipwaySchema {
    Schema::build(Query, EmptyMutation, Changes)
        .limit_depth(DEPTH_MAX)
        .limit_complexity(COMPLEXITY_MAX)
        .finish()
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
    async fn me(&self, context: &Context<'_>) -> Option<Me> {
        match &context.data_unchecked::<Caller>().principal.who {
            Who::User { id, name, email, role } => Some(Me {
                id: id.to_string(),
                name: name.clone(),
                email: email.clone(),
                role: role.as_str().to_owned(),
            }),
            _ => None,
        }
    }

    /// Builds, newest first.
    async fn builds(
        &self,
        context: &Context<'_>,
        #[graphql(default = 25)] limit: i32,
    ) -> async_graphql::Result<Vec<BuildNode>> {
        let (server, scope) =
            (context.data_unchecked::<Server>(), context.data_unchecked::<Caller>().scope());
        let filter = Filter { limit: i64::from(limit.clamp(1, 500)), ..Filter::default() };
        let (rows, _) =
            server.store().read(move |tx| builds::list(tx, scope, &filter)).await.map_err(refuse)?;
        let shown = rows
            .into_iter()
            .map(crate::rest::builds::shown)
            .collect::<Result<Vec<_>, _>>()
            .map_err(refuse)?;
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
    async fn applications(&self, context: &Context<'_>) -> async_graphql::Result<Vec<ApplicationNode>> {
        let (server, scope) =
            (context.data_unchecked::<Server>(), context.data_unchecked::<Caller>().scope());
        let bodies = server.store().read(move |tx| applications::list(tx, scope)).await.map_err(refuse)?;
        let nodes = bodies.iter().filter_map(|body| {
            let app: slipway_api::application::Application = serde_json::from_str(body).ok()?;
            Some(ApplicationNode {
                runtime: app.runtime,
                namespace: app.namespace,
                name: app.name,
                sync_status: app.sync_status,
                health_status: app.health_status,
                summary: app.summary,
                revision: app.revision.map(|revision| revision.sha),
            })
        });
        Ok(nodes.collect())
    }
}

fn refuse(error: impl Into<ApiError>) -> async_graphql::Error {
    let error = error.into();
    tracing::error!(?error, "A GraphQL query failed.");
    async_graphql::Error::new("something went wrong in the server: its log says what")
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
    /// Everything that changes in the account, from now on. Kind `all` after a gap: ask for everything again.
    async fn changes(&self, context: &Context<'_>) -> impl Stream<Item = ChangeNode> + use<> {
        let server = context.data_unchecked::<Server>();
        let stop = server.inner.shutdown.clone().cancelled_owned();
        let changes = BroadcastStream::new(server.store().subscribe()).map(|heard| match heard {
            Ok(commit) if commit.missed => vec![ChangeNode { kind: "all".into(), id: String::new() }],
            Ok(commit) => commit
                .changes
                .into_iter()
                .filter(|change| change.kind != ChangeKind::Log)
                .map(|change| ChangeNode { kind: kind(change.kind).to_owned(), id: change.id })
                .collect::<Vec<_>>(),
            Err(_) => vec![ChangeNode { kind: "all".into(), id: String::new() }],
        });
        let flat = futures::StreamExt::flat_map(changes, futures::stream::iter);
        futures::StreamExt::take_until(flat, Box::pin(stop))
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
    }
}

#[derive(Clone)]
pub(crate) struct Endpoint(pub(crate) Arc<SlipwaySchema>);

pub(crate) async fn query(
    State(server): State<Server>,
    axum::Extension(endpoint): axum::Extension<Endpoint>,
    caller: Caller,
    request: GraphQLRequest,
) -> GraphQLResponse {
    endpoint.0.execute(request.into_inner().data(server).data(caller)).await.into()
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
    if caller.csrf.is_some() && !same_origin(&headers) {
        return Err(ApiError::forbidden("this page is from another address than the server"));
    }
    let mut data = async_graphql::Data::default();
    data.insert(server);
    data.insert(caller);
    let upgrade =
        upgrade.protocols(async_graphql::http::ALL_WEBSOCKET_PROTOCOLS).max_message_size(MESSAGE_BYTES_MAX);
    let answer = upgrade.on_upgrade(move |socket| async move {
        GraphQLWebSocket::new(socket, (*endpoint.0).clone(), protocol).with_data(data).serve().await;
    });
    Ok(answer.into_response())
}

fn same_origin(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok());
    let origin = text(header::ORIGIN).and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    origin.is_some() && origin == text(header::HOST)
}
