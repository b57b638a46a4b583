//! Bitbucket Cloud.

use serde_json::{Value, json};
use slipway_model::{Comment, PullRequestEvent, RepoEvent};

use super::Malformed;
use super::call::{Call, CommitInfo, CommitState, CommitStatus};
use super::read::{self, Body, Push};

pub(super) fn parse(event: &str, body: &Body) -> Result<Vec<RepoEvent>, Malformed> {
    if event == "repo:push" {
        return push(body);
    }
    let names: &[&str] = match event {
        "pullrequest:created" => &["created", "opened"],
        "pullrequest:updated" => &["updated", "pushCommit", "synchronize"],
        "pullrequest:approved" => &["approved"],
        "pullrequest:unapproved" => &["unapproved"],
        "pullrequest:fulfilled" => &["fulfilled", "merged", "closed"],
        "pullrequest:rejected" => &["rejected", "declined", "unmerged-closed", "closed"],
        "pullrequest:comment_created" => &["comment_created", "commentAddedUnrestricted"],
        "pullrequest:comment_updated" => &["comment_updated"],
        "pullrequest:comment_deleted" => &["comment_deleted"],
        _ => return Ok(Vec::new()),
    };
    let mut event_of = pull_request(body, event.trim_start_matches("pullrequest:"))?;
    let comment = event.contains("comment");
    event_of.events = read::bitbucket_names(names, comment);
    if comment {
        event_of.comment = Some(Comment {
            text: body.text("/comment/content/raw"),
            author: body.text("/comment/user/nickname"),
            trusted: false,
        });
    }
    Ok(vec![event_of])
}

/// One announcement for all references that moved together.
fn push(body: &Body) -> Result<Vec<RepoEvent>, Malformed> {
    let repo = body.need("/repository/full_name")?;
    let mut events = Vec::new();
    for change in body.list("/push/changes") {
        let text = |path: &str| change.pointer(path).map(read::text).unwrap_or_default();
        let side = if change.get("new").is_some_and(Value::is_object) { "new" } else { "old" };
        let kind = if text(&format!("/{side}/type")) == "tag" { "tags" } else { "heads" };
        let name = text(&format!("/{side}/name"));
        if name.is_empty() {
            return Err(Malformed("a change names no branch and no tag".into()));
        }
        events.extend(read::push(Push {
            repo: repo.clone(),
            reference: format!("refs/{kind}/{name}"),
            before: text("/old/target/hash"),
            after: text("/new/target/hash"),
            author: text("/new/target/author/user/display_name"),
            message: text("/new/target/message").trim_end().to_owned(),
            url: text("/new/target/links/html/href"),
            sender: body.text("/actor/nickname"),
            // Bitbucket does not list paths.
            changed_paths: None,
        }));
    }
    Ok(events)
}

fn pull_request(body: &Body, action: &str) -> Result<RepoEvent, Malformed> {
    let (source, target) = (
        body.text("/pullrequest/source/repository/uuid"),
        body.text("/pullrequest/destination/repository/uuid"),
    );
    Ok(RepoEvent {
        repo: body.need("/repository/full_name")?,
        branch: body.need("/pullrequest/source/branch/name")?,
        sha: body.need("/pullrequest/source/commit/hash")?,
        author: body.text("/pullrequest/author/display_name"),
        message: body.text("/pullrequest/title"),
        url: Some(body.text("/pullrequest/links/html/href")),
        sender: body.text("/actor/nickname"),
        pull_request: Some(PullRequestEvent {
            number: body.number("/pullrequest/id"),
            title: body.text("/pullrequest/title"),
            action: action.to_owned(),
            target: body.need("/pullrequest/destination/branch/name")?,
            head_repo: body.text("/pullrequest/source/repository/full_name"),
            is_fork: source.is_empty() || source != target,
            merged: body.text("/pullrequest/state") == "MERGED",
            url: body.text("/pullrequest/links/html/href"),
            labels: Vec::new(),
        }),
        ..RepoEvent::default()
    })
}

const EVENTS: [&str; 10] = [
    "repo:push",
    "pullrequest:created",
    "pullrequest:updated",
    "pullrequest:approved",
    "pullrequest:unapproved",
    "pullrequest:fulfilled",
    "pullrequest:rejected",
    "pullrequest:comment_created",
    "pullrequest:comment_updated",
    "pullrequest:comment_deleted",
];

pub(super) fn register(repo: &str, url: &str, secret: &str) -> Call {
    let body =
        json!({"description": "Slipway", "url": url, "active": true, "secret": secret, "events": EVENTS});
    Call::post(format!("/repositories/{repo}/hooks"), body)
}

pub(super) fn state(state: CommitState) -> &'static str {
    match state {
        CommitState::Pending => "INPROGRESS",
        CommitState::Success => "SUCCESSFUL",
        CommitState::Failure | CommitState::Error => "FAILED",
    }
}

pub(super) fn status_body(status: &CommitStatus<'_>) -> Value {
    json!({
        "key": status.title.chars().take(40).collect::<String>(), "state": state(status.state), "name": status.title,
        "url": status.url, "description": status.description,
    })
}

pub(super) fn status(repo: &str, sha: &str, status: &CommitStatus<'_>) -> Call {
    Call::post(format!("/repositories/{repo}/commit/{sha}/statuses/build"), status_body(status))
}

pub(super) fn commit(value: &Value) -> Option<CommitInfo> {
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(CommitInfo {
        sha: value.get("hash")?.as_str()?.to_owned(),
        author: text("/author/raw"),
        message: text("/message").trim_end().to_owned(),
        url: Some(text("/links/html/href")).filter(|url| !url.is_empty()),
    })
}
