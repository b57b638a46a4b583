//! Every way in that may change something, from the table of mounted routes: each leaves a record, also when it is refused.

use serde_json::json;
use slipway_store::identity::Subject;

use crate::keys::{Row, app, every_action, of_applications, proxied, report};
use crate::knock::{Knock, limited, without_rules};
use crate::socket::Socket;
use crate::support::Platform;

/// What is told otherwise, each with the reason. Nothing else may be missing from the trail.
fn is_told_otherwise(path: &str) -> bool {
    // Believed by their signature; what they start is a build that names its cause.
    let announcement = path.starts_with("/api/webhooks/") || path.starts_with("/nomios/");
    // `h7…` push with the real git, `every_operation…` below asks for each operation.
    let here = path.starts_with("/git/") || path.ends_with("/pass");
    // Goes on to a runtime, which asks for the pass that was recorded.
    let elsewhere = path.starts_with("/tunnels/");
    // Letters typed into a shell whose opening is recorded; and what takes its time, tested by itself.
    announcement || here || elsewhere || path.ends_with("/input") || path.ends_with("/rotate")
}

async fn records(platform: &Platform) -> i64 {
    let mut total = 0;
    for path in ["/api/audit?limit=1", "/api/admin/audit?limit=1"] {
        total += platform.get(path).await["total"].as_i64().unwrap();
    }
    total
}

#[tokio::test(flavor = "multi_thread")]
async fn m8_every_door_that_may_change_something_leaves_a_record() {
    let platform = Platform::start().await;
    let doors = slipway_server::doors(&platform.server);
    let mut seen = 0;
    let mut wrong = Vec::new();
    for door in doors.iter().filter(|door| door.changes && !is_told_otherwise(&door.path)) {
        // Agents report all the time: of theirs the refusals are kept, which is what a person's key gets there.
        let path: String = door
            .path
            .split('/')
            .skip(1)
            .map(|part| format!("/{}", if part.starts_with('{') { "acacacacacacacacacacacac" } else { part }))
            .collect();
        let before = records(&platform).await;
        let body = (door.method != "GET").then(|| json!({"name": "x"}));
        let (status, answer) = platform.call(&door.method, &path, &platform.admin_key, body).await;
        let made = records(&platform).await - before;
        if made != 1 {
            wrong.push(format!("{} {} → {status} {answer}: {made} records", door.method, door.path));
        }
        seen += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen > 75, "{seen}");
    // There is nothing to change with in GraphQL: whoever adds a mutation adds its records, and a line here.
    let query = json!({"query": "{ __schema { mutationType { name } } }"});
    let answer = platform.post("/2.0/api/graphql", query).await;
    assert!(answer["data"]["__schema"]["mutationType"].is_null(), "{answer}");
    // All of them are doors that the other tests know: one that is mounted otherwise would not be in the table.
    let described = platform.get("/api/openapi.json").await;
    for (path, methods) in described["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let known =
                |door: &&slipway_server::Door| door.path == *path && door.method.eq_ignore_ascii_case(method);
            assert!(doors.iter().any(|door| known(&door)), "{method} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m8_every_operation_on_an_application_is_recorded_when_it_is_decided() {
    let platform = Platform::start().await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    report(&platform, &runtime, vec![app("dev", json!({})), app("prod", json!({}))]).await;
    let (user, key) = platform.member("ada@example.com", "User").await;
    let rule = json!({"entityType": "gitopsApplications", "teams": ["users"], "actions": every_action(),
        "entityAttributes": [{"name": "NAMESPACE", "value": "dev"}]});
    platform.post("/api/abac", rule).await;
    let (_, elsewhere) = platform.account("elsewhere").await;
    for Row { word: operation, recorded, .. } in of_applications() {
        let dev = proxied(&platform, operation, "dev");
        if recorded {
            let record = dev.leaves(&key, operation, "application", "allowed").await;
            assert_eq!(
                (&record["userId"], &record["entityId"]),
                (&json!(user), &json!("local/dev/app")),
                "{record}"
            );
            let after = &record["detail"]["after"];
            let asked = if operation == "exec" { &after["request"] } else { after };
            assert_eq!(*asked, json!({"id": 7}), "{record}");
        } else {
            let before = records(&platform).await;
            assert_eq!(dev.by(&key).await.0, 200);
            assert_eq!(records(&platform).await, before, "looking is no change");
        }
        // Refused ones too: by rule, by scope, and for those of another account in their own trail.
        let prod = proxied(&platform, operation, "prod");
        let record = prod.leaves(&key, operation, "application", "denied").await;
        assert!(record["detail"]["reason"].as_str().unwrap().contains("may not"), "{record}");
        let narrow = limited(&platform, &["usage:read"]).await;
        let record = dev.leaves(&narrow, operation, "application", "denied").await;
        assert!(record["detail"]["reason"].as_str().unwrap().contains("limited to other scopes"), "{record}");
        dev.is_hidden_from(&elsewhere).await;
        let (_, theirs) = platform.call("GET", "/api/audit?limit=1", &elsewhere, None).await;
        assert_eq!(
            (&theirs["docs"][0]["action"], &theirs["docs"][0]["outcome"]),
            (&json!(operation), &json!("denied"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m8_who_looks_at_a_log_is_recorded_once_in_a_while_by_every_door() {
    let platform = Platform::start().await;
    platform.pipeline("demo/build", "demo/app").await;
    let run = || platform.post("/api/pipelines/run/demo%2Fbuild", json!({}));
    let build = run().await.as_str().unwrap().to_owned();
    let whole = Knock::new(&platform, "GET", Box::leak(format!("/api/builds/{build}/logs").into_boxed_str()));
    let record = whole.leaves(&platform.admin_key, "view-log", "build", "allowed").await;
    assert_eq!(record["entityId"], json!(build));
    let before = records(&platform).await;
    for _ in 0..3 {
        assert_eq!(whole.by(&platform.admin_key).await.0, 200);
    }
    assert_eq!(records(&platform).await, before, "the same person, a moment later");
    let (_, key) = platform.member("ada@example.com", "User").await;
    whole.leaves(&key, "view-log", "build", "allowed").await;
    platform.pass(11 * 60 * 1000);
    whole.leaves(&key, "view-log", "build", "allowed").await;

    let count =
        || async { platform.get("/api/audit?action=view-log&limit=1").await["total"].as_i64().unwrap() };
    for door in ["stream", "socket", "signed"] {
        let build = run().await.as_str().unwrap().to_owned();
        let before = count().await;
        match door {
            "stream" => {
                let url = format!("{}/api/builds/{build}/logs/stream", platform.url);
                let answer = platform.http().get(url).header("authorization", &key).send().await.unwrap();
                assert_eq!(answer.status(), 200);
            }
            "socket" => {
                let path = format!("/ws/{}/{build}?authorization={key}", platform.account);
                let opened = tokio::task::block_in_place(|| Socket::open(&platform, &path, &[]));
                assert_eq!(opened.0, 101);
            }
            _ => {
                platform.call("DELETE", &format!("/api/progress/{build}"), &key, None).await;
                let (_, progress) = platform.call("GET", &format!("/api/progress/{build}"), &key, None).await;
                assert!(progress["location"]["url"].is_string(), "{progress}");
            }
        }
        assert_eq!(count().await, before + 1, "{door}");
    }
    // Who may not is refused, and that stands there too.
    without_rules(&platform).await;
    let denied = platform.get("/api/audit?outcome=denied&limit=1").await["total"].as_i64().unwrap();
    assert_eq!(whole.by(&key).await.0, 404);
    assert_eq!(platform.get("/api/audit?outcome=denied&limit=1").await["total"], denied + 1);
}
