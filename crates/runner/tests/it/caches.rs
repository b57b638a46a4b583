//! Caches of dependencies and layers of images: what later builds find again, and what a fork's never reach.

use slipway_api::agent::{PullRequest, TakenBuild, TriggerCommit};

use crate::contract::next_id;
use crate::runner::{Harness, docker, harnesses, host, podman};
use crate::server::Record;

async fn run(harness: &Harness, yaml: &str, pipeline: &str, change: impl FnOnce(&mut TakenBuild)) -> Record {
    let id = next_id("cache");
    let mut taken = harness.server.build(&id, &yaml.replace("IMAGE", &harness.image));
    taken.pipeline_name = pipeline.to_owned();
    change(&mut taken);
    harness.server.add(taken);
    harness.server.finish(&id).await
}

pub fn of_fork(taken: &mut TakenBuild) {
    taken.from_fork = true;
    taken.commit = Some(TriggerCommit {
        pull_request: Some(PullRequest {
            head_repo: "eve/app".into(),
            is_fork: true,
            ..PullRequest::default()
        }),
        ..TriggerCommit::default()
    });
}

/// Says what it finds, then leaves WORD.
fn deps(word: &str) -> String {
    r#"
version: '1.0'
steps:
  lock: {image: IMAGE, commands: ['mkdir -p app', 'echo 1 > app/lock']}
  install:
    image: IMAGE
    working_directory: /codefresh/volume/app
    cache: {key: 'deps-${{LANG_NAME}}', files: [lock], paths: [deps, /codefresh/volume/.home], restore_keys: [deps-]}
    commands:
      - echo "found <$(cat deps/file 2>/dev/null)> <$(cat ../.home/file 2>/dev/null)>"
      - mkdir -p deps ../.home
      - echo WORD > deps/file
      - echo home > ../.home/file
"#
    .replace("WORD", word)
}

#[tokio::test]
async fn a_step_finds_what_an_earlier_build_kept_and_a_forks_is_kept_apart() {
    for harness in harnesses() {
        let pipeline = next_id("deps");
        let install = async |word: &str, change: fn(&mut TakenBuild)| {
            let record = run(harness, &deps(word), &pipeline, change).await;
            assert_eq!(record.status(), "success", "{}: {:#?}", harness.executor, record.logs);
            record.log("install").to_owned()
        };
        // A fork that comes first leaves nothing that the others find.
        let log = install("evil", of_fork).await;
        assert!(log.contains("nothing is cached under") && log.contains("\nfound <> <>\n"), "{log}");
        assert!(log.contains("saved ("), "{}: {log}", harness.executor);
        let log = install("good", |_| {}).await;
        assert!(log.contains("\nfound <> <>\n") && log.contains("saved ("), "{}: {log}", harness.executor);
        let log = install("newer", |_| {}).await;
        assert!(log.contains("restored (") && log.contains("\nfound <good> <home>\n"), "{log}");
        assert!(!log.contains("saved"), "its key names what is in it: {log}");
        // The fork has its own first; another key of it falls back on what the pipeline's builds have.
        let log = install("evil", of_fork).await;
        assert!(log.contains("\nfound <evil> <home>\n"), "{log}");
        let log = install("good", |_| {}).await;
        assert!(log.contains("\nfound <good> <home>\n"), "{}: {log}", harness.executor);
        // Whoever asks for a build from nothing gets one.
        let log = install("good", |taken| taken.options.no_cache = true).await;
        assert!(log.contains("\nfound <> <>\n") && !log.contains("restored"), "{log}");
        // Another pipeline has other caches.
        let other = run(harness, &deps("x"), &next_id("other"), |_| {}).await;
        assert!(other.log("install").contains("\nfound <> <>\n"));
    }
}

#[tokio::test]
async fn k72_a_fork_reads_what_main_kept_and_its_writes_never_come_back_to_main() {
    let harness = host();
    let pipeline = next_id("k72");
    let yaml = |word: &str| {
        format!(
            "version: '1.0'\nsteps:\n  s:\n    image: x\n    cache: {{key: main, paths: [deps]}}\n    commands: ['echo found $(cat deps/file)', 'mkdir -p deps', 'echo {word} > deps/file']\n"
        )
    };
    let see = async |word: &str, change: fn(&mut TakenBuild)| {
        let record = run(harness, &yaml(word), &pipeline, change).await;
        assert_eq!(record.status(), "success", "{:#?}", record.logs);
        record.log("s").lines().find(|line| line.starts_with("found")).unwrap_or_default().to_owned()
    };
    assert_eq!(see("main-1", |_| {}).await, "found");
    assert_eq!(see("evil", of_fork).await, "found main-1", "a fork may read");
    assert_eq!(see("main-2", |_| {}).await, "found main-1", "and its writes are its own");
    assert_eq!(see("evil-2", of_fork).await, "found evil");
    // A name of a pipeline cannot be chosen so that its scope is another's.
    let tricky = run(harness, &yaml("x"), &format!("{pipeline}\nown"), |_| {}).await;
    assert!(tricky.log("s").contains("\nfound\n"), "{}", tricky.log("s"));
}

#[tokio::test]
async fn k74_a_cache_neither_reads_nor_writes_outside_of_the_volume() {
    for harness in harnesses() {
        for (paths, why) in [
            ("[../../etc]", "has a `..` in it"),
            ("[/etc]", "not below /codefresh/volume"),
            ("[/codefresh/volume]", "the whole volume"),
            ("[a, a/b]", "in each other"),
        ] {
            let yaml = format!(
                "version: '1.0'\nsteps:\n  s:\n    image: IMAGE\n    cache: {{key: k, paths: {paths}}}\n    commands: ['echo never']\n"
            );
            let record = run(harness, &yaml, &next_id("k74"), |_| {}).await;
            let message = record.step("s").message.unwrap_or_default();
            assert_eq!(record.status(), "error", "{paths}");
            assert!(message.contains(why), "{paths}: {message}");
        }
        // The runner's own folder is what a link could lead to: its secrets, and other builds.
        let secret = harness.data.join("secret-of-the-runner");
        std::fs::write(&secret, "top-secret").unwrap();
        let pipeline = next_id("k74");
        let yaml = format!(
            r#"
version: '1.0'
steps:
  keep:
    image: IMAGE
    cache: {{key: '../../../../escape', paths: [deps]}}
    commands: ['mkdir -p deps', 'ln -s {data} deps/out', 'ln -s {data}/secret-of-the-runner deps/steal']
  swap: {{image: IMAGE, commands: ['rm -rf deps', 'ln -s {data} deps', 'mkdir real', 'ln -s {data} up']}}
  through:
    image: IMAGE
    cache: {{key: through, files: [up/secret-of-the-runner], paths: [up/builds]}}
    commands: ['echo it goes on']
  back:
    image: IMAGE
    cache: {{key: '../../../../escape', paths: [deps]}}
    commands: ['test -L deps/steal', 'cat deps/steal || echo nothing to steal', 'ls deps']
"#,
            data = harness.data.display()
        );
        let record = run(harness, &yaml, &pipeline, |_| {}).await;
        assert_eq!(record.status(), "success", "{}: {:#?}", harness.executor, record.logs);
        let through = record.log("through");
        assert!(
            through.contains("goes through a link") && through.contains("it goes on"),
            "{}: {through}",
            harness.executor
        );
        let back = record.log("back");
        assert!(back.contains("nothing to steal") && !back.contains("top-secret"), "{back}");
        assert!(secret.exists() && harness.data.join("builds").is_dir(), "nothing of the runner's was moved");
        let above = harness.data.parent().unwrap();
        assert!(!above.join("escape").exists() && !harness.data.join("escape").exists());
    }
}

/// Layers by Podman: the machine's own store for builds of ours, one that ends with the build for a fork's.
#[tokio::test]
async fn k79_a_forks_image_is_nobody_elses_and_its_layers_are_never_used() {
    let Some(harness) = podman() else { return };
    let (pipeline, name) = (next_id("k79"), next_id("layers"));
    let yaml = format!(
        r#"
version: '1.0'
steps:
  files: {{image: IMAGE, commands: ['echo $WORD > word']}}
  build:
    type: build
    image_name: {name}
    tag: latest
    working_directory: /codefresh/volume
    dockerfile: {{content: "FROM IMAGE\nRUN [\"/usr/bin/sh\", \"-c\", \"echo {name} > /made\"]\n"}}
  use: {{image: '${{{{build}}}}', commands: ['cat /made']}}
"#
    );
    let cached = "Using cache";
    let build = async |change: fn(&mut TakenBuild)| {
        let record = run(harness, &yaml, &pipeline, change).await;
        assert_eq!(record.status(), "success", "{:#?}", record.logs);
        assert!(record.log("use").contains(&format!("\n{name}\n")), "{}", record.log("use"));
        (record.log("build").contains(cached), record.taken.unwrap().id)
    };
    let exists = || {
        let image = format!("localhost/{name}:latest");
        let seen = std::process::Command::new("podman").args(["image", "exists", &image]).status();
        seen.unwrap().success()
    };
    let (used, id) = build(of_fork).await;
    assert!(!used && !exists(), "what the fork made is not in the machine's store");
    let dir = harness.data.join("builds").join(&id);
    let until = std::time::Instant::now() + slipway_testkit::PATIENCE;
    while dir.join("images").exists() && std::time::Instant::now() < until {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(!dir.join("images").exists(), "its store ends with the build");
    assert!(
        !build(|_| {}).await.0,
        "the same line of a Dockerfile, and the fork's layer is not taken for it"
    );
    assert!(exists());
    assert!(build(|_| {}).await.0, "an earlier build's own layer is");
    assert!(build(of_fork).await.0, "also by a fork, which may read it");
    assert!(!build(|taken| taken.options.no_cache = true).await.0);
    assert!(!build(|taken| taken.options.no_cf_cache = true).await.0);
    let _ = std::process::Command::new("podman")
        .args(["rmi", "-f", &format!("localhost/{name}:latest")])
        .output();
}

/// Docker has one store for all, so a fork leaves nothing there; its other steps run.
#[tokio::test]
async fn k79_on_docker_a_fork_makes_no_images_and_others_push_theirs() {
    let Some(harness) = docker() else { return };
    let registry = slipway_testkit::Registry::start();
    let (pipeline, name) = (next_id("k79"), next_id("pushed"));
    let yaml = format!(
        r#"
version: '1.0'
steps:
  say: {{image: IMAGE, commands: ['echo said']}}
  build:
    type: build
    image_name: team/{name}
    tag: v1
    working_directory: /codefresh/volume
    dockerfile: {{content: "FROM IMAGE\nRUN [\"/usr/bin/sh\", \"-c\", \"echo {name} > /made\"]\n"}}
  push: {{type: push, candidate: '${{{{build}}}}', registry: '{address}', tags: [v2]}}
  use: {{image: '{address}/team/{name}:v2', commands: ['cat /made']}}
"#,
        address = registry.address()
    );
    let record = run(harness, &yaml, &pipeline, of_fork).await;
    assert!(record.log("say").contains("\nsaid\n"), "{}", record.log("say"));
    let message = record.step("build").message.unwrap_or_default();
    assert!(message.contains("the pull request of a fork") && message.contains("Podman"), "{message}");
    let record = run(harness, &yaml, &pipeline, |_| {}).await;
    assert_eq!(record.status(), "success", "{:#?} {:#?}", record.report, record.logs);
    assert!(record.log("use").contains(&format!("\n{name}\n")), "{}", record.log("use"));
    for image in [format!("localhost/team/{name}:v1"), format!("{}/team/{name}:v2", registry.address())] {
        let _ = std::process::Command::new("docker").args(["rmi", "-f", &image]).output();
    }
}
