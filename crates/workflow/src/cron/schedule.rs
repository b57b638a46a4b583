//! The moments of a CronWorkflow: five fields in a time zone, or `@every 1h30m`; several of them together.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use slipway_crd::workflow::CronWorkflowSpec;
use slipway_dialect::{cron, duration};

/// More moments between two looks are not counted one by one.
const MOMENTS_MAX: usize = 100_000;

pub struct Schedules {
    all: Vec<Schedule>,
    texts: Vec<String>,
}

enum Schedule {
    Fields(cron::Schedule, TimeZone),
    Every(SignedDuration),
}

impl Schedules {
    pub fn of(spec: &CronWorkflowSpec) -> Result<Self, String> {
        let texts: Vec<&String> =
            spec.schedules.iter().chain(Some(&spec.schedule).filter(|text| !text.is_empty())).collect();
        if texts.is_empty() {
            return Err("it has no schedule".into());
        }
        let zone = zone(&spec.timezone)?;
        let all: Result<Vec<Schedule>, String> = texts.iter().map(|text| read(text, &zone)).collect();
        let texts = texts.iter().map(|text| match spec.timezone.as_str() {
            "" => (*text).clone(),
            zone => format!("CRON_TZ={zone} {text}"),
        });
        Ok(Self { texts: texts.collect(), all: all? })
    }

    /// All of them in one text: whether somebody changed them.
    pub fn written(&self) -> String {
        self.texts.join(",")
    }

    /// The next moment after this one; what comes every so often is counted from `from`.
    pub fn next(&self, from: Timestamp, after: Timestamp) -> Option<Timestamp> {
        self.all.iter().filter_map(|one| one.next(from, after)).min()
    }

    /// The last moment after `from` and not after `now`.
    pub fn latest(&self, from: Timestamp, now: Timestamp) -> Option<Timestamp> {
        self.all.iter().filter_map(|one| one.latest(from, now)).max()
    }
}

impl Schedule {
    fn next(&self, from: Timestamp, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Fields(fields, zone) => fields.next(after, zone),
            Self::Every(every) => from.checked_add(every.checked_mul(times(*every, from, after)? + 1)?).ok(),
        }
    }

    fn latest(&self, from: Timestamp, now: Timestamp) -> Option<Timestamp> {
        if let Self::Every(every) = self {
            let times = times(*every, from, now).filter(|times| *times > 0)?;
            return from.checked_add(every.checked_mul(times)?).ok();
        }
        // Of a long time the end is enough: nothing that is further back can be the last one.
        let mut found = None;
        for days in [1, 32, 366, 3660] {
            let start = now.checked_sub(SignedDuration::from_hours(24 * days)).unwrap_or(from).max(from);
            let mut at = start;
            for _ in 0..MOMENTS_MAX {
                match self.next(from, at).filter(|next| *next <= now) {
                    Some(next) => (found, at) = (Some(next), next),
                    None => break,
                }
            }
            if found.is_some() || start == from {
                break;
            }
        }
        found
    }
}

/// How often it passed between two moments.
fn times(every: SignedDuration, from: Timestamp, to: Timestamp) -> Option<i32> {
    i32::try_from(to.duration_since(from).as_millis().max(0) / every.as_millis().max(1)).ok()
}

fn zone(name: &str) -> Result<TimeZone, String> {
    if name.is_empty() {
        return Ok(TimeZone::UTC);
    }
    TimeZone::get(name).map_err(|_| format!("`{name}` is no time zone; they are called like Europe/Berlin"))
}

/// `CRON_TZ=Zone` before it and `@every 1h30m` are known besides.
fn read(text: &str, standard: &TimeZone) -> Result<Schedule, String> {
    let text = text.trim();
    let (zone, times) = match text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ=")) {
        Some(rest) => {
            let (name, times) =
                rest.split_once(char::is_whitespace).ok_or("there is nothing behind its time zone")?;
            (zone(name)?, times)
        }
        None => (standard.clone(), text),
    };
    match every(times)? {
        Some(every) => Ok(Schedule::Every(every)),
        None => {
            cron::Schedule::parse(times, cron::Dialect::Standard).map(|fields| Schedule::Fields(fields, zone))
        }
    }
}

/// `@every 90s`; not more often than each second. `None`: it is something else.
pub fn every(text: &str) -> Result<Option<SignedDuration>, String> {
    let Some(every) = text.trim().strip_prefix("@every ") else { return Ok(None) };
    let nanos = duration::nanos(every.trim())?;
    let seconds = i64::try_from(nanos / 1_000_000_000).map_err(|_| "it is too long".to_owned())?;
    Ok(Some(SignedDuration::from_secs(seconds.max(1))))
}
