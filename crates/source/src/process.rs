//! Child programs on a leash: a clean environment, a deadline, a limit on what they may say, and their whole
//! process group killed when any of these is passed or nobody waits any more.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// What a program said and how it ended.
pub(crate) struct Output {
    pub(crate) success: bool,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    #[error("`{program}` is not installed")]
    Missing { program: String },
    #[error("`{program}` did not end within {seconds} s")]
    Deadline { program: String, seconds: u64 },
    #[error("`{program}` wrote more than {bytes} bytes")]
    TooMuch { program: String, bytes: usize },
    #[error("`{program}` could not be run")]
    Io { program: String, source: std::io::Error },
}

pub(crate) struct Limits {
    pub(crate) deadline: Duration,
    pub(crate) stdout_bytes: usize,
}

/// Kills the group when dropped, so that a cancelled caller leaves no orphans behind.
pub(crate) struct Group(Option<Pid>);

impl Group {
    pub(crate) fn of(child: &Child) -> Self {
        Self(child.id().map(|id| Pid::from_raw(id.cast_signed())))
    }

    pub(crate) fn kill(&self) {
        if let Some(pid) = self.0 {
            // It may have ended by itself; that is as good.
            let _ = killpg(pid, Signal::SIGKILL);
        }
    }

    /// The program ended by itself: its id may soon belong to another.
    pub(crate) fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A command that inherits nothing: no environment but `PATH` and a home that holds no configuration.
pub(crate) fn clean(program: &str, home: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()))
        .env("HOME", home)
        .env("LC_ALL", "C")
        .process_group(0)
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) fn spawn(command: &mut Command, program: &str) -> Result<(Child, Group), ProcessError> {
    let child = command.spawn().map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => ProcessError::Missing { program: program.to_owned() },
        _ => ProcessError::Io { program: program.to_owned(), source },
    })?;
    let group = Group::of(&child);
    Ok((child, group))
}

/// Runs to the end. `watch` is asked twice a second whether the program may go on.
pub(crate) async fn run(
    mut command: Command,
    program: &str,
    input: Option<Vec<u8>>,
    limits: &Limits,
    watch: impl Fn() -> bool,
) -> Result<Output, ProcessError> {
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let (mut child, group) = spawn(&mut command, program)?;
    let io = |source| ProcessError::Io { program: program.to_owned(), source };
    let stdout = child.stdout.take().expect("stdout was piped");
    let stderr = child.stderr.take().expect("stderr was piped");
    let stdin = child.stdin.take();
    let work = async {
        let feed = async {
            if let (Some(mut pipe), Some(bytes)) = (stdin, input) {
                // A program that does not read all of its input says why on stderr.
                let _ = pipe.write_all(&bytes).await;
            }
        };
        let (_, out, err) = tokio::join!(
            feed,
            read_at_most(stdout, limits.stdout_bytes, false),
            read_at_most(stderr, 64 << 10, true)
        );
        let out = out.map_err(io)?;
        if out.len() > limits.stdout_bytes {
            return Err(ProcessError::TooMuch { program: program.to_owned(), bytes: limits.stdout_bytes });
        }
        let status = child.wait().await.map_err(io)?;
        Ok(Output {
            success: status.success(),
            stdout: out,
            stderr: String::from_utf8_lossy(&err.map_err(io)?).into_owned(),
        })
    };
    let guard = async {
        let mut tick = tokio::time::interval(Duration::from_millis(500));
        let started = tokio::time::Instant::now();
        loop {
            tick.tick().await;
            if started.elapsed() >= limits.deadline {
                return ProcessError::Deadline {
                    program: program.to_owned(),
                    seconds: limits.deadline.as_secs(),
                };
            }
            if !watch() {
                return ProcessError::TooMuch { program: program.to_owned(), bytes: 0 };
            }
        }
    };
    tokio::select! {
        done = work => {
            match done {
                Ok(output) => {
                    group.ended();
                    Ok(output)
                }
                Err(error) => Err(error),
            }
        }
        error = guard => Err(error),
    }
}

/// Reads up to one byte more than the limit, so that the caller can tell. With `drain` the rest is thrown away.
async fn read_at_most(
    pipe: impl AsyncRead + Unpin,
    limit: usize,
    drain: bool,
) -> Result<Vec<u8>, std::io::Error> {
    let mut bytes = Vec::new();
    let mut pipe = pipe.take(limit as u64 + 1);
    pipe.read_to_end(&mut bytes).await?;
    if drain && bytes.len() > limit {
        bytes.truncate(limit);
        let mut rest = pipe.into_inner();
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
    }
    Ok(bytes)
}
