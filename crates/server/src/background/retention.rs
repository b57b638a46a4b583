//! Forgetting what is old. Books that only the platform keeps (facts, inboxes, what others were told) go after a fixed time;
//! builds and logs go when their account says so, and stay for ever when it does not.
//!
//! One process at a time does it, in small transactions with pauses between them, so that nobody waits for it. It looks now
//! and then, and whenever an account has changed its settings.

use std::time::Duration;

use slipway_store::identity::{self, Account};
use slipway_store::retention::{self, Forgotten};
use slipway_store::{Scope, StoreError, Tx};

use crate::background::driver::{Outcome, Round, Turn};
use crate::background::lease::Lead;
use crate::ctx::Server;
use crate::facts::relay;
use crate::seams;
use crate::settings::AccountSettings;

pub(crate) const NAME: &str = "retention";
/// Rows in one transaction: a few milliseconds.
const AT_ONCE: i64 = 500;
/// Others write meanwhile.
const PAUSE: Duration = Duration::from_millis(20);
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Longer than any runtime is away without looking at everything anew.
const FACTS_KEPT_MS: i64 = 7 * DAY_MS;
/// Longer than any message comes again.
const INBOX_KEPT_MS: i64 = 14 * DAY_MS;
/// For those who look up whether somebody was told.
const OUTGOING_KEPT_MS: i64 = 30 * DAY_MS;

pub(crate) async fn round(turn: &Turn) -> Outcome {
    forget(&turn.server, turn.lead()).await?;
    Ok(Round::Done)
}

async fn forget(server: &Server, lead: &Lead) -> Result<(), StoreError> {
    let now_ms = server.now_ms();
    some(server, lead, "facts", move |tx| {
        retention::facts(tx, relay::CURSOR, now_ms - FACTS_KEPT_MS, AT_ONCE)
    })
    .await?;
    some(server, lead, "inbox", move |tx| retention::inbox(tx, now_ms - INBOX_KEPT_MS, AT_ONCE)).await?;
    some(server, lead, "outgoing", move |tx| retention::outgoing(tx, now_ms - OUTGOING_KEPT_MS, AT_ONCE))
        .await?;
    for account in server.store().read(identity::accounts).await? {
        forget_of(server, lead, &account, now_ms).await?;
    }
    Ok(())
}

async fn forget_of(server: &Server, lead: &Lead, account: &Account, now_ms: i64) -> Result<(), StoreError> {
    let (settings, scope) = (AccountSettings::of(account), Scope::of(account.id));
    if let Some(days) = settings.keep_builds_days {
        let before_ms = now_ms - days * DAY_MS;
        some(server, lead, "builds", move |tx| retention::builds(tx, scope, before_ms, AT_ONCE)).await?;
    }
    if let Some(days) = settings.keep_logs_days {
        let before_ms = now_ms - days * DAY_MS;
        let notice = format!(
            "slipway: this log was removed on {}: the account keeps logs for {days} days (Account, Settings)\n",
            seams::rfc3339(now_ms).split('T').next().unwrap_or_default()
        );
        some(server, lead, "logs", move |tx| retention::logs(tx, scope, before_ms, &notice, now_ms, AT_ONCE))
            .await?;
    }
    Ok(())
}

/// A little, and again until there is nothing left.
async fn some<F>(server: &Server, lead: &Lead, what: &'static str, forget: F) -> Result<(), StoreError>
where
    F: Fn(&mut Tx<'_>) -> Result<Forgotten, StoreError> + Clone + Send + 'static,
{
    loop {
        let (lead, forget) = (lead.clone(), forget.clone());
        let done = server
            .store()
            .write(move |tx| {
                lead.checked(tx)?;
                forget(tx)
            })
            .await?;
        server.inner.metrics.forgot(what, done.count);
        if done.count > 0 {
            tracing::info!(what, count = done.count, "Forgot what is old.");
        }
        if !done.more {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}
