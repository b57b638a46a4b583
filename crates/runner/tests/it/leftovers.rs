//! What a build may not leave on the machine: containers, pods, secrets, networks, volumes, processes, mounts.
//!
//! Asked of every build that a test waits for; builds of tests have ids that nobody else has.

use std::process::{Command, Stdio};
use std::time::Duration;

use slipway_testkit::Kube;

use crate::contract::next_id;
use crate::runner::{Harness, harnesses, namespace, podman};

/// Ends the test if something of this build is left.
pub async fn none(build: &str, executor: &str) {
    let until = tokio::time::Instant::now() + slipway_testkit::PATIENCE;
    loop {
        let (id, executor) = (build.to_owned(), executor.to_owned());
        let left = tokio::task::spawn_blocking(move || of(&id, &executor)).await.unwrap();
        if left.is_empty() {
            return;
        }
        assert!(tokio::time::Instant::now() < until, "build {build} is over and left behind: {left:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn of(build: &str, executor: &str) -> Vec<String> {
    let mut left = Vec::new();
    if matches!(executor, "podman" | "docker") {
        let label = format!("label=io.slipway.build={build}");
        left.extend(ask(executor, &["ps", "--all", "--filter", &label, "--format={{.Names}} {{.Status}}"]));
        for kind in ["network", "volume"] {
            let all = ask(executor, &[kind, "ls", "--format={{.Name}}"]);
            left.extend(all.into_iter().filter(|name| name.contains(build)));
        }
    }
    if executor == "kubernetes" {
        let label = format!("slipway.io/build={build}");
        let found = Kube::shared().kubectl(&[
            "--namespace",
            namespace(),
            "get",
            "pods,secrets,persistentvolumeclaims",
            "--output=name",
            "--selector",
            &label,
        ]);
        left.extend(found.lines().map(str::to_owned));
    }
    left.extend(processes(build));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    left.extend(mounts.lines().filter(|line| line.contains(&format!("/builds/{build}"))).map(str::to_owned));
    left
}

/// Supervisors and what they started are given paths with the id of their build.
fn processes(build: &str) -> Vec<String> {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| {
            line.contains(&format!("/builds/{build}/")) || line.contains(&format!("slipway-{build}-"))
        })
        .collect()
}

fn ask(engine: &str, arguments: &[&str]) -> Vec<String> {
    let output = Command::new(engine).args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{engine} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn engines() -> impl Iterator<Item = &'static Harness> {
    harnesses().into_iter().filter(|harness| matches!(harness.executor, "podman" | "docker"))
}

/// The first service has the network that all others use; it cannot be removed before them.
#[tokio::test]
async fn a_composition_with_several_candidates_leaves_nothing_running() {
    for harness in engines() {
        let idle = "{image: IMAGE, entrypoint: [sh, -c], command: ['sleep 600']}";
        let yaml = format!(
            r#"
version: '1.0'
services:
  composition:
    of_build: {idle}
    other_of_build: {idle}
steps:
  compose:
    type: composition
    composition: {{version: '3', services: {{one: {idle}, two: {idle}, three: {idle}}}}}
    composition_candidates:
      first: {{image: IMAGE, entrypoint: [sh, -c], command: ['true']}}
      second: {{image: IMAGE, entrypoint: [sh, -c], command: ['sleep 1']}}
"#
        );
        let id = next_id("left");
        harness.server.add(harness.server.build(&id, &yaml.replace("IMAGE", &harness.image)));
        let record = harness.server.finish(&id).await;
        assert_eq!(record.status(), "success", "{}: {:#?}", harness.executor, record.logs);
    }
}

/// Its services are being waited for by a container that has no name, in a client that is killed.
#[tokio::test]
async fn a_step_that_is_stopped_while_its_services_start_leaves_nothing_running() {
    for harness in engines() {
        let yaml = r#"
version: '1.0'
steps:
  waits:
    image: IMAGE
    timeout: 5s
    services:
      composition: {one: {image: IMAGE, entrypoint: [sh, -c], command: ['sleep 600']}}
      readiness: {image: IMAGE, periodSeconds: 1, failureThreshold: 600, commands: ['sleep 600']}
    commands: ['true']
"#;
        let id = next_id("left");
        harness.server.add(harness.server.build(&id, &yaml.replace("IMAGE", &harness.image)));
        let record = harness.server.finish(&id).await;
        assert_eq!(record.status(), "error", "{}: {:#?}", harness.executor, record.logs);
        let why = record.step("waits").message.unwrap_or_default();
        assert!(why.contains("timeout") && !why.contains("clean-up"), "{}: {why}", harness.executor);
    }
}

/// Found by what is in it: nothing else tells an anonymous volume from another.
#[tokio::test]
async fn volumes_that_images_ask_for_end_with_their_containers() {
    for harness in engines() {
        let engine = harness.executor;
        let id = next_id("left");
        let folder = tempfile::tempdir().unwrap();
        let image = format!("localhost/slipway-volumes-{id}");
        let text = format!("FROM {}\nVOLUME /data\n", harness.image);
        std::fs::write(folder.path().join("Dockerfile"), text).unwrap();
        ask(engine, &["build", "--quiet", "--tag", &image, folder.path().to_str().unwrap()]);
        let yaml = r#"
version: '1.0'
services:
  composition:
    beside: {image: IMAGE, entrypoint: [sh, -c], command: ['touch /data/ID; touch /marks/ID; sleep 600'], volumes: ['./marks:/marks']}
  readiness: {image: IMAGE, periodSeconds: 1, failureThreshold: 60, commands: ['touch /data/ID', 'test -e marks/ID || test -e /codefresh/volume/marks/ID']}
steps:
  own: {image: IMAGE, commands: ['touch /data/ID']}
"#;
        let yaml = yaml.replace("IMAGE", &image).replace("ID", &id);
        harness.server.add(harness.server.build(&id, &yaml));
        let record = harness.server.finish(&id).await;
        assert_eq!(record.status(), "success", "{engine}: {:#?}", record.logs);
        let root = match engine {
            "podman" => ask(engine, &["info", "--format={{.Store.VolumePath}}"]).join(""),
            _ => format!("{}/volumes", ask(engine, &["info", "--format={{.DockerRootDir}}"]).join("")),
        };
        let found: Vec<_> = std::fs::read_dir(&root)
            .into_iter()
            .flatten()
            .flatten()
            .map(|volume| volume.path().join("_data").join(&id))
            .filter(|file| file.exists())
            .collect();
        ask(engine, &["rmi", "--force", &image]);
        assert!(found.is_empty(), "{engine} has volumes of the build: {found:?}");
    }
}

/// A container that belongs to this runner and to no living build goes, at any time; one of a living build stays.
#[tokio::test]
async fn what_belongs_to_no_living_build_is_swept_while_the_runner_runs() {
    let Some(harness) = podman() else { return };
    let id = next_id("left");
    let yaml = "version: '1.0'\nsteps:\n  lives: {image: IMAGE, commands: ['sleep 15']}\n";
    harness.server.add(harness.server.build(&id, &yaml.replace("IMAGE", &harness.image)));
    let own = format!("slipway-{id}-lives-1");
    let alive = |name: &str| ask("podman", &["ps", "--filter", &format!("name=^{name}$"), "--quiet"]).len();
    let until = std::time::Instant::now() + slipway_testkit::PATIENCE;
    while alive(&own) == 0 {
        assert!(std::time::Instant::now() < until, "the step never started");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Of the same runner, as the living container says, and of a build that nobody knows.
    let label = "--format={{index .Config.Labels \"io.slipway.runner\"}}";
    let owner = ask("podman", &["container", "inspect", label, &own]).join("");
    let orphan = format!("slipway-orphan-{id}");
    let started = Command::new("podman")
        .args(["run", "--detach", "--name", &orphan, "--label=io.slipway.build=nobodys"])
        .arg(format!("--label=io.slipway.runner={owner}"))
        .args(["--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"])
        .args(["--entrypoint=sleep", &harness.image, "600"])
        .output()
        .unwrap();
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    while alive(&orphan) == 1 {
        assert!(std::time::Instant::now() < until, "what is nobody's is not swept");
        assert_eq!(alive(&own), 1, "what is of a living build stays");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(harness.server.finish(&id).await.status(), "success");
}
