//! What is injected into pod templates: labels and annotations of a role, and the wish not to share a node with the stable version.

use serde_json::{Map, Value, json};
use slipway_crd::rollout::{AntiAffinity, PodMetadata};

use super::observed::{ReplicaSet, text, words};
use super::{Action, Play, Target};
use crate::names;

/// The metadata that a ReplicaSet was given for its role.
fn injected(annotations: &std::collections::BTreeMap<String, String>) -> PodMetadata {
    let text = annotations.get(names::EPHEMERAL_METADATA);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// A template as somebody wrote it: without the label of the version, and without what was injected.
pub(super) fn plain_template(template: &Value, set: Option<&ReplicaSet>) -> Value {
    let mut plain = template.clone();
    if let Some(set) = set {
        let known = injected(&set.annotations);
        for (part, names) in [("labels", &known.labels), ("annotations", &known.annotations)] {
            if let Some(fields) = plain["metadata"][part].as_object_mut() {
                fields.retain(|name, _| !names.contains_key(name));
            }
        }
        remove_injected_affinity(&mut plain);
    }
    if let Some(labels) = plain["metadata"]["labels"].as_object_mut() {
        labels.remove(names::HASH);
    }
    if let Some(metadata) = plain["metadata"].as_object_mut() {
        metadata
            .retain(|_, value| !value.is_null() && value.as_object().is_none_or(|fields| !fields.is_empty()));
    }
    plain
}

fn names_the_version(term: &Value) -> bool {
    let term = if term["podAffinityTerm"].is_object() { &term["podAffinityTerm"] } else { term };
    let expressions = term["labelSelector"]["matchExpressions"].as_array().into_iter().flatten();
    expressions.into_iter().any(|one| one["key"] == names::HASH)
}

fn remove_injected_affinity(template: &mut Value) {
    let Some(spec) = template["spec"].as_object_mut() else { return };
    let Some(affinity) = spec.get_mut("affinity").and_then(Value::as_object_mut) else { return };
    if let Some(anti) = affinity.get_mut("podAntiAffinity").and_then(Value::as_object_mut) {
        for terms in anti.values_mut().filter_map(Value::as_array_mut) {
            terms.retain(|term| !names_the_version(term));
        }
        anti.retain(|_, terms| terms.as_array().is_none_or(|terms| !terms.is_empty()));
    }
    affinity.retain(|_, part| part.as_object().is_none_or(|part| !part.is_empty()));
    if affinity.is_empty() {
        spec.remove("affinity");
    }
}

pub(super) fn set_affinity(template: &mut Value, affinity: Value) {
    if affinity.is_null() {
        return;
    }
    template["spec"]["affinity"] = affinity;
}

/// Gives a ReplicaSet that is about to be made the metadata of its role.
pub(super) fn inject(set: &mut Value, metadata: Option<&PodMetadata>) {
    let Some(metadata) = metadata else { return };
    for (part, fields) in [("labels", &metadata.labels), ("annotations", &metadata.annotations)] {
        for (name, value) in fields {
            set["spec"]["template"]["metadata"][part][name] = value.as_str().into();
        }
    }
    let known = serde_json::to_string(metadata).unwrap_or_default();
    set["metadata"]["annotations"][names::EPHEMERAL_METADATA] = known.into();
}

/// What makes these labels or annotations into those with the wanted role; empty when they are.
fn difference(
    there: &std::collections::BTreeMap<String, String>,
    before: &std::collections::BTreeMap<String, String>,
    wanted: &std::collections::BTreeMap<String, String>,
) -> Map<String, Value> {
    let added = wanted.iter().filter(|(name, value)| there.get(*name) != Some(value));
    let added = added.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    let gone = before.keys().filter(|name| !wanted.contains_key(*name) && there.contains_key(*name));
    added.chain(gone.map(|name| (name.clone(), Value::Null))).collect()
}

impl Play<'_> {
    /// Labels and annotations by role: of the wanted version while it is tried, and of the stable one.
    fn roles(&self) -> (Option<&PodMetadata>, Option<&PodMetadata>) {
        match (self.canary(), self.blue_green()) {
            (Some(canary), _) => (canary.canary_metadata.as_ref(), canary.stable_metadata.as_ref()),
            (_, Some(blue_green)) => {
                (blue_green.preview_metadata.as_ref(), blue_green.active_metadata.as_ref())
            }
            _ => (None, None),
        }
    }

    pub(super) fn role_metadata_of_new(&self) -> Option<&PodMetadata> {
        let (tried, stable) = self.roles();
        if self.stable.is_some() { tried } else { stable }
    }

    /// Pods and ReplicaSets get the metadata of the role that they have now.
    pub(super) fn sync_metadata(&mut self) {
        let (tried, stable) = self.roles();
        if tried.is_none() && stable.is_none() {
            return;
        }
        let (tried, stable) = (tried.cloned().unwrap_or_default(), stable.cloned().unwrap_or_default());
        let is_stable =
            |at: usize| Some(at) == self.stable || (self.stable.is_none() && Some(at) == self.new);
        let wanted: Vec<PodMetadata> = (0..self.sets.len())
            .map(|at| match at {
                at if is_stable(at) => stable.clone(),
                at if Some(at) == self.new => tried.clone(),
                _ => PodMetadata::default(),
            })
            .collect();
        for (at, wanted) in wanted.iter().enumerate() {
            self.sync_metadata_of(at, wanted);
        }
    }

    fn sync_metadata_of(&mut self, at: usize, wanted: &PodMetadata) {
        let before = injected(&self.sets[at].annotations);
        let template = &self.sets[at].template["metadata"];
        let labels = difference(&words(&template["labels"]), &before.labels, &wanted.labels);
        let annotations =
            difference(&words(&template["annotations"]), &before.annotations, &wanted.annotations);
        if !labels.is_empty() || !annotations.is_empty() {
            let known = if *wanted == PodMetadata::default() {
                Value::Null
            } else {
                serde_json::to_string(wanted).unwrap_or_default().into()
            };
            let mut patch = json!({"metadata": {"annotations": {names::EPHEMERAL_METADATA: known}}});
            patch["spec"]["template"]["metadata"] = json!({"labels": labels, "annotations": annotations});
            self.plan.actions.push(Action::patch(self.target_of(at), patch));
        }
        if self.sets[at].wanted == 0 {
            return;
        }
        // After the ReplicaSet, so that pods it makes meanwhile have it already.
        let uid = self.sets[at].uid.clone();
        for pod in self.observed.pods.iter().filter(|pod| super::observed::is_controlled_by(pod, &uid)) {
            let metadata = &pod["metadata"];
            let labels = difference(&words(&metadata["labels"]), &before.labels, &wanted.labels);
            let annotations =
                difference(&words(&metadata["annotations"]), &before.annotations, &wanted.annotations);
            if labels.is_empty() && annotations.is_empty() {
                continue;
            }
            let target = Target::new("v1", "Pod", &self.ro.metadata.namespace, &text(&metadata["name"]));
            let patch = json!({"metadata": {"labels": labels, "annotations": annotations}});
            self.plan.actions.push(Action::patch(target, patch));
        }
    }

    /// The affinity of a new version's pods: that of the template, and away from the stable version where that is asked for.
    pub(super) fn affinity(&self, hash: &str) -> Value {
        let mut affinity = self.template["spec"]["affinity"].clone();
        let asked = self.canary().and_then(|canary| canary.anti_affinity.as_ref());
        let asked =
            asked.or_else(|| self.blue_green().and_then(|blue_green| blue_green.anti_affinity.as_ref()));
        let stable = &self.prev().stable_rs;
        let Some(asked) = asked.filter(|_| !stable.is_empty() && stable != hash) else { return affinity };
        let AntiAffinity {
            preferred_during_scheduling_ignored_during_execution: preferred,
            required_during_scheduling_ignored_during_execution: required,
            ..
        } = asked;
        let term = json!({"labelSelector": {"matchExpressions": [{"key": names::HASH, "operator": "In", "values": [stable]}]},
            "namespaces": [self.ro.metadata.namespace], "topologyKey": "kubernetes.io/hostname"});
        let (list, term) = match (preferred, required) {
            (Some(preferred), _) => (
                "preferredDuringSchedulingIgnoredDuringExecution",
                json!({"weight": preferred.weight, "podAffinityTerm": term}),
            ),
            (None, Some(_)) => ("requiredDuringSchedulingIgnoredDuringExecution", term),
            (None, None) => return affinity,
        };
        if affinity.is_null() {
            affinity = json!({});
        }
        let terms = &mut affinity["podAntiAffinity"][list];
        match terms.as_array_mut() {
            Some(terms) => terms.push(term),
            None => *terms = json!([term]),
        }
        affinity
    }
}
