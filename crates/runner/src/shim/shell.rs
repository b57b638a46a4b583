//! A person's shell in a paused step: a terminal of its own, and behind it the same place the step runs in.
//!
//! In: a folder with a task whose program is a shell, and the name of a terminal that the runner has made. Out: nothing
//! but what the terminal shows. It ends with the shell, or when the runner hangs up the terminal: being the first of
//! its session it hears that, and what it started dies with it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use super::supervise::{exit_code, lock};
use super::{part, sandbox};
use crate::layout::{AttemptDir, read_json};
use crate::task::{Run, Task};

pub(super) fn main(dir: &Path, terminal: &Path) -> ExitCode {
    run(&AttemptDir(dir.to_owned()), terminal).unwrap_or_else(|error| {
        // The person sees the terminal and nothing else.
        if let Ok(mut terminal) = OpenOptions::new().write(true).open(terminal) {
            let _ = writeln!(terminal, "slipway: no shell can be started here: {error}");
        }
        ExitCode::FAILURE
    })
}

fn run(dir: &AttemptDir, terminal: &Path) -> io::Result<ExitCode> {
    // The first terminal that the first process of a session opens is the session's own.
    nix::unistd::setsid()?;
    let terminal = OpenOptions::new().read(true).write(true).open(terminal)?;
    let task: Task = read_json(&dir.task())?
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "there is no task.json"))?;
    // The first process of a sandbox looks whether somebody stays with it.
    let _lock = lock(dir)?;
    let mut command = match &task.run {
        Run::Sandboxed { .. } => {
            sandbox::enter_pid_namespace()?;
            let mut command = part("init");
            command.arg(&dir.0);
            command
        }
        Run::Container { engine, shell, environment, mounts, .. } => {
            // The step may not have begun, or be over.
            super::stage::stage_missing(&task.volume, mounts)?;
            let mut command = Command::new(&engine[0]);
            command.args(&engine[1..]).arg("run").args(shell).envs(environment);
            command
        }
        _ => return Err(io::Error::other("this task has no terminal")),
    };
    let status = command
        .stdin(Stdio::from(terminal.try_clone()?))
        .stdout(Stdio::from(terminal.try_clone()?))
        .stderr(Stdio::from(terminal))
        .status()?;
    Ok(ExitCode::from(u8::try_from(exit_code(status) & 0xff).unwrap_or(1)))
}
