//! One connection to a database, as the rest of the room sees it. SQLite and PostgreSQL implement it; the
//! engine groups writes over it, and [`crate::Tx`] runs queries over it.

use std::time::Duration;

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

/// A question: a statement that reads, with its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    pub(crate) sql: String,
    pub(crate) values: Vec<Value>,
    /// The one row that it is about, by a name that changes of that row give too ([`crate::Tx::send_row`]).
    pub(crate) row: Option<String>,
}

impl Ask {
    pub(crate) fn new(sql: impl Into<String>, values: impl Into<Vec<Value>>) -> Self {
        Self { sql: sql.into(), values: values.into(), row: None }
    }

    pub(crate) fn of_row(mut self, row: impl Into<String>) -> Self {
        self.row = Some(row.into());
        self
    }
}

/// What is known of a change beside its text.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct About<'a> {
    /// The one row that it changes, by a name that jobs go by which build on what it was before.
    pub(crate) row: Option<&'a str>,
    /// What it says anew, whole: of several changes with one text and this name only the last one leaves anything.
    pub(crate) over: Option<&'a str>,
}

/// What a job of a group asks for before any of them runs, and under whose rights.
pub(crate) type Ahead = (Option<Service>, Vec<Ask>);

pub(crate) type EachRow<'a> = dyn FnMut(Row) -> Result<(), StoreError> + 'a;

pub(crate) trait Session: Send {
    fn database(&self) -> Database;
    /// What cannot begin because the database is away is tried again inside, here or at the first statement, for as long as
    /// a caller can wait.
    fn begin(&mut self, access: Access) -> Result<(), StoreError>;
    /// How long the writers' lock was waited for since this was last asked, where it is taken with the first statement.
    fn begun_after(&mut self) -> Duration {
        Duration::ZERO
    }
    /// Starts one job of the transaction, under the service's own rights where the database knows them.
    fn start_job(&mut self, service: Option<Service>) -> Result<(), StoreError>;
    fn keep_job(&mut self) -> Result<(), StoreError>;
    fn undo_job(&mut self) -> Result<(), StoreError>;
    /// On disk when this returns. Other processes hear of it. Gives the jobs that are not in it after all, by their place.
    fn commit(&mut self, committed: &Committed) -> Result<Vec<(usize, StoreError)>, StoreError>;
    fn rollback(&mut self);
    /// The end of a snapshot. Nobody waits for it.
    fn end_read(&mut self) {
        self.rollback();
    }
    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<usize, StoreError>;
    /// A change whose count nobody needs. It may fail later: with the next statement, or with the commit.
    fn send(&mut self, sql: &str, values: &[Value], about: About<'_>) -> Result<(), StoreError> {
        let _ = about;
        self.execute(sql, values).map(drop)
    }
    /// Which job a failure was of, by its place in the transaction, when that was not the one that ran: nothing of the transaction
    /// will be.
    fn culprit(&mut self) -> Option<(usize, StoreError)> {
        None
    }
    /// Asks what all jobs of a group begin with. `None`: nothing is won by that here.
    fn ahead(&mut self, asked: &[Ahead]) -> Result<Option<Vec<Vec<Vec<Row>>>>, StoreError> {
        let _ = asked;
        Ok(None)
    }
    fn each(&mut self, sql: &str, values: &[Value], row: &mut EachRow<'_>) -> Result<(), StoreError>;
    /// Several questions that do not depend on each other's answers. `last`: a snapshot ends with them.
    fn all(&mut self, asked: &[Ask], last: bool) -> Result<Vec<Vec<Row>>, StoreError> {
        let _ = last;
        let one = |ask: &Ask| {
            let mut rows = Vec::new();
            self.each(&ask.sql, &ask.values, &mut |row| {
                rows.push(row);
                Ok(())
            })?;
            Ok(rows)
        };
        asked.iter().map(one).collect()
    }
    /// The next numbers of tables that number their own rows follow the rows that are there.
    fn follow_numbers(&mut self, tables: &[&str]) -> Result<(), StoreError>;
}
