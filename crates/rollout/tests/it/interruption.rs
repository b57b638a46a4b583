//! The engine dies between any two writes, at any moment of an update: what must hold holds, and the end is the same.

use serde_json::{Value, json};
use slipway_rollout::orders::Order;

use crate::sim::Sim;

fn story(strategy: &Value, kill_every: Option<usize>) -> Sim {
    let mut sim = Sim::new(4, strategy.clone()).with_service("one").with_service("two");
    if strategy["canary"]["trafficRouting"].is_object() {
        let backend = |name: &str| json!({"name": name, "port": 80, "weight": 1});
        sim = sim.with_route(json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "shop", "namespace": "shop"},
            "spec": {"rules": [{"backendRefs": [backend("two"), backend("one")]}]}}));
    }
    sim.writes_left = kill_every;
    let live = |sim: &mut Sim| {
        for _ in 0..400 {
            let before = (
                serde_json::to_value(&sim.rollout).expect("writable"),
                sim.sets.clone(),
                sim.services.clone(),
            );
            sim.reconcile();
            // Another engine takes over where this one died.
            let died = sim.writes_left == Some(0);
            sim.writes_left = kill_every;
            sim.check();
            sim.pods(false);
            sim.pods(true);
            let after = (
                serde_json::to_value(&sim.rollout).expect("writable"),
                sim.sets.clone(),
                sim.services.clone(),
            );
            if before == after && !died {
                return;
            }
            let floor = 3;
            assert!(
                sim.available() >= floor || sim.rollout.status.stable_rs.is_empty(),
                "{} pods are available",
                sim.available()
            );
        }
        panic!("it does not come to rest");
    };
    live(&mut sim);
    sim.set_image("b");
    live(&mut sim);
    if sim.rollout.status.phase == "Paused" {
        sim.order(&Order::Promote);
        live(&mut sim);
    }
    sim.pass(60);
    live(&mut sim);
    sim.set_image("c");
    live(&mut sim);
    if sim.rollout.status.stable_rs != sim.rollout.status.current_pod_hash {
        sim.order(&Order::Abort);
        live(&mut sim);
        sim.pass(60);
        live(&mut sim);
    }
    sim
}

#[test]
fn a_death_between_any_two_writes_changes_nothing_about_the_end() {
    let strategies = [
        json!({"canary": {"maxSurge": 1, "maxUnavailable": 1, "steps": [{"setWeight": 25}, {"pause": {}}, {"setWeight": 75}]}}),
        json!({"canary": {"canaryService": "one", "stableService": "two", "maxSurge": 1, "maxUnavailable": 1, "steps": [{"setWeight": 50}, {"pause": {}}]}}),
        json!({"canary": {"canaryService": "one", "stableService": "two", "steps": [{"setWeight": 25}, {"pause": {}}, {"setWeight": 75}],
            "trafficRouting": {"plugins": {"argoproj-labs/gatewayAPI": {"httpRoute": "shop"}}}}}),
        json!({"canary": {"canaryService": "one", "stableService": "two", "dynamicStableScale": true, "steps": [{"setWeight": 50}, {"pause": {}}],
            "trafficRouting": {"plugins": {"argoproj-labs/gatewayAPI": {"httpRoute": "shop"}}}}}),
        json!({"blueGreen": {"activeService": "one", "previewService": "two", "autoPromotionEnabled": false}}),
    ];
    for strategy in &strategies {
        let whole = story(strategy, None);
        let end = |sim: &Sim| {
            let sizes: Vec<i64> = ["a", "b", "c"].iter().map(|image| sim.size(image)).collect();
            (
                sim.phase().0.to_owned(),
                sizes,
                sim.selector("one"),
                sim.selector("two"),
                sim.rollout.status.stable_rs.clone(),
                sim.shares(),
            )
        };
        for kill_every in 1..12 {
            let killed = story(strategy, Some(kill_every));
            assert_eq!(end(&killed), end(&whole), "killed after every {kill_every} writes: {strategy}");
        }
    }
}
