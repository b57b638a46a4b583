//! When runners were last heard, noted in memory and written now and then for all of them together.

use std::collections::HashMap;
use std::sync::Mutex;

use slipway_model::AccountId;
use slipway_store::builds;

use crate::background::driver::{Outcome, Round, Turn};

pub(crate) const NAME: &str = "runners-heard";

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

/// What cannot be written now the runner's next call writes itself.
pub(crate) async fn round(turn: &Turn) -> Outcome {
    let heard = turn.server.inner.heard.take();
    if !heard.is_empty() {
        turn.server.store().write(move |tx| builds::runners_seen(tx, heard)).await?;
    }
    Ok(Round::Done)
}
