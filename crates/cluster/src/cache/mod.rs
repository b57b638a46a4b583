//! The copy of the cluster: objects by uid, with indexes by key, by kind, by owner and by who tracks them.
//!
//! Objects are kept as JSON bytes without what only the API server needs. Objects that nobody tracks, owns, asked about
//! or subscribed to keep their metadata alone: a cluster is full of Secrets that are none of our business.

mod index;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, RwLock};

use serde_json::Value;

use crate::ObjectKey;
use crate::changes::{Change, Feed, Subject};
use crate::subscriptions::Subscriptions;
use crate::tracking::Tracking;
use index::{Inner, Taking, is_newer};

/// One object of the cluster as it was last seen.
#[derive(Debug)]
pub struct Live {
    pub key: ObjectKey,
    pub version: String,
    pub uid: String,
    pub resource_version: String,
    /// Who tracks it, as the connection's [`Tracking`] says.
    pub tracker: Option<String>,
    pub(super) owners: Vec<String>,
    pub(super) body: Option<Box<[u8]>>,
}

impl Live {
    /// The whole object; `None` when only its metadata is kept (then ask the cluster).
    pub fn object(&self) -> Option<Value> {
        serde_json::from_slice(self.body.as_deref()?).ok()
    }

    pub fn is_root(&self) -> bool {
        self.owners.is_empty()
    }
}

pub(crate) struct Cache {
    inner: RwLock<Inner>,
    /// Whose objects are.
    tracking: RwLock<Tracking>,
    /// Whose fields somebody wants to know apart, besides our own.
    managers: RwLock<BTreeSet<String>>,
    /// Namespace → trackers that want to hear of what nobody owns there.
    watchers_of_unowned: RwLock<HashMap<String, BTreeSet<String>>>,
    pub(crate) feed: Feed,
    subscriptions: Subscriptions,
    /// Who applies on this connection: whose fields are always kept apart.
    manager: String,
}

impl Cache {
    pub(crate) fn new(subscriptions: Subscriptions, tracking: Tracking, manager: String) -> Self {
        Self {
            inner: RwLock::default(),
            tracking: RwLock::new(tracking),
            managers: RwLock::default(),
            watchers_of_unowned: RwLock::default(),
            feed: Feed::default(),
            subscriptions,
            manager,
        }
    }

    /// Forgets everything when it is not as before: what was not kept cannot be asked whose it is.
    pub(crate) fn track_by(&self, tracking: Tracking) -> bool {
        let mut known = self.tracking.write().expect("no panic while locked");
        if *known == tracking {
            return false;
        }
        *known = tracking;
        self.forget();
        true
    }

    /// From now on it is kept which fields these managers own. True: everything has to be read again for that.
    pub(crate) fn retain_managers(&self, names: &[&str]) -> bool {
        {
            let known = self.managers.read().expect("no panic while locked");
            if names.iter().all(|name| known.contains(*name)) {
                return false;
            }
        }
        let mut known = self.managers.write().expect("no panic while locked");
        known.extend(names.iter().map(|name| (*name).to_owned()));
        drop(known);
        self.forget();
        true
    }

    /// Empties the copy; who is interested in what stays.
    fn forget(&self) {
        let mut inner = self.inner.write().expect("no panic while locked");
        let interest = (std::mem::take(&mut inner.interest), std::mem::take(&mut inner.interest_of));
        *inner = Inner { interest: interest.0, interest_of: interest.1, ..Inner::default() };
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<Live>> {
        let inner = self.inner.read().expect("no panic while locked");
        inner.objects.get(inner.by_key.get(key)?).cloned()
    }

    pub(crate) fn of_kind(&self, group: &str, kind: &str) -> Vec<Arc<Live>> {
        let inner = self.inner.read().expect("no panic while locked");
        inner.of_kind(group, kind).cloned().collect()
    }

    /// Top-level objects of a namespace that say nobody's name.
    pub(crate) fn unowned(&self, namespace: &str) -> Vec<ObjectKey> {
        let inner = self.inner.read().expect("no panic while locked");
        let unowned = inner
            .objects
            .values()
            .filter(|live| live.key.namespace == namespace && live.tracker.is_none() && live.is_root());
        unowned.map(|live| live.key.clone()).collect()
    }

    pub(crate) fn tracked_by(&self, tracker: &str) -> Vec<Arc<Live>> {
        let inner = self.inner.read().expect("no panic while locked");
        let uids = inner.by_tracker.get(tracker);
        uids.into_iter().flatten().filter_map(|uid| inner.objects.get(uid)).cloned().collect()
    }

    /// Everything that these objects own, directly or not; without the objects themselves.
    pub(crate) fn descendants(&self, roots: &[Arc<Live>]) -> Vec<Arc<Live>> {
        let inner = self.inner.read().expect("no panic while locked");
        let mut seen: HashSet<&str> = roots.iter().map(|live| live.uid.as_str()).collect();
        let mut open: Vec<&str> = seen.iter().copied().collect();
        let mut out = Vec::new();
        while let Some(uid) = open.pop() {
            for child in inner.children.get(uid).into_iter().flatten() {
                if let Some(live) = inner.objects.get(child)
                    && seen.insert(&live.uid)
                {
                    open.push(&live.uid);
                    out.push(live.clone());
                }
            }
        }
        out
    }

    /// From now on changes of these keys are announced to this tracker too. Gives the keys whose object is
    /// known but whose content was not kept.
    pub(crate) fn set_interest(&self, tracker: &str, keys: HashSet<ObjectKey>) -> Vec<ObjectKey> {
        let mut inner = self.inner.write().expect("no panic while locked");
        if let Some(old) = inner.interest_of.remove(tracker) {
            for key in old.difference(&keys) {
                if let Some(set) = inner.interest.get_mut(key) {
                    set.remove(tracker);
                    if set.is_empty() {
                        inner.interest.remove(key);
                    }
                }
            }
        }
        let mut bare = Vec::new();
        for key in &keys {
            inner.interest.entry(key.clone()).or_default().insert(tracker.to_owned());
            let live = inner.by_key.get(key).and_then(|uid| inner.objects.get(uid));
            if live.is_some_and(|live| live.body.is_none()) {
                bare.push(key.clone());
            }
        }
        if !keys.is_empty() {
            inner.interest_of.insert(tracker.to_owned(), keys);
        }
        bare
    }

    /// Takes an object in, unless something newer is known.
    pub(crate) fn upsert(&self, object: Value) {
        let change = {
            let tracking = self.tracking.read().expect("no panic while locked");
            let mut inner = self.inner.write().expect("no panic while locked");
            let managers = self.managers.read().expect("no panic while locked");
            let taking = Taking {
                subscriptions: &self.subscriptions,
                tracking: &tracking,
                managers: &managers,
                manager: &self.manager,
            };
            inner.upsert(object, &taking)
        };
        self.announce(change);
    }

    pub(crate) fn remove(&self, uid: &str) {
        let change = {
            let mut inner = self.inner.write().expect("no panic while locked");
            inner.mark_gone(uid);
            inner.remove(uid, &self.subscriptions)
        };
        self.announce(change);
    }

    /// A list answered: what is not in it and is not newer than it is gone.
    /// With a namespace it speaks for that one alone.
    pub(crate) fn replace_kind(
        &self,
        group: &str,
        kind: &str,
        namespace: &str,
        objects: Vec<Value>,
        resource_version: &str,
    ) {
        let listed: HashSet<String> =
            objects.iter().filter_map(|o| o["metadata"]["uid"].as_str()).map(str::to_owned).collect();
        let stale: Vec<String> = {
            let inner = self.inner.read().expect("no panic while locked");
            inner
                .of_kind(group, kind)
                .filter(|live| !listed.contains(&live.uid))
                .filter(|live| namespace.is_empty() || live.key.namespace == namespace)
                .filter(|live| !is_newer(&live.resource_version, resource_version))
                .map(|live| live.uid.clone())
                .collect()
        };
        for uid in stale {
            self.remove(&uid);
        }
        for object in objects {
            self.upsert(object);
        }
    }

    /// Forgets the objects of kinds that are not served any more. They are not marked as gone: the kind may come back,
    /// and with it, from a backup, objects of the same uid.
    pub(crate) fn retain_kinds(&self, is_served: impl Fn(&ObjectKey) -> bool) {
        let changes: Vec<_> = {
            let mut inner = self.inner.write().expect("no panic while locked");
            let gone = inner.objects.values().filter(|live| !is_served(&live.key));
            let gone: Vec<String> = gone.map(|live| live.uid.clone()).collect();
            gone.iter().map(|uid| inner.remove(uid, &self.subscriptions)).collect()
        };
        changes.into_iter().for_each(|change| self.announce(change));
    }

    pub(crate) fn len(&self) -> usize {
        self.inner.read().expect("no panic while locked").objects.len()
    }

    /// From now on this tracker hears of objects in this namespace that are nobody's; `None`: of none.
    pub(crate) fn watch_unowned(&self, tracker: &str, namespace: Option<&str>) {
        let mut watchers_of_unowned = self.watchers_of_unowned.write().expect("no panic while locked");
        watchers_of_unowned.retain(|of, set| {
            if Some(of.as_str()) != namespace {
                set.remove(tracker);
            }
            !set.is_empty()
        });
        if let Some(namespace) = namespace {
            watchers_of_unowned.entry(namespace.to_owned()).or_default().insert(tracker.to_owned());
        }
    }

    fn announce(&self, change: Option<Change>) {
        let change = change.map(|mut change| {
            if change.trackers().next().is_none() {
                let watchers_of_unowned = self.watchers_of_unowned.read().expect("no panic while locked");
                let names = watchers_of_unowned.get(&change.key.namespace).into_iter().flatten().cloned();
                change.subjects.extend(names.map(Subject::Tracker));
            }
            change
        });
        if let Some(change) = change
            && (!change.subjects.is_empty() || self.subscriptions.announces(&change.key))
        {
            self.feed.put(change);
        }
    }
}
