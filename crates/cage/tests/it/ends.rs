//! How caged programs end, and that nothing of them stays.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use slipway_cage::{Cage, Level, Streams};

const LEVELS: [Level; 2] = [Level::Namespaces, Level::UserNamespace];

#[test]
fn the_status_of_a_program_is_its_own() {
    for level in LEVELS {
        let run = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Cage::new()
                .at(level)
                .spawn(&command, Streams::listening())
                .expect("it starts")
                .wait_blocking()
                .expect("it ends")
        };
        assert_eq!(run("exit 41").code(), Some(41), "{level:?}");
        // The first process of a namespace cannot kill itself, so another is killed and its status handed on.
        assert_eq!(run("sh -c 'kill -9 $$'; exit $?").code(), Some(137), "{level:?}");
    }
}

/// Processes of this machine whose command line holds a word.
fn holding(word: &str) -> usize {
    let all = std::fs::read_dir("/proc").expect("/proc is there").flatten();
    all.filter(|entry| {
        std::fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).split('\0').any(|part| part == word))
    })
    .count()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + slipway_testkit::PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn all_inside_ends_when_the_child_is_killed() {
    for (level, word) in LEVELS.into_iter().zip(["86401.25", "86402.25"]) {
        let mut command = Command::new("sh");
        // One that left the process group, which a signal to the group does not reach.
        command.args(["-c", &format!("setsid sleep {word} & setsid sleep {word} & wait")]);
        let mut child = Cage::new().at(level).spawn(&command, Streams::listening()).expect("it starts");
        until("two run", || holding(word) == 2);
        child.kill();
        let status = child.wait_blocking().expect("it ends");
        assert_eq!(status.signal(), Some(9));
        until("none is left", || holding(word) == 0);
    }
}

#[test]
fn all_inside_ends_with_this_process() {
    const WORD: &str = "86403.25";
    if std::env::var_os("CAGE_PARENT").is_some() {
        let mut command = Command::new("sleep");
        command.arg(WORD);
        let mut child = Cage::new().spawn(&command, Streams::listening()).expect("it starts");
        child.wait_blocking().expect("it is killed from outside");
        return;
    }
    let program = std::env::current_exe().expect("a test program has a path");
    let mut parent = Command::new(program)
        .args(["--exact", "ends::all_inside_ends_with_this_process"])
        .env("CAGE_PARENT", "1")
        .spawn()
        .expect("it starts");
    until("it runs", || holding(WORD) == 1);
    parent.kill().expect("it can be killed");
    parent.wait().expect("it ends");
    until("it is gone", || holding(WORD) == 0);
}

#[tokio::test]
async fn a_dropped_child_is_gone_and_others_go_on() {
    const WORD: &str = "86404.25";
    let sleep = || {
        let mut command = Command::new("sleep");
        command.arg(WORD);
        Cage::new().spawn(&command, Streams::listening()).expect("it starts")
    };
    let (one, two) = (sleep(), sleep());
    until("both run", || holding(WORD) == 2);
    drop(one);
    until("one is gone", || holding(WORD) == 1);
    drop(two);
    until("both are gone", || holding(WORD) == 0);
}

#[test]
fn a_bomb_of_processes_stops_at_its_limit() {
    let mut command = Command::new("sh");
    command.args(["-c", "i=0; while [ $i -lt 2000 ]; do sleep 60 & i=$((i+1)); done; exit 0"]);
    let started = Instant::now();
    let status = Cage::new()
        .spawn(&command, Streams::listening())
        .expect("it starts")
        .wait_blocking()
        .expect("it ends");
    assert!(!status.success(), "a process too many was refused");
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn the_runtime_waits_for_programs_and_their_words() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut command = Command::new("sh");
    command.args(["-c", "cat; exit 5"]);
    let mut child = Cage::new().spawn(&command, Streams::talking()).expect("it starts");
    let mut input = slipway_cage::writer(child.stdin.take().expect("it is piped")).expect("it is a pipe");
    let mut output = slipway_cage::reader(child.stdout.take().expect("it is piped")).expect("it is a pipe");
    let early = tokio::time::timeout(Duration::from_millis(20), child.wait()).await;
    assert!(early.is_err(), "it waits for its input");
    input.write_all(b"word").await.expect("it reads");
    drop(input);
    let mut said = String::new();
    output.read_to_string(&mut said).await.expect("it writes");
    assert_eq!((said.as_str(), child.wait().await.expect("it ends").code()), ("word", Some(5)));
}

#[test]
fn many_at_once_from_many_threads_all_come_back() {
    let workers: Vec<_> = (0..8)
        .map(|worker| {
            std::thread::spawn(move || {
                for round in 0..20 {
                    let code = worker * 20 + round;
                    let mut command = Command::new("sh");
                    command.args(["-c", &format!("exit {code}")]);
                    let mut child = Cage::new().spawn(&command, Streams::listening()).expect("it starts");
                    assert_eq!(child.wait_blocking().expect("it ends").code(), Some(code));
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("all held");
    }
}
