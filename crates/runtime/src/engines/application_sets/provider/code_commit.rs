//! AWS CodeCommit: repositories of an account and a region, by their tags if the generator names some. It has neither
//! organizations nor labels, and a commit would be a question for each branch, which upstream does not ask either.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use slipway_gitops::appset::RepositoryEntry;

use super::ask::text;
use super::{Branch, HttpError, Listed, Question};
use crate::engines::application_sets::aws::Session;

/// Pages of one list; an answer that never ends must not keep us.
const PAGES_MAX: usize = 100;

async fn ask(session: &Session, action: &str, input: &Value) -> Result<Value, HttpError> {
    session.act("codecommit", &format!("CodeCommit_20150413.{action}"), input).await
}

/// Every page of a list: what follows is named in `token` of the answer, and said back under the same name.
async fn pages(
    session: &Session,
    (service, target): (&str, &str),
    (field, token): (&str, &str),
    mut input: Value,
) -> Result<Vec<Value>, HttpError> {
    let mut all = Vec::new();
    for _ in 0..PAGES_MAX {
        let answer = session.act(service, target, &input).await?;
        all.extend(answer[field].as_array().into_iter().flatten().cloned());
        match answer[token].as_str().filter(|next| !next.is_empty()) {
            Some(next) => input[token] = next.into(),
            None => return Ok(all),
        }
    }
    Err(HttpError::Failed(format!("AWS lists more than {PAGES_MAX} pages of {field}")))
}

/// `tagFilters`, one entry for each key: the values of a key are alternatives, keys must all hold.
fn tag_filters(block: &Value) -> Vec<Value> {
    let mut by_key: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for filter in block["tagFilters"].as_array().into_iter().flatten() {
        let values = by_key.entry(text(&filter["key"])).or_default();
        values.extend(Some(&filter["value"]).filter(|value| **value != "" && value.is_string()).cloned());
    }
    by_key
        .into_iter()
        .map(
            |(key, values)| {
                if values.is_empty() { json!({"Key": key}) } else { json!({"Key": key, "Values": values}) }
            },
        )
        .collect()
}

async fn names(question: &Question, session: &Session) -> Result<Vec<String>, HttpError> {
    let filters = tag_filters(&question.block);
    if filters.is_empty() {
        let question = ("codecommit", "CodeCommit_20150413.ListRepositories");
        let found = pages(session, question, ("repositories", "nextToken"), json!({})).await?;
        return Ok(found.iter().map(|one| text(&one["repositoryName"])).collect());
    }
    let input = json!({"ResourceTypeFilters": ["codecommit:repository"], "TagFilters": filters});
    let question = ("tagging", "ResourceGroupsTaggingAPI_20170126.GetResources");
    let found = pages(session, question, ("ResourceTagMappingList", "PaginationToken"), input).await?;
    // arn:aws:codecommit:region:account:name
    let name = |one: &Value| one["ResourceARN"].as_str()?.splitn(6, ':').nth(5).map(str::to_owned);
    Ok(found.iter().filter_map(name).collect())
}

fn session(question: &Question) -> Result<&Session, HttpError> {
    question
        .session
        .as_ref()
        .ok_or_else(|| HttpError::Failed("nobody signed in to AWS; this is a defect of ours".into()))
}

pub(super) async fn listed(question: &Question) -> Result<Vec<Listed>, HttpError> {
    let session = session(question)?;
    let mut all = Vec::new();
    for name in names(question, session).await? {
        let answer = ask(session, "GetRepository", &json!({"repositoryName": name})).await?;
        let repository = &answer["repositoryMetadata"];
        // One without a commit has no default branch.
        let Some(branch) = repository["defaultBranch"].as_str().filter(|branch| !branch.is_empty()) else {
            continue;
        };
        let mut url = text(&repository[if question.https { "cloneUrlHttp" } else { "cloneUrlSsh" }]);
        if question.fips {
            url = url.replacen("https://git-codecommit.", "https://git-codecommit-fips.", 1);
        }
        all.push(Listed {
            key: name.clone(),
            entry: RepositoryEntry {
                organization: text(&repository["accountId"]),
                repository: name,
                repository_id: repository["repositoryId"].clone(),
                url,
                branch: branch.to_owned(),
                ..RepositoryEntry::default()
            },
        });
    }
    Ok(all)
}

pub(super) async fn branches(question: &Question, listed: &Listed) -> Result<Vec<Branch>, HttpError> {
    let branch = |name: String| Branch { name, sha: String::new() };
    if !question.flag("allBranches") {
        return Ok(vec![branch(listed.entry.branch.clone())]);
    }
    let input = json!({"repositoryName": listed.key});
    let target = ("codecommit", "CodeCommit_20150413.ListBranches");
    let found = pages(session(question)?, target, ("branches", "nextToken"), input).await?;
    Ok(found.iter().map(|name| branch(text(name))).collect())
}

pub(super) async fn has_path(
    question: &Question,
    listed: &Listed,
    wanted: &Branch,
    path: &str,
) -> Result<bool, HttpError> {
    // The folder that it lies in: a file by itself would come with all that is in it.
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    if name.is_empty() {
        return Ok(true);
    }
    let input = json!({"repositoryName": listed.key, "commitSpecifier": wanted.name, "folderPath": format!("/{folder}")});
    match ask(session(question)?, "GetFolder", &input).await {
        Ok(found) => Ok(["files", "subFolders", "symbolicLinks", "subModules"].iter().any(|kind| {
            found[*kind].as_array().into_iter().flatten().any(|entry| entry["relativePath"] == name)
        })),
        Err(HttpError::Refused { body, .. }) if is_absence(&body) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_absence(body: &Value) -> bool {
    let kind = body["__type"].as_str().unwrap_or_default();
    matches!(
        kind.rsplit('#').next(),
        Some(
            "FolderDoesNotExistException" | "CommitDoesNotExistException" | "RepositoryDoesNotExistException"
        )
    )
}
