//! AWS CodeCommit: repositories of an account and a region, by their tags if the generator names some. It has neither
//! organizations nor labels, and a commit would be a question for each branch, which upstream does not ask either.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::paging::text;
use super::{AskError, At, Branch, Carrier, Entry, Listed, Question};

/// Pages of one list; an answer that never ends must not keep us.
const PAGES_MAX: usize = 100;

async fn ask<C: Carrier>(question: &Question<'_, C>, action: &str, input: &Value) -> Result<Value, AskError> {
    question.act("codecommit", &format!("CodeCommit_20150413.{action}"), input).await
}

/// Every page of a list: what follows is named in `token` of the answer, and said back under the same name.
async fn pages<C: Carrier>(
    question: &Question<'_, C>,
    (service, target): (&str, &str),
    (field, token): (&str, &str),
    mut input: Value,
) -> Result<Vec<Value>, AskError> {
    let mut all = Vec::new();
    for _ in 0..PAGES_MAX {
        let answer = question.act(service, target, &input).await?;
        all.extend(answer[field].as_array().into_iter().flatten().cloned());
        match answer[token].as_str().filter(|next| !next.is_empty()) {
            Some(next) => input[token] = next.into(),
            None => return Ok(all),
        }
    }
    Err(AskError::Failed(format!("AWS lists more than {PAGES_MAX} pages of {field}")))
}

/// One entry for each key: the values of a key are alternatives, keys must all hold.
fn tag_filters(tags: &[(String, Option<String>)]) -> Vec<Value> {
    let mut by_key: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, value) in tags {
        by_key.entry(key).or_default().extend(value.as_deref());
    }
    let filter = |(key, values): (&str, Vec<&str>)| match values.is_empty() {
        true => json!({"Key": key}),
        false => json!({"Key": key, "Values": values}),
    };
    by_key.into_iter().map(filter).collect()
}

async fn names<C: Carrier>(question: &Question<'_, C>) -> Result<Vec<String>, AskError> {
    let filters = tag_filters(&question.scope.tags);
    if filters.is_empty() {
        let target = ("codecommit", "CodeCommit_20150413.ListRepositories");
        let found = pages(question, target, ("repositories", "nextToken"), json!({})).await?;
        return Ok(found.iter().map(|one| text(&one["repositoryName"])).collect());
    }
    let input = json!({"ResourceTypeFilters": ["codecommit:repository"], "TagFilters": filters});
    let target = ("tagging", "ResourceGroupsTaggingAPI_20170126.GetResources");
    let found = pages(question, target, ("ResourceTagMappingList", "PaginationToken"), input).await?;
    // arn:aws:codecommit:region:account:name
    let name = |one: &Value| one["ResourceARN"].as_str()?.splitn(6, ':').nth(5).map(str::to_owned);
    Ok(found.iter().filter_map(name).collect())
}

pub(super) async fn listed<C: Carrier>(question: &Question<'_, C>) -> Result<Vec<Listed>, AskError> {
    let mut all = Vec::new();
    for name in names(question).await? {
        let answer = ask(question, "GetRepository", &json!({"repositoryName": name})).await?;
        let repository = &answer["repositoryMetadata"];
        // One without a commit has no default branch.
        let Some(branch) = repository["defaultBranch"].as_str().filter(|branch| !branch.is_empty()) else {
            continue;
        };
        let mut url = text(&repository[if question.scope.https { "cloneUrlHttp" } else { "cloneUrlSsh" }]);
        if question.scope.fips {
            url = url.replacen("https://git-codecommit.", "https://git-codecommit-fips.", 1);
        }
        all.push(Listed {
            key: name.clone(),
            entry: Entry {
                organization: text(&repository["accountId"]),
                repository: name,
                repository_id: repository["repositoryId"].clone(),
                url,
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
    let branch = |name: String| Branch { name, sha: String::new() };
    if !question.scope.all_branches {
        return Ok(vec![branch(listed.entry.branch.clone())]);
    }
    let input = json!({"repositoryName": listed.key});
    let target = ("codecommit", "CodeCommit_20150413.ListBranches");
    let found = pages(question, target, ("branches", "nextToken"), input).await?;
    Ok(found.iter().map(|name| branch(text(name))).collect())
}

pub(super) async fn has_path<C: Carrier>(question: &Question<'_, C>, at: At<'_>) -> Result<bool, AskError> {
    let At { listed, branch: wanted, path } = at;
    // The folder that it lies in: a file by itself would come with all that is in it.
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    if name.is_empty() {
        return Ok(true);
    }
    let input = json!({"repositoryName": listed.key, "commitSpecifier": wanted.name, "folderPath": format!("/{folder}")});
    match ask(question, "GetFolder", &input).await {
        Ok(found) => Ok(["files", "subFolders", "symbolicLinks", "subModules"].iter().any(|kind| {
            found[*kind].as_array().into_iter().flatten().any(|entry| entry["relativePath"] == name)
        })),
        Err(AskError::Refused { body, .. }) if is_absence(&body) => Ok(false),
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
