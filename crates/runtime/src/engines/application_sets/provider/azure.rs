//! Azure DevOps: an organization, projects in it, repositories in those. Most lists come whole; pull requests are
//! skipped through. It speaks of branches as `refs/heads/…` in lists and by their name in questions.

use serde_json::Value;
use slipway_gitops::appset::{PullRequest, RepositoryEntry};

use super::ask::{Page, encode, items, text};
use super::{Branch, HttpError, Key, Listed, Login, Question};

/// Servers of 2022 and the service both know it.
const VERSION: &str = "api-version=7.0";
const PAGE: usize = 100;

/// `{api}/{organization}`; on a server the organization is called collection.
pub(super) fn api(given: &str, block: &Value) -> String {
    let host = if given.is_empty() { "https://dev.azure.com" } else { given };
    format!("{host}/{}", encode(block["organization"].as_str().unwrap_or_default()))
}

/// A personal access token is a password of nobody. Each generator has its own name for it.
pub(super) fn key(block: &Value) -> Key {
    let reference = [&block["accessTokenRef"], &block["tokenRef"]].into_iter().find(|one| !one.is_null());
    Key::token(reference.unwrap_or(&Value::Null), Login::Basic(String::new()))
}

fn repositories_path(project: &str) -> String {
    format!("/{}/_apis/git/repositories", encode(project))
}

/// A list that comes whole.
async fn list(question: &Question, path: &str) -> Result<Vec<Value>, HttpError> {
    let page = |body: Value| Some(Page { items: items(&body, "value")?, next: None });
    question.pages(path, VERSION, |answered| page(answered.body)).await
}

fn plain_branch(reference: &Value) -> String {
    let name = reference.as_str().unwrap_or_default();
    name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()
}

pub(super) async fn listed(question: &Question) -> Result<Vec<Listed>, HttpError> {
    let base = repositories_path(question.text("teamProject"));
    let found = list(question, &base).await?;
    let read = |repository: &Value| {
        // One without a default branch is empty, and a disabled one answers nothing.
        let branch = Some(plain_branch(&repository["defaultBranch"])).filter(|name| !name.is_empty())?;
        if repository["isDisabled"] == true {
            return None;
        }
        Some(Listed {
            key: format!("{base}/{}", encode(repository["id"].as_str()?)),
            entry: RepositoryEntry {
                organization: question.text("organization").to_owned(),
                repository: repository["name"].as_str()?.to_owned(),
                repository_id: repository["id"].clone(),
                // Upstream gives this one whatever `cloneProtocol` says, and Applications are named by it.
                url: repository["remoteUrl"].as_str()?.to_owned(),
                branch,
                ..RepositoryEntry::default()
            },
        })
    };
    Ok(found.iter().filter_map(read).collect())
}

pub(super) async fn branches(question: &Question, listed: &Listed) -> Result<Vec<Branch>, HttpError> {
    let base = format!("{}/stats/branches", listed.key);
    let found = if question.flag("allBranches") {
        list(question, &base).await
    } else {
        let path = format!("{base}?name={}&{VERSION}", encode(&listed.entry.branch));
        question.one(&path).await.map(|branch| vec![branch])
    };
    let found = match found {
        // Deleted since it was listed.
        Err(HttpError::NotFound { body, .. }) if is(&body, "GitRepositoryNotFoundException") => Vec::new(),
        found => found?,
    };
    let read = |branch: &Value| {
        let sha = branch["commit"]["commitId"].as_str()?.to_owned();
        Some(Branch { name: branch["name"].as_str()?.to_owned(), sha })
    };
    Ok(found.iter().filter_map(read).collect())
}

/// Which thing was not found.
fn is(body: &Value, kind: &str) -> bool {
    body["typeKey"] == kind
}

pub(super) async fn has_path(
    question: &Question,
    listed: &Listed,
    branch: &Branch,
    path: &str,
) -> Result<bool, HttpError> {
    let version =
        format!("versionDescriptor.versionType=branch&versionDescriptor.version={}", encode(&branch.name));
    // As JSON: a file is described instead of sent.
    let path = format!("{}/items?path={}&{version}&$format=json&{VERSION}", listed.key, encode(path));
    match question.one(&path).await {
        Ok(_) => Ok(true),
        // A branch or a repository that is not there says nothing about the path.
        Err(HttpError::NotFound { body, .. }) if is(&body, "GitItemNotFoundException") => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) async fn pulls(question: &Question) -> Result<Vec<PullRequest>, HttpError> {
    let repository = encode(question.text("repo"));
    let path = format!("{}/{repository}/pullrequests", repositories_path(question.text("project")));
    let query = format!("searchCriteria.status=active&$top={PAGE}&{VERSION}");
    let mut seen = 0;
    let mut page = |body: Value| {
        let items = items(&body, "value")?;
        seen += items.len();
        let next = (items.len() == PAGE).then(|| format!("{query}&$skip={seen}"));
        Some(Page { items, next })
    };
    let found = question.pages(&path, &query, |answered| page(answered.body)).await?;
    let read = |pull: &Value| {
        let author = text(&pull["createdBy"]["uniqueName"]);
        Some(PullRequest {
            number: pull["pullRequestId"].as_i64()?,
            title: text(&pull["title"]),
            branch: plain_branch(&pull["sourceRefName"]),
            target_branch: plain_branch(&pull["targetRefName"]),
            // Not there while Azure still computes it: the next look has it.
            head_sha: pull["lastMergeSourceCommit"]["commitId"].as_str()?.to_owned(),
            author: author.split('@').next().unwrap_or_default().to_owned(),
            labels: super::github::labels(&pull["labels"]),
        })
    };
    Ok(found.iter().filter_map(read).collect())
}
