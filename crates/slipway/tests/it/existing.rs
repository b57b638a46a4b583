//! `slipway up` on a real cluster of somebody's own: what it refuses, what it puts there, and that nothing stays but what was deployed.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use slipway_testkit::Kube;

use crate::process::{command, commit, git};

struct Up {
    child: Child,
    ready: Value,
}

fn words(data: &Path, kubeconfig: &Path, more: &[&str]) -> Vec<String> {
    let mut words: Vec<String> =
        ["up", "--output", "json", "--executor", "host", "--data"].map(str::to_owned).into();
    words.extend([data.display().to_string(), "--kubeconfig".to_owned(), kubeconfig.display().to_string()]);
    words.extend(more.iter().map(|&word| word.to_owned()));
    words
}

/// `up` saves a context, which is no other test's.
fn platform(data: &Path) -> std::process::Command {
    let mut command = command();
    command.env("SLIPWAY_CONFIG", data.with_extension("contexts"));
    command
}

impl Up {
    fn start(data: &Path, kubeconfig: &Path) -> Self {
        let mut child = platform(data)
            .args(words(data, kubeconfig, &[]))
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(data.with_extension("log")).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said = || std::fs::read_to_string(data.with_extension("log")).unwrap();
        let ready = serde_json::from_str(&line).unwrap_or_else(|_| panic!("it is not ready:\n{}", said()));
        Self { child, ready }
    }

    fn text(&self, name: &str) -> String {
        self.ready[name].as_str().unwrap().to_owned()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn refused(data: &Path, kubeconfig: &Path, more: &[&str]) -> String {
    let output = platform(data).args(words(data, kubeconfig, more)).stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success(), "{more:?} was not refused");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn down(data: &Path, more: &[&str]) -> Output {
    platform(data).args(["down", "--data", data.to_str().unwrap()]).args(more).output().unwrap()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + slipway_testkit::PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what} did not happen within 90 s");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A kubeconfig for an account that may look at pods and nothing else.
fn onlooker(kube: &Kube, folder: &Path) -> PathBuf {
    kube.kubectl(&["create", "serviceaccount", "onlooker", "--namespace", "default"]);
    kube.kubectl(&["create", "clusterrole", "onlooker", "--verb=list,watch", "--resource=pods"]);
    let of = ["--clusterrole=onlooker", "--serviceaccount=default:onlooker"];
    kube.kubectl(&[&["create", "clusterrolebinding", "onlooker"], &of[..]].concat());
    let token = kube.kubectl(&["create", "token", "onlooker", "--namespace", "default"]);
    let text = std::fs::read_to_string(kube.kubeconfig()).unwrap();
    let path = folder.join("onlooker");
    std::fs::write(&path, text).unwrap();
    let set = |words: &[&str]| {
        let done = std::process::Command::new("kubectl").arg("--kubeconfig").arg(&path).args(words).output();
        assert!(done.unwrap().status.success(), "{words:?}");
    };
    set(&["config", "set-credentials", "onlooker", &format!("--token={}", token.trim())]);
    set(&["config", "set-context", "--current", "--user=onlooker"]);
    path
}

/// A cluster that cannot be used is refused in a sentence, and nothing is put into it.
fn refusals(kube: &Kube) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let wrong = refused(&data, kube.kubeconfig(), &["--context", "production"]);
    assert!(wrong.contains("has no context `production`: it has "), "{wrong}");
    let wrong = refused(&data, &folder.path().join("none"), &[]);
    assert!(wrong.contains("there is no kubeconfig"), "{wrong}");
    let text = std::fs::read_to_string(kube.kubeconfig()).unwrap();
    let server = text.split("server: ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    let away = folder.path().join("away");
    std::fs::write(&away, text.replace(server, "https://127.0.0.1:1")).unwrap();
    let wrong = refused(&data, &away, &[]);
    assert!(wrong.contains("cannot reach the cluster") && wrong.contains("127.0.0.1:1"), "{wrong}");
    let wrong = refused(&data, &onlooker(kube, folder.path()), &[]);
    for right in ["create customresourcedefinitions", "create namespaces", "patch resources of every kind"] {
        assert!(wrong.contains(right), "all that is missing is said at once: {wrong}");
    }
    kube.kubectl(&["create", "namespace", "argocd"]);
    let argo = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: argocd-application-controller, namespace: argocd, labels: {app.kubernetes.io/name: argocd-application-controller}}\n\
        spec: {replicas: 1, serviceName: a, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: none}]}}}\n";
    kube.kubectl_with(&["apply", "--filename", "-"], argo);
    let wrong = refused(&data, kube.kubeconfig(), &[]);
    assert!(wrong.contains("Argo CD's application controller runs in namespace argocd"), "{wrong}");
    let wrong = platform(&data).args(["up", "--namespace", "x", "--data"]).arg(&data).output().unwrap();
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("give --kubeconfig or --context"));
    assert!(
        !kube.kubectl(&["get", "crds", "--output", "name"]).contains("argoproj"),
        "nothing was put there"
    );
    let nothing = down(&data, &["--remove"]);
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("has put nothing into any"), "{nothing:?}");
    kube.kubectl(&["delete", "namespace", "argocd", "--wait=true"]);
}

#[test]
fn up_on_a_cluster_of_ones_own_refuses_what_it_cannot_use_and_leaves_nothing_but_what_was_deployed() {
    let kube = Kube::own("existing");
    refusals(&kube);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    // A definition that was there before is somebody else's, and stays.
    let crds = command().args(["crds"]).output().unwrap();
    let projects = String::from_utf8(crds.stdout).unwrap();
    let projects =
        projects.split("---\n").find(|text| text.contains("name: appprojects.argoproj.io")).unwrap();
    kube.kubectl_with(&["create", "--filename", "-"], projects);

    let mut up = Up::start(&data, kube.kubeconfig());
    let log = || std::fs::read_to_string(data.with_extension("log")).unwrap();
    assert!(
        log().contains("definition applications.argoproj.io") && log().contains("namespace argocd"),
        "{}",
        log()
    );
    assert!(!log().contains("definition appprojects.argoproj.io"), "{}", log());
    let (url, key) = (up.text("url"), up.text("apiKey"));
    let with = [("SLIPWAY_URL", url.clone()), ("SLIPWAY_API_KEY", key.clone())];
    let made = crate::process::slipway_with(&with, &["repo", "create", "shop/deploy"]);
    assert!(made.status.success(), "{made:?}");
    let work = crate::process::working_copy(folder.path());
    std::fs::write(
        work.join("map.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shop}\ndata: {a: '1'}\n",
    )
    .unwrap();
    commit(&work, "first");
    let remote = format!("{url}/git/shop/deploy.git");
    let (pushed, said) =
        git(&work, &["push", "-q", &remote.replacen("://", &format!("://me:{key}@"), 1), "main"]);
    assert!(pushed, "{said}");
    let application = format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: shop, namespace: argocd, finalizers: [resources-finalizer.argocd.argoproj.io]}}\n\
         spec:\n  project: default\n  source: {{repoURL: '{remote}', targetRevision: main, path: .}}\n\
         \x20 destination: {{server: 'https://kubernetes.default.svc', namespace: shop}}\n\
         \x20 syncPolicy: {{automated: {{}}, syncOptions: [CreateNamespace=true]}}\n"
    );
    kube.kubectl_with(&["apply", "--filename", "-"], &application);
    let deployed = || {
        kube.kubectl(&["get", "configmaps", "--all-namespaces", "--output", "name"])
            .contains("configmap/shop")
    };
    until("the Application is deployed", deployed);
    // Killed without a word, and started again: nothing more is put there, and it is the same platform.
    up.child.kill().unwrap();
    drop(up);
    let up = Up::start(&data, kube.kubeconfig());
    assert!(log().contains("everything that is needed is there"), "{}", log());
    drop(up);

    let told = down(&data, &[]);
    assert!(String::from_utf8_lossy(&told.stdout).contains("--remove` takes them out"), "{told:?}");
    assert!(kube.kubectl(&["get", "namespaces", "--output", "name"]).contains("argocd"));
    let removed = down(&data, &["--remove"]);
    assert!(removed.status.success(), "{removed:?}");
    let crds = kube.kubectl(&["get", "crds", "--output", "name"]);
    assert_eq!(
        crds.lines().filter(|name| name.contains("argoproj")).count(),
        1,
        "the one that was there: {crds}"
    );
    assert!(!kube.kubectl(&["get", "namespaces", "--output", "name"]).contains("argocd"));
    assert!(deployed(), "what was deployed stays");
    let again = down(&data, &["--remove"]);
    assert!(!again.status.success(), "there is nothing left to remove: {again:?}");
}
