//! What a build says of itself over the API, and by which names it is found.

use serde_json::{Value, json};
use slipway_store::identity::Subject;

use crate::pipeline_attacks::{put, report, run, sync};
use crate::support::{Platform, commit, git, working_copy};

/// D11: who or what started it, and with which variables.
#[tokio::test(flavor = "multi_thread")]
async fn a_build_says_who_started_it_and_with_what() {
    let platform = Platform::start().await;
    platform.post("/api/repos", json!({"name": "demo/app"})).await;
    let trigger = json!({"name": "push", "type": "git", "repo": "demo/app", "events": ["push.heads"]});
    let variables =
        json!([{"key": "COLOUR", "value": "red"}, {"key": "TOKEN", "value": "canary-5d", "encrypted": true}]);
    let spec = json!({"triggers": [trigger], "variables": variables,
        "steps": {"hello": {"image": "busybox", "commands": ["echo hello"]}}});
    platform.post("/api/pipelines", json!({"metadata": {"name": "demo/build"}, "spec": spec})).await;
    let work = working_copy(platform.folder.path(), &platform.clone_url("demo/app", &platform.admin_key));
    commit(&work, "one");
    assert!(git(&work, &["push", "origin", "main"]).0);
    let pushed = until_first(&platform).await;
    assert_eq!(pushed["initiator"]["kind"], "git", "{pushed}");
    assert_eq!((&pushed["initiator"]["name"], &pushed["number"]), (&json!("push"), &json!(1)));

    let by_hand = json!({"variables": {"COLOUR": "blue"}});
    let id = platform.post("/api/pipelines/run/demo%2Fbuild", by_hand).await.as_str().unwrap().to_owned();
    let build = platform.get(&format!("/api/builds/{id}")).await;
    assert_eq!(build["initiator"]["kind"], "user");
    assert!(build["initiator"]["name"].is_string(), "{build}");
    let seen: Vec<_> = build["variables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (one["key"].as_str().unwrap(), one["value"].as_str().unwrap(), one["from"].as_str().unwrap())
        })
        .collect();
    assert!(seen.contains(&("COLOUR", "red", "pipeline")), "{seen:?}");
    assert!(seen.contains(&("COLOUR", "blue", "build-run")), "{seen:?}");
    let secret = seen.iter().find(|(key, ..)| *key == "TOKEN").unwrap();
    assert!(!secret.1.contains("canary") && !build.to_string().contains("canary-5d"), "{build}");
    // Somebody else starts it again.
    platform.member("ada@example.com", "Admin").await;
    let (_, ada) = platform.member("bob@example.com", "Admin").await;
    let (status, again) = platform.call("GET", &format!("/api/builds/rebuild/{id}"), &ada, None).await;
    assert_eq!(status, 200, "{again}");
    let again = platform.get(&format!("/api/builds/{}", again.as_str().unwrap())).await;
    assert_ne!(again["initiator"]["name"], build["initiator"]["name"]);
}

async fn until_first(platform: &Platform) -> Value {
    for _ in 0..600 {
        let page = platform.get("/api/workflow").await;
        if let Some(build) = page["workflows"]["docs"].as_array().unwrap().first() {
            return build.clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the push made no build");
}

/// What steps see as CF_BUILD_INITIATOR comes from the server: who pushed, who pressed Run, who pressed Restart.
#[tokio::test(flavor = "multi_thread")]
async fn runners_are_told_by_the_server_who_started_a_build() {
    let platform = Platform::start().await;
    platform.post("/api/repos", json!({"name": "demo/app"})).await;
    platform.pipeline("demo/build", "demo/app").await;
    let work = working_copy(platform.folder.path(), &platform.clone_url("demo/app", &platform.admin_key));
    commit(&work, "one");
    assert!(git(&work, &["push", "origin", "main"]).0);
    let pushed = until_first(&platform).await["id"].as_str().unwrap().to_owned();
    let (_, bob) = platform.member("bob@example.com", "Admin").await;
    let (_, eve) = platform.member("eve@example.com", "Admin").await;
    // What somebody writes into the request is not who they are.
    let body = json!({"initiator": "mallory", "variables": {"CF_BUILD_INITIATOR": "mallory"}});
    let (status, run) = platform.call("POST", "/api/pipelines/run/demo%2Fbuild", &bob, Some(body)).await;
    assert_eq!(status, 200, "{run}");
    let run = run.as_str().unwrap().to_owned();
    let (status, again) = platform.call("GET", &format!("/api/builds/rebuild/{run}"), &eve, None).await;
    assert_eq!(status, 200, "{again}");
    let again = again.as_str().unwrap().to_owned();

    let name = async |key: &str| platform.call("GET", "/api/user", key, None).await.1["userName"].clone();
    let runner = platform.agent(Subject::Runner, "r1").await;
    let taken = sync(&platform, &runner, "r1", 10, json!([])).await["taken"].clone();
    for (id, who) in [(&pushed, &platform.admin_key), (&run, &bob), (&again, &eve)] {
        let found = taken.as_array().unwrap().iter().find(|build| build["id"] == id.as_str());
        let found = found.unwrap_or_else(|| panic!("build {id} was not handed out: {taken}"));
        assert_eq!(found["initiator"], name(who).await, "{found}");
    }
}

/// D18: by number, by the short id that pages show, by the first digits; never another account's.
#[tokio::test]
async fn a_build_is_found_by_its_number_and_by_its_short_id() {
    let platform = Platform::start().await;
    for name in ["demo/build", "demo/other"] {
        platform.pipeline(name, "demo/app").await;
    }
    let (first, second) = (run(&platform, "demo/build").await, run(&platform, "demo/build").await);
    let runner = platform.agent(Subject::Runner, "r1").await;
    let taken = sync(&platform, &runner, "r1", 1, json!([])).await["taken"][0].clone();
    let by = platform.get(&format!("/api/builds/{first}")).await["initiator"]["name"].clone();
    assert_eq!(taken["initiator"], by, "the runner is told the same");
    let other = run(&platform, "demo/other").await;
    let number = |id: &str| {
        let path = format!("/api/builds/{id}");
        let platform = &platform;
        async move { platform.get(&path).await["number"].clone() }
    };
    let numbers = (number(&first).await, number(&second).await, number(&other).await);
    assert_eq!(numbers, (json!(1), json!(2), json!(1)));
    let short = &second[16..];
    assert_eq!(platform.get(&format!("/api/builds/{second}")).await["shortId"], short);
    for name in ["demo%2Fbuild%232", short, &second[..22]] {
        assert_eq!(platform.get(&format!("/api/builds/{name}")).await["id"], second, "{name}");
    }
    let (status, refused) =
        platform.call("GET", &format!("/api/builds/{}", &first[..8]), &platform.admin_key, None).await;
    assert_eq!(status, 400, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("several builds"), "{refused}");
    let (_, stranger) = platform.account("other").await;
    for name in ["demo%2Fbuild%232", short] {
        let path = format!("/api/builds/{name}");
        assert_eq!(platform.call("GET", &path, &stranger, None).await.0, 404, "{name}");
        assert_eq!(platform.call("DELETE", &format!("/api/progress/{name}"), &stranger, None).await.0, 404);
    }
    for name in ["demo%2Fbuild%239", "demo%2Fbuild%23x", "ffffffff", "nothing"] {
        let path = format!("/api/builds/{name}");
        assert_eq!(platform.call("GET", &path, &platform.admin_key, None).await.0, 404, "{name}");
    }
    // The links in reports and mails are those of the pages.
    let routes =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/src/routes.tsx")).unwrap();
    assert!(routes.contains("path: '/builds/$id'") || routes.contains("path: \"/builds/$id\""));
    let reports =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/ci/notifications.rs")).unwrap();
    assert!(reports.contains("{}/builds/{build}") && !reports.contains("{}/build/{build}"));
}

/// D17 and D32.
#[tokio::test]
async fn what_has_ended_is_not_terminated_and_a_refusal_is_no_failure() {
    let platform = Platform::start().await;
    platform.pipeline("demo/build", "demo/app").await;
    let runner = platform.agent(Subject::Runner, "r1").await;
    let id = run(&platform, "demo/build").await;
    sync(&platform, &runner, "r1", 1, json!([])).await;
    let steps = json!([{"name": "ask", "title": "ask", "type": "pending-approval", "status": "denied"},
        {"name": "deploy", "title": "deploy", "type": "freestyle", "status": "skipped"}]);
    assert_eq!(put(&platform, &runner, &id, report("error", 1, steps)).await.0, 200);
    let build = platform.get(&format!("/api/builds/{id}")).await;
    assert_eq!((&build["status"], &build["outcome"]), (&json!("error"), &json!("denied")), "{build}");
    assert_eq!(build["can"]["restartFromFailed"], false);
    let before = platform.get("/api/audit?action=terminate").await["total"].clone();
    let (status, refused) =
        platform.call("DELETE", &format!("/api/progress/{id}"), &platform.admin_key, None).await;
    assert_eq!(status, 409, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("has already finished"), "{refused}");
    assert_eq!(platform.get("/api/audit?action=terminate").await["total"], before);
    let other = run(&platform, "demo/build").await;
    let gone =
        platform.call("DELETE", &format!("/api/progress/{}", &other[16..]), &platform.admin_key, None).await;
    assert_eq!(gone, (200, json!(other)));
}

/// D31: a refusal names the field. D9: hints reach the editor, and types are judged by what the account has.
#[tokio::test]
async fn a_refusal_names_its_field_and_the_validator_says_what_it_knows() {
    let platform = Platform::start().await;
    let trigger = json!({"name": "trigger-1", "type": "git", "repo": "nothing", "events": ["push.heads"]});
    let cron = json!({"name": "nightly", "expression": "whenever", "message": "x"});
    let body = json!({"metadata": {"name": "demo/build"}, "spec": {"triggers": [trigger], "cronTriggers": [cron],
        "steps": {"hello": {"image": "busybox", "commands": ["echo hello"]}}}});
    let (status, refused) = platform.call("POST", "/api/pipelines", &platform.admin_key, Some(body)).await;
    assert_eq!(status, 400, "{refused}");
    let paths: Vec<_> =
        refused["details"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["spec.cronTriggers[0].expression", "spec.triggers[0].repo"], "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("enter the repository as `owner/name`"));

    let validate = |kind: &str| {
        let yaml = format!("version: '1.0'\nsteps:\n  ask:\n    type: {kind}\n    title: x\n");
        platform.post("/api/pipelines/yaml/validator", json!({"yaml": yaml}))
    };
    let misspelt = validate("pending-aproval").await;
    assert_eq!(misspelt["valid"], false, "{misspelt}");
    let detail = &misspelt["details"][0];
    assert_eq!((&detail["level"], &detail["line"]), (&json!("error"), &json!(4)), "{misspelt}");
    assert!(detail["hint"].as_str().unwrap().contains("pending-approval"), "{misspelt}");
    let unknown = validate("acme/deploy").await;
    assert_eq!(unknown["valid"], true, "a runner may have it: {unknown}");
    assert!(unknown["warningMessage"].as_str().unwrap().contains("acme/deploy"), "{unknown}");
    let manifest = json!({"version": "1.0", "kind": "step-type", "metadata": {"name": "acme/deploy", "version": "1.0.0"},
        "spec": {"stepsTemplate": "main:\n  image: busybox\n  commands: [echo]\n"}});
    platform.post("/api/step-types", manifest).await;
    // What would run, for a picture: whom each step waits for, under its stage. Nothing of a text with errors.
    let yaml = "version: '1.0'\nstages: [build, test]\nmode: parallel\nsteps:\n  a: {image: x, stage: build}\n  b: {image: x, title: Bee, stage: test, when: {steps: [{name: a, on: [success]}]}}\n";
    let planned = platform.post("/api/pipelines/yaml/validator", json!({"yaml": yaml})).await;
    let expected = json!([
        {"name": "a", "title": "a", "type": "freestyle", "stage": "build"},
        {"name": "b", "title": "Bee", "type": "freestyle", "stage": "test", "needs": ["a"]},
    ]);
    assert_eq!(planned["steps"], expected, "{planned}");
    assert!(misspelt["steps"].is_null(), "{misspelt}");
    let known = validate("acme/deploy:1.0.0").await;
    assert_eq!((&known["valid"], known["details"].is_null()), (&json!(true), true), "{known}");
    let newer = validate("acme/deploy:2.0.0").await;
    assert!(newer["warningMessage"].as_str().unwrap().contains("has no version"), "{newer}");
}

/// D19 and D27.
#[tokio::test]
async fn people_are_found_by_a_name_that_only_one_has_and_a_wrong_key_is_called_one() {
    let platform = Platform::start().await;
    platform.member("bob@example.com", "User").await;
    let name = platform.get("/api/users/bob@example.com").await["userName"].as_str().unwrap().to_owned();
    let found = platform.get(&format!("/api/users/{name}")).await;
    assert_eq!(found["email"], "bob@example.com", "{found}");
    platform.pipeline("demo/build", "demo/app").await;
    let why =
        platform.get(&format!("/api/access/explain?user={name}&action=run&entity=pipeline/demo/build")).await;
    assert!(why["reason"].is_string(), "{why}");
    let (status, refused) = platform.call("GET", "/api/users/nobody", &platform.admin_key, None).await;
    assert_eq!(status, 404, "{refused}");
    platform.sql("UPDATE users SET name = 'twin'");
    let (status, refused) = platform.call("DELETE", "/api/users/twin", &platform.admin_key, None).await;
    assert_eq!(status, 400, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("bob@example.com"), "{refused}");

    for wrong in ["nonsense", "ac0000000000000000000001.0123456789"] {
        let (status, refused) = platform.call("GET", "/api/user", wrong, None).await;
        assert_eq!(status, 401);
        assert!(refused["message"].as_str().unwrap().contains("API key is not valid here"), "{refused}");
    }
    let (_, refused) = platform.call("GET", "/api/user", "", None).await;
    assert!(refused["message"].as_str().unwrap().contains("sign in first"), "{refused}");
}
