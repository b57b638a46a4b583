//! How much an account uses of what can be limited.

use crate::builds::TAKEN;
use crate::{Scope, StoreError, Tx, Value};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub seats: i64,
    pub pending_invitations: i64,
    pub service_accounts: i64,
    pub runtimes: i64,
    pub clusters: i64,
    pub applications: i64,
    pub pipelines: i64,
    /// Builds that a runner holds now.
    pub parallel_builds: i64,
}

/// What is asked for more rarely than limits are, because a queue has to be counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BuildUsage {
    pub waiting: i64,
    /// Made since the beginning of the given day.
    pub since: i64,
}

pub fn count_builds(tx: &mut Tx<'_>, scope: Scope, since_ms: i64) -> Result<BuildUsage, StoreError> {
    let waiting = tx.one(
        "SELECT count(*) FROM builds WHERE account = $1 AND status = 'pending'",
        &[scope.account().into()],
    )?;
    Ok(BuildUsage {
        waiting: waiting.map_or(Ok(0), |row| row.int(0))?,
        since: crate::builds::made_since(tx, scope, since_ms)?,
    })
}

pub fn count(tx: &mut Tx<'_>, scope: Scope) -> Result<Usage, StoreError> {
    let mut number = |sql: &str, values: &[Value]| -> Result<i64, StoreError> {
        tx.one(sql, values)?.map_or(Ok(0), |row| row.int(0))
    };
    let mine = [scope.account().into()];
    Ok(Usage {
        seats: number("SELECT count(*) FROM memberships WHERE account = $1", &mine)?,
        pending_invitations: number("SELECT count(*) FROM invitations WHERE account = $1", &mine)?,
        service_accounts: number("SELECT count(*) FROM service_accounts WHERE account = $1", &mine)?,
        runtimes: number("SELECT count(*) FROM runtimes WHERE account = $1", &mine)?,
        // Each runtime stands in one. What it says of it is a sentence, which two clusters may share.
        clusters: number("SELECT count(*) FROM runtimes WHERE account = $1", &mine)?,
        applications: number(
            "SELECT count(*) FROM entities WHERE account = $1 AND kind = 'argoproj.io/Application' AND gone_ms IS NULL",
            &mine,
        )?,
        pipelines: number("SELECT count(*) FROM pipelines WHERE account = $1", &mine)?,
        parallel_builds: number(
            &format!(
                "SELECT count(*) FROM builds WHERE account = $1 AND {TAKEN} AND status <> 'pending-approval'"
            ),
            &mine,
        )?,
    })
}

/// Builds that a runner holds now, other than those whose lease ran out and that are there to be taken.
pub fn running_builds(tx: &mut Tx<'_>, scope: Scope, now_ms: i64) -> Result<i64, StoreError> {
    tx.one(
        &format!(
            "SELECT count(*) FROM builds WHERE account = $1 AND {TAKEN} AND status <> 'pending-approval' \
             AND lease_until_ms >= $2"
        ),
        &[scope.account().into(), now_ms.into()],
    )?
    .map_or(Ok(0), |row| row.int(0))
}

/// Of the whole platform, for its operators.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    pub accounts: i64,
    pub users: i64,
    pub sessions: i64,
    pub runtimes: i64,
    pub applications: i64,
    pub audit: i64,
    pub builds: Vec<(String, i64)>,
}

pub fn everywhere(tx: &mut Tx<'_>) -> Result<Totals, StoreError> {
    let builds = tx
        .all("SELECT status, count(*) FROM builds GROUP BY status ORDER BY status", &[])?
        .iter()
        .map(|row| Ok((row.text(0)?, row.int(1)?)))
        .collect::<Result<_, StoreError>>()?;
    let mut number =
        |sql: &str| -> Result<i64, StoreError> { tx.one(sql, &[])?.map_or(Ok(0), |row| row.int(0)) };
    Ok(Totals {
        accounts: number("SELECT count(*) FROM accounts WHERE status = 'active'")?,
        users: number("SELECT count(*) FROM users WHERE status = 'active'")?,
        sessions: number("SELECT count(*) FROM sessions")?,
        runtimes: number("SELECT count(*) FROM runtimes")?,
        applications: number(
            "SELECT count(*) FROM entities WHERE kind = 'argoproj.io/Application' AND gone_ms IS NULL",
        )?,
        // The last numbers of all chains are how many records there are, without counting them.
        audit: number("SELECT CAST(coalesce(sum(seq), 0) AS BIGINT) FROM audit_heads")?,
        builds,
    })
}
