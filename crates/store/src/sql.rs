//! The narrow waist between queries and the engine: SQL text, values in, rows out.
//!
//! Queries are written once, in the SQL that SQLite and PostgreSQL share (`$1`, `RETURNING`, `ON CONFLICT`).
//! They see this module and never the driver.

use rusqlite::types::ValueRef;
use serde::Serialize;
use serde::de::DeserializeOwned;
use slipway_model::{Change, ChangeKind};

use crate::StoreError;

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

/// One transaction, or one reader's snapshot.
pub struct Tx<'c> {
    connection: &'c rusqlite::Connection,
    pub(crate) changes: Vec<Change>,
    pub(crate) facts: bool,
}

impl<'c> Tx<'c> {
    pub(crate) fn new(connection: &'c rusqlite::Connection) -> Self {
        Self { connection, changes: Vec::new(), facts: false }
    }

    /// Pages that show `id` hear of it once this transaction is on disk.
    pub fn changed(&mut self, kind: ChangeKind, id: impl std::fmt::Display) {
        let change = Change { kind, id: id.to_string() };
        if !self.changes.contains(&change) {
            self.changes.push(change);
        }
    }

    pub fn execute(&mut self, sql: &str, values: &[Value]) -> Result<usize, StoreError> {
        let mut statement = self.connection.prepare_cached(&numbered(sql))?;
        Ok(statement.execute(rusqlite::params_from_iter(values))?)
    }

    pub fn all(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let mut statement = self.connection.prepare_cached(&numbered(sql))?;
        let columns = statement.column_count();
        let mut rows = statement.query(rusqlite::params_from_iter(values))?;
        let mut out = Vec::new();
        while let Some(row) = rows.next()? {
            let mut values = Vec::with_capacity(columns);
            for index in 0..columns {
                values.push(match row.get_ref(index)? {
                    ValueRef::Null => Value::Null,
                    ValueRef::Integer(number) => Value::Int(number),
                    ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
                    ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
                    ValueRef::Real(_) => return Err(StoreError::corrupt("a column holds a float")),
                });
            }
            out.push(Row(values));
        }
        Ok(out)
    }

    pub fn one(&mut self, sql: &str, values: &[Value]) -> Result<Option<Row>, StoreError> {
        Ok(self.all(sql, values)?.into_iter().next())
    }
}

/// SQLite numbers `$2` by where it first stands; `?2` means the second value, as `$2` does in PostgreSQL.
fn numbered(sql: &str) -> String {
    sql.replace('$', "?")
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        use rusqlite::types::{ToSqlOutput, ValueRef};
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

#[derive(Debug, Clone)]
pub struct Row(Vec<Value>);

impl Row {
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
