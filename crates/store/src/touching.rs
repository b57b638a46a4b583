//! Which tables a statement speaks of, by its text: what tells whether an answer that was asked for ahead is still true, and
//! which changes may travel as one statement.
//!
//! In: SQL of this room. Out: a set of tables. It errs on the safe side: a table that is only read counts as spoken of, and
//! what is deleted may take rows of every other table with it.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use crate::services::{OUTBOX_TABLES, Service};
use crate::session::Ask;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tables(u128);

impl Tables {
    const ALL: Self = Self(u128::MAX);

    /// The texts of the room are few, and each is asked about at every use.
    pub(crate) fn named_in(sql: &str) -> Self {
        const KEPT_MAX: usize = 2_000;
        thread_local! {
            static KNOWN: RefCell<HashMap<String, Tables>> = RefCell::default();
        }
        KNOWN.with_borrow_mut(|known| {
            if let Some(tables) = known.get(sql) {
                return *tables;
            }
            if known.len() >= KEPT_MAX {
                known.clear();
            }
            let tables = Self::read(sql);
            known.insert(sql.to_owned(), tables);
            tables
        })
    }

    fn read(sql: &str) -> Self {
        static BITS: OnceLock<HashMap<&'static str, u128>> = OnceLock::new();
        let bits = BITS.get_or_init(|| {
            let all = Service::ALL.iter().flat_map(|service| service.tables()).chain(&OUTBOX_TABLES);
            all.enumerate().map(|(place, table)| (*table, 1 << place)).collect()
        });
        let words = sql.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        Self(words.filter_map(|word| bits.get(word)).fold(0, |all, bit| all | bit))
    }

    pub(crate) fn meet(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Whether a statement changes something.
pub(crate) fn is_change(sql: &str) -> bool {
    ["INSERT", "UPDATE", "DELETE"].iter().any(|word| sql.starts_with(word))
}

/// What changed since answers were asked for.
#[derive(Debug, Default)]
pub(crate) struct Spoilt {
    tables: Tables,
    /// Tables of which only rows with these keys changed.
    of_rows: Tables,
    rows: HashSet<String>,
}

impl Spoilt {
    pub(crate) fn by(&mut self, sql: &str, row: Option<&str>) {
        match row {
            // Rows of other tables may refer to it.
            _ if sql.starts_with("DELETE") => self.tables = Tables::ALL,
            Some(row) => {
                self.of_rows.add(Tables::named_in(sql));
                self.rows.insert(row.to_owned());
            }
            None => self.tables.add(Tables::named_in(sql)),
        }
    }

    /// Whether an answer from before is still true.
    pub(crate) fn spares(&self, ask: &Ask) -> bool {
        let asked = Tables::named_in(&ask.sql);
        match &ask.row {
            Some(row) => !self.tables.meet(asked) && !self.rows.contains(row),
            None => !self.tables.meet(asked) && !self.of_rows.meet(asked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_true_until_a_table_that_it_speaks_of_changes() {
        let ask = |sql: &str| Ask::new(sql, []);
        let mut spoilt = Spoilt::default();
        spoilt.by("INSERT INTO builds (id) SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM build_numbers)", None);
        assert!(spoilt.spares(&ask("SELECT body FROM pipelines WHERE name = $1")));
        assert!(spoilt.spares(&ask("SELECT 1")), "it speaks of no table");
        assert!(!spoilt.spares(&ask("SELECT 1 FROM pipelines JOIN builds ON 1 = 1")));
        spoilt.by("DELETE FROM hook_refs WHERE hook = $1", None);
        assert!(!spoilt.spares(&ask("SELECT body FROM pipelines")), "what goes may take others with it");
    }

    #[test]
    fn an_answer_about_one_row_outlives_changes_of_others() {
        let one = |row: &str| Ask::new("SELECT message FROM inbox WHERE message = $1", []).of_row(row);
        let mut spoilt = Spoilt::default();
        spoilt.by("INSERT INTO inbox (message) VALUES ($1)", Some("inbox/a"));
        assert!(spoilt.spares(&one("inbox/b")) && !spoilt.spares(&one("inbox/a")));
        assert!(!spoilt.spares(&Ask::new("SELECT count(*) FROM inbox", [])), "it may be about that row");
        spoilt.by("UPDATE inbox SET at_ms = $1", None);
        assert!(!spoilt.spares(&one("inbox/b")));
    }
}
