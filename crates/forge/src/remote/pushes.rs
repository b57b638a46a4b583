//! What a webhook says was pushed, as somebody needs it who only asks repositories again: references and addresses.
//!
//! In: headers and bytes, from any of six senders. Out: who sent it, whether it really did ([`Sender::verify`], asked
//! before anything is read), and which references moved. What triggers of pipelines need is in [`super::Provider`].

use std::collections::BTreeSet;

use base64::Engine as _;
use serde_json::Value;

use super::signature::{self, Rejected};
use super::{Headers, Malformed};

/// Who sends webhooks, told by their headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    GitHub,
    GitLab,
    /// Gitea and Forgejo too.
    Gogs,
    Bitbucket,
    BitbucketServer,
    AzureDevOps,
}

/// One reference that moved.
#[derive(Debug, PartialEq, Eq)]
pub struct Push {
    pub clone_urls: Vec<String>,
    pub reference: String,
    /// Empty: not known.
    pub changed_paths: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Announced {
    Pushes(Vec<Push>),
    /// A pull request changed.
    PullRequest,
    Nothing,
}

impl Sender {
    pub fn of(headers: &Headers) -> Option<Self> {
        let has = |name: &str| headers.get(name).is_some();
        Some(if has("x-vss-activityid") {
            Self::AzureDevOps
        } else if has("x-gitea-event") || has("x-gogs-event") {
            Self::Gogs
        } else if has("x-github-event") {
            Self::GitHub
        } else if has("x-gitlab-event") {
            Self::GitLab
        } else if has("x-event-key") && has("x-hook-uuid") {
            Self::Bitbucket
        } else if has("x-event-key") {
            Self::BitbucketServer
        } else {
            return None;
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::GitHub => "github",
            Self::GitLab => "gitlab",
            Self::Gogs => "gogs",
            Self::Bitbucket => "bitbucket",
            Self::BitbucketServer => "bitbucketserver",
            Self::AzureDevOps => "azuredevops",
        }
    }

    /// Whether somebody who knows the secret wrote this. Bitbucket Cloud's is the hook's own id, Azure's `user:password`.
    pub fn verify(self, headers: &Headers, body: &[u8], secret: &str) -> Result<(), Rejected> {
        match self {
            Self::GitHub => {
                let given = headers.get("x-hub-signature-256").or_else(|| headers.get("x-hub-signature"));
                signature::hmac_or_old(given, body, secret)
            }
            Self::BitbucketServer => signature::hmac_or_old(headers.get("x-hub-signature"), body, secret),
            Self::Gogs => {
                let given = headers.get("x-gitea-signature").or_else(|| headers.get("x-gogs-signature"));
                signature::hmac(given, "", body, secret)
            }
            Self::GitLab => signature::token(headers.get("x-gitlab-token"), secret),
            Self::Bitbucket => signature::token(headers.get("x-hook-uuid"), secret),
            Self::AzureDevOps => {
                let wanted = base64::engine::general_purpose::STANDARD.encode(secret);
                signature::token(headers.get("authorization"), &format!("Basic {wanted}"))
            }
        }
    }

    pub fn read(self, headers: &Headers, body: &[u8]) -> Result<Announced, Malformed> {
        let body: Value = serde_json::from_slice(body).map_err(|error| Malformed(error.to_string()))?;
        let header = |name: &str| headers.get(name).unwrap_or_default();
        match self {
            Self::GitHub => by_repository(header("x-github-event"), &body),
            Self::Gogs => {
                let event = headers.get("x-gitea-event").unwrap_or_else(|| header("x-gogs-event"));
                by_repository(event, &body)
            }
            Self::GitLab => gitlab(&body),
            Self::Bitbucket => bitbucket(header("x-event-key"), &body),
            Self::BitbucketServer => bitbucket_server(header("x-event-key"), &body),
            Self::AzureDevOps => azure_devops(&body),
        }
    }
}

fn missing(what: &str) -> Malformed {
    Malformed(format!("`{what}` is missing"))
}

fn by_repository(event: &str, body: &Value) -> Result<Announced, Malformed> {
    match event {
        "push" => one_push(body, &body["repository"], &["clone_url", "html_url", "ssh_url"], false),
        "pull_request" => Ok(Announced::PullRequest),
        _ => Ok(Announced::Nothing),
    }
}

fn gitlab(body: &Value) -> Result<Announced, Malformed> {
    let commits = body["commits"].as_array().map_or(0, Vec::len) as u64;
    // Of many commits only the first are listed.
    let cut = body["total_commits_count"].as_u64().is_some_and(|total| total > commits);
    match body["object_kind"].as_str().unwrap_or_default() {
        "push" | "tag_push" => {
            one_push(body, &body["project"], &["git_http_url", "git_ssh_url", "web_url"], cut)
        }
        "merge_request" => Ok(Announced::PullRequest),
        _ => Ok(Announced::Nothing),
    }
}

fn bitbucket(event: &str, body: &Value) -> Result<Announced, Malformed> {
    if event != "repo:push" {
        return Ok(of_pull_request(event.starts_with("pullrequest:")));
    }
    let url = body["repository"]["links"]["html"]["href"].as_str().ok_or_else(|| missing("links.html"))?;
    let references = changes(&body["push"]["changes"], "push.changes", |change| {
        // A deleted branch has only an old state.
        let now = change["new"].as_object().or(change["old"].as_object())?;
        let kind = if now.get("type")?.as_str()? == "tag" { "tags" } else { "heads" };
        Some(format!("refs/{kind}/{}", now.get("name")?.as_str()?))
    })?;
    Ok(moved(&[url.to_owned()], references))
}

fn bitbucket_server(event: &str, body: &Value) -> Result<Announced, Malformed> {
    if event != "repo:refs_changed" {
        return Ok(of_pull_request(event.starts_with("pr:")));
    }
    let links = body["repository"]["links"]["clone"].as_array().into_iter().flatten();
    let urls: Vec<String> = links.filter_map(|link| link["href"].as_str().map(str::to_owned)).collect();
    let references = changes(&body["changes"], "changes", |change| {
        Some(change["ref"]["id"].as_str().or(change["refId"].as_str())?.to_owned())
    })?;
    Ok(moved(&urls, references))
}

fn azure_devops(body: &Value) -> Result<Announced, Malformed> {
    let event = body["eventType"].as_str().unwrap_or_default();
    if event != "git.push" {
        return Ok(of_pull_request(event.starts_with("git.pullrequest.")));
    }
    let resource = &body["resource"];
    let url = resource["repository"]["remoteUrl"].as_str().ok_or_else(|| missing("remoteUrl"))?;
    let references =
        changes(&resource["refUpdates"], "refUpdates", |update| update["name"].as_str().map(str::to_owned))?;
    Ok(moved(&[url.to_owned()], references))
}

fn of_pull_request(is: bool) -> Announced {
    if is { Announced::PullRequest } else { Announced::Nothing }
}

/// The references of a list of changes; those that cannot be read are left out.
fn changes(
    list: &Value,
    name: &str,
    reference: impl Fn(&Value) -> Option<String>,
) -> Result<Vec<String>, Malformed> {
    let list = list.as_array().ok_or_else(|| missing(name))?;
    Ok(list.iter().filter_map(reference).collect())
}

fn moved(clone_urls: &[String], references: Vec<String>) -> Announced {
    let push = |reference| Push { clone_urls: clone_urls.to_vec(), reference, changed_paths: Vec::new() };
    Announced::Pushes(references.into_iter().map(push).collect())
}

/// The shape that most senders share. `cut`: the list of commits is not complete.
fn one_push(body: &Value, repository: &Value, urls: &[&str], cut: bool) -> Result<Announced, Malformed> {
    let reference = body["ref"].as_str().ok_or_else(|| missing("ref"))?.to_owned();
    let clone_urls: Vec<String> =
        urls.iter().filter_map(|name| repository[*name].as_str().map(str::to_owned)).collect();
    if clone_urls.is_empty() {
        return Err(missing("clone_url"));
    }
    let mut changed = BTreeSet::new();
    for commit in body["commits"].as_array().into_iter().flatten() {
        for list in ["added", "modified", "removed"] {
            let paths = commit[list].as_array().into_iter().flatten();
            changed.extend(paths.filter_map(|path| path.as_str().map(str::to_owned)));
        }
    }
    // A forced push leaves commits behind whose paths nobody lists.
    let unknown = cut || body["forced"] == true;
    let changed_paths = if unknown { Vec::new() } else { changed.into_iter().collect() };
    Ok(Announced::Pushes(vec![Push { clone_urls, reference, changed_paths }]))
}
