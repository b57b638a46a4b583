//! What agents call: runners and GitOps runtimes. They dial; the server answers, at once or when there is news.

pub(crate) mod errands;
pub(crate) mod flood;
pub(crate) mod heard;
mod packed;
pub(crate) mod polls;
pub(crate) mod registration;
mod report_notes;
pub(crate) mod rest;
pub(crate) mod runner;
pub(crate) mod runtime;
pub(crate) mod shells;
pub(crate) mod step_types;
pub(crate) mod sync;
pub(crate) mod venona;
mod workload;

use std::time::{Duration, Instant};

use slipway_store::Committed;
use tokio::sync::broadcast;

use crate::ctx::Server;

/// A held call is answered before proxies and clients give up on it.
const WAIT_MAX_MS: u64 = 25_000;

fn deadline(wait_ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(wait_ms.min(WAIT_MAX_MS))
}

/// Waits for a commit that `matters`. `false`: time is up or the server stops.
pub(crate) async fn news(
    server: &Server,
    commits: &mut broadcast::Receiver<Committed>,
    until: Instant,
    matters: impl Fn(&Committed) -> bool,
) -> bool {
    loop {
        let heard = tokio::select! {
            () = server.inner.shutdown.cancelled() => return false,
            () = tokio::time::sleep_until(until.into()) => return false,
            heard = commits.recv() => heard,
        };
        match heard {
            Ok(commit) if matters(&commit) => return true,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Lagged(_)) => return true,
            Err(broadcast::error::RecvError::Closed) => return false,
        }
    }
}
