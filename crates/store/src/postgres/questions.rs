//! Questions that travel as one statement.
//!
//! In: questions that do not depend on each other's answers, with the types of their columns. Out: one `UNION ALL` of them whose
//! rows say which question they answer, and how to read those. One statement is one message each way and a snapshot by itself:
//! asked one by one, each is two messages and a wake-up, and a transaction has to hold them together.
//!
//! Columns travel as text, because the questions of a union have to agree on their types.

use std::borrow::Borrow;

use postgres::types::Type;

use super::together::renumber;
use crate::StoreError;
use crate::session::Ask;
use crate::sql::{Row, Value};

/// More would be planned longer than they save.
pub(super) const TOGETHER_MAX: usize = 6;

/// The text and values of several questions as one.
pub(super) fn united(asks: &[impl Borrow<Ask>], columns: &[Vec<Type>]) -> (String, Vec<Value>) {
    let widest = columns.iter().map(Vec::len).max().unwrap_or(0);
    let (mut sql, mut values) = (String::new(), Vec::new());
    for (place, (ask, columns)) in asks.iter().zip(columns).enumerate() {
        let ask = ask.borrow();
        if place > 0 {
            sql += " UNION ALL ";
        }
        let names: Vec<_> = (0..columns.len()).map(|column| format!("c{column}")).collect();
        sql += &format!("SELECT {place}::bigint");
        for column in 0..widest {
            sql += &names.get(column).map_or(", NULL::text".to_owned(), |name| format!(", {name}::text"));
        }
        sql += " FROM (";
        renumber(&mut sql, &ask.sql, values.len());
        sql += &format!(") AS q{place}({})", names.join(", "));
        values.extend(ask.values.iter().cloned());
    }
    (sql, values)
}

/// Which question a row answers, and the row as it would have been.
pub(super) fn answer(row: &Row, columns: &[Vec<Type>]) -> Result<(usize, Row), StoreError> {
    let place = usize::try_from(row.int(0)?).map_err(StoreError::corrupt)?;
    let kinds = columns.get(place).ok_or_else(|| StoreError::corrupt("an answer to no question"))?;
    let values = row.values().iter().skip(1).zip(kinds);
    let values = values.map(|(value, kind)| read(value, kind)).collect::<Result<_, _>>()?;
    Ok((place, Row::new(values)))
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
        let columns = [vec![Type::TEXT, Type::BYTEA], vec![Type::INT8]];
        let (sql, values) = united(&asks, &columns);
        assert_eq!(
            sql,
            "SELECT 0::bigint, c0::text, c1::text FROM (SELECT a, b FROM t WHERE c = $1 AND d = $2 ORDER BY a LIMIT 3) \
             AS q0(c0, c1) UNION ALL SELECT 1::bigint, c0::text, NULL::text FROM (SELECT count(*) FROM u WHERE e = $3) AS q1(c0)"
        );
        assert_eq!(values, ["x".into(), 2.into(), Value::from("y")]);
        let text = |text: &str| Value::Text(text.into());
        let first = Row::new(vec![0.into(), text("a"), text("\\x00ff")]);
        let (place, row) = answer(&first, &columns).unwrap();
        assert_eq!((place, row.values()), (0, &[text("a"), Value::Blob(vec![0, 255])][..]));
        let (place, row) = answer(&Row::new(vec![1.into(), text("41"), Value::Null]), &columns).unwrap();
        assert_eq!((place, row.values()), (1, &[Value::Int(41)][..]));
        let none = Row::new(vec![0.into(), Value::Null, Value::Null]);
        assert_eq!(answer(&none, &columns).unwrap().1.values(), &[Value::Null, Value::Null][..]);
        assert!(answer(&Row::new(vec![7.into()]), &columns).is_err());
    }
}
