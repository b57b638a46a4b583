//! Where the server is and who one is: saved contexts, or `SLIPWAY_URL` and `SLIPWAY_API_KEY`.
//!
//! Each platform on this machine has a context under its address, so that two of them do not mix; one is in use, or the one
//! that `SLIPWAY_CONTEXT` names.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use slipway_api::auth::User;
use slipway_api::{Client, ClientError};

use super::output::{OutputArguments, done, print, print_one};

#[derive(Subcommand)]
pub(crate) enum AuthCommand {
    /// Sign in with e-mail and password; saves a context with an API key created for it
    Login(LoginArguments),
    /// Save a context for a server and an API key, and use it
    CreateContext {
        /// Name of the context
        name: String,
        /// Address of the server
        #[arg(long, default_value = "http://127.0.0.1:8080")]
        url: String,
        /// API key
        #[arg(long, env = "SLIPWAY_API_KEY", hide_env_values = true)]
        api_key: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Use a saved context from now on
    UseContext {
        /// Name of the context
        name: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// List saved contexts
    #[command(alias = "contexts", alias = "list-contexts")]
    GetContexts(OutputArguments),
    /// Print the name of the context in use
    CurrentContext(OutputArguments),
    /// Forget a saved context; its API key stays valid until it is deleted on the server
    DeleteContext {
        /// Name of the context
        name: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Show who you are to the server
    Whoami(OutputArguments),
}

#[derive(Args)]
pub(crate) struct LoginArguments {
    /// Address of the server; that of the context in use when left out
    #[arg(long)]
    url: Option<String>,
    #[arg(long)]
    email: String,
    /// Name of the context; the server's host and port when left out
    #[arg(long)]
    name: Option<String>,
    /// Read the password from standard input
    #[arg(long)]
    password_stdin: bool,
    #[command(flatten)]
    output: OutputArguments,
}

const DEFAULT_URL: &str = "http://127.0.0.1:8080";

#[derive(Default, Serialize, Deserialize)]
struct Saved {
    current: String,
    contexts: BTreeMap<String, Entry>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Entry {
    url: String,
    api_key: String,
    /// The data folder of the `slipway up` that saved it: the same platform, whatever its address is next time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<PathBuf>,
}

fn path() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("SLIPWAY_CONFIG") {
        return Ok(path.into());
    }
    let base = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config")))
        .context("neither XDG_CONFIG_HOME nor HOME is set: set SLIPWAY_CONFIG to a file")?;
    Ok(base.join("slipway/config.json"))
}

fn load() -> anyhow::Result<Saved> {
    let path = path()?;
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .with_context(|| format!("{} is not readable as contexts", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Saved::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn store(saved: &Saved) -> anyhow::Result<()> {
    let path = path()?;
    std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    let temporary = path.with_extension("new");
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&serde_json::to_vec_pretty(saved)?)?;
    Ok(std::fs::rename(&temporary, &path)?)
}

/// Saves a context and uses it from now on.
pub(crate) fn save(name: &str, url: &str, api_key: &str) -> anyhow::Result<()> {
    let mut saved = load()?;
    let entry = Entry { url: url.to_owned(), api_key: api_key.to_owned(), data: None };
    saved.contexts.insert(name.to_owned(), entry);
    saved.current = name.to_owned();
    store(&saved)
}

/// `127.0.0.1:8080` of `http://127.0.0.1:8080`.
pub(crate) fn name_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.trim_end_matches('/').to_owned()
}

/// What became of the context of a platform that came up here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Commands use it from now on.
    InUse(String),
    /// Another one is in use, and stays so.
    Beside { own: String, used: String },
    /// Nobody knows a key for it.
    Unknown,
}

/// Saves the context of a platform on this machine under its address. One of another platform that is in use stays in use.
pub(crate) fn keep(url: &str, data: &Path, api_key: Option<&str>) -> anyhow::Result<Kept> {
    let mut saved = load()?;
    let kept = keep_in(&mut saved, url, data, api_key);
    if kept != Kept::Unknown {
        store(&saved)?;
    }
    Ok(kept)
}

fn keep_in(saved: &mut Saved, url: &str, data: &Path, api_key: Option<&str>) -> Kept {
    let before = saved
        .contexts
        .iter()
        .find(|(_, entry)| entry.data.as_deref() == Some(data))
        .map(|(name, entry)| (name.clone(), entry.clone()));
    let own = name_of(url);
    let key = match (api_key, &before) {
        (Some(key), _) => key.to_owned(),
        (None, Some((_, entry))) => entry.api_key.clone(),
        (None, None) => return Kept::Unknown,
    };
    if let Some((name, _)) = &before {
        saved.contexts.remove(name);
        if saved.current == *name {
            saved.current.clone_from(&own);
        }
    }
    let entry = Entry { url: url.to_owned(), api_key: key, data: Some(data.to_owned()) };
    saved.contexts.insert(own.clone(), entry);
    // One whose platform was thrown away is nobody's.
    let stands = saved
        .contexts
        .get(&saved.current)
        .is_some_and(|entry| entry.data.as_deref().is_none_or(|data| data.exists()));
    if !stands {
        saved.current.clone_from(&own);
    }
    if saved.current == own {
        return Kept::InUse(own);
    }
    Kept::Beside { own, used: saved.current.clone() }
}

/// The context in use: what SLIPWAY_CONTEXT names, else the one that was chosen.
fn chosen(saved: &Saved) -> anyhow::Result<Option<(String, Entry)>> {
    let named = std::env::var("SLIPWAY_CONTEXT").ok().filter(|name| !name.is_empty());
    let name = named.clone().unwrap_or_else(|| saved.current.clone());
    match (saved.contexts.get(&name), named) {
        (Some(entry), _) => Ok(Some((name, entry.clone()))),
        (None, Some(named)) => bail!("there is no context `{named}` (SLIPWAY_CONTEXT): {}", known(saved)),
        (None, None) => Ok(None),
    }
}

fn known(saved: &Saved) -> String {
    match saved.contexts.keys().cloned().collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "none is saved; `slipway auth login` saves one".to_owned(),
        names => format!("saved are {names}"),
    }
}

pub(crate) fn client() -> anyhow::Result<Client> {
    let (url, key) = (std::env::var("SLIPWAY_URL").ok(), std::env::var("SLIPWAY_API_KEY").ok());
    if let (Some(url), Some(key)) = (&url, &key) {
        return Ok(Client::new(url, key.clone().into()));
    }
    let saved = load()?;
    let Some((name, entry)) = chosen(&saved)? else {
        bail!(
            "no server is configured: sign in with `slipway auth login --url URL --email EMAIL`, save an API key with `slipway auth create-context`, or start a platform here with `slipway up`"
        );
    };
    // With several platforms at hand it is easy to talk to the wrong one.
    if saved.contexts.len() > 1 && url.is_none() && std::io::stderr().is_terminal() {
        note!("Context {name} ({})", entry.url);
    }
    Ok(Client::new(
        url.unwrap_or_else(|| entry.url.clone()),
        key.unwrap_or_else(|| entry.api_key.clone()).into(),
    ))
}

/// A line for a person about an error of a call: what happened and what to do, without the machinery underneath.
pub(crate) fn explain(error: &anyhow::Error) -> String {
    let Some(called) = error.downcast_ref::<ClientError>() else { return format!("{error:#}") };
    match called {
        ClientError::Unreachable { url, source } => {
            format!("cannot reach {url} ({}): is the server running?", reason(source))
        }
        ClientError::Refused(body) if body.status == 401 => {
            let at = load().ok().and_then(|saved| chosen(&saved).ok().flatten());
            let (whose, url) = match (std::env::var("SLIPWAY_API_KEY"), at) {
                (Ok(_), _) => ("in SLIPWAY_API_KEY".to_owned(), String::new()),
                (_, Some((name, entry))) => (format!("of context {name}"), format!(" --url {}", entry.url)),
                _ => (String::new(), String::new()),
            };
            format!(
                "the API key {whose} is not valid there: sign in with `slipway auth login{url} --email EMAIL`"
            )
        }
        other => other.to_string(),
    }
}

/// In a few words why nobody answered.
pub(crate) fn reason(error: &reqwest::Error) -> String {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut last = error.to_string();
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            match io.kind() {
                std::io::ErrorKind::ConnectionRefused => return "connection refused".to_owned(),
                std::io::ErrorKind::ConnectionReset => return "connection reset".to_owned(),
                std::io::ErrorKind::TimedOut => return "no answer".to_owned(),
                _ => {}
            }
        }
        last = inner.to_string();
        source = inner.source();
    }
    if error.is_timeout() { "no answer".to_owned() } else { last }
}

pub(crate) async fn login(arguments: LoginArguments) -> anyhow::Result<ExitCode> {
    let url = match arguments.url {
        Some(url) => url,
        None => chosen(&load()?)?.map_or_else(|| DEFAULT_URL.to_owned(), |(_, entry)| entry.url),
    };
    let name = arguments.name.unwrap_or_else(|| name_of(&url));
    let user = super::login::login(&name, &url, &arguments.email, arguments.password_stdin).await?;
    let account = &user.active_account_name;
    let said = format!("Signed in as {} to account {account}; using context `{name}`", user.user_name);
    let context =
        serde_json::json!({"name": name, "url": url, "userName": user.user_name, "account": account});
    done(arguments.output, &context, &name, &said)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn whoami(output: OutputArguments) -> anyhow::Result<ExitCode> {
    let client = client()?;
    let user: User = client.get("/api/user").await?;
    let sentence = || {
        say!(
            "{} <{}> in account {} at {}",
            user.user_name,
            user.email,
            user.active_account_name,
            client.base()
        );
        Ok(())
    };
    let shown = serde_json::json!({"userName": user.user_name, "email": user.email,
        "account": user.active_account_name, "url": client.base()});
    print_one(output.output, &shown, &user.user_name, sentence)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn run(command: AuthCommand) -> anyhow::Result<ExitCode> {
    match command {
        AuthCommand::Login(arguments) => return login(arguments).await,
        AuthCommand::CreateContext { name, url, api_key, output } => {
            let user: User = Client::new(&url, api_key.clone().into()).get("/api/user").await?;
            save(&name, &url, &api_key)?;
            let said = format!("Using context `{name}`: {} at {url}", user.user_name);
            let context = serde_json::json!({"name": name, "url": url, "userName": user.user_name});
            done(output, &context, &name, &said)?;
        }
        AuthCommand::UseContext { name, output } => {
            let mut saved = load()?;
            if !saved.contexts.contains_key(&name) {
                bail!("there is no context `{name}`: {}", known(&saved));
            }
            saved.current.clone_from(&name);
            store(&saved)?;
            let context = serde_json::json!({"name": name, "url": saved.contexts[&name].url});
            done(output, &context, &name, &format!("Using context `{name}`"))?;
        }
        AuthCommand::GetContexts(output) => {
            let saved = load()?;
            let current = chosen(&saved)?.map(|(name, _)| name);
            let rows: Vec<_> = saved
                .contexts
                .iter()
                .map(|(name, entry)| {
                    serde_json::json!({"name": name, "url": entry.url, "current": current.as_ref() == Some(name)})
                })
                .collect();
            let row = |row: &serde_json::Value| {
                let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
                let mark = if row["current"] == true { "*" } else { "" };
                vec![text("name"), text("url"), mark.to_owned()]
            };
            let nothing = "No contexts are saved: `slipway auth login` saves one, and so does `slipway up`.";
            print(output.output, &rows, &["NAME", "URL", "CURRENT"], row, nothing)?;
        }
        AuthCommand::CurrentContext(output) => match chosen(&load()?)? {
            Some((name, entry)) => {
                done(output, &serde_json::json!({"name": name, "url": entry.url}), &name, &name)?;
            }
            None => bail!("no context is in use: sign in with `slipway auth login`"),
        },
        AuthCommand::DeleteContext { name, output } => {
            let mut saved = load()?;
            if saved.contexts.remove(&name).is_none() {
                bail!("there is no context `{name}`: {}", known(&saved));
            }
            store(&saved)?;
            let deleted = serde_json::json!({"name": name, "deleted": true});
            done(output, &deleted, &name, &format!("Deleted context `{name}`"))?;
        }
        AuthCommand::Whoami(output) => return whoami(output).await,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_platforms_on_one_machine_do_not_take_each_others_context() {
        let (first_folder, second_folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut saved = Saved::default();
        let (one, two) = (first_folder.path().to_owned(), second_folder.path());
        let first = keep_in(&mut saved, "http://127.0.0.1:8080", &one, Some("k1"));
        assert_eq!(first, Kept::InUse("127.0.0.1:8080".into()));
        let second = keep_in(&mut saved, "http://127.0.0.1:9090", two, Some("k2"));
        assert_eq!(second, Kept::Beside { own: "127.0.0.1:9090".into(), used: "127.0.0.1:8080".into() });
        assert_eq!(saved.contexts["127.0.0.1:8080"].api_key, "k1");
        // The first comes up again elsewhere: its key moves with it, and it is still the one in use.
        let moved = keep_in(&mut saved, "http://127.0.0.1:7070", &one, None);
        assert_eq!(moved, Kept::InUse("127.0.0.1:7070".into()));
        assert_eq!(saved.contexts["127.0.0.1:7070"].api_key, "k1");
        assert!(!saved.contexts.contains_key("127.0.0.1:8080"));
        assert_eq!(keep_in(&mut saved, "http://127.0.0.1:6060", Path::new("/nowhere"), None), Kept::Unknown);
        // The folder of the one in use is gone: whoever comes next is used.
        drop(first_folder);
        let next = keep_in(&mut saved, "http://127.0.0.1:9090", two, None);
        assert_eq!(next, Kept::InUse("127.0.0.1:9090".into()));
    }

    #[test]
    fn an_unreachable_server_is_told_in_one_short_sentence() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", held.local_addr().unwrap());
        drop(held);
        let client = Client::new(&url, "key".to_owned().into());
        let error = runtime.block_on(client.get::<serde_json::Value>("/api/user")).unwrap_err();
        let said = explain(&error.into());
        assert_eq!(said, format!("cannot reach {url} (connection refused): is the server running?"));
    }
}
