//! Git hosts asked for repositories and pull requests.
//!
//! In: a generator's block, and the credential that it names. Out: the repositories or pull requests that its filters
//! let through. How a host is asked is in `forge::lists`; here is what a block means, and its filters. Nothing here
//! knows where credentials are kept, or whose set it is.

mod filter;

use std::time::Duration;

use base64::Engine as _;
use serde_json::Value;
use slipway_forge::lists::{AskError, Branch, Entry, Host, Listed, Question as Asking, Scope};
use slipway_gitops::appset::{Answer, PullRequest, RepositoryEntry};
use slipway_model::Secret;
use slipway_net::{Rules, Trust};

use super::aws;
use super::http::{self, Way};
use filter::Filter;

const PATIENCE: Duration = Duration::from_secs(30);

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
    /// The names of fields are the generator's, the way to say it the host's.
    fn of(host: Host, block: &Value) -> Self {
        let text = |field: &str| block[field].as_str().unwrap_or_default().to_owned();
        match host {
            Host::GitHub => match text("appSecretName") {
                name if name.is_empty() => {
                    Self::token(&block["tokenRef"], Login::Header("authorization", "Bearer "))
                }
                name => Self::App(name),
            },
            Host::GitLab => Self::token(&block["tokenRef"], Login::Header("private-token", "")),
            Host::Gitea => Self::token(&block["tokenRef"], Login::Header("authorization", "token ")),
            // `scmProvider` knows a user with an app password, `pullRequest` the two that Bitbucket Server has.
            Host::Bitbucket => match &block["appPasswordRef"] {
                Value::Null => Self::bearer_or_basic(block),
                reference => Self::token(reference, Login::Basic(text("user"))),
            },
            Host::BitbucketServer => Self::bearer_or_basic(block),
            // A personal access token is a password of nobody. Each generator has its own name for it.
            Host::Azure => {
                let names = [&block["accessTokenRef"], &block["tokenRef"]];
                let reference = names.into_iter().find(|one| !one.is_null());
                Self::token(reference.unwrap_or(&Value::Null), Login::Basic(String::new()))
            }
            Host::CodeCommit => Self::Amazon { role: text("role"), region: text("region") },
        }
    }

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
    scope: Scope,
    block: Value,
    filters: Vec<Filter>,
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
            api: host.api(&given, provider["organization"].as_str().unwrap_or_default())?,
            key: Key::of(host, &provider),
            scope: scope(host, &provider, https, fips),
            session: None,
            given,
            block: provider,
            filters: filters.collect::<Result<_, String>>()?,
        })
    }

    /// `{configMapName, key}` of the certificates that the host may show.
    pub(super) fn certificates(&self) -> Option<&Value> {
        Some(&self.block["caRef"]).filter(|reference| !reference.is_null())
    }

    /// The address of an Enterprise that the App's Secret names; the block's own word wins.
    pub(super) fn at_enterprise(&mut self, address: &str) {
        if self.given.is_empty() && !address.is_empty() {
            self.api = Host::GitHub.api(address.trim_end_matches('/'), "").unwrap_or_default();
        }
    }

    /// The question, with the credential that its key asked for and the certificates.
    pub(super) fn open(
        self,
        credential: Option<&Secret<String>>,
        certificates: Option<String>,
        rules: &Rules,
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
        let trust =
            Trust { insecure: self.block["insecure"] == true, authorities: certificates, identity: None };
        let client = http::client(rules, PATIENCE, trust)
            .map_err(|error| if self.block["caRef"].is_null() { error } else { format!("caRef: {error}") })?;
        Ok(Question {
            host: self.host,
            scope: self.scope,
            way: Way { client, api: self.api, headers, session: self.session },
            labels: serde_json::from_value(self.block["labels"].clone()).unwrap_or_default(),
            filters: self.filters,
        })
    }
}

/// Which list a block means. Each host has its own names for the same.
fn scope(host: Host, block: &Value, https: bool, fips: bool) -> Scope {
    let text = |field: &str| block[field].as_str().unwrap_or_default().to_owned();
    let flag = |field: &str| block[field].as_bool().unwrap_or(false);
    let first = |fields: &[&str]| fields.iter().map(|name| text(name)).find(|text| !text.is_empty());
    let owner: &[&str] = match host {
        Host::GitHub => &["organization", "owner"],
        Host::GitLab => &["group"],
        Host::BitbucketServer => &["project"],
        Host::Azure => &["organization"],
        Host::Gitea | Host::Bitbucket | Host::CodeCommit => &["owner"],
    };
    let tags = block["tagFilters"].as_array().into_iter().flatten().map(|filter| {
        let value = filter["value"].as_str().filter(|value| !value.is_empty());
        (filter["key"].as_str().unwrap_or_default().to_owned(), value.map(str::to_owned))
    });
    Scope {
        owner: first(owner).unwrap_or_default(),
        project: first(&["teamProject", "project"]).unwrap_or_default(),
        repo: text(if host == Host::GitLab { "project" } else { "repo" }),
        topic: text("topic"),
        state: text("pullRequestState"),
        tags: tags.collect(),
        all_branches: flag("allBranches"),
        // GitLab leaves archived ones out unless it is told otherwise, the others the other way round.
        archived: if host == Host::GitLab {
            flag("includeArchivedRepos")
        } else {
            !flag("excludeArchivedRepos")
        },
        subgroups: flag("includeSubgroups"),
        // In, unless somebody says no.
        shared: block["includeSharedProjects"] != false,
        https,
        fips,
    }
}

/// A generator's block, ready to be asked.
pub(super) struct Question {
    host: Host,
    scope: Scope,
    way: Way,
    labels: Vec<String>,
    filters: Vec<Filter>,
}

impl Question {
    fn asking(&self) -> Asking<'_, Way> {
        Asking { host: self.host, scope: &self.scope, carrier: &self.way }
    }
}

fn entry(entry: Entry, branch: Branch) -> RepositoryEntry {
    RepositoryEntry {
        organization: entry.organization,
        repository: entry.repository,
        repository_id: entry.repository_id,
        url: entry.url,
        branch: branch.name,
        sha: branch.sha,
        labels: entry.labels,
    }
}

fn pull_request(pull: slipway_forge::lists::PullRequest) -> PullRequest {
    PullRequest {
        number: pull.number,
        title: pull.title,
        branch: pull.branch,
        target_branch: pull.target_branch,
        head_sha: pull.head_sha,
        author: pull.author,
        labels: pull.labels,
    }
}

/// The repositories that the filters let through, each with its branch or branches.
pub(super) async fn repositories(question: &Question) -> Result<Vec<RepositoryEntry>, String> {
    list_repositories(question)
        .await
        .map_err(|error| format!("error listing repos: {}", error.into_message()))
}

async fn list_repositories(question: &Question) -> Result<Vec<RepositoryEntry>, AskError> {
    let mut found = Vec::new();
    let asking = question.asking();
    for listed in asking.repositories().await? {
        // What the name and the labels rule out need not be asked for its branches.
        let candidates: Vec<&Filter> =
            question.filters.iter().filter(|filter| filter.admits_repository(&listed.entry)).collect();
        if candidates.is_empty() && !question.filters.is_empty() {
            continue;
        }
        for branch in asking.branches(&listed).await? {
            let mut wanted = question.filters.is_empty();
            for filter in &candidates {
                wanted = wanted
                    || (filter.admits_branch(&branch.name)
                        && paths_hold(&asking, filter, &listed, &branch).await?);
            }
            if wanted {
                found.push(entry(listed.entry.clone(), branch));
            }
        }
    }
    Ok(found)
}

async fn paths_hold(
    question: &Asking<'_, Way>,
    filter: &Filter,
    listed: &Listed,
    branch: &Branch,
) -> Result<bool, AskError> {
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
    match question.asking().pull_requests().await {
        Err(AskError::NotFound { message, .. }) => Ok(Answer::RepositoryNotFound(message)),
        Err(error) => Err(format!("error listing repos: {}", error.into_message())),
        Ok(found) => {
            let mut found: Vec<PullRequest> = found.into_iter().map(pull_request).collect();
            found.retain(|pull| {
                question.labels.iter().all(|label| pull.labels.contains(label))
                    && (question.filters.is_empty()
                        || question.filters.iter().any(|filter| filter.admits_pull(pull)))
            });
            Ok(Answer::PullRequests(found))
        }
    }
}

#[cfg(test)]
mod tests;
