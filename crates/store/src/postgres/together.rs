//! Changes that travel as one statement.
//!
//! In: changes in their order, whose counts nobody asks about. Out: fewer of them with the same effect: one `WITH` for as many
//! as do not speak of a table that another of them changes. Each statement that is left costs the server a message to read, an
//! answer to send and the client a wake-up, whatever it does.

use crate::sql::Value;
use crate::touching::Tables;

/// A statement that changes something, with its values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
    /// The row that it changes, where others build on what that was before.
    pub(super) row: Option<String>,
}

/// More would be planned longer than they save.
const TOGETHER_MAX: usize = 8;

pub(super) fn together(changes: Vec<Change>) -> Vec<Change> {
    let (mut all, mut some) = (Vec::new(), Vec::new());
    let mut changed = Tables::default();
    for change in changes {
        let (named, target) = (Tables::named_in(&change.sql), target(&change.sql));
        // All of them see the tables as they were before: none may need what another did. What cannot be read needs anything.
        let alone = target == Tables::default();
        if !some.is_empty() && (alone || named.meet(changed) || some.len() >= TOGETHER_MAX) {
            all.push(one_of(std::mem::take(&mut some)));
            changed = Tables::default();
        }
        if alone {
            all.push(change);
            continue;
        }
        changed.add(target);
        some.push(change);
    }
    if !some.is_empty() {
        all.push(one_of(some));
    }
    all
}

/// The table that a statement changes.
fn target(sql: &str) -> Tables {
    let after = |word: &str| sql.strip_prefix(word).and_then(|rest| rest.split([' ', '(']).next());
    let table = after("INSERT INTO ").or_else(|| after("UPDATE ")).or_else(|| after("DELETE FROM "));
    table.map(Tables::named_in).unwrap_or_default()
}

fn one_of(mut changes: Vec<Change>) -> Change {
    let Some(last) = changes.pop() else {
        return Change { sql: String::new(), values: Vec::new(), row: None };
    };
    if changes.is_empty() {
        return last;
    }
    let (mut sql, mut values) = (String::from("WITH "), Vec::new());
    for (place, change) in changes.into_iter().enumerate() {
        let comma = if place == 0 { "" } else { ", " };
        sql += &format!("{comma}change{place} AS (");
        renumber(&mut sql, &change.sql, values.len());
        sql.push(')');
        values.extend(change.values);
    }
    sql.push(' ');
    renumber(&mut sql, &last.sql, values.len());
    values.extend(last.values);
    Change { sql, values, row: None }
}

/// `$1` becomes `$(1 + by)`. No literal of the room holds a `$` (decision 1).
pub(super) fn renumber(out: &mut String, sql: &str, by: usize) {
    let mut pieces = sql.split('$');
    out.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let digits = piece.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(piece.len());
        let (number, rest) = piece.split_at(digits);
        let number = number.parse::<usize>().map_or_else(|_| number.to_owned(), |it| (it + by).to_string());
        out.push('$');
        out.push_str(&number);
        out.push_str(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(sql: &str, values: impl IntoIterator<Item = i64>) -> Change {
        Change { sql: sql.into(), values: values.into_iter().map(Into::into).collect(), row: None }
    }

    #[test]
    fn changes_of_different_tables_are_one_statement() {
        let made = together(vec![
            change(
                "INSERT INTO builds (id, number) SELECT $1, $2 WHERE NOT EXISTS (SELECT 1 FROM build_numbers)",
                [1, 2],
            ),
            change("INSERT INTO build_numbers (last) VALUES ($1) ON CONFLICT (last) DO NOTHING", [3]),
            change("UPDATE hooks SET heard_ms = $2 WHERE id = $1", [4, 5]),
        ]);
        let expected = "WITH change0 AS (INSERT INTO builds (id, number) SELECT $1, $2 WHERE NOT EXISTS (SELECT 1 FROM build_numbers)), \
             change1 AS (INSERT INTO build_numbers (last) VALUES ($3) ON CONFLICT (last) DO NOTHING) \
             UPDATE hooks SET heard_ms = $5 WHERE id = $4";
        assert_eq!(made, [change(expected, [1, 2, 3, 4, 5])]);
    }

    #[test]
    fn what_needs_the_change_before_it_comes_after_it() {
        let changes = vec![
            change("INSERT INTO facts (at_ms) VALUES ($1)", [1]),
            change("INSERT INTO facts (at_ms) VALUES ($1)", [2]),
            change("UPDATE cursors SET seq = (SELECT max(seq) FROM facts)", []),
            change("INSERT INTO inbox (at_ms) VALUES ($1)", [3]),
        ];
        let made = together(changes.clone());
        assert_eq!(made.len(), 3);
        assert_eq!(made[..2], changes[..2]);
        assert!(made[2].sql.starts_with("WITH change0 AS (UPDATE cursors"), "{:?}", made[2]);
        let many =
            (0..20).map(|at| change("INSERT INTO facts (at_ms) VALUES ($1)", [at])).collect::<Vec<_>>();
        assert_eq!(together(many.clone()), many);
    }

    #[test]
    fn a_statement_of_no_known_table_stays_alone() {
        let made = together(vec![
            change("INSERT INTO facts (at_ms) VALUES ($1)", [1]),
            change("UPDATE elsewhere SET a = $1", [2]),
            change("INSERT INTO inbox (at_ms) VALUES ($1)", [3]),
        ]);
        assert_eq!(made.len(), 3, "{made:?}");
    }
}
