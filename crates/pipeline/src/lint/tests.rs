use crate::lint::{Account, Finding, LintOptions, Registry, lint_text, report};

fn lint(text: &str) -> Vec<Finding> {
    lint_text(text, &LintOptions::default()).1
}

/// `line:column severity step message-part`, one for each finding.
#[track_caller]
fn expect(text: &str, wanted: &[(&str, &str)]) {
    let findings = lint(text);
    let shown: Vec<String> = findings
        .iter()
        .map(|f| format!("{}:{} {} {}", f.line, f.column, f.step.as_deref().unwrap_or("-"), f.message))
        .collect();
    assert_eq!(shown.len(), wanted.len(), "{shown:#?}");
    for (shown, (place, part)) in shown.iter().zip(wanted) {
        assert!(shown.starts_with(place) && shown.contains(part), "wanted {place} … {part}, got {shown}");
    }
}

#[test]
fn everything_is_found_at_once_with_its_place() {
    let text = "version: '1.0'\nstagse: []\nsteps:\n  build:\n    type: build\n    image_nam: x\n  run:\n    image: alpine\n    commands: echo\n";
    expect(
        text,
        &[
            ("2:1 -", "\"stagse\" is not allowed. Did you mean \"stages\"?"),
            ("5:5 build", "\"image_name\" is required"),
            ("6:5 build", "Did you mean \"image_name\"?"),
            ("9:15 run", "\"commands\" must be an array"),
        ],
    );
}

#[test]
fn a_slip_of_the_hand_is_seen_where_any_field_is_allowed() {
    let text = "version: '1.0'\nsteps:\n  a:\n    imgae: alpine\n  b:\n    type: git-clon\n    repo: a/b\n  c:\n    type: acme/deploy\n";
    let findings = lint(text);
    let hints: Vec<_> = findings.iter().map(|finding| finding.hint.as_deref().unwrap_or_default()).collect();
    assert_eq!(hints.len(), 3, "{findings:#?}");
    assert!(hints[0].contains("`image` where `imgae` is written"), "{hints:?}");
    assert!(hints[1].contains("did you mean `git-clone`?"), "{hints:?}");
    assert!(!hints[2].contains("did you mean"), "{hints:?}");
    let meant =
        findings[0].suggestion.as_ref().map(|suggestion| (suggestion.from.as_str(), suggestion.to.as_str()));
    assert_eq!(meant, Some(("imgae", "image")));
}

#[test]
fn fields_that_nothing_acts_on_are_named_with_their_place() {
    let text = "version: '1.0'\nsteps:\n  image:\n    type: build\n    image_name: a/b\n    cosign: {sign: true}\n    arguments: {ssh: default}\n  run:\n    image: alpine\n    docker_machine: {use: {node: big}}\n  plugin:\n    type: acme/deploy:1.0.0\n    arguments: {role_arn: its-own, env: its-own}\n";
    expect(
        text,
        &[
            ("6:5 image", "`cosign` is not supported: runners refuse this step"),
            ("7:17 image", "`ssh` is not supported: runners refuse this step"),
            ("10:5 run", "`docker_machine` is not supported and has no effect"),
        ],
    );
}

/// R7: what the published validator takes is no error, and what has no effect is said.
#[test]
fn r7_arguments_that_are_no_map_are_an_error_only_where_they_are_looked_into() {
    let text = "version: '1.0'\nsteps:\n  run:\n    image: alpine\n    arguments: NA\n  all:\n    type: parallel\n    arguments: NA\n    steps:\n      in:\n        image: alpine\n        arguments: [a]\n  ask:\n    type: pending-approval\n    arguments: NA\n";
    expect(
        text,
        &[
            ("5:5 run", "`arguments` is not a map and has no effect"),
            ("8:5 all", "`arguments` is not a map and has no effect"),
            ("12:9 in", "`arguments` is not a map and has no effect"),
            ("15:16 ask", "\"arguments\" must be an object"),
        ],
    );
    let errors: Vec<_> = lint(text).into_iter().filter(Finding::is_error).collect();
    assert_eq!(errors.len(), 1, "{errors:#?}");
}

#[test]
fn broken_yaml_names_every_tab_and_both_places_of_a_repeated_key() {
    expect("version: '1.0'\nsteps:\n\ta: {}\n\tb: {}\n", &[("3:1", "tab"), ("4:1", "tab")]);
    expect("version: '1.0'\nversion: '1.0'\nsteps: {}\n", &[("2:1", "the first is at 1:1")]);
}

#[test]
fn names_in_conditions_and_dependencies_are_checked() {
    let text = "version: '1.0'\nsteps:\n  build: {image: a}\n  test:\n    image: a\n    when:\n      steps: [{name: biuld}]\n      condition: {all: {ok: 'steps.build.result === \"success\"'}}\n";
    expect(text, &[("7:22 test", "no step `biuld`"), ("8:29 test", "write `==`")]);
}

#[test]
fn outside_text_in_a_command_is_flagged() {
    let text = "version: '1.0'\nsteps:\n  a:\n    image: x\n    commands:\n      - echo \"${{CF_COMMIT_MESSAGE}}\"\n      - echo ${{CF_REVISION}}\n";
    expect(text, &[("6:9 a", "is text from outside")]);
}

#[test]
fn a_matrix_counts_as_what_it_expands_to() {
    let text = "version: '1.0'\nsteps:\n  t:\n    commands: [go]\n    matrix:\n      image: [a, b]\n";
    expect(text, &[]);
    let dimension = (0..17).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let huge = format!(
        "version: '1.0'\nsteps:\n  t:\n    image: x\n    matrix:\n      a: [{dimension}]\n      b: [{dimension}]\n"
    );
    expect(&huge, &[("5:5 t", "between 1 and 256")]);
}

#[test]
fn integrations_are_compared_with_the_account() {
    let account = Account {
        registries: vec![Registry { name: "dockerhub".to_owned(), ..Registry::default() }],
        ..Account::default()
    };
    let options = LintOptions { account: Some(account), ..LintOptions::default() };
    let text = "version: '1.0'\nsteps:\n  p: {type: push, candidate: x, registry: dockerhbu}\n  c: {type: git-clone, repo: a/b}\n";
    let findings = lint_text(text, &options).1;
    let codes: Vec<Option<u32>> = findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Some(202), Some(100)]);
    assert_eq!(findings[0].hint.as_deref(), Some("did you mean `dockerhub`?"));
}

#[test]
fn the_wire_answer_counts_and_keeps_warnings_valid() {
    let text = "version: '1.0'\nsteps:\n  a: {image: x, timeout: 5}\n";
    let answer = report(&lint(text));
    assert!(answer.valid);
    assert_eq!(answer.summarize, "✖ 1 problem (0 errors, 1 warning)");
    let answer = report(&lint("version: '1.0'\nsteps:\n  a: {}\n"));
    assert!(!answer.valid);
    assert!(answer.message.contains("\"image\" is required"));
    assert_eq!(answer.details[0]["stepName"], "a");
}

#[test]
fn hostile_files_are_refused_in_place() {
    let deep = format!("version: '1.0'\nsteps: {}", "[".repeat(10_000));
    assert!(lint(&deep).iter().any(|finding| finding.message.contains("nested deeper")));
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let previous = level - 1;
        let aliases = vec![format!("*a{previous}"); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    assert!(lint(&bomb).iter().any(|finding| finding.message.contains("aliases expand")));
}

#[test]
fn what_reaches_further_than_its_container_is_an_error_with_its_place() {
    let text = r#"version: '1.0'
services:
  composition:
    db: {image: 'oci:/var/lib', volumes: ['x:/m:O,upperdir=/etc,workdir=/var/tmp']}
steps:
  esc:
    image: dir:/etc
    volumes: ["x:/mnt/o:O,upperdir=/etc,workdir=/var/tmp", "a:/b:ro", "${{ANY}}:/c"]
    environment: ["SLIP*\nCLOUD*\nX=1", "*=a", "GOOD=1", "${{NAME}}=2"]
    hooks:
      on_fail:
        steps: {tidy: {image: x, volumes: ["../..:/m"]}}
  made: {type: build, image_name: x, tag: y, build_arguments: ["A B=1", "S=${{KEY}}"]}
  both:
    type: parallel
    steps: {inner: {image: x, volumes: ["/etc:/m"]}}
  together:
    type: composition
    composition: {version: '2', services: {one: {image: x, environment: {"A\nB": c}}}}
    composition_candidates: {two: {image: x, volumes: ["x:/proc"]}}
"#;
    expect(
        text,
        &[
            ("4:17 -", "`oci:/var/lib` is not the name of an image"),
            ("4:43 -", "no other options"),
            ("7:12 esc", "`dir:/etc` is not the name of an image"),
            ("8:15 esc", "no other options"),
            ("9:19 esc", "not the name of a variable"),
            ("9:41 esc", "not the name of a variable"),
            ("12:", "below the volume"),
            ("13:", "not the name of a build argument"),
            ("16:", "below the volume"),
            ("19:", "not the name of a variable"),
            ("20:", "the target is not yours"),
        ],
    );
}
