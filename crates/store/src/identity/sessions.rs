//! Browser sessions, and failed attempts to sign in.

use slipway_model::{AccountId, SessionId, SsoClientId, UserId};

use crate::{Row, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct Session {
    pub id: SessionId,
    pub token_hash: String,
    pub user: UserId,
    pub account: AccountId,
    pub csrf: String,
    pub created_ms: i64,
    pub last_seen_ms: i64,
    /// When a password or an identity provider last vouched for the person.
    pub authenticated_ms: i64,
    pub address: String,
    pub agent: String,
    /// `password` or the name of an SSO client.
    pub method: String,
    /// The identity provider that vouched for the person. Such a session is good in that provider's account alone.
    pub client: Option<SsoClientId>,
}

const SESSION: &str = "SELECT id, token_hash, user_id, account, csrf, created_ms, last_seen_ms, authenticated_ms, \
     address, agent, method, client FROM sessions";

fn read(row: &Row) -> Result<Session, StoreError> {
    Ok(Session {
        id: row.id(0)?,
        token_hash: row.text(1)?,
        user: row.id(2)?,
        account: row.id(3)?,
        csrf: row.text(4)?,
        created_ms: row.int(5)?,
        last_seen_ms: row.int(6)?,
        authenticated_ms: row.int(7)?,
        address: row.text(8)?,
        agent: row.text(9)?,
        method: row.text(10)?,
        client: row.maybe_text(11)?.and_then(|id| id.parse().ok()),
    })
}

pub fn create_session(tx: &mut Tx<'_>, session: &Session) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO sessions (id, token_hash, user_id, account, csrf, created_ms, last_seen_ms, authenticated_ms, \
         address, agent, method, client) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        &[
            session.id.into(),
            session.token_hash.as_str().into(),
            session.user.into(),
            session.account.into(),
            session.csrf.as_str().into(),
            session.created_ms.into(),
            session.last_seen_ms.into(),
            session.authenticated_ms.into(),
            session.address.as_str().into(),
            session.agent.as_str().into(),
            session.method.as_str().into(),
            session.client.map(|id| id.to_string()).into(),
        ],
    )?;
    Ok(())
}

pub fn session(tx: &mut Tx<'_>, token_hash: &str) -> Result<Option<Session>, StoreError> {
    tx.one(&format!("{SESSION} WHERE token_hash = $1"), &[token_hash.into()])?.as_ref().map(read).transpose()
}

pub fn sessions_of(tx: &mut Tx<'_>, user: UserId) -> Result<Vec<Session>, StoreError> {
    tx.all(&format!("{SESSION} WHERE user_id = $1 ORDER BY last_seen_ms DESC"), &[user.into()])?
        .iter()
        .map(read)
        .collect()
}

pub fn touch_session(tx: &mut Tx<'_>, token_hash: &str, now_ms: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE sessions SET last_seen_ms = $2 WHERE token_hash = $1",
        &[token_hash.into(), now_ms.into()],
    )?;
    Ok(())
}

pub fn end_session(tx: &mut Tx<'_>, token_hash: &str) -> Result<(), StoreError> {
    tx.execute("DELETE FROM sessions WHERE token_hash = $1", &[token_hash.into()])?;
    tx.rights_changed("session");
    Ok(())
}

/// Ends one of the person's sessions by its id.
pub fn end_session_by_id(tx: &mut Tx<'_>, user: UserId, id: SessionId) -> Result<bool, StoreError> {
    tx.rights_changed(user);
    Ok(tx.execute("DELETE FROM sessions WHERE user_id = $1 AND id = $2", &[user.into(), id.into()])? > 0)
}

/// Ends every session of the person, but not the one that is spared.
pub fn end_sessions_of(tx: &mut Tx<'_>, user: UserId, spare: Option<&str>) -> Result<usize, StoreError> {
    tx.rights_changed(user);
    tx.execute(
        "DELETE FROM sessions WHERE user_id = $1 AND token_hash <> $2",
        &[user.into(), spare.unwrap_or_default().into()],
    )
}

/// Ends what began through a provider that is switched off or removed.
pub fn end_sessions_through(tx: &mut Tx<'_>, client: SsoClientId) -> Result<usize, StoreError> {
    tx.rights_changed(client);
    tx.execute("DELETE FROM sessions WHERE client = $1", &[client.into()])
}

pub fn forget_old_sessions(tx: &mut Tx<'_>, seen_before_ms: i64) -> Result<usize, StoreError> {
    tx.execute("DELETE FROM sessions WHERE last_seen_ms < $1", &[seen_before_ms.into()])
}

/// How often in a row it failed, and when last. `subject` is an e-mail or a network.
pub fn login_failures(tx: &mut Tx<'_>, subject: &str) -> Result<(i64, i64), StoreError> {
    let found =
        tx.one("SELECT failures, last_ms FROM login_failures WHERE subject = $1", &[subject.into()])?;
    found.map_or(Ok((0, 0)), |row| Ok((row.int(0)?, row.int(1)?)))
}

pub fn login_failed(tx: &mut Tx<'_>, subject: &str, now_ms: i64) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO login_failures (subject, failures, last_ms) VALUES ($1, 1, $2) \
         ON CONFLICT (subject) DO UPDATE SET failures = login_failures.failures + 1, last_ms = excluded.last_ms",
        &[subject.into(), now_ms.into()],
    )?;
    Ok(())
}

pub fn forget_failures(tx: &mut Tx<'_>, subject: &str) -> Result<(), StoreError> {
    tx.execute("DELETE FROM login_failures WHERE subject = $1", &[subject.into()])?;
    Ok(())
}

/// Takes one try back: it was none.
pub fn forget_one_failure(tx: &mut Tx<'_>, subject: &str) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE login_failures SET failures = failures - 1 WHERE subject = $1 AND failures > 0",
        &[subject.into()],
    )?;
    Ok(())
}

/// Old ones go by age, never to make room: nobody's counter is pushed out by inventing other names.
pub fn forget_failures_before(tx: &mut Tx<'_>, before_ms: i64) -> Result<usize, StoreError> {
    tx.execute("DELETE FROM login_failures WHERE last_ms < $1", &[before_ms.into()])
}
