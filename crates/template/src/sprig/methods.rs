//! Methods of the few values that have any: times and versions.

use jiff::tz::TimeZone;

use super::date::{display, format};
use crate::functions::{
    Function,
    Type::{Any, Text, Time},
    takes, text,
};
use crate::value::{IntType, Value};

/// The first parameter is the receiver.
pub(crate) fn find(receiver: &Value, name: &str) -> Option<&'static Function> {
    let table = match receiver {
        Value::Time(_) => TIME,
        Value::Version(_) => VERSION,
        _ => return None,
    };
    table.iter().find(|method| method.name == name)
}

macro_rules! of_time {
    ($name:literal, |$time:ident| $result:expr) => {
        takes($name, &[Time], |_, a| match &a[0] {
            Value::Time($time) => Ok($result),
            _ => Err("not a time".into()),
        })
    };
}

const TIME: &[Function] = &[
    takes("Format", &[Time, Text], |_, a| match &a[0] {
        Value::Time(time) => Ok(format(time, text(&a[1])).into()),
        _ => Err("not a time".into()),
    }),
    of_time!("String", |time| display(time).into()),
    of_time!("Unix", |time| Value::int64(time.timestamp().as_second())),
    of_time!("UnixMilli", |time| Value::int64(time.timestamp().as_millisecond())),
    of_time!("UTC", |time| Value::Time(time.with_time_zone(TimeZone::UTC).into())),
    of_time!("Year", |time| Value::Int(time.year().into(), IntType::Int)),
    of_time!("Month", |time| Value::Int(time.month().into(), IntType::Month)),
    of_time!("Day", |time| Value::Int(time.day().into(), IntType::Int)),
    of_time!("Hour", |time| Value::Int(time.hour().into(), IntType::Int)),
    of_time!("Minute", |time| Value::Int(time.minute().into(), IntType::Int)),
    of_time!("Second", |time| Value::Int(time.second().into(), IntType::Int)),
    of_time!("YearDay", |time| Value::Int(time.day_of_year().into(), IntType::Int)),
    of_time!("Weekday", |time| {
        Value::Int(time.weekday().to_sunday_zero_offset().into(), IntType::Weekday)
    }),
    of_time!("IsZero", |time| Value::Bool(time.year() == 1 && time.day_of_year() == 1)),
];

macro_rules! of_version {
    ($name:literal, |$version:ident| $result:expr) => {
        takes($name, &[Any], |_, a| match &a[0] {
            Value::Version($version) => Ok($result),
            _ => Err("not a version".into()),
        })
    };
}

macro_rules! of_versions {
    ($name:literal, |$version:ident, $other:ident| $result:expr) => {
        takes($name, &[Any, Any], |_, a| match (&a[0], &a[1]) {
            (Value::Version($version), Value::Version($other)) => Ok($result),
            (_, other) => {
                Err(format!("wrong type for value; expected *semver.Version; got {}", other.type_name()))
            }
        })
    };
}

const VERSION: &[Function] = &[
    of_version!("Major", |version| Value::Int(version.major as i64, IntType::Uint64)),
    of_version!("Minor", |version| Value::Int(version.minor as i64, IntType::Uint64)),
    of_version!("Patch", |version| Value::Int(version.patch as i64, IntType::Uint64)),
    of_version!("Prerelease", |version| version.prerelease.as_str().into()),
    of_version!("Metadata", |version| version.metadata.as_str().into()),
    of_version!("Original", |version| version.original.as_str().into()),
    of_version!("String", |version| version.to_string().into()),
    of_versions!("Compare", |version, other| Value::Int(version.compare(other) as i64, IntType::Int)),
    of_versions!("Equal", |version, other| Value::Bool(version.compare(other).is_eq())),
    of_versions!("LessThan", |version, other| Value::Bool(version.compare(other).is_lt())),
    of_versions!("GreaterThan", |version, other| Value::Bool(version.compare(other).is_gt())),
];
