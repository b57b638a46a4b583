//! The built-in Git host: repositories, their references, and smart HTTP through `git http-backend`.

mod cgi;
mod commands;
mod repository;

pub use cgi::{CgiAnswer, CgiRequest, serve};
pub use commands::{
    COMMANDS_BYTES_MAX, NoCommands, PushCommands, RefCommand, failures, read_commands, refusal,
};
pub use repository::{Repository, SeedFile};

use slipway_model::Next;

#[derive(Debug, thiserror::Error)]
pub enum GitHostError {
    #[error("cannot run git: install it (apt-get install git)")]
    Start(#[source] std::io::Error),
    #[error("git {command} failed in {repository}: {stderr}")]
    Failed { command: String, repository: String, stderr: String },
    #[error("git {command} answered something unexpected in {repository}")]
    Answer { command: String, repository: String },
    #[error("`{0}` is not a repository name: use owner/name with letters, digits, `-`, `_` and `.`")]
    Name(String),
    #[error("cannot read or write the repository folder")]
    Io(#[from] std::io::Error),
}

impl GitHostError {
    pub fn next(&self) -> Next {
        match self {
            Self::Io(_) | Self::Failed { .. } => Next::Retry,
            Self::Start(_) | Self::Answer { .. } | Self::Name(_) => Next::NeedsHuman,
        }
    }
}

/// `owner/name`, with nothing in it that a path, a URL or a shell could take for something else.
pub fn check_name(name: &str) -> Result<(), GitHostError> {
    let part = |text: &str| {
        !text.is_empty()
            && text.len() <= 100
            && !text.starts_with(['.', '-'])
            && !text.ends_with(".git")
            && !text.ends_with(".lock")
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    match name.split_once('/') {
        Some((owner, repo)) if part(owner) && part(repo) => Ok(()),
        _ => Err(GitHostError::Name(name.to_owned())),
    }
}

#[cfg(test)]
mod tests;
