//! Runtimes as the platform knows them: registered, renamed, given a new token, revoked.

use std::process::ExitCode;

use clap::Args;
use slipway_api::runtime::{ChangeRuntime, CreateRuntime, Runtime, RuntimeToken};

use crate::cli::context;
use crate::cli::nouns::{confirm, part};
use crate::cli::output::{OutputArguments, done};

#[derive(Args)]
pub(crate) struct CreateArguments {
    /// At most 38 lowercase letters, digits and hyphens
    name: String,
    /// Where an ingress makes it reachable; without it the runtime opens a tunnel
    #[arg(long, value_name = "URL", default_value = "")]
    ingress_url: String,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Args)]
pub(crate) struct SetArguments {
    name: String,
    /// Where an ingress makes it reachable; empty: through a tunnel
    #[arg(long, value_name = "URL")]
    ingress_url: Option<String>,
    /// An address or network from which callers may use its tunnel; may be given several times. Empty: from everywhere
    #[arg(long = "allow", value_name = "NETWORK")]
    allowed: Option<Vec<String>>,
    #[command(flatten)]
    output: OutputArguments,
}

pub(crate) async fn create(arguments: CreateArguments) -> anyhow::Result<ExitCode> {
    let request = CreateRuntime { name: arguments.name, ingress_url: arguments.ingress_url };
    let token: RuntimeToken = context::client()?.post("/api/runtimes", &request).await?;
    shown_once(&token, arguments.output)
}

pub(crate) async fn token(name: &str, output: OutputArguments) -> anyhow::Result<ExitCode> {
    let path = format!("/api/runtimes/{}/token", part(name));
    let token: RuntimeToken = context::client()?.post(&path, &serde_json::json!({})).await?;
    shown_once(&token, output)
}

/// The token alone goes to standard output, so that it can go on into a file or a Secret.
fn shown_once(token: &RuntimeToken, output: OutputArguments) -> anyhow::Result<ExitCode> {
    note!(
        "Runtime {}: run this where its cluster is, with the token in SLIPWAY_TOKEN; it is shown once:",
        token.name
    );
    note!("  {}", token.command);
    done(output, token, &token.name, &token.token)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn rename(name: &str, to: String, output: OutputArguments) -> anyhow::Result<ExitCode> {
    let change = ChangeRuntime { name: Some(to), ..ChangeRuntime::default() };
    let runtime = changed(name, &change).await?;
    done(output, &runtime, &runtime.name, &format!("Runtime {name} is called {} now", runtime.name))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn set(arguments: SetArguments) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        arguments.ingress_url.is_some() || arguments.allowed.is_some(),
        "nothing to change: give --ingress-url or --allow"
    );
    let allowed = arguments.allowed.map(|all| all.into_iter().filter(|one| !one.is_empty()).collect());
    let change = ChangeRuntime { ingress_url: arguments.ingress_url, allowed_addresses: allowed, name: None };
    let runtime = changed(&arguments.name, &change).await?;
    done(
        arguments.output,
        &runtime,
        &runtime.name,
        &format!("Runtime {} is reached at {}", runtime.name, runtime.url),
    )?;
    Ok(ExitCode::SUCCESS)
}

async fn changed(name: &str, change: &ChangeRuntime) -> anyhow::Result<Runtime> {
    Ok(context::client()?.patch(&format!("/api/runtimes/{}", part(name)), change).await?)
}

pub(crate) async fn revoke(name: &str, output: OutputArguments) -> anyhow::Result<ExitCode> {
    confirm(&format!("Revoke the token of runtime {name}? It goes offline at once."), false)?;
    let revoked: bool = context::client()?.delete(&format!("/api/runtimes/{}/token", part(name))).await?;
    done(
        output,
        &revoked,
        name,
        &format!("The token of runtime {name} is revoked; `slipway runtime token {name}` makes a new one"),
    )?;
    Ok(ExitCode::SUCCESS)
}
