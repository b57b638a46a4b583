//! AWS App Mesh: the weights of a VirtualRouter's targets, and the pods that both VirtualNodes select.

use slipway_crd::rollout::{AppMesh, Rollout};

use super::seen::{change, set_number, text};
use super::{Reference, Seen, Wanted, Write};
use crate::names::HASH;

const GROUP: &str = "appmesh.k8s.aws";
const SERVICE: (&str, &str) = (GROUP, "VirtualService");
const ROUTER: (&str, &str) = (GROUP, "VirtualRouter");
const NODE: (&str, &str) = (GROUP, "VirtualNode");
const ROUTES: [&str; 4] = ["httpRoute", "tcpRoute", "http2Route", "grpcRoute"];
/// Two nodes may not select the same pods: then the canary's selects none.
const NOBODY: &str = "canary-hash";

pub(super) struct Router<'a>(pub(super) &'a AppMesh);

impl Router<'_> {
    fn service(&self, rollout: &Rollout) -> Reference {
        let name = self.0.virtual_service.as_ref().map(|service| service.name.as_str()).unwrap_or_default();
        Reference::new(SERVICE, &rollout.metadata.namespace, name)
    }

    /// Stable, canary.
    fn nodes(&self) -> (&str, &str) {
        let nodes = self.0.virtual_node_group.as_ref();
        let stable = nodes.and_then(|nodes| nodes.stable_virtual_node_ref.as_ref());
        let canary = nodes.and_then(|nodes| nodes.canary_virtual_node_ref.as_ref());
        (
            stable.map(|node| node.name.as_str()).unwrap_or_default(),
            canary.map(|node| node.name.as_str()).unwrap_or_default(),
        )
    }

    fn router(&self, rollout: &Rollout, seen: &Seen) -> Option<Reference> {
        let service = seen.find(&self.service(rollout))?;
        let at = &service["spec"]["provider"]["virtualRouter"]["virtualRouterRef"];
        let namespace = at["namespace"].as_str().unwrap_or(&rollout.metadata.namespace);
        Some(Reference::new(ROUTER, namespace, at["name"].as_str()?))
    }
}

impl super::Router for Router<'_> {
    fn field(&self) -> &'static str {
        "appMesh"
    }

    fn objects(&self, rollout: &Rollout, seen: &Seen) -> Vec<Reference> {
        let (stable, canary) = self.nodes();
        let nodes = [stable, canary].into_iter().filter(|name| !name.is_empty());
        let nodes = nodes.map(|name| Reference::new(NODE, &rollout.metadata.namespace, name));
        nodes.chain([self.service(rollout)]).chain(self.router(rollout, seen)).collect()
    }

    fn point(&self, wanted: &Wanted<'_>, seen: &Seen) -> Result<Vec<Write>, String> {
        let (stable, canary) = self.nodes();
        let of_canary = match wanted.canary_hash {
            // Not while requests still go there.
            same if same.is_some() && same == wanted.stable_hash => wanted.settled.then_some(NOBODY),
            other => other,
        };
        let mut writes = Vec::new();
        for (name, hash) in [(stable, wanted.stable_hash), (canary, of_canary)] {
            let at = Reference::new(NODE, &wanted.rollout.metadata.namespace, name);
            let before = seen.get(&at)?;
            let Some(hash) = hash else { continue };
            let mut after = before.clone();
            after["spec"]["podSelector"]["matchLabels"][HASH] = hash.into();
            writes.extend(change(&at, before, after, &wanted.rollout.metadata.name));
        }
        Ok(writes)
    }

    fn weigh(&self, wanted: &Wanted<'_>, seen: &Seen) -> Result<Vec<Write>, String> {
        let rollout = wanted.rollout;
        seen.get(&self.service(rollout))?;
        let at = self.router(rollout, seen).ok_or("the VirtualService names no VirtualRouter")?;
        let before = seen.get(&at)?;
        let mut after = before.clone();
        let asked =
            self.0.virtual_service.as_ref().map(|service| service.routes.as_slice()).unwrap_or_default();
        let (stable, canary) = self.nodes();
        let (mut found, mut both) = (false, true);
        for route in after["spec"]["routes"].as_array_mut().into_iter().flatten() {
            let name = text(&route["name"]).to_owned();
            if !asked.is_empty() && !asked.contains(&name) {
                continue;
            }
            let Some(kind) = ROUTES.into_iter().find(|kind| route[*kind].is_object()) else { continue };
            found = true;
            let (mut has_stable, mut has_canary) = (false, false);
            for target in route[kind]["action"]["weightedTargets"].as_array_mut().into_iter().flatten() {
                let node = &target["virtualNodeRef"];
                let ours = node["namespace"].as_str().unwrap_or(&at.namespace) == rollout.metadata.namespace;
                let weight = match text(&node["name"]) {
                    name if ours && name == stable => {
                        has_stable = true;
                        wanted.stable_weight()
                    }
                    name if ours && name == canary => {
                        has_canary = true;
                        wanted.weight
                    }
                    _ => continue,
                };
                set_number(&mut target["weight"], weight);
            }
            both &= has_stable && has_canary;
        }
        if !found || !both {
            return Err(format!(
                "VirtualRouter \"{}\" has no route with both nodes {stable} and {canary}",
                at.name
            ));
        }
        Ok(change(&at, before, after, &rollout.metadata.name))
    }
}
