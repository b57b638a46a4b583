//! Bitbucket Cloud: workspaces with repositories, pages by `next` in the answer. It has no labels.

use serde_json::Value;
use slipway_dialect::percent::{encode, encode_path};

use super::paging::{Page, clone_address, items, query_of, read_branches, text};
use super::{AskError, At, Branch, Carrier, Entry, Listed, PullRequest, Question};

pub(super) fn api(given: &str) -> String {
    if given.is_empty() { "https://api.bitbucket.org/2.0".to_owned() } else { given.to_owned() }
}

async fn list<C: Carrier>(
    question: &Question<'_, C>,
    path: &str,
    query: &str,
) -> Result<Vec<Value>, AskError> {
    let page = |body: Value| {
        let next = body["next"].as_str().and_then(query_of);
        Some(Page { items: items(&body, "values")?, next })
    };
    question.pages(path, query, |answered| page(answered.body)).await
}

pub(super) async fn listed<C: Carrier>(question: &Question<'_, C>) -> Result<Vec<Listed>, AskError> {
    let owner = question.scope.owner.as_str();
    // Without a role every public repository of the workspace would be in.
    let found =
        list(question, &format!("/repositories/{}", encode(owner)), "role=member&pagelen=100").await?;
    let wanted = if question.scope.https { "https" } else { "ssh" };
    let mut all = Vec::new();
    for repository in &found {
        // An empty repository has no main branch.
        let Some(branch) = repository["mainbranch"]["name"].as_str() else { continue };
        let slug = text(&repository["slug"]);
        all.push(Listed {
            key: format!("/repositories/{}/{}", encode(owner), encode(&slug)),
            entry: Entry {
                organization: owner.to_owned(),
                repository: slug,
                repository_id: repository["uuid"].clone(),
                url: clone_address(repository, wanted)?,
                branch: branch.to_owned(),
                ..Entry::default()
            },
        });
    }
    Ok(all)
}

pub(super) async fn branches<C: Carrier>(
    question: &Question<'_, C>,
    listed: &Listed,
) -> Result<Vec<Branch>, AskError> {
    let base = format!("{}/refs/branches", listed.key);
    let found: Vec<Value> = if question.scope.all_branches {
        list(question, &base, "pagelen=100").await?
    } else {
        question.default_branch(&base, listed).await?
    };
    Ok(read_branches(&found, "/name", &["/target/hash"]))
}

pub(super) async fn has_path<C: Carrier>(question: &Question<'_, C>, at: At<'_>) -> Result<bool, AskError> {
    let At { listed, branch, path } = at;
    // By the commit: a branch with a slash in its name cannot be told from a path here.
    let path = format!("{}/src/{}/{}?format=meta", listed.key, encode(&branch.sha), encode_path(path));
    Ok(question.perhaps(&path).await?.is_some())
}

pub(super) async fn pulls<C: Carrier>(question: &Question<'_, C>) -> Result<Vec<PullRequest>, AskError> {
    let (owner, repo) = (encode(&question.scope.owner), encode(&question.scope.repo));
    let path = format!("/repositories/{owner}/{repo}/pullrequests");
    let found = list(question, &path, "state=OPEN&pagelen=50").await?;
    Ok(found
        .iter()
        .map(|pull| PullRequest {
            number: pull["id"].as_i64().unwrap_or(0),
            title: text(&pull["title"]),
            branch: text(&pull["source"]["branch"]["name"]),
            target_branch: text(&pull["destination"]["branch"]["name"]),
            head_sha: text(&pull["source"]["commit"]["hash"]),
            author: text(&pull["author"]["nickname"]),
            labels: Vec::new(),
        })
        .collect())
}
