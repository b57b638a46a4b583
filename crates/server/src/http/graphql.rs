//! GraphQL: who asks, builds and limits; with what `gitops::graphql` adds; and one subscription that tells pages what to ask for again.

use std::sync::Arc;

use async_graphql::{
    Context, EmptyMutation, Guard, MergedObject, Object, Schema, SimpleObject, Subscription,
};
use async_graphql_axum::{GraphQLProtocol, GraphQLResponse, GraphQLWebSocket};
use axum::extract::{State, WebSocketUpgrade};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt};
use slipway_access::{Policy, Resource, Role, Verb, Who, decide};
use slipway_graphql::{
    COMPLEXITY_MAX, DEPTH_MAX, DIRECTIVES_MAX, DocumentLimits, MESSAGE_BYTES_MAX, RECURSION_MAX,
};
use slipway_model::ChangeKind;
use slipway_store::builds::Filter;
use slipway_store::{builds, identity, usage};

use crate::ctx::Server;
use crate::gitops::graphql::applications::ApplicationsQuery;
use crate::gitops::graphql::runtimes::RuntimesQuery;
use crate::http::changes::{self, News};
use crate::http::error::ApiError;
use crate::http::limits;
use crate::identity::auth::Caller;

pub(crate) type SlipwaySchema = Schema<Query, EmptyMutation, Changes>;

/// A stream looks this often whether it may still be open, besides when it hears of a change of rights.
pub(crate) const RECHECK: std::time::Duration = std::time::Duration::from_secs(3);

pub(crate) fn schema() -> SlipwaySchema {
    Schema::build(Query::default(), EmptyMutation, Changes)
        .limit_depth(DEPTH_MAX)
        .limit_complexity(COMPLEXITY_MAX)
        .limit_recursive_depth(RECURSION_MAX)
        .limit_directives(DIRECTIVES_MAX)
        .extension(DocumentLimits)
        .finish()
}

/// The schema as clients are generated from it.
pub fn sdl() -> String {
    schema().sdl()
}

/// Every field passes the same decision as a route does.
pub(crate) struct Door(pub(crate) Policy);

impl Guard for Door {
    async fn check(&self, context: &Context<'_>) -> async_graphql::Result<()> {
        let caller = context.data_unchecked::<Caller>();
        decide(Some(&caller.principal), self.0, Verb::Read).map_err(|denied| {
            let error: ApiError = denied.into();
            async_graphql::Error::new(error.to_string())
        })
    }
}

/// Whose server it is, and who asks.
pub(crate) fn asking(context: &Context<'_>) -> (Server, Caller) {
    (context.data_unchecked::<Server>().clone(), context.data_unchecked::<Caller>().clone())
}

/// Null instead of nothing.
pub(crate) fn said(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[derive(Default, MergedObject)]
pub(crate) struct Query(Base, ApplicationsQuery, RuntimesQuery);

#[derive(Default)]
struct Base;

#[derive(SimpleObject)]
#[graphql(name = "User")]
struct Me {
    id: String,
    name: String,
    /// Empty for a service account.
    email: String,
    /// `Admin` or `User`, in the account that the key or session is of.
    role: String,
    is_admin: bool,
    /// All that they are a member of.
    accounts: Vec<AccountNode>,
    /// The one that the key or session is of.
    active_account: AccountNode,
}

#[derive(SimpleObject)]
#[graphql(name = "Account")]
struct AccountNode {
    id: String,
    name: String,
    /// Not kept by this platform: always null.
    git_provider: Option<String>,
    git_api_url: Option<String>,
    shared_config_repo: Option<String>,
    admins: Option<Vec<String>>,
    features: Option<AccountFeatures>,
}

#[derive(SimpleObject)]
struct AccountFeatures {
    gitops_plan_enforcement: Option<String>,
}

impl AccountNode {
    fn new(id: impl ToString, name: String) -> Self {
        Self {
            id: id.to_string(),
            name,
            git_provider: None,
            git_api_url: None,
            shared_config_repo: None,
            admins: None,
            features: None,
        }
    }
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

#[Object]
impl Base {
    /// Who is signed in.
    #[graphql(guard = "Door(Policy::Known)")]
    async fn me(&self, context: &Context<'_>) -> async_graphql::Result<Option<Me>> {
        let (server, caller) = asking(context);
        let (id, user, name, email, role) = match caller.principal.who.clone() {
            Who::User { id, name, email, role, .. } => (id.to_string(), Some(id), name, email, role),
            Who::ServiceAccount { id, name, role, .. } => (id.to_string(), None, name, String::new(), role),
            _ => return Ok(None),
        };
        let scope = caller.scope();
        let known = server.store().read(move |tx| {
            let active = identity::account_by_id(tx, scope.account())?;
            let memberships = user.map(|user| identity::memberships_of(tx, user)).transpose()?;
            Ok((active, memberships.unwrap_or_default()))
        });
        let (active, memberships) = known.await.map_err(refuse)?;
        let active = active.map(|account| AccountNode::new(account.id, account.name));
        let active_account = active.ok_or("the account of this key is gone")?;
        let mut accounts: Vec<_> =
            memberships.into_iter().map(|one| AccountNode::new(one.account, one.account_name)).collect();
        if accounts.is_empty() {
            accounts.push(AccountNode::new(&active_account.id, active_account.name.clone()));
        }
        let is_admin = role == Role::Administrator;
        let role = role.as_str().to_owned();
        Ok(Some(Me { id, name, email, role, is_admin, accounts, active_account }))
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

    /// How much of its limits the account uses.
    #[graphql(guard = "Door(Policy::Member(Resource::Usage))")]
    async fn limits_status(&self, context: &Context<'_>) -> async_graphql::Result<LimitsStatus> {
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
        let of = |clusters, applications| GitopsNumbers { clusters, applications };
        Ok(LimitsStatus {
            usage: of(Some(used.clusters), Some(used.applications)),
            limits: of(allowed.clusters, allowed.applications),
            states: states.collect(),
            status: !limits::states(&allowed, &used).iter().any(|state| state.is_exceeded),
        })
    }
}

#[derive(SimpleObject)]
struct LimitsStatus {
    usage: GitopsNumbers,
    /// Null: no limit.
    limits: GitopsNumbers,
    /// Whether nothing is over its limit.
    status: bool,
    states: Vec<LimitState>,
}

#[derive(SimpleObject)]
struct GitopsNumbers {
    clusters: Option<i64>,
    applications: Option<i64>,
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

pub(crate) fn refuse(error: impl Into<ApiError>) -> async_graphql::Error {
    let error = error.into();
    if error.status().is_client_error() {
        return async_graphql::Error::new(error.to_string());
    }
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
