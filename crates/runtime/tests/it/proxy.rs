use std::time::Duration;

use serde_json::{Value, json};
use slipway_api::application::ResourceNode;
use slipway_cluster::{ObjectKey, Propagation};

use crate::control_plane::{ControlPlane, pass};
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
    assert_eq!(node("Deployment").status, Some(slipway_model::SyncCode::Synced.into()));
    assert!(
        node("Pod").info.as_deref().is_some_and(|info| info.starts_with("0/1 ready")),
        "{:?}",
        node("Pod").info
    );
    assert_eq!(app.health_status, "Progressing");
    assert!(app.summary.contains("; progressing: Deployment/web."), "{}", app.summary);

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
    let looks = pass("user");
    let get = |verb: &str| http.get(format!("{base}/{verb}")).header("authorization", &looks);
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
    assert_eq!(plane.asked().len(), asked + 1, "a pass is asked about for each operation");
    get("plan").send().await.expect("answered");
    assert_eq!(plane.asked().len(), asked + 1, "who looks is known for a moment");
    assert_eq!(plan["revision"], first.as_str());
    assert_eq!(plan["steps"].as_array().map(Vec::len), Some(2), "{plan}");
    assert!(plan["text"].as_str().is_some_and(|text| text.contains("ConfigMap shop/a")), "{plan}");
    let manifests: Value = get("manifests").send().await.expect("answered").json().await.expect("JSON");
    assert_eq!(manifests["manifests"][0]["file"], "app/a.yaml");
    assert!(!manifests.to_string().contains("hunter2"));

    let post = |verb: &str| http.post(format!("{base}/{verb}"));
    // A key that may look, and no more: every operation is decided by what it does.
    for verb in ["sync", "refresh", "rollback", "terminate", "sync-policy"] {
        let refused = post(verb).header("authorization", pass("read")).json(&json!({"id": 0})).send().await;
        assert_eq!(refused.expect("answered").status(), 403, "{verb}");
    }
    // Nothing but a pass is looked at: no key, no password, no cookie.
    let before = plane.asked().len();
    for header in ["Basic YWJj", "Bearer", "Bearer ", "nonsense", "acacacacacacacacacacacac.00"] {
        let mixed = post("refresh").header("authorization", header).header("cookie", "session=good");
        let mixed = mixed.header("x-csrf-token", "token").send().await.expect("answered");
        assert_eq!(mixed.status(), 401, "{header}");
    }
    let cookie = post("sync").header("cookie", "session=good").json(&json!({})).send().await;
    assert_eq!(cookie.expect("answered").status(), 401, "a cookie is nobody here");
    assert_eq!(plane.asked().len(), before, "the control plane was not asked");
    let once = pass("user");
    let sync = || post("sync").header("authorization", &once).json(&json!({"prune": true})).send();
    assert_eq!(sync().await.expect("answered").status(), 200);
    let again = sync().await.expect("answered");
    assert_eq!(again.status(), 401, "a pass changes something once");
    assert!(again.text().await.expect("a text").contains("used before"));
    let app = world.until_synced("shop", &first).await;
    assert_eq!(app["status"]["history"][0]["initiatedBy"]["username"], "ada");

    let second = world.commit(&[("app/a.yaml", &config_map("a", "2"))]);
    let order = |verb: &str, body: Value| post(verb).header("authorization", pass("user")).json(&body).send();
    assert_eq!(order("refresh", json!({})).await.expect("answered").status(), 200);
    world.until("shop", "out of sync", |app| app["status"]["sync"]["revision"] == second.as_str()).await;
    world.patch_app("shop", json!({"spec": {"syncPolicy": {"automated": {}}}})).await;
    world.until_synced("shop", &second).await;
    // What a rollback would change is shown before it, and how long each deployment took.
    let same: Value = get("diff").send().await.expect("answered").json().await.expect("JSON");
    let changes = |diff: &Value| -> Vec<String> {
        let resources = diff["resources"].as_array().expect("a list");
        resources.iter().map(|resource| resource["change"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(changes(&same), ["same", "same"], "{same}");
    let back: Value = get("diff?deployment=0").send().await.expect("answered").json().await.expect("JSON");
    assert_eq!(changes(&back), ["change", "same"], "{back}");
    let unified = back["resources"][0]["unified"].as_str().expect("a text");
    assert!(unified.contains("-  key: \"2\"") && unified.contains("+  key: \"1\""), "{unified}");
    assert!(!back.to_string().contains("hunter2") && !back.to_string().contains("aHVudGVyMg"), "{back}");
    assert_eq!(get("diff?deployment=77").send().await.expect("answered").status(), 404);
    plane
        .until("shop", |app| app.history.len() == 2 && app.history.iter().all(|one| one.started_at.is_some()))
        .await;
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
    // A body that is not what the pass is bound to and what is recorded is nothing that is asked for.
    let before = plane.asked().len();
    let raw = |verb: &str, kind: Option<&str>, body: &str| {
        let post = post(verb).header("authorization", pass("user")).body(body.to_owned());
        kind.into_iter().fold(post, |post, kind| post.header("content-type", kind)).send()
    };
    let deep = format!("{{\"id\": 0, \"x\": {}1{}}}", "[".repeat(200), "]".repeat(200));
    for (verb, kind, body, status) in [
        ("rollback", Some("application/json"), "{\"id\": 0, \"prune\": true, \"x\": 1e999}", 400),
        ("rollback", Some("application/json"), deep.as_str(), 400),
        ("sync", None, "{\"dryRun\": true}", 415),
        ("sync", Some("text/plain"), "{\"dryRun\": true}", 415),
    ] {
        let answer = raw(verb, kind, body).await.expect("answered");
        assert_eq!(answer.status(), status, "{verb} {kind:?} {body}");
    }
    assert_eq!(plane.asked().len(), before, "the control plane was asked about none of these");
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

/// The address of the Application `shop` at an app-proxy of its own.
async fn proxy_of(handle: slipway_runtime::Handle) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let router = slipway_runtime::app_proxy_router(handle);
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}/app-proxy/api/applications/argocd/shop")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_known_to_the_control_plane_before_it_is_answered() {
    let world = World::new().await;
    let (plane, client) = ControlPlane::start().await;
    let hook = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: migrate\n  annotations: {argocd.argoproj.io/hook: PreSync}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      schedulerName: nobody\n      containers: [{name: m, image: x}]\n";
    world.make("v1", "Namespace", "", "shop", json!({})).await;
    world.commit(&[("app/a.yaml", &config_map("a", "1")), ("app/hook.yaml", hook)]);
    world.application("shop", json!({})).await;
    let mut config = world.config();
    config.server = Some(client);
    let base = proxy_of(world.start_with(config)).await;
    plane.until("shop", |app| app.sync_status == "OutOfSync").await;
    let http = reqwest::Client::new();
    let post = http.post(format!("{base}/sync")).header("authorization", pass("user")).json(&json!({}));
    let ordered: Value = post.send().await.expect("answered").json().await.expect("JSON");
    let id = ordered["operationId"].as_str().expect("an id").to_owned();
    assert!(!id.is_empty() && ordered["requestedAt"].is_string(), "{ordered}");
    // Asked at once, without waiting for anything.
    let app = plane.until("shop", |_| true).await;
    let operation = app.operation.expect("an operation");
    assert_eq!(operation.id, id);
    assert!(!operation.is_over(), "{operation:?}");
    let app =
        plane.until("shop", |app| app.operation.as_ref().is_some_and(|o| !o.waiting_on.is_empty())).await;
    let operation = app.operation.expect("an operation");
    assert_eq!((operation.id.as_str(), operation.phase.as_str()), (id.as_str(), "Running"));
    assert_eq!(operation.waiting_on[0], "Waiting for hook Job/migrate to finish");
    assert!(app.summary.ends_with("Waiting for hook Job/migrate to finish."), "{}", app.summary);
    let job = world.get("batch/Job", "migrate").await.expect("the hook runs");
    crate::sync::finish_job(&world, &job).await;
    let app = plane.until("shop", |app| app.operation.as_ref().is_some_and(|o| o.is_over())).await;
    let operation = app.operation.expect("an operation");
    assert_eq!((operation.id.as_str(), operation.phase.as_str()), (id.as_str(), "Succeeded"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_an_unreadable_head_plan_and_diff_say_the_error() {
    let world = World::new().await;
    let (plane, client) = ControlPlane::start().await;
    let first = world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    world.application("shop", automated()).await;
    let mut config = world.config();
    config.server = Some(client);
    let base = proxy_of(world.start_with(config)).await;
    world.until_synced("shop", &first).await;
    world.commit(&[("app/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: [b\n")]);
    world.refresh("shop").await;
    let app = plane.until("shop", |app| app.sync_status == "Unknown").await;
    assert!(app.summary.starts_with("Can't render the manifests in Git: app/a.yaml:5:"), "{}", app.summary);
    assert!(app.summary.ends_with("The deployed version keeps running."), "{}", app.summary);
    assert_eq!(app.revision, None, "no revision was compared");
    let http = reqwest::Client::new();
    for verb in ["plan", "diff", "manifests"] {
        let get = http.get(format!("{base}/{verb}")).header("authorization", pass("user"));
        let answer = get.send().await.expect("answered");
        assert_eq!(answer.status(), 422, "{verb}");
        let body: Value = answer.json().await.expect("JSON");
        assert_eq!(body["name"], "COMPARISON_ERROR", "{verb}: {body}");
        assert!(body["message"].as_str().is_some_and(|m| m.contains("app/a.yaml:5:")), "{verb}: {body}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actions_are_run_on_objects_of_the_application_and_on_no_others() {
    let world = World::new().await;
    let (plane, client) = ControlPlane::start().await;
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 1\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n      schedulerName: nobody\n      containers: [{name: web, image: \"web:1\"}]\n";
    world.make("v1", "Namespace", "", "shop", json!({})).await;
    world.make("v1", "ConfigMap", "shop", "stranger", json!({"data": {}})).await;
    let custom = "discovery.lua: |\n  return {mark = {disabled = false}}\ndefinitions:\n- name: mark\n  action.lua: |\n    obj.data.key = 'marked'\n    return obj\n";
    world
        .make(
            "v1",
            "ConfigMap",
            "argocd",
            "argocd-cm",
            json!({"data": {"resource.customizations.actions.ConfigMap": custom}}),
        )
        .await;
    let revision = world.commit(&[("app/a.yaml", &config_map("a", "1")), ("app/web.yaml", deployment)]);
    world.application("shop", json!({})).await;
    let mut config = world.config();
    config.server = Some(client);
    let base = proxy_of(world.start_with(config)).await;
    world.until("shop", "compared", |app| app["status"]["sync"]["status"] == "OutOfSync").await;
    world.patch_app("shop", json!({"operation": {"sync": {}}})).await;
    world.until_synced("shop", &revision).await;
    let http = reqwest::Client::new();
    let of = "group=apps&kind=Deployment&namespace=shop&resourceName=web";
    let listed = http.get(format!("{base}/actions?{of}")).header("authorization", pass("read"));
    let listed: Value = listed.send().await.expect("answered").json().await.expect("JSON");
    let names: Vec<_> =
        listed["actions"].as_array().expect("a list").iter().map(|a| a["name"].clone()).collect();
    assert_eq!(names, ["pause", "restart", "resume", "scale"]);
    let act = async |who: &str, body: Value| {
        let post = http.post(format!("{base}/action")).header("authorization", pass(who)).json(&body);
        let answer = post.send().await.expect("answered");
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap_or_default())
    };
    let scale = json!({"group": "apps", "kind": "Deployment", "namespace": "shop", "resourceName": "web",
        "action": "scale", "parameters": {"replicas": "3"}});
    assert_eq!(act("read", scale.clone()).await.0, 403, "a key that may only look");
    assert_eq!(act("user", scale.clone()).await.0, 200);
    assert_eq!(world.get("apps/Deployment", "web").await.expect("there")["spec"]["replicas"], 3);
    let last = plane.asked().into_iter().last().expect("asked");
    assert_eq!((last.operation.word(), last.detail), ("action", Some(scale.clone())));
    // What is pointless, unknown or not the Application's is refused with a sentence.
    for (change, status) in [
        (json!({"action": "resume"}), 409),
        (json!({"action": "explode"}), 422),
        (json!({"parameters": {"replicas": "many"}}), 422),
        (json!({"group": "", "kind": "ConfigMap", "resourceName": "stranger", "action": "mark"}), 404),
    ] {
        let mut body = scale.clone();
        for (name, value) in change.as_object().expect("fields") {
            body[name] = value.clone();
        }
        let (answered, said) = act("user", body).await;
        assert_eq!(answered, status, "{change}: {said}");
        assert!(said["message"].as_str().is_some_and(|message| !message.is_empty()), "{said}");
    }
    // An action of argocd-cm, in Lua.
    let mark = json!({"kind": "ConfigMap", "namespace": "shop", "resourceName": "a", "action": "mark"});
    let (status, said) = act("user", mark).await;
    assert_eq!(status, 200, "{said}");
    assert_eq!(world.get("ConfigMap", "a").await.expect("there")["data"]["key"], "marked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_live_object_is_shown_with_its_secrets_masked_and_no_strangers() {
    let world = World::new().await;
    let (plane, client) = ControlPlane::start().await;
    world.make("v1", "Namespace", "", "shop", json!({})).await;
    world.make("v1", "Secret", "shop", "stranger", json!({"stringData": {"password": "hunter3"}})).await;
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter2}\n";
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n      schedulerName: nobody\n      containers: [{name: web, image: \"web:1\"}]\n";
    let revision = world.commit(&[("app/s.yaml", secret), ("app/web.yaml", deployment)]);
    world.application("shop", automated()).await;
    let mut config = world.config();
    config.server = Some(client);
    let base = proxy_of(world.start_with(config)).await;
    world.until_synced("shop", &revision).await;
    let http = reqwest::Client::new();
    let show = async |of: &str| {
        let get =
            http.get(format!("{base}/resource?namespace=shop&{of}")).header("authorization", pass("read"));
        let answer = get.send().await.expect("answered");
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap_or_default())
    };
    let (status, shown) = show("kind=Secret&resourceName=s").await;
    let text = shown["yaml"].as_str().unwrap_or_default();
    assert_eq!(status, 200, "{shown}");
    assert!(text.contains("name: s\n") && text.contains("password: +"), "{text}");
    assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
    let (_, shown) = show("group=apps&kind=Deployment&resourceName=web").await;
    let text = shown["yaml"].as_str().unwrap_or_default();
    assert!(text.contains("schedulerName: nobody") && !text.contains("managedFields"), "{text}");
    // What nobody declared and it owns all the same.
    let made = |node: &ResourceNode| node.kind == "ReplicaSet";
    let app = plane.until("shop", |app| app.resources.iter().any(made)).await;
    let name = &app.resources.iter().find(|node| made(node)).expect("a ReplicaSet").name;
    let (status, shown) = show(&format!("group=apps&kind=ReplicaSet&resourceName={name}")).await;
    assert_eq!(status, 200, "{shown}");
    // Its namespace has others too.
    let (status, refused) = show("kind=Secret&resourceName=stranger").await;
    assert_eq!((status, &refused["name"]), (404, &json!("NOT_FOUND")), "{refused}");
    assert!(!refused.to_string().contains("hunter3"));
}
