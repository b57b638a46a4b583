//! Ambassador: a clone of each Mapping takes the canary's share. It is removed a moment after its share became nothing.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_crd::rollout::{Ambassador, Rollout};

use super::seen::{change, cut, is_owned, items, set_number, text};
use super::{Reference, Seen, Wanted, Write};
use crate::names::MANAGED_BY;

const MAPPING: (&str, &str) = ("getambassador.io", "Mapping");
const NAME_MAX: usize = 246;
/// On a clone without a share: when it may go. Until then every proxy has heard of the share.
const GOES_AT: &str = "slipway.io/removed-at";
const SECONDS: i64 = 5;

pub(super) struct Router<'a>(pub(super) &'a Ambassador);

fn clone_name(mapping: &str) -> String {
    cut(mapping.to_owned(), NAME_MAX) + "-canary"
}

fn goes_at(clone: &Value) -> Option<Timestamp> {
    clone["metadata"]["annotations"][GOES_AT].as_str()?.parse().ok()
}

/// Made by this Rollout, or by the controller of Argo Rollouts before it, which notes no owner: nobody's, and it leads to the canary.
fn is_ours(clone: &Value, uid: &str, canary: &str) -> bool {
    let owned = items(&clone["metadata"]["ownerReferences"]).iter().any(|owner| owner["controller"] == true);
    let service = text(&clone["spec"]["service"]);
    let host = service.rsplit_once("//").map_or(service, |(_, host)| host);
    is_owned(clone, uid) || !owned && host.split(['.', ':']).next() == Some(canary)
}

/// Where the clone leads: the address of the stable version with the canary's name; of a Mapping that leads elsewhere, its port is kept.
fn of_canary(service: &str, stable: &str, canary: &str) -> String {
    if !stable.is_empty() && service.contains(stable) {
        return service.replacen(stable, canary, 1);
    }
    let port = service.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
    port.map_or_else(|| canary.to_owned(), |(_, port)| format!("{canary}:{port}"))
}

impl Router<'_> {
    fn clones(&self, rollout: &Rollout) -> Vec<(Reference, Reference)> {
        let namespace = &rollout.metadata.namespace;
        let of = |name: &str| Reference::new(MAPPING, namespace, name);
        self.0.mappings.iter().map(|name| (of(name), of(&clone_name(name)))).collect()
    }
}

impl super::Router for Router<'_> {
    fn field(&self) -> &'static str {
        "ambassador"
    }

    fn objects(&self, rollout: &Rollout, _: &Seen) -> Vec<Reference> {
        self.clones(rollout).into_iter().flat_map(|(base, clone)| [base, clone]).collect()
    }

    fn weigh(&self, wanted: &Wanted<'_>, seen: &Seen) -> Result<Vec<Write>, String> {
        let name = &wanted.rollout.metadata.name;
        let (stable, canary) = wanted.services(false);
        let mut writes = Vec::new();
        for (at_base, at_clone) in self.clones(wanted.rollout) {
            let base = seen.get(&at_base)?;
            if base["spec"]["weight"].as_i64().is_some_and(|weight| weight != 0) {
                return Err(format!("Mapping \"{}\" may not have a weight of its own", at_base.name));
            }
            let there = seen.find(&at_clone);
            if there.is_some_and(|clone| !is_ours(clone, &wanted.rollout.metadata.uid, canary)) {
                return Err(format!("Mapping \"{}\" is there and not this Rollout's", at_clone.name));
            }
            match there {
                None if wanted.weight == 0 => {}
                None => {
                    let mut spec = base["spec"].clone();
                    spec["service"] = of_canary(text(&spec["service"]), stable, canary).into();
                    spec["weight"] = wanted.weight.into();
                    let object = json!({"apiVersion": base["apiVersion"], "kind": "Mapping", "spec": spec,
                        "metadata": {"name": at_clone.name, "namespace": at_clone.namespace, "ownerReferences": [wanted.owner()],
                            "annotations": {MANAGED_BY: name}}});
                    writes.push(Write::Create(at_clone, object));
                }
                Some(clone) if wanted.weight == 0 && goes_at(clone).is_some_and(|at| at <= wanted.now) => {
                    writes.push(Write::Delete(at_clone));
                }
                Some(clone) => {
                    let mut after = clone.clone();
                    set_number(&mut after["spec"]["weight"], wanted.weight);
                    let annotations = &mut after["metadata"]["annotations"];
                    if wanted.weight == 0 {
                        if goes_at(clone).is_none() {
                            let at = wanted.now.checked_add(SignedDuration::from_secs(SECONDS));
                            annotations[GOES_AT] = at.unwrap_or(wanted.now).to_string().into();
                        }
                    } else if let Some(annotations) = annotations.as_object_mut() {
                        annotations.remove(GOES_AT);
                    }
                    writes.extend(change(&at_clone, clone, after, name));
                }
            }
        }
        Ok(writes)
    }

    fn look_at(&self, wanted: &Wanted<'_>, seen: &Seen) -> Option<Timestamp> {
        let clones = self.clones(wanted.rollout).into_iter();
        clones.filter_map(|(_, clone)| goes_at(seen.find(&clone)?)).min()
    }
}
