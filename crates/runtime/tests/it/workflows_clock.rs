//! What Workflows share, and what begins by the clock, on the embedded cluster: locks, caches, calls, CronWorkflows, refused pods.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_cluster::ObjectKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::workflows::{Stage, nodes, run_for_real};

const ARGO: &str = "argoproj.io/v1alpha1";

async fn all(stage: &Stage, kind: &ObjectKey) -> Vec<Value> {
    stage.world.client.list_labelled(kind, "").await.expect("listed")
}

fn mutex() -> Value {
    json!({"entrypoint": "main", "synchronization": {"mutexes": [{"name": "m"}]},
        "templates": [{"name": "main", "container": {"image": "exits-0"}}]})
}

/// Who has the lock, by what is written down.
fn holders(workflows: &[Value]) -> Vec<String> {
    let held = workflows.iter().flat_map(|one| {
        let held =
            one["status"]["synchronization"]["mutex"]["holding"].as_array().cloned().unwrap_or_default();
        held.into_iter().map(|held| held["holder"].to_string())
    });
    held.collect()
}

/// Workflows that want the same thing run one after the other, over deaths of the engine, and the last one leaves nothing behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_at_a_time_has_the_lock_whoever_dies() {
    let stage = Stage::new().await;
    let names: Vec<String> = (0..6).map(|at| format!("wf{at}")).collect();
    for name in &names {
        stage.submit(name, mutex()).await;
    }
    let (mut deaths, started) = (0_u64, Instant::now());
    let mut process = stage.dies(1);
    let kind = ObjectKey::new("argoproj.io", "Workflow", "shop", "");
    loop {
        let workflows = all(&stage, &kind).await;
        let held = holders(&workflows);
        assert!(held.len() <= 1, "one at a time: {held:?}");
        if workflows.iter().all(|one| one["status"]["finishedAt"].is_string()) && held.is_empty() {
            assert!(workflows.iter().all(|one| one["status"]["phase"] == "Succeeded"), "{workflows:#?}");
            break;
        }
        if process.ended() {
            deaths += 1;
            process = stage.dies(1 + deaths % 6);
        }
        assert!(started.elapsed() < Duration::from_secs(480), "they never ended: {workflows:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(deaths >= 3, "it died {deaths} times");
    let uids = stage.uids.lock().expect("no panic").clone();
    assert_eq!(uids.len(), names.len());
    assert!(uids.values().all(|uids| uids.len() == 1), "no pod was made twice: {uids:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_is_deleted_lets_the_next_one_go() {
    let stage = Stage::new().await;
    stage.start();
    let mut first = mutex();
    first["templates"][0]["container"]["image"] = "runs".into();
    stage.submit("first", first).await;
    stage.until("first", "running", |one| one["status"]["phase"] == "Running").await;
    stage.submit("second", mutex()).await;
    let waits = stage.until("second", "waiting", |one| one["status"]["phase"] == "Pending").await;
    assert_eq!(waits["status"]["message"], "Waiting for shop/Mutex/m lock. Lock status: 0/1");
    let key = ObjectKey::new("argoproj.io", "Workflow", "shop", "first");
    stage
        .world
        .client
        .delete(&key, None, slipway_cluster::Propagation::Background, false)
        .await
        .expect("deleted");
    assert_eq!(stage.ended("second").await["status"]["phase"], "Succeeded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_remembered_makes_no_pod_and_a_config_map_of_others_is_not_written_to() {
    let stage = Stage::new().await;
    stage.start();
    let spec = |map: &str| {
        json!({"entrypoint": "main", "templates": [{"name": "main", "container": {"image": "exits-0"},
            "memoize": {"key": "k", "cache": {"configMap": {"name": map}}}}]})
    };
    stage.submit("one", spec("cache")).await;
    assert_eq!(stage.ended("one").await["status"]["phase"], "Succeeded");
    stage.submit("two", spec("cache")).await;
    let two = stage.ended("two").await;
    assert_eq!(two["status"]["nodes"]["two"]["memoizationStatus"]["hit"], true, "{two:#}");
    assert!(!stage.uids.lock().expect("no panic").contains_key("two"), "no pod was made");
    let cache = stage.world.read("ConfigMap", "shop", "cache").await;
    assert_eq!(cache["metadata"]["labels"]["workflows.argoproj.io/configmap-type"], "Cache");
    stage.world.make("v1", "ConfigMap", "shop", "theirs", json!({"data": {"a": "b"}})).await;
    stage.submit("three", spec("theirs")).await;
    let three = stage.ended("three").await;
    assert_eq!(three["status"]["phase"], "Error", "{three:#}");
    let theirs = stage.world.read("ConfigMap", "shop", "theirs").await;
    assert_eq!(theirs["data"], json!({"a": "b"}));
}

/// A server that answers each request like this, and keeps what it was asked.
async fn server(answer: &'static str) -> (u16, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (asked, requests) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut bytes = vec![0; 8192];
            let count = socket.read(&mut bytes).await.unwrap_or(0);
            let _ = asked.send(String::from_utf8_lossy(&bytes[..count]).into_owned());
            let text = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
                answer.len()
            );
            let _ = socket.write_all(text.as_bytes()).await;
        }
    });
    (port, requests)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_made_by_the_engine_with_its_rules_and_secrets_do_not_come_back() {
    let stage = Stage::new().await;
    stage.start();
    let (port, mut requests) = server("hello s3cret-token").await;
    stage.world.make("v1", "Secret", "shop", "token", json!({"data": {"t": "czNjcmV0LXRva2Vu"}})).await;
    let spec = |url: &str| {
        json!({"entrypoint": "main", "templates": [{"name": "main", "http": {"url": url, "method": "POST", "body": "x",
            "headers": [{"name": "authorization", "valueFrom": {"secretKeyRef": {"name": "token", "key": "t"}}}]}}]})
    };
    stage.submit("good", spec(&format!("http://127.0.0.1:{port}/hook"))).await;
    let good = stage.ended("good").await;
    assert_eq!(good["status"]["phase"], "Succeeded", "{good:#}");
    assert_eq!(good["status"]["nodes"]["good"]["outputs"]["result"], "hello *****");
    assert_eq!(good["status"]["nodes"]["good"]["type"], "HTTP");
    let request = requests.recv().await.expect("asked").to_lowercase();
    assert!(
        request.starts_with("post /hook") && request.contains("authorization: s3cret-token"),
        "{request}"
    );
    // Where a machine gets its own credentials nobody asks.
    stage.submit("bad", spec("http://169.254.169.254/latest/meta-data/")).await;
    let bad = stage.ended("bad").await;
    assert_eq!(bad["status"]["phase"], "Error", "{bad:#}");
    assert!(bad["status"]["message"].as_str().is_some_and(|why| why.contains("may not be asked")), "{bad:#}");
}

fn cron(schedule: &str) -> Value {
    json!({"spec": {"schedules": [schedule], "concurrencyPolicy": "Forbid", "successfulJobsHistoryLimit": 100,
        "workflowSpec": {"entrypoint": "main", "templates": [{"name": "main", "container": {"image": "exits-0"}}]}}})
}

/// Each of its moments has one Workflow, however often the engine dies; and nothing begins while it is suspended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workflows_begin_by_the_clock_once_whoever_dies() {
    let stage = Stage::new().await;
    stage.world.make(ARGO, "CronWorkflow", "shop", "often", cron("@every 2s")).await;
    let kind = ObjectKey::new("argoproj.io", "Workflow", "shop", "");
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let (mut deaths, started) = (0_u64, Instant::now());
    let mut process = stage.dies(3);
    loop {
        for workflow in all(&stage, &kind).await {
            let name = workflow["metadata"]["name"].as_str().expect("a name").to_owned();
            let uid = workflow["metadata"]["uid"].as_str().expect("a uid").to_owned();
            let before = seen.insert(name.clone(), uid.clone());
            assert!(before.is_none_or(|before| before == uid), "{name} was made twice");
        }
        let cron = stage.world.read("argoproj.io/CronWorkflow", "shop", "often").await;
        if deaths >= 3 && cron["status"]["succeeded"].as_i64().unwrap_or(0) >= 3 {
            break;
        }
        if process.ended() {
            deaths += 1;
            process = stage.dies(3 + deaths % 5);
        }
        assert!(started.elapsed() < Duration::from_secs(480), "{cron:#} {seen:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(process);
    stage.start();
    let target = json!({"apiVersion": ARGO, "kind": "CronWorkflow", "metadata": {"namespace": "shop", "name": "often"}});
    let patch = json!({"spec": {"suspend": true}});
    stage
        .world
        .client
        .merge(&target, &patch, slipway_cluster::WriteOptions::default())
        .await
        .expect("patched");
    let suspended = |cron: &Value| {
        cron["metadata"]["annotations"]["cronworkflows.slipway.dev/decided-until"] == "suspended"
            && cron["status"]["active"].as_array().is_none_or(Vec::is_empty)
    };
    let key = ObjectKey::new("argoproj.io", "CronWorkflow", "shop", "often");
    let waited = stage.world.client.until(&key, suspended);
    let cron = tokio::time::timeout(slipway_testkit::PATIENCE, waited)
        .await
        .expect("in time")
        .expect("readable")
        .expect("there");
    let workflow = all(&stage, &kind).await.pop().expect("there are some");
    assert_eq!(workflow["metadata"]["labels"]["workflows.argoproj.io/cron-workflow"], "often");
    assert_eq!(workflow["metadata"]["ownerReferences"][0]["uid"], cron["metadata"]["uid"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_of_somebody_else_is_not_taken_over() {
    let stage = Stage::new().await;
    // Its name is that which the workflow's pod will have.
    let theirs = json!({"spec": {"containers": [{"name": "main", "image": "runs"}]}});
    stage.world.make("v1", "Pod", "shop", "wf", theirs).await;
    stage.start();
    stage
        .submit(
            "wf",
            json!({"entrypoint": "main", "templates": [{"name": "main", "container": {"image": "exits-0"}}]}),
        )
        .await;
    let ended = stage.ended("wf").await;
    assert_eq!(ended["status"]["phase"], "Error", "{ended:#}");
    assert_eq!(ended["status"]["message"], "there is a Pod wf that belongs to somebody else");
    assert!(stage.world.read("Pod", "shop", "wf").await["metadata"]["deletionTimestamp"].is_null());
}

/// What Kubernetes refuses is an error of its node, and what there is no room for begins when there is.
#[test]
fn a_pod_that_kubernetes_refuses_is_an_error_of_its_node() {
    let (_site, workflow) = run_for_real(
        r#"
  entrypoint: main
  templates:
  - name: main
    dag:
      tasks:
      - {name: wrong, template: wrong}
      - {name: after, template: fine, depends: wrong.Errored}
  - name: wrong
    container: {IMAGE, command: ["true"], volumeMounts: [{name: nowhere, mountPath: /x}]}
  - name: fine
    container: {IMAGE, command: ["true"]}
"#,
    );
    assert_eq!(workflow["status"]["phase"], "Succeeded", "{:#}", workflow["status"]);
    assert_eq!(nodes(&workflow), ["wf Succeeded", "wf.after Succeeded", "wf.wrong Error"]);
    let wrong = workflow["status"]["nodes"].as_object().into_iter().flatten();
    let wrong = wrong.map(|(_, node)| node).find(|node| node["displayName"] == "wrong").expect("there");
    assert!(wrong["message"].as_str().is_some_and(|why| why.contains("volumeMounts[0].name")), "{wrong:#}");
}
