//! ApplicationSets of other namespaces than the control plane's: what they make is made beside them, and what is not
//! theirs they neither touch nor read.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_cluster::{ObjectKey, Propagation, WriteOptions};

use crate::world::{World, automated, config_map};

const SET: &str = "argoproj.io/ApplicationSet";
const APP: &str = "argoproj.io/Application";

/// A control plane that follows sets of `team-*`, and a project that lets `team-a` read the repository.
async fn two_teams(parameters: Value) -> World {
    let world = World::new().await;
    world.commit(&[("apps/a/map.yaml", &config_map("a", "1"))]);
    for namespace in ["team-a", "team-b", "outside"] {
        world.make("v1", "Namespace", "", namespace, json!({})).await;
    }
    let mut data = json!({"application.namespaces": "team-a, outside",
        "applicationsetcontroller.namespaces": "/^team-[ab]$/"});
    data.as_object_mut().expect("an object").extend(parameters.as_object().expect("an object").clone());
    world.make("v1", "ConfigMap", "argocd", "argocd-cmd-params-cm", json!({"data": data})).await;
    let project = json!({"spec": {"sourceRepos": [world.url()], "sourceNamespaces": ["team-a"],
        "destinations": [{"server": "*", "namespace": "*"}],
        "clusterResourceWhitelist": [{"group": "*", "kind": "*"}]}});
    world.make("argoproj.io/v1alpha1", "AppProject", "argocd", "team", project).await;
    world
}

fn spec(world: &World, generators: Value) -> Value {
    json!({"spec": {
        "goTemplate": true,
        "generators": generators,
        "template": {
            "metadata": {"name": "shop-{{ .name }}", "namespace": "argocd"},
            "spec": {
                "project": "team",
                "source": {"repoURL": world.url(), "path": "apps/a", "targetRevision": "main"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"},
                "syncPolicy": automated(),
            },
        },
    }})
}

fn named(names: &[&str]) -> Value {
    let elements: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    json!([{"list": {"elements": elements}}])
}

async fn make(world: &World, namespace: &str, name: &str, set: Value) {
    world.make("argoproj.io/v1alpha1", "ApplicationSet", namespace, name, set).await;
}

async fn until(
    world: &World,
    key: (&str, &str, &str),
    what: &str,
    question: impl Fn(&Value) -> bool,
) -> Value {
    let started = Instant::now();
    loop {
        let found = world.read(key.0, key.1, key.2).await;
        if question(&found) {
            return found;
        }
        assert!(
            started.elapsed() < slipway_testkit::PATIENCE,
            "{key:?} never was {what}: {:#}",
            found["status"]
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn fault(set: &Value) -> String {
    let conditions = set["status"]["conditions"].as_array().into_iter().flatten();
    let mut faults = conditions.filter(|one| one["type"] == "ErrorOccurred" && one["status"] == "True");
    faults.next().map(|one| one["message"].as_str().unwrap_or_default().to_owned()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_of_a_team_makes_and_deletes_in_its_own_namespace_alone() {
    let world = two_teams(json!({})).await;
    // The same names in both namespaces: neither set takes the other's for its own.
    let mut ours = spec(&world, named(&["a", "old"]));
    ours["spec"]["template"]["spec"]["project"] = "default".into();
    ours["spec"]["template"]["spec"]["syncPolicy"] = json!({});
    make(&world, "argocd", "shops", ours).await;
    // A patch is no way out either.
    let mut theirs = spec(&world, named(&["a", "b"]));
    theirs["spec"]["templatePatch"] = "metadata: {namespace: argocd}".into();
    make(&world, "team-a", "shops", theirs).await;
    // Nobody follows the one, and nobody would look after what the other makes.
    make(&world, "outside", "shops", spec(&world, named(&["x"]))).await;
    make(&world, "team-b", "shops", spec(&world, named(&["y"]))).await;
    world.start();
    for name in ["shop-a", "shop-b"] {
        until(&world, (APP, "team-a", name), "synced", |app| app["status"]["sync"]["status"] == "Synced")
            .await;
    }
    let set =
        until(&world, (SET, "team-a", "shops"), "counted", |set| set["status"]["resourcesCount"] == 2).await;
    assert!(
        set["status"]["resources"]
            .as_array()
            .is_some_and(|all| all.iter().all(|one| one["namespace"] == "team-a")),
        "{:#}",
        set["status"]
    );
    until(&world, (SET, "argocd", "shops"), "counted", |set| set["status"]["resourcesCount"] == 2).await;
    let before = [world.app("shop-a").await, world.app("shop-old").await];
    assert!(before.iter().all(|app| app["spec"]["project"] == "default"), "{before:#?}");
    assert!(world.app("shop-b").await.is_null(), "nothing was made in the control plane's namespace");
    let refused = until(&world, (SET, "team-b", "shops"), "refused", |set| !fault(set).is_empty()).await;
    assert!(fault(&refused).contains("add it to application.namespaces"), "{}", fault(&refused));
    assert!(world.read(APP, "team-b", "shop-y").await.is_null());
    let outside = world.read(SET, "outside", "shops").await;
    assert!(outside["status"]["conditions"].is_null(), "{outside:#}");
    assert!(world.read(APP, "outside", "shop-x").await.is_null());

    // One goes, then all: the control plane's, of the same names, stay as they are.
    let target = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"namespace": "team-a", "name": "shops"}});
    let patch = json!({"spec": {"generators": named(&["b"])}});
    world.client.merge(&target, &patch, WriteOptions::default()).await.expect("patched");
    until(&world, (APP, "team-a", "shop-a"), "gone", Value::is_null).await;
    let key = ObjectKey::new("argoproj.io", "ApplicationSet", "team-a", "shops");
    world.client.delete(&key, None, Propagation::Background, false).await.expect("deleted");
    until(&world, (APP, "team-a", "shop-b"), "gone", Value::is_null).await;
    for app in before {
        let name = app["metadata"]["name"].as_str().expect("a name");
        let now = world.app(name).await;
        assert_eq!(now["metadata"]["uid"], app["metadata"]["uid"], "{name}");
        assert_eq!(now["spec"], app["spec"], "{name}");
        assert!(now["metadata"]["deletionTimestamp"].is_null(), "{name}");
    }
}

type Heard = Arc<Mutex<Vec<String>>>;

/// A Git host with one pull request that notes what it is told; also a plugin.
async fn listener() -> (String, Heard) {
    let heard = Heard::default();
    let notes = heard.clone();
    let router = axum::Router::new().fallback(move |headers: axum::http::HeaderMap| {
        let token = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or("nobody");
        notes.lock().expect("no panic").push(token.to_owned());
        async {
            axum::Json(json!([{"number": 7, "title": "T", "head": {"ref": "f", "sha": "abc"},
                "base": {"ref": "main"}, "user": {"login": "ada"}, "labels": []}]))
        }
    });
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", socket.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(socket, router).await });
    (address, heard)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_of_a_team_reads_no_secret_config_or_repository_that_is_not_its_own() {
    let (address, heard) = listener().await;
    let world = two_teams(json!({"applicationsetcontroller.allowed.scm.providers": address})).await;
    for name in ["canary", "argocd-secret"] {
        let secret = json!({"stringData": {"token": "control-plane-canary"}});
        world.make("v1", "Secret", "argocd", name, secret).await;
    }
    let plugin = json!({"data": {"baseUrl": address, "token": "$argocd-secret:token"}});
    world.make("v1", "ConfigMap", "argocd", "plugin", plugin.clone()).await;
    world.make("v1", "ConfigMap", "team-a", "own-plugin", plugin).await;
    let pulls = |secret: &str| {
        json!([{"pullRequest": {"gitea": {"api": address, "owner": "o", "repo": "r",
            "tokenRef": {"secretName": secret, "key": "token"}}}}])
    };
    let app = json!([{"scmProvider": {"github": {"api": address, "organization": "o", "appSecretName": "canary"}}}]);
    let plugin = |name: &str| json!([{"plugin": {"configMapRef": {"name": name}}}]);
    let decisions = json!([{"clusterDecisionResource": {"configMapRef": "plugin", "name": "x"}}]);
    let private = json!([{"git": {"repoURL": "file:///somebody/elses", "files": [{"path": "secret.yaml"}]}}]);
    let elsewhere =
        json!([{"pullRequest": {"gitea": {"api": "http://evil.example", "owner": "o", "repo": "r"}}}]);
    let attempts = [
        ("by-name", pulls("canary"), "no Secret canary in the namespace team-a"),
        ("by-path", pulls("../../argocd/secrets/canary"), "in the namespace team-a"),
        ("by-app", app, "no Secret canary in the namespace team-a"),
        ("by-plugin", plugin("plugin"), "no ConfigMap plugin in the namespace team-a"),
        ("by-own-plugin", plugin("own-plugin"), "no Secret argocd-secret in the namespace team-a"),
        ("by-decision", decisions, "no ConfigMap plugin in the namespace team-a"),
        ("by-repository", private, "no project lets the namespace team-a read file:///somebody/elses"),
        ("by-amazon", json!([{"scmProvider": {"awsCodeCommit": {"region": "eu-west-1"}}}]), "must not use"),
        ("by-host", elsewhere, "not among applicationsetcontroller.allowed.scm.providers"),
    ];
    for (name, generators, _) in &attempts {
        make(&world, "team-a", name, spec(&world, generators.clone())).await;
    }
    world.start();
    for (name, _, expected) in &attempts {
        let set = until(&world, (SET, "team-a", name), "refused", |set| !fault(set).is_empty()).await;
        assert!(fault(&set).contains(expected), "{name}: {}", fault(&set));
        assert!(!set.to_string().contains("control-plane-canary"), "{name}: {set:#}");
    }
    assert_eq!(*heard.lock().expect("no panic"), Vec::<String>::new(), "nobody was told anything");

    // Its own Secret is its own to send.
    let secret = json!({"stringData": {"token": "mine"}});
    world.make("v1", "Secret", "team-a", "mine", secret).await;
    let mut set = spec(&world, pulls("mine"));
    set["spec"]["template"]["metadata"]["name"] = "pr-{{ .number }}".into();
    make(&world, "team-a", "previews", set).await;
    until(&world, (APP, "team-a", "pr-7"), "made", |app| !app.is_null()).await;
    assert!(heard.lock().expect("no panic").iter().all(|token| token == "token mine"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn providers_are_asked_for_a_team_only_where_the_installation_says_which() {
    let (address, heard) = listener().await;
    let world = two_teams(json!({})).await;
    let generators = json!([{"pullRequest": {"gitea": {"api": address, "owner": "o", "repo": "r"}}}]);
    let mut set = spec(&world, generators);
    set["spec"]["template"]["metadata"]["name"] = "pr-{{ .number }}".into();
    make(&world, "team-a", "previews", set.clone()).await;
    make(&world, "argocd", "previews", set).await;
    world.start();
    let refused = until(&world, (SET, "team-a", "previews"), "refused", |set| !fault(set).is_empty()).await;
    assert!(
        fault(&refused).contains("set applicationsetcontroller.allowed.scm.providers"),
        "{}",
        fault(&refused)
    );
    // The control plane's own may, as ever.
    until(&world, (APP, "argocd", "pr-7"), "made", |app| !app.is_null()).await;
    assert!(world.read(APP, "team-a", "pr-7").await.is_null());
    let asked = heard.lock().expect("no panic").len();
    assert!(asked >= 1, "the control plane's set asked");
    let target = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "argocd", "name": "argocd-cmd-params-cm"}});
    let patch =
        json!({"data": {"applicationsetcontroller.allowed.scm.providers": format!("https://x, {address}/")}});
    world.client.merge(&target, &patch, WriteOptions::default()).await.expect("patched");
    until(&world, (APP, "team-a", "pr-7"), "made", |app| !app.is_null()).await;
}
