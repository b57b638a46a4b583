//! GitHub: `/orgs/…/repos` and `/repos/…`, pages by the `Link` header. Gitea speaks the same way in most.

use serde_json::Value;
use slipway_gitops::appset::{PullRequest, RepositoryEntry};

use super::ask::{encode, encode_path, text};
use super::{Branch, HttpError, Key, Listed, Login, Question};

/// An Enterprise's API lies under `/api/v3`, unless its host is one for the API alone.
pub(super) fn api(given: &str) -> String {
    let host = given.split_once("://").map_or(given, |(_, rest)| rest);
    match given {
        "" => "https://api.github.com".to_owned(),
        _ if host.starts_with("api.") || host.contains(".api.") || given.ends_with("/api/v3") => {
            given.to_owned()
        }
        _ => format!("{given}/api/v3"),
    }
}

pub(super) fn key(block: &Value) -> Key {
    match block["appSecretName"].as_str().unwrap_or_default() {
        "" => Key::token(&block["tokenRef"], Login::Header("authorization", "Bearer ")),
        name => Key::App(name.to_owned()),
    }
}

pub(super) async fn listed(question: &Question) -> Result<Vec<Listed>, HttpError> {
    let path = format!("/orgs/{}/repos", encode(question.text("organization")));
    let found = question.linked(&path, "per_page=100").await?;
    Ok(found.iter().filter_map(|repository| read(question, repository)).collect())
}

/// None: archived, and such are not wanted.
pub(super) fn read(question: &Question, repository: &Value) -> Option<Listed> {
    if repository["archived"] == true && question.flag("excludeArchivedRepos") {
        return None;
    }
    let organization = text(&repository["owner"]["login"]);
    let name = text(&repository["name"]);
    Some(Listed {
        key: format!("{}/{}", encode(&organization), encode(&name)),
        entry: RepositoryEntry {
            organization,
            repository: name,
            repository_id: repository["id"].clone(),
            url: text(&repository[if question.https { "clone_url" } else { "ssh_url" }]),
            branch: text(&repository["default_branch"]),
            sha: String::new(),
            labels: serde_json::from_value(repository["topics"].clone()).unwrap_or_default(),
        },
    })
}

pub(super) async fn branches(
    question: &Question,
    listed: &Listed,
    size: &str,
) -> Result<Vec<Branch>, HttpError> {
    let base = format!("/repos/{}/branches", listed.key);
    let found = if question.flag("allBranches") {
        question.linked(&base, size).await?
    } else {
        // A repository without a commit has a default branch only by name.
        question.perhaps(&format!("{base}/{}", encode(&listed.entry.branch))).await?.into_iter().collect()
    };
    // GitHub calls the commit `sha`, Gitea and GitLab `id`.
    let read = |branch: &Value| {
        let commit = &branch["commit"];
        let sha = commit["sha"].as_str().or_else(|| commit["id"].as_str())?;
        Some(Branch { name: branch["name"].as_str()?.to_owned(), sha: sha.to_owned() })
    };
    Ok(found.iter().filter_map(read).collect())
}

pub(super) async fn has_path(
    question: &Question,
    listed: &Listed,
    branch: &Branch,
    path: &str,
) -> Result<bool, HttpError> {
    let path = format!("/repos/{}/contents/{}?ref={}", listed.key, encode_path(path), encode(&branch.name));
    // A folder is a list.
    let found = question.perhaps(&path).await?;
    Ok(found.is_some_and(|found| found.as_array().is_none_or(|items| !items.is_empty())))
}

pub(super) async fn pulls(question: &Question, size: &str) -> Result<Vec<PullRequest>, HttpError> {
    let path = format!("/repos/{}/{}/pulls", encode(question.text("owner")), encode(question.text("repo")));
    let found = question.linked(&path, &format!("state=open&{size}")).await?;
    Ok(found
        .iter()
        .map(|pull| PullRequest {
            number: pull["number"].as_i64().unwrap_or(0),
            title: text(&pull["title"]),
            branch: text(&pull["head"]["ref"]),
            target_branch: text(&pull["base"]["ref"]),
            head_sha: text(&pull["head"]["sha"]),
            author: text(&pull["user"]["login"]),
            labels: labels(&pull["labels"]),
        })
        .collect())
}

/// Labels as objects with a name.
pub(super) fn labels(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().map(|label| text(&label["name"])).collect()
}
