//! Forgetting what is old. Books that only the platform keeps (facts, inboxes, what others were told) go after a fixed time;
//! builds and logs go when their account says so, and stay for ever when it does not.
//!
//! One process at a time does it, in small transactions with pauses between them, so that nobody waits for it. It looks now
//! and then, and whenever an account has changed its settings; what is not there is not written about.

use std::time::Duration;

use slipway_store::identity::{self, Account};
use slipway_store::retention::{self, Books, Due, Forgotten};
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

/// What an account lets go, and whether there is any of it.
struct OfAccount {
    account: Account,
    builds_ms: Option<i64>,
    logs_ms: Option<i64>,
}

async fn forget(server: &Server, lead: &Lead) -> Result<(), StoreError> {
    let now_ms = server.now_ms();
    let (due, accounts) = server.store().read(move |tx| look(tx, now_ms)).await?;
    if due.facts {
        some(server, lead, "facts", move |tx| {
            retention::facts(tx, relay::CURSOR, books(now_ms).facts_ms, AT_ONCE)
        })
        .await?;
    }
    if due.inbox {
        some(server, lead, "inbox", move |tx| retention::inbox(tx, books(now_ms).inbox_ms, AT_ONCE)).await?;
    }
    if due.outgoing {
        some(server, lead, "outgoing", move |tx| retention::outgoing(tx, books(now_ms).outgoing_ms, AT_ONCE))
            .await?;
    }
    for of in accounts {
        forget_of(server, lead, &of, now_ms).await?;
    }
    Ok(())
}

fn books(now_ms: i64) -> Books {
    Books {
        facts_ms: now_ms - FACTS_KEPT_MS,
        inbox_ms: now_ms - INBOX_KEPT_MS,
        outgoing_ms: now_ms - OUTGOING_KEPT_MS,
    }
}

/// A read beside the writers: most of the time nothing is old, and nobody waits for us.
fn look(tx: &mut Tx<'_>, now_ms: i64) -> Result<(Due, Vec<OfAccount>), StoreError> {
    let due = retention::anything(tx, relay::CURSOR, books(now_ms))?;
    let mut found = Vec::new();
    for account in identity::accounts(tx)? {
        let settings = AccountSettings::of(&account);
        let before = |days: Option<i64>| days.map(|days| now_ms - days * DAY_MS);
        let (builds_ms, logs_ms) = (before(settings.keep_builds_days), before(settings.keep_logs_days));
        let (builds, logs) = retention::anything_of(tx, Scope::of(account.id), builds_ms, logs_ms)?;
        if builds || logs {
            let (builds_ms, logs_ms) = (builds_ms.filter(|_| builds), logs_ms.filter(|_| logs));
            found.push(OfAccount { account, builds_ms, logs_ms });
        }
    }
    Ok((due, found))
}

async fn forget_of(server: &Server, lead: &Lead, of: &OfAccount, now_ms: i64) -> Result<(), StoreError> {
    let scope = Scope::of(of.account.id);
    if let Some(before_ms) = of.builds_ms {
        some(server, lead, "builds", move |tx| retention::builds(tx, scope, before_ms, AT_ONCE)).await?;
    }
    if let Some(before_ms) = of.logs_ms {
        let notice = format!(
            "slipway: this log was removed on {}: the account keeps logs for {} days (Account, Settings)\n",
            seams::rfc3339(now_ms).split('T').next().unwrap_or_default(),
            (now_ms - before_ms) / DAY_MS
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

#[cfg(test)]
mod tests {
    use slipway_store::inbox;

    use super::*;
    use crate::background::lease;
    use crate::{Config, Seams};

    #[tokio::test]
    async fn nobody_waits_for_a_round_that_finds_nothing_old() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config {
            data: folder.path().to_owned(),
            public_url: "http://x".into(),
            network: Default::default(),
        };
        let server = Server::open(config, Seams::system(), Default::default()).unwrap();
        server.first_start("admin@example.com").await.unwrap();
        let lead = lease::lead(&server, NAME).await;
        let now_ms = server.now_ms();
        server.store().write(move |tx| inbox::note(tx, "c", "new", now_ms)).await.unwrap();
        let writes = || server.store().stats().writes;
        let before = writes();
        forget(&server, &lead).await.unwrap();
        assert_eq!(writes(), before, "it only looked");

        server.store().write(|tx| inbox::note(tx, "c", "old", 1)).await.unwrap();
        let before = writes();
        forget(&server, &lead).await.unwrap();
        assert_eq!(writes(), before + 1, "one write for the one kind that was old");
        let left = server.store().read(|tx| inbox::known(tx, "c", &["old", "new"])).await.unwrap();
        assert_eq!(left.into_iter().collect::<Vec<_>>(), ["new"]);
    }
}
