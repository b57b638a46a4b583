//! Cluster Secrets on the real Kubernetes: one that sees a namespace alone, and one whose token a program gives.
//!
//! The cluster is the one that the engine runs on, under its other address, and with an account that may do less.

use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::site::{Site, automated};

fn map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: b}}\n")
}

/// An account that may do everything in the target namespace and nothing elsewhere.
struct Account {
    server: String,
    ca: String,
    token: String,
}

impl Account {
    fn new(site: &Site<'_>, name: &str) -> Self {
        let target = &site.target;
        let subject = format!("--serviceaccount={}:{name}", target.name());
        target.kubectl(&["create", "serviceaccount", name]);
        target.apply(&format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: {name}}}\nrules: [{{apiGroups: ['*'], resources: ['*'], verbs: ['*']}}]\n"
        ));
        target.kubectl(&["create", "rolebinding", name, &format!("--role={name}"), &subject]);
        let view =
            |path: &str| target.kubectl(&["config", "view", "--raw", "-o", &format!("jsonpath={path}")]);
        Self {
            server: view("{.clusters[0].cluster.server}"),
            ca: view("{.clusters[0].cluster.certificate-authority-data}"),
            token: target.kubectl(&["create", "token", name]),
        }
    }
}

fn secret(site: &Site<'_>, name: &str, server: &str, config: &Value, more: &[(&str, &str)]) -> Value {
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let mut data =
        json!({"name": encode(name), "server": encode(server), "config": encode(&config.to_string())});
    for (key, value) in more {
        data[*key] = json!(encode(value));
    }
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": data,
        "metadata": {"name": name, "namespace": site.control.name(), "labels": {"argocd.argoproj.io/secret-type": "cluster"}}})
}

fn to(mut app: Value, cluster: &str) -> Value {
    let namespace = app["spec"]["destination"]["namespace"].clone();
    app["spec"]["destination"] = json!({"name": cluster, "namespace": namespace});
    app
}

fn conditions(site: &Site<'_>, name: &str) -> String {
    site.app(name)["status"]["conditions"].to_string()
}

#[test]
fn a_cluster_that_is_seen_by_namespaces_is_synced_to_and_refuses_what_lies_outside() {
    let other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: o, namespace: kube-public}\n";
    let class = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NAME}\nvalue: 1\n";
    let site = Site::quiet(&[("app/a.yaml", map("a")), ("outside/o.yaml", other.into())]);
    let target = site.target.name().to_owned();
    site.commit(&[("classes/c.yaml", class.replace("NAME", &target)), ("classes/a.yaml", map("classes"))]);
    let mut site = site;
    site.start(|_| {});
    let account = Account::new(&site, "deployer");
    let config = json!({"bearerToken": account.token, "tlsClientConfig": {"caData": account.ca}});
    let named = |name: &str| format!("{name}-{target}");
    site.create(&secret(
        &site,
        "narrow",
        &account.server,
        &config,
        &[("namespaces", &format!("{target}, "))],
    ));
    for name in ["app", "outside", "classes"] {
        let mut app = to(site.application(&named(name), name, automated()), "narrow");
        if name == "classes" {
            // What belongs to no namespace has to go with it.
            app["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
        }
        site.create(&app);
    }
    site.wait(&named("app"), "{.status.sync.status}=Synced");
    site.wait(&named("app"), "{.status.health.status}=Healthy");
    // What is there is watched there: drift is noticed without asking.
    site.target.kubectl(&["delete", "configmap", "a"]);
    site.until("the repair", || site.target.succeeds(&["get", "configmap", "a"]));
    site.until("the refusal of the namespace", || {
        conditions(&site, &named("outside"))
            .contains("namespace \\\"kube-public\\\" for ConfigMap \\\"o\\\" is not managed")
    });
    site.until("the refusal of the kind", || {
        conditions(&site, &named("classes")).contains("can not be managed when in namespaced mode")
    });
    assert!(!site.target.succeeds(&["get", "configmap", "classes"]), "nothing of it was deployed");

    // With clusterResources and the rights for it, what has no namespace is deployed too.
    let role = format!("classes-{target}");
    let subject = format!("--serviceaccount={target}:deployer");
    site.target.kubectl(&[
        "create",
        "clusterrole",
        &role,
        "--verb=*",
        "--resource=priorityclasses.scheduling.k8s.io",
    ]);
    site.target.kubectl(&["create", "clusterrolebinding", &role, &format!("--clusterrole={role}"), &subject]);
    site.create(&secret(
        &site,
        "narrow",
        &account.server,
        &config,
        &[("namespaces", &target), ("clusterResources", "true")],
    ));
    site.wait(&named("classes"), "{.status.sync.status}=Synced");
    assert!(site.target.succeeds(&["get", "priorityclass", &target]));
    // It takes along what it made; repaired as drift, it would stay behind.
    site.control.kubectl(&["delete", "app", &named("classes"), "--timeout=120s"]);
    assert!(!site.target.succeeds(&["get", "priorityclass", &target]));
    for kind in ["clusterrolebinding", "clusterrole"] {
        site.target.kubectl(&["delete", kind, &role, "--wait=false"]);
    }
}

#[test]
fn a_program_gives_the_token_of_a_cluster_and_its_words_stay_its_own() {
    let site = Site::new(&[("app/a.yaml", map("a"))]);
    let target = site.target.name().to_owned();
    let account = Account::new(&site, "deployer");
    let file = |name: &str, text: &str| {
        let path = site.folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
        path.display().to_string()
    };
    // Programs see no file of ours, so it tells by a connection that it was called.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = calls.clone();
    std::thread::spawn(move || {
        for _ in listener.incoming().flatten() {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    });
    // It wants its argument, its variable, and to know who asks; its token holds for a moment.
    let give = file(
        "give",
        &format!(
            "#!/bin/bash\n[ \"$1\" = get-token ] && [ \"$CLUSTER\" = far ] || exit 3\n\
             case \"$KUBERNETES_EXEC_INFO\" in *ExecCredential*) ;; *) exit 4 ;; esac\n: > /dev/tcp/127.0.0.1/{port}\n\
             printf '{{\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"%s\",\
             \"expirationTimestamp\":\"%s\"}}}}' '{}' \"$(date -u -d '+30 seconds' +%Y-%m-%dT%H:%M:%SZ)\"\n",
            account.token
        ),
    );
    let config = |command: &str| {
        json!({"tlsClientConfig": {"caData": account.ca}, "execProviderConfig": {"command": command, "args": ["get-token"],
            "env": {"CLUSTER": "far", "KEY": "canary"}, "apiVersion": "client.authentication.k8s.io/v1beta1"}})
    };
    let fails = file("fails", "#!/bin/sh\necho canary\necho \"$KEY\" >&2\nexit 7\n");
    let babbles = file("babbles", "#!/bin/sh\necho '{\"status\": \"canary\"'\n");
    // One server has one Secret; the others are told apart by their path, which nobody ever asks.
    let server = |name: &str| format!("{}/{name}", account.server);
    site.create(&secret(&site, "far", &account.server, &config(&give), &[("namespaces", &target)]));
    site.create(&secret(&site, "fails", &server("fails"), &config(&fails), &[]));
    site.create(&secret(&site, "babbles", &server("babbles"), &config(&babbles), &[]));
    site.create(&secret(&site, "absent", &server("absent"), &config("/nowhere/at/all"), &[]));
    let named = |name: &str| format!("{name}-{target}");
    for name in ["far", "fails", "babbles", "absent"] {
        site.create(&to(site.application(&named(name), "app", automated()), name));
    }
    site.wait(&named("far"), "{.status.sync.status}=Synced");
    for (name, words) in [
        ("fails", "its credential program failed (exit status: 7)"),
        ("babbles", "is no ExecCredential"),
        ("absent", "does not start"),
    ] {
        site.until(words, || conditions(&site, &named(name)).contains(words));
        let app = site.app(&named(name)).to_string();
        assert!(!app.contains("canary"), "{app}");
    }
    // A token that runs out is asked for again, and the new one is used.
    let count = || calls.load(std::sync::atomic::Ordering::SeqCst);
    let before = count();
    assert!(before >= 1);
    site.until("the next token", || {
        site.control.kubectl(&[
            "annotate",
            "app",
            &named("far"),
            "argocd.argoproj.io/refresh=normal",
            "--overwrite",
        ]);
        site.target.succeeds(&["delete", "configmap", "a"]);
        count() > before
    });
    site.until("the repair", || site.target.succeeds(&["get", "configmap", "a"]));
}
