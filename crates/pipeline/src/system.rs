//! The variables that the platform itself sets (`CF_*`), from what is known about the build.

use serde::{Deserialize, Serialize};

use crate::variables::{Layer, Variables};

/// Who and what a build is, whatever started it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BuildInfo {
    pub build_id: String,
    pub build_url: String,
    pub account: String,
    /// `project/name`.
    pub pipeline_name: String,
    /// The person, or the service, that started it.
    pub initiator: String,
    /// A webhook rather than a person, a schedule or another build.
    pub by_webhook: bool,
    /// Milliseconds since 1970.
    pub started_at_ms: i64,
    /// Address of the platform.
    pub url: String,
    pub volume_name: String,
}

/// The commit a build is for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GitInfo {
    pub repo_owner: String,
    pub repo_name: String,
    /// Branch or tag.
    pub branch: String,
    pub base_branch: Option<String>,
    pub revision: String,
    pub commit_author: String,
    pub commit_url: String,
    pub commit_message: String,
    pub gerrit_change_topic: Option<String>,
    pub pull_request: Option<PullRequestInfo>,
    pub release: Option<ReleaseInfo>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PullRequestInfo {
    pub action: String,
    pub id: String,
    pub number: String,
    /// The branch it asks to be merged into.
    pub target: String,
    pub title: String,
    pub labels: Vec<String>,
    pub head_branch: String,
    pub head_commit_sha: String,
    pub merged: bool,
    pub merged_commit_sha: Option<String>,
    pub comment: Option<String>,
    pub comment_author: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReleaseInfo {
    pub id: String,
    pub name: String,
    pub tag: String,
    pub prerelease: bool,
}

const VOLUME_PATH: &str = "/codefresh/volume";
const KUBECONFIG_PATH: &str = "/codefresh/volume/sensitive/.kube/config";

/// Sets the system layer. What is not known is not set, so that `${{NAME}}` stays literal and
/// conditions can tell.
pub fn set_system_variables(variables: &mut Variables, build: &BuildInfo, git: Option<&GitInfo>) {
    let mut set = |name: &str, value: &str| {
        if !value.is_empty() {
            variables.set(Layer::System, name, value);
        }
    };
    set("CI", "true");
    set("CF_BUILD_ID", &build.build_id);
    set("CF_BUILD_URL", &build.build_url);
    set("CF_BUILD_INITIATOR", &build.initiator);
    set("CF_BUILD_TRIGGER", if build.by_webhook { "webhook" } else { "build" });
    set("CF_BUILD_TIMESTAMP", &build.started_at_ms.to_string());
    set("CF_ACCOUNT", &build.account);
    set("CF_PIPELINE_NAME", &build.pipeline_name);
    set("CF_URL", &build.url);
    set("CF_VOLUME_NAME", &build.volume_name);
    set("CF_VOLUME_PATH", VOLUME_PATH);
    set("CF_KUBECONFIG_PATH", KUBECONFIG_PATH);
    let Some(git) = git else { return };
    set("CF_REPO_OWNER", &git.repo_owner);
    set("CF_REPO_NAME", &git.repo_name);
    set("CF_BRANCH", &git.branch);
    set("CF_BRANCH_TAG_NORMALIZED", &image_tag(&git.branch));
    set("CF_BRANCH_TAG_NORMALIZED_LOWER_CASE", &image_tag(&git.branch).to_lowercase());
    set("CF_REVISION", &git.revision);
    set("CF_SHORT_REVISION", &git.revision.chars().take(7).collect::<String>());
    set("CF_COMMIT_AUTHOR", &git.commit_author);
    set("CF_COMMIT_URL", &git.commit_url);
    set("CF_COMMIT_MESSAGE", &git.commit_message);
    set("CF_COMMIT_MESSAGE_ESCAPED", &escaped(&git.commit_message));
    set("CF_BASE_BRANCH", git.base_branch.as_deref().unwrap_or_default());
    set("CF_GERRIT_CHANGE_TOPIC", git.gerrit_change_topic.as_deref().unwrap_or_default());
    if let Some(request) = &git.pull_request {
        set("CF_PULL_REQUEST_ACTION", &request.action);
        set("CF_PULL_REQUEST_ID", &request.id);
        set("CF_PULL_REQUEST_NUMBER", &request.number);
        set("CF_PULL_REQUEST_TARGET", &request.target);
        set("CF_PULL_REQUEST_TITLE", &request.title);
        set("CF_PULL_REQUEST_TITLE_ESCAPED", &escaped(&request.title));
        set("CF_PULL_REQUEST_LABELS", &request.labels.join(","));
        set("CF_PULL_REQUEST_HEAD_BRANCH", &request.head_branch);
        set("CF_PULL_REQUEST_HEAD_COMMIT_SHA", &request.head_commit_sha);
        set("CF_PULL_REQUEST_MERGED", if request.merged { "true" } else { "false" });
        set("CF_PULL_REQUEST_MERGED_COMMIT_SHA", request.merged_commit_sha.as_deref().unwrap_or_default());
        set("CF_PULL_REQUEST_COMMENT", request.comment.as_deref().unwrap_or_default());
        set("CF_PULL_REQUEST_COMMENT_AUTHOR", request.comment_author.as_deref().unwrap_or_default());
    }
    if let Some(release) = &git.release {
        set("CF_RELEASE_ID", &release.id);
        set("CF_RELEASE_NAME", &release.name);
        set("CF_RELEASE_TAG", &release.tag);
        set("CF_PRERELEASE_FLAG", if release.prerelease { "true" } else { "false" });
    }
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
        let mut variables = Variables::default();
        let build = BuildInfo { build_id: "65f0".to_owned(), by_webhook: true, ..BuildInfo::default() };
        let git = GitInfo {
            branch: "Feature/New#1".to_owned(),
            revision: "0123456789abcdef".to_owned(),
            commit_message: "say \"hi\"\nand go".to_owned(),
            ..GitInfo::default()
        };
        set_system_variables(&mut variables, &build, Some(&git));
        for (name, value) in [
            ("CI", "true"),
            ("CF_BUILD_ID", "65f0"),
            ("CF_BUILD_TRIGGER", "webhook"),
            ("CF_BRANCH", "Feature/New#1"),
            ("CF_BRANCH_TAG_NORMALIZED", "Feature_New_1"),
            ("CF_BRANCH_TAG_NORMALIZED_LOWER_CASE", "feature_new_1"),
            ("CF_SHORT_REVISION", "0123456"),
            ("CF_COMMIT_MESSAGE_ESCAPED", "say \\\"hi\\\"\\nand go"),
        ] {
            assert_eq!(variables.get(name), Some(value), "{name}");
        }
        assert_eq!(variables.get("CF_PULL_REQUEST_ID"), None);
        assert_eq!(variables.get("CF_RELEASE_TAG"), None);
    }

    #[test]
    fn tags_are_always_tags() {
        assert_eq!(image_tag("-x/é"), "_x__");
        assert_eq!(image_tag(&"a".repeat(200)).len(), 128);
    }
}
