//! The schema's history, written once for both engines.
//!
//! The files are SQL as SQLite reads it, in the words that [`crate::postgres`] translates: `INTEGER`, `TEXT`,
//! `BLOB`, `INTEGER PRIMARY KEY AUTOINCREMENT`, `instr`, constraints, plain and partial indexes. A file that has been
//! released is never edited.

use crate::StoreError;

/// By the number in each file's name, which is the version it gives. Numbers may leave gaps; they only rise.
pub(crate) const ALL: &[(usize, &str)] = &[
    (1, include_str!("../migrations/0001_skeleton.sql")),
    (2, include_str!("../migrations/0002_control_plane.sql")),
    (3, include_str!("../migrations/0003_bus.sql")),
    (4, include_str!("../migrations/0004_members_and_groups.sql")),
    (10, include_str!("../migrations/0010_pipelines.sql")),
    (14, include_str!("../migrations/0014_images_and_step_types.sql")),
    (15, include_str!("../migrations/0015_queue_indexes.sql")),
    (16, include_str!("../migrations/0016_counted_builds.sql")),
    (17, include_str!("../migrations/0017_debugging.sql")),
    (18, include_str!("../migrations/0018_agents_run_builds.sql")),
    (19, include_str!("../migrations/0019_who_vouches.sql")),
    (20, include_str!("../migrations/0020_build_numbers.sql")),
    (21, include_str!("../migrations/0021_deferred.sql")),
    (22, include_str!("../migrations/0022_application_rows.sql")),
    (23, include_str!("../migrations/0023_single_writer.sql")),
    (30, include_str!("../migrations/0030_entities.sql")),
    (31, include_str!("../migrations/0031_found_builds.sql")),
    (35, include_str!("../migrations/0035_runtimes.sql")),
    (37, include_str!("../migrations/0037_report_shares.sql")),
    (41, include_str!("../migrations/0041_runtime_health.sql")),
    (44, include_str!("../migrations/0044_errands.sql")),
];

/// The version of a database that all of them were run on.
pub(crate) fn newest() -> usize {
    ALL.last().map_or(0, |(version, _)| *version)
}

/// What is left to do on a database at version `found`: the version each gives, and its SQL.
pub(crate) fn after(found: i64) -> Result<impl Iterator<Item = (usize, &'static str)>, StoreError> {
    let known = i64::try_from(newest()).expect("few migrations");
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    let done = usize::try_from(found).unwrap_or(0);
    Ok(ALL.iter().filter(move |(version, _)| *version > done).copied())
}

/// Statements without comments, split at `;` outside of quotes.
pub(crate) fn statements(sql: &str) -> Vec<String> {
    let (mut statements, mut current, mut quoted) = (Vec::new(), String::new(), false);
    for line in sql.lines().map(|line| line.split_once("--").map_or(line, |(code, _)| code)) {
        for character in line.chars() {
            quoted ^= character == '\'';
            if character == ';' && !quoted {
                statements.push(std::mem::take(&mut current));
            } else {
                current.push(character);
            }
        }
        current.push('\n');
    }
    statements.push(current);
    statements.into_iter().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect()
}

/// Every table in the order in which they were made: none refers to a later one.
pub(crate) fn tables() -> Vec<String> {
    let mut tables = Vec::new();
    for statement in ALL.iter().flat_map(|(_, sql)| statements(sql)) {
        let words: Vec<_> = statement.split([' ', '\n', '(']).filter(|word| !word.is_empty()).collect();
        match words[..] {
            ["CREATE", "TABLE", "IF", "NOT", "EXISTS", name, ..] | ["CREATE", "TABLE", name, ..] => {
                tables.push(name.to_owned());
            }
            ["DROP", "TABLE", name, ..] => tables.retain(|table| table != name),
            ["ALTER", "TABLE", old, "RENAME", "TO", new, ..] => {
                for table in tables.iter_mut().filter(|table| *table == old) {
                    new.clone_into(table);
                }
            }
            _ => {}
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_split_into_statements_and_tables_listed_in_their_order() {
        let split = statements("CREATE TABLE a (x TEXT DEFAULT 'b;c'); -- d; e\nCREATE INDEX f ON a (x);\n");
        assert_eq!(split, ["CREATE TABLE a (x TEXT DEFAULT 'b;c')", "CREATE INDEX f ON a (x)"]);
        assert!(ALL.is_sorted_by(|(before, _), (after, _)| before < after), "numbers rise");
        let tables = tables();
        let at = |name: &str| tables.iter().position(|table| table == name).unwrap();
        assert!(at("accounts") < at("users") && at("builds") < at("log_chunks"));
    }
}
