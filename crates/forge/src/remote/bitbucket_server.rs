//! Bitbucket Server and Data Center.

use serde_json::{Value, json};
use slipway_model::{Comment, PullRequestEvent, RepoEvent};

use super::Malformed;
use super::call::{Call, CommitInfo};
use super::read::{self, Body, Push};

pub(super) fn parse(event: &str, body: &Body) -> Result<Vec<RepoEvent>, Malformed> {
    if event == "repo:refs_changed" {
        return push(body);
    }
    let names: &[&str] = match event {
        "pr:opened" => &["created", "opened"],
        "pr:from_ref_updated" => &["push_commit", "pushCommit", "synchronize"],
        "pr:modified" => &["updatedButNoPush", "edited"],
        "pr:merged" => &["merged", "closed"],
        "pr:declined" => &["declined", "unmerged-closed", "closed"],
        "pr:deleted" => &["deleted"],
        "pr:reviewer:approved" => &["approved"],
        "pr:reviewer:unapproved" => &["unapproved"],
        "pr:reviewer:needs_work" => &["needsWork"],
        "pr:comment:added" => &["comment_created", "commentAddedUnrestricted"],
        "pr:comment:edited" => &["comment_updated"],
        "pr:comment:deleted" => &["comment_deleted"],
        _ => return Ok(Vec::new()),
    };
    let mut event_of = pull_request(body, event.trim_start_matches("pr:"))?;
    let comment = event.contains("comment");
    event_of.events = read::bitbucket_names(names, comment);
    if comment {
        event_of.comment = Some(Comment {
            text: body.text("/comment/text"),
            author: body.text("/comment/author/name"),
            trusted: false,
        });
    }
    Ok(vec![event_of])
}

/// `KEY/slug` is what calls are made with.
fn full_name(body: &Body, at: &str) -> Result<String, Malformed> {
    Ok(format!("{}/{}", body.need(&format!("{at}/project/key"))?, body.need(&format!("{at}/slug"))?))
}

fn push(body: &Body) -> Result<Vec<RepoEvent>, Malformed> {
    let repo = full_name(body, "/repository")?;
    let mut events = Vec::new();
    for change in body.list("/changes") {
        let text = |path: &str| change.pointer(path).map(read::text).unwrap_or_default();
        let reference = text("/refId");
        if reference.is_empty() {
            return Err(Malformed("a change names no reference".into()));
        }
        events.extend(read::push(Push {
            repo: repo.clone(),
            reference,
            before: text("/fromHash"),
            after: text("/toHash"),
            author: body.text("/actor/displayName"),
            // Asked for at the provider.
            message: body.text("/toCommit/message"),
            url: String::new(),
            sender: body.text("/actor/name"),
            changed_paths: None,
        }));
    }
    Ok(events)
}

fn pull_request(body: &Body, action: &str) -> Result<RepoEvent, Malformed> {
    let (source, target) =
        (body.number("/pullRequest/fromRef/repository/id"), body.number("/pullRequest/toRef/repository/id"));
    Ok(RepoEvent {
        repo: full_name(body, "/pullRequest/toRef/repository")?,
        branch: body.need("/pullRequest/fromRef/displayId")?,
        sha: body.need("/pullRequest/fromRef/latestCommit")?,
        author: body.text("/pullRequest/author/user/displayName"),
        message: body.text("/pullRequest/title"),
        url: Some(body.text("/pullRequest/links/self/0/href")),
        sender: body.text("/actor/name"),
        pull_request: Some(PullRequestEvent {
            number: body.number("/pullRequest/id"),
            title: body.text("/pullRequest/title"),
            action: action.to_owned(),
            target: body.need("/pullRequest/toRef/displayId")?,
            head_repo: full_name(body, "/pullRequest/fromRef/repository").unwrap_or_default(),
            is_fork: source == 0 || source != target,
            merged: body.text("/pullRequest/state") == "MERGED",
            url: body.text("/pullRequest/links/self/0/href"),
            labels: Vec::new(),
        }),
        ..RepoEvent::default()
    })
}

const EVENTS: [&str; 11] = [
    "repo:refs_changed",
    "pr:opened",
    "pr:from_ref_updated",
    "pr:modified",
    "pr:merged",
    "pr:declined",
    "pr:deleted",
    "pr:reviewer:approved",
    "pr:reviewer:unapproved",
    "pr:reviewer:needs_work",
    "pr:comment:added",
];

/// `projects/KEY/repos/slug`.
pub(super) fn place(repo: &str) -> String {
    let (key, slug) = repo.split_once('/').unwrap_or((repo, ""));
    format!("/projects/{key}/repos/{slug}")
}

pub(super) fn register(repo: &str, url: &str, secret: &str) -> Call {
    let body = json!({
        "name": "Slipway", "url": url, "active": true, "events": EVENTS, "configuration": {"secret": secret},
    });
    Call::post(format!("{}/webhooks", place(repo)), body)
}

pub(super) fn commit(value: &Value) -> Option<CommitInfo> {
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(CommitInfo {
        sha: value.get("id")?.as_str()?.to_owned(),
        author: text("/author/displayName"),
        message: text("/message").trim_end().to_owned(),
        url: None,
    })
}
