//! A plain HTTPS client, the shared cluster, and a namespace per test.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A real Kubernetes on two busy cores takes its time: its namespace controller waits up to a minute between tries, its kubelet longer for a pod.
/// What fails, fails; what is only slow does not.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const JSON: &str = "application/json-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// Where the cluster is and how to get in.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) url: String,
    pub(crate) http: reqwest::Client,
}

/// Earlier runs of these tests may have left containers; nobody else's are touched, because each cluster has an id.
fn remove_leftovers() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for entry in std::fs::read_dir(env!("CARGO_TARGET_TMPDIR")).into_iter().flatten().flatten() {
        let path = entry.path();
        // A folder that is in use is locked and stays.
        if path.join("cluster-id").exists()
            && runtime.block_on(slipway_devcluster::remove_containers(&path, None)).is_ok()
        {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// Builds a client from a kubeconfig with inline certificates or a token.
pub(crate) fn from_kubeconfig(path: &Path) -> Access {
    let text = std::fs::read_to_string(path).expect("the kubeconfig is readable");
    let config = slipway_yaml::load_all_json(&text).expect("the kubeconfig is YAML").remove(0).0;
    let wanted = config["current-context"].as_str().unwrap_or_default();
    let find = |list: &str, name: &str| -> Value {
        let all = config[list].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|entry| entry["name"] == name).unwrap_or_default()
    };
    let context = find("contexts", wanted)["context"].clone();
    let cluster = find("clusters", context["cluster"].as_str().unwrap_or_default())["cluster"].clone();
    let user = find("users", context["user"].as_str().unwrap_or_default())["user"].clone();
    let base = path.parent().unwrap_or(Path::new("."));
    let pem = |holder: &Value, name: &str| -> Vec<u8> {
        if let Some(data) = holder[format!("{name}-data").as_str()].as_str() {
            use base64::Engine as _;
            return base64::engine::general_purpose::STANDARD.decode(data).expect("base64 in the kubeconfig");
        }
        match holder[name].as_str() {
            Some(file) => std::fs::read(base.join(file)).expect("a file of the kubeconfig"),
            None => Vec::new(),
        }
    };
    let ca = reqwest::Certificate::from_pem(&pem(&cluster, "certificate-authority")).expect("a CA");
    let mut builder = reqwest::Client::builder().tls_certs_only([ca]).no_proxy();
    if let Some(token) = user["token"].as_str() {
        let mut headers = reqwest::header::HeaderMap::new();
        headers.insert("authorization", format!("Bearer {token}").parse().expect("a header"));
        builder = builder.default_headers(headers);
    } else {
        let mut both = pem(&user, "client-certificate");
        both.extend_from_slice(b"\n");
        both.extend(pem(&user, "client-key"));
        builder = builder.identity(reqwest::Identity::from_pem(&both).expect("a client certificate"));
    }
    Access {
        url: cluster["server"].as_str().expect("a server").to_owned(),
        http: builder.build().expect("a client"),
    }
}

/// Starts an embedded cluster that lives as long as the test process.
pub(crate) fn start_embedded(data: PathBuf, engine: Option<slipway_devcluster::EngineChoice>) -> PathBuf {
    let kubeconfig = data.join("kubeconfig");
    let config = slipway_devcluster::Config {
        data,
        listen: "127.0.0.1:0".parse().expect("an address"),
        kubeconfig: kubeconfig.clone(),
        engine,
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async move {
            let token = tokio_util::sync::CancellationToken::new();
            let running = slipway_devcluster::start(config, token).await.expect("the cluster starts");
            sender.send(()).expect("the test waits");
            running.stopped().await;
        });
    });
    receiver.recv_timeout(Duration::from_secs(60)).expect("the cluster is up within a minute");
    kubeconfig
}

/// A cluster that was there before these tests and stays after them.
fn outside() -> Option<PathBuf> {
    std::env::var_os("SLIPWAY_TEST_KUBECONFIG").map(PathBuf::from)
}

/// The cluster for cases that need no containers.
fn api_cluster() -> &'static Path {
    static KUBECONFIG: OnceLock<PathBuf> = OnceLock::new();
    KUBECONFIG.get_or_init(|| {
        outside()
            .unwrap_or_else(|| start_embedded(scratch("api"), Some(slipway_devcluster::EngineChoice::Off)))
    })
}

/// The cluster for cases that run pods.
fn pod_cluster() -> &'static Path {
    static KUBECONFIG: OnceLock<PathBuf> = OnceLock::new();
    KUBECONFIG.get_or_init(|| {
        outside().unwrap_or_else(|| {
            make_image();
            std::thread::spawn(remove_leftovers).join().expect("leftovers can be removed");
            start_embedded(scratch("pods"), None)
        })
    })
}

const IMAGE: &str = "localhost/slipway-devcluster-test:1";

pub(crate) fn image() -> String {
    std::env::var("SLIPWAY_TEST_IMAGE").unwrap_or_else(|_| IMAGE.to_owned())
}

/// An image from the machine's own static busybox.
pub(crate) fn make_image() {
    let run = |program: &str, args: &[&str]| {
        let output = std::process::Command::new(program).args(args).output();
        let output = output.unwrap_or_else(|e| panic!("{program} is needed for tests that run pods (apt-get install podman busybox-static runc): {e}"));
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    if run("podman", &["image", "inspect", IMAGE]).0 {
        return;
    }
    let root = scratch("image");
    std::fs::create_dir_all(root.join("bin")).expect("a folder");
    std::fs::create_dir_all(root.join("tmp")).expect("a folder");
    std::fs::create_dir_all(root.join("etc")).expect("a folder");
    std::fs::write(root.join("etc/passwd"), "root:x:0:0:root:/:/bin/sh\n").expect("a file");
    let (_, busybox) = run("sh", &["-c", "command -v busybox"]);
    std::fs::copy(busybox.trim(), root.join("bin/busybox"))
        .expect("busybox-static is installed (apt-get install busybox-static)");
    for name in run("busybox", &["--list"]).1.lines().filter(|name| *name != "busybox") {
        let _ = std::os::unix::fs::symlink("busybox", root.join("bin").join(name));
    }
    let tar = root.with_extension("tar");
    let (root_text, tar_text) = (root.display().to_string(), tar.display().to_string());
    assert!(run("tar", &["-C", &root_text, "-cf", &tar_text, "."]).0, "tar works");
    assert!(
        run("podman", &["import", "--change", "CMD [\"/bin/sh\"]", &tar_text, IMAGE]).0,
        "podman import works"
    );
}

/// One test's view: the cluster and a namespace of its own.
pub(crate) struct Test {
    access: Access,
    pub(crate) ns: String,
    leaves: Leaves,
}

/// What a test has to take away again.
#[derive(Clone, Copy, PartialEq)]
enum Leaves {
    /// The cluster goes with the test process.
    Nothing,
    /// Somebody else's cluster: one node has room for so many pods.
    Objects(&'static Path),
    /// Containers outlive the embedded cluster on purpose; here nobody comes back for them.
    Containers(&'static Path),
}

pub(crate) type Answer = (u16, Value);

impl Test {
    pub(crate) async fn api() -> Test {
        let cluster = api_cluster();
        let leaves = if outside().is_some() { Leaves::Objects(cluster) } else { Leaves::Nothing };
        Test::on(cluster, leaves).await
    }

    pub(crate) async fn pods() -> Test {
        let cluster = pod_cluster();
        let leaves = match outside() {
            Some(_) => Leaves::Objects(cluster),
            None => Leaves::Containers(cluster),
        };
        Test::on(cluster, leaves).await
    }

    async fn on(cluster: &Path, leaves: Leaves) -> Test {
        let mut test = Test { access: from_kubeconfig(cluster), ns: String::new(), leaves };
        let (code, object) =
            test.post("/api/v1/namespaces", json!({"metadata": {"generateName": "case-"}})).await;
        assert_eq!(code, 201, "{object}");
        test.ns = object["metadata"]["name"].as_str().expect("a name").to_owned();
        // Pods need the account, which a controller makes.
        let path = test.core("serviceaccounts/default");
        test.eventually("the default service account", || async { test.get(&path).await.0 == 200 }).await;
        test
    }

    /// `/api/v1/namespaces/<own>/<rest>`
    pub(crate) fn core(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.ns)
    }

    /// `/apis/<group>/namespaces/<own>/<rest>`
    pub(crate) fn group(&self, group: &str, rest: &str) -> String {
        format!("/apis/{group}/namespaces/{}/{rest}", self.ns)
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: Option<String>,
    ) -> (u16, reqwest::header::HeaderMap, Vec<u8>) {
        let mut request = self
            .access
            .http
            .request(method.parse().expect("a method"), format!("{}{path}", self.access.url))
            .header("accept", "application/json")
            .header("user-agent", "behaviour/1");
        if let Some(body) = body {
            request = request.header("content-type", kind).body(body);
        }
        let response = request.send().await.unwrap_or_else(|e| panic!("{method} {path}: {e}"));
        let (code, headers) = (response.status().as_u16(), response.headers().clone());
        (code, headers, response.bytes().await.expect("a body").to_vec())
    }

    async fn json(&self, method: &str, path: &str, kind: &str, body: Option<Value>) -> Answer {
        let (code, _, bytes) = self.send(method, path, kind, body.map(|b| b.to_string())).await;
        (
            code,
            serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned())),
        )
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.json("GET", path, "", None).await
    }

    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> (u16, reqwest::header::HeaderMap, Value) {
        let request = self.access.http.get(format!("{}{path}", self.access.url)).header("accept", accept);
        let response = request.send().await.expect("an answer");
        let (code, headers) = (response.status().as_u16(), response.headers().clone());
        (code, headers, response.json().await.expect("JSON"))
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.json("POST", path, "application/json", Some(body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.json("PUT", path, "application/json", Some(body)).await
    }

    pub(crate) async fn patch(&self, path: &str, kind: &str, body: Value) -> Answer {
        self.json("PATCH", path, kind, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.json("DELETE", path, "", None).await
    }

    pub(crate) async fn delete_with(&self, path: &str, options: Value) -> Answer {
        self.json("DELETE", path, "application/json", Some(options)).await
    }

    /// Creates and insists that it worked.
    pub(crate) async fn create(&self, path: &str, body: Value) -> Value {
        let (code, object) = self.post(path, body).await;
        assert_eq!(code, 201, "{object}");
        object
    }

    pub(crate) async fn config_map(&self, name: &str, data: Value) -> Value {
        self.create(&self.core("configmaps"), json!({"metadata": {"name": name}, "data": data})).await
    }

    /// Asks until the condition holds; the cluster works on its own time.
    pub(crate) async fn eventually<F, Fut>(&self, what: &str, mut check: F)
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = bool>,
    {
        let end = Instant::now() + PATIENCE;
        while !check().await {
            assert!(Instant::now() < end, "{what} did not happen within {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the object at `path` satisfies the check, and returns it.
    pub(crate) async fn until(&self, path: &str, what: &str, check: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let (code, object) = self.get(path).await;
            if code == 200 && check(&object) {
                return object;
            }
            assert!(
                Instant::now() < end,
                "{what} did not happen within {PATIENCE:?} at {path}; last seen: {object}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn until_gone(&self, path: &str) {
        self.eventually(&format!("{path} going away"), || async { self.get(path).await.0 == 404 }).await;
    }

    pub(crate) async fn watch(&self, path: &str) -> Watch {
        let mark = if path.contains('?') { '&' } else { '?' };
        let url = format!("{}{path}{mark}watch=true", self.access.url);
        let response =
            self.access.http.get(url).header("accept", "application/json").send().await.expect("an answer");
        assert_eq!(response.status().as_u16(), 200);
        Watch { response, rest: Vec::new() }
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        let ns = std::mem::take(&mut self.ns);
        let (kubeconfig, wait) = match self.leaves {
            Leaves::Objects(kubeconfig) => (kubeconfig, false),
            Leaves::Containers(kubeconfig) => (kubeconfig, true),
            Leaves::Nothing => return,
        };
        if ns.is_empty() {
            return;
        }
        // A client of its own, on a thread of its own: the runtime of the test stands still in here.
        let left = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(take_away(&from_kubeconfig(kubeconfig), &ns, wait))
        })
        .join();
        if !std::thread::panicking() {
            assert_eq!(
                left.expect("the namespace is taken away"),
                Vec::<String>::new(),
                "containers are left"
            );
        }
    }
}

/// Removes a test's namespace and its definition, if it made one. Returns the containers that stay although nobody needs them.
async fn take_away(access: &Access, ns: &str, wait: bool) -> Vec<String> {
    let url = |path: String| format!("{}{path}", access.url);
    let namespace = url(format!("/api/v1/namespaces/{ns}"));
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let _ = access.http.delete(url(format!("{definitions}/widgets.{ns}.example.com"))).send().await;
    let _ = access.http.delete(&namespace).send().await;
    if !wait {
        return Vec::new();
    }
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end
        && access.http.get(&namespace).send().await.is_ok_and(|answer| answer.status().is_success())
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The engine is slower than the API, and nobody is left to end a container when the last test is over.
    loop {
        let left = containers(ns);
        if left.is_empty() || Instant::now() > end {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Containers of a namespace, also of pods that controllers made or that the test deleted a moment ago.
fn containers(ns: &str) -> Vec<String> {
    let filter = format!("label=io.slipway.namespace={ns}");
    let output = std::process::Command::new("podman").args(["ps", "-aq", "--filter", &filter]).output();
    let output = output.expect("podman runs");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// A watch, one event at a time.
pub(crate) struct Watch {
    response: reqwest::Response,
    rest: Vec<u8>,
}

impl Watch {
    /// The next event; nothing when the watch ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("an event is JSON"));
            }
            let chunk = tokio::time::timeout(Duration::from_secs(30), self.response.chunk())
                .await
                .expect("an event within 30 s")
                .ok()??;
            self.rest.extend_from_slice(&chunk);
        }
    }

    /// The next events as `TYPE name`.
    pub(crate) async fn names(&mut self, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        while names.len() < count {
            let event = self.next().await.expect("the watch goes on");
            let object = &event["object"];
            let name = object["metadata"]["name"].as_str().or(object["message"].as_str()).unwrap_or("");
            names.push(format!("{} {name}", event["type"].as_str().unwrap_or("")));
        }
        names
    }
}

/// A pod template with one container that runs a shell script.
pub(crate) fn template(app: &str, script: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [
        {"name": "main", "image": image(), "imagePullPolicy": "IfNotPresent", "command": ["/bin/sh", "-c", script]}]}})
}

pub(crate) fn deployment(name: &str, replicas: i64, script: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, script)}})
}

pub(crate) fn pod(name: &str, script: &str) -> Value {
    let mut object = template(name, script);
    object["metadata"]["name"] = json!(name);
    object["spec"]["restartPolicy"] = json!("Never");
    object
}

/// The messages of a Status' causes.
pub(crate) fn fields(status: &Value) -> Vec<String> {
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    causes.iter().map(|c| c["field"].as_str().unwrap_or("").to_owned()).collect()
}
