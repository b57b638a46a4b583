//! `slipway version --check`: what the platform's release feed says of this program, of the platform and of its runtimes.

use std::process::ExitCode;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::context;
use super::output::{Format, OutputArguments, print};

#[derive(Args)]
pub(crate) struct VersionArguments {
    /// Ask the platform which updates there are for this program, the platform and its runtimes; exit 1 when one is required
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

#[derive(Deserialize)]
struct Status {
    feed: String,
    #[serde(default)]
    problem: String,
    #[serde(default)]
    changelog: String,
    components: Vec<Component>,
}

#[derive(Deserialize, Serialize)]
struct Component {
    component: String,
    #[serde(default)]
    name: String,
    version: String,
    update: String,
    #[serde(default)]
    message: String,
}

pub(crate) async fn check(output: OutputArguments) -> anyhow::Result<ExitCode> {
    let path = format!("/api/releases?client={}", env!("CARGO_PKG_VERSION"));
    let status: Status = context::client()?.get(&path).await?;
    anyhow::ensure!(
        status.feed != "none",
        "this platform has no release feed: its operator sets one with --release-feed FILE or URL"
    );
    anyhow::ensure!(status.feed == "ok", "{}", status.problem);
    let row = |one: &Component| {
        let name = match one.component.as_str() {
            "client" => "slipway (this program)".to_owned(),
            "runtime" => format!("runtime {}", one.name),
            other => other.to_owned(),
        };
        let update = if one.update.is_empty() { "none".to_owned() } else { one.update.clone() };
        vec![name, one.version.clone(), update, one.message.clone()]
    };
    print(output.output, &status.components, &["COMPONENT", "VERSION", "UPDATE", "MESSAGE"], row, "")?;
    let any = status.components.iter().any(|one| !one.update.is_empty());
    if any && !status.changelog.is_empty() && matches!(output.output, Format::Table | Format::Wide) {
        note!("What is new: {}", status.changelog);
    }
    let required = status.components.iter().any(|one| one.update == "required");
    Ok(if required { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
