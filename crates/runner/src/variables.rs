//! The variables of a build: what the server sent, and what the platform says about the build itself.

use slipway_api::agent::{PullRequest, TakenBuild, TriggerCommit};
use slipway_pipeline::Variables;
use slipway_pipeline::variables::Layer;

use crate::layout::VOLUME;

/// What the platform knows about itself.
pub(crate) struct About<'a> {
    pub(crate) server_url: &'a str,
    pub(crate) executor: &'a str,
}

/// The variables, and a sentence for each one that was refused.
pub(crate) fn variables(taken: &TakenBuild, about: &About<'_>) -> (Variables, Vec<String>) {
    let mut variables = Variables::default();
    let mut refused = Vec::new();
    for (name, value) in system(taken, about) {
        variables.set(Layer::System, name, value);
    }
    for layer in &taken.variables {
        let which = layer_of(&layer.name);
        for variable in &layer.variables {
            match variables.try_set(which, variable.key.as_str(), variable.value.as_str()) {
                Ok(()) if variable.encrypted => variables.encrypt(variable.key.as_str()),
                Ok(()) => {}
                Err(error) => refused.push(error.to_string()),
            }
        }
    }
    (variables, refused)
}

/// Everything that must not be shown, for the masker.
pub(crate) fn secrets(variables: &Variables, taken: &TakenBuild) -> Vec<String> {
    let mut secrets = vec![taken.git.password.clone()];
    secrets.extend(taken.integrations.iter().map(|integration| integration.access.password.clone()));
    secrets.extend(taken.registries.iter().map(|registry| registry.password.clone()));
    for (_, values) in variables.layers() {
        secrets.extend(
            values.iter().filter(|(name, _)| variables.is_encrypted(name)).map(|(_, value)| value.clone()),
        );
    }
    secrets
}

fn layer_of(name: &str) -> Layer {
    let name = name.to_ascii_lowercase();
    let has = |word: &str| name.contains(word);
    if has("project") {
        Layer::Project
    } else if has("shared") || has("context") {
        Layer::SharedConfig
    } else if has("trigger") {
        Layer::Trigger
    } else if has("run") || has("build") {
        Layer::BuildRun
    } else {
        Layer::Pipeline
    }
}

fn system(taken: &TakenBuild, about: &About<'_>) -> Vec<(&'static str, String)> {
    let url = about.server_url.trim_end_matches('/');
    let trigger = if taken.commit.is_some() { "webhook" } else { "build" };
    let mut all = vec![
        ("CI", "true".to_owned()),
        ("CF_BUILD_ID", taken.id.clone()),
        ("CF_BUILD_TIMESTAMP", taken.created_ms.to_string()),
        ("CF_BUILD_TRIGGER", trigger.to_owned()),
        ("CF_BUILD_URL", format!("{url}/build/{}", taken.id)),
        ("CF_URL", url.to_owned()),
        ("CF_HOST_NAME", host(url).to_owned()),
        ("CF_ACCOUNT", taken.account_name.clone()),
        ("CF_PIPELINE_NAME", taken.pipeline_name.clone()),
        ("CF_VOLUME_NAME", format!("slipway-{}", taken.id)),
        ("CF_VOLUME_PATH", VOLUME.to_owned()),
        ("SLIPWAY_EXECUTOR", about.executor.to_owned()),
    ];
    if let Some(commit) = &taken.commit {
        all.extend(of_commit(commit, &taken.git.base_url));
    }
    all
}

fn of_commit(commit: &TriggerCommit, git: &str) -> Vec<(&'static str, String)> {
    let (owner, name) = commit.repo.rsplit_once('/').unwrap_or(("", &commit.repo));
    let mut all = vec![
        ("CF_REPO_OWNER", owner.to_owned()),
        ("CF_REPO_NAME", name.to_owned()),
        ("CF_COMMIT_URL", format!("{}/{}/commit/{}", git.trim_end_matches('/'), commit.repo, commit.sha)),
        ("CF_BUILD_INITIATOR", commit.author.clone()),
    ];
    all.extend(of_revision(&commit.sha, Some(&commit.branch), &commit.author, &commit.message));
    if let Some(url) = &commit.url {
        all.push(("CF_COMMIT_URL", url.clone()));
    }
    if let Some(request) = &commit.pull_request {
        all.extend(of_pull_request(request, commit));
    }
    all
}

fn of_pull_request(request: &PullRequest, commit: &TriggerCommit) -> Vec<(&'static str, String)> {
    vec![
        ("CF_BASE_BRANCH", request.target.clone()),
        ("CF_PULL_REQUEST_ACTION", request.action.clone()),
        ("CF_PULL_REQUEST_ID", request.number.to_string()),
        ("CF_PULL_REQUEST_NUMBER", request.number.to_string()),
        ("CF_PULL_REQUEST_TARGET", request.target.clone()),
        ("CF_PULL_REQUEST_LABELS", request.labels.join(",")),
        ("CF_PULL_REQUEST_TITLE", request.title.clone()),
        ("CF_PULL_REQUEST_TITLE_ESCAPED", escaped(&request.title)),
        ("CF_PULL_REQUEST_MERGED", request.merged.to_string()),
        ("CF_PULL_REQUEST_HEAD_BRANCH", commit.branch.clone()),
        ("CF_PULL_REQUEST_HEAD_COMMIT_SHA", commit.sha.clone()),
    ]
}

/// What a checkout tells, also when no commit started the build.
pub(crate) fn of_revision(
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
        let normal = normalized(branch);
        all.push(("CF_BRANCH", branch.to_owned()));
        all.push(("CF_BRANCH_TAG_NORMALIZED_LOWER_CASE", normal.to_lowercase()));
        all.push(("CF_BRANCH_TAG_NORMALIZED", normal));
    }
    all
}

/// A branch as a tag of an image.
fn normalized(branch: &str) -> String {
    branch.chars().map(|c| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' }).collect()
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '"' | '\'' | '\\' | '$' | '`' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}
