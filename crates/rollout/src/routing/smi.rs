//! Service Mesh Interface: one TrafficSplit, which is the Rollout's own.

use serde_json::{Value, json};
use slipway_crd::rollout::{Rollout, Smi};

use super::seen::{change, is_owned};
use super::{Reference, Seen, Wanted, Write};

const SPLIT: (&str, &str) = ("split.smi-spec.io", "TrafficSplit");
const VERSION: &str = "v1alpha1";

pub(super) struct Router<'a>(pub(super) &'a Smi);

impl Router<'_> {
    fn reference(&self, rollout: &Rollout) -> Reference {
        let given = self.0.traffic_split_name.as_str();
        let name = if given.is_empty() { rollout.metadata.name.as_str() } else { given };
        Reference::new(SPLIT, &rollout.metadata.namespace, name)
    }
}

impl super::Router for Router<'_> {
    fn field(&self) -> &'static str {
        "smi"
    }

    fn objects(&self, rollout: &Rollout, _: &Seen) -> Vec<Reference> {
        vec![self.reference(rollout)]
    }

    fn weigh(&self, wanted: &Wanted<'_>, seen: &Seen) -> Result<Vec<Write>, String> {
        let at = self.reference(wanted.rollout);
        let (stable, canary) = wanted.services(false);
        let root = if self.0.root_service.is_empty() { stable } else { &self.0.root_service };
        let version = match seen.find(&at) {
            Some(before) => before["apiVersion"].as_str().unwrap_or_default().to_owned(),
            None => seen.version(SPLIT, VERSION),
        };
        // The oldest version has quantities, which an API server answers as text.
        let weight =
            |weight: i64| if version.ends_with(VERSION) { json!(weight.to_string()) } else { json!(weight) };
        let mut backends = vec![json!({"service": canary, "weight": weight(wanted.weight)})];
        let others = wanted.additional.iter();
        backends.extend(others.map(|one| json!({"service": one.service_name, "weight": weight(one.weight)})));
        backends.push(json!({"service": stable, "weight": weight(wanted.stable_weight())}));
        let spec = json!({"service": root, "backends": backends});
        let metadata = &wanted.rollout.metadata;
        match seen.find(&at) {
            None => {
                let object = json!({"apiVersion": version, "kind": "TrafficSplit", "spec": spec,
                    "metadata": {"name": at.name, "namespace": at.namespace, "ownerReferences": [wanted.owner()],
                        "annotations": {crate::names::MANAGED_BY: metadata.name}}});
                Ok(vec![Write::Create(at, object)])
            }
            Some(before) if !is_owned(before, &metadata.uid) => {
                Err(format!("TrafficSplit \"{}\" is there and not this Rollout's", at.name))
            }
            Some(before) => {
                let mut after = before.clone();
                if !same(&before["spec"], &spec) {
                    after["spec"] = spec;
                }
                Ok(change(&at, before, after, &metadata.name))
            }
        }
    }
}

/// The same split, however its numbers are written.
fn same(one: &Value, other: &Value) -> bool {
    let number = |value: &Value| value.as_i64().or_else(|| value.as_str()?.parse().ok());
    let split = |spec: &Value| -> Vec<(Value, Option<i64>)> {
        let backends = super::seen::items(&spec["backends"]).iter();
        backends.map(|backend| (backend["service"].clone(), number(&backend["weight"]))).collect()
    };
    one["service"] == other["service"] && split(one) == split(other)
}
