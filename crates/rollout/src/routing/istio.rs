//! Istio: the weights of a VirtualService's routes, and the subsets of a DestinationRule where versions are told apart by labels.

use serde_json::{Value, json};
use slipway_crd::rollout::{Istio, IstioDestinationRule, IstioVirtualService, Rollout};

use super::istio_routes as routes;
use super::seen::{change, text};
use super::{Reference, Seen, Wanted, Write};
use crate::names::HASH;

const SERVICE: (&str, &str) = ("networking.istio.io", "VirtualService");
const RULE: (&str, &str) = ("networking.istio.io", "DestinationRule");

pub(super) struct Router<'a>(pub(super) &'a Istio);

/// By what a destination is known: its Service, or its subset.
pub(super) struct Destinations<'a> {
    pub(super) stable: &'a str,
    pub(super) canary: &'a str,
    pub(super) rule: Option<&'a IstioDestinationRule>,
    /// In a VirtualService of another namespace a host is ours only with this namespace in it: nobody else's routes are divided by a
    /// Rollout that merely has Services of the same names.
    pub(super) within: Option<&'a str>,
}

/// `name`, or `name.namespace`.
fn named(service: &IstioVirtualService, rollout: &Rollout) -> Reference {
    match service.name.trim_end_matches(".cluster.local").rsplit_once('.') {
        Some((name, namespace)) => Reference::new(SERVICE, namespace, name),
        None => Reference::new(SERVICE, &rollout.metadata.namespace, &service.name),
    }
}

impl Router<'_> {
    fn services(&self) -> Vec<&IstioVirtualService> {
        if self.0.virtual_services.is_empty() {
            self.0.virtual_service.iter().collect()
        } else {
            self.0.virtual_services.iter().collect()
        }
    }

    fn rule(&self, rollout: &Rollout) -> Option<(&IstioDestinationRule, Reference)> {
        let rule = self.0.destination_rule.as_ref()?;
        Some((rule, Reference::new(RULE, &rollout.metadata.namespace, &rule.name)))
    }
}

impl super::Router for Router<'_> {
    fn field(&self) -> &'static str {
        "istio"
    }

    fn objects(&self, rollout: &Rollout, _: &Seen) -> Vec<Reference> {
        let services = self.services().into_iter().map(|service| named(service, rollout));
        services.chain(self.rule(rollout).map(|(_, at)| at)).collect()
    }

    fn point(&self, wanted: &Wanted<'_>, seen: &Seen) -> Result<Vec<Write>, String> {
        let Some((rule, at)) = self.rule(wanted.rollout) else { return Ok(Vec::new()) };
        let before = seen.get(&at)?;
        let mut after = before.clone();
        let roles =
            [(&rule.canary_subset_name, wanted.canary_hash), (&rule.stable_subset_name, wanted.stable_hash)];
        let Some(subsets) = after["spec"]["subsets"].as_array_mut() else {
            return Err(format!("DestinationRule \"{}\" has no subsets", rule.name));
        };
        for (name, hash) in roles {
            let subset = subsets.iter_mut().find(|subset| subset["name"] == name.as_str());
            let subset =
                subset.ok_or_else(|| format!("DestinationRule \"{}\" has no subset {name}", rule.name))?;
            if let Some(hash) = hash {
                subset["labels"][HASH] = hash.into();
            }
        }
        let experiment = |name: &str| wanted.additional.iter().find(|one| one.service_name == name);
        let kept = |name: &str| {
            name == rule.canary_subset_name
                || name == rule.stable_subset_name
                || rule.additional_subset_names.iter().any(|one| one == name)
                || experiment(name).is_some()
        };
        // Subsets of experiments that are over go once nobody is sent there; so do strangers, as ever.
        if wanted.settled {
            subsets.retain(|subset| kept(text(&subset["name"])));
        }
        for one in wanted.additional {
            let labels = json!({HASH: one.pod_template_hash});
            match subsets.iter_mut().find(|subset| subset["name"] == one.service_name.as_str()) {
                Some(subset) => subset["labels"][HASH] = one.pod_template_hash.as_str().into(),
                None => subsets.push(json!({"name": one.service_name, "labels": labels})),
            }
        }
        Ok(change(&at, before, after, &wanted.rollout.metadata.name))
    }

    fn weigh(&self, wanted: &Wanted<'_>, seen: &Seen) -> Result<Vec<Write>, String> {
        let (stable, canary) = wanted.services(false);
        let rule = self.rule(wanted.rollout);
        // With subsets both versions have one host: that of the rule.
        let host = match &rule {
            Some((_, at)) => text(&seen.get(at)?["spec"]["host"]),
            None => canary,
        };
        let mut writes = Vec::new();
        for service in self.services() {
            let at = named(service, wanted.rollout);
            let own = wanted.rollout.metadata.namespace.as_str();
            let within = Some(own).filter(|own| *own != at.namespace);
            let known = Destinations { stable, canary, rule: rule.as_ref().map(|(rule, _)| *rule), within };
            let before = seen.get(&at)?;
            let mut after = before.clone();
            let named = |why: String| format!("VirtualService \"{}\": {why}", at.name);
            set_weights(&mut after, service, wanted, &known).map_err(named)?;
            routes::set_managed(&mut after, service, wanted, &known, host).map_err(named)?;
            writes.extend(change(&at, before, after, &wanted.rollout.metadata.name));
        }
        Ok(writes)
    }
}

fn set_weights(
    object: &mut Value,
    service: &IstioVirtualService,
    wanted: &Wanted<'_>,
    known: &Destinations<'_>,
) -> Result<(), String> {
    let managed = wanted.managed();
    let chosen = routes::chosen(&object["spec"], service, &managed)?;
    if chosen.is_empty() {
        return Err("there is no route to divide".into());
    }
    for (kind, index) in chosen {
        let route = &mut object["spec"][kind][index];
        routes::divide(route, wanted, known)?;
    }
    Ok(())
}
