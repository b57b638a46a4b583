//! The read model of GitOps: runtimes, and Applications as their runtime last reported them.

use slipway_model::ChangeKind;

use crate::{Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct Runtime {
    pub name: String,
    pub version: String,
    pub cluster: String,
    pub ingress_url: String,
    pub last_seen_ms: i64,
    pub applications: i64,
}

pub fn runtime_seen(tx: &mut Tx<'_>, scope: Scope, runtime: &Runtime) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO runtimes (account, name, version, cluster, ingress_url, last_seen_ms) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (account, name) DO UPDATE SET version = excluded.version, cluster = excluded.cluster, \
         ingress_url = excluded.ingress_url, last_seen_ms = excluded.last_seen_ms",
        &[
            scope.account().into(),
            runtime.name.as_str().into(),
            runtime.version.as_str().into(),
            runtime.cluster.as_str().into(),
            runtime.ingress_url.as_str().into(),
            runtime.last_seen_ms.into(),
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
    for (namespace, application) in of_runtime(tx, scope, name)? {
        remove(tx, scope, name, &namespace, &application)?;
    }
    let gone = tx.execute(
        "DELETE FROM runtimes WHERE account = $1 AND name = $2",
        &[scope.account().into(), name.into()],
    )?;
    Ok(gone > 0)
}

pub fn runtimes(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Runtime>, StoreError> {
    tx.all(
        "SELECT r.name, r.version, r.cluster, r.ingress_url, r.last_seen_ms, \
         (SELECT count(*) FROM applications a WHERE a.account = r.account AND a.runtime = r.name) \
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
            applications: row.int(5)?,
        })
    })
    .collect()
}

/// An Application as JSON of the `api` room: all of it, and what lists show of it.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub body: &'a str,
    pub summary: &'a str,
}

pub fn put(tx: &mut Tx<'_>, scope: Scope, runtime: &str, app: &Report<'_>) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO applications (account, runtime, namespace, name, body, summary) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (account, runtime, namespace, name) DO UPDATE SET body = excluded.body, summary = excluded.summary",
        &[
            scope.account().into(),
            runtime.into(),
            app.namespace.into(),
            app.name.into(),
            app.body.into(),
            app.summary.into(),
        ],
    )?;
    let id = format!("{runtime}/{}/{}", app.namespace, app.name);
    tx.changed(scope.account(), ChangeKind::Application, id);
    Ok(())
}

pub fn remove(
    tx: &mut Tx<'_>,
    scope: Scope,
    runtime: &str,
    namespace: &str,
    name: &str,
) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM applications WHERE account = $1 AND runtime = $2 AND namespace = $3 AND name = $4",
        &[scope.account().into(), runtime.into(), namespace.into(), name.into()],
    )?;
    tx.changed(scope.account(), ChangeKind::Application, format!("{runtime}/{namespace}/{name}"));
    Ok(())
}

/// Namespace and name of each.
pub fn of_runtime(tx: &mut Tx<'_>, scope: Scope, runtime: &str) -> Result<Vec<(String, String)>, StoreError> {
    tx.all(
        "SELECT namespace, name FROM applications WHERE account = $1 AND runtime = $2",
        &[scope.account().into(), runtime.into()],
    )?
    .iter()
    .map(|row| Ok((row.text(0)?, row.text(1)?)))
    .collect()
}

/// What lists show of each, by name; with a name, of those that have it. Rows of an older database have no summary until
/// their runtime reports them again: their whole body holds the same fields.
pub fn list(tx: &mut Tx<'_>, scope: Scope, name: Option<&str>) -> Result<Vec<String>, StoreError> {
    tx.all(
        "SELECT CASE WHEN summary = '' THEN body ELSE summary END FROM applications \
         WHERE account = $1 AND ($2 = '' OR name = $2) ORDER BY name, namespace, runtime",
        &[scope.account().into(), name.unwrap_or_default().into()],
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
        "SELECT body FROM applications WHERE account = $1 AND runtime = $2 AND namespace = $3 AND name = $4",
        &[scope.account().into(), runtime.into(), namespace.into(), name.into()],
    )?
    .map(|row| row.text(0))
    .transpose()
}
