//! `slipway app create`, `set` and `delete`: an Application in Git, changed by a commit of one's own, made by the runtime.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::{Map, Value, json};
use slipway_api::Client;
use slipway_api::application::Application;
use slipway_api::declaration::{Declaration, Declared};

use super::apps::SyncPolicy;
use super::output::{OutputArguments, done};
use super::proxy;

/// Where the file is that declares the Application, and whose token commits it.
#[derive(Args, Default)]
pub(crate) struct InGit {
    /// Your Git provider: github, gitlab, gitea, bitbucket or bitbucket-server
    #[arg(long, default_value = "")]
    provider: String,
    /// Its address, https://HOST; without it, the public one
    #[arg(long, default_value = "")]
    host: String,
    /// The repository that declares it, OWNER/NAME
    #[arg(long = "in", default_value = "", value_name = "OWNER/NAME")]
    repository: String,
    /// The file in that repository
    #[arg(long, default_value = "", value_name = "PATH")]
    file: String,
    /// The branch that is committed to; without it, the default one
    #[arg(long, default_value = "")]
    branch: String,
    /// The whole id of the commit that you looked at; without it, the newest
    #[arg(long, default_value = "")]
    base: String,
    /// The message of the commit
    #[arg(short = 'm', long, default_value = "")]
    message: String,
    /// Look at everything, and commit nothing
    #[arg(long)]
    dry_run: bool,
}

impl InGit {
    /// Also by what says nothing alone: whoever gives `--dry-run` wants no change in the cluster instead.
    pub(crate) fn is_given(&self) -> bool {
        let Self { provider, host, repository, file, branch, base, message, dry_run } = self;
        *dry_run
            || [provider, host, repository, file, branch, base, message].iter().any(|text| !text.is_empty())
    }

    fn declaration(self, application: Option<Value>) -> anyhow::Result<Declaration> {
        let needed = [("--provider", &self.provider), ("--in", &self.repository), ("--file", &self.file)];
        let missing: Vec<&str> =
            needed.iter().filter(|(_, value)| value.is_empty()).map(|(name, _)| *name).collect();
        if !missing.is_empty() {
            bail!("this is a commit: say where it is declared with {}", missing.join(", "));
        }
        let Self { provider, host, repository, file, branch, base, message, dry_run } = self;
        Ok(Declaration { provider, host, repository, branch, base, file, message, application, dry_run })
    }
}

/// What an Application says; what is absent is not said.
#[derive(Args, Default)]
pub(crate) struct Said {
    /// The project
    #[arg(long)]
    project: Option<String>,
    /// The repository of its manifests or charts
    #[arg(long, value_name = "URL")]
    repo: Option<String>,
    /// The folder in that repository
    #[arg(long)]
    path: Option<String>,
    /// The chart, where the repository is one of charts
    #[arg(long)]
    chart: Option<String>,
    /// The branch, tag, commit, or version of the chart
    #[arg(long)]
    revision: Option<String>,
    /// The address of the cluster that it goes to
    #[arg(long, value_name = "URL", conflicts_with = "dest_name")]
    dest_server: Option<String>,
    /// The name of the cluster that it goes to
    #[arg(long, value_name = "NAME")]
    dest_name: Option<String>,
    /// The namespace that it goes to
    #[arg(long, value_name = "NAMESPACE")]
    dest_namespace: Option<String>,
    /// A label of the Application, as KEY=VALUE; may be given several times
    #[arg(long = "label", short = 'l', value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// An option of its syncs, such as CreateNamespace=true; all of them, where one is given
    #[arg(long = "sync-option", value_name = "NAME=VALUE")]
    sync_options: Vec<String>,
}

impl Said {
    /// What cannot be read was given, too.
    pub(crate) fn is_given(&self) -> bool {
        self.over(json!({}), false).map_or(true, |said| said != json!({}))
    }

    /// Laid over `application`. In a patch (`whole` is false) the cluster of before is taken away with the new one.
    fn over(&self, mut application: Value, whole: bool) -> anyhow::Result<Value> {
        let mut set = |path: &[&str], value: Value| {
            let mut at = &mut application;
            for name in path {
                if !at.is_object() {
                    *at = Value::Object(Map::new());
                }
                at = &mut at[*name];
            }
            *at = value;
        };
        let texts: [(&[&str], &Option<String>); 8] = [
            (&["spec", "project"], &self.project),
            (&["spec", "source", "repoURL"], &self.repo),
            (&["spec", "source", "path"], &self.path),
            (&["spec", "source", "chart"], &self.chart),
            (&["spec", "source", "targetRevision"], &self.revision),
            (&["spec", "destination", "server"], &self.dest_server),
            (&["spec", "destination", "name"], &self.dest_name),
            (&["spec", "destination", "namespace"], &self.dest_namespace),
        ];
        for (path, text) in texts {
            if let Some(text) = text {
                set(path, text.as_str().into());
            }
        }
        match (&self.dest_server, &self.dest_name) {
            (Some(_), _) if !whole => set(&["spec", "destination", "name"], Value::Null),
            (_, Some(_)) if !whole => set(&["spec", "destination", "server"], Value::Null),
            _ => {}
        }
        for label in &self.labels {
            let (key, value) =
                label.split_once('=').with_context(|| format!("`{label}` is not KEY=VALUE"))?;
            set(&["metadata", "labels", key], value.into());
        }
        if !self.sync_options.is_empty() {
            set(&["spec", "syncPolicy", "syncOptions"], json!(self.sync_options));
        }
        Ok(application)
    }
}

/// Automation, as `set` and `create` say it.
#[derive(Default)]
pub(crate) struct Automation {
    pub(crate) policy: Option<SyncPolicy>,
    pub(crate) self_heal: Option<bool>,
    pub(crate) prune: Option<bool>,
}

impl Automation {
    /// `is_automated`: it syncs by itself already. What belongs to that would turn it on where nobody asked for it.
    fn over(&self, application: &mut Value, is_automated: bool) -> anyhow::Result<()> {
        let says_more = self.self_heal.is_some() || self.prune.is_some();
        let will_be = self.policy.map_or(is_automated, |policy| policy == SyncPolicy::Automated);
        if says_more && !will_be {
            bail!(
                "--self-heal and --auto-prune are of an automated sync: give --sync-policy automated with them"
            );
        }
        if self.policy == Some(SyncPolicy::None) {
            application["spec"]["syncPolicy"]["automated"] = Value::Null;
            return Ok(());
        }
        let known = [("selfHeal", self.self_heal), ("prune", self.prune)];
        let said: BTreeMap<&str, bool> =
            known.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
        if self.policy.is_some() || !said.is_empty() {
            application["spec"]["syncPolicy"]["automated"] = json!(said);
        }
        Ok(())
    }
}

#[derive(Args)]
pub(crate) struct CreateArguments {
    /// Its name, or namespace/name; without a namespace, argocd
    name: String,
    /// The runtime that it belongs to
    #[arg(long)]
    runtime: String,
    /// A file with the Application, or - for standard input; what else is said here is laid over it
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    manifest: Option<PathBuf>,
    #[command(flatten)]
    git: InGit,
    #[command(flatten)]
    said: Said,
    /// Sync by itself when Git changes, or only when somebody asks
    #[arg(long, value_enum)]
    sync_policy: Option<SyncPolicy>,
    /// Automated sync also undoes changes made in the cluster
    #[arg(long)]
    self_heal: bool,
    /// Automated sync also deletes what is no longer in Git
    #[arg(long)]
    auto_prune: bool,
    #[command(flatten)]
    output: OutputArguments,
}

pub(crate) async fn create(client: &Client, arguments: CreateArguments) -> anyhow::Result<()> {
    let CreateArguments { name, runtime, manifest, git, said, output, .. } = arguments;
    let (namespace, name) = name.split_once('/').unwrap_or(("argocd", &name));
    let start = match &manifest {
        Some(file) => read(file)?,
        None => json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"project": "default"}}),
    };
    let mut application = said.over(start, true)?;
    let flag = |given: bool| given.then_some(true);
    let automation = Automation {
        policy: arguments.sync_policy,
        self_heal: flag(arguments.self_heal),
        prune: flag(arguments.auto_prune),
    };
    let is_automated = application["spec"]["syncPolicy"]["automated"].is_object();
    automation.over(&mut application, is_automated)?;
    if application["spec"]["syncPolicy"]["automated"].is_null()
        && let Some(policy) = application["spec"]["syncPolicy"].as_object_mut()
    {
        policy.remove("automated");
    }
    if application["spec"]["syncPolicy"].as_object().is_none_or(Map::is_empty)
        && let Some(spec) = application["spec"].as_object_mut()
    {
        spec.remove("syncPolicy");
    }
    let app = Application {
        runtime,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..Application::default()
    };
    send(client, &app, "create", git.declaration(Some(application))?, output).await
}

/// What `set` changes of what stands in Git.
fn patch(said: &Said, automation: &Automation, is_automated: bool) -> anyhow::Result<Value> {
    let mut patch = said.over(json!({}), false)?;
    automation.over(&mut patch, is_automated)?;
    if automation.policy == Some(SyncPolicy::Automated) {
        // A policy that is there and switched off would stay so.
        patch["spec"]["syncPolicy"]["automated"]["enabled"] = Value::Null;
    }
    Ok(patch)
}

/// `slipway app set` where the Application is declared in Git.
pub(crate) async fn edit(
    client: &Client,
    app: &Application,
    git: InGit,
    said: &Said,
    automation: &Automation,
    output: OutputArguments,
) -> anyhow::Result<()> {
    let patch = patch(said, automation, app.automated)?;
    send(client, app, "edit", git.declaration(Some(patch))?, output).await
}

pub(crate) async fn delete(
    client: &Client,
    app: &Application,
    git: InGit,
    output: OutputArguments,
) -> anyhow::Result<()> {
    send(client, app, "delete", git.declaration(None)?, output).await
}

async fn send(
    client: &Client,
    app: &Application,
    word: &str,
    declaration: Declaration,
    output: OutputArguments,
) -> anyhow::Result<()> {
    let file = declaration.file.clone();
    let made: Declared = proxy::order(client, app, word, &declaration).await?;
    for warning in &made.warnings {
        note!("Note: {warning}");
    }
    let short: String = made.commit.chars().take(8).collect();
    let name = format!("{}/{}", app.namespace, app.name);
    let said = match made.outcome.as_str() {
        "valid" => format!("{name}: nothing is wrong; nothing was committed"),
        "no-change" => format!("{name}: {file} says so already, at {short} of {}", made.branch),
        "first-commit" => {
            format!("{name}: {short} is the first commit of {}, by {}", made.branch, made.author)
        }
        _ => format!("{name}: {short} is on {}, by {}", made.branch, made.author),
    };
    done(output, &made, &made.commit, &said)
}

fn read(file: &PathBuf) -> anyhow::Result<Value> {
    let text = match file.to_str() {
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
        _ => std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?,
    };
    let objects = slipway_yaml::load_all_json(&text).map_err(|errors| {
        let first = errors.first().map(ToString::to_string).unwrap_or_default();
        anyhow::anyhow!("{} is no YAML: {first}", file.display())
    })?;
    match <[_; 1]>::try_from(objects) {
        Ok([(object, _)]) if object.is_object() => Ok(object),
        _ => bail!("{} has to hold one Application", file.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_says_what_was_said_and_a_new_cluster_takes_the_place_of_the_one_before() {
        let said = Said {
            revision: Some("v2".into()),
            dest_name: Some("prod".into()),
            labels: vec!["team=a".into()],
            ..Said::default()
        };
        let patch = said.over(json!({}), false).unwrap();
        let wanted = json!({"metadata": {"labels": {"team": "a"}}, "spec": {
            "destination": {"name": "prod", "server": null}, "source": {"targetRevision": "v2"}}});
        assert_eq!(patch, wanted);
        assert!(said.is_given() && !Said::default().is_given());
        let unreadable = Said { labels: vec!["team".into()], ..Said::default() };
        assert!(unreadable.is_given() && unreadable.over(json!({}), false).is_err());
        let mut patch = json!({});
        Automation { policy: Some(SyncPolicy::None), ..Automation::default() }
            .over(&mut patch, true)
            .unwrap();
        assert_eq!(patch, json!({"spec": {"syncPolicy": {"automated": null}}}));
        let mut patch = json!({});
        let heal = |policy| Automation { policy, self_heal: Some(false), ..Automation::default() };
        heal(None).over(&mut patch, true).unwrap();
        assert_eq!(patch, json!({"spec": {"syncPolicy": {"automated": {"selfHeal": false}}}}));
        // Neither dropped nor turned on in silence.
        for (policy, is_automated) in [(None, false), (Some(SyncPolicy::None), true)] {
            let error = heal(policy).over(&mut json!({}), is_automated).unwrap_err().to_string();
            assert!(error.contains("--sync-policy automated"), "{error}");
        }
        let on = super::patch(&Said::default(), &heal(Some(SyncPolicy::Automated)), false).unwrap();
        assert_eq!(on, json!({"spec": {"syncPolicy": {"automated": {"selfHeal": false, "enabled": null}}}}));
    }

    #[test]
    fn a_commit_without_a_place_is_refused() {
        let error = InGit::default().declaration(None).unwrap_err().to_string();
        assert!(error.contains("--provider, --in, --file"), "{error}");
        // Left out of account, it would be a change of the cluster.
        let dry = InGit { dry_run: true, ..InGit::default() };
        assert!(dry.is_given() && dry.declaration(None).is_err() && !InGit::default().is_given());
        assert!(InGit { message: "why".into(), ..InGit::default() }.is_given());
    }
}
