//! Changes that travel as one statement.
//!
//! In: changes in their order, whose counts nobody asks about. Out: fewer of them with the same effect: one `INSERT` of many
//! rows for those with the same text, the last one of those that say the same thing anew, and one `WITH` for as many as do not
//! speak of a table that another of them changes. Each statement that is left costs the server a message to read, an answer to
//! send and the client a wake-up, whatever it does.
//!
//! A change joins an earlier one over others between them only where neither speaks of what the other changes. References
//! between tables are not looked at: a change that fails for that is said again by itself, in its place ([`super::session`]).

use super::columns::{Columns, kinds, renumber};
use super::values::Parameter;
use crate::sql::Value;
use crate::touching::Tables;

/// A statement that changes something, with its values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
    /// The row that it changes, where others build on what that was before.
    pub(super) row: Option<String>,
    /// What it says anew, whole.
    pub(super) over: Option<String>,
}

/// As it is sent.
#[derive(Debug, PartialEq)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) values: Vec<Parameter>,
}

/// More would be planned longer than they save.
const TOGETHER_MAX: usize = 8;

/// Changes with one text.
struct Rows {
    change: Change,
    more: Vec<Vec<Value>>,
    named: Tables,
    target: Tables,
}

pub(super) fn together(changes: Vec<Change>) -> Vec<Statement> {
    let mut all: Vec<Rows> = Vec::new();
    for change in changes {
        join(&mut all, change);
    }
    let (mut statements, mut some) = (Vec::new(), Vec::new());
    let mut changed = Tables::default();
    for rows in all {
        // All of them see the tables as they were before: none may need what another did. What cannot be read needs anything.
        let alone = rows.target == Tables::default();
        if !some.is_empty() && (alone || rows.named.meet(changed) || some.len() >= TOGETHER_MAX) {
            statements.push(one_of(std::mem::take(&mut some)));
            changed = Tables::default();
        }
        if alone {
            statements.push(one_of(vec![rows]));
            continue;
        }
        changed.add(rows.target);
        some.push(rows);
    }
    if !some.is_empty() {
        statements.push(one_of(some));
    }
    statements
}

/// Puts a change to an earlier one with its text, or behind all of them.
fn join(all: &mut Vec<Rows>, change: Change) {
    let rows =
        Rows { named: Tables::named_in(&change.sql), target: target(&change.sql), more: Vec::new(), change };
    for before in all.iter_mut().rev() {
        if before.change.sql == rows.change.sql {
            match (&before.change.over, &rows.change.over) {
                (Some(name), Some(other)) if name == other => {
                    before.change = rows.change;
                    return;
                }
                // Something else is said anew: that is another row.
                (Some(_), Some(_)) => continue,
                _ if inserted(&rows.change.sql).is_some()
                    && kinds(&before.change.values) == kinds(&rows.change.values)
                    && rows.change.values.iter().any(|value| *value != Value::Null) =>
                {
                    before.more.push(rows.change.values);
                    return;
                }
                _ => break,
            }
        }
        if before.concerns(&rows) || rows.concerns(before) {
            break;
        }
    }
    all.push(rows);
}

impl Rows {
    /// Whether this changes what the other one speaks of, as far as anybody can say.
    fn concerns(&self, other: &Self) -> bool {
        let unread = self.target == Tables::default();
        unread || self.change.sql.starts_with("DELETE") || self.target.meet(other.named)
    }
}

/// What is before, in and behind the row of an `INSERT` of one row that leaves every other row as it is.
fn inserted(sql: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = sql.split_once(" VALUES (").filter(|_| sql.starts_with("INSERT INTO "))?;
    let (row, behind) = match rest.split_once(") ON CONFLICT ") {
        Some((row, behind)) if behind.ends_with(" DO NOTHING") => (row, &rest[row.len() + 1..]),
        Some(_) => return None,
        None => (rest.strip_suffix(')')?, ""),
    };
    // Several rows, a question or something to give back.
    let plain = |text: &str| !text.contains("SELECT ") && !text.contains("RETURNING");
    (!row.contains("), (") && plain(row) && plain(behind)).then_some((before, row, behind))
}

/// The table that a statement changes.
fn target(sql: &str) -> Tables {
    let after = |word: &str| sql.strip_prefix(word).and_then(|rest| rest.split([' ', '(']).next());
    let table = after("INSERT INTO ").or_else(|| after("UPDATE ")).or_else(|| after("DELETE FROM "));
    table.map(Tables::named_in).unwrap_or_default()
}

fn one_of(mut all: Vec<Rows>) -> Statement {
    let last = all.pop();
    let (mut sql, mut values) = (String::new(), Vec::new());
    for (place, rows) in all.into_iter().enumerate() {
        let comma = if place == 0 { "WITH " } else { ", " };
        sql += &format!("{comma}change{place} AS (");
        rows.write(&mut sql, &mut values);
        sql.push(')');
    }
    if !sql.is_empty() {
        sql.push(' ');
    }
    if let Some(rows) = last {
        rows.write(&mut sql, &mut values);
    }
    Statement { sql, values }
}

impl Rows {
    fn write(self, out: &mut String, values: &mut Vec<Parameter>) {
        let parts = inserted(&self.change.sql).filter(|_| !self.more.is_empty());
        let Some((before, row, behind)) = parts else {
            renumber(out, &self.change.sql, values.len());
            values.extend(self.change.values.into_iter().map(Parameter::One));
            return;
        };
        let rows: Vec<_> =
            std::iter::once(&self.change.values).chain(&self.more).map(Vec::as_slice).collect();
        let columns = Columns::of(&rows, values.len());
        // What numbers itself is numbered in this order.
        let (row, number) = (columns.written(row), Columns::number());
        *out += &format!("{before} SELECT {row} FROM {} ORDER BY {number}{behind}", columns.source);
        values.extend(columns.values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(sql: &str, values: impl IntoIterator<Item = i64>) -> Change {
        let values = values.into_iter().map(Into::into).collect();
        Change { sql: sql.into(), values, row: None, over: None }
    }

    fn over(name: &str, sql: &str, values: impl IntoIterator<Item = i64>) -> Change {
        Change { over: Some(name.into()), ..change(sql, values) }
    }

    fn statement(sql: &str, values: impl IntoIterator<Item = i64>) -> Statement {
        let values = values.into_iter().map(|value| Parameter::One(value.into())).collect();
        Statement { sql: sql.into(), values }
    }

    fn many(values: impl IntoIterator<Item = i64>) -> Parameter {
        Parameter::Many(values.into_iter().map(Into::into).collect())
    }

    const FACT: &str = "INSERT INTO facts (at_ms) VALUES ($1)";
    const HEARD: &str = "UPDATE hooks SET heard_ms = $2 WHERE id = $1";

    #[test]
    fn changes_of_different_tables_are_one_statement() {
        let made = together(vec![
            change(
                "INSERT INTO builds (id, number) SELECT $1, $2 WHERE NOT EXISTS (SELECT 1 FROM build_numbers)",
                [1, 2],
            ),
            change("INSERT INTO build_numbers (last) VALUES ($1) ON CONFLICT (last) DO NOTHING", [3]),
            change(HEARD, [4, 5]),
        ]);
        let expected = "WITH change0 AS (INSERT INTO builds (id, number) SELECT $1, $2 WHERE NOT EXISTS (SELECT 1 FROM build_numbers)), \
             change1 AS (INSERT INTO build_numbers (last) VALUES ($3) ON CONFLICT (last) DO NOTHING) \
             UPDATE hooks SET heard_ms = $5 WHERE id = $4";
        assert_eq!(made, [statement(expected, [1, 2, 3, 4, 5])]);
    }

    #[test]
    fn rows_of_one_text_are_one_statement_and_what_is_said_anew_is_said_once() {
        let inbox = "INSERT INTO inbox (consumer, at_ms) VALUES ($1, 0) ON CONFLICT (consumer) DO NOTHING";
        let of = |number: i64| {
            [
                change(inbox, [number]),
                over("h", HEARD, [9, number]),
                over("i", HEARD, [8, number]),
                change(FACT, [number]),
            ]
        };
        let made = together((1..=3).flat_map(of).collect());
        assert_eq!(made.len(), 2, "a row is changed once by a statement: {made:?}");
        assert!(made[0].sql.starts_with(
            "WITH change0 AS (INSERT INTO inbox (consumer, at_ms) SELECT each_of.p1, 0 FROM unnest($1)"
        ));
        assert_eq!(made[0].values[0], many([1, 2, 3]));
        assert_eq!(made[0].values[1..], [Parameter::One(9.into()), Parameter::One(3.into())]);
        assert!(made[1].sql.contains("INSERT INTO facts (at_ms) SELECT each_of.p1 FROM unnest($3) WITH ORDINALITY AS each_of(p1, n) ORDER BY each_of.n"), "{made:?}");
        assert_eq!(made[1].values, [Parameter::One(8.into()), Parameter::One(3.into()), many([1, 2, 3])]);
    }

    #[test]
    fn rows_that_differ_in_what_is_null_or_that_change_others_stay_apart() {
        let null = Change { values: vec![Value::Null], ..change(FACT, []) };
        let made = together(vec![change(FACT, [1]), null.clone(), null, change(FACT, [2])]);
        assert_eq!(made.len(), 4, "{made:?}");
        let upsert =
            "INSERT INTO cursors (seq) VALUES ($1) ON CONFLICT (seq) DO UPDATE SET seq = excluded.seq";
        assert_eq!(together(vec![change(upsert, [1]), change(upsert, [2])]).len(), 2);
        let numbered = "INSERT INTO builds (number) SELECT 1 + max(number) FROM builds WHERE pipeline = $1";
        assert_eq!(together(vec![change(numbered, [1]), change(numbered, [1])]).len(), 2);
    }

    #[test]
    fn what_needs_the_change_before_it_comes_after_it() {
        let made = together(vec![
            change(FACT, [1]),
            change("UPDATE cursors SET seq = (SELECT max(seq) FROM facts)", []),
            change(FACT, [2]),
            change("INSERT INTO inbox (at_ms) VALUES ($1)", [3]),
        ]);
        assert_eq!(made.len(), 2, "{made:?}");
        assert_eq!(made[0], statement(FACT, [1]), "the one behind the question does not come before it");
        assert!(made[1].sql.starts_with("WITH change0 AS (UPDATE cursors"), "{:?}", made[1]);
        let seen = "UPDATE cursors SET seq = $1";
        let made = together(vec![
            over("a", seen, [1]),
            change("DELETE FROM hooks WHERE id = $1", [1]),
            over("a", seen, [2]),
        ]);
        assert_eq!(made.iter().filter(|one| one.sql.contains("UPDATE cursors")).count(), 2, "{made:?}");
    }

    #[test]
    fn a_statement_of_no_known_table_stays_alone() {
        let made =
            together(vec![change(FACT, [1]), change("UPDATE elsewhere SET a = $1", [2]), change(FACT, [3])]);
        assert_eq!(made.len(), 3, "{made:?}");
    }
}
