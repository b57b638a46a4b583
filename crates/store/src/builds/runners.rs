//! Runners of an account, and when each was last heard.

use slipway_model::AccountId;

use crate::{Row, Scope, StoreError, Tx};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    pub name: String,
    pub version: String,
    pub executor: String,
    pub last_seen_ms: i64,
}

fn read(row: &Row) -> Result<Runner, StoreError> {
    Ok(Runner {
        name: row.text(0)?,
        version: row.text(1)?,
        executor: row.text(2)?,
        last_seen_ms: row.int(3)?,
    })
}

/// It is not there any more, whatever it was last seen doing.
pub fn runner_gone(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM runners WHERE account = $1 AND name = $2",
        &[scope.account().into(), name.into()],
    )?;
    // Builds that were for it are anybody's now.
    tx.queue_moved(scope.account());
    Ok(())
}

pub fn runner_seen(tx: &mut Tx<'_>, scope: Scope, runner: &Runner) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO runners (account, name, version, executor, last_seen_ms) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (account, name) DO UPDATE SET version = excluded.version, executor = excluded.executor, \
         last_seen_ms = excluded.last_seen_ms",
        &[
            scope.account().into(),
            runner.name.as_str().into(),
            runner.version.as_str().into(),
            runner.executor.as_str().into(),
            runner.last_seen_ms.into(),
        ],
    )?;
    Ok(())
}

/// So many rows are written by one statement, always as many, so that it is prepared once.
const TOGETHER: usize = 50;

/// That runners which are known were heard: those that were removed since stay removed. The moment of several is that of the
/// first of them.
pub fn runners_seen(tx: &mut Tx<'_>, mut seen: Vec<(AccountId, String, i64)>) -> Result<(), StoreError> {
    seen.sort_by_key(|(_, _, at_ms)| *at_ms);
    let many = seen.chunks_exact(TOGETHER);
    for (account, name, at_ms) in many.remainder() {
        tx.execute(
            "UPDATE runners SET last_seen_ms = $3 WHERE account = $1 AND name = $2 AND last_seen_ms < $3",
            &[(*account).into(), name.as_str().into(), (*at_ms).into()],
        )?;
    }
    let places: Vec<_> = (0..TOGETHER).map(|row| format!("(${}, ${})", row * 2 + 2, row * 2 + 3)).collect();
    let places = places.join(", ");
    for chunk in many {
        let mut values = vec![chunk[0].2.into()];
        for (account, name, _) in chunk {
            values.extend([(*account).into(), name.as_str().into()]);
        }
        tx.execute(
            &format!(
                "UPDATE runners SET last_seen_ms = $1 WHERE last_seen_ms < $1 AND (account, name) IN (VALUES {places})"
            ),
            &values,
        )?;
    }
    Ok(())
}

pub fn runner(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<Option<Runner>, StoreError> {
    tx.one(
        "SELECT name, version, executor, last_seen_ms FROM runners WHERE account = $1 AND name = $2",
        &[scope.account().into(), name.into()],
    )?
    .as_ref()
    .map(read)
    .transpose()
}

pub fn runners(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Runner>, StoreError> {
    tx.all(
        "SELECT name, version, executor, last_seen_ms FROM runners WHERE account = $1 ORDER BY name",
        &[scope.account().into()],
    )?
    .iter()
    .map(read)
    .collect()
}
