//! The variables that the platform itself sets (`CF_*`), from what is known about the build: the one list, which every
//! runner uses.

use serde::{Deserialize, Serialize};

/// Who and what a build is, whatever started it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BuildInfo {
    pub build_id: String,
    pub account: String,
    /// `project/name`.
    pub pipeline_name: String,
    /// The person, or the service, that started it.
    pub initiator: String,
    /// A webhook rather than a person, a schedule or another build.
    pub by_webhook: bool,
    /// Milliseconds since 1970.
    pub created_at_ms: i64,
    /// Address of the platform.
    pub url: String,
    pub volume_name: String,
    pub volume_path: String,
}

/// The commit a build is for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GitInfo {
    pub repo_owner: String,
    pub repo_name: String,
    /// Branch or tag.
    pub branch: String,
    pub revision: String,
    pub commit_author: String,
    pub commit_url: String,
    pub commit_message: String,
    pub pull_request: Option<PullRequestInfo>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PullRequestInfo {
    pub action: String,
    pub number: String,
    /// The branch it asks to be merged into.
    pub target: String,
    pub title: String,
    pub labels: Vec<String>,
    pub merged: bool,
}

/// The system variables of a build. What is not known is not there, so that `${{NAME}}` stays literal and conditions
/// can tell. docs/pipelines.md lists the documented names that are never set.
pub fn variables(build: &BuildInfo, git: Option<&GitInfo>) -> Vec<(&'static str, String)> {
    let url = build.url.trim_end_matches('/');
    let mut all = vec![
        ("CI", "true".to_owned()),
        ("CF_BUILD_ID", build.build_id.clone()),
        ("CF_BUILD_URL", format!("{url}/builds/{}", build.build_id)),
        ("CF_BUILD_INITIATOR", build.initiator.clone()),
        ("CF_BUILD_TRIGGER", if build.by_webhook { "webhook" } else { "build" }.to_owned()),
        ("CF_BUILD_TIMESTAMP", build.created_at_ms.to_string()),
        ("CF_ACCOUNT", build.account.clone()),
        ("CF_PIPELINE_NAME", build.pipeline_name.clone()),
        ("CF_URL", url.to_owned()),
        ("CF_HOST_NAME", host(url).to_owned()),
        ("CF_VOLUME_NAME", build.volume_name.clone()),
        ("CF_VOLUME_PATH", build.volume_path.clone()),
    ];
    if let Some(git) = git {
        all.push(("CF_REPO_OWNER", git.repo_owner.clone()));
        all.push(("CF_REPO_NAME", git.repo_name.clone()));
        all.push(("CF_COMMIT_URL", git.commit_url.clone()));
        all.extend(of_revision(&git.revision, Some(&git.branch), &git.commit_author, &git.commit_message));
        if let Some(request) = &git.pull_request {
            all.extend(of_pull_request(request, git));
        }
    }
    all.retain(|(_, value)| !value.is_empty());
    all
}

/// What a checkout tells, also when no commit started the build.
pub fn of_revision(
    sha: &str,
    branch: Option<&str>,
    author: &str,
    message: &str,
) -> Vec<(&'static str, String)> {
    let mut all = vec![
        ("CF_REVISION", sha.to_owned()),
        ("CF_SHORT_REVISION", sha.chars().take(7).collect()),
        ("CF_COMMIT_AUTHOR", author.to_owned()),
        ("CF_COMMIT_MESSAGE", message.to_owned()),
        ("CF_COMMIT_MESSAGE_ESCAPED", escaped(message)),
    ];
    if let Some(branch) = branch {
        all.push(("CF_BRANCH", branch.to_owned()));
        all.push(("CF_BRANCH_TAG_NORMALIZED", image_tag(branch)));
        all.push(("CF_BRANCH_TAG_NORMALIZED_LOWER_CASE", image_tag(branch).to_lowercase()));
    }
    all
}

fn of_pull_request(request: &PullRequestInfo, git: &GitInfo) -> Vec<(&'static str, String)> {
    vec![
        ("CF_BASE_BRANCH", request.target.clone()),
        ("CF_PULL_REQUEST_ACTION", request.action.clone()),
        ("CF_PULL_REQUEST_ID", request.number.clone()),
        ("CF_PULL_REQUEST_NUMBER", request.number.clone()),
        ("CF_PULL_REQUEST_TARGET", request.target.clone()),
        ("CF_PULL_REQUEST_LABELS", request.labels.join(",")),
        ("CF_PULL_REQUEST_TITLE", request.title.clone()),
        ("CF_PULL_REQUEST_TITLE_ESCAPED", escaped(&request.title)),
        ("CF_PULL_REQUEST_MERGED", request.merged.to_string()),
        ("CF_PULL_REQUEST_HEAD_BRANCH", git.branch.clone()),
        ("CF_PULL_REQUEST_HEAD_COMMIT_SHA", git.revision.clone()),
    ]
}

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

/// A branch as an image tag: other characters than a tag may have become `_`.
pub fn image_tag(branch: &str) -> String {
    const TAG_CHARS_MAX: usize = 128;
    let tag: String = branch
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '_' })
        .take(TAG_CHARS_MAX)
        .collect();
    match tag.strip_prefix(['.', '-']) {
        Some(rest) => format!("_{rest}"),
        None => tag,
    }
}

/// On one line, with a backslash before what a shell would read.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => {}
            '"' | '\'' | '\\' | '`' | '$' | '!' | '&' | '|' | ';' | '<' | '>' | '(' | ')' | '{' | '}'
            | '*' | '?' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_set_and_the_rest_is_not() {
        let build = BuildInfo {
            build_id: "65f0".to_owned(),
            by_webhook: true,
            initiator: "ada".to_owned(),
            url: "https://ci.example.org/".to_owned(),
            ..BuildInfo::default()
        };
        let git = GitInfo {
            branch: "Feature/New#1".to_owned(),
            revision: "0123456789abcdef".to_owned(),
            commit_message: "say \"hi\"\nand go".to_owned(),
            ..GitInfo::default()
        };
        let all = variables(&build, Some(&git));
        let get = |name: &str| all.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
        for (name, value) in [
            ("CI", "true"),
            ("CF_BUILD_ID", "65f0"),
            ("CF_BUILD_URL", "https://ci.example.org/builds/65f0"),
            ("CF_BUILD_INITIATOR", "ada"),
            ("CF_BUILD_TRIGGER", "webhook"),
            ("CF_HOST_NAME", "ci.example.org"),
            ("CF_BRANCH", "Feature/New#1"),
            ("CF_BRANCH_TAG_NORMALIZED", "Feature_New_1"),
            ("CF_BRANCH_TAG_NORMALIZED_LOWER_CASE", "feature_new_1"),
            ("CF_SHORT_REVISION", "0123456"),
            ("CF_COMMIT_MESSAGE_ESCAPED", "say \\\"hi\\\"\\nand go"),
        ] {
            assert_eq!(get(name), Some(value), "{name}");
        }
        assert_eq!(get("CF_PULL_REQUEST_ID"), None);
        assert_eq!(get("CF_REPO_NAME"), None);
    }

    #[test]
    fn tags_are_always_tags() {
        assert_eq!(image_tag("-x/é"), "_x__");
        assert_eq!(image_tag(&"a".repeat(200)).len(), 128);
    }
}
