//! What each consumer of the bus has handled. A message comes at least once; its effect happens once, because
//! the note and the effect are one transaction.

use crate::{StoreError, Tx};

/// `false` when this consumer has handled the message before: change nothing, acknowledge it.
pub fn first_time(tx: &mut Tx<'_>, consumer: &str, message: &str, now_ms: i64) -> Result<bool, StoreError> {
    let noted = tx.execute(
        "INSERT INTO inbox (consumer, message, at_ms) VALUES ($1, $2, $3) ON CONFLICT (consumer, message) DO NOTHING",
        &[consumer.into(), message.into(), now_ms.into()],
    )?;
    Ok(noted > 0)
}
