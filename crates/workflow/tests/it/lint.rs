//! What is wrong is said once, where it stands; what is right is let alone.

use slipway_workflow::lint::{self, Library};

fn findings(text: &str) -> Vec<String> {
    lint::check(text, &Library::default()).findings.iter().map(ToString::to_string).collect()
}

fn workflow(templates: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {{generateName: a-}}\nspec:\n  entrypoint: main\n  templates:\n{templates}"
    )
}

/// The only finding, without its place and object.
fn only(templates: &str) -> String {
    let text = workflow(templates);
    let report = lint::check(&text, &Library::default());
    let lines: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), 1, "{text}\n{}", lines.join("\n"));
    let finding = &report.findings[0];
    format!("{}: {}", finding.path, finding.message)
}

#[test]
fn a_workflow_that_is_right_is_let_alone() {
    let text = workflow(
        r#"
  - name: main
    steps:
    - - {name: make, template: make}
    - - name: each
        template: print
        arguments:
          parameters: [{name: text, value: "{{item}} of {{steps.make.outputs.result}} for {{workflow.name}}"}]
        withParam: "{{steps.make.outputs.result}}"
        when: "{{steps.make.status}} == Succeeded"
    - - name: graph
        template: graph
  - name: make
    script: {image: python, command: [python], source: "print([1, 2])"}
  - name: print
    inputs: {parameters: [{name: text}]}
    container: {image: busybox, command: [echo], args: ["{{inputs.parameters.text}}", "{{ .Values.not.ours }}"]}
  - name: graph
    dag:
      tasks:
      - {name: a, template: make}
      - name: b
        depends: a.Succeeded || a.Failed
        template: print
        arguments: {parameters: [{name: text, value: "{{tasks.a.outputs.result}}"}]}
    outputs:
      parameters: [{name: found, valueFrom: {parameter: "{{tasks.a.outputs.result}}"}}]
"#,
    );
    assert_eq!(findings(&text), [""; 0]);
}

#[test]
fn everything_that_is_wrong_is_said_at_once_with_its_place() {
    let text = "apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata:
  name: a
spec:
  entrypoint: begin
  podGC: {strategy: Sometimes}
  templates:
  - name: main
    container:
      command: [echo]
    parallelism: 2
  - name: main
    suspend: {}
    container: {image: busybox}
    tymeout: 3s
";
    assert_eq!(
        findings(text),
        [
            "6:3: error: Workflow/a: spec.entrypoint: there is no template `begin`; there is main, main",
            "7:11: error: Workflow/a: spec.podGC.strategy: `Sometimes` is not one of OnPodCompletion, OnPodSuccess, OnWorkflowCompletion, OnWorkflowSuccess",
            "10:5: error: Workflow/a: spec.templates[0].container: `image` is missing",
            "12:5: error: Workflow/a: spec.templates[0].parallelism: only steps and graphs have it; `spec.parallelism` is for all pods of a workflow",
            "13:5: error: Workflow/a: spec.templates[1].name: `main` is there twice",
            "13:5: error: Workflow/a: spec.templates[1]: container and suspend are both there; a template does one thing",
            "16:5: error: Workflow/a: spec.templates[1].tymeout: unknown field `tymeout`",
        ]
    );
}

#[test]
fn what_a_tag_names_must_be_known_where_it_stands() {
    assert_eq!(
        only("  - name: main\n    container: {image: busybox, args: [\"{{inputs.parameters.text}}\"]}\n"),
        "spec.templates[0].container.args[0]: `{{inputs.parameters.text}}` is not known here"
    );
    assert_eq!(
        only("  - name: main\n    container: {image: busybox, args: [\"{{workflow.nam}}\"]}\n")
            .split("; there is")
            .next()
            .unwrap_or_default(),
        "spec.templates[0].container.args[0]: `{{workflow.nam}}` is not known here"
    );
    // The step of the same group has not ended.
    let steps = "  - name: main
    steps:
    - - {name: one, template: leaf}
      - {name: two, template: leaf, when: \"{{steps.one.outputs.result}} == 1\"}
  - name: leaf
    container: {image: busybox}
";
    assert_eq!(
        only(steps),
        "spec.templates[0].steps[0][1].when: `{{steps.one.outputs.result}}` is not known here"
    );
    assert_eq!(
        only("  - name: main\n    container: {image: \"busybox:{{open\"}\n"),
        "spec.templates[0].container.image: `{{` has no `}}`"
    );
}

#[test]
fn a_task_waits_for_what_it_names() {
    let dag = |b: &str| {
        format!(
            "  - name: main
    dag:
      tasks:
      - {{name: a, template: leaf}}
      - {b}
  - name: leaf
    inputs: {{parameters: [{{name: x, default: 1}}]}}
    container: {{image: busybox}}
"
        )
    };
    assert_eq!(
        only(&dag(
            "{name: b, template: leaf, arguments: {parameters: [{name: x, value: \"{{tasks.a.outputs.result}}\"}]}}"
        )),
        "spec.templates[0].dag.tasks[1].arguments.parameters[0].value: `{{tasks.a.outputs.result}}`: `b` does not wait for `a`"
    );
    assert_eq!(
        only(&dag("{name: b, template: leaf, dependencies: [c]}")),
        "spec.templates[0].dag.tasks[1].dependencies: there is no task `c`"
    );
    assert_eq!(
        only(&dag("{name: b, template: leaf, depends: a.AnySucceeded}")),
        "spec.templates[0].dag.tasks[1].depends: `a` has no items: AnySucceeded and AllFailed are about loops"
    );
    assert_eq!(
        only(&dag("{name: b, template: leaf, dependencies: [b]}")),
        "spec.templates[0].dag.tasks: they wait for each other: b → b"
    );
    assert_eq!(
        only(&dag("{name: b, template: other}")),
        "spec.templates[0].dag.tasks[1].template: there is no template `other`; there is main, leaf"
    );
}

#[test]
fn a_template_gets_what_it_asks_for() {
    let call = |arguments: &str| {
        format!(
            "  - name: main
    steps: [[{{name: one, template: leaf, arguments: {arguments}}}]]
  - name: leaf
    inputs: {{parameters: [{{name: x}}], artifacts: [{{name: file, path: /x}}]}}
    container: {{image: busybox}}
"
        )
    };
    let file = "artifacts: [{name: file, raw: {data: x}}]";
    assert_eq!(
        only(&call(&format!("{{{file}}}"))),
        "spec.templates[0].steps[0][0]: parameter `x` of template `leaf` is not given"
    );
    assert_eq!(
        only(&call("{parameters: [{name: x, value: 1}]}")),
        "spec.templates[0].steps[0][0]: artifact `file` of template `leaf` is not given"
    );
    assert_eq!(
        only(&call(&format!("{{parameters: [{{name: x, value: 1}}, {{name: z, value: 1}}], {file}}}"))),
        "spec.templates[0].steps[0][0].arguments.parameters[1]: template `leaf` has no input parameter `z`"
    );
    assert_eq!(
        only(&call(&format!("{{parameters: [{{name: x}}], {file}}}"))),
        "spec.templates[0].steps[0][0].arguments.parameters[0]: `x` has no `value`"
    );
}

#[test]
fn templates_of_other_files_are_found_and_what_is_in_the_cluster_is_not_missed() {
    let text =
        workflow("  - name: main\n    steps: [[{name: one, templateRef: {name: shared, template: leaf}}]]\n");
    assert_eq!(findings(&text), [""; 0]);
    let mut library = Library::default();
    library.add("apiVersion: argoproj.io/v1alpha1\nkind: WorkflowTemplate\nmetadata: {name: shared}\nspec:\n  templates:\n  - {name: other, container: {image: x}}\n");
    let found: Vec<String> =
        lint::check(&text, &library).findings.iter().map(|finding| finding.message.clone()).collect();
    assert_eq!(found, ["`shared` has no template `leaf`"]);
}

#[test]
fn schedules_are_read_as_the_cluster_reads_them() {
    let cron = |spec: &str| {
        let text = format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: CronWorkflow\nmetadata: {{name: a}}\nspec:\n{spec}  workflowSpec:\n    entrypoint: main\n    templates:\n    - {{name: main, container: {{image: busybox, args: [\"{{{{workflow.scheduledTime}}}}\"]}}}}\n"
        );
        lint::check(&text, &Library::default())
            .findings
            .iter()
            .map(|finding| format!("{}: {}", finding.path, finding.message))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        cron(
            "  schedules: [\"0 4 * * 1-5\", \"@every 1h30m\", \"CRON_TZ=Europe/Berlin 0 0 * * *\", \"@daily\"]\n"
        ),
        [""; 0]
    );
    assert_eq!(cron("  schedule: \"* * * * *\"\n  timezone: Europe/Berlin\n"), [""; 0]);
    let wrong = cron(
        "  schedules: [\"61 * * * *\"]\n  concurrencyPolicy: Maybe\n  timezone: Mars/Base\n  startingDeadlineSeconds: -1\n",
    );
    let places: Vec<&str> = wrong.iter().map(|line| line.split(": ").next().unwrap_or_default()).collect();
    assert_eq!(
        places,
        ["spec.schedules[0]", "spec.concurrencyPolicy", "spec.timezone", "spec.startingDeadlineSeconds"]
    );
}

#[test]
fn hostile_manifests_end() {
    let deep = format!("{}{}", "(".repeat(3000), "a");
    for text in [
        workflow(&format!(
            "  - name: main\n    dag: {{tasks: [{{name: a, template: main, depends: \"{deep}\"}}]}}\n"
        )),
        workflow(&format!("  - name: main\n    container: {{image: \"{}\"}}\n", "{{".repeat(20_000))),
        workflow(
            "  - name: main\n    steps: [[{name: a, template: main}], [{name: b, inline: {steps: [[{name: c, inline: {steps: []}}]]}}]]\n",
        ),
    ] {
        lint::check(&text, &Library::default());
    }
    // A chain of two thousand tasks is no reason to run out of stack.
    let chain: String = (0..2_000)
        .map(|at| format!("      - {{name: t{at}, template: leaf, dependencies: [t{}]}}\n", at + 1))
        .collect();
    let text = workflow(&format!(
        "  - name: leaf\n    container: {{image: x}}\n  - name: main\n    dag:\n      tasks:\n{chain}"
    ));
    let found = lint::check(&text, &Library::default());
    assert_eq!(found.findings.len(), 1, "the last one waits for one that is not there");
}
