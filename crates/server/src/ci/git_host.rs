//! Git over HTTP at `/git/owner/name.git`, and taking note of what a push moved.
//!
//! A push is answered after its references are on disk **and** its facts are committed. Should the
//! process die between the two, a look at the references finds that Git and the table disagree: [`sweep`] looks
//! at start and now and then, because a `git receive-pack` whose server was killed ends its work after that; and
//! whoever is about to push has the repository looked at first, because Git would tell them that all is there.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use futures::TryStreamExt;
use slipway_access::{Resource, Verb};
use slipway_forge::builtin::{
    self, CgiAnswer, CgiRequest, GitHostError, PushCommands, read_commands, refusal,
};
use slipway_model::RepoId;
use slipway_store::Tx;
use slipway_store::git::{self, MovedRef, Repo};
use tokio::io::AsyncReadExt;
use tokio_util::io::{ReaderStream, StreamReader};

use crate::background::driver::{Outcome, Round, Turn};
use crate::ci::git_rights;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail::{Actor, Entry as TrailEntry, Trail};

/// What Git answers to a push: a few lines and progress, never a pack.
const PUSH_ANSWER_MAX: u64 = 16 << 20;
/// Of a push that is refused, so much more is heard before it is answered.
const DRAINED_MAX: u64 = 256 << 20;
/// A record is for reading.
const REFERENCES_TOLD_MAX: usize = 100;
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
) -> Response<Body> {
    let name = format!("{owner}/{}", name.strip_suffix(".git").unwrap_or(&name));
    let query = query.unwrap_or_default();
    let call = Call { server, caller, name, rest, query, method, headers };
    call.answer(body).await.unwrap_or_else(ApiError::into_text)
}

/// One call of `git`.
struct Call {
    server: Server,
    caller: Caller,
    name: String,
    rest: String,
    query: String,
    method: Method,
    headers: HeaderMap,
}

impl Call {
    fn receives(&self) -> bool {
        self.rest == "git-receive-pack"
    }

    fn pushes(&self) -> bool {
        self.receives() || self.query.contains("service=git-receive-pack")
    }

    fn header(&self, key: &str) -> String {
        self.headers.get(key).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    }

    async fn answer(self, body: Body) -> Result<Response<Body>, ApiError> {
        if !matches!(self.rest.as_str(), "info/refs" | "git-upload-pack" | "git-receive-pack") {
            return Err(ApiError::not_found(format!(
                "`{}`: only Git's smart HTTP protocol is supported",
                self.rest
            )));
        }
        let verb = if self.pushes() { Verb::Write } else { Verb::Read };
        if !self.caller.principal.scopes.allow(Resource::Repos, verb) {
            return Err(ApiError::forbidden(
                "this key is limited to other scopes: fetching needs `repos:read`, pushing `repos`",
            ));
        }
        let repo = self.find().await?;
        if !self.receives() {
            return self.pass(&repo, Box::pin(body_reader(body))).await;
        }
        if !matches!(self.header("content-encoding").as_str(), "" | "identity") {
            return Err(ApiError::bad_request(
                "Content-Encoding is not supported for pushes: send it without",
            ));
        }
        let mut body: Reader = Box::pin(body_reader(body));
        let (push, begun) = read_push(&mut body).await?;
        let (asking, name, commands) = (self.caller.clone(), self.name.clone(), push.commands.clone());
        let look =
            self.server.look(move |tx| git_rights::refused_pushes(tx, &asking, &name, &commands)).await;
        let refused = match look {
            Ok(refused) => refused,
            Err(error) => return Err(self.recorded(&repo, &push, error).await?),
        };
        if !refused.is_empty() {
            return self.refuse(&repo, &push, refused, body).await;
        }
        let input: Reader = Box::pin(std::io::Cursor::new(begun).chain(body));
        self.receive(&repo, &push, input).await
    }

    /// The repository, if the caller may do this to it.
    async fn find(&self) -> Result<Repo, ApiError> {
        let (asking, name, pushes) = (self.caller.clone(), self.name.clone(), self.pushes());
        let found = self.server.look(move |tx| {
            let repo = git::by_name(tx, asking.scope(), &name)?
                .ok_or_else(|| ApiError::not_found(format!("repository `{name}`")))?;
            git_rights::require_read(tx, &asking, &name)?;
            let may = if pushes { git_rights::require_any_push(tx, &asking, &name) } else { Ok(()) };
            Ok((repo, may))
        });
        let (repo, may) = found.await?;
        match may {
            Ok(()) => Ok(repo),
            Err(error) => Err(self.recorded(&repo, &PushCommands::default(), error).await?),
        }
    }

    /// A refused push stands in the trail with what it would have moved.
    async fn recorded(
        &self,
        repo: &Repo,
        push: &PushCommands,
        error: ApiError,
    ) -> Result<ApiError, ApiError> {
        let entry = wanted(repo, push).because(error.reason());
        let (actor, status) = (self.caller.actor(), error.status().as_u16());
        self.caller.trail.afterwards(actor, entry, "denied", status).await?;
        Ok(error)
    }

    async fn refuse(
        &self,
        repo: &Repo,
        push: &PushCommands,
        mut refused: Vec<(String, String)>,
        rest: Reader,
    ) -> Result<Response<Body>, ApiError> {
        let error = ApiError::forbidden(refused[0].1.clone());
        let error = self.recorded(repo, push, error).await?;
        // All or nothing: what would have been allowed waits for the rest.
        for command in &push.commands {
            if !refused.iter().any(|(reference, _)| *reference == command.reference) {
                refused
                    .push((command.reference.clone(), "another reference of this push was rejected".into()));
            }
        }
        let Some(answer) = refusal(push, &refused) else { return Err(error) };
        // Git reads the answer after it has said everything.
        let _ = tokio::io::copy(&mut rest.take(DRAINED_MAX), &mut tokio::io::sink()).await;
        let response = Response::builder()
            .header(header::CONTENT_TYPE, "application/x-git-receive-pack-result")
            .header(header::CACHE_CONTROL, "no-cache");
        Ok(response.body(Body::from(answer)).expect("headers are static"))
    }

    fn request(&self, repo: &Repo, body: Reader) -> CgiRequest<Reader> {
        CgiRequest {
            borrows: Vec::new(),
            repository: self.server.repository(repo.id).path().to_owned(),
            path: format!("/{}", self.rest),
            method: self.method.to_string(),
            query: self.query.clone(),
            content_type: self.header("content-type"),
            content_encoding: self.header("content-encoding"),
            git_protocol: self.header("git-protocol"),
            user: self.caller.principal.display_name(),
            body,
        }
    }

    /// What Git answers, as it comes.
    async fn pass(&self, repo: &Repo, body: Reader) -> Result<Response<Body>, ApiError> {
        if self.pushes() {
            // Git is about to say what is there. A branch that moved and was not noted would be "up to date" to somebody
            // who pushes again after a refusal, and acknowledged without its build.
            look(&self.server, repo).await?;
        }
        let answer = builtin::serve(self.request(repo, body)).await?;
        let response = head(&answer);
        let mut child = answer.child;
        tokio::spawn(async move { child.wait().await });
        Ok(response.body(Body::from_stream(ReaderStream::new(answer.body))).expect("headers were checked"))
    }

    /// Everything of the push is on disk and told before it is answered.
    async fn receive(
        &self,
        repo: &Repo,
        push: &PushCommands,
        body: Reader,
    ) -> Result<Response<Body>, ApiError> {
        let _under_way = self.server.inner.pushes.enter(repo.id);
        let mut answer = builtin::serve(self.request(repo, body)).await?;
        let response = head(&answer);
        let mut bytes = Vec::new();
        (&mut answer.body).take(PUSH_ANSWER_MAX).read_to_end(&mut bytes).await.map_err(GitHostError::Io)?;
        answer.child.wait().await.map_err(GitHostError::Io)?;
        let pusher = Pusher {
            name: self.caller.principal.display_name(),
            actor: self.caller.actor(),
            trail: self.caller.trail.clone(),
        };
        take_note(&self.server, repo, Some(pusher)).await?;
        let failed = builtin::failures(&bytes);
        if !failed.is_empty() {
            let entry = wanted(repo, push).because(failed.join("; "));
            let (actor, trail) = (self.caller.actor(), self.caller.trail.clone());
            let record = move |tx: &mut Tx<'_>| trail.record(tx, &actor, &entry, "failed", 200);
            self.server.store().write(record).await?;
        }
        Ok(response.body(Body::from(bytes)).expect("headers were checked"))
    }
}

type Reader = std::pin::Pin<Box<dyn tokio::io::AsyncRead + Send>>;

fn body_reader(body: Body) -> impl tokio::io::AsyncRead + Send {
    StreamReader::new(body.into_data_stream().map_err(std::io::Error::other))
}

/// Reads up to the end of the commands: what they are, and all bytes that were read.
async fn read_push(body: &mut Reader) -> Result<(PushCommands, Vec<u8>), ApiError> {
    let mut begun = Vec::new();
    loop {
        let found = read_commands(&begun).map_err(|error| ApiError::bad_request(error.to_string()))?;
        if let Some((push, _)) = found {
            return Ok((push, begun));
        }
        let cut = || ApiError::bad_request("the push is incomplete: try again");
        if body.read_buf(&mut begun).await.map_err(|_| cut())? == 0 {
            return Err(cut());
        }
    }
}

fn head(answer: &CgiAnswer) -> axum::http::response::Builder {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = Response::builder().status(status);
    for (name, value) in &answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response = response.header(name, value);
        }
    }
    response.header(header::CACHE_CONTROL, "no-cache")
}

/// What a push wanted to move, for the trail.
fn wanted(repo: &Repo, push: &PushCommands) -> TrailEntry {
    let commands = || push.commands.iter().take(REFERENCES_TOLD_MAX);
    let before: BTreeMap<_, _> = commands().map(|one| (&one.reference, &one.before)).collect();
    let after: BTreeMap<_, _> = commands().map(|one| (&one.reference, &one.after)).collect();
    TrailEntry::new("push", "repository", repo.id, &repo.name).before(before).after(after)
}

/// Whose push it is, and in which call it came.
pub(crate) struct Pusher {
    name: String,
    actor: Actor,
    trail: Trail,
}

impl Pusher {
    /// Whose push it was died with the process that took it.
    fn unknown(server: &Server, repo: &Repo) -> Self {
        let none = String::new;
        let trail = Trail::new(server.clone(), none(), none(), none(), none());
        Self { name: FOUND_LATER.into(), actor: Actor::unknown(Some(repo.account), FOUND_LATER), trail }
    }
}

/// Compares Git's references with what is known and records what moved.
pub(crate) async fn take_note(
    server: &Server,
    repo: &Repo,
    pusher: Option<Pusher>,
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
    let (repo, url, now_ms) = (repo.clone(), server.clone_url(&repo.name), server.now_ms());
    let told = |sha: fn(&MovedRef) -> Option<String>| -> BTreeMap<String, Option<String>> {
        moves.iter().take(REFERENCES_TOLD_MAX).map(|moved| (moved.name.clone(), sha(moved))).collect()
    };
    let after = told(|moved| moved.after.as_ref().map(|commit| commit.sha.clone()));
    let entry = TrailEntry::new("push", "repository", repo.id, &repo.name)
        .before(told(|moved| moved.before.clone()))
        .after(after);
    let note = move |tx: &mut Tx<'_>| {
        let name = pusher.as_ref().map(|pusher| pusher.name.as_str());
        let noted = git::note_moves(tx, &repo, &url, name, moves, now_ms)?;
        if let Some(pusher) = pusher.filter(|_| noted > 0) {
            pusher.trail.allowed(tx, &pusher.actor, &entry)?;
        }
        Ok(noted)
    };
    Ok(server.store().write(note).await?)
}

/// At start, soon again, and then as a safety net.
pub(crate) async fn round(turn: &Turn) -> Outcome {
    sweep(&turn.server).await?;
    Ok(Round::Done)
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
    let found = take_note(server, repo, Some(Pusher::unknown(server, repo))).await?;
    if found > 0 {
        tracing::info!(
            repo = repo.name,
            found,
            "Found pushes that were not processed before the last shutdown."
        );
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
