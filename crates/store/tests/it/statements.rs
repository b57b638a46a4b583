//! Every SQL text of the room is prepared by both engines on the real schema.
//!
//! A statement that only one of them understands, or whose parameter PostgreSQL takes for a type that the room never
//! sends (`substr(uri, 1, $1)` wants a 32-bit number), fails here without anybody having to think of a test for it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use postgres::types::Type;
use slipway_store::Store;
use slipway_testkit::postgres as engine;

use crate::engines::{On, open};

/// What stands in a statement for a piece that is put together when it runs.
const PIECES: &[(&str, &str)] = &[
    // Of another file of its module.
    ("{BUILD}", "SELECT id, account, pipeline, order_body, steps, queue_rank, created_ms FROM builds"),
    ("{TAKEN}", "status IN ('elected', 'running', 'terminating', 'pending-approval')"),
    ("WHERE {condition}", "WHERE 1 = 1"),
    ("{condition}", ""),
    ("{column}", "left_ms"),
    ("{bare}", " OR name NOT LIKE '%/%'"),
    ("{length}", "3"),
    ("{places}", "($2, $3), ($4, $5)"),
    (
        "(runtime, namespace, name) IN (VALUES {named})",
        "(runtime, namespace, name) IN (VALUES ($2, $3, $4), ($5, $6, $7))",
    ),
    ("{named}", "($3, $4, $5), ($6, $7, $8)"),
    ("{rows}", "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"),
    ("{newest}", "1 = 1"),
    ("{order}", "DESC"),
    ("{page}", "LIMIT 20"),
    ("{most}", "10000"),
    ("{BATCH}", "100"),
];

struct Found {
    place: String,
    sql: String,
}

fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                // PostgreSQL's own session speaks to the server in its own words.
                if !path.ends_with("postgres") {
                    folders.push(path);
                }
            } else if !["sqlite.rs", "services.rs", "tests.rs", "backup.rs", "database.rs"]
                .contains(&path.file_name().unwrap().to_str().unwrap())
            {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// String literals of a Rust file with the lines they begin in, as the compiler reads them.
fn literals(text: &str) -> Vec<(usize, String)> {
    let (mut found, mut rest, mut line) = (Vec::new(), text.chars().peekable(), 1);
    while let Some(character) = rest.next() {
        match character {
            '\n' => line += 1,
            '/' if rest.peek() == Some(&'/') => while rest.next_if(|next| *next != '\n').is_some() {},
            '\'' => {
                // A character, or a lifetime, which has no end.
                let mut ahead = rest.clone();
                let first = ahead.next();
                if first == Some('\\') || ahead.next() == Some('\'') {
                    if rest.next() == Some('\\') {
                        rest.next();
                    }
                    while rest.next().is_some_and(|next| next != '\'') {}
                }
            }
            '"' => {
                let (began, mut literal) = (line, String::new());
                while let Some(next) = rest.next() {
                    match next {
                        '"' => break,
                        '\\' => match rest.next() {
                            Some('\n') => {
                                line += 1;
                                while rest.next_if(|next| next.is_whitespace()).is_some_and(|next| {
                                    line += usize::from(next == '\n');
                                    true
                                }) {}
                            }
                            Some('n') => literal.push('\n'),
                            Some(other) => literal.push(other),
                            None => {}
                        },
                        '\n' => {
                            line += 1;
                            literal.push('\n');
                        }
                        other => literal.push(other),
                    }
                }
                found.push((began, literal));
            }
            _ => {}
        }
    }
    found
}

fn is_sql(text: &str) -> bool {
    ["SELECT ", "INSERT INTO ", "UPDATE ", "DELETE FROM ", "WITH "].iter().any(|word| text.starts_with(word))
}

fn statements() -> Vec<Found> {
    let mut found = Vec::new();
    for file in sources() {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        let mut consts: BTreeMap<String, String> = BTreeMap::new();
        for (at, _) in code.match_indices("const ") {
            let name: String = code[at + 6..].chars().take_while(|letter| *letter != ':').collect();
            let declared = &code[at..];
            if declared[..declared.find('=').unwrap_or(0)].contains("&str")
                && let Some((_, value)) = literals(&declared[..declared.find(";\n").unwrap_or(0)]).pop()
            {
                consts.insert(format!("{{{name}}}"), value);
            }
        }
        let name = file.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().display().to_string();
        for (line, literal) in literals(code) {
            let mut sql = literal;
            for (piece, value) in consts
                .iter()
                .map(|(piece, value)| (piece.as_str(), value.as_str()))
                .chain(PIECES.iter().copied())
            {
                sql = sql.replace(piece, value);
            }
            if !is_sql(&sql) {
                continue;
            }
            // One statement for each table of a list; a backup's tables are all of them, and have tests of their own.
            for table in
                if sql.contains("{table}") { &["event_triggers", "trigger_events"][..] } else { &[""] }
            {
                found.push(Found { place: format!("{name}:{line}"), sql: sql.replace("{table}", table) });
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_statement_is_one_for_both_engines() {
    let url = engine::shared().database();
    let folder = tempfile::tempdir().unwrap();
    Store::connect(&url.parse().unwrap()).unwrap().close();
    open(On::Sqlite, folder.path()).close();
    let sqlite = rusqlite::Connection::open(folder.path().join("slipway.db")).unwrap();
    let found = statements();
    assert!(found.len() > 250, "only {} statements were found in the sources", found.len());
    let wrong = tokio::task::spawn_blocking(move || {
        let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
        let path: String = client
            .query("SELECT DISTINCT table_schema::text FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema')", &[])
            .unwrap()
            .iter()
            .map(|row| row.get::<_, String>(0))
            .collect::<Vec<_>>()
            .join(", ");
        client.batch_execute(&format!("SET search_path = {path}")).unwrap();
        let mut wrong = Vec::new();
        for Found { place, sql } in &found {
            if let Some(left) = sql.split('{').nth(1) {
                wrong.push(format!("{place}: say in PIECES what stands for `{{{left}`"));
                continue;
            }
            if let Err(error) = sqlite.prepare(sql) {
                wrong.push(format!("{place}: SQLite: {error}\n    {sql}"));
            }
            if let Err(why) = prepared(&mut client, sql) {
                wrong.push(format!("{place}: PostgreSQL: {why}\n    {sql}"));
            }
        }
        wrong
    });
    let wrong = wrong.await.unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Values are text, 64-bit numbers and bytes: what PostgreSQL takes a parameter for must be one of them. Where a null may
/// come (`$2 IS NULL OR …`), the room writes it into the text, so that the question never reaches the server with a place.
fn prepared(client: &mut postgres::Client, sql: &str) -> Result<(), String> {
    let pieces: Vec<_> = sql.split(" IS NULL OR ").collect();
    let asked: Vec<_> = pieces[..pieces.len() - 1]
        .iter()
        .map(|piece| {
            piece
                .trim_end_matches(|letter: char| letter.is_ascii_digit())
                .strip_suffix('$')
                .map_or_else(|| format!("{piece} IS NULL"), |before| format!("{before}1 = 0"))
        })
        .chain(pieces.last().map(ToString::to_string))
        .collect();
    let statement = client.prepare(&asked.join(" OR ")).map_err(|error| {
        error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
    })?;
    for (number, kind) in (1..).zip(statement.params()) {
        if ![Type::TEXT, Type::INT8, Type::BYTEA].contains(kind) {
            return Err(format!(
                "${number} is taken for {kind}, which the room never sends: cast it, CAST(${number} AS …)"
            ));
        }
    }
    Ok(())
}
