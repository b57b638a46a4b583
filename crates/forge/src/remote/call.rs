//! Calls of a provider's API as values: a method, a path below the API's address, a body; and how to read the answer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use slipway_dialect::percent::{encode, encode_path};
use slipway_model::Secret;

use super::{Provider, bitbucket, bitbucket_server, gitea, github, gitlab};

#[derive(Clone)]
pub struct Call {
    pub method: &'static str,
    /// Below the API's address, with a slash at its start and its query at its end.
    pub path: String,
    pub body: Option<Value>,
    /// Who asks, instead of the account's own credential.
    pub bearer: Option<Secret<String>>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {:?}", self.method, self.path, self.body)
    }
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        (self.method, &self.path, &self.body) == (other.method, &other.path, &other.body)
    }
}

impl Call {
    pub(crate) fn get(path: String) -> Self {
        Self { method: "GET", path, body: None, bearer: None }
    }

    pub(crate) fn post(path: String, body: Value) -> Self {
        Self { method: "POST", path, body: Some(body), bearer: None }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    /// The header `Link`, where some providers say what the next page is.
    pub link: Option<String>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CallError {
    #[error("{provider} answered {status}: {said}")]
    Refused { provider: &'static str, status: u16, said: String },
    #[error("{provider} answered something that is not what its API promises")]
    Unexpected { provider: &'static str },
}

impl CallError {
    /// Trying again later may help.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == 429 || *status >= 500)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitState {
    Pending,
    Success,
    Failure,
    /// It could not be run, or was stopped.
    Error,
}

#[derive(Debug, Clone)]
pub struct CommitStatus<'a> {
    pub state: CommitState,
    /// Tells statuses of several pipelines apart.
    pub title: &'a str,
    pub description: &'a str,
    pub url: &'a str,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommitInfo {
    pub sha: String,
    pub author: String,
    pub message: String,
    pub url: Option<String>,
}

impl Provider {
    /// Where the API is, when nobody says otherwise. `host` is the provider's own address, without a slash at its end.
    pub fn api(self, host: Option<&str>) -> Option<String> {
        match (self, host) {
            (Self::GitHub, None | Some("https://github.com" | "https://api.github.com")) => {
                Some("https://api.github.com".into())
            }
            (Self::GitHub, Some(host)) => Some(format!("{host}/api/v3")),
            (Self::GitLab, host) => Some(format!("{}/api/v4", host.unwrap_or("https://gitlab.com"))),
            (Self::BitbucketCloud, _) => Some("https://api.bitbucket.org/2.0".into()),
            (Self::BitbucketServer, host) => host.map(|host| format!("{host}/rest/api/1.0")),
            (Self::Gitea, host) => host.map(|host| format!("{host}/api/v1")),
        }
    }

    /// What repositories' names are put behind to clone them.
    pub fn clone_base(self, host: Option<&str>) -> Option<String> {
        let known = match self {
            Self::GitHub => Some("https://github.com"),
            Self::GitLab => Some("https://gitlab.com"),
            Self::BitbucketCloud => Some("https://bitbucket.org"),
            Self::BitbucketServer | Self::Gitea => None,
        };
        let host = host.filter(|host| *host != "https://api.github.com").or(known)?;
        Some(if self == Self::BitbucketServer { format!("{host}/scm/") } else { format!("{host}/") })
    }

    /// The name that Git sends with a token.
    pub fn clone_user(self) -> &'static str {
        match self {
            Self::GitHub => "x-access-token",
            Self::GitLab => "oauth2",
            Self::BitbucketCloud | Self::BitbucketServer => "x-token-auth",
            Self::Gitea => "slipway",
        }
    }

    /// Name and value of the header that a token goes in.
    pub fn authorization(self, user: Option<&str>, token: &str) -> (&'static str, String) {
        match (self, user) {
            (Self::GitLab, _) => ("PRIVATE-TOKEN", token.to_owned()),
            (Self::Gitea, _) => ("Authorization", format!("token {token}")),
            (Self::BitbucketCloud, Some(user)) => {
                ("Authorization", format!("Basic {}", STANDARD.encode(format!("{user}:{token}"))))
            }
            _ => ("Authorization", format!("Bearer {token}")),
        }
    }

    pub fn register(self, repo: &str, url: &str, secret: &str) -> Call {
        match self {
            Self::GitHub => github::register(repo, url, secret),
            Self::Gitea => gitea::register(repo, url, secret),
            Self::GitLab => gitlab::register(repo, url, secret),
            Self::BitbucketCloud => bitbucket::register(repo, url, secret),
            Self::BitbucketServer => bitbucket_server::register(repo, url, secret),
        }
    }

    /// The hooks that are there: one with our address was registered before.
    pub fn hooks(self, repo: &str) -> Call {
        Call::get(match self {
            Self::GitHub => format!("/repos/{repo}/hooks?per_page=100"),
            Self::Gitea => format!("/repos/{repo}/hooks?limit=50"),
            Self::GitLab => format!("/projects/{}/hooks?per_page=100", encode(repo)),
            Self::BitbucketCloud => format!("/repositories/{repo}/hooks?pagelen=100"),
            Self::BitbucketServer => format!("{}/webhooks?limit=100", bitbucket_server::place(repo)),
        })
    }

    /// The provider's name of a hook that was just made.
    pub fn registered(self, answer: &Answer) -> Result<String, CallError> {
        let value = self.json(answer)?;
        self.hook_id(&value).ok_or(self.unexpected())
    }

    pub fn find_hook(self, answer: &Answer, url: &str) -> Result<Option<String>, CallError> {
        let value = self.json(answer)?;
        let ours = self.items(&value).iter().find(|hook| {
            let places = ["/config/url", "/url"];
            places.iter().any(|place| hook.pointer(place).and_then(Value::as_str) == Some(url))
        });
        Ok(ours.and_then(|hook| self.hook_id(hook)))
    }

    fn hook_id(self, hook: &Value) -> Option<String> {
        let id = hook.get(if self == Self::BitbucketCloud { "uuid" } else { "id" })?;
        Some(super::read::text(id)).filter(|id| !id.is_empty())
    }

    pub fn unregister(self, repo: &str, id: &str) -> Call {
        let path = match self {
            Self::GitHub | Self::Gitea => format!("/repos/{repo}/hooks/{}", encode(id)),
            Self::GitLab => format!("/projects/{}/hooks/{}", encode(repo), encode(id)),
            Self::BitbucketCloud => format!("/repositories/{repo}/hooks/{}", encode(id)),
            Self::BitbucketServer => format!("{}/webhooks/{}", bitbucket_server::place(repo), encode(id)),
        };
        Call { method: "DELETE", path, body: None, bearer: None }
    }

    pub fn status(self, repo: &str, sha: &str, status: &CommitStatus<'_>) -> Call {
        match self {
            Self::GitHub | Self::Gitea => github::status(repo, sha, status),
            Self::GitLab => gitlab::status(repo, sha, status),
            Self::BitbucketCloud => bitbucket::status(repo, sha, status),
            // Beside the API that the other calls are below.
            Self::BitbucketServer => {
                Call::post(format!("/../../build-status/1.0/commits/{sha}"), bitbucket::status_body(status))
            }
        }
    }

    pub fn branches(self, repo: &str) -> Call {
        Call::get(match self {
            Self::GitHub => format!("/repos/{repo}/branches?per_page=100"),
            Self::Gitea => format!("/repos/{repo}/branches?limit=50"),
            Self::GitLab => format!("/projects/{}/repository/branches?per_page=100", encode(repo)),
            Self::BitbucketCloud => format!("/repositories/{repo}/refs/branches?pagelen=100"),
            Self::BitbucketServer => format!("{}/branches?limit=100", bitbucket_server::place(repo)),
        })
    }

    /// Names with the commit each is at.
    pub fn read_branches(self, answer: &Answer) -> Result<Vec<(String, String)>, CallError> {
        let value = self.json(answer)?;
        let (name, sha) = match self {
            Self::GitHub => ("/name", "/commit/sha"),
            Self::Gitea | Self::GitLab => ("/name", "/commit/id"),
            Self::BitbucketCloud => ("/name", "/target/hash"),
            Self::BitbucketServer => ("/displayId", "/latestCommit"),
        };
        let text = |item: &Value, path: &str| item.pointer(path).and_then(Value::as_str).map(str::to_owned);
        self.items(&value)
            .iter()
            .map(|item| Some((text(item, name)?, text(item, sha)?)))
            .collect::<Option<_>>()
            .ok_or(self.unexpected())
    }

    /// A commit, by its id or by a branch that is at it.
    pub fn commit(self, repo: &str, revision: &str) -> Call {
        let revision = encode(revision);
        Call::get(match self {
            Self::GitHub => format!("/repos/{repo}/commits/{revision}"),
            Self::Gitea => format!("/repos/{repo}/git/commits/{revision}"),
            Self::GitLab => format!("/projects/{}/repository/commits/{revision}", encode(repo)),
            Self::BitbucketCloud => format!("/repositories/{repo}/commit/{revision}"),
            Self::BitbucketServer => format!("{}/commits/{revision}", bitbucket_server::place(repo)),
        })
    }

    pub fn read_commit(self, answer: &Answer) -> Result<CommitInfo, CallError> {
        let value = self.json(answer)?;
        match self {
            Self::GitHub | Self::Gitea => github::commit(&value),
            Self::GitLab => gitlab::commit(&value),
            Self::BitbucketCloud => bitbucket::commit(&value),
            Self::BitbucketServer => bitbucket_server::commit(&value),
        }
        .ok_or(self.unexpected())
    }

    pub fn file(self, repo: &str, revision: &str, path: &str) -> Call {
        let (revision, file) = (encode(revision), encode_path(path));
        Call::get(match self {
            Self::GitHub | Self::Gitea => format!("/repos/{repo}/contents/{file}?ref={revision}"),
            Self::GitLab => {
                format!("/projects/{}/repository/files/{}?ref={revision}", encode(repo), encode(path))
            }
            Self::BitbucketCloud => format!("/repositories/{repo}/src/{revision}/{file}"),
            Self::BitbucketServer => format!("{}/raw/{file}?at={revision}", bitbucket_server::place(repo)),
        })
    }

    pub fn read_file(self, answer: &Answer) -> Result<Vec<u8>, CallError> {
        if matches!(self, Self::BitbucketCloud | Self::BitbucketServer) {
            self.check(answer)?;
            return Ok(answer.body.clone());
        }
        let value = self.json(answer)?;
        let text = value.get("content").and_then(Value::as_str).ok_or(self.unexpected())?;
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        STANDARD.decode(text).map_err(|_| self.unexpected())
    }

    pub fn repositories(self) -> Call {
        Call::get(
            match self {
                Self::GitHub => "/user/repos?per_page=100",
                Self::Gitea => "/user/repos?limit=50",
                Self::GitLab => "/projects?membership=true&per_page=100",
                Self::BitbucketCloud => "/repositories?role=member&pagelen=100",
                Self::BitbucketServer => "/repos?limit=100",
            }
            .to_owned(),
        )
    }

    pub fn read_repositories(self, answer: &Answer) -> Result<Vec<String>, CallError> {
        let value = self.json(answer)?;
        let text = |item: &Value, path: &str| item.pointer(path).and_then(Value::as_str).map(str::to_owned);
        self.items(&value)
            .iter()
            .map(|item| match self {
                Self::GitLab => text(item, "/path_with_namespace"),
                Self::BitbucketServer => {
                    Some(format!("{}/{}", text(item, "/project/key")?, text(item, "/slug")?))
                }
                _ => text(item, "/full_name"),
            })
            .collect::<Option<_>>()
            .ok_or(self.unexpected())
    }

    /// Which pull request a comment is about; only what is asked of the provider decides.
    pub fn pull_request(self, repo: &str, number: i64) -> Option<Call> {
        match self {
            Self::GitHub | Self::Gitea => Some(Call::get(format!("/repos/{repo}/pulls/{number}"))),
            _ => None,
        }
    }

    /// The files that a pull request changes, page by page.
    pub fn pull_request_files(self, repo: &str, number: i64) -> Call {
        Call::get(match self {
            Self::GitHub => format!("/repos/{repo}/pulls/{number}/files?per_page=100"),
            Self::Gitea => format!("/repos/{repo}/pulls/{number}/files?limit=50"),
            Self::GitLab => {
                format!("/projects/{}/merge_requests/{number}/diffs?per_page=100", encode(repo))
            }
            Self::BitbucketCloud => {
                format!("/repositories/{repo}/pullrequests/{number}/diffstat?pagelen=100")
            }
            Self::BitbucketServer => {
                format!("{}/pull-requests/{number}/changes?limit=100", bitbucket_server::place(repo))
            }
        })
    }

    /// The files that changed between two commits, for pushes that do not say.
    pub fn changed_files(self, repo: &str, before: &str, after: &str) -> Call {
        let (before, after) = (encode(before), encode(after));
        Call::get(match self {
            Self::Gitea => format!("/repos/{repo}/compare/{before}...{after}"),
            Self::GitHub => format!("/repos/{repo}/compare/{before}...{after}?per_page=100"),
            Self::GitLab => {
                format!("/projects/{}/repository/compare?from={before}&to={after}", encode(repo))
            }
            Self::BitbucketCloud => {
                format!("/repositories/{repo}/diffstat/{after}..{before}?pagelen=100")
            }
            Self::BitbucketServer => {
                format!(
                    "{}/compare/changes?from={after}&to={before}&limit=100",
                    bitbucket_server::place(repo)
                )
            }
        })
    }

    /// Both names of a file that was renamed.
    pub fn read_changed_files(self, answer: &Answer) -> Result<Vec<String>, CallError> {
        let value = self.json(answer)?;
        let files = match self {
            Self::GitHub | Self::Gitea => value.get("files").unwrap_or(&value),
            Self::GitLab => value.get("diffs").unwrap_or(&value),
            Self::BitbucketCloud | Self::BitbucketServer => {
                value.get("values").ok_or_else(|| self.unexpected())?
            }
        };
        let names: &[&str] = match self {
            Self::GitHub | Self::Gitea => &["/filename", "/previous_filename"],
            Self::GitLab => &["/new_path", "/old_path"],
            Self::BitbucketCloud => &["/new/path", "/old/path"],
            Self::BitbucketServer => &["/path/toString", "/srcPath/toString"],
        };
        // Gitea compares commit by commit.
        let by_commit: Vec<&Value> = match (self, value.get("commits").and_then(Value::as_array)) {
            (Self::Gitea, Some(commits)) => {
                let of_commit = |commit: &'_ Value| commit.get("files").and_then(Value::as_array).is_some();
                if !commits.iter().all(of_commit) {
                    return Err(self.unexpected());
                }
                commits.iter().filter_map(|commit| commit["files"].as_array()).flatten().collect()
            }
            _ => files.as_array().ok_or_else(|| self.unexpected())?.iter().collect(),
        };
        let mut found: Vec<String> = Vec::new();
        for file in by_commit {
            let before = found.len();
            for name in names {
                let path = file.pointer(name).and_then(Value::as_str).filter(|path| !path.is_empty());
                if let Some(path) = path.filter(|path| !found[before..].iter().any(|known| known == path)) {
                    found.push(path.to_owned());
                }
            }
            if found.len() == before {
                return Err(self.unexpected());
            }
        }
        Ok(found)
    }

    /// Branch, commit, target and whether it is a fork's, in the event that lacks them.
    pub fn read_pull_request(
        self,
        answer: &Answer,
        event: &mut slipway_model::RepoEvent,
    ) -> Result<(), CallError> {
        let value = self.json(answer)?;
        let text = |path: &str| value.pointer(path).and_then(Value::as_str).map(str::to_owned);
        event.branch = text("/head/ref").ok_or(self.unexpected())?;
        event.sha = text("/head/sha").ok_or(self.unexpected())?;
        if let Some(pull_request) = &mut event.pull_request {
            pull_request.target = text("/base/ref").unwrap_or_default();
            pull_request.head_repo = text("/head/repo/full_name").unwrap_or_default();
            pull_request.url = text("/html_url").unwrap_or_default();
            let id = |path: &str| value.pointer(path).and_then(Value::as_i64);
            pull_request.is_fork =
                id("/base/repo/id").is_none() || id("/head/repo/id") != id("/base/repo/id");
        }
        Ok(())
    }

    /// What to ask for next when an answer was a page and not the last one.
    pub fn next_page(self, call: &Call, answer: &Answer) -> Option<Call> {
        let value = self.json(answer).ok()?;
        let (path, page) = match call.path.rsplit_once("&page=") {
            Some((path, page)) => (path, page.parse::<u32>().ok()?),
            None => (call.path.as_str(), 1),
        };
        let next = match self {
            Self::BitbucketServer => {
                let start = value.get("nextPageStart").and_then(Value::as_u64)?;
                let path = path.split("&start=").next().unwrap_or_default();
                return (value.get("isLastPage") == Some(&Value::Bool(false)))
                    .then(|| Call::get(format!("{path}&start={start}")));
            }
            Self::BitbucketCloud => value.get("next").is_some_and(Value::is_string),
            // They say so in a header: how long a page is, their operator may have changed.
            Self::GitHub | Self::GitLab | Self::Gitea => match &answer.link {
                Some(link) => value.is_array() && crate::lists::paging::next_page(link).is_some(),
                // Of some lists they do not; a page that is not full is the last one then.
                None => self.items(&value).len() >= if self == Self::Gitea { 50 } else { 100 },
            },
        };
        next.then(|| Call::get(format!("{path}&page={}", page + 1)))
    }

    /// A list, or a page of one.
    pub(super) fn items(self, value: &Value) -> &[Value] {
        let list = match self {
            Self::BitbucketCloud | Self::BitbucketServer => value.get("values"),
            _ => Some(value),
        };
        list.and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(super) fn unexpected(self) -> CallError {
        CallError::Unexpected { provider: self.name() }
    }

    /// Whether a call was taken.
    pub fn check(self, answer: &Answer) -> Result<(), CallError> {
        if (200..300).contains(&answer.status) {
            return Ok(());
        }
        let said: String = String::from_utf8_lossy(&answer.body).chars().take(200).collect();
        Err(CallError::Refused { provider: self.name(), status: answer.status, said })
    }

    pub(super) fn json(self, answer: &Answer) -> Result<Value, CallError> {
        self.check(answer)?;
        serde_json::from_slice(&answer.body).map_err(|_| self.unexpected())
    }
}
