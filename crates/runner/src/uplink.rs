//! What one build tells the server: its state and its logs, until the server has them.
//!
//! Both are idempotent on the wire, so every call is simply tried again with growing pauses until it is
//! answered. Only the answer that the build is no longer ours (409) ends everything.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use slipway_api::agent::{BuildReport, LogAppend, LogAppendAnswer, LogPiece};
use slipway_api::{Client, ClientError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::build::ToldReport;
use crate::layout::BuildDir;
use crate::logs::read_text;

/// Text in one call.
const BATCH_BYTES: u64 = 512 << 10;
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
const FENCE_PATIENCE: Duration = Duration::from_millis(500);

pub(crate) struct Uplink {
    pub(crate) client: Client,
    pub(crate) build: String,
    pub(crate) dir: BuildDir,
    pub(crate) epoch: AtomicI64,
    /// Set when the server says that the build is not ours.
    pub(crate) fenced: CancellationToken,
}

/// Growing pauses with full jitter, so that a fleet does not come back in step.
pub(crate) struct Backoff {
    attempt: u32,
    most: Duration,
}

impl Backoff {
    pub(crate) fn new(most: Duration) -> Self {
        Self { attempt: 0, most }
    }

    pub(crate) fn reset(&mut self) {
        self.attempt = 0;
    }

    pub(crate) async fn pause(&mut self) {
        let ceiling = Duration::from_millis(100 << self.attempt.min(10)).min(self.most);
        self.attempt += 1;
        let mut random = [0; 4];
        let _ = getrandom::fill(&mut random);
        let share = f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX);
        tokio::time::sleep(ceiling.mul_f64(0.2 + 0.8 * share)).await;
    }
}

impl Uplink {
    /// Whether the error means that the build is gone for us. `epoch` is the one that was refused.
    pub(crate) async fn is_lost(&self, error: &ClientError, epoch: i64) -> bool {
        if error.status() != Some(409) {
            return false;
        }
        // The lease may have run out and come back to us; then the new epoch is on its way.
        tokio::time::sleep(FENCE_PATIENCE).await;
        if self.epoch.load(Ordering::Relaxed) > epoch {
            return false;
        }
        tracing::warn!(build = %self.build, epoch, "The build is no longer assigned to this runner.");
        self.fenced.cancel();
        true
    }

    /// Sends the newest state whenever there is one; ends when the sender does and the last was taken.
    pub(crate) async fn report(&self, mut states: watch::Receiver<Option<ToldReport>>) {
        let path = format!("/api/agent/runner/builds/{}/state", self.build);
        let mut backoff = Backoff::new(Duration::from_secs(5));
        let mut pending = states.borrow_and_update().clone();
        loop {
            let Some(told) = pending.take() else {
                if states.changed().await.is_err() {
                    return;
                }
                pending = states.borrow_and_update().clone();
                continue;
            };
            let report = told.with_epoch(self.epoch.load(Ordering::Relaxed));
            match self.put(&path, &report).await {
                Ok(()) => backoff.reset(),
                Err(error) if self.is_lost(&error, report.epoch).await => return,
                Err(error) => {
                    tracing::debug!(build = %self.build, %error, "Report not accepted yet.");
                    backoff.pause().await;
                    pending = Some(told);
                }
            }
            // A newer state makes an older one pointless.
            if states.has_changed().unwrap_or(false) {
                pending = states.borrow_and_update().clone();
            }
        }
    }

    async fn put(&self, path: &str, report: &BuildReport) -> Result<(), ClientError> {
        let request = self.client.request(reqwest::Method::PUT, path).timeout(CALL_TIMEOUT).json(report);
        self.client.send(request).await.map(drop)
    }

    /// Sends log text as far as it is known; ends when the sender does and the server has all of it.
    pub(crate) async fn stream(
        &self,
        mut lengths: watch::Receiver<BTreeMap<String, u64>>,
        held: watch::Sender<BTreeMap<String, u64>>,
        resumed: bool,
    ) {
        let path = format!("/api/agent/runner/builds/{}/logs", self.build);
        let mut backoff = Backoff::new(Duration::from_secs(5));
        // After a restart the server knows better than we do how much it has.
        let mut ask = resumed;
        let mut closed = false;
        loop {
            let known = lengths.borrow_and_update().clone();
            let has = held.borrow().clone();
            let pieces = match self.pieces(&known, &has) {
                Ok(pieces) => pieces,
                Err(error) => {
                    tracing::error!(build = %self.build, %error, "Cannot read the masked log.");
                    backoff.pause().await;
                    continue;
                }
            };
            if pieces.is_empty() && !ask {
                if closed {
                    return;
                }
                closed = lengths.changed().await.is_err();
                continue;
            }
            let body = LogAppend { epoch: self.epoch.load(Ordering::Relaxed), pieces };
            let request = self.client.request(reqwest::Method::POST, &path).timeout(CALL_TIMEOUT).json(&body);
            match self.append(request).await {
                Ok(answer) => {
                    ask = false;
                    backoff.reset();
                    held.send_modify(|held| held.extend(answer.held));
                }
                Err(error) if self.is_lost(&error, body.epoch).await => return,
                Err(error) => {
                    tracing::debug!(build = %self.build, %error, "Log not accepted yet.");
                    backoff.pause().await;
                }
            }
        }
    }

    async fn append(&self, request: reqwest::RequestBuilder) -> Result<LogAppendAnswer, ClientError> {
        let response = self.client.send(request).await?;
        let url = response.url().to_string();
        response.json().await.map_err(|source| ClientError::Unexpected { url, source })
    }

    fn pieces(
        &self,
        lengths: &BTreeMap<String, u64>,
        held: &BTreeMap<String, u64>,
    ) -> std::io::Result<Vec<LogPiece>> {
        let mut room = BATCH_BYTES;
        let mut pieces = Vec::new();
        for (step, length) in lengths {
            let offset = held.get(step).copied().unwrap_or(0);
            if offset >= *length || room == 0 {
                continue;
            }
            let text = read_text(&self.dir, step, offset, (*length).min(offset + room.max(4)))?;
            room = room.saturating_sub(text.len() as u64);
            if !text.is_empty() {
                pieces.push(LogPiece { step: step.clone(), offset, text });
            }
        }
        Ok(pieces)
    }
}
