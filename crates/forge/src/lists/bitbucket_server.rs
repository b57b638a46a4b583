//! Bitbucket Server and Data Center: projects with repositories, pages by `nextPageStart`. It has no labels for either.

use serde_json::Value;
use slipway_dialect::percent::{encode, encode_path};

use super::paging::{Page, clone_address, items, read_branches, text};
use super::{AskError, At, Branch, Carrier, Entry, Listed, PullRequest, Question};

const SIZE: &str = "limit=100";

/// Users write the host's address with and without the API's own path.
pub(super) fn api(given: &str) -> Result<String, String> {
    match given {
        "" => Err("bitbucketServer needs the address of its host in api".into()),
        given => Ok(format!("{}/rest/api/1.0", given.trim_end_matches("/api/1.0").trim_end_matches("/rest"))),
    }
}

async fn list<C: Carrier>(question: &Question<'_, C>, path: &str) -> Result<Vec<Value>, AskError> {
    let page = |body: Value| {
        let start = body["nextPageStart"].as_u64().filter(|_| body["isLastPage"] == false);
        let next = start.map(|start| format!("{SIZE}&start={start}"));
        Some(Page { items: items(&body, "values")?, next })
    };
    question.pages(path, SIZE, |answered| page(answered.body)).await
}

fn repository_path(project: &str, slug: &str) -> String {
    format!("/projects/{}/repos/{}", encode(project), encode(slug))
}

pub(super) async fn listed<C: Carrier>(question: &Question<'_, C>) -> Result<Vec<Listed>, AskError> {
    let project = question.scope.owner.as_str();
    let found = list(question, &format!("/projects/{}/repos", encode(project))).await?;
    let wanted = if question.scope.https { "http" } else { "ssh" };
    let read = |repository: &Value| {
        let organization = repository["project"]["key"].as_str().unwrap_or(project).to_owned();
        Ok(Listed {
            // Its name may hold spaces, which the slug stands for in addresses.
            key: repository_path(&organization, &text(&repository["slug"])),
            entry: Entry {
                organization,
                repository: text(&repository["name"]),
                repository_id: repository["id"].clone(),
                url: clone_address(repository, wanted)?,
                ..Entry::default()
            },
        })
    };
    found.iter().map(read).collect()
}

pub(super) async fn branches<C: Carrier>(
    question: &Question<'_, C>,
    listed: &Listed,
) -> Result<Vec<Branch>, AskError> {
    let base = format!("{}/branches", listed.key);
    // A repository without a commit has none: that is an empty answer, or a default branch that is not there.
    let default = question.perhaps(&format!("{base}/default")).await?.filter(Value::is_object);
    let found: Vec<Value> = match default {
        None => Vec::new(),
        Some(_) if question.scope.all_branches => list(question, &base).await?,
        Some(default) => vec![default],
    };
    Ok(read_branches(&found, "/displayId", &["/latestCommit"]))
}

pub(super) async fn has_path<C: Carrier>(question: &Question<'_, C>, at: At<'_>) -> Result<bool, AskError> {
    let At { listed, branch, path } = at;
    // `type` answers what it is, without what is in it.
    let (path, at) = (encode_path(path), encode(&branch.name));
    let path = format!("{}/browse/{path}?at={at}&type=true&{SIZE}", listed.key);
    Ok(question.perhaps(&path).await?.is_some())
}

pub(super) async fn pulls<C: Carrier>(question: &Question<'_, C>) -> Result<Vec<PullRequest>, AskError> {
    let repository = repository_path(&question.scope.owner, &question.scope.repo);
    // Open ones are what is listed without a word about it.
    let found = list(question, &format!("{repository}/pull-requests")).await?;
    Ok(found
        .iter()
        .map(|pull| PullRequest {
            number: pull["id"].as_i64().unwrap_or(0),
            title: text(&pull["title"]),
            branch: text(&pull["fromRef"]["displayId"]),
            target_branch: text(&pull["toRef"]["displayId"]),
            head_sha: text(&pull["fromRef"]["latestCommit"]),
            author: text(&pull["author"]["user"]["name"]),
            labels: Vec::new(),
        })
        .collect())
}
