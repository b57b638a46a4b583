//! Git hosts asked for repositories and pull requests.
//!
//! In: a generator's block, and the credential that it names. Out: the repositories or pull requests that its filters
//! let through. Each host is a file of its own that knows addresses and names of fields; how to ask, to page and to
//! filter is one for all. Nothing here knows where credentials are kept, or whose set it is.

mod ask;
mod azure;
mod bitbucket;
mod bitbucket_server;
mod code_commit;
mod filter;
mod gitea;
mod github;
mod gitlab;

use base64::Engine as _;
use serde_json::Value;
use slipway_gitops::appset::{Answer, PullRequest, RepositoryEntry};
use slipway_model::Secret;

use super::aws;
use super::http::{self, HttpError, Trust};
pub(super) use ask::encode;
use filter::Filter;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    GitHub,
    GitLab,
    Gitea,
    Bitbucket,
    BitbucketServer,
    Azure,
    CodeCommit,
}

/// By the name of the block; Azure DevOps is spelt in two ways, by generator.
const HOSTS: [(&str, Host); 8] = [
    ("github", Host::GitHub),
    ("gitlab", Host::GitLab),
    ("gitea", Host::Gitea),
    ("bitbucketServer", Host::BitbucketServer),
    ("azureDevOps", Host::Azure),
    ("azuredevops", Host::Azure),
    ("bitbucket", Host::Bitbucket),
    ("awsCodeCommit", Host::CodeCommit),
];

/// Which credential a block names.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Key {
    Nobody,
    /// A key of a Secret, and how the host wants to hear it.
    Secret {
        reference: Value,
        login: Login,
    },
    /// The name of a Secret that describes a GitHub App.
    App(String),
    /// The engine's own, or that of a role which it may take.
    Amazon {
        role: String,
        region: String,
    },
}

/// How a credential is said.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Login {
    /// This header, with this before the token.
    Header(&'static str, &'static str),
    /// A password, with this name.
    Basic(String),
}

impl Key {
    fn token(reference: &Value, login: Login) -> Self {
        match reference {
            Value::Null => Self::Nobody,
            reference => Self::Secret { reference: reference.clone(), login },
        }
    }

    /// `bearerToken`, else `basicAuth`, as both Bitbuckets have them.
    fn bearer_or_basic(block: &Value) -> Self {
        let (bearer, basic) = (&block["bearerToken"], &block["basicAuth"]);
        if !bearer.is_null() {
            return Self::token(&bearer["tokenRef"], Login::Header("authorization", "Bearer "));
        }
        let user = basic["username"].as_str().unwrap_or_default().to_owned();
        Self::token(&basic["passwordRef"], Login::Basic(user))
    }
}

/// A block that may be asked about, before anybody's credential was touched.
pub(super) struct Draft {
    host: Host,
    /// Without a slash at the end, the API's own path included.
    pub(super) api: String,
    pub(super) key: Key,
    /// The block's own address.
    given: String,
    block: Value,
    filters: Vec<Filter>,
    https: bool,
    fips: bool,
    /// For a key of Amazon.
    pub(super) session: Option<aws::Session>,
}

impl Draft {
    pub(super) fn read(block: &Value, allowed: Option<&str>) -> Result<Self, String> {
        let Some((name, host)) = HOSTS.into_iter().find(|(name, _)| block[*name].is_object()) else {
            let known: Vec<&str> = HOSTS.iter().map(|(name, _)| *name).collect();
            return Err(format!("no provider is named; use one of {}", known.join(", ")));
        };
        let provider = block[name].clone();
        let given = provider["api"].as_str().unwrap_or_default().trim_end_matches('/').to_owned();
        let is_allowed = |list: &str| list.split(',').any(|one| one.trim().trim_end_matches('/') == given);
        if let Some(list) = allowed.filter(|list| !list.trim().is_empty() && !given.is_empty())
            && !is_allowed(list)
        {
            return Err(format!(
                "{given} is not among applicationsetcontroller.allowed.scm.providers; whoever may write there would get the token"
            ));
        }
        let (https, fips) = match block["cloneProtocol"].as_str().unwrap_or_default() {
            "" | "ssh" => (false, false),
            "https" => (true, false),
            "https-fips" if host == Host::CodeCommit => (true, true),
            other => {
                return Err(format!("cloneProtocol {other:?} is not known for {name}; use ssh or https"));
            }
        };
        let filters = block["filters"].as_array().into_iter().flatten().map(Filter::parse);
        Ok(Self {
            host,
            api: match host {
                Host::GitHub => github::api(&given),
                Host::GitLab => gitlab::api(&given),
                Host::Gitea => gitea::api(&given)?,
                Host::Bitbucket => bitbucket::api(&given),
                Host::BitbucketServer => bitbucket_server::api(&given)?,
                Host::Azure => azure::api(&given, &provider),
                Host::CodeCommit => String::new(),
            },
            key: match host {
                Host::GitHub => github::key(&provider),
                Host::GitLab => Key::token(&provider["tokenRef"], Login::Header("private-token", "")),
                Host::Gitea => Key::token(&provider["tokenRef"], Login::Header("authorization", "token ")),
                Host::Bitbucket => bitbucket::key(&provider),
                Host::BitbucketServer => Key::bearer_or_basic(&provider),
                Host::Azure => azure::key(&provider),
                Host::CodeCommit => {
                    Key::Amazon { role: ask::text(&provider["role"]), region: ask::text(&provider["region"]) }
                }
            },
            session: None,
            given,
            block: provider,
            filters: filters.collect::<Result<_, String>>()?,
            https,
            fips,
        })
    }

    /// `{configMapName, key}` of the certificates that the host may show.
    pub(super) fn certificates(&self) -> Option<&Value> {
        Some(&self.block["caRef"]).filter(|reference| !reference.is_null())
    }

    /// The address of an Enterprise that the App's Secret names; the block's own word wins.
    pub(super) fn at_enterprise(&mut self, address: &str) {
        if self.given.is_empty() && !address.is_empty() {
            self.api = github::api(address.trim_end_matches('/'));
        }
    }

    /// The question, with the credential that its key asked for and the certificates.
    pub(super) fn open(
        self,
        credential: Option<&Secret<String>>,
        certificates: Option<String>,
    ) -> Result<Question, String> {
        let mut headers = vec![("accept", "application/json".to_owned())];
        if let Some(credential) = credential {
            headers.push(match &self.key {
                Key::Secret { login: Login::Basic(user), .. } => {
                    let pair = format!("{user}:{}", credential.expose());
                    let pair = base64::engine::general_purpose::STANDARD.encode(pair);
                    ("authorization", format!("Basic {pair}"))
                }
                Key::Secret { login: Login::Header(name, before), .. } => {
                    (name, format!("{before}{}", credential.expose()))
                }
                Key::App(_) | Key::Nobody | Key::Amazon { .. } => {
                    ("authorization", format!("Bearer {}", credential.expose()))
                }
            });
        }
        let trust = Trust { insecure: self.block["insecure"] == true, certificates };
        Ok(Question {
            client: http::client(ask::PATIENCE, &trust)?,
            host: self.host,
            api: self.api,
            headers,
            block: self.block,
            filters: self.filters,
            https: self.https,
            fips: self.fips,
            session: self.session,
        })
    }
}

/// A generator's block, ready to be asked.
pub(super) struct Question {
    host: Host,
    api: String,
    client: reqwest::Client,
    headers: Vec<(&'static str, String)>,
    /// The provider's own block.
    block: Value,
    filters: Vec<Filter>,
    https: bool,
    fips: bool,
    session: Option<aws::Session>,
}

impl Question {
    fn text(&self, field: &str) -> &str {
        self.block[field].as_str().unwrap_or_default()
    }

    fn flag(&self, field: &str) -> bool {
        self.block[field].as_bool().unwrap_or(false)
    }

    async fn has_path(&self, listed: &Listed, branch: &Branch, path: &str) -> Result<bool, HttpError> {
        let path = path.trim_matches('/');
        match self.host {
            Host::GitHub | Host::Gitea => github::has_path(self, listed, branch, path).await,
            Host::GitLab => gitlab::has_path(self, listed, branch, path).await,
            Host::Bitbucket => bitbucket::has_path(self, listed, branch, path).await,
            Host::BitbucketServer => bitbucket_server::has_path(self, listed, branch, path).await,
            Host::Azure => azure::has_path(self, listed, branch, path).await,
            Host::CodeCommit => code_commit::has_path(self, listed, branch, path).await,
        }
    }

    async fn listed(&self) -> Result<Vec<Listed>, HttpError> {
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
    async fn branches(&self, listed: &Listed) -> Result<Vec<Branch>, HttpError> {
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

    async fn pulls(&self) -> Result<Vec<PullRequest>, HttpError> {
        match self.host {
            Host::GitHub => github::pulls(self, "per_page=100").await,
            Host::Gitea => github::pulls(self, "limit=50").await,
            Host::GitLab => gitlab::pulls(self).await,
            Host::Bitbucket => bitbucket::pulls(self).await,
            Host::BitbucketServer => bitbucket_server::pulls(self).await,
            Host::Azure => azure::pulls(self).await,
            Host::CodeCommit => Err(HttpError::Failed(
                "pull requests of awsCodeCommit are not listed; use scmProvider with allBranches".into(),
            )),
        }
    }
}

/// What a list of repositories says of one.
struct Listed {
    /// How it is named in addresses.
    key: String,
    /// With its default branch.
    entry: RepositoryEntry,
}

/// A branch and the commit that it points to.
struct Branch {
    name: String,
    sha: String,
}

/// The repositories that the filters let through, each with its branch or branches.
pub(super) async fn repositories(question: &Question) -> Result<Vec<RepositoryEntry>, String> {
    list_repositories(question)
        .await
        .map_err(|error| format!("error listing repos: {}", error.into_message()))
}

async fn list_repositories(question: &Question) -> Result<Vec<RepositoryEntry>, HttpError> {
    let mut found = Vec::new();
    for listed in question.listed().await? {
        // What the name and the labels rule out need not be asked for its branches.
        let candidates: Vec<&Filter> =
            question.filters.iter().filter(|filter| filter.admits_repository(&listed.entry)).collect();
        if candidates.is_empty() && !question.filters.is_empty() {
            continue;
        }
        for branch in question.branches(&listed).await? {
            let mut wanted = question.filters.is_empty();
            for filter in &candidates {
                wanted = wanted
                    || (filter.admits_branch(&branch.name)
                        && paths_hold(question, filter, &listed, &branch).await?);
            }
            if wanted {
                let Branch { name, sha } = branch;
                found.push(RepositoryEntry { branch: name, sha, ..listed.entry.clone() });
            }
        }
    }
    Ok(found)
}

async fn paths_hold(
    question: &Question,
    filter: &Filter,
    listed: &Listed,
    branch: &Branch,
) -> Result<bool, HttpError> {
    for (paths, wanted) in [(&filter.paths_exist, true), (&filter.paths_do_not_exist, false)] {
        for path in paths {
            if question.has_path(listed, branch, path).await? != wanted {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The open pull requests that the filters let through.
pub(super) async fn pull_requests(question: &Question) -> Result<Answer, String> {
    match question.pulls().await {
        Err(HttpError::NotFound { message, .. }) => Ok(Answer::RepositoryNotFound(message)),
        Err(error) => Err(format!("error listing repos: {}", error.into_message())),
        Ok(mut found) => {
            let labels: Vec<String> =
                serde_json::from_value(question.block["labels"].clone()).unwrap_or_default();
            found.retain(|pull| {
                labels.iter().all(|label| pull.labels.contains(label))
                    && (question.filters.is_empty()
                        || question.filters.iter().any(|filter| filter.admits_pull(pull)))
            });
            Ok(Answer::PullRequests(found))
        }
    }
}

#[cfg(test)]
mod tests;
