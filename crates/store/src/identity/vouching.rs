//! Who vouches for whom: identities at an account's provider, the domains an account's provider may speak for, and
//! browsers that a person has signed in with before.

use slipway_model::{AccountId, SsoClientId, UserId};

use super::{User, user_by_id};
use crate::{Row, Scope, StoreError, Tx};

/// What somebody is called at one provider of one account.
#[derive(Debug, Clone)]
pub struct Identity {
    pub client: SsoClientId,
    pub issuer: String,
    pub subject: String,
    pub user: UserId,
    pub created_ms: i64,
}

const IDENTITY: &str = "SELECT client, issuer, subject, user_id, created_ms FROM identities";

fn read(row: &Row) -> Result<Identity, StoreError> {
    Ok(Identity {
        client: row.id(0)?,
        issuer: row.text(1)?,
        subject: row.text(2)?,
        user: row.id(3)?,
        created_ms: row.int(4)?,
    })
}

/// Found by provider, issuer and subject, never by e-mail and never by another account's provider.
pub fn user_by_identity(
    tx: &mut Tx<'_>,
    client: SsoClientId,
    issuer: &str,
    subject: &str,
) -> Result<Option<User>, StoreError> {
    let found = tx.one(
        &format!("{IDENTITY} WHERE client = $1 AND issuer = $2 AND subject = $3"),
        &[client.into(), issuer.into(), subject.into()],
    )?;
    match found.as_ref().map(read).transpose()? {
        Some(identity) => user_by_id(tx, identity.user),
        None => Ok(None),
    }
}

pub fn link_identity(tx: &mut Tx<'_>, new: &Identity) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO identities (client, issuer, subject, user_id, created_ms) VALUES ($1, $2, $3, $4, $5)",
        &[
            new.client.into(),
            new.issuer.as_str().into(),
            new.subject.as_str().into(),
            new.user.into(),
            new.created_ms.into(),
        ],
    )?;
    Ok(())
}

pub fn identities_of(tx: &mut Tx<'_>, user: UserId) -> Result<Vec<Identity>, StoreError> {
    tx.all(&format!("{IDENTITY} WHERE user_id = $1 ORDER BY created_ms, client"), &[user.into()])?
        .iter()
        .map(read)
        .collect()
}

/// Sessions that began through it end with it.
pub fn unlink_identity(tx: &mut Tx<'_>, user: UserId, client: SsoClientId) -> Result<usize, StoreError> {
    let values = [user.into(), client.into()];
    tx.rights_changed(user);
    tx.execute("DELETE FROM sessions WHERE user_id = $1 AND client = $2", &values)?;
    tx.execute("DELETE FROM identities WHERE user_id = $1 AND client = $2", &values)
}

/// A domain that the platform has verified for an account.
#[derive(Debug, Clone)]
pub struct Domain {
    pub domain: String,
    pub account: AccountId,
    pub verified_by: String,
    pub created_ms: i64,
}

const DOMAIN: &str = "SELECT domain, account, verified_by, created_ms FROM account_domains";

fn read_domain(row: &Row) -> Result<Domain, StoreError> {
    Ok(Domain {
        domain: row.text(0)?,
        account: row.id(1)?,
        verified_by: row.text(2)?,
        created_ms: row.int(3)?,
    })
}

pub fn domain(tx: &mut Tx<'_>, domain: &str) -> Result<Option<Domain>, StoreError> {
    tx.one(&format!("{DOMAIN} WHERE domain = $1"), &[domain.into()])?.as_ref().map(read_domain).transpose()
}

pub fn domains_of(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Domain>, StoreError> {
    tx.all(&format!("{DOMAIN} WHERE account = $1 ORDER BY domain"), &[scope.account().into()])?
        .iter()
        .map(read_domain)
        .collect()
}

/// One account speaks for a domain: a second one is refused.
pub fn add_domain(tx: &mut Tx<'_>, new: &Domain) -> Result<(), StoreError> {
    if domain(tx, &new.domain)?.is_some() {
        return Err(StoreError::Duplicate { what: format!("domain `{}`", new.domain) });
    }
    tx.execute(
        "INSERT INTO account_domains (domain, account, verified_by, created_ms) VALUES ($1, $2, $3, $4)",
        &[
            new.domain.as_str().into(),
            new.account.into(),
            new.verified_by.as_str().into(),
            new.created_ms.into(),
        ],
    )?;
    Ok(())
}

pub fn remove_domain(tx: &mut Tx<'_>, scope: Scope, domain: &str) -> Result<usize, StoreError> {
    tx.execute(
        "DELETE FROM account_domains WHERE account = $1 AND domain = $2",
        &[scope.account().into(), domain.into()],
    )
}

/// The e-mail of somebody is the address of another person from now on, or nobody's.
pub fn readdress_user(tx: &mut Tx<'_>, user: UserId, email: &str) -> Result<(), StoreError> {
    tx.execute("UPDATE users SET email = $2 WHERE id = $1", &[user.into(), email.into()])?;
    Ok(())
}

/// How many browsers of one person are remembered.
const BROWSERS_MAX: i64 = 20;

pub fn remember_browser(
    tx: &mut Tx<'_>,
    user: UserId,
    token_hash: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO known_browsers (token_hash, user_id, seen_ms) VALUES ($1, $2, $3) \
         ON CONFLICT (token_hash) DO UPDATE SET seen_ms = excluded.seen_ms",
        &[token_hash.into(), user.into(), now_ms.into()],
    )?;
    tx.execute(
        "DELETE FROM known_browsers WHERE user_id = $1 AND token_hash NOT IN \
         (SELECT token_hash FROM known_browsers WHERE user_id = $1 ORDER BY seen_ms DESC, token_hash LIMIT $2)",
        &[user.into(), BROWSERS_MAX.into()],
    )?;
    Ok(())
}

/// Whether this person has signed in with this browser before.
pub fn knows_browser(tx: &mut Tx<'_>, user: UserId, token_hash: &str) -> Result<bool, StoreError> {
    let found = tx.one(
        "SELECT 1 FROM known_browsers WHERE token_hash = $1 AND user_id = $2",
        &[token_hash.into(), user.into()],
    )?;
    Ok(found.is_some())
}

/// After a change of the password: a browser that somebody else had is a stranger's again.
pub fn forget_browsers(tx: &mut Tx<'_>, user: UserId) -> Result<usize, StoreError> {
    tx.execute("DELETE FROM known_browsers WHERE user_id = $1", &[user.into()])
}

pub fn forget_browsers_before(tx: &mut Tx<'_>, seen_before_ms: i64) -> Result<usize, StoreError> {
    tx.execute("DELETE FROM known_browsers WHERE seen_ms < $1", &[seen_before_ms.into()])
}
