//! ApplicationSets on a cluster: what they make is made, followed, kept and deleted.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_cluster::{ObjectKey, Propagation, WriteOptions};

use crate::crash::Process;
use crate::world::{World, automated, config_map};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("argoproj.io", "ApplicationSet", "argocd", name)
}

async fn make_set(world: &World, generators: Value, extra: Value) {
    let mut spec = json!({
        "goTemplate": true,
        "goTemplateOptions": ["missingkey=error"],
        "generators": generators,
        "template": {
            "metadata": {"name": "shop-{{ .path.basename }}", "labels": {"of": "{{ .path.basename }}"}},
            "spec": {
                "project": "default",
                "source": {"repoURL": world.url(), "path": "{{ .path.path }}", "targetRevision": "main"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"},
                "syncPolicy": automated(),
            },
        },
    });
    for (field, value) in extra.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    world.make("argoproj.io/v1alpha1", "ApplicationSet", "argocd", "shops", json!({"spec": spec})).await;
}

fn folders(world: &World) -> Value {
    json!([{"git": {"repoURL": world.url(), "revision": "main", "directories": [{"path": "apps/*"}]}}])
}

async fn until_set(world: &World, what: &str, question: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        let set = world.client.read(&key("shops")).await.expect("readable").unwrap_or_default();
        if question(&set) {
            return set;
        }
        assert!(
            started.elapsed() < slipway_testkit::PATIENCE,
            "the set never was {what}: {}",
            serde_json::to_string_pretty(&set["status"]).expect("JSON")
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn refresh(world: &World) {
    let target = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"namespace": "argocd", "name": "shops"}});
    let patch = json!({"metadata": {"annotations": {"argocd.argoproj.io/application-set-refresh": "true"}}});
    world.client.merge(&target, &patch, WriteOptions::default()).await.expect("patched");
}

fn is_refreshed(set: &Value) -> bool {
    set["metadata"]["annotations"]["argocd.argoproj.io/application-set-refresh"].is_null()
}

fn condition<'v>(set: &'v Value, kind: &str) -> &'v Value {
    let conditions = set["status"]["conditions"].as_array();
    conditions.and_then(|all| all.iter().find(|one| one["type"] == kind)).unwrap_or(&Value::Null)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_become_applications_and_an_empty_repository_deletes_none() {
    let world = World::new().await;
    let first = world.commit(&[
        ("apps/a/map.yaml", &config_map("a", "1")),
        ("apps/b/map.yaml", &config_map("b", "1")),
        ("README.md", "x"),
    ]);
    make_set(&world, folders(&world), json!({})).await;
    world.start();
    for name in ["shop-a", "shop-b"] {
        let app = world.until_synced(name, &first).await;
        assert_eq!(app["metadata"]["ownerReferences"][0]["kind"], "ApplicationSet");
        assert_eq!(app["metadata"]["finalizers"], json!(["resources-finalizer.argocd.argoproj.io"]));
    }
    let set = until_set(&world, "healthy", |set| {
        set["status"]["resources"]
            .as_array()
            .is_some_and(|all| all.iter().all(|one| one["status"] == "Synced"))
            && set["status"]["resourcesCount"] == 2
    })
    .await;
    assert_eq!(condition(&set, "ResourcesUpToDate")["status"], "True");
    assert_eq!(condition(&set, "ErrorOccurred")["status"], "False");

    // One folder goes with what it deployed, another comes.
    let second = world.commit(&[("apps/b/map.yaml", ""), ("apps/c/map.yaml", &config_map("c", "1"))]);
    refresh(&world).await;
    until_set(&world, "refreshed", is_refreshed).await;
    world.until_synced("shop-c", &second).await;
    world.until("shop-b", "gone", Value::is_null).await;
    assert!(world.get("ConfigMap", "b").await.is_none(), "its finalizer took its objects along");

    // Nothing left to generate from: a mistake, until somebody says that it is none.
    world.commit(&[("apps/a/map.yaml", ""), ("apps/c/map.yaml", "")]);
    refresh(&world).await;
    let set = until_set(&world, "held", |set| {
        is_refreshed(set) && condition(set, "ResourcesUpToDate")["reason"] == "EmptyGenerator"
    })
    .await;
    let message = condition(&set, "ResourcesUpToDate")["message"].as_str().expect("a sentence").to_owned();
    assert!(
        message.contains("2 applications") && message.contains("slipway.io/allow-empty=true"),
        "{message}"
    );
    assert!(!world.app("shop-a").await.is_null() && !world.app("shop-c").await.is_null());
    let target = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"namespace": "argocd", "name": "shops"}});
    let patch = json!({"metadata": {"annotations": {"slipway.io/allow-empty": "true"}}});
    world.client.merge(&target, &patch, WriteOptions::default()).await.expect("patched");
    world.until("shop-a", "gone", Value::is_null).await;
    world.until("shop-c", "gone", Value::is_null).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_that_is_away_touches_nothing_and_says_so() {
    let world = World::new().await;
    let revision = world.commit(&[("apps/a/map.yaml", &config_map("a", "1"))]);
    make_set(&world, folders(&world), json!({})).await;
    world.start();
    world.until_synced("shop-a", &revision).await;
    let away = world.root.path().join("away");
    std::fs::rename(world.repo(), &away).expect("moved");
    refresh(&world).await;
    let set = until_set(&world, "in error", |set| condition(set, "ErrorOccurred")["status"] == "True").await;
    assert_eq!(condition(&set, "ErrorOccurred")["reason"], "ApplicationGenerationFromParamsError");
    assert_eq!(set["status"]["health"]["status"], "Degraded");
    assert!(!world.app("shop-a").await.is_null());
    std::fs::rename(&away, world.repo()).expect("moved back");
    refresh(&world).await;
    until_set(&world, "well again", |set| condition(set, "ErrorOccurred")["status"] == "False").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_come_from_secrets_and_deleting_the_set_deletes_its_applications() {
    let world = World::new().await;
    let revision = world.commit(&[("apps/a/map.yaml", &config_map("a", "1"))]);
    let template = json!({
        "metadata": {"name": "on-{{ .nameNormalized }}"},
        "spec": {"project": "default",
            "source": {"repoURL": world.url(), "path": "apps/a", "targetRevision": "main"},
            "destination": {"server": "{{ .server }}", "namespace": "shop"}, "syncPolicy": automated()},
    });
    make_set(
        &world,
        json!([{"clusters": {"selector": {"matchLabels": {"env": "prod"}}}}]),
        json!({"template": template}),
    )
    .await;
    world.start();
    until_set(&world, "looked at", |set| set["status"]["conditions"].is_array()).await;
    let secret = json!({"metadata": {"labels": {"argocd.argoproj.io/secret-type": "cluster", "env": "prod"}},
        "stringData": {"name": "Main_One", "server": "https://kubernetes.default.svc"}});
    world.make("v1", "Secret", "argocd", "main-one", secret).await;
    world.until_synced("on-main-one", &revision).await;
    world.client.delete(&key("shops"), None, Propagation::Background, false).await.expect("deleted");
    world.until("on-main-one", "gone", Value::is_null).await;
    assert!(world.get("ConfigMap", "a").await.is_none(), "what it deployed went with it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_in_steps_syncs_one_environment_after_the_other() {
    let world = World::new().await;
    let first = world.commit(&[
        ("apps/dev/map.yaml", &config_map("dev", "1")),
        ("apps/prod/map.yaml", &config_map("prod", "1")),
    ]);
    let step = |name: &str| json!({"matchExpressions": [{"key": "of", "operator": "In", "values": [name]}]});
    let strategy =
        json!({"strategy": {"type": "RollingSync", "rollingSync": {"steps": [step("dev"), step("prod")]}}});
    make_set(&world, folders(&world), strategy).await;
    world.start();
    for name in ["shop-dev", "shop-prod"] {
        let app = world.until_synced(name, &first).await;
        assert_eq!(app["spec"]["syncPolicy"]["automated"]["enabled"], false, "the set asks for syncs itself");
        assert_eq!(
            app["status"]["operationState"]["operation"]["initiatedBy"]["username"],
            "applicationset-controller"
        );
    }
    let started =
        |app: &Value| app["status"]["operationState"]["startedAt"].as_str().unwrap_or_default().to_owned();
    assert!(started(&world.app("shop-dev").await) <= started(&world.app("shop-prod").await));
    until_set(&world, "rolled out", |set| {
        set["status"]["applicationStatus"]
            .as_array()
            .is_some_and(|all| all.len() == 2 && all.iter().all(|one| one["status"] == "Healthy"))
            && condition(set, "RolloutProgressing")["status"] == "False"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_killed_again_and_again_makes_every_application_of_a_set_once() {
    const FOLDERS: usize = 12;
    let world = World::new().await;
    let files: Vec<(String, String)> =
        (0..FOLDERS).map(|n| (format!("apps/f{n}/map.yaml"), config_map(&format!("m{n}"), "1"))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let revision = world.commit(&files);
    make_set(&world, folders(&world), json!({})).await;
    let mut uids = std::collections::BTreeMap::new();
    // Every engine is killed as soon as it has made one more than there were.
    for round in 1..=FOLDERS {
        let process = Process::start(&world);
        let made = loop {
            let mut made = Vec::new();
            for n in 0..FOLDERS {
                let app = world.app(&format!("shop-f{n}")).await;
                if !app.is_null() {
                    made.push((n, app["metadata"]["uid"].clone()));
                }
            }
            if made.len() >= round {
                break made;
            }
        };
        drop(process);
        for (n, uid) in made {
            let known = uids.entry(n).or_insert_with(|| uid.clone());
            assert_eq!(*known, uid, "shop-f{n} was made twice");
        }
    }
    let _process = Process::start(&world);
    for n in 0..FOLDERS {
        let app = world.until_synced(&format!("shop-f{n}"), &revision).await;
        assert_eq!(app["metadata"]["uid"], uids[&n], "shop-f{n} was made twice");
    }
    until_set(&world, "complete", |set| set["status"]["resourcesCount"] == FOLDERS).await;
}

/// A key as GitHub gives it.
fn app_key(world: &World) -> String {
    let file = world.root.path().join("app-key");
    let words = ["-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "", "-f"];
    let made = std::process::Command::new("ssh-keygen").args(words).arg(&file).status();
    assert!(made.is_ok_and(|status| status.success()), "ssh-keygen makes a key");
    std::fs::read_to_string(&file).expect("a key")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_github_app_lists_pull_requests_with_the_token_of_its_installation() {
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::<String>::new()));
    let notes = asked.clone();
    let router = axum::Router::new().fallback(move |uri: axum::http::Uri, headers: axum::http::HeaderMap| {
        let said = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or("nobody");
        notes.lock().expect("no panic").push(format!("{} {said}", uri.path()));
        let answer = match uri.path() {
            "/api/v3/app/installations/9/access_tokens" => {
                json!({"token": "ghs_installation", "expires_at": "2999-01-01T00:00:00Z"})
            }
            _ => json!([{"number": 7, "title": "T", "head": {"ref": "f", "sha": "abc"}, "base": {"ref": "main"},
                "user": {"login": "ada"}, "labels": []}]),
        };
        async { axum::Json(answer) }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let world = World::new().await;
    world.commit(&[("apps/a/map.yaml", &config_map("a", "1"))]);
    let secret = json!({"metadata": {"labels": {"argocd.argoproj.io/secret-type": "repo-creds"}},
        "stringData": {"url": "https://git.example/team", "type": "git", "githubAppID": "4711",
            "githubAppInstallationID": "9", "githubAppPrivateKey": app_key(&world),
            "githubAppEnterpriseBaseUrl": address}});
    world.make("v1", "Secret", "argocd", "app", secret).await;
    let template = json!({
        "metadata": {"name": "pr-{{ .number }}"},
        "spec": {"project": "default",
            "source": {"repoURL": world.url(), "path": "apps/a", "targetRevision": "main"},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"}},
    });
    let generators =
        json!([{"pullRequest": {"github": {"owner": "o", "repo": "r", "appSecretName": "app"}}}]);
    make_set(&world, generators, json!({"template": template})).await;
    world.start();
    world.until("pr-7", "made", |app| !app.is_null()).await;
    let asked = asked.lock().expect("no panic").clone();
    assert!(asked[0].starts_with("/api/v3/app/installations/9/access_tokens Bearer ey"), "{asked:?}");
    assert_eq!(asked[1], "/api/v3/repos/o/r/pulls Bearer ghs_installation");
}
