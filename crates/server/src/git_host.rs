//! Git over HTTP at `/git/owner/name.git`, and taking note of what a push moved.
//!
//! A push is answered after its references are on disk **and** its facts are committed. Should the
//! process die between the two, a look at the references finds that Git and the table disagree: [`sweep`] looks
//! at start and now and then, because a `git receive-pack` whose server was killed ends its work after that; and
//! whoever is about to push has the repository looked at first, because Git would tell them that all is there.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Mutex;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use futures::TryStreamExt;
use slipway_access::{Resource, Verb, Who};
use slipway_forge::builtin::{self, CgiRequest, GitHostError};
use slipway_model::RepoId;
use slipway_store::git::{self, MovedRef, Repo};
use slipway_store::inbox;
use tokio::io::AsyncReadExt;
use tokio_util::io::{ReaderStream, StreamReader};

use crate::auth::Caller;
use crate::ctx::Server;
use crate::error::ApiError;
use crate::leading::lead;

/// What Git answers to a push: a few lines and progress, never a pack.
const PUSH_ANSWER_MAX: u64 = 16 << 20;
/// Longer than a broker keeps a message under way.
const INBOX_KEPT_MS: i64 = 14 * 24 * 60 * 60 * 1000;
/// Whose push it was died with the process that took it.
const FOUND_LATER: &str = "unknown (found after a restart)";

pub(crate) async fn serve(
    State(server): State<Server>,
    caller: Caller,
    Path((owner, name, rest)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
    method: Method,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, ApiError> {
    let name = format!("{owner}/{}", name.strip_suffix(".git").unwrap_or(&name));
    let query = query.unwrap_or_default();
    let pushes = rest == "git-receive-pack" || query.contains("service=git-receive-pack");
    if !matches!(rest.as_str(), "info/refs" | "git-upload-pack" | "git-receive-pack") {
        return Err(ApiError::not_found(format!("`{rest}`: this host speaks smart HTTP only")));
    }
    if pushes && matches!(caller.principal.who, Who::Runtime { .. }) {
        return Err(ApiError::forbidden("a runtime may fetch, not push"));
    }
    let verb = if pushes { Verb::Write } else { Verb::Read };
    if !caller.principal.scopes.allow(Resource::Repos, verb) {
        return Err(ApiError::forbidden(
            "this key is limited to other scopes: fetching needs `repos:read`, pushing `repos`",
        ));
    }
    let wanted = name.clone();
    let scope = caller.scope();
    let repo = server
        .store()
        .read(move |tx| git::by_name(tx, scope, &wanted))
        .await?
        .ok_or_else(|| ApiError::not_found(format!("repository `{name}`")))?;
    let text =
        |key: &str| headers.get(key).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let request = CgiRequest {
        repository: server.repository(repo.id).path().to_owned(),
        path: format!("/{rest}"),
        method: method.to_string(),
        query,
        content_type: text("content-type"),
        content_encoding: text("content-encoding"),
        git_protocol: text("git-protocol"),
        user: caller.principal.display_name(),
        body: Box::pin(StreamReader::new(body.into_data_stream().map_err(std::io::Error::other))),
    };
    if pushes && rest == "info/refs" {
        // Git is about to say what is there. A branch that moved and was not noted would be "up to date" to somebody
        // who pushes again after a refusal, and acknowledged without its build.
        look(&server, &repo).await?;
    }
    let _under_way = (rest == "git-receive-pack").then(|| server.inner.pushes.enter(repo.id));
    let mut answer = builtin::serve(request).await?;
    let mut response =
        Response::builder().status(StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY));
    for (name, value) in &answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response = response.header(name, value);
        }
    }
    response = response.header(header::CACHE_CONTROL, "no-cache");
    let body = if rest == "git-receive-pack" {
        let mut bytes = Vec::new();
        (&mut answer.body).take(PUSH_ANSWER_MAX).read_to_end(&mut bytes).await.map_err(GitHostError::Io)?;
        answer.child.wait().await.map_err(GitHostError::Io)?;
        take_note(&server, &repo, Some(caller.principal.display_name())).await?;
        Body::from(bytes)
    } else {
        let mut child = answer.child;
        tokio::spawn(async move { child.wait().await });
        Body::from_stream(ReaderStream::new(answer.body))
    };
    Ok(response.body(body).expect("headers were checked"))
}

/// Compares Git's references with what is known and records what moved.
pub(crate) async fn take_note(
    server: &Server,
    repo: &Repo,
    pusher: Option<String>,
) -> Result<usize, ApiError> {
    let repository = server.repository(repo.id);
    let id = repo.id;
    let known = server.store().read(move |tx| git::known_refs(tx, id)).await?;
    let now = repository.references().await?;
    let mut moves = Vec::new();
    for (name, sha) in &now {
        let before = known.get(name).map(|known| known.sha.clone());
        if before.as_ref() == Some(sha) {
            continue;
        }
        let commit = repository.commit(sha).await?;
        let changed_paths = repository.changed_paths(before.as_deref(), sha).await?;
        moves.push(MovedRef { name: name.clone(), before, after: Some(commit), changed_paths });
    }
    for (name, gone) in known.iter().filter(|(name, _)| !now.contains_key(*name)) {
        let (name, before) = (name.clone(), Some(gone.sha.clone()));
        moves.push(MovedRef { name, before, after: None, changed_paths: Vec::new() });
    }
    if moves.is_empty() {
        return Ok(0);
    }
    let (repo, pusher, url, now_ms) =
        (repo.clone(), pusher.to_owned(), server.clone_url(&repo.name), server.now_ms());
    Ok(server
        .store()
        .write(move |tx| git::note_moves(tx, &repo, &url, pusher.as_deref(), moves, now_ms))
        .await?)
}

/// Looks at start, soon again, and then as a safety net. One process of the platform does.
pub(crate) async fn keep_sweeping(server: &Server) {
    lead(server, "sweep", |_| sweep_again_and_again(server)).await;
}

async fn sweep_again_and_again(server: &Server) {
    let mut pauses = [1, 2, 5, 10].into_iter();
    loop {
        if let Err(error) = sweep(server).await {
            tracing::warn!(%error, "Could not look for pushes that were left unannounced.");
        }
        let before_ms = server.now_ms() - INBOX_KEPT_MS;
        if let Err(error) = server.store().write(move |tx| inbox::trim(tx, before_ms)).await {
            tracing::warn!(%error, "The inbox could not be tidied.");
        }
        let pause = Duration::from_secs(pauses.next().unwrap_or(60));
        tokio::select! {
            () = server.inner.shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Finds pushes that Git has taken but that were not announced before the process died.
async fn sweep(server: &Server) -> Result<(), ApiError> {
    for repo in server.store().read(git::list_everywhere).await? {
        look(server, &repo).await?;
    }
    Ok(())
}

/// Leaves alone what a push under way has moved: it knows whose it is and says so itself.
async fn look(server: &Server, repo: &Repo) -> Result<(), ApiError> {
    if server.inner.pushes.any(repo.id) {
        return Ok(());
    }
    let found = take_note(server, repo, Some(FOUND_LATER.into())).await?;
    if found > 0 {
        tracing::info!(repo = repo.name, found, "Found pushes that were not announced before the last stop.");
    }
    Ok(())
}

/// The repositories that are being pushed to through this process.
#[derive(Debug, Default)]
pub(crate) struct Pushes(Mutex<HashMap<RepoId, usize>>);

pub(crate) struct UnderWay<'p>(&'p Pushes, RepoId);

impl Pushes {
    fn enter(&self, repo: RepoId) -> UnderWay<'_> {
        *self.0.lock().expect("no panic while locked").entry(repo).or_default() += 1;
        UnderWay(self, repo)
    }

    fn any(&self, repo: RepoId) -> bool {
        self.0.lock().expect("no panic while locked").contains_key(&repo)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.0.0.lock().expect("no panic while locked").entry(self.1) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}
