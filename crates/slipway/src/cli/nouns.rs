//! `get`, `describe` and `delete` for what administrators handle: one table of nouns, one way to print them.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::Value;

use super::context;
use super::output::{Format, OutputArguments, print, short};

struct Noun {
    /// The first is how it is called, the others are also understood.
    names: &'static [&'static str],
    path: &'static str,
    /// Where the list is in the answer.
    list: &'static str,
    /// Where one is; `None` when there is only the list.
    one: Option<&'static str>,
    deletable: bool,
    /// Head and place of each column; the first is the name that other commands take.
    columns: &'static [(&'static str, &'static str)],
    wide: &'static [(&'static str, &'static str)],
    nothing: &'static str,
}

const NOUNS: &[Noun] = &[
    Noun {
        names: &["users", "user"],
        path: "/api/users",
        list: "",
        one: Some("/api/users"),
        deletable: true,
        columns: &[
            ("EMAIL", "/email"),
            ("NAME", "/userName"),
            ("ROLE", "/role"),
            ("TEAMS", "/teams"),
            ("LAST LOGIN", "/lastLogin"),
        ],
        wide: &[("ID", "/_id"), ("ENABLED", "/enabled"), ("CREATED", "/created")],
        nothing: "There is nobody but you.",
    },
    Noun {
        names: &["invitations", "invitation"],
        path: "/api/invitations",
        list: "",
        one: Some("/api/invitations"),
        deletable: true,
        columns: &[("ID", "/_id"), ("EMAIL", "/email"), ("ROLE", "/role"), ("EXPIRES", "/expires")],
        wide: &[("INVITED BY", "/invitedBy"), ("EXPIRED", "/expired")],
        nothing: "Nobody is invited: `slipway create user EMAIL` invites somebody.",
    },
    Noun {
        names: &["teams", "team"],
        path: "/api/team",
        list: "",
        one: Some("/api/team"),
        deletable: true,
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
        columns: &[
            ("NAME", "/name"),
            ("ROLE", "/role"),
            ("ENABLED", "/enabled"),
            ("KEYS", "/keys"),
            ("TEAMS", "/teams"),
        ],
        wide: &[("ID", "/_id"), ("CREATED", "/created")],
        nothing: "There are no service accounts yet: `slipway create service-account NAME` makes one.",
    },
    Noun {
        names: &["api-keys", "api-key", "keys", "tokens"],
        path: "/api/auth/keys",
        list: "",
        one: Some("/api/auth/key"),
        deletable: true,
        columns: &[
            ("ID", "/_id"),
            ("NAME", "/name"),
            ("PREFIX", "/tokenPrefix"),
            ("OF", "/subject/name"),
            ("SCOPES", "/scopes"),
            ("LAST USED", "/lastUsed"),
        ],
        wide: &[("KIND", "/subject/type"), ("CREATED", "/created")],
        nothing: "There are no API keys: `slipway create api-key NAME` makes one.",
    },
    Noun {
        names: &["contexts", "context"],
        path: "/api/contexts",
        list: "",
        one: Some("/api/contexts"),
        deletable: true,
        columns: &[("NAME", "/metadata/name"), ("TYPE", "/spec/type"), ("UPDATED", "/metadata/updated_at")],
        wide: &[("TAGS", "/metadata/labels/tags"), ("OWNER", "/owner")],
        nothing: "There are no contexts yet: `slipway create context NAME` makes one.",
    },
    Noun {
        names: &["rules", "rule"],
        path: "/api/abac",
        list: "",
        one: Some("/api/abac"),
        deletable: true,
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
        nothing: "Nothing was done yet.",
    },
    Noun {
        names: &["usage", "limits"],
        path: "/api/usage",
        list: "/limits",
        one: None,
        deletable: false,
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
        .with_context(|| format!("there is no `{text}`: there are {}", known()))
}

#[derive(Args)]
pub(crate) struct GetArguments {
    /// users, invitations, teams, service-accounts, api-keys, contexts, rules, audit, usage, identity-providers, accounts
    noun: String,
    /// Only this one
    name: Option<String>,
    #[command(flatten)]
    output: OutputArguments,
    /// NAME=VALUE, as the API takes it: for audit entity, action, outcome, userName, from, to, search, limit, page
    #[arg(long)]
    filter: Vec<String>,
}

#[derive(Args)]
pub(crate) struct DescribeArguments {
    /// As in `get`
    noun: String,
    name: String,
}

#[derive(Args)]
pub(crate) struct DeleteArguments {
    /// As in `get`
    noun: String,
    /// One or more
    #[arg(required = true)]
    names: Vec<String>,
}

/// A part of a path: nothing of it is a separator.
pub(crate) fn part(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'@');
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn cell(item: &Value, place: &str) -> String {
    if let Some(place) = place.strip_suffix("/#") {
        return item.pointer(place).and_then(Value::as_array).map_or(0, Vec::len).to_string();
    }
    match item.pointer(place) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => short(text),
        Some(Value::Array(items)) => {
            // What has a name is called by it.
            let name =
                |item: &Value| item["name"].as_str().filter(|_| item.get("_id").is_some()).map(str::to_owned);
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
    let items = match (&arguments.name, noun.one) {
        (Some(name), Some(one)) => vec![client.get::<Value>(&format!("{one}/{}", part(name))).await?],
        (name, _) => {
            let mut query = Vec::new();
            for filter in &arguments.filter {
                let (key, value) =
                    filter.split_once('=').with_context(|| format!("--filter {filter}: it is NAME=VALUE"))?;
                query.push(format!("{}={}", part(key), part(value)));
            }
            let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
            let answer: Value = client.get(&format!("{}{query}", noun.path)).await?;
            let list = answer.pointer(noun.list).and_then(Value::as_array).cloned().unwrap_or_default();
            match name {
                Some(name) => {
                    list.into_iter().filter(|item| cell(item, noun.columns[0].1) == *name).collect()
                }
                None => list,
            }
        }
    };
    if let (Some(name), true) = (&arguments.name, items.is_empty()) {
        bail!("could not find `{name}` among {}", noun.names[0]);
    }
    let mut columns = noun.columns.to_vec();
    if arguments.output.output == Format::Wide {
        columns.extend(noun.wide);
    }
    let heads: Vec<_> = columns.iter().map(|(head, _)| *head).collect();
    let row = |item: &Value| columns.iter().map(|(_, place)| cell(item, place)).collect();
    print(arguments.output.output, &items, &heads, row, noun.nothing)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn describe(arguments: DescribeArguments) -> anyhow::Result<ExitCode> {
    let noun = noun(&arguments.noun)?;
    let Some(one) = noun.one else {
        bail!("there is nothing to describe about {}: use `slipway get {}`", noun.names[0], noun.names[0])
    };
    let item: Value = context::client()?.get(&format!("{one}/{}", part(&arguments.name))).await?;
    say_part!("{}", slipway_yaml::to_yaml(&item));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn delete(arguments: DeleteArguments) -> anyhow::Result<ExitCode> {
    let noun = noun(&arguments.noun)?;
    if !noun.deletable {
        bail!("{} cannot be deleted", noun.names[0]);
    }
    let client = context::client()?;
    let base = noun.one.unwrap_or(noun.path);
    for name in &arguments.names {
        client.delete::<Value>(&format!("{base}/{}", part(name))).await?;
        let what = noun.names.get(1).unwrap_or(&noun.names[0]);
        say!("Deleted {what} {name}");
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
        assert_eq!(part("a/b c@d"), "a%2Fb%20c@d");
        assert!(noun("sa").is_ok() && noun("nonsense").is_err());
    }
}
