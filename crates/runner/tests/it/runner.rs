//! Runners for tests: in this process, or as one that can be killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use slipway_api::Client;
use slipway_model::Secret;
use slipway_runner::{Config, ExecutorChoice, KubernetesConfig, Storage};
use slipway_testkit::{Kube, TEST_IMAGE};
use tokio_util::sync::CancellationToken;

use crate::server::Server;

pub const SHIM: &str = env!("CARGO_BIN_EXE_slipway-runner-shim");

/// A server and a runner that live as long as the tests.
pub struct Harness {
    pub server: Server,
    pub data: PathBuf,
    pub executor: &'static str,
    /// What a step can name as its image.
    pub image: String,
}

/// What this machine has: the host always, Podman and Docker when they are installed, Kubernetes always (it is started).
/// `SLIPWAY_EXECUTORS=host,podman` is for people in a hurry; in CI all of them run.
pub fn harnesses() -> Vec<&'static Harness> {
    let chosen = std::env::var("SLIPWAY_EXECUTORS").ok().filter(|_| std::env::var_os("CI").is_none());
    let wanted = |name: &str| chosen.as_ref().is_none_or(|chosen| chosen.split(',').any(|one| one == name));
    let mut all = Vec::new();
    all.extend(wanted("host").then(host));
    all.extend(wanted("podman").then(podman).flatten());
    all.extend(wanted("docker").then(docker).flatten());
    all.extend(wanted("kubernetes").then(kubernetes));
    all
}

pub fn kubernetes() -> &'static Harness {
    static KUBERNETES: OnceLock<Harness> = OnceLock::new();
    KUBERNETES.get_or_init(|| start("kubernetes", TEST_IMAGE.to_owned()))
}

/// Of all tests of this file: pods of an earlier run are nobody's, and the next run removes them.
pub fn namespace() -> &'static str {
    const NAME: &str = "slipway-runner-tests";
    static MADE: OnceLock<()> = OnceLock::new();
    MADE.get_or_init(|| {
        let kube = Kube::shared();
        let object = format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAME}\n");
        kube.kubectl_with(&["apply", "-f", "-"], &object);
        kube.kubectl(&[
            "--namespace",
            NAME,
            "delete",
            "pods,secrets",
            "--all",
            "--grace-period=0",
            "--force",
        ]);
    });
    NAME
}

pub fn kubernetes_config() -> KubernetesConfig {
    KubernetesConfig::new(Some(Kube::shared().kubeconfig().to_owned()), namespace(), Storage::Host)
}

pub fn host() -> &'static Harness {
    static HOST: OnceLock<Harness> = OnceLock::new();
    HOST.get_or_init(|| start("host", "none".to_owned()))
}

pub fn podman() -> Option<&'static Harness> {
    static PODMAN: OnceLock<Option<Harness>> = OnceLock::new();
    let found = PODMAN.get_or_init(|| {
        if slipway_runner::detect().executor != "podman" {
            assert!(std::env::var_os("CI").is_none(), "podman is needed: scripts/setup.sh test installs it");
            eprintln!(
                "note: podman is not installed; its half of the contract is not tested on this machine"
            );
            return None;
        }
        Some(start("podman", image("podman")))
    });
    found.as_ref()
}

/// It is started when it is installed and does not run.
pub fn docker() -> Option<&'static Harness> {
    static DOCKER: OnceLock<Option<Harness>> = OnceLock::new();
    let found = DOCKER.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/docker.sh");
        if !Command::new(script).arg("up").stdin(Stdio::null()).status().unwrap().success() {
            assert!(std::env::var_os("CI").is_none(), "docker is needed: scripts/setup.sh test installs it");
            eprintln!("note: there is no docker; its part of the contract is not tested on this machine");
            return None;
        }
        Some(start("docker", image("docker")))
    });
    found.as_ref()
}

fn start(executor: &'static str, image: String) -> Harness {
    // It lives as long as the process, so it is the next one that cleans up.
    let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("harness-{executor}"));
    let _ = std::fs::remove_dir_all(&data);
    std::fs::create_dir_all(&data).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let folder = data.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async move {
            let server = Server::start().await;
            tell.send(server.clone()).unwrap();
            let mut config = config(&server, &folder, executor);
            config.capacity = 8;
            config.sweep = std::time::Duration::from_secs(2);
            slipway_runner::run(config, CancellationToken::new()).await.unwrap();
        });
    });
    Harness { server: told.recv().unwrap(), data, executor, image }
}

pub fn config(server: &Server, data: &Path, executor: &str) -> Config {
    let client = Client::new(server.url.clone(), Secret::new("key".to_owned()));
    let mut config = Config::new("test", client, data);
    config.shim = Some(SHIM.into());
    config.executor = match executor {
        "host" => ExecutorChoice::Host,
        "kubernetes" => ExecutorChoice::Kubernetes(Box::new(kubernetes_config())),
        "docker" => ExecutorChoice::Docker,
        _ => ExecutorChoice::Podman,
    };
    config
}

/// A runner in a process of its own.
pub struct Process(Child);

impl Process {
    pub fn start(server: &Server, data: &Path, executor: &str) -> Self {
        let log =
            std::fs::OpenOptions::new().append(true).create(true).open(data.with_extension("log")).unwrap();
        let cluster = match executor {
            "kubernetes" => vec![Kube::shared().kubeconfig().to_str().unwrap(), namespace()],
            _ => Vec::new(),
        };
        let child = Command::new(SHIM)
            .args([server.url.as_str(), data.to_str().unwrap(), executor])
            .args(cluster)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self(child)
    }

    /// With these variables in its environment.
    pub fn start_with(server: &Server, data: &Path, executor: &str, variables: &[(&str, &str)]) -> Self {
        let log =
            std::fs::OpenOptions::new().append(true).create(true).open(data.with_extension("log")).unwrap();
        let child = Command::new(SHIM)
            .args([server.url.as_str(), data.to_str().unwrap(), executor])
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self(child)
    }

    /// On the host, dialling this address, with these variables.
    pub fn start_at(url: &str, data: &Path, variables: &[(&str, &Path)]) -> Self {
        let log =
            std::fs::OpenOptions::new().append(true).create(true).open(data.with_extension("log")).unwrap();
        let child = Command::new(SHIM)
            .args([url, data.to_str().unwrap(), "host"])
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self(child)
    }

    /// kill -9.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An image made of this machine's own programs, so that no registry is needed.
fn image(engine: &str) -> String {
    const NAME: &str = "localhost/slipway-runner-test:3";
    let there = Command::new(engine)
        .args(["image", "inspect", NAME])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    if there.success() {
        return NAME.to_owned();
    }
    let tree = tempfile::tempdir().unwrap();
    let script = r#"
        for program in sh cat ls ln sleep id env sort mkdir touch rm head tail base64 seq grep wc dd true false pwd test; do
          path=$(command -v $program) || continue
          case "$path" in /*) ;; *) path=/usr/bin/$program ;; esac
          real=$(readlink -f "$path")
          mkdir -p usr/bin && cp "$real" "usr/bin/$program"
          ldd "$real" | grep -o '/[^ ]*' | while read -r library; do
            mkdir -p ".$(dirname "$library")" && cp -L "$library" ".$library"
          done
        done
        ln -s usr/bin bin; mkdir -p tmp proc dev sys etc
        tar -c . | $ENGINE import --change 'ENV PATH=/usr/bin' --change 'ENTRYPOINT ["/usr/bin/sh","-c"]' - "$IMAGE" >/dev/null
    "#;
    let status = Command::new("sh")
        .args(["-ec", script])
        .current_dir(tree.path())
        .env("IMAGE", NAME)
        .env("ENGINE", engine)
        .status()
        .unwrap();
    assert!(status.success(), "the test image can be made");
    NAME.to_owned()
}
