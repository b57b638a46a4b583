//! Which objects changed since somebody last looked, and whose they are. One entry per object, however often
//! it changed: the reader looks at the state, never at the history.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::Notify;

use crate::ObjectKey;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub key: ObjectKey,
    /// Applications (instance names) that track the object, own its owner, or asked about its key.
    pub applications: Vec<String>,
    pub gone: bool,
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
                for application in change.applications {
                    if !known.applications.contains(&application) {
                        known.applications.push(application);
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
