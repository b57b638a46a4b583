//! A person's shell in a paused step, between the place that the step runs in and the server.
//!
//! In: the task of the step, and what the person types, which is asked from the server. Out: what the shell prints,
//! which is told to the server. Both are calls that the runner makes, so nobody dials it; nothing of either is written
//! down here. A shell lives as long as the pause of its step at most, and dies with the runner.

mod local;
mod place;
mod pod;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use slipway_api::debug::{DebugOrder, ShellBytes, ShellInputWanted, ShellOutput};
use slipway_model::Next;
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::task::Run;
use crate::uplink::{Backoff, Uplink};

pub(crate) use place::{Prepared, folder, shell_name, shell_of};

const WAIT_MS: u64 = 20_000;
/// In one call.
const PIECE_BYTES: usize = 32 << 10;
/// Pieces that wait for the server: a shell that prints more is slowed down.
const QUEUE: usize = 16;
const LAST_WORDS: Duration = Duration::from_millis(500);
/// After this much trouble with the server the person is gone anyway.
const PATIENCE: Duration = Duration::from_secs(60);

/// Both ends of a shell that runs.
struct Ends {
    printed: mpsc::Receiver<Vec<u8>>,
    typed: mpsc::Sender<Vec<u8>>,
}

/// Everything that a shell needs and does not share with its build.
pub(crate) struct Shell {
    pub(crate) order: DebugOrder,
    pub(crate) prepared: Prepared,
    pub(crate) executable: std::path::PathBuf,
    pub(crate) uplink: Arc<Uplink>,
    /// The pause ends.
    pub(crate) cancel: CancellationToken,
}

impl Shell {
    /// Until the shell ends, the person closes it, or the pause is over; then it is gone without a trace.
    pub(crate) async fn serve(self) {
        self.prepared.remove_old().await;
        let started = match &self.prepared.task.run {
            Run::Pod(work) => pod::start(work, &self.order, &self.cancel).await.map(|ends| (ends, None)),
            _ => local::start(&self.executable, &self.prepared.dir, &self.order)
                .map(|(ends, child)| (ends, Some(child))),
        };
        let mut line = Line { shell: &self, offset: 0 };
        let why = match started {
            Ok((ends, mut child)) => {
                let why = line.carry(ends, child.as_mut()).await;
                if let Some(child) = &mut child {
                    let _ = child.kill().await;
                }
                why
            }
            Err(error) => format!("no shell could be opened: {error}"),
        };
        line.tell(&[], Some(why)).await;
        self.prepared.remove().await;
    }
}

/// The way to the server and back.
struct Line<'a> {
    shell: &'a Shell,
    /// Of what was told.
    offset: u64,
}

impl Line<'_> {
    /// Carries bytes both ways; gives back why it ended.
    async fn carry(&mut self, ends: Ends, child: Option<&mut Child>) -> String {
        let Ends { mut printed, typed } = ends;
        let (shell, cancel) = (self.shell, self.shell.cancel.clone());
        tokio::select! {
            () = cancel.cancelled() => "the step is no longer paused".to_owned(),
            why = listen(shell, typed) => why,
            () = ended(child) => "the shell has ended".to_owned(),
            why = async {
                while let Some(mut bytes) = printed.recv().await {
                    while bytes.len() < PIECE_BYTES && let Ok(more) = printed.try_recv() {
                        bytes.extend(more);
                    }
                    if !self.tell(&bytes, None).await {
                        return "the server cannot be reached".to_owned();
                    }
                }
                "the shell has ended".to_owned()
            } => why,
        }
    }

    /// `false`: the server does not take it any more.
    async fn tell(&mut self, bytes: &[u8], closed: Option<String>) -> bool {
        let Shell { order, uplink, .. } = self.shell;
        let path = format!("/api/agent/runner/builds/{}/shells/{}/output", order.build, order.id);
        let until = tokio::time::Instant::now() + PATIENCE;
        let mut backoff = Backoff::new(Duration::from_secs(2));
        let piece = ShellBytes { offset: self.offset, bytes: STANDARD.encode(bytes), closed };
        loop {
            let said = ShellOutput { epoch: uplink.epoch.load(Ordering::Relaxed), piece: piece.clone() };
            match uplink.client.post::<_, bool>(&path, &said).await {
                Ok(_) => {
                    self.offset += bytes.len() as u64;
                    return true;
                }
                Err(error) if error.next() == Next::Retry && tokio::time::Instant::now() < until => {
                    backoff.pause().await;
                }
                Err(error) => {
                    tracing::debug!(build = %order.build, %error, "Cannot send the output of a shell.");
                    return false;
                }
            }
        }
    }
}

/// A little after the process, whose last words are still on their way.
async fn ended(child: Option<&mut Child>) {
    match child {
        Some(child) => {
            let _ = child.wait().await;
            tokio::time::sleep(LAST_WORDS).await;
        }
        None => std::future::pending().await,
    }
}

/// What the person types, for the shell; gives back why nothing more comes.
async fn listen(shell: &Shell, typed: mpsc::Sender<Vec<u8>>) -> String {
    let Shell { order, uplink, .. } = shell;
    let path = format!("/api/agent/runner/builds/{}/shells/{}/input", order.build, order.id);
    let mut backoff = Backoff::new(Duration::from_secs(2));
    let (mut after, mut trouble) = (0, None);
    loop {
        let wanted =
            ShellInputWanted { epoch: uplink.epoch.load(Ordering::Relaxed), after, wait_ms: WAIT_MS };
        let call = uplink
            .client
            .request(reqwest::Method::POST, &path)
            .timeout(Duration::from_millis(WAIT_MS) + Duration::from_secs(15))
            .json(&wanted);
        let answer = match uplink.client.send(call).await {
            Ok(answer) => answer.json::<ShellBytes>().await.map_err(|error| error.to_string()),
            Err(error) if error.next() == Next::NeedsHuman => return error.to_string(),
            Err(error) => Err(error.to_string()),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let since = *trouble.get_or_insert_with(tokio::time::Instant::now);
                if since.elapsed() > PATIENCE {
                    return format!("the server cannot be reached: {error}");
                }
                backoff.pause().await;
                continue;
            }
        };
        (trouble, backoff) = (None, Backoff::new(Duration::from_secs(2)));
        let bytes = STANDARD.decode(&answer.bytes).unwrap_or_default();
        if !bytes.is_empty() {
            after = answer.offset + bytes.len() as u64;
            if typed.send(bytes).await.is_err() {
                // The other side says how it ended.
                std::future::pending::<()>().await;
            }
        }
        if let Some(why) = answer.closed {
            return why;
        }
    }
}
