//! Debugging a build over the API: who may, what the runner hears, how bytes of a shell travel, and what is kept of it.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use slipway_store::identity::Subject;

use crate::pipeline_attacks::{put, report, run, sync};
use crate::support::Platform;

const TYPED: &str = "echo typed-canary-7d1\n";
const PRINTED: &str = "printed-canary-7d1\r\n";

fn paused(phase: &str) -> Value {
    json!([{"name": "hello", "title": "hello", "type": "freestyle", "status": "running",
        "paused": {"phase": phase, "since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:15:00Z"}}])
}

#[tokio::test]
async fn a_shell_is_its_openers_and_what_is_said_in_it_is_kept_nowhere() {
    let platform = Platform::start().await;
    platform.pipeline("demo/build", "demo/app").await;
    let runner = platform.agent(Subject::Runner, "r1").await;
    let options = json!({"options": {"breakpoints": {"hello": {"before": true}}}});
    let id = platform.post("/api/pipelines/debug/demo%2Fbuild", options).await.as_str().unwrap().to_owned();
    let taken = sync(&platform, &runner, "r1", 1, json!([])).await["taken"][0].clone();
    assert_eq!(taken["options"], json!({"debug": true, "breakpoints": {"hello": {"before": true}}}));

    // Nothing to open or to let go on before a step is paused.
    let (debug, shells) = (format!("/api/builds/{id}/debug"), format!("/api/builds/{id}/debug/shells"));
    let admin = platform.admin_key.clone();
    let (status, refused) = platform.call("POST", &shells, &admin, Some(json!({}))).await;
    assert_eq!(status, 409, "{refused}");
    assert_eq!(put(&platform, &runner, &id, report("running", 1, paused("before"))).await.0, 200);
    let shown = platform.get(&format!("/api/builds/{id}")).await;
    assert_eq!(
        (&shown["steps"][0]["paused"]["phase"], &shown["can"]["debug"]),
        (&json!("before"), &json!(true))
    );

    // Who may not debug the pipeline may do nothing of it; who may, may not use the shell of somebody else.
    let (user, ada) = platform.member("ada@example.com", "User").await;
    platform.post("/api/team", json!({"name": "debuggers", "users": [user]})).await;
    for rule in platform.get("/api/abac?entityType=pipeline").await.as_array().unwrap() {
        let path = format!("/api/abac/{}", rule["id"].as_str().unwrap());
        platform.call("DELETE", &path, &admin, None).await;
    }
    let rule = |actions: Value| json!({"entityType": "pipeline", "teams": ["debuggers"], "actions": actions, "tags": ["*", "untagged"]});
    platform.post("/api/abac", rule(json!(["read", "run"]))).await;
    for (path, body) in [(&shells, json!({})), (&debug, json!({"action": "continue"}))] {
        assert_eq!(platform.call("POST", path, &ada, Some(body)).await.0, 403, "{path}");
    }
    let again = format!("/api/builds/{id}/restart");
    assert_eq!(platform.call("POST", &again, &ada, Some(json!({"debug": true}))).await.0, 403);
    let body = json!({"options": {"debug": true}});
    assert_eq!(platform.call("POST", "/api/pipelines/run/demo%2Fbuild", &ada, Some(body)).await.0, 403);

    let shell = platform.post(&shells, json!({"columns": 120, "rows": 40})).await;
    let shell_id = shell["id"].as_str().unwrap().to_owned();
    let held = json!([{"id": id, "epoch": 1}]);
    let heard = sync(&platform, &runner, "r1", 0, held).await["debug"].clone();
    assert_eq!(
        (&heard[0]["action"], &heard[0]["step"], &heard[0]["phase"], &heard[0]["columns"]),
        (&json!("shell"), &json!("hello"), &json!("before"), &json!(120))
    );
    let known = json!([{"id": id, "epoch": 1, "debugHeard": [shell_id]}]);
    assert!(sync(&platform, &runner, "r1", 0, known.clone()).await.get("debug").is_none());

    platform.post("/api/abac", rule(json!(["debug"]))).await;
    let (output, input) = (format!("{shells}/{shell_id}/output"), format!("{shells}/{shell_id}/input"));
    assert_eq!(platform.call("GET", &output, &ada, None).await.0, 404);
    let typed = json!({"bytes": STANDARD.encode(TYPED)});
    assert_eq!(platform.call("POST", &input, &ada, Some(typed.clone())).await.0, 404);

    // Both ways, and a call that is made twice is heard once.
    platform.post(&input, typed).await;
    let agent = format!("/api/agent/runner/builds/{id}/shells/{shell_id}");
    let wanted = json!({"epoch": 1, "after": 0, "waitMs": 5000});
    let (status, got) = platform.call("POST", &format!("{agent}/input"), &runner, Some(wanted)).await;
    assert_eq!(
        (status, STANDARD.decode(got["bytes"].as_str().unwrap()).unwrap()),
        (200, TYPED.as_bytes().to_vec())
    );
    for _ in 0..2 {
        let said = json!({"epoch": 1, "offset": 0, "bytes": STANDARD.encode(PRINTED)});
        assert_eq!(platform.call("POST", &format!("{agent}/output"), &runner, Some(said)).await.0, 200);
    }
    let seen = platform.get(&format!("{output}?after=0")).await;
    assert_eq!(STANDARD.decode(seen["bytes"].as_str().unwrap()).unwrap(), PRINTED.as_bytes());
    // Another epoch, another runner, a shell that nobody asked for.
    let old = json!({"epoch": 7, "offset": 0, "bytes": ""});
    assert_eq!(platform.call("POST", &format!("{agent}/output"), &runner, Some(old.clone())).await.0, 409);
    let other = platform.agent(Subject::Runner, "r2").await;
    let said = json!({"epoch": 1, "offset": 0, "bytes": ""});
    assert_eq!(platform.call("POST", &format!("{agent}/output"), &other, Some(said.clone())).await.0, 409);
    let nobodys = format!("/api/agent/runner/builds/{id}/shells/00/output");
    assert_eq!(platform.call("POST", &nobodys, &runner, Some(said)).await.0, 404);

    // Its end, told by the person and heard by the runner; and the step goes on.
    platform.call("DELETE", &format!("{shells}/{shell_id}"), &admin, None).await;
    let after = json!({"epoch": 1, "after": TYPED.len(), "waitMs": 5000});
    let (_, end) = platform.call("POST", &format!("{agent}/input"), &runner, Some(after)).await;
    assert_eq!(end["closed"], "the shell was closed");
    platform.post(&debug, json!({"action": "continue"})).await;
    let heard = sync(&platform, &runner, "r1", 0, known).await["debug"].clone();
    assert_eq!((&heard[0]["action"], &heard[0]["by"]), (&json!("continue"), &shell_opener(&platform).await));

    let audit = platform.get("/api/audit?limit=200").await.to_string();
    for action in ["debug-shell", "debug-continue"] {
        assert!(audit.contains(action), "{action} is not in {audit}");
    }
    for canary in ["typed-canary-7d1", "printed-canary-7d1", &STANDARD.encode(PRINTED)] {
        assert!(!platform.holds(canary), "{canary} was kept");
    }
}

async fn shell_opener(platform: &Platform) -> Value {
    let user = platform.get("/api/user").await;
    user["userName"].clone()
}

#[tokio::test]
async fn a_build_that_no_runner_has_a_place_for_is_delayed_and_a_limit_of_its_pipeline_delays_nothing() {
    let platform = Platform::start().await;
    platform.pipeline("demo/build", "demo/app").await;
    let steps = json!({"s": {"image": "x", "commands": ["true"]}});
    let frozen = json!({"metadata": {"name": "demo/frozen"}, "spec": {"steps": steps, "concurrency": 0}});
    platform.post("/api/pipelines", frozen).await;
    let (waits, held) = (run(&platform, "demo/build").await, run(&platform, "demo/frozen").await);
    let status = async |id: &str| platform.get(&format!("/api/builds/{id}")).await["status"].clone();
    assert_eq!(status(&waits).await, "pending");
    platform.pass(61_000);
    let end = Instant::now() + Duration::from_secs(120);
    while status(&waits).await != "delayed" {
        assert!(Instant::now() < end, "it is never delayed");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(status(&held).await, "pending", "its pipeline is frozen, which is no lack of runners");
    let listed = async |wanted: &str| {
        let page = platform.get(&format!("/api/workflow?status={wanted}")).await;
        let docs = page["workflows"]["docs"].as_array().unwrap().clone();
        docs.iter().map(|doc| doc["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((listed("delayed").await, listed("pending").await), (vec![waits.clone()], vec![held.clone()]));
    // A runner takes it as any other; after a week the one that still waits is ended.
    let runner = platform.agent(Subject::Runner, "r1").await;
    assert_eq!(sync(&platform, &runner, "r1", 1, json!([])).await["taken"][0]["id"], json!(waits));
    assert_eq!(status(&waits).await, "elected");
    platform.pass(7 * 24 * 60 * 60 * 1000);
    while status(&held).await != "terminated" {
        assert!(Instant::now() < end, "it waits for ever");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn steps_inside_of_hooks_keep_their_order_and_what_a_build_may_use_reaches_the_runner() {
    let platform = Platform::start().await;
    let text = "version: '1.0'\nhooks:\n  on_finish:\n    steps:\n      zebra: {image: x, commands: [echo z]}\n      ant: {image: x, commands: [echo a]}\nsteps:\n  s: {image: x, commands: ['true']}\n";
    let body = json!({"metadata": {"name": "demo/hooks", "originalYamlString": text},
        "spec": {"runtimeEnvironment": {"cpu": "500m", "memory": "1Gi"}}});
    platform.post("/api/pipelines", body).await;
    let run = json!({"userMachineConfig": {"memory": "2Gi"}});
    platform.post("/api/pipelines/run/demo%2Fhooks", run).await;
    let runner = platform.agent(Subject::Runner, "r1").await;
    let taken = sync(&platform, &runner, "r1", 1, json!([])).await["taken"][0].clone();
    let yaml = taken["source"]["yaml"].as_str().unwrap();
    assert!(yaml.find("zebra").unwrap() < yaml.find("ant").unwrap(), "{yaml}");
    assert_eq!(taken["machine"], json!({"cpu": "500m", "memory": "2Gi"}));
    // Also after it was read and written again.
    let mut kept = platform.get("/api/pipelines/demo%2Fhooks").await;
    kept["metadata"].as_object_mut().unwrap().remove("originalYamlString");
    let text = kept.to_string();
    assert!(text.contains("zebra"), "{text}");
}
