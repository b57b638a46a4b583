//! How much one runner or runtime may say at once: a bucket of bytes for each, so that one that floods is slowed and the others
//! are not.
//!
//! In: who speaks, how much, when. Out: whether to listen. It forgets runners that have been quiet.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use slipway_model::AccountId;

use crate::http::error::ApiError;

/// Three times what a busy runner with many loud builds says.
const BYTES_PER_SECOND: f64 = (32 << 20) as f64;
const BURST_BYTES: f64 = (64 << 20) as f64;
/// What an empty call costs: many small ones are a flood too.
const CALL_BYTES: usize = 4 << 10;
const KNOWN_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Floods(Mutex<HashMap<(AccountId, String), Bucket>>);

#[derive(Debug)]
struct Bucket {
    left: f64,
    at_ms: i64,
}

impl Bucket {
    fn fill(&mut self, now_ms: i64) {
        let passed = (now_ms - self.at_ms).max(0) as f64 / 1000.0;
        self.left = (self.left + passed * BYTES_PER_SECOND).min(BURST_BYTES);
        self.at_ms = now_ms;
    }
}

impl Floods {
    /// Refused with 429 when the runner has said too much; it comes again by itself, and nothing is lost.
    pub(crate) fn admit(
        &self,
        account: AccountId,
        runner: &str,
        bytes: usize,
        now_ms: i64,
    ) -> Result<(), ApiError> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() > KNOWN_MAX {
            all.retain(|_, bucket| {
                bucket.fill(now_ms);
                bucket.left < BURST_BYTES
            });
        }
        let bucket =
            all.entry((account, runner.to_owned())).or_insert(Bucket { left: BURST_BYTES, at_ms: now_ms });
        bucket.fill(now_ms);
        let cost = (bytes + CALL_BYTES) as f64;
        if bucket.left < cost {
            // As long as it takes until as much is heard again.
            let seconds = ((cost - bucket.left) / BYTES_PER_SECOND).ceil().max(1.0) as u64;
            return Err(ApiError::later(
                seconds,
                format!(
                    "`{runner}` sends more than {} MiB per second: wait a moment and send it again",
                    (BYTES_PER_SECOND as u64) >> 20
                ),
            ));
        }
        bucket.left -= cost;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_floods_is_slowed_and_the_others_are_not() {
        let (floods, account) = (Floods::default(), AccountId::from_parts(0, [1; 5]));
        let mut heard = 0;
        while floods.admit(account, "loud", 4 << 20, 0).is_ok() {
            heard += 1;
        }
        assert!((10..=16).contains(&heard), "{heard}");
        assert!(floods.admit(account, "quiet", 4 << 20, 0).is_ok());
        assert!(floods.admit(account, "loud", 4 << 20, 1_000).is_ok(), "a second later it is heard again");
    }
}
