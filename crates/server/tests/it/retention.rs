//! What accounts do not keep for ever.

use serde_json::{Value, json};
use slipway_store::identity::Subject;

use crate::support::Platform;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// A build that a runner has taken, with a line in its log.
async fn begun(platform: &Platform, key: &str) -> String {
    let id = platform.post("/api/pipelines/run/demo%2Fbuild", json!({})).await.as_str().unwrap().to_owned();
    let body =
        json!({"runner": "r1", "version": "1", "executor": "host", "free": 9, "running": [], "waitMs": 0});
    let (_, answer) = platform.call("POST", "/api/agent/runner/sync", key, Some(body)).await;
    let epoch =
        answer["taken"].as_array().unwrap().iter().find(|one| one["id"] == json!(id)).unwrap()["epoch"]
            .clone();
    assert_eq!(epoch, 1);
    let pieces = json!({"epoch": 1, "pieces": [{"step": "hello", "offset": 0, "text": "a line\n"}]});
    let path = format!("/api/agent/runner/builds/{id}/logs");
    assert_eq!(platform.call("POST", &path, key, Some(pieces)).await.0, 200);
    id
}

async fn ended(platform: &Platform, key: &str, id: &str) {
    let report = json!({"epoch": 1, "revision": 1, "status": "success", "steps": []});
    let path = format!("/api/agent/runner/builds/{id}/state");
    assert_eq!(platform.call("PUT", &path, key, Some(report)).await.0, 200);
}

async fn log(platform: &Platform, id: &str) -> String {
    let whole = platform.get(&format!("/api/builds/{id}/logs")).await;
    let lines = whole["steps"]["hello"]["logs"].as_object().unwrap();
    lines.values().filter_map(Value::as_str).collect()
}

async fn set(platform: &Platform, settings: Value) -> u16 {
    let body = json!({"settings": settings});
    platform.call("PATCH", "/api/account", &platform.admin_key, Some(body)).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn builds_and_logs_go_after_the_time_that_the_account_sets_and_never_one_that_runs() {
    let platform = Platform::start().await;
    platform.pipeline("demo/build", "demo/app").await;
    let key = platform.agent(Subject::Runner, "r1").await;
    let old = begun(&platform, &key).await;
    ended(&platform, &key, &old).await;
    let note = json!({"entityType": "build", "entityId": old, "key": "k", "value": "v"});
    platform.post("/api/annotations", note).await;
    let runs = begun(&platform, &key).await;
    platform.pass(10 * DAY_MS);
    let new = begun(&platform, &key).await;
    ended(&platform, &key, &new).await;

    for wrong in
        [json!({"keepLogsDays": 0}), json!({"keepBuildsDays": -3}), json!({"keepBuildsDays": 99_999})]
    {
        assert_eq!(set(&platform, wrong).await, 400);
    }
    assert_eq!(log(&platform, &old).await, "a line\n", "nothing goes that nobody asked for");
    assert_eq!(set(&platform, json!({"keepLogsDays": 5})).await, 200);
    let notice = loop {
        let text = log(&platform, &old).await;
        if text != "a line\n" {
            break text;
        }
        tokio::task::yield_now().await;
    };
    assert!(
        notice.starts_with("slipway: this log was removed on ") && notice.contains("for 5 days"),
        "{notice}"
    );
    assert_eq!(
        (log(&platform, &runs).await, log(&platform, &new).await),
        ("a line\n".into(), "a line\n".into())
    );

    assert_eq!(set(&platform, json!({"keepBuildsDays": 5})).await, 200);
    let path = format!("/api/builds/{old}");
    while platform.call("GET", &path, &platform.admin_key, None).await.0 != 404 {
        tokio::task::yield_now().await;
    }
    let left = platform.get("/api/workflow?limit=50").await;
    let ids: Vec<_> =
        left["workflows"]["docs"].as_array().unwrap().iter().map(|build| &build["id"]).collect();
    assert_eq!((ids, &left["workflows"]["total"]), (vec![&json!(new), &json!(runs)], &json!(2)));
    assert!(platform.get("/api/usage").await["buildsThisMonth"].as_i64().unwrap_or_default() > 0);

    let audit = platform.get("/api/audit?limit=20").await.to_string();
    assert!(audit.contains("keepBuildsDays"), "{audit}");
    let health = platform.get("/api/admin/health").await;
    assert!(health["jobs"].as_array().unwrap().iter().any(|job| job["name"] == "retention"), "{health}");
    let metrics = platform.get("/metrics").await;
    assert!(metrics.as_str().unwrap().contains("slipway_forgotten_total{what=\"builds\"} 1"), "{metrics}");
}
