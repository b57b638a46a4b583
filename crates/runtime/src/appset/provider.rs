//! Git hosts asked for repositories and pull requests: GitHub, GitLab, Gitea (and Forgejo, which speaks as Gitea).
//!
//! The three differ in addresses and field names; those differences are the functions at the end, the way to ask,
//! to page and to filter is one.

use regex::Regex;
use serde_json::Value;
use slipway_gitops::appset::{Answer, PullRequest, RepositoryEntry};
use slipway_model::Secret;

use super::http::{self, HttpError};

/// Pages of one list; a host that never ends must not keep us.
const PAGES_MAX: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    GitHub,
    GitLab,
    Gitea,
}

/// A generator's block, read.
pub(super) struct Question {
    host: Host,
    /// Without a slash at the end, the API's own path included.
    api: String,
    token: Option<Secret<String>>,
    /// The provider's own block.
    block: Value,
    filters: Vec<Filter>,
    https: bool,
}

/// All conditions of a filter must hold, and one filter is enough.
#[derive(Default)]
struct Filter {
    repository: Option<Regex>,
    label: Option<Regex>,
    branch: Option<Regex>,
    target_branch: Option<Regex>,
    title: Option<Regex>,
    paths_exist: Vec<String>,
    paths_do_not_exist: Vec<String>,
}

type TokenOf<'a> = &'a dyn Fn(&Value) -> Result<Secret<String>, String>;

impl Question {
    pub(super) fn new(block: &Value, allowed: Option<&str>, token: TokenOf<'_>) -> Result<Self, String> {
        let hosts = [("github", Host::GitHub), ("gitlab", Host::GitLab), ("gitea", Host::Gitea)];
        let Some((name, host)) = hosts.into_iter().find(|(name, _)| block[*name].is_object()) else {
            let others = ["bitbucket", "bitbucketServer", "azureDevOps", "azuredevops", "awsCodeCommit"];
            let named = others.iter().find(|name| !block[**name].is_null());
            return Err(match named {
                Some(name) => format!("{name} is not asked yet; github, gitlab and gitea are"),
                None => "no provider is named; use github, gitlab or gitea".to_owned(),
            });
        };
        let provider = block[name].clone();
        if provider["appSecretName"].as_str().is_some_and(|name| !name.is_empty()) {
            return Err("GitHub Apps are not used yet; give a token by tokenRef".into());
        }
        let given = provider["api"].as_str().unwrap_or_default().trim_end_matches('/');
        let is_allowed = |list: &str| list.split(',').any(|one| one.trim().trim_end_matches('/') == given);
        if let Some(list) = allowed.filter(|list| !list.trim().is_empty() && !given.is_empty())
            && !is_allowed(list)
        {
            return Err(format!(
                "{given} is not among applicationsetcontroller.allowed.scm.providers; whoever may write there would get the token"
            ));
        }
        let api = match (host, given) {
            (Host::GitHub, "") => "https://api.github.com".to_owned(),
            (Host::GitHub, given) => given.to_owned(),
            (Host::GitLab, "") => "https://gitlab.com/api/v4".to_owned(),
            (Host::GitLab, given) => format!("{}/api/v4", given.trim_end_matches("/api/v4")),
            (Host::Gitea, "") => return Err("gitea needs the address of its host in api".into()),
            (Host::Gitea, given) => format!("{}/api/v1", given.trim_end_matches("/api/v1")),
        };
        let token = match &provider["tokenRef"] {
            Value::Null => None,
            reference => Some(token(reference)?),
        };
        let filters = block["filters"].as_array().into_iter().flatten().map(Filter::parse);
        Ok(Self {
            host,
            api,
            token,
            filters: filters.collect::<Result<_, String>>()?,
            https: block["cloneProtocol"].as_str() == Some("https"),
            block: provider,
        })
    }

    fn text(&self, field: &str) -> &str {
        self.block[field].as_str().unwrap_or_default()
    }

    fn flag(&self, field: &str) -> bool {
        self.block[field].as_bool().unwrap_or(false)
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = vec![("accept", "application/json".to_owned())];
        if let Some(token) = &self.token {
            headers.push(match self.host {
                Host::GitHub => ("authorization", format!("Bearer {}", token.expose())),
                Host::GitLab => ("private-token", token.expose().clone()),
                Host::Gitea => ("authorization", format!("token {}", token.expose())),
            });
        }
        headers
    }

    async fn one(&self, path: &str) -> Result<Value, HttpError> {
        http::get(&format!("{}{path}", self.api), &self.headers()).await.map(|answered| answered.body)
    }

    /// Every page of a list. Pages of another host are not followed: the token is for this one.
    async fn all(&self, path: &str) -> Result<Vec<Value>, HttpError> {
        let mut url = format!("{}{path}", self.api);
        let mut all = Vec::new();
        for _ in 0..PAGES_MAX {
            let answered = http::get(&url, &self.headers()).await?;
            match answered.body {
                Value::Array(items) => all.extend(items),
                _ => return Err(HttpError::Failed(format!("{} does not answer a list", self.api))),
            }
            match answered.next {
                Some(next) if next.starts_with(&self.api) => url = next,
                Some(_) => return Err(HttpError::Failed(format!("{} sends us to another host", self.api))),
                None => return Ok(all),
            }
        }
        Err(HttpError::Failed(format!("{}{path} has more than {PAGES_MAX} pages", self.api)))
    }

    async fn has_path(&self, repository: &Listed, branch: &str, path: &str) -> Result<bool, HttpError> {
        let (path, branch) = (encode_path(path.trim_matches('/')), encode(branch));
        let questions = match self.host {
            Host::GitLab => vec![
                format!(
                    "/projects/{}/repository/files/{}?ref={branch}",
                    repository.key,
                    path.replace('/', "%2F")
                ),
                format!("/projects/{}/repository/tree?path={path}&ref={branch}", repository.key),
            ],
            _ => vec![format!("/repos/{}/contents/{path}?ref={branch}", repository.key)],
        };
        for question in questions {
            match self.one(&question).await {
                Ok(Value::Array(items)) if items.is_empty() => {}
                Ok(_) => return Ok(true),
                Err(HttpError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

impl Filter {
    fn parse(block: &Value) -> Result<Self, String> {
        let regex = |field: &str| -> Result<Option<Regex>, String> {
            let Some(text) = block[field].as_str() else { return Ok(None) };
            let compiled = regex::RegexBuilder::new(text).size_limit(1 << 20).build();
            compiled.map(Some).map_err(|_| format!("filters: {field} {text:?} is not a regular expression"))
        };
        let paths =
            |field: &str| -> Vec<String> { serde_json::from_value(block[field].clone()).unwrap_or_default() };
        Ok(Self {
            repository: regex("repositoryMatch")?,
            label: regex("labelMatch")?,
            branch: regex("branchMatch")?,
            target_branch: regex("targetBranchMatch")?,
            title: regex("titleMatch")?,
            paths_exist: paths("pathsExist"),
            paths_do_not_exist: paths("pathsDoNotExist"),
        })
    }
}

fn admits(regex: &Option<Regex>, text: &str) -> bool {
    regex.as_ref().is_none_or(|regex| regex.is_match(text))
}

/// What a list of repositories says of one.
struct Listed {
    /// How it is named in addresses.
    key: String,
    entry: RepositoryEntry,
}

/// The repositories that the filters let through, each with its branch or branches.
pub(super) async fn repositories(question: &Question) -> Result<Vec<RepositoryEntry>, String> {
    list_repositories(question)
        .await
        .map_err(|error| format!("error listing repos: {}", error.into_message()))
}

async fn list_repositories(question: &Question) -> Result<Vec<RepositoryEntry>, HttpError> {
    let mut found = Vec::new();
    for listed in listed(question).await? {
        // What the name and the labels rule out need not be asked for its branches.
        let candidates: Vec<&Filter> = question
            .filters
            .iter()
            .filter(|filter| {
                admits(&filter.repository, &listed.entry.repository)
                    && (filter.label.is_none()
                        || listed.entry.labels.iter().any(|label| admits(&filter.label, label)))
            })
            .collect();
        if candidates.is_empty() && !question.filters.is_empty() {
            continue;
        }
        for (branch, sha) in branches(question, &listed).await? {
            let mut wanted = question.filters.is_empty();
            for filter in &candidates {
                wanted = wanted
                    || (admits(&filter.branch, &branch)
                        && paths_hold(question, filter, &listed, &branch).await?);
            }
            if wanted {
                found.push(RepositoryEntry { branch, sha, ..listed.entry.clone() });
            }
        }
    }
    Ok(found)
}

async fn paths_hold(
    question: &Question,
    filter: &Filter,
    listed: &Listed,
    branch: &str,
) -> Result<bool, HttpError> {
    for path in &filter.paths_exist {
        if !question.has_path(listed, branch, path).await? {
            return Ok(false);
        }
    }
    for path in &filter.paths_do_not_exist {
        if question.has_path(listed, branch, path).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The open pull requests that the filters let through.
pub(super) async fn pull_requests(question: &Question) -> Result<Answer, String> {
    match question.all(&pulls_path(question)).await {
        Err(HttpError::NotFound(message)) => Ok(Answer::RepositoryNotFound(message)),
        Err(HttpError::Failed(message)) => Err(format!("error listing repos: {message}")),
        Ok(pulls) => {
            let labels: Vec<String> =
                serde_json::from_value(question.block["labels"].clone()).unwrap_or_default();
            let mut found: Vec<PullRequest> =
                pulls.iter().map(|pull| read_pull(question.host, pull)).collect();
            found.retain(|pull| {
                labels.iter().all(|label| pull.labels.contains(label))
                    && (question.filters.is_empty()
                        || question.filters.iter().any(|filter| {
                            admits(&filter.branch, &pull.branch)
                                && admits(&filter.target_branch, &pull.target_branch)
                                && admits(&filter.title, &pull.title)
                        }))
            });
            Ok(Answer::PullRequests(found))
        }
    }
}

// What the hosts do each in their own way.

fn pulls_path(question: &Question) -> String {
    let owner = || format!("{}/{}", encode(question.text("owner")), encode(question.text("repo")));
    match question.host {
        Host::GitHub => format!("/repos/{}/pulls?state=open&per_page=100", owner()),
        Host::Gitea => format!("/repos/{}/pulls?state=open&limit=50", owner()),
        Host::GitLab => {
            let state = Some(question.text("pullRequestState")).filter(|state| !state.is_empty());
            format!(
                "/projects/{}/merge_requests?state={}&per_page=100",
                encode(question.text("project")),
                encode(state.unwrap_or("opened"))
            )
        }
    }
}

fn read_pull(host: Host, pull: &Value) -> PullRequest {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = pull["labels"].as_array().into_iter().flatten();
    // GitLab lists names, the others objects.
    let labels = labels.map(|label| text(if label.is_string() { label } else { &label["name"] })).collect();
    match host {
        Host::GitLab => PullRequest {
            number: pull["iid"].as_i64().unwrap_or(0),
            title: text(&pull["title"]),
            branch: text(&pull["source_branch"]),
            target_branch: text(&pull["target_branch"]),
            head_sha: text(&pull["sha"]),
            author: text(&pull["author"]["username"]),
            labels,
        },
        _ => PullRequest {
            number: pull["number"].as_i64().unwrap_or(0),
            title: text(&pull["title"]),
            branch: text(&pull["head"]["ref"]),
            target_branch: text(&pull["base"]["ref"]),
            head_sha: text(&pull["head"]["sha"]),
            author: text(&pull["user"]["login"]),
            labels,
        },
    }
}

async fn listed(question: &Question) -> Result<Vec<Listed>, HttpError> {
    let path = match question.host {
        Host::GitHub => format!("/orgs/{}/repos?per_page=100", encode(question.text("organization"))),
        Host::Gitea => format!("/orgs/{}/repos?limit=50", encode(question.text("owner"))),
        Host::GitLab => format!(
            "/groups/{}/projects?per_page=100&include_subgroups={}",
            encode(question.text("group")),
            question.flag("includeSubgroups")
        ),
    };
    let mut all = Vec::new();
    for repository in question.all(&path).await? {
        let archived = repository["archived"].as_bool().unwrap_or(false);
        let unwanted = match question.host {
            Host::GitLab => !question.flag("includeArchivedRepos"),
            _ => question.flag("excludeArchivedRepos"),
        };
        if archived && unwanted {
            continue;
        }
        let mut listed = read_repository(question, &repository);
        if question.host == Host::Gitea {
            let labels = question.all(&format!("/repos/{}/labels?limit=50", listed.key)).await?;
            listed.entry.labels =
                labels.iter().filter_map(|label| label["name"].as_str().map(str::to_owned)).collect();
        }
        all.push(listed);
    }
    Ok(all)
}

fn read_repository(question: &Question, repository: &Value) -> Listed {
    let text = |field: &str| repository[field].as_str().unwrap_or_default().to_owned();
    let topics = serde_json::from_value(repository["topics"].clone()).unwrap_or_default();
    let (https, ssh) = match question.host {
        Host::GitLab => ("http_url_to_repo", "ssh_url_to_repo"),
        _ => ("clone_url", "ssh_url"),
    };
    let (organization, name, key) = match question.host {
        Host::GitLab => {
            let organization = repository["namespace"]["full_path"].as_str().unwrap_or_default().to_owned();
            (organization, text("path"), repository["id"].to_string())
        }
        _ => {
            let organization = repository["owner"]["login"].as_str().unwrap_or_default().to_owned();
            let key = format!("{}/{}", encode(&organization), encode(&text("name")));
            (organization, text("name"), key)
        }
    };
    Listed {
        key,
        entry: RepositoryEntry {
            organization,
            repository: name,
            repository_id: repository["id"].clone(),
            url: text(if question.https { https } else { ssh }),
            branch: text("default_branch"),
            sha: String::new(),
            labels: topics,
        },
    }
}

/// The default branch, or all of them, with the commit each points to.
async fn branches(question: &Question, listed: &Listed) -> Result<Vec<(String, String)>, HttpError> {
    let base = match question.host {
        Host::GitLab => format!("/projects/{}/repository/branches", listed.key),
        _ => format!("/repos/{}/branches", listed.key),
    };
    let found = if question.flag("allBranches") {
        let size = if question.host == Host::Gitea { "limit=50" } else { "per_page=100" };
        question.all(&format!("{base}?{size}")).await?
    } else {
        match question.one(&format!("{base}/{}", encode(&listed.entry.branch))).await {
            Ok(branch) => vec![branch],
            // A repository without a commit has a default branch only by name.
            Err(HttpError::NotFound(_)) => Vec::new(),
            Err(error) => return Err(error),
        }
    };
    let read = |branch: &Value| {
        let commit = &branch["commit"];
        let sha = commit["sha"].as_str().or_else(|| commit["id"].as_str())?;
        Some((branch["name"].as_str()?.to_owned(), sha.to_owned()))
    };
    Ok(found.iter().filter_map(read).collect())
}

/// Percent-encodes one segment of a path.
fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn encode_path(path: &str) -> String {
    path.split('/').map(encode).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests;
