//! `slipway <noun> list|get|create|delete` for what has no commands of its own: one table of nouns, one way to print them.
//! `get`, `describe` and `delete` with the noun behind them are older forms of the same.

use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::Value;
use slipway_api::Client;

use super::context;
use super::create::CreateCommand;
use super::output::{Format, OutputArguments, done, print, print_one, short, when};

struct Noun {
    /// The first is how it is called, the others are also understood.
    names: &'static [&'static str],
    path: &'static str,
    /// Where the list is in the answer.
    list: &'static str,
    /// Where one is; `None` when there is only the list.
    one: Option<&'static str>,
    deletable: bool,
    /// Where the id is by which one is deleted, when that is not its name.
    id: &'static str,
    /// Head and place of each column; the first is the name that other commands take.
    columns: &'static [(&'static str, &'static str)],
    wide: &'static [(&'static str, &'static str)],
    nothing: &'static str,
}

const NOUNS: &[Noun] = &[
    Noun {
        names: &["pipelines", "pipeline"],
        path: "/api/pipelines?limit=10000",
        list: "/docs",
        one: Some("/api/pipelines"),
        deletable: true,
        id: "",
        columns: &[
            ("NAME", "/metadata/name"),
            ("TRIGGERS", "/spec/triggers"),
            ("UPDATED", "/metadata/updated_at"),
        ],
        wide: &[
            ("ID", "/metadata/id"),
            ("REVISION", "/metadata/revision"),
            ("TAGS", "/metadata/labels/tags"),
        ],
        nothing: "There are no pipelines yet: `slipway pipeline create -f FILE` creates one.",
    },
    Noun {
        names: &["projects", "project"],
        path: "/api/projects?limit=10000",
        list: "/projects",
        one: Some("/api/projects/name"),
        deletable: true,
        id: "/id",
        columns: &[("NAME", "/projectName"), ("PIPELINES", "/pipelinesNumber"), ("TAGS", "/tags")],
        wide: &[("ID", "/id"), ("VARIABLES", "/variables/#"), ("CONTEXTS", "/contexts")],
        nothing: "There are no projects yet: a project is created with its first pipeline.",
    },
    Noun {
        names: &["builds", "build"],
        path: "/api/workflow",
        list: "/workflows/docs",
        one: Some("/api/builds"),
        deletable: false,
        id: "",
        columns: &[
            ("ID", "/id"),
            ("STATUS", "/status"),
            ("PIPELINE", "/pipelineName"),
            ("BRANCH", "/branchName"),
            ("CREATED", "/created"),
        ],
        wide: &[("REVISION", "/revision"), ("COMMIT", "/commitMessage"), ("RUNNER", "/runner")],
        nothing: "There are no builds yet: push to a repository, or use `slipway run`.",
    },
    Noun {
        names: &["applications", "application", "apps", "app"],
        path: "/api/applications?limit=500",
        list: "/applications",
        one: None,
        deletable: false,
        id: "",
        columns: &[
            ("NAME", "/name"),
            ("NAMESPACE", "/namespace"),
            ("SYNC", "/syncStatus"),
            ("HEALTH", "/healthStatus"),
            ("SUMMARY", "/summary"),
        ],
        wide: &[("RUNTIME", "/runtime"), ("REPOSITORY", "/repoUrl"), ("PATH", "/path")],
        nothing: "There are no Applications yet.",
    },
    Noun {
        names: &["repos", "repo", "repositories", "repository"],
        path: "/api/repos",
        list: "",
        one: None,
        deletable: false,
        id: "",
        columns: &[("NAME", "/name"), ("CLONE URL", "/cloneUrl")],
        wide: &[("HEAD", "/head/sha"), ("MESSAGE", "/head/message")],
        nothing: "There are no repositories yet: `slipway repo create OWNER/NAME` creates one.",
    },
    Noun {
        names: &["runtimes", "runtime"],
        path: "/api/runtimes",
        list: "",
        one: Some("/api/runtimes"),
        deletable: true,
        id: "",
        columns: &[
            ("NAME", "/name"),
            ("STATE", "/state"),
            ("HEALTH", "/health"),
            ("ACCESS", "/accessMode"),
            ("TUNNELS", "/tunnels"),
            ("CLUSTERS", "/clusters/#"),
            ("APPLICATIONS", "/applications"),
            ("CLUSTER", "/cluster"),
            ("LAST SEEN", "/lastSeen"),
        ],
        wide: &[
            ("NAMESPACE", "/namespace"),
            ("VERSION", "/version"),
            ("URL", "/url"),
            ("CREATED", "/created"),
            ("WHY", "/healthReasons"),
        ],
        nothing: "There is no GitOps runtime yet: `slipway runtime create NAME` registers one.",
    },
    Noun {
        names: &["runners", "runner"],
        path: "/api/runners",
        list: "",
        one: None,
        deletable: false,
        id: "",
        columns: &[
            ("NAME", "/name"),
            ("ONLINE", "/online"),
            ("EXECUTOR", "/executor"),
            ("LAST SEEN", "/lastSeen"),
        ],
        wide: &[("VERSION", "/version")],
        nothing: "No runner is connected.",
    },
    Noun {
        names: &["users", "user"],
        path: "/api/users",
        list: "",
        one: Some("/api/users"),
        deletable: true,
        id: "",
        columns: &[
            ("EMAIL", "/email"),
            ("NAME", "/userName"),
            ("ROLE", "/role"),
            ("TEAMS", "/teams"),
            ("LAST LOGIN", "/lastLogin"),
        ],
        wide: &[("ID", "/_id"), ("ENABLED", "/enabled"), ("CREATED", "/created")],
        nothing: "There are no other users.",
    },
    Noun {
        names: &["invitations", "invitation"],
        path: "/api/invitations",
        list: "",
        one: Some("/api/invitations"),
        deletable: true,
        id: "",
        columns: &[("ID", "/_id"), ("EMAIL", "/email"), ("ROLE", "/role"), ("EXPIRES", "/expires")],
        wide: &[("INVITED BY", "/invitedBy"), ("EXPIRED", "/expired")],
        nothing: "There are no open invitations: `slipway user create EMAIL` invites somebody.",
    },
    Noun {
        names: &["teams", "team"],
        path: "/api/team",
        list: "",
        one: Some("/api/team"),
        deletable: true,
        id: "",
        columns: &[
            ("NAME", "/name"),
            ("TYPE", "/type"),
            ("SOURCE", "/source"),
            ("PEOPLE", "/users/#"),
            ("SERVICE ACCOUNTS", "/serviceAccounts/#"),
        ],
        wide: &[("ID", "/_id"), ("TAGS", "/tags")],
        nothing: "There are no teams yet.",
    },
    Noun {
        names: &["service-accounts", "service-account", "sa"],
        path: "/api/service-users",
        list: "",
        one: Some("/api/service-users"),
        deletable: true,
        id: "",
        columns: &[
            ("NAME", "/name"),
            ("ROLE", "/role"),
            ("ENABLED", "/enabled"),
            ("KEYS", "/keys"),
            ("TEAMS", "/teams"),
        ],
        wide: &[("ID", "/_id"), ("CREATED", "/created")],
        nothing: "There are no service accounts yet: `slipway service-account create NAME` creates one.",
    },
    Noun {
        names: &["api-keys", "api-key", "keys", "tokens"],
        path: "/api/auth/keys",
        list: "",
        one: Some("/api/auth/key"),
        deletable: true,
        id: "",
        columns: &[
            ("ID", "/_id"),
            ("NAME", "/name"),
            ("PREFIX", "/tokenPrefix"),
            ("OWNER", "/subject/name"),
            ("SCOPES", "/scopes"),
            ("LAST USED", "/lastUsed"),
        ],
        wide: &[("KIND", "/subject/type"), ("CREATED", "/created")],
        nothing: "There are no API keys: `slipway key create NAME` creates one.",
    },
    Noun {
        names: &["contexts", "context"],
        path: "/api/contexts",
        list: "",
        one: Some("/api/contexts"),
        deletable: true,
        id: "",
        columns: &[("NAME", "/metadata/name"), ("TYPE", "/spec/type"), ("UPDATED", "/metadata/updated_at")],
        wide: &[("TAGS", "/metadata/labels/tags"), ("OWNER", "/owner")],
        nothing: "There are no contexts yet: `slipway context create NAME` creates one.",
    },
    Noun {
        names: &["rules", "rule"],
        path: "/api/abac",
        list: "",
        one: Some("/api/abac"),
        deletable: true,
        id: "",
        columns: &[
            ("ID", "/id"),
            ("KIND", "/entityType"),
            ("ACTIONS", "/actions"),
            ("TEAMS", "/teamNames"),
            ("TAGS", "/tags"),
        ],
        wide: &[("MATCH", "/tagMatch"), ("ATTRIBUTES", "/entityAttributes"), ("CREATED", "/created")],
        nothing: "There are no rules: only Administrators may change anything with pipelines.",
    },
    Noun {
        names: &["audit"],
        path: "/api/audit",
        list: "/docs",
        one: None,
        deletable: false,
        id: "",
        columns: &[
            ("SEQ", "/seq"),
            ("WHEN", "/createdAt"),
            ("WHO", "/userName"),
            ("ACTION", "/action"),
            ("ENTITY", "/entity"),
            ("NAME", "/entityName"),
            ("OUTCOME", "/outcome"),
        ],
        wide: &[("ADDRESS", "/address"), ("STATUS", "/status"), ("REQUEST", "/requestId")],
        nothing: "Nothing has been recorded yet.",
    },
    Noun {
        names: &["usage", "limits"],
        path: "/api/usage",
        list: "/limits",
        one: None,
        deletable: false,
        id: "",
        columns: &[("NAME", "/name"), ("USED", "/used"), ("LIMIT", "/limit"), ("REACHED", "/isReached")],
        wide: &[("EXCEEDED", "/isExceeded")],
        nothing: "Nothing is counted.",
    },
    Noun {
        names: &["identity-providers", "identity-provider", "idp"],
        path: "/api/idp",
        list: "",
        one: None,
        deletable: true,
        id: "",
        columns: &[
            ("NAME", "/name"),
            ("ISSUER", "/settings/issuer"),
            ("ENABLED", "/enabled"),
            ("CALLBACK", "/callbackUrl"),
        ],
        wide: &[("CLIENT", "/settings/clientId"), ("GROUPS", "/settings/groupsClaim")],
        nothing: "There is no identity provider: people sign in with passwords.",
    },
    Noun {
        names: &["accounts", "account"],
        path: "/api/admin/accounts",
        list: "",
        one: Some("/api/admin/accounts"),
        deletable: true,
        id: "",
        columns: &[("NAME", "/name"), ("STATUS", "/status"), ("CREATED", "/created")],
        wide: &[("ID", "/_id"), ("LIMITS", "/limits")],
        nothing: "There are no accounts.",
    },
];

fn noun(text: &str) -> anyhow::Result<&'static Noun> {
    let known = || NOUNS.iter().map(|noun| noun.names[0]).collect::<Vec<_>>().join(", ");
    NOUNS
        .iter()
        .find(|noun| noun.names.contains(&text))
        .with_context(|| format!("unknown resource `{text}`: use one of {}", known()))
}

/// What can be done with a noun that has no commands of its own.
#[derive(Subcommand)]
pub(crate) enum NounCommand<C: Args> {
    /// List all
    List(ListOptions),
    /// Show one
    Get(OneArguments),
    /// Create one
    Create(C),
    /// Delete one or more
    Delete(DeleteNames),
}

/// A noun that agents make.
#[derive(Subcommand)]
pub(crate) enum SeenCommand {
    /// List all
    List(ListOptions),
    /// Show one
    Get(OneArguments),
}

/// A noun that comes with others.
#[derive(Subcommand)]
pub(crate) enum KeptCommand {
    /// List all
    List(ListOptions),
    /// Show one
    Get(OneArguments),
    /// Delete one or more
    Delete(DeleteNames),
}

#[derive(Args)]
pub(crate) struct ListOptions {
    #[command(flatten)]
    output: OutputArguments,
    /// Filter as NAME=VALUE, as the API takes it; repeatable
    #[arg(long)]
    filter: Vec<String>,
}

#[derive(Args)]
pub(crate) struct OneArguments {
    name: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

#[derive(Args)]
pub(crate) struct DeleteNames {
    /// One or more names
    #[arg(required = true)]
    pub(crate) names: Vec<String>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

#[derive(Args)]
pub(crate) struct GetArguments {
    /// pipelines, builds, apps, projects, repos, runtimes, runners, users, invitations, teams, service-accounts, api-keys, contexts, rules, audit, usage, identity-providers, accounts
    noun: String,
    /// Only this one
    name: Option<String>,
    #[command(flatten)]
    output: OutputArguments,
    /// Filter as NAME=VALUE, as the API takes it; for audit: entity, action, outcome, userName, from, to, search, limit, page
    #[arg(long)]
    filter: Vec<String>,
}

#[derive(Args)]
pub(crate) struct DescribeArguments {
    /// As in `get`
    noun: String,
    name: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

#[derive(Args)]
pub(crate) struct DeleteArguments {
    /// As in `get`
    noun: String,
    #[command(flatten)]
    names: DeleteNames,
}

pub(crate) async fn run<C>(noun: &str, command: NounCommand<C>) -> anyhow::Result<ExitCode>
where
    C: Args,
    CreateCommand: From<C>,
{
    match command {
        NounCommand::List(options) => list(noun, options).await,
        NounCommand::Get(one) => show(noun, one).await,
        NounCommand::Create(arguments) => super::create::run(arguments.into()).await,
        NounCommand::Delete(names) => remove(noun, names).await,
    }
}

pub(crate) async fn run_seen(noun: &str, command: SeenCommand) -> anyhow::Result<ExitCode> {
    match command {
        SeenCommand::List(options) => list(noun, options).await,
        SeenCommand::Get(one) => show(noun, one).await,
    }
}

pub(crate) async fn run_kept(noun: &str, command: KeptCommand) -> anyhow::Result<ExitCode> {
    match command {
        KeptCommand::List(options) => list(noun, options).await,
        KeptCommand::Get(one) => show(noun, one).await,
        KeptCommand::Delete(names) => remove(noun, names).await,
    }
}

pub(crate) async fn list(noun: &str, options: ListOptions) -> anyhow::Result<ExitCode> {
    get(GetArguments { noun: noun.to_owned(), name: None, output: options.output, filter: options.filter })
        .await
}

async fn show(name: &str, one: OneArguments) -> anyhow::Result<ExitCode> {
    let noun = noun(name)?;
    let item = find(&context::client()?, noun, &one.name).await?;
    let table = || print_rows(noun, Format::Table, std::slice::from_ref(&item));
    print_one(one.output, &item, &one.name, table)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn remove(name: &str, names: DeleteNames) -> anyhow::Result<ExitCode> {
    delete(DeleteArguments { noun: name.to_owned(), names }).await
}

/// Asks a person at a terminal; whoever is a program has said so by being one.
pub(crate) fn confirm(question: &str, yes: bool) -> anyhow::Result<()> {
    let stdin = std::io::stdin();
    if yes || !stdin.is_terminal() {
        return Ok(());
    }
    crate::say::note(format_args!("{question} [y/N] "));
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    bail!("nothing was deleted")
}

/// A part of a path: nothing of it is a separator.
pub(crate) use slipway_dialect::percent::encode as part;

fn cell(item: &Value, place: &str) -> String {
    if let Some(place) = place.strip_suffix("/#") {
        return item.pointer(place).and_then(Value::as_array).map_or(0, Vec::len).to_string();
    }
    match item.pointer(place) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) if text.parse::<jiff::Timestamp>().is_ok() => when(text),
        Some(Value::String(text)) => short(text),
        Some(Value::Array(items)) => {
            // What has a name is called by it.
            let name = |item: &Value| item["name"].as_str().filter(|_| item.is_object()).map(str::to_owned);
            let text = |item: &Value| item.as_str().map(str::to_owned).or_else(|| name(item));
            let texts = items.iter().map(|item| text(item).unwrap_or_else(|| item.to_string()));
            short(&texts.collect::<Vec<_>>().join(","))
        }
        Some(other) => short(&other.to_string()),
    }
}

pub(crate) async fn get(arguments: GetArguments) -> anyhow::Result<ExitCode> {
    let noun = noun(&arguments.noun)?;
    let client = context::client()?;
    let items = match &arguments.name {
        Some(name) => vec![find(&client, noun, name).await?],
        None => all(&client, noun, &arguments.filter).await?,
    };
    print_rows(noun, arguments.output.output, &items)?;
    Ok(ExitCode::SUCCESS)
}

async fn all(client: &Client, noun: &Noun, filters: &[String]) -> anyhow::Result<Vec<Value>> {
    let mut path = noun.path.to_owned();
    for filter in filters {
        let (key, value) =
            filter.split_once('=').with_context(|| format!("--filter {filter}: expected NAME=VALUE"))?;
        let mark = if path.contains('?') { '&' } else { '?' };
        path.push_str(&format!("{mark}{}={}", part(key), part(value)));
    }
    let answer: Value = client.get(&path).await?;
    Ok(answer.pointer(noun.list).and_then(Value::as_array).cloned().unwrap_or_default())
}

async fn find(client: &Client, noun: &Noun, name: &str) -> anyhow::Result<Value> {
    if let Some(one) = noun.one {
        return Ok(client.get(&format!("{one}/{}", part(name))).await?);
    }
    let found = all(client, noun, &[]).await?.into_iter();
    let mut found =
        found.filter(|item| item.pointer(noun.columns[0].1).and_then(Value::as_str) == Some(name));
    found
        .next()
        .with_context(|| format!("there is no {} `{name}`", noun.names.get(1).unwrap_or(&noun.names[0])))
}

fn print_rows(noun: &Noun, format: Format, items: &[Value]) -> anyhow::Result<()> {
    let mut columns = noun.columns.to_vec();
    if format == Format::Wide {
        columns.extend(noun.wide);
    }
    let heads: Vec<_> = columns.iter().map(|(head, _)| *head).collect();
    let row = |item: &Value| columns.iter().map(|(_, place)| cell(item, place)).collect();
    print(format, items, &heads, row, noun.nothing)
}

pub(crate) async fn describe(arguments: DescribeArguments) -> anyhow::Result<ExitCode> {
    let noun = noun(&arguments.noun)?;
    if noun.one.is_none() && noun.columns[0].0 != "NAME" {
        bail!("{} cannot be shown one by one: use `slipway get {}`", noun.names[0], noun.names[0])
    }
    let item = find(&context::client()?, noun, &arguments.name).await?;
    let table = || print_rows(noun, Format::Table, std::slice::from_ref(&item));
    print_one(arguments.output, &item, &arguments.name, table)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn delete(arguments: DeleteArguments) -> anyhow::Result<ExitCode> {
    let noun = noun(&arguments.noun)?;
    let what = noun.names.get(1).unwrap_or(&noun.names[0]);
    if !noun.deletable {
        bail!("{} cannot be deleted here", noun.names[0]);
    }
    let client = context::client()?;
    let names = &arguments.names.names;
    confirm(&format!("Delete {what} {}?", names.join(", ")), arguments.names.yes)?;
    for name in names {
        let path = match noun.id {
            "" => {
                let base = noun.one.unwrap_or(noun.path);
                format!("{}/{}", base.split('?').next().unwrap_or(base), part(name))
            }
            place => {
                let item = find(&client, noun, name).await?;
                let id = item.pointer(place).and_then(Value::as_str).unwrap_or_default();
                format!("{}/{}", noun.path.split('?').next().unwrap_or(noun.path), part(id))
            }
        };
        client.delete::<Value>(&path).await?;
        let deleted = serde_json::json!({"kind": what, "name": name, "deleted": true});
        done(arguments.names.output, &deleted, name, &format!("Deleted {what} {name}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_are_short_and_parts_of_paths_are_parts() {
        let item =
            json!({"a": {"b": ["x", "y"]}, "n": 1, "none": null, "of": [{"_id": "1", "name": "core"}]});
        assert_eq!(cell(&item, "/of"), "core");
        assert_eq!(cell(&item, "/a/b"), "x,y");
        assert_eq!(cell(&item, "/a/b/#"), "2");
        assert_eq!(
            (cell(&item, "/n"), cell(&item, "/none"), cell(&item, "/x")),
            ("1".into(), String::new(), String::new())
        );
        assert_eq!(part("a/b c@d"), "a%2Fb%20c%40d");
        assert!(noun("sa").is_ok() && noun("nonsense").is_err());
    }
}
