//! From the outbox to the bus: facts in their order, by the one process that leads.
//!
//! The cursor moves after the bus has them safely. A crash between the two publishes some again, with the same
//! ids, and the consumers' inboxes know them.

use serde::{Deserialize, Serialize};
use slipway_bus::{BusError, Message};
use slipway_model::{AccountId, Fact};
use slipway_store::facts::{self, Recorded};
use slipway_store::{Service, StoreError};

use crate::background::driver::{Outcome, Round, Turn};
use crate::background::lease::Lead;
use crate::ctx::Server;

pub(crate) const CURSOR: &str = "relay";
const BATCH: i64 = 200;

/// A fact on the bus. The message's id is the fact's number.
#[derive(Serialize)]
struct Handed<'a> {
    account: AccountId,
    fact: &'a Fact,
}

/// What a consumer reads back.
#[derive(Deserialize)]
struct Taken {
    account: AccountId,
    fact: Fact,
}

pub(crate) fn read(message: &Message) -> Result<Recorded, StoreError> {
    let taken: Taken = serde_json::from_str(&message.body).map_err(StoreError::corrupt)?;
    let seq = message.id.parse().map_err(StoreError::corrupt)?;
    Ok(Recorded { seq, account: taken.account, fact: taken.fact })
}

#[derive(Debug, thiserror::Error)]
enum RelayError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Bus(#[from] BusError),
}

/// A batch; after a full one there may be more. What is written from now on is heard of.
pub(crate) async fn round(turn: &Turn) -> Outcome {
    match hand_over(&turn.server, turn.lead()).await? {
        BATCH.. => Ok(Round::Again),
        _ => Ok(Round::Done),
    }
}

async fn hand_over(server: &Server, lead: &Lead) -> Result<i64, RelayError> {
    let store = server.store().acting_as(Service::EventHandler);
    let batch = store.read(|tx| facts::after_cursor(tx, CURSOR, BATCH)).await?;
    let Some(last) = batch.last().map(|recorded| recorded.seq) else { return Ok(0) };
    let messages = batch
        .iter()
        .map(|recorded| {
            let body = serde_json::to_value(Handed { account: recorded.account, fact: &recorded.fact })
                .map_err(StoreError::corrupt)?;
            // A fact's own name is its topic: `facts.pushed`.
            let topic = format!("facts.{}", body["fact"]["kind"].as_str().unwrap_or("other"));
            Ok(Message { id: recorded.seq.to_string(), topic, body: body.to_string() })
        })
        .collect::<Result<Vec<_>, StoreError>>()?;
    server.inner.bus.publish(&messages).await?;
    let (lead, asked) = (lead.clone(), lead.asks(store.database()));
    store
        .write_asking(asked, move |tx| {
            lead.checked(tx)?;
            facts::move_cursor(tx, CURSOR, last)
        })
        .await?;
    Ok(i64::try_from(messages.len()).unwrap_or(i64::MAX))
}
