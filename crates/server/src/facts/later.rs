//! Messages of the bus that cannot be followed up now: kept in the database, tried again for days, then set aside visibly.
//!
//! In: a message and why it failed, from a consumer of the bus, which acknowledges it then, so that those behind it flow.
//! Out: the same message to the same consumer, with growing pauses. Whether it was handled already the consumer's inbox knows.
//! It does not know what a message means.

use std::collections::BTreeSet;

use slipway_bus::Message;
use slipway_model::AccountId;
use slipway_store::StoreError;
use slipway_store::deferred::{self, Deferred};

use crate::background::driver::{Outcome, Round, Turn};
use crate::background::lease::Lead;
use crate::ci::{notifications, triggers};
use crate::ctx::{QUEUES, Server};
use crate::facts::{consuming, relay};

const AT_ONCE: i64 = 50;
const PAUSE_FIRST_MS: i64 = 5_000;
const PAUSE_MAX_MS: i64 = 60 * 60_000;
/// A provider that is away over a long weekend loses nothing.
const GIVE_UP_MS: i64 = 5 * 24 * 60 * 60_000;
pub(crate) const NAME: &str = "deferred-messages";

/// Why a message could not be followed up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody else has to answer first, and does not.
    #[error("Git integration `{context}` cannot read {what}: {why}")]
    Away { account: AccountId, context: String, what: String, why: String },
}

impl Trouble {
    /// Whom it waits for.
    fn about(&self) -> String {
        match self {
            Self::Store(_) => String::new(),
            Self::Away { account, context, .. } => format!("{account}/{context}"),
        }
    }
}

fn pause_ms(attempts: i64) -> i64 {
    (PAUSE_FIRST_MS << attempts.clamp(0, 20)).min(PAUSE_MAX_MS)
}

/// Keeps a message for later; `for_good` when nothing will change by waiting.
pub(crate) async fn keep(
    server: &Server,
    consumer: &str,
    message: &Message,
    trouble: &Trouble,
    for_good: bool,
) -> Result<(), StoreError> {
    let now_ms = server.now_ms();
    let account = relay::read(message).ok().map(|recorded| recorded.account);
    let new = Deferred {
        consumer: consumer.to_owned(),
        message: message.id.clone(),
        account,
        about: trouble.about(),
        topic: message.topic.clone(),
        body: message.body.clone(),
        attempts: 1,
        next_ms: now_ms + pause_ms(0),
        problem: trouble.to_string(),
        created_ms: now_ms,
        dead_ms: for_good.then_some(now_ms),
    };
    tracing::warn!(error = %trouble, consumer, message = message.id, for_good, "Cannot process a message yet; retrying later.");
    server.store().write(move |tx| deferred::put(tx, &new)).await
}

pub(crate) async fn round(turn: &Turn) -> Outcome {
    look(&turn.server, turn.lead()).await?;
    Ok(Round::Done)
}

async fn look(server: &Server, lead: &Lead) -> Result<(), StoreError> {
    for queue in QUEUES {
        let consumer = queue.name;
        let now_ms = server.now_ms();
        let due = server.store().read(move |tx| deferred::due(tx, consumer, now_ms, AT_ONCE)).await?;
        // One that is away is asked once a round, however many wait for it.
        let mut away = BTreeSet::new();
        for row in due {
            if !row.about.is_empty() && away.contains(&row.about) {
                continue;
            }
            let message =
                Message { id: row.message.clone(), topic: row.topic.clone(), body: row.body.clone() };
            let outcome = match consumer {
                triggers::CONSUMER => consuming::take::<triggers::Triggers>(server, &message).await,
                _ => consuming::take::<notifications::Notifications>(server, &message).await,
            };
            if matches!(&outcome, Err(Trouble::Store(StoreError::Unavailable { .. }))) {
                // Our own database is away: that counts against nobody.
                continue;
            }
            if outcome.is_err() {
                away.insert(row.about.clone());
            }
            settle(server, lead, row, outcome.err()).await?;
        }
    }
    Ok(())
}

async fn settle(
    server: &Server,
    lead: &Lead,
    row: Deferred,
    trouble: Option<Trouble>,
) -> Result<(), StoreError> {
    let (lead, now_ms) = (lead.clone(), server.now_ms());
    server
        .store()
        .write(move |tx| {
            lead.checked(tx)?;
            let Some(trouble) = trouble else {
                return deferred::done(tx, &row.consumer, &row.message);
            };
            let next_ms = now_ms + pause_ms(row.attempts);
            let dead_ms = (now_ms - row.created_ms >= GIVE_UP_MS).then_some(now_ms);
            if dead_ms.is_some() {
                tracing::error!(error = %trouble, message = row.message, "Gave up on a message that has failed for days.");
            }
            deferred::failed(tx, &row, &trouble.to_string(), next_ms, dead_ms)?;
            if !row.about.is_empty() {
                deferred::postpone(tx, &row.about, now_ms, next_ms)?;
            }
            Ok(())
        })
        .await
}
