//! What can go wrong with a repository, told so that a person knows what to do.

use std::path::{Path, PathBuf};

use slipway_model::Next;

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git is not installed: install the `git` package and try again")]
    NotInstalled,
    #[error("`{url}` is not a repository address that may be used: {why}")]
    BadUrl { url: String, why: &'static str },
    #[error("`{0}` is not a revision: give a branch, a tag or a commit")]
    BadRevision(String),
    #[error("`{0}` is not a path inside a repository: give a relative path without `..`")]
    BadPath(String),
    #[error("{repo} refused the credential: check the user name and the token of its integration")]
    Refused { repo: String },
    #[error("{repo} is not there, or the credential may not see it: check the name")]
    NotFound { repo: String },
    #[error("{repo} has no commit yet: push one first")]
    Empty { repo: String },
    #[error("{repo} has no branch, tag or commit `{revision}`: check the name, or push it first")]
    RevisionNotFound { repo: String, revision: String },
    #[error("{repo} has no file `{path}` at {revision}: check the path, or push the file first")]
    FileNotFound { repo: String, path: String, revision: String },
    #[error("`{path}` in {repo} is larger than {bytes_max} bytes: make it smaller")]
    TooLarge { repo: String, path: String, bytes_max: u64 },
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
    #[error("cannot use the folder {}", .path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

impl GitError {
    pub fn next(&self) -> Next {
        match self {
            Self::Unreachable { .. } | Self::Deadline { .. } | Self::Io { .. } => Next::Retry,
            _ => Next::NeedsHuman,
        }
    }

    pub(super) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }

    /// An error that git gave no reason for that we know.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::RevisionNotFound { .. })
    }

    pub(super) fn or_revision(self, repo: &str, revision: &str) -> Self {
        if self.is_plain() {
            Self::RevisionNotFound { repo: repo.into(), revision: revision.into() }
        } else {
            self
        }
    }

    /// Reads git's words. They are stable under `LC_ALL=C`, and there is no better interface.
    pub(super) fn from_stderr(repo: &str, what: &'static str, stderr: &str) -> Self {
        let lower = stderr.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let detail = last_lines(stderr);
        let repo = repo.to_owned();
        if has(&[
            "authentication failed",
            "could not read username",
            "could not read password",
            "error: 401",
            "error: 403",
        ]) {
            Self::Refused { repo }
        } else if has(&["couldn't find remote ref", "not our ref", "no such ref", "unadvertised object"]) {
            Self::RevisionNotFound { repo, revision: quoted_ref(stderr).unwrap_or("the revision").to_owned() }
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

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.trim().trim_start_matches("fatal: ").trim_start_matches("error: "))
        .filter(|line| !line.is_empty() && !line.starts_with("hint:"))
        .collect();
    let from = lines.len().saturating_sub(3);
    if lines.is_empty() { "it gave no reason".into() } else { lines[from..].join("; ") }
}
