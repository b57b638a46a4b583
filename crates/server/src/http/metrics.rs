//! Counters for Prometheus, and the one bound on how much an anonymous caller can make the server write.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::time::Duration;

use slipway_store::{deferred, facts, leases, usage};

use crate::ctx::Server;

const BUCKETS_S: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0];
const DENIALS_PER_SECOND: i64 = 10;
const DENIALS_BURST: i64 = 100;

#[derive(Default)]
pub(crate) struct Metrics {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By route as it is mounted, never as it was asked: a caller must not make series.
    requests: BTreeMap<(String, String, u16), u64>,
    durations: BTreeMap<(String, String), Histogram>,
    denials_suppressed: u64,
    /// What was old, by what it was.
    forgotten: BTreeMap<&'static str, usize>,
    /// Each is tens of milliseconds of one core.
    passwords_checked: u64,
    /// Milli-denials that may still be written, and when that was so.
    allowance: Option<(i64, i64)>,
}

#[derive(Default, Clone)]
struct Histogram {
    buckets: [u64; BUCKETS_S.len()],
    count: u64,
    seconds: f64,
}

impl Metrics {
    pub(crate) fn request(&self, method: &str, route: &str, status: u16, took: Duration) {
        let mut state = self.state.lock().expect("not poisoned");
        *state.requests.entry((method.to_owned(), route.to_owned(), status)).or_default() += 1;
        let histogram = state.durations.entry((method.to_owned(), route.to_owned())).or_default();
        let seconds = took.as_secs_f64();
        for (bucket, bound) in histogram.buckets.iter_mut().zip(BUCKETS_S) {
            *bucket += u64::from(seconds <= bound);
        }
        histogram.count += 1;
        histogram.seconds += seconds;
    }

    pub(crate) fn forgot(&self, what: &'static str, count: usize) {
        *self.state.lock().expect("not poisoned").forgotten.entry(what).or_default() += count;
    }

    pub(crate) fn password_checked(&self) {
        self.state.lock().expect("not poisoned").passwords_checked += 1;
    }

    /// Whether there is room for a record of a call that nobody made.
    pub(crate) fn anonymous_denial(&self, now_ms: i64) -> bool {
        let mut state = self.state.lock().expect("not poisoned");
        let (left, since_ms) = state.allowance.unwrap_or((DENIALS_BURST * 1000, now_ms));
        let refilled = left + (now_ms - since_ms).max(0) * DENIALS_PER_SECOND;
        let left = refilled.min(DENIALS_BURST * 1000) - 1000;
        let fits = left >= 0;
        state.allowance = Some((if fits { left } else { left + 1000 }, now_ms));
        state.denials_suppressed += u64::from(!fits);
        fits
    }
}

/// The exposition format's own three escapes.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Whoever scrapes does not wait for a database that is away: the rest is told without it.
const DATABASE_WITHIN: Duration = Duration::from_secs(2);

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// What only the database knows.
struct Counted {
    totals: usage::Totals,
    backlog: i64,
    deferred: (i64, i64),
    leases: Vec<leases::Lease>,
}

async fn counted(server: &Server) -> Option<Counted> {
    let read = server.store().read(|tx| {
        Ok(Counted {
            totals: usage::everywhere(tx)?,
            backlog: facts::last_seq(tx)? - facts::cursor(tx, crate::facts::relay::CURSOR)?,
            deferred: deferred::counts(tx)?,
            leases: leases::list(tx)?,
        })
    });
    match tokio::time::timeout(DATABASE_WITHIN, read).await {
        Ok(Ok(counted)) => Some(counted),
        Ok(Err(error)) => {
            tracing::warn!(%error, "Cannot read metrics from the database; serving the others only.");
            None
        }
        Err(_) => None,
    }
}

pub(crate) async fn render(server: &Server) -> String {
    let counted = counted(server).await;
    let mut out = String::new();
    {
        let state = server.inner.metrics.state.lock().expect("not poisoned");
        head(&mut out, "slipway_http_requests_total", "counter", "Calls answered.");
        for ((method, route, status), count) in &state.requests {
            let route = label(route);
            let _ = writeln!(
                out,
                "slipway_http_requests_total{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}} {count}"
            );
        }
        head(&mut out, "slipway_http_request_duration_seconds", "histogram", "Duration of requests.");
        for ((method, route), histogram) in &state.durations {
            let labels = format!("method=\"{method}\",route=\"{}\"", label(route));
            for (bound, count) in BUCKETS_S.iter().zip(histogram.buckets) {
                let _ = writeln!(
                    out,
                    "slipway_http_request_duration_seconds_bucket{{{labels},le=\"{bound}\"}} {count}"
                );
            }
            let (count, seconds) = (histogram.count, histogram.seconds);
            let _ =
                writeln!(out, "slipway_http_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} {count}");
            let _ = writeln!(out, "slipway_http_request_duration_seconds_sum{{{labels}}} {seconds}");
            let _ = writeln!(out, "slipway_http_request_duration_seconds_count{{{labels}}} {count}");
        }
        head(
            &mut out,
            "slipway_audit_suppressed_total",
            "counter",
            "Denied anonymous requests that were not recorded.",
        );
        let _ = writeln!(out, "slipway_audit_suppressed_total {}", state.denials_suppressed);
        head(&mut out, "slipway_password_checks_total", "counter", "Password verifications.");
        let _ = writeln!(out, "slipway_password_checks_total {}", state.passwords_checked);
        head(&mut out, "slipway_forgotten_total", "counter", "What was deleted because it is old.");
        for (what, count) in &state.forgotten {
            let _ = writeln!(out, "slipway_forgotten_total{{what=\"{what}\"}} {count}");
        }
    }
    let tunnels = server.inner.tunnels.count();
    for (name, kind, count, help) in [
        ("slipway_tunnels", "gauge", tunnels.open as u64, "Open tunnels of runtimes at this process."),
        ("slipway_tunnel_requests_in_flight", "gauge", tunnels.in_flight as u64, "Requests in tunnels."),
        ("slipway_tunnels_opened_total", "counter", tunnels.opened, "Tunnels that were opened."),
        ("slipway_tunnel_requests_total", "counter", tunnels.answered, "Requests that a runtime answered."),
        ("slipway_tunnel_failures_total", "counter", tunnels.failed, "Requests that no runtime answered."),
    ] {
        head(&mut out, name, kind, help);
        let _ = writeln!(out, "{name} {count}");
    }
    render_parts(server, &mut out, counted.is_some()).await;
    let Some(Counted { totals, backlog, deferred, leases }) = counted else { return out };
    head(&mut out, "slipway_facts_waiting", "gauge", "Events that are not published to the bus yet.");
    let _ = writeln!(out, "slipway_facts_waiting {}", backlog.max(0));
    head(
        &mut out,
        "slipway_deferred_messages",
        "gauge",
        "Messages that wait for a retry, and those that were given up.",
    );
    let _ = writeln!(out, "slipway_deferred_messages{{state=\"waiting\"}} {}", deferred.0);
    let _ = writeln!(out, "slipway_deferred_messages{{state=\"dead\"}} {}", deferred.1);
    head(&mut out, "slipway_lease_remaining_seconds", "gauge", "Remaining time of each leader's lease.");
    for lease in &leases {
        let seconds = lease.left_ms.max(0) / 1000;
        let _ = writeln!(out, "slipway_lease_remaining_seconds{{work=\"{}\"}} {seconds}", label(&lease.name));
    }
    head(&mut out, "slipway_builds", "gauge", "Builds by status.");
    for (status, count) in &totals.builds {
        let _ = writeln!(out, "slipway_builds{{status=\"{}\"}} {count}", label(status));
    }
    for (name, count, help) in [
        ("slipway_accounts", totals.accounts, "Active accounts."),
        ("slipway_users", totals.users, "People who may sign in."),
        ("slipway_sessions", totals.sessions, "Browser sessions."),
        ("slipway_runtimes", totals.runtimes, "GitOps runtimes."),
        ("slipway_applications", totals.applications, "Applications."),
        ("slipway_audit_records", totals.audit, "Records in the audit log."),
    ] {
        head(&mut out, name, "gauge", help);
        let _ = writeln!(out, "{name} {count}");
    }
    out
}

/// What this process stands on, what it does in the background, and how it goes.
async fn render_parts(server: &Server, out: &mut String, database_is_up: bool) {
    head(out, "slipway_part_up", "gauge", "Whether a dependency of this process responds.");
    let parts = [
        ("database", database_is_up),
        ("bus", server.inner.bus.is_up()),
        ("cache", server.inner.live.is_up()),
    ];
    for (part, up) in parts {
        let _ = writeln!(out, "slipway_part_up{{part=\"{part}\"}} {}", u8::from(up));
    }
    head(out, "slipway_bus_dead_letters", "gauge", "Messages in the broker's dead-letter queues.");
    for queue in crate::ctx::QUEUES {
        let asked = tokio::time::timeout(DATABASE_WITHIN, server.inner.bus.set_aside(queue.name)).await;
        if let Ok(Ok(count)) = asked {
            let _ = writeln!(out, "slipway_bus_dead_letters{{queue=\"{}\"}} {count}", queue.name);
        }
    }
    let jobs = server.inner.jobs.list();
    head(out, "slipway_job_failures", "gauge", "Consecutive failures of a background job.");
    for (name, job) in &jobs {
        let _ = writeln!(out, "slipway_job_failures{{job=\"{name}\"}} {}", job.failures);
    }
    head(out, "slipway_job_failures_total", "counter", "Failures of a background job.");
    for (name, job) in &jobs {
        let _ = writeln!(out, "slipway_job_failures_total{{job=\"{name}\"}} {}", job.failures_total);
    }
    head(out, "slipway_job_last_success_timestamp_seconds", "gauge", "When a background job last succeeded.");
    for (name, job) in &jobs {
        if let Some(at_ms) = job.last_success_ms {
            let _ = writeln!(
                out,
                "slipway_job_last_success_timestamp_seconds{{job=\"{name}\"}} {}",
                at_ms / 1000
            );
        }
    }
    head(
        out,
        "slipway_leading",
        "gauge",
        "Work of which this process is the leader, by the epoch of its lease.",
    );
    for (work, epoch) in server.inner.jobs.leading() {
        let _ = writeln!(out, "slipway_leading{{work=\"{work}\"}} {epoch}");
    }
    render_polls(server, out);
    let stats = server.store().stats();
    #[allow(clippy::cast_precision_loss)]
    let waited = stats.waited_micros as f64 / 1e6;
    head(
        out,
        "slipway_store_write_wait_seconds",
        "summary",
        "Time that writes waited for the single writer.",
    );
    let _ = writeln!(out, "slipway_store_write_wait_seconds_sum {waited}");
    let _ = writeln!(out, "slipway_store_write_wait_seconds_count {}", stats.writes);
    head(out, "slipway_store_writes_waiting", "gauge", "Writes that currently wait for the single writer.");
    let _ = writeln!(out, "slipway_store_writes_waiting {}", stats.waiting);
    head(
        out,
        "slipway_store_connections",
        "gauge",
        "Open connections to PostgreSQL, besides the one that listens.",
    );
    let _ = writeln!(out, "slipway_store_connections {}", stats.connections);
}

/// What runners cost that wait for work.
fn render_polls(server: &Server, out: &mut String) {
    let cost = server.inner.polls.cost();
    head(out, "slipway_runner_calls_held", "gauge", "Calls of runners that wait for something to do.");
    let _ = writeln!(out, "slipway_runner_calls_held {}", cost.held);
    head(out, "slipway_runner_looks_total", "counter", "Looks for something that a runner may do.");
    for (by, count) in [("queue", cost.queue_looks), ("runner", cost.looks)] {
        let _ = writeln!(out, "slipway_runner_looks_total{{by=\"{by}\"}} {count}");
    }
    head(out, "slipway_runner_writes_total", "counter", "Writes for runners that called.");
    let _ = writeln!(out, "slipway_runner_writes_total {}", cost.writes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_fills_the_disk_with_denials() {
        let metrics = Metrics::default();
        let kept = (0..1000).filter(|_| metrics.anonymous_denial(0)).count();
        assert_eq!(kept, 100);
        assert_eq!((0..1000).filter(|_| metrics.anonymous_denial(1000)).count(), 10);
    }
}
