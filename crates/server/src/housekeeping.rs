//! What has to be done now and then: notes of when keys were used, old sessions, old counters, old sign-ins.

use std::time::Duration;

use slipway_store::{StoreError, identity, sso};

use crate::auth::FAILURES_FORGOTTEN_AFTER_MS;
use crate::ctx::Server;

const EVERY: Duration = Duration::from_secs(20);
/// The longest that any account lets a session be quiet.
const SESSION_QUIET_MAX_MS: i64 = 30 * 24 * 60 * 60 * 1000;
pub(crate) const SSO_LOGIN_MS: i64 = 10 * 60 * 1000;

pub(crate) async fn run(server: &Server) {
    loop {
        let stopping = tokio::select! {
            () = server.inner.shutdown.cancelled() => true,
            () = tokio::time::sleep(EVERY) => false,
        };
        if let Err(error) = once(server).await {
            tracing::warn!(%error, "Housekeeping failed; it is tried again.");
        }
        if stopping {
            return;
        }
    }
}

/// One transaction for all of it.
pub(crate) async fn once(server: &Server) -> Result<(), StoreError> {
    let (used, now_ms) = (server.inner.used.take(), server.now_ms());
    server
        .store()
        .write(move |tx| {
            identity::keys_used(tx, &used)?;
            identity::forget_old_sessions(tx, now_ms - SESSION_QUIET_MAX_MS)?;
            identity::forget_failures_before(tx, now_ms - FAILURES_FORGOTTEN_AFTER_MS)?;
            sso::forget_logins_before(tx, now_ms - SSO_LOGIN_MS)?;
            Ok(())
        })
        .await
}
