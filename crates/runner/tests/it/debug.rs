//! Breakpoints and shells in paused steps, and limits of CPU and memory, on each executor that this machine has.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use slipway_api::debug::{DebugOrder, Phases};

use crate::contract::next_id;
use crate::runner::{Harness, config, harnesses, host};
use crate::server::{Record, Server};

fn order(action: &str, build: &str, step: &str, phase: &str) -> DebugOrder {
    DebugOrder {
        id: next_id("order"),
        build: build.into(),
        action: action.into(),
        step: step.into(),
        phase: phase.into(),
        by: "ada".into(),
        columns: 100,
        rows: 30,
        ..DebugOrder::default()
    }
}

fn start(harness: &Harness, yaml: &str, change: impl FnOnce(&mut slipway_api::agent::TakenBuild)) -> String {
    let id = next_id("debug");
    let mut taken = harness.server.build(&id, &yaml.replace("IMAGE", &harness.image));
    taken.options.debug = true;
    change(&mut taken);
    harness.server.add(taken);
    id
}

fn phase(record: &Record, step: &str) -> Option<String> {
    let report = record.report.as_ref()?;
    let step = report.steps.iter().find(|known| known.name == step)?;
    step.paused.as_ref().map(|paused| paused.phase.clone())
}

async fn paused(server: &Server, id: &str, step: &str, wanted: &str) -> Record {
    server
        .wait(id, &format!("{step} paused {wanted}"), |record| phase(record, step).as_deref() == Some(wanted))
        .await
}

/// Types a line into a shell and waits until it has printed something.
async fn ask(server: &Server, id: &str, shell: &str, line: &str, expect: &str) {
    server.change(id, |record| record.typed.entry(shell.to_owned()).or_default().extend(line.as_bytes()));
    let printed = |record: &Record| {
        let bytes = record.printed.get(shell).cloned().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    server
        .wait(id, &format!("`{expect}` in the shell"), |record| {
            assert!(
                !record.shut.contains_key(shell),
                "the shell ended: {:?} {}",
                record.shut,
                printed(record)
            );
            printed(record).contains(expect)
        })
        .await;
}

#[tokio::test]
async fn a_person_looks_around_before_and_after_a_step_and_lets_it_go_on() {
    for harness in harnesses() {
        let server = &harness.server;
        let yaml = r#"
version: '1.0'
steps:
  work:
    image: IMAGE
    environment: ["COLOUR=blue"]
    commands: ["cat seen-before", "echo done > made-by-the-step"]
    debug: {phases: {before: true, after: true}}
"#;
        let id = start(harness, yaml, |_| {});
        let record = paused(server, &id, "work", "before").await;
        assert_eq!(record.status(), "running", "{}", harness.executor);
        let shell = order("shell", &id, "work", "before");
        server.change(&id, |record| record.debug.push(shell.clone()));
        // What the shell prints is not what was typed, so that an echo is no answer.
        let line = "echo \"in $((40+2)) $COLOUR\"; echo left-here > seen-before; stty size 2>/dev/null\n";
        ask(server, &id, &shell.id, line, "in 42 blue").await;
        server.change(&id, |record| record.debug.push(order("continue", &id, "work", "before")));

        paused(server, &id, "work", "after").await;
        // The pause may be told before the last lines of the log.
        server.wait(&id, "what the step printed", |record| record.log("work").contains("left-here")).await;
        server.wait(&id, "the first shell closed", |record| record.shut.contains_key(&shell.id)).await;
        let second = order("shell", &id, "work", "after");
        server.change(&id, |record| record.debug.push(second.clone()));
        ask(server, &id, &second.id, "echo \"r$(cat made-by-the-step)y\"\n", "rdoney").await;
        server.change(&id, |record| record.debug.push(order("continue", &id, "work", "after")));
        let record = server.finish(&id).await;
        assert_eq!(record.status(), "success", "{}: {:?}", harness.executor, record.report);
        let log = record.log("work");
        assert!(log.contains("ada opened a shell") && log.contains("ada lets the step go on"), "{log}");
        // Nothing of a shell is in what is kept.
        assert!(!record.traffic.contains("in 42 blue") && !log.contains("rdoney"), "{log}");
    }
}

#[tokio::test]
async fn a_step_that_fails_stops_a_build_that_is_debugged_and_a_person_can_stand_in_for_commands() {
    let harness = host();
    let yaml = r#"
version: '1.0'
steps:
  mine: {image: IMAGE, commands: ["echo never"]}
  fails: {image: IMAGE, commands: ["echo ${{ANSWER}}", "exit 3"]}
"#;
    let id = start(harness, yaml, |taken| {
        taken.options.breakpoints.insert("mine".into(), Phases { instead: true, ..Phases::default() });
    });
    let server = &harness.server;
    paused(server, &id, "mine", "override").await;
    let shell = order("shell", &id, "mine", "override");
    server.change(&id, |record| record.debug.push(shell.clone()));
    ask(server, &id, &shell.id, "/codefresh/volume/cf_export ANSWER=forty-two && echo o''k\n", "ok").await;
    server.change(&id, |record| record.debug.push(order("continue", &id, "mine", "override")));
    paused(server, &id, "fails", "after").await;
    // The pause may be told before the last lines of the log.
    server
        .wait(&id, "what the failed step printed", |record| {
            let log = record.log("fails");
            log.contains("after it failed with exit code 3") && log.contains("forty-two")
        })
        .await;
    server.change(&id, |record| record.debug.push(order("continue", &id, "fails", "after")));
    let record = server.finish(&id).await;
    assert_eq!((record.status(), record.step("fails").exit_code), ("error", Some(3)));
    assert!(!record.log("mine").contains("never\n") || !record.log("mine").contains("Running"));
}

#[tokio::test]
async fn a_breakpoint_set_on_a_running_build_holds_and_a_pause_outlives_the_runner_and_ends_by_itself() {
    let server = Server::start().await;
    let folder = tempfile::tempdir().unwrap();
    let yaml = r#"
version: '1.0'
steps:
  first: {image: x, commands: ["while [ ! -e go ]; do sleep 0.1; done"]}
  second: {image: x, commands: ["echo never"]}
"#;
    let id = next_id("late");
    server.add(server.build(&id, yaml));
    let run = |pause: u64| {
        let mut config = config(&server, folder.path(), "host");
        config.pause = std::time::Duration::from_secs(pause);
        let stop = tokio_util::sync::CancellationToken::new();
        let task = tokio::spawn(slipway_runner::run(config, stop.clone()));
        (stop, task)
    };
    let (stop, task) = run(3600);
    server.wait(&id, "its first step", |record| record.status() == "running").await;
    let mut set = order("breakpoints", &id, "", "");
    set.breakpoints.insert("second".into(), Phases { before: true, ..Phases::default() });
    server.change(&id, |record| record.debug.push(set));
    // Heard before the step that it is about begins.
    server.wait(&id, "the order heard", |record| record.heard.len() == 1).await;
    std::fs::write(folder.path().join("builds").join(&id).join("volume/go"), "").unwrap();
    paused(&server, &id, "second", "before").await;
    stop.cancel();
    task.await.unwrap().unwrap();
    // The next life of the runner finds it paused; its time is that of the first.
    let journal = folder.path().join("builds").join(&id).join("journal.json");
    let text = std::fs::read_to_string(&journal).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["pauses"]["second"]["until_ms"] = serde_json::json!(1);
    std::fs::write(&journal, value.to_string()).unwrap();
    let (stop, task) = run(3600);
    let record = server.finish(&id).await;
    assert_eq!(record.status(), "error");
    let message = record.step("second").message.unwrap_or_default();
    assert!(message.contains("nobody let it go on"), "{message}");
    assert!(!record.log("second").contains("never\n"), "{}", record.log("second"));
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_step_that_uses_more_memory_than_it_may_is_ended_and_a_limit_that_is_none_is_told() {
    for harness in harnesses() {
        let server = &harness.server;
        let yaml = r#"
version: '1.0'
steps:
  small: {image: IMAGE, commands: ["echo fits"], resources: {limits: {cpu: 500m, memory: 256Mi}}}
  greedy:
    image: IMAGE
    resources: {memory: 32Mi, cpu: 1}
    commands: ["head -c 200000000 /dev/zero | tail -c 150000000 | wc -c"]
"#;
        let id = start(harness, yaml, |taken| taken.options.debug = false);
        let record = server.finish(&id).await;
        assert!(record.log("small").contains("fits"), "{}: {}", harness.executor, record.log("small"));
        let log = record.log("greedy");
        let enforced = !log.contains("are not enforced");
        // `wc` says how much came through: all of it where nothing is enforced.
        assert_eq!(log.contains("150000000\n"), !enforced, "{}: {log}", harness.executor);
        let id = start(harness, &yaml.replace("32Mi", "plenty"), |taken| taken.options.debug = false);
        let record = server.finish(&id).await;
        let message = record.step("greedy").message.unwrap_or_default();
        assert!(message.contains("`plenty` is no amount of memory"), "{}: {message}", harness.executor);
    }
}

/// For the answers of the small server.
pub fn text(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
