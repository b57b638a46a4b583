//! The narrow waist between queries and the engine: SQL text, values in, rows out.
//!
//! Queries are written once, in the SQL that SQLite and PostgreSQL share (`$1`, `RETURNING`, `ON CONFLICT`).
//! They see this module and never the driver.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use slipway_model::{AccountId, Change, ChangeKind, PipelineId};

use crate::engine::{self, Touched};
use crate::session::{About, Ask, Session};
use crate::touching::{Spoilt, Tables, is_change};
use crate::{Database, StoreError};

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Int(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}
impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Int(value.into())
    }
}
impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}
impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}
impl<T> From<slipway_model::Id<T>> for Value {
    fn from(value: slipway_model::Id<T>) -> Self {
        Self::Text(value.to_string())
    }
}
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// JSON as text.
pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Value, StoreError> {
    Ok(Value::Text(serde_json::to_string(value).map_err(StoreError::corrupt)?))
}

/// How a statement that asks for a page ends. Its length stands in the text: PostgreSQL plans for a tenth of a table where it does
/// not know how many rows are wanted, finds at every use that it can do better than that, and so plans every use anew. What is
/// left out before it is a value, because nobody pages through the same list in as many texts as it has pages.
pub(crate) fn page(values: &mut Vec<Value>, length: i64, left_out: i64) -> String {
    let length = length.max(0);
    if left_out <= 0 {
        return format!("LIMIT {length}");
    }
    values.push(left_out.into());
    format!("LIMIT {length} OFFSET ${}", values.len())
}

/// One transaction, or one reader's snapshot.
pub struct Tx<'c> {
    session: &'c mut dyn Session,
    pub(crate) changes: Vec<Change>,
    pub(crate) facts: bool,
    pub(crate) touched: Touched,
    /// Ends of audit chains as this transaction left them: nobody else writes before it is over.
    pub(crate) heads: HashMap<String, (i64, String)>,
    /// Answers to questions that were asked together.
    fetched: Vec<(Ask, Vec<Row>)>,
    /// What changed, in this job and in those before it in its group; where answers were asked for ahead.
    pub(crate) spoilt: Option<Spoilt>,
    failed: Option<String>,
}

impl<'c> Tx<'c> {
    pub(crate) fn new(session: &'c mut dyn Session) -> Self {
        Self {
            session,
            changes: Vec::new(),
            facts: false,
            touched: Touched::default(),
            heads: HashMap::new(),
            fetched: Vec::new(),
            spoilt: None,
            failed: None,
        }
    }

    /// Answers that are there before the work begins; those that jobs before it made untrue are left out.
    pub(crate) fn know(&mut self, answers: impl IntoIterator<Item = (Ask, Vec<Row>)>) {
        let spares = |ask: &Ask| self.spoilt.as_ref().is_none_or(|spoilt| spoilt.spares(ask));
        self.fetched.extend(answers.into_iter().filter(|(ask, _)| spares(ask)));
    }

    fn changing(&mut self, sql: &str, row: Option<&str>) {
        if let Some(spoilt) = &mut self.spoilt {
            spoilt.by(sql, row);
        }
        if !self.fetched.is_empty() {
            let mut now = Spoilt::default();
            now.by(sql, row);
            self.fetched.retain(|(ask, _)| now.spares(ask));
        }
    }

    /// Pages of the account that show `id` hear of it once this transaction is on disk.
    pub fn changed(&mut self, account: AccountId, kind: ChangeKind, id: impl std::fmt::Display) {
        self.note(Change { account: Some(account), kind, id: id.to_string() });
    }

    /// A build of the account may be free to be taken now that was not before: runners that wait hear of it.
    pub fn queue_moved(&mut self, account: AccountId) {
        self.touched.queue_moved(account);
    }

    /// A build of this pipeline waits that was not there: who knows that the pipeline is full need not look.
    pub(crate) fn build_arrived(&mut self, account: AccountId, pipeline: PipelineId) {
        self.touched.build_arrived(account, pipeline);
    }

    /// A runner of the account is asked for a call inside of its network, or has answered one: whoever waits for that hears of it.
    pub fn errand_moved(&mut self, account: AccountId) {
        engine::note(&mut self.touched.errands, account);
    }

    /// Somebody's rights changed, in whichever accounts: whoever holds a stream open asks again whether it may stay open.
    pub fn rights_changed(&mut self, id: impl std::fmt::Display) {
        self.note(Change { account: None, kind: ChangeKind::Access, id: id.to_string() });
    }

    fn note(&mut self, change: Change) {
        if !self.changes.contains(&change) {
            self.changes.push(change);
        }
    }

    pub fn execute(&mut self, sql: &str, values: &[Value]) -> Result<usize, StoreError> {
        self.changing(sql, None);
        let done = self.session.execute(sql, values);
        self.noted(done)
    }

    /// A change whose count nobody needs: on PostgreSQL it is not waited for, but goes with the next statement or with the
    /// end of the work, and that is where it fails if it does.
    pub fn send(&mut self, sql: &str, values: &[Value]) -> Result<(), StoreError> {
        self.changing(sql, None);
        let done = self.session.send(sql, values, About::default());
        self.noted(done)
    }

    /// The same of what is said anew, whole, under this name: of several such changes with one text that nobody looked at between,
    /// only the last one is made.
    pub(crate) fn send_over(&mut self, over: &str, sql: &str, values: &[Value]) -> Result<(), StoreError> {
        self.changing(sql, None);
        let done = self.session.send(sql, values, About { over: Some(over), ..About::default() });
        self.noted(done)
    }

    /// The same of the one row that questions call so ([`Ask::of_row`]): answers about other rows stay true.
    pub(crate) fn send_row(&mut self, row: &str, sql: &str, values: &[Value]) -> Result<(), StoreError> {
        self.changing(sql, Some(row));
        let done = self.session.send(sql, values, About { row: Some(row), ..About::default() });
        self.noted(done)
    }

    /// Both: the one row, said anew.
    pub(crate) fn send_row_over(&mut self, row: &str, sql: &str, values: &[Value]) -> Result<(), StoreError> {
        self.changing(sql, Some(row));
        let done = self.session.send(sql, values, About { row: Some(row), over: Some(row) });
        self.noted(done)
    }

    /// Asks several questions at once: one round trip on PostgreSQL. Whoever asks one of them next gets the answer that is
    /// there already, unless a table that it speaks of was changed since. Which functions ask is known to those that offer an [`Ask`].
    pub fn fetch(&mut self, asked: impl IntoIterator<Item = Ask>) -> Result<(), StoreError> {
        self.fetch_all(asked, false)
    }

    /// The same for a read that asks nothing else: its snapshot ends with the answers.
    pub fn fetch_last(&mut self, asked: impl IntoIterator<Item = Ask>) -> Result<(), StoreError> {
        self.fetch_all(asked, true)
    }

    fn fetch_all(&mut self, asked: impl IntoIterator<Item = Ask>, last: bool) -> Result<(), StoreError> {
        let is_new = |ask: &Ask| !self.fetched.iter().any(|(known, _)| known == ask);
        let asked: Vec<_> = asked.into_iter().filter(is_new).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let found = self.session.all(&asked, last);
        let found = self.noted(found)?;
        self.fetched.extend(asked.into_iter().zip(found));
        Ok(())
    }

    pub(crate) fn ask(&mut self, ask: &Ask) -> Result<Vec<Row>, StoreError> {
        self.all(&ask.sql, &ask.values)
    }

    pub fn all(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let known = self.fetched.iter().position(|(ask, _)| ask.sql == sql && ask.values == values);
        if let Some(place) = known {
            // What speaks of no table is the time, which passes; everything else stays true until it is changed.
            return Ok(match Tables::named_in(sql) == Tables::default() {
                true => self.fetched.swap_remove(place).1,
                false => self.fetched[place].1.clone(),
            });
        }
        let mut rows = Vec::new();
        self.each(sql, values, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    }

    pub fn one(&mut self, sql: &str, values: &[Value]) -> Result<Option<Row>, StoreError> {
        Ok(self.all(sql, values)?.into_iter().next())
    }

    /// Row by row, for more than fits in memory.
    pub fn each(
        &mut self,
        sql: &str,
        values: &[Value],
        row: &mut dyn FnMut(Row) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if is_change(sql) {
            self.changing(sql, None);
        }
        let done = self.session.each(sql, values, row);
        self.noted(done)
    }

    /// The one clock that all processes of a platform share: what a lease is measured by.
    pub fn database_now_ms(&mut self) -> Result<i64, StoreError> {
        let clock = self.asks_clock();
        self.ask(&clock)?.first().map_or(Ok(0), |row| row.int(0))
    }

    /// What [`Self::database_now_ms`] asks.
    pub(crate) fn asks_clock(&self) -> Ask {
        asks_clock(self.database())
    }

    pub(crate) fn begun_after(&mut self) -> Duration {
        self.session.begun_after()
    }

    pub(crate) fn database(&self) -> Database {
        self.session.database()
    }

    pub(crate) fn follow_numbers(&mut self, tables: &[&str]) -> Result<(), StoreError> {
        let done = self.session.follow_numbers(tables);
        self.noted(done)
    }

    fn noted<T>(&mut self, done: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &done {
            self.failed.get_or_insert_with(|| error.to_string());
        }
        done
    }

    /// PostgreSQL ends a transaction with its first failed statement. The same holds on SQLite, so that nobody
    /// writes code that goes on after one and works on one engine only.
    pub(crate) fn whole(&self) -> Result<(), StoreError> {
        match &self.failed {
            None => Ok(()),
            Some(why) => {
                Err(StoreError::Database { why: format!("the work went on after a statement failed: {why}") })
            }
        }
    }
}

/// What [`Tx::database_now_ms`] asks, for whoever asks ahead.
pub(crate) fn asks_clock(database: Database) -> Ask {
    Ask::new(database.clock(), [])
}

#[derive(Debug, Clone)]
pub struct Row(Vec<Value>);

impl Row {
    pub(crate) fn new(values: Vec<Value>) -> Self {
        Self(values)
    }

    pub fn values(&self) -> &[Value] {
        &self.0
    }

    /// Columns from here on, as a row of their own.
    pub(crate) fn from(&self, first: usize) -> Self {
        Self(self.0.get(first..).unwrap_or_default().to_vec())
    }

    fn value(&self, index: usize) -> Result<&Value, StoreError> {
        self.0.get(index).ok_or_else(|| StoreError::corrupt(format!("no column {index}")))
    }

    pub fn int(&self, index: usize) -> Result<i64, StoreError> {
        self.maybe_int(index)?.ok_or_else(|| StoreError::corrupt(format!("column {index} is null")))
    }

    pub fn maybe_int(&self, index: usize) -> Result<Option<i64>, StoreError> {
        match self.value(index)? {
            Value::Int(number) => Ok(Some(*number)),
            Value::Null => Ok(None),
            other => Err(StoreError::corrupt(format!("column {index} is not a number: {other:?}"))),
        }
    }

    pub fn bool(&self, index: usize) -> Result<bool, StoreError> {
        Ok(self.int(index)? != 0)
    }

    pub fn text(&self, index: usize) -> Result<String, StoreError> {
        self.maybe_text(index)?.ok_or_else(|| StoreError::corrupt(format!("column {index} is null")))
    }

    pub fn maybe_text(&self, index: usize) -> Result<Option<String>, StoreError> {
        match self.value(index)? {
            Value::Text(text) => Ok(Some(text.clone())),
            Value::Null => Ok(None),
            other => Err(StoreError::corrupt(format!("column {index} is not text: {other:?}"))),
        }
    }

    pub fn blob(&self, index: usize) -> Result<Vec<u8>, StoreError> {
        match self.value(index)? {
            Value::Blob(bytes) => Ok(bytes.clone()),
            Value::Text(text) => Ok(text.clone().into_bytes()),
            other => Err(StoreError::corrupt(format!("column {index} is not bytes: {other:?}"))),
        }
    }

    pub fn id<T>(&self, index: usize) -> Result<slipway_model::Id<T>, StoreError> {
        self.text(index)?.parse().map_err(StoreError::corrupt)
    }

    pub fn json<T: DeserializeOwned>(&self, index: usize) -> Result<T, StoreError> {
        serde_json::from_str(&self.text(index)?).map_err(StoreError::corrupt)
    }

    pub fn maybe_json<T: DeserializeOwned>(&self, index: usize) -> Result<Option<T>, StoreError> {
        self.maybe_text(index)?
            .map(|text| serde_json::from_str(&text).map_err(StoreError::corrupt))
            .transpose()
    }
}
