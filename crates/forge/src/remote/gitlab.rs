//! GitLab: system of its own words (merge requests, notes), and a token instead of a signature.

use serde_json::{Value, json};
use slipway_model::{Comment, PullRequestEvent, RepoEvent};

use super::Malformed;
use slipway_dialect::percent::encode;

use super::call::{Call, CommitInfo, CommitState, CommitStatus};
use super::read::{self, Body, Push};

pub(super) fn parse(event: &str, body: &Body) -> Result<Vec<RepoEvent>, Malformed> {
    Ok(match event {
        "Push Hook" | "Tag Push Hook" => push(body)?.into_iter().collect(),
        "Merge Request Hook" => vec![merge_request(body)?],
        "Note Hook" if body.text("/object_attributes/noteable_type") == "MergeRequest" => vec![note(body)?],
        "Release Hook" => vec![release(body)?],
        _ => Vec::new(),
    })
}

fn push(body: &Body) -> Result<Option<RepoEvent>, Malformed> {
    let after = body.need("/after")?;
    let commits = body.list("/commits");
    let head = commits.iter().find(|commit| commit.get("id").and_then(Value::as_str) == Some(&after));
    let of_head = |path: &str| head.and_then(|head| head.pointer(path)).map(read::text).unwrap_or_default();
    let author = Some(of_head("/author/name")).filter(|name| !name.is_empty());
    Ok(read::push(Push {
        repo: body.need("/project/path_with_namespace")?,
        reference: body.need("/ref")?,
        before: body.text("/before"),
        author: author.unwrap_or_else(|| body.text("/user_name")),
        message: of_head("/message").trim_end().to_owned(),
        url: of_head("/url"),
        sender: body.text("/user_username"),
        // A list that was cut says nothing about what is not in it.
        changed_paths: (body.number("/total_commits_count") <= commits.len() as i64)
            .then(|| read::changed_paths(commits))
            .flatten(),
        after,
    }))
}

fn pull_request(body: &Body, at: &str, action: String) -> PullRequestEvent {
    let text = |path: &str| body.text(&format!("{at}{path}"));
    PullRequestEvent {
        number: body.number(&format!("{at}/iid")),
        title: text("/title"),
        target: text("/target_branch"),
        head_repo: text("/source/path_with_namespace"),
        is_fork: body.at(&format!("{at}/source_project_id")) != body.at(&format!("{at}/target_project_id")),
        merged: text("/state") == "merged",
        url: text("/url"),
        labels: read::texts(body.list("/labels"), "/title"),
        action,
    }
}

fn merge_request(body: &Body) -> Result<RepoEvent, Malformed> {
    let action = body.text("/object_attributes/action");
    let pushed = !body.text("/object_attributes/oldrev").is_empty();
    let names: &[&str] = match action.as_str() {
        "open" => &["opened", "created"],
        "reopen" => &["reopened"],
        "close" => &["closed", "unmerged-closed"],
        "merge" => &["closed", "merged"],
        "update" if pushed => &["synchronize", "pushCommit", "updated"],
        "update" => &["edited", "updated"],
        "approved" | "approval" => &["review.submitted", "review.submitted.approved"],
        _ => &[],
    };
    Ok(RepoEvent {
        repo: body.need("/project/path_with_namespace")?,
        events: read::pull_request_events(names),
        branch: body.need("/object_attributes/source_branch")?,
        sha: body.need("/object_attributes/last_commit/id")?,
        author: body.text("/object_attributes/last_commit/author/name"),
        message: body.text("/object_attributes/title"),
        url: Some(body.text("/object_attributes/url")),
        sender: body.text("/user/username"),
        pull_request: Some(pull_request(body, "/object_attributes", action)),
        ..RepoEvent::default()
    })
}

fn note(body: &Body) -> Result<RepoEvent, Malformed> {
    Ok(RepoEvent {
        repo: body.need("/project/path_with_namespace")?,
        events: vec!["pullrequest.commentAddedUnrestricted".into()],
        branch: body.need("/merge_request/source_branch")?,
        sha: body.need("/merge_request/last_commit/id")?,
        author: body.text("/merge_request/last_commit/author/name"),
        message: body.text("/merge_request/title"),
        url: Some(body.text("/object_attributes/url")),
        sender: body.text("/user/username"),
        pull_request: Some(pull_request(body, "/merge_request", "comment".into())),
        comment: Some(Comment {
            text: body.text("/object_attributes/note"),
            author: body.text("/user/username"),
            trusted: false,
        }),
        ..RepoEvent::default()
    })
}

fn release(body: &Body) -> Result<RepoEvent, Malformed> {
    let events = match body.text("/action").as_str() {
        "create" => vec!["release".to_owned(), "release.created".to_owned()],
        "update" => vec!["release.edited".to_owned()],
        "delete" => vec!["release.deleted".to_owned()],
        _ => Vec::new(),
    };
    Ok(RepoEvent {
        repo: body.need("/project/path_with_namespace")?,
        events,
        branch: body.need("/tag")?,
        sha: body.text("/commit/id"),
        author: body.text("/commit/author/name"),
        message: body.text("/name"),
        url: Some(body.text("/url")),
        release: Some(body.text("/name")),
        ..RepoEvent::default()
    })
}

pub(super) fn register(repo: &str, url: &str, secret: &str) -> Call {
    let body = json!({
        "url": url, "token": secret, "push_events": true, "tag_push_events": true, "merge_requests_events": true,
        "note_events": true, "releases_events": true, "enable_ssl_verification": true,
    });
    Call::post(format!("/projects/{}/hooks", encode(repo)), body)
}

pub(super) fn status(repo: &str, sha: &str, status: &CommitStatus<'_>) -> Call {
    let state = match status.state {
        CommitState::Pending => "running",
        CommitState::Success => "success",
        CommitState::Failure | CommitState::Error => "failed",
    };
    let body = json!({
        "state": state, "name": status.title, "target_url": status.url, "description": status.description,
    });
    Call::post(format!("/projects/{}/statuses/{sha}", encode(repo)), body)
}

pub(super) fn commit(value: &Value) -> Option<CommitInfo> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(CommitInfo {
        sha: value.get("id")?.as_str()?.to_owned(),
        author: text("author_name"),
        message: text("message").trim_end().to_owned(),
        url: Some(text("web_url")).filter(|url| !url.is_empty()),
    })
}
