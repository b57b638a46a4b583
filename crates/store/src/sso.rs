//! Identity providers of an account, and sign-ins that are under way at one.

use slipway_model::{AccountId, SsoClientId};

use crate::{Row, Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct SsoClient {
    pub id: SsoClientId,
    pub account: AccountId,
    /// In the address that the provider sends people back to; unique on the platform.
    pub name: String,
    pub kind: String,
    /// JSON of the server's own type.
    pub settings: String,
    /// The client's secret, sealed.
    pub secret: Option<String>,
    pub enabled: bool,
    /// On everybody's sign-in page; otherwise only on that of the account.
    pub front_page: bool,
    pub created_ms: i64,
}

const CLIENT: &str =
    "SELECT id, account, name, kind, settings, secret, enabled, created_ms, front_page FROM sso_clients";

fn read(row: &Row) -> Result<SsoClient, StoreError> {
    Ok(SsoClient {
        id: row.id(0)?,
        account: row.id(1)?,
        name: row.text(2)?,
        kind: row.text(3)?,
        settings: row.text(4)?,
        secret: row.maybe_text(5)?,
        enabled: row.bool(6)?,
        created_ms: row.int(7)?,
        front_page: row.bool(8)?,
    })
}

pub fn create(tx: &mut Tx<'_>, new: &SsoClient) -> Result<(), StoreError> {
    if by_name(tx, &new.name)?.is_some() {
        return Err(StoreError::Duplicate { what: format!("identity provider `{}`", new.name) });
    }
    tx.execute(
        "INSERT INTO sso_clients (id, account, name, kind, settings, secret, enabled, created_ms, front_page) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &[
            new.id.into(),
            new.account.into(),
            new.name.as_str().into(),
            new.kind.as_str().into(),
            new.settings.as_str().into(),
            new.secret.clone().into(),
            new.enabled.into(),
            new.created_ms.into(),
            new.front_page.into(),
        ],
    )?;
    Ok(())
}

pub fn update(tx: &mut Tx<'_>, scope: Scope, changed: &SsoClient) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE sso_clients SET settings = $3, secret = $4, enabled = $5, front_page = $6 WHERE account = $1 AND id = $2",
        &[
            scope.account().into(),
            changed.id.into(),
            changed.settings.as_str().into(),
            changed.secret.clone().into(),
            changed.enabled.into(),
            changed.front_page.into(),
        ],
    )?;
    Ok(())
}

pub fn list(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<SsoClient>, StoreError> {
    tx.all(&format!("{CLIENT} WHERE account = $1 ORDER BY name"), &[scope.account().into()])?
        .iter()
        .map(read)
        .collect()
}

/// Before anybody is signed in there is no account to look in.
pub fn by_name(tx: &mut Tx<'_>, name: &str) -> Result<Option<SsoClient>, StoreError> {
    tx.one(&format!("{CLIENT} WHERE name = $1"), &[name.into()])?.as_ref().map(read).transpose()
}

pub fn by_id(tx: &mut Tx<'_>, id: SsoClientId) -> Result<Option<SsoClient>, StoreError> {
    tx.one(&format!("{CLIENT} WHERE id = $1"), &[id.into()])?.as_ref().map(read).transpose()
}

/// Those that everybody's sign-in page offers.
pub fn on_front_page(tx: &mut Tx<'_>) -> Result<Vec<SsoClient>, StoreError> {
    tx.all(&format!("{CLIENT} WHERE enabled = 1 AND front_page = 1 ORDER BY name"), &[])?
        .iter()
        .map(read)
        .collect()
}

/// Identities and sessions that it vouched for go with it.
pub fn delete(tx: &mut Tx<'_>, scope: Scope, id: SsoClientId) -> Result<(), StoreError> {
    tx.rights_changed(id);
    tx.execute(
        "DELETE FROM sso_clients WHERE account = $1 AND id = $2",
        &[scope.account().into(), id.into()],
    )?;
    Ok(())
}

/// A sign-in that was sent to the provider and has not come back.
#[derive(Debug, Clone)]
pub struct SsoLogin {
    pub state_hash: String,
    pub client: String,
    pub nonce: String,
    pub verifier: String,
    pub return_to: String,
    /// Of a cookie: only the browser that set out may come back.
    pub browser_hash: String,
    /// Somebody who is signed in and wants to be known there too.
    pub link_user: Option<String>,
    /// Hash of the session that asked for it: the same one has to come back.
    pub link_session: Option<String>,
    /// Hash of an invitation's token that is accepted this way.
    pub invitation: Option<String>,
    pub created_ms: i64,
}

pub fn begin_login(tx: &mut Tx<'_>, login: &SsoLogin) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO sso_logins (state_hash, client, nonce, verifier, return_to, browser_hash, link_user, created_ms, \
         link_session, invitation) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        &[
            login.state_hash.as_str().into(),
            login.client.as_str().into(),
            login.nonce.as_str().into(),
            login.verifier.as_str().into(),
            login.return_to.as_str().into(),
            login.browser_hash.as_str().into(),
            login.link_user.clone().into(),
            login.created_ms.into(),
            login.link_session.clone().into(),
            login.invitation.clone().into(),
        ],
    )?;
    Ok(())
}

/// Gives it once: a second return with the same state finds nothing.
pub fn finish_login(tx: &mut Tx<'_>, state_hash: &str) -> Result<Option<SsoLogin>, StoreError> {
    let found = tx.one(
        "DELETE FROM sso_logins WHERE state_hash = $1 \
         RETURNING state_hash, client, nonce, verifier, return_to, browser_hash, link_user, created_ms, \
         link_session, invitation",
        &[state_hash.into()],
    )?;
    found
        .map(|row| {
            Ok(SsoLogin {
                state_hash: row.text(0)?,
                client: row.text(1)?,
                nonce: row.text(2)?,
                verifier: row.text(3)?,
                return_to: row.text(4)?,
                browser_hash: row.text(5)?,
                link_user: row.maybe_text(6)?,
                created_ms: row.int(7)?,
                link_session: row.maybe_text(8)?,
                invitation: row.maybe_text(9)?,
            })
        })
        .transpose()
}

pub fn forget_logins_before(tx: &mut Tx<'_>, before_ms: i64) -> Result<usize, StoreError> {
    tx.execute("DELETE FROM sso_logins WHERE created_ms < $1", &[before_ms.into()])
}
