//! What each consumer of the bus has handled. A message comes at least once; its effect happens once, because
//! the note and the effect are one transaction.

use std::collections::BTreeSet;

use crate::{Ask, StoreError, Tx};

/// Which of these the consumer has handled before, asked for all of them at once.
pub fn known(tx: &mut Tx<'_>, consumer: &str, messages: &[&str]) -> Result<BTreeSet<String>, StoreError> {
    tx.fetch(messages.iter().map(|message| asks_known(consumer, message)))?;
    let mut known = BTreeSet::new();
    for message in messages {
        for row in tx.ask(&asks_known(consumer, message))? {
            known.insert(row.text(0)?);
        }
    }
    Ok(known)
}

/// What [`known`] and [`first_time`] ask of a message.
pub fn asks_known(consumer: &str, message: &str) -> Ask {
    Ask::new(
        "SELECT message FROM inbox WHERE consumer = $1 AND message = $2",
        [consumer.into(), message.into()],
    )
    .of_row(row(consumer, message))
}

fn row(consumer: &str, message: &str) -> String {
    format!("inbox/{consumer}/{message}")
}

/// Notes one that is not [`known`].
pub fn note(tx: &mut Tx<'_>, consumer: &str, message: &str, now_ms: i64) -> Result<(), StoreError> {
    tx.send_row(
        &row(consumer, message),
        "INSERT INTO inbox (consumer, message, at_ms) VALUES ($1, $2, $3)",
        &[consumer.into(), message.into(), now_ms.into()],
    )
}

/// `false` when this consumer has handled the message before: change nothing, acknowledge it.
pub fn first_time(tx: &mut Tx<'_>, consumer: &str, message: &str, now_ms: i64) -> Result<bool, StoreError> {
    if !tx.ask(&asks_known(consumer, message))?.is_empty() {
        return Ok(false);
    }
    note(tx, consumer, message, now_ms)?;
    Ok(true)
}
