use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::{ObjectKey, Propagation};

use crate::control_plane::ControlPlane;
use crate::world::{World, automated, config_map};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_is_deployed_and_reported_without_polling() {
    let world = World::new().await;
    let (plane, client) = ControlPlane::start().await;
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n      schedulerName: nobody\n      containers: [{name: web, image: \"web:1\"}]\n";
    let first = world.commit(&[("app/a.yaml", &config_map("a", "1")), ("app/web.yaml", deployment)]);
    world.application("shop", automated()).await;
    let mut config = world.config();
    config.server = Some(client);
    config.resync = Duration::from_secs(3600);
    world.start_with(config);
    let app = plane.until("shop", |app| app.sync_status == "Synced").await;
    let revision = app.revision.as_ref().expect("a revision");
    assert_eq!(
        (revision.sha.as_str(), revision.author.as_str(), revision.message.as_str()),
        (first.as_str(), "Ada", "A change")
    );
    // What rules may look at goes with it.
    assert_eq!(
        (app.destination_name.as_str(), app.destination_server.as_str(), app.destination.as_str()),
        ("in-cluster", "https://kubernetes.default.svc", "shop")
    );
    assert_eq!(app.git_sources, [world.url()]);
    world.patch_app("shop", json!({"metadata": {"labels": {"team": "a"}}})).await;
    plane.until("shop", |app| app.labels.get("team").is_some_and(|team| team == "a")).await;
    assert!(
        plane.reports().iter().any(|(complete, count)| *complete && *count == 1),
        "everything was told once"
    );
    let app = plane.until("shop", |app| app.resources.iter().any(|node| node.kind == "Pod")).await;
    let node =
        |kind: &str| app.resources.iter().find(|node| node.kind == kind).unwrap_or_else(|| panic!("{kind}"));
    assert_eq!(node("Pod").parent_uid, node("ReplicaSet").uid);
    assert_eq!(node("ReplicaSet").parent_uid, node("Deployment").uid);
    assert_eq!(node("Deployment").status.as_deref(), Some("Synced"));
    assert!(
        node("Pod").info.as_deref().is_some_and(|info| info.starts_with("0/1 ready")),
        "{:?}",
        node("Pod").info
    );
    assert_eq!(app.health_status, "Progressing");
    assert!(app.summary.contains("not everything is ready yet"), "{}", app.summary);

    let second = world.commit(&[("app/a.yaml", &config_map("a", "2"))]);
    plane.push(&world.url().to_uppercase().replace("FILE://", "file://"), &["app/a.yaml"]);
    let app = plane
        .until("shop", |app| {
            app.revision.as_ref().is_some_and(|r| r.sha == second) && app.sync_status == "Synced"
        })
        .await;
    assert_eq!(app.history.len(), 2);
    assert_eq!(app.history[0].revision.author, "Ada");
    assert_eq!(app.operation.as_ref().map(|o| o.initiated_by.as_str()), Some("automated sync"));
    assert_eq!(world.get("ConfigMap", "a").await.expect("there")["data"]["key"], "2");

    let key = ObjectKey::new("argoproj.io", "Application", "argocd", "shop");
    world.client.delete(&key, None, Propagation::Background, false).await.expect("deleted");
    for _ in 0..1200 {
        if !plane.knows("shop") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the deleted application is still reported");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_app_proxy_shows_plans_and_takes_orders_from_those_who_are_signed_in() {
    let world = World::new().await;
    let (plane, client) = ControlPlane::start().await;
    world.make("v1", "Namespace", "", "shop", json!({})).await;
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter2}\n";
    let first = world.commit(&[("app/a.yaml", &config_map("a", "1")), ("app/s.yaml", secret)]);
    world.application("shop", json!({})).await;
    let mut config = world.config();
    config.server = Some(client);
    let handle = world.start_with(config);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let base = format!(
        "http://{}/app-proxy/api/applications/argocd/shop",
        listener.local_addr().expect("an address")
    );
    let router = slipway_runtime::app_proxy_router(handle);
    tokio::spawn(async move { axum::serve(listener, router).await });
    world.until("shop", "compared", |app| app["status"]["sync"]["status"] == "OutOfSync").await;

    let http = reqwest::Client::new();
    let get = |verb: &str| http.get(format!("{base}/{verb}")).header("authorization", "user-key");
    assert_eq!(http.get(format!("{base}/diff")).send().await.expect("answered").status(), 401);
    let refused =
        http.get(format!("{base}/diff")).header("authorization", "wrong").send().await.expect("answered");
    assert_eq!(refused.status(), 401);

    let diff: Value = get("diff").send().await.expect("answered").json().await.expect("JSON");
    let text = diff.to_string();
    assert!(text.contains("key") && !text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
    assert_eq!(diff["resources"][0]["change"], "add");
    let asked = plane.asked().len();
    let plan: Value = get("plan").send().await.expect("answered").json().await.expect("JSON");
    assert_eq!(plane.asked().len(), asked, "who looks is known for a moment");
    assert_eq!(plan["revision"], first.as_str());
    assert_eq!(plan["steps"].as_array().map(Vec::len), Some(2), "{plan}");
    assert!(plan["text"].as_str().is_some_and(|text| text.contains("ConfigMap shop/a")), "{plan}");
    let manifests: Value = get("manifests").send().await.expect("answered").json().await.expect("JSON");
    assert_eq!(manifests["manifests"][0]["file"], "app/a.yaml");
    assert!(!manifests.to_string().contains("hunter2"));

    let post = |verb: &str| http.post(format!("{base}/{verb}"));
    // A key that may look, and no more: every operation is decided by what it does.
    for verb in ["sync", "refresh", "rollback", "terminate", "sync-policy"] {
        let refused = post(verb).header("authorization", "read-key").json(&json!({"id": 0})).send().await;
        assert_eq!(refused.expect("answered").status(), 403, "{verb}");
    }
    // A header that authenticates nobody is not made good by the cookie beside it.
    for header in ["Basic YWJj", "Basic !!", "Bearer", "nonsense"] {
        let mixed = post("refresh").header("authorization", header).header("cookie", "session=good");
        let mixed = mixed.header("x-csrf-token", "token").send().await.expect("answered");
        assert_eq!(mixed.status(), 401, "{header}");
    }
    let forged =
        post("sync").header("cookie", "session=good").json(&json!({})).send().await.expect("answered");
    assert_eq!(forged.status(), 403, "a cookie alone changes nothing");
    let done = post("sync")
        .header("cookie", "session=good")
        .header("x-csrf-token", "token")
        .json(&json!({"prune": true}))
        .send()
        .await
        .expect("answered");
    assert_eq!(done.status(), 200);
    let app = world.until_synced("shop", &first).await;
    assert_eq!(app["status"]["history"][0]["initiatedBy"]["username"], "ada");

    let second = world.commit(&[("app/a.yaml", &config_map("a", "2"))]);
    let order = |verb: &str, body: Value| post(verb).header("authorization", "user-key").json(&body).send();
    assert_eq!(order("refresh", json!({})).await.expect("answered").status(), 200);
    world.until("shop", "out of sync", |app| app["status"]["sync"]["revision"] == second.as_str()).await;
    world.patch_app("shop", json!({"spec": {"syncPolicy": {"automated": {}}}})).await;
    world.until_synced("shop", &second).await;
    assert_eq!(order("rollback", json!({"id": 0})).await.expect("answered").status(), 200);
    world
        .until("shop", "rolled back", |app| {
            app["status"]["operationState"]["phase"] == "Succeeded"
                && app["status"]["operationState"]["syncResult"]["revision"] == first.as_str()
        })
        .await;
    // It lasts: automated sync is off, and another look at the newer commit changes nothing.
    let app = world.app("shop").await;
    assert_eq!(app["spec"]["syncPolicy"]["automated"]["enabled"], false);
    world.refresh("shop").await;
    let app = world
        .until("shop", "looked at", |app| {
            app["metadata"]["annotations"]["argocd.argoproj.io/refresh"].is_null()
                && app["status"]["sync"]["status"] == "OutOfSync"
        })
        .await;
    assert_eq!(app["status"]["sync"]["revision"], second.as_str());
    assert_eq!(world.get("ConfigMap", "a").await.expect("there")["data"]["key"], "1", "the rollback lasts");
    // Each was asked about by itself, with what was wanted.
    let asked = plane.asked();
    let last = asked.iter().rev().find(|question| question.operation.word() == "rollback").expect("asked");
    assert_eq!(last.detail, Some(json!({"id": 0})));
    let before = asked.len();
    for _ in 0..3 {
        // It may have been taken up meanwhile.
        let status = order("refresh", json!({})).await.expect("answered").status().as_u16();
        assert!(matches!(status, 200 | 409), "{status}");
    }
    assert_eq!(plane.asked().len(), before + 3, "a change is never remembered");
    // What a rollback switched off, a person switches on again.
    assert_eq!(order("sync-policy", json!({})).await.expect("answered").status(), 400);
    assert_eq!(
        order("sync-policy", json!({"automated": true, "prune": true})).await.expect("answered").status(),
        200
    );
    world.until_synced("shop", &second).await;
    let app = world.app("shop").await;
    assert_eq!(app["spec"]["syncPolicy"]["automated"], json!({"enabled": true, "prune": true}));
    assert_eq!(order("sync-policy", json!({"automated": false})).await.expect("answered").status(), 200);
    let app = world.app("shop").await;
    assert_eq!(app["spec"]["syncPolicy"]["automated"], json!({"enabled": false, "prune": true}));
    assert_eq!(order("terminate", json!({})).await.expect("answered").status(), 409);
    assert_eq!(order("rollback", json!({"id": 77})).await.expect("answered").status(), 404);
}
