//! Bitbucket Cloud: workspaces with repositories, pages by `next` in the answer. It has no labels.

use serde_json::Value;
use slipway_gitops::appset::{PullRequest, RepositoryEntry};

use super::ask::{Page, clone_address, encode, encode_path, items, query_of, text};
use super::{Branch, HttpError, Key, Listed, Login, Question};

pub(super) fn api(given: &str) -> String {
    if given.is_empty() { "https://api.bitbucket.org/2.0".to_owned() } else { given.to_owned() }
}

/// `scmProvider` knows a user with an app password, `pullRequest` the two that Bitbucket Server has.
pub(super) fn key(block: &Value) -> Key {
    match &block["appPasswordRef"] {
        Value::Null => Key::bearer_or_basic(block),
        reference => Key::token(reference, Login::Basic(text(&block["user"]))),
    }
}

async fn list(question: &Question, path: &str, query: &str) -> Result<Vec<Value>, HttpError> {
    let page = |body: Value| {
        let next = body["next"].as_str().and_then(query_of);
        Some(Page { items: items(&body, "values")?, next })
    };
    question.pages(path, query, |answered| page(answered.body)).await
}

pub(super) async fn listed(question: &Question) -> Result<Vec<Listed>, HttpError> {
    let owner = question.text("owner");
    // Without a role every public repository of the workspace would be in.
    let found =
        list(question, &format!("/repositories/{}", encode(owner)), "role=member&pagelen=100").await?;
    let wanted = if question.https { "https" } else { "ssh" };
    let mut all = Vec::new();
    for repository in &found {
        // An empty repository has no main branch.
        let Some(branch) = repository["mainbranch"]["name"].as_str() else { continue };
        let slug = text(&repository["slug"]);
        all.push(Listed {
            key: format!("/repositories/{}/{}", encode(owner), encode(&slug)),
            entry: RepositoryEntry {
                organization: owner.to_owned(),
                repository: slug,
                repository_id: repository["uuid"].clone(),
                url: clone_address(repository, wanted)?,
                branch: branch.to_owned(),
                ..RepositoryEntry::default()
            },
        });
    }
    Ok(all)
}

pub(super) async fn branches(question: &Question, listed: &Listed) -> Result<Vec<Branch>, HttpError> {
    let base = format!("{}/refs/branches", listed.key);
    let found: Vec<Value> = if question.flag("allBranches") {
        list(question, &base, "pagelen=100").await?
    } else {
        question.perhaps(&format!("{base}/{}", encode(&listed.entry.branch))).await?.into_iter().collect()
    };
    let read = |branch: &Value| {
        let sha = branch["target"]["hash"].as_str()?.to_owned();
        Some(Branch { name: branch["name"].as_str()?.to_owned(), sha })
    };
    Ok(found.iter().filter_map(read).collect())
}

pub(super) async fn has_path(
    question: &Question,
    listed: &Listed,
    branch: &Branch,
    path: &str,
) -> Result<bool, HttpError> {
    // By the commit: a branch with a slash in its name cannot be told from a path here.
    let path = format!("{}/src/{}/{}?format=meta", listed.key, encode(&branch.sha), encode_path(path));
    Ok(question.perhaps(&path).await?.is_some())
}

pub(super) async fn pulls(question: &Question) -> Result<Vec<PullRequest>, HttpError> {
    let (owner, repo) = (encode(question.text("owner")), encode(question.text("repo")));
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
