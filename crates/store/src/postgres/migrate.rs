//! The schema on PostgreSQL: translated from the one set of files, divided among the services' schemas, with a
//! role and its rights for each. All of it is one transaction under a lock, so that processes which start
//! together do it once, and a killed one leaves nothing half done.

use postgres::{Client, Transaction};

use super::{LOCKS, MIGRATION_LOCK, failure, schemas};
use crate::services::{OUTBOX, OUTBOX_GRANTS, OUTBOX_TABLES, Service};
use crate::{StoreError, migrations};

/// Refuses settings under which an acknowledged commit could be lost.
pub(super) fn check_settings(client: &mut Client) -> Result<(), StoreError> {
    for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
        let row =
            client.query_one("SELECT current_setting($1)", &[&setting]).map_err(|error| failure(&error))?;
        let found: String = row.get(0);
        if found == "off" {
            return Err(StoreError::Unsafe { setting: setting.into(), found, wanted: "on".into() });
        }
    }
    Ok(())
}

pub(super) fn migrate(client: &mut Client) -> Result<(), StoreError> {
    let mut tx = client.transaction().map_err(|error| failure(&error))?;
    let lock = format!("SELECT pg_advisory_xact_lock({LOCKS}, {MIGRATION_LOCK})");
    tx.batch_execute(&lock).map_err(|error| failure(&error))?;
    let (found, layout) = version(&mut tx)?;
    let mut pending = migrations::after(found)?.peekable();
    if pending.peek().is_none() && layout == self::layout() {
        return Ok(());
    }
    if found == 0 {
        let start = "CREATE SCHEMA IF NOT EXISTS slipway; \
             CREATE TABLE slipway.schema_version (version BIGINT NOT NULL, layout TEXT NOT NULL); \
             INSERT INTO slipway.schema_version VALUES (0, '')";
        run(&mut tx, start)?;
    }
    for (version, sql) in pending {
        for statement in migrations::statements(sql) {
            run(&mut tx, &translate(&statement))?;
        }
        run(&mut tx, &format!("UPDATE slipway.schema_version SET version = {version}"))?;
    }
    divide(&mut tx)?;
    tx.execute("UPDATE slipway.schema_version SET layout = $1", &[&self::layout()])
        .map_err(|error| failure(&error))?;
    tx.commit().map_err(|error| failure(&error))
}

fn run(tx: &mut Transaction<'_>, sql: &str) -> Result<(), StoreError> {
    tx.batch_execute(sql).map_err(|error| match failure(&error) {
        StoreError::Refused { why } => StoreError::Refused {
            why: format!(
                "{why}: the schema is brought up to date by a user that may create schemas and roles (CREATEROLE)"
            ),
        },
        other => other,
    })
}

/// The version and the division that are there.
fn version(tx: &mut Transaction<'_>) -> Result<(i64, String), StoreError> {
    let there = tx
        .query_one("SELECT to_regclass('slipway.schema_version') IS NOT NULL", &[])
        .map_err(|error| failure(&error))?;
    if !there.get::<_, bool>(0) {
        return Ok((0, String::new()));
    }
    let row = tx
        .query_one("SELECT version, layout FROM slipway.schema_version", &[])
        .map_err(|error| failure(&error))?;
    Ok((row.get(0), row.get(1)))
}

/// Changes whenever tables or rights are divided differently.
fn layout() -> String {
    Service::ALL
        .iter()
        .map(|service| {
            let also: Vec<_> =
                service.also().iter().map(|(table, rights)| format!("{table}:{rights}")).collect();
            format!("{}={}+{}", service.name(), service.tables().join(","), also.join(","))
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Moves each table to its owner's schema and gives each service's role its rights, and no others.
fn divide(tx: &mut Transaction<'_>) -> Result<(), StoreError> {
    for schema in schemas() {
        run(tx, &format!("CREATE SCHEMA IF NOT EXISTS {schema}"))?;
    }
    let owned = Service::ALL
        .iter()
        .map(|service| (service.schema(), service.tables()))
        .chain([(OUTBOX.to_owned(), &OUTBOX_TABLES[..])]);
    for (schema, tables) in owned {
        for table in tables {
            let row = tx
                .query_one(
                    "SELECT to_regclass($1)::text, to_regclass($2) IS NOT NULL",
                    &[table, &format!("{schema}.{table}")],
                )
                .map_err(|error| failure(&error))?;
            let found: Option<String> = row.get(0);
            match found {
                Some(_) if row.get::<_, bool>(1) => {}
                Some(_) => run(tx, &format!("ALTER TABLE {table} SET SCHEMA {schema}"))?,
                // Another version makes it.
                None => {}
            }
        }
    }
    for service in Service::ALL {
        grant(tx, service)?;
    }
    Ok(())
}

fn grant(tx: &mut Transaction<'_>, service: Service) -> Result<(), StoreError> {
    let (role, schema) = (service.role(), service.schema());
    // Roles belong to the server: another database of it may have made them, or be making them now.
    run(
        tx,
        &format!(
            "DO $do$ BEGIN CREATE ROLE {role} NOLOGIN; \
             EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $do$; \
             DO $do$ BEGIN IF NOT pg_has_role(current_user, '{role}', 'MEMBER') THEN GRANT {role} TO CURRENT_USER; END IF; END $do$"
        ),
    )?;
    for every in schemas() {
        // To see that a table is there, and be refused by name, is no right to read it.
        run(
            tx,
            &format!(
                "REVOKE ALL ON ALL TABLES IN SCHEMA {every} FROM {role}; GRANT USAGE ON SCHEMA {every} TO {role}"
            ),
        )?;
    }
    run(
        tx,
        &format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}; \
             GRANT SELECT ON slipway.schema_version TO {role}"
        ),
    )?;
    for (table, rights) in OUTBOX_GRANTS.iter().chain(service.also()) {
        run(tx, &format!("GRANT {rights} ON {table} TO {role}"))?;
    }
    Ok(())
}

/// From the files' SQL to PostgreSQL's: 64-bit integers, text that sorts by its bytes as SQLite's does, numbered
/// rows whose number may be given. Only definitions of tables are touched, and the one function that is called otherwise.
fn translate(statement: &str) -> String {
    if statement.starts_with("UPDATE ") {
        return statement.replace("instr(", "strpos(");
    }
    if !statement.starts_with("CREATE TABLE") && !statement.starts_with("ALTER TABLE") {
        return statement.to_owned();
    }
    let statement = statement
        .replace("INTEGER PRIMARY KEY AUTOINCREMENT", "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY");
    let mut out = String::with_capacity(statement.len() + 64);
    for (index, piece) in statement.split('\'').enumerate() {
        // Every second piece is a quoted literal.
        if index % 2 == 1 {
            out += &format!("'{piece}'");
            continue;
        }
        let mut word = String::new();
        for character in piece.chars().chain([' ']) {
            if character.is_alphanumeric() || character == '_' {
                word.push(character);
                continue;
            }
            out += match word.as_str() {
                "INTEGER" => "BIGINT",
                "TEXT" => "TEXT COLLATE \"C\"",
                "BLOB" => "BYTEA",
                other => other,
            };
            word.clear();
            out.push(character);
        }
        out.pop();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_definitions_are_translated_and_the_rest_is_left_alone() {
        assert_eq!(
            translate(
                "CREATE TABLE t (seq INTEGER PRIMARY KEY AUTOINCREMENT, n INTEGER, a TEXT DEFAULT 'TEXT', b BLOB)"
            ),
            "CREATE TABLE t (seq BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, n BIGINT, \
             a TEXT COLLATE \"C\" DEFAULT 'TEXT', b BYTEA)"
        );
        let index = "CREATE INDEX i ON t (n) WHERE a = 'INTEGER'";
        assert_eq!(translate(index), index);
        assert_eq!(translate("UPDATE t SET a = instr(b, 'x')"), "UPDATE t SET a = strpos(b, 'x')");
    }
}
