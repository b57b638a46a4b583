//! Beside somebody else's controller, with our engine off, on a real Kubernetes: what the app-proxy is asked for is written into the
//! Application, which that controller carries out, and what it writes there is what is reported.

use std::time::Instant;

use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, pass};
use crate::pods::{Door, talking};
use crate::site::{Site, automated};

/// The controller's part: it takes the order away and says how it went.
fn carried_out(site: &Site<'_>, revision: &str, id: i64, began: &str, image: &str) -> Value {
    let operation = site.app("shop")["operation"].clone();
    assert!(operation.is_object(), "nothing was ordered");
    let namespace = site.target.name();
    let source = site.app("shop")["spec"]["source"].clone();
    let entry = json!({"id": id, "revision": revision, "deployStartedAt": began, "deployedAt": began, "source": source,
        "initiatedBy": operation["initiatedBy"]});
    let mut history: Vec<Value> =
        serde_json::from_value(site.app("shop")["status"]["history"].clone()).unwrap_or_default();
    history.push(entry);
    let result = json!({"revision": revision, "source": source, "resources": [{"group": "apps", "version": "v1", "kind": "Deployment",
        "namespace": namespace, "name": "web", "status": "Synced", "hookPhase": "Running", "message": "applied", "images": [image]}]});
    json!({"operation": null, "status": {"history": history, "sync": {"status": "Synced", "revision": revision}, "health": {"status": "Healthy"},
        "operationState": {"operation": operation, "phase": "Succeeded", "message": "done", "startedAt": began, "finishedAt": began, "syncResult": result}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_are_written_for_anothers_controller_and_what_it_does_is_reported() {
    let (plane, client) = ControlPlane::start().await;
    let mut site = Site::quiet(&[("shop/web.yaml", talking("web", "hello from web"))]);
    let first = site.git(&["rev-parse", "HEAD"]);
    let handle = site.start(|config| {
        config.server = Some(client);
        config.engines_off = vec!["applications".into(), "applicationsets".into()];
    });
    site.create(&site.application("shop", "shop", automated()));
    let patch = |value: Value| {
        site.control.kubectl(&["patch", "app", "shop", "--type", "merge", "-p", &value.to_string()])
    };
    let door = Door::open(handle, site.control.name()).await;
    let started = Instant::now();
    loop {
        let (status, said) = door.post("user", "logs", &json!({})).await;
        if status != 503 && !said.contains("there is no application") {
            break;
        }
        assert!(started.elapsed() < slipway_testkit::PATIENCE, "the Application is never seen");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }

    // A sync is the operation field, in the name of who asked; nobody here carries it out.
    let order = json!({"prune": true, "revision": "main", "syncOptions": ["Replace=true"]});
    assert_eq!(door.post("read", "sync", &order).await.0, 403);
    let (status, answer) = door.post("user", "sync", &order).await;
    assert_eq!(status, 200, "{answer}");
    let ordered: Value = serde_json::from_str(&answer).expect("JSON");
    let operation = site.app("shop")["operation"].clone();
    assert_eq!(operation["initiatedBy"], json!({"username": "ada"}), "{operation}");
    assert_eq!(
        (&operation["sync"]["revision"], &operation["sync"]["prune"], &operation["sync"]["syncOptions"]),
        (&json!("main"), &json!(true), &json!(["Replace=true"]))
    );
    let pending = plane.until("shop", |app| app.operation.is_some()).await.operation.expect("one");
    assert_eq!((pending.phase.as_str(), &json!(pending.id)), ("Pending", &ordered["operationId"]));
    assert_eq!(door.post("user", "sync", &json!({})).await.0, 409, "one at a time, whoever carries it out");
    assert!(!site.target.succeeds(&["get", "deployment", "web"]), "our engine is off");

    // The controller does it: what is live and the resource say so, and the reports read nothing else.
    let track = format!("shop:apps/Deployment:{}/web", site.target.name());
    site.target.apply(&talking("web", "hello from web"));
    site.target.kubectl(&[
        "annotate",
        "deployment",
        "web",
        &format!("argocd.argoproj.io/tracking-id={track}"),
    ]);
    site.target.kubectl(&["wait", "deployment/web", "--for=condition=Available", "--timeout=180s"]);
    patch(carried_out(&site, &first, 0, "2026-01-01T00:00:00Z", "web:1"));
    let app = plane.until("shop", |app| app.sync_status == "Synced" && app.history.len() == 1).await;
    let (operation, release) = (app.operation.expect("one"), &app.history[0]);
    assert_eq!(
        (operation.phase.as_str(), operation.why.as_str(), operation.automated),
        ("Succeeded", "manual", false)
    );
    assert_eq!((&json!(operation.id), app.health_status.as_str()), (&ordered["operationId"], "Healthy"));
    assert_eq!(
        (release.initiated_by.as_str(), release.why.as_str(), release.images.as_slice()),
        ("ada", "manual", &["web:1".to_owned()][..])
    );

    // A refresh is the annotation, and stays for the controller to take away.
    assert_eq!(door.post("user", "refresh", &json!({"hard": true})).await.0, 200);
    let refresh = || site.app("shop")["metadata"]["annotations"]["argocd.argoproj.io/refresh"].clone();
    assert_eq!(refresh(), "hard");

    // What is looked at, and what is done to live objects, needs no engine.
    let read = async |verb: &str| {
        let answer =
            door.http.get(format!("{}/{verb}", door.base)).header("authorization", pass("read")).send().await;
        answer.expect("answered").text().await.expect("a text")
    };
    for (verb, words) in [
        ("diff", "\"change\":\"same\""),
        ("plan", &*first),
        ("manifests", "shop/web.yaml"),
        ("tree", "\"kind\":\"Pod\""),
    ] {
        let started = Instant::now();
        loop {
            let text = read(verb).await;
            if text.contains(words) {
                break;
            }
            assert!(started.elapsed() < slipway_testkit::PATIENCE, "{verb} never says {words}: {text}");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
    assert!(door.post("read", "logs", &json!({})).await.1.contains("hello from web"));
    let pod = json!({"group": "apps", "kind": "Deployment", "namespace": site.target.name(), "resourceName": "web"});
    assert_eq!(door.post("user", "delete-resource", &pod).await.0, 200);
    site.until("the Deployment is deleted", || !site.target.succeeds(&["get", "deployment", "web"]));
    assert_eq!(refresh(), "hard", "nobody here took it for themselves");

    // Back to what was deployed: its source and revision, and automation off, in one write.
    let (status, answer) = door.post("user", "rollback", &json!({"id": 0})).await;
    assert_eq!(status, 200, "{answer}");
    let now = site.app("shop");
    assert_eq!(now["operation"]["sync"]["revision"], first.as_str());
    assert_eq!(now["spec"]["syncPolicy"]["automated"]["enabled"], false);
    // While the controller is at it, it can be told to end.
    assert_eq!(door.post("user", "terminate", &json!({})).await.0, 409, "it has not begun");
    let running =
        json!({"operation": now["operation"], "phase": "Running", "startedAt": "2026-01-01T00:05:00Z"});
    patch(json!({"status": {"operationState": running}}));
    plane
        .until("shop", |app| app.operation.as_ref().is_some_and(|operation| operation.phase == "Running"))
        .await;
    assert_eq!(door.post("user", "terminate", &json!({})).await.0, 200);
    assert_eq!(site.app("shop")["status"]["operationState"]["phase"], "Terminating");
}
