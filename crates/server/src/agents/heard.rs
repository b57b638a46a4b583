//! When runners were last heard, noted in memory and written now and then for all of them together.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use slipway_model::AccountId;
use slipway_store::builds;

use crate::ctx::Server;
use crate::facts::jobs;

const NAME: &str = "runners-heard";
/// With the time that a call is held this stays below what pages wait before they call a runner offline.
const EVERY: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(crate) struct Heard {
    last_ms: Mutex<HashMap<(AccountId, String), i64>>,
}

impl Heard {
    pub(crate) fn note(&self, account: AccountId, runner: &str, now_ms: i64) {
        self.last_ms.lock().expect("not poisoned").insert((account, runner.to_owned()), now_ms);
    }

    fn take(&self) -> Vec<(AccountId, String, i64)> {
        let noted = std::mem::take(&mut *self.last_ms.lock().expect("not poisoned"));
        noted.into_iter().map(|((account, runner), at_ms)| (account, runner, at_ms)).collect()
    }
}

/// Until shutdown.
pub(crate) async fn run(server: &Server) {
    loop {
        tokio::select! {
            () = server.inner.shutdown.cancelled() => return,
            () = tokio::time::sleep(EVERY) => write_down(server).await,
        }
    }
}

/// What cannot be written now the runner's next call writes itself.
async fn write_down(server: &Server) {
    let heard = server.inner.heard.take();
    if !heard.is_empty() {
        jobs::ran(server, NAME, server.store().write(move |tx| builds::runners_seen(tx, heard)).await);
    }
}
