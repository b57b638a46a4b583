//! Dates. "Local" is UTC here: what an ApplicationSet generates must not depend on where it is generated.

use std::rc::Rc;

use jiff::civil::{Date, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

use slipway_dialect::duration;

use super::layout::{Part, parts};
use crate::exec::Scope;
use crate::functions::{
    Function,
    Type::{self, Any, Text},
    takes, text,
};
use crate::value::Value;

type Done<T> = Result<T, String>;

pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(crate) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

pub(crate) const FUNCTIONS: &[Function] = &[
    takes("now", &[], |s, _| Ok(time(s.now.to_zoned(TimeZone::UTC)))),
    takes("date", &[Text, Any], |s, a| Ok(in_zone(s, text(&a[0]), &a[1], "Local"))),
    takes("dateInZone", &[Text, Any, Text], |s, a| Ok(in_zone(s, text(&a[0]), &a[1], text(&a[2])))),
    takes("date_in_zone", &[Text, Any, Text], |s, a| Ok(in_zone(s, text(&a[0]), &a[1], text(&a[2])))),
    takes("htmlDate", &[Any], |s, a| Ok(in_zone(s, "2006-01-02", &a[0], "Local"))),
    takes("htmlDateInZone", &[Any, Text], |s, a| Ok(in_zone(s, "2006-01-02", &a[0], text(&a[1])))),
    takes("dateModify", &[Text, Type::Time], |_, a| Ok(modify(a).unwrap_or_else(|_| a[1].clone()))),
    takes("date_modify", &[Text, Type::Time], |_, a| Ok(modify(a).unwrap_or_else(|_| a[1].clone()))),
    takes("mustDateModify", &[Text, Type::Time], |_, a| modify(a)),
    takes("must_date_modify", &[Text, Type::Time], |_, a| modify(a)),
    takes("toDate", &[Text, Text], |_, a| {
        Ok(time(parse(text(&a[0]), text(&a[1])).unwrap_or_else(|_| zero())))
    }),
    takes("mustToDate", &[Text, Text], |_, a| parse(text(&a[0]), text(&a[1])).map(time)),
    takes("unixEpoch", &[Type::Time], |_, a| match &a[0] {
        Value::Time(time) => Ok(time.timestamp().as_second().to_string().into()),
        _ => Ok("0".into()),
    }),
    takes("ago", &[Any], |s, a| {
        let then = moment(s, &a[0]).timestamp();
        let nanos = s.now.as_nanosecond() - then.as_nanosecond();
        let seconds = (nanos.abs() + 500_000_000) / 1_000_000_000 * nanos.signum();
        Ok(duration::text(seconds * 1_000_000_000).into())
    }),
    takes("duration", &[Any], |_, a| {
        let seconds = match &a[0] {
            Value::Text(text) => text.parse().unwrap_or(0),
            Value::Int(seconds, crate::value::IntType::Int64) => *seconds,
            _ => 0,
        };
        Ok(duration::text(i128::from(seconds.wrapping_mul(1_000_000_000))).into())
    }),
    takes("durationRound", &[Any], |s, a| {
        let nanos = match &a[0] {
            Value::Text(text) => duration::nanos(text).unwrap_or(0),
            Value::Int(nanos, crate::value::IntType::Int64) => i128::from(*nanos),
            Value::Time(time) => s.now.as_nanosecond() - time.timestamp().as_nanosecond(),
            _ => 0,
        };
        Ok(rounded(nanos).into())
    }),
];

fn time(zoned: Zoned) -> Value {
    Value::Time(Rc::new(zoned))
}

/// Go's zero time.
fn zero() -> Zoned {
    Date::constant(1, 1, 1)
        .to_zoned(TimeZone::UTC)
        .unwrap_or_else(|_| Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC))
}

/// A time as sprig takes it: a time, a Unix time, or now.
fn moment(scope: &Scope<'_>, value: &Value) -> Zoned {
    match value {
        Value::Time(time) => (**time).clone(),
        Value::Int(seconds, _) => {
            Timestamp::from_second(*seconds).unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(TimeZone::UTC)
        }
        _ => scope.now.to_zoned(TimeZone::UTC),
    }
}

fn in_zone(scope: &Scope<'_>, layout: &str, value: &Value, zone: &str) -> Value {
    let zone = match zone {
        "" | "UTC" | "Local" => TimeZone::UTC,
        name => TimeZone::get(name).unwrap_or(TimeZone::UTC),
    };
    format(&moment(scope, value).with_time_zone(zone), layout).into()
}

fn modify(arguments: &[Value]) -> Done<Value> {
    let nanos = duration::nanos(text(&arguments[0]))?;
    let Value::Time(start) = &arguments[1] else { return Err("not a time".into()) };
    let moved = Timestamp::from_nanosecond(start.timestamp().as_nanosecond() + nanos);
    let moved = moved.map_err(|_| "the time is out of range".to_owned())?;
    Ok(time(moved.to_zoned(start.time_zone().clone())))
}

/// What `{{ now }}` prints.
pub(crate) fn display(time: &Zoned) -> String {
    format(time, "2006-01-02 15:04:05.999999999 -0700 MST")
}

pub(crate) fn format(time: &Zoned, layout: &str) -> String {
    let mut out = String::new();
    let (date, clock) = (time.date(), time.time());
    let weekday = WEEKDAYS[date.weekday().to_sunday_zero_offset() as usize];
    let month = MONTHS[date.month() as usize - 1];
    let hour12 = (clock.hour() + 11) % 12 + 1;
    for part in parts(layout) {
        match part {
            Part::Literal(text) => out.push_str(text),
            Part::LongMonth => out.push_str(month),
            Part::Month => out.push_str(&month[..3]),
            Part::NumMonth => out.push_str(&date.month().to_string()),
            Part::ZeroMonth => out.push_str(&format!("{:02}", date.month())),
            Part::LongWeekday => out.push_str(weekday),
            Part::Weekday => out.push_str(&weekday[..3]),
            Part::Day => out.push_str(&date.day().to_string()),
            Part::UnderDay => out.push_str(&format!("{:2}", date.day())),
            Part::ZeroDay => out.push_str(&format!("{:02}", date.day())),
            Part::UnderYearDay => out.push_str(&format!("{:3}", date.day_of_year())),
            Part::ZeroYearDay => out.push_str(&format!("{:03}", date.day_of_year())),
            Part::Hour => out.push_str(&format!("{:02}", clock.hour())),
            Part::Hour12 => out.push_str(&hour12.to_string()),
            Part::ZeroHour12 => out.push_str(&format!("{hour12:02}")),
            Part::Minute => out.push_str(&clock.minute().to_string()),
            Part::ZeroMinute => out.push_str(&format!("{:02}", clock.minute())),
            Part::Second => out.push_str(&clock.second().to_string()),
            Part::ZeroSecond => out.push_str(&format!("{:02}", clock.second())),
            Part::LongYear => out.push_str(&format!("{:04}", date.year())),
            Part::Year => out.push_str(&format!("{:02}", date.year().rem_euclid(100))),
            Part::Pm => out.push_str(if clock.hour() >= 12 { "PM" } else { "AM" }),
            Part::SmallPm => out.push_str(if clock.hour() >= 12 { "pm" } else { "am" }),
            Part::Zone => out.push_str(&zone_name(time)),
            Part::Offset { z, colons, parts } => out.push_str(&offset_text(time.offset(), z, colons, parts)),
            Part::Fraction { digits, trim, comma } => {
                let nanos = format!("{:09}", clock.subsec_nanosecond());
                let shown = format!("{nanos:0<digits$}");
                let shown = if trim { shown[..digits].trim_end_matches('0') } else { &shown[..digits] };
                if !(trim && shown.is_empty()) {
                    out.push(if comma { ',' } else { '.' });
                    out.push_str(shown);
                }
            }
        }
    }
    out
}

fn zone_name(time: &Zoned) -> String {
    let info = time.time_zone().to_offset_info(time.timestamp());
    let name = info.abbreviation();
    match name {
        "UTC" | "Z" => "UTC".to_owned(),
        name if name.starts_with(|c: char| c.is_ascii_alphabetic()) => name.to_owned(),
        _ => offset_text(time.offset(), false, false, 2),
    }
}

fn offset_text(offset: Offset, z: bool, colons: bool, parts: u8) -> String {
    let seconds = offset.seconds();
    if z && seconds == 0 {
        return "Z".to_owned();
    }
    let sign = if seconds < 0 { '-' } else { '+' };
    let (hours, minutes, rest) = (seconds.abs() / 3600, seconds.abs() / 60 % 60, seconds.abs() % 60);
    let colon = if colons { ":" } else { "" };
    match parts {
        1 => format!("{sign}{hours:02}"),
        2 => format!("{sign}{hours:02}{colon}{minutes:02}"),
        _ => format!("{sign}{hours:02}{colon}{minutes:02}{colon}{rest:02}"),
    }
}

/// time.ParseInLocation with UTC for a zone that is not named.
fn parse(layout: &str, value: &str) -> Done<Zoned> {
    let mut read = Read {
        rest: value,
        year: 0,
        month: 1,
        day: 1,
        hour: 0,
        minute: 0,
        second: 0,
        nanos: 0,
        pm: None,
        offset: None,
        year_day: None,
    };
    let cannot = |what: &str, rest: &str| {
        format!("parsing time {value:?} as {layout:?}: cannot parse {rest:?} as {what:?}")
    };
    let all = parts(layout);
    for (index, part) in all.iter().enumerate() {
        let before = read.rest;
        // A fraction may follow the seconds even if the layout does not say so.
        let fraction_follows = matches!(all.get(index + 1), Some(Part::Fraction { .. }));
        if read.part(part, fraction_follows).is_none() {
            return Err(cannot(&part_text(part), before));
        }
    }
    if !read.rest.is_empty() {
        return Err(format!("parsing time {value:?}: extra text: {:?}", read.rest));
    }
    read.finish().ok_or_else(|| format!("parsing time {value:?}: day out of range"))
}

fn part_text(part: &Part<'_>) -> String {
    match part {
        Part::Literal(text) => (*text).to_owned(),
        Part::LongYear => "2006".to_owned(),
        Part::ZeroMonth => "01".to_owned(),
        Part::ZeroDay => "02".to_owned(),
        other => format!("{other:?}"),
    }
}

struct Read<'v> {
    rest: &'v str,
    year: i32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
    nanos: u32,
    pm: Option<bool>,
    offset: Option<i32>,
    year_day: Option<u32>,
}

impl Read<'_> {
    /// Between `least` and `most` digits.
    fn digits(&mut self, least: usize, most: usize) -> Option<u32> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if count < least {
            return None;
        }
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        digits.parse().ok()
    }

    fn name(&mut self, names: &[&str], length: Option<usize>) -> Option<u32> {
        let find = |name: &&str| {
            let wanted = &name[..length.unwrap_or(name.len())];
            self.rest.get(..wanted.len()).is_some_and(|start| start.eq_ignore_ascii_case(wanted))
        };
        let index = names.iter().position(find)?;
        self.rest = &self.rest[length.unwrap_or(names[index].len())..];
        Some(index as u32 + 1)
    }

    fn part(&mut self, part: &Part<'_>, fraction_follows: bool) -> Option<()> {
        match part {
            Part::Literal(text) => self.rest = self.rest.strip_prefix(text)?,
            Part::LongYear => self.year = self.digits(4, 4)? as i32,
            Part::Year => {
                let short = self.digits(2, 2)? as i32;
                self.year = if short >= 69 { 1900 + short } else { 2000 + short };
            }
            Part::LongMonth => self.month = self.name(&MONTHS, None)?,
            Part::Month => self.month = self.name(&MONTHS, Some(3))?,
            Part::NumMonth => self.month = self.digits(1, 2)?,
            Part::ZeroMonth => self.month = self.digits(2, 2)?,
            Part::LongWeekday => drop(self.name(&WEEKDAYS, None)?),
            Part::Weekday => drop(self.name(&WEEKDAYS, Some(3))?),
            Part::UnderDay | Part::Day => {
                self.rest = self.rest.strip_prefix(' ').unwrap_or(self.rest);
                self.day = self.digits(1, 2)?;
            }
            Part::ZeroDay => self.day = self.digits(2, 2)?,
            Part::UnderYearDay | Part::ZeroYearDay => {
                self.rest = self.rest.trim_start_matches(' ');
                self.year_day = Some(self.digits(1, 3)?);
            }
            Part::Hour => self.hour = self.digits(2, 2)?,
            Part::Hour12 => self.hour = self.digits(1, 2)?,
            Part::ZeroHour12 => self.hour = self.digits(2, 2)?,
            Part::Minute => self.minute = self.digits(1, 2)?,
            Part::ZeroMinute => self.minute = self.digits(2, 2)?,
            Part::Second | Part::ZeroSecond => {
                self.second = self.digits(if *part == Part::Second { 1 } else { 2 }, 2)?;
                if !fraction_follows {
                    self.fraction();
                }
            }
            Part::Fraction { trim: true, .. } => self.fraction(),
            Part::Fraction { digits, .. } => {
                self.rest = self.rest.strip_prefix(['.', ','])?;
                let count = *digits;
                let number = self.digits(count, count)?;
                self.nanos = number * 10_u32.checked_pow(9_u32.checked_sub(count as u32)?)?;
            }
            Part::Pm | Part::SmallPm => {
                self.pm = Some(self.name(&["AM", "PM"], None)? == 2);
            }
            Part::Zone => {
                let count = self.rest.bytes().take_while(u8::is_ascii_uppercase).count();
                if count < 3 {
                    return None;
                }
                self.rest = &self.rest[count..];
            }
            Part::Offset { z, colons, parts } => self.offset(*z, *colons, *parts)?,
        }
        Some(())
    }

    fn fraction(&mut self) {
        let Some(rest) = self.rest.strip_prefix(['.', ',']) else { return };
        let count = rest.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return;
        }
        let digits: String = rest.chars().take(count.min(9)).collect();
        self.nanos = format!("{digits:0<9}").parse().unwrap_or(0);
        self.rest = &rest[count..];
    }

    fn offset(&mut self, z: bool, colons: bool, parts: u8) -> Option<()> {
        if z && let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            self.offset = Some(0);
            return Some(());
        }
        let negative = self.rest.starts_with('-');
        self.rest = self.rest.strip_prefix(['+', '-'])?;
        let mut seconds = 0;
        for (index, unit) in [3600, 60, 1].into_iter().take(parts as usize).enumerate() {
            if index > 0 && colons {
                self.rest = self.rest.strip_prefix(':')?;
            }
            seconds += self.digits(2, 2)? as i32 * unit;
        }
        self.offset = Some(if negative { -seconds } else { seconds });
        Some(())
    }

    fn finish(self) -> Option<Zoned> {
        let hour = match self.pm {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        let small = |number: u32| i8::try_from(number).ok();
        let year = i16::try_from(self.year).ok()?;
        let date = match self.year_day {
            Some(day) => {
                Date::new(year, 1, 1).ok()?.checked_add(jiff::Span::new().days(i64::from(day) - 1)).ok()?
            }
            None => Date::new(year, small(self.month)?, small(self.day)?).ok()?,
        };
        let clock =
            Time::new(small(hour)?, small(self.minute)?, small(self.second)?, self.nanos as i32).ok()?;
        let zone = match self.offset {
            None | Some(0) => TimeZone::UTC,
            Some(seconds) => TimeZone::fixed(Offset::from_seconds(seconds).ok()?),
        };
        date.to_datetime(clock).to_zoned(zone).ok()
    }
}

fn rounded(nanos: i128) -> String {
    const HOUR: u128 = 3_600_000_000_000;
    let size = nanos.unsigned_abs();
    let units = [
        (HOUR * 24 * 365, "y"),
        (HOUR * 24 * 30, "mo"),
        (HOUR * 24, "d"),
        (HOUR, "h"),
        (HOUR / 60, "m"),
        (HOUR / 3600, "s"),
    ];
    let unit = units.iter().find(|(unit, _)| size > *unit);
    unit.map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", size / unit))
}
