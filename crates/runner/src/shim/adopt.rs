//! An attempt whose supervisor is gone: find out how it ended, or say that nobody knows.
//!
//! A container outlives its supervisor, and the engine remembers how it ended. A process of the
//! sandbox does not: it died with the supervisor.

use std::io;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use super::supervise::{Supervisor, Target, child_signals, finish, lock};
use super::{exports, part, pod};
use crate::layout::{AttemptDir, now_ms, read_if_whole};
use crate::task::{Exit, How, Run};

pub(super) fn main(dir: &Path) -> ExitCode {
    let _ = nix::unistd::setsid();
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    let dir = AttemptDir(dir.to_owned());
    let _lock = match lock(&dir) {
        Ok(lock) => lock,
        Err(error) => {
            eprintln!("slipway: cannot lock the attempt {}: {error}", dir.0.display());
            return ExitCode::FAILURE;
        }
    };
    if dir.exit().exists() {
        return ExitCode::SUCCESS;
    }
    // Without a task nothing can have begun, or nobody can say what.
    finish(&dir, Supervisor::open(&dir).map_or_else(|_| Ok(interrupted()), adopt))
}

fn adopt(mut supervisor: Supervisor) -> io::Result<Exit> {
    let settled: Option<Exit> = read_if_whole(&supervisor.dir.settled())?;
    if let Run::Pod(work) = supervisor.task.run.clone() {
        supervisor.deadline = remaining(&supervisor);
        return match settled {
            Some(exit) => pod::tidy(&mut supervisor, &work, exit),
            None => pod::run(&mut supervisor, &work, true),
        };
    }
    if let Some(exit) = settled {
        return supervisor.tidy(exit);
    }
    if !matches!(supervisor.task.run, Run::Container { .. }) {
        return Ok(interrupted());
    }
    let exit = rejoin(&mut supervisor)
        .unwrap_or_else(|error| Exit { message: Some(error.to_string()), ..interrupted() });
    supervisor.settle(&exit)?;
    supervisor.tidy(exit)
}

/// Stays with a container until its end.
fn rejoin(supervisor: &mut Supervisor) -> io::Result<Exit> {
    let Run::Container { engine, name, also, .. } = supervisor.task.run.clone() else {
        return Ok(interrupted());
    };
    let exit = match state(&engine, &name) {
        State::Running => {
            supervisor.deadline = remaining(supervisor);
            let signals = child_signals()?;
            let mut command = part("exec");
            command.args(&engine).args(["wait", &name]);
            // The exit code that `wait` prints is asked for below, with the rest.
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
            let target = Target::Container { engine: engine.clone(), name: name.clone() };
            let ended = supervisor.watch(child, None, &signals, &target)?;
            let mut exit = supervisor.exit(&ended);
            match state(&engine, &name) {
                State::Exited(code) => exit.code = Some(code),
                _ => exit = interrupted(),
            }
            exit
        }
        State::Exited(code) => Exit::new(How::Exited, Some(code), None),
        State::NeverRan => interrupted(),
    };
    let exit = if exit.how == How::Interrupted {
        exit
    } else {
        rest_of_output(supervisor, &engine, &name)?;
        let signals = child_signals()?;
        supervisor.others(exit, &engine, &also, &signals)?
    };
    let mut exit = exit;
    exit.exports = exports::take(&supervisor.task.volume);
    supervisor.save_caches(&exit)?;
    Ok(exit)
}

fn interrupted() -> Exit {
    Exit::new(
        How::Interrupted,
        None,
        Some("the machine or the step's supervisor went down while the step ran".to_owned()),
    )
}

/// The timeout counts from the attempt's start, whoever watches it.
fn remaining(supervisor: &Supervisor) -> Option<Instant> {
    let spent = std::fs::read_to_string(supervisor.dir.started())
        .ok()
        .and_then(|text| text.trim().parse::<i64>().ok())
        .map_or(0, |started| u64::try_from(now_ms() - started).unwrap_or(0));
    let ms = supervisor.task.timeout_ms?;
    Some(Instant::now() + Duration::from_millis(ms.saturating_sub(spent)))
}

enum State {
    Running,
    Exited(i32),
    /// Unknown to the engine, or made but never started.
    NeverRan,
}

fn state(engine: &[String], name: &str) -> State {
    let text = ask(engine, &["container", "inspect", "--format={{.State.Status}} {{.State.ExitCode}}", name]);
    let text = text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let mut words = text.split_whitespace();
    match (words.next(), words.next().and_then(|code| code.parse().ok())) {
        (Some("running" | "paused" | "stopping" | "restarting"), _) => State::Running,
        (Some("exited" | "stopped" | "dead"), Some(code)) => State::Exited(code),
        _ => State::NeverRan,
    }
}

/// What the container said after its supervisor had stopped listening.
fn rest_of_output(supervisor: &mut Supervisor, engine: &[String], name: &str) -> io::Result<()> {
    let Some(all) = ask(engine, &["logs", name]) else { return Ok(()) };
    let heard = std::fs::read(supervisor.dir.output())?;
    let intro: usize = supervisor.task.intro.iter().map(|line| line.len() + 1).sum();
    let preface: usize = read_if_whole(&supervisor.dir.preface())?.unwrap_or(intro);
    let heard = heard.get(preface..).unwrap_or_default();
    if all.starts_with(heard) {
        let rest = all[heard.len()..].to_vec();
        return supervisor.output.write(&rest);
    }
    supervisor.output.line("")?;
    supervisor.output.line("slipway: the step's supervisor was lost; lines before this one may be missing")
}

fn ask(engine: &[String], args: &[&str]) -> Option<Vec<u8>> {
    let (mut reader, writer) = io::pipe().ok()?;
    let mut command = Command::new(&engine[0]);
    // `logs` gives both streams; in one pipe they keep their order as well as the engine kept it.
    command
        .args(&engine[1..])
        .args(args)
        .stdin(Stdio::null())
        .stderr(writer.try_clone().ok()?)
        .stdout(writer);
    let mut child = command.spawn().ok()?;
    drop(command);
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut reader, &mut bytes).ok()?;
    child.wait().ok()?.success().then_some(bytes)
}
