//! Invitations: an e-mail, a role, and a token that is sent once and kept as a hash.

use slipway_model::{AccountId, InvitationId};

use crate::{Row, Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct Invitation {
    pub id: InvitationId,
    pub account: AccountId,
    pub email: String,
    pub role: String,
    /// Ids of teams.
    pub teams: Vec<String>,
    pub token_hash: String,
    pub invited_by: String,
    pub created_ms: i64,
    pub expires_ms: i64,
}

const INVITATION: &str =
    "SELECT id, account, email, role, teams, token_hash, invited_by, created_ms, expires_ms FROM invitations";

fn read(row: &Row) -> Result<Invitation, StoreError> {
    Ok(Invitation {
        id: row.id(0)?,
        account: row.id(1)?,
        email: row.text(2)?,
        role: row.text(3)?,
        teams: row.json(4)?,
        token_hash: row.text(5)?,
        invited_by: row.text(6)?,
        created_ms: row.int(7)?,
        expires_ms: row.int(8)?,
    })
}

pub fn create_invitation(tx: &mut Tx<'_>, new: &Invitation) -> Result<(), StoreError> {
    let scope = Scope::of(new.account);
    if invitations(tx, scope)?.iter().any(|known| known.email == new.email) {
        return Err(StoreError::Duplicate { what: format!("an invitation of `{}`", new.email) });
    }
    tx.execute(
        "INSERT INTO invitations (id, account, email, role, teams, token_hash, invited_by, created_ms, expires_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &[
            new.id.into(),
            new.account.into(),
            new.email.as_str().into(),
            new.role.as_str().into(),
            crate::sql::json(&new.teams)?,
            new.token_hash.as_str().into(),
            new.invited_by.as_str().into(),
            new.created_ms.into(),
            new.expires_ms.into(),
        ],
    )?;
    Ok(())
}

pub fn invitations(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Invitation>, StoreError> {
    tx.all(&format!("{INVITATION} WHERE account = $1 ORDER BY email"), &[scope.account().into()])?
        .iter()
        .map(read)
        .collect()
}

pub fn invitation(tx: &mut Tx<'_>, scope: Scope, id: InvitationId) -> Result<Option<Invitation>, StoreError> {
    tx.one(&format!("{INVITATION} WHERE account = $1 AND id = $2"), &[scope.account().into(), id.into()])?
        .as_ref()
        .map(read)
        .transpose()
}

pub fn invitation_by_token(tx: &mut Tx<'_>, token_hash: &str) -> Result<Option<Invitation>, StoreError> {
    tx.one(&format!("{INVITATION} WHERE token_hash = $1"), &[token_hash.into()])?
        .as_ref()
        .map(read)
        .transpose()
}

/// A fresh token; the one that was sent before opens nothing any more.
pub fn renew_invitation(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: InvitationId,
    token_hash: &str,
    expires_ms: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE invitations SET token_hash = $3, expires_ms = $4 WHERE account = $1 AND id = $2",
        &[scope.account().into(), id.into(), token_hash.into(), expires_ms.into()],
    )?;
    Ok(())
}

/// Of whichever account.
pub fn invitation_anywhere(tx: &mut Tx<'_>, id: InvitationId) -> Result<Option<Invitation>, StoreError> {
    tx.one(&format!("{INVITATION} WHERE id = $1"), &[id.into()])?.as_ref().map(read).transpose()
}

/// To another address, with another token: what was sent to the old one opens nothing.
pub fn readdress_invitation(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: InvitationId,
    email: &str,
    token_hash: &str,
) -> Result<(), StoreError> {
    if invitations(tx, scope)?.iter().any(|known| known.email == email && known.id != id) {
        return Err(StoreError::Duplicate { what: format!("an invitation of `{email}`") });
    }
    tx.execute(
        "UPDATE invitations SET email = $3, token_hash = $4 WHERE account = $1 AND id = $2",
        &[scope.account().into(), id.into(), email.into(), token_hash.into()],
    )?;
    Ok(())
}

pub fn set_invitation_role(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: InvitationId,
    role: &str,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE invitations SET role = $3 WHERE account = $1 AND id = $2",
        &[scope.account().into(), id.into(), role.into()],
    )?;
    Ok(())
}

pub fn delete_invitation(tx: &mut Tx<'_>, scope: Scope, id: InvitationId) -> Result<(), StoreError> {
    let values = [scope.account().into(), id.into()];
    tx.execute("DELETE FROM invitations WHERE account = $1 AND id = $2", &values)?;
    Ok(())
}
