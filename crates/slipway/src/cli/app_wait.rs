//! Waiting for an Application: what it becomes is told by the change stream, so nothing is asked for in vain.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use slipway_api::Client;
use slipway_api::application::{Application, OperationOrdered};
use slipway_model::{HealthCode, SyncCode};
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

/// The beginning of a commit's id. Branches and tags move, so there would be no telling what was waited for.
pub(crate) fn commit(text: &str) -> Result<String, String> {
    let text = text.to_ascii_lowercase();
    if (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(text);
    }
    Err("a commit's id has 40 hexadecimal digits; give at least the first 7 (`git rev-parse HEAD` prints it)"
        .into())
}

/// How long somebody waits at most.
const PATIENCE_MAX_MS: i64 = 7 * 24 * 60 * 60 * 1000;

/// Seconds, or a number with its unit.
pub(crate) fn patience(text: &str) -> Result<Duration, String> {
    let read = slipway_dialect::duration::parse_or_seconds(text);
    let fits = read.filter(|ms| (1..=PATIENCE_MAX_MS).contains(ms)).and_then(|ms| u64::try_from(ms).ok());
    fits.map(Duration::from_millis)
        .ok_or_else(|| "give seconds, or a time such as 90s, 5m or 1h, of at most 7 days".into())
}

/// Whether there is nothing left to wait for: of the commit asked for, if one was, and not of the one before it.
fn is_settled(app: &Application, revision: Option<&str>) -> bool {
    let of_it =
        revision.is_none_or(|commit| app.revision.as_ref().is_some_and(|at| at.sha.starts_with(commit)));
    let busy = app.operation.as_ref().is_some_and(|operation| !operation.is_over());
    app.sync_status == SyncCode::Synced && app.health_status == HealthCode::Healthy && !busy && of_it
}

pub(crate) async fn wait(
    client: &Client,
    app: &Application,
    revision: Option<&str>,
    timeout: Duration,
    output: OutputArguments,
) -> anyhow::Result<ExitCode> {
    let until = Instant::now() + timeout;
    let mut following = Following::start(client, app).await?;
    let mut progress = Progress::of(output);
    let wanted = revision.map(|commit| format!(" at {commit}")).unwrap_or_default();
    loop {
        let app = following.now().await.context("while waiting")?;
        progress.tell(format!("{} / {}: {}", app.sync_status, app.health_status, app.summary));
        if is_settled(&app, revision) {
            return progress.end(&app);
        }
        match tokio::time::timeout_at(until, following.changed()).await {
            Ok(changed) => changed?,
            Err(_) => bail!(
                "{} was not Synced and Healthy{wanted} within {} s; it is {} / {} at {}",
                app.name,
                timeout.as_secs(),
                app.sync_status,
                app.health_status,
                app.revision.map_or_else(|| "no revision".to_owned(), |at| at.sha)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use slipway_api::application::{Operation, Revision};

    use super::*;

    fn settled_at(sha: &str) -> Application {
        Application {
            sync_status: "Synced".into(),
            health_status: "Healthy".into(),
            revision: Some(Revision { sha: sha.into(), ..Revision::default() }),
            ..Application::default()
        }
    }

    #[test]
    fn a_limit_is_in_seconds_or_says_its_unit() {
        for (text, seconds) in [("300", 300), ("60s", 60), ("5m", 300), ("1h30m", 5400)] {
            assert_eq!(patience(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "soon", "0", "-5", "-5s", "999999999999999999", "200h"] {
            assert!(patience(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_state_of_the_commit_before_is_not_what_was_waited_for() {
        let app = settled_at("4b825dc642cb6eb9a060e54bf8d69288fbee4904");
        assert!(is_settled(&app, None));
        assert!(is_settled(&app, Some("4b825dc")));
        assert!(!is_settled(&app, Some("a94a8fe")));
        assert!(!is_settled(&Application { revision: None, ..app.clone() }, Some("4b825dc")));
        let running = Operation { phase: "Running".into(), ..Operation::default() };
        assert!(!is_settled(&Application { operation: Some(running), ..app }, Some("4b825dc")));
    }

    #[test]
    fn a_commit_is_named_by_its_id() {
        assert_eq!(commit("4B825DC"), Ok("4b825dc".to_owned()));
        for wrong in ["main", "v1.0", "4b825d", "", "4b825dc642cb6eb9a060e54bf8d69288fbee4904 "] {
            assert!(commit(wrong).is_err_and(|error| error.contains("git rev-parse")), "{wrong}");
        }
    }
}
