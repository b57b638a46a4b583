//! Events of registries and their like, and which pipelines wait for them.

use slipway_model::{AccountId, PipelineId};

use crate::{Row, Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct TriggerEvent {
    pub uri: String,
    /// `registry:dockerhub`, for example.
    pub kind: String,
    /// Sealed: who knows it may announce the event.
    pub secret: String,
    pub description: String,
    pub created_ms: i64,
}

#[derive(Debug, Clone)]
pub struct EventTrigger {
    pub uri: String,
    pub pipeline: PipelineId,
    /// JSON object of names and regular expressions.
    pub filters: String,
}

fn event(row: &Row) -> Result<TriggerEvent, StoreError> {
    Ok(TriggerEvent {
        uri: row.text(0)?,
        kind: row.text(1)?,
        secret: row.text(2)?,
        description: row.text(3)?,
        created_ms: row.int(4)?,
    })
}

fn link(row: &Row) -> Result<EventTrigger, StoreError> {
    Ok(EventTrigger { uri: row.text(0)?, pipeline: row.id(1)?, filters: row.text(2)? })
}

const EVENT: &str = "SELECT uri, kind, secret, description, created_ms FROM trigger_events";
const LINK: &str = "SELECT uri, pipeline, filters FROM event_triggers";

pub fn create(tx: &mut Tx<'_>, scope: Scope, new: &TriggerEvent) -> Result<(), StoreError> {
    if by_uri(tx, scope, &new.uri)?.is_some() {
        return Err(StoreError::Duplicate { what: format!("event `{}`", new.uri) });
    }
    tx.execute(
        "INSERT INTO trigger_events (account, uri, kind, secret, description, created_ms) VALUES ($1, $2, $3, $4, $5, $6)",
        &[
            scope.account().into(),
            new.uri.as_str().into(),
            new.kind.as_str().into(),
            new.secret.as_str().into(),
            new.description.as_str().into(),
            new.created_ms.into(),
        ],
    )?;
    Ok(())
}

pub fn by_uri(tx: &mut Tx<'_>, scope: Scope, uri: &str) -> Result<Option<TriggerEvent>, StoreError> {
    tx.one(&format!("{EVENT} WHERE account = $1 AND uri = $2"), &[scope.account().into(), uri.into()])?
        .as_ref()
        .map(event)
        .transpose()
}

pub fn list(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<TriggerEvent>, StoreError> {
    tx.all(&format!("{EVENT} WHERE account = $1 ORDER BY uri"), &[scope.account().into()])?
        .iter()
        .map(event)
        .collect()
}

/// Of the account that an announcement names, when it exists.
pub fn of_account(tx: &mut Tx<'_>, account: AccountId) -> Result<Vec<TriggerEvent>, StoreError> {
    list(tx, Scope::of(account))
}

pub fn delete(tx: &mut Tx<'_>, scope: Scope, uri: &str) -> Result<(), StoreError> {
    for table in ["event_triggers", "trigger_events"] {
        tx.execute(
            &format!("DELETE FROM {table} WHERE account = $1 AND uri = $2"),
            &[scope.account().into(), uri.into()],
        )?;
    }
    Ok(())
}

pub fn connect(tx: &mut Tx<'_>, scope: Scope, new: &EventTrigger) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO event_triggers (account, uri, pipeline, filters) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (account, uri, pipeline) DO UPDATE SET filters = excluded.filters",
        &[scope.account().into(), new.uri.as_str().into(), new.pipeline.into(), new.filters.as_str().into()],
    )?;
    Ok(())
}

pub fn disconnect(
    tx: &mut Tx<'_>,
    scope: Scope,
    uri: &str,
    pipeline: PipelineId,
) -> Result<bool, StoreError> {
    let gone = tx.execute(
        "DELETE FROM event_triggers WHERE account = $1 AND uri = $2 AND pipeline = $3",
        &[scope.account().into(), uri.into(), pipeline.into()],
    )?;
    Ok(gone > 0)
}

pub fn links(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<EventTrigger>, StoreError> {
    tx.all(&format!("{LINK} WHERE account = $1 ORDER BY uri, pipeline"), &[scope.account().into()])?
        .iter()
        .map(link)
        .collect()
}

/// Of all accounts, those whose event begins like this.
pub fn links_beginning(
    tx: &mut Tx<'_>,
    beginning: &str,
) -> Result<Vec<(AccountId, EventTrigger)>, StoreError> {
    // PostgreSQL's substr counts in 32 bits and takes no 64-bit parameter.
    let length = beginning.chars().count();
    let sql = format!(
        "SELECT uri, pipeline, filters, account FROM event_triggers WHERE substr(uri, 1, {length}) = $1 \
         ORDER BY uri, pipeline"
    );
    let rows = tx.all(&sql, &[beginning.into()])?;
    rows.iter().map(|row| Ok((row.id(3)?, link(row)?))).collect()
}
