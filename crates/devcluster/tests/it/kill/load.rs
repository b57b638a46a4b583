//! Kill after kill while everything goes on at once: writers, a client with a cache, pods that come and go.
//!
//! Ten kills by default, more with `SLIPWAY_TEST_KILLS`; the moments come from `SLIPWAY_SEED`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{MAPS, Process, call, folder, free_port, kills, ready, write};
use crate::client::{Access, from_kubeconfig, image, make_image};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// What a client with a cache has: names and values, kept up by list and watch.
#[derive(Default)]
struct Cache {
    seen: Mutex<BTreeMap<String, String>>,
    lists: AtomicUsize,
    /// Watches that went on after the server had gone.
    resumed: AtomicUsize,
}

fn named(object: &Value) -> (String, String) {
    let name = object["metadata"]["name"].as_str().unwrap_or("").to_owned();
    (name, object["data"]["v"].as_str().unwrap_or("").to_owned())
}

/// Lists, watches from there, and lists again only when the server says that the version is gone.
async fn follow(access: Access, cache: Arc<Cache>, stop: Arc<AtomicBool>) {
    let mut version: Option<String> = None;
    while !stop.load(Ordering::Relaxed) {
        let Some(since) = version.clone() else {
            if let Some((200, list)) = call(&access, "GET", MAPS, None).await {
                let items = list["items"].as_array().cloned().unwrap_or_default();
                *cache.seen.lock().expect("a lock") = items.iter().map(named).collect();
                version = list["metadata"]["resourceVersion"].as_str().map(str::to_owned);
                cache.lists.fetch_add(1, Ordering::Relaxed);
            } else {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            continue;
        };
        let url = format!("{}{MAPS}?watch=true&timeoutSeconds=30&resourceVersion={since}", access.url);
        let Ok(mut response) = access.http.get(url).send().await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        cache.resumed.fetch_add(1, Ordering::Relaxed);
        let mut rest = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            rest.extend_from_slice(&chunk);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).expect("an event is JSON");
                let object = &event["object"];
                let (name, value) = named(object);
                let mut seen = cache.seen.lock().expect("a lock");
                match event["type"].as_str() {
                    Some("ADDED" | "MODIFIED") => drop(seen.insert(name, value)),
                    Some("DELETED") => drop(seen.remove(&name)),
                    Some("ERROR") => {
                        assert_eq!(object["code"], 410, "{event}");
                        version = None;
                        break;
                    }
                    other => panic!("an event of type {other:?}"),
                }
                version = object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
            }
            if version.is_none() {
                break;
            }
        }
    }
}

fn pod(name: &str) -> Value {
    let script = "trap 'exit 0' TERM; while :; do sleep 0.2; done";
    json!({"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [
        {"name": "main", "image": image(), "imagePullPolicy": "IfNotPresent", "command": ["/bin/sh", "-c", script]}]}})
}

async fn until<T>(what: &str, seconds: u64, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not happen within {seconds} s");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The containers that the engine has of this cluster, by the pod they belong to.
pub(super) fn containers(data: &Path) -> Vec<String> {
    let cluster = std::fs::read_to_string(data.join("cluster-id")).expect("the cluster's id");
    let filter = format!("label=io.slipway.cluster={}", cluster.trim());
    let output = Command::new("podman")
        .args(["ps", "-a", "--filter", &filter, "--format", "{{.Names}}"])
        .output()
        .expect("podman is installed");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

async fn running(access: &Access, name: &str) -> Value {
    until(&format!("{name} running"), 90, async || {
        let (_, pod) = call(access, "GET", &format!("{PODS}/{name}"), None).await?;
        (pod["status"]["phase"] == "Running").then_some(pod)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_after_kill_under_load_loses_nothing_and_leaves_nothing() {
    make_image();
    let data = folder("load");
    let port = free_port();
    let seed: u64 = std::env::var("SLIPWAY_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
    println!("SLIPWAY_SEED={seed} SLIPWAY_TEST_KILLS={}", kills());
    let mut process = Process::start(&data, port);
    let access = ready(&data).await;
    until("the default account", 10, async || {
        let path = "/api/v1/namespaces/default/serviceaccounts/default";
        call(&access, "GET", path, None).await.filter(|answer| answer.0 == 200)
    })
    .await;
    call(&access, "POST", PODS, Some(pod("stays"))).await.expect("an answer");
    let before = running(&access, "stays").await;

    let (cache, done) = (Arc::new(Cache::default()), Arc::new(AtomicBool::new(false)));
    let kubeconfig = data.join("kubeconfig");
    let follower = tokio::spawn(follow(from_kubeconfig(&kubeconfig), cache.clone(), done.clone()));
    let mut expected = BTreeMap::new();
    let mut random = seed;
    for round in 0..kills() {
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> =
            (0..3).map(|writer| tokio::spawn(write(access.clone(), writer, round, stop.clone()))).collect();
        // A pod that comes and one that goes, in whatever state the kill finds them.
        call(&access, "POST", PODS, Some(pod(&format!("churn-{round}")))).await;
        if let Some(old) = round.checked_sub(2) {
            call(&access, "DELETE", &format!("{PODS}/churn-{old}"), None).await;
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        tokio::time::sleep(Duration::from_millis(50 + (random >> 33) % 900)).await;
        process.kill();
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            expected.extend(writer.await.expect("a writer"));
        }
        process = Process::start(&data, port);
        ready(&data).await;
        let (_, list) = call(&access, "GET", MAPS, None).await.expect("a list");
        let have: BTreeMap<_, _> = list["items"].as_array().expect("items").iter().map(named).collect();
        for (name, value) in &expected {
            assert_eq!(have.get(name), value.as_ref(), "after kill {round}: {name}");
        }
    }
    assert!(expected.len() > kills() * 3, "something was written: {}", expected.len());

    until("the cache agreeing with a list", 30, async || {
        let (_, list) = call(&access, "GET", MAPS, None).await?;
        let have: BTreeMap<_, _> = list["items"].as_array()?.iter().map(named).collect();
        (have == *cache.seen.lock().expect("a lock")).then_some(())
    })
    .await;
    let (lists, resumed) = (cache.lists.load(Ordering::Relaxed), cache.resumed.load(Ordering::Relaxed));
    assert!(resumed > kills() / 2, "the watch went on after {resumed} of {} kills", kills());

    let after = running(&access, "stays").await;
    for field in ["containerID", "restartCount"] {
        let status = |pod: &Value| pod["status"]["containerStatuses"][0][field].clone();
        assert_eq!(status(&after), status(&before), "{field} of a pod that nobody touched");
    }
    for round in 0..kills() {
        call(&access, "DELETE", &format!("{PODS}/churn-{round}"), None).await.expect("an answer");
    }
    let uid = after["metadata"]["uid"].as_str().expect("a uid").to_owned();
    until("only the containers of the pod that stays being left", 120, async || {
        containers(&data).iter().all(|name| name.contains(&uid)).then_some(())
    })
    .await;
    call(&access, "DELETE", &format!("{PODS}/stays"), None).await.expect("an answer");
    until("no container being left", 60, async || containers(&data).is_empty().then_some(())).await;
    done.store(true, Ordering::Relaxed);
    process.kill();
    follower.await.expect("the client with the cache");
    println!("{} writes acknowledged, {lists} lists, {resumed} watches", expected.len());
}
