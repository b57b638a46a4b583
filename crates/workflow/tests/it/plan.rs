//! Workflows played without a cluster: which nodes there are at the end, how they ended, and what ran when.

use serde_json::{Value, json};
use slipway_crd::workflow::{Workflow, WorkflowSpec};
use slipway_workflow::plan::{Action, Library, Observed, Played, plan, play, play_saying};

fn yaml(text: &str) -> Value {
    slipway_yaml::load_all_json(text).expect("YAML").remove(0).0
}

fn workflow(spec: &str) -> Workflow {
    let spec = yaml(spec);
    let object = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {"name": "wf", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": spec,
    });
    serde_json::from_value(object).expect("a Workflow")
}

/// The pods whose node has one of these names fail.
fn played(spec: &str, failing: &[&str]) -> Played {
    let exit = |pod: &Value| {
        let node =
            pod["metadata"]["annotations"]["workflows.argoproj.io/node-name"].as_str().unwrap_or_default();
        i64::from(failing.iter().any(|name| node.ends_with(name)))
    };
    let played = play(&workflow(spec), &Library::default(), &exit);
    assert!(!played.stuck, "{:#?}", played.status);
    played
}

/// `name phase type` of every node, by name.
fn tree(played: &Played) -> Vec<String> {
    let mut rows: Vec<String> = played
        .status
        .nodes
        .values()
        .map(|node| format!("{} {} {}", node.name, node.phase, node.r#type))
        .collect();
    rows.sort();
    rows
}

fn rounds(played: &Played) -> Vec<Vec<String>> {
    let name = |pod: &Value| {
        pod["metadata"]["annotations"]["workflows.argoproj.io/node-name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    played.rounds.iter().map(|round| round.iter().map(name).collect()).collect()
}

const STEPS: &str = r#"
entrypoint: main
templates:
- name: main
  steps:
  - - {name: a, template: echo, arguments: {parameters: [{name: m, value: "{{workflow.name}}"}]}}
  - - {name: b, template: echo, arguments: {parameters: [{name: m, value: one}]}}
    - {name: c, template: echo, when: "{{steps.a.status}} == Failed", arguments: {parameters: [{name: m, value: two}]}}
    - name: d
      template: echo
      arguments: {parameters: [{name: m, value: "{{item.os}}"}]}
      withItems: [{os: debian}, {os: alpine}]
- name: echo
  inputs: {parameters: [{name: m}]}
  container: {image: busybox, command: [echo], args: ["{{inputs.parameters.m}}"]}
"#;

#[test]
fn groups_follow_each_other_and_steps_of_a_group_run_together() {
    let played = played(STEPS, &[]);
    assert_eq!(played.status.phase, "Succeeded");
    assert_eq!(
        rounds(&played),
        [vec!["wf[0].a"], vec!["wf[1].b", "wf[1].d(0:os:debian)", "wf[1].d(1:os:alpine)"]]
    );
    assert_eq!(
        tree(&played),
        [
            "wf Succeeded Steps",
            "wf[0] Succeeded StepGroup",
            "wf[0].a Succeeded Pod",
            "wf[1] Succeeded StepGroup",
            "wf[1].b Succeeded Pod",
            "wf[1].c Skipped Skipped",
            "wf[1].d(0:os:debian) Succeeded Pod",
            "wf[1].d(1:os:alpine) Succeeded Pod",
        ]
    );
    let pod = &played.rounds[0][0];
    assert_eq!(pod["spec"]["containers"][0]["args"], json!(["wf"]));
    assert_eq!(pod["spec"]["restartPolicy"], "Never");
    assert_eq!(pod["metadata"]["labels"]["workflows.argoproj.io/workflow"], "wf");
    assert_eq!(
        pod["spec"]["containers"].as_array().map(Vec::len),
        Some(1),
        "nothing beside the main container"
    );
    let node = |name: &str| played.status.nodes.values().find(|node| node.name == name).expect("there");
    assert_eq!(node("wf[1].c").message, "when 'Succeeded == Failed' evaluated false");
    assert_eq!(node("wf[0].a").children, [node("wf[1]").id.clone()]);
    assert_eq!(node("wf[0].a").display_name, "a");
    assert_eq!(played.status.progress, "4/4");
}

#[test]
fn a_step_that_fails_ends_its_group_and_the_workflow_unless_it_may() {
    let ended = played(STEPS, &[".b"]);
    assert_eq!(ended.status.phase, "Failed");
    let b = ended.status.nodes.values().find(|node| node.name == "wf[1].b").expect("there");
    assert_eq!(b.message, "main: Error (exit code 1)");
    assert_eq!(ended.status.message, format!("child '{}' failed", b.id));
    let excused = STEPS.replace("{name: b,", "{name: b, continueOn: {failed: true},");
    assert_eq!(played(&excused, &[".b"]).status.phase, "Succeeded");
}

const DIAMOND: &str = r#"
entrypoint: main
templates:
- name: main
  dag:
    tasks:
    - {name: a, template: run}
    - {name: b, template: run, depends: a}
    - {name: c, template: run, depends: a}
    - {name: d, template: run, depends: "b && c"}
    - {name: e, template: run, depends: "b.Failed"}
- {name: run, container: {image: busybox}}
"#;

#[test]
fn tasks_begin_when_what_they_depend_on_has_ended() {
    let well = played(DIAMOND, &[]);
    assert_eq!(well.status.phase, "Succeeded");
    assert_eq!(rounds(&well), [vec!["wf.a"], vec!["wf.b", "wf.c"], vec!["wf.d"]]);
    assert!(tree(&well).contains(&"wf.e Omitted Skipped".to_owned()));
    let bad = played(DIAMOND, &[".b"]);
    assert_eq!(bad.status.phase, "Failed", "d was never reached well");
    assert_eq!(rounds(&bad), [vec!["wf.a"], vec!["wf.b", "wf.c"], vec!["wf.e"]]);
    assert!(tree(&bad).contains(&"wf.d Omitted Skipped".to_owned()));
}

#[test]
fn expanded_tasks_are_a_group_and_later_ones_ask_about_it() {
    let spec = r#"
entrypoint: main
arguments: {parameters: [{name: list, value: '["x", "y", "z"]'}]}
templates:
- name: main
  dag:
    tasks:
    - {name: many, template: run, withParam: "{{workflow.parameters.list}}"}
    - {name: some, template: run, depends: many.AnySucceeded}
    - {name: none, template: run, depends: many.AllFailed}
- {name: run, container: {image: busybox}}
"#;
    let played = played(spec, &["(1:y)"]);
    let tree = tree(&played);
    assert!(tree.contains(&"wf.many Failed TaskGroup".to_owned()), "{tree:#?}");
    assert!(tree.contains(&"wf.some Succeeded Pod".to_owned()), "{tree:#?}");
    assert!(tree.contains(&"wf.none Omitted Skipped".to_owned()), "{tree:#?}");
    assert_eq!(played.rounds[0].len(), 3);
}

#[test]
fn a_node_is_tried_again_as_often_as_it_may() {
    let spec = r#"
entrypoint: main
templates:
- name: main
  retryStrategy: {limit: 2, backoff: {duration: "10", factor: 2}}
  container: {image: busybox, args: ["{{retries}}"]}
"#;
    let ended = played(spec, &["(0)", "(1)", "(2)"]);
    assert_eq!(ended.status.phase, "Failed");
    assert_eq!(ended.status.message, "No more retries left");
    assert_eq!(tree(&ended), ["wf Failed Retry", "wf(0) Failed Pod", "wf(1) Failed Pod", "wf(2) Failed Pod"]);
    assert_eq!(ended.rounds[2][0]["spec"]["containers"][0]["args"], json!(["2"]));
    let began = |name: &str| {
        let node = ended.status.nodes.values().find(|node| node.name == name).expect("there");
        node.started_at.clone().and_then(|at| at.parse::<jiff::Timestamp>().ok()).expect("a time").as_second()
    };
    assert!(began("wf(1)") - began("wf(0)") >= 10 && began("wf(2)") - began("wf(1)") >= 20);
    assert_eq!(played(spec, &["(0)"]).status.phase, "Succeeded");
}

#[test]
fn exit_handlers_and_hooks_run_whatever_the_end() {
    let spec = r#"
entrypoint: main
onExit: bye
hooks:
  running: {expression: workflow.status == "Running", template: run}
templates:
- {name: main, container: {image: busybox}}
- {name: run, container: {image: busybox}}
- name: bye
  steps:
  - - {name: sorry, template: run, when: "{{workflow.status}} != Succeeded"}
    - {name: hurra, template: run, when: "{{workflow.status}} == Succeeded"}
"#;
    let well = tree(&played(spec, &[]));
    assert!(well.contains(&"wf.onExit[0].hurra Succeeded Pod".to_owned()), "{well:#?}");
    assert!(well.contains(&"wf.onExit[0].sorry Skipped Skipped".to_owned()), "{well:#?}");
    let bad = played(spec, &["wf"]);
    assert_eq!(bad.status.phase, "Failed");
    assert!(tree(&bad).contains(&"wf.onExit[0].sorry Succeeded Pod".to_owned()), "{:#?}", tree(&bad));
}

#[test]
fn parallelism_holds_at_every_moment() {
    let spec = r#"
entrypoint: main
parallelism: 2
templates:
- name: main
  steps: [[{name: a, template: run, withSequence: {count: 7}}]]
- {name: run, container: {image: busybox}}
"#;
    let played = played(spec, &[]);
    assert_eq!(played.status.phase, "Succeeded");
    assert!(played.rounds.iter().all(|round| round.len() <= 2), "{:?}", rounds(&played));
    assert_eq!(played.rounds.iter().map(Vec::len).sum::<usize>(), 7);
}

#[test]
fn templates_of_other_objects_are_kept_as_they_were_used_first() {
    let mut library = Library::default();
    let spec: WorkflowSpec = serde_json::from_value(
        yaml("templates:\n- name: outer\n  steps: [[{name: x, template: inner}]]\n- {name: inner, container: {image: busybox}}\n"),
    )
    .expect("a spec");
    library.add(false, "lib", spec);
    let main = "entrypoint: main\ntemplates:\n- name: main\n  steps: [[{name: a, templateRef: {name: lib, template: outer}}]]\n";
    let played = play(&workflow(main), &library, &|_| 0);
    assert_eq!(played.status.phase, "Succeeded", "{:#?}", played.status);
    assert_eq!(
        played.status.stored_templates.keys().collect::<Vec<_>>(),
        ["namespaced/lib/inner", "namespaced/lib/outer"]
    );
    let whole = workflow("workflowTemplateRef: {name: lib}\nentrypoint: inner\n");
    assert_eq!(play(&whole, &library, &|_| 0).status.phase, "Succeeded");
    // Whoever deletes it while it runs changes nothing.
    let mut observed = Observed { workflow: whole, library: library.clone(), ..Observed::default() };
    observed.workflow.status = plan(&observed, jiff::Timestamp::UNIX_EPOCH).status;
    observed.library = Library::default();
    assert_eq!(plan(&observed, jiff::Timestamp::UNIX_EPOCH).status.phase, "Running");
    let lost = play(&workflow("workflowTemplateRef: {name: nobody}\n"), &library, &|_| 0).status;
    assert_eq!(
        (lost.phase.as_str(), lost.message.as_str()),
        ("Error", "invalid spec: there is no WorkflowTemplate `nobody`")
    );
}

#[test]
fn what_cannot_be_carried_out_is_refused_by_name() {
    let spec = r#"
entrypoint: main
podDisruptionBudget: {minAvailable: 1}
templates:
- {name: main, plugin: {x: {}}}
- {name: other, container: {image: x}, outputs: {artifacts: [{name: a, path: /x}]}}
- name: inner
  steps: [[{name: step, inline: {archiveLocation: {archiveLogs: true}, container: {image: x}}}]]
"#;
    let ended = play(&workflow(spec), &Library::default(), &|_| 0);
    assert!(ended.rounds.is_empty(), "nothing was begun");
    assert_eq!(
        ended.status.message,
        "spec.podDisruptionBudget is not supported yet; template `inner`, inline template of `step`: archiveLocation is not supported yet; template `main`: plugin is not supported yet; template `other`: outputs.artifacts is not supported yet"
    );
}

#[test]
fn a_script_is_a_file_and_a_sidecar_ends_with_the_main_container() {
    let spec = r#"
entrypoint: main
templates:
- name: main
  script: {image: python, command: [python], source: "print(1)"}
  sidecars: [{name: db, image: db}]
"#;
    let played = played(spec, &[]);
    let pod = &played.rounds[0][0];
    assert_eq!(pod["spec"]["containers"][0]["args"], json!(["/argo/staging/script"]));
    assert!(pod["spec"]["containers"][0]["source"].is_null());
    assert_eq!(pod["metadata"]["annotations"]["workflows.slipway.dev/script"], "print(1)");
    assert_eq!(pod["spec"]["initContainers"][0]["restartPolicy"], "Always");
}

#[test]
fn daemons_are_reached_by_their_address_and_end_with_their_steps() {
    let spec = r#"
entrypoint: main
templates:
- name: main
  steps:
  - - {name: db, template: db}
  - - {name: use, template: use, arguments: {parameters: [{name: ip, value: "{{steps.db.ip}}"}]}}
- {name: db, daemon: true, container: {image: db}}
- {name: use, inputs: {parameters: [{name: ip}]}, container: {image: x, args: ["{{inputs.parameters.ip}}"]}}
"#;
    let played = played(spec, &[]);
    assert_eq!(played.status.phase, "Succeeded");
    assert_eq!(played.rounds[1][0]["spec"]["containers"][0]["args"], json!(["10.0.0.1"]));
}

#[test]
fn what_is_stopped_begins_nothing_and_says_so() {
    let mut observed = Observed { workflow: workflow(STEPS), ..Observed::default() };
    let now = jiff::Timestamp::UNIX_EPOCH;
    let first = plan(&observed, now);
    let pods: Vec<Value> = first
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::CreatePod(pod) => Some((**pod).clone()),
            _ => None,
        })
        .collect();
    observed.workflow.status = first.status;
    observed.pods = pods;
    observed.pods[0]["status"] = json!({"phase": "Running"});
    observed.workflow.spec.shutdown = "Terminate".into();
    let next = plan(&observed, now);
    assert_eq!(next.actions.iter().filter(|action| matches!(action, Action::DeletePod(_))).count(), 1);
    assert_eq!(
        (next.status.phase.as_str(), next.status.message.as_str()),
        ("Failed", "Stopped with strategy 'Terminate'")
    );
}

#[test]
fn a_reconcile_that_was_lost_is_planned_the_same_again() {
    let observed = Observed { workflow: workflow(DIAMOND), ..Observed::default() };
    let now = jiff::Timestamp::UNIX_EPOCH;
    let (first, again) = (plan(&observed, now), plan(&observed, now));
    assert_eq!(first.actions, again.actions);
    // Its pod was made, and the status was not written.
    let pods = first.actions.iter().filter_map(|action| match action {
        Action::CreatePod(pod) => Some((**pod).clone()),
        _ => None,
    });
    let seen =
        Observed { pods: pods.collect(), ..Observed { workflow: workflow(DIAMOND), ..Observed::default() } };
    assert!(plan(&seen, now).actions.is_empty(), "no pod twice");
}

#[test]
fn a_pause_ends_by_time_or_by_a_person() {
    let spec = "entrypoint: main\ntemplates:\n- name: main\n  steps: [[{name: wait, template: wait}], [{name: a, template: run}]]\n- {name: wait, suspend: {duration: \"20s\"}}\n- {name: run, container: {image: x}}\n";
    let played = played(spec, &[]);
    let began = played
        .status
        .nodes
        .values()
        .find(|node| node.display_name == "a")
        .and_then(|node| node.started_at.clone());
    assert!(began.expect("a time").as_str() >= "1970-01-01T00:00:20Z");
}

#[test]
fn a_graph_of_thousands_is_planned_in_moments() {
    let tasks: Vec<Value> = (0..1_000)
        .map(|at| json!({"name": format!("t{at}"), "template": "run", "depends": if at < 10 { String::new() } else { format!("t{}", at - 10) }}))
        .collect();
    let spec = json!({"entrypoint": "main", "templates": [
        {"name": "main", "dag": {"tasks": tasks}}, {"name": "run", "container": {"image": "x"}}]});
    let object = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "wf"}, "spec": spec});
    let workflow: Workflow = serde_json::from_value(object).expect("a Workflow");
    let played = play(&workflow, &Library::default(), &|_| 0);
    assert_eq!(played.status.phase, "Succeeded", "{}", played.status.message);
    assert_eq!(played.rounds.len(), 100);
}

const RESULTS: &str = r#"
entrypoint: main
templates:
- name: main
  steps:
  - - {name: flip, template: flip}
  - - {name: heads, template: run, when: "{{steps.flip.outputs.result}} == heads", arguments: {parameters: [{name: m, value: "{{steps.flip.outputs.parameters.side}}"}]}}
    - {name: tails, template: run, when: "{{steps.flip.outputs.result}} == tails", arguments: {parameters: [{name: m, value: x}]}}
    - {name: each, template: run, withParam: "{{steps.flip.outputs.parameters.list}}", arguments: {parameters: [{name: m, value: "{{item}}"}]}}
- name: flip
  container: {image: busybox, command: [flip], args: [coin]}
  outputs: {parameters: [{name: side, valueFrom: {path: /tmp/side}}, {name: list, valueFrom: {path: /tmp/list, default: "[]"}}]}
- {name: run, inputs: {parameters: [{name: m}]}, container: {image: busybox, command: [echo], args: ["{{inputs.parameters.m}}"]}}
"#;

#[test]
fn what_a_container_leaves_decides_what_follows() {
    let said = json!({"outputs": {"result": "heads", "parameters": [{"name": "side", "value": "up"}, {"name": "list", "value": "[1,2]"}]}});
    let played = play_saying(&workflow(RESULTS), &Library::default(), &|_| 0, &|_| said.to_string());
    assert_eq!(played.status.phase, "Succeeded", "{:#?}", played.status);
    assert_eq!(
        rounds(&played),
        [vec!["wf[0].flip"], vec!["wf[1].heads", "wf[1].each(0:1)", "wf[1].each(1:2)"]]
    );
    let pod = &played.rounds[0][0]["spec"];
    assert_eq!(pod["containers"][0]["command"], json!(["/slipway/executor", "run", "--", "flip"]));
    assert_eq!(
        pod["initContainers"].as_array().map(Vec::len),
        Some(1),
        "one container more, and it ends at once"
    );
    assert_eq!(
        pod["containers"][0]["env"][0]["value"]
            .as_str()
            .map(|text| serde_json::from_str::<Value>(text).expect("JSON")),
        Some(
            json!({"result": true, "parameters": [{"name": "side", "path": "/tmp/side"}, {"name": "list", "path": "/tmp/list", "default": "[]"}]})
        )
    );
    assert_eq!(played.rounds[1][0]["spec"]["containers"][0]["args"], json!(["up"]));
}

#[test]
fn outputs_that_are_not_there_are_an_error_with_a_reason() {
    let says = |_: &Value| json!({"error": "output parameter side: /tmp/side: No such file"}).to_string();
    let played = play_saying(&workflow(RESULTS), &Library::default(), &|_| 64, &says);
    let flip = played.status.nodes.values().find(|node| node.display_name == "flip").expect("there");
    assert_eq!(
        (flip.phase.as_str(), flip.message.as_str()),
        ("Error", "output parameter side: /tmp/side: No such file")
    );
    let observed = Observed { workflow: workflow(RESULTS), ..Observed::default() };
    let refused = plan(&observed, jiff::Timestamp::UNIX_EPOCH).status.message;
    assert!(refused.contains("template `flip`: outputs of containers need an executor image"), "{refused}");
    let nameless = RESULTS.replace("command: [flip], args: [coin]", "args: [coin]");
    let played = play_saying(&workflow(&nameless), &Library::default(), &|_| 0, &says);
    let flip = played.status.nodes.values().find(|node| node.display_name == "flip").expect("there");
    assert!(flip.message.contains("only where `command` says what runs"), "{}", flip.message);
}
