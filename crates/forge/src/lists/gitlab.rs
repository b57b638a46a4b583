//! GitLab: groups with projects, merge requests, pages by the `Link` header.

use serde_json::Value;
use slipway_dialect::percent::{encode, encode_path};

use super::paging::{read_branches, text};
use super::{AskError, At, Branch, Carrier, Entry, Listed, PullRequest, Question};

pub(super) fn api(given: &str) -> String {
    match given {
        "" => "https://gitlab.com/api/v4".to_owned(),
        given => format!("{}/api/v4", given.trim_end_matches("/api/v4")),
    }
}

pub(super) async fn listed<C: Carrier>(question: &Question<'_, C>) -> Result<Vec<Listed>, AskError> {
    let path = format!("/groups/{}/projects", encode(&question.scope.owner));
    let mut query = format!("per_page=100&include_subgroups={}", question.scope.subgroups);
    // Projects of others that are shared with the group are in, unless somebody says no.
    if !question.scope.shared {
        query.push_str("&with_shared=false");
    }
    if !question.scope.topic.is_empty() {
        query.push_str(&format!("&topic={}", encode(&question.scope.topic)));
    }
    let mut all = Vec::new();
    for project in question.linked(&path, &query).await? {
        if project["archived"] == true && !question.scope.archived {
            continue;
        }
        // Before 14.5 topics were called tags.
        let topics = match project["topics"].as_array().filter(|topics| !topics.is_empty()) {
            Some(_) => &project["topics"],
            None => &project["tag_list"],
        };
        all.push(Listed {
            key: project["id"].to_string(),
            entry: Entry {
                organization: text(&project["namespace"]["full_path"]),
                repository: text(&project["path"]),
                repository_id: project["id"].clone(),
                url: text(
                    &project[if question.scope.https { "http_url_to_repo" } else { "ssh_url_to_repo" }],
                ),
                branch: text(&project["default_branch"]),
                sha: String::new(),
                labels: serde_json::from_value(topics.clone()).unwrap_or_default(),
            },
        });
    }
    Ok(all)
}

pub(super) async fn branches<C: Carrier>(
    question: &Question<'_, C>,
    listed: &Listed,
) -> Result<Vec<Branch>, AskError> {
    let base = format!("/projects/{}/repository/branches", listed.key);
    let found: Vec<Value> = if question.scope.all_branches {
        question.linked(&base, "per_page=100").await?
    } else {
        question.default_branch(&base, listed).await?
    };
    Ok(read_branches(&found, "/name", &["/commit/id"]))
}

pub(super) async fn has_path<C: Carrier>(question: &Question<'_, C>, at: At<'_>) -> Result<bool, AskError> {
    let At { listed, branch, path } = at;
    let (path, branch) = (encode_path(path), encode(&branch.name));
    let file = path.replace('/', "%2F");
    let base = format!("/projects/{}/repository", listed.key);
    if question.perhaps(&format!("{base}/files/{file}?ref={branch}")).await?.is_some() {
        return Ok(true);
    }
    // A folder that is not there is an empty one to some versions.
    let folder = question.perhaps(&format!("{base}/tree?path={path}&ref={branch}")).await?;
    Ok(folder.is_some_and(|found| found.as_array().is_some_and(|items| !items.is_empty())))
}

pub(super) async fn pulls<C: Carrier>(question: &Question<'_, C>) -> Result<Vec<PullRequest>, AskError> {
    let state = Some(question.scope.state.as_str()).filter(|state| !state.is_empty());
    let path = format!("/projects/{}/merge_requests", encode(&question.scope.repo));
    let query = format!("state={}&per_page=100", encode(state.unwrap_or("opened")));
    let found = question.linked(&path, &query).await?;
    Ok(found
        .iter()
        .map(|merge| PullRequest {
            number: merge["iid"].as_i64().unwrap_or(0),
            title: text(&merge["title"]),
            branch: text(&merge["source_branch"]),
            target_branch: text(&merge["target_branch"]),
            head_sha: text(&merge["sha"]),
            author: text(&merge["author"]["username"]),
            labels: serde_json::from_value(merge["labels"].clone()).unwrap_or_default(),
        })
        .collect())
}
