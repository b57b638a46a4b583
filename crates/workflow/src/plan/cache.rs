//! `memoize`: what a node left before is taken again. Caches are ConfigMaps of the workflow's own namespace that say of themselves what they are.

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_crd::workflow::{Outputs, Template};

use super::execute::Call;
use super::globals::MAP_TYPE;
use super::nodes::Fresh;
use super::{Action, Halt, Run, retry};
use crate::scope::text_of;

const KEY_MAX: usize = 253;

/// The ConfigMap of a template's cache.
pub(super) fn name_of(template: &Template) -> Option<String> {
    let cache = template.memoize.as_ref()?.cache.as_ref()?;
    Some(text_of(&cache.config_map.as_ref()?["name"]))
}

/// What an entry is in the cache, and how it is found.
struct Place {
    config_map: String,
    key: String,
}

impl Place {
    fn status(&self, hit: bool) -> Value {
        json!({"hit": hit, "key": self.key, "cacheName": self.config_map})
    }
}

impl Run<'_> {
    /// A node that has not begun ends at once with what is remembered. Gives its id then.
    pub(super) fn recall(&mut self, call: &Call, template: &Template) -> Result<Option<String>, Halt> {
        // A node has this from the moment when it begins.
        let begun = self.node(&call.name).is_some_and(|node| node.memoization_status.is_some());
        let Some(place) = self.place(call, template)?.filter(|_| !begun) else { return Ok(None) };
        let max_age = template.memoize.as_ref().map(|memoize| memoize.max_age.as_str()).unwrap_or_default();
        let Some(outputs) = self.remembered(&place, max_age)? else { return Ok(None) };
        let kind = self.kind_of(call);
        let id = self.make_node(call, &Fresh { kind, phase: "Pending", message: "" });
        if let Some(node) = self.status.nodes.get_mut(&id) {
            node.outputs = outputs;
            node.synchronization_status = None;
            node.memoization_status = Some(place.status(true));
        }
        self.mark(&call.name, "Succeeded", "");
        let published = self.status.nodes[&id].outputs.iter().flat_map(|one| one.parameters.clone());
        for parameter in published.collect::<Vec<_>>() {
            self.publish_globally(&parameter);
        }
        Ok(Some(id))
    }

    /// Says on a node that began just now where it will be remembered.
    pub(super) fn remember(&mut self, call: &Call, template: &Template) -> Result<(), Halt> {
        let Some(place) = self.place(call, template)? else { return Ok(()) };
        if let Some(node) = self.node_mut(&call.name) {
            node.memoization_status.get_or_insert_with(|| place.status(false));
        }
        Ok(())
    }

    fn place(&self, call: &Call, template: &Template) -> Result<Option<Place>, String> {
        let Some(memoize) = template.memoize.as_ref().filter(|_| !call.retried) else { return Ok(None) };
        let (_, scope) = self.inputs(template, &call.arguments)?;
        let key = scope.fill_text(&memoize.key, self.now)?;
        let good = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        if !key.starts_with(|letter: char| letter.is_ascii_alphanumeric())
            || !key.chars().all(good)
            || key.len() > KEY_MAX
        {
            return Err(format!(
                "memoize.key is `{key}`: letters, digits and `-` are allowed, {KEY_MAX} of them"
            ));
        }
        Ok(Some(Place { config_map: name_of(template).unwrap_or_default(), key }))
    }

    /// `None`: nothing, or something too old.
    fn remembered(&self, place: &Place, max_age: &str) -> Result<Option<Option<Outputs>>, String> {
        let Some(map) = self.observed.config_maps.get(&place.config_map) else { return Ok(None) };
        if map["metadata"]["labels"][MAP_TYPE] != "Cache" {
            return Err(format!("ConfigMap `{}` has no label {MAP_TYPE}: Cache", place.config_map));
        }
        let entry =
            map["data"][&place.key].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let Some(entry) = entry else { return Ok(None) };
        if !max_age.is_empty() {
            let made = entry["creationTimestamp"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
            let until = made.and_then(|made| made.checked_add(retry::seconds(max_age).ok()?).ok());
            if until.is_none_or(|until| until <= self.now) {
                return Ok(None);
            }
        }
        Ok(Some(serde_json::from_value(entry["outputs"].clone()).ok()))
    }

    /// What ended well just now is kept. Found by what changed, so that a reconcile that was killed does it again.
    pub(super) fn keep_results(&mut self) {
        let before = &self.observed.workflow.status.nodes;
        let ended = self.status.nodes.values().filter(|node| {
            node.phase == "Succeeded"
                && before.get(&node.id).is_none_or(|before| before.phase != "Succeeded")
                && node.memoization_status.as_ref().is_some_and(|status| status["hit"] == false)
        });
        let actions: Vec<Action> = ended
            .map(|node| {
                let place = node.memoization_status.clone().unwrap_or_default();
                let now = self.now.to_string();
                let entry = json!({"nodeID": node.id, "outputs": node.outputs, "creationTimestamp": now, "lastHitTimestamp": now});
                Action::Remember {
                    config_map: text_of(&place["cacheName"]),
                    key: text_of(&place["key"]),
                    entry: entry.to_string(),
                }
            })
            .collect();
        self.actions.extend(actions);
    }
}
