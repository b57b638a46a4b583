//! `git-clone` and `git-commit`: which repository, with which credential, where in the volume.

use std::path::PathBuf;

use serde_json::Value;
use slipway_api::agent::{GitAccess, GitIntegration};
use slipway_pipeline::spec::{self, Typed};
use slipway_pipeline::{StepKind, StepSpec};
use slipway_source::git::Remote;

use super::typed::BUILT_IN;
use super::{Place, Refusal, in_volume, script, task, working_directory};
use crate::layout::VOLUME;
use crate::task::{Builtin, Deploy, GitClone, GitCommit, Login, Run, Sandbox, Task};

/// The documented patience of a deployment.
const DEPLOY_MS: u64 = 120_000;

pub(super) fn prepare(
    step: &StepSpec,
    place: &Place<'_>,
    sandbox: Option<Sandbox>,
    owner: Option<u32>,
) -> Result<Task, Refusal> {
    let work = match &step.kind {
        StepKind::GitClone(spec) => Builtin::GitClone(clone(step, spec, place)?),
        StepKind::Typed(spec) if spec.type_name == BUILT_IN => Builtin::GitCommit(commit(step, spec, place)?),
        StepKind::Deploy(spec) => Builtin::Deploy(deploy(step, spec, place)?),
        StepKind::Typed(spec) => {
            return Err(Refusal::Unsupported(format!(
                "step type `{}` is not known to this runner, which knows `git-commit`, the account's step types and those of its --step-types folder: make a `step-type` of that name (`codefresh create -f`), or use a freestyle step",
                spec.type_name
            )));
        }
        _ => unreachable!("called for built-in steps only"),
    };
    // The sandbox expects the folder, though nothing in it is used.
    script::write(&place.at.bin(), None)?;
    Ok(task(step, place, Vec::new(), Run::Builtin { sandbox, work, owner }))
}

fn clone(step: &StepSpec, spec: &spec::GitClone, place: &Place<'_>) -> Result<GitClone, Refusal> {
    let login = spec
        .credentials
        .as_ref()
        .map(|given| Login { username: given.username.clone(), password: given.password.clone() });
    let found = locate(&spec.repo, spec.git.as_deref(), login, place.git, place.integrations)?;
    let parent = volume_directory(step)?;
    Ok(GitClone {
        into: parent.join(&found.folder),
        authority: place.authority.and_then(|authority| authority.of(&found.url)),
        url: found.url,
        login: found.login,
        revision: spec.revision.clone().filter(|revision| !revision.is_empty()),
        depth: spec.depth,
        exclude_blobs: spec.exclude_blobs,
        skip_tags: spec.skip_tags_on_update,
    })
}

fn commit(step: &StepSpec, spec: &Typed, place: &Place<'_>) -> Result<GitCommit, Refusal> {
    let text = |name: &str| {
        spec.arguments.get(name).and_then(Value::as_str).map(str::to_owned).filter(|text| !text.is_empty())
    };
    let missing =
        |name: &str| Refusal::Unsupported(format!("step `{}` needs the argument `{name}`", step.name));
    let repo = text("repo").ok_or_else(|| missing("repo"))?;
    let found = locate(&repo, text("git").as_deref(), None, place.git, place.integrations)?;
    let folder = match text("working_directory") {
        Some(path) if path.starts_with('/') => in_volume(&path).ok_or_else(|| {
            Refusal::Unsupported(format!(
                "`{path}` is not below {VOLUME}: only files of the volume can be committed"
            ))
        })?,
        Some(path) => PathBuf::from(path),
        None => match volume_directory(step)? {
            path if path.as_os_str().is_empty() => PathBuf::from(&found.folder),
            path => path,
        },
    };
    Ok(GitCommit {
        authority: place.authority.and_then(|authority| authority.of(&found.url)),
        url: found.url,
        login: found.login,
        folder,
        add: paths(spec.arguments.get("add")),
        branch: text("branch").or_else(|| text("head_branch")),
        message: text("commit_message").ok_or_else(|| missing("commit_message"))?,
        name: text("git_user_name").unwrap_or_else(|| "Slipway".to_owned()),
        email: text("git_user_email").unwrap_or_else(|| "slipway@localhost".to_owned()),
        mark: format!("{}/{}", place.build, step.id),
    })
}

/// A file of the volume, or a new image for a Deployment, in a cluster that the runner has a kubeconfig for.
fn deploy(step: &StepSpec, spec: &spec::Deploy, place: &Place<'_>) -> Result<Deploy, Refusal> {
    let refuse = |why: String| Refusal::Unsupported(format!("step `{}`: {why}", step.name));
    if spec.kind != "kubernetes" {
        return Err(refuse(format!("`kind: {}` is not known: it is `kubernetes`", spec.kind)));
    }
    let known: Vec<&str> = place.clusters.keys().map(String::as_str).collect();
    let path = place.clusters.get(&spec.cluster).ok_or_else(|| {
        refuse(format!(
            "the runner knows no cluster `{}` ({}): start it with --cluster {}=KUBECONFIG",
            spec.cluster,
            if known.is_empty() {
                "it knows none".to_owned()
            } else {
                format!("it knows {}", known.join(", "))
            },
            spec.cluster
        ))
    })?;
    let kubeconfig = std::fs::read_to_string(path)
        .map_err(|error| refuse(format!("the kubeconfig {} cannot be read: {error}", path.display())))?;
    let file =
        match &spec.file_path {
            Some(path) => Some(in_volume(path).unwrap_or(
                volume_directory(step)?.join(path.trim_start_matches("./").trim_start_matches('/')),
            )),
            None => None,
        };
    Ok(Deploy {
        cluster: spec.cluster.clone(),
        kubeconfig: Some(kubeconfig),
        namespace: spec.namespace.clone(),
        file,
        text: None,
        service: spec.service.clone(),
        image: spec.candidate_image.clone(),
        variables: place.variables.clone(),
        timeout_ms: step.timeout_ms.unwrap_or(DEPLOY_MS),
    })
}

/// `add` is one path, several with blanks between them, or a list.
fn paths(value: Option<&Value>) -> Vec<String> {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    match value {
        Some(Value::String(text)) => words(text),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
    .into_iter()
    .filter(|path| path != "." && path != "-A" && path != "--all")
    .map(|path| path.trim_start_matches("./").to_owned())
    .collect()
}

struct Located {
    url: String,
    login: Option<Login>,
    folder: String,
}

/// `owner/name` is of the built-in Git host; a whole address is taken as it is.
fn locate(
    repo: &str,
    integration: Option<&str>,
    login: Option<Login>,
    access: &GitAccess,
    integrations: &[GitIntegration],
) -> Result<Located, Refusal> {
    let refuse = |text: String| Refusal::Unsupported(text);
    let named = integration.filter(|name| !matches!(*name, "" | "builtin" | "CF-default"));
    let access = match named {
        None => access,
        Some(name) => {
            let found = integrations.iter().find(|integration| integration.name == name);
            &found
                .ok_or_else(|| {
                    let known: Vec<&str> = integrations.iter().map(|known| known.name.as_str()).collect();
                    refuse(format!(
                        "git integration `{name}` is not known here ({}): leave `git` out for the repository's own host, or add the integration to the account",
                        if known.is_empty() { "there are none".to_owned() } else { known.join(", ") }
                    ))
                })?
                .access
        }
    };
    let builtin = || Login { username: access.username.clone(), password: access.password.clone() };
    let (url, login) = if repo.contains("://") {
        // The build's own credential goes to the built-in host and to nobody else.
        let ours = repo.starts_with(&access.base_url).then(builtin);
        (repo.to_owned(), login.or(ours))
    } else {
        let name = repo.trim_matches('/').trim_end_matches(".git");
        (format!("{}/{name}.git", access.base_url.trim_end_matches('/')), login.or_else(|| Some(builtin())))
    };
    let remote = Remote::parse(&url, None).map_err(|error| refuse(error.to_string()))?;
    let folder = remote.folder().to_owned();
    if folder.is_empty() || folder.starts_with('.') {
        return Err(refuse(format!("`{repo}` is not a repository: give `owner/name` or an address")));
    }
    if url.starts_with("file:") {
        return Err(refuse(format!(
            "`{repo}` is a folder of the runner's machine: give `owner/name` or an address"
        )));
    }
    Ok(Located { url, login, folder })
}

fn volume_directory(step: &StepSpec) -> Result<PathBuf, Refusal> {
    let path = working_directory(step).unwrap_or_else(|| VOLUME.to_owned());
    in_volume(&path).ok_or_else(|| {
        Refusal::Unsupported(format!(
            "`{path}` is not below {VOLUME}: repositories can only be cloned into the volume"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> GitAccess {
        GitAccess {
            base_url: "http://127.0.0.1:8080/git/".into(),
            username: "build".into(),
            password: "secret".into(),
        }
    }

    #[test]
    fn the_builds_credential_goes_to_the_built_in_host_only() {
        let ours = locate("team/app", None, None, &access(), &[]).ok().unwrap();
        assert_eq!(
            (ours.url.as_str(), ours.folder.as_str()),
            ("http://127.0.0.1:8080/git/team/app.git", "app")
        );
        assert!(ours.login.is_some());
        assert!(
            locate("http://127.0.0.1:8080/git/team/app.git", None, None, &access(), &[])
                .ok()
                .unwrap()
                .login
                .is_some()
        );
        assert!(
            locate("https://example.org/team/app.git", None, None, &access(), &[])
                .ok()
                .unwrap()
                .login
                .is_none()
        );
        assert!(
            locate("http://127.0.0.1:8080.evil.org/git/x/y", None, None, &access(), &[])
                .ok()
                .unwrap()
                .login
                .is_none()
        );
        assert!(locate("team/app", Some("other"), None, &access(), &[]).is_err());
        let other = GitIntegration {
            name: "other".into(),
            provider: "gitea".into(),
            access: GitAccess { base_url: "https://git.example/".into(), ..access() },
        };
        let there = locate("team/app", Some("other"), None, &access(), &[other]).ok().unwrap();
        assert_eq!(there.url, "https://git.example/team/app.git");
        assert!(locate("file:///etc", None, None, &access(), &[]).is_err());
        assert!(locate("..", None, None, &access(), &[]).is_err());
    }
}
