//! Statements that go over several rows of values.
//!
//! In: a text of the room and values for its places, more than once. Out: what stands in its `FROM`, one array for each place, and
//! what stands in the text for each place then. However many rows there are, the text is one, is prepared once and travels as
//! one message.

use super::values::{Parameter, Sent};
use crate::sql::Value;

/// What rows are called.
const ROW: &str = "each_of";

pub(super) struct Columns {
    /// `unnest($1, $2) WITH ORDINALITY AS each_of(p1, p2, n)`
    pub(super) source: String,
    /// One array for each place that is not null.
    pub(super) values: Vec<Parameter>,
    places: Vec<Option<String>>,
}

/// What tells apart rows that cannot go together.
pub(super) fn kinds(values: &[Value]) -> Vec<u8> {
    values.iter().map(Sent::letter).collect()
}

impl Columns {
    /// Of rows of one kind, in which something is not null. `before`: how many places of the whole text are taken.
    pub(super) fn of(rows: &[&[Value]], before: usize) -> Self {
        let (mut arrays, mut names, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let mut places = Vec::new();
        for (place, first) in rows[0].iter().enumerate() {
            if *first == Value::Null {
                places.push(None);
                continue;
            }
            values.push(Parameter::Many(rows.iter().map(|row| row[place].clone()).collect()));
            arrays.push(format!("${}", before + values.len()));
            names.push(format!("p{}", place + 1));
            places.push(Some(format!("{ROW}.p{}", place + 1)));
        }
        let (arrays, names) = (arrays.join(", "), names.join(", "));
        let source = format!("unnest({arrays}) WITH ORDINALITY AS {ROW}({names}, n)");
        Self { source, values, places }
    }

    /// Which row it is, from 1.
    pub(super) fn number() -> String {
        format!("{ROW}.n")
    }

    /// The text with columns in the places of values.
    pub(super) fn written(&self, sql: &str) -> String {
        let mut out = String::new();
        placed(&mut out, sql, |number| {
            let place = number.checked_sub(1).and_then(|place| self.places.get(place));
            place.map_or_else(|| format!("${number}"), |place| place.as_deref().unwrap_or("NULL").to_owned())
        });
        out
    }
}

/// The text with something else in the place of `$1`, `$2` and so on. No literal of the room holds a `$` (decision 1).
pub(super) fn placed(out: &mut String, sql: &str, place: impl Fn(usize) -> String) {
    let mut pieces = sql.split('$');
    out.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let digits = piece.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(piece.len());
        let (number, rest) = piece.split_at(digits);
        match number.parse() {
            Ok(number) => out.push_str(&place(number)),
            Err(_) => {
                out.push('$');
                out.push_str(number);
            }
        }
        out.push_str(rest);
    }
}

/// `$1` becomes `$(1 + by)`.
pub(super) fn renumber(out: &mut String, sql: &str, by: usize) {
    placed(out, sql, |number| format!("${}", number + by));
}
