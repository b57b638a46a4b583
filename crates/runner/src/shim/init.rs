//! The first process of a sandbox: makes it, starts the command as its child, reaps, passes on the end.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;

use super::sandbox::{self, Mounts};
use super::{part, rights};
use crate::layout::{AttemptDir, VOLUME, WORK, read_json};
use crate::task::{Run, Sandbox, Task};

/// As in shells: found, but could not be made to run.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;
/// A fork bomb ends here, for this user in this sandbox.
const PROCESSES_MAX: u64 = 4096;
const INSIDE: &str = "SLIPWAY_PROBE_INSIDE";

pub(super) fn main(dir: &Path) -> ExitCode {
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    let dir = AttemptDir(dir.to_owned());
    if !supervisor_lives(&dir) {
        return ExitCode::from(CANNOT_RUN);
    }
    run(&dir).unwrap_or_else(|error| {
        eprintln!("slipway: the sandbox for this step could not be made: {error}");
        ExitCode::from(CANNOT_RUN)
    })
}

/// The supervisor may have died before we asked to die with it.
fn supervisor_lives(dir: &AttemptDir) -> bool {
    match File::open(dir.lock()) {
        Ok(file) => Flock::lock(file, FlockArg::LockSharedNonblock).is_err(),
        Err(_) => false,
    }
}

fn run(dir: &AttemptDir) -> io::Result<ExitCode> {
    let task: Task = read_json(&dir.task())?
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "there is no task.json"))?;
    let (sandbox, volume, volume_at, mut command) = match &task.run {
        Run::Sandboxed { sandbox, program, limits } => {
            if !limits.is_empty() {
                super::cgroup::join(dir)?;
            }
            let mut command = Command::new(&program.argv[0]);
            command
                .args(&program.argv[1..])
                .env_clear()
                .envs(&program.environment)
                .current_dir(&program.working_directory);
            if !program.interactive {
                command.stdin(Stdio::null());
            }
            (sandbox.clone(), task.volume, VOLUME, command)
        }
        Run::Builtin { sandbox: Some(sandbox), .. } => {
            let mut command = part("builtin");
            command.arg(WORK).current_dir("/").env_clear().envs(slipway_container::network_environment());
            (sandbox.clone(), dir.work(), WORK, command)
        }
        _ => return Err(io::Error::other("this task needs no sandbox")),
    };
    let mounts =
        Mounts { root: dir.0.join("root"), tmp: dir.0.join("tmp"), volume, volume_at, bin: dir.bin() };
    enter(&sandbox, &mounts, &mut command)?;
    start(command)
}

fn enter(sandbox: &Sandbox, mounts: &Mounts, command: &mut Command) -> io::Result<()> {
    sandbox::enter(sandbox, mounts)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    if sandbox.user.is_some() || !nix::unistd::geteuid().is_root() {
        let _ = setrlimit(Resource::RLIMIT_NPROC, PROCESSES_MAX, PROCESSES_MAX);
    }
    rights::renounce()?;
    if let Some(user) = sandbox.user {
        command.uid(user).gid(user);
    }
    Ok(())
}

/// Starts the command and stays until it has ended. What it left behind dies with us.
fn start(mut command: Command) -> io::Result<ExitCode> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.add(Signal::SIGTERM);
    mask.thread_block()?;
    let main = match command.spawn() {
        Ok(child) => Pid::from_raw(i32::try_from(child.id()).unwrap_or(0)),
        Err(error) => {
            let program = command.get_program().to_string_lossy().into_owned();
            let missing = error.kind() == io::ErrorKind::NotFound;
            if missing {
                eprintln!("slipway: `{program}` or the working directory is not there");
            } else {
                eprintln!("slipway: cannot start `{program}`: {error}");
            }
            return Ok(ExitCode::from(if missing { NOT_FOUND } else { CANNOT_RUN }));
        }
    };
    loop {
        if mask.wait()? == Signal::SIGTERM {
            // Everybody in this namespace but us.
            let _ = kill(Pid::from_raw(-1), Signal::SIGTERM);
            continue;
        }
        loop {
            match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == main => {
                    return Ok(ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1)));
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == main => {
                    return Ok(ExitCode::from(u8::try_from(128 + signal as i32).unwrap_or(255)));
                }
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => break,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// Makes a sandbox like a step's and runs `true` in it: says on stderr why it cannot.
pub(super) fn probe_main(dir: &Path) -> ExitCode {
    let mounts = Mounts {
        root: dir.join("root"),
        tmp: dir.join("tmp"),
        volume: dir.join("volume"),
        volume_at: VOLUME,
        bin: dir.join("bin"),
    };
    // Twice through this door: first to make the namespace, then as its first process, which in a user
    // namespace looks like root and has to be told whom to become.
    let inside = std::env::var(INSIDE).ok();
    let user = match &inside {
        Some(user) => user.parse().ok(),
        None => sandbox::unprivileged_user(),
    };
    let sandbox = Sandbox { user, read_only: Vec::new(), hide: Vec::new() };
    let done = if inside.is_none() {
        sandbox::enter_pid_namespace().and_then(|()| {
            let mut command = part("probe");
            command.arg(dir).env(INSIDE, user.map(|user| user.to_string()).unwrap_or_default());
            let status = command.status()?;
            Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        })
    } else {
        let mut command = Command::new("true");
        command.current_dir(VOLUME).stdin(Stdio::null());
        enter(&sandbox, &mounts, &mut command).and_then(|()| start(command))
    };
    done.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}
