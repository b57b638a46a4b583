//! The variables of a build: what the server sent, and what the platform says about the build itself.

use slipway_api::agent::{TakenBuild, TriggerCommit};
use slipway_pipeline::Variables;
use slipway_pipeline::system::{BuildInfo, GitInfo, PullRequestInfo};
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
    let by_webhook = taken.commit.as_ref().is_some_and(|commit| !commit.event.is_empty());
    let author = taken.commit.as_ref().map(|commit| commit.author.clone());
    let build = BuildInfo {
        build_id: taken.id.clone(),
        account: taken.account_name.clone(),
        pipeline_name: taken.pipeline_name.clone(),
        initiator: taken.initiator.clone().or(author.filter(|_| by_webhook)).unwrap_or_default(),
        by_webhook,
        created_at_ms: taken.created_ms,
        url: about.server_url.to_owned(),
        volume_name: format!("slipway-{}", taken.id),
        volume_path: VOLUME.to_owned(),
    };
    let git = taken.commit.as_ref().map(|commit| git(commit, &taken.git.base_url));
    let mut all = slipway_pipeline::system::variables(&build, git.as_ref());
    all.push(("SLIPWAY_EXECUTOR", about.executor.to_owned()));
    all
}

fn git(commit: &TriggerCommit, base_url: &str) -> GitInfo {
    let (owner, name) = commit.repo.rsplit_once('/').unwrap_or(("", &commit.repo));
    let own = || format!("{}/{}/commit/{}", base_url.trim_end_matches('/'), commit.repo, commit.sha);
    GitInfo {
        repo_owner: owner.to_owned(),
        repo_name: name.to_owned(),
        branch: commit.branch.clone(),
        revision: commit.sha.clone(),
        commit_author: commit.author.clone(),
        commit_url: commit.url.clone().unwrap_or_else(own),
        commit_message: commit.message.clone(),
        pull_request: commit.pull_request.as_ref().map(|request| PullRequestInfo {
            action: request.action.clone(),
            number: request.number.to_string(),
            target: request.target.clone(),
            title: request.title.clone(),
            labels: request.labels.clone(),
            merged: request.merged,
        }),
    }
}
