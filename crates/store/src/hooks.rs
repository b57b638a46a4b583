//! Webhooks of Git providers: one for each repository of a context that some trigger watches.

use std::collections::BTreeMap;

use slipway_model::{AccountId, HookId};

use crate::{Ask, Row, Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct Hook {
    pub id: HookId,
    pub account: AccountId,
    /// Name of the Git context whose credential registers it.
    pub context: String,
    /// `owner/name`.
    pub repo: String,
    /// Sealed.
    pub secret: String,
    /// The provider's own name for it, once it is registered there.
    pub remote: Option<String>,
    /// Why it is not registered, for people.
    pub problem: Option<String>,
    pub polled_ms: i64,
    /// The last announcement that was believed.
    pub heard_ms: Option<i64>,
    pub created_ms: i64,
}

const HOOK: &str =
    "SELECT id, account, context, repo, secret, remote, problem, polled_ms, heard_ms, created_ms FROM hooks";

fn hook(row: &Row) -> Result<Hook, StoreError> {
    Ok(Hook {
        id: row.id(0)?,
        account: row.id(1)?,
        context: row.text(2)?,
        repo: row.text(3)?,
        secret: row.text(4)?,
        remote: row.maybe_text(5)?,
        problem: row.maybe_text(6)?,
        polled_ms: row.int(7)?,
        heard_ms: row.maybe_int(8)?,
        created_ms: row.int(9)?,
    })
}

/// Keeps what is there for that repository already.
pub fn ensure(tx: &mut Tx<'_>, new: &Hook) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO hooks (id, account, context, repo, secret, created_ms) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (account, context, repo) DO NOTHING",
        &[
            new.id.into(),
            new.account.into(),
            new.context.as_str().into(),
            new.repo.as_str().into(),
            new.secret.as_str().into(),
            new.created_ms.into(),
        ],
    )?;
    Ok(())
}

/// Whoever calls knows the id only: which account it is of stands in the row.
pub fn by_id(tx: &mut Tx<'_>, id: HookId) -> Result<Option<Hook>, StoreError> {
    tx.ask(&asks_by_id(id))?.first().map(hook).transpose()
}

/// What [`by_id`] asks.
pub fn asks_by_id(id: HookId) -> Ask {
    Ask::new(format!("{HOOK} WHERE id = $1"), [id.into()])
}

pub fn list(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Hook>, StoreError> {
    tx.all(&format!("{HOOK} WHERE account = $1 ORDER BY context, repo"), &[scope.account().into()])?
        .iter()
        .map(hook)
        .collect()
}

/// Those that are not registered and whose next attempt is due.
pub fn unregistered(tx: &mut Tx<'_>, now_ms: i64) -> Result<Vec<Hook>, StoreError> {
    tx.all(
        &format!("{HOOK} WHERE remote IS NULL AND next_ms <= $1 ORDER BY next_ms LIMIT 50"),
        &[now_ms.into()],
    )?
    .iter()
    .map(hook)
    .collect()
}

/// Those that nobody has looked after for a while.
pub fn unpolled(tx: &mut Tx<'_>, before_ms: i64) -> Result<Vec<Hook>, StoreError> {
    tx.all(&format!("{HOOK} WHERE polled_ms < $1 ORDER BY polled_ms LIMIT 50"), &[before_ms.into()])?
        .iter()
        .map(hook)
        .collect()
}

pub fn registered(tx: &mut Tx<'_>, id: HookId, remote: &str) -> Result<(), StoreError> {
    tx.execute("UPDATE hooks SET remote = $2, problem = NULL WHERE id = $1", &[id.into(), remote.into()])?;
    Ok(())
}

pub fn failed(tx: &mut Tx<'_>, id: HookId, problem: &str, next_ms: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE hooks SET problem = $2, next_ms = $3 WHERE id = $1",
        &[id.into(), problem.into(), next_ms.into()],
    )?;
    Ok(())
}

/// What people should know of it, though it works.
pub fn note_problem(
    tx: &mut Tx<'_>,
    scope: Scope,
    context: &str,
    repo: &str,
    problem: &str,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE hooks SET problem = $4 WHERE account = $1 AND context = $2 AND repo = $3",
        &[scope.account().into(), context.into(), repo.into(), problem.into()],
    )?;
    Ok(())
}

pub fn polled(tx: &mut Tx<'_>, id: HookId, now_ms: i64) -> Result<(), StoreError> {
    tx.execute("UPDATE hooks SET polled_ms = $2 WHERE id = $1", &[id.into(), now_ms.into()])?;
    Ok(())
}

pub fn heard(tx: &mut Tx<'_>, id: HookId, now_ms: i64) -> Result<(), StoreError> {
    let sql = "UPDATE hooks SET heard_ms = $2 WHERE id = $1";
    tx.send_over(&format!("heard/{id}"), sql, &[id.into(), now_ms.into()])
}

pub fn delete(tx: &mut Tx<'_>, scope: Scope, id: HookId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM hooks WHERE account = $1 AND id = $2", &[scope.account().into(), id.into()])?;
    Ok(())
}

pub fn refs(tx: &mut Tx<'_>, id: HookId) -> Result<BTreeMap<String, String>, StoreError> {
    tx.all("SELECT name, sha FROM hook_refs WHERE hook = $1", &[id.into()])?
        .iter()
        .map(|row| Ok((row.text(0)?, row.text(1)?)))
        .collect()
}

/// `None`: the branch or tag is gone.
pub fn note_ref(tx: &mut Tx<'_>, id: HookId, name: &str, sha: Option<&str>) -> Result<(), StoreError> {
    match sha {
        Some(sha) => tx.send_over(
            &format!("hook_refs/{id}/{name}"),
            "INSERT INTO hook_refs (hook, name, sha) VALUES ($1, $2, $3) \
             ON CONFLICT (hook, name) DO UPDATE SET sha = excluded.sha",
            &[id.into(), name.into(), sha.into()],
        ),
        None => tx.send("DELETE FROM hook_refs WHERE hook = $1 AND name = $2", &[id.into(), name.into()]),
    }
}
