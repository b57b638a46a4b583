//! Pull requests as calls: opened, merged, closed. Promotions make them; who may do so is the provider's to say.

use serde_json::{Value, json};
use slipway_dialect::percent::encode;

use super::call::{Answer, Call, CallError};
use super::{Provider, bitbucket_server};

/// A pull request that is to be opened, from a branch of the same repository.
#[derive(Debug, Clone)]
pub struct NewPullRequest<'a> {
    pub title: &'a str,
    pub body: &'a str,
    pub branch: &'a str,
    pub target: &'a str,
}

/// One that is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenedPullRequest {
    pub number: i64,
    /// Bitbucket Server changes a pull request only for those who have seen its newest version.
    pub version: i64,
    pub url: String,
    /// The commit that it would bring.
    pub head_sha: String,
}

impl Provider {
    pub fn open_pull_request(self, repo: &str, new: &NewPullRequest<'_>) -> Call {
        let NewPullRequest { title, body, branch, target } = new;
        let (path, body) = match self {
            Self::GitHub | Self::Gitea => (
                format!("/repos/{repo}/pulls"),
                json!({"title": title, "body": body, "head": branch, "base": target}),
            ),
            Self::GitLab => (
                format!("/projects/{}/merge_requests", encode(repo)),
                json!({"title": title, "description": body, "source_branch": branch, "target_branch": target}),
            ),
            Self::BitbucketCloud => (
                format!("/repositories/{repo}/pullrequests"),
                json!({"title": title, "description": body,
                    "source": {"branch": {"name": branch}}, "destination": {"branch": {"name": target}}}),
            ),
            Self::BitbucketServer => (
                format!("{}/pull-requests", bitbucket_server::place(repo)),
                json!({"title": title, "description": body,
                    "fromRef": {"id": format!("refs/heads/{branch}")},
                    "toRef": {"id": format!("refs/heads/{target}")}}),
            ),
        };
        Call::post(path, body)
    }

    /// What was opened, or what an API says of one.
    pub fn read_opened(self, answer: &Answer) -> Result<OpenedPullRequest, CallError> {
        let value = self.json(answer)?;
        let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (number, url, sha) = match self {
            Self::GitHub | Self::Gitea => ("/number", "/html_url", "/head/sha"),
            Self::GitLab => ("/iid", "/web_url", "/sha"),
            Self::BitbucketCloud => ("/id", "/links/html/href", "/source/commit/hash"),
            Self::BitbucketServer => ("/id", "/links/self/0/href", "/fromRef/latestCommit"),
        };
        Ok(OpenedPullRequest {
            number: value.pointer(number).and_then(Value::as_i64).ok_or(self.unexpected())?,
            version: value.pointer("/version").and_then(Value::as_i64).unwrap_or_default(),
            url: text(url),
            head_sha: text(sha),
        })
    }

    /// With a commit of its own. Where the provider can say so, only while the branch is at the commit that was seen.
    pub fn merge_pull_request(self, repo: &str, seen: &OpenedPullRequest) -> Call {
        let OpenedPullRequest { number, version, head_sha, .. } = seen;
        let with = |method, path, body| Call { method, ..Call::post(path, body) };
        match self {
            Self::GitHub => with(
                "PUT",
                format!("/repos/{repo}/pulls/{number}/merge"),
                json!({"merge_method": "merge", "sha": head_sha}),
            ),
            Self::Gitea => with(
                "POST",
                format!("/repos/{repo}/pulls/{number}/merge"),
                json!({"Do": "merge", "head_commit_id": head_sha}),
            ),
            Self::GitLab => with(
                "PUT",
                format!("/projects/{}/merge_requests/{number}/merge", encode(repo)),
                json!({"sha": head_sha}),
            ),
            Self::BitbucketCloud => with(
                "POST",
                format!("/repositories/{repo}/pullrequests/{number}/merge"),
                json!({"merge_strategy": "merge_commit"}),
            ),
            Self::BitbucketServer => with(
                "POST",
                format!("{}/pull-requests/{number}/merge?version={version}", bitbucket_server::place(repo)),
                json!({}),
            ),
        }
    }

    /// Without merging it. Its branch stays.
    pub fn close_pull_request(self, repo: &str, seen: &OpenedPullRequest) -> Call {
        let OpenedPullRequest { number, version, .. } = seen;
        let with = |method, path, body| Call { method, ..Call::post(path, body) };
        match self {
            Self::GitHub | Self::Gitea => {
                with("PATCH", format!("/repos/{repo}/pulls/{number}"), json!({"state": "closed"}))
            }
            Self::GitLab => with(
                "PUT",
                format!("/projects/{}/merge_requests/{number}", encode(repo)),
                json!({"state_event": "close"}),
            ),
            Self::BitbucketCloud => {
                with("POST", format!("/repositories/{repo}/pullrequests/{number}/decline"), json!({}))
            }
            Self::BitbucketServer => with(
                "POST",
                format!("{}/pull-requests/{number}/decline?version={version}", bitbucket_server::place(repo)),
                json!({}),
            ),
        }
    }
}
