//! The SQLite file: one row per object, and the last version that was given out.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, params};

use super::{Change, Key, Write};

pub(super) struct Db {
    connection: Connection,
}

pub(super) type Row = (Key, u64, Vec<u8>);

impl Db {
    pub(super) fn open(path: &Path) -> rusqlite::Result<Db> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // FULL: a commit returns after the log is on the disk, also when the power goes right after.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cache_size", -512)?;
        connection.pragma_update(None, "wal_autocheckpoint", 1000)?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS objects (
                 kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
                 version INTEGER NOT NULL, json BLOB NOT NULL,
                 PRIMARY KEY (kind, namespace, name)) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
             INSERT OR IGNORE INTO counters VALUES ('version', 0);",
        )?;
        Ok(Db { connection })
    }

    pub(super) fn load(&mut self) -> rusqlite::Result<(u64, Vec<Row>)> {
        let version: i64 =
            self.connection.query_row("SELECT value FROM counters WHERE name = 'version'", [], |row| row.get(0))?;
        let mut statement =
            self.connection.prepare("SELECT kind, namespace, name, version, json FROM objects ORDER BY 1, 2, 3")?;
        let mut kind: Arc<str> = Arc::from("");
        let rows = statement.query_map([], |row| {
            let name: String = row.get(0)?;
            if *kind != *name {
                kind = Arc::from(name);
            }
            let key = Key { kind: kind.clone(), namespace: row.get(1)?, name: row.get(2)? };
            Ok((key, row.get::<_, i64>(3)? as u64, row.get(4)?))
        })?;
        Ok((version as u64, rows.collect::<rusqlite::Result<_>>()?))
    }

    pub(super) fn commit<'a>(&mut self, writes: impl Iterator<Item = &'a Write>) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        let mut last = 0;
        for write in writes {
            let object = &write.object;
            let key = &object.key;
            last = object.version as i64;
            if write.change == Change::Deleted {
                transaction
                    .prepare_cached("DELETE FROM objects WHERE kind = ?1 AND namespace = ?2 AND name = ?3")?
                    .execute(params![&*key.kind, key.namespace, key.name])?;
            } else {
                transaction
                    .prepare_cached("INSERT OR REPLACE INTO objects VALUES (?1, ?2, ?3, ?4, ?5)")?
                    .execute(params![&*key.kind, key.namespace, key.name, last, &object.json[..]])?;
            }
        }
        transaction
            .prepare_cached("UPDATE counters SET value = ?1 WHERE name = 'version'")?
            .execute(params![last])?;
        transaction.commit()
    }
}
