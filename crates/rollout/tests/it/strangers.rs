//! Routes that belong to several Rollouts, or to nobody of them.

use serde_json::{Value, json};
use slipway_rollout::orders::Order;

use crate::routed::{gateway, http_route, weights};
use crate::routers::object;
use crate::sim::Sim;

#[test]
fn rollouts_that_share_a_route_do_not_write_in_turns() {
    let mut route = http_route();
    let other = json!({"backendRefs": [{"name": "old", "port": 80, "weight": 100}, {"name": "new", "port": 80, "weight": 0}]});
    route["spec"]["rules"].as_array_mut().expect("rules").push(other);
    let named = |name: &str, stable: &str, canary: &str| {
        let more = json!({"stableService": stable, "canaryService": canary, "steps": [{"setWeight": 20}, {"pause": {}}]});
        let mut sim = Sim::new(5, gateway(more)).with_service(stable).with_service(canary);
        sim.rollout.metadata.name = name.into();
        sim
    };
    let (mut web, mut api) = (named("web", "stable", "canary").with_route(route), named("api", "old", "new"));
    // Each wakes the other with what it writes, until there is nothing to write.
    let settle = |web: &mut Sim, api: &mut Sim| {
        for _ in 0..5 {
            web.settle();
            let seen = web.routes.clone();
            api.routes = seen.clone();
            api.settle();
            web.routes = api.routes.clone();
            if api.routes == seen {
                return;
            }
        }
        panic!("they write in turns: {:?}", web.routes);
    };
    settle(&mut web, &mut api);
    web.set_image("b");
    settle(&mut web, &mut api);
    let route = web.route("HTTPRoute", "shop");
    assert_eq!(
        (weights(&web), &route["spec"]["rules"][1]["backendRefs"][1]["weight"]),
        ((20, 80), &json!(0))
    );
    assert_eq!(route["metadata"]["labels"]["rollouts.argoproj.io/gatewayapi-canary"], "in-progress");
    web.order(&Order::Promote);
    settle(&mut web, &mut api);
    assert_eq!((web.phase().0, api.phase().0), ("Healthy", "Healthy"));
    assert!(
        web.route("HTTPRoute", "shop")["metadata"]["labels"]["rollouts.argoproj.io/gatewayapi-canary"]
            .is_null()
    );
}

#[test]
fn a_mapping_that_is_somebody_elses_is_not_touched() {
    let mapping = |name: &str, service: &str, owner: Value| {
        let mut mapping =
            object("getambassador.io/v2", "Mapping", json!({"prefix": "/", "service": service}));
        mapping["metadata"]["name"] = name.into();
        mapping["metadata"]["ownerReferences"] = owner;
        mapping
    };
    let sim = |clone: Value| {
        let strategy = json!({"canary": {"canaryService": "canary", "stableService": "stable", "steps": [{"setWeight": 50}, {"pause": {}}],
            "trafficRouting": {"ambassador": {"mappings": ["shop"]}}}});
        let sim = Sim::new(2, strategy).with_service("stable").with_service("canary");
        let mut sim = sim.with_route(mapping("shop", "web:80", json!([]))).with_route(clone);
        sim.settle();
        sim
    };
    let controlled = json!([{"controller": true, "uid": "another"}]);
    for clone in
        [mapping("shop-canary", "payments:80", json!([])), mapping("shop-canary", "canary:80", controlled)]
    {
        let sim = sim(clone.clone());
        assert!(
            sim.phase().1.contains("Mapping \"shop-canary\" is there and not this Rollout's"),
            "{:?}",
            sim.phase()
        );
        assert_eq!(sim.route("Mapping", "shop-canary"), &clone);
    }
    // The controller of Argo Rollouts notes no owner on its clones.
    let mut sim = sim(mapping("shop-canary", "canary:80", json!([])));
    sim.set_image("b");
    sim.settle();
    assert_eq!(sim.route("Mapping", "shop-canary")["spec"]["weight"], 50, "{}", sim.waiting);
}

#[test]
fn names_of_any_length_and_in_any_script_are_cut_between_letters() {
    for routing in [
        json!({"nginx": {"stableIngress": format!("x{}", "ö".repeat(200))}}),
        json!({"ambassador": {"mappings": [format!("x{}", "ö".repeat(200))]}}),
    ] {
        let strategy = json!({"canary": {"canaryService": "canary", "stableService": "stable", "steps": [{"setWeight": 50}], "trafficRouting": routing}});
        let mut sim = Sim::new(2, strategy).with_service("stable").with_service("canary");
        sim.settle();
        assert_eq!(sim.phase().0, "Degraded", "there is no such object");
    }
}
