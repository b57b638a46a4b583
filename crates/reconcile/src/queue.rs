//! What is to be reconciled next: every key at most once in line, and never twice at the same time.
//!
//! A signal carries no content, only how thorough to be: the worker reads the whole state again.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Instant;

use tokio::sync::Notify;

use crate::Key;

/// How thorough to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wake {
    /// Something other than the object itself changed.
    pub state: bool,
    /// Ask what lies outside of the cluster (repositories) for what is new since this moment.
    pub since: Option<Instant>,
    /// Time itself is the reason: reconcile even when nothing seems to have changed.
    pub timer: bool,
    /// Nothing that was read or rendered before counts.
    pub hard: bool,
    /// When the last signal came. A refresh that it asks for is answered by any question put after that.
    pub heard: Option<Instant>,
}

impl Wake {
    /// The object itself changed, perhaps because we wrote it.
    pub const OBJECT: Self = Self { state: false, since: None, timer: false, hard: false, heard: None };
    /// Live objects or settings changed.
    pub const STATE: Self = Self { state: true, since: None, timer: false, hard: false, heard: None };

    /// What lies outside changed at this moment.
    pub fn latest(since: Instant) -> Self {
        Self { since: Some(since), ..Self::STATE }
    }

    pub(crate) fn join(self, other: Self) -> Self {
        Self {
            state: self.state || other.state,
            since: self.since.max(other.since),
            timer: self.timer || other.timer,
            hard: self.hard || other.hard,
            heard: self.heard.max(other.heard),
        }
    }
}

/// Keys in line, being worked on, and due at a time.
#[derive(Default)]
pub struct Queue {
    inner: Mutex<Inner>,
    signal: Notify,
}

#[derive(Default)]
struct Inner {
    waiting: HashMap<Key, Wake>,
    line: VecDeque<Key>,
    running: HashMap<Key, Option<Wake>>,
    timers: BTreeMap<(Instant, Key), Wake>,
    /// The times in `timers` by key.
    times: HashMap<Key, BTreeSet<Instant>>,
}

impl Inner {
    fn add(&mut self, key: Key, wake: Wake) -> bool {
        if let Some(again) = self.running.get_mut(&key) {
            *again = Some(again.map_or(wake, |before| before.join(wake)));
            return false;
        }
        match self.waiting.get_mut(&key) {
            Some(before) => {
                *before = before.join(wake);
                false
            }
            None => {
                self.waiting.insert(key.clone(), wake);
                self.line.push_back(key);
                true
            }
        }
    }

    /// Moves timers that are due into the line; gives when the next one is.
    fn due(&mut self, now: Instant) -> Option<Instant> {
        while let Some(entry) = self.timers.first_entry() {
            if entry.key().0 > now {
                return Some(entry.key().0);
            }
            let ((at, key), wake) = entry.remove_entry();
            if let Some(times) = self.times.get_mut(&key) {
                times.remove(&at);
                if times.is_empty() {
                    self.times.remove(&key);
                }
            }
            self.add(key, wake);
        }
        None
    }

    fn add_at(&mut self, key: Key, at: Instant, wake: Wake) {
        self.times.entry(key.clone()).or_default().insert(at);
        let before = self.timers.entry((at, key)).or_default();
        *before = before.join(Wake { timer: true, ..wake });
    }

    fn clear_timers(&mut self, key: &Key) {
        for at in self.times.remove(key).into_iter().flatten() {
            self.timers.remove(&(at, key.clone()));
        }
    }
}

impl Queue {
    /// Reconciles the key as soon as a worker is free.
    pub fn add(&self, key: Key, wake: Wake) {
        let wake = Wake { heard: wake.heard.or_else(|| Some(Instant::now())), ..wake };
        if self.inner.lock().expect("no panic while locked").add(key, wake) {
            self.signal.notify_one();
        }
    }

    /// Reconciles again at a time. A key may have several such times.
    pub fn add_at(&self, key: Key, at: Instant, wake: Wake) {
        self.inner.lock().expect("no panic while locked").add_at(key, at, wake);
        self.signal.notify_one();
    }

    /// At this time at the latest: an earlier one that is still to come stays, a later one goes.
    pub fn add_by(&self, key: Key, at: Instant, wake: Wake) {
        let mut inner = self.inner.lock().expect("no panic while locked");
        let first = inner.times.get(&key).and_then(|times| times.first().copied());
        if first.is_some_and(|first| first <= at) {
            return;
        }
        inner.clear_timers(&key);
        inner.add_at(key, at, wake);
        drop(inner);
        self.signal.notify_one();
    }

    /// The next one. Whoever takes it calls [`Self::done`].
    pub async fn next(&self) -> (Key, Wake) {
        loop {
            let next_timer = {
                let mut inner = self.inner.lock().expect("no panic while locked");
                let next_timer = inner.due(Instant::now());
                if let Some(key) = inner.line.pop_front() {
                    let wake = inner.waiting.remove(&key).unwrap_or_default();
                    inner.running.insert(key.clone(), None);
                    if !inner.line.is_empty() {
                        self.signal.notify_one();
                    }
                    return (key, wake);
                }
                next_timer
            };
            match next_timer {
                Some(at) => {
                    tokio::select! {
                        () = self.signal.notified() => {}
                        () = tokio::time::sleep_until(at.into()) => {}
                    }
                }
                None => self.signal.notified().await,
            }
        }
    }

    /// True when nobody works on one of these.
    pub fn is_idle(&self, of: impl Fn(&Key) -> bool) -> bool {
        !self.inner.lock().expect("no panic while locked").running.keys().any(of)
    }

    /// How many wait, how many are taken, and how many have a time.
    pub fn counts(&self) -> (usize, usize, usize) {
        let inner = self.inner.lock().expect("no panic while locked");
        (inner.line.len(), inner.running.len(), inner.times.len())
    }

    /// Forgets the times of a key: a new reconcile makes new ones.
    pub fn clear_timers(&self, key: &Key) {
        self.inner.lock().expect("no panic while locked").clear_timers(key);
    }

    /// The key may be taken again.
    pub fn done(&self, key: &Key) {
        let mut inner = self.inner.lock().expect("no panic while locked");
        if let Some(Some(wake)) = inner.running.remove(key)
            && inner.add(key.clone(), wake)
        {
            drop(inner);
            self.signal.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn key(name: &str) -> Key {
        Key::new(crate::Kind::new("argoproj.io", "Application"), "argocd", name)
    }

    #[tokio::test]
    async fn one_key_is_never_taken_twice_and_signals_add_up() {
        let queue = Queue::default();
        let since = Instant::now();
        queue.add(key("a"), Wake::OBJECT);
        queue.add(key("a"), Wake::latest(since));
        queue.add(key("b"), Wake::STATE);
        let take = async || {
            let (key, wake) = queue.next().await;
            assert!(wake.heard.is_some_and(|heard| heard >= since));
            (key, Wake { heard: None, ..wake })
        };
        assert_eq!(take().await, (key("a"), Wake::latest(since)));
        queue.add(key("a"), Wake::STATE);
        assert_eq!(take().await, (key("b"), Wake::STATE));
        let nothing = tokio::time::timeout(Duration::from_millis(20), queue.next()).await;
        assert!(nothing.is_err(), "a is still being worked on");
        queue.done(&key("a"));
        assert_eq!(take().await, (key("a"), Wake::STATE));
    }

    #[tokio::test]
    async fn timers_come_when_they_are_due() {
        let queue = Queue::default();
        let now = Instant::now();
        queue.add_at(key("late"), now + Duration::from_secs(60), Wake::STATE);
        queue.add_at(key("soon"), now + Duration::from_millis(30), Wake::STATE);
        assert_eq!(queue.next().await.0, key("soon"));
        assert!(now.elapsed() >= Duration::from_millis(30));
        queue.clear_timers(&key("late"));
        queue.add_at(key("late"), now, Wake::OBJECT);
        let (taken, wake) = queue.next().await;
        assert!(taken == key("late") && wake.timer);
    }

    #[tokio::test]
    async fn a_key_that_is_woken_often_keeps_its_first_time() {
        let queue = Queue::default();
        let now = Instant::now();
        let far = now + Duration::from_secs(60);
        queue.add_by(key("a"), now, Wake::STATE);
        queue.add_by(key("a"), far, Wake::STATE);
        assert_eq!(queue.counts(), (0, 0, 1));
        assert!(queue.next().await.1.timer, "the earlier one stayed");
        queue.done(&key("a"));
        queue.add_by(key("a"), far, Wake::STATE);
        queue.add_by(key("a"), now, Wake::STATE);
        assert_eq!(queue.next().await.0, key("a"));
        assert_eq!(queue.counts(), (0, 1, 0), "the later one went");
    }
}
