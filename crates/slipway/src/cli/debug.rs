//! Debugging a build from a terminal: a shell in a paused step, letting it go on, setting breakpoints.
//!
//! In: a build's id, and what the person types. Out: what the shell prints. The terminal is put back as it was however
//! this ends; the shell itself is the runner's.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use slipway_api::Client;
use slipway_api::build::{Build, BuildStep};
use slipway_api::debug::{
    Breakpoints, DebugOrder, DebugRequest, OpenShell, Phases, Shell, ShellBytes, ShellInput,
};
use slipway_model::Next;
use tokio::sync::mpsc;

use super::changes::Changes;
use super::output::{OutputArguments, done};

/// Ctrl-]: leaves the shell from whatever runs in it, as telnet has it.
const LEAVE: u8 = 0x1d;
/// Ctrl-D: no more input.
const END: u8 = 0x04;
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// `STEP`, `STEP:before`, `STEP:after` or `STEP:override`.
pub(crate) fn breakpoints(words: &[String]) -> anyhow::Result<Breakpoints> {
    let mut all: Breakpoints = BTreeMap::new();
    for word in words {
        let (step, phase) = word.rsplit_once(':').unwrap_or((word, "before"));
        let set: &mut Phases = all.entry(step.to_owned()).or_default();
        match phase {
            "before" => set.before = true,
            "after" => set.after = true,
            "override" => set.instead = true,
            other => bail!("`{other}` is not a valid phase: use before, after or override"),
        }
    }
    Ok(all)
}

pub(crate) async fn set(
    client: &Client,
    id: &str,
    words: &[String],
    output: OutputArguments,
) -> anyhow::Result<ExitCode> {
    let request =
        DebugRequest { action: "breakpoints".into(), breakpoints: breakpoints(words)?, ..Default::default() };
    let order: DebugOrder = client.post(&format!("/api/builds/{id}/debug"), &request).await?;
    done(output, &order, id, &format!("Build {id} will stop at {}", words.join(", ")))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn go_on(
    client: &Client,
    id: &str,
    step: Option<String>,
    output: OutputArguments,
) -> anyhow::Result<ExitCode> {
    let request = DebugRequest { action: "continue".into(), step, ..Default::default() };
    let order: DebugOrder = client.post(&format!("/api/builds/{id}/debug"), &request).await?;
    done(output, &order, &order.step, &format!("Step {} continues", order.step))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn shell(client: &Client, id: &str, step: Option<String>) -> anyhow::Result<ExitCode> {
    let step = paused(client, id, step.as_deref()).await?;
    let size = tcgetwinsize(std::io::stdout()).ok().filter(|size| size.ws_col > 0);
    let wish = OpenShell {
        step: Some(step),
        columns: size.map(|size| size.ws_col),
        rows: size.map(|size| size.ws_row),
    };
    let shell: Shell = client.post(&format!("/api/builds/{id}/debug/shells"), &wish).await?;
    note!("A shell in step {} ({}); Ctrl-] leaves it.", shell.step, shell.phase);
    let path = format!("/api/builds/{id}/debug/shells/{}", shell.id);
    let raw = Raw::enter()?;
    let typed = typed(raw.is_some());
    let why = tokio::select! {
        why = show(client, &path) => why,
        why = send(client, &path, typed) => why,
    };
    drop(raw);
    note!("\n{}. The step stays paused: `slipway build continue {id}` continues it.", why?);
    Ok(ExitCode::SUCCESS)
}

/// Waits until a step of the build is paused.
async fn paused(client: &Client, id: &str, step: Option<&str>) -> anyhow::Result<String> {
    let mut said = false;
    let mut changes = Changes::open(client, "build").await?;
    loop {
        let build: Build = client.get(&format!("/api/builds/{id}")).await?;
        let meant = |found: &&BuildStep| found.paused.is_some() && step.is_none_or(|step| step == found.name);
        if let Some(found) = build.steps.iter().find(meant) {
            return Ok(found.name.clone());
        }
        if build.finished.is_some() {
            bail!(
                "build {id} has ended with {}: `slipway build restart {id} --debug` runs it again",
                build.status
            );
        }
        if !std::mem::replace(&mut said, true) {
            note!("Waiting until a step of build {id} is paused …");
        }
        while !changes.next().await?.concerns(id) {}
    }
}

async fn show(client: &Client, path: &str) -> anyhow::Result<String> {
    let mut after = 0;
    let mut failures = 0;
    loop {
        let asked: Result<ShellBytes, _> = client.get(&format!("{path}/output?after={after}")).await;
        let answer = match asked {
            Ok(answer) => answer,
            Err(error) if error.next() == Next::Retry && failures < 60 => {
                failures += 1;
                tokio::time::sleep(RETRY_AFTER).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        failures = 0;
        let bytes = STANDARD.decode(&answer.bytes).context("the server sent something that is no shell's")?;
        if !bytes.is_empty() {
            let mut out = std::io::stdout().lock();
            out.write_all(&bytes)?;
            out.flush()?;
            after = answer.offset + bytes.len() as u64;
        }
        if let Some(why) = answer.closed {
            return Ok(why);
        }
    }
}

async fn send(client: &Client, path: &str, mut typed: mpsc::Receiver<Vec<u8>>) -> anyhow::Result<String> {
    while let Some(mut bytes) = typed.recv().await {
        while let Ok(more) = typed.try_recv() {
            bytes.extend(more);
        }
        if bytes.contains(&LEAVE) {
            client.delete::<bool>(path).await?;
            return Ok("The shell was left".to_owned());
        }
        let input = ShellInput { bytes: STANDARD.encode(&bytes) };
        client.post::<_, bool>(&format!("{path}/input"), &input).await?;
    }
    // What the shell says last is still to come.
    std::future::pending().await
}

/// A thread, because standard input has no other way to be read; it ends with the process.
fn typed(raw: bool) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        loop {
            match std::io::stdin().lock().read(&mut buffer) {
                Ok(0) | Err(_) => {
                    // A file or a pipe: the shell at the other end is told that this was all.
                    if !raw {
                        let _ = sender.blocking_send(vec![END]);
                    }
                    return;
                }
                Ok(count) => {
                    if sender.blocking_send(buffer[..count].to_vec()).is_err() {
                        return;
                    }
                }
            }
        }
    });
    receiver
}

/// The terminal gives every key as it is pressed, until this is dropped.
pub(super) struct Raw(Termios);

impl Raw {
    pub(super) fn enter() -> anyhow::Result<Option<Self>> {
        if !std::io::stdin().is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(std::io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &raw)?;
        Ok(Some(Self(before)))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breakpoints_are_read_and_stop_before_a_step_unless_said_otherwise() {
        let words = ["test", "build:after", "build:override"].map(str::to_owned);
        let all = breakpoints(&words).unwrap();
        assert_eq!(all["test"], Phases { before: true, ..Phases::default() });
        assert_eq!(all["build"], Phases { after: true, instead: true, ..Phases::default() });
        assert!(breakpoints(&["x:later".to_owned()]).is_err());
    }
}
