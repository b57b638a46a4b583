//! One commit by the owner of a token: their name as author and committer, their right at the provider.

use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use slipway_api::git_proxy::{GitCommit, GitCommitted, GitFile};
use slipway_source::GitError;
use slipway_source::git::{Change, CloneOptions, Credentials, Git, Identity, Pushed, Remote};

use super::super::{Asker, Proxy, Refusal};
use super::{Place, check_repository, refused, vault};

const FILES_MAX: usize = 200;
const MESSAGE_CHARS_MAX: usize = 10_000;
const DEADLINE: Duration = Duration::from_secs(90);

pub(in super::super) async fn commit(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
    Json(request): Json<GitCommit>,
) -> Result<Json<GitCommitted>, Refusal> {
    let running = proxy.running()?;
    check(&request)?;
    let place = Place::read(running, &request.provider, &request.host)?;
    let kept = vault(running, &asker).get(&place).await?;
    let way = place.way(running, &kept.token)?;
    let answer = place.ask(&way, &place.provider.branches(&request.repository)).await?;
    let known = place.provider.read_branches(&answer).map_err(|error| place.refusal(error))?;
    let empty = known.is_empty();
    if empty && !request.base.is_empty() {
        let message =
            format!("{} has no commit yet: leave `base` out to make the first one", request.repository);
        return Err(Refusal::new(StatusCode::CONFLICT, "EMPTY_REPOSITORY", message));
    }
    let io = |error: std::io::Error| {
        Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "NO_SPACE",
            format!("cannot write the files down: {error}"),
        )
    };
    let data = std::path::absolute(&running.config.data).map_err(io)?;
    let folder = tempfile::tempdir_in(data).map_err(io)?;
    let [files, scratch, clone] = ["files", "git", "clone"].map(|name| folder.path().join(name));
    std::fs::create_dir(&files).and_then(|()| std::fs::create_dir(&scratch)).map_err(io)?;
    let base = place.provider.clone_base(place.host.as_deref()).unwrap_or_default();
    let name = request.repository.trim_end_matches(".git");
    let credentials = Credentials::basic(place.provider.clone_user(), kept.token.clone());
    let remote =
        Remote::parse(&format!("{base}{name}.git"), Some(credentials)).map_err(|error| answer_to(&error))?;
    let git = Git::new().caged(folder.path()).deadline(DEADLINE);
    if !request.base.is_empty() {
        begin_at(&git, &remote, &request.base, &clone, &files).await?;
    }
    write(&files, &request.files).map_err(io)?;
    let account = &kept.account;
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
    let pushed = git.commit_and_push(&remote, &change).await.map_err(|error| answer_to(&error))?;
    let (outcome, commit, branch) = match pushed {
        Pushed::Pushed { sha, branch } => (if empty { "first-commit" } else { "committed" }, sha, branch),
        Pushed::Already { sha, branch } => ("committed", sha, branch),
        Pushed::Nothing { sha, branch } => ("no-change", sha.unwrap_or_default(), branch),
    };
    Ok(Json(GitCommitted { outcome: outcome.into(), commit, branch, author }))
}

fn check(request: &GitCommit) -> Result<(), Refusal> {
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
    std::fs::rename(clone.join(".git"), files.join(".git")).map_err(|error| {
        Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "NO_SPACE",
            format!("cannot write the files down: {error}"),
        )
    })
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
