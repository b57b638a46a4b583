//! A real Kubernetes for tests: started when the first test asks, found again by the next, one namespace for each test.
//!
//! Comes in: nothing but the wish. Goes out: a kubeconfig, namespaces that are removed again, and faults on clusters
//! that belong to one test alone. Everything that goes wrong here is a panic with a sentence: a test without its
//! cluster has failed.

use std::io::Write as _;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::reads::Reads;

/// The image that every cluster has: a busybox, and a curl that resolves names.
pub const TEST_IMAGE: &str = "localhost/slipway-test:1";

/// A cluster that runs.
#[derive(Debug)]
pub struct Kube {
    name: String,
    kubeconfig: PathBuf,
    /// Only of the shared one: nobody takes it away while tests ask.
    reads: Option<Reads>,
}

impl Kube {
    /// The cluster that all tests of this machine share. It keeps running: the next test finds it warm.
    /// Nothing may be done to it that another test would notice; for that there is [`Kube::own`].
    pub fn shared() -> &'static Kube {
        static SHARED: OnceLock<Kube> = OnceLock::new();
        SHARED.get_or_init(|| {
            let kube = Kube::up("test", &[]);
            let reads = Reads::new(&kube.kubeconfig);
            Kube { reads, ..kube }
        })
    }

    /// A cluster for one test alone, which may break it. It is removed with the value.
    pub fn own(name: &str) -> OwnKube {
        OwnKube(Kube::up(name, &[]))
    }

    /// As [`Kube::own`], with nodes and pods that exist in the API only, for tests of many.
    pub fn own_with_fake_nodes(name: &str, nodes: usize) -> OwnKube {
        OwnKube(Kube::up(name, &["--nodes", &format!("fake:{nodes}")]))
    }

    fn up(name: &str, options: &[&str]) -> Kube {
        // The last line is the path; what went on before is on standard error, which the test shows when it fails.
        let text = script(name, &[&["up"], options].concat());
        Kube { name: name.to_owned(), kubeconfig: PathBuf::from(text.trim()), reads: None }
    }

    /// A kubeconfig of the administrator, with everything inside.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Gives an image made from a folder to the cluster's node.
    pub fn image(&self, folder: &Path, reference: &str, command: &[&str]) {
        let folder = folder.to_str().expect("the folder's name is text");
        script(&self.name, &[&["image", folder, reference], command].concat());
    }

    /// Runs kubectl and gives what it printed; panics when it fails.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.kubectl_with(arguments, "")
    }

    /// As [`Kube::kubectl`], with text on its standard input.
    pub fn kubectl_with(&self, arguments: &[&str], input: &str) -> String {
        if let Some(answer) = self.reads.as_ref().and_then(|reads| reads.answer(arguments)) {
            return answer;
        }
        let output = self.try_kubectl(arguments, input);
        text(&format!("kubectl {}", arguments.join(" ")), &output)
    }

    fn try_kubectl(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        run(command, input)
    }

    /// A namespace of its own for a test, ready for pods.
    pub fn namespace(&self, prefix: &str) -> Namespace<'_> {
        let object = format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  generateName: {prefix}-\n");
        let name = self.kubectl_with(&["create", "-o", "jsonpath={.metadata.name}", "-f", "-"], &object);
        let namespace = Namespace { kube: self, name };
        // Pods are refused until the controllers have made the account.
        namespace.until("the default service account", || {
            namespace.succeeds(&["get", "serviceaccount", "default"])
        });
        namespace
    }
}

/// A namespace that goes away with the value, with everything in it.
#[derive(Debug)]
pub struct Namespace<'a> {
    kube: &'a Kube,
    name: String,
}

impl Namespace<'_> {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// kubectl in this namespace.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.kube.kubectl(&[&["--namespace", self.name.as_str()], arguments].concat())
    }

    /// Whether kubectl succeeds in this namespace.
    pub fn succeeds(&self, arguments: &[&str]) -> bool {
        let all = [&["--namespace", self.name.as_str()], arguments].concat();
        let known = self.kube.reads.as_ref().and_then(|reads| reads.is_there(&all));
        known.unwrap_or_else(|| self.kube.try_kubectl(&all, "").status.success())
    }

    /// Server-side apply of a manifest.
    pub fn apply(&self, manifest: &str) {
        let arguments =
            ["--namespace", &self.name, "apply", "--server-side", "--field-manager=testkit", "-f", "-"];
        self.kube.kubectl_with(&arguments, manifest);
    }

    /// Asks until it is so.
    pub fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(120);
        while !holds() {
            assert!(
                Instant::now() < end,
                "{what} did not happen within 120 s in namespace {}:\n{}",
                self.name,
                self.kubectl(&["get", "all,events", "-o", "wide"])
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        let arguments = ["delete", "namespace", &self.name, "--wait=false"];
        let output = self.kube.try_kubectl(&arguments, "");
        if !output.status.success() && !std::thread::panicking() {
            panic!(
                "namespace {} could not be removed: {}",
                self.name,
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}

/// A cluster that belongs to one test.
#[derive(Debug)]
pub struct OwnKube(Kube);

impl Deref for OwnKube {
    type Target = Kube;

    fn deref(&self) -> &Kube {
        &self.0
    }
}

impl OwnKube {
    /// The API goes away and comes back; returns when it is ready again.
    pub fn restart_apiserver(&self) {
        self.fault("apiserver-restart");
    }

    /// The API answers with errors until the value is dropped.
    pub fn stop_etcd(&self) -> Fault<'_> {
        self.hold("etcd-stop", "etcd-start")
    }

    /// The node stops working and renewing its lease until the value is dropped; containers go on.
    pub fn pause_kubelet(&self) -> Fault<'_> {
        self.hold("kubelet-pause", "kubelet-resume")
    }

    /// No packet passes between the node with its pods and the rest until the value is dropped.
    pub fn drop_network(&self) -> Fault<'_> {
        self.hold("network-drop", "network-restore")
    }

    fn hold(&self, begin: &str, end: &'static str) -> Fault<'_> {
        self.fault(begin);
        Fault { kube: self, end }
    }

    fn fault(&self, kind: &str) {
        script(&self.0.name, &["fault", &self.0.name, kind]);
    }
}

impl Drop for OwnKube {
    fn drop(&mut self) {
        let output = run(script_command(&self.0.name, &["down"]), "");
        if !output.status.success() && !std::thread::panicking() {
            panic!(
                "cluster {} could not be removed: {}",
                self.0.name,
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}

/// Something that is broken, and mended with the value.
#[derive(Debug)]
#[must_use = "the fault ends when this is dropped"]
pub struct Fault<'a> {
    kube: &'a OwnKube,
    end: &'static str,
}

impl Drop for Fault<'_> {
    fn drop(&mut self) {
        // A panic while panicking would hide the first one; the cluster goes away anyway.
        if !std::thread::panicking() {
            self.kube.fault(self.end);
        }
    }
}

/// A program of `scripts/kube.sh tools`, built if need be.
pub fn tool(name: &str) -> PathBuf {
    PathBuf::from(script("test", &["tools", name]).trim())
}

/// The program that captures what steps of Workflows leave, built if need be.
pub fn executor() -> PathBuf {
    let output = run(Command::new(crate::script("executor.sh")), "");
    PathBuf::from(text("scripts/executor.sh", &output).trim())
}

fn script_command(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(crate::script("kube.sh"));
    command.env("NAME", name).args(arguments);
    command
}

fn script(name: &str, arguments: &[&str]) -> String {
    let output = run(script_command(name, arguments), "");
    text(&format!("NAME={name} scripts/kube.sh {}", arguments.join(" ")), &output)
}

fn text(what: &str, output: &Output) -> String {
    assert!(
        output.status.success(),
        "{what}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn run(mut command: Command, input: &str) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap_or_else(
            |error| {
                panic!(
                    "{:?} does not start ({error}); scripts/setup.sh test installs what tests need",
                    command.get_program()
                )
            },
        );
    // A program that ends without reading closes the pipe: its status says why, not this error.
    let _ = child.stdin.take().expect("standard input is a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("the program can be waited for")
}
