//! Every row of one snapshot as lines of JSON, and back: what one engine wrote the other reads.
//!
//! One file for each table: the first line names its columns, each further line is a row. Columns are matched by
//! name, so a backup of an older schema goes into a newer one.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::sql::Value;
use crate::{Database, StoreError, Tx, migrations};

#[derive(Serialize, Deserialize)]
struct Header {
    table: String,
    columns: Vec<String>,
}

/// Which schema this version writes.
pub fn schema_version() -> usize {
    migrations::newest()
}

/// Writes `folder/TABLE.jsonl` for each table and says how many rows there were.
pub fn dump(tx: &mut Tx<'_>, folder: &Path) -> Result<u64, StoreError> {
    let mut total = 0;
    for table in migrations::tables() {
        let path = folder.join(format!("{table}.jsonl"));
        let refuse = |error| StoreError::File { path: path.display().to_string(), error };
        let mut file = BufWriter::new(File::create(&path).map_err(refuse)?);
        let columns = columns(tx, &table)?;
        let select = format!("SELECT {} FROM {table}", columns.join(", "));
        writeln!(file, "{}", line(&Header { table, columns })).map_err(refuse)?;
        tx.each(&select, &[], &mut |row| {
            let values: Vec<Json> = row.values().iter().map(to_json).collect();
            total += 1;
            writeln!(file, "{}", line(&values)).map_err(refuse)
        })?;
        file.flush().map_err(refuse)?;
    }
    Ok(total)
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("rows are JSON")
}

/// Whether there is anything that a restore would mix with.
pub fn is_empty(tx: &mut Tx<'_>) -> Result<bool, StoreError> {
    for table in migrations::tables() {
        if tx.one(&format!("SELECT 1 FROM {table} LIMIT 1"), &[])?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Puts every row of the folder in place of what is there, in one transaction.
pub fn load(tx: &mut Tx<'_>, folder: &Path) -> Result<u64, StoreError> {
    let tables = migrations::tables();
    for table in tables.iter().rev() {
        tx.execute(&format!("DELETE FROM {table}"), &[])?;
    }
    let mut total = 0;
    for table in &tables {
        let path = folder.join(format!("{table}.jsonl"));
        // A table that is newer than the backup stays empty.
        if path.exists() {
            total += load_table(tx, table, &path)?;
        }
    }
    let names: Vec<_> = tables.iter().map(String::as_str).collect();
    tx.follow_numbers(&names)?;
    Ok(total)
}

fn load_table(tx: &mut Tx<'_>, table: &str, path: &Path) -> Result<u64, StoreError> {
    let refuse = |error| StoreError::File { path: path.display().to_string(), error };
    let mut lines = BufReader::new(File::open(path).map_err(refuse)?).lines();
    let first = lines.next().transpose().map_err(refuse)?.unwrap_or_default();
    let header: Header = serde_json::from_str(&first).map_err(StoreError::corrupt)?;
    let known = columns(tx, table)?;
    if header.table != table || header.columns.iter().any(|column| !known.contains(column)) {
        return Err(StoreError::corrupt(format!(
            "the backup's table `{}` has columns that `{table}` here has not",
            header.table
        )));
    }
    let places: Vec<_> = (1..=header.columns.len()).map(|place| format!("${place}")).collect();
    let insert =
        format!("INSERT INTO {table} ({}) VALUES ({})", header.columns.join(", "), places.join(", "));
    let mut total = 0;
    for line in lines {
        let row: Vec<Json> = serde_json::from_str(&line.map_err(refuse)?).map_err(StoreError::corrupt)?;
        let values = row.into_iter().map(from_json).collect::<Result<Vec<_>, _>>()?;
        tx.execute(&insert, &values)?;
        total += 1;
    }
    Ok(total)
}

fn columns(tx: &mut Tx<'_>, table: &str) -> Result<Vec<String>, StoreError> {
    let sql = match tx.database() {
        Database::Sqlite => "SELECT name FROM pragma_table_info($1) ORDER BY cid",
        Database::Postgres => {
            "SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 \
             AND NOT attisdropped ORDER BY attnum"
        }
    };
    tx.all(sql, &[table.into()])?.iter().map(|row| row.text(0)).collect()
}

fn to_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Int(number) => (*number).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Blob(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            serde_json::json!({ "hex": hex })
        }
    }
}

fn from_json(value: Json) -> Result<Value, StoreError> {
    Ok(match value {
        Json::Null => Value::Null,
        Json::String(text) => Value::Text(text),
        Json::Number(number) => {
            Value::Int(number.as_i64().ok_or_else(|| StoreError::corrupt("a number is not whole"))?)
        }
        Json::Object(object) => {
            let hex = object.get("hex").and_then(Json::as_str).unwrap_or_default();
            let byte = |index: usize| {
                hex.get(index * 2..index * 2 + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok())
            };
            let bytes: Option<Vec<u8>> = (0..hex.len() / 2).map(byte).collect();
            Value::Blob(bytes.ok_or_else(|| StoreError::corrupt("bytes are not hex"))?)
        }
        other => return Err(StoreError::corrupt(format!("a row holds {other}"))),
    })
}
