//! Pipelines. The body is kept as the text that came in, because the order of its steps is their order.

use slipway_model::{AccountId, ChangeKind, PipelineId};

use crate::{Ask, Row, Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct Pipeline {
    pub id: PipelineId,
    pub name: String,
    /// JSON of the entity, as the `api` room writes it.
    pub body: String,
    pub revision: i64,
    pub created_ms: i64,
    pub updated_ms: i64,
}

const PIPELINE: &str = "SELECT id, name, body, revision, created_ms, updated_ms FROM pipelines";

fn pipeline(row: &Row) -> Result<Pipeline, StoreError> {
    Ok(Pipeline {
        id: row.id(0)?,
        name: row.text(1)?,
        body: row.text(2)?,
        revision: row.int(3)?,
        created_ms: row.int(4)?,
        updated_ms: row.int(5)?,
    })
}

/// One state that a pipeline had.
#[derive(Debug, Clone)]
pub struct Revision {
    pub revision: i64,
    pub name: String,
    pub body: String,
    pub author: String,
    pub at_ms: i64,
}

/// So many are kept of each pipeline; the oldest go first.
const REVISIONS_KEPT: i64 = 200;

pub fn create(tx: &mut Tx<'_>, scope: Scope, pipeline: &Pipeline, author: &str) -> Result<(), StoreError> {
    if by_name(tx, scope, &pipeline.name)?.is_some() {
        return Err(StoreError::Duplicate { what: format!("pipeline `{}`", pipeline.name) });
    }
    tx.execute(
        "INSERT INTO pipelines (id, account, name, body, revision, created_ms, updated_ms, clocked, chained) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &[
            pipeline.id.into(),
            scope.account().into(),
            pipeline.name.as_str().into(),
            pipeline.body.as_str().into(),
            pipeline.revision.into(),
            pipeline.created_ms.into(),
            pipeline.updated_ms.into(),
            is_clocked(&pipeline.body).into(),
            is_chained(&pipeline.body).into(),
        ],
    )?;
    keep_revision(tx, pipeline.id, author)?;
    tx.changed(scope.account(), ChangeKind::Pipeline, pipeline.id);
    Ok(())
}

/// Copies what the pipeline is now into its history.
fn keep_revision(tx: &mut Tx<'_>, id: PipelineId, author: &str) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO pipeline_revisions (pipeline, revision, name, body, author, at_ms) \
         SELECT id, revision, name, body, $2, updated_ms FROM pipelines WHERE id = $1",
        &[id.into(), author.into()],
    )?;
    tx.execute(
        "DELETE FROM pipeline_revisions WHERE pipeline = $1 \
         AND revision <= (SELECT revision FROM pipelines WHERE id = $1) - $2",
        &[id.into(), REVISIONS_KEPT.into()],
    )?;
    Ok(())
}

fn revision(row: &Row) -> Result<Revision, StoreError> {
    Ok(Revision {
        revision: row.int(0)?,
        name: row.text(1)?,
        body: row.text(2)?,
        author: row.text(3)?,
        at_ms: row.int(4)?,
    })
}

/// Newest first.
pub fn revisions(tx: &mut Tx<'_>, id: PipelineId) -> Result<Vec<Revision>, StoreError> {
    tx.all(
        "SELECT revision, name, body, author, at_ms FROM pipeline_revisions WHERE pipeline = $1 ORDER BY revision DESC",
        &[id.into()],
    )?
    .iter()
    .map(revision)
    .collect()
}

pub fn revision_of(tx: &mut Tx<'_>, id: PipelineId, number: i64) -> Result<Option<Revision>, StoreError> {
    tx.one(
        "SELECT revision, name, body, author, at_ms FROM pipeline_revisions WHERE pipeline = $1 AND revision = $2",
        &[id.into(), number.into()],
    )?
    .as_ref()
    .map(revision)
    .transpose()
}

/// What a pipeline becomes.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    pub name: &'a str,
    pub body: &'a str,
    /// The revision that the change was made on, or `None` to overwrite whatever is there.
    pub expect: Option<i64>,
    pub author: &'a str,
    pub now_ms: i64,
}

pub fn replace(tx: &mut Tx<'_>, scope: Scope, id: PipelineId, change: &Change<'_>) -> Result<(), StoreError> {
    let Change { name, body, expect, author, now_ms } = *change;
    if by_name(tx, scope, name)?.is_some_and(|other| other.id != id) {
        return Err(StoreError::Duplicate { what: format!("pipeline `{name}`") });
    }
    let changed = tx.execute(
        "UPDATE pipelines SET name = $3, body = $4, revision = revision + 1, updated_ms = $5, clocked = $7, chained = $8 \
         WHERE account = $1 AND id = $2 AND ($6 IS NULL OR revision = $6)",
        &[
            scope.account().into(),
            id.into(),
            name.into(),
            body.into(),
            now_ms.into(),
            expect.into(),
            is_clocked(body).into(),
            is_chained(body).into(),
        ],
    )?;
    if changed == 0 {
        return Err(StoreError::Conflict { what: format!("pipeline `{name}`") });
    }
    keep_revision(tx, id, author)?;
    tx.changed(scope.account(), ChangeKind::Pipeline, id);
    // Its limits may be others now.
    tx.queue_moved(scope.account());
    Ok(())
}

pub fn by_name(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<Option<Pipeline>, StoreError> {
    tx.ask(&asks_by_name(scope, name))?.first().map(pipeline).transpose()
}

/// What [`by_name`] asks.
pub fn asks_by_name(scope: Scope, name: &str) -> Ask {
    Ask::new(
        format!("{PIPELINE} WHERE account = $1 AND (name = $2 OR id = $2)"),
        [scope.account().into(), name.into()],
    )
}

pub fn list(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Pipeline>, StoreError> {
    tx.all(&format!("{PIPELINE} WHERE account = $1 ORDER BY name"), &[scope.account().into()])?
        .iter()
        .map(pipeline)
        .collect()
}

/// How many have a name that begins so, and if asked for also those without a `/`; none of them is read.
pub fn count_named(
    tx: &mut Tx<'_>,
    scope: Scope,
    beginning: &str,
    or_without_slash: bool,
) -> Result<i64, StoreError> {
    let bare = if or_without_slash { " OR name NOT LIKE '%/%'" } else { "" };
    let length = beginning.chars().count();
    let sql = format!(
        "SELECT COUNT(*) FROM pipelines WHERE account = $1 AND (SUBSTR(name, 1, {length}) = $2{bare})"
    );
    let row = tx.one(&sql, &[scope.account().into(), beginning.into()])?;
    row.map_or(Ok(0), |row| row.int(0))
}

/// What an index finds pipelines by, which are asked for all the time. Too many are fine: whoever asks reads the rest.
fn is_clocked(body: &str) -> bool {
    body.contains("\"cronTriggers\"")
}

fn is_chained(body: &str) -> bool {
    body.contains("\"pipelineTriggers\"")
}

/// Of every account, those that may go by the clock: few of many.
pub fn clocked(tx: &mut Tx<'_>) -> Result<Vec<(AccountId, Pipeline)>, StoreError> {
    let sql = "SELECT id, name, body, revision, created_ms, updated_ms, account FROM pipelines WHERE clocked = 1 ORDER BY id";
    tx.all(sql, &[])?.iter().map(|row| Ok((row.id(6)?, pipeline(row)?))).collect()
}

/// Those that may wait for the end of another's build.
pub fn chained(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Pipeline>, StoreError> {
    tx.all(
        &format!("{PIPELINE} WHERE account = $1 AND chained = 1 ORDER BY name"),
        &[scope.account().into()],
    )?
    .iter()
    .map(pipeline)
    .collect()
}

/// Those in which a text stands as a JSON string, in small or big letters. Too many are fine here too.
pub fn naming(tx: &mut Tx<'_>, scope: Scope, text: &str) -> Result<Vec<Pipeline>, StoreError> {
    tx.ask(&asks_naming(scope, text)?)?.iter().map(pipeline).collect()
}

/// What [`naming`] asks.
pub fn asks_naming(scope: Scope, text: &str) -> Result<Ask, StoreError> {
    let quoted = serde_json::to_string(text).map_err(StoreError::corrupt)?.to_ascii_lowercase();
    let mut pattern = String::from("%");
    for character in quoted.chars() {
        if matches!(character, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(character);
    }
    pattern.push('%');
    Ok(Ask::new(
        format!("{PIPELINE} WHERE account = $1 AND lower(body) LIKE $2 ESCAPE '!' ORDER BY name"),
        [scope.account().into(), pattern.into()],
    ))
}

/// The names of all pipelines with their accounts.
pub fn names_everywhere(tx: &mut Tx<'_>) -> Result<Vec<(AccountId, String)>, StoreError> {
    tx.all("SELECT account, name FROM pipelines ORDER BY account, name", &[])?
        .iter()
        .map(|row| Ok((row.id(0)?, row.text(1)?)))
        .collect()
}

/// A project got another name; its pipelines go with it.
pub fn rename_project(tx: &mut Tx<'_>, scope: Scope, old: &str, new: &str) -> Result<(), StoreError> {
    for row in list(tx, scope)? {
        if let Some(rest) = row.name.strip_prefix(old).and_then(|rest| rest.strip_prefix('/')) {
            tx.execute(
                "UPDATE pipelines SET name = $2 WHERE id = $1",
                &[row.id.into(), format!("{new}/{rest}").into()],
            )?;
            tx.changed(scope.account(), ChangeKind::Pipeline, row.id);
        }
    }
    Ok(())
}

pub fn delete(tx: &mut Tx<'_>, scope: Scope, id: PipelineId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM pipelines WHERE account = $1 AND id = $2", &[scope.account().into(), id.into()])?;
    tx.changed(scope.account(), ChangeKind::Pipeline, id);
    // It holds its builds back no more.
    tx.queue_moved(scope.account());
    Ok(())
}
