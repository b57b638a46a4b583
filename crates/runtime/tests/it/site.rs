//! A place on the real Kubernetes for one test: two namespaces, a repository, and an engine in this process or in
//! processes of their own, which can be killed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_runtime::{Config, Runtime};
use slipway_testkit::{Kube, Namespace, TEST_IMAGE, tool};
use tokio_util::sync::CancellationToken;

/// A namespace for Applications, one for what they deploy, a repository, and an engine.
pub(crate) struct Site<'k> {
    kube: &'k Kube,
    pub(crate) control: Namespace<'k>,
    pub(crate) target: Namespace<'k>,
    pub(crate) folder: tempfile::TempDir,
    stop: CancellationToken,
    running: Option<std::thread::JoinHandle<()>>,
}

impl Site<'static> {
    pub(crate) fn new(files: &[(&str, String)]) -> Self {
        Self::with(files, |_| {})
    }

    /// Without an engine: the test starts processes.
    pub(crate) fn quiet(files: &[(&str, String)]) -> Self {
        Self::on(Kube::shared(), files)
    }

    pub(crate) fn with(files: &[(&str, String)], change: impl FnOnce(&mut Config)) -> Self {
        let mut site = Self::quiet(files);
        site.start(change);
        site
    }

    /// Starts an engine in this process.
    pub(crate) fn start(&mut self, change: impl FnOnce(&mut Config)) -> slipway_runtime::Handle {
        let (kube, folder, control) = (Kube::shared(), &self.folder, &self.control);
        let mut config = Config::new("test", Some(kube.kubeconfig().to_owned()), folder.path().join("data"));
        config.namespace = control.name().to_owned();
        config.allow_local_repositories = true;
        config.tools = ["helm", "kustomize"].iter().map(|name| folder_of(&tool(name))).collect();
        change(&mut config);
        let stopping = self.stop.clone();
        let engine = Runtime::new(config);
        let handle = engine.handle();
        // A thread of its own: kubectl blocks the test's.
        let running = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.expect("a runtime").block_on(engine.run(stopping)).expect("the engine runs");
        });
        self.running = Some(running);
        handle
    }
}

impl<'k> Site<'k> {
    /// On this cluster, without an engine.
    pub(crate) fn on(kube: &'k Kube, files: &[(&str, String)]) -> Self {
        let (control, target) = (kube.namespace("gitops"), kube.namespace("shop"));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let site = Self { kube, control, target, folder, stop: CancellationToken::new(), running: None };
        std::fs::create_dir(site.repo()).expect("a folder");
        site.git(&["init", "--quiet", "--initial-branch=main"]);
        site.commit(files);
        site
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
            .args(arguments)
            .current_dir(self.repo())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .expect("git runs");
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    pub(crate) fn commit(&self, files: &[(&str, String)]) -> String {
        for (path, text) in files {
            let path = self.repo().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("written");
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", "A change"]);
        self.git(&["rev-parse", "HEAD"])
    }

    pub(crate) fn application(&self, name: &str, path: &str, policy: Value) -> Value {
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": name, "namespace": self.control.name()},
            "spec": {
                "project": "default",
                "source": {"repoURL": format!("file://{}", self.repo().display()), "path": path, "targetRevision": "main"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": self.target.name()},
                "syncPolicy": policy,
            },
        })
    }

    pub(crate) fn create(&self, object: &Value) {
        // The definitions come with the engine, which may have only begun.
        self.until("the definitions", || self.control.succeeds(&["get", "applications.argoproj.io"]));
        self.control.apply(&object.to_string());
    }

    pub(crate) fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(180);
        while !holds() {
            if Instant::now() > end {
                let apps = self.control.kubectl(&["get", "applications.argoproj.io", "-o", "yaml"]);
                panic!("{what} did not happen within 180 s:\n{apps}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn app(&self, name: &str) -> Value {
        let text = self.control.kubectl(&["get", "applications.argoproj.io", name, "-o", "json"]);
        serde_json::from_str(&text).expect("JSON")
    }

    /// As a user waits.
    pub(crate) fn wait(&self, name: &str, condition: &str) {
        self.control.kubectl(&[
            "wait",
            &format!("app/{name}"),
            "--timeout=180s",
            &format!("--for=jsonpath={condition}"),
        ]);
    }
}

impl Drop for Site<'_> {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(running) = self.running.take() {
            let ended = running.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the engine ended badly");
        }
    }
}

fn folder_of(program: &Path) -> PathBuf {
    program.parent().expect("a program is in a folder").to_owned()
}

pub(crate) fn automated() -> Value {
    json!({"automated": {"prune": true, "selfHeal": true}})
}

pub(crate) fn deployment(name: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: 1\n  selector: {{matchLabels: {{app: {name}}}}}\n  \
         template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      terminationGracePeriodSeconds: 0\n      containers:\n      \
         - name: ui\n        image: {TEST_IMAGE}\n        imagePullPolicy: IfNotPresent\n        command: [sleep, \"3600\"]\n        ports: [{{containerPort: 80}}]\n        \
         resources: {{requests: {{cpu: 10m, memory: 16Mi}}}}\n"
    )
}

pub(crate) fn service(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec:\n  selector: {{app: {name}}}\n  ports: [{{port: 80}}]\n"
    )
}

pub(crate) fn hook(name: &str, phase: &str, policy: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n  annotations:\n    argocd.argoproj.io/hook: {phase}\n    \
         argocd.argoproj.io/hook-delete-policy: {policy}\nspec:\n  backoffLimit: 0\n  template:\n    spec:\n      restartPolicy: Never\n      \
         terminationGracePeriodSeconds: 0\n      containers:\n      - {{name: c, image: {TEST_IMAGE}, imagePullPolicy: IfNotPresent, command: [\"true\"]}}\n"
    )
}

pub(crate) fn in_wave(text: &str, wave: i32) -> String {
    text.replacen(
        "metadata: {",
        &format!("metadata: {{annotations: {{argocd.argoproj.io/sync-wave: \"{wave}\"}}, "),
        1,
    )
}

/// An engine in a process of its own. Dropped, it is killed: it gets no chance to tidy up.
pub(crate) struct Process {
    child: std::process::Child,
    log: PathBuf,
}

impl Process {
    /// `name`: its data folder, and so who it is.
    pub(crate) fn start(site: &Site<'_>, name: &str, environment: &[(&str, &str)]) -> Self {
        let log = site.folder.path().join(format!("{name}.log"));
        let file = std::fs::File::options().create(true).append(true).open(&log).expect("a log");
        let child = Command::new(env!("CARGO_BIN_EXE_slipway-runtime"))
            .arg(site.kube.kubeconfig())
            .arg(site.folder.path().join(name))
            .arg(site.control.name())
            .env("RUST_LOG", "info,slipway_cluster::request=debug")
            .env("NO_COLOR", "1")
            .envs(environment.iter().copied())
            .stdout(std::process::Stdio::null())
            .stderr(file)
            .spawn()
            .expect("the engine starts");
        Self { child, log }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("readable")
    }

    /// The end that it came to by itself; none: it still runs.
    pub(crate) fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().expect("a process")
    }

    /// Asks it to stop in order.
    pub(crate) fn interrupt(&self) {
        self.signal("-INT");
    }

    /// It does and hears nothing until it is resumed.
    pub(crate) fn pause(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let kill = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(kill.is_ok_and(|status| status.success()), "no signal was sent");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
