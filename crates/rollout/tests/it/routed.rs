//! Canaries behind a router: pods come before requests, at every single write.

use serde_json::{Value, json};
use slipway_rollout::orders::Order;

use crate::sim::{Sim, merge};

pub(crate) fn http_route() -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "shop", "namespace": "shop", "generation": 1},
        "spec": {"rules": [{"backendRefs": [{"name": "stable", "port": 80, "weight": 100}, {"name": "canary", "port": 80, "weight": 0}]}]}})
}

pub(crate) fn gateway(more: Value) -> Value {
    let mut canary = json!({"canaryService": "canary", "stableService": "stable",
        "trafficRouting": {"plugins": {"argoproj-labs/gatewayAPI": {"httpRoute": "shop"}}}});
    merge(&mut canary, &more);
    json!({"canary": canary})
}

fn behind_a_gateway(replicas: i64, more: Value) -> Sim {
    let sim = Sim::new(replicas, gateway(more)).with_service("stable").with_service("canary");
    let mut sim = sim.with_route(http_route());
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""), "{}", sim.waiting);
    sim.reasons();
    sim
}

pub(crate) fn weights(sim: &Sim) -> (i64, i64) {
    let backends = &sim.route("HTTPRoute", "shop")["spec"]["rules"][0]["backendRefs"];
    (backends[1]["weight"].as_i64().unwrap_or(-1), backends[0]["weight"].as_i64().unwrap_or(-1))
}

fn two_steps() -> Value {
    json!({"steps": [{"setWeight": 20}, {"pause": {}}, {"setWeight": 60}, {"pause": {}}]})
}

#[test]
fn a_router_sends_the_share_of_each_step_and_everything_in_the_end() {
    let mut sim = behind_a_gateway(5, two_steps());
    assert_eq!(weights(&sim), (0, 100));
    sim.set_image("b");
    sim.settle();
    assert_eq!(
        (weights(&sim), sim.size("a"), sim.size("b")),
        ((20, 80), 5, 1),
        "the stable version keeps its pods"
    );
    let told = sim.rollout.status.canary.weights.clone().expect("weights");
    assert_eq!((told.canary.weight, told.canary.service_name.as_str()), (20, "canary"));
    assert_eq!(
        (told.canary.pod_template_hash, told.stable.pod_template_hash),
        (sim.hash("b"), sim.hash("a"))
    );
    assert!(sim.reasons().contains(&"TrafficWeightUpdated"));
    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!((weights(&sim), sim.size("b")), ((60, 40), 3));
    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""));
    assert_eq!((weights(&sim), sim.selector("stable")), ((0, 100), sim.hash("b")));
    assert_eq!(sim.size("a"), 5, "it is kept for somebody who goes back at once");
    sim.pass(31);
    sim.settle();
    assert_eq!((sim.size("a"), sim.size("b")), (0, 5));
}

#[test]
fn an_abort_takes_all_requests_back_at_once() {
    let mut sim = behind_a_gateway(4, two_steps());
    sim.set_image("b");
    sim.settle();
    sim.order(&Order::Abort);
    sim.reconcile();
    sim.reconcile();
    assert_eq!((weights(&sim), sim.selector("canary")), ((0, 100), sim.hash("a")));
    sim.settle();
    assert_eq!(sim.phase().0, "Degraded");
    assert_eq!(sim.size("b"), 1, "for somebody who looks why");
    sim.pass(31);
    sim.settle();
    assert_eq!((sim.size("a"), sim.size("b")), (4, 0));
    sim.order(&Order::Retry);
    sim.settle();
    assert_eq!((weights(&sim), sim.selector("canary")), ((20, 80), sim.hash("b")));
}

#[test]
fn a_share_comes_after_the_pods_for_it_and_goes_before_them() {
    let steps = json!({"steps": [{"setWeight": 75}, {"pause": {}}, {"setWeight": 25}, {"pause": {}}]});
    let mut sim = behind_a_gateway(4, steps);
    sim.broken.push("b".into());
    sim.set_image("b");
    sim.settle();
    assert_eq!((weights(&sim), sim.size("b")), ((0, 100), 3), "three pods that do not answer get nothing");
    sim.broken.clear();
    sim.settle();
    assert_eq!(weights(&sim), (75, 25));
    // Capacity is looked at after every write.
    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!((weights(&sim), sim.size("b")), ((25, 75), 1));
}

#[test]
fn a_third_version_gets_nothing_of_the_second_ones_share() {
    let mut sim = behind_a_gateway(4, two_steps());
    sim.set_image("b");
    sim.settle();
    assert_eq!(weights(&sim), (20, 80));
    sim.broken.push("c".into());
    sim.set_image("c");
    sim.settle();
    assert_eq!((weights(&sim), sim.selector("canary")), ((0, 100), sim.hash("b")));
    sim.broken.clear();
    sim.settle();
    assert_eq!((weights(&sim), sim.selector("canary"), sim.size("b")), ((20, 80), sim.hash("c"), 0));
}

#[test]
fn a_broken_stable_version_gives_its_requests_to_a_good_one() {
    let mut sim = behind_a_gateway(4, json!({"steps": [{"setWeight": 50}]}));
    (sim.check_requests, sim.broken) = (false, vec!["a".into()]);
    sim.pods(true);
    sim.set_image("b");
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""), "{}", sim.waiting);
    assert_eq!(sim.selector("stable"), sim.hash("b"));
}

#[test]
fn the_stable_version_shrinks_and_grows_with_its_share() {
    let more = json!({"dynamicStableScale": true, "steps": [{"setWeight": 20}, {"pause": {}}, {"setWeight": 80}, {"pause": {}}]});
    let mut sim = behind_a_gateway(10, more);
    sim.set_image("b");
    sim.settle();
    assert_eq!((weights(&sim), sim.size("a"), sim.size("b")), ((20, 80), 8, 2));
    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!((weights(&sim), sim.size("a"), sim.size("b")), ((80, 20), 2, 8));
    sim.order(&Order::Abort);
    sim.settle();
    assert_eq!((weights(&sim), sim.size("a"), sim.selector("canary")), ((0, 100), 10, sim.hash("a")));
    sim.order(&Order::Retry);
    sim.settle();
    sim.order(&Order::Promote);
    sim.settle();
    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""), "{}", sim.waiting);
    assert_eq!((weights(&sim), sim.size("a"), sim.size("b")), ((0, 100), 0, 10));
}

#[test]
fn whoever_goes_back_to_a_stable_version_that_is_small_waits_for_its_pods() {
    let more = json!({"dynamicStableScale": true, "steps": [{"setWeight": 80}, {"pause": {}}]});
    let mut sim = behind_a_gateway(10, more);
    sim.set_image("b");
    sim.settle();
    assert_eq!((weights(&sim), sim.size("a")), ((80, 20), 2));
    sim.set_image("a");
    for _ in 0..4 {
        sim.reconcile();
    }
    assert_eq!(weights(&sim), (80, 20), "its pods are not there yet: {}", sim.waiting);
    sim.settle();
    assert_eq!((weights(&sim), sim.phase().0), ((0, 100), "Healthy"));
    assert_eq!(sim.selector("canary"), sim.hash("a"));
}

#[test]
fn a_gateway_that_tells_is_waited_for() {
    let mut sim = behind_a_gateway(4, json!({"steps": [{"setWeight": 50}, {"pause": {}}]}));
    let tell = |sim: &mut Sim| {
        let route = sim.routes.objects.values_mut().next().expect("a route");
        let generation = route["metadata"]["generation"].clone();
        route["status"] = json!({"parents": [{"conditions": [{"type": "Accepted", "status": "True", "observedGeneration": generation}]}]});
    };
    tell(&mut sim);
    sim.set_image("b");
    sim.settle();
    let told = sim.rollout.status.canary.weights.clone().expect("weights");
    assert_eq!(
        (told.canary.weight, told.verified, sim.rollout.status.current_step_index),
        (50, Some(false), Some(0))
    );
    assert_eq!(sim.waiting, "the router has not taken the weight 50 yet");
    tell(&mut sim);
    sim.settle();
    assert_eq!((sim.phase().0, sim.rollout.status.current_step_index), ("Paused", Some(1)));
    sim.order(&Order::Promote);
    sim.settle();
    assert_ne!(sim.rollout.status.stable_rs, sim.hash("b"), "not before the gateway sends everything there");
    tell(&mut sim);
    sim.settle();
    tell(&mut sim);
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""));
}

#[test]
fn routes_by_header_stand_from_their_step_to_the_end() {
    let steps = json!({"steps": [{"setCanaryScale": {"replicas": 2}}, {"setHeaderRoute": {"name": "testers", "match": [{"headerName": "x-test", "headerValue": {"exact": "1"}}]}},
        {"pause": {}}, {"setHeaderRoute": {"name": "testers"}}, {"pause": {}}], "trafficRouting": {"managedRoutes": [{"name": "testers"}]}});
    let mut sim = behind_a_gateway(4, steps);
    sim.set_image("b");
    sim.settle();
    assert_eq!((sim.phase().0, sim.size("b"), weights(&sim)), ("Paused", 2, (0, 100)));
    let rules =
        |sim: &Sim| sim.route("HTTPRoute", "shop")["spec"]["rules"].as_array().cloned().unwrap_or_default();
    assert_eq!(rules(&sim).len(), 2);
    assert_eq!(
        rules(&sim)[1]["matches"][0]["headers"][0],
        json!({"name": "x-test", "type": "Exact", "value": "1"})
    );
    // The API server fills in defaults: that is no reason to write again.
    let route = sim.routes.objects.values_mut().next().expect("a route");
    route["spec"]["rules"][1]["matches"][0]["path"] = json!({"type": "PathPrefix", "value": "/"});
    assert_eq!(sim.plan().actions, []);
    // Somebody synchronised the route from Git: it comes back.
    let route = sim.routes.objects.values_mut().next().expect("a route");
    route["spec"]["rules"].as_array_mut().expect("rules").truncate(1);
    sim.settle();
    assert_eq!(rules(&sim).len(), 2);
    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!(rules(&sim).len(), 1, "a step without a match takes it away");
    sim.order(&Order::Abort);
    sim.settle();
    sim.order(&Order::Retry);
    sim.settle();
    assert_eq!(rules(&sim).len(), 2);
    sim.order(&Order::Abort);
    sim.settle();
    assert_eq!(rules(&sim).len(), 1, "an abort takes it away");
}

#[test]
fn ping_and_pong_take_turns_without_a_switch() {
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "shop", "namespace": "shop"},
        "spec": {"rules": [{"http": {"paths": [{"path": "/", "backend": {"service": {"name": "root", "port": {"name": "use-annotation"}}}}]}}]}});
    let strategy = json!({"canary": {"pingPong": {"pingService": "ping", "pongService": "pong"}, "steps": [{"setWeight": 50}, {"pause": {}}],
        "trafficRouting": {"alb": {"ingress": "shop", "servicePort": 80, "rootService": "root"}}}});
    let mut sim = Sim::new(2, strategy).with_service("ping").with_service("pong").with_route(ingress);
    sim.settle();
    assert_eq!(
        (sim.phase(), sim.rollout.status.canary.stable_ping_pong.as_str()),
        (("Healthy", ""), "ping"),
        "{}",
        sim.waiting
    );
    let action = |sim: &Sim| {
        sim.route("Ingress", "shop")["metadata"]["annotations"]["alb.ingress.kubernetes.io/actions.root"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(
        action(&sim).contains("\"ServiceName\":\"ping\",\"ServicePort\":\"80\",\"Weight\":100"),
        "{}",
        action(&sim)
    );
    sim.set_image("b");
    sim.settle();
    assert!(
        action(&sim).contains("\"ServiceName\":\"pong\",\"ServicePort\":\"80\",\"Weight\":50"),
        "{}",
        action(&sim)
    );
    assert_eq!((sim.selector("ping"), sim.selector("pong")), (sim.hash("a"), sim.hash("b")));
    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!((sim.phase().0, sim.rollout.status.canary.stable_ping_pong.as_str()), ("Healthy", "pong"));
    assert_eq!(
        (sim.selector("ping"), sim.selector("pong")),
        (sim.hash("a"), sim.hash("b")),
        "no Service was pointed elsewhere"
    );
    assert!(
        action(&sim).contains("\"ServiceName\":\"pong\",\"ServicePort\":\"80\",\"Weight\":100"),
        "{}",
        action(&sim)
    );
}

#[test]
fn subsets_are_pointed_only_at_versions_that_answer() {
    let service = json!({"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": {"name": "shop", "namespace": "shop"},
        "spec": {"http": [{"route": [{"destination": {"host": "shop", "subset": "stable"}, "weight": 100}, {"destination": {"host": "shop", "subset": "canary"}, "weight": 0}]}]}});
    let rule = json!({"apiVersion": "networking.istio.io/v1", "kind": "DestinationRule", "metadata": {"name": "shop", "namespace": "shop"},
        "spec": {"host": "shop", "subsets": [{"name": "canary", "labels": {"app": "web"}}, {"name": "stable", "labels": {"app": "web"}}]}});
    let strategy = json!({"canary": {"steps": [{"setWeight": 50}, {"pause": {}}],
        "trafficRouting": {"istio": {"virtualService": {"name": "shop"}, "destinationRule": {"name": "shop", "canarySubsetName": "canary", "stableSubsetName": "stable"}}}}});
    let mut sim = Sim::new(4, strategy).with_route(service).with_route(rule);
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""), "{}", sim.waiting);
    sim.set_image("b");
    sim.settle();
    assert_eq!(sim.shares(), [(sim.hash("a"), 50), (sim.hash("b"), 50)]);
    sim.set_image("c");
    sim.settle();
    assert_eq!(sim.shares(), [(sim.hash("a"), 50), (sim.hash("c"), 50)]);
    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!(sim.shares(), [(sim.hash("c"), 100), (sim.hash("c"), 0)]);
    let rule = sim.route("DestinationRule", "shop");
    assert_eq!(rule["metadata"]["annotations"]["argo-rollouts.argoproj.io/managed-by-rollouts"], "web");
    assert_eq!(rule["spec"]["subsets"][0]["labels"]["app"], "web", "what is not ours stays");
}

#[test]
fn a_route_that_does_not_fit_is_said_and_nothing_is_touched() {
    let mut sim = Sim::new(2, gateway(two_steps())).with_service("stable").with_service("canary");
    sim.settle();
    let message = sim.rollout.status.conditions[0].message.clone();
    assert!(
        message.contains("trafficRouting.plugins.argoproj-labs/gatewayAPI: HTTPRoute \"shop\" not found"),
        "{message}"
    );
    assert!(sim.sets.is_empty());
    let mut other = http_route();
    other["spec"]["rules"][0]["backendRefs"][1]["name"] = "else".into();
    let mut sim = sim.with_route(other);
    sim.settle();
    let message = &sim.rollout.status.conditions[0].message;
    assert!(message.contains("no rule with both backendRefs stable and canary"), "{message}");
}

#[test]
fn what_a_router_was_not_told_is_not_claimed() {
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "shop", "namespace": "shop"},
        "spec": {"rules": [{"http": {"paths": [{"path": "/", "backend": {"service": {"name": "stable", "port": {"number": 80}}}}]}}]}});
    let strategy = json!({"canary": {"stableService": "stable", "canaryService": "canary", "steps": [{"setWeight": 20}, {"pause": {}}],
        "trafficRouting": {"nginx": {"stableIngress": "shop"}}}});
    let mut sim = Sim::new(2, strategy).with_service("stable").with_service("canary").with_route(ingress);
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""), "{}", sim.waiting);
    let weight = |sim: &Sim| sim.rollout.status.canary.weights.as_ref().map(|weights| weights.canary.weight);
    assert_eq!(weight(&sim), Some(0));
    // Somebody made the Ingress their own: it is not touched, and what is said stays what it was told.
    let canary = sim.routes.objects.values_mut().find(|one| one["metadata"]["name"] == "web-shop-canary");
    let canary = canary.expect("it is there");
    canary["metadata"]["ownerReferences"] = json!([]);
    sim.set_image("b");
    sim.settle();
    assert_eq!((weight(&sim), sim.phase().0), (Some(0), "Degraded"), "{:?}", sim.rollout.status.conditions);
    assert!(
        sim.waiting.contains("not this Rollout's") || sim.phase().1.contains("not this Rollout's"),
        "{:?}",
        sim.phase()
    );
}

/// Somebody scaled it to nothing: an update goes through, and nobody is sent anywhere without pods.
#[test]
fn an_update_without_pods_does_not_wait_for_a_share() {
    let steps = json!({"steps": [{"setWeight": 20}, {"setWeight": 60}, {"pause": {}}]});
    let mut sim = behind_a_gateway(2, steps);
    sim.rollout.spec.replicas = Some(0);
    sim.rollout.metadata.generation += 1;
    sim.settle();
    sim.set_image("b");
    sim.settle();
    assert_eq!((sim.phase().0, weights(&sim)), ("Paused", (0, 100)), "{}", sim.waiting);
    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!((sim.phase(), weights(&sim)), (("Healthy", ""), (0, 100)), "{}", sim.waiting);
    assert_eq!(sim.rollout.status.stable_rs, sim.hash("b"));
}
