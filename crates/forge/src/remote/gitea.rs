//! Gitea. Its announcements look like GitHub's in most places; what differs is here.

use serde_json::json;
use slipway_model::RepoEvent;

use super::call::Call;
use super::read::{self, Body, Push};
use super::{Headers, Malformed, github};

pub(super) fn parse(headers: &Headers, body: &Body) -> Result<Vec<RepoEvent>, Malformed> {
    let event = headers.get("x-gitea-event").unwrap_or_default();
    // The finer name tells a review and a label from an opened pull request.
    let kind = headers.get("x-gitea-event-type").unwrap_or(event);
    Ok(match (event, kind) {
        ("push", _) => push(body)?.into_iter().collect(),
        // A branch or tag is pushed too when it is made; deleting comes here alone.
        ("delete", _) => deleted(body)?.into_iter().collect(),
        ("pull_request", "pull_request_label") => named(body, &["labeled"])?,
        ("pull_request" | "pull_request_sync", "pull_request_sync") => named(body, &["synchronize"])?,
        ("pull_request_approved", _) => named(body, &["review.submitted", "review.submitted.approved"])?,
        ("pull_request_rejected", _) => {
            named(body, &["review.submitted", "review.submitted.changes_requested"])?
        }
        ("pull_request", _) => {
            let mut event = github::pull_request(body)?;
            if body.text("/action") == "synchronized" {
                event.events = read::pull_request_events(&["synchronize"]);
            }
            vec![event]
        }
        ("issue_comment" | "pull_request_comment", _) if body.text("/action") == "created" => {
            let on_pull_request = body.yes("/is_pull") || !body.at("/issue/pull_request").is_null();
            // Gitea does not say who the author is to the repository: nobody is trusted by a comment alone.
            if on_pull_request { vec![github::comment_event(body, false)?] } else { Vec::new() }
        }
        ("release", _) => vec![github::release(body)?],
        _ => Vec::new(),
    })
}

fn named(body: &Body, names: &[&str]) -> Result<Vec<RepoEvent>, Malformed> {
    let mut event = github::pull_request(body)?;
    event.events = read::pull_request_events(names);
    Ok(vec![event])
}

fn push(body: &Body) -> Result<Option<RepoEvent>, Malformed> {
    let after = body.need("/after")?;
    // The newest commit is first, and `head_commit` is there in newer versions.
    let head = if body.at("/head_commit").is_object() { "/head_commit" } else { "/commits/0" };
    Ok(read::push(Push {
        repo: body.need("/repository/full_name")?,
        reference: body.need("/ref")?,
        before: body.text("/before"),
        after,
        author: body.text(&format!("{head}/author/name")),
        message: body.text(&format!("{head}/message")).trim_end().to_owned(),
        url: body.text(&format!("{head}/url")),
        sender: body.text("/pusher/login"),
        changed_paths: read::changed_paths(body.list("/commits")),
    }))
}

fn deleted(body: &Body) -> Result<Option<RepoEvent>, Malformed> {
    let kind = if body.text("/ref_type") == "tag" { "tags" } else { "heads" };
    Ok(read::push(Push {
        repo: body.need("/repository/full_name")?,
        reference: format!("refs/{kind}/{}", body.need("/ref")?),
        before: "unknown".into(),
        after: String::new(),
        author: body.text("/sender/login"),
        message: String::new(),
        url: String::new(),
        sender: body.text("/sender/login"),
        changed_paths: None,
    }))
}

const EVENTS: [&str; 11] = [
    "push",
    "delete",
    "pull_request",
    "pull_request_sync",
    "pull_request_label",
    "pull_request_comment",
    "pull_request_review_approved",
    "pull_request_review_rejected",
    "pull_request_review_comment",
    "issue_comment",
    "release",
];

pub(super) fn register(repo: &str, url: &str, secret: &str) -> Call {
    let config = json!({"url": url, "content_type": "json", "secret": secret});
    let body =
        json!({"type": "gitea", "active": true, "events": EVENTS, "branch_filter": "*", "config": config});
    Call::post(format!("/repos/{repo}/hooks"), body)
}
