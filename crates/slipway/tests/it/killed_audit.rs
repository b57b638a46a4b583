//! The platform is killed while people change things: what was answered is on the record, and the record is whole.
//! `SLIPWAY_KILLS` says how often.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::Process;

const WRITERS: u32 = 4;

/// Makes teams one after another until the process is gone; the names of those that were acknowledged.
async fn write(url: String, key: String, next: Arc<AtomicU32>) -> Vec<String> {
    let client = reqwest::Client::new();
    let mut acknowledged = Vec::new();
    loop {
        let name = format!("t{}", next.fetch_add(1, Ordering::Relaxed));
        let request = client.post(format!("{url}/api/team")).header("authorization", &key);
        match request.json(&json!({"name": name})).send().await {
            Ok(answer) if answer.status() == 200 => acknowledged.push(name),
            Ok(answer) => {
                let (status, text) = (answer.status(), answer.text().await.unwrap_or_default());
                panic!("{status}: {text}");
            }
            Err(_) => return acknowledged,
        }
    }
}

async fn names(process: &Process, key: &str, path: &str, field: &str) -> Vec<String> {
    let mut all = Vec::new();
    for page in 1.. {
        let answer = process.good("GET", &format!("{path}&page={page}"), key, None).await;
        let docs = answer.get("docs").unwrap_or(&answer).as_array().cloned().unwrap_or_default();
        let last = docs.len() < 1000 || answer.is_array();
        all.extend(docs.iter().filter_map(|doc| doc[field].as_str().map(str::to_owned)));
        if last {
            break;
        }
    }
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_before_a_kill_is_on_the_record_and_the_record_is_whole() {
    let kills: u32 = std::env::var("SLIPWAY_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let mut process = Process::start(&["--data", data]);
    let key = process.first_key.clone().expect("a new platform");
    let next = Arc::new(AtomicU32::new(0));
    let mut acknowledged = Vec::new();
    for kill in 0..kills {
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| tokio::spawn(write(process.url.clone(), key.clone(), next.clone())))
            .collect();
        // At another moment each time: within a commit, between two, around the anchor that is written every two seconds.
        let until = Instant::now() + Duration::from_millis(150 + u64::from(kill * 379 % 2300));
        tokio::time::sleep_until(until.into()).await;
        process.kill();
        for writer in writers {
            acknowledged.extend(writer.await.unwrap());
        }
        process = Process::start(&["--data", data]);
        let verified: Value = process.good("GET", "/api/audit/verify", &key, None).await;
        assert_eq!(verified["ok"], true, "after kill {kill}: {verified}");
    }
    acknowledged.sort();
    assert!(acknowledged.len() >= kills as usize, "{} changes were answered", acknowledged.len());
    let teams = names(&process, &key, "/api/team?", "name").await;
    let recorded = names(
        &process,
        &key,
        "/api/audit?entity=team&action=create&outcome=allowed&limit=1000",
        "entityName",
    )
    .await;
    let lost: Vec<_> = acknowledged.iter().filter(|name| teams.binary_search(name).is_err()).collect();
    let unrecorded: Vec<_> =
        acknowledged.iter().filter(|name| recorded.binary_search(name).is_err()).collect();
    assert!(lost.is_empty() && unrecorded.is_empty(), "lost {lost:?}, not on the record {unrecorded:?}");
    // And the other way round: nothing is told that did not happen, whether it was answered or not.
    let made: Vec<_> = teams.iter().filter(|name| *name != "users" && *name != "admins").collect();
    assert_eq!(made, recorded.iter().collect::<Vec<_>>());
    println!(
        "{kills} kills, {} acknowledged changes, {} records of them",
        acknowledged.len(),
        recorded.len()
    );
}
