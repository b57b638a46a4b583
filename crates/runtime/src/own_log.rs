//! What this process says of its work, kept for those who look after it from afar.
//!
//! In: events of our own rooms, from informational ones on. Out: the last of them, up to [`BYTES_MAX`]; a line is cut, and addresses have lost
//! what opens them. Knows no file: whoever wants more of it reads the process's own log.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use slipway_api::proxy::{RuntimeLogLine, RuntimeLogs};
use slipway_source::without_userinfo;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

const BYTES_MAX: usize = 1 << 20;
const LINE_CHARS_MAX: usize = 2_000;
/// The rooms that a runtime is made of; of a process that is a platform too, the rest is not the runtime's to show.
const ROOMS: [&str; 9] = [
    "slipway_runtime",
    "slipway_reconcile",
    "slipway_cluster",
    "slipway_source",
    "slipway_gitops",
    "slipway_rollout",
    "slipway_workflow",
    "slipway_forge",
    "slipway_cage",
];

#[derive(Debug, Default)]
pub struct OwnLog {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<RuntimeLogLine>,
    bytes: usize,
    dropped: u64,
}

impl OwnLog {
    /// What hears the events of this process.
    pub fn layer<S: Subscriber>(self: &Arc<Self>) -> impl Layer<S> + use<S> {
        Listening(self.clone())
    }

    fn say(&self, level: Level, target: &str, message: &str) {
        let message: String = without_userinfo(message).chars().take(LINE_CHARS_MAX).collect();
        let at = jiff::Timestamp::now().to_string();
        let line = RuntimeLogLine { at, level: level.to_string(), component: component(target), message };
        let mut kept = self.kept.lock().expect("no panic while locked");
        kept.bytes += weight(&line);
        kept.lines.push_back(line);
        while kept.bytes > BYTES_MAX {
            let Some(oldest) = kept.lines.pop_front() else { break };
            kept.bytes -= weight(&oldest);
            kept.dropped += 1;
        }
    }

    /// Empty `component`: of all.
    pub(crate) fn read(&self, process: &str, component: &str, tail: usize) -> RuntimeLogs {
        let kept = self.kept.lock().expect("no panic while locked");
        let components: BTreeSet<_> = kept.lines.iter().map(|line| line.component.clone()).collect();
        let of = |line: &&RuntimeLogLine| component.is_empty() || line.component == component;
        let mut lines: Vec<_> = kept.lines.iter().rev().filter(of).take(tail).cloned().collect();
        lines.reverse();
        RuntimeLogs {
            process: process.to_owned(),
            components: components.into_iter().collect(),
            dropped: kept.dropped,
            lines,
        }
    }
}

fn weight(line: &RuntimeLogLine) -> usize {
    line.message.len() + line.component.len() + 100
}

/// `slipway_runtime::engines::application_sets::…` is `applicationsets`, as the engine is called.
fn component(target: &str) -> String {
    let mut parts = target.split("::").skip(1);
    let name = match parts.next() {
        Some("engines") => parts.next().unwrap_or("runtime"),
        Some("report") => "reports",
        Some("app_proxy") => "app-proxy",
        Some("tunnel") => "tunnel",
        Some("clusters") => "clusters",
        _ if target.starts_with("slipway_source") => "git",
        _ if target.starts_with("slipway_cluster") => "clusters",
        _ => "runtime",
    };
    name.replace('_', if name.starts_with("application") { "" } else { "-" })
}

struct Listening(Arc<OwnLog>);

impl<S: Subscriber> Layer<S> for Listening {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let room = metadata.target().split("::").next().unwrap_or_default();
        if *metadata.level() > Level::INFO || !ROOMS.contains(&room) {
            return;
        }
        let mut words = Words::default();
        event.record(&mut words);
        self.0.say(*metadata.level(), metadata.target(), &format!("{}{}", words.message, words.fields));
    }
}

/// The sentence, and behind it what it is about.
#[derive(Default)]
struct Words {
    message: String,
    fields: String,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let into = if field.name() == "message" { &mut self.message } else { &mut self.fields };
        let _ = match field.name() {
            "message" => write!(into, "{value:?}"),
            name => write!(into, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn what_our_rooms_say_is_kept_by_component_and_without_secrets() {
        let log = Arc::<OwnLog>::default();
        let subscriber = tracing_subscriber::registry().with(log.layer());
        tracing::subscriber::with_default(subscriber, || {
            let url = "https://me:secret-canary@host/x";
            tracing::warn!(target: "slipway_runtime::engines::application_sets::reconcile", url, "Cannot read it.");
            tracing::info!(target: "slipway_runtime::app_proxy::logs", "A log was opened.");
            tracing::debug!(target: "slipway_runtime::app_proxy", "too much");
            tracing::error!(target: "slipway_server::identity", "nobody's business here");
        });
        let all = log.read("p1", "", 10);
        assert_eq!(
            (all.components, all.dropped),
            (vec!["app-proxy".to_owned(), "applicationsets".into()], 0)
        );
        let said = |line: &RuntimeLogLine| format!("{} {} {}", line.level, line.component, line.message);
        assert_eq!(
            all.lines.iter().map(said).collect::<Vec<_>>(),
            [
                "WARN applicationsets Cannot read it. url=\"https://***@host/x\"",
                "INFO app-proxy A log was opened."
            ]
        );
        assert_eq!(log.read("p1", "app-proxy", 10).lines.len(), 1);
        assert_eq!(log.read("p1", "", 1).lines[0].component, "app-proxy", "the last ones");
    }

    #[test]
    fn it_has_an_end() {
        let log = OwnLog::default();
        for _ in 0..2_000 {
            log.say(Level::INFO, "slipway_runtime", &"x".repeat(100_000));
        }
        let kept = log.read("p1", "", usize::MAX);
        let bytes: usize = kept.lines.iter().map(weight).sum();
        assert!(bytes <= BYTES_MAX && kept.dropped > 1_000, "{bytes} {}", kept.dropped);
    }
}
