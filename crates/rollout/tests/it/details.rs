//! What a Rollout asks for besides steps: workloads, restarts, limits, metadata by role, thresholds, durations.

use serde_json::{Value, json};
use slipway_rollout::names::HASH;
use slipway_rollout::orders::Order;

use crate::routed::gateway;
use crate::sim::{Sim, template};

fn canary(more: Value) -> Value {
    let mut canary = json!({"maxSurge": 1, "maxUnavailable": 0, "steps": [{"setWeight": 50}, {"pause": {}}]});
    crate::sim::merge(&mut canary, &more);
    json!({"canary": canary})
}

fn healthy(mut sim: Sim) -> Sim {
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""), "{}", sim.waiting);
    sim
}

fn of_workload(scale_down: &str) -> Sim {
    let mut sim = Sim::new(3, json!({"canary": {}}));
    let reference =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "scaleDown": scale_down});
    sim.change(&json!({"spec": {"workloadRef": reference, "template": null, "selector": null}}), true);
    sim.workload = Some(
        json!({"metadata": {"name": "web", "generation": 4}, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("a")}}),
    );
    sim
}

#[test]
fn a_deployment_is_taken_over_and_scaled_down_as_asked() {
    for (how, left) in [("never", 3), ("onsuccess", 0), ("progressively", 0)] {
        let sim = healthy(of_workload(how));
        let size = sim.workload.as_ref().and_then(|workload| workload["spec"]["replicas"].as_i64());
        assert_eq!((size, sim.size("a")), (Some(left), 3), "{how}");
        assert_eq!(sim.rollout.status.workload_observed_generation, "4");
        assert_eq!(
            sim.rollout
                .metadata
                .annotations
                .get("rollout.argoproj.io/workload-generation")
                .map(String::as_str),
            Some("4")
        );
    }
    let mut sim = of_workload("progressively");
    sim.reconcile();
    sim.pods(false);
    sim.reconcile();
    let size = |sim: &Sim| sim.workload.as_ref().and_then(|workload| workload["spec"]["replicas"].as_i64());
    assert_eq!(size(&sim), Some(3), "not before a pod of the Rollout is ready");
    let mut sim = of_workload("never");
    sim.workload = None;
    sim.settle();
    assert!(
        sim.phase().1.contains("spec.workloadRef.name: Deployment \"web\" not found"),
        "{}",
        sim.phase().1
    );
}

#[test]
fn a_change_of_the_workload_is_an_update() {
    let mut sim = healthy(of_workload("never"));
    let workload = sim.workload.as_mut().expect("a Deployment");
    workload["spec"]["template"] = template("b");
    workload["metadata"]["generation"] = 5.into();
    sim.settle();
    assert_eq!((sim.size("b"), sim.rollout.status.workload_observed_generation.as_str()), (3, "5"));
}

fn pod(sim: &Sim, name: &str, created: &str) -> Value {
    json!({"metadata": {"name": name, "creationTimestamp": created, "ownerReferences": [{"controller": true, "uid": sim.sets[0]["metadata"]["uid"]}]},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": created}]}})
}

#[test]
fn pods_are_restarted_a_few_at_a_time() {
    let mut sim = healthy(Sim::new(3, json!({"canary": {"maxUnavailable": 1}})));
    sim.pods = (0..3).map(|number| pod(&sim, &format!("old-{number}"), "2025-12-31T00:00:00Z")).collect();
    sim.order(&Order::Restart);
    let plan = sim.plan();
    assert_eq!(sim.waiting, "");
    assert!(plan.waiting.contains("restarted"), "{}", plan.waiting);
    sim.reconcile();
    assert_eq!((sim.evicted, sim.pods.len()), (1, 2), "one may be missing");
    sim.reconcile();
    assert_eq!(sim.evicted, 1, "the next one leaves when this one is back");
    for number in 0..2 {
        let new = pod(&sim, &format!("new-{number}"), "2026-01-01T00:00:05Z");
        sim.pods.push(new);
        sim.reconcile();
    }
    assert_eq!(sim.evicted, 3);
    assert_eq!(sim.rollout.status.restarted_at, sim.rollout.spec.restart_at);
    sim.reconcile();
    assert_eq!(sim.evicted, 3, "once is enough");
}

#[test]
fn old_versions_are_forgotten_beyond_their_limit() {
    let mut sim = Sim::new(1, json!({"canary": {}}));
    sim.change(&json!({"spec": {"revisionHistoryLimit": 2}}), true);
    for image in ["a", "b", "c", "d", "e"] {
        sim.set_image(image);
        sim = healthy(sim);
    }
    let mut images: Vec<&str> = sim
        .sets
        .iter()
        .filter_map(|set| set["spec"]["template"]["spec"]["containers"][0]["image"].as_str())
        .collect();
    images.sort_unstable();
    assert_eq!(images, ["c", "d", "e"], "two besides the one that runs");
}

#[test]
fn min_ready_seconds_follow_the_rollout_without_a_new_version() {
    let mut sim = healthy(Sim::new(1, json!({"canary": {}})));
    sim.change(&json!({"spec": {"minReadySeconds": 7}}), true);
    let sim = healthy(sim);
    assert_eq!((sim.sets.len(), &sim.sets[0]["spec"]["minReadySeconds"]), (1, &json!(7)));
}

#[test]
fn versions_keep_apart_from_each_other() {
    let apart = json!({"antiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}});
    let mut sim = healthy(Sim::new(1, canary(apart)));
    assert!(
        sim.sets[0]["spec"]["template"]["spec"]["affinity"].is_null(),
        "there is nobody to keep apart from"
    );
    sim.set_image("b");
    sim.settle();
    let term = &sim.sets[1]["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        [0];
    let expression = &term["labelSelector"]["matchExpressions"][0];
    assert_eq!(
        (&expression["key"], &expression["operator"], &expression["values"][0]),
        (&json!(HASH), &json!("In"), &json!(sim.hash("a")))
    );
    assert_eq!(term["topologyKey"], "kubernetes.io/hostname");
    sim.order(&Order::Promote);
    let sim = healthy(sim);
    assert_eq!(sim.rollout.status.stable_rs, sim.hash("b"));
}

#[test]
fn pods_are_labelled_by_the_role_of_their_version() {
    let roles = json!({"canaryMetadata": {"labels": {"role": "canary"}}, "stableMetadata": {"labels": {"role": "stable"}, "annotations": {"note": "x"}}});
    let mut sim = healthy(Sim::new(2, canary(roles)));
    let role = |sim: &Sim, image: &str| {
        let set = sim
            .sets
            .iter()
            .find(|set| set["spec"]["template"]["spec"]["containers"][0]["image"] == image)
            .expect("a version");
        set["spec"]["template"]["metadata"]["labels"]["role"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(role(&sim, "a"), "stable");
    sim.set_image("b");
    sim.settle();
    assert_eq!((role(&sim, "a"), role(&sim, "b")), ("stable".into(), "canary".into()));
    let live = json!({"metadata": {"name": "p", "labels": {"app": "web", "role": "canary"}, "ownerReferences": [{"controller": true, "uid": sim.sets[1]["metadata"]["uid"]}]}});
    sim.pods.push(live);
    sim.order(&Order::Promote);
    let sim = healthy(sim);
    assert_eq!(role(&sim, "b"), "stable");
    assert_eq!(
        sim.pods[0]["metadata"]["labels"]["role"], "stable",
        "pods that run are relabelled, not replaced"
    );
    assert_eq!(sim.sets.len(), 2, "a label of a role makes no version");
}

#[test]
fn a_part_of_the_pods_is_enough_to_go_on_where_somebody_says_so() {
    let more = |threshold: Value| json!({"steps": [{"setWeight": 50}, {"pause": {}}], "replicaProgressThreshold": threshold});
    for (threshold, goes_on) in [
        (json!({"type": "Percent", "value": 50}), true),
        (json!({"type": "Pods", "value": 2}), true),
        (json!({"type": "Percent", "value": 100}), false),
    ] {
        let sim = Sim::new(8, gateway(more(threshold.clone()))).with_service("stable").with_service("canary");
        let route = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "shop", "namespace": "shop"},
            "spec": {"rules": [{"backendRefs": [{"name": "stable", "port": 80}, {"name": "canary", "port": 80, "weight": 0}]}]}});
        let mut sim = healthy(sim.with_route(route));
        sim.check_capacity = false;
        sim.set_image("b");
        sim.reconcile();
        let new = sim.sets.last_mut().expect("a version");
        new["status"] =
            json!({"replicas": 4, "readyReplicas": 2, "availableReplicas": 2, "observedGeneration": 1});
        sim.reconcile();
        assert_eq!(sim.rollout.status.current_step_index, Some(i64::from(goes_on)), "{threshold}");
    }
}

#[test]
fn of_versions_that_wait_to_leave_only_the_newest_are_kept() {
    let strategy = json!({"blueGreen": {"activeService": "active", "scaleDownDelaySeconds": 600, "scaleDownDelayRevisionLimit": 1}});
    let mut sim = healthy(Sim::new(2, strategy).with_service("active"));
    for image in ["b", "c"] {
        sim.set_image(image);
        sim = healthy(sim);
    }
    assert_eq!((sim.size("a"), sim.size("b"), sim.size("c")), (0, 2, 2));
    sim.pass(601);
    let sim = healthy(sim);
    assert_eq!((sim.size("b"), sim.size("c")), (0, 2));
}

#[test]
fn the_time_an_update_takes_is_noted_without_the_time_of_people() {
    let mut sim = healthy(Sim::new(1, canary(json!({}))));
    let duration = |sim: &Sim| sim.rollout.status.duration.clone().expect("a duration");
    assert_eq!(
        (duration(&sim).completion_status.as_str(), duration(&sim).finished_at.is_some()),
        ("Promoted", true)
    );
    sim.set_image("b");
    sim.pass(10);
    sim.settle();
    assert_eq!(duration(&sim).rollout_started_at.as_deref(), Some("2026-01-01T00:00:10Z"));
    assert_eq!(duration(&sim).manual_pause_started_at.as_deref(), Some("2026-01-01T00:00:10Z"));
    sim.pass(100);
    sim.order(&Order::Promote);
    let mut sim = healthy(sim);
    let done = duration(&sim);
    assert_eq!(
        (
            done.completion_status.as_str(),
            done.total_manual_pause_duration_seconds,
            done.manual_pause_started_at
        ),
        ("Promoted", Some(100), None)
    );

    sim.set_image("c");
    sim.settle();
    sim.order(&Order::Abort);
    sim.settle();
    assert_eq!(duration(&sim).completion_status, "Aborted");
    sim.order(&Order::Retry);
    sim.settle();
    assert_eq!(
        (duration(&sim).completion_status.as_str(), duration(&sim).finished_at),
        ("", None),
        "it begins anew"
    );
    sim.order(&Order::PromoteFull);
    let mut sim = healthy(sim);
    assert_eq!(duration(&sim).completion_status, "FastPromoted");
    sim.set_image("d");
    sim.settle();
    sim.set_image("e");
    sim.settle();
    assert_eq!(duration(&sim).finished_at, None, "d was superseded, e is under way");
    sim.set_image("c");
    let sim = healthy(sim);
    assert_eq!(duration(&sim).completion_status, "FastRolledBack");
}
