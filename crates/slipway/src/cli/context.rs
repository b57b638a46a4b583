//! Where the server is and who one is: saved contexts, or `SLIPWAY_URL` and `SLIPWAY_API_KEY`.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Subcommand;
use serde::{Deserialize, Serialize};
use slipway_api::Client;
use slipway_api::auth::User;

#[derive(Subcommand)]
pub(crate) enum AuthCommand {
    /// Sign in with e-mail and password, and save a context with an API key made for it
    Login {
        #[arg(long, default_value = "http://127.0.0.1:8080")]
        url: String,
        #[arg(long)]
        email: String,
        /// Name of the context
        #[arg(long, default_value = "default")]
        name: String,
    },
    /// Save a context and use it
    CreateContext {
        /// Its name
        name: String,
        #[arg(long, default_value = "http://127.0.0.1:8080")]
        url: String,
        #[arg(long, env = "SLIPWAY_API_KEY", hide_env_values = true)]
        api_key: String,
    },
    /// Use a saved context from now on
    UseContext { name: String },
    /// List saved contexts
    GetContexts,
    /// Say who you are to the server
    Whoami,
}

#[derive(Default, Serialize, Deserialize)]
struct Saved {
    current: String,
    contexts: BTreeMap<String, Entry>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Entry {
    url: String,
    api_key: String,
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

pub(crate) fn save(name: &str, url: &str, api_key: &str) -> anyhow::Result<()> {
    let mut saved = load()?;
    saved.contexts.insert(name.to_owned(), Entry { url: url.to_owned(), api_key: api_key.to_owned() });
    saved.current = name.to_owned();
    store(&saved)
}

/// The server of a saved context came up at another address.
pub(crate) fn move_to(name: &str, url: &str) -> anyhow::Result<()> {
    let mut saved = load()?;
    match saved.contexts.get_mut(name) {
        Some(entry) if entry.url != url => entry.url = url.to_owned(),
        _ => return Ok(()),
    }
    store(&saved)
}

pub(crate) fn client() -> anyhow::Result<Client> {
    let (url, key) = (std::env::var("SLIPWAY_URL").ok(), std::env::var("SLIPWAY_API_KEY").ok());
    if let (Some(url), Some(key)) = (&url, &key) {
        return Ok(Client::new(url, key.clone().into()));
    }
    let saved = load()?;
    let Some(entry) = saved.contexts.get(&saved.current) else {
        bail!(
            "no server is known: run `slipway up`, or `slipway auth create-context NAME --url URL --api-key KEY`"
        );
    };
    Ok(Client::new(
        url.unwrap_or_else(|| entry.url.clone()),
        key.unwrap_or_else(|| entry.api_key.clone()).into(),
    ))
}

pub(crate) async fn run(command: AuthCommand) -> anyhow::Result<ExitCode> {
    match command {
        AuthCommand::Login { url, email, name } => super::login::login(&name, &url, &email).await?,
        AuthCommand::CreateContext { name, url, api_key } => {
            let user: User = Client::new(&url, api_key.clone().into()).get("/api/user").await?;
            save(&name, &url, &api_key)?;
            say!("Using context `{name}`: {} at {url}", user.user_name);
        }
        AuthCommand::UseContext { name } => {
            let mut saved = load()?;
            if !saved.contexts.contains_key(&name) {
                let known = saved.contexts.keys().cloned().collect::<Vec<_>>().join(", ");
                bail!("there is no context `{name}`: known are {known}");
            }
            saved.current.clone_from(&name);
            store(&saved)?;
            say!("Using context `{name}`");
        }
        AuthCommand::GetContexts => {
            let saved = load()?;
            for (name, entry) in &saved.contexts {
                say!("{} {name}   {}", if *name == saved.current { "*" } else { " " }, entry.url);
            }
        }
        AuthCommand::Whoami => {
            let client = client()?;
            let user: User = client.get("/api/user").await?;
            say!(
                "{} <{}> in account {} at {}",
                user.user_name,
                user.email,
                user.active_account_name,
                client.base()
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}
