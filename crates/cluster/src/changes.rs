//! Which objects changed since somebody last looked, and whom that concerns. One entry per object, however often
//! it changed: the reader looks at the state, never at the history.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::Notify;

use crate::ObjectKey;

/// Whom a change concerns.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// Whoever goes by this name: the object says that it is theirs, its owner does, or they asked about its key.
    Tracker(String),
    /// What owns the object, directly or not, and is of a kind whose subscriber wants to hear of what it owns.
    Owner(ObjectKey),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub key: ObjectKey,
    pub subjects: Vec<Subject>,
    pub gone: bool,
}

impl Change {
    /// The names of those who track it.
    pub fn trackers(&self) -> impl Iterator<Item = &str> {
        self.subjects.iter().filter_map(|subject| match subject {
            Subject::Tracker(name) => Some(name.as_str()),
            Subject::Owner(_) => None,
        })
    }

    /// Its owners of subscribed kinds.
    pub fn owners(&self) -> impl Iterator<Item = &ObjectKey> {
        self.subjects.iter().filter_map(|subject| match subject {
            Subject::Owner(key) => Some(key),
            Subject::Tracker(_) => None,
        })
    }
}

#[derive(Default)]
pub(crate) struct Feed {
    waiting: Mutex<HashMap<ObjectKey, Change>>,
    signal: Notify,
}

impl Feed {
    pub(crate) fn put(&self, change: Change) {
        let mut waiting = self.waiting.lock().expect("no panic while locked");
        match waiting.get_mut(&change.key) {
            Some(known) => {
                known.gone = change.gone;
                for subject in change.subjects {
                    if !known.subjects.contains(&subject) {
                        known.subjects.push(subject);
                    }
                }
            }
            None => {
                waiting.insert(change.key.clone(), change);
            }
        }
        drop(waiting);
        self.signal.notify_one();
    }

    /// Waits until there is something, then takes all of it. For one reader.
    pub(crate) async fn take(&self) -> Vec<Change> {
        loop {
            let taken = std::mem::take(&mut *self.waiting.lock().expect("no panic while locked"));
            if !taken.is_empty() {
                return taken.into_values().collect();
            }
            self.signal.notified().await;
        }
    }
}
