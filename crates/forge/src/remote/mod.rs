//! GitHub, GitLab, Bitbucket Cloud and Server, Gitea.
//!
//! In: headers and bytes of a webhook, answers of an API. Out: events in the words of triggers, calls to make. It
//! believes nothing before the signature is checked ([`verify`] first, then [`parse`]), and knows no network.

mod bitbucket;
mod bitbucket_server;
mod call;
mod gitea;
mod github;
mod gitlab;
pub mod oauth;
mod own;
mod pull_requests;
mod pushes;
mod read;
mod signature;
#[cfg(test)]
mod tests;

pub use call::{Answer, Call, CallError, CommitInfo, CommitState, CommitStatus};
pub use own::Myself;
pub use pull_requests::{NewPullRequest, OpenedPullRequest};
pub use pushes::{Announced, Push, Sender};
pub use signature::Rejected;
use slipway_model::RepoEvent;

/// The longest reference that is looked at; Git itself allows no more on most systems.
const REFERENCE_MAX: usize = 250;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    GitHub,
    GitLab,
    BitbucketCloud,
    BitbucketServer,
    Gitea,
}

/// Headers of a webhook. Names are compared without case; one that comes twice counts as not being there.
#[derive(Debug, Clone, Default)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    pub fn new<N: Into<String>, V: Into<String>>(all: impl IntoIterator<Item = (N, V)>) -> Self {
        Self(all.into_iter().map(|(name, value)| (name.into().to_lowercase(), value.into())).collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(known, _)| known == name);
        let (_, value) = found.next()?;
        found.next().is_none().then_some(value)
    }
}

/// A body that is signed and still cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("the announcement cannot be understood: {0}")]
pub struct Malformed(pub String);

impl Provider {
    pub const ALL: [Self; 5] =
        [Self::GitHub, Self::GitLab, Self::BitbucketCloud, Self::BitbucketServer, Self::Gitea];

    pub fn name(self) -> &'static str {
        match self {
            Self::GitHub => "github",
            Self::GitLab => "gitlab",
            Self::BitbucketCloud => "bitbucket",
            Self::BitbucketServer => "bitbucket-server",
            Self::Gitea => "gitea",
        }
    }

    /// From the type of a Git context: `git.github`, `git.stash`, …
    pub fn of_context(kind: &str) -> Option<Self> {
        match kind.strip_prefix("git.")? {
            "github" | "github-app" => Some(Self::GitHub),
            "gitlab" => Some(Self::GitLab),
            "bitbucket" => Some(Self::BitbucketCloud),
            "stash" | "bitbucket-server" => Some(Self::BitbucketServer),
            "gitea" => Some(Self::Gitea),
            _ => None,
        }
    }

    /// Whether somebody who knows the hook's secret wrote this. Asked before anything is read.
    pub fn verify(self, headers: &Headers, body: &[u8], secret: &str) -> Result<(), Rejected> {
        match self {
            Self::GitHub => signature::hmac(headers.get("x-hub-signature-256"), "sha256=", body, secret),
            Self::Gitea => signature::hmac(headers.get("x-gitea-signature"), "", body, secret),
            Self::BitbucketCloud | Self::BitbucketServer => {
                signature::hmac(headers.get("x-hub-signature"), "sha256=", body, secret)
            }
            Self::GitLab => signature::token(headers.get("x-gitlab-token"), secret),
        }
    }

    /// The provider's own name for this announcement: the same one again is a repetition.
    pub fn delivery(self, headers: &Headers) -> Option<String> {
        let names: &[&str] = match self {
            Self::GitHub => &["x-github-delivery"],
            Self::Gitea => &["x-gitea-delivery"],
            Self::GitLab => &["idempotency-key", "x-gitlab-event-uuid"],
            Self::BitbucketCloud => &["x-request-uuid"],
            Self::BitbucketServer => &["x-request-id"],
        };
        let found = names.iter().find_map(|name| headers.get(name))?;
        (!found.is_empty() && found.len() <= 200).then(|| found.to_owned())
    }

    /// What happened. Nothing for announcements that no trigger can wait for.
    pub fn parse(self, headers: &Headers, body: &[u8]) -> Result<Vec<RepoEvent>, Malformed> {
        let body = read::Body::parse(body)?;
        let mut events = match self {
            Self::GitHub => github::parse(headers.get("x-github-event").unwrap_or_default(), &body),
            Self::Gitea => gitea::parse(headers, &body),
            Self::GitLab => gitlab::parse(headers.get("x-gitlab-event").unwrap_or_default(), &body),
            Self::BitbucketCloud => bitbucket::parse(headers.get("x-event-key").unwrap_or_default(), &body),
            Self::BitbucketServer => {
                bitbucket_server::parse(headers.get("x-event-key").unwrap_or_default(), &body)
            }
        }?;
        for event in &mut events {
            event.provider = self.name().to_owned();
            if !good_reference(&event.branch) {
                return Err(Malformed(format!(
                    "`{}` is no name of a branch or tag",
                    event.branch.escape_debug()
                )));
            }
            if !good_sha(&event.sha) {
                return Err(Malformed("a commit's id is not one".into()));
            }
        }
        Ok(events)
    }
}

/// The rules of `git check-ref-format` that matter for a name from outside.
pub fn good_reference(name: &str) -> bool {
    let bad =
        |c: char| c.is_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\' | '$' | '`');
    name.is_empty()
        || (name.len() <= REFERENCE_MAX
            && !name.chars().any(bad)
            && !name.contains("..")
            && !name.contains("@{")
            && !name.contains("//")
            && !name.starts_with(['/', '-', '.'])
            && !name.ends_with(['/', '.'])
            && !name.ends_with(".lock"))
}

fn good_sha(sha: &str) -> bool {
    sha.is_empty() || ((7..=64).contains(&sha.len()) && sha.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// All zeros: the reference was made or deleted.
fn is_nothing(sha: &str) -> bool {
    sha.is_empty() || sha.bytes().all(|byte| byte == b'0')
}
