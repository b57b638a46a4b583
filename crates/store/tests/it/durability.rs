use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use slipway_model::Fact;
use slipway_store::{Store, facts};

const FOLDER: &str = "SLIPWAY_STORE_TEST_FOLDER";

/// Not a test of its own: the process that is killed. It prints a fact's number after its write was acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn the_process_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = Store::open(folder.as_ref()).unwrap();
    let writers = (0..8).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            loop {
                let account = slipway_model::AccountId::from_parts(1, [1; 5]);
                let build = slipway_model::BuildId::from_parts(1, [2; 5]);
                let fact = Fact::BuildCreated {
                    account,
                    build,
                    pipeline: slipway_model::PipelineId::from_parts(1, [3; 5]),
                };
                let seq = store.write(move |tx| facts::append(tx, account, &fact, 1)).await.unwrap();
                println!("ack {seq}");
            }
        })
    });
    futures_wait(writers.collect()).await;
}

async fn futures_wait(tasks: Vec<tokio::task::JoinHandle<()>>) {
    for task in tasks {
        let _ = task.await;
    }
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_by_a_kill() {
    let kills: u32 = std::env::var("SLIPWAY_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = std::collections::BTreeSet::new();
    for round in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "durability::the_process_that_is_killed", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Killed at another point of the writer's work each round.
        let target = acknowledged.len() + 20 + (round as usize * 37) % 90;
        let until = Instant::now() + Duration::from_secs(90);
        while acknowledged.len() < target {
            assert!(Instant::now() < until, "the writer is stuck");
            let Some(Ok(line)) = lines.next() else { break };
            if let Some(seq) = line.split("ack ").nth(1).and_then(|text| text.parse::<i64>().ok()) {
                assert!(acknowledged.insert(seq), "a number was given twice");
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What was in the pipe when it died was acknowledged too.
        for line in lines.map_while(Result::ok) {
            acknowledged.extend(line.split("ack ").nth(1).and_then(|text| text.parse::<i64>().ok()));
        }
    }
    let store = Store::open(folder.path()).unwrap();
    let kept = store.read(|tx| facts::after(tx, 0, None, i64::MAX)).await.unwrap();
    let kept: std::collections::BTreeSet<_> = kept.into_iter().map(|recorded| recorded.seq).collect();
    let lost: Vec<_> = acknowledged.difference(&kept).collect();
    assert!(lost.is_empty(), "lost {lost:?}");
    assert!(acknowledged.len() as u32 > kills * 20);
}
