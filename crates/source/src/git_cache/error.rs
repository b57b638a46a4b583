//! What can go wrong between us and a repository, in words for the person who has to act.

use slipway_model::Next;

use crate::process::ProcessError;
use crate::repo_url::{RepoUrlError, without_userinfo};

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("repository `{url}`: {source}")]
    Url { url: String, source: RepoUrlError },
    #[error("`{0}` is not a revision; use a branch, a tag or a commit id")]
    Revision(String),
    #[error("revision `{revision}` is not in {url}{}; correct `targetRevision` or push it", known_text(.known))]
    RevisionNotFound { revision: String, url: String, known: Vec<String> },
    #[error("path `{path}` is not in the repository at this revision; correct `path`")]
    PathNotFound { path: String },
    #[error("path `{path}` is a file; `path` must name a folder")]
    NotAFolder { path: String },
    #[error("path `{path}` leaves the repository; use a path inside it")]
    PathEscapes { path: String },
    #[error("symbolic link `{path}` points outside of the repository; replace it by the file itself")]
    LinkEscapes { path: String },
    #[error(
        "{url} wants other credentials; add a Secret with the label argocd.argoproj.io/secret-type: repository \
         and the keys url, username and password (or sshPrivateKey)"
    )]
    Credentials { url: String },
    #[error("cannot reach {url}: {detail}")]
    Unreachable { url: String, detail: String },
    #[error("{url} did not answer within {seconds} s")]
    Deadline { url: String, seconds: u64 },
    #[error("{what} is larger than the limit of {limit}")]
    TooLarge { what: String, limit: String },
    #[error("no token for {url} from its GitHub App: {detail}")]
    GithubApp { url: String, detail: String },
    #[error("large file {oid} of {url} cannot be read: {detail}")]
    Lfs { url: String, oid: String, detail: String },
    #[error(transparent)]
    Signature(#[from] super::signature::SignatureError),
    #[error("`git` is not installed; install it (Debian: apt-get install git) and try again")]
    NoGit,
    #[error("the local copy of the repository is damaged ({detail}); it is made again at the next try")]
    Damaged { detail: String },
    #[error("cannot use {folder}; check its owner and the free space")]
    Folder { folder: String, source: std::io::Error },
    #[error("{folder} is in use by another slipway process; give each its own data folder")]
    FolderInUse { folder: String },
}

fn known_text(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!(" (branches there: {})", known.join(", ")) }
}

impl GitError {
    pub fn next(&self) -> Next {
        match self {
            Self::Unreachable { .. }
            | Self::Deadline { .. }
            | Self::Damaged { .. }
            | Self::Folder { .. }
            | Self::GithubApp { .. }
            | Self::Lfs { .. } => Next::Retry,
            _ => Next::NeedsHuman,
        }
    }

    pub(super) fn from_process(error: ProcessError, url: &str) -> Self {
        let url = without_userinfo(url);
        match error {
            ProcessError::Missing { .. } => Self::NoGit,
            ProcessError::Deadline { seconds, .. } => Self::Deadline { url, seconds },
            ProcessError::TooMuch { .. } => Self::TooLarge {
                what: format!("repository {url}"),
                limit: "this runtime's git limits".into(),
            },
            ProcessError::Io { source, .. } => Self::Unreachable { url, detail: source.to_string() },
        }
    }

    /// Reads git's words once, so that nobody else has to.
    pub(super) fn from_stderr(stderr: &str, url: &str) -> Self {
        let url = without_userinfo(url);
        let lower = stderr.to_lowercase();
        let asks = [
            "authentication failed",
            "could not read username",
            "could not read password",
            "terminal prompts disabled",
            "permission denied (publickey",
            "returned error: 401",
            "returned error: 403",
            "access denied",
        ];
        if asks.iter().any(|words| lower.contains(words)) {
            return Self::Credentials { url };
        }
        let words: Vec<&str> = stderr
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with("warning:") && !line.starts_with("hint:"))
            .take(3)
            .collect();
        let mut detail = without_userinfo(&words.join("; "));
        if detail.is_empty() {
            detail = "git ended without saying why".to_owned();
        }
        if let Some((end, _)) = detail.char_indices().nth(400) {
            detail.truncate(end);
        }
        Self::Unreachable { url, detail }
    }
}
