//! kill -9 of the runner and of supervisors, a server that goes away, a build that is taken from us.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::contract::next_id;
use crate::runner::{Process, SHIM, config, docker, kubernetes, podman};
use crate::server::{Record, Server, sh};

/// Steps that say in the volume that they ran, and in the log how far they came.
const WITNESSED: &str = r#"
version: '1.0'
steps:
  main_clone: {type: git-clone, repo: REPO, working_directory: /codefresh/volume}
  one: {image: IMAGE, working_directory: /codefresh/volume, commands: [SAY]}
  block:
    type: parallel
    steps:
      left: {image: IMAGE, working_directory: /codefresh/volume, commands: [SAY]}
      right: {image: IMAGE, working_directory: /codefresh/volume, commands: [SAY]}
  flaky:
    image: IMAGE
    working_directory: /codefresh/volume
    retry: {maxAttempts: 3, delay: 0.1}
    commands: [SAY, "test $CF_CURRENT_ATTEMPT = 2"]
  edit: {image: IMAGE, commands: ["echo ${{CF_BUILD_ID}} > ${{CF_BUILD_ID}}.txt"]}
  deploy:
    type: git-commit
    arguments: {repo: REPO, working_directory: '${{main_clone}}', commit_message: 'Deploy ${{CF_BUILD_ID}}'}
  last: {image: IMAGE, working_directory: /codefresh/volume, commands: [SAY]}
"#;
const SAY: &str = r#"'echo "$CF_STEP_NAME $CF_CURRENT_ATTEMPT" >> witness; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "line $i of $CF_STEP_NAME/$CF_CURRENT_ATTEMPT"; sleep 0.02; done'"#;

fn witnessed(image: &str, repo: &str) -> String {
    WITNESSED.replace("SAY", SAY).replace("IMAGE", image).replace("REPO", repo)
}

fn check(record: &Record, data: &Path, attempts: &[(&str, u32)]) {
    let id = &record.taken.as_ref().unwrap().id;
    assert_eq!(record.status(), "success", "{id}: {:#?} {:#?}", record.report, record.logs);
    let witness = std::fs::read_to_string(data.join("builds").join(id).join("volume/witness")).unwrap();
    let mut ran: BTreeMap<&str, u32> = BTreeMap::new();
    for line in witness.lines() {
        *ran.entry(line).or_default() += 1;
    }
    let expected: BTreeMap<String, u32> =
        attempts.iter().map(|(step, attempt)| (format!("{step} {attempt}"), 1)).collect();
    let ran: BTreeMap<String, u32> = ran.into_iter().map(|(line, count)| (line.to_owned(), count)).collect();
    assert_eq!(ran, expected, "{id}: every attempt ran exactly once");
    for (step, attempt) in attempts {
        let lines: Vec<&str> = record
            .log(step)
            .lines()
            .filter(|line| line.starts_with("line ") && line.ends_with(&format!("{step}/{attempt}")))
            .collect();
        let expected: Vec<String> = (1..=12).map(|n| format!("line {n} of {step}/{attempt}")).collect();
        assert_eq!(lines, expected, "{id}: the log of {step}, attempt {attempt}");
    }
}

const ATTEMPTS: [(&str, u32); 6] =
    [("one", 1), ("left", 1), ("right", 1), ("flaky", 1), ("flaky", 2), ("last", 1)];

async fn killed_again_and_again(executor: &str, image: &str, kills: u32, builds: u32) {
    let server = Server::start().await;
    let bare = server.repository("team/app", &[("a.txt", "a\n")]);
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let ids: Vec<String> = (0..builds).map(|_| next_id("kill")).collect();
    for id in &ids {
        server.add(server.build(id, &witnessed(image, "team/app")));
    }
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
    let mut seed = u64::from(nanos) | 1;
    println!("seed {seed}");
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    // Long enough for it to come up; then anything may be under way.
    let most = match executor {
        "host" => 450,
        "podman" | "docker" => 1_200,
        _ => 2_500,
    };
    let mut done = 0;
    let mut during = 0;
    while done < kills {
        let runner = Process::start(&server, &data, executor);
        tokio::time::sleep(Duration::from_millis(20 + random() % most)).await;
        during += u32::from(ids.iter().any(|id| !server.get(id).is_over()));
        runner.kill();
        done += 1;
        if ids.iter().all(|id| server.get(id).is_over()) {
            break;
        }
    }
    let _last = Process::start(&server, &data, executor);
    for id in &ids {
        let record = server.finish(id).await;
        check(&record, &data, &ATTEMPTS);
    }
    println!("{during} kills while builds ran");
    assert!(during >= kills.min(20), "only {during} kills hit a running build");
    for id in &ids {
        let marks = sh(&bare, &format!("git log --format=%B main | grep -c 'Slipway-Build: {id}/deploy'"));
        assert_eq!(marks, "1", "{id} pushed once");
    }
}

#[tokio::test]
async fn a_runner_on_the_host_that_is_killed_goes_on_and_repeats_nothing() {
    // The short form is one round; a long one is asked for by the number of rounds.
    let rounds = std::env::var("SLIPWAY_TEST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for _ in 0..rounds {
        killed_again_and_again("host", "x", 25, 6).await;
    }
}

#[tokio::test]
async fn a_runner_on_podman_that_is_killed_goes_on_and_repeats_nothing() {
    if let Some(harness) = podman() {
        killed_again_and_again("podman", &harness.image, 20, 3).await;
    }
}

#[tokio::test]
async fn a_runner_on_docker_that_is_killed_goes_on_and_repeats_nothing() {
    if let Some(harness) = docker() {
        killed_again_and_again("docker", &harness.image, 20, 3).await;
    }
}

#[tokio::test]
async fn a_runner_on_kubernetes_that_is_killed_goes_on_and_repeats_nothing() {
    killed_again_and_again("kubernetes", &kubernetes().image, 8, 2).await;
}

/// Processes whose command line holds all of these.
pub fn processes(words: &[&str]) -> Vec<u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            words.iter().all(|word| line.contains(word)).then_some(pid)
        })
        .collect()
}

pub fn kill(pids: &[u32]) {
    assert!(!pids.is_empty(), "there is a process to kill");
    for pid in pids {
        sh(Path::new("/"), &format!("kill -9 {pid}"));
    }
}

const SLOW: &str = r#"
version: '1.0'
steps:
  slow: {image: IMAGE, commands: ['echo "$CF_STEP_NAME $CF_CURRENT_ATTEMPT" >> witness', echo begun, sleep 2, echo ended]}
"#;

#[tokio::test]
async fn a_step_of_the_host_that_lost_its_supervisor_is_run_again_as_a_new_attempt() {
    let server = Server::start().await;
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let _runner = Process::start(&server, &data, "host");
    // The supervisor, and the first process of the sandbox, which is its child.
    for whom in ["supervise", "init"] {
        let id = next_id("lost");
        server.add(server.build(&id, &SLOW.replace("IMAGE", "x")));
        server.wait(&id, "a running step", |record| record.log("slow").contains("\nbegun\n")).await;
        kill(&processes(&[whom, &id]));
        let record = server.finish(&id).await;
        let log = record.log("slow");
        assert_eq!(record.status(), "success", "{whom}: {log}");
        assert_eq!(record.step("slow").attempt, 2);
        assert!(log.contains("Attempt 1 was interrupted") && log.contains("A new attempt starts"), "{log}");
        let witness = std::fs::read_to_string(data.join("builds").join(&id).join("volume/witness")).unwrap();
        assert_eq!(witness, "slow 1\nslow 2\n");
        assert!(processes(&["init", &id]).is_empty(), "the first attempt's processes are gone");
    }
}

/// Killed between its start and the moment at which it claims the attempt: nothing has run, and another one goes on.
#[tokio::test]
async fn a_supervisor_that_is_killed_before_it_begins_is_no_failure_of_the_step() {
    let server = Server::start().await;
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("shim");
    let once = place.path().join("killed-once");
    let text = format!(
        "#!/bin/sh\nif [ \"$2\" = supervise ] && mkdir '{}' 2>/dev/null; then kill -9 $$; fi\nexec '{SHIM}' \"$@\"\n",
        once.display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut config = config(&server, &place.path().join("data"), "host");
    config.shim = Some(script);
    let stop = CancellationToken::new();
    let running = tokio::spawn(slipway_runner::run(config, stop.clone()));
    let id = next_id("lost");
    server.add(server.build(&id, "version: '1.0'\nsteps:\n  say: {image: x, commands: ['echo did it']}\n"));
    let record = server.finish(&id).await;
    let log = record.log("say");
    assert_eq!(record.status(), "success", "{log}");
    assert!(once.exists() && log.contains("\ndid it\n"), "{log}");
    assert!(log.contains("went down before it could begin its work. A new attempt starts"), "{log}");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_container_that_lost_its_supervisor_is_found_again_with_its_end_and_its_log() {
    for harness in podman().into_iter().chain(docker()) {
        found_again(harness.executor, &harness.image).await;
    }
}

#[tokio::test]
async fn a_pod_that_lost_its_supervisor_is_found_again_with_its_end_and_its_log() {
    found_again("kubernetes", &kubernetes().image).await;
}

async fn found_again(executor: &str, image: &str) {
    let server = Server::start().await;
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let mut runner = Process::start(&server, &data, executor);
    for when in ["while it runs", "after it has ended"] {
        let id = next_id("lost");
        server.add(server.build(&id, &SLOW.replace("IMAGE", image)));
        server.wait(&id, "a running step", |record| record.log("slow").contains("\nbegun\n")).await;
        if when == "after it has ended" {
            // As after a power cut: nobody was there when the container ended.
            runner.kill();
            kill(&processes(&["supervise", &id]));
            tokio::time::sleep(Duration::from_secs(3)).await;
            runner = Process::start(&server, &data, executor);
        } else {
            kill(&processes(&["supervise", &id]));
        }
        let record = server.finish(&id).await;
        let log = record.log("slow");
        assert_eq!((record.status(), record.step("slow").attempt), ("success", 1), "{when}: {log}");
        assert!(
            log.ends_with("begun\nExecuting command: sleep 2\nExecuting command: echo ended\nended\n"),
            "{when}: {log}"
        );
        let witness = std::fs::read_to_string(data.join("builds").join(&id).join("volume/witness")).unwrap();
        assert_eq!(witness, "slow 1\n", "{when}");
    }
}

#[tokio::test]
async fn a_build_goes_on_while_the_server_is_away_and_nothing_is_lost() {
    let server = Server::start().await;
    server.repository("team/app", &[("a.txt", "a\n")]);
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let _runner = Process::start(&server, &data, "host");
    let id = next_id("away");
    server.add(server.build(&id, &witnessed("x", "team/app")));
    server.wait(&id, "its first step", |record| record.log("one").contains("line 2")).await;
    server.set_down(true);
    let witness = data.join("builds").join(&id).join("volume/witness");
    let until = Instant::now() + slipway_testkit::PATIENCE;
    while !std::fs::read_to_string(&witness).unwrap_or_default().contains("last 1") {
        assert!(Instant::now() < until, "the build went on without the server");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.set_down(false);
    check(&server.finish(&id).await, &data, &ATTEMPTS);
}

#[tokio::test]
async fn after_a_restart_nothing_new_starts_before_the_server_has_answered() {
    let server = Server::start().await;
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let runner = Process::start(&server, &data, "host");
    let id = next_id("hold");
    let yaml = "version: '1.0'\nsteps:\n  slow: {image: x, commands: [sleep 1]}\n  next: {image: x, commands: ['echo x >> witness']}\n";
    server.add(server.build(&id, yaml));
    server
        .wait(&id, "a running step", |record| {
            let mut steps = record.report.iter().flat_map(|report| &report.steps);
            steps.any(|step| step.name == "slow" && step.status == "running")
        })
        .await;
    runner.kill();
    server.set_down(true);
    let _runner = Process::start(&server, &data, "host");
    let exit = data.join("builds").join(&id).join("steps/slow/1/exit.json");
    let until = Instant::now() + slipway_testkit::PATIENCE;
    while !exit.exists() {
        assert!(Instant::now() < until, "the running step ends by itself");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(
        !data.join("builds").join(&id).join("steps/next").exists(),
        "a step began without the server's word"
    );
    // Meanwhile the server has given the build to somebody else.
    server.change(&id, |record| record.lost = true);
    server.set_down(false);
    let until = Instant::now() + slipway_testkit::PATIENCE;
    while data.join("builds").join(&id).exists() {
        assert!(Instant::now() < until, "the build is forgotten");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_fenced_build_is_stopped_and_forgotten() {
    let server = Server::start().await;
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let _runner = Process::start(&server, &data, "host");
    let id = next_id("fenced");
    let yaml = "version: '1.0'\nsteps:\n  slow: {image: x, commands: [echo begun, 'while true; do echo more; sleep 0.1; done']}\n";
    server.add(server.build(&id, yaml));
    server.wait(&id, "a running step", |record| record.log("slow").contains("\nbegun\n")).await;
    // Another runner has it now, under the next epoch; the double gives it to nobody.
    server.change(&id, |record| {
        record.epoch += 1;
        record.taken = None;
    });
    let held = server.get(&id).log("slow").len();
    let folder = data.join("builds").join(&id);
    let until = Instant::now() + slipway_testkit::PATIENCE;
    while folder.exists() {
        assert!(Instant::now() < until, "the build is forgotten");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(processes(&["supervise", &id]).is_empty());
    assert_eq!(server.get(&id).log("slow").len(), held, "nothing was taken under the old epoch");
}

#[tokio::test]
async fn the_folders_of_the_last_ten_finished_builds_are_kept_without_their_secrets() {
    let server = Server::start().await;
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let _runner = Process::start(&server, &data, "host");
    let mut ids = Vec::new();
    for _ in 0..13 {
        let id = next_id("kept");
        let mut taken = server.build(&id, "version: '1.0'\nsteps:\n  s: {image: x, commands: ['true']}\n");
        let variables = vec![crate::server::variable("TOKEN", "s3cret-canary", true)];
        taken.variables = vec![slipway_api::agent::VariableLayer { name: "project".into(), variables }];
        server.add(taken);
        server.finish(&id).await;
        ids.push(id);
    }
    let kept = || {
        let mut names: Vec<String> = std::fs::read_dir(data.join("builds"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let mut expected = ids[3..].to_vec();
    expected.sort();
    let until = Instant::now() + slipway_testkit::PATIENCE;
    while kept() != expected {
        assert!(Instant::now() < until, "{:?}", kept());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let found =
        std::process::Command::new("grep").args(["-rl", "s3cret-canary"]).arg(&data).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}
