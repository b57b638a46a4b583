//! Questions that travel as one statement.
//!
//! In: questions that do not depend on each other's answers, with the types of their columns. Out: one `UNION ALL` of them whose
//! rows say which question they answer, and how to read those. Questions that differ in their values alone are one part of it,
//! however many they are. One statement is one message each way and a snapshot by itself: asked one by one, each is two messages
//! and a wake-up, and a transaction has to hold them together.
//!
//! Columns travel as text, because the questions of a union have to agree on their types.

use std::borrow::Borrow;
use std::collections::HashMap;

use postgres::types::Type;

use super::columns::{Columns, kinds, renumber};
use super::values::Parameter;
use crate::StoreError;
use crate::session::Ask;
use crate::sql::{Row, Value};

/// More would be planned longer than they save.
pub(super) const TOGETHER_MAX: usize = 6;

/// Questions with one text.
pub(super) struct Part {
    pub(super) columns: Vec<Type>,
    pub(super) count: usize,
}

pub(super) fn count(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.count).sum()
}

/// By their places, those together that differ in their values alone.
pub(super) fn families(asks: &[impl Borrow<Ask>]) -> Vec<Vec<usize>> {
    let mut families: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<(&str, Vec<u8>), usize> = HashMap::new();
    for (place, ask) in asks.iter().enumerate() {
        let ask = ask.borrow();
        let next = families.len();
        // What has no value has nothing to differ in.
        let family = match ask.values.iter().any(|value| *value != Value::Null) {
            true => *known.entry((&ask.sql, kinds(&ask.values))).or_insert(next),
            false => next,
        };
        match families.get_mut(family) {
            Some(family) => family.push(place),
            None => families.push(vec![place]),
        }
    }
    families
}

/// The text and values of several families of questions as one.
pub(super) fn united(families: &[Vec<&Ask>], parts: &[Part]) -> (String, Vec<Parameter>) {
    let widest = parts.iter().map(|part| part.columns.len()).max().unwrap_or(0);
    let (mut sql, mut values) = (String::new(), Vec::new());
    for (place, (family, part)) in families.iter().zip(parts).enumerate() {
        if place > 0 {
            sql += " UNION ALL ";
        }
        let names: Vec<_> = (0..part.columns.len()).map(|column| format!("c{column}")).collect();
        let number = if family.len() == 1 { "1::bigint".to_owned() } else { Columns::number() };
        sql += &format!("SELECT {place}::bigint, {number}");
        for column in 0..widest {
            sql += &names.get(column).map_or(", NULL::text".to_owned(), |name| format!(", {name}::text"));
        }
        let ask = family[0];
        if family.len() == 1 {
            sql += " FROM (";
            renumber(&mut sql, &ask.sql, values.len());
            values.extend(ask.values.iter().cloned().map(Parameter::One));
        } else {
            let rows: Vec<_> = family.iter().map(|ask| ask.values.as_slice()).collect();
            let columns = Columns::of(&rows, values.len());
            sql += &format!(" FROM {}, LATERAL ({}", columns.source, columns.written(&ask.sql));
            values.extend(columns.values);
        }
        sql += &format!(") AS q{place}({})", names.join(", "));
    }
    (sql, values)
}

/// Which question a row answers, and the row as it would have been.
pub(super) fn answer(row: &Row, parts: &[Part]) -> Result<(usize, Row), StoreError> {
    let place = usize::try_from(row.int(0)?).map_err(StoreError::corrupt)?;
    let number = usize::try_from(row.int(1)? - 1).map_err(StoreError::corrupt)?;
    let part = parts.get(place).ok_or_else(|| StoreError::corrupt("an answer to no question"))?;
    let values = row.values().iter().skip(2).zip(&part.columns);
    let values = values.map(|(value, kind)| read(value, kind)).collect::<Result<_, _>>()?;
    Ok((count(&parts[..place]) + number, Row::new(values)))
}

fn read(value: &Value, kind: &Type) -> Result<Value, StoreError> {
    let Value::Text(text) = value else { return Ok(Value::Null) };
    Ok(match *kind {
        Type::INT2 | Type::INT4 | Type::INT8 | Type::NUMERIC => {
            Value::Int(text.parse().map_err(StoreError::corrupt)?)
        }
        Type::BOOL => Value::Int((text == "true").into()),
        Type::BYTEA => {
            let digits =
                text.strip_prefix("\\x").ok_or_else(|| StoreError::corrupt("bytes without `\\x`"))?;
            Value::Blob(bytes(digits).ok_or_else(|| StoreError::corrupt("bytes that are not hexadecimal"))?)
        }
        _ => Value::Text(text.clone()),
    })
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_become_one_and_answers_find_their_way_back() {
        let asks = [
            Ask::new("SELECT a, b FROM t WHERE c = $1 AND d = $2 ORDER BY a LIMIT 3", ["x".into(), 2.into()]),
            Ask::new("SELECT count(*) FROM u WHERE e = $1", ["y".into()]),
        ];
        let parts = [
            Part { columns: vec![Type::TEXT, Type::BYTEA], count: 1 },
            Part { columns: vec![Type::INT8], count: 1 },
        ];
        let (sql, values) = united(&[vec![&asks[0]], vec![&asks[1]]], &parts);
        assert_eq!(
            sql,
            "SELECT 0::bigint, 1::bigint, c0::text, c1::text FROM (SELECT a, b FROM t WHERE c = $1 AND d = $2 ORDER BY a LIMIT 3) \
             AS q0(c0, c1) UNION ALL SELECT 1::bigint, 1::bigint, c0::text, NULL::text FROM (SELECT count(*) FROM u WHERE e = $3) AS q1(c0)"
        );
        let one = |value: Value| Parameter::One(value);
        assert_eq!(values, [one("x".into()), one(2.into()), one("y".into())]);
        let text = |text: &str| Value::Text(text.into());
        let first = Row::new(vec![0.into(), 1.into(), text("a"), text("\\x00ff")]);
        let (place, row) = answer(&first, &parts).unwrap();
        assert_eq!((place, row.values()), (0, &[text("a"), Value::Blob(vec![0, 255])][..]));
        let (place, row) =
            answer(&Row::new(vec![1.into(), 1.into(), text("41"), Value::Null]), &parts).unwrap();
        assert_eq!((place, row.values()), (1, &[Value::Int(41)][..]));
        let none = Row::new(vec![0.into(), 1.into(), Value::Null, Value::Null]);
        assert_eq!(answer(&none, &parts).unwrap().1.values(), &[Value::Null, Value::Null][..]);
        assert!(answer(&Row::new(vec![7.into(), 1.into()]), &parts).is_err());
    }

    #[test]
    fn questions_that_differ_in_values_alone_are_one_part_however_many_they_are() {
        let inbox = |number: i64| {
            Ask::new("SELECT m FROM inbox WHERE c = $1 AND m = $2", ["c".into(), number.into()])
        };
        let other = Ask::new("SELECT 1 FROM t WHERE a = $1 AND b = $2", [Value::Null, "b".into()]);
        let same = Ask::new(other.sql.clone(), ["a".into(), "b".into()]);
        let clock = Ask::new("SELECT now()", []);
        let asks = [inbox(1), clock.clone(), other.clone(), inbox(2), same, clock, inbox(3)];
        let families = families(&asks);
        assert_eq!(families, [vec![0, 3, 6], vec![1], vec![2], vec![4], vec![5]]);
        let parts = [
            Part { columns: vec![Type::TEXT], count: 1 },
            Part { columns: vec![Type::TEXT], count: 3 },
            Part { columns: vec![Type::INT4], count: 1 },
        ];
        let (sql, values) =
            united(&[vec![&asks[1]], vec![&asks[0], &asks[3], &asks[6]], vec![&other]], &parts);
        assert_eq!(
            sql,
            "SELECT 0::bigint, 1::bigint, c0::text FROM (SELECT now()) AS q0(c0) \
             UNION ALL SELECT 1::bigint, each_of.n, c0::text FROM unnest($1, $2) WITH ORDINALITY AS each_of(p1, p2, n), \
             LATERAL (SELECT m FROM inbox WHERE c = each_of.p1 AND m = each_of.p2) AS q1(c0) \
             UNION ALL SELECT 2::bigint, 1::bigint, c0::text FROM (SELECT 1 FROM t WHERE a = $3 AND b = $4) AS q2(c0)"
        );
        assert_eq!(values[1], Parameter::Many(vec![1.into(), 2.into(), 3.into()]));
        let of = |part: i64, number: i64| {
            answer(&Row::new(vec![part.into(), number.into(), "1".into()]), &parts).unwrap().0
        };
        assert_eq!([of(0, 1), of(1, 1), of(1, 3), of(2, 1)], [0, 1, 3, 4]);
    }
}
