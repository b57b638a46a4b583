//! Reports that lose nothing: the platform is away while Applications change, the runtime is killed meanwhile, and what reaches the
//! platform afterwards comes twice and out of order. `SLIPWAY_OUTAGE_APPS` says how many Applications.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use slipway_cluster::{Cluster, ClusterConfig, ObjectKey, Propagation, WriteOptions};
use tokio_util::sync::CancellationToken;

use crate::process::{Process, command};

/// Between the runtime and the platform.
struct Wire {
    target: String,
    away: AtomicBool,
    /// Reports come twice, late and in another order.
    confused: AtomicBool,
    held: Mutex<Vec<(String, Vec<u8>)>>,
    reports: AtomicUsize,
    http: reqwest::Client,
    /// Everything that left the runtime.
    seen: Mutex<Vec<u8>>,
}

impl Wire {
    async fn to(target: &str) -> (Arc<Self>, String) {
        let wire = Arc::new(Self {
            target: target.to_owned(),
            away: AtomicBool::new(false),
            confused: AtomicBool::new(false),
            held: Mutex::default(),
            reports: AtomicUsize::new(0),
            http: reqwest::Client::new(),
            seen: Mutex::default(),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = axum::Router::new()
            .fallback(pass)
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(wire.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        (wire, url)
    }

    async fn send(&self, method: &str, path: &str, key: &str, body: Vec<u8>) -> Option<reqwest::Response> {
        let call = self.http.request(method.parse().unwrap(), format!("{}{path}", self.target));
        let call = call.header("authorization", key).header("content-type", "application/json");
        call.body(body).send().await.ok()
    }

    /// What was held back comes now, the last first.
    async fn let_go(&self) {
        let held = std::mem::take(&mut *self.held.lock().unwrap());
        for (key, body) in held.into_iter().rev() {
            self.send("POST", "/2.0/api/events", &key, body).await;
        }
    }
}

async fn pass(State(wire): State<Arc<Wire>>, request: Request) -> Response {
    if wire.away.load(Ordering::SeqCst) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().unwrap().to_string();
    let key =
        parts.headers.get("authorization").and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned();
    if parts.headers.contains_key("upgrade") {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let mut body = axum::body::to_bytes(body, 64 << 20).await.unwrap().to_vec();
    if parts.headers.get("content-encoding").is_some_and(|encoding| encoding == "gzip") {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&*body).read_to_end(&mut plain).unwrap();
        body = plain;
    }
    let is_report = path == "/2.0/api/events";
    if is_report {
        wire.seen.lock().unwrap().extend_from_slice(&body);
        let number = wire.reports.fetch_add(1, Ordering::SeqCst);
        if wire.confused.load(Ordering::SeqCst) {
            match number % 4 {
                // It comes later, and the runtime hears that it failed.
                0 => {
                    wire.held.lock().unwrap().push((key, body));
                    return StatusCode::GATEWAY_TIMEOUT.into_response();
                }
                // It came, and the answer was lost.
                1 => {
                    wire.send("POST", &path, &key, body).await;
                    return StatusCode::GATEWAY_TIMEOUT.into_response();
                }
                // Twice, and those from before after it.
                2 => {
                    wire.send("POST", &path, &key, body.clone()).await;
                    wire.let_go().await;
                }
                _ => {}
            }
        }
    }
    match wire.send(parts.method.as_str(), &path, &key, body).await {
        Some(answer) => {
            let status = StatusCode::from_u16(answer.status().as_u16()).unwrap();
            (status, answer.bytes().await.unwrap_or_default()).into_response()
        }
        None => StatusCode::BAD_GATEWAY.into_response(),
    }
}

/// `slipway runtime` beside the cluster, reporting from custom resources alone: their states are what the test says.
struct Runtime(Child);

impl Runtime {
    fn start(url: &str, token: &str, kubeconfig: &Path, data: &Path, more: &[&str]) -> Self {
        let mut started = command();
        started.args(["runtime", "--server", url, "--kubeconfig", kubeconfig.to_str().unwrap()]);
        started.args(["--without", "applications", "--without", "application-sets"]).args(more);
        started.env("SLIPWAY_TOKEN", token).env("SLIPWAY_DATA", data).stdout(Stdio::null());
        Self(started.spawn().unwrap())
    }

    /// As `kill -9` does.
    fn kill(mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The customer's cluster.
struct Site {
    root: tempfile::TempDir,
    cluster: Cluster,
    stop: CancellationToken,
    /// What is there: name → health.
    truth: BTreeMap<String, String>,
}

const STATES: [&str; 4] = ["Healthy", "Progressing", "Degraded", "Missing"];

impl Site {
    async fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let stop = CancellationToken::new();
        let config = slipway_devcluster::Config {
            data: root.path().join("cluster"),
            listen: "127.0.0.1:0".parse().unwrap(),
            kubeconfig: root.path().join("kubeconfig"),
            engine: None,
        };
        slipway_devcluster::start(config, stop.clone()).await.unwrap();
        let cluster =
            Cluster::connect(ClusterConfig::new(Some(root.path().join("kubeconfig")))).await.unwrap();
        cluster.ensure_definitions(&slipway_crd::manifests()).await.unwrap();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}});
        cluster.create(&namespace, WriteOptions::default()).await.unwrap();
        Self { root, cluster, stop, truth: BTreeMap::new() }
    }

    async fn create(&mut self, name: &str, health: &str) {
        let object = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"namespace": "argocd", "name": name},
            "spec": {"project": "default", "destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"},
                "source": {"repoURL": "https://git.example/a.git", "path": "a", "targetRevision": "main",
                    "helm": {"values": "password: canary-in-values"}}},
            "status": {"health": {"status": health}, "sync": {"status": "Synced"}}});
        self.cluster.create(&object, WriteOptions::default()).await.unwrap();
        self.truth.insert(name.to_owned(), health.to_owned());
    }

    async fn change(&mut self, name: &str, health: &str) {
        let target = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"namespace": "argocd", "name": name}});
        let patch = json!({"status": {"health": {"status": health}}});
        self.cluster.merge(&target, &patch, WriteOptions::default()).await.unwrap();
        self.truth.insert(name.to_owned(), health.to_owned());
    }

    async fn delete(&mut self, name: &str) {
        let key = ObjectKey::new("argoproj.io", "Application", "argocd", name);
        self.cluster.delete(&key, None, Propagation::Background, false).await.unwrap();
        self.truth.remove(name);
    }

    fn kubeconfig(&self) -> std::path::PathBuf {
        self.root.path().join("kubeconfig")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What the platform shows: name → health.
async fn read_model(platform: &Process, key: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut after = String::new();
    loop {
        let path = format!("/api/gitops/entities?kind=argoproj.io%2FApplication&limit=500{after}");
        let page = platform.good("GET", &path, key, None).await;
        for one in page["entities"].as_array().unwrap() {
            let health = one["state"]["health"].as_str().unwrap_or_default();
            all.insert(one["name"].as_str().unwrap().to_owned(), health.to_owned());
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", next.replace('/', "%2F")),
            None => return all,
        }
    }
}

async fn until_equal(platform: &Process, key: &str, site: &Site, what: &str) -> Duration {
    let started = Instant::now();
    loop {
        let shown = read_model(platform, key).await;
        if shown == site.truth {
            return started.elapsed();
        }
        if started.elapsed() > Duration::from_secs(120) {
            let differ: Vec<_> = site
                .truth
                .iter()
                .filter(|(name, health)| shown.get(*name) != Some(health))
                .map(|(name, health)| format!("{name}: {health}, shown {:?}", shown.get(name)))
                .chain(
                    shown
                        .keys()
                        .filter(|name| !site.truth.contains_key(*name))
                        .map(|name| format!("{name} is gone")),
                )
                .take(10)
                .collect();
            panic!("{what}: {differ:#?}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn applications() -> usize {
    std::env::var("SLIPWAY_OUTAGE_APPS").ok().and_then(|text| text.parse().ok()).unwrap_or(500)
}

async fn registered(platform: &Process, key: &str) -> String {
    let made = platform.good("POST", "/api/runtimes", key, Some(json!({"name": "prod"}))).await;
    made["token"].as_str().unwrap().to_owned()
}

fn outbox(data: &Path) -> String {
    std::fs::read_to_string(data.join("reports.outbox")).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_a_kill_and_reports_out_of_order_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let platform = Process::start(&["--data", folder.path().join("platform").to_str().unwrap()]);
    let key = platform.first_key.clone().unwrap();
    let token = registered(&platform, &key).await;
    let (wire, url) = Wire::to(&platform.url).await;
    let mut site = Site::start().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "argocd", "name": "s"},
        "stringData": {"password": "canary-in-a-secret"}});
    site.cluster.create(&secret, WriteOptions::default()).await.unwrap();
    let count = applications();
    for number in 0..count {
        site.create(&format!("app-{number:04}"), "Healthy").await;
    }
    let data = folder.path().join("runtime");
    let kubeconfig = site.kubeconfig();
    let start = || Runtime::start(&url, &token, &kubeconfig, &data, &["--alone"]);
    let runtime = start();
    let took = until_equal(&platform, &key, &site, "at the start").await;
    println!("{count} Applications are there after {took:?}");
    // The platform shows what it has written before the runtime has heard that it did.
    let started = Instant::now();
    while !outbox(&data).is_empty() {
        assert!(started.elapsed() < slipway_testkit::PATIENCE, "everything was heard: {}", outbox(&data));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    // The platform is away: every Application changes, again and again; some go, some come.
    wire.away.store(true, Ordering::SeqCst);
    for round in 0..3 {
        for number in 0..count {
            site.change(&format!("app-{number:04}"), STATES[(number + round) % STATES.len()]).await;
        }
    }
    for number in 0..count / 20 {
        site.delete(&format!("app-{number:04}")).await;
        site.create(&format!("new-{number:04}"), "Degraded").await;
    }
    // What nobody has heard is on the disk, once for each of them, before the process is killed.
    let started = Instant::now();
    let gone = format!("\"name\":\"app-{:04}\"", count / 20 - 1);
    while !outbox(&data).lines().any(|line| line.contains("\"removed\"") && line.contains(&gone)) {
        assert!(started.elapsed() < slipway_testkit::PATIENCE, "{} bytes", outbox(&data).len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let kept = outbox(&data);
    assert!(!kept.contains("canary"), "no manifest and no Secret");
    runtime.kill();
    // It comes back while the platform is still away, and more happens.
    let runtime = start();
    for number in (0..count / 20).rev() {
        site.delete(&format!("new-{number:04}")).await;
    }
    for number in count / 2..count {
        site.change(&format!("app-{number:04}"), STATES[number % 3]).await;
    }
    wire.confused.store(true, Ordering::SeqCst);
    wire.away.store(false, Ordering::SeqCst);
    let took = until_equal(&platform, &key, &site, "after the outage").await;
    println!(
        "the read model is the cluster {took:?} after the outage, {} bodies",
        wire.reports.load(Ordering::SeqCst)
    );
    // What was held back comes at last, and changes nothing; what happens from now on is told at once.
    wire.confused.store(false, Ordering::SeqCst);
    wire.let_go().await;
    assert_eq!(read_model(&platform, &key).await, site.truth);
    site.change(&format!("app-{:04}", count - 1), "Suspended").await;
    until_equal(&platform, &key, &site, "afterwards").await;
    let seen = String::from_utf8_lossy(&wire.seen.lock().unwrap()).into_owned();
    assert!(seen.contains("app-0001") && !seen.contains("canary"), "no manifest and no Secret leaves");
    drop(runtime);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_under_one_name_report_what_is_there_and_one_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let platform = Process::start(&["--data", folder.path().join("platform").to_str().unwrap()]);
    let key = platform.first_key.clone().unwrap();
    let token = registered(&platform, &key).await;
    let mut site = Site::start().await;
    let count = 60;
    for number in 0..count {
        site.create(&format!("app-{number:04}"), "Healthy").await;
    }
    let kubeconfig = site.kubeconfig();
    let start = |name: &str| {
        Runtime::start(
            &platform.url,
            &token,
            &kubeconfig,
            &folder.path().join(name),
            &["--lease-seconds", "3"],
        )
    };
    let (one, two) = (start("one"), start("two"));
    until_equal(&platform, &key, &site, "both").await;
    for number in 0..count {
        site.change(&format!("app-{number:04}"), STATES[number % 3]).await;
    }
    until_equal(&platform, &key, &site, "changes of both").await;
    // Nothing disappears because one of them says everything that it has.
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        assert_eq!(read_model(&platform, &key).await, site.truth);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // One is killed; what goes before the other one has its part is noticed all the same.
    one.kill();
    for number in 0..count / 2 {
        site.delete(&format!("app-{number:04}")).await;
    }
    for number in count / 2..count {
        site.change(&format!("app-{number:04}"), "Suspended").await;
    }
    let took = until_equal(&platform, &key, &site, "one alone").await;
    println!("one process tells of everything {took:?} after the other was killed");
    drop(two);
}
