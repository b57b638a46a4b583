//! Azure DevOps: an organization, projects in it, repositories in those. Most lists come whole; pull requests are
//! skipped through. It speaks of branches as `refs/heads/…` in lists and by their name in questions.

use serde_json::Value;
use slipway_dialect::percent::encode;

use super::paging::{Page, items, read_branches, text};
use super::{AskError, At, Branch, Carrier, Entry, Listed, PullRequest, Question};

/// Servers of 2022 and the service both know it.
const VERSION: &str = "api-version=7.0";
const PAGE: usize = 100;

/// `{api}/{organization}`; on a server the organization is called collection.
pub(super) fn api(given: &str, organization: &str) -> String {
    let host = if given.is_empty() { "https://dev.azure.com" } else { given };
    format!("{host}/{}", encode(organization))
}

fn repositories_path(project: &str) -> String {
    format!("/{}/_apis/git/repositories", encode(project))
}

/// A list that comes whole.
async fn list<C: Carrier>(question: &Question<'_, C>, path: &str) -> Result<Vec<Value>, AskError> {
    let page = |body: Value| Some(Page { items: items(&body, "value")?, next: None });
    question.pages(path, VERSION, |answered| page(answered.body)).await
}

fn plain_branch(reference: &Value) -> String {
    let name = reference.as_str().unwrap_or_default();
    name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()
}

pub(super) async fn listed<C: Carrier>(question: &Question<'_, C>) -> Result<Vec<Listed>, AskError> {
    let base = repositories_path(&question.scope.project);
    let found = list(question, &base).await?;
    let read = |repository: &Value| {
        // One without a default branch is empty, and a disabled one answers nothing.
        let branch = Some(plain_branch(&repository["defaultBranch"])).filter(|name| !name.is_empty())?;
        if repository["isDisabled"] == true {
            return None;
        }
        Some(Listed {
            key: format!("{base}/{}", encode(repository["id"].as_str()?)),
            entry: Entry {
                organization: question.scope.owner.clone(),
                repository: repository["name"].as_str()?.to_owned(),
                repository_id: repository["id"].clone(),
                // Upstream gives this one whatever `cloneProtocol` says, and Applications are named by it.
                url: repository["remoteUrl"].as_str()?.to_owned(),
                branch,
                ..Entry::default()
            },
        })
    };
    Ok(found.iter().filter_map(read).collect())
}

pub(super) async fn branches<C: Carrier>(
    question: &Question<'_, C>,
    listed: &Listed,
) -> Result<Vec<Branch>, AskError> {
    let base = format!("{}/stats/branches", listed.key);
    let found = if question.scope.all_branches {
        list(question, &base).await
    } else {
        let path = format!("{base}?name={}&{VERSION}", encode(&listed.entry.branch));
        question.one(&path).await.map(|branch| vec![branch])
    };
    let found = match found {
        // Deleted since it was listed.
        Err(AskError::NotFound { body, .. }) if is(&body, "GitRepositoryNotFoundException") => Vec::new(),
        found => found?,
    };
    Ok(read_branches(&found, "/name", &["/commit/commitId"]))
}

/// Which thing was not found.
fn is(body: &Value, kind: &str) -> bool {
    body["typeKey"] == kind
}

pub(super) async fn has_path<C: Carrier>(question: &Question<'_, C>, at: At<'_>) -> Result<bool, AskError> {
    let At { listed, branch, path } = at;
    let version =
        format!("versionDescriptor.versionType=branch&versionDescriptor.version={}", encode(&branch.name));
    // As JSON: a file is described instead of sent.
    let path = format!("{}/items?path={}&{version}&$format=json&{VERSION}", listed.key, encode(path));
    match question.one(&path).await {
        Ok(_) => Ok(true),
        // A branch or a repository that is not there says nothing about the path.
        Err(AskError::NotFound { body, .. }) if is(&body, "GitItemNotFoundException") => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) async fn pulls<C: Carrier>(question: &Question<'_, C>) -> Result<Vec<PullRequest>, AskError> {
    let repository = encode(&question.scope.repo);
    let path = format!("{}/{repository}/pullrequests", repositories_path(&question.scope.project));
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
