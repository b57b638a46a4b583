//! Schedules by the clock: five fields with names of months and days, ranges, lists, steps and `?`, or `@hourly` and its like.
//!
//! Nothing fires more often than once a minute. Wall clock times that a change of the clocks leaves out are moved on, those
//! that come twice fire once.

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// Who reads the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Kubernetes and the Argo products. A day field that begins with a star restricts nothing by itself, also in `*/2`.
    Standard,
    /// Triggers of pipelines: seconds first if there are six fields, `7` is Sunday too, and `L`, `5L` and `2#1` are days.
    Triggers,
}

/// When something is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    second: i8,
    minutes: u64,
    hours: u64,
    days: Days,
    months: u64,
    weekdays: Weekdays,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Days {
    any: bool,
    set: u64,
    last: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Weekdays {
    any: bool,
    set: u64,
    /// `5L`: the last Friday.
    last: u64,
    /// `2#1`: the first Tuesday.
    nth: Vec<(u32, i8)>,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// A schedule that has no day in so many years has none.
const YEARS: i32 = 9;

impl Schedule {
    /// Reads a schedule, or says what is wrong with it.
    pub fn parse(text: &str, dialect: Dialect) -> Result<Self, String> {
        let named = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = named.split_whitespace().collect();
        let (second, rest) = match (fields.as_slice(), dialect) {
            ([second, rest @ ..], Dialect::Triggers) if rest.len() == 5 => (*second, rest),
            (rest, _) if rest.len() == 5 => ("0", rest),
            (_, Dialect::Triggers) => {
                let count = fields.len();
                return Err(format!(
                    "`{text}` has {count} fields: a schedule has 5, or 6 with seconds first"
                ));
            }
            _ => return Err(format!("`{text}` has {} fields: a schedule has 5", fields.len())),
        };
        let second = second.parse().ok().filter(|second| (0..60).contains(second)).ok_or_else(|| {
            format!("`{text}`: the seconds must be a single number; a schedule fires at most once a minute")
        })?;
        let wrong = |what: &str, field: &str| format!("`{text}`: `{field}` is not a valid {what}");
        let days = match (rest[2], dialect) {
            ("L" | "l", Dialect::Triggers) => Days { last: true, ..Days::default() },
            (field, _) => Days {
                set: bits(field, 1, 31, &[], 0).ok_or_else(|| wrong("day of the month", field))?,
                any: dialect.is_any(field),
                last: false,
            },
        };
        let weekdays = match dialect {
            Dialect::Triggers => weekdays(rest[4]),
            Dialect::Standard => bits(rest[4], 0, 6, &WEEKDAYS, 0).map(|set| Weekdays {
                any: dialect.is_any(rest[4]),
                set,
                ..Weekdays::default()
            }),
        };
        Ok(Self {
            second,
            minutes: bits(rest[0], 0, 59, &[], 0).ok_or_else(|| wrong("minute", rest[0]))?,
            hours: bits(rest[1], 0, 23, &[], 0).ok_or_else(|| wrong("hour", rest[1]))?,
            days,
            months: bits(rest[3], 1, 12, &MONTHS, 1).ok_or_else(|| wrong("month", rest[3]))?,
            weekdays: weekdays.ok_or_else(|| wrong("day of the week", rest[4]))?,
        })
    }

    /// The first tick after a moment; none when there is no such day.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut date = after.to_zoned(zone.clone()).date();
        let end = date.year().saturating_add(i16::try_from(YEARS).ok()?);
        while date.year() <= end {
            if self.fits(date) {
                for hour in each(self.hours) {
                    for minute in each(self.minutes) {
                        let at = date.at(hour as i8, minute as i8, self.second, 0);
                        let tick = zone.to_ambiguous_zoned(at).compatible().ok()?.timestamp();
                        if tick > after {
                            return Some(tick);
                        }
                    }
                }
            }
            date = date.checked_add(1.day()).ok()?;
        }
        None
    }

    /// Day of the month and day of the week are alternatives when both are given, as in every cron.
    fn fits(&self, date: Date) -> bool {
        let day =
            self.days.set >> date.day() & 1 == 1 || (self.days.last && date.day() == date.days_in_month());
        let weekday = self.weekdays.fits(date);
        let either = if self.days.any || self.weekdays.any { day && weekday } else { day || weekday };
        self.months >> date.month() & 1 == 1 && either
    }
}

impl Dialect {
    /// The field leaves the choice of the day to the other one.
    fn is_any(self, field: &str) -> bool {
        match self {
            Self::Triggers => matches!(field, "*" | "?"),
            Self::Standard => field.split(',').any(|part| matches!(part.split('/').next(), Some("*" | "?"))),
        }
    }
}

impl Weekdays {
    fn fits(&self, date: Date) -> bool {
        let day = number(date.weekday());
        let in_last_week = date.day() + 7 > date.days_in_month();
        let which = (date.day() - 1) / 7 + 1;
        self.set >> day & 1 == 1
            || (in_last_week && self.last >> day & 1 == 1)
            || self.nth.contains(&(day, which))
    }
}

fn number(day: Weekday) -> u32 {
    u32::from(day.to_sunday_zero_offset().unsigned_abs())
}

fn weekdays(field: &str) -> Option<Weekdays> {
    if matches!(field, "*" | "?") {
        return Some(Weekdays { any: true, set: 0x7f, ..Weekdays::default() });
    }
    let mut found = Weekdays::default();
    for part in field.split(',') {
        if let Some((day, which)) = part.split_once('#') {
            let which = which.parse().ok().filter(|which| (1..=5).contains(which))?;
            found.nth.push((bits(day, 0, 7, &WEEKDAYS, 0)?.trailing_zeros() % 7, which));
        } else if let Some(day) =
            part.strip_suffix(['L', 'l']).filter(|day| !day.is_empty() && part.len() <= 4)
        {
            found.last |= fold(bits(day, 0, 7, &WEEKDAYS, 0)?);
        } else {
            found.set |= fold(bits(part, 0, 7, &WEEKDAYS, 0)?);
        }
    }
    Some(found)
}

/// 7 is Sunday too.
fn fold(set: u64) -> u64 {
    (set | set >> 7) & 0x7f
}

fn each(set: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |bit| set >> bit & 1 == 1)
}

fn bits(field: &str, low: u32, high: u32, names: &[&str], first: u32) -> Option<u64> {
    let value = |text: &str| {
        let lower = text.to_lowercase();
        match names.iter().position(|name| *name == lower) {
            Some(index) => Some(u32::try_from(index).ok()? + first),
            None => text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?,
        }
    };
    let mut set = 0;
    for part in field.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(value(step).filter(|step| *step > 0)?)),
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if matches!(range, "*" | "?") => (low, high),
            Some((from, to)) => (value(from)?, value(to)?),
            None => (value(range)?, if step.is_some() { high } else { value(range)? }),
        };
        if from < low || to > high || from > to {
            return None;
        }
        for number in (from..=to).step_by(usize::try_from(step.unwrap_or(1)).ok()?) {
            set |= 1u64 << number;
        }
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn ticks(text: &str, after: &str, zone: &str, expected: &[&str]) {
        ticks_in(Dialect::Triggers, text, after, zone, expected);
    }

    #[track_caller]
    fn ticks_in(dialect: Dialect, text: &str, after: &str, zone: &str, expected: &[&str]) {
        let (schedule, zone) =
            (Schedule::parse(text, dialect).expect("a schedule"), TimeZone::get(zone).expect("a zone"));
        let mut at: Timestamp = after.parse().expect("a time");
        for wanted in expected {
            at = schedule.next(at, &zone).unwrap_or_else(|| panic!("{text} has no tick after {at}"));
            assert_eq!(at.to_string(), *wanted, "{text}");
        }
    }

    #[test]
    fn schedules_tick_when_they_say() {
        ticks(
            "*/15 * * * *",
            "2026-01-01T00:07:00Z",
            "UTC",
            &["2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z"],
        );
        ticks("0 9 * * MON-FRI", "2026-01-02T09:00:00Z", "UTC", &["2026-01-05T09:00:00Z"]);
        ticks(
            "30 0 9 ? * 2#1",
            "2026-01-01T00:00:00Z",
            "UTC",
            &["2026-01-06T09:00:30Z", "2026-02-03T09:00:30Z"],
        );
        ticks("0 0 L * ?", "2026-02-01T00:00:00Z", "UTC", &["2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"]);
        ticks("0 0 * * 5L", "2026-01-01T00:00:00Z", "UTC", &["2026-01-30T00:00:00Z"]);
        ticks(
            "0 0 13 * 7",
            "2026-01-01T00:00:00Z",
            "UTC",
            &["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z", "2026-01-13T00:00:00Z"],
        );
        ticks("@hourly", "2026-01-01T00:59:59Z", "UTC", &["2026-01-01T01:00:00Z"]);
        // The clocks go forward over 02:30 and back over 02:30.
        ticks(
            "30 2 * * *",
            "2026-03-28T12:00:00Z",
            "Europe/Berlin",
            &["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"],
        );
        ticks(
            "30 2 * * *",
            "2026-10-24T12:00:00Z",
            "Europe/Berlin",
            &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        );
    }

    #[test]
    fn kubernetes_and_argo_read_five_fields() {
        let next = |text: &str, after: &str, zone: &str, expected: &str| {
            ticks_in(Dialect::Standard, text, after, zone, &[expected]);
        };
        next("0 22 * * *", "2026-03-01T21:59:59Z", "UTC", "2026-03-01T22:00:00Z");
        next("0 22 * * *", "2026-03-01T22:00:00Z", "UTC", "2026-03-02T22:00:00Z");
        next("*/15 9-17 * * MON-FRI", "2026-03-06T17:50:00Z", "UTC", "2026-03-09T09:00:00Z");
        next("30 9-17/4 * * mon-fri", "2026-11-13T18:00:00Z", "UTC", "2026-11-16T09:30:00Z");
        next("0 0 29 2 *", "2026-01-01T00:00:00Z", "UTC", "2028-02-29T00:00:00Z");
        next("0 0 13 * 5", "2026-03-01T00:00:00Z", "UTC", "2026-03-06T00:00:00Z");
        next("0 12 13 * 5", "2026-11-14T00:00:00Z", "UTC", "2026-11-20T12:00:00Z");
        next("30 8 * * *", "2026-07-01T00:00:00Z", "Europe/Berlin", "2026-07-01T06:30:00Z");
        next("30 8 * * *", "2026-01-01T00:00:00Z", "Europe/Berlin", "2026-01-01T07:30:00Z");
        next("@yearly", "2026-11-15T10:02:30Z", "UTC", "2027-01-01T00:00:00Z");
        // Odd days that are Mondays: the star in `*/2` restricts nothing by itself, so both fields have to hold.
        next("0 0 */2 * 1", "2026-11-02T00:00:00Z", "UTC", "2026-11-09T00:00:00Z");
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_a_reason() {
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "* * 0 * *",
            "*/0 * * * *",
            "* * * * * * *",
            "* * * * * *",
            "1-70 * * * *",
            "x * * * *",
        ] {
            assert!(Schedule::parse(text, Dialect::Triggers).is_err(), "{text}");
            assert!(Schedule::parse(text, Dialect::Standard).is_err(), "{text}");
        }
        for text in [
            "* * * * 7",
            "0 0 L * *",
            "0 0 * * 5L",
            "0 0 * * 2#1",
            "0 * * * * *",
            "5-1 * * * *",
            "-1 * * * *",
        ] {
            assert!(Schedule::parse(text, Dialect::Standard).is_err(), "{text}");
        }
        assert!(
            Schedule::parse("0 0 30 2 *", Dialect::Standard)
                .unwrap()
                .next(Timestamp::UNIX_EPOCH, &TimeZone::UTC)
                .is_none()
        );
    }

    #[test]
    fn a_year_of_ticks_over_both_changes_of_the_clocks_has_each_day_once() {
        let zone = TimeZone::get("America/New_York").unwrap();
        let schedule = Schedule::parse("15 1 * * *", Dialect::Standard).unwrap();
        let (mut at, mut days): (Timestamp, Vec<_>) = ("2026-01-01T12:00:00Z".parse().unwrap(), Vec::new());
        for _ in 0..400 {
            at = schedule.next(at, &zone).unwrap();
            days.push(at.to_zoned(zone.clone()).date());
        }
        assert!(days.windows(2).all(|pair| pair[0].tomorrow().unwrap() == pair[1]));
    }
}
