//! Reading announcements: a path in, a value out, and a sentence when something that must be there is not.

use serde_json::Value;
use slipway_model::RepoEvent;

use super::{Malformed, is_nothing};

/// So many commits of one push are looked at for their paths.
const COMMITS_MAX: usize = 2_000;
const PATHS_MAX: usize = 10_000;

pub(super) struct Body(pub(super) Value);

impl Body {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        // serde_json stops at 128 levels by itself.
        let value: Value =
            serde_json::from_slice(bytes).map_err(|error| Malformed(format!("it is no JSON ({error})")))?;
        if value.is_object() { Ok(Self(value)) } else { Err(Malformed("it is no JSON object".into())) }
    }

    pub(super) fn at(&self, path: &str) -> &Value {
        self.0.pointer(path).unwrap_or(&Value::Null)
    }

    /// Empty when it is not there.
    pub(super) fn text(&self, path: &str) -> String {
        text(self.at(path))
    }

    pub(super) fn need(&self, path: &str) -> Result<String, Malformed> {
        Some(self.text(path)).filter(|text| !text.is_empty()).ok_or_else(|| {
            Malformed(format!("`{}` is missing", path.trim_start_matches('/').replace('/', ".")))
        })
    }

    pub(super) fn list(&self, path: &str) -> &[Value] {
        self.at(path).as_array().map_or(&[], Vec::as_slice)
    }

    pub(super) fn number(&self, path: &str) -> i64 {
        self.at(path).as_i64().unwrap_or(0)
    }

    pub(super) fn yes(&self, path: &str) -> bool {
        self.at(path).as_bool().unwrap_or(false)
    }
}

pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

pub(super) fn texts(values: &[Value], path: &str) -> Vec<String> {
    values.iter().filter_map(|value| value.pointer(path)?.as_str().map(str::to_owned)).collect()
}

/// Paths that commits of a push say they touch. `None` when there were too many to list.
pub(super) fn changed_paths(commits: &[Value]) -> Option<Vec<String>> {
    if commits.len() > COMMITS_MAX {
        return None;
    }
    let mut paths = std::collections::BTreeSet::new();
    for commit in commits {
        for kind in ["added", "modified", "removed"] {
            let listed = commit.get(kind)?.as_array().map_or(&[][..], Vec::as_slice);
            paths.extend(listed.iter().filter_map(Value::as_str).map(str::to_owned));
        }
    }
    (!paths.is_empty() && paths.len() <= PATHS_MAX).then(|| paths.into_iter().collect())
}

/// A reference that moved, as every provider tells it in some way.
pub(super) struct Push {
    pub(super) repo: String,
    /// `refs/heads/main`.
    pub(super) reference: String,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) author: String,
    pub(super) message: String,
    pub(super) url: String,
    pub(super) sender: String,
    pub(super) changed_paths: Option<Vec<String>>,
}

/// `None` for references that are neither branch nor tag.
pub(super) fn push(push: Push) -> Option<RepoEvent> {
    let (branch, kind) =
        match (push.reference.strip_prefix("refs/heads/"), push.reference.strip_prefix("refs/tags/")) {
            (Some(branch), _) => (branch, "push.heads"),
            (_, Some(tag)) => (tag, "push.tags"),
            _ => return None,
        };
    let gone = is_nothing(&push.after);
    let mut events = vec!["push".to_owned(), kind.to_owned()];
    if gone {
        // Deleting is no push of something: only who waits for exactly that hears of it.
        events = vec!["push.deleteBranch".to_owned()];
    } else if is_nothing(&push.before) && kind == "push.heads" {
        events.push("push.newBranch".to_owned());
    }
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let known = |sha: &str| if is_nothing(sha) { String::new() } else { sha.to_owned() };
    Some(RepoEvent {
        cause: format!("push:{}:{}:{}", push.reference, known(&push.before), known(&push.after)),
        repo: push.repo,
        events,
        branch: branch.to_owned(),
        sha: known(&push.after),
        author: push.author,
        message: push.message,
        url: some(push.url),
        sender: push.sender,
        changed_paths: push.changed_paths,
        ..RepoEvent::default()
    })
}

/// `pullrequest` and `pullrequest.ACTION`.
pub(super) fn pull_request_events(actions: &[&str]) -> Vec<String> {
    std::iter::once("pullrequest".to_owned())
        .chain(actions.iter().map(|action| format!("pullrequest.{action}")))
        .collect()
}

/// What triggers call an event of either Bitbucket. The spelling with a colon is theirs alone, and triggers have it too.
pub(super) fn bitbucket_names(names: &[&str], comment: bool) -> Vec<String> {
    let general = (!comment).then(|| "pullrequest".to_owned());
    let dotted = names.iter().map(|name| format!("pullrequest.{name}"));
    let own = names.iter().map(|name| format!("pullrequest:{name}"));
    general.into_iter().chain(dotted).chain(own).collect()
}
