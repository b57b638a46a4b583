//! Mutexes, semaphores and caches: what workflows have for themselves, and what they leave for others.

use serde_json::json;
use slipway_workflow::plan::locks::Locks;

use crate::sim::Sim;

/// Many workflows, planned one at a time, as the engine does it; each sees what the others wrote.
struct Many(Vec<Sim>);

impl Many {
    fn new(names: &[&str], spec: &str) -> Self {
        Self(names.iter().map(|name| Sim::new(name, spec)).collect())
    }

    fn step(&mut self, at: usize) {
        let mut locks = Locks::default();
        let others = self.0.iter().enumerate().filter(|(other, _)| *other != at);
        others.for_each(|(_, other)| locks.add(&other.json()));
        self.0[at].observed.locks = Some(locks);
        self.0[at].step();
    }

    fn round(&mut self) {
        (0..self.0.len()).for_each(|at| self.step(at));
    }

    fn running(&self) -> Vec<&str> {
        let busy = |sim: &&Sim| sim.observed.pods.iter().any(|pod| pod["status"]["phase"].is_null());
        self.0.iter().filter(busy).map(|sim| sim.observed.workflow.metadata.name.as_str()).collect()
    }
}

const WHOLE: &str = "entrypoint: main\nsynchronization: {mutexes: [{name: m}]}\ntemplates: [{name: main, container: {image: x}}]\n";

#[test]
fn a_mutex_is_written_down_before_anything_begins_and_given_back_at_the_end() {
    let mut many = Many::new(&["a", "b"], WHOLE);
    many.step(0);
    assert!(many.0[0].made.is_empty(), "it is written down first: {:?}", many.0[0].made);
    assert_eq!(
        many.0[0].json()["status"]["synchronization"],
        json!({"mutex": {"holding": [{"mutex": "n/Mutex/m", "holder": "n/a"}]}})
    );
    many.step(1);
    assert_eq!(many.0[1].phase(), ("Pending", "Waiting for n/Mutex/m lock. Lock status: 0/1"));
    many.round();
    assert_eq!(many.running(), ["a"]);
    many.0[0].end("a", 0);
    many.step(0);
    assert_eq!(many.0[0].phase().0, "Succeeded");
    assert!(many.0[0].json()["status"]["synchronization"].is_null());
    many.round();
    many.round();
    assert_eq!(many.running(), ["b"]);
}

#[test]
fn a_lock_is_not_given_back_while_a_pod_under_it_runs() {
    let mut many = Many::new(&["a", "b"], WHOLE);
    many.round();
    many.round();
    many.0[0].run("a");
    many.0[0].observed.workflow.spec.shutdown = "Terminate".into();
    // The pod takes its time to end: it is there until the kubelet says so.
    let pod = many.0[0].observed.pods[0].clone();
    many.step(0);
    many.0[0].observed.pods.push(pod);
    assert_eq!(many.0[0].phase().0, "Failed");
    assert!(many.0[0].json()["status"]["synchronization"].is_object(), "its pod still runs");
    many.step(1);
    assert!(many.0[1].made.is_empty());
    many.0[0].observed.pods.clear();
    many.round();
    many.round();
    assert_eq!(many.0[1].made, ["b"]);
}

#[test]
fn those_with_a_higher_priority_go_first_and_a_semaphore_has_its_places() {
    let spec = "entrypoint: main\nsynchronization: {semaphores: [{configMapKeyRef: {name: limits, key: places}}]}\ntemplates: [{name: main, container: {image: x}}]\n";
    let mut many = Many::new(&["a", "b", "c", "d"], spec);
    many.0[3].observed.workflow.spec.priority = Some(5);
    for sim in &mut many.0 {
        sim.observed.config_maps.insert("limits".into(), json!({"data": {"places": "2"}}));
    }
    many.round();
    many.round();
    assert_eq!(many.running(), ["a", "b"]);
    many.0[0].end("a", 0);
    many.step(0);
    // The one with the lower priority is asked first, and waits.
    many.step(2);
    assert_eq!(many.0[2].phase().0, "Pending");
    many.step(3);
    many.step(3);
    assert_eq!(many.running(), ["b", "d"]);
    for _ in 0..4 {
        for sim in &mut many.0 {
            let name = sim.observed.workflow.metadata.name.clone();
            if !sim.made.is_empty() {
                sim.end(&name, 0);
            }
        }
        many.round();
        assert!(many.running().len() <= 2, "{:?}", many.running());
    }
    assert!(many.0.iter().all(|sim| sim.phase().0 == "Succeeded"), "nobody waits for ever");
    let mut lost = Sim::new("x", spec);
    lost.step();
    assert_eq!(
        lost.phase(),
        ("Error", "ConfigMap `limits` does not say below `places` how many places the semaphore has")
    );
}

#[test]
fn nodes_have_locks_of_their_own_over_all_of_their_attempts() {
    let spec = r#"
entrypoint: main
templates:
- name: main
  steps: [[{name: a, template: run, withItems: [one, two, three]}]]
- name: run
  synchronization: {mutexes: [{name: "{{workflow.name}}"}]}
  retryStrategy: {limit: 1}
  container: {image: x}
"#;
    let mut sim = Sim::new("wf", spec);
    sim.step();
    sim.step();
    assert_eq!(sim.made, ["wf[0].a(0:one)(0)"]);
    assert_eq!(sim.node("wf[0].a(1:two)").phase, "Pending");
    assert_eq!(sim.node("wf[0].a(1:two)").synchronization_status, Some(json!({"waiting": "n/Mutex/wf"})));
    sim.end("wf[0].a(0:one)(0)", 1);
    sim.step();
    sim.step();
    assert_eq!(
        sim.made,
        ["wf[0].a(0:one)(0)", "wf[0].a(0:one)(1)"],
        "the second attempt has what the first one had"
    );
    sim.finish();
    assert_eq!(sim.phase().0, "Succeeded");
    assert_eq!(sim.made.len(), 4);
    assert!(sim.json()["status"]["synchronization"].is_null(), "nothing is left");
}

#[test]
fn a_graph_that_waits_goes_on_and_one_that_is_stopped_does_not() {
    let spec = r#"
entrypoint: main
templates:
- name: main
  synchronization: {mutexes: [{name: m}]}
  steps: [[{name: a, template: run}]]
- {name: run, container: {image: x}}
"#;
    let mut many = Many::new(&["a", "b", "c"], spec);
    for _ in 0..3 {
        many.round();
    }
    assert_eq!(many.running(), ["a"]);
    assert_eq!(many.0[1].node("b").phase, "Pending");
    many.0[1].observed.workflow.spec.shutdown = "Stop".into();
    many.step(1);
    assert_eq!(many.0[1].phase(), ("Failed", "Stopped with strategy 'Stop'"));
    many.0[0].finish();
    for _ in 0..3 {
        many.round();
    }
    assert_eq!(many.running(), ["c"]);
}

#[test]
fn what_nobody_looks_after_is_refused_by_name() {
    let mut sim = Sim::new("wf", WHOLE);
    sim.observed.locks = None;
    sim.step();
    assert!(sim.phase().1.contains("several engines share their work"), "{:?}", sim.phase());
    for (lock, why) in [
        ("{mutexes: [{name: m, namespace: other}]}", "a mutex of another namespace"),
        ("{mutexes: [{name: m, database: true}]}", "a mutex of a database"),
        ("{semaphores: [{database: {key: k}}]}", "a semaphore of a database"),
    ] {
        let mut sim = Sim::new("wf", &WHOLE.replace("{mutexes: [{name: m}]}", lock));
        sim.step();
        let wanted = format!("spec.synchronization: {why} is not supported yet");
        assert_eq!(sim.phase(), ("Error", wanted.as_str()));
    }
}

const CACHED: &str = r#"
entrypoint: main
arguments: {parameters: [{name: key, value: a-1}]}
templates:
- name: main
  steps: [[{name: make, template: make}], [{name: use, template: use, arguments: {parameters: [{name: v, value: "{{steps.make.outputs.parameters.v}}"}]}}]]
- name: make
  memoize: {key: "{{workflow.parameters.key}}", maxAge: 1h, cache: {configMap: {name: cache}}}
  container: {image: x, command: [y]}
  outputs: {parameters: [{name: v, valueFrom: {path: /v}}]}
- {name: use, inputs: {parameters: [{name: v}]}, container: {image: x, args: ["{{inputs.parameters.v}}"]}}
"#;

#[test]
fn what_a_node_left_before_is_taken_again() {
    let mut sim = Sim::new("wf", CACHED);
    sim.step();
    sim.pod("wf[0].make")["status"] = json!({"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": {"terminated":
        {"exitCode": 0, "message": json!({"outputs": {"parameters": [{"name": "v", "value": "made"}]}}).to_string()}}}]});
    sim.finish();
    assert_eq!(
        sim.node("wf[0].make").memoization_status,
        Some(json!({"hit": false, "key": "a-1", "cacheName": "cache"}))
    );
    let cache = sim.observed.config_maps["cache"].clone();
    let again = |seconds: i64| {
        let mut again = Sim::new("again", CACHED);
        again.observed.config_maps.insert("cache".into(), cache.clone());
        again.after(seconds);
        again
    };
    let mut hit = again(60);
    assert_eq!(hit.made, ["again[1].use"], "no pod is made for what is known");
    assert_eq!(hit.pod("again[1].use")["spec"]["containers"][0]["args"], json!(["made"]));
    assert_eq!(
        hit.node("again[0].make").memoization_status.as_ref().map(|status| status["hit"].clone()),
        Some(json!(true))
    );
    assert_eq!(again(7200).made, ["again[0].make"], "too old");
    let mut bad = Sim::new("wf", &CACHED.replace("value: a-1", "value: '../x'"));
    bad.step();
    assert!(
        bad.node("wf[0].make").message.starts_with("memoize.key is `../x`"),
        "{:?}",
        bad.node("wf[0].make")
    );
    let mut theirs = Sim::new("wf", CACHED);
    theirs.observed.config_maps.insert("cache".into(), json!({"data": {"a-1": "{}"}}));
    theirs.step();
    let message = &theirs.node("wf[0].make").message;
    assert_eq!(message, "ConfigMap `cache` has no label workflows.argoproj.io/configmap-type: Cache");
}
