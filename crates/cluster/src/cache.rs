//! The copy of the cluster: objects by uid, with indexes by key, by kind, by owner and by who tracks them.
//!
//! Objects are kept as JSON bytes without what only the API server needs. Objects that nobody tracks, owns, asked about
//! or subscribed to keep their metadata alone: a cluster is full of Secrets that are none of our business.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, RwLock};

use serde_json::Value;

use crate::ObjectKey;
use crate::changes::{Change, Feed, Subject};
use crate::key::group_version;
use crate::subscriptions::Subscriptions;
use crate::tracking::{labelled_by, tracked_by};

/// One object of the cluster as it was last seen.
#[derive(Debug)]
pub struct Live {
    pub key: ObjectKey,
    pub version: String,
    pub uid: String,
    pub resource_version: String,
    /// The application (instance name) that it says it belongs to.
    pub application: Option<String>,
    owners: Vec<String>,
    body: Option<Box<[u8]>>,
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
    /// Objects say by this label whose they are; none: by annotation.
    label: RwLock<Option<String>>,
    /// Whose fields somebody wants to know apart, besides our own.
    managers: RwLock<BTreeSet<String>>,
    /// Namespace → applications that want to hear of what nobody owns there.
    overseers: RwLock<HashMap<String, BTreeSet<String>>>,
    pub(crate) feed: Feed,
    subscriptions: Subscriptions,
    /// Who applies on this connection: whose fields are always kept apart.
    manager: String,
}

#[derive(Default)]
struct Inner {
    objects: HashMap<String, Arc<Live>>,
    by_key: HashMap<ObjectKey, String>,
    /// Group, then kind.
    by_kind: HashMap<String, HashMap<String, HashSet<String>>>,
    children: HashMap<String, HashSet<String>>,
    by_application: HashMap<String, HashSet<String>>,
    interest: HashMap<ObjectKey, BTreeSet<String>>,
    interest_of: HashMap<String, HashSet<ObjectKey>>,
    /// Uids of objects that were deleted lately, so that a late event cannot bring one back.
    gone: HashSet<String>,
    gone_order: VecDeque<String>,
}

const GONE_KEPT: usize = 10_000;
const OWNERS_DEPTH: usize = 10;

impl Cache {
    pub(crate) fn new(subscriptions: Subscriptions, manager: String) -> Self {
        Self {
            inner: RwLock::default(),
            label: RwLock::default(),
            managers: RwLock::default(),
            overseers: RwLock::default(),
            feed: Feed::default(),
            subscriptions,
            manager,
        }
    }

    /// Forgets everything when it is not as before: what was not kept cannot be asked whose it is.
    pub(crate) fn track_by(&self, label: Option<String>) -> bool {
        let mut known = self.label.write().expect("no panic while locked");
        if *known == label {
            return false;
        }
        *known = label;
        self.forget();
        true
    }

    /// From now on it is kept which fields these managers own. True: everything has to be read again for that.
    pub(crate) fn keep_managers(&self, names: &[&str]) -> bool {
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
            .filter(|live| live.key.namespace == namespace && live.application.is_none() && live.is_root());
        unowned.map(|live| live.key.clone()).collect()
    }

    pub(crate) fn of_application(&self, application: &str) -> Vec<Arc<Live>> {
        let inner = self.inner.read().expect("no panic while locked");
        let uids = inner.by_application.get(application);
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

    /// From now on changes of these keys are announced to the application too. Gives the keys whose object is
    /// known but whose content was not kept.
    pub(crate) fn set_interest(&self, application: &str, keys: HashSet<ObjectKey>) -> Vec<ObjectKey> {
        let mut inner = self.inner.write().expect("no panic while locked");
        if let Some(old) = inner.interest_of.remove(application) {
            for key in old.difference(&keys) {
                if let Some(set) = inner.interest.get_mut(key) {
                    set.remove(application);
                    if set.is_empty() {
                        inner.interest.remove(key);
                    }
                }
            }
        }
        let mut bare = Vec::new();
        for key in &keys {
            inner.interest.entry(key.clone()).or_default().insert(application.to_owned());
            let live = inner.by_key.get(key).and_then(|uid| inner.objects.get(uid));
            if live.is_some_and(|live| live.body.is_none()) {
                bare.push(key.clone());
            }
        }
        if !keys.is_empty() {
            inner.interest_of.insert(application.to_owned(), keys);
        }
        bare
    }

    /// Takes an object in, unless something newer is known.
    pub(crate) fn upsert(&self, object: Value) {
        let change = {
            let label = self.label.read().expect("no panic while locked");
            let mut inner = self.inner.write().expect("no panic while locked");
            let managers = self.managers.read().expect("no panic while locked");
            let taking = Taking {
                subscriptions: &self.subscriptions,
                label: label.as_deref(),
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
    pub(crate) fn keep_kinds(&self, is_served: impl Fn(&ObjectKey) -> bool) {
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

    /// From now on the application hears of objects in this namespace that are nobody's; `None`: of none.
    pub(crate) fn oversee(&self, application: &str, namespace: Option<&str>) {
        let mut overseers = self.overseers.write().expect("no panic while locked");
        overseers.retain(|of, set| {
            if Some(of.as_str()) != namespace {
                set.remove(application);
            }
            !set.is_empty()
        });
        if let Some(namespace) = namespace {
            overseers.entry(namespace.to_owned()).or_default().insert(application.to_owned());
        }
    }

    fn announce(&self, change: Option<Change>) {
        let change = change.map(|mut change| {
            if change.trackers().next().is_none() {
                let overseers = self.overseers.read().expect("no panic while locked");
                let names = overseers.get(&change.key.namespace).into_iter().flatten().cloned();
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

/// What decides how an object is taken in.
struct Taking<'a> {
    subscriptions: &'a Subscriptions,
    label: Option<&'a str>,
    managers: &'a BTreeSet<String>,
    manager: &'a str,
}

impl Inner {
    fn of_kind(&self, group: &str, kind: &str) -> impl Iterator<Item = &Arc<Live>> {
        let uids = self.by_kind.get(group).and_then(|kinds| kinds.get(kind));
        uids.into_iter().flatten().filter_map(|uid| self.objects.get(uid))
    }

    fn upsert(&mut self, mut object: Value, taking: &Taking<'_>) -> Option<Change> {
        let uid = object["metadata"]["uid"].as_str()?.to_owned();
        let resource_version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        if self.gone.contains(&uid) {
            return None;
        }
        let known = self.objects.get(&uid).cloned();
        if let Some(known) = &known
            && !is_newer(&resource_version, &known.resource_version)
        {
            // The same state again is only of use when its content was not kept.
            let wanted = known.body.is_none() && self.interest.contains_key(&known.key);
            if known.resource_version != resource_version || !wanted {
                return None;
            }
        }
        let key = ObjectKey::of(&object);
        let application = match taking.label {
            Some(label) => labelled_by(&object, label),
            None => tracked_by(&object, &key),
        };
        let owners: Vec<String> = object["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|owner| owner["uid"].as_str().map(str::to_owned))
            .collect();
        strip(&mut object, application.is_some(), taking);
        let keep = application.is_some()
            || !owners.is_empty()
            || self.interest.contains_key(&key)
            || taking.subscriptions.keeps(&key);
        let live = Arc::new(Live {
            version: group_version(object["apiVersion"].as_str().unwrap_or_default()).1.to_owned(),
            body: keep.then(|| serde_json::to_vec(&object).expect("JSON is writable").into_boxed_slice()),
            uid: uid.clone(),
            resource_version,
            application,
            owners,
            key: key.clone(),
        });
        let mut subjects = known.map(|known| self.unlink(&known, taking.subscriptions)).unwrap_or_default();
        // Another object with this key: its own deletion is still under way to us.
        if let Some(other) = self.by_key.get(&key).filter(|other| **other != uid).cloned() {
            let change = self.remove(&other, taking.subscriptions);
            subjects.extend(change.map(|change| change.subjects).unwrap_or_default());
            self.mark_gone(&other);
        }
        self.link(&live);
        subjects.extend(self.subjects_of(&live, taking.subscriptions));
        subjects.sort();
        subjects.dedup();
        Some(Change { key, subjects, gone: false })
    }

    fn remove(&mut self, uid: &str, subscriptions: &Subscriptions) -> Option<Change> {
        let live = self.objects.get(uid).cloned()?;
        let mut subjects = self.unlink(&live, subscriptions);
        subjects.sort();
        subjects.dedup();
        Some(Change { key: live.key.clone(), subjects, gone: true })
    }

    fn mark_gone(&mut self, uid: &str) {
        if self.gone.insert(uid.to_owned()) {
            self.gone_order.push_back(uid.to_owned());
            if self.gone_order.len() > GONE_KEPT
                && let Some(oldest) = self.gone_order.pop_front()
            {
                self.gone.remove(&oldest);
            }
        }
    }

    fn link(&mut self, live: &Arc<Live>) {
        self.by_key.insert(live.key.clone(), live.uid.clone());
        let kinds = self.by_kind.entry(live.key.group.clone()).or_default();
        kinds.entry(live.key.kind.clone()).or_default().insert(live.uid.clone());
        for owner in &live.owners {
            self.children.entry(owner.clone()).or_default().insert(live.uid.clone());
        }
        if let Some(application) = &live.application {
            self.by_application.entry(application.clone()).or_default().insert(live.uid.clone());
        }
        self.objects.insert(live.uid.clone(), live.clone());
    }

    /// Takes it out of every index; gives whom it concerned.
    fn unlink(&mut self, live: &Live, subscriptions: &Subscriptions) -> Vec<Subject> {
        let subjects = self.subjects_of(live, subscriptions);
        self.objects.remove(&live.uid);
        if let Some(kinds) = self.by_kind.get_mut(&live.key.group) {
            take(kinds, &live.key.kind, &live.uid);
            if kinds.is_empty() {
                self.by_kind.remove(&live.key.group);
            }
        }
        if self.by_key.get(&live.key) == Some(&live.uid) {
            self.by_key.remove(&live.key);
        }
        for owner in &live.owners {
            take(&mut self.children, owner, &live.uid);
        }
        if let Some(application) = &live.application {
            take(&mut self.by_application, application, &live.uid);
        }
        subjects
    }

    /// Whom the object concerns: whoever it names, whoever its owners name, whoever asked, and owners that want to hear.
    fn subjects_of(&self, live: &Live, subscriptions: &Subscriptions) -> Vec<Subject> {
        let mut out: Vec<Subject> = self.trackers_of(live).collect();
        let owned = subscriptions.wants_owned();
        let mut open: Vec<&str> = live.owners.iter().map(String::as_str).collect();
        for _ in 0..OWNERS_DEPTH {
            let mut above = Vec::new();
            for owner in open.iter().filter_map(|uid| self.objects.get(*uid)) {
                out.extend(self.trackers_of(owner));
                if owned && subscriptions.answers_for_owned(&owner.key) {
                    out.push(Subject::Owner(owner.key.clone()));
                }
                above.extend(owner.owners.iter().map(String::as_str));
            }
            open = above;
        }
        out
    }

    /// Who tracks this very object.
    fn trackers_of<'a>(&'a self, live: &'a Live) -> impl Iterator<Item = Subject> + 'a {
        let interested = self.interest.get(&live.key).into_iter().flatten();
        interested.chain(&live.application).cloned().map(Subject::Tracker)
    }
}

fn take(index: &mut HashMap<String, HashSet<String>>, at: &str, uid: &str) {
    if let Some(set) = index.get_mut(at) {
        set.remove(uid);
        if set.is_empty() {
            index.remove(at);
        }
    }
}

/// managedFields are half of an object; only what our own manager applied is looked at, and what rules name.
fn strip(object: &mut Value, tracked: bool, taking: &Taking<'_>) {
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    match metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
        Some(entries) if tracked => {
            entries.retain(|entry| {
                let ours = entry["manager"] == taking.manager && entry["operation"] == "Apply";
                ours || entry["manager"].as_str().is_some_and(|name| taking.managers.contains(name))
            });
            if entries.is_empty() {
                metadata.remove("managedFields");
            }
        }
        _ => {
            metadata.remove("managedFields");
        }
    }
}

/// Resource versions of one API server are numbers that grow; where they are not, the later event counts.
fn is_newer(candidate: &str, known: &str) -> bool {
    match (candidate.parse::<u128>(), known.parse::<u128>()) {
        (Ok(candidate), Ok(known)) => candidate > known,
        _ => candidate != known,
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
