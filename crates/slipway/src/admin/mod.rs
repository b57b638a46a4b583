//! What the one who runs the platform does beside it: back it up, restore it, give agents their keys.

mod archive;
mod backup;
mod jobs;
mod messages;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::json;
use slipway_server::{Config, Seams, Server};
use slipway_store::{DatabaseUrl, Store};
use tokio_util::sync::CancellationToken;

use crate::cli::output::{OutputArguments, done};

#[derive(Subcommand)]
pub(crate) enum AdminCommand {
    /// Write everything into one file, while the platform runs: rows of one instant, repositories, the key of secrets
    Backup {
        #[command(flatten)]
        place: Place,
        /// The file to write; it holds secrets and is readable by its owner alone
        file: PathBuf,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Put a backup in place, on either database. The platform must not be running
    Restore {
        #[command(flatten)]
        place: Place,
        /// Replace what is there
        #[arg(long)]
        force: bool,
        file: PathBuf,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Let people sign in to an account with a password again, when its identity provider is gone
    AllowPasswords {
        #[command(flatten)]
        place: Place,
        /// The account's name
        account: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// List background jobs: last and next run, how long they took, how they went and which process leads them
    Jobs(OutputArguments),
    /// Messages that could not be followed up: list them, have them tried again. Asks the platform that you are signed in to
    #[command(subcommand)]
    Messages(messages::MessagesCommand),
    /// Refused, with what to do instead: no program takes such a key
    #[command(hide = true)]
    AgentKey { kind: String, name: Option<String> },
}

#[derive(Args)]
pub(crate) struct Place {
    /// `postgres://user@host/database`, or `sqlite:FOLDER`; SQLite in the data folder when left out
    #[arg(long, env = "SLIPWAY_DATABASE", hide_env_values = true)]
    database: Option<String>,
    /// Git repositories and the key that seals secrets
    #[arg(long, default_value = ".slipway", env = "SLIPWAY_DATA")]
    data: PathBuf,
}

impl Place {
    fn database(&self) -> anyhow::Result<DatabaseUrl> {
        match &self.database {
            Some(url) => Ok(url.parse()?),
            None => Ok(DatabaseUrl::Sqlite(self.data.clone())),
        }
    }
}

pub(crate) async fn run(command: AdminCommand) -> anyhow::Result<ExitCode> {
    match command {
        AdminCommand::Backup { place, file, output } => {
            let store = Store::connect_to_read(&place.database()?)?;
            let written = backup::write(&store, &place.data, &file).await?;
            let name = file.display().to_string();
            let said = format!("Wrote {name}: {} rows, {} repositories", written.rows, written.repositories);
            let shown = json!({"file": name, "rows": written.rows, "repositories": written.repositories});
            done(output, &shown, &name, &said)?;
        }
        AdminCommand::Restore { place, force, file, output } => {
            crate::private::folder(&place.data)?;
            let store = Store::connect_beside(&place.database()?)?;
            if store.is_served().await? {
                bail!(
                    "processes of the platform are connected to this database: stop all of them first (SIGTERM), then restore"
                );
            }
            let restored = backup::restore(&store, &place.data, &file, force).await?;
            store.close();
            let said = format!("Restored {} rows and {} repositories", restored.rows, restored.repositories);
            let shown = json!({"rows": restored.rows, "repositories": restored.repositories, "problems": restored.trail});
            done(output, &shown, &file.display().to_string(), &said)?;
            for problem in &restored.trail {
                note!("The audit trail of the backup is not intact: {problem}");
            }
        }
        AdminCommand::AllowPasswords { place, account, output } => {
            let store = Store::connect(&place.database()?)?;
            let config = Config { data: place.data, public_url: String::new(), network: Default::default() };
            let server = Server::beside(config, store, Seams::system(), CancellationToken::new())?;
            server.allow_passwords(&account).await?;
            let said = format!("People can sign in to `{account}` with a password again");
            done(output, &json!({"account": account, "passwords": true}), &account, &said)?;
            server.close();
        }
        AdminCommand::Jobs(output) => jobs::run(output).await?,
        AdminCommand::Messages(command) => return messages::run(command).await,
        AdminCommand::AgentKey { kind, name } => match kind.as_str() {
            "runner" => bail!(
                "no program takes such a key: `slipway runner token {}` prints a token, and `slipway runner --server URL --token TOKEN` \
                 registers with it",
                name.unwrap_or_else(|| "NAME".into())
            ),
            _ => bail!(
                "no program takes such a key: the GitOps runtime runs inside `slipway up`, and cannot be connected to a \
                 `slipway server` yet"
            ),
        },
    }
    Ok(ExitCode::SUCCESS)
}
