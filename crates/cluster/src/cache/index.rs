//! The indexes of the copy: an object goes into all of them at once, and out of all of them.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use super::Live;
use crate::ObjectKey;
use crate::changes::{Change, Subject};
use crate::key::group_version;
use crate::subscriptions::Subscriptions;
use crate::tracking::Tracking;

const GONE_KEPT: usize = 10_000;
const OWNERS_DEPTH: usize = 10;

#[derive(Default)]
pub(super) struct Inner {
    pub(super) objects: HashMap<String, Arc<Live>>,
    pub(super) by_key: HashMap<ObjectKey, String>,
    /// Group, then kind.
    pub(super) by_kind: HashMap<String, HashMap<String, HashSet<String>>>,
    pub(super) children: HashMap<String, HashSet<String>>,
    pub(super) by_tracker: HashMap<String, HashSet<String>>,
    pub(super) interest: HashMap<ObjectKey, BTreeSet<String>>,
    pub(super) interest_of: HashMap<String, HashSet<ObjectKey>>,
    /// Uids of objects that were deleted lately, so that a late event cannot bring one back.
    pub(super) gone: HashSet<String>,
    pub(super) gone_order: VecDeque<String>,
}

/// What decides how an object is taken in.
pub(super) struct Taking<'a> {
    pub(super) subscriptions: &'a Subscriptions,
    pub(super) tracking: &'a Tracking,
    pub(super) managers: &'a BTreeSet<String>,
    pub(super) manager: &'a str,
}

impl Inner {
    pub(super) fn of_kind(&self, group: &str, kind: &str) -> impl Iterator<Item = &Arc<Live>> {
        let uids = self.by_kind.get(group).and_then(|kinds| kinds.get(kind));
        uids.into_iter().flatten().filter_map(|uid| self.objects.get(uid))
    }

    pub(super) fn upsert(&mut self, mut object: Value, taking: &Taking<'_>) -> Option<Change> {
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
        let tracker = taking.tracking.tracker_of(&object, &key);
        let owners: Vec<String> = object["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|owner| owner["uid"].as_str().map(str::to_owned))
            .collect();
        strip(&mut object, tracker.is_some(), taking);
        let keep = tracker.is_some()
            || !owners.is_empty()
            || self.interest.contains_key(&key)
            || taking.subscriptions.retains(&key);
        let live = Arc::new(Live {
            version: group_version(object["apiVersion"].as_str().unwrap_or_default()).1.to_owned(),
            body: keep.then(|| serde_json::to_vec(&object).expect("JSON is writable").into_boxed_slice()),
            uid: uid.clone(),
            resource_version,
            tracker,
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

    pub(super) fn remove(&mut self, uid: &str, subscriptions: &Subscriptions) -> Option<Change> {
        let live = self.objects.get(uid).cloned()?;
        let mut subjects = self.unlink(&live, subscriptions);
        subjects.sort();
        subjects.dedup();
        Some(Change { key: live.key.clone(), subjects, gone: true })
    }

    pub(super) fn mark_gone(&mut self, uid: &str) {
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
        if let Some(tracker) = &live.tracker {
            self.by_tracker.entry(tracker.clone()).or_default().insert(live.uid.clone());
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
        if let Some(tracker) = &live.tracker {
            take(&mut self.by_tracker, tracker, &live.uid);
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
        interested.chain(&live.tracker).cloned().map(Subject::Tracker)
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
pub(super) fn is_newer(candidate: &str, known: &str) -> bool {
    match (candidate.parse::<u128>(), known.parse::<u128>()) {
        (Ok(candidate), Ok(known)) => candidate > known,
        _ => candidate != known,
    }
}
