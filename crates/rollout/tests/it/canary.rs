//! Canaries without a router, played on counted pods.

use serde_json::json;
use slipway_rollout::orders::Order;

use crate::sim::Sim;

fn canary(steps: serde_json::Value) -> serde_json::Value {
    json!({"canary": {"maxSurge": 1, "maxUnavailable": 0, "steps": steps}})
}

fn paused_at_20() -> Sim {
    let mut sim = Sim::new(
        5,
        canary(json!([{"setWeight": 20}, {"pause": {}}, {"setWeight": 60}, {"pause": {"duration": 10}}])),
    );
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""));
    sim.reasons();
    sim.set_image("b");
    sim.settle();
    sim
}

#[test]
fn the_first_version_is_deployed_without_steps() {
    let mut sim = Sim::new(5, canary(json!([{"setWeight": 20}, {"pause": {}}])));
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""));
    assert_eq!(sim.waiting, "");
    let status = sim.rollout.status.clone();
    assert_eq!((status.replicas, status.available_replicas, status.current_step_index), (5, 5, Some(2)));
    assert_eq!(status.stable_rs, status.current_pod_hash);
    assert_eq!(status.selector, "app=web");
    assert_eq!(status.observed_generation, "1");
    let revision = sim.rollout.metadata.annotations.get("rollout.argoproj.io/revision");
    assert_eq!(revision.map(String::as_str), Some("1"));
    assert_eq!(
        sim.reasons(),
        [
            "RolloutAddedToInformer",
            "RolloutUpdated",
            "NewReplicaSetCreated",
            "RolloutNotCompleted",
            "ScalingReplicaSet",
            "RolloutCompleted"
        ],
        "as users know them"
    );
    let set = &sim.sets[0];
    let name = format!("web-{}", status.current_pod_hash);
    assert_eq!(set["metadata"]["name"], name.as_str());
    assert_eq!(set["metadata"]["ownerReferences"][0]["uid"], "rollout-uid");
    assert_eq!(
        set["spec"]["selector"]["matchLabels"]["rollouts-pod-template-hash"],
        status.current_pod_hash.as_str()
    );
}

#[test]
fn a_canary_pauses_is_promoted_and_becomes_stable() {
    let mut sim = paused_at_20();
    assert_eq!(sim.phase(), ("Paused", "CanaryPauseStep"));
    assert_eq!((sim.size("a"), sim.size("b")), (4, 1));
    assert_eq!(sim.rollout.status.current_step_index, Some(1));
    assert!(sim.rollout.status.controller_pause);
    assert_eq!(
        sim.waiting,
        "step 2 of 4 waits for a person: `slipway rollout promote web` goes on, `slipway rollout abort web` goes back"
    );
    let reasons = sim.reasons();
    assert!(reasons.contains(&"RolloutStepCompleted") && reasons.contains(&"RolloutPaused"), "{reasons:?}");
    let conditions = sim.rollout.status.conditions.iter();
    let paused: Vec<(&str, &str)> =
        conditions.map(|one| (one.r#type.as_str(), one.status.as_str())).collect();
    assert!(paused.contains(&("Paused", "True")) && paused.contains(&("Completed", "False")), "{paused:?}");

    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!((sim.size("a"), sim.size("b")), (2, 3));
    assert_eq!(sim.rollout.status.current_step_index, Some(3));
    let plan = sim.plan();
    assert_eq!(
        plan.requeue_at,
        Some("2026-01-01T00:00:10Z".parse().expect("a time")),
        "the end of the pause"
    );
    sim.pass(10);
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""));
    assert_eq!((sim.size("a"), sim.size("b")), (0, 5));
    assert_eq!(sim.rollout.status.stable_rs, sim.hash("b"));
    assert!(sim.reasons().contains(&"RolloutCompleted"));
}

#[test]
fn a_pause_takes_as_long_as_it_says() {
    for duration in [json!(90), json!("90"), json!("90s"), json!("1m30s")] {
        let mut sim = Sim::new(1, canary(json!([{"setWeight": 50}, {"pause": {"duration": duration}}])));
        sim.settle();
        sim.set_image("b");
        sim.settle();
        assert_eq!(
            sim.plan().requeue_at,
            Some("2026-01-01T00:01:30Z".parse().expect("a time")),
            "{duration}"
        );
        sim.pass(89);
        sim.settle();
        assert_eq!(sim.phase(), ("Paused", "CanaryPauseStep"), "{duration}");
        sim.pass(1);
        sim.settle();
        assert_eq!(sim.phase(), ("Healthy", ""), "{duration}");
    }
}

#[test]
fn an_abort_goes_back_to_stable_and_a_retry_begins_again() {
    let mut sim = paused_at_20();
    sim.order(&Order::Abort);
    sim.settle();
    let (phase, message) = sim.phase();
    assert_eq!((phase, message), ("Degraded", "RolloutAborted: Rollout aborted update to revision 2"));
    assert_eq!((sim.size("a"), sim.size("b")), (5, 0));
    assert_eq!(sim.rollout.status.current_step_index, Some(0));
    assert!(sim.rollout.status.aborted_at.is_some() && sim.rollout.status.pause_conditions.is_empty());
    assert!(sim.waiting.contains("slipway rollout retry web"), "{}", sim.waiting);
    sim.order(&Order::Retry);
    sim.settle();
    assert_eq!(sim.phase(), ("Paused", "CanaryPauseStep"));
    assert_eq!((sim.size("a"), sim.size("b")), (4, 1));
}

#[test]
fn a_full_promotion_skips_what_is_left() {
    let mut sim = paused_at_20();
    sim.order(&Order::PromoteFull);
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""));
    assert_eq!((sim.size("a"), sim.size("b")), (0, 5));
    assert!(!sim.rollout.status.promote_full);
}

#[test]
fn going_back_to_the_stable_template_skips_the_steps() {
    let mut sim = paused_at_20();
    sim.reasons();
    sim.order(&Order::Undo(Some(1)));
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""));
    assert_eq!((sim.size("a"), sim.size("b")), (5, 0));
    assert!(sim.reasons().contains(&"SkipSteps"));
    let set = sim
        .sets
        .iter()
        .find(|set| set["metadata"]["labels"]["rollouts-pod-template-hash"] == sim.hash("a").as_str());
    let annotations = &set.expect("it is there")["metadata"]["annotations"];
    assert_eq!(annotations["rollout.argoproj.io/revision"], "3", "it is the newest now");
    assert_eq!(annotations["rollout.argoproj.io/revision-history"], "1");
}

#[test]
fn a_third_version_replaces_one_that_is_under_way() {
    let mut sim = paused_at_20();
    sim.set_image("c");
    sim.settle();
    assert_eq!(sim.phase(), ("Paused", "CanaryPauseStep"));
    assert_eq!((sim.size("a"), sim.size("b"), sim.size("c")), (4, 0, 1));
    assert_eq!(sim.rollout.status.stable_rs, sim.hash("a"));
}

#[test]
fn a_broken_version_is_late_and_is_aborted_where_that_is_asked_for() {
    let mut sim = Sim::new(5, canary(json!([{"setWeight": 20}, {"pause": {}}])));
    sim.settle();
    sim.broken = vec!["b".into()];
    sim.set_image("b");
    sim.settle();
    assert_eq!(sim.phase(), ("Progressing", "more replicas need to be updated"));
    assert!(sim.waiting.starts_with("0 of 1 pods of revision 2"), "{}", sim.waiting);
    let due = sim.plan().requeue_at.expect("the deadline is looked at");
    assert_eq!(due, "2026-01-01T00:10:01Z".parse().expect("a time"));
    sim.pass(601);
    sim.settle();
    let name = format!("web-{}", sim.hash("b"));
    let late = format!("ProgressDeadlineExceeded: ReplicaSet \"{name}\" has timed out progressing.");
    assert_eq!(sim.phase(), ("Degraded", late.as_str()));
    assert_eq!((sim.size("a"), sim.size("b")), (5, 1), "a person decides");
    sim.change(&json!({"spec": {"progressDeadlineAbort": true}}), true);
    sim.settle();
    assert!(sim.rollout.status.abort);
    assert_eq!((sim.size("a"), sim.size("b")), (5, 0));
}

#[test]
fn a_broken_stable_version_does_not_stop_a_good_one() {
    let mut sim = Sim::new(4, canary(json!([{"setWeight": 25}, {"setWeight": 50}])));
    sim.settle();
    sim.broken = vec!["a".into()];
    sim.pods(true);
    sim.set_image("b");
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""));
    assert_eq!((sim.size("a"), sim.size("b")), (0, 4));
}

#[test]
fn sizes_follow_the_number_of_replicas_also_while_it_is_paused() {
    let mut sim = paused_at_20();
    sim.change(&json!({"spec": {"replicas": 10}}), true);
    sim.settle();
    assert_eq!((sim.size("a"), sim.size("b")), (8, 2));
    assert_eq!(sim.phase(), ("Paused", "CanaryPauseStep"));
    // Somebody promotes it and scales it at the same moment: neither is lost.
    sim.order(&Order::Promote);
    sim.change(&json!({"spec": {"replicas": 5}}), true);
    sim.settle();
    assert_eq!(sim.rollout.status.current_step_index, Some(3), "{:?}", sim.phase());
    assert_eq!((sim.size("a"), sim.size("b")), (2, 3));
}

#[test]
fn versions_that_nobody_needs_are_kept_up_to_the_limit() {
    let mut sim = Sim::new(1, json!({"canary": {}}));
    sim.change(&json!({"spec": {"revisionHistoryLimit": 2}}), true);
    for image in ["a", "b", "c", "d", "e"] {
        sim.set_image(image);
        sim.settle();
    }
    let images: Vec<bool> = ["a", "b", "c", "d", "e"]
        .iter()
        .map(|image| {
            sim.sets.iter().any(|set| set["spec"]["template"]["spec"]["containers"][0]["image"] == *image)
        })
        .collect();
    assert_eq!(images, [false, false, true, true, true]);
}

#[test]
fn a_paused_rollout_holds_its_sizes_until_somebody_goes_on() {
    let mut sim = Sim::new(5, canary(json!([{"setWeight": 20}])));
    sim.settle();
    sim.change(&json!({"spec": {"paused": true}}), true);
    sim.set_image("b");
    sim.settle();
    assert_eq!(sim.phase(), ("Paused", "manually paused"));
    assert_eq!((sim.size("a"), sim.size("b")), (5, 0));
    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""));
}

#[test]
fn what_cannot_be_carried_out_is_refused_by_name() {
    let mut sim = Sim::new(
        1,
        json!({"canary": {"canaryService": "web-canary", "stableService": "web-stable",
        "trafficRouting": {"plugins": {"example/router": {}}}, "steps": [{"setWeight": 10}, {"plugin": {"name": "example/step"}}]}}),
    )
    .with_service("web-stable");
    sim.reconcile();
    let (phase, message) = sim.phase();
    assert_eq!(phase, "Degraded");
    assert!(message.starts_with("InvalidSpec: The Rollout \"web\" is invalid: "), "{message}");
    assert!(message.contains("service \"web-canary\" not found"), "{message}");
    assert!(message.contains("trafficRouting.plugins.example/router: not supported"), "{message}");
    assert!(message.contains("steps[1].plugin: not supported"), "{message}");
    assert!(sim.sets.is_empty());
    assert!(sim.plan().requeue_at.is_some(), "it may be a matter of order");
}

#[test]
fn a_window_makes_the_way_back_short() {
    let mut sim = Sim::new(2, canary(json!([{"setWeight": 50}, {"pause": {}}])));
    sim.change(&json!({"spec": {"rollbackWindow": {"revisions": 1}}}), true);
    sim.settle();
    sim.set_image("b");
    sim.settle();
    sim.order(&Order::PromoteFull);
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""));
    sim.set_image("a");
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""), "no pause");
    assert_eq!(sim.rollout.status.stable_rs, sim.hash("a"));
}

#[test]
fn services_follow_versions_that_can_answer() {
    let strategy = json!({"canary": {"canaryService": "canary", "stableService": "stable", "maxSurge": 1, "maxUnavailable": 0,
        "steps": [{"setWeight": 50}, {"pause": {}}]}});
    let mut sim = Sim::new(2, strategy).with_service("canary").with_service("stable");
    sim.settle();
    let first = sim.hash("a");
    assert_eq!((sim.selector("canary"), sim.selector("stable")), (first.clone(), first.clone()));
    assert_eq!(
        sim.services["stable"]["metadata"]["annotations"]["argo-rollouts.argoproj.io/managed-by-rollouts"],
        "web"
    );
    sim.broken = vec!["b".into()];
    sim.set_image("b");
    sim.settle();
    assert_eq!(sim.selector("canary"), first, "no pod of the new version is available");
    sim.broken.clear();
    sim.settle();
    assert_eq!((sim.selector("canary"), sim.selector("stable")), (sim.hash("b"), first.clone()));
    sim.order(&Order::Abort);
    sim.settle();
    assert_eq!(sim.selector("canary"), first);
}

/// Paused on a bad day and then aborted: what is said about the stable version is true of its pods.
#[test]
fn an_abort_takes_effect_although_somebody_paused_it() {
    let mut sim = Sim::new(4, json!({"canary": {"steps": [{"setWeight": 50}, {"pause": {}}]}}));
    sim.settle();
    sim.set_image("b");
    sim.settle();
    assert_eq!((sim.size("a"), sim.size("b")), (2, 2));
    sim.order(&Order::Pause);
    sim.settle();
    sim.order(&Order::Abort);
    sim.settle();
    assert_eq!((sim.size("a"), sim.size("b"), sim.phase().0), (4, 0, "Degraded"), "{}", sim.waiting);
    assert!(sim.waiting.contains("the stable version serves"), "{}", sim.waiting);
}
