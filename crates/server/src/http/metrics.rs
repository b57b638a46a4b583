//! Counters for Prometheus, and the one bound on how much an anonymous caller can make the server write.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use slipway_dialect::prometheus::{Histogram, Kind, Text};
use slipway_store::{deferred, facts, leases, usage};

use crate::ctx::Server;

static BUCKETS_S: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0];
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
    durations: BTreeMap<(String, String), Histogram<10>>,
    denials_suppressed: u64,
    /// What was old, by what it was.
    forgotten: BTreeMap<&'static str, usize>,
    /// Each is tens of milliseconds of one core.
    passwords_checked: u64,
    /// Milli-denials that may still be written, and when that was so.
    allowance: Option<(i64, i64)>,
}

impl Metrics {
    pub(crate) fn request(&self, method: &str, route: &str, status: u16, took: Duration) {
        let mut state = self.state.lock().expect("not poisoned");
        *state.requests.entry((method.to_owned(), route.to_owned(), status)).or_default() += 1;
        let histogram = state.durations.entry((method.to_owned(), route.to_owned()));
        histogram.or_insert_with(|| Histogram::new(&BUCKETS_S)).add(took.as_secs_f64());
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

/// Whoever scrapes does not wait for a database that is away: the rest is told without it.
const DATABASE_WITHIN: Duration = Duration::from_secs(2);

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
    let mut out = Text::default();
    {
        let state = server.inner.metrics.state.lock().expect("not poisoned");
        out.family("slipway_http_requests_total", Kind::Counter, "Calls answered.");
        for ((method, route, status), count) in &state.requests {
            let labels = [("method", method.as_str()), ("route", route), ("status", &status.to_string())];
            out.line("slipway_http_requests_total", &labels, count);
        }
        out.family("slipway_http_request_duration_seconds", Kind::Histogram, "Duration of requests.");
        for ((method, route), histogram) in &state.durations {
            let labels = [("method", method), ("route", route)];
            out.histogram("slipway_http_request_duration_seconds", &labels, histogram);
        }
        out.family(
            "slipway_audit_suppressed_total",
            Kind::Counter,
            "Denied anonymous requests that were not recorded.",
        );
        out.plain("slipway_audit_suppressed_total", state.denials_suppressed);
        out.family("slipway_password_checks_total", Kind::Counter, "Password verifications.");
        out.plain("slipway_password_checks_total", state.passwords_checked);
        out.family("slipway_forgotten_total", Kind::Counter, "What was deleted because it is old.");
        for (what, count) in &state.forgotten {
            out.line("slipway_forgotten_total", &[("what", what)], count);
        }
    }
    let tunnels = server.inner.tunnels.count();
    for (name, kind, count, help) in [
        ("slipway_tunnels", Kind::Gauge, tunnels.open as u64, "Open tunnels of runtimes at this process."),
        ("slipway_tunnel_requests_in_flight", Kind::Gauge, tunnels.in_flight as u64, "Requests in tunnels."),
        ("slipway_tunnels_opened_total", Kind::Counter, tunnels.opened, "Tunnels that were opened."),
        (
            "slipway_tunnel_requests_total",
            Kind::Counter,
            tunnels.answered,
            "Requests that a runtime answered.",
        ),
        (
            "slipway_tunnel_failures_total",
            Kind::Counter,
            tunnels.failed,
            "Requests that no runtime answered.",
        ),
        (
            "slipway_tunnel_received_bytes_total",
            Kind::Counter,
            tunnels.received,
            "Bytes that runtimes sent through tunnels.",
        ),
        (
            "slipway_tunnel_sent_bytes_total",
            Kind::Counter,
            tunnels.sent,
            "Bytes that went to runtimes through tunnels.",
        ),
    ] {
        out.family(name, kind, help);
        out.plain(name, count);
    }
    render_parts(server, &mut out, counted.is_some()).await;
    let Some(Counted { totals, backlog, deferred, leases }) = counted else { return out.finish() };
    out.family("slipway_facts_waiting", Kind::Gauge, "Events that are not published to the bus yet.");
    out.plain("slipway_facts_waiting", backlog.max(0));
    out.family(
        "slipway_deferred_messages",
        Kind::Gauge,
        "Messages that wait for a retry, and those that were given up.",
    );
    out.line("slipway_deferred_messages", &[("state", "waiting")], deferred.0);
    out.line("slipway_deferred_messages", &[("state", "dead")], deferred.1);
    out.family("slipway_lease_remaining_seconds", Kind::Gauge, "Remaining time of each leader's lease.");
    for lease in &leases {
        let seconds = lease.left_ms.max(0) / 1000;
        out.line("slipway_lease_remaining_seconds", &[("work", &lease.name)], seconds);
    }
    out.family("slipway_builds", Kind::Gauge, "Builds by status.");
    for (status, count) in &totals.builds {
        out.line("slipway_builds", &[("status", status)], count);
    }
    for (name, count, help) in [
        ("slipway_accounts", totals.accounts, "Active accounts."),
        ("slipway_users", totals.users, "People who may sign in."),
        ("slipway_sessions", totals.sessions, "Browser sessions."),
        ("slipway_runtimes", totals.runtimes, "GitOps runtimes."),
        ("slipway_applications", totals.applications, "Applications."),
        ("slipway_audit_records", totals.audit, "Records in the audit log."),
    ] {
        out.family(name, Kind::Gauge, help);
        out.plain(name, count);
    }
    out.finish()
}

/// What this process stands on, what it does in the background, and how it goes.
async fn render_parts(server: &Server, out: &mut Text, database_is_up: bool) {
    out.family("slipway_part_up", Kind::Gauge, "Whether a dependency of this process responds.");
    let parts = [
        ("database", database_is_up),
        ("bus", server.inner.bus.is_up()),
        ("cache", server.inner.live.is_up()),
    ];
    for (part, up) in parts {
        out.line("slipway_part_up", &[("part", part)], u8::from(up));
    }
    out.family("slipway_bus_dead_letters", Kind::Gauge, "Messages in the broker's dead-letter queues.");
    for queue in crate::ctx::QUEUES {
        let asked = tokio::time::timeout(DATABASE_WITHIN, server.inner.bus.set_aside(queue.name)).await;
        if let Ok(Ok(count)) = asked {
            out.line("slipway_bus_dead_letters", &[("queue", queue.name)], count);
        }
    }
    let jobs = server.inner.jobs.list();
    out.family("slipway_job_failures", Kind::Gauge, "Consecutive failures of a background job.");
    for (name, job) in &jobs {
        out.line("slipway_job_failures", &[("job", name)], job.failures);
    }
    out.family("slipway_job_failures_total", Kind::Counter, "Failures of a background job.");
    for (name, job) in &jobs {
        out.line("slipway_job_failures_total", &[("job", name)], job.failures_total);
    }
    out.family(
        "slipway_job_last_success_timestamp_seconds",
        Kind::Gauge,
        "When a background job last succeeded.",
    );
    for (name, job) in &jobs {
        if let Some(at_ms) = job.last_success_ms {
            out.line("slipway_job_last_success_timestamp_seconds", &[("job", name)], at_ms / 1000);
        }
    }
    out.family(
        "slipway_leading",
        Kind::Gauge,
        "Work of which this process is the leader, by the epoch of its lease.",
    );
    for (work, epoch) in server.inner.jobs.leading() {
        out.line("slipway_leading", &[("work", work)], epoch);
    }
    render_polls(server, out);
    let stats = server.store().stats();
    #[allow(clippy::cast_precision_loss)]
    let waited = stats.waited_micros as f64 / 1e6;
    out.family(
        "slipway_store_write_wait_seconds",
        Kind::Summary,
        "Time that writes waited for the single writer.",
    );
    out.plain("slipway_store_write_wait_seconds_sum", waited);
    out.plain("slipway_store_write_wait_seconds_count", stats.writes);
    out.family(
        "slipway_store_writes_waiting",
        Kind::Gauge,
        "Writes that currently wait for the single writer.",
    );
    out.plain("slipway_store_writes_waiting", stats.waiting);
    out.family(
        "slipway_store_connections",
        Kind::Gauge,
        "Open connections to PostgreSQL, besides the one that listens.",
    );
    out.plain("slipway_store_connections", stats.connections);
}

/// What runners cost that wait for work.
fn render_polls(server: &Server, out: &mut Text) {
    let cost = server.inner.polls.cost();
    out.family("slipway_runner_calls_held", Kind::Gauge, "Calls of runners that wait for something to do.");
    out.plain("slipway_runner_calls_held", cost.held);
    out.family("slipway_runner_looks_total", Kind::Counter, "Looks for something that a runner may do.");
    for (by, count) in [("queue", cost.queue_looks), ("runner", cost.looks)] {
        out.line("slipway_runner_looks_total", &[("by", by)], count);
    }
    out.family("slipway_runner_writes_total", Kind::Counter, "Writes for runners that called.");
    out.plain("slipway_runner_writes_total", cost.writes);
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
