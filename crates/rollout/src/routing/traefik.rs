//! Traefik: the weights of a TraefikService.

use slipway_crd::rollout::{Rollout, Traefik};

use super::seen::{change, set_number};
use super::{Reference, Seen, Wanted, Write};

const SERVICE: (&str, &str) = ("traefik.io", "TraefikService");

pub(super) struct Router<'a>(pub(super) &'a Traefik);

impl Router<'_> {
    fn reference(&self, rollout: &Rollout) -> Reference {
        Reference::new(SERVICE, &rollout.metadata.namespace, &self.0.weighted_traefik_service_name)
    }
}

impl super::Router for Router<'_> {
    fn field(&self) -> &'static str {
        "traefik"
    }

    fn objects(&self, rollout: &Rollout, _: &Seen) -> Vec<Reference> {
        vec![self.reference(rollout)]
    }

    fn weigh(&self, wanted: &Wanted<'_>, seen: &Seen) -> Result<Vec<Write>, String> {
        let at = self.reference(wanted.rollout);
        let before = seen.get(&at)?;
        let mut after = before.clone();
        let (stable, canary) = wanted.services(false);
        let Some(services) = after["spec"]["weighted"]["services"].as_array_mut() else {
            return Err(format!("TraefikService \"{}\" has no spec.weighted.services", at.name));
        };
        for (name, weight) in [(canary, wanted.weight), (stable, wanted.stable_weight())] {
            let service = services.iter_mut().find(|service| service["name"] == name);
            let Some(service) = service else {
                return Err(format!("TraefikService \"{}\" has no service {name}", at.name));
            };
            set_number(&mut service["weight"], weight);
        }
        Ok(change(&at, before, after, &wanted.rollout.metadata.name))
    }
}
