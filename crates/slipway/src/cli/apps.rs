//! Applications: what the control plane knows of them, and what their runtime's app-proxy does with them.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use slipway_api::Client;
use slipway_api::application::{
    ActionRequest, Application, ApplicationDiff, ApplicationList, ApplicationPlan, ApplicationRow,
    ResourceAction, ResourceActions, ResourceNode, SyncPolicyRequest,
};
use slipway_api::proxy::{DeletePropagation, DeleteResourceRequest};
use slipway_model::Word;

use super::app_declare::{Automation, CreateArguments, InGit, Said};
use super::app_exec::ExecArguments;
use super::app_list::ListFilter;
use super::app_logs::LogsArguments;
use super::app_objects::{EventsArguments, ManifestsArguments, ResourcesArguments};
use super::output::{Format, OutputArguments, done, print, print_one};
use super::watch::WatchArguments;
use super::{app_declare, app_exec, app_list, app_logs, app_objects, app_sync, app_wait, context, proxy};

#[derive(Args)]
pub(crate) struct Name {
    /// Its name, or namespace/name
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SyncPolicy {
    Automated,
    /// Only when somebody asks
    #[value(alias = "manual")]
    None,
}

#[derive(Subcommand)]
pub(crate) enum ActionsCommand {
    /// List the actions that there are for a resource
    List {
        #[command(flatten)]
        app: Name,
        /// The resource as KIND/NAME, or as NAMESPACE/KIND/NAME where several have that name
        resource: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Run an action on a resource
    Run {
        #[command(flatten)]
        app: Name,
        /// The resource as KIND/NAME, or as NAMESPACE/KIND/NAME where several have that name
        resource: String,
        /// restart, pause, resume, scale, …
        action: String,
        /// A parameter of the action, as name=value; may be given several times
        #[arg(long = "param")]
        parameters: Vec<String>,
        #[command(flatten)]
        output: OutputArguments,
    },
}

#[derive(Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Propagation {
    /// What it owns is deleted first
    #[default]
    Foreground,
    /// What it owns is deleted afterwards
    Background,
    /// What it owns stays
    Orphan,
}

#[derive(Args)]
pub(crate) struct DeleteResourceArguments {
    #[command(flatten)]
    app: Name,
    /// The resource as KIND/NAME, or as NAMESPACE/KIND/NAME where several have that name
    resource: String,
    /// What becomes of what it owns
    #[arg(long, value_enum, default_value_t)]
    propagation: Propagation,
    /// Leave what it owns where it is: the same as --propagation orphan
    #[arg(long, conflicts_with = "propagation")]
    orphan: bool,
    /// Do not wait for its pods to end in order
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Subcommand)]
pub(crate) enum AppCommand {
    /// List Applications
    List {
        #[command(flatten)]
        filter: ListFilter,
        #[command(flatten)]
        output: OutputArguments,
        #[command(flatten)]
        watch: WatchArguments,
    },
    /// Show an Application
    Get {
        #[command(flatten)]
        app: Name,
        #[command(flatten)]
        output: OutputArguments,
        #[command(flatten)]
        watch: WatchArguments,
    },
    /// What a sync would do now, in order, and why
    Plan {
        #[command(flatten)]
        app: Name,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Show the differences between Git and the cluster: exit 1 when there are any
    Diff {
        #[command(flatten)]
        app: Name,
        /// What a rollback to this deployment of `history` would change, instead
        #[arg(long, value_name = "ID")]
        deployment: Option<i64>,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Show the tree of its resources
    Tree {
        #[command(flatten)]
        app: Name,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Print its manifests as YAML: what Git says, or with --live what is in the cluster; Secrets are masked
    Manifests(ManifestsArguments),
    /// List what was noted about it and its resources, newest first
    Events(EventsArguments),
    /// List its resources as they are now, one a line
    Resources(ResourcesArguments),
    /// List what was deployed when, and by whom
    History {
        #[command(flatten)]
        app: Name,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Declare a new Application in Git, by a commit of your own: everything that it names is looked at before
    Create(Box<CreateArguments>),
    /// Delete an Application from Git, by a commit of your own
    Delete {
        #[command(flatten)]
        app: Name,
        #[command(flatten)]
        git: InGit,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Change how it is synced; with --in and --file, what Git says of it, by a commit of your own
    Set {
        #[command(flatten)]
        app: Name,
        #[command(flatten)]
        git: Box<InGit>,
        #[command(flatten)]
        said: Box<Said>,
        /// Sync by itself when Git changes, or only when somebody asks
        #[arg(long, value_enum)]
        sync_policy: Option<SyncPolicy>,
        /// Automated sync also undoes changes made in the cluster
        #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
        self_heal: Option<bool>,
        /// Automated sync also deletes what is no longer in Git
        #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
        auto_prune: Option<bool>,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Sync it now. On a terminal it waits until the sync is over, and fails if the sync does
    Sync(Box<app_sync::SyncArguments>),
    /// Compare it with Git again now
    Refresh {
        #[command(flatten)]
        app: Name,
        /// Render again, without any cache
        #[arg(long)]
        hard: bool,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Go back to a deployment of `history`
    Rollback {
        #[command(flatten)]
        app: Name,
        /// Its number
        id: i64,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Print what its pods print
    Logs(LogsArguments),
    /// Delete one of its resources in the cluster; if it is in Git, the next sync makes it again
    DeleteResource(DeleteResourceArguments),
    /// List or run actions on its resources
    #[command(subcommand)]
    Actions(ActionsCommand),
    /// Run a command in a container of one of its pods; needs a rule that allows EXEC_TO_POD, or the Administrator role
    Exec(ExecArguments),
    /// Run an action on one of its resources; without an action, list those that there are
    Action {
        #[command(flatten)]
        app: Name,
        /// The resource as KIND/NAME, or as NAMESPACE/KIND/NAME where several have that name
        resource: String,
        /// restart, pause, resume, scale, …
        action: Option<String>,
        /// A parameter of the action, as name=value; may be given several times
        #[arg(long = "param")]
        parameters: Vec<String>,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Stop a sync that is under way
    Terminate {
        #[command(flatten)]
        app: Name,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Wait until no sync is pending or running, and it is Synced and Healthy
    Wait {
        #[command(flatten)]
        app: Name,
        /// Wait for this commit (or the beginning of its id), which the runtime may not have heard of yet
        #[arg(long, value_parser = app_wait::commit)]
        revision: Option<String>,
        /// Stop waiting after this long: seconds, or 90s, 5m, 1h
        #[arg(long, default_value = "300", value_parser = app_wait::patience)]
        timeout: Duration,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Render the manifests of an Application from a folder, offline, as the engine renders them
    Render {
        /// The Application's manifest, or - for standard input
        #[arg(short = 'f', long = "filename")]
        file: PathBuf,
        /// The work tree of its repository
        #[arg(long, default_value = ".")]
        repo: PathBuf,
        /// What charts are told of the cluster
        #[arg(long, default_value = "")]
        kube_version: String,
        /// An API version that the cluster serves; may be given several times
        #[arg(long = "api-versions")]
        api_versions: Vec<String>,
        /// A manifest of the ConfigMap argocd-cm, for its Kustomize settings
        #[arg(long)]
        settings: Option<PathBuf>,
        /// A folder with helm, kustomize and jsonnet; searched before PATH
        #[arg(long)]
        tools: Vec<PathBuf>,
    },
    /// Judge the health of objects in a file, offline
    Health {
        /// A file of Kubernetes objects, or - for standard input
        #[arg(short = 'f', long = "filename")]
        file: PathBuf,
        #[command(flatten)]
        output: OutputArguments,
    },
}

pub(crate) async fn run(command: AppCommand) -> anyhow::Result<ExitCode> {
    if let AppCommand::Health { file, output } = &command {
        return super::offline::health(file, output.output);
    }
    if let AppCommand::Render { file, repo, kube_version, api_versions, settings, tools } = command {
        return super::render::run(&file, repo, kube_version, api_versions, settings, tools).await;
    }
    let client = context::client()?;
    match command {
        AppCommand::List { filter, output, watch } if watch.watch => {
            app_list::watch(&client, &filter, output).await?;
        }
        AppCommand::List { filter, output, .. } => app_list::list(&client, &filter, output).await?,
        AppCommand::Get { app, output, watch } => {
            let app = find(&client, &app).await?;
            if watch.watch {
                return follow(&client, &app, output.output).await;
            }
            print_one(output.output, &app, &format!("{}/{}", app.namespace, app.name), || {
                show(&app);
                Ok(())
            })?;
        }
        AppCommand::Plan { app, output } => {
            let plan: ApplicationPlan = proxy::look(&client, &find(&client, &app).await?, "plan").await?;
            print_one(output.output, &plan, "", || {
                say_part!("{}", plan.text);
                Ok(())
            })?;
        }
        AppCommand::Diff { app, deployment, output } => {
            return diff(&client, &find(&client, &app).await?, deployment, output.output).await;
        }
        AppCommand::Tree { app, output } => {
            let app = find(&client, &app).await?;
            print_one(output.output, &app.resources, &app.name, || {
                tree(&app.resources, "", 0);
                Ok(())
            })?;
        }
        AppCommand::Manifests(wish) => {
            app_objects::manifests(&client, &find(&client, &wish.app).await?, &wish).await?;
        }
        AppCommand::Events(wish) => {
            app_objects::events(&client, &find(&client, &wish.app).await?, &wish).await?;
        }
        AppCommand::Resources(wish) => {
            app_objects::resources(&client, &find(&client, &wish.app).await?, &wish).await?;
        }
        AppCommand::Create(arguments) => app_declare::create(&client, *arguments).await?,
        AppCommand::Delete { app, git, output } => {
            app_declare::delete(&client, &find(&client, &app).await?, git, output).await?;
        }
        AppCommand::Set { app, git, said, sync_policy, self_heal, auto_prune, output } => {
            let nothing = sync_policy.is_none() && self_heal.is_none() && auto_prune.is_none();
            if nothing && !said.is_given() {
                bail!(
                    "nothing to change: give --sync-policy, --self-heal, --auto-prune, --revision or another of what an Application says"
                );
            }
            if said.is_given() || git.is_given() {
                let automation = Automation { policy: sync_policy, self_heal, prune: auto_prune };
                let app = find(&client, &app).await?;
                app_declare::edit(&client, &app, *git, &said, &automation, output).await?;
                return Ok(ExitCode::SUCCESS);
            }
            let automated = sync_policy.map(|policy| policy == SyncPolicy::Automated);
            let body = SyncPolicyRequest { automated, self_heal, prune: auto_prune };
            order(&client, &app, "sync-policy", &serde_json::to_value(&body)?, output).await?;
        }
        AppCommand::History { app, output } => {
            let app = find(&client, &app).await?;
            let row = |entry: &slipway_api::application::Deployment| {
                let sha = entry.revision.sha.chars().take(8).collect();
                let message = super::output::short(&entry.revision.message);
                vec![
                    entry.id.to_string(),
                    super::output::when(&entry.deployed_at),
                    took(entry),
                    sha,
                    entry.revision.author.clone(),
                    entry.initiated_by.clone(),
                    entry.why.clone(),
                    entry.image_changes.iter().map(replaced).collect::<Vec<_>>().join("; "),
                    message,
                ]
            };
            print(
                output.output,
                &app.history,
                &["ID", "DEPLOYED", "DURATION", "REVISION", "AUTHOR", "BY", "WHY", "IMAGES", "MESSAGE"],
                row,
                "It was never synced.",
            )?;
        }
        AppCommand::Sync(arguments) => {
            return app_sync::run(&client, &find(&client, &arguments.app).await?, &arguments).await;
        }
        AppCommand::Refresh { app, hard, output } => {
            order(&client, &app, "refresh", &json!({"hard": hard}), output).await?;
        }
        AppCommand::Rollback { app, id, output } => {
            order(&client, &app, "rollback", &json!({"id": id}), output).await?;
        }
        AppCommand::Action { app, resource, action, parameters, output } => {
            act(&client, &find(&client, &app).await?, &resource, action, &parameters, output).await?;
        }
        AppCommand::Actions(ActionsCommand::List { app, resource, output }) => {
            act(&client, &find(&client, &app).await?, &resource, None, &[], output).await?;
        }
        AppCommand::Actions(ActionsCommand::Run { app, resource, action, parameters, output }) => {
            act(&client, &find(&client, &app).await?, &resource, Some(action), &parameters, output).await?;
        }
        AppCommand::Logs(arguments) => {
            return app_logs::run(&client, &find(&client, &arguments.app).await?, &arguments).await;
        }
        AppCommand::DeleteResource(arguments) => {
            delete(&client, &find(&client, &arguments.app).await?, &arguments).await?;
        }
        AppCommand::Exec(arguments) => {
            return app_exec::run(&client, &find(&client, &arguments.app).await?, &arguments).await;
        }
        AppCommand::Terminate { app, output } => {
            order(&client, &app, "terminate", &json!({}), output).await?;
        }
        AppCommand::Wait { app, revision, timeout, output } => {
            let app = find(&client, &app).await?;
            return app_wait::wait(&client, &app, revision.as_deref(), timeout, output).await;
        }
        AppCommand::Health { .. } | AppCommand::Render { .. } => unreachable!("answered offline"),
    }
    Ok(ExitCode::SUCCESS)
}

async fn find(client: &Client, wanted: &Name) -> anyhow::Result<Application> {
    let (namespace, name) = match wanted.name.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, wanted.name.as_str()),
    };
    let asked = format!("/api/applications?name={}", super::nouns::part(name));
    let mut found = client.get::<ApplicationList>(&asked).await?.applications;
    found.retain(|app| namespace.is_none_or(|namespace| app.namespace == namespace));
    match found.len() {
        1 => {
            let ApplicationRow { runtime, namespace, name, .. } = &found[0];
            let path = [runtime, namespace, name].map(|part| super::nouns::part(part)).join("/");
            Ok(client.get(&format!("/api/applications/{path}")).await?)
        }
        0 => bail!("could not find application `{}`: `slipway app list` shows them", wanted.name),
        _ => bail!("there are several applications `{name}`: say namespace/name"),
    }
}

async fn order(
    client: &Client,
    name: &Name,
    what: &str,
    body: &Value,
    output: OutputArguments,
) -> anyhow::Result<()> {
    let app = find(client, name).await?;
    let answer: Value = proxy::order(client, &app, what, body).await?;
    // What the runtime did is more than what was asked for: a rollback also switches automated sync off.
    let said = answer["message"].as_str().unwrap_or("done");
    let mut letters = said.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    let sentence = format!("{}: {first}{}", app.name, letters.as_str());
    done(output, &answer, &app.name, &sentence)
}

/// `web 1 → 2`; `web 2` where it was not there before.
fn replaced(change: &slipway_api::application::ImageChange) -> String {
    let (name, after) = (&change.image, change.after.join(", "));
    match change.before.join(", ").as_str() {
        "" => format!("{name} {after}"),
        before => format!("{name} {before} → {after}"),
    }
}

/// How long a deployment took, in seconds; nothing where the runtime did not say when it began.
fn took(deployment: &slipway_api::application::Deployment) -> String {
    let time = |text: &str| text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second);
    match (deployment.started_at.as_deref().and_then(time), time(&deployment.deployed_at)) {
        (Some(began), Some(ended)) => format!("{}s", (ended - began).max(0)),
        _ => String::new(),
    }
}

/// Shows it now and after each change, until interrupted.
async fn follow(client: &Client, app: &Application, format: Format) -> anyhow::Result<ExitCode> {
    let mut following = app_wait::Following::start(client, app).await?;
    let mut shown = None;
    loop {
        let app = following.now().await?;
        if shown.as_ref() != Some(&app) {
            match format {
                // One object per line, so that a program knows where each ends.
                Format::Json => say!("{}", serde_json::to_string(&app)?),
                Format::Yaml => say_part!("---\n{}", slipway_yaml::to_yaml(&serde_json::to_value(&app)?)),
                Format::Name => say!("{}/{}", app.namespace, app.name),
                Format::Table | Format::Wide => show(&app),
            }
            shown = Some(app);
        }
        following.changed().await?;
    }
}

fn show(app: &Application) {
    say!("{}/{}   {} / {}", app.namespace, app.name, app.sync_status, app.health_status);
    say!("  {}", app.summary);
    say!("  from      {} at {} in {}", app.repo_url, app.target_revision, app.path);
    say!("  to        {}", app.destination);
    if let Some(revision) = &app.revision {
        say!(
            "  revision  {} by {}: {}",
            &revision.sha[..revision.sha.len().min(8)],
            revision.author,
            super::output::short(&revision.message)
        );
    }
    if let Some(operation) = &app.operation {
        say!("  operation {}: {}", operation.phase, operation.message);
        operation.waiting_on.iter().for_each(|on| say!("            {on}"));
    }
    app.conditions.iter().for_each(|condition| say!("  {}: {}", condition.kind, condition.message));
}

async fn diff(
    client: &Client,
    app: &Application,
    deployment: Option<i64>,
    format: Format,
) -> anyhow::Result<ExitCode> {
    let query = deployment.map(|id| format!("?deployment={id}")).unwrap_or_default();
    let mut diff: ApplicationDiff = proxy::look(client, app, &format!("diff{query}")).await?;
    diff.resources.retain(|resource| resource.change != "same");
    let differs = !diff.resources.is_empty();
    print_one(format, &diff, &app.name, || {
        for resource in &diff.resources {
            say!("=== {} {}/{}/{}", resource.change, resource.kind, resource.namespace, resource.name);
            say!("{}", resource.unified);
        }
        Ok(())
    })?;
    Ok(if differs { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn tree(nodes: &[ResourceNode], parent: &str, depth: usize) {
    for node in nodes.iter().filter(|node| node.parent_uid == parent) {
        let (status, health) =
            (node.status.as_ref().map(Word::as_str), node.health.as_ref().map(Word::as_str));
        let words = [status, health, node.info.as_deref()];
        let state = words.into_iter().flatten().collect::<Vec<_>>().join(", ");
        say!("{}{}/{}   {state}", "  ".repeat(depth), node.kind, node.name);
        if !node.uid.is_empty() && depth < 20 {
            tree(nodes, &node.uid, depth + 1);
        }
    }
}

/// A resource of the Application as KIND/NAME or NAMESPACE/KIND/NAME.
pub(super) fn resource<'a>(app: &'a Application, resource: &str) -> anyhow::Result<&'a ResourceNode> {
    let parts: Vec<&str> = resource.split('/').collect();
    let fits = |node: &&ResourceNode| match parts.as_slice() {
        [kind, name] => node.kind.eq_ignore_ascii_case(kind) && node.name == *name,
        [namespace, kind, name] => {
            node.namespace == *namespace && node.kind.eq_ignore_ascii_case(kind) && node.name == *name
        }
        _ => false,
    };
    let found: Vec<&ResourceNode> = app.resources.iter().filter(fits).collect();
    match found.as_slice() {
        [node] => Ok(node),
        [] => bail!("{} has no resource `{resource}`; `slipway app tree {}` shows them", app.name, app.name),
        _ => bail!("several resources are called `{resource}`; say NAMESPACE/KIND/NAME"),
    }
}

async fn delete(client: &Client, app: &Application, wish: &DeleteResourceArguments) -> anyhow::Result<()> {
    let node = resource(app, &wish.resource)?;
    let request = DeleteResourceRequest {
        group: node.group.clone(),
        kind: node.kind.clone(),
        namespace: node.namespace.clone(),
        resource_name: node.name.clone(),
        propagation: match wish.propagation {
            _ if wish.orphan => DeletePropagation::Orphan,
            Propagation::Foreground => DeletePropagation::Foreground,
            Propagation::Background => DeletePropagation::Background,
            Propagation::Orphan => DeletePropagation::Orphan,
        },
        force: wish.force,
    };
    let answer: Value = proxy::order(client, app, "delete-resource", &request).await?;
    done(wish.output, &answer, &node.name, answer["message"].as_str().unwrap_or("done"))
}

async fn act(
    client: &Client,
    app: &Application,
    wanted: &str,
    action: Option<String>,
    parameters: &[String],
    output: OutputArguments,
) -> anyhow::Result<()> {
    let node = resource(app, wanted)?;
    let Some(action) = action else {
        let what = format!("actions?{}", app_objects::query(node));
        let all: ResourceActions = proxy::look(client, app, &what).await?;
        let row = |action: &ResourceAction| {
            let state = if action.disabled { "disabled" } else { "available" };
            vec![action.name.clone(), state.to_owned(), action.parameters.join(", ")]
        };
        let nothing = "There are no actions for this kind.";
        return print(output.output, &all.actions, &["ACTION", "STATE", "PARAMETERS"], row, nothing);
    };
    let mut given = std::collections::BTreeMap::new();
    for text in parameters {
        let (name, value) = text.split_once('=').with_context(|| format!("`{text}` is not name=value"))?;
        given.insert(name.to_owned(), value.to_owned());
    }
    let request = ActionRequest {
        group: node.group.clone(),
        kind: node.kind.clone(),
        namespace: node.namespace.clone(),
        resource_name: node.name.clone(),
        action,
        parameters: given,
    };
    let answer: Value = proxy::order(client, app, "action", &request).await?;
    done(output, &answer, &node.name, answer["message"].as_str().unwrap_or("done"))
}
