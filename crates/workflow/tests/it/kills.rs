//! An engine that dies at every point between two writes: what is made is made once, and the end is the same.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use slipway_workflow::plan::{Action, plan};

use crate::sim::{NODE_NAME, Sim};

/// Fifty tasks in layers, with loops, a lock and a handler of the end.
fn spec() -> String {
    let mut tasks = Vec::new();
    for at in 0..50 {
        let mut task =
            json!({"name": format!("t{at}"), "template": if at % 10 == 3 { "locked" } else { "run" }});
        if at >= 5 {
            task["depends"] = format!("t{} && t{}", at - 5, at - 4).into();
        }
        if at % 7 == 0 {
            task["withSequence"] = json!({"count": 2});
        }
        tasks.push(task);
    }
    json!({"entrypoint": "main", "onExit": "run", "templates": [
        {"name": "main", "dag": {"tasks": tasks}},
        {"name": "run", "container": {"image": "x"}},
        {"name": "locked", "synchronization": {"mutexes": [{"name": "m"}]}, "container": {"image": "x"}}]})
    .to_string()
}

/// Dies after so many of what it does: pods that it makes, then the status that it writes, then pods that it deletes.
fn dying(sim: &mut Sim, after: usize) -> bool {
    let next = plan(&sim.observed, sim.now);
    let mut left = after;
    for action in &next.actions {
        let Action::CreatePod(pod) = action else { continue };
        if left == 0 {
            return true;
        }
        left -= 1;
        // The API server refuses a name that is there.
        if sim.observed.pods.iter().all(|known| known["metadata"]["name"] != pod["metadata"]["name"]) {
            sim.made.push(pod["metadata"]["annotations"][NODE_NAME].as_str().expect("a node").to_owned());
            sim.observed.pods.push((**pod).clone());
        }
    }
    if left == 0 {
        return true;
    }
    sim.observed.workflow.status = next.status;
    false
}

fn end_some(sim: &mut Sim, round: usize) {
    let open = sim.observed.pods.iter().filter(|pod| pod["status"].is_null());
    let nodes: Vec<String> = open
        .filter_map(|pod| pod["metadata"]["annotations"][NODE_NAME].as_str().map(str::to_owned))
        .collect();
    for (at, node) in nodes.iter().enumerate() {
        if !(at + round).is_multiple_of(3) || nodes.len() == 1 {
            sim.end(node, 0);
        }
    }
}

fn ended(sim: &Sim) -> BTreeMap<String, String> {
    let nodes = sim.observed.workflow.status.nodes.values();
    nodes.map(|node| (node.name.clone(), node.phase.clone())).collect()
}

#[test]
fn fifty_tasks_end_the_same_wherever_the_engine_dies() {
    let mut quiet = Sim::new("wf", &spec());
    quiet.finish();
    assert_eq!(quiet.phase().0, "Succeeded");
    let mut sim = Sim::new("wf", &spec());
    let (mut deaths, mut round) = (0, 0);
    while sim.observed.workflow.status.finished_at.is_none() {
        // At every point of this reconcile, and then once to its end.
        for after in 0.. {
            if !dying(&mut sim, after) {
                break;
            }
            deaths += 1;
            let held =
                sim.json()["status"]["synchronization"]["mutex"]["holding"].as_array().map_or(0, Vec::len);
            assert!(held <= 1, "one has the lock");
        }
        let locked = |pod: &&Value| {
            let task = pod["metadata"]["annotations"][NODE_NAME].as_str().unwrap_or_default();
            let task =
                task.strip_prefix("wf.t").and_then(|rest| rest.split('(').next()?.parse::<usize>().ok());
            pod["status"].is_null() && task.is_some_and(|task| task % 10 == 3)
        };
        assert!(sim.observed.pods.iter().filter(locked).count() <= 1, "one runs under the lock");
        end_some(&mut sim, round);
        round += 1;
        assert!(round < 1_000, "it ends");
    }
    assert!(deaths > 50, "it died {deaths} times");
    assert_eq!(ended(&sim), ended(&quiet));
    let mut once = sim.made.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), sim.made.len(), "no pod was made twice");
    assert!(sim.json()["status"]["synchronization"].is_null(), "no lock is left");
}
