//! Builds that wait for a runner, and for how long.

use slipway_model::{BuildId, ChangeKind, PipelineId};

use super::{BUILD, Build, build};
use crate::{Scope, StoreError, Tx};

/// Pending builds that were made before a moment and do not count as delayed yet, oldest first; of all accounts, but
/// not of these pipelines.
pub fn waiting_since(
    tx: &mut Tx<'_>,
    before_ms: i64,
    not_of: &[PipelineId],
    limit: i64,
) -> Result<Vec<Build>, StoreError> {
    let mut values = vec![before_ms.into(), limit.into()];
    let mut condition = String::new();
    if !not_of.is_empty() {
        values.extend(not_of.iter().map(|&id| id.into()));
        let places: Vec<_> = (3..=values.len()).map(|place| format!("${place}")).collect();
        condition = format!(" AND pipeline NOT IN ({})", places.join(", "));
    }
    let sql = format!(
        "{BUILD} WHERE status = 'pending' AND delayed_ms IS NULL AND created_ms < $1{condition} ORDER BY created_ms, id LIMIT $2"
    );
    tx.all(&sql, &values)?.iter().map(build).collect()
}

/// Pending builds that were made before a moment, whatever they wait for.
pub fn waiting_before(tx: &mut Tx<'_>, before_ms: i64, limit: i64) -> Result<Vec<Build>, StoreError> {
    let sql =
        format!("{BUILD} WHERE status = 'pending' AND created_ms < $1 ORDER BY created_ms, id LIMIT $2");
    tx.all(&sql, &[before_ms.into(), limit.into()])?.iter().map(build).collect()
}

pub fn delayed(tx: &mut Tx<'_>, scope: Scope, id: BuildId, now_ms: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE builds SET delayed_ms = $2 WHERE id = $1 AND status = 'pending' AND delayed_ms IS NULL",
        &[id.into(), now_ms.into()],
    )?;
    tx.changed(scope.account(), ChangeKind::Build, id);
    Ok(())
}

/// The oldest of those that an account has more of than `most`.
pub fn delayed_beyond(tx: &mut Tx<'_>, most: i64, limit: i64) -> Result<Vec<Build>, StoreError> {
    let full = tx.all(
        "SELECT account, count(*) FROM builds WHERE status = 'pending' AND delayed_ms IS NOT NULL \
         GROUP BY account HAVING count(*) > $1",
        &[most.into()],
    )?;
    let mut found = Vec::new();
    for row in &full {
        let over = (row.int(1)? - most).min(limit);
        let account: slipway_model::AccountId = row.id(0)?;
        let sql = format!(
            "{BUILD} WHERE account = $1 AND status = 'pending' AND delayed_ms IS NOT NULL ORDER BY created_ms, id LIMIT $2"
        );
        for row in &tx.all(&sql, &[account.into(), over.into()])? {
            found.push(build(row)?);
        }
    }
    Ok(found)
}
