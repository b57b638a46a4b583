//! Blue-green, played on counted pods.

use serde_json::{Value, json};
use slipway_rollout::orders::Order;

use crate::sim::Sim;

fn blue_green(more: Value) -> Sim {
    let mut strategy = json!({"activeService": "active", "previewService": "preview"});
    for (name, value) in more.as_object().expect("fields") {
        strategy[name] = value.clone();
    }
    let mut sim = Sim::new(3, json!({"blueGreen": strategy})).with_service("active").with_service("preview");
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""), "{}", sim.waiting);
    sim.reasons();
    sim
}

#[test]
fn the_preview_waits_for_a_person_and_the_old_version_stays_for_a_while() {
    let mut sim = blue_green(json!({"autoPromotionEnabled": false}));
    let old = sim.hash("a");
    assert_eq!((sim.selector("active"), sim.selector("preview")), (old.clone(), old.clone()));
    sim.set_image("b");
    sim.settle();
    assert_eq!(sim.phase(), ("Paused", "BlueGreenPause"));
    assert_eq!((sim.selector("active"), sim.selector("preview")), (old.clone(), sim.hash("b")));
    assert_eq!((sim.size("a"), sim.size("b")), (3, 3));
    assert_eq!(sim.waiting, "the preview waits for a person: `slipway rollout promote web` makes it active");
    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""));
    assert_eq!(sim.selector("active"), sim.hash("b"));
    assert_eq!((sim.size("a"), sim.size("b")), (3, 3), "whoever was connected is still served");
    let set =
        sim.sets.iter().find(|set| set["metadata"]["labels"]["rollouts-pod-template-hash"] == old.as_str());
    assert_eq!(
        set.expect("it is there")["metadata"]["annotations"]["scale-down-deadline"],
        "2026-01-01T00:00:30Z"
    );
    sim.pass(31);
    sim.settle();
    assert_eq!((sim.size("a"), sim.size("b")), (0, 3));
    assert_eq!(sim.rollout.status.hpa_replicas, 3, "of the active version");
}

#[test]
fn it_is_promoted_when_its_time_has_come() {
    let mut sim = blue_green(json!({"autoPromotionSeconds": 20}));
    sim.set_image("b");
    sim.settle();
    assert_eq!(sim.phase(), ("Paused", "BlueGreenPause"));
    assert_eq!(sim.plan().requeue_at, Some("2026-01-01T00:00:20Z".parse().expect("a time")));
    sim.pass(20);
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""));
}

#[test]
fn a_preview_may_be_smaller() {
    let mut sim = blue_green(json!({"autoPromotionEnabled": false, "previewReplicaCount": 1}));
    sim.set_image("b");
    sim.settle();
    assert_eq!((sim.size("a"), sim.size("b")), (3, 1));
    sim.order(&Order::Promote);
    sim.reconcile();
    assert_ne!(sim.selector("active"), sim.hash("b"), "not before all of its pods are there");
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""));
    assert_eq!(sim.size("b"), 3);
}

#[test]
fn an_abort_leaves_the_active_version_alone_and_the_preview_for_a_while() {
    let mut sim = blue_green(json!({"autoPromotionEnabled": false}));
    let old = sim.hash("a");
    sim.set_image("b");
    sim.settle();
    sim.order(&Order::Abort);
    sim.settle();
    assert_eq!(sim.phase().0, "Degraded");
    assert_eq!(sim.selector("active"), old);
    assert_eq!((sim.size("a"), sim.size("b")), (3, 3));
    sim.pass(31);
    sim.settle();
    assert_eq!((sim.size("a"), sim.size("b")), (3, 0));
}

#[test]
fn going_back_within_the_delay_needs_no_pause() {
    let mut sim = blue_green(json!({"autoPromotionEnabled": false}));
    sim.set_image("b");
    sim.settle();
    sim.order(&Order::Promote);
    sim.settle();
    sim.set_image("a");
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""), "{}", sim.waiting);
    assert_eq!(sim.selector("active"), sim.hash("a"));
}

#[test]
fn the_switch_needs_all_pods_of_the_new_version() {
    let mut sim = blue_green(json!({}));
    let old = sim.hash("a");
    sim.broken = vec!["b".into()];
    sim.set_image("b");
    sim.settle();
    assert_eq!(sim.selector("active"), old);
    assert_eq!(sim.phase(), ("Progressing", "active service cutover pending"));
    sim.broken.clear();
    sim.settle();
    assert_eq!(sim.selector("active"), sim.hash("b"));
}
