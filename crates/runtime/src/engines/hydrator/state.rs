//! What the hydrator remembers. All of it can be lost: then everything is looked up again.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use slipway_reconcile::Key;

use super::group::Group;

/// One of a group after the other.
#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<Group, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    pub(super) fn of(&self, group: Group) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.lock().expect("no panic while locked");
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        turns.entry(group).or_default().clone()
    }
}

/// Until when an Application is known to be hydrated.
pub(super) struct Known {
    /// The repository was asked after this moment.
    pub(super) at: Instant,
    /// The Application was this one.
    pub(super) version: String,
    /// Settings and credentials counted so many changes.
    pub(super) generation: usize,
    /// Something was pushed at this moment, and not compared since.
    pub(super) pushed: Option<Instant>,
}

/// Who is hydrated, and whose turn it is.
#[derive(Default)]
pub(super) struct Hydrating {
    pub(super) turns: Turns,
    known: Mutex<HashMap<Key, Known>>,
    /// Applications that are not compared before they are hydrated.
    waiting: Mutex<HashSet<Key>>,
}

impl Hydrating {
    /// True when nothing is known, or when this is true of what is.
    pub(super) fn is_owed(&self, key: &Key, stale: impl FnOnce(&Known) -> bool) -> bool {
        self.known.lock().expect("no panic while locked").get(key).is_none_or(stale)
    }

    pub(super) fn record(&self, key: &Key, known: Known) {
        self.known.lock().expect("no panic while locked").insert(key.clone(), known);
    }

    pub(super) fn wait(&self, key: &Key) {
        self.waiting.lock().expect("no panic while locked").insert(key.clone());
    }

    pub(super) fn forget(&self, key: &Key) {
        self.known.lock().expect("no panic while locked").remove(key);
        self.arrived(key);
    }

    /// True when the Application waited.
    pub(super) fn arrived(&self, key: &Key) -> bool {
        self.waiting.lock().expect("no panic while locked").remove(key)
    }

    pub(super) fn awaits(&self, key: &Key) -> bool {
        self.waiting.lock().expect("no panic while locked").contains(key)
    }

    /// When something was pushed that no comparison has seen.
    pub(super) fn pushed(&self, key: &Key) -> Option<Instant> {
        self.known.lock().expect("no panic while locked").get(key)?.pushed
    }

    /// A comparison fetched what was pushed at this moment.
    pub(super) fn compared(&self, key: &Key, pushed: Option<Instant>) {
        let mut known = self.known.lock().expect("no panic while locked");
        if let Some(known) = known.get_mut(key).filter(|known| known.pushed == pushed) {
            known.pushed = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::APPLICATION;

    #[test]
    fn a_push_is_owed_a_comparison_until_one_has_seen_it() {
        let hydrating = Hydrating::default();
        let key = Key::new(APPLICATION, "argocd", "shop");
        assert!(hydrating.is_owed(&key, |_| false), "nothing is known yet");
        let known = |pushed| Known { at: Instant::now(), version: "7".into(), generation: 0, pushed };
        let first = Some(Instant::now());
        hydrating.record(&key, known(first));
        assert!(!hydrating.is_owed(&key, |known| known.version != "7"));
        let second = first.map(|at| at + std::time::Duration::from_secs(1));
        hydrating.record(&key, known(second));
        hydrating.compared(&key, first);
        assert_eq!(hydrating.pushed(&key), second, "the comparison began before the second push");
        hydrating.compared(&key, second);
        assert_eq!(hydrating.pushed(&key), None);
    }

    #[test]
    fn whoever_waits_is_let_go_once() {
        let hydrating = Hydrating::default();
        let key = Key::new(APPLICATION, "argocd", "shop");
        hydrating.wait(&key);
        assert!(hydrating.awaits(&key) && hydrating.arrived(&key));
        assert!(!hydrating.awaits(&key) && !hydrating.arrived(&key));
    }
}
