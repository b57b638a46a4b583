//! Runners that wait: whom a commit wakes, and what it costs.

use serde_json::{Value, json};
use slipway_store::identity::Subject;
use tokio::task::JoinHandle;

use crate::support::Platform;

/// A call of a runner that is held for `wait_ms`.
fn call(platform: &Platform, runner: &str, key: &str, wait_ms: u64) -> JoinHandle<Value> {
    let body = json!({"runner": runner, "version": "1", "executor": "host", "free": 1, "running": [], "waitMs": wait_ms});
    let request = platform.http().post(format!("{}/api/agent/runner/sync", platform.url));
    let request = request.header("authorization", key).json(&body);
    tokio::spawn(async move { request.send().await.unwrap().json().await.unwrap() })
}

async fn metric(platform: &Platform, name: &str) -> u64 {
    let text = platform.get("/metrics").await;
    let line = text.as_str().unwrap().lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

/// Until so many calls are held and each of them has looked.
async fn held(platform: &Platform, calls: u64, looks: u64) {
    while metric(platform, "slipway_runner_calls_held").await != calls
        || metric(platform, "slipway_runner_looks_total{by=\"runner\"}").await < looks
    {
        tokio::task::yield_now().await;
    }
}

async fn pipeline(platform: &Platform, key: &str, name: &str, concurrency: Option<i64>) {
    let mut spec = json!({"steps": {"hello": {"image": "busybox", "commands": ["echo hello"]}}});
    if let Some(concurrency) = concurrency {
        spec["concurrency"] = concurrency.into();
    }
    let body = json!({"metadata": {"name": name}, "spec": spec});
    assert_eq!(platform.call("POST", "/api/pipelines", key, Some(body)).await.0, 200);
}

async fn run(platform: &Platform, key: &str, name: &str) -> Value {
    let path = format!("/api/pipelines/run/{}", name.replace('/', "%2F"));
    let (status, id) = platform.call("POST", &path, key, Some(json!({}))).await;
    assert_eq!(status, 200, "{id}");
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_waits_is_given_a_build_at_once_and_looks_for_no_others_sake() {
    let platform = Platform::start().await;
    let (other, theirs) = platform.account("other").await;
    let stranger =
        platform.server.agent_key(other.parse().unwrap(), Subject::Runner, "theirs").await.unwrap();
    let key = platform.agent(Subject::Runner, "ours").await;
    pipeline(&platform, &platform.admin_key, "demo/free", None).await;
    pipeline(&platform, &platform.admin_key, "demo/frozen", Some(0)).await;
    pipeline(&platform, &theirs, "demo/theirs", Some(0)).await;

    // Both are known from here on.
    call(&platform, "ours", &key, 0).await.unwrap();
    call(&platform, "theirs", stranger.expose(), 0).await.unwrap();
    let waits = call(&platform, "ours", &key, 20_000);
    let elsewhere = call(&platform, "theirs", stranger.expose(), 20_000);
    held(&platform, 2, 2).await;
    let writes = metric(&platform, "slipway_runner_writes_total").await;
    let looks = metric(&platform, "slipway_runner_looks_total{by=\"runner\"}").await;

    // Nothing that anybody could take: nobody is woken, and nobody writes.
    for _ in 0..5 {
        run(&platform, &platform.admin_key, "demo/frozen").await;
    }
    run(&platform, &theirs, "demo/theirs").await;
    let free = run(&platform, &platform.admin_key, "demo/free").await;
    let answer = waits.await.unwrap();
    assert_eq!(answer["taken"][0]["id"], free);
    assert!(!elsewhere.is_finished());
    assert_eq!(metric(&platform, "slipway_runner_calls_held").await, 1);
    assert_eq!(metric(&platform, "slipway_runner_writes_total").await, writes + 1, "the one that took it");
    assert_eq!(
        metric(&platform, "slipway_runner_looks_total{by=\"runner\"}").await,
        looks,
        "who was told of a build took it, and nobody else looked"
    );
    elsewhere.abort();
}

/// However many builds of a pipeline arrive that holds them back: one look finds that out, for all runners that wait.
#[tokio::test(flavor = "multi_thread")]
async fn builds_of_a_full_pipeline_cost_one_look_however_many_arrive() {
    let platform = Platform::start().await;
    pipeline(&platform, &platform.admin_key, "demo/frozen", Some(0)).await;
    pipeline(&platform, &platform.admin_key, "demo/free", None).await;
    let mut calls = Vec::new();
    for number in 0..10 {
        let name = format!("idle{number}");
        let key = platform.agent(Subject::Runner, &name).await;
        call(&platform, &name, &key, 0).await.unwrap();
        calls.push(call(&platform, &name, &key, 20_000));
    }
    held(&platform, 10, 10).await;
    let queue_looks = "slipway_runner_looks_total{by=\"queue\"}";
    run(&platform, &platform.admin_key, "demo/frozen").await;
    while metric(&platform, queue_looks).await == 0 {
        tokio::task::yield_now().await;
    }
    // The look may have begun before the first build, and the second one makes it look again.
    let before = metric(&platform, queue_looks).await;
    for _ in 0..40 {
        run(&platform, &platform.admin_key, "demo/frozen").await;
    }
    let looks = metric(&platform, queue_looks).await - before;
    assert!(looks <= 2, "{looks} looks for 40 builds that nobody can take");
    assert_eq!(metric(&platform, "slipway_runner_calls_held").await, 10, "nobody was woken");

    // One that has room is found at once, and so are the others when theirs gets room.
    let free = run(&platform, &platform.admin_key, "demo/free").await;
    held(&platform, 9, 10).await;
    let at = calls.iter().position(|call| call.is_finished()).unwrap();
    assert_eq!(calls.remove(at).await.unwrap()["taken"][0]["id"], free);
    let steps = json!({"hello": {"image": "busybox", "commands": ["echo hello"]}});
    let thawed = json!({"metadata": {"name": "demo/frozen"}, "spec": {"concurrency": 3, "steps": steps}});
    let path = "/api/pipelines/demo%2Ffrozen";
    assert_eq!(platform.call("PUT", path, &platform.admin_key, Some(thawed)).await.0, 200);
    held(&platform, 6, 10).await;
    calls.into_iter().for_each(|call| call.abort());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_build_wakes_one_runner_and_the_end_of_one_wakes_the_next() {
    let platform = Platform::start().await;
    pipeline(&platform, &platform.admin_key, "demo/one", Some(1)).await;
    let mut calls = Vec::new();
    for name in ["a", "b", "c"] {
        let key = platform.agent(Subject::Runner, name).await;
        call(&platform, name, &key, 0).await.unwrap();
        calls.push((key.clone(), call(&platform, name, &key, 20_000)));
    }
    held(&platform, 3, 3).await;
    let writes = metric(&platform, "slipway_runner_writes_total").await;
    let first = run(&platform, &platform.admin_key, "demo/one").await;
    let second = run(&platform, &platform.admin_key, "demo/one").await;
    held(&platform, 2, 3).await;
    let at = calls.iter().position(|(_, call)| call.is_finished());
    let (key, taken) = calls.remove(at.unwrap_or_default());
    assert_eq!(taken.await.unwrap()["taken"][0]["id"], first);
    let report = json!({"epoch": 1, "revision": 1, "status": "success", "steps": []});
    let path = format!("/api/agent/runner/builds/{}/state", first.as_str().unwrap());
    assert_eq!(platform.call("PUT", &path, &key, Some(report)).await.0, 200);
    held(&platform, 1, 3).await;
    let at = calls.iter().position(|(_, call)| call.is_finished());
    assert_eq!(calls.remove(at.unwrap_or_default()).1.await.unwrap()["taken"][0]["id"], second);
    // One more may have been told of a build before it was seen to be taken; never all of them.
    assert!(metric(&platform, "slipway_runner_writes_total").await <= writes + 4);
    assert!(!calls[0].1.is_finished());
    calls.remove(0).1.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_calls_is_online_and_one_that_does_not_is_not() {
    let platform = Platform::start().await;
    let key = platform.agent(Subject::Runner, "ours").await;
    call(&platform, "ours", &key, 0).await.unwrap();
    let writes = metric(&platform, "slipway_runner_writes_total").await;
    assert_eq!(writes, 1, "it is new");
    call(&platform, "ours", &key, 0).await.unwrap();
    assert_eq!(metric(&platform, "slipway_runner_writes_total").await, writes, "it is known");
    platform.pass(44_000);
    assert_eq!(platform.get("/api/runners").await[0]["online"], true);
    platform.pass(2_000);
    assert_eq!(platform.get("/api/runners").await[0]["online"], false);
    call(&platform, "ours", &key, 0).await.unwrap();
    assert_eq!(
        metric(&platform, "slipway_runner_writes_total").await,
        writes + 1,
        "it was not heard for long"
    );
    assert_eq!(platform.get("/api/runners").await[0]["online"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_waits_for_a_place_in_its_pipeline_however_many_wait_before_it() {
    let platform = Platform::start().await;
    pipeline(&platform, &platform.admin_key, "demo/frozen", Some(0)).await;
    pipeline(&platform, &platform.admin_key, "demo/free", None).await;
    for _ in 0..30 {
        run(&platform, &platform.admin_key, "demo/frozen").await;
    }
    let free = run(&platform, &platform.admin_key, "demo/free").await;
    let key = platform.agent(Subject::Runner, "ours").await;
    assert_eq!(call(&platform, "ours", &key, 0).await.unwrap()["taken"][0]["id"], free);
}
