//! Attacks on pipelines and by agents, by the numbers of the threat list; and what builds say about themselves.

use serde_json::{Value, json};
use slipway_store::identity::Subject;

use crate::support::Platform;
use crate::webhooks;

pub(crate) async fn sync(platform: &Platform, key: &str, runner: &str, free: u32, running: Value) -> Value {
    let body = json!({"runner": runner, "version": "1", "executor": "host", "free": free, "running": running, "waitMs": 0});
    let (status, answer) = platform.call("POST", "/api/agent/runner/sync", key, Some(body)).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

fn now_ms() -> i64 {
    i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}

pub(crate) async fn run(platform: &Platform, pipeline: &str) -> String {
    let path = format!("/api/pipelines/run/{}", pipeline.replace('/', "%2F"));
    platform.post(&path, json!({})).await.as_str().unwrap().to_owned()
}

pub(crate) fn report(status: &str, revision: i64, steps: Value) -> Value {
    json!({"epoch": 1, "revision": revision, "status": status, "startedMs": 1, "steps": steps})
}

pub(crate) async fn put(platform: &Platform, key: &str, build: &str, body: Value) -> (u16, Value) {
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

/// Who wrote a comment is what the provider says of them, not what they call themselves.
#[tokio::test]
async fn k27_nobody_passes_for_another_by_name() {
    let platform = Platform::start().await;
    let hook = webhooks::hook_on(&platform, &["push.heads", "pullrequest.commentAdded"]).await;
    let comment = |association: &str| {
        json!({
            "action": "created", "repository": {"full_name": "acme/app", "owner": {"login": "acme", "id": 1}},
            "sender": {"login": "acme", "id": 666}, "issue": {"number": 5, "pull_request": {"url": "https://x"}, "user": {"login": "acme"}},
            "comment": {"body": "/run", "html_url": "https://x", "user": {"login": "acme", "id": 666}, "author_association": association},
        })
    };
    for (at, association) in ["NONE", "CONTRIBUTOR", "FIRST_TIMER", "owner", "MEMBER ", ""].iter().enumerate()
    {
        let (status, said) = hook.send("issue_comment", &format!("c{at}"), &comment(association)).await;
        assert_eq!(status, 200, "{association}: {said}");
    }
    // A commit of "the owner", on a branch that is called like the protected one, of another repository.
    let mut forged = webhooks::push("main", "1", "2");
    forged["repository"]["full_name"] = json!("eve/app");
    forged["head_commit"]["author"] =
        json!({"name": "acme", "email": "owner@acme.example", "username": "acme"});
    assert_eq!(hook.send("push", "p0", &forged).await.0, 400);
    // Announcements are worked off in order: when this one has had its effect, those before have had none.
    hook.send("push", "p1", &webhooks::push("main", "2", "3")).await;
    let made = webhooks::until_builds(&platform, 1).await;
    assert_eq!(made[0]["revision"], json!("3".repeat(40)));
}

/// Names that say what a build is are nobody's to set, wherever variables come from.
#[tokio::test]
async fn k48_reserved_names_are_refused() {
    let platform = Platform::start().await;
    let variables = json!([{"key": "CF_BUILD_ID", "value": "x"}, {"key": "CF_URL", "value": "http://evil"}, {"key": "a b", "value": "x"}]);
    let spec = |more: Value| {
        let mut spec = json!({"steps": {"s": {"image": "x"}}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"metadata": {"name": "demo/k48"}, "spec": spec})
    };
    let trigger = json!({"name": "t", "type": "git", "repo": "demo/app", "events": ["push.heads"], "variables": variables});
    let cron = json!({"name": "c", "expression": "0 3 * * *", "variables": variables});
    platform.pipeline("demo/build", "demo/app").await;
    let project = platform.get("/api/projects/name/demo").await["id"].as_str().unwrap().to_owned();
    for (method, path, body) in [
        ("POST", "/api/pipelines".to_owned(), spec(json!({"variables": variables}))),
        ("POST", "/api/pipelines".to_owned(), spec(json!({"triggers": [trigger]}))),
        ("POST", "/api/pipelines".to_owned(), spec(json!({"cronTriggers": [cron]}))),
        (
            "POST",
            "/api/pipelines/run/demo%2Fbuild".to_owned(),
            json!({"variables": {"CF_BUILD_ID": "x", "CF_URL": "http://evil", "a b": "x"}}),
        ),
        ("PATCH", format!("/api/projects/{project}"), json!({"variables": variables})),
    ] {
        let (status, said) = platform.call(method, &path, &platform.admin_key, Some(body)).await;
        assert_eq!(status, 400, "{method} {path}: {said}");
        let message = said["message"].as_str().unwrap();
        for name in ["CF_BUILD_ID", "CF_URL", "a b"] {
            assert!(message.contains(name), "all at once: {message}");
        }
    }
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
    let digest = made["digest"].as_str().unwrap().to_owned();
    let again =
        platform.call("POST", "/api/step-types", &platform.admin_key, Some(manifest("evil", "1.2.0"))).await;
    assert_eq!(again.0, 409, "a version is not made twice: {}", again.1);
    let path = "/api/step-types/team%2Fgreet";
    let (status, replaced) =
        platform.call("PUT", path, &platform.admin_key, Some(manifest("echo two", "1.2.0"))).await;
    assert_eq!(status, 200, "{replaced}");
    assert_ne!(replaced["digest"], json!(digest));
    platform.post("/api/step-types", manifest("echo three", "1.10.0")).await;
    assert_eq!(platform.get(path).await["metadata"]["version"], "1.10.0", "the highest is meant");
    assert_eq!(platform.get(&format!("{path}:1.2.0")).await["metadata"]["version"], "1.2.0");
    for of in [path.to_owned(), format!("{path}:1.2.0")] {
        assert_eq!(platform.get(&format!("{of}/versions")).await, json!(["1.10.0", "1.2.0"]), "{of}");
    }
    let listed = platform.get("/api/step-types").await;
    assert_eq!((listed["docs"].as_array().map(Vec::len), &listed["total"]), (Some(1), &json!(1)), "{listed}");
    // A build gets what its pipeline names, while it is its runner's, and nothing else of the account.
    platform
        .post(
            "/api/step-types",
            json!({"kind": "step-type", "metadata": {"name": "team/other"},
        "spec": {"steps": {"say": {"image": "alpine", "commands": ["of another team"]}}}}),
        )
        .await;
    platform.pipeline("demo/build", "demo/app").await;
    let id = run(&platform, "demo/build").await;
    let key = platform.agent(Subject::Runner, "r1").await;
    sync(&platform, &key, "r1", 1, json!([])).await;
    let ask = async |key: &str, epoch: i64, name: &str| {
        let path = format!("/api/agent/runner/builds/{id}/step-types");
        platform.call("POST", &path, key, Some(json!({"epoch": epoch, "names": [name]}))).await
    };
    for (name, version) in
        [("team/greet", "1.10.0"), ("team/greet:1.2.0", "1.2.0"), ("team/greet:9", "1.10.0")]
    {
        let (status, given) = ask(&key, 1, name).await;
        assert_eq!((status, given.as_array().map(Vec::len)), (200, Some(1)), "{name}: {given}");
        assert_eq!(given[0]["metadata"]["version"], version, "{name}");
    }
    assert_eq!(ask(&key, 1, "team/gree").await.1, json!([]));
    assert_eq!(ask(&key, 2, "team/greet").await.0, 409);
    let stranger = platform.agent(Subject::Runner, "r2").await;
    assert_eq!(ask(&stranger, 1, "team/greet").await.0, 409);
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
    assert!(said["message"].as_str().unwrap().matches("; ").count() >= 2, "all at once: {said}");
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
    assert!(audit.contains("already used by another runner"), "{audit}");
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
    platform.hold_the_clock();
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
    assert_eq!(platform.call("POST", &path, &loud, Some(line)).await.0, 200, "wait a moment");
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
        change("build", &id, "ahead", json!("runner"), i64::MAX),
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
    // What was told at a moment that has not come yet counts as told when it was heard: later words win.
    platform.pass(60_000);
    body["annotations"][2] = change("build", &id, "ahead", json!("later"), now_ms() + 30_000);
    assert_eq!(put(&platform, &key, &id, body).await.0, 200);
    let build = platform.get(&format!("/api/builds/{id}")).await;
    assert_eq!(build["annotations"], json!({"ahead": "later", "coverage": "85%", "tries": 9}), "{build}");
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
