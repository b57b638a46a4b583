//! Logs: bytes of a step at an offset. What is held already is passed over, a gap is refused.

use std::borrow::Cow;
use std::collections::BTreeMap;

use slipway_model::BuildId;

use crate::builds::{self, Holder};
use crate::{Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct Chunk {
    pub seq: i64,
    pub step: String,
    pub offset: i64,
    pub text: String,
}

/// What is kept of one build's logs. More is counted, so that its taker can go on, and thrown away.
pub const BUILD_BYTES_MAX: u64 = 1 << 30;

/// Appends for whoever has the build and gives back how many bytes of each step are held now.
pub fn append(
    tx: &mut Tx<'_>,
    scope: Scope,
    build: BuildId,
    by: Holder<'_>,
    pieces: &[(String, i64, String)],
) -> Result<BTreeMap<String, u64>, StoreError> {
    let over = builds::held(tx, scope, build, by)?.is_over();
    let mut held = held(tx, build)?;
    for (step, offset, text) in pieces {
        let have = held.get(step).copied().unwrap_or(0);
        let offset = u64::try_from(*offset).map_err(StoreError::corrupt)?;
        // A piece that starts beyond what is held would leave a gap: say how much is held, and it comes again.
        let Some(skip) = have.checked_sub(offset) else { continue };
        let skip = usize::try_from(skip).map_err(StoreError::corrupt)?;
        let Some(fresh) = text.get(skip..).filter(|fresh| !fresh.is_empty()) else { continue };
        // All of a build's lines come before its end; what comes after it is not the build's.
        if over {
            return Err(StoreError::Conflict { what: format!("build `{build}`") });
        }
        let before: u64 = held.values().sum();
        held.insert(step.clone(), have + fresh.len() as u64);
        if before >= BUILD_BYTES_MAX {
            continue;
        }
        let crosses = before + fresh.len() as u64 >= BUILD_BYTES_MAX;
        let last = "\nslipway: the logs of this build are longer than 1 GiB; the rest is not kept\n";
        let fresh = if crosses { Cow::Owned(format!("{fresh}{last}")) } else { Cow::Borrowed(fresh) };
        tx.execute(
            "INSERT INTO log_chunks (build, step, start, text) VALUES ($1, $2, $3, $4)",
            &[
                build.into(),
                step.as_str().into(),
                i64::try_from(have).map_err(StoreError::corrupt)?.into(),
                fresh.as_ref().into(),
            ],
        )?;
    }
    for (step, bytes) in &held {
        tx.execute(
            "INSERT INTO step_logs (build, step, bytes) VALUES ($1, $2, $3) \
             ON CONFLICT (build, step) DO UPDATE SET bytes = excluded.bytes",
            &[build.into(), step.as_str().into(), i64::try_from(*bytes).map_err(StoreError::corrupt)?.into()],
        )?;
    }
    Ok(held)
}

pub fn held(tx: &mut Tx<'_>, build: BuildId) -> Result<BTreeMap<String, u64>, StoreError> {
    tx.all("SELECT step, bytes FROM step_logs WHERE build = $1", &[build.into()])?
        .iter()
        .map(|row| Ok((row.text(0)?, u64::try_from(row.int(1)?).map_err(StoreError::corrupt)?)))
        .collect()
}

pub fn after(
    tx: &mut Tx<'_>,
    scope: Scope,
    build: BuildId,
    seq: i64,
    limit: i64,
) -> Result<Vec<Chunk>, StoreError> {
    tx.all(
        "SELECT l.seq, l.step, l.start, l.text FROM log_chunks l JOIN builds b ON b.id = l.build \
         WHERE b.account = $1 AND l.build = $2 AND l.seq > $3 ORDER BY l.seq LIMIT $4",
        &[scope.account().into(), build.into(), seq.into(), limit.into()],
    )?
    .iter()
    .map(|row| Ok(Chunk { seq: row.int(0)?, step: row.text(1)?, offset: row.int(2)?, text: row.text(3)? }))
    .collect()
}
