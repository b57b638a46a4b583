//! Who gets which share of the requests, written into the objects of a router.
//!
//! In: what is wanted ([`Wanted`]) and the routes as they are ([`Seen`]). Out: the routes as they should be ([`Write`]), in the order in which
//! they have to be written. Each router is a file of its own behind one trait. Knows neither steps nor pods: whether a weight may be set
//! now is decided before (`plan::traffic`).

mod alb;
mod ambassador;
mod apisix;
mod app_mesh;
mod gateway;
mod istio;
mod istio_routes;
mod nginx;
mod seen;
mod smi;
mod traefik;

use jiff::Timestamp;
use slipway_crd::rollout::{Rollout, SetHeaderRoute, SetMirrorRoute, TrafficRouting, WeightDestination};

pub use gateway::PLUGIN as GATEWAY_API;
pub use seen::{Reference, Seen, Write};

/// What requests are to be divided into.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    pub rollout: &'a Rollout,
    /// The share of the new version, of [`Self::most`].
    pub weight: i64,
    pub most: i64,
    /// Versions of an experiment, with shares of their own.
    pub additional: &'a [WeightDestination],
    /// The versions that both destinations stand for; none: as it is.
    pub canary_hash: Option<&'a str>,
    pub stable_hash: Option<&'a str>,
    /// The shares are written already: what nobody is sent to any more may be pointed elsewhere.
    pub settled: bool,
    /// Requests with these headers go to the new version.
    pub headers: Vec<&'a SetHeaderRoute>,
    /// These requests are sent to the new version as well.
    pub mirrors: Vec<&'a SetMirrorRoute>,
    pub now: Timestamp,
}

impl Wanted<'_> {
    /// What nobody else gets.
    fn stable_weight(&self) -> i64 {
        let others: i64 = self.additional.iter().map(|one| one.weight).sum();
        (self.most - self.weight - others).max(0)
    }

    fn routing(&self) -> Option<&TrafficRouting> {
        self.rollout.canary()?.traffic_routing.as_ref()
    }

    /// Routes that are ours alone, in the order in which they are asked.
    fn managed(&self) -> Vec<&str> {
        let routes = self.routing().map(|routing| routing.managed_routes.as_slice()).unwrap_or_default();
        routes.iter().map(|route| route.name.as_str()).collect()
    }

    fn services(&self, prefer_ping_pong: bool) -> (&str, &str) {
        services(self.rollout, prefer_ping_pong)
    }

    fn owner(&self) -> serde_json::Value {
        let metadata = &self.rollout.metadata;
        serde_json::json!({"apiVersion": slipway_crd::names::API_VERSION, "kind": "Rollout", "name": metadata.name, "uid": metadata.uid,
            "controller": true, "blockOwnerDeletion": true})
    }
}

/// The Services of the stable and of the new version. With ping and pong they take turns; routers that know Services by `stableService` and
/// `canaryService` keep to those where both are given.
pub fn services(rollout: &Rollout, prefer_ping_pong: bool) -> (&str, &str) {
    let Some(canary) = rollout.canary() else { return ("", "") };
    let plain = (canary.stable_service.as_str(), canary.canary_service.as_str());
    match &canary.ping_pong {
        Some(both) if prefer_ping_pong || plain == ("", "") => {
            let (ping, pong) = (both.ping_service.as_str(), both.pong_service.as_str());
            if rollout.status.canary.stable_ping_pong == "ping" { (ping, pong) } else { (pong, ping) }
        }
        _ => plain,
    }
}

/// One way of dividing requests.
pub trait Router {
    /// Where it stands in `trafficRouting`.
    fn field(&self) -> &'static str;

    /// Every object that it looks at; one may name another, so it is asked again when more is known.
    fn objects(&self, rollout: &Rollout, seen: &Seen) -> Vec<Reference>;

    /// Which pods the destinations stand for.
    fn point(&self, _wanted: &Wanted<'_>, _seen: &Seen) -> Result<Vec<Write>, String> {
        Ok(Vec::new())
    }

    /// Shares, and the routes by header and the mirrors that are wanted; other routes of ours go.
    fn weigh(&self, wanted: &Wanted<'_>, seen: &Seen) -> Result<Vec<Write>, String>;

    /// Whether the data plane has taken what was written; none: it does not tell.
    fn verified(&self, _wanted: &Wanted<'_>, _seen: &Seen) -> Option<bool> {
        None
    }

    /// Something is still to be written then, although nothing changes.
    fn look_at(&self, _wanted: &Wanted<'_>, _seen: &Seen) -> Option<Timestamp> {
        None
    }
}

/// The routers that the Rollout names. All of them are told.
pub fn routers(rollout: &Rollout) -> Vec<Box<dyn Router + '_>> {
    let mut all: Vec<Box<dyn Router + '_>> = Vec::new();
    let Some(routing) = rollout.canary().and_then(|canary| canary.traffic_routing.as_ref()) else {
        return all;
    };
    if let Some(istio) = &routing.istio {
        all.push(Box::new(istio::Router(istio)));
    }
    if let Some(nginx) = &routing.nginx {
        all.push(Box::new(nginx::Router(nginx)));
    }
    if let Some(alb) = &routing.alb {
        all.push(Box::new(alb::Router(alb)));
    }
    if let Some(smi) = &routing.smi {
        all.push(Box::new(smi::Router(smi)));
    }
    if let Some(ambassador) = &routing.ambassador {
        all.push(Box::new(ambassador::Router(ambassador)));
    }
    if let Some(app_mesh) = &routing.app_mesh {
        all.push(Box::new(app_mesh::Router(app_mesh)));
    }
    if let Some(traefik) = &routing.traefik {
        all.push(Box::new(traefik::Router(traefik)));
    }
    if let Some(apisix) = &routing.apisix {
        all.push(Box::new(apisix::Router(apisix)));
    }
    if let Some(config) = routing.plugins.get(GATEWAY_API) {
        all.push(Box::new(gateway::Router::new(config)));
    }
    all
}

/// Every object that the Rollout's routers look at, as far as it is known from what was seen.
pub fn objects(rollout: &Rollout, seen: &Seen) -> Vec<Reference> {
    let mut all: Vec<Reference> =
        routers(rollout).iter().flat_map(|router| router.objects(rollout, seen)).collect();
    all.sort();
    all.dedup();
    all
}

/// The kinds that some router may look at, for whoever has to watch them: group and kind.
pub const KINDS: [(&str, &str); 14] = [
    ("networking.istio.io", "VirtualService"),
    ("networking.istio.io", "DestinationRule"),
    ("networking.k8s.io", "Ingress"),
    ("split.smi-spec.io", "TrafficSplit"),
    ("getambassador.io", "Mapping"),
    ("appmesh.k8s.aws", "VirtualService"),
    ("appmesh.k8s.aws", "VirtualRouter"),
    ("appmesh.k8s.aws", "VirtualNode"),
    ("traefik.io", "TraefikService"),
    ("apisix.apache.org", "ApisixRoute"),
    ("gateway.networking.k8s.io", "HTTPRoute"),
    ("gateway.networking.k8s.io", "GRPCRoute"),
    ("gateway.networking.k8s.io", "TCPRoute"),
    ("gateway.networking.k8s.io", "TLSRoute"),
];

/// What is wrong with what the routers need: objects that are missing, routes that do not name both versions. Nothing is written.
pub fn problems(rollout: &Rollout, seen: &Seen, now: Timestamp) -> Vec<String> {
    let most = crate::plan::max_weight_of(rollout);
    let steps = rollout.canary().map(|canary| canary.steps.as_slice()).unwrap_or_default();
    let wanted = Wanted {
        rollout,
        // Neither nothing nor all: every router has to write something.
        weight: 1,
        most,
        additional: &[],
        canary_hash: None,
        stable_hash: None,
        settled: false,
        headers: steps
            .iter()
            .filter_map(|step| step.set_header_route.as_ref())
            .filter(|route| !route.r#match.is_empty())
            .collect(),
        mirrors: steps
            .iter()
            .filter_map(|step| step.set_mirror_route.as_ref())
            .filter(|route| !route.r#match.is_empty())
            .collect(),
        now,
    };
    let mut all = Vec::new();
    for router in routers(rollout) {
        let outcome = router.point(&wanted, seen).and_then(|_| router.weigh(&wanted, seen));
        if let Err(why) = outcome {
            all.push(format!("spec.strategy.canary.trafficRouting.{}: {why}", router.field()));
        }
    }
    all
}
