//! What ends a node besides its own pod: the API server, the clock, patches that cannot be read.

use serde_json::json;
use slipway_workflow::plan::{Action, Refusal};

use crate::sim::{Says, Sim};

const TWO: &str = r#"
entrypoint: main
templates:
- name: main
  dag:
    tasks:
    - {name: a, template: run}
    - {name: b, template: run}
    - {name: c, template: run, depends: a.Errored}
- {name: run, container: {image: x}}
"#;

fn of(name: &'static str, why: Refusal) -> Says {
    Box::new(move |pod| {
        let node = pod["metadata"]["annotations"]["workflows.argoproj.io/node-name"].as_str();
        node.is_some_and(|node| node.ends_with(name)).then(|| why.clone())
    })
}

#[test]
fn a_pod_that_is_refused_for_good_is_an_error_of_its_node_alone() {
    let mut sim = Sim::new("wf", TWO);
    sim.says = of(".a", Refusal::ForGood("Pod n/x: spec.containers[0].image: Required value".into()));
    let first = sim.step();
    assert_eq!(sim.node("wf.a").phase, "Error");
    assert_eq!(sim.node("wf.a").message, "Pod n/x: spec.containers[0].image: Required value");
    assert!(first.events.iter().any(|event| event.reason == "WorkflowNodeError"), "{:?}", first.events);
    assert_eq!(sim.made, ["wf.b", "wf.c"], "what runs beside it and what waited for its error go on");
    sim.finish();
    assert_eq!(sim.phase().0, "Succeeded", "{:?}", sim.phase());
}

#[test]
fn a_pod_that_is_refused_for_now_is_tried_again_and_made_once() {
    let mut sim = Sim::new("wf", TWO);
    sim.says = of(".a", Refusal::ForNow("pods is forbidden: exceeded quota".into()));
    sim.step();
    assert_eq!(sim.node("wf.a").phase, "Pending");
    assert_eq!(sim.node("wf.a").message, "the pod is not made yet: pods is forbidden: exceeded quota");
    let mut waits = Vec::new();
    for _ in 0..8 {
        let wait = sim.again.expect("it is tried again").duration_since(sim.now).as_secs();
        waits.push(wait);
        sim.after(wait);
    }
    assert_eq!(waits, [1, 1, 2, 4, 8, 16, 32, 60], "less and less often");
    sim.says = Box::new(|_| None);
    sim.step();
    assert_eq!((sim.node("wf.a").phase.as_str(), sim.node("wf.a").message.as_str()), ("Pending", ""));
    sim.finish();
    assert_eq!(sim.made.iter().filter(|node| *node == "wf.a").count(), 1);
    // One that is stopped waits for nothing.
    let mut sim = Sim::new("wf", TWO);
    sim.says = Box::new(|_| Some(Refusal::ForNow("later".into())));
    sim.step();
    sim.observed.workflow.spec.shutdown = "Stop".into();
    sim.step();
    assert_eq!(sim.phase(), ("Failed", "Stopped with strategy 'Stop'"));
}

#[test]
fn a_pod_that_was_made_and_is_gone_is_not_made_again() {
    let mut sim = Sim::new("wf", TWO);
    sim.step();
    sim.observed.pods.clear();
    sim.after(11);
    assert_eq!(
        (sim.node("wf.a").phase.as_str(), sim.node("wf.a").message.as_str()),
        ("Error", "pod deleted")
    );
    assert_eq!(sim.made.iter().filter(|node| *node == "wf.a").count(), 1);
}

#[test]
fn a_step_that_takes_too_long_fails_and_its_pod_goes() {
    let spec = r#"
entrypoint: main
templates:
- name: main
  steps: [[{name: a, template: run, arguments: {parameters: [{name: t, value: 30s}]}}]]
- name: run
  inputs: {parameters: [{name: t}]}
  timeout: "{{inputs.parameters.t}}"
  retryStrategy: {limit: 5, retryPolicy: Always}
  container: {image: x}
"#;
    let mut sim = Sim::new("wf", spec);
    sim.step();
    sim.run("wf[0].a(0)");
    sim.after(10);
    assert_eq!(sim.again.map(|at| at.as_second()), Some(30), "it looks again when the time is over");
    sim.end("wf[0].a(0)", 1);
    sim.step();
    sim.run("wf[0].a(1)");
    let last = sim.after(20);
    assert_eq!(sim.node("wf[0].a").message, "Step exceeded its deadline", "all attempts together");
    assert_eq!(sim.node("wf[0].a(1)").phase, "Failed");
    assert!(last.actions.iter().any(|action| matches!(action, Action::DeletePod(_))), "{:?}", last.actions);
    assert_eq!(sim.phase().0, "Failed");
    assert_eq!(sim.made, ["wf[0].a(0)", "wf[0].a(1)"]);
}

#[test]
fn a_pod_that_waits_too_long_fails_and_one_that_runs_does_not() {
    let spec = "entrypoint: main\ntemplates:\n- {name: main, pendingTimeout: 1m, container: {image: x}}\n";
    let mut sim = Sim::new("wf", spec);
    sim.step();
    sim.run("wf");
    sim.after(120);
    assert_eq!(sim.phase().0, "Running");
    let mut sim = Sim::new("wf", spec);
    sim.step();
    sim.pod("wf")["status"] = json!({"phase": "Pending"});
    sim.after(60);
    assert_eq!(sim.phase(), ("Failed", "Step exceeded its deadline"));
}

#[test]
fn a_workflow_that_takes_too_long_ends_and_its_handler_runs_all_the_same() {
    let spec = r#"
entrypoint: main
onExit: bye
activeDeadlineSeconds: 60
templates:
- {name: main, steps: [[{name: a, template: run}], [{name: b, template: run}]]}
- {name: run, container: {image: x}}
- {name: bye, container: {image: x}}
"#;
    let mut sim = Sim::new("wf", spec);
    sim.step();
    sim.run("wf[0].a");
    assert_eq!(sim.again.map(|at| at.as_second()), Some(60));
    sim.after(60);
    assert_eq!(sim.node("wf[0].a").message, "Step exceeded its deadline");
    sim.run("wf.onExit");
    sim.after(60);
    assert_eq!(sim.node("wf.onExit").phase, "Running", "handlers ignore the deadline");
    sim.end("wf.onExit", 0);
    sim.step();
    assert_eq!(sim.phase().0, "Failed");
    assert_eq!(sim.made, ["wf[0].a", "wf.onExit"]);
}

#[test]
fn a_pod_is_patched_and_what_a_value_holds_changes_no_shape() {
    let spec = r#"
entrypoint: main
arguments:
  parameters:
  - {name: mem, value: "1Gi\"}}}], \"hostNetwork\": true, \"x\": [{\"a\": {\"b\": {\"c\": \""}
podSpecPatch: |
  terminationGracePeriodSeconds: 5
  restartPolicy: Always
templates:
- name: main
  podSpecPatch: '{"containers":[{"name":"main", "resources":{"limits":{"memory": "{{workflow.parameters.mem}}"}}}]}'
  container: {image: x}
"#;
    let mut sim = Sim::new("wf", spec);
    sim.step();
    let pod = sim.pod("wf")["spec"].clone();
    assert_eq!(pod["terminationGracePeriodSeconds"], 5);
    assert_eq!(pod["restartPolicy"], "Never");
    assert!(pod["hostNetwork"].is_null(), "{pod:#}");
    let memory = pod["containers"][0]["resources"]["limits"]["memory"].as_str();
    assert!(memory.is_some_and(|memory| memory.contains("hostNetwork")), "it is text: {pod:#}");
    let mut sim = Sim::new("wf", &spec.replace("terminationGracePeriodSeconds: 5", "a: ["));
    sim.step();
    assert_eq!(sim.phase().0, "Error");
    assert!(sim.phase().1.starts_with("podSpecPatch: it cannot be read"), "{}", sim.phase().1);
}

#[test]
fn labels_of_the_engine_are_its_own_and_others_may_be_computed() {
    let spec = r#"
entrypoint: main
arguments: {parameters: [{name: team, value: blue}]}
workflowMetadata:
  labels: {a: b}
  labelsFrom: {team: {expression: "workflow.parameters.team + '-1'"}}
podMetadata: {annotations: {workflows.argoproj.io/node-name: other}, labels: {workflows.argoproj.io/workflow: other}}
templates: [{name: main, container: {image: x}}]
"#;
    let mut sim = Sim::new("wf", spec);
    let first = sim.step();
    assert_eq!(first.labels["a"], "b");
    assert_eq!(first.labels["team"], "blue-1");
    assert_eq!(first.labels["workflows.argoproj.io/phase"], "Running");
    assert_eq!(sim.pod("wf")["metadata"]["labels"]["workflows.argoproj.io/workflow"], "wf");
    for label in ["phase", "completed", "controller-instanceid"] {
        let mut sim =
            Sim::new("wf", &spec.replace("{a: b}", &format!("{{workflows.argoproj.io/{label}: x}}")));
        sim.step();
        let wanted =
            format!("spec.workflowMetadata: the label workflows.argoproj.io/{label} is the engine's own");
        assert_eq!(sim.phase(), ("Error", wanted.as_str()));
    }
    let mut sim = Sim::new("wf", &spec.replace("workflow.parameters.team +", "nobody.knows +"));
    sim.step();
    assert_eq!(sim.phase().0, "Error", "{:?}", sim.phase());
}

#[test]
fn values_come_from_config_maps_that_say_that_they_are_for_it() {
    let spec = r#"
entrypoint: main
arguments: {parameters: [{name: a, valueFrom: {configMapKeyRef: {name: values, key: a}}}]}
templates:
- name: main
  inputs: {parameters: [{name: b, valueFrom: {default: fallback, configMapKeyRef: {name: values, key: nothing}}}]}
  container: {image: x, args: ["{{workflow.parameters.a}}", "{{inputs.parameters.b}}"]}
"#;
    let map = json!({"metadata": {"labels": {"workflows.argoproj.io/configmap-type": "Parameter"}}, "data": {"a": "{{workflow.name}}"}});
    let mut sim = Sim::new("wf", spec);
    let names = slipway_workflow::plan::config_maps(&sim.observed.workflow.spec, &sim.observed.library);
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["values"]);
    sim.observed.config_maps.insert("values".into(), map.clone());
    sim.step();
    let arguments = json!(["{{workflow.name}}", "fallback"]);
    assert_eq!(sim.pod("wf")["spec"]["containers"][0]["args"], arguments, "a value is not read again");
    for (map, why) in [
        (
            json!({"data": {"a": "x"}}),
            "ConfigMap `values` has no label workflows.argoproj.io/configmap-type: Parameter",
        ),
        (json!({"metadata": map["metadata"]}), "ConfigMap `values` has no key `a`"),
    ] {
        let mut sim = Sim::new("wf", spec);
        sim.observed.config_maps.insert("values".into(), map);
        sim.step();
        let wanted = format!("invalid spec: arguments.parameters.a: {why}");
        assert_eq!(sim.phase(), ("Error", wanted.as_str()));
    }
}

#[test]
fn a_call_is_judged_by_its_answer_and_is_no_pod() {
    let spec = r#"
entrypoint: main
templates:
- name: main
  steps: [[{name: ask, template: ask, arguments: {parameters: [{name: q, value: "a&b=\"c\""}]}}], [{name: use, template: use, arguments: {parameters: [{name: v, value: "{{steps.ask.outputs.result}}"}]}}]]
- name: ask
  inputs: {parameters: [{name: q}]}
  http: {url: "http://x/", method: POST, body: "{{inputs.parameters.q}}", successCondition: "response.statusCode == 200 && response.body contains 'yes'"}
- {name: use, inputs: {parameters: [{name: v}]}, container: {image: x, args: ["{{inputs.parameters.v}}"]}}
"#;
    let asked = |sim: &mut Sim| {
        let next = sim.step();
        next.actions.iter().find_map(|action| match action {
            Action::Call { node, http } => Some((node.clone(), http.body.clone())),
            _ => None,
        })
    };
    for (status, body, phase) in
        [(200, "yes {{workflow.name}}", "Running"), (200, "no", "Failed"), (500, "yes", "Failed")]
    {
        let mut sim = Sim::new("wf", spec);
        let (node, sent) = asked(&mut sim).expect("it asks");
        assert_eq!(sent, "a&b=\"c\"");
        assert!(asked(&mut sim).is_some(), "as long as nobody knows the answer");
        let answer = slipway_workflow::plan::Answer { status, body: body.into(), ..Default::default() };
        sim.observed.answers.insert(node, Ok(answer));
        assert!(asked(&mut sim).is_none());
        assert_eq!(sim.phase().0, phase, "{status} {body}: {:?}", sim.phase());
        if phase == "Running" {
            assert_eq!(sim.pod("wf[1].use")["spec"]["containers"][0]["args"], json!([body]));
        }
    }
    let mut sim = Sim::new("wf", spec);
    let (node, _) = asked(&mut sim).expect("it asks");
    sim.observed.answers.insert(node, Err("169.254.169.254 may not be asked from here".into()));
    sim.step();
    assert_eq!(sim.node("wf[0].ask").phase, "Error");
}
