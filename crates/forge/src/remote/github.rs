//! GitHub, as its documentation describes webhooks and the REST API.

use serde_json::{Value, json};
use slipway_model::{Comment, PullRequestEvent, RepoEvent};

use super::Malformed;
use super::call::{Call, CommitInfo, CommitState, CommitStatus};
use super::read::{self, Body, Push};

pub(super) fn parse(event: &str, body: &Body) -> Result<Vec<RepoEvent>, Malformed> {
    Ok(match event {
        "push" => push(body)?.into_iter().collect(),
        "pull_request" => vec![pull_request(body)?],
        "pull_request_review" if body.text("/action") == "submitted" => {
            let mut event = pull_request(body)?;
            let state = body.text("/review/state").to_lowercase();
            event.events =
                read::pull_request_events(&["review.submitted", &format!("review.submitted.{state}")]);
            vec![event]
        }
        "issue_comment" | "pull_request_review_comment" => comment(body)?.into_iter().collect(),
        "release" => vec![release(body)?],
        _ => Vec::new(),
    })
}

fn push(body: &Body) -> Result<Option<RepoEvent>, Malformed> {
    Ok(read::push(Push {
        repo: body.need("/repository/full_name")?,
        reference: body.need("/ref")?,
        before: body.text("/before"),
        after: body.need("/after")?,
        author: body.text("/head_commit/author/name"),
        message: body.text("/head_commit/message"),
        url: body.text("/head_commit/url"),
        sender: body.text("/sender/login"),
        changed_paths: read::changed_paths(body.list("/commits")),
    }))
}

/// The names of actions in triggers, where they differ from GitHub's.
pub(super) fn actions(action: &str, merged: bool) -> Vec<&str> {
    match action {
        "review_requested" => vec!["reviewRequested", "review_requested"],
        "review_request_removed" => vec!["reviewRequestRemoved", "review_request_removed"],
        "closed" if merged => vec!["closed", "merged"],
        "closed" => vec!["closed", "unmerged-closed"],
        other => vec![other],
    }
}

pub(super) fn pull_request(body: &Body) -> Result<RepoEvent, Malformed> {
    let (action, merged) = (body.text("/action"), body.yes("/pull_request/merged"));
    let (base, head) = (body.number("/pull_request/base/repo/id"), body.number("/pull_request/head/repo/id"));
    let sha = body.need("/pull_request/head/sha")?;
    let sender = body.text("/sender/login");
    Ok(RepoEvent {
        repo: body.need("/repository/full_name")?,
        events: read::pull_request_events(&actions(&action, merged)),
        branch: body.need("/pull_request/head/ref")?,
        author: body.text("/pull_request/user/login"),
        message: body.text("/pull_request/title"),
        url: Some(body.text("/pull_request/html_url")),
        pull_request: Some(PullRequestEvent {
            number: body.number("/pull_request/number"),
            title: body.text("/pull_request/title"),
            action,
            target: body.need("/pull_request/base/ref")?,
            head_repo: body.text("/pull_request/head/repo/full_name"),
            // A repository that is gone was a fork.
            is_fork: head != base || base == 0,
            merged,
            url: body.text("/pull_request/html_url"),
            labels: read::texts(body.list("/pull_request/labels"), "/name"),
        }),
        sender,
        sha,
        ..RepoEvent::default()
    })
}

fn comment(body: &Body) -> Result<Option<RepoEvent>, Malformed> {
    let on_pull_request = !body.at("/issue/pull_request").is_null() || !body.at("/pull_request").is_null();
    if body.text("/action") != "created" || !on_pull_request {
        return Ok(None);
    }
    let trusted =
        matches!(body.text("/comment/author_association").as_str(), "OWNER" | "MEMBER" | "COLLABORATOR");
    Ok(Some(comment_event(body, trusted)?))
}

/// What an announcement of a comment does not say (branch, commit) is asked for later, by the number.
pub(super) fn comment_event(body: &Body, trusted: bool) -> Result<RepoEvent, Malformed> {
    let from = |issue: &str, pull: &str| {
        Some(body.text(issue)).filter(|text| !text.is_empty()).unwrap_or_else(|| body.text(pull))
    };
    let number = body.number("/issue/number").max(body.number("/pull_request/number"));
    let mut names = vec!["commentAddedUnrestricted"];
    if trusted {
        names.push("commentAdded");
    }
    Ok(RepoEvent {
        repo: body.need("/repository/full_name")?,
        // A comment is no change of the pull request: `pullrequest` alone does not wait for it.
        events: names.iter().map(|name| format!("pullrequest.{name}")).collect(),
        branch: body.text("/pull_request/head/ref"),
        sha: body.text("/pull_request/head/sha"),
        author: from("/issue/user/login", "/pull_request/user/login"),
        message: from("/issue/title", "/pull_request/title"),
        url: Some(body.text("/comment/html_url")),
        sender: body.text("/sender/login"),
        pull_request: Some(PullRequestEvent {
            number,
            title: from("/issue/title", "/pull_request/title"),
            action: "comment".into(),
            target: body.text("/pull_request/base/ref"),
            is_fork: true,
            ..PullRequestEvent::default()
        }),
        comment: Some(Comment {
            text: body.text("/comment/body"),
            author: body.text("/comment/user/login"),
            trusted,
        }),
        ..RepoEvent::default()
    })
}

pub(super) fn release(body: &Body) -> Result<RepoEvent, Malformed> {
    let action = body.text("/action");
    let events = match action.as_str() {
        "published" => vec!["release".to_owned(), "release.published".to_owned()],
        other => vec![format!("release.{other}")],
    };
    Ok(RepoEvent {
        repo: body.need("/repository/full_name")?,
        events,
        branch: body.need("/release/tag_name")?,
        author: body.text("/release/author/login"),
        message: body.text("/release/name"),
        url: Some(body.text("/release/html_url")),
        sender: body.text("/sender/login"),
        release: Some(body.text("/release/name")),
        ..RepoEvent::default()
    })
}

const EVENTS: [&str; 5] = ["push", "pull_request", "pull_request_review", "issue_comment", "release"];

pub(super) fn register(repo: &str, url: &str, secret: &str) -> Call {
    let config = json!({"url": url, "content_type": "json", "secret": secret});
    Call::post(
        format!("/repos/{repo}/hooks"),
        json!({"name": "web", "active": true, "events": EVENTS, "config": config}),
    )
}

pub(super) fn state(state: CommitState) -> &'static str {
    match state {
        CommitState::Pending => "pending",
        CommitState::Success => "success",
        CommitState::Failure => "failure",
        CommitState::Error => "error",
    }
}

pub(super) fn status(repo: &str, sha: &str, status: &CommitStatus<'_>) -> Call {
    let body = json!({
        "state": state(status.state), "target_url": status.url, "description": status.description, "context": status.title,
    });
    Call::post(format!("/repos/{repo}/statuses/{sha}"), body)
}

pub(super) fn commit(value: &Value) -> Option<CommitInfo> {
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(CommitInfo {
        sha: value.get("sha")?.as_str()?.to_owned(),
        author: text("/commit/author/name"),
        message: text("/commit/message").trim_end().to_owned(),
        url: Some(text("/html_url")).filter(|url| !url.is_empty()),
    })
}
