//! One connection to a database, as the rest of the room sees it. SQLite and PostgreSQL implement it; the
//! engine groups writes over it, and [`crate::Tx`] runs queries over it.

use crate::engine::Committed;
use crate::services::Service;
use crate::sql::{Row, Value};
use crate::{Database, StoreError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// A snapshot that changes nothing.
    Read,
    /// The only writer of the whole platform, from here to the commit.
    Write,
}

pub(crate) type EachRow<'a> = dyn FnMut(Row) -> Result<(), StoreError> + 'a;

pub(crate) trait Session: Send {
    fn database(&self) -> Database;
    /// Nothing has run yet when this fails, so it is tried again inside for as long as a caller can wait.
    fn begin(&mut self, access: Access) -> Result<(), StoreError>;
    /// Starts one job of the transaction, under the service's own rights where the database knows them.
    fn start_job(&mut self, service: Option<Service>) -> Result<(), StoreError>;
    fn keep_job(&mut self) -> Result<(), StoreError>;
    fn undo_job(&mut self) -> Result<(), StoreError>;
    /// On disk when this returns. Other processes hear of it.
    fn commit(&mut self, committed: &Committed) -> Result<(), StoreError>;
    fn rollback(&mut self);
    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<usize, StoreError>;
    fn each(&mut self, sql: &str, values: &[Value], row: &mut EachRow<'_>) -> Result<(), StoreError>;
    /// The database's clock: the one clock that all processes of a platform share.
    fn now_ms(&mut self) -> Result<i64, StoreError>;
    /// The next numbers of tables that number their own rows follow the rows that are there.
    fn follow_numbers(&mut self, tables: &[&str]) -> Result<(), StoreError>;
}
