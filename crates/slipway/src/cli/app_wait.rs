//! Waiting for an Application: what it becomes is told by the change stream, so nothing is asked for in vain.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use slipway_api::Client;
use slipway_api::application::{Application, OperationOrdered};
use tokio::time::Instant;

use super::changes::{Changes, patiently};
use super::output::{Format, OutputArguments, print_one};

/// One Application, as it is now and after each of its changes.
pub(crate) struct Following<'a> {
    client: &'a Client,
    changes: Changes,
    id: String,
}

impl<'a> Following<'a> {
    pub(crate) async fn start(client: &'a Client, app: &Application) -> anyhow::Result<Self> {
        let id = format!("{}/{}/{}", app.runtime, app.namespace, app.name);
        Ok(Self { client, changes: Changes::open(client, "application").await?, id })
    }

    pub(crate) async fn now(&self) -> anyhow::Result<Application> {
        let path = self.id.split('/').map(super::nouns::part).collect::<Vec<_>>().join("/");
        let path = format!("/api/applications/{path}");
        patiently(async || Ok(self.client.get(&path).await?)).await
    }

    pub(crate) async fn changed(&mut self) -> anyhow::Result<()> {
        while !self.changes.next().await?.concerns(&self.id) {}
        Ok(())
    }
}

/// Progress is for people: a program that asked for an object gets that alone on stdout.
struct Progress {
    format: Format,
    last: String,
}

impl Progress {
    fn of(output: OutputArguments) -> Self {
        Self { format: output.output, last: String::new() }
    }

    fn tell(&mut self, state: String) {
        if state == self.last {
            return;
        }
        match self.format {
            Format::Table | Format::Wide => say!("{state}"),
            Format::Json | Format::Yaml | Format::Name => note!("{state}"),
        }
        self.last = state;
    }

    fn end(&self, app: &Application) -> anyhow::Result<ExitCode> {
        print_one(self.format, app, &format!("{}/{}", app.namespace, app.name), || Ok(()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Waits until the operation that was asked for is over, whatever else happens to the Application.
pub(crate) async fn finished(
    client: &Client,
    app: &Application,
    ordered: &OperationOrdered,
    timeout: Duration,
    output: OutputArguments,
) -> anyhow::Result<ExitCode> {
    let until = Instant::now() + timeout;
    let mut following = Following::start(client, app).await?;
    let mut progress = Progress::of(output);
    loop {
        let app = following.now().await.context("while waiting for the sync")?;
        let last = app.operation.clone().unwrap_or_default();
        if last.id == ordered.operation_id {
            let state = std::iter::once(last.message.clone()).chain(last.waiting_on.clone()).last();
            let state = format!("{}: {}", last.phase, state.unwrap_or_default());
            progress.tell(state.trim_end_matches(": ").to_owned());
            match last.phase.as_str() {
                "Succeeded" => return progress.end(&app),
                "Failed" | "Error" => bail!("the sync of {} failed: {}", app.name, last.message),
                _ => {}
            }
        } else if later(&last.started_at, &ordered.requested_at) {
            // Operations run one after the other, so ours is over; how it ended is in the state that it left.
            bail!(
                "another sync of {} has started since; `slipway app history {}` shows what was deployed",
                app.name,
                app.name
            );
        }
        match tokio::time::timeout_at(until, following.changed()).await {
            Ok(changed) => changed?,
            Err(_) => {
                bail!("the sync of {} was not over within {} s; it goes on", app.name, timeout.as_secs())
            }
        }
    }
}

/// Whether the first of two times is after the second.
fn later(one: &str, other: &str) -> bool {
    match (one.parse::<jiff::Timestamp>(), other.parse::<jiff::Timestamp>()) {
        (Ok(one), Ok(other)) => one > other,
        _ => false,
    }
}

pub(crate) async fn wait(
    client: &Client,
    app: &Application,
    timeout: Duration,
    output: OutputArguments,
) -> anyhow::Result<ExitCode> {
    let until = Instant::now() + timeout;
    let mut following = Following::start(client, app).await?;
    let mut progress = Progress::of(output);
    loop {
        let app = following.now().await.context("while waiting")?;
        progress.tell(format!("{} / {}: {}", app.sync_status, app.health_status, app.summary));
        let busy = app.operation.as_ref().is_some_and(|operation| !operation.is_over());
        if app.sync_status == "Synced" && app.health_status == "Healthy" && !busy {
            return progress.end(&app);
        }
        match tokio::time::timeout_at(until, following.changed()).await {
            Ok(changed) => changed?,
            Err(_) => bail!("{} was not Synced and Healthy within {} s", app.name, timeout.as_secs()),
        }
    }
}
