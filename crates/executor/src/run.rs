//! Runs the command, hands signals on, and keeps what it prints if somebody asked for it.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, Stdio};
use std::thread;

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use crate::outputs::{self, Wanted};

/// What is kept of a command's output.
const RESULT_MAX: usize = 256 << 10;
const FORWARDED: [Signal; 5] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];

pub(crate) fn run(command: &[OsString]) -> Result<ExitCode, String> {
    let wanted = Wanted::from_environment()?;
    // Blocked before any thread is there, so that one of them alone hears of them. The standard library unblocks them in the child.
    let signals: SigSet = FORWARDED.into_iter().collect();
    signals.thread_block().map_err(|error| format!("cannot hear signals: {error}"))?;
    let mut child = Command::new(&command[0]);
    child.args(&command[1..]).env_remove(outputs::WANTED);
    if wanted.result {
        child.stdout(Stdio::piped());
    }
    let mut child =
        child.spawn().map_err(|error| format!("cannot start {}: {error}", command[0].to_string_lossy()))?;
    let pid = Pid::from_raw(i32::try_from(child.id()).map_err(|error| error.to_string())?);
    thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            // It may have ended already.
            let _ = kill(pid, signal);
        }
    });
    let printed = child.stdout.take().map(|output| thread::spawn(move || tee(output)));
    let status = child.wait().map_err(|error| format!("cannot wait for the command: {error}"))?;
    let result = match printed {
        // A grandchild may hold the pipe open; what was printed until now is there.
        Some(thread) => Some(thread.join().map_err(|_| "the output was lost")??),
        None => None,
    };
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    let found = wanted.collect(result.as_deref());
    let problem = found["error"].as_str().map(str::to_owned);
    outputs::say(&found);
    if code == 0
        && let Some(problem) = problem
    {
        eprintln!("slipway-executor: {problem}");
        return Ok(ExitCode::from(crate::OUR_FAULT));
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Everything goes on to where it was meant to go; the beginning is kept.
fn tee(mut from: impl Read) -> Result<Vec<u8>, String> {
    let (mut kept, mut part, mut to) = (Vec::new(), [0_u8; 8192], std::io::stdout());
    loop {
        match from.read(&mut part) {
            Ok(0) => return Ok(kept),
            Ok(count) => {
                // Whoever reads the log may be gone; the step goes on.
                let _ = to.write_all(&part[..count]).and_then(|()| to.flush());
                let room = RESULT_MAX.saturating_sub(kept.len());
                kept.extend_from_slice(&part[..count.min(room)]);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("cannot read what the command prints: {error}")),
        }
    }
}
