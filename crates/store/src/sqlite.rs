//! SQLite: one file, one writing connection, a few that read. Write-ahead log, every commit synced to disk.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::engine::Committed;
use crate::services::Service;
use crate::session::{Access, EachRow, Session};
use crate::sql::{Row, Value};
use crate::{Database, StoreError, migrations};

const READERS: usize = 4;
/// Somebody with a `sqlite3` shell may hold the file for a moment.
const BUSY: Duration = Duration::from_secs(10);

/// What an acknowledged write rests on: the pragma, and what it has to answer.
const SAFE: [(&str, &str, &str); 3] =
    [("journal_mode", "WAL", "wal"), ("synchronous", "FULL", "2"), ("foreign_keys", "ON", "1")];

pub(crate) struct Sqlite {
    connection: rusqlite::Connection,
}

/// Held until the process ends, however it ends.
pub(crate) fn lock(folder: &Path) -> Result<std::fs::File, StoreError> {
    let path = folder.join("slipway.db.lock");
    let file = std::fs::File::create(&path)
        .map_err(|error| StoreError::File { path: path.display().to_string(), error })?;
    // A store that was just closed lets go when its last clone is dropped.
    let until = Instant::now() + Duration::from_millis(500);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(std::fs::TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(StoreError::InUse { path: folder.display().to_string() });
            }
            Err(std::fs::TryLockError::Error(error)) => {
                return Err(StoreError::File { path: path.display().to_string(), error });
            }
        }
    }
}

type Opened = (Box<dyn Session>, Vec<Box<dyn Session>>);

pub(crate) fn open(folder: &Path) -> Result<Opened, StoreError> {
    let path = folder.join("slipway.db");
    let mut writer = connect(&path)?;
    migrate(&mut writer.connection)?;
    Ok((Box::new(writer), readers(&path)?))
}

pub(crate) fn open_to_read(folder: &Path) -> Result<Vec<Box<dyn Session>>, StoreError> {
    let path = folder.join("slipway.db");
    if !path.exists() {
        return Err(StoreError::NotFound { what: format!("a database at {}", path.display()) });
    }
    readers(&path)
}

fn readers(path: &Path) -> Result<Vec<Box<dyn Session>>, StoreError> {
    (0..READERS)
        .map(|_| {
            let reader = connect(path)?;
            // PostgreSQL refuses to write in a snapshot; so that nobody gets used to it here.
            reader.connection.execute_batch("PRAGMA query_only=ON")?;
            Ok(Box::new(reader) as Box<dyn Session>)
        })
        .collect()
}

fn connect(path: &Path) -> Result<Sqlite, StoreError> {
    let connection = rusqlite::Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(256);
    connection.execute_batch("PRAGMA cache_size=-4096")?;
    for (pragma, wanted, answer) in SAFE {
        connection.execute_batch(&format!("PRAGMA {pragma}={wanted}"))?;
        let found = connection.query_row(&format!("PRAGMA {pragma}"), [], |row| {
            Ok(match row.get_ref(0)? {
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                other => format!("{other:?}"),
            })
        })?;
        if found != answer {
            return Err(StoreError::Unsafe { setting: pragma.into(), found, wanted: answer.into() });
        }
    }
    Ok(Sqlite { connection })
}

fn migrate(connection: &mut rusqlite::Connection) -> Result<(), StoreError> {
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let mut pending = migrations::after(found)?.peekable();
    if pending.peek().is_none() {
        return Ok(());
    }
    // One commit for all of them: a new database is there at once, and an old one is as it was or up to date.
    let tx = connection.transaction()?;
    for (version, sql) in pending {
        tx.execute_batch(sql)?;
        tx.execute_batch(&format!("PRAGMA user_version = {version}"))?;
    }
    Ok(tx.commit()?)
}

/// SQLite numbers `$2` by where it first stands; `?2` means the second value, as `$2` does in PostgreSQL.
fn numbered(sql: &str) -> String {
    sql.replace('$', "?")
}

impl Session for Sqlite {
    fn database(&self) -> Database {
        Database::Sqlite
    }

    fn begin(&mut self, access: Access) -> Result<(), StoreError> {
        let begin = match access {
            Access::Read => "BEGIN",
            Access::Write => "BEGIN IMMEDIATE",
        };
        Ok(self.connection.execute_batch(begin)?)
    }

    fn start_job(&mut self, _: Option<Service>) -> Result<(), StoreError> {
        Ok(self.connection.execute_batch("SAVEPOINT job")?)
    }

    fn keep_job(&mut self) -> Result<(), StoreError> {
        Ok(self.connection.execute_batch("RELEASE job")?)
    }

    fn undo_job(&mut self) -> Result<(), StoreError> {
        Ok(self.connection.execute_batch("ROLLBACK TO job; RELEASE job")?)
    }

    fn commit(&mut self, _: &Committed) -> Result<Vec<(usize, StoreError)>, StoreError> {
        self.connection.execute_batch("COMMIT")?;
        Ok(Vec::new())
    }

    fn rollback(&mut self) {
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }

    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<usize, StoreError> {
        let mut statement = self.connection.prepare_cached(&numbered(sql))?;
        Ok(statement.execute(rusqlite::params_from_iter(values))?)
    }

    fn each(&mut self, sql: &str, values: &[Value], each: &mut EachRow<'_>) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare_cached(&numbered(sql))?;
        let columns = statement.column_count();
        let mut rows = statement.query(rusqlite::params_from_iter(values))?;
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
            each(Row::new(values))?;
        }
        Ok(())
    }

    fn follow_numbers(&mut self, _: &[&str]) -> Result<(), StoreError> {
        // AUTOINCREMENT follows by itself.
        Ok(())
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
