//! Workflows that would run for ever, grow without end or be read as something else than what they are.

use jiff::SignedDuration;
use serde_json::json;
use slipway_crd::workflow::NodeStatus;

use crate::sim::{Sim, yaml};

/// The first plan, on a stack as small as that of the engine's threads.
fn first(spec: &str) -> (String, String, usize) {
    let spec = spec.to_owned();
    let small = std::thread::Builder::new().stack_size(2 << 20);
    let done = small.spawn(move || {
        let mut sim = Sim::new("wf", &spec);
        sim.step();
        let (phase, message) = sim.phase();
        (phase.to_owned(), message.to_owned(), sim.observed.workflow.status.nodes.len())
    });
    done.expect("a thread").join().expect("it ends")
}

#[test]
fn templates_that_call_themselves_end() {
    for body in [
        "steps: [[{name: a, template: main}, {name: b, template: main}]]",
        "dag: {tasks: [{name: a, template: main}, {name: b, template: main}]}",
        "steps: [[{name: a, template: main, withSequence: {count: 100}}]]",
    ] {
        let spec = format!("entrypoint: main\ntemplates:\n- {{name: main, {body}}}\n");
        let (phase, message, _) = first(&spec);
        assert_eq!(
            (phase.as_str(), message.as_str()),
            ("Error", "templates are nested deeper than 100"),
            "{body}"
        );
    }
}

#[test]
fn a_workflow_of_too_many_nodes_ends_and_leaves_no_pod() {
    let spec = "entrypoint: main\ntemplates:\n- name: main\n  steps: [[{name: a, template: run}], [{name: b, template: run}]]\n- {name: run, container: {image: x}}\n";
    let mut sim = Sim::new("wf", spec);
    sim.step();
    sim.run("wf[0].a");
    sim.step();
    for at in 0..120_000 {
        let node = NodeStatus { id: at.to_string(), phase: "Succeeded".into(), ..NodeStatus::default() };
        sim.observed.workflow.status.nodes.insert(node.id.clone(), node);
    }
    sim.step();
    assert_eq!(sim.phase(), ("Error", "it would have more than 120000 nodes"));
    assert_eq!((sim.node("wf[0].a").phase.as_str(), sim.made.len()), ("Failed", 1));
    assert!(sim.observed.pods.is_empty(), "what runs is ended");
}

#[test]
fn a_long_chain_of_tasks_fits_onto_a_stack() {
    let mut tasks = String::new();
    for at in 0..3_000 {
        let depends = if at == 0 { String::new() } else { format!(", depends: t{}", at - 1) };
        tasks.push_str(&format!("    - {{name: t{at}, template: run{depends}}}\n"));
    }
    let spec = format!(
        "entrypoint: main\ntemplates:\n- name: main\n  dag:\n    tasks:\n{tasks}- {{name: run, container: {{image: x}}}}\n"
    );
    assert_eq!(first(&spec), ("Running".into(), String::new(), 2));
}

#[test]
fn a_graph_that_cannot_end_or_would_run_nothing_is_an_error() {
    for (dag, wanted) in [
        (
            "tasks: [{name: a, template: run, depends: b}, {name: b, template: run, depends: a}]",
            "tasks wait for each other: a -> b -> a",
        ),
        ("tasks: [{name: a, template: run, dependencies: [a]}]", "tasks wait for each other: a -> a"),
        (
            "tasks: [{name: a, template: run, depends: nobody}]",
            "`a` waits for the task `nobody`, which is not there",
        ),
        ("target: nobody, tasks: [{name: a, template: run}]", "the target `nobody` is no task"),
    ] {
        let spec = format!(
            "entrypoint: main\ntemplates:\n- {{name: main, dag: {{{dag}}}}}\n- {{name: run, container: {{image: x}}}}\n"
        );
        let mut sim = Sim::new("wf", &spec);
        sim.step();
        assert_eq!(sim.phase(), ("Error", wanted), "{dag}");
        assert!(sim.made.is_empty(), "{dag}");
    }
}

#[test]
fn a_target_may_be_a_parameter() {
    let mut sim = Sim::new(
        "wf",
        "
entrypoint: main
arguments: {parameters: [{name: target, value: 'a b'}]}
templates:
- name: main
  dag:
    target: '{{workflow.parameters.target}}'
    tasks: [{name: a, template: run}, {name: b, template: run}, {name: c, template: run}]
- {name: run, container: {image: x}}
",
    );
    sim.finish();
    assert_eq!(sim.made, ["wf.a", "wf.b"]);
    assert_eq!(sim.phase().0, "Succeeded");
}

/// Every task that follows waits for the hook of the one before, and not the first of them alone.
#[test]
fn all_that_follow_wait_for_a_hook() {
    let mut sim = Sim::new(
        "wf",
        "
entrypoint: main
templates:
- name: main
  dag:
    tasks:
    - {name: a, template: run, hooks: {exit: {template: run}}}
    - {name: b, template: run, depends: a}
    - {name: c, template: run, depends: a}
- {name: run, container: {image: x}}
",
    );
    sim.step();
    sim.end("wf.a", 0);
    sim.step();
    sim.step();
    assert_eq!(sim.made, ["wf.a", "wf.a.onExit"]);
    sim.finish();
    assert_eq!(sim.made, ["wf.a", "wf.a.onExit", "wf.b", "wf.c"]);
}

/// What can never begin is tried again with pauses, and a plan comes to its end.
#[test]
fn attempts_that_end_at_once_are_not_made_for_ever() {
    for (strategy, template) in [
        ("{retryPolicy: Always}", "container: {image: x, args: [\"{{=asInt('x')}}\"]}"),
        (
            "{retryPolicy: Always, backoff: {duration: '0'}}",
            "container: {image: x, args: [\"{{=asInt('x')}}\"]}",
        ),
        ("{limit: 1000000}", "steps: [[{name: a, template: nobody}]]"),
    ] {
        let spec = format!(
            "entrypoint: main\ntemplates:\n- {{name: main, retryStrategy: {strategy}, {template}}}\n"
        );
        let mut sim = Sim::new("wf", &spec);
        sim.step();
        assert_eq!(sim.node("wf").children.len(), 10, "{strategy}");
        assert_eq!(sim.node("wf").message, "Backoff for 0 minutes 10 seconds", "{strategy}");
        sim.step();
        assert_eq!(sim.node("wf").children.len(), 10, "its own write wakes it: {strategy}");
        let wait = sim.again.expect("it is tried again").duration_since(sim.now);
        assert_eq!(wait, SignedDuration::from_secs(10));
        sim.after(10);
        assert_eq!(sim.node("wf").children.len(), 11, "{strategy}");
    }
    // A pod that the API server never takes.
    let mut sim = Sim::new(
        "wf",
        "entrypoint: main\ntemplates:\n- {name: main, retryStrategy: {retryPolicy: Always}, container: {image: x}}\n",
    );
    sim.says = Box::new(|_| Some(slipway_workflow::plan::Refusal::ForGood("no".into())));
    sim.step();
    assert_eq!(sim.node("wf").children.len(), 10);
}

/// A value is put in place once: what it holds is no tag, wherever it stands.
#[test]
fn values_are_not_read_again() {
    let mut spec = yaml(
        "
entrypoint: main
onExit: bye
templates:
- name: main
  inputs: {parameters: [{name: text}]}
  outputs: {parameters: [{name: out, valueFrom: {parameter: '{{steps.a.outputs.parameters.out}}'}}]}
  steps:
  - - name: a
      template: say
      arguments: {parameters: [{name: text, value: '{{inputs.parameters.text}}'}]}
  - - name: b
      template: say
      when: '\"{{steps.a.outputs.parameters.out}}\" != none'
      arguments: {parameters: [{name: text, value: '{{steps.a.outputs.parameters.out}}'}]}
- name: say
  inputs: {parameters: [{name: text}]}
  outputs: {parameters: [{name: out, valueFrom: {path: /tmp/out}}]}
  metadata:
    labels: {x: '{{inputs.parameters.text}}'}
    annotations: {x: '{{inputs.parameters.text}}'}
  container: {image: x, command: [echo], args: ['{{inputs.parameters.text}}']}
- name: bye
  inputs: {parameters: [{name: text}]}
  container: {image: x, command: [echo], args: ['{{inputs.parameters.text}}']}
",
    );
    let hostile = "{{workflow.uid}} {{=1 + 1}} {{steps.a.ip}}";
    spec["arguments"] = json!({"parameters": [{"name": "text", "value": hostile}]});
    let mut sim = Sim::new("wf", &spec.to_string());
    sim.step();
    let pod = sim.pod("wf[0].a").clone();
    for place in ["/metadata/labels/x", "/metadata/annotations/x", "/spec/containers/0/args/0"] {
        let found = pod.pointer(place).and_then(|value| value.as_str()).unwrap_or_default();
        // The program that captures outputs stands before the command, and the arguments stay.
        assert_eq!(found, hostile, "{place}: {pod:#}");
    }
    for node in ["wf[0].a", "wf[1].b"] {
        let words = json!({"outputs": {"parameters": [{"name": "out", "value": hostile}]}}).to_string();
        sim.end(node, 0);
        sim.pod(node)["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = words.into();
        sim.step();
    }
    assert_eq!(sim.pod("wf[1].b")["metadata"]["labels"]["x"], hostile);
    assert_eq!(sim.pod("wf.onExit")["spec"]["containers"][0]["args"][0], hostile);
    let outputs = sim.node("wf").outputs.clone().expect("outputs");
    assert_eq!(outputs.parameters[0].value, Some(hostile.into()));
}

/// What is stopped stops, whatever an item is called.
#[test]
fn an_item_is_no_handler_of_the_end() {
    let mut sim = Sim::new(
        "wf",
        "
entrypoint: main
templates:
- name: main
  steps: [[{name: a, template: run, withItems: ['x.onExit', '.onExit.y']}, {name: onExits, template: run}]]
- {name: run, container: {image: x}}
",
    );
    sim.step();
    sim.observed.workflow.spec.shutdown = "Terminate".into();
    sim.step();
    sim.step();
    assert_eq!(sim.phase(), ("Failed", "Stopped with strategy 'Terminate'"));
}
