//! The embedded cluster itself: what survives `kill -9`, and who may share a folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Access, from_kubeconfig, image, make_image};

mod load;

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder");
    path
}

/// A cluster as a process of its own, so that it can be killed.
struct Process {
    child: Child,
}

impl Process {
    fn start(data: &Path, port: u16) -> Process {
        let child = Command::new(env!("CARGO_BIN_EXE_slipway-devcluster"))
            .arg(data)
            .arg(format!("127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the cluster starts");
        Process { child }
    }

    fn kill(&mut self) {
        self.child.kill().expect("the cluster can be killed");
        self.child.wait().expect("the cluster has ended");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn ready(data: &Path) -> Access {
    let end = Instant::now() + crate::client::PATIENCE;
    loop {
        let kubeconfig = data.join("kubeconfig");
        if kubeconfig.exists() {
            let access = from_kubeconfig(&kubeconfig);
            if access.http.get(format!("{}/readyz", access.url)).send().await.is_ok() {
                return access;
            }
        }
        assert!(Instant::now() < end, "the cluster is up within 30 s");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port()
}

async fn call(access: &Access, method: &str, path: &str, body: Option<Value>) -> Option<(u16, Value)> {
    let mut request = access
        .http
        .request(method.parse().ok()?, format!("{}{path}", access.url))
        .timeout(Duration::from_secs(30));
    if let Some(body) = body {
        request = request
            .header(
                "content-type",
                if method == "PATCH" { "application/merge-patch+json" } else { "application/json" },
            )
            .body(body.to_string());
    }
    let response = request.send().await.ok()?;
    let code = response.status().as_u16();
    Some((code, response.json().await.ok()?))
}

/// How often to kill; more with `SLIPWAY_TEST_KILLS`.
fn kills() -> usize {
    std::env::var("SLIPWAY_TEST_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(10)
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Writes until stopped, and returns what was acknowledged: name → value, nothing for deleted.
async fn write(
    access: Access,
    writer: usize,
    round: usize,
    stop: Arc<AtomicBool>,
) -> BTreeMap<String, Option<String>> {
    let mut acknowledged = BTreeMap::new();
    let mut index = 0;
    while !stop.load(Ordering::Relaxed) {
        let name = format!("w{writer}-r{round}-{index}");
        index += 1;
        let Some((201, _)) =
            call(&access, "POST", MAPS, Some(json!({"metadata": {"name": name}, "data": {"v": "1"}}))).await
        else {
            break;
        };
        acknowledged.insert(name.clone(), Some("1".to_owned()));
        if index % 2 == 0 {
            let path = format!("{MAPS}/{name}");
            match call(&access, "PATCH", &path, Some(json!({"data": {"v": "2"}}))).await {
                Some((200, _)) => drop(acknowledged.insert(name.clone(), Some("2".to_owned()))),
                // No answer: either value is right.
                _ => {
                    acknowledged.remove(&name);
                    break;
                }
            }
        }
        if index % 5 == 0 {
            match call(&access, "DELETE", &format!("{MAPS}/{name}"), None).await {
                Some((200, _)) => drop(acknowledged.insert(name, None)),
                _ => {
                    acknowledged.remove(&name);
                    break;
                }
            }
        }
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_by_kill_9_and_versions_never_repeat() {
    let data = folder("kill");
    let port = free_port();
    let mut expected: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut highest = 0u64;
    for round in 0..kills() {
        let mut process = Process::start(&data, port);
        let access = ready(&data).await;
        let (_, list) = call(&access, "GET", MAPS, None).await.expect("a list");
        let version: u64 =
            list["metadata"]["resourceVersion"].as_str().expect("text").parse().expect("a number");
        assert!(version >= highest, "round {round}: the version went back from {highest} to {version}");
        let have: BTreeMap<String, String> = list["items"]
            .as_array()
            .expect("items")
            .iter()
            .map(|i| {
                (
                    i["metadata"]["name"].as_str().expect("a name").to_owned(),
                    i["data"]["v"].as_str().unwrap_or("").to_owned(),
                )
            })
            .collect();
        for (name, value) in &expected {
            assert_eq!(have.get(name), value.as_ref(), "round {round}: {name}");
        }
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> =
            (0..4).map(|writer| tokio::spawn(write(access.clone(), writer, round, stop.clone()))).collect();
        // At a different moment each round, in the middle of whatever is going on.
        tokio::time::sleep(Duration::from_millis(150 + (round as u64 * 37) % 200)).await;
        if let Some((_, list)) = call(&access, "GET", &format!("{MAPS}?limit=1"), None).await {
            highest =
                list["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse().ok()).unwrap_or(highest);
        }
        process.kill();
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            expected.extend(writer.await.expect("a writer"));
        }
    }
    assert!(expected.len() > kills() * 4, "something was written: {}", expected.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containers_are_found_again_after_kill_9_and_none_is_left_over() {
    make_image();
    let data = folder("adopt");
    let port = free_port();
    let mut process = Process::start(&data, port);
    let access = ready(&data).await;
    let script = "trap 'exit 0' TERM; while :; do sleep 0.2; done";
    let body = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [
        {"name": "main", "image": image(), "imagePullPolicy": "IfNotPresent", "command": ["/bin/sh", "-c", script]}]}})
    };
    let pods = "/api/v1/namespaces/default/pods";
    let until = |access: Access, name: &'static str, phase: Option<&'static str>| async move {
        let end = Instant::now() + crate::client::PATIENCE;
        loop {
            let answer = call(&access, "GET", &format!("{pods}/{name}"), None).await;
            match (answer, phase) {
                (Some((200, pod)), Some(phase)) if pod["status"]["phase"] == phase => return pod,
                (Some((404, _)), None) => return Value::Null,
                (last, _) => assert!(Instant::now() < end, "{name} reaches {phase:?}; last {last:?}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let end = Instant::now() + crate::client::PATIENCE;
    while !matches!(
        call(&access, "GET", "/api/v1/namespaces/default/serviceaccounts/default", None).await,
        Some((200, _))
    ) {
        assert!(Instant::now() < end, "the default account is made");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for name in ["stays", "goes"] {
        let (code, answer) = call(&access, "POST", pods, Some(body(name))).await.expect("an answer");
        assert_eq!(code, 201, "{answer}");
    }
    let before = until(access.clone(), "stays", Some("Running")).await;
    until(access.clone(), "goes", Some("Running")).await;
    let id = before["status"]["containerStatuses"][0]["containerID"].clone();
    call(&access, "DELETE", &format!("{pods}/goes?gracePeriodSeconds=0"), None).await.expect("an answer");
    process.kill();

    let process = Process::start(&data, port);
    let access = ready(&data).await;
    until(access.clone(), "goes", None).await;
    let after = until(access.clone(), "stays", Some("Running")).await;
    assert_eq!(after["status"]["containerStatuses"][0]["containerID"], id, "the same container");
    assert_eq!(after["status"]["containerStatuses"][0]["restartCount"], 0);
    let cluster = std::fs::read_to_string(data.join("cluster-id")).expect("the cluster's id");
    let names = || {
        let filter = format!("label=io.slipway.cluster={}", cluster.trim());
        let output = Command::new("podman")
            .args(["ps", "-a", "--filter", &filter, "--format", "{{.Names}}"])
            .output()
            .expect("podman");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let uid = after["metadata"]["uid"].as_str().expect("a uid");
    let end = Instant::now() + crate::client::PATIENCE;
    while names().iter().any(|name| !name.contains(uid)) {
        assert!(Instant::now() < end, "left over: {:?}", names());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    call(&access, "DELETE", &format!("{pods}/stays"), None).await.expect("an answer");
    until(access, "stays", None).await;
    let end = Instant::now() + crate::client::PATIENCE;
    while !names().is_empty() {
        assert!(Instant::now() < end, "left over: {:?}", names());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    drop(process);
}

/// The engine's event stream may lose events, or hang: the end of a container is heard all the same, and at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_job_is_seen_when_the_engine_says_nothing_about_it() {
    make_image();
    let data = folder("deaf");
    let process = Process::start(&data, free_port());
    let access = ready(&data).await;
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    let end = Instant::now() + crate::client::PATIENCE;
    while call(&access, "GET", account, None).await.is_none_or(|(code, _)| code != 200) {
        assert!(Instant::now() < end, "the default service account is there");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let run = async |name: &str, command: &str| {
        let started = Instant::now();
        let container = json!({"name": "main", "image": image(), "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", command]});
        let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
        let job = json!({"metadata": {"name": name}, "spec": {"template": template}});
        assert_eq!(call(&access, "POST", jobs, Some(job)).await.expect("an answer").0, 201);
        loop {
            let (_, job) = call(&access, "GET", &format!("{jobs}/{name}"), None).await.expect("an answer");
            if job["status"]["succeeded"] == 1 {
                return started.elapsed();
            }
            assert!(started.elapsed() < Duration::from_secs(120), "{name} never ends: {job}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    // The first shows that the stream is up; then it is stopped and says nothing more.
    run("first", "exit 0").await;
    let streams = event_streams(process.child.id());
    assert!(!streams.is_empty(), "the engine's events are followed");
    assert!(Command::new("kill").arg("-STOP").args(&streams).status().expect("kill runs").success());
    let took = run("second", "sleep 2").await;
    assert!(Command::new("kill").arg("-CONT").args(&streams).status().expect("kill runs").success());
    for name in ["first", "second"] {
        let path = format!("{jobs}/{name}?propagationPolicy=Background");
        call(&access, "DELETE", &path, None).await.expect("an answer");
    }
    let end = Instant::now() + crate::client::PATIENCE;
    while call(&access, "GET", "/api/v1/namespaces/default/pods", None)
        .await
        .is_none_or(|(_, pods)| pods["items"].as_array().is_none_or(|items| !items.is_empty()))
    {
        assert!(Instant::now() < end, "the pods of the jobs go");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    while !load::containers(&data).is_empty() {
        assert!(Instant::now() < end, "left over: {:?}", load::containers(&data));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(took < Duration::from_secs(30), "a job of two seconds took {took:?}");
}

/// Processes below this one that follow an engine's events.
fn event_streams(parent: u32) -> Vec<String> {
    let parent = parent.to_string();
    std::fs::read_dir("/proc")
        .expect("there is a /proc")
        .flatten()
        .filter(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let above = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)).unwrap_or("");
            line.contains(" events ") && above == parent
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_on_the_same_folder_is_refused_with_a_sentence() {
    let data = folder("taken");
    let _process = Process::start(&data, free_port());
    ready(&data).await;
    let output = Command::new(env!("CARGO_BIN_EXE_slipway-devcluster"))
        .arg(&data)
        .arg("127.0.0.1:0")
        .output()
        .expect("it runs");
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("another process runs a cluster on") && text.contains("choose another folder"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_not_let_in() {
    let data = folder("strangers");
    let _process = Process::start(&data, free_port());
    let access = ready(&data).await;
    let stranger = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .no_proxy()
        .build()
        .expect("a client");
    let answer = stranger.get(format!("{}/api/v1/namespaces", access.url)).send().await.expect("an answer");
    assert_eq!(answer.status().as_u16(), 401);
    let answer = stranger
        .get(format!("{}/api/v1/namespaces", access.url))
        .bearer_auth("guess")
        .send()
        .await
        .expect("an answer");
    assert_eq!(answer.status().as_u16(), 401);
    let token = std::fs::read_to_string(data.join("pki/admin.token")).expect("the token");
    let answer = stranger
        .get(format!("{}/api/v1/namespaces", access.url))
        .bearer_auth(token.trim())
        .send()
        .await
        .expect("an answer");
    assert_eq!(answer.status().as_u16(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_outlived_a_restart_is_told_to_list_again() {
    let data = folder("watch");
    let port = free_port();
    let mut process = Process::start(&data, port);
    let access = ready(&data).await;
    call(&access, "POST", MAPS, Some(json!({"metadata": {"name": "a"}}))).await.expect("an answer");
    let (_, list) = call(&access, "GET", MAPS, None).await.expect("a list");
    let version = list["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    call(&access, "POST", MAPS, Some(json!({"metadata": {"name": "b"}}))).await.expect("an answer");
    process.kill();
    let _process = Process::start(&data, port);
    let access = ready(&data).await;
    let mut response = access
        .http
        .get(format!("{}{MAPS}?watch=true&resourceVersion={version}", access.url))
        .send()
        .await
        .expect("an answer");
    let chunk = response.chunk().await.expect("a chunk").expect("an event");
    let event: Value = serde_json::from_slice(&chunk).expect("JSON");
    assert_eq!(
        (event["type"].as_str(), event["object"]["code"].as_i64()),
        (Some("ERROR"), Some(410)),
        "{event}"
    );
    // From the newest version it goes on.
    let (_, list) = call(&access, "GET", MAPS, None).await.expect("a list");
    let version = list["metadata"]["resourceVersion"].as_str().expect("a version");
    let mut response = access
        .http
        .get(format!("{}{MAPS}?watch=true&resourceVersion={version}", access.url))
        .send()
        .await
        .expect("an answer");
    call(&access, "POST", MAPS, Some(json!({"metadata": {"name": "c"}}))).await.expect("an answer");
    let chunk = response.chunk().await.expect("a chunk").expect("an event");
    let event: Value = serde_json::from_slice(&chunk).expect("JSON");
    assert_eq!(
        (event["type"].as_str(), event["object"]["metadata"]["name"].as_str()),
        (Some("ADDED"), Some("c"))
    );
}
