//! Which version a template is.

use serde_json::json;
use slipway_rollout::identity::{steps_hash, template_hash};

use crate::sim::{Sim, template};

#[test]
fn steps_have_the_hash_that_lives_in_clusters() {
    for (steps, hash) in [
        (json!([{"pause": {}}, {"pause": {}}]), "79c9b9f6bf"),
        (json!([{"pause": {}}]), "6b9b86fbd5"),
        (json!(null), "5ffbfbbd64"),
    ] {
        assert_eq!(steps_hash(&steps), hash, "{steps}");
    }
}

#[test]
fn a_version_of_another_controller_is_adopted_instead_of_replaced() {
    let mut sim = Sim::new(2, json!({"canary": {}}));
    sim.settle();
    let (hash, before) = (sim.hash("a"), sim.sets.len());
    assert_eq!(hash, template_hash(&template("a"), None));
    // Its hash was computed otherwise, and the API server filled in what it does.
    let set = &mut sim.sets[0];
    for at in ["/metadata/labels", "/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        set.pointer_mut(at).expect("labels")["rollouts-pod-template-hash"] = "6c9d8f7b5d".into();
    }
    set["spec"]["template"]["spec"]["restartPolicy"] = "Always".into();
    set["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Always".into();
    sim.rollout.status.stable_rs = "6c9d8f7b5d".into();
    sim.rollout.status.current_pod_hash = "6c9d8f7b5d".into();
    sim.settle();
    assert_eq!(sim.sets.len(), before, "no pod starts anew");
    assert_eq!(sim.rollout.status.current_pod_hash, "6c9d8f7b5d");
    assert_eq!(sim.phase(), ("Healthy", ""));
}

#[test]
fn a_name_that_is_taken_gets_a_counter() {
    let mut sim = Sim::new(1, json!({"canary": {}}));
    let name = format!("web-{}", template_hash(&template("a"), None));
    sim.sets.push(json!({"metadata": {"name": name, "uid": "x", "labels": {"rollouts-pod-template-hash": "x"},
        "ownerReferences": [{"controller": true, "uid": "another"}]}, "spec": {"replicas": 0, "template": template("z")}}));
    sim.settle();
    assert_eq!(sim.rollout.status.collision_count, Some(1));
    assert_eq!(sim.rollout.status.stable_rs, template_hash(&template("a"), Some(1)));
    assert_eq!(sim.phase(), ("Healthy", ""));
}

/// Templates and steps of our own making, most of them at random, with the hashes that Argo Rollouts 1.10.1 computes of them.
#[test]
fn hashes_are_those_of_upstream() {
    let text = include_str!("../data/hashes.jsonl");
    for (at, line) in text.lines().enumerate() {
        let one: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        let hash = if one["template"].is_object() {
            template_hash(&one["template"], one["collisions"].as_i64())
        } else {
            steps_hash(&one["steps"])
        };
        assert_eq!(one["hash"], hash.as_str(), "line {}", at + 1);
    }
    assert!(text.lines().count() > 200);
}
