//! Attacks on pipelines and by agents, by the numbers of the threat list; and what builds say about themselves.

use serde_json::{Value, json};
use slipway_store::identity::Subject;

use crate::support::Platform;

async fn sync(platform: &Platform, key: &str, runner: &str, free: u32, running: Value) -> Value {
    let body = json!({"runner": runner, "version": "1", "executor": "host", "free": free, "running": running, "waitMs": 0});
    let (status, answer) = platform.call("POST", "/api/agent/runner/sync", key, Some(body)).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

async fn run(platform: &Platform, pipeline: &str) -> String {
    let path = format!("/api/pipelines/run/{}", pipeline.replace('/', "%2F"));
    platform.post(&path, json!({})).await.as_str().unwrap().to_owned()
}

fn report(status: &str, revision: i64, steps: Value) -> Value {
    json!({"epoch": 1, "revision": revision, "status": status, "startedMs": 1, "steps": steps})
}

async fn put(platform: &Platform, key: &str, build: &str, body: Value) -> (u16, Value) {
    platform.call("PUT", &format!("/api/agent/runner/builds/{build}/state"), key, Some(body)).await
}

#[tokio::test]
async fn k47_an_approval_is_of_one_build_and_its_commit_and_no_later_one() {
    let platform = Platform::start().await;
    platform.pipeline("demo/build", "demo/app").await;
    let key = platform.agent(Subject::Runner, "r1").await;
    let (first, second) = (run(&platform, "demo/build").await, run(&platform, "demo/build").await);
    assert_eq!(sync(&platform, &key, "r1", 2, json!([])).await["taken"].as_array().map(Vec::len), Some(2));
    let asks =
        json!([{"name": "ask", "title": "ask", "type": "pending-approval", "status": "pending-approval"}]);
    for id in [&first, &second] {
        assert_eq!(put(&platform, &key, id, report("pending-approval", 1, asks.clone())).await.0, 200);
    }
    platform
        .post(&format!("/api/builds/{first}/approvals"), json!({"answer": "approve", "step": "ask"}))
        .await;
    let running = json!([{"id": first, "epoch": 1}, {"id": second, "epoch": 1}]);
    let heard = sync(&platform, &key, "r1", 0, running).await["decisions"].clone();
    assert_eq!(heard.as_array().map(Vec::len), Some(1), "{heard}");
    assert_eq!(heard[0]["build"], json!(first));
    assert_eq!(platform.get(&format!("/api/builds/{second}")).await["status"], "pending-approval");
}

#[tokio::test]
async fn k55_schedules_are_no_bombs() {
    let platform = Platform::start().await;
    let crons = |count: usize, expression: &str| -> Value {
        (0..count).map(|at| json!({"name": format!("c{at}"), "expression": expression})).collect()
    };
    let make = async |name: &str, crons: Value| {
        let body = json!({"metadata": {"name": name}, "spec": {"steps": {"s": {"image": "x"}}, "cronTriggers": crons}});
        platform.call("POST", "/api/pipelines", &platform.admin_key, Some(body)).await
    };
    for often in ["* * * * * *", "*/5 * * * * *", "0,30 * * * * *", "0 0 0 1 1 * 9999"] {
        let (status, said) = make("demo/often", crons(1, often)).await;
        assert_eq!(status, 400, "{often}: {said}");
    }
    assert_eq!(make("demo/one", crons(60, "0 3 * * *")).await.0, 200);
    let (status, said) = make("demo/two", crons(41, "0 3 * * *")).await;
    assert_eq!(status, 400, "{said}");
    assert!(said["message"].as_str().unwrap().contains("60 cron triggers in other pipelines"), "{said}");
    assert_eq!(make("demo/three", crons(40, "0 3 * * *")).await.0, 200);
    // A pipeline that is saved again does not count itself twice.
    let mut same = platform.get("/api/pipelines/demo%2Fone").await;
    same["spec"]["priority"] = json!(1);
    assert_eq!(
        platform.call("PUT", "/api/pipelines/demo%2Fone", &platform.admin_key, Some(same)).await.0,
        200
    );
}

#[tokio::test]
async fn k57_a_step_type_that_changes_under_its_version_is_seen_to_change() {
    let platform = Platform::start().await;
    let manifest = |command: &str, version: &str| {
        json!({"kind": "step-type", "metadata": {"name": "team/greet", "version": version},
            "spec": {"arguments": "{}", "steps": {"say": {"image": "alpine", "commands": [command]}}}})
    };
    let made = platform.post("/api/step-types", manifest("echo one", "1.2.0")).await;
    let digest = made["metadata"]["digest"].as_str().unwrap().to_owned();
    let again =
        platform.call("POST", "/api/step-types", &platform.admin_key, Some(manifest("evil", "1.2.0"))).await;
    assert_eq!(again.0, 409, "a version is not made twice: {}", again.1);
    let path = "/api/step-types/team%2Fgreet";
    let (status, replaced) =
        platform.call("PUT", path, &platform.admin_key, Some(manifest("echo two", "1.2.0"))).await;
    assert_eq!(status, 200, "{replaced}");
    assert_ne!(replaced["metadata"]["digest"], json!(digest));
    platform.post("/api/step-types", manifest("echo three", "1.10.0")).await;
    assert_eq!(platform.get(path).await["metadata"]["version"], "1.10.0", "the highest is meant");
    assert_eq!(platform.get(&format!("{path}:1.2.0")).await["metadata"]["version"], "1.2.0");
    assert_eq!(platform.get(&format!("{path}/versions")).await, json!(["1.10.0", "1.2.0"]));
    let listed = platform.get("/api/step-types").await;
    assert_eq!((listed["docs"].as_array().map(Vec::len), &listed["total"]), (Some(1), &json!(1)), "{listed}");
    // Every build takes them to its runner.
    platform.pipeline("demo/build", "demo/app").await;
    run(&platform, "demo/build").await;
    let key = platform.agent(Subject::Runner, "r1").await;
    let taken = sync(&platform, &key, "r1", 1, json!([])).await["taken"][0].clone();
    assert_eq!(taken["stepTypes"].as_array().map(Vec::len), Some(2), "{taken}");
    // Both writes are in the audit, each with its digest; a member writes none.
    let audit = platform.get("/api/audit?limit=100").await.to_string();
    assert!(audit.contains(&digest), "{audit}");
    let (_, member) = platform.member("member@example.com", "User").await;
    assert_eq!(platform.call("POST", "/api/step-types", &member, Some(manifest("x", "2.0.0"))).await.0, 403);
    let (status, said) = platform
        .call(
            "POST",
            "/api/step-types",
            &platform.admin_key,
            Some(json!({"kind": "x", "spec": {"arguments": "{"}})),
        )
        .await;
    assert_eq!(status, 400);
    assert_eq!(said["message"].as_str().unwrap().matches("; ").count() >= 2, true, "all at once: {said}");
    assert_eq!(platform.call("DELETE", path, &platform.admin_key, None).await.0, 200);
    assert_eq!(platform.call("GET", path, &platform.admin_key, None).await.0, 404);
}

#[tokio::test]
async fn k59_who_a_runner_is_comes_from_its_key_alone() {
    let platform = Platform::start().await;
    platform.pipeline("demo/build", "demo/app").await;
    let id = run(&platform, "demo/build").await;
    let (mine, other) =
        (platform.agent(Subject::Runner, "r1").await, platform.agent(Subject::Runner, "r2").await);
    sync(&platform, &mine, "r1", 1, json!([])).await;
    // In the name of another: refused, whatever the body says.
    let body =
        json!({"runner": "r1", "version": "1", "executor": "host", "free": 1, "running": [], "waitMs": 0});
    assert_eq!(platform.call("POST", "/api/agent/runner/sync", &other, Some(body)).await.0, 403);
    // About a build of another, with the right epoch, which anybody can guess.
    assert_eq!(put(&platform, &other, &id, report("success", 9, json!([]))).await.0, 409);
    let lines = json!({"epoch": 1, "pieces": [{"step": "s", "offset": 0, "text": "forged\n"}]});
    let path = format!("/api/agent/runner/builds/{id}/logs");
    assert_eq!(platform.call("POST", &path, &other, Some(lines.clone())).await.0, 409);
    // A renewal by another is a loss, not a lease.
    let lost = sync(&platform, &other, "r2", 0, json!([{"id": id, "epoch": 1}])).await["lost"].clone();
    assert_eq!(lost, json!([id]));
    assert_eq!(platform.get(&format!("/api/builds/{id}")).await["status"], "elected");
    assert_eq!(platform.call("POST", &path, &mine, Some(lines)).await.0, 200);
    // No agent is a person, and no person an agent.
    assert_eq!(platform.call("GET", "/api/user", &mine, None).await.0, 403);
    let body =
        json!({"runner": "r1", "version": "1", "executor": "host", "free": 1, "running": [], "waitMs": 0});
    assert_eq!(platform.call("POST", "/api/agent/runner/sync", &platform.admin_key, Some(body)).await.0, 403);
}

#[tokio::test]
async fn k60_a_token_that_is_used_twice_is_refused_and_told() {
    let platform = Platform::start().await;
    let token =
        platform.post("/api/runners", json!({"name": "r1"})).await["token"].as_str().unwrap().to_owned();
    let register = async |digest: &str| {
        let body = json!({"token": token, "secretDigest": digest});
        let url = format!("{}/api/agent/runner/register", platform.url);
        platform.http().post(url).json(&body).send().await.unwrap().status().as_u16()
    };
    assert_eq!(register(&"a".repeat(64)).await, 200);
    assert_eq!(register(&"b".repeat(64)).await, 409);
    let audit = platform.get("/api/audit?limit=100").await.to_string();
    assert!(audit.contains("used before, by a runner with another secret"), "{audit}");
    assert!(!audit.contains(&token), "the token itself is in no record");
}

#[tokio::test]
async fn k66_a_runner_that_floods_is_slowed_and_the_others_are_not() {
    let platform = Platform::start().await;
    platform.pipeline("demo/build", "demo/app").await;
    let (first, second) = (run(&platform, "demo/build").await, run(&platform, "demo/build").await);
    let (loud, quiet) =
        (platform.agent(Subject::Runner, "loud").await, platform.agent(Subject::Runner, "quiet").await);
    let one = sync(&platform, &loud, "loud", 1, json!([])).await["taken"][0]["id"].clone();
    let two = sync(&platform, &quiet, "quiet", 1, json!([])).await["taken"][0]["id"].clone();
    assert_eq!([&one, &two].iter().filter(|id| **id == &json!(first) || **id == &json!(second)).count(), 2);
    // Beyond what is held, so nothing of it is kept: only the asking counts.
    let text = "x".repeat(6 << 20);
    let flood = json!({"epoch": 1, "pieces": [{"step": "s", "offset": 1_000_000, "text": text}]});
    let path = format!("/api/agent/runner/builds/{}/logs", one.as_str().unwrap());
    let mut statuses = Vec::new();
    for _ in 0..14 {
        statuses.push(platform.call("POST", &path, &loud, Some(flood.clone())).await.0);
        if statuses.last() == Some(&429) {
            break;
        }
    }
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
    let line = json!({"epoch": 1, "pieces": [{"step": "s", "offset": 0, "text": "heard\n"}]});
    let other = format!("/api/agent/runner/builds/{}/logs", two.as_str().unwrap());
    assert_eq!(platform.call("POST", &other, &quiet, Some(line.clone())).await.0, 200);
    platform.pass(2_000);
    assert_eq!(platform.call("POST", &path, &loud, Some(line)).await.0, 200, "it is heard again");
    let many: Value =
        (0..5_001).map(|at| json!({"step": format!("s{at}"), "offset": 0, "text": "x"})).collect();
    let (status, said) = platform.call("POST", &path, &loud, Some(json!({"epoch": 1, "pieces": many}))).await;
    assert_eq!(status, 400, "{said}");
}

#[tokio::test]
async fn annotations_and_images_of_a_build_are_kept_once_and_shown() {
    let platform = Platform::start().await;
    platform.pipeline("demo/build", "demo/app").await;
    let id = run(&platform, "demo/build").await;
    let key = platform.agent(Subject::Runner, "r1").await;
    sync(&platform, &key, "r1", 1, json!([])).await;
    let change = |kind: &str, entity: &str, key: &str, value: Value, at_ms: i64| json!({"entityType": kind, "entityId": entity, "key": key, "value": value, "atMs": at_ms});
    let told = json!([
        change("build", &id, "coverage", json!("85%"), 10),
        change("build", &id, "tries", json!(3), 11),
        change("pipeline", "demo/build", "owner", json!("team"), 12),
        change("image", "sha256:abc", "CF_QUALITY", json!(true), 13),
        // Not its own: passed over.
        change("pipeline", "demo/other", "owner", json!("evil"), 14),
        change("build", "000000000000000000000000", "x", json!("evil"), 15),
        change("build", &id, "bad key", json!("evil"), 16),
    ]);
    let images =
        json!([{"step": "b", "id": "sha256:abc", "name": "registry/app", "tag": "main", "atMs": 20}]);
    let mut body = report("running", 1, json!([]));
    body["annotations"] = told;
    body["images"] = images;
    assert_eq!(put(&platform, &key, &id, body.clone()).await.0, 200);
    // A person changes one; the same report again does not undo it.
    platform
        .post("/api/annotations", json!({"entityId": id, "entityType": "build", "key": "tries", "value": 9}))
        .await;
    body["revision"] = json!(2);
    assert_eq!(put(&platform, &key, &id, body).await.0, 200);
    let build = platform.get(&format!("/api/builds/{id}")).await;
    assert_eq!(build["annotations"], json!({"coverage": "85%", "tries": 9}), "{build}");
    assert_eq!(build["images"][0]["name"], "registry/app");
    let of_pipeline = platform.get("/api/annotations?entityType=pipeline&entityId=demo%2Fbuild").await;
    assert_eq!(of_pipeline[0]["value"], "team", "{of_pipeline}");
    let listed = platform.get("/api/images?limit=5").await;
    assert_eq!(listed["total"], 1, "{listed}");
    let image = &listed["docs"][0];
    assert_eq!((&image["internalImageId"], &image["tags"][0]["tag"]), (&json!("sha256:abc"), &json!("main")));
    assert_eq!(image["metadata"], json!({"CF_QUALITY": true}));
    assert_eq!(platform.get("/api/images?tag=none").await["total"], 0);
}
