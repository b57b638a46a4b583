//! Who may do what, and whether the records of it are whole.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};
use slipway_api::access::{Explanation, RuleKind};
use slipway_api::audit::AuditVerification;

use super::context;
use super::nouns::part;
use super::output::{OutputArguments, done, print};

#[derive(Subcommand)]
pub(crate) enum AccessCommand {
    /// Explain whether a user may do something, and why: exit 0 when allowed, 1 when denied
    Explain {
        /// E-mail, id, or name of a service account; yourself by default
        #[arg(long)]
        user: Option<String>,
        /// Action, for example run or SYNC
        #[arg(long)]
        action: String,
        /// Resource, for example pipeline/demo/build or gitopsApplications/RUNTIME/NAMESPACE/NAME
        #[arg(long)]
        entity: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// List the kinds of resources and actions that rules can be about
    Kinds(OutputArguments),
}

pub(crate) async fn access(command: AccessCommand) -> anyhow::Result<ExitCode> {
    let client = context::client()?;
    match command {
        AccessCommand::Explain { user, action, entity, output } => {
            let user = user.map(|user| format!("&user={}", part(&user))).unwrap_or_default();
            let path = format!("/api/access/explain?action={}&entity={}{user}", part(&action), part(&entity));
            let answer: Explanation = client.get(&path).await?;
            let rule = answer.rule.as_ref().map(|rule| format!(" (rule {rule})")).unwrap_or_default();
            let verdict = if answer.allowed { "allowed" } else { "denied" };
            done(output, &answer, verdict, &format!("{verdict}: {}{rule}", answer.reason))?;
            Ok(if answer.allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        AccessCommand::Kinds(output) => {
            let kinds: Vec<RuleKind> = client.get("/api/abac/kinds").await?;
            let row = |kind: &RuleKind| vec![kind.entity_type.clone(), kind.actions.join(" ")];
            print(output.output, &kinds, &["KIND", "ACTIONS"], row, "There are none.")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// Verify that no record was changed, removed, added or moved: exit 0 when the chain is intact, 1 when not
    Verify {
        /// Verify the chain of the platform instead of the account's
        #[arg(long)]
        platform: bool,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Save the records as CSV
    Download {
        /// File to write
        #[arg(long, default_value = "audit.csv")]
        file: PathBuf,
        #[command(flatten)]
        output: OutputArguments,
    },
}

pub(crate) async fn audit(command: AuditCommand) -> anyhow::Result<ExitCode> {
    let client = context::client()?;
    match command {
        AuditCommand::Verify { platform, output } => {
            let path = if platform { "/api/admin/audit/verify" } else { "/api/audit/verify" };
            let found: AuditVerification = client.get(path).await?;
            for problem in &found.problems {
                note!("error: {problem}");
            }
            let said = if found.ok {
                format!("The chain is intact: {} records, head {}", found.records, found.head)
            } else {
                format!("The chain is not intact: {} records", found.records)
            };
            done(output, &found, if found.ok { "intact" } else { "broken" }, &said)?;
            Ok(if found.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        AuditCommand::Download { file, output } => {
            let request = client.request(reqwest::Method::GET, "/api/audit/download");
            let text = client.send(request).await?.text().await?;
            std::fs::write(&file, &text)?;
            let (records, name) = (text.lines().count().saturating_sub(1), file.display().to_string());
            let saved = json!({"file": name, "records": records});
            done(output, &saved, &name, &format!("Saved {records} records to {name}"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum SecretsCommand {
    /// Create a new master key and re-encrypt every account's key with it; the old one is useless afterwards
    Rotate(OutputArguments),
}

pub(crate) async fn secrets(command: SecretsCommand) -> anyhow::Result<ExitCode> {
    match command {
        SecretsCommand::Rotate(output) => {
            let rotated: Value = context::client()?.post("/api/admin/secrets/rotate", &json!({})).await?;
            let master = rotated["master"].as_str().unwrap_or_default();
            let keys = &rotated["dataKeys"];
            let said = format!("Rotated: {keys} data keys are wrapped by the new master key {master}");
            done(output, &rotated, master, &said)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
