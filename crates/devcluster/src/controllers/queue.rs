//! A queue of keys: each at most once, due at a time, with growing delays for those that fail.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

type Key = (String, String);

#[derive(Default)]
pub(super) struct Queue {
    due: Mutex<HashMap<Key, Instant>>,
    failures: Mutex<HashMap<Key, u32>>,
    changed: Notify,
}

impl Queue {
    pub(super) fn add(&self, key: Key) {
        self.add_after(key, Duration::ZERO);
    }

    /// An earlier time wins over a later one.
    pub(super) fn add_after(&self, key: Key, delay: Duration) {
        let at = Instant::now() + delay;
        let mut due = self.due.lock().expect("queue lock");
        due.entry(key).and_modify(|old| *old = at.min(*old)).or_insert(at);
        drop(due);
        self.changed.notify_one();
    }

    pub(super) fn succeeded(&self, key: &Key) {
        self.failures.lock().expect("queue lock").remove(key);
    }

    /// How long to wait after one more failure.
    pub(super) fn failed(&self, key: &Key) -> Duration {
        let mut failures = self.failures.lock().expect("queue lock");
        let count = failures.entry(key.clone()).or_insert(0);
        *count += 1;
        Duration::from_millis((20 << (*count).min(10)).min(15_000))
    }

    pub(super) async fn next(&self) -> Key {
        loop {
            let earliest = {
                let mut due = self.due.lock().expect("queue lock");
                let first = due.iter().min_by_key(|(_, at)| **at).map(|(key, at)| (key.clone(), *at));
                match first {
                    Some((key, at)) if at <= Instant::now() => {
                        due.remove(&key);
                        return key;
                    }
                    other => other.map(|(_, at)| at),
                }
            };
            match earliest {
                None => self.changed.notified().await,
                Some(at) => tokio::select! {
                    () = self.changed.notified() => {}
                    () = tokio::time::sleep_until(at) => {}
                },
            }
        }
    }
}
