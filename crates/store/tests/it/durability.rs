use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use slipway_model::Fact;
use slipway_store::{Store, facts};
use slipway_testkit::power::Disk;

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

fn asked_for(variable: &str, short: u32) -> u32 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(short)
}

fn acknowledgement(line: &str) -> Option<i64> {
    line.split("ack ").nth(1).and_then(|text| text.parse().ok())
}

/// Writes with eight writers until about `count` were acknowledged, and is then killed.
fn write_and_kill(folder: &Path, count: usize, acknowledged: &mut BTreeSet<i64>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "durability::the_process_that_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let target = acknowledged.len() + count;
    let until = Instant::now() + slipway_testkit::PATIENCE;
    while acknowledged.len() < target {
        assert!(Instant::now() < until, "the writer is stuck");
        let Some(Ok(line)) = lines.next() else { break };
        if let Some(seq) = acknowledgement(&line) {
            assert!(acknowledged.insert(seq), "a number was given twice");
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What was in the pipe when it died was acknowledged too.
    acknowledged.extend(lines.map_while(Result::ok).filter_map(|line| acknowledgement(&line)));
}

async fn nothing_is_lost(folder: &Path, acknowledged: &BTreeSet<i64>) {
    let file = rusqlite::Connection::open(folder.join("slipway.db")).unwrap();
    let whole: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
    drop(file);
    let store = Store::open(folder).unwrap();
    let kept = store.read(|tx| facts::after(tx, 0, None, i64::MAX)).await.unwrap();
    let kept: BTreeSet<_> = kept.into_iter().map(|recorded| recorded.seq).collect();
    let lost: Vec<_> = acknowledged.difference(&kept).collect();
    assert!(lost.is_empty(), "lost {} of {}: {lost:?}", lost.len(), acknowledged.len());
    store.close();
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_by_a_kill() {
    let kills = asked_for("SLIPWAY_KILLS", 10);
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeSet::new();
    for round in 0..kills {
        // Killed at another point of the writer's work each round.
        write_and_kill(folder.path(), 20 + (round as usize * 37) % 90, &mut acknowledged);
    }
    nothing_is_lost(folder.path(), &acknowledged).await;
    assert!(acknowledged.len() as u32 > kills * 20);
    println!("{kills} kills, {} acknowledged writes, none lost", acknowledged.len());
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_by_a_power_cut() {
    let cuts = asked_for("SLIPWAY_CUTS", 3);
    let mut disk = Disk::new(64);
    // The method bites: what was not synced is gone.
    std::fs::write(disk.path().join("not-synced"), "x").unwrap();
    let synced = std::fs::File::create(disk.path().join("synced")).unwrap();
    synced.sync_all().unwrap();
    drop(synced);
    std::fs::write(disk.path().join("late"), "x").unwrap();
    disk.cut();
    assert!(disk.path().join("synced").exists() && !disk.path().join("late").exists());
    let mut acknowledged = BTreeSet::new();
    for round in 0..cuts {
        write_and_kill(disk.path(), 20 + (round as usize * 37) % 90, &mut acknowledged);
        disk.cut();
        nothing_is_lost(disk.path(), &acknowledged).await;
    }
    println!("{cuts} power cuts, {} acknowledged writes, none lost", acknowledged.len());
}
