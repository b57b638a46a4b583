//! Workflows that are retried, submitted once more, or told how a pause ends.

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_crd::workflow::Workflow;
use slipway_workflow::orders::{Said, Selector, retry, set, submitted_again};

use crate::sim::Sim;

const SPEC: &str = r#"
entrypoint: main
onExit: bye
templates:
- name: main
  dag:
    tasks:
    - {name: a, template: run}
    - {name: b, template: again, depends: a}
    - {name: c, template: run, depends: b}
    - {name: d, template: run, depends: a}
    - {name: sorry, template: run, depends: b.Failed}
- {name: run, container: {image: x}}
- {name: again, retryStrategy: {limit: 1}, container: {image: x}}
- {name: bye, container: {image: x}}
"#;

/// A JSON merge patch, as the API server applies it.
fn merged(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            target.as_object_mut().expect("an object").remove(name);
        } else {
            merged(&mut target[name], value);
        }
    }
}

fn failed() -> Sim {
    let mut sim = Sim::new("wf", SPEC);
    sim.step();
    sim.end("wf.a", 0);
    sim.step();
    for attempt in ["wf.b(0)", "wf.b(1)"] {
        sim.end(attempt, 1);
        sim.step();
    }
    sim.finish();
    assert_eq!(sim.phase().0, "Failed");
    sim
}

#[test]
fn what_failed_is_done_again_and_what_went_well_is_not() {
    let mut sim = failed();
    sim.made.clear();
    let again = retry(&sim.observed.workflow, &[], sim.now).expect("it failed");
    let mut object = sim.json();
    merged(&mut object, &again.patch);
    sim.observed.workflow = serde_json::from_value(object).expect("a Workflow");
    sim.observed.pods.retain(|pod| !again.pods.iter().any(|gone| pod["metadata"]["name"] == gone.as_str()));
    assert_eq!(sim.observed.workflow.metadata.labels["workflows.argoproj.io/completed"], "false");
    sim.finish();
    assert_eq!(sim.phase().0, "Succeeded", "{:#?}", sim.observed.workflow.status);
    assert_eq!(sim.made, ["wf.b(0)", "wf.c", "wf.onExit"]);
    assert_eq!(sim.node("wf.sorry").phase, "Omitted");
    assert_eq!(sim.node("wf.b").children.len(), 1);
    let error = retry(&sim.observed.workflow, &[], sim.now).expect_err("it went well");
    assert!(error.contains("is Succeeded: only one that Failed"), "{error}");
}

#[test]
fn a_retry_may_have_other_values() {
    let mut sim = Sim::new(
        "wf",
        "entrypoint: main\narguments: {parameters: [{name: x, value: bad}, {name: other, value: z}]}\ntemplates: [{name: main, container: {image: x, args: [\"{{workflow.parameters.x}}\"]}}]\n",
    );
    sim.step();
    sim.end("wf", 1);
    sim.step();
    let again = retry(&sim.observed.workflow, &[("x".into(), "good".into())], sim.now).expect("it failed");
    assert_eq!(again.pods, ["wf"]);
    let mut object = sim.json();
    merged(&mut object, &again.patch);
    sim.observed.workflow = serde_json::from_value(object).expect("a Workflow");
    sim.observed.pods.clear();
    sim.step();
    assert_eq!(sim.pod("wf")["spec"]["containers"][0]["args"], json!(["good"]));
}

#[test]
fn a_workflow_is_submitted_once_more() {
    let mut workflow: Workflow = failed().observed.workflow;
    workflow.metadata.labels.insert("team".into(), "blue".into());
    workflow.metadata.labels.insert("workflows.argoproj.io/completed".into(), "true".into());
    workflow.spec.shutdown = "Stop".into();
    let object = submitted_again(&workflow, &[("x".into(), "1".into())]);
    assert_eq!(
        object["metadata"],
        json!({"generateName": "wf-", "namespace": "n", "labels": {"team": "blue", "workflows.argoproj.io/resubmitted-from-workflow": "wf"}})
    );
    assert!(object["spec"]["shutdown"].is_null() && object["status"].is_null());
    assert_eq!(object["spec"]["arguments"]["parameters"], json!([{"name": "x", "value": "1"}]));
}

#[test]
fn a_pause_ends_as_somebody_says() {
    let spec = r#"
entrypoint: main
templates:
- name: main
  steps: [[{name: ask, template: ask}, {name: other, template: ask}], [{name: use, template: use, arguments: {parameters: [{name: v, value: "{{steps.ask.outputs.parameters.v}}"}]}}]]
- {name: ask, suspend: {}, outputs: {parameters: [{name: v, valueFrom: {supplied: {}}}]}}
- {name: use, inputs: {parameters: [{name: v}]}, container: {image: x, args: ["{{inputs.parameters.v}}"]}}
"#;
    let mut sim = Sim::new("wf", spec);
    sim.step();
    let one = Selector::parse("displayName=ask").expect("readable");
    let said = Said {
        phase: "Succeeded".into(),
        message: "yes".into(),
        outputs: [("v".to_owned(), "{{workflow.name}}".to_owned())].into(),
    };
    let patch = set(&sim.observed.workflow, &one, &said, sim.now).expect("it waits");
    let mut object = sim.json();
    merged(&mut object, &patch);
    sim.observed.workflow = serde_json::from_value(object).expect("a Workflow");
    sim.step();
    assert_eq!(
        (sim.node("wf[0].ask").phase.as_str(), sim.node("wf[0].other").phase.as_str()),
        ("Succeeded", "Running")
    );
    let all = Selector::default();
    let bad = Said { outputs: [("nobody".to_owned(), String::new())].into(), ..Said::default() };
    assert!(set(&sim.observed.workflow, &all, &bad, sim.now).is_err());
    assert!(
        set(&sim.observed.workflow, &one, &said, Timestamp::UNIX_EPOCH).is_err(),
        "it does not wait any more"
    );
    let done = Said {
        phase: "Succeeded".into(),
        outputs: [("v".to_owned(), "x".to_owned())].into(),
        ..Said::default()
    };
    let patch = set(&sim.observed.workflow, &all, &done, sim.now).expect("the other one waits");
    let mut object = sim.json();
    merged(&mut object, &patch);
    sim.observed.workflow = serde_json::from_value(object).expect("a Workflow");
    sim.step();
    assert_eq!(
        sim.pod("wf[1].use")["spec"]["containers"][0]["args"],
        json!(["{{workflow.name}}"]),
        "a value is text"
    );
}
