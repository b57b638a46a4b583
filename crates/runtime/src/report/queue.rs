//! How reporting fares: what waits, what was heard, and how often it had to be said again.

use std::sync::atomic::{AtomicU64, Ordering};

use slipway_dialect::prometheus::{Kind, Text};

/// Written by whoever sends, read by whoever counts.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: AtomicU64,
    outbox_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    acknowledged: AtomicU64,
    failed: AtomicU64,
    postponed: AtomicU64,
    heard_at_ms: AtomicU64,
}

impl Queue {
    pub(super) fn holds(&self, objects: usize, bytes: usize) {
        self.waiting.store(objects as u64, Ordering::Relaxed);
        self.outbox_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn acknowledged(&self, bytes: usize) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let now = jiff::Timestamp::now().as_millisecond();
        self.heard_at_ms.store(u64::try_from(now).unwrap_or(0), Ordering::Relaxed);
    }

    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn postponed(&self) {
        self.postponed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn write(&self, text: &mut Text) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        for (name, kind, help, value) in [
            (
                "slipway_reports_waiting",
                Kind::Gauge,
                "Objects whose state the platform has not heard.",
                of(&self.waiting),
            ),
            (
                "slipway_reports_outbox_bytes",
                Kind::Gauge,
                "Size of the file in which reports wait.",
                of(&self.outbox_bytes),
            ),
            (
                "slipway_reports_acknowledged_total",
                Kind::Counter,
                "Bodies that the platform took.",
                of(&self.acknowledged),
            ),
            (
                "slipway_reports_sent_bytes_total",
                Kind::Counter,
                "Bytes of those, packed.",
                of(&self.sent_bytes),
            ),
            (
                "slipway_reports_retries_total",
                Kind::Counter,
                "Bodies that did not get through and are sent again.",
                of(&self.failed),
            ),
            (
                "slipway_reports_postponed_total",
                Kind::Counter,
                "Times that the platform asked to be left alone.",
                of(&self.postponed),
            ),
            (
                "slipway_reports_last_acknowledged_timestamp_seconds",
                Kind::Gauge,
                "When the platform last took a body; 0: never.",
                of(&self.heard_at_ms) / 1000.0,
            ),
        ] {
            text.family(name, kind, help);
            text.plain(name, value);
        }
    }
}
