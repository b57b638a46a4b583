//! The read model of GitOps: runtimes, and the Applications among what they reported ([`crate::entities`]).

use crate::{Scope, StoreError, Tx, entities};

#[derive(Debug, Clone)]
pub struct Runtime {
    pub name: String,
    pub version: String,
    pub cluster: String,
    pub ingress_url: String,
    pub last_seen_ms: i64,
    /// The highest number of its reports.
    pub sequence: i64,
    pub applications: i64,
}

pub fn runtime_seen(tx: &mut Tx<'_>, scope: Scope, runtime: &Runtime) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO runtimes (account, name, version, cluster, ingress_url, last_seen_ms, sequence) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) \
         ON CONFLICT (account, name) DO UPDATE SET version = excluded.version, cluster = excluded.cluster, \
         ingress_url = excluded.ingress_url, last_seen_ms = excluded.last_seen_ms, sequence = excluded.sequence",
        &[
            scope.account().into(),
            runtime.name.as_str().into(),
            runtime.version.as_str().into(),
            runtime.cluster.as_str().into(),
            runtime.ingress_url.as_str().into(),
            runtime.last_seen_ms.into(),
            runtime.sequence.into(),
        ],
    )?;
    Ok(())
}

pub fn touch_runtime(tx: &mut Tx<'_>, scope: Scope, name: &str, now_ms: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE runtimes SET last_seen_ms = $3 WHERE account = $1 AND name = $2",
        &[scope.account().into(), name.into(), now_ms.into()],
    )?;
    Ok(())
}

/// With what it reported. `false`: there is none of that name.
pub fn forget_runtime(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<bool, StoreError> {
    entities::forget_runtime(tx, scope, name)?;
    let gone = tx.execute(
        "DELETE FROM runtimes WHERE account = $1 AND name = $2",
        &[scope.account().into(), name.into()],
    )?;
    tx.changed(scope.account(), slipway_model::ChangeKind::Runtime, name);
    Ok(gone > 0)
}

/// What a report is compared with before it is taken in.
#[derive(Debug, Clone)]
pub struct Place {
    pub name: String,
    pub cluster: String,
    /// The highest number of its reports.
    pub sequence: i64,
}

pub fn places(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Place>, StoreError> {
    tx.all("SELECT name, cluster, sequence FROM runtimes WHERE account = $1", &[scope.account().into()])?
        .iter()
        .map(|row| Ok(Place { name: row.text(0)?, cluster: row.text(1)?, sequence: row.int(2)? }))
        .collect()
}

pub fn runtimes(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Runtime>, StoreError> {
    tx.all(
        "SELECT r.name, r.version, r.cluster, r.ingress_url, r.last_seen_ms, r.sequence, \
         (SELECT count(*) FROM entities e WHERE e.account = r.account AND e.runtime = r.name \
         AND e.kind = 'argoproj.io/Application' AND e.gone_ms IS NULL) \
         FROM runtimes r WHERE r.account = $1 ORDER BY r.name",
        &[scope.account().into()],
    )?
    .iter()
    .map(|row| {
        Ok(Runtime {
            name: row.text(0)?,
            version: row.text(1)?,
            cluster: row.text(2)?,
            ingress_url: row.text(3)?,
            last_seen_ms: row.int(4)?,
            sequence: row.int(5)?,
            applications: row.int(6)?,
        })
    })
    .collect()
}

/// What lists show of each, by name; with a name, of those that have it. Rows of an older database have no summary until
/// their runtime reports them again: their whole body holds the same fields.
pub fn list(tx: &mut Tx<'_>, scope: Scope, name: Option<&str>) -> Result<Vec<String>, StoreError> {
    tx.all(
        "SELECT CASE WHEN summary = '' THEN body ELSE summary END FROM entities \
         WHERE account = $1 AND kind = 'argoproj.io/Application' AND gone_ms IS NULL AND ($2 = '' OR name = $2) \
         ORDER BY name, namespace, runtime",
        &[scope.account().into(), name.unwrap_or_default().into()],
    )?
    .iter()
    .map(|row| row.text(0))
    .collect()
}

/// Those with these runtimes, namespaces and names, in one question; in no order.
pub fn several(
    tx: &mut Tx<'_>,
    scope: Scope,
    wanted: &[(&str, &str, &str)],
) -> Result<Vec<String>, StoreError> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let named = entities::places(2, wanted.len(), 3);
    let mut values = vec![scope.account().into()];
    for (runtime, namespace, name) in wanted {
        values.extend([(*runtime).into(), (*namespace).into(), (*name).into()]);
    }
    tx.all(
        &format!(
            "SELECT body FROM entities WHERE account = $1 AND kind = 'argoproj.io/Application' AND gone_ms IS NULL \
             AND (runtime, namespace, name) IN (VALUES {named})"
        ),
        &values,
    )?
    .iter()
    .map(|row| row.text(0))
    .collect()
}

pub fn one(
    tx: &mut Tx<'_>,
    scope: Scope,
    runtime: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<String>, StoreError> {
    tx.one(
        "SELECT body FROM entities WHERE account = $1 AND runtime = $2 AND kind = 'argoproj.io/Application' \
         AND namespace = $3 AND name = $4 AND gone_ms IS NULL",
        &[scope.account().into(), runtime.into(), namespace.into(), name.into()],
    )?
    .map(|row| row.text(0))
    .transpose()
}
