//! Who is to be looked at next: every application at most once in line, and never twice at the same time.
//!
//! A signal carries no content, only how hard to look: the worker reads the whole state again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Instant;

use tokio::sync::Notify;

/// An Application by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AppKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl std::fmt::Display for AppKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// How hard to look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Wake {
    /// Something other than the Application object itself changed.
    pub(crate) state: bool,
    /// Ask the repositories for what is new since this moment.
    pub(crate) since: Option<Instant>,
    /// Time itself is the reason: look even when nothing seems to have changed.
    pub(crate) timer: bool,
    /// Nothing that was read or rendered before counts.
    pub(crate) hard: bool,
    /// When the last signal came. A refresh that it asks for is answered by any question put after that.
    pub(crate) heard: Option<Instant>,
}

impl Wake {
    /// The Application object changed, perhaps by our own hand.
    pub(crate) const APPLICATION: Self =
        Self { state: false, since: None, timer: false, hard: false, heard: None };
    /// Live objects or settings changed.
    pub(crate) const STATE: Self = Self { state: true, since: None, timer: false, hard: false, heard: None };

    pub(crate) fn latest(since: Instant) -> Self {
        Self { since: Some(since), ..Self::STATE }
    }

    fn join(self, other: Self) -> Self {
        Self {
            state: self.state || other.state,
            since: self.since.max(other.since),
            timer: self.timer || other.timer,
            hard: self.hard || other.hard,
            heard: self.heard.max(other.heard),
        }
    }
}

#[derive(Default)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    signal: Notify,
}

#[derive(Default)]
struct Inner {
    waiting: HashMap<AppKey, Wake>,
    line: VecDeque<AppKey>,
    running: HashMap<AppKey, Option<Wake>>,
    timers: BTreeMap<(Instant, AppKey), Wake>,
}

impl Inner {
    fn add(&mut self, key: AppKey, wake: Wake) -> bool {
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
            let ((_, key), wake) = entry.remove_entry();
            self.add(key, wake);
        }
        None
    }
}

impl Queue {
    pub(crate) fn add(&self, key: AppKey, wake: Wake) {
        let wake = Wake { heard: wake.heard.or_else(|| Some(Instant::now())), ..wake };
        if self.inner.lock().expect("no panic while locked").add(key, wake) {
            self.signal.notify_one();
        }
    }

    /// Looks again at a time. An application may have several such times.
    pub(crate) fn add_at(&self, key: AppKey, at: Instant, wake: Wake) {
        let mut inner = self.inner.lock().expect("no panic while locked");
        let before = inner.timers.entry((at, key)).or_default();
        *before = before.join(Wake { timer: true, ..wake });
        drop(inner);
        self.signal.notify_one();
    }

    /// The next one. Whoever takes it calls [`Self::done`].
    pub(crate) async fn next(&self) -> (AppKey, Wake) {
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
    pub(crate) fn is_idle(&self, of: impl Fn(&AppKey) -> bool) -> bool {
        !self.inner.lock().expect("no panic while locked").running.keys().any(of)
    }

    /// How many wait.
    pub(crate) fn depth(&self) -> usize {
        self.inner.lock().expect("no panic while locked").line.len()
    }

    /// Forgets the times at which an application was to be looked at again: a new look makes new ones.
    pub(crate) fn clear_timers(&self, key: &AppKey) {
        let mut inner = self.inner.lock().expect("no panic while locked");
        inner.timers.retain(|(_, timer_key), _| timer_key != key);
    }

    pub(crate) fn done(&self, key: &AppKey) {
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

    fn key(name: &str) -> AppKey {
        AppKey { namespace: "argocd".into(), name: name.into() }
    }

    #[tokio::test]
    async fn one_application_is_never_taken_twice_and_signals_add_up() {
        let queue = Queue::default();
        let since = Instant::now();
        queue.add(key("a"), Wake::APPLICATION);
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
        queue.add_at(key("late"), now, Wake::APPLICATION);
        let (taken, wake) = queue.next().await;
        assert!(taken == key("late") && wake.timer);
    }
}
