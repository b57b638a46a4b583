//! Which tick of each clock trigger was followed up last.

use std::collections::HashMap;

use slipway_model::PipelineId;

use crate::{StoreError, Tx};

pub fn last_ticks(tx: &mut Tx<'_>) -> Result<HashMap<(PipelineId, String), i64>, StoreError> {
    tx.all("SELECT pipeline, name, tick_ms FROM cron_ticks", &[])?
        .iter()
        .map(|row| Ok(((row.id(0)?, row.text(1)?), row.int(2)?)))
        .collect()
}

/// `false` when this tick or a later one was noted before: somebody else followed it up.
pub fn note_tick(
    tx: &mut Tx<'_>,
    pipeline: PipelineId,
    name: &str,
    tick_ms: i64,
) -> Result<bool, StoreError> {
    let changed = tx.execute(
        "INSERT INTO cron_ticks (pipeline, name, tick_ms) VALUES ($1, $2, $3) \
         ON CONFLICT (pipeline, name) DO UPDATE SET tick_ms = excluded.tick_ms WHERE cron_ticks.tick_ms < excluded.tick_ms",
        &[pipeline.into(), name.into(), tick_ms.into()],
    )?;
    Ok(changed > 0)
}
