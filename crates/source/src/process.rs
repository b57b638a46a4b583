//! Child programs on a leash: each in a cage that shows it what it works on, with a clean environment, a deadline and a
//! limit on what it may say; all of it is killed when any of these is passed or nobody waits any more.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use slipway_cage::{Cage, Child, Streams};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const ERROR_BYTES_MAX: usize = 64 << 10;

/// What a program said and how it ended.
pub(crate) struct Output {
    pub(crate) success: bool,
    /// −1: a signal ended it.
    pub(crate) code: i32,
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
    #[error("`{program}` could not be run: {source}")]
    Io { program: String, source: std::io::Error },
}

pub(crate) struct Limits {
    pub(crate) deadline: Duration,
    pub(crate) stdout_bytes: usize,
}

/// A command that inherits nothing: no environment but `PATH` and a home that holds no configuration.
pub(crate) fn clean(program: &str, home: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()))
        .env("HOME", home)
        .env("LC_ALL", "C");
    command
}

/// Starts it in its cage. It ends with the value.
pub(crate) fn spawn(
    command: &Command,
    cage: &Cage,
    program: &str,
    streams: Streams,
) -> Result<Child, ProcessError> {
    cage.spawn(command, streams).map_err(|source| start_error(program, source))
}

/// Runs to the end. `watch` is asked twice a second whether the program may go on.
pub(crate) async fn run(
    command: &Command,
    cage: &Cage,
    program: &str,
    input: Option<Vec<u8>>,
    limits: &Limits,
    watch: impl Fn() -> bool,
) -> Result<Output, ProcessError> {
    let streams = if input.is_some() { Streams::talking() } else { Streams::listening() };
    let mut child = spawn(command, cage, program, streams)?;
    let io = |source| ProcessError::Io { program: program.to_owned(), source };
    let stdout = slipway_cage::reader(child.stdout.take().expect("stdout was piped")).map_err(io)?;
    let stderr = slipway_cage::reader(child.stderr.take().expect("stderr was piped")).map_err(io)?;
    let stdin = child.stdin.take().map(slipway_cage::writer).transpose().map_err(io)?;
    let work = talk(program, stdin.zip(input), stdout, stderr, limits, child.wait());
    tokio::select! {
        done = work => done,
        error = guard(program, limits, watch) => Err(error),
    }
}

/// Runs to the end without a cage: for callers that are in a sandbox of their own, which a step of a build is.
pub(crate) async fn run_free(
    command: Command,
    program: &str,
    input: Option<Vec<u8>>,
    limits: &Limits,
) -> Result<Output, ProcessError> {
    let mut command = tokio::process::Command::from(command);
    command
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(|source| start_error(program, source))?;
    let group = Group(child.id());
    let stdin = child.stdin.take();
    let stdout = child.stdout.take().expect("stdout was piped");
    let stderr = child.stderr.take().expect("stderr was piped");
    let work = talk(program, stdin.zip(input), stdout, stderr, limits, child.wait());
    let done = match tokio::time::timeout(limits.deadline, work).await {
        Ok(done) => done?,
        Err(_) => return Err(deadline(program, limits)),
    };
    group.ended();
    Ok(done)
}

/// Feeds a program, reads what it says, and waits for its end.
async fn talk<W: AsyncWrite + Unpin>(
    program: &str,
    input: Option<(W, Vec<u8>)>,
    stdout: impl AsyncRead + Unpin,
    stderr: impl AsyncRead + Unpin,
    limits: &Limits,
    end: impl Future<Output = std::io::Result<ExitStatus>>,
) -> Result<Output, ProcessError> {
    let io = |source| ProcessError::Io { program: program.to_owned(), source };
    let feed = async {
        if let Some((mut pipe, bytes)) = input {
            // A program that does not read all of its input says why on stderr.
            let _ = pipe.write_all(&bytes).await;
        }
    };
    let (_, out, err) = tokio::join!(
        feed,
        read_at_most(stdout, limits.stdout_bytes, false),
        read_at_most(stderr, ERROR_BYTES_MAX, true)
    );
    let out = out.map_err(io)?;
    if out.len() > limits.stdout_bytes {
        return Err(ProcessError::TooMuch { program: program.to_owned(), bytes: limits.stdout_bytes });
    }
    let status = end.await.map_err(io)?;
    Ok(Output {
        success: status.success(),
        code: status.code().unwrap_or(-1),
        stdout: out,
        stderr: String::from_utf8_lossy(&err.map_err(io)?).into_owned(),
    })
}

async fn guard(program: &str, limits: &Limits, watch: impl Fn() -> bool) -> ProcessError {
    let mut tick = tokio::time::interval(Duration::from_millis(500));
    let started = tokio::time::Instant::now();
    loop {
        tick.tick().await;
        if started.elapsed() >= limits.deadline {
            return deadline(program, limits);
        }
        if !watch() {
            return ProcessError::TooMuch { program: program.to_owned(), bytes: 0 };
        }
    }
}

fn deadline(program: &str, limits: &Limits) -> ProcessError {
    ProcessError::Deadline { program: program.to_owned(), seconds: limits.deadline.as_secs() }
}

fn start_error(program: &str, source: std::io::Error) -> ProcessError {
    match source.kind() {
        std::io::ErrorKind::NotFound => ProcessError::Missing { program: program.to_owned() },
        _ => ProcessError::Io { program: program.to_owned(), source },
    }
}

/// Kills a program and its helpers when a call is given up, for whatever reason.
struct Group(Option<u32>);

impl Group {
    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0.and_then(|pid| i32::try_from(pid).ok()) {
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
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
