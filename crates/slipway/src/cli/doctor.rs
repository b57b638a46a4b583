//! `slipway doctor`: can the platform be used from here, and if not, why and what to do.
//!
//! In: an address (and a key, where one is saved). Out: a line for each question, all of them, and exit 1 when one is answered
//! with no. It changes nothing; `helm test` of the charts is this.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use slipway_api::Client;

use super::context;
use super::output::{OutputArguments, print};

const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Args)]
pub(crate) struct DoctorArguments {
    /// Address of the platform; that of the context in use by default
    #[arg(long)]
    server: Option<String>,
    /// A file with certificates (PEM) that the platform may show besides those that the system trusts
    #[arg(long, env = "SLIPWAY_CA")]
    ca: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct Check {
    check: &'static str,
    /// `ok`, `warning` or `failed`.
    outcome: &'static str,
    says: String,
}

impl Check {
    fn new(check: &'static str, outcome: &'static str, says: impl Into<String>) -> Self {
        Self { check, outcome, says: says.into() }
    }
}

pub(crate) async fn run(arguments: DoctorArguments) -> anyhow::Result<ExitCode> {
    let (base, key) = match (&arguments.server, context::client()) {
        // A key is of the platform that it was saved for, and goes nowhere else.
        (Some(url), Ok(client)) if client.base() == url.trim_end_matches('/') => {
            (url.clone(), Some(client.key().clone()))
        }
        (Some(url), _) => (url.clone(), None),
        (None, client) => {
            let client = client.context("give --server, or sign in first")?;
            (client.base().to_owned(), Some(client.key().clone()))
        }
    };
    let base = base.trim_end_matches('/').to_owned();
    let ca = arguments
        .ca
        .as_ref()
        .map(|path| std::fs::read(path).with_context(|| format!("cannot read --ca {}", path.display())))
        .transpose()?;
    let http = slipway_api::client::http(&base, ca.as_deref()).map_err(anyhow::Error::msg)?;
    let mut checks = vec![asked(&http, &base, "alive", "/healthz").await];
    if checks[0].outcome != "failed" {
        checks.push(asked(&http, &base, "ready", "/readyz").await);
        if let Some(key) = key {
            let client = Client::trusting(&base, key, ca.as_deref()).map_err(anyhow::Error::msg)?;
            checks.extend(signed_in(&client).await);
        }
    }
    let failed = checks.iter().any(|check| check.outcome == "failed");
    print(
        arguments.output.output,
        &checks,
        &["CHECK", "OUTCOME", "SAYS"],
        |check| vec![check.check.to_owned(), check.outcome.to_owned(), check.says.clone()],
        "",
    )?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn asked(http: &reqwest::Client, base: &str, check: &'static str, path: &str) -> Check {
    let url = format!("{base}{path}");
    match http.get(&url).timeout(PATIENCE).send().await {
        Err(error) => {
            let why = slipway_api::untrusted(&error).map_or_else(
                || format!("cannot reach {base} ({}): is the server running, and does a proxy or firewall let this through?", context::reason(&error)),
                |why| format!("{base} shows a certificate that is not trusted here ({why}): give its authority's with --ca FILE"),
            );
            Check::new(check, "failed", why)
        }
        Ok(answer) => {
            let status = answer.status();
            let text = answer.text().await.unwrap_or_default();
            let text = text.lines().next().unwrap_or_default();
            match (status.is_success(), text) {
                (true, "ok" | "ready") => Check::new(check, "ok", format!("{base} is {check}")),
                // Ready, but without a part: it says which.
                (true, text) if text.starts_with("ready") => Check::new(check, "warning", text),
                (true, _) => Check::new(
                    check,
                    "failed",
                    format!("{url} is not answered by Slipway: is the address right?"),
                ),
                (false, text) => Check::new(check, "failed", format!("{url} answered {status}: {text}")),
            }
        }
    }
}

/// What only somebody who is signed in can ask.
async fn signed_in(client: &Client) -> Vec<Check> {
    let me: Value = match client.get("/api/user").await {
        Ok(me) => me,
        Err(error) => return vec![Check::new("signed in", "failed", context::explain(&error.into()))],
    };
    let who = me["email"].as_str().or(me["userName"].as_str()).unwrap_or("somebody");
    let mut checks = vec![Check::new("signed in", "ok", format!("as {who}"))];
    for (check, path, none) in [
        ("runners", "/api/runners", "no runner is registered: builds wait (`slipway runner --help`)"),
        (
            "runtimes",
            "/api/runtimes",
            "no runtime is registered: nothing is deployed (`slipway runtime --help`)",
        ),
    ] {
        // Whoever may not see them is not told about them.
        let Ok(all) = client.get::<Value>(path).await else { continue };
        let rows = all.as_array().or(all["items"].as_array()).cloned().unwrap_or_default();
        let online = rows.iter().filter(|row| row["online"] == true).count();
        checks.push(match (rows.len(), online) {
            (0, _) => Check::new(check, "warning", none),
            (all, online) if online < all => {
                Check::new(check, "warning", format!("{online} of {all} online"))
            }
            (all, _) => Check::new(check, "ok", format!("{all} online")),
        });
    }
    checks
}
