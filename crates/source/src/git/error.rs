//! What can go wrong between us and a repository, in words for the person who has to act.

use std::path::{Path, PathBuf};

use slipway_model::Next;

use super::mirror::SignatureError;
use crate::process::ProcessError;
use crate::repo_url::without_userinfo;

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("`git` is not installed; install it (Debian: apt-get install git) and try again")]
    NotInstalled,
    #[error("`{url}` is not a repository address that may be used: {why}")]
    BadUrl { url: String, why: String },
    #[error("`{0}` is not a revision: give a branch, a tag or a commit")]
    BadRevision(String),
    #[error("`{0}` is not a path inside a repository: give a relative path without `..`")]
    BadPath(String),
    #[error("{repo} refused the credential: {advice}")]
    Refused { repo: String, advice: &'static str },
    #[error("{repo} is not there, or the credential may not see it: check the name")]
    NotFound { repo: String },
    #[error("{repo} has no commit yet: push one first")]
    Empty { repo: String },
    #[error("{repo} has no branch, tag or commit `{revision}`{}: check the name, or push it first", known_text(.known))]
    RevisionNotFound {
        repo: String,
        revision: String,
        /// Some branches that are there.
        known: Vec<String>,
    },
    #[error("{repo} has no file `{path}` at {revision}: check the path, or push the file first")]
    FileNotFound { repo: String, path: String, revision: String },
    #[error("path `{path}` is not in the repository at this revision; correct `path`")]
    PathNotFound { path: String },
    #[error("path `{path}` is a file; `path` must name a folder")]
    NotAFolder { path: String },
    #[error("path `{path}` leaves the repository; use a path inside it")]
    PathEscapes { path: String },
    #[error("symbolic link `{path}` points outside of the repository; replace it by the file itself")]
    LinkEscapes { path: String },
    #[error("{what} is larger than the limit of {limit}")]
    TooLarge { what: String, limit: String },
    #[error("cannot reach {repo}: {detail}")]
    Unreachable { repo: String, detail: String },
    #[error(
        "git was stopped after {seconds} s while it tried to {what} {repo}: try again, or allow more time"
    )]
    Deadline { repo: String, what: &'static str, seconds: u64 },
    #[error(
        "the change does not fit on top of `{branch}` of {repo}, which has moved; both changed: {files}. Run the build again on the newest commit"
    )]
    Conflict { repo: String, branch: String, files: String },
    #[error("{repo} did not take the push to `{branch}`: {detail}")]
    Rejected { repo: String, branch: String, detail: String },
    #[error("git could not {what} ({repo}): {detail}")]
    Failed { repo: String, what: &'static str, detail: String },
    #[error("no token for {repo} from its GitHub App: {detail}")]
    Token { repo: String, detail: String },
    #[error("large file {oid} of {repo} cannot be read: {detail}")]
    Lfs { repo: String, oid: String, detail: String },
    #[error(transparent)]
    Signature(#[from] SignatureError),
    #[error("the local copy of the repository is damaged ({detail}); it is made again at the next try")]
    Damaged { detail: String },
    #[error("cannot use the folder {}; check its owner and the free space", .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{folder} is in use by another slipway process; give each its own data folder")]
    FolderInUse { folder: String },
}

/// What to do about a credential, where the repository belongs to a build.
const ADVICE: &str = "check the user name and the token of its integration";
/// The same where it belongs to an Application.
const ADVICE_SECRET: &str = "add a Secret with the label argocd.argoproj.io/secret-type: repository \
    and the keys url, username and password (or sshPrivateKey)";

fn known_text(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!(" (branches there: {})", known.join(", ")) }
}

impl GitError {
    pub fn next(&self) -> Next {
        match self {
            Self::Unreachable { .. }
            | Self::Deadline { .. }
            | Self::Damaged { .. }
            | Self::Io { .. }
            | Self::Token { .. }
            | Self::Lfs { .. } => Next::Retry,
            _ => Next::NeedsHuman,
        }
    }

    pub(super) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }

    pub(super) fn no_revision(repo: &str, revision: &str) -> Self {
        Self::RevisionNotFound { repo: repo.into(), revision: revision.into(), known: Vec::new() }
    }

    /// An error that git gave no reason for that we know.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::RevisionNotFound { .. })
    }

    pub(super) fn or_revision(self, repo: &str, revision: &str) -> Self {
        if self.is_plain() { Self::no_revision(repo, revision) } else { self }
    }

    /// For a mirror, which is asked again and again: whatever a repository answered may be otherwise at the next try,
    /// unless it wants other credentials. `stderr` holds git's own words.
    pub(super) fn of_mirror(url: &str, stderr: &str) -> Self {
        let repo = without_userinfo(url);
        match Self::from_stderr(&repo, "read", stderr) {
            Self::Refused { .. } => Self::Refused { repo, advice: ADVICE_SECRET },
            error @ Self::Unreachable { .. } => error,
            _ => Self::Unreachable { repo, detail: last_lines(stderr) },
        }
    }

    pub(super) fn from_process(error: ProcessError, repo: &str, what: &'static str) -> Self {
        let repo = without_userinfo(repo);
        match error {
            ProcessError::Missing { .. } => Self::NotInstalled,
            ProcessError::Deadline { seconds, .. } => Self::Deadline { repo, what, seconds },
            ProcessError::TooMuch { bytes: 0, .. } => Self::TooLarge {
                what: format!("repository {repo}"),
                limit: "this process's git limits".into(),
            },
            ProcessError::TooMuch { bytes, .. } => {
                Self::Failed { repo, what, detail: format!("its answer is longer than {bytes} bytes") }
            }
            ProcessError::Io { source, .. } => Self::Unreachable { repo, detail: source.to_string() },
        }
    }

    /// Reads git's words. They are stable under `LC_ALL=C.UTF-8`, and there is no better interface.
    pub(super) fn from_stderr(repo: &str, what: &'static str, stderr: &str) -> Self {
        let lower = stderr.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let detail = last_lines(stderr);
        let repo = repo.to_owned();
        if has(&[
            "authentication failed",
            "could not read username",
            "could not read password",
            "terminal prompts disabled",
            "permission denied (publickey",
            "access denied",
            "error: 401",
            "error: 403",
        ]) {
            Self::Refused { repo, advice: ADVICE }
        } else if has(&["couldn't find remote ref", "not our ref", "no such ref", "unadvertised object"]) {
            Self::no_revision(&repo, quoted_ref(stderr).unwrap_or("the revision"))
        } else if has(&["repository not found", "does not appear to be a git repository", "error: 404"])
            || (lower.contains("repository '") && lower.contains("' not found"))
        {
            Self::NotFound { repo }
        } else if has(&[
            "could not resolve host",
            "failed to connect",
            "couldn't connect",
            "connection refused",
            "connection reset",
            "connection timed out",
            "operation timed out",
            "operation too slow",
            "early eof",
            "hung up unexpectedly",
            "empty reply from server",
            "rpc failed",
            "error: 500",
            "error: 502",
            "error: 503",
            "error: 504",
            "ssl",
        ]) {
            Self::Unreachable { repo, detail }
        } else {
            Self::Failed { repo, what, detail }
        }
    }
}

fn quoted_ref(stderr: &str) -> Option<&str> {
    let line = stderr.lines().find(|line| line.contains("remote ref") || line.contains("our ref"))?;
    line.rsplit(' ').next()
}

/// Most characters of git's words that a message repeats.
const DETAIL_CHARS: usize = 400;

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.trim().trim_start_matches("fatal: ").trim_start_matches("error: "))
        .filter(|line| !line.is_empty() && !line.starts_with("hint:") && !line.starts_with("warning:"))
        .collect();
    if lines.is_empty() {
        return "it gave no reason".into();
    }
    let detail = without_userinfo(&lines[lines.len().saturating_sub(3)..].join("; "));
    detail.chars().take(DETAIL_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_is_asked_again_unless_it_wants_other_credentials() {
        let refused = GitError::of_mirror("https://me:pw@host/x", "fatal: Authentication failed for 'x'");
        assert!(matches!(&refused, GitError::Refused { repo, .. } if repo == "https://***@host/x"));
        assert!(refused.to_string().contains("secret-type: repository"), "{refused}");
        for words in ["fatal: repository 'x' not found", "fatal: something new", ""] {
            assert_eq!(GitError::of_mirror("https://host/x", words).next(), Next::Retry, "{words}");
        }
    }

    #[test]
    fn words_of_git_lose_passwords_and_length() {
        let words =
            format!("warning: x\nfatal: unable to access 'https://me:hunter2@host/': {}", "y".repeat(900));
        let text = GitError::from_stderr("owner/app", "fetch", &words).to_string();
        assert!(!text.contains("hunter2") && !text.contains("warning") && text.len() < 600, "{text}");
    }
}
