//! Messages of the bus that could not be followed up, over the API: only an administrator of the platform sees them.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};

use crate::cli::context;

#[derive(Subcommand)]
pub(crate) enum MessagesCommand {
    /// List those that are tried again later, and those that were given up
    List,
    /// Try again from now on: one, or all that were given up
    Retry {
        /// As `slipway admin messages list` shows it, for example triggers:42; all that were given up when left out
        id: Option<String>,
    },
}

pub(crate) async fn run(command: MessagesCommand) -> anyhow::Result<ExitCode> {
    let client = context::client()?;
    match command {
        MessagesCommand::List => {
            let kept: Value = client.get("/api/admin/messages").await?;
            let rows = kept["messages"].as_array().cloned().unwrap_or_default();
            let text = |row: &Value, name: &str| row[name].as_str().unwrap_or("-").to_owned();
            for row in &rows {
                let state = match row["dead"].as_str() {
                    Some(since) => format!("given up {since}"),
                    None => format!("next {}", text(row, "next")),
                };
                say!("{}  {}  {} attempts  {state}", text(row, "id"), text(row, "topic"), row["attempts"]);
                say!("    {}", text(row, "problem"));
            }
            let at_broker = kept["atBroker"].as_u64().unwrap_or(0);
            if at_broker > 0 {
                say!(
                    "{at_broker} more were set aside by the broker; `slipway admin messages retry` plays them again"
                );
            }
            if rows.is_empty() && at_broker == 0 {
                say!("No messages wait or were given up");
            }
        }
        MessagesCommand::Retry { id: Some(id) } => {
            let _: Value = client.post(&format!("/api/admin/messages/{id}/retry"), &json!({})).await?;
            say!("{id} is tried again");
        }
        MessagesCommand::Retry { id: None } => {
            let count: Value = client.post("/api/admin/messages/retry", &json!({})).await?;
            say!("{count} messages are tried again");
        }
    }
    Ok(ExitCode::SUCCESS)
}
