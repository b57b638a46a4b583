//! The runner's side of an attempt: start its supervisor, see how it is doing, ask it to stop.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;
use tokio::sync::Notify;

use crate::layout::{AttemptDir, Lasting, read_if_whole, write_json};
use crate::shim::SUBCOMMAND;
use crate::task::{Exit, How, Task};

const BELL_PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) enum Observed {
    NotStarted,
    Running,
    /// It began, its supervisor is gone, and how it ended is not written down.
    Lost,
    Ended(Box<Exit>),
}

/// Starts supervisors by running this executable again.
#[derive(Debug, Clone)]
pub(crate) struct Shims {
    pub(crate) executable: PathBuf,
}

/// A supervisor that this process has started.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) adopting: bool,
    over: Arc<AtomicBool>,
    killed: Arc<AtomicBool>,
}

impl Watched {
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// By somebody else: it did not end by itself.
    pub(crate) fn was_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }
}

impl Shims {
    /// Starts the supervisor of an attempt, or of one that is [`Observed::Lost`] its next.
    pub(crate) fn start(&self, dir: &AttemptDir, adopting: bool, ended: &Arc<Notify>) -> io::Result<Watched> {
        let errors = OpenOptions::new().append(true).create(true).mode(0o600).open(shim_log(dir))?;
        let mut child = tokio::process::Command::new(&self.executable)
            .args([SUBCOMMAND, if adopting { "adopt" } else { "supervise" }])
            .arg(&dir.0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .current_dir("/")
            .env_clear()
            .envs(slipway_container::environment())
            .kill_on_drop(false)
            .spawn()?;
        let (over, killed, ended) =
            (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default(), ended.clone());
        let watched = Watched { adopting, over: over.clone(), killed: killed.clone() };
        if let Some(bell) = child.stdout.take() {
            tokio::spawn(listen(bell, ended.clone()));
        }
        tokio::spawn(async move {
            let status = child.wait().await;
            killed.store(status.is_ok_and(|status| status.signal().is_some()), Ordering::Release);
            over.store(true, Ordering::Release);
            ended.notify_one();
        });
        Ok(watched)
    }
}

/// Wakes whoever waits when the supervisor rings because there is output; what it missed is found by the next look.
async fn listen(mut bell: ChildStdout, news: Arc<Notify>) {
    let mut rings = [0; 1 << 12];
    while bell.read(&mut rings).await.is_ok_and(|count| count > 0) {
        news.notify_one();
        // A step that never stops talking is heard as often as one is looked at.
        tokio::time::sleep(BELL_PAUSE).await;
    }
}

fn shim_log(dir: &AttemptDir) -> PathBuf {
    dir.0.join("shim.log")
}

/// The supervisor has come and gone and has not done its work: write the end down in its place.
pub(crate) fn give_up(dir: &AttemptDir, lost: bool, killed: bool) -> io::Result<()> {
    // It may have done it after all, just before it went.
    if !matches!(observe(dir)?, Observed::NotStarted | Observed::Lost) {
        return Ok(());
    }
    let said = std::fs::read_to_string(shim_log(dir)).unwrap_or_default();
    let why = said.lines().last().unwrap_or("it gave no reason").to_owned();
    let (how, message) = match (lost, killed) {
        (_, true) => {
            (How::Interrupted, "the step's supervisor went down before it could begin its work".to_owned())
        }
        (true, false) => (How::Interrupted, format!("the step's supervisor could not work: {why}")),
        (false, false) => (How::NotStarted, format!("the step's supervisor could not work: {why}")),
    };
    let exit = Exit::new(how, None, Some(message));
    write_json(&dir.exit(), &exit, Lasting::Process)
}

/// Read from files alone, so that it is the same before and after a restart.
pub(crate) fn observe(dir: &AttemptDir) -> io::Result<Observed> {
    if let Some(exit) = read_if_whole::<Exit>(&dir.exit())? {
        return Ok(Observed::Ended(Box::new(exit)));
    }
    if !dir.started().exists() {
        // The machine went down between the journal and the task: this attempt can never begin.
        let whole = read_if_whole::<Task>(&dir.task())?.is_some();
        return Ok(if whole { Observed::NotStarted } else { Observed::Lost });
    }
    if is_locked(dir) {
        return Ok(Observed::Running);
    }
    // It may have ended between the first look and the second.
    Ok(match read_if_whole::<Exit>(&dir.exit())? {
        Some(exit) => Observed::Ended(Box::new(exit)),
        None => Observed::Lost,
    })
}

fn is_locked(dir: &AttemptDir) -> bool {
    match File::open(dir.lock()) {
        Ok(file) => Flock::lock(file, FlockArg::LockSharedNonblock).is_err(),
        Err(_) => false,
    }
}

/// Asks the supervisor to stop the attempt. One that has not begun never will.
pub(crate) fn cancel(dir: &AttemptDir) -> io::Result<()> {
    if dir.cancel().exists() || dir.exit().exists() {
        return Ok(());
    }
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(dir.cancel())?;
    if dir.started().exists() {
        return Ok(());
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.started()) {
        Ok(_) => {
            let exit =
                Exit::new(How::Cancelled, None, Some("the step was stopped before it began".to_owned()));
            write_json(&dir.exit(), &exit, Lasting::Process)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

pub(crate) fn write_task(dir: &AttemptDir, task: &Task) -> io::Result<()> {
    write_json(&dir.task(), task, Lasting::Process)
}
