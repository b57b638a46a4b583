//! Cron schedules of five fields, with names, steps, ranges and the `@` words.
//!
//! Pure: times come in as civil times in the schedule's zone.

use jiff::civil::DateTime;

/// Which minutes a schedule names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    day_is_any: bool,
    weekday_is_any: bool,
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    pub(crate) fn parse(text: &str) -> Option<Schedule> {
        let text = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else { return None };
        // Sunday is 0 and 7.
        let weekdays = set(weekday, 0, 7, &WEEKDAYS, 0)?;
        Some(Schedule {
            minutes: set(minute, 0, 59, &[], 0)?,
            hours: set(hour, 0, 23, &[], 0)?,
            days: set(day, 1, 31, &[], 0)?,
            months: set(month, 1, 12, &MONTHS, 1)?,
            weekdays: if weekdays & (1 << 7) != 0 { weekdays | 1 } else { weekdays },
            day_is_any: day.starts_with(['*', '?']),
            weekday_is_any: weekday.starts_with(['*', '?']),
        })
    }

    fn names_day(&self, time: DateTime) -> bool {
        let day = self.days & (1 << time.day()) != 0;
        let weekday = self.weekdays & (1 << time.weekday().to_sunday_zero_offset()) != 0;
        let month = self.months & (1 << time.month()) != 0;
        // When both are restricted either one is enough; that is how cron has always been.
        let fits = if self.day_is_any || self.weekday_is_any { day && weekday } else { day || weekday };
        month && fits
    }

    /// The first time after `after`, if there is one in the next five years.
    pub(crate) fn next(&self, after: DateTime) -> Option<DateTime> {
        let start = after.with().second(0).subsec_nanosecond(0).build().ok()?;
        let mut time = start.checked_add(jiff::Span::new().minutes(1)).ok()?;
        let end = after.year() + 5;
        while time.year() <= end {
            if !self.names_day(time) {
                time = time.date().tomorrow().ok()?.at(0, 0, 0, 0);
            } else if self.hours & (1 << time.hour()) == 0 {
                let hour_start = time.with().minute(0).build().ok()?;
                time = hour_start.checked_add(jiff::Span::new().hours(1)).ok()?;
            } else if self.minutes & (1 << time.minute()) == 0 {
                time = time.checked_add(jiff::Span::new().minutes(1)).ok()?;
            } else {
                return Some(time);
            }
        }
        None
    }
}

fn set(text: &str, low: u32, high: u32, names: &[&str], first: u32) -> Option<u64> {
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse::<u32>().ok().filter(|s| *s > 0)?),
            None => (part, 1),
        };
        let number = |word: &str| -> Option<u32> {
            let named = names.iter().position(|n| word.to_lowercase() == *n).map(|i| i as u32 + first);
            named.or_else(|| word.parse().ok()).filter(|n| (low..=high).contains(n))
        };
        let top = if high == 7 { 6 } else { high };
        let (from, to) = match range {
            "*" | "?" => (low, top),
            _ => match range.split_once('-') {
                Some((a, b)) => (number(a)?, number(b)?),
                None if part.contains('/') => (number(range)?, top),
                None => (number(range)?, number(range)?),
            },
        };
        if from > to {
            return None;
        }
        (from..=to).step_by(step as usize).for_each(|n| bits |= 1 << n);
    }
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schedule: &str, after: &str, expected: &str) {
        let schedule = Schedule::parse(schedule).unwrap_or_else(|| panic!("{schedule} is a schedule"));
        let after: DateTime = after.parse().expect("a time");
        assert_eq!(schedule.next(after).map(|t| t.to_string()), Some(expected.to_owned()));
    }

    #[test]
    fn the_next_time_is_found() {
        check("*/5 * * * *", "2026-11-15T10:02:30", "2026-11-15T10:05:00");
        check("0 0 1 1 *", "2026-11-15T10:02:30", "2027-01-01T00:00:00");
        check("30 9-17/4 * * mon-fri", "2026-11-13T18:00:00", "2026-11-16T09:30:00");
        check("0 12 13 * 5", "2026-11-14T00:00:00", "2026-11-20T12:00:00");
        check("0 0 29 2 *", "2026-11-15T00:00:00", "2028-02-29T00:00:00");
        check("15 3 * * 7", "2026-11-14T00:00:00", "2026-11-15T03:15:00");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "* * * *", "61 * * * *", "* * 0 * *", "a b c d e", "*/0 * * * *", "5-1 * * * *"] {
            assert_eq!(Schedule::parse(text), None, "{text}");
        }
    }
}
