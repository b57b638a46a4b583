//! Versions and their numbers: the ReplicaSet of a new version is made, that of a known one gets the next number.

use serde_json::{Value, json};

use super::metadata::{self, inject};
use super::{Action, Play, observed};
use crate::names::{self, condition, reason};
use crate::{identity, plan::conditions};

impl Play<'_> {
    /// The highest number of all other versions, and one.
    fn next_revision(&self) -> i64 {
        let others = (0..self.sets.len()).filter(|at| Some(*at) != self.new);
        others.filter_map(|at| self.sets[at].revision()).max().unwrap_or(0) + 1
    }

    pub(super) fn adopt(&mut self) {
        for at in 0..self.sets.len() {
            if self.sets[at].orphan {
                let patch = json!({"metadata": {"ownerReferences": [self.owner()]}});
                self.plan.actions.push(Action::patch(self.target_of(at), patch));
            }
        }
    }

    pub(super) fn owner(&self) -> Value {
        json!({"apiVersion": slipway_crd::names::API_VERSION, "kind": "Rollout", "name": self.ro.metadata.name, "uid": self.ro.metadata.uid,
            "controller": true, "blockOwnerDeletion": true})
    }

    /// The ReplicaSet of a version that there was never before. It begins with no pods.
    pub(super) fn create_new(&mut self) {
        let hash = identity::template_hash(&self.template, self.prev().collision_count);
        let name = format!("{}-{hash}", self.ro.metadata.name);
        let namespace = &self.ro.metadata.namespace;
        if self.sets.iter().any(|set| set.name == name && set.deleting) {
            // Its name is free in a moment.
            self.look_at(self.after(1));
            return;
        }
        let taken = self.observed.replica_sets.iter().any(|set| set["metadata"]["name"] == name.as_str());
        if taken {
            // Another template has the same hash, or the name is somebody else's: with a counter it is another name.
            self.status.collision_count = Some(self.prev().collision_count.unwrap_or(0) + 1);
            self.plan.again = true;
            return;
        }
        let revision = self.next_revision();
        let mut template = self.template.clone();
        metadata::set_affinity(&mut template, self.affinity(&hash));
        template["metadata"]["labels"][names::HASH] = hash.as_str().into();
        let mut labels = template["metadata"]["labels"].clone();
        if let Some(id) = self.ro.metadata.labels.get(names::INSTANCE_ID) {
            labels[names::INSTANCE_ID] = id.as_str().into();
        }
        let mut selector = self.selector.clone();
        selector["matchLabels"][names::HASH] = hash.as_str().into();
        let mut annotations = self.copied_annotations();
        annotations.insert(names::REVISION.into(), revision.to_string());
        annotations.insert(names::DESIRED_REPLICAS.into(), self.replicas().to_string());
        let mut set = json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations, "ownerReferences": [self.owner()]},
            "spec": {"replicas": 0, "minReadySeconds": self.ro.spec.min_ready_seconds, "selector": selector, "template": template},
        });
        inject(&mut set, self.role_metadata_of_new());
        self.plan.actions.push(Action::Create(set));
        if self.prev().observed_generation.is_empty() && self.prev().conditions.is_empty() {
            let (namespace, name) = (&self.ro.metadata.namespace, &self.ro.metadata.name);
            self.tell(reason::FIRST_SEEN, format!("Rollout resource added to informer: {namespace}/{name}"));
        }
        self.annotate_revision(revision);
        self.tell(reason::NEW_SET, format!("Created ReplicaSet {name} (revision {revision})"));
        let message = format!("Created new replica set \"{name}\"");
        conditions::set(&mut self.status, condition::PROGRESSING, "True", reason::NEW_SET, message, self.now);
        self.plan.again = true;
    }

    /// The number on the Rollout is that of the wanted version.
    fn annotate_revision(&mut self, revision: i64) {
        let known = self.ro.metadata.annotations.get(names::REVISION);
        if known.is_some_and(|known| *known == revision.to_string()) {
            return;
        }
        let patch = json!({"metadata": {"annotations": {names::REVISION: revision.to_string()}}});
        self.plan.actions.push(Action::patch(self.rollout(), patch));
        self.tell(reason::UPDATED, format!("Rollout updated to revision {revision}"));
    }

    fn copied_annotations(&self) -> std::collections::BTreeMap<String, String> {
        let all = self.ro.metadata.annotations.iter();
        all.filter(|(name, _)| !names::NOT_COPIED.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// Keeps number, annotations and what else of the Rollout stands on the ReplicaSet of the wanted version.
    pub(super) fn sync_revision(&mut self, new: usize) {
        let next = self.next_revision();
        let known = self.sets[new].annotations.get(names::REVISION).cloned();
        let number: i64 = known.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut annotations: serde_json::Map<String, Value> = serde_json::Map::new();
        for (name, value) in self.copied_annotations() {
            if self.sets[new].annotations.get(&name) != Some(&value) {
                annotations.insert(name, value.into());
            }
        }
        if number < next {
            annotations.insert(names::REVISION.into(), next.to_string().into());
        }
        // Somebody went back to it: the numbers that it had are kept.
        if let Some(known) = known.filter(|_| !annotations.is_empty()) {
            let history =
                self.sets[new].annotations.get(names::REVISION_HISTORY).filter(|text| !text.is_empty());
            let history = history.map_or(known.clone(), |history| format!("{history},{known}"));
            if number < next {
                annotations.insert(names::REVISION_HISTORY.into(), history.into());
            }
        }
        let mut patch = json!({});
        if !annotations.is_empty() {
            for (name, value) in &annotations {
                self.sets[new].annotations.insert(name.clone(), observed::text(value));
            }
            patch["metadata"]["annotations"] = annotations.into();
        }
        if self.sets[new].min_ready_seconds != self.ro.spec.min_ready_seconds {
            self.sets[new].min_ready_seconds = self.ro.spec.min_ready_seconds;
            patch["spec"]["minReadySeconds"] = self.ro.spec.min_ready_seconds.into();
        }
        if patch != json!({}) {
            self.plan.actions.push(Action::patch(self.target_of(new), patch));
        }
        self.annotate_revision(number.max(next));
        if conditions::get(&self.status, condition::PROGRESSING).is_none() {
            let message = format!("Found new replica set \"{}\"", self.sets[new].name);
            conditions::set(
                &mut self.status,
                condition::PROGRESSING,
                "True",
                reason::FOUND,
                message,
                self.now,
            );
        }
    }

    /// The number of the wanted version, for messages.
    pub(super) fn revision(&self) -> i64 {
        let of_rollout = || self.ro.metadata.annotations.get(names::REVISION)?.parse().ok();
        self.new.and_then(|new| self.sets[new].revision()).or_else(of_rollout).unwrap_or(0)
    }
}
