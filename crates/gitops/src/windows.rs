//! Sync windows: when a project lets its applications be synced.

use crate::project::ClusterNames;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use slipway_crd::{Application, SyncWindow};
use slipway_dialect::cron::{Dialect, Schedule};
use slipway_dialect::{duration, glob};

/// Whether a sync may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WindowVerdict {
    Open,
    Closed {
        /// A sentence for people.
        why: String,
        /// When to ask again, where that is known.
        again_at: Option<Timestamp>,
    },
}

/// A question to the windows.
#[derive(Debug, Clone, Copy)]
pub struct WindowQuery {
    pub now: Timestamp,
    /// A person asked for the sync.
    pub manual: bool,
    /// Set for a sync that runs already: when it started.
    pub running_since: Option<Timestamp>,
}

/// The windows of a project that are about an application.
pub fn matching<'w>(
    windows: &'w [SyncWindow],
    application: &Application,
    cluster: &ClusterNames<'_>,
) -> Vec<&'w SyncWindow> {
    let namespace = &application.spec.destination.namespace;
    windows
        .iter()
        .filter(|window| {
            let any = |patterns: &[String], texts: &[&str]| {
                patterns.iter().any(|p| texts.iter().any(|text| !text.is_empty() && glob::matches(p, text)))
            };
            let checks = [
                (&window.applications, any(&window.applications, &[&application.metadata.name])),
                (&window.namespaces, any(&window.namespaces, &[namespace])),
                (&window.clusters, any(&window.clusters, &[cluster.server, cluster.name])),
            ];
            let mut asked =
                checks.iter().filter(|(patterns, _)| !patterns.is_empty()).map(|(_, fits)| *fits).peekable();
            if asked.peek().is_none() {
                return false;
            }
            if window.and_operator { asked.all(|fits| fits) } else { asked.any(|fits| fits) }
        })
        .collect()
}

/// May a sync run? A window that cannot be read closes: nobody knows what it was meant to forbid.
pub fn can_sync(windows: &[&SyncWindow], query: WindowQuery) -> WindowVerdict {
    let mut active = Vec::new();
    let mut inactive_allows = Vec::new();
    for window in windows {
        match state(window, query.now) {
            Err(why) => return WindowVerdict::Closed { why, again_at: None },
            Ok(State::Active) => active.push(*window),
            Ok(State::Inactive { next }) if window.kind == "allow" => inactive_allows.push((*window, next)),
            Ok(State::Inactive { .. }) => {}
        }
    }
    let denies: Vec<&SyncWindow> = active.iter().copied().filter(|w| w.kind == "deny").collect();
    let passes = |against: &[&SyncWindow]| {
        let manual = query.manual && against.iter().all(|w| w.manual_sync);
        let overrun = query.running_since.is_some_and(|start| {
            let then = WindowQuery { now: start, running_since: None, ..query };
            against.iter().all(|w| w.sync_overrun) && can_sync(windows, then) == WindowVerdict::Open
        });
        manual || overrun
    };
    if !denies.is_empty() {
        if passes(&denies) {
            return WindowVerdict::Open;
        }
        let again_at = denies.iter().filter_map(|w| end(w, query.now)).max();
        let why = format!("Sync operation blocked by sync window ({})", describe(denies[0]));
        return WindowVerdict::Closed { why, again_at };
    }
    if active.iter().any(|w| w.kind == "allow") || inactive_allows.is_empty() {
        return WindowVerdict::Open;
    }
    let allows: Vec<&SyncWindow> = inactive_allows.iter().map(|(w, _)| *w).collect();
    if passes(&allows) {
        return WindowVerdict::Open;
    }
    WindowVerdict::Closed {
        why: format!("Sync operation blocked by sync window (only open: {})", describe(allows[0])),
        again_at: inactive_allows.iter().filter_map(|(_, next)| *next).min(),
    }
}

fn describe(window: &SyncWindow) -> String {
    format!("{} {} for {}", window.kind, window.schedule, window.duration)
}

enum State {
    Active,
    Inactive { next: Option<Timestamp> },
}

struct Parsed {
    schedule: Schedule,
    length: SignedDuration,
    zone: TimeZone,
}

fn parse(window: &SyncWindow) -> Result<Parsed, String> {
    let schedule = Schedule::parse(&window.schedule, Dialect::Standard)
        .map_err(|_| format!("sync window has the schedule `{}`, which is no five-field cron schedule; correct it in the AppProject", window.schedule))?;
    let length = duration::parse_go(&window.duration)
        .filter(|ms| *ms > 0)
        .ok_or_else(|| format!("sync window has the duration `{}`, which is none (write 30m or 2h); correct it in the AppProject", window.duration))?;
    let zone = match window.time_zone.as_str() {
        "" => TimeZone::UTC,
        name => TimeZone::get(name)
            .map_err(|_| format!("sync window has the time zone `{name}`, which is not known; use an IANA name in the AppProject"))?,
    };
    Ok(Parsed { schedule, length: SignedDuration::from_millis(length), zone })
}

/// A window is active when it started less than its length ago.
fn state(window: &SyncWindow, now: Timestamp) -> Result<State, String> {
    let parsed = parse(window)?;
    let from = now.checked_sub(parsed.length).unwrap_or(Timestamp::MIN);
    Ok(match parsed.schedule.next(from, &parsed.zone) {
        Some(start) if start < now => State::Active,
        next => State::Inactive { next },
    })
}

/// When a window that is active now ends, if it does not start again meanwhile.
fn end(window: &SyncWindow, now: Timestamp) -> Option<Timestamp> {
    let parsed = parse(window).ok()?;
    let mut start = parsed.schedule.next(now.checked_sub(parsed.length).ok()?, &parsed.zone)?;
    while let Some(next) = parsed.schedule.next(start, &parsed.zone).filter(|next| *next < now) {
        start = next;
    }
    start.checked_add(parsed.length).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn window(value: Value) -> SyncWindow {
        serde_json::from_value(value).expect("readable")
    }

    fn ask(windows: &[Value], now: &str, manual: bool, since: Option<&str>) -> bool {
        let windows: Vec<SyncWindow> = windows.iter().cloned().map(window).collect();
        let query = WindowQuery {
            now: now.parse().expect("a time"),
            manual,
            running_since: since.map(|s| s.parse().expect("a time")),
        };
        can_sync(&windows.iter().collect::<Vec<_>>(), query) == WindowVerdict::Open
    }

    #[test]
    fn denies_close_and_allows_open() {
        let deny = json!({"kind": "deny", "schedule": "0 22 * * *", "duration": "1h"});
        let allow = json!({"kind": "allow", "schedule": "0 9 * * *", "duration": "8h"});
        assert!(ask(&[], "2026-01-01T22:30:00Z", false, None));
        assert!(!ask(std::slice::from_ref(&deny), "2026-01-01T22:30:00Z", false, None));
        assert!(ask(std::slice::from_ref(&deny), "2026-01-01T23:00:01Z", false, None));
        assert!(ask(std::slice::from_ref(&allow), "2026-01-01T10:00:00Z", false, None));
        assert!(!ask(std::slice::from_ref(&allow), "2026-01-01T18:00:00Z", false, None));
        assert!(!ask(&[allow, deny], "2026-01-01T22:30:00Z", false, None));
    }

    #[test]
    fn people_and_running_syncs_pass_only_if_all_say_so() {
        let with = |manual: bool, overrun: bool| json!({"kind": "deny", "schedule": "0 22 * * *", "duration": "1h", "manualSync": manual, "syncOverrun": overrun});
        assert!(ask(&[with(true, false)], "2026-01-01T22:30:00Z", true, None));
        assert!(!ask(&[with(true, false), with(false, false)], "2026-01-01T22:30:00Z", true, None));
        assert!(ask(&[with(false, true)], "2026-01-01T22:30:00Z", false, Some("2026-01-01T21:30:00Z")));
        assert!(!ask(&[with(false, true)], "2026-01-01T22:30:00Z", false, Some("2026-01-01T22:10:00Z")));
    }

    #[test]
    fn unreadable_windows_close_and_say_why() {
        let broken = window(json!({"kind": "allow", "schedule": "often", "duration": "1h"}));
        let query = WindowQuery { now: Timestamp::UNIX_EPOCH, manual: true, running_since: None };
        let WindowVerdict::Closed { why, .. } = can_sync(&[&broken], query) else { panic!("open") };
        assert!(why.contains("`often`") && why.contains("AppProject"), "{why}");
    }

    #[test]
    fn a_closed_window_says_when_to_ask_again() {
        let deny = window(json!({"kind": "deny", "schedule": "0 22 * * *", "duration": "1h"}));
        let query = WindowQuery {
            now: "2026-01-01T22:30:00Z".parse().expect("a time"),
            manual: false,
            running_since: None,
        };
        let WindowVerdict::Closed { again_at, .. } = can_sync(&[&deny], query) else { panic!("open") };
        assert_eq!(again_at.map(|t| t.to_string()).as_deref(), Some("2026-01-01T23:00:00Z"));
    }

    #[test]
    fn windows_match_by_any_or_all() {
        let app: Application = serde_json::from_value(
            json!({"metadata": {"name": "shop"}, "spec": {"destination": {"namespace": "web"}}}),
        )
        .expect("readable");
        let cluster = ClusterNames { server: "https://one", name: "one" };
        let list = |and: bool| {
            vec![window(
                json!({"kind": "deny", "applications": ["sh*"], "clusters": ["two"], "andOperator": and}),
            )]
        };
        assert_eq!(matching(&list(false), &app, &cluster).len(), 1);
        assert_eq!(matching(&list(true), &app, &cluster).len(), 0);
        assert_eq!(matching(&[window(json!({"kind": "deny"}))], &app, &cluster).len(), 0);
    }
}
