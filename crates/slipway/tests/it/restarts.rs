//! The database and the broker are killed and started again under work: nothing acknowledged is lost, nothing happens
//! twice. `SLIPWAY_RESTARTS` says how often.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use slipway_testkit::{postgres, rabbitmq};

use crate::process::{Shared, commit, git, working_copy};

#[tokio::test(flavor = "multi_thread")]
async fn killed_databases_and_brokers_lose_nothing_and_double_nothing() {
    let restarts: u32 =
        std::env::var("SLIPWAY_RESTARTS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let database = postgres::Server::start(&[]);
    let broker = rabbitmq::Server::start();
    let shared = Shared::on(&database, &broker);
    let (one, two) = (shared.start(""), shared.start(""));
    let key = one.first_key.clone().expect("it started first");
    one.repository_with_pipeline(&key).await;
    broker.settle();
    let work = working_copy(shared.folder.path());
    let remotes = [one.remote(&key), two.remote(&key)];
    let done = Arc::new(AtomicBool::new(false));
    let finished = done.clone();
    let pushing = tokio::task::spawn_blocking(move || {
        let (mut acknowledged, mut turn) = (Vec::new(), 0);
        while !finished.load(Ordering::Relaxed) || acknowledged.len() < 3 {
            let sha = commit(&work, &format!("push {turn}"));
            // A push is repeated until it is acknowledged, at either process, as a person would.
            let until = Instant::now() + slipway_testkit::PATIENCE;
            loop {
                turn += 1;
                let (good, output) = git(&work, &["push", &remotes[turn % 2], "main"]);
                if good {
                    break;
                }
                assert!(Instant::now() < until, "the platform does not come back: {output}");
            }
            acknowledged.push(sha);
        }
        acknowledged
    });
    tokio::task::block_in_place(|| {
        for round in 0..restarts {
            std::thread::sleep(Duration::from_millis(300 + u64::from(round % 5) * 250));
            if round % 2 == 0 {
                database.stop();
                database.run();
            } else {
                broker.stop();
                broker.run();
            }
        }
    });
    done.store(true, Ordering::Relaxed);
    let acknowledged = pushing.await.unwrap();
    let builds = two.wait_for_builds(&key, acknowledged.len(), slipway_testkit::PATIENCE).await;
    let mut of_commit: BTreeMap<String, u32> = BTreeMap::new();
    for build in &builds {
        *of_commit.entry(build["revision"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    let twice: Vec<_> = of_commit.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "built twice: {twice:?}");
    // Two pushes that were found together after a restart are one move of the branch, and so one build of the later.
    let last = acknowledged.last().expect("something was pushed");
    assert!(of_commit.contains_key(last), "the last acknowledged push was not built");
    println!("{restarts} restarts, {} acknowledged pushes, {} builds", acknowledged.len(), builds.len());
    assert_eq!(builds.len(), acknowledged.len());
}
