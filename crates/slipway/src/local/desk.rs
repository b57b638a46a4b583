//! A control plane for one build: the three calls of the agent API, and the snapshot to clone.
//!
//! In: calls of our own runner, with a key that only it has. Out: the build, and what is reported goes to [`show`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, Method, Response, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{any, post, put};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::TryStreamExt;
use slipway_api::agent::{
    BuildReport, GitAccess, LogAppend, LogAppendAnswer, RunnerSync, RunnerSyncAnswer, TakenBuild,
};
use slipway_forge::builtin::{self, CgiRequest};
use slipway_model::BuildStatus;
use tokio::sync::watch;
use tokio_util::io::{ReaderStream, StreamReader};

use super::show::Show;
use super::snapshot::Snapshot;

const LEASE_MS: u64 = 60_000;

#[derive(Clone)]
pub(super) struct Desk {
    inner: Arc<Inner>,
}

struct Inner {
    url: String,
    key: String,
    /// Name and folder of the one repository.
    repository: Option<(String, PathBuf)>,
    /// Where the rest of its objects is.
    borrows: Vec<PathBuf>,
    state: Mutex<Table>,
    /// Counts up with everything that a held call may wait for.
    news: watch::Sender<u64>,
}

#[derive(Default)]
struct Table {
    waiting: Option<TakenBuild>,
    terminate: bool,
    ended: Option<String>,
    held: BTreeMap<String, u64>,
    show: Show,
}

impl Desk {
    pub(super) async fn open(snapshot: Option<&Snapshot>) -> std::io::Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let inner = Inner {
            url: format!("http://{}", listener.local_addr()?),
            key: format!("{:032x}", u128::from_be_bytes(slipway_server::Seams::system().random())),
            repository: snapshot.map(|taken| (taken.commit.repo.clone(), taken.repository.clone())),
            borrows: snapshot.map(|taken| taken.borrows.clone()).unwrap_or_default(),
            state: Mutex::default(),
            news: watch::Sender::new(0),
        };
        let desk = Self { inner: Arc::new(inner) };
        let router = Router::new()
            .route("/api/agent/runner/sync", post(sync))
            .route("/api/agent/runner/builds/{id}/state", put(report))
            .route("/api/agent/runner/builds/{id}/logs", post(append))
            .route("/git/{owner}/{name}/{*rest}", any(clone))
            .with_state(desk.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(desk)
    }

    pub(super) fn url(&self) -> String {
        self.inner.url.clone()
    }

    pub(super) fn key(&self) -> &str {
        &self.inner.key
    }

    pub(super) fn git_access(&self) -> GitAccess {
        GitAccess {
            base_url: format!("{}/git/", self.inner.url),
            username: "build".into(),
            password: self.inner.key.clone(),
        }
    }

    pub(super) fn give(&self, build: TakenBuild) {
        self.change(|table| table.waiting = Some(build));
    }

    pub(super) fn terminate(&self) {
        self.change(|table| table.terminate = true);
    }

    /// The status that the build ended with, once it has.
    pub(super) async fn ended(&self) -> String {
        let mut news = self.inner.news.subscribe();
        loop {
            if let Some(status) = self.inner.state.lock().expect("no panic while locked").ended.clone() {
                return status;
            }
            // The sender lives as long as this desk.
            let _ = news.changed().await;
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let changed = change(&mut self.inner.state.lock().expect("no panic while locked"));
        self.inner.news.send_modify(|count| *count += 1);
        changed
    }

    fn is_ours(&self, headers: &HeaderMap) -> bool {
        let given =
            headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let access = self.git_access();
        let basic = || format!("Basic {}", BASE64.encode(format!("{}:{}", access.username, access.password)));
        given == self.inner.key || given == basic()
    }
}

async fn sync(
    State(desk): State<Desk>,
    headers: HeaderMap,
    Json(request): Json<RunnerSync>,
) -> Result<Json<RunnerSyncAnswer>, StatusCode> {
    if !desk.is_ours(&headers) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let until = tokio::time::Instant::now() + Duration::from_millis(request.wait_ms);
    let mut news = desk.inner.news.subscribe();
    loop {
        let mut answer = RunnerSyncAnswer { lease_ms: LEASE_MS, ..RunnerSyncAnswer::default() };
        {
            let mut table = desk.inner.state.lock().expect("no panic while locked");
            if request.free > 0 {
                answer.taken.extend(table.waiting.take());
            }
            if table.terminate {
                let untold = request.running.iter().filter(|run| !run.terminating);
                answer.terminate.extend(untold.map(|run| run.id.clone()));
            }
        }
        if !answer.taken.is_empty() || !answer.terminate.is_empty() {
            return Ok(Json(answer));
        }
        if tokio::time::timeout_at(until, news.changed()).await.is_err() {
            return Ok(Json(answer));
        }
    }
}

async fn report(
    State(desk): State<Desk>,
    headers: HeaderMap,
    Path(_): Path<String>,
    Json(report): Json<BuildReport>,
) -> Result<Json<bool>, StatusCode> {
    if !desk.is_ours(&headers) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    desk.change(|table| {
        table.show.report(&report);
        if BuildStatus::parse(&report.status).is_some_and(BuildStatus::is_final) {
            table.ended = Some(report.status);
        }
    });
    Ok(Json(true))
}

async fn append(
    State(desk): State<Desk>,
    headers: HeaderMap,
    Path(_): Path<String>,
    Json(append): Json<LogAppend>,
) -> Result<Json<LogAppendAnswer>, StatusCode> {
    if !desk.is_ours(&headers) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let mut table = desk.inner.state.lock().expect("no panic while locked");
    for piece in append.pieces {
        let held = table.held.entry(piece.step.clone()).or_default();
        // A call whose answer got lost comes again.
        if piece.offset == *held {
            *held += piece.text.len() as u64;
            table.show.text(&piece.step, &piece.text);
        }
    }
    Ok(Json(LogAppendAnswer { held: table.held.clone() }))
}

/// Fetching only: what a local run changes stays in its own folder.
async fn clone(
    State(desk): State<Desk>,
    headers: HeaderMap,
    Path((owner, name, rest)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
    method: Method,
    body: Body,
) -> Response<Body> {
    let wanted = format!("{owner}/{}", name.strip_suffix(".git").unwrap_or(&name));
    let query = query.unwrap_or_default();
    if !desk.is_ours(&headers) {
        let ask = [(header::WWW_AUTHENTICATE, "Basic realm=\"slipway run\"")];
        return (StatusCode::UNAUTHORIZED, ask).into_response();
    }
    let Some((_, folder)) = desk.inner.repository.as_ref().filter(|(known, _)| *known == wanted) else {
        let sentence = format!(
            "`{wanted}` is not here: `slipway run FILE` has only the working copy around the file; give other repositories by their whole address\n"
        );
        return (StatusCode::NOT_FOUND, sentence).into_response();
    };
    if rest == "git-receive-pack" || query.contains("service=git-receive-pack") {
        return (StatusCode::FORBIDDEN, "a local run pushes nothing\n").into_response();
    }
    let text =
        |key: &str| headers.get(key).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let request = CgiRequest {
        repository: folder.clone(),
        borrows: desk.inner.borrows.clone(),
        path: format!("/{rest}"),
        method: method.to_string(),
        query,
        content_type: text("content-type"),
        content_encoding: text("content-encoding"),
        git_protocol: text("git-protocol"),
        user: "build".into(),
        body: Box::pin(StreamReader::new(body.into_data_stream().map_err(std::io::Error::other))),
    };
    let answer = match builtin::serve(request).await {
        Ok(answer) => answer,
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    };
    let mut child = answer.child;
    tokio::spawn(async move { child.wait().await });
    let mut response = Response::builder().status(answer.status);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    response
        .body(Body::from_stream(ReaderStream::new(answer.body)))
        .unwrap_or_else(|_| StatusCode::BAD_GATEWAY.into_response())
}
