//! The authority of an account that signs the certificates of its Docker daemons: one, made when it is first needed.

use crate::{Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct Authority {
    /// PEM.
    pub certificate: String,
    /// PEM, sealed.
    pub sealed_key: String,
    pub created_ms: i64,
}

pub fn of(tx: &mut Tx<'_>, scope: Scope) -> Result<Option<Authority>, StoreError> {
    let row = tx.one(
        "SELECT certificate, sealed_key, created_ms FROM authorities WHERE account = $1",
        &[scope.account().into()],
    )?;
    row.map(|row| {
        Ok(Authority { certificate: row.text(0)?, sealed_key: row.text(1)?, created_ms: row.int(2)? })
    })
    .transpose()
}

/// Kept unless there is one already.
pub fn keep(tx: &mut Tx<'_>, scope: Scope, new: &Authority) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO authorities (account, certificate, sealed_key, created_ms) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (account) DO NOTHING",
        &[
            scope.account().into(),
            new.certificate.as_str().into(),
            new.sealed_key.as_str().into(),
            new.created_ms.into(),
        ],
    )?;
    Ok(())
}
