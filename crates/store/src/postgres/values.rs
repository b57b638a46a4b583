//! Values and rows on PostgreSQL's wire.
//!
//! Integers of every width, `numeric` sums and booleans come out as the one integer that the queries know.

use std::borrow::Cow;

use bytes::BytesMut;
use postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::StoreError;
use crate::sql::{Row, Value};

type Failure = Box<dyn std::error::Error + Sync + Send>;

/// What stands for a place of a statement.
pub(super) trait Sent: ToSql + Sync {
    /// What it is declared as when its statement is prepared. A null is not referred to, see [`nulls_written_out`].
    fn declared(&self) -> Type;
    /// What tells values apart for whoever keeps prepared statements.
    fn letter(&self) -> u8;
}

impl Sent for Value {
    fn declared(&self) -> Type {
        match self {
            Self::Null | Self::Text(_) => Type::TEXT,
            Self::Int(_) => Type::INT8,
            Self::Blob(_) => Type::BYTEA,
        }
    }

    fn letter(&self) -> u8 {
        match self {
            Self::Null => b'n',
            Self::Text(_) => b't',
            Self::Int(_) => b'i',
            Self::Blob(_) => b'b',
        }
    }
}

/// A value, or a column of them for a statement that goes over several rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Parameter {
    One(Value),
    /// All of one kind, and none of them null.
    Many(Vec<Value>),
}

impl Sent for Parameter {
    fn declared(&self) -> Type {
        match self {
            Self::One(value) => value.declared(),
            Self::Many(values) => match values.first() {
                Some(Value::Int(_)) => Type::INT8_ARRAY,
                Some(Value::Blob(_)) => Type::BYTEA_ARRAY,
                _ => Type::TEXT_ARRAY,
            },
        }
    }

    fn letter(&self) -> u8 {
        match self {
            Self::One(value) => value.letter(),
            Self::Many(values) => values.first().map_or(b'T', |value| value.letter().to_ascii_uppercase()),
        }
    }
}

impl ToSql for Parameter {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        match self {
            Self::One(value) => value.to_sql(kind, out),
            Self::Many(values) => values.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Where `$2` is null, `NULL` stands in its place: a null has no type to declare, and PostgreSQL does not find one for
/// `$2 IS NULL OR account = $2`.
pub(super) fn nulls_written_out<'s, V: Sent>(sql: &'s str, values: &[V]) -> Cow<'s, str> {
    let is_null = |value: &V| value.letter() == b'n';
    if !values.iter().any(is_null) {
        return sql.into();
    }
    let mut pieces = sql.split('$');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let digits = piece.find(|character: char| !character.is_ascii_digit()).unwrap_or(piece.len());
        let (number, rest) = piece.split_at(digits);
        let value = number.parse::<usize>().ok().and_then(|number| values.get(number.checked_sub(1)?));
        let null = value.is_some_and(is_null);
        out += if null { "NULL" } else { "$" };
        out += if null { rest } else { piece };
    }
    out.into()
}

impl ToSql for Value {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) => number.to_sql(kind, out),
            // PostgreSQL's text holds no NUL; a log may.
            Self::Text(text) if text.contains('\0') => text.replace('\0', "\u{fffd}").to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
            Self::Blob(bytes) => bytes.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

pub(super) fn row(row: &postgres::Row) -> Result<Row, StoreError> {
    (0..row.len())
        .map(|index| {
            row.try_get::<_, Option<Read>>(index)
                .map(|value| value.map_or(Value::Null, |read| read.0))
                .map_err(StoreError::corrupt)
        })
        .collect::<Result<_, _>>()
        .map(Row::new)
}

struct Read(Value);

impl<'a> FromSql<'a> for Read {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        Ok(Self(match *kind {
            Type::BOOL => Value::Int(bool::from_sql(kind, raw)?.into()),
            Type::INT2 => Value::Int(i16::from_sql(kind, raw)?.into()),
            Type::INT4 => Value::Int(i32::from_sql(kind, raw)?.into()),
            Type::INT8 => Value::Int(i64::from_sql(kind, raw)?),
            Type::NUMERIC => Value::Int(whole_number(raw)?),
            Type::BYTEA => Value::Blob(raw.to_vec()),
            Type::VOID => Value::Null,
            _ => Value::Text(String::from_utf8(raw.to_vec())?),
        }))
    }

    fn accepts(kind: &Type) -> bool {
        matches!(
            *kind,
            Type::BOOL
                | Type::INT2
                | Type::INT4
                | Type::INT8
                | Type::NUMERIC
                | Type::BYTEA
                | Type::VOID
                | Type::TEXT
                | Type::VARCHAR
                | Type::NAME
                | Type::BPCHAR
                | Type::UNKNOWN
        )
    }
}

/// `sum()` of integers is numeric: groups of four digits, the first worth 10000^weight.
fn whole_number(raw: &[u8]) -> Result<i64, Failure> {
    let word = |index: usize| -> Result<i64, Failure> {
        let bytes = raw.get(index * 2..index * 2 + 2).ok_or("a number is cut short")?;
        Ok(i64::from(i16::from_be_bytes([bytes[0], bytes[1]])))
    };
    let (digits, weight, negative) = (word(0)?, word(1)?, word(2)? == 0x4000);
    let mut number: i64 = 0;
    for place in 0..=weight.max(-1) {
        let group = if place < digits { word(4 + usize::try_from(place)?)? } else { 0 };
        number =
            number.checked_mul(10_000).and_then(|n| n.checked_add(group)).ok_or("a number is too large")?;
    }
    if digits > weight + 1 {
        return Err("a number is not whole".into());
    }
    Ok(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_stand_in_the_text() {
        let sql = "SELECT 1 WHERE ($2 IS NULL OR a = $2) AND b = $1 AND c = $20";
        let mut values = vec![Value::Int(1), Value::Null];
        values.resize(20, Value::Int(7));
        let expected = "SELECT 1 WHERE (NULL IS NULL OR a = NULL) AND b = $1 AND c = $20";
        assert_eq!(nulls_written_out(sql, &values), expected);
    }

    #[test]
    fn sums_come_out_as_integers() {
        // 12_0000_0345, -7, 0, 1_0000 as PostgreSQL sends them.
        for (words, expected) in [
            (&[3i16, 2, 0, 0, 12, 0, 345][..], 1_200_000_345),
            (&[1, 0, 0x4000, 0, 7], -7),
            (&[0, 0, 0, 0], 0),
            (&[1, 1, 0, 0, 1], 10_000),
        ] {
            let raw: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            assert_eq!(whole_number(&raw).unwrap(), expected);
        }
        let fraction: Vec<u8> = [2i16, 0, 0, 1, 1, 5000].iter().flat_map(|word| word.to_be_bytes()).collect();
        assert!(whole_number(&fraction).is_err());
    }
}
