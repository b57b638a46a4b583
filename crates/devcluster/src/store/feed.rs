//! The recent changes of one kind, for watches.

use std::collections::VecDeque;
use std::sync::{Arc, RwLock};

use tokio::sync::watch;

use super::{Memory, Stored};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) change: Change,
    pub(crate) object: Arc<Stored>,
    /// The state before, so that a watch with a selector knows what entered and what left.
    pub(crate) before: Option<Arc<Stored>>,
}

/// How many changes of one kind are remembered; a watch that starts further back gets 410 Gone and lists again.
const DEPTH: usize = 1024;
const DEPTH_BYTES: usize = 4 << 20;

pub(super) struct Feed {
    events: VecDeque<Event>,
    bytes: usize,
    floor: u64,
    signal: watch::Sender<u64>,
}

impl Feed {
    pub(super) fn new(floor: u64, version: u64) -> Self {
        Feed { events: VecDeque::new(), bytes: 0, floor, signal: watch::Sender::new(version) }
    }

    pub(super) fn push(&mut self, event: Event) {
        let version = event.version;
        self.bytes += event.object.json.len();
        self.events.push_back(event);
        while self.events.len() > DEPTH || self.bytes > DEPTH_BYTES {
            let Some(old) = self.events.pop_front() else { break };
            self.bytes -= old.object.json.len();
            self.floor = old.version;
        }
        self.signal.send_replace(version);
    }

    pub(super) fn watcher(&self, memory: Arc<RwLock<Memory>>, kind: Arc<str>, since: u64) -> Option<Watcher> {
        (since >= self.floor).then(|| Watcher { memory, kind, since, signal: self.signal.subscribe() })
    }

    fn after(&self, since: u64) -> Option<Vec<Event>> {
        if since < self.floor {
            return None;
        }
        let start = self.events.partition_point(|event| event.version <= since);
        Some(self.events.iter().skip(start).cloned().collect())
    }
}

/// Follows one kind.
pub(crate) struct Watcher {
    memory: Arc<RwLock<Memory>>,
    kind: Arc<str>,
    since: u64,
    signal: watch::Receiver<u64>,
}

impl Watcher {
    /// Waits for changes. Nothing means that the reader was too slow and has to list again.
    pub(crate) async fn next(&mut self) -> Option<Vec<Event>> {
        loop {
            self.signal.borrow_and_update();
            let events = {
                let memory = self.memory.read().expect("store lock");
                memory.feeds.get(&self.kind)?.after(self.since)?
            };
            if let Some(last) = events.last() {
                self.since = last.version;
                return Some(events);
            }
            self.signal.changed().await.ok()?;
        }
    }
}
