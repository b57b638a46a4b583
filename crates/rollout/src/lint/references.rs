//! A Rollout beside the Services, Ingresses and VirtualServices of the same text.

use serde_json::Value;
use slipway_crd::rollout::Rollout;

use super::Wrongs;

const HASH_LABEL: &str = "rollouts-pod-template-hash";

pub(super) fn check<'a>(rollout: &Rollout, all: impl Iterator<Item = &'a Value>, wrongs: &mut Wrongs<'_>) {
    let services = named_services(rollout);
    let namespace = &rollout.metadata.namespace;
    for object in all {
        let there = object["metadata"]["namespace"].as_str().unwrap_or_default();
        if !there.is_empty() && !namespace.is_empty() && there != namespace {
            continue;
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        match object["kind"].as_str().unwrap_or_default() {
            "Service" if object["apiVersion"] == "v1" => {
                for (place, _) in services.iter().filter(|(_, service)| *service == name) {
                    service(rollout, object, place, wrongs);
                }
            }
            "Ingress" => ingress(rollout, object, name, wrongs),
            "VirtualService" => virtual_service(rollout, object, name, wrongs),
            _ => {}
        }
    }
}

fn named_services(rollout: &Rollout) -> Vec<(&'static str, &str)> {
    let mut named = Vec::new();
    if let Some(blue_green) = rollout.blue_green() {
        named.push(("spec.strategy.blueGreen.activeService", blue_green.active_service.as_str()));
        named.push(("spec.strategy.blueGreen.previewService", blue_green.preview_service.as_str()));
    }
    if let Some(canary) = rollout.canary() {
        named.push(("spec.strategy.canary.canaryService", canary.canary_service.as_str()));
        named.push(("spec.strategy.canary.stableService", canary.stable_service.as_str()));
        if let Some(pair) = &canary.ping_pong {
            named.push(("spec.strategy.canary.pingPong.pingService", pair.ping_service.as_str()));
            named.push(("spec.strategy.canary.pingPong.pongService", pair.pong_service.as_str()));
        }
    }
    named
}

/// A Service selects the Rollout's pods, or nobody.
fn service(rollout: &Rollout, service: &Value, place: &str, wrongs: &mut Wrongs<'_>) {
    // The labels of a referenced workload are not known here.
    let Some(template) = &rollout.spec.template else { return };
    let name = service["metadata"]["name"].as_str().unwrap_or_default();
    for (label, value) in service["spec"]["selector"].as_object().into_iter().flatten() {
        if label != HASH_LABEL && template["metadata"]["labels"][label] != *value {
            wrongs.add(
                place,
                format!("Service `{name}` selects pods by label `{label}`, which those of the Rollout do not have with this value"),
            );
        }
    }
    let manager =
        service["metadata"]["annotations"]["argo-rollouts.argoproj.io/managed-by-rollouts"].as_str();
    if let Some(other) = manager.filter(|other| *other != rollout.metadata.name) {
        wrongs.add(place, format!("Service `{name}` is managed by another Rollout, `{other}`"));
    }
}

fn ingress(rollout: &Rollout, ingress: &Value, name: &str, wrongs: &mut Wrongs<'_>) {
    let Some(canary) = rollout.canary() else { return };
    let Some(routing) = &canary.traffic_routing else { return };
    let mut wanted = Vec::new();
    if let Some(nginx) = &routing.nginx {
        if nginx.stable_ingress == name {
            wanted.push(("nginx.stableIngress", canary.stable_service.as_str()));
        } else if nginx.stable_ingresses.iter().any(|one| one == name) {
            wanted.push(("nginx.stableIngresses", canary.stable_service.as_str()));
        }
    }
    if let Some(alb) = &routing.alb {
        let service = if alb.root_service.is_empty() { &canary.stable_service } else { &alb.root_service };
        if alb.ingress == name {
            wanted.push(("alb.ingress", service.as_str()));
        } else if alb.ingresses.iter().any(|one| one == name) {
            wanted.push(("alb.ingresses", service.as_str()));
        }
    }
    for (place, service) in wanted {
        if !has_backend(ingress, service) {
            wrongs.warn(
                &format!("spec.strategy.canary.trafficRouting.{place}"),
                format!("Ingress `{name}` has no rule with the Service `{service}` behind it"),
            );
        }
    }
}

/// Both forms of an Ingress.
fn has_backend(ingress: &Value, service: &str) -> bool {
    let is_it = |backend: &Value| backend["service"]["name"] == service || backend["serviceName"] == service;
    let rules = ingress["spec"]["rules"].as_array().into_iter().flatten();
    rules
        .flat_map(|rule| rule["http"]["paths"].as_array().into_iter().flatten())
        .any(|path| is_it(&path["backend"]))
        || is_it(&ingress["spec"]["defaultBackend"])
        || is_it(&ingress["spec"]["backend"])
}

/// The routes that the Rollout names exist, and each leads to both versions.
fn virtual_service(rollout: &Rollout, object: &Value, name: &str, wrongs: &mut Wrongs<'_>) {
    let Some(canary) = rollout.canary() else { return };
    let Some(istio) = canary.traffic_routing.as_ref().and_then(|routing| routing.istio.as_ref()) else {
        return;
    };
    let place = |several: bool| {
        let field = if several { "virtualServices" } else { "virtualService" };
        format!("spec.strategy.canary.trafficRouting.istio.{field}")
    };
    let named = istio
        .virtual_service
        .iter()
        .map(|one| (one, place(false)))
        .chain(istio.virtual_services.iter().map(|one| (one, place(true))));
    for (wanted, place) in named {
        // `name` or `name.namespace`.
        if wanted.name.split('.').next() != Some(name) {
            continue;
        }
        let http = object["spec"]["http"].as_array().map(Vec::as_slice).unwrap_or_default();
        if http.is_empty() && object["spec"]["tls"].is_null() && object["spec"]["tcp"].is_null() {
            wrongs.add(&place, format!("VirtualService `{name}` has no routes"));
            continue;
        }
        if wanted.routes.is_empty() && http.len() > 1 {
            wrongs.add(
                &place,
                format!(
                    "VirtualService `{name}` has {} HTTP routes: name those that are yours in `routes`",
                    http.len()
                ),
            );
            continue;
        }
        // A route of TLS or TCP is found by its port and names, not by its own name.
        for route in wanted.routes.iter().filter(|_| !http.is_empty()) {
            match http.iter().find(|one| one["name"] == *route) {
                None => wrongs.add(&place, format!("VirtualService `{name}` has no HTTP route `{route}`")),
                Some(route) => both_versions(rollout, route, name, &place, wrongs),
            }
        }
        if wanted.routes.is_empty()
            && let [route] = http
        {
            both_versions(rollout, route, name, &place, wrongs);
        }
    }
}

fn both_versions(rollout: &Rollout, route: &Value, name: &str, place: &str, wrongs: &mut Wrongs<'_>) {
    let Some(canary) = rollout.canary() else { return };
    let istio = canary.traffic_routing.as_ref().and_then(|routing| routing.istio.as_ref());
    let rule = istio.and_then(|istio| istio.destination_rule.as_ref());
    let destinations: Vec<&Value> =
        route["route"].as_array().into_iter().flatten().map(|one| &one["destination"]).collect();
    let (stable, new) = match (&canary.ping_pong, rule) {
        _ if !canary.stable_service.is_empty() && !canary.canary_service.is_empty() => {
            (canary.stable_service.as_str(), canary.canary_service.as_str())
        }
        (Some(pair), _) => (pair.ping_service.as_str(), pair.pong_service.as_str()),
        (None, Some(rule)) => (rule.stable_subset_name.as_str(), rule.canary_subset_name.as_str()),
        (None, None) => return,
    };
    for wanted in [stable, new].into_iter().filter(|wanted| !wanted.is_empty()) {
        let leads = |destination: &&&Value| {
            let host = destination["host"].as_str().unwrap_or_default();
            host.split('.').next() == Some(wanted)
                || destination["subset"] == wanted
                || rule.is_some_and(|rule| {
                    let subset = &destination["subset"];
                    *subset == rule.stable_subset_name || *subset == rule.canary_subset_name
                })
        };
        if !destinations.iter().any(|destination| leads(&destination)) {
            wrongs
                .add(place, format!("VirtualService `{name}` has a route without a destination `{wanted}`"));
        }
    }
}
