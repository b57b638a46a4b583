//! Five-field cron schedules as sync windows use them.
//!
//! Day of month and day of week are alternatives when both are restricted, as in every cron.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// A schedule: one bit per allowed value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    any_day: bool,
    any_weekday: bool,
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else { return None };
        Some(Self {
            minutes: field(minute, 0, 59, &[], 0)?,
            hours: field(hour, 0, 23, &[], 0)?,
            days: field(day, 1, 31, &[], 0)?,
            months: field(month, 1, 12, MONTHS, 1)?,
            weekdays: field(weekday, 0, 6, WEEKDAYS, 0)?,
            any_day: is_star(day),
            any_weekday: is_star(weekday),
        })
    }

    /// The first start after a time; None if there is none within five years (30 February).
    pub(crate) fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let start = after.to_zoned(zone.clone()).datetime();
        let mut date = start.date();
        for _ in 0..366 * 5 {
            if self.allows_date(date) {
                for hour in bits(self.hours) {
                    for minute in bits(self.minutes) {
                        let at = date.at(hour as i8, minute as i8, 0, 0);
                        // A wall clock time may come twice; the instant decides.
                        if let Some(instant) = instant(at, zone).filter(|instant| *instant > after) {
                            return Some(instant);
                        }
                    }
                }
            }
            date = date.checked_add(1.day()).ok()?;
        }
        None
    }

    fn allows_date(&self, date: Date) -> bool {
        let day = self.days >> date.day() & 1 == 1;
        let weekday = self.weekdays >> date.weekday().to_sunday_zero_offset() & 1 == 1;
        let fits = if self.any_day || self.any_weekday { day && weekday } else { day || weekday };
        self.months >> date.month() & 1 == 1 && fits
    }
}

fn instant(at: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    zone.to_ambiguous_zoned(at).compatible().ok().map(|zoned| zoned.timestamp())
}

fn bits(set: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |bit| set >> bit & 1 == 1)
}

fn is_star(field: &str) -> bool {
    field.split(',').any(|part| matches!(part.split('/').next(), Some("*" | "?")))
}

fn field(text: &str, min: u32, max: u32, names: &[&str], first_name: u32) -> Option<u64> {
    let value = |text: &str| -> Option<u32> {
        let lower = text.to_lowercase();
        if let Some(index) = names.iter().position(|name| *name == lower) {
            return Some(index as u32 + first_name);
        }
        (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
    };
    let mut set = 0u64;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(value(step).filter(|step| *step > 0)?)),
            None => (part, None),
        };
        let (low, high) = match range {
            "*" | "?" => (min, max),
            _ => match range.split_once('-') {
                Some((low, high)) => (value(low)?, value(high)?),
                // `5/15` means from 5 on.
                None => (value(range)?, if step.is_some() { max } else { value(range)? }),
            },
        };
        if low < min || high > max || low > high {
            return None;
        }
        for number in (low..=high).step_by(step.unwrap_or(1) as usize) {
            set |= 1 << number;
        }
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schedule: &str, after: &str, zone: &str, expected: &str) {
        let zone = TimeZone::get(zone).expect("a zone");
        let next = Schedule::parse(schedule).expect("a schedule").next(after.parse().expect("a time"), &zone);
        assert_eq!(next.map(|t| t.to_string()).unwrap_or_default(), expected, "{schedule} after {after}");
    }

    #[test]
    fn the_next_start_is_found() {
        check("0 22 * * *", "2026-03-01T21:59:59Z", "UTC", "2026-03-01T22:00:00Z");
        check("0 22 * * *", "2026-03-01T22:00:00Z", "UTC", "2026-03-02T22:00:00Z");
        check("*/15 9-17 * * MON-FRI", "2026-03-06T17:50:00Z", "UTC", "2026-03-09T09:00:00Z");
        check("0 0 29 2 *", "2026-01-01T00:00:00Z", "UTC", "2028-02-29T00:00:00Z");
        check("0 0 30 2 *", "2026-01-01T00:00:00Z", "UTC", "");
        check("0 0 13 * 5", "2026-03-01T00:00:00Z", "UTC", "2026-03-06T00:00:00Z");
        check("30 8 * * *", "2026-07-01T00:00:00Z", "Europe/Berlin", "2026-07-01T06:30:00Z");
        check("30 8 * * *", "2026-01-01T00:00:00Z", "Europe/Berlin", "2026-01-01T07:30:00Z");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "5-1 * * * *",
            "*/0 * * * *",
            "a * * * *",
            "-1 * * * *",
        ] {
            assert_eq!(Schedule::parse(text), None, "{text}");
        }
    }
}
