//! `slipway <noun> create`, and the older `slipway create <noun>`. Secrets come from files, the environment or standard input, never from arguments.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::context;
use super::nouns::part;
use super::output::{OutputArguments, done, print_one};

#[derive(Subcommand)]
pub(crate) enum CreateCommand {
    /// Invite a user by e-mail; prints the link to send them
    User(UserArguments),
    /// Create a team
    Team(TeamArguments),
    /// Create a service account
    ServiceAccount(ServiceAccountArguments),
    /// Create an API key; prints it once
    ApiKey(KeyArguments),
    /// Create shared configuration or an integration
    Context(ContextArguments),
    /// Create an access rule
    Rule(RuleArguments),
    /// Create an account (administrators of the platform only); prints the link for its Administrator
    Account(AccountArguments),
    /// Create a project
    Project(ProjectArguments),
}

macro_rules! creates {
    ($($arguments:ident => $variant:ident),* $(,)?) => {
        $(impl From<$arguments> for CreateCommand {
            fn from(arguments: $arguments) -> Self {
                Self::$variant(arguments)
            }
        })*
    };
}

creates! {
    UserArguments => User,
    TeamArguments => Team,
    ServiceAccountArguments => ServiceAccount,
    KeyArguments => ApiKey,
    ContextArguments => Context,
    RuleArguments => Rule,
    AccountArguments => Account,
    ProjectArguments => Project,
}

#[derive(Args)]
pub(crate) struct UserArguments {
    email: String,
    /// User or Admin
    #[arg(long, default_value = "User")]
    role: String,
    /// Team to join; repeatable
    #[arg(long = "team")]
    teams: Vec<String>,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Args)]
pub(crate) struct TeamArguments {
    name: String,
    #[arg(long = "tag")]
    tags: Vec<String>,
    /// Id of a user or service account; repeatable
    #[arg(long = "member")]
    members: Vec<String>,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Args)]
pub(crate) struct ServiceAccountArguments {
    name: String,
    /// User or Admin
    #[arg(long, default_value = "User")]
    role: String,
    /// Team to join; repeatable
    #[arg(long = "team")]
    teams: Vec<String>,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Args)]
pub(crate) struct KeyArguments {
    /// What it is for
    name: String,
    /// Scope such as `pipeline` or `build:read`; repeatable; without any the key may do what its owner may
    #[arg(long = "scope")]
    scopes: Vec<String>,
    /// Create it for this service account instead of yourself
    #[arg(long)]
    service_account: Option<String>,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Args)]
pub(crate) struct AccountArguments {
    name: String,
    /// E-mail of its first Administrator
    #[arg(long)]
    admin: Option<String>,
    /// Limit as NAME=NUMBER: seats, runtimes, clusters, applications, parallelBuilds; repeatable
    #[arg(long = "limit")]
    limits: Vec<String>,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Args)]
pub(crate) struct ProjectArguments {
    name: String,
    /// Tag, used by access rules; repeatable
    #[arg(long = "tag")]
    tags: Vec<String>,
    /// Variable of all its builds as NAME=VALUE; repeatable
    #[arg(long = "variable")]
    variables: Vec<String>,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Args)]
pub(crate) struct ContextArguments {
    name: String,
    /// config, secret, yaml, secret-yaml, git.github, …
    #[arg(long = "type", default_value = "config")]
    kind: String,
    /// KEY=VALUE; for what is secret use --from-env or --from-file
    #[arg(long)]
    data: Vec<String>,
    /// KEY: its value is taken from the environment variable of that name
    #[arg(long)]
    from_env: Vec<String>,
    /// KEY=PATH
    #[arg(long)]
    from_file: Vec<String>,
    /// The whole of the data as JSON from a file, or from standard input with `-`
    #[arg(short, long)]
    file: Option<PathBuf>,
    #[arg(long = "tag")]
    tags: Vec<String>,
    /// Nobody reads its secrets back; this cannot be undone
    #[arg(long)]
    forbid_decrypt: bool,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Args)]
pub(crate) struct RuleArguments {
    /// pipeline, project, gitopsApplications, …; `slipway access kinds` lists them
    #[arg(long)]
    kind: String,
    #[arg(long = "action", required = true)]
    actions: Vec<String>,
    #[arg(long = "team", required = true)]
    teams: Vec<String>,
    /// A tag, `*` for any entity, `untagged` for those without
    #[arg(long = "tag")]
    tags: Vec<String>,
    /// any or all of the tags
    #[arg(long = "match", default_value = "any")]
    tag_match: String,
    /// The tags are those of the pipeline's project
    #[arg(long)]
    by_project: bool,
    /// NAME=VALUE, or LABEL:KEY=VALUE
    #[arg(long = "attribute")]
    attributes: Vec<String>,
    #[command(flatten)]
    output: OutputArguments,
}

fn pair<'a>(option: &str, text: &'a str) -> anyhow::Result<(&'a str, &'a str)> {
    text.split_once('=').with_context(|| format!("{option} {text}: expected NAME=VALUE"))
}

pub(crate) async fn run(command: CreateCommand) -> anyhow::Result<ExitCode> {
    let client = context::client()?;
    match command {
        CreateCommand::User(UserArguments { email, role, teams, output }) => {
            let body = json!({"email": email, "role": role, "teams": teams});
            let made: Value = client.post("/api/invitations", &body).await?;
            note!("Invited {email}. Send them this link; it is shown once and valid for a week:");
            done(output, &made, &email, made["url"].as_str().unwrap_or_default())?;
        }
        CreateCommand::Team(TeamArguments { name, tags, members, output }) => {
            let body = json!({"name": name, "tags": tags, "users": members});
            let made: Value = client.post("/api/team", &body).await?;
            done(output, &made, &name, &format!("Created team {name}"))?;
        }
        CreateCommand::ServiceAccount(ServiceAccountArguments { name, role, teams, output }) => {
            let body = json!({"name": name, "role": role, "teams": teams});
            let made: Value = client.post("/api/service-users", &body).await?;
            let said = format!(
                "Created service account {name}; `slipway key create NAME --service-account {name}` creates a key for it"
            );
            done(output, &made, &name, &said)?;
        }
        CreateCommand::ApiKey(KeyArguments { name, scopes, service_account, output }) => {
            let subject = service_account
                .map(|name| format!("?subjectType=service-account&subjectReference={}", part(&name)))
                .unwrap_or_default();
            let key: String = client
                .post(&format!("/api/auth/key{subject}"), &json!({"name": name, "scopes": scopes}))
                .await?;
            note!("The key, shown only once:");
            done(output, &json!({"name": name, "key": key}), &name, &key)?;
        }
        CreateCommand::Context(arguments) => {
            let (name, output) = (arguments.name.clone(), arguments.output);
            let made: Value = client.post("/api/contexts", &context_body(arguments)?).await?;
            done(output, &made, &name, &format!("Created context {name}"))?;
        }
        CreateCommand::Rule(arguments) => {
            let output = arguments.output;
            let made: Value = client.post("/api/abac", &rule_body(arguments)?).await?;
            let id = made[0]["id"].as_str().unwrap_or_default();
            done(output, &made[0], id, &format!("Created rule {id}"))?;
        }
        CreateCommand::Account(AccountArguments { name, admin, limits, output }) => {
            let mut numbers = Map::new();
            for limit in &limits {
                let (key, value) = pair("--limit", limit)?;
                let number: i64 =
                    value.parse().with_context(|| format!("--limit {limit}: `{value}` is not a number"))?;
                numbers.insert(key.to_owned(), number.into());
            }
            let body = json!({"name": name, "adminEmail": admin, "limits": numbers});
            let made: Value = client.post("/api/admin/accounts", &body).await?;
            print_one(output.output, &made, &name, || {
                say!("Created account {name}");
                if let Some(url) = made["invitationUrl"].as_str() {
                    note!("Send this link to its Administrator; it is shown once and valid for a week:");
                    say!("{url}");
                }
                Ok(())
            })?;
        }
        CreateCommand::Project(ProjectArguments { name, tags, variables, output }) => {
            let mut all = Vec::new();
            for text in &variables {
                let (key, value) = pair("--variable", text)?;
                all.push(json!({"key": key, "value": value}));
            }
            let body = json!({"projectName": name, "tags": tags, "variables": all});
            let made: Value = client.post("/api/projects", &body).await?;
            done(output, &made, &name, &format!("Created project {name}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn context_body(arguments: ContextArguments) -> anyhow::Result<Value> {
    let secret = arguments.kind.starts_with("secret");
    if secret && !arguments.data.is_empty() {
        bail!(
            "a secret in an argument is seen by everybody on this machine: use --from-env KEY, --from-file KEY=PATH or --file -"
        );
    }
    let mut data = match &arguments.file {
        None => Value::Object(Map::new()),
        Some(path) => {
            let mut text = String::new();
            if path.as_os_str() == "-" {
                std::io::stdin().read_to_string(&mut text)?;
            } else {
                text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
            }
            serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?
        }
    };
    let mut put = |key: &str, value: String| -> anyhow::Result<()> {
        data.as_object_mut()
            .context("--file has to hold an object when there is other data")?
            .insert(key.to_owned(), value.into());
        Ok(())
    };
    for text in &arguments.data {
        let (key, value) = pair("--data", text)?;
        put(key, value.to_owned())?;
    }
    for key in &arguments.from_env {
        put(key, std::env::var(key).with_context(|| format!("the environment has no {key}"))?)?;
    }
    for text in &arguments.from_file {
        let (key, path) = pair("--from-file", text)?;
        put(key, std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?)?;
    }
    let metadata = json!({"name": arguments.name, "labels": {"tags": arguments.tags}, "forbidDecrypt": arguments.forbid_decrypt});
    Ok(
        json!({"apiVersion": "v1", "kind": "context", "metadata": metadata, "spec": {"type": arguments.kind, "data": data}}),
    )
}

fn rule_body(arguments: RuleArguments) -> anyhow::Result<Value> {
    let mut attributes = Vec::new();
    for text in &arguments.attributes {
        let (name, value) = pair("--attribute", text)?;
        let (name, key) = name.split_once(':').unwrap_or((name, ""));
        attributes.push(json!({"name": name, "key": key, "value": value}));
    }
    Ok(json!({
        "entityType": arguments.kind, "teams": arguments.teams, "actions": arguments.actions, "tags": arguments.tags,
        "tagMatch": arguments.tag_match, "relatedResource": arguments.by_project.then_some("project"), "entityAttributes": attributes,
    }))
}
