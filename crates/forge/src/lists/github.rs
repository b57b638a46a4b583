//! GitHub: `/orgs/…/repos` and `/repos/…`, pages by the `Link` header. Gitea speaks the same way in most.

use serde_json::Value;
use slipway_dialect::percent::{encode, encode_path};

use super::paging::{read_branches, text};
use super::{AskError, At, Branch, Carrier, Entry, Listed, PullRequest, Question};

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

pub(super) async fn listed<C: Carrier>(question: &Question<'_, C>) -> Result<Vec<Listed>, AskError> {
    let path = format!("/orgs/{}/repos", encode(&question.scope.owner));
    let found = question.linked(&path, "per_page=100").await?;
    Ok(found.iter().filter_map(|repository| read(question, repository)).collect())
}

/// None: archived, and such are not wanted.
pub(super) fn read<C: Carrier>(question: &Question<'_, C>, repository: &Value) -> Option<Listed> {
    if repository["archived"] == true && !question.scope.archived {
        return None;
    }
    let organization = text(&repository["owner"]["login"]);
    let name = text(&repository["name"]);
    Some(Listed {
        key: format!("{}/{}", encode(&organization), encode(&name)),
        entry: Entry {
            organization,
            repository: name,
            repository_id: repository["id"].clone(),
            url: text(&repository[if question.scope.https { "clone_url" } else { "ssh_url" }]),
            branch: text(&repository["default_branch"]),
            sha: String::new(),
            labels: serde_json::from_value(repository["topics"].clone()).unwrap_or_default(),
        },
    })
}

pub(super) async fn branches<C: Carrier>(
    question: &Question<'_, C>,
    listed: &Listed,
    size: &str,
) -> Result<Vec<Branch>, AskError> {
    let base = format!("/repos/{}/branches", listed.key);
    let found = if question.scope.all_branches {
        question.linked(&base, size).await?
    } else {
        question.default_branch(&base, listed).await?
    };
    // GitHub calls the commit `sha`, Gitea `id`.
    Ok(read_branches(&found, "/name", &["/commit/sha", "/commit/id"]))
}

pub(super) async fn has_path<C: Carrier>(question: &Question<'_, C>, at: At<'_>) -> Result<bool, AskError> {
    let At { listed, branch, path } = at;
    let path = format!("/repos/{}/contents/{}?ref={}", listed.key, encode_path(path), encode(&branch.name));
    // A folder is a list.
    let found = question.perhaps(&path).await?;
    Ok(found.is_some_and(|found| found.as_array().is_none_or(|items| !items.is_empty())))
}

pub(super) async fn pulls<C: Carrier>(
    question: &Question<'_, C>,
    size: &str,
) -> Result<Vec<PullRequest>, AskError> {
    let path = format!("/repos/{}/{}/pulls", encode(&question.scope.owner), encode(&question.scope.repo));
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
