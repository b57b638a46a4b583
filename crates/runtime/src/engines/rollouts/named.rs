//! Which Rollouts name an object: a Service or a workload that changes wakes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::RwLock;

use slipway_cluster::ObjectKey;
use slipway_reconcile::Key;

#[derive(Default)]
pub(super) struct Named(RwLock<Index>);

#[derive(Default)]
struct Index {
    by_object: BTreeMap<ObjectKey, BTreeSet<Key>>,
    by_rollout: BTreeMap<Key, Vec<ObjectKey>>,
}

impl Index {
    fn forget(&mut self, rollout: &Key) {
        for object in self.by_rollout.remove(rollout).unwrap_or_default() {
            if let Some(rollouts) = self.by_object.get_mut(&object) {
                rollouts.remove(rollout);
                if rollouts.is_empty() {
                    self.by_object.remove(&object);
                }
            }
        }
    }
}

impl Named {
    /// From now on it names these and no others.
    pub(super) fn set(&self, rollout: &Key, objects: Vec<ObjectKey>) {
        if self.0.read().expect("no panic while locked").by_rollout.get(rollout) == Some(&objects) {
            return;
        }
        let mut index = self.0.write().expect("no panic while locked");
        index.forget(rollout);
        for object in &objects {
            index.by_object.entry(object.clone()).or_default().insert(rollout.clone());
        }
        index.by_rollout.insert(rollout.clone(), objects);
    }

    pub(super) fn forget(&self, rollout: &Key) {
        self.0.write().expect("no panic while locked").forget(rollout);
    }

    pub(super) fn by(&self, object: &ObjectKey) -> Vec<Key> {
        let index = self.0.read().expect("no panic while locked");
        index.by_object.get(object).into_iter().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::rollouts::ROLLOUT;

    #[test]
    fn a_rollout_is_found_by_what_it_names_now() {
        let (named, rollout) = (Named::default(), Key::new(ROLLOUT, "n", "web"));
        let service = |name: &str| ObjectKey::new("", "Service", "n", name);
        named.set(&rollout, vec![service("a"), service("b")]);
        named.set(&rollout, vec![service("b")]);
        assert_eq!(named.by(&service("a")), []);
        assert_eq!(named.by(&service("b")), std::slice::from_ref(&rollout));
        named.forget(&rollout);
        assert_eq!(named.by(&service("b")), []);
    }
}
