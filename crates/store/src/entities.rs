//! Custom resources of any kind as their runtime last reported them, and how far its complete report has come.
//!
//! Every row carries the number of the report that it is from. Whoever writes compares it first ([`Known::is_newer_than`]), so
//! that a report which comes late or twice changes nothing. What is removed stays as a row without a body for a while.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use slipway_model::ChangeKind;

use crate::{Ask, Row, Scope, StoreError, Tx, Value};

/// The kind of Argo Applications, whose changes pages hear of.
pub const APPLICATION: &str = "argoproj.io/Application";

/// Which one, of one runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name<'a> {
    /// `group/kind`.
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// What is there before a report is taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub uid: String,
    pub sequence: i64,
    /// What facts were made of, as JSON of whoever made them; empty: of nothing.
    pub told: String,
    pub gone: bool,
}

impl Known {
    pub fn is_newer_than(&self, sequence: i64) -> bool {
        self.sequence > sequence
    }
}

/// An entity as JSON of the `api` room.
#[derive(Debug, Clone, Copy)]
pub struct Reported<'a> {
    pub uid: &'a str,
    pub resource_version: &'a str,
    pub sequence: i64,
    pub state: &'a str,
    /// What lists show of it; empty: its body.
    pub summary: &'a str,
    pub body: &'a str,
    pub told: &'a str,
}

/// So many go into one statement; its text is always the same, so that an engine prepares it once.
const TOGETHER: usize = 32;

/// What is there of these, asked for at once: a page of a report is one question and not one for each of its entities.
pub fn known<'n>(
    tx: &mut Tx<'_>,
    scope: Scope,
    runtime: &str,
    names: &[Name<'n>],
) -> Result<BTreeMap<Name<'n>, Known>, StoreError> {
    let asked: Vec<_> = names.chunks(TOGETHER).map(|names| asks_known(scope, runtime, names)).collect();
    tx.fetch(asked.clone())?;
    let mut found = BTreeMap::new();
    for (names, ask) in names.chunks(TOGETHER).zip(&asked) {
        for row in tx.ask(ask)? {
            let (kind, namespace, name) = (row.text(0)?, row.text(1)?, row.text(2)?);
            let of = Name { kind: &kind, namespace: &namespace, name: &name };
            let gone = row.maybe_int(6)?.is_some();
            let known = Known { uid: row.text(3)?, sequence: row.int(4)?, told: row.text(5)?, gone };
            if let Some(asked) = names.iter().find(|asked| **asked == of) {
                found.insert(*asked, known);
            }
        }
    }
    Ok(found)
}

fn asks_known(scope: Scope, runtime: &str, names: &[Name<'_>]) -> Ask {
    let mut values = vec![scope.account().into(), runtime.into()];
    // Places that are not needed ask for the last one again.
    let last = names.last().into_iter().cycle();
    for of in names.iter().chain(last).take(TOGETHER) {
        values.extend([of.kind.into(), of.namespace.into(), of.name.into()]);
    }
    let named = places(3, TOGETHER, 3);
    Ask::new(
        format!(
            "SELECT kind, namespace, name, uid, sequence, told, gone_ms FROM entities \
             WHERE account = $1 AND runtime = $2 AND (kind, namespace, name) IN (VALUES {named})"
        ),
        values,
    )
}

/// `($1, $2), ($3, $4)`.
pub(crate) fn places(first: usize, rows: usize, columns: usize) -> String {
    let row = |row: usize| {
        let of_row = (0..columns).map(|column| format!("${}", first + row * columns + column));
        format!("({})", of_row.collect::<Vec<_>>().join(", "))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}

/// Puts them, each named once.
pub fn put(
    tx: &mut Tx<'_>,
    scope: Scope,
    runtime: &str,
    entities: &[(Name<'_>, Reported<'_>)],
) -> Result<(), StoreError> {
    let mut left = entities;
    for together in [TOGETHER, 8, 1] {
        let (whole, rest) = left.split_at(left.len() - left.len() % together);
        for some in whole.chunks(together) {
            put_some(tx, scope, runtime, some)?;
        }
        left = rest;
    }
    for (of, _) in entities {
        changed(tx, scope, runtime, *of);
    }
    Ok(())
}

fn put_some(
    tx: &mut Tx<'_>,
    scope: Scope,
    runtime: &str,
    entities: &[(Name<'_>, Reported<'_>)],
) -> Result<(), StoreError> {
    let values: Vec<Value> = entities
        .iter()
        .flat_map(|(of, entity)| {
            [
                scope.account().into(),
                runtime.into(),
                of.kind.into(),
                of.namespace.into(),
                of.name.into(),
                entity.uid.into(),
                entity.resource_version.into(),
                entity.sequence.into(),
                entity.state.into(),
                entity.summary.into(),
                entity.body.into(),
                entity.told.into(),
            ]
        })
        .collect();
    let rows = places(1, entities.len(), 12);
    tx.send(
        &format!(
            "INSERT INTO entities (account, runtime, kind, namespace, name, uid, resource_version, sequence, state, summary, \
             body, told) VALUES {rows} \
             ON CONFLICT (account, runtime, kind, namespace, name) DO UPDATE SET uid = excluded.uid, \
             resource_version = excluded.resource_version, sequence = excluded.sequence, state = excluded.state, \
             summary = excluded.summary, body = excluded.body, told = excluded.told, gone_ms = NULL"
        ),
        &values,
    )
}

/// Which row it is: what `$1` to `$5` of a statement are.
fn key(scope: Scope, runtime: &str, of: Name<'_>) -> [Value; 5] {
    [scope.account().into(), runtime.into(), of.kind.into(), of.namespace.into(), of.name.into()]
}

/// It is there and its state is not known: what is known of it stays.
pub fn named_again(
    tx: &mut Tx<'_>,
    scope: Scope,
    runtime: &str,
    of: Name<'_>,
    sequence: i64,
) -> Result<(), StoreError> {
    let [account, runtime, kind, namespace, name] = key(scope, runtime, of);
    tx.send(
        "UPDATE entities SET sequence = $6 WHERE account = $1 AND runtime = $2 AND kind = $3 AND namespace = $4 \
         AND name = $5 AND sequence < $6 AND gone_ms IS NULL",
        &[account, runtime, kind, namespace, name, sequence.into()],
    )
}

/// Takes it away, unless a later report named it.
pub fn remove(
    tx: &mut Tx<'_>,
    scope: Scope,
    runtime: &str,
    of: Name<'_>,
    sequence: i64,
    now_ms: i64,
) -> Result<(), StoreError> {
    let [account, runtime_value, kind, namespace, name] = key(scope, runtime, of);
    let gone = tx.execute(
        "UPDATE entities SET gone_ms = $7, sequence = $6, state = '', summary = '', body = '' \
         WHERE account = $1 AND runtime = $2 AND kind = $3 AND namespace = $4 AND name = $5 AND sequence <= $6 \
         AND gone_ms IS NULL",
        &[account, runtime_value, kind, namespace, name, sequence.into(), now_ms.into()],
    )?;
    if gone > 0 {
        changed(tx, scope, runtime, of);
    }
    Ok(())
}

/// Takes away what neither the report of this number nor a later one named. Of `meant` alone; none: whatever it is.
pub fn remove_unnamed(
    tx: &mut Tx<'_>,
    scope: Scope,
    runtime: &str,
    sequence: i64,
    meant: Option<&dyn Fn(Name<'_>) -> bool>,
    now_ms: i64,
) -> Result<usize, StoreError> {
    let unnamed = tx.all(
        "SELECT kind, namespace, name FROM entities WHERE account = $1 AND runtime = $2 AND sequence < $3 \
         AND gone_ms IS NULL",
        &[scope.account().into(), runtime.into(), sequence.into()],
    )?;
    if meant.is_none() {
        tx.send(
            "UPDATE entities SET gone_ms = $4, sequence = $3, state = '', summary = '', body = '' \
             WHERE account = $1 AND runtime = $2 AND sequence < $3 AND gone_ms IS NULL",
            &[scope.account().into(), runtime.into(), sequence.into(), now_ms.into()],
        )?;
    }
    let mut removed = 0;
    for row in &unnamed {
        let (kind, namespace, name) = (row.text(0)?, row.text(1)?, row.text(2)?);
        let of = Name { kind: &kind, namespace: &namespace, name: &name };
        match meant {
            Some(meant) if !meant(of) => continue,
            Some(_) => remove(tx, scope, runtime, of, sequence, now_ms)?,
            None => changed(tx, scope, runtime, of),
        }
        removed += 1;
    }
    Ok(removed)
}

/// Forgets what was taken away before a moment.
pub fn forget_gone(
    tx: &mut Tx<'_>,
    scope: Scope,
    runtime: &str,
    before_ms: i64,
) -> Result<usize, StoreError> {
    tx.execute(
        "DELETE FROM entities WHERE account = $1 AND runtime = $2 AND gone_ms IS NOT NULL AND gone_ms < $3",
        &[scope.account().into(), runtime.into(), before_ms.into()],
    )
}

/// With those that were taken away and are not forgotten yet.
pub fn count(tx: &mut Tx<'_>, scope: Scope, runtime: &str) -> Result<i64, StoreError> {
    tx.one(
        "SELECT count(*) FROM entities WHERE account = $1 AND runtime = $2",
        &[scope.account().into(), runtime.into()],
    )?
    .map_or(Ok(0), |row| row.int(0))
}

/// Everything that the runtime reported, and how far its reports have come.
pub(crate) fn forget_runtime(tx: &mut Tx<'_>, scope: Scope, runtime: &str) -> Result<(), StoreError> {
    let mine = [scope.account().into(), runtime.into()];
    let rows =
        tx.all("SELECT kind, namespace, name FROM entities WHERE account = $1 AND runtime = $2", &mine)?;
    tx.execute("DELETE FROM entities WHERE account = $1 AND runtime = $2", &mine)?;
    tx.execute("DELETE FROM complete_reports WHERE account = $1 AND runtime = $2", &mine)?;
    for row in &rows {
        let (kind, namespace, name) = (row.text(0)?, row.text(1)?, row.text(2)?);
        changed(tx, scope, runtime, Name { kind: &kind, namespace: &namespace, name: &name });
    }
    Ok(())
}

/// Everything that the runtime reported is from now on what one of another name did.
pub(crate) fn rename_runtime(tx: &mut Tx<'_>, scope: Scope, from: &str, to: &str) -> Result<(), StoreError> {
    let both = [scope.account().into(), from.into(), to.into()];
    tx.execute("UPDATE entities SET runtime = $3 WHERE account = $1 AND runtime = $2", &both)?;
    tx.execute("UPDATE complete_reports SET runtime = $3 WHERE account = $1 AND runtime = $2", &both)?;
    let mine = [scope.account().into(), to.into(), APPLICATION.into()];
    let rows = tx.all(
        "SELECT namespace, name, summary, body FROM entities WHERE account = $1 AND runtime = $2 AND kind = $3",
        &mine,
    )?;
    for row in &rows {
        let (namespace, name) = (row.text(0)?, row.text(1)?);
        // An Application says which runtime it is of, wherever it is shown.
        let [summary, body] = [row.text(2)?, row.text(3)?].map(|text| with_runtime(text, to));
        let values = [scope.account().into(), to.into(), APPLICATION.into(), namespace.as_str().into()];
        let values = values.into_iter().chain([name.as_str().into(), summary.into(), body.into()]);
        tx.execute(
            "UPDATE entities SET summary = $6, body = $7 \
             WHERE account = $1 AND runtime = $2 AND kind = $3 AND namespace = $4 AND name = $5",
            &values.collect::<Vec<_>>(),
        )?;
        for runtime in [from, to] {
            changed(tx, scope, runtime, Name { kind: APPLICATION, namespace: &namespace, name: &name });
        }
    }
    Ok(())
}

fn with_runtime(text: String, runtime: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<serde_json::Value>(&text) else { return text };
    match value.get_mut("runtime") {
        Some(named) => *named = runtime.into(),
        None => return text,
    }
    value.to_string()
}

fn changed(tx: &mut Tx<'_>, scope: Scope, runtime: &str, of: Name<'_>) {
    if of.kind == APPLICATION {
        let id = format!("{runtime}/{}/{}", of.namespace, of.name);
        tx.changed(scope.account(), ChangeKind::Application, id);
    }
}

/// A row as it was reported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    pub runtime: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub state: String,
    pub body: String,
}

/// Those of a kind after a place in their order, which is by runtime, namespace and name.
pub fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    kind: &str,
    after: (&str, &str, &str),
    limit: i64,
) -> Result<Vec<Listed>, StoreError> {
    tx.all(
        "SELECT runtime, namespace, name, uid, resource_version, state, body FROM entities \
         WHERE account = $1 AND kind = $2 AND gone_ms IS NULL AND (runtime, namespace, name) > ($3, $4, $5) \
         ORDER BY runtime, namespace, name LIMIT $6",
        &[scope.account().into(), kind.into(), after.0.into(), after.1.into(), after.2.into(), limit.into()],
    )?
    .iter()
    .map(|row| {
        Ok(Listed {
            runtime: row.text(0)?,
            namespace: row.text(1)?,
            name: row.text(2)?,
            uid: row.text(3)?,
            resource_version: row.text(4)?,
            state: row.text(5)?,
            body: row.text(6)?,
        })
    })
    .collect()
}

/// A complete report under way, or the last one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complete {
    pub sequence: i64,
    /// Those that have come.
    pub pages: BTreeSet<u32>,
    /// Known when the last one has come.
    pub last: Option<u32>,
}

/// One that is about some parts alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    pub complete: Complete,
    pub parts: BTreeSet<u16>,
}

/// The complete reports of a runtime: of all that it has, and of its processes that each have a share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completes {
    pub whole: Complete,
    pub shares: BTreeMap<String, Share>,
}

impl Completes {
    /// The highest number of a complete report that is about this part: what has a lower one comes late.
    pub fn floor(&self, part: u16) -> i64 {
        let of_part = self.shares.values().filter(|share| share.parts.contains(&part));
        of_part.map(|share| share.complete.sequence).fold(self.whole.sequence, i64::max)
    }
}

impl Complete {
    /// The first pages that have not come, once it is known how many there are. None: all have.
    pub fn missing(&self, most: usize) -> Vec<u32> {
        let last = self.last.unwrap_or_default();
        (0..=last).filter(|page| !self.pages.contains(page)).take(most).collect()
    }

    pub fn has_ended(&self) -> bool {
        self.last.is_some() && self.missing(1).is_empty()
    }
}

pub fn completes(tx: &mut Tx<'_>, scope: Scope, runtime: &str) -> Result<Completes, StoreError> {
    let read = |row: Row| {
        let last = row.maybe_int(2)?.map(u32::try_from).transpose().map_err(StoreError::corrupt)?;
        let whole = Complete { sequence: row.int(0)?, pages: row.json(1)?, last };
        Ok(Completes { whole, shares: row.json(3)? })
    };
    tx.one(
        "SELECT sequence, pages, last_page, shares FROM complete_reports WHERE account = $1 AND runtime = $2",
        &[scope.account().into(), runtime.into()],
    )?
    .map_or_else(|| Ok(Completes::default()), read)
}

pub fn put_completes(
    tx: &mut Tx<'_>,
    scope: Scope,
    runtime: &str,
    completes: &Completes,
) -> Result<(), StoreError> {
    let whole = &completes.whole;
    tx.send(
        "INSERT INTO complete_reports (account, runtime, sequence, pages, last_page, shares) \
         VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (account, runtime) DO UPDATE SET sequence = excluded.sequence, pages = excluded.pages, \
         last_page = excluded.last_page, shares = excluded.shares",
        &[
            scope.account().into(),
            runtime.into(),
            whole.sequence.into(),
            crate::sql::json(&whole.pages)?,
            whole.last.map(i64::from).into(),
            crate::sql::json(&completes.shares)?,
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_report_has_ended_when_every_page_has_come_in_whatever_order() {
        let mut report = Complete { sequence: 1, ..Complete::default() };
        assert!(!report.has_ended(), "nobody knows how many pages there are");
        report.pages.insert(2);
        report.last = Some(2);
        assert_eq!((report.missing(9), report.missing(1), report.has_ended()), (vec![0, 1], vec![0], false));
        report.pages.extend([0, 1]);
        assert!(report.has_ended() && report.missing(9).is_empty());
    }
}
