//! Git hosts asked for lists: the repositories of an owner with their branches, the open pull requests of one.
//!
//! In: a host, a [`Scope`] that says which list, and a [`Carrier`] that brings calls there and back. Out: all pages of
//! it. Each host is a file of its own that knows addresses and names of fields; how to ask and to page is one for all.
//! The module opens no connection and knows no credential: whoever carries calls decides where they may go.

mod azure;
mod bitbucket;
mod bitbucket_server;
mod code_commit;
mod gitea;
mod github;
mod gitlab;
pub(crate) mod paging;

use serde_json::Value;

use crate::remote::{Answer, Call};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    GitHub,
    GitLab,
    Gitea,
    Bitbucket,
    BitbucketServer,
    Azure,
    CodeCommit,
}

impl Host {
    /// Where the API is, from the address as users write it; empty: the public one. `organization` is Azure's.
    pub fn api(self, given: &str, organization: &str) -> Result<String, String> {
        Ok(match self {
            Self::GitHub => github::api(given),
            Self::GitLab => gitlab::api(given),
            Self::Gitea => gitea::api(given)?,
            Self::Bitbucket => bitbucket::api(given),
            Self::BitbucketServer => bitbucket_server::api(given)?,
            Self::Azure => azure::api(given, organization),
            Self::CodeCommit => String::new(),
        })
    }
}

/// Which list is wanted, in words that fit every host; what a host does not know it does not look at.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Organization, group, workspace, or the project of a Bitbucket Server.
    pub owner: String,
    /// A project of Azure.
    pub project: String,
    /// For pull requests; GitLab's with its group.
    pub repo: String,
    pub topic: String,
    /// Of merge requests; empty: open ones.
    pub state: String,
    /// Tags of Amazon's repositories.
    pub tags: Vec<(String, Option<String>)>,
    pub all_branches: bool,
    /// Archived repositories too.
    pub archived: bool,
    pub subgroups: bool,
    /// Projects of others that are shared with a group.
    pub shared: bool,
    /// Addresses for https instead of ssh.
    pub https: bool,
    pub fips: bool,
}

/// A repository with a branch of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Entry {
    pub organization: String,
    pub repository: String,
    pub repository_id: Value,
    pub url: String,
    pub branch: String,
    pub sha: String,
    pub labels: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullRequest {
    pub number: i64,
    pub title: String,
    pub branch: String,
    pub target_branch: String,
    pub head_sha: String,
    pub author: String,
    pub labels: Vec<String>,
}

/// What a list of repositories says of one.
#[derive(Debug, Clone)]
pub struct Listed {
    /// How it is named in addresses.
    key: String,
    /// With its default branch.
    pub entry: Entry,
}

/// A branch and the commit that it points to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    pub name: String,
    pub sha: String,
}

/// A path of a branch.
#[derive(Clone, Copy)]
struct At<'a> {
    listed: &'a Listed,
    branch: &'a Branch,
    path: &'a str,
}

/// Brings calls to a host's API and answers back.
pub trait Carrier: Send + Sync {
    /// The API's address, for messages.
    fn api(&self) -> &str;

    /// An error is a sentence about the way there.
    fn carry(&self, call: &Call) -> impl Future<Output = Result<Answer, String>> + Send;

    /// An action of Amazon, signed.
    fn act(
        &self,
        _service: &str,
        target: &str,
        _input: &Value,
    ) -> impl Future<Output = Result<Answer, String>> + Send {
        std::future::ready(Err(format!("nobody signed in to AWS for {target}; this is a defect of ours")))
    }
}

/// Why there is no list.
#[derive(Debug)]
pub enum AskError {
    /// The address exists, the thing does not; some hosts say in the body which one.
    NotFound {
        message: String,
        body: Value,
    },
    /// The question was not accepted (400); some hosts say in the body why.
    Refused {
        message: String,
        body: Value,
    },
    Failed(String),
}

impl AskError {
    pub fn into_message(self) -> String {
        match self {
            Self::NotFound { message, .. } | Self::Refused { message, .. } | Self::Failed(message) => message,
        }
    }
}

impl Answer {
    /// The JSON of a good answer of `address`. Nothing at all is an answer too: `null`.
    pub fn read(&self, address: &str) -> Result<Value, AskError> {
        let hint = hint(self.status);
        if !(200..300).contains(&self.status) {
            let message = format!("{address} answers {}{hint}", self.status);
            let body = serde_json::from_slice(&self.body).unwrap_or_default();
            return Err(match self.status {
                404 => AskError::NotFound { message, body },
                400 => AskError::Refused { message, body },
                _ => AskError::Failed(message),
            });
        }
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| AskError::Failed(format!("{address} does not answer JSON{hint}: {error}")))
    }
}

fn hint(status: u16) -> &'static str {
    match status {
        // Azure DevOps shows strangers its page for signing in, or sends them there.
        203 | 302 | 401 | 403 => "; check the token and what it may see",
        429 => "; it is asked too often, raise requeueAfterSeconds",
        _ => "",
    }
}

/// A host, what is wanted of it, and who asks.
pub struct Question<'a, C> {
    pub host: Host,
    pub scope: &'a Scope,
    pub carrier: &'a C,
}

impl<C: Carrier> Question<'_, C> {
    pub async fn repositories(&self) -> Result<Vec<Listed>, AskError> {
        match self.host {
            Host::GitHub => github::listed(self).await,
            Host::GitLab => gitlab::listed(self).await,
            Host::Gitea => gitea::listed(self).await,
            Host::Bitbucket => bitbucket::listed(self).await,
            Host::BitbucketServer => bitbucket_server::listed(self).await,
            Host::Azure => azure::listed(self).await,
            Host::CodeCommit => code_commit::listed(self).await,
        }
    }

    /// The default branch, or all of them.
    pub async fn branches(&self, listed: &Listed) -> Result<Vec<Branch>, AskError> {
        match self.host {
            Host::GitHub => github::branches(self, listed, "per_page=100").await,
            Host::Gitea => github::branches(self, listed, "limit=50").await,
            Host::GitLab => gitlab::branches(self, listed).await,
            Host::Bitbucket => bitbucket::branches(self, listed).await,
            Host::BitbucketServer => bitbucket_server::branches(self, listed).await,
            Host::Azure => azure::branches(self, listed).await,
            Host::CodeCommit => code_commit::branches(self, listed).await,
        }
    }

    pub async fn has_path(&self, listed: &Listed, branch: &Branch, path: &str) -> Result<bool, AskError> {
        let at = At { listed, branch, path: path.trim_matches('/') };
        match self.host {
            Host::GitHub | Host::Gitea => github::has_path(self, at).await,
            Host::GitLab => gitlab::has_path(self, at).await,
            Host::Bitbucket => bitbucket::has_path(self, at).await,
            Host::BitbucketServer => bitbucket_server::has_path(self, at).await,
            Host::Azure => azure::has_path(self, at).await,
            Host::CodeCommit => code_commit::has_path(self, at).await,
        }
    }

    pub async fn pull_requests(&self) -> Result<Vec<PullRequest>, AskError> {
        match self.host {
            Host::GitHub => github::pulls(self, "per_page=100").await,
            Host::Gitea => github::pulls(self, "limit=50").await,
            Host::GitLab => gitlab::pulls(self).await,
            Host::Bitbucket => bitbucket::pulls(self).await,
            Host::BitbucketServer => bitbucket_server::pulls(self).await,
            Host::Azure => azure::pulls(self).await,
            Host::CodeCommit => Err(AskError::Failed(
                "pull requests of awsCodeCommit are not listed; use scmProvider with allBranches".into(),
            )),
        }
    }
}

#[cfg(test)]
mod tests;
