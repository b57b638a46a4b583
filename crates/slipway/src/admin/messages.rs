//! Messages of the bus that could not be followed up, over the API: only an administrator of the platform sees them.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};

use crate::cli::context;
use crate::cli::output::{OutputArguments, done, print, when};

#[derive(Subcommand)]
pub(crate) enum MessagesCommand {
    /// List those that are tried again later, and those that were given up
    List(OutputArguments),
    /// Try again from now on: one, or all that were given up
    Retry {
        /// As `slipway admin messages list` shows it, for example triggers:42; all that were given up when left out
        id: Option<String>,
        #[command(flatten)]
        output: OutputArguments,
    },
}

pub(crate) async fn run(command: MessagesCommand) -> anyhow::Result<ExitCode> {
    let client = context::client()?;
    match command {
        MessagesCommand::List(output) => list(&client.get("/api/admin/messages").await?, output)?,
        MessagesCommand::Retry { id: Some(id), output } => {
            let answer: Value = client.post(&format!("/api/admin/messages/{id}/retry"), &json!({})).await?;
            done(output, &answer, &id, &format!("Retrying {id}"))?;
        }
        MessagesCommand::Retry { id: None, output } => {
            let count: Value = client.post("/api/admin/messages/retry", &json!({})).await?;
            done(output, &count, &count.to_string(), &format!("Retrying {count} messages"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(kept: &Value, output: OutputArguments) -> anyhow::Result<()> {
    let rows = kept["messages"].as_array().cloned().unwrap_or_default();
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or("-").to_owned();
    let row = |row: &Value| {
        let state = match row["dead"].as_str() {
            Some(since) => format!("given up {}", when(since)),
            None => format!("retried {}", when(&text(row, "next"))),
        };
        vec![text(row, "id"), text(row, "topic"), row["attempts"].to_string(), state, text(row, "problem")]
    };
    let nothing = "No messages are waiting or were given up.";
    print(output.output, &rows, &["ID", "TOPIC", "ATTEMPTS", "STATE", "PROBLEM"], row, nothing)?;
    let at_broker = kept["atBroker"].as_u64().unwrap_or(0);
    if at_broker > 0 {
        note!("{at_broker} more were set aside by the broker; `slipway admin messages retry` retries them");
    }
    Ok(())
}
