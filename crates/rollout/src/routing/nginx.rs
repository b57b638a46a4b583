//! NGINX Ingress: a second Ingress beside the stable one, whose annotations say how many requests it takes.

use serde_json::{Map, Value, json};
use slipway_crd::rollout::{Nginx, Rollout};

use super::seen::{change, cut, is_owned, items, text};
use super::{Reference, Seen, Wanted, Write};

pub(super) const INGRESS: (&str, &str) = ("networking.k8s.io", "Ingress");
const PREFIX: &str = "nginx.ingress.kubernetes.io";
const CLASS: &str = "kubernetes.io/ingress.class";
const NAME_MAX: usize = 253;
const SUFFIX: &str = "-canary";

pub(super) struct Router<'a>(pub(super) &'a Nginx);

/// One name or several.
pub(super) fn listed<'a>(one: &'a str, several: &'a [String]) -> Vec<&'a str> {
    if several.is_empty() { vec![one] } else { several.iter().map(String::as_str).collect() }
}

fn canary_name(rollout: &str, ingress: &str) -> String {
    cut(format!("{rollout}-{ingress}"), NAME_MAX - SUFFIX.len()) + SUFFIX
}

impl super::Router for Router<'_> {
    fn field(&self) -> &'static str {
        "nginx"
    }

    fn objects(&self, rollout: &Rollout, _: &Seen) -> Vec<Reference> {
        let (namespace, name) = (&rollout.metadata.namespace, &rollout.metadata.name);
        let stable = listed(&self.0.stable_ingress, &self.0.stable_ingresses);
        let both = stable.into_iter().flat_map(|ingress| [ingress.to_owned(), canary_name(name, ingress)]);
        both.map(|ingress| Reference::new(INGRESS, namespace, &ingress)).collect()
    }

    fn weigh(&self, wanted: &Wanted<'_>, seen: &Seen) -> Result<Vec<Write>, String> {
        let metadata = &wanted.rollout.metadata;
        let mut writes = Vec::new();
        for ingress in listed(&self.0.stable_ingress, &self.0.stable_ingresses) {
            let stable = seen.get(&Reference::new(INGRESS, &metadata.namespace, ingress))?;
            let name = canary_name(&metadata.name, ingress);
            let at = Reference::new(INGRESS, &metadata.namespace, &name);
            let made = self.canary(wanted, stable, &name)?;
            match seen.find(&at) {
                None => writes.push(Write::Create(at, made)),
                Some(before) if !is_owned(before, &metadata.uid) => {
                    return Err(format!("Ingress \"{name}\" is there and not this Rollout's"));
                }
                Some(before) => {
                    let mut after = before.clone();
                    after["spec"] = made["spec"].clone();
                    // What others wrote on it stays.
                    for (key, value) in made["metadata"]["annotations"].as_object().into_iter().flatten() {
                        after["metadata"]["annotations"][key.as_str()] = value.clone();
                    }
                    writes.extend(change(&at, before, after, &metadata.name));
                }
            }
        }
        Ok(writes)
    }
}

impl Router<'_> {
    fn canary(&self, wanted: &Wanted<'_>, stable: &Value, name: &str) -> Result<Value, String> {
        let (stable_service, canary_service) = wanted.services(false);
        let mut rules = Vec::new();
        for rule in items(&stable["spec"]["rules"]) {
            let mut rule = rule.clone();
            let mut ours = false;
            for path in rule["http"]["paths"].as_array_mut().into_iter().flatten() {
                let service = &mut path["backend"]["service"]["name"];
                if *service == stable_service {
                    *service = canary_service.into();
                    ours = true;
                }
            }
            if ours {
                rules.push(rule);
            }
        }
        if rules.is_empty() {
            let of = text(&stable["metadata"]["name"]);
            return Err(format!("Ingress \"{of}\" has no rule with the service {stable_service}"));
        }
        let mut spec = json!({"rules": rules});
        for field in ["tls", "ingressClassName"] {
            if !stable["spec"][field].is_null() {
                spec[field] = stable["spec"][field].clone();
            }
        }
        Ok(json!({"apiVersion": stable["apiVersion"], "kind": "Ingress", "spec": spec,
            "metadata": {"name": name, "namespace": wanted.rollout.metadata.namespace, "ownerReferences": [wanted.owner()],
                "annotations": self.annotations(wanted, stable)}}))
    }

    fn annotations(&self, wanted: &Wanted<'_>, stable: &Value) -> Map<String, Value> {
        let prefix = if self.0.annotation_prefix.is_empty() { PREFIX } else { &self.0.annotation_prefix };
        let mut all = Map::new();
        if let Some(class) = stable["metadata"]["annotations"][CLASS].as_str() {
            all.insert(CLASS.into(), class.into());
        }
        for (key, value) in &self.0.additional_ingress_annotations {
            let key = if key.starts_with(prefix) { key.clone() } else { format!("{prefix}/{key}") };
            all.insert(key, value.as_str().into());
        }
        let given = self.0.canary_ingress_annotations.iter();
        all.extend(given.map(|(key, value)| (key.clone(), value.as_str().into())));
        all.insert(format!("{prefix}/canary"), "true".into());
        all.insert(format!("{prefix}/canary-weight"), wanted.weight.to_string().into());
        if let Some(most) = wanted.routing().and_then(|routing| routing.max_traffic_weight) {
            all.insert(format!("{prefix}/canary-weight-total"), most.to_string().into());
        }
        all.insert(crate::names::MANAGED_BY.into(), wanted.rollout.metadata.name.as_str().into());
        all
    }
}
