//! One commit by the owner of a token: their name as author and committer, their right at the provider.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use slipway_api::git_proxy::{GitCommit, GitCommitted, GitFile};
use slipway_source::GitError;
use slipway_source::git::{Change, CloneOptions, Credentials, Git, Identity, Pushed, Remote};

use super::super::{Asker, Proxy, Refusal, Running};
use super::vault::Kept;
use super::{Place, check_repository, kept, refused};

const FILES_MAX: usize = 200;
const MESSAGE_CHARS_MAX: usize = 10_000;
/// Of one file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
const DEADLINE: Duration = Duration::from_secs(90);

/// A repository as the owner of a token reaches it.
pub(in super::super) struct Reached {
    place: Place,
    kept: Kept,
    remote: Remote,
}

/// A file of it, at a commit.
pub(in super::super) enum Seen {
    /// There is no commit yet.
    Empty,
    At {
        commit: String,
        /// None: there is no such file.
        text: Option<String>,
    },
}

impl Reached {
    pub(in super::super) async fn open(
        running: &Arc<Running>,
        asker: &Asker,
        provider: &str,
        host: &str,
        repository: &str,
    ) -> Result<Self, Refusal> {
        check_repository(repository)?;
        let place = Place::read(running, provider, host)?;
        let kept = kept(running, asker, &place).await?;
        let base = place.provider.clone_base(place.host.as_deref()).unwrap_or_default();
        let name = repository.trim_end_matches(".git");
        let credentials = Credentials::basic(place.provider.clone_user(), kept.token.clone());
        let remote = Remote::parse(&format!("{base}{name}.git"), Some(credentials))
            .map_err(|error| answer_to(&error))?;
        Ok(Self { place, kept, remote })
    }

    pub(in super::super) fn url(&self) -> &str {
        self.remote.url()
    }

    /// `revision` is a commit or a branch; empty: the default branch.
    pub(in super::super) async fn see(
        &self,
        running: &Running,
        revision: &str,
        file: &str,
    ) -> Result<Seen, Refusal> {
        let folder = folder(running)?;
        let git = Git::new().caged(folder.path()).deadline(DEADLINE);
        let read = async |revision: Option<&str>, scratch: &str| {
            let scratch = folder.path().join(scratch);
            std::fs::create_dir(&scratch).map_err(no_space)?;
            Ok::<_, Refusal>(git.read_remote(&self.remote, revision, file, &scratch, FILE_BYTES_MAX).await)
        };
        let found = read((!revision.is_empty()).then_some(revision), "a").await?;
        let found = match found {
            // An empty repository has no branch either.
            Err(GitError::RevisionNotFound { .. }) => match read(None, "b").await? {
                Err(GitError::Empty { repo }) => Err(GitError::Empty { repo }),
                _ => found,
            },
            _ => found,
        };
        match found {
            Ok((bytes, commit)) => {
                let text = String::from_utf8(bytes)
                    .map_err(|_| refused("NOT_TEXT", format!("`{file}` is not text")))?;
                Ok(Seen::At { commit, text: Some(text) })
            }
            Err(GitError::FileNotFound { revision, .. }) => Ok(Seen::At { commit: revision, text: None }),
            Err(GitError::Empty { .. }) => Ok(Seen::Empty),
            Err(error) => Err(answer_to(&error)),
        }
    }

    async fn is_empty(&self, running: &Running, repository: &str) -> Result<bool, Refusal> {
        let way = self.place.way(running, &self.kept.token, self.kept.renewable.as_ref())?;
        let answer = self.place.ask(&way, &self.place.provider.branches(repository)).await?;
        let known = self.place.provider.read_branches(&answer).map_err(|error| self.place.refusal(error))?;
        Ok(known.is_empty())
    }
}

fn no_space(error: std::io::Error) -> Refusal {
    let message = format!("cannot write the files down: {error}");
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "NO_SPACE", message)
}

fn folder(running: &Running) -> Result<tempfile::TempDir, Refusal> {
    let data = std::path::absolute(&running.config.data).map_err(no_space)?;
    tempfile::tempdir_in(data).map_err(no_space)
}

pub(in super::super) async fn commit(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
    Json(request): Json<GitCommit>,
) -> Result<Json<GitCommitted>, Refusal> {
    check(&request)?;
    let running = proxy.running()?;
    let GitCommit { provider, host, repository, .. } = &request;
    let reached = Reached::open(running, &asker, provider, host, repository).await?;
    make(running, &reached, &request).await.map(Json)
}

/// The commit, pushed.
pub(in super::super) async fn make(
    running: &Running,
    reached: &Reached,
    request: &GitCommit,
) -> Result<GitCommitted, Refusal> {
    check(request)?;
    let empty = reached.is_empty(running, &request.repository).await?;
    if empty && !request.base.is_empty() {
        let message =
            format!("{} has no commit yet: leave `base` out to make the first one", request.repository);
        return Err(Refusal::new(StatusCode::CONFLICT, "EMPTY_REPOSITORY", message));
    }
    let folder = folder(running)?;
    let [files, scratch, clone] = ["files", "git", "clone"].map(|name| folder.path().join(name));
    std::fs::create_dir(&files).and_then(|()| std::fs::create_dir(&scratch)).map_err(no_space)?;
    let git = Git::new().caged(folder.path()).deadline(DEADLINE);
    if !request.base.is_empty() {
        begin_at(&git, &reached.remote, &request.base, &clone, &files).await?;
    }
    write(&files, &request.files).map_err(no_space)?;
    let account = &reached.kept.account;
    let change = Change {
        folder: files,
        add: request.files.iter().map(|file| file.path.clone()).collect(),
        branch: (!request.branch.is_empty()).then(|| request.branch.clone()),
        message: request.message.clone(),
        author: Identity { name: account.name.clone(), email: account.email.clone() },
        mark: None,
        scratch,
    };
    let author = format!("{} <{}>", account.name, account.email);
    let pushed = git.commit_and_push(&reached.remote, &change).await.map_err(|error| answer_to(&error))?;
    let (outcome, commit, branch) = match pushed {
        Pushed::Pushed { sha, branch } => (if empty { "first-commit" } else { "committed" }, sha, branch),
        Pushed::Already { sha, branch } => ("committed", sha, branch),
        Pushed::Nothing { sha, branch } => ("no-change", sha.unwrap_or_default(), branch),
    };
    Ok(GitCommitted { outcome: outcome.into(), commit, branch, author })
}

pub(in super::super) fn check(request: &GitCommit) -> Result<(), Refusal> {
    check_repository(&request.repository)?;
    if request.files.is_empty() || request.files.len() > FILES_MAX {
        return Err(refused("NO_FILES", format!("a commit has between 1 and {FILES_MAX} files")));
    }
    if request.message.trim().is_empty() || request.message.chars().count() > MESSAGE_CHARS_MAX {
        return Err(refused("NO_MESSAGE", "give the commit a message"));
    }
    let whole = request.base.len() == 40 && request.base.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !whole && !request.base.is_empty() {
        return Err(refused("BAD_BASE", "`base` is the whole id of a commit"));
    }
    for GitFile { path, .. } in &request.files {
        let part = |part: &str| {
            !part.is_empty() && part != "." && part != ".." && !part.eq_ignore_ascii_case(".git")
        };
        let good = path.split('/').all(part) && !path.contains(['\\', '\0', '\n']) && path.len() <= 500;
        if !good {
            return Err(refused(
                "BAD_PATH",
                format!("`{path}` is not a path of a file inside of the repository"),
            ));
        }
    }
    Ok(())
}

/// The folder stands at the commit that was looked at, so that what others did since is merged, or a conflict. Nothing is
/// checked out there: a link in the repository would lead what is written elsewhere.
async fn begin_at(git: &Git, remote: &Remote, base: &str, clone: &Path, files: &Path) -> Result<(), Refusal> {
    let options = CloneOptions { skip_tags: true, ..CloneOptions::default() };
    git.clone_at(remote, Some(base), clone, &options).await.map_err(|error| answer_to(&error))?;
    std::fs::rename(clone.join(".git"), files.join(".git")).map_err(no_space)
}

fn write(folder: &Path, files: &[GitFile]) -> std::io::Result<()> {
    for GitFile { path, content } in files {
        let Some(content) = content else { continue };
        let place: PathBuf = folder.join(path);
        if let Some(parent) = place.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(place, content)?;
    }
    Ok(())
}

/// Each thing that can be in the way has a name of its own.
fn answer_to(error: &GitError) -> Refusal {
    let (status, name) = match error {
        GitError::Conflict { repo, branch, files } => {
            let message = format!(
                "`{branch}` of {repo} has moved, and others changed the same: {files}; look at it again and repeat your change"
            );
            return Refusal::new(StatusCode::CONFLICT, "CONFLICT", message);
        }
        GitError::Rejected { repo, branch, detail } if is_protected(detail) => {
            let message = format!(
                "`{branch}` of {repo} is protected, or a hook there refuses the push: {detail}; commit to another branch and open a pull request"
            );
            return Refusal::new(StatusCode::FORBIDDEN, "PROTECTED_BRANCH", message);
        }
        GitError::Rejected { .. } => (StatusCode::CONFLICT, "PUSH_REFUSED"),
        GitError::Empty { .. } => (StatusCode::CONFLICT, "EMPTY_REPOSITORY"),
        GitError::Refused { repo, .. } => {
            let message =
                format!("{repo} refuses your token: check that it may write, or register a new one");
            return refused("TOKEN_REFUSED", message);
        }
        GitError::NotFound { .. } | GitError::RevisionNotFound { .. } => (StatusCode::NOT_FOUND, "NOT_FOUND"),
        GitError::BadRevision(_) | GitError::BadPath(_) | GitError::BadUrl { .. } => {
            (StatusCode::UNPROCESSABLE_ENTITY, "BAD_REQUEST")
        }
        GitError::Unreachable { .. } | GitError::Deadline { .. } => {
            (StatusCode::BAD_GATEWAY, "GIT_UNREACHABLE")
        }
        _ => (StatusCode::UNPROCESSABLE_ENTITY, "GIT_ERROR"),
    };
    Refusal::new(status, name, error.to_string())
}

fn is_protected(detail: &str) -> bool {
    let detail = detail.to_lowercase();
    ["protected", "pre-receive hook declined", "hook declined"].iter().any(|word| detail.contains(word))
}
