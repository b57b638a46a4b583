//! Typed steps: definitions of the account are asked for by name, kept, and run in the order of their text.

use serde_json::json;
use slipway_api::agent::PipelineSource;

use crate::contract::next_id;
use crate::runner::{Harness, Process, docker, host, podman};
use crate::server::{Record, Server};

fn executors() -> impl Iterator<Item = &'static Harness> {
    std::iter::once(host()).chain(podman()).chain(docker())
}

/// Manifests are texts: the order of their steps is what is tested.
fn manifest(name: &str, version: &str, steps: &str) -> String {
    format!(
        r#"{{"kind":"step-type","metadata":{{"name":"{name}","version":"{version}"}},"spec":{{"steps":{steps}}}}}"#
    )
}

async fn run(harness: &Harness, types: &[String], yaml: &str) -> Record {
    let id = next_id("typed");
    harness.server.add_with_types(harness.server.build(&id, &yaml.replace("IMAGE", &harness.image)), types);
    harness.server.finish(&id).await
}

fn said(record: &Record, step: &str, word: &str) -> Vec<String> {
    record.log(step).lines().filter(|line| line.starts_with(word)).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_definition_with_several_steps_runs_in_the_order_of_its_text() {
    for harness in executors() {
        let steps = r#"{
            "zero": {"image": "IMAGE", "commands": ["echo did zero ${{WHO}}", "echo kept > /codefresh/volume/of-zero", "cf_export FIRST=from-zero"]},
            "alpha": {"image": "IMAGE", "commands": ["echo did alpha $FIRST", "cat /codefresh/volume/of-zero"], "retry": {"maxAttempts": 2}},
            "skipped": {"image": "IMAGE", "commands": ["echo did skipped"], "when": {"condition": {"all": {"never": "1 == 2"}}}},
            "mid": {"image": "IMAGE", "commands": ["echo did mid", "cf_export LAST=from-mid"]}
        }"#;
        let types = [manifest("team/several", "1.0.0", &steps.replace("IMAGE", &harness.image))];
        let record = run(
            harness,
            &types,
            r#"
version: '1.0'
steps:
  typed: {type: team/several, arguments: {WHO: Ada}}
  after: {image: IMAGE, commands: ['echo did after $FIRST ${{steps.typed.output.LAST}}']}
"#,
        )
        .await;
        assert_eq!(record.status(), "success", "{}: {:#?}", harness.executor, record.logs);
        let expected = ["did zero Ada", "did alpha from-zero", "did mid"];
        assert_eq!(said(&record, "typed", "did"), expected, "{}: {:#?}", harness.executor, record.logs);
        assert_eq!(said(&record, "typed", "kept"), ["kept"], "the volume is one");
        assert_eq!(said(&record, "after", "did"), ["did after from-zero from-mid"], "{:#?}", record.logs);
    }
}

#[tokio::test]
async fn a_step_that_fails_inside_ends_the_typed_step_and_says_which() {
    let harness = host();
    let steps = r#"{"first": {"image": "x", "commands": ["echo did first"]}, "bad": {"image": "x", "commands": ["exit 7"]}, "after": {"image": "x", "commands": ["echo did after"]}}"#;
    let yaml = "version: '1.0'\nsteps:\n  typed: {type: team/fails}\n  never: {image: x, commands: ['echo did never']}\n";
    let record = run(harness, &[manifest("team/fails", "1.0.0", steps)], yaml).await;
    assert_eq!(record.status(), "error");
    assert_eq!(said(&record, "typed", "did"), ["did first"]);
    assert!(record.log("typed").contains("`bad` did not succeed"), "{}", record.log("typed"));
    assert_eq!(record.step("typed").exit_code, Some(7));
}

#[tokio::test]
async fn only_what_is_named_is_asked_for_also_when_the_pipeline_is_in_git() {
    let harness = host();
    let types: Vec<String> = ["team/one", "team/two"]
        .iter()
        .map(|name| manifest(name, "1.0.0", r#"{"say": {"image": "x", "commands": ["echo did it"]}}"#))
        .collect();
    harness.server.repository(
        "team/typed",
        &[("p.yml", "version: '1.0'\nsteps:\n  one: {type: 'team/one:1.0.0'}\n  commit: {image: x, commands: ['true']}\n")],
    );
    let id = next_id("typed");
    let mut taken = harness.server.build(&id, "");
    taken.source = PipelineSource::Git { repo: "team/typed".into(), path: "p.yml".into(), revision: None };
    harness.server.add_with_types(taken, &types);
    let record = harness.server.finish(&id).await;
    assert_eq!(record.status(), "success", "{:#?}", record.logs);
    assert_eq!(record.asked, [vec!["team/one:1.0.0".to_owned()]]);
    let plain = run(harness, &types, "version: '1.0'\nsteps:\n  say: {image: x, commands: ['true']}\n").await;
    assert_eq!(plain.asked, Vec::<Vec<String>>::new(), "a build without typed steps asks for nothing");
}

/// A definition that is replaced while a build runs does not change the build, also when its runner is killed.
#[tokio::test]
async fn a_build_goes_on_with_the_definitions_that_it_began_with() {
    let server = Server::start().await;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let runner = Process::start(&server, &data, "host");
    let say =
        |word: &str| json!({"say": {"image": "x", "commands": [format!("echo did {word}")]}}).to_string();
    let yaml = "version: '1.0'\nsteps:\n  held: {image: x, commands: ['echo waiting', 'until test -e /codefresh/volume/go; do sleep 0.05; done']}\n  typed: {type: team/say}\n";
    let id = next_id("typed");
    server.add_with_types(server.build(&id, yaml), &[manifest("team/say", "1.0.0", &say("old"))]);
    server.wait(&id, "the first step", |record| record.log("held").contains("\nwaiting\n")).await;
    runner.kill();
    server.change(&id, |record| record.types = vec![manifest("team/say", "1.0.0", &say("new"))]);
    let _again = Process::start(&server, &data, "host");
    std::fs::write(data.join("builds").join(&id).join("volume/go"), "").unwrap();
    let record = server.finish(&id).await;
    assert_eq!(record.status(), "success", "{:#?}", record.logs);
    assert_eq!(said(&record, "typed", "did"), ["did old"]);
    assert_eq!(record.asked.len(), 1, "asked once");
}
