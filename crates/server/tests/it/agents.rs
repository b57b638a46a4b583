use serde_json::{Value, json};
use slipway_store::identity::Subject;

use crate::reports::{changes, everything, sequence};
use crate::support::{Platform, git, working_copy};

async fn sync(platform: &Platform, key: &str, running: Value) -> Value {
    let body = json!({"runner": "r1", "version": "1", "executor": "host", "free": 1, "running": running, "waitMs": 0});
    let (status, answer) = platform.call("POST", "/api/agent/runner/sync", key, Some(body)).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

async fn order(platform: &Platform) -> String {
    platform.pipeline("demo/build", "demo/app").await;
    platform.post("/api/pipelines/run/demo%2Fbuild?reqId=one", json!({})).await.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_build_is_taken_once_reported_under_its_epoch_and_ended_once() {
    let platform = Platform::start().await;
    let id = order(&platform).await;
    // The same request id gives the same build.
    let again = platform.post("/api/pipelines/run/demo%2Fbuild?reqId=one", json!({})).await;
    assert_eq!(again, json!(id));
    let key = platform.agent(Subject::Runner, "r1").await;
    let taken = sync(&platform, &key, json!([])).await["taken"][0].clone();
    assert_eq!((&taken["id"], &taken["epoch"]), (&json!(id), &json!(1)));
    assert_eq!(
        taken["source"]["yaml"],
        r#"{"version":"1.0","steps":{"hello":{"commands":["echo hello"],"image":"busybox"}}}"#
    );

    // Held: nobody gets it, and its lease is renewed.
    let held = json!([{"id": id, "epoch": 1}]);
    let answer = sync(&platform, &key, held.clone()).await;
    assert_eq!((&answer["taken"], &answer["lost"]), (&json!([]), &json!([])));

    // The runner forgot it (it died before noting it down): it comes again, under a new epoch, and the old one is fenced.
    let retaken = sync(&platform, &key, json!([])).await["taken"][0].clone();
    assert_eq!((&retaken["id"], &retaken["epoch"]), (&json!(id), &json!(2)));
    let path = format!("/api/agent/runner/builds/{id}/state");
    let report = |epoch: i64, revision: i64, status: &str| json!({"epoch": epoch, "revision": revision, "status": status, "startedMs": 1, "steps": []});
    let (status, body) = platform.call("PUT", &path, &key, Some(report(1, 9, "success"))).await;
    assert_eq!((status, &body["name"]), (409, &json!("FENCED")));
    assert_eq!(sync(&platform, &key, held).await["lost"], json!([id]));

    // An older report does not undo a newer one.
    assert_eq!(platform.call("PUT", &path, &key, Some(report(2, 5, "running"))).await.0, 200);
    assert_eq!(platform.call("PUT", &path, &key, Some(report(2, 4, "elected"))).await.0, 200);
    assert_eq!(platform.get(&format!("/api/builds/{id}")).await["status"], "running");

    // The build's own credential opens the Git host while it runs, and nothing else.
    let password = retaken["git"]["password"].as_str().unwrap().to_owned();
    assert_eq!(platform.call("GET", "/api/user", &password, None).await.0, 403);
    assert_eq!(platform.call("GET", "/git/no/repo.git/info/refs", &password, None).await.0, 404);
    assert_eq!(platform.call("PUT", &path, &key, Some(report(2, 6, "success"))).await.0, 200);
    assert_eq!(platform.call("GET", "/git/no/repo.git/info/refs", &password, None).await.0, 401);
    assert_eq!(platform.call("PUT", &path, &key, Some(report(2, 7, "error"))).await.0, 200);
    assert_eq!(platform.get(&format!("/api/builds/{id}")).await["status"], "success");
}

#[tokio::test]
async fn logs_are_kept_once_without_gaps_and_followed_to_the_end() {
    let platform = Platform::start().await;
    let id = order(&platform).await;
    let key = platform.agent(Subject::Runner, "r1").await;
    sync(&platform, &key, json!([])).await;
    let path = format!("/api/agent/runner/builds/{id}/logs");
    let send = async |step: &str, offset: u64, text: &str| {
        let body = json!({"epoch": 1, "pieces": [{"step": step, "offset": offset, "text": text}]});
        let (status, answer) = platform.call("POST", &path, &key, Some(body)).await;
        assert_eq!(status, 200, "{answer}");
        answer["held"][step].as_u64().unwrap_or(0)
    };
    assert_eq!(send("hello", 0, "one\ntwo\n").await, 8);
    // The same again, an overlap, and a gap.
    assert_eq!(send("hello", 0, "one\ntwo\n").await, 8);
    assert_eq!(send("hello", 4, "two\nthree\n").await, 14);
    assert_eq!(send("hello", 20, "lost\n").await, 14);
    let whole = platform.get(&format!("/api/builds/{id}/logs")).await;
    let text: String =
        whole["steps"]["hello"]["logs"].as_object().unwrap().values().filter_map(Value::as_str).collect();
    assert_eq!(text, "one\ntwo\nthree\n");

    let url = format!("{}/api/builds/{id}/logs/stream", platform.url);
    let admin = platform.admin_key.clone();
    let follower = tokio::spawn(async move {
        let client = reqwest::Client::new();
        client.get(url).header("authorization", admin).send().await.unwrap().text().await.unwrap()
    });
    assert_eq!(send("hello", 14, "four\n").await, 19);
    let body = json!({"epoch": 1, "revision": 1, "status": "success", "steps": []});
    assert_eq!(
        platform.call("PUT", &format!("/api/agent/runner/builds/{id}/state"), &key, Some(body)).await.0,
        200
    );
    let stream = follower.await.unwrap();
    assert!(stream.contains("four") && stream.contains("event: end"), "{stream}");
}

#[tokio::test]
async fn a_termination_reaches_the_runner_that_waits() {
    let platform = Platform::start().await;
    let id = order(&platform).await;
    let key = platform.agent(Subject::Runner, "r1").await;
    sync(&platform, &key, json!([])).await;
    let waiting = {
        let body = json!({"runner": "r1", "version": "1", "executor": "host", "free": 1,
            "running": [{"id": id, "epoch": 1}], "waitMs": 20_000});
        let (url, key) = (format!("{}/api/agent/runner/sync", platform.url), key.clone());
        tokio::spawn(async move {
            let client = reqwest::Client::new();
            client
                .post(url)
                .header("authorization", key)
                .json(&body)
                .send()
                .await
                .unwrap()
                .json::<Value>()
                .await
                .unwrap()
        })
    };
    let (status, _) =
        platform.call("DELETE", &format!("/api/progress/{id}"), &platform.admin_key, None).await;
    assert_eq!(status, 200);
    assert_eq!(waiting.await.unwrap()["terminate"], json!([id]));
    assert_eq!(platform.get(&format!("/api/builds/{id}")).await["status"], "terminating");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_hears_of_pushes_and_its_report_is_what_pages_show() {
    let platform = Platform::start().await;
    let key = platform.agent(Subject::Runtime, "local").await;
    let (_, start) = platform.call("GET", "/api/agent/runtime/events", &key, None).await;
    platform.post("/api/repos", json!({"name": "demo/deploy"})).await;
    let remote = platform.clone_url("demo/deploy", &platform.admin_key);
    let work = working_copy(platform.folder.path(), &remote);
    assert!(git(&work, &["push", "origin", "main"]).0);
    let path = format!("/api/agent/runtime/events?after={}&waitMs=5000", start["next"]);
    let (_, heard) = platform.call("GET", &path, &key, None).await;
    assert_eq!(heard["events"][0]["cloneUrl"], format!("{}/git/demo/deploy.git", platform.url));

    let app = |name: &str| {
        json!({"namespace": "argocd", "name": name, "project": "default", "repoUrl": "r", "path": "p",
        "targetRevision": "HEAD", "destination": "d", "syncStatus": "Synced", "healthStatus": "Healthy",
        "summary": "all is well", "observedAt": "2026-01-01T00:00:00Z"})
    };
    for body in [everything(vec![app("a"), app("b")]), changes(vec![app("c")])] {
        assert_eq!(platform.call("POST", "/2.0/api/events", &key, Some(body)).await.0, 200);
    }
    assert_eq!(platform.get("/api/applications").await["applications"].as_array().unwrap().len(), 3);
    assert_eq!(platform.call("POST", "/2.0/api/events", &key, Some(everything(vec![app("a")]))).await.0, 200);
    let left = platform.get("/api/applications").await;
    assert_eq!(left["applications"].as_array().unwrap().len(), 1);
    assert_eq!(platform.get("/api/applications/local/argocd/a").await["summary"], "all is well");
    assert_eq!(platform.get("/api/runtimes").await[0]["online"], true);
}

/// Whoever hosts the repository, the runtimes of its account hear of the push, and those of no other account do.
#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_hears_of_pushes_to_other_git_hosts_of_its_account_only() {
    let platform = Platform::start().await;
    let key = platform.agent(Subject::Runtime, "local").await;
    let (other, _) = platform.account("other").await;
    let stranger = platform.server.agent_key(other.parse().unwrap(), Subject::Runtime, "theirs").await;
    let stranger = stranger.unwrap().expose().clone();
    let start = platform.call("GET", "/api/agent/runtime/events", &key, None).await.1["next"].clone();
    let hook = crate::webhooks::hook_on(&platform, &["push.heads"]).await;
    let mut body = crate::webhooks::push("main", "a", "b");
    body["commits"] = json!([{"id": "b", "added": ["apps/web/a.yaml"], "modified": [], "removed": []}]);
    assert_eq!(hook.send("push", "1", &body).await.0, 200);
    let mut tag = crate::webhooks::push("x", "0", "c");
    tag["ref"] = json!("refs/tags/v1.2");
    assert_eq!(hook.send("push", "2", &tag).await.0, 200);
    let pull = json!({"action": "opened", "number": 1, "repository": {"full_name": "acme/app", "id": 1}, "sender": {"login": "ada"},
        "pull_request": {"number": 1, "title": "t", "merged": false, "html_url": "https://github.com/acme/app/pull/1", "labels": [],
            "user": {"login": "ada"},
            "head": {"ref": "topic", "sha": "d".repeat(40), "repo": {"id": 1, "full_name": "acme/app"}},
            "base": {"ref": "main", "repo": {"id": 1, "full_name": "acme/app"}}}});
    assert_eq!(hook.send("pull_request", "3", &pull).await.0, 200);

    let path = format!("/api/agent/runtime/events?after={start}&waitMs=5000");
    let (status, heard) = platform.call("GET", &path, &key, None).await;
    assert_eq!(status, 200, "{heard}");
    let events = heard["events"].as_array().unwrap();
    assert_eq!(events.len(), 2, "a pull request moves no branch: {heard}");
    assert_eq!(events[0]["cloneUrl"], "https://github.com/acme/app.git");
    assert_eq!(events[0]["reference"], "refs/heads/main");
    assert_eq!(events[0]["sha"], "b".repeat(40));
    assert_eq!(events[0]["changedPaths"], json!(["apps/web/a.yaml"]));
    assert_eq!(events[1]["reference"], "refs/tags/v1.2");
    assert!(!heard.to_string().contains("canary-git-token"), "the context's credential stays here");
    let path = format!("/api/agent/runtime/events?after={start}&waitMs=0");
    let (status, heard) = platform.call("GET", &path, &stranger, None).await;
    assert_eq!((status, &heard["events"]), (200, &json!([])), "another account's push: {heard}");
}

/// What is more than one body may hold comes in several; only the last one takes away what none of them named.
#[tokio::test(flavor = "multi_thread")]
async fn a_complete_report_may_come_in_several_bodies() {
    let platform = Platform::start().await;
    let key = platform.agent(Subject::Runtime, "local").await;
    let app = |number: usize| {
        json!({"namespace": "argocd", "name": format!("app-{number}"), "project": "default", "repoUrl": "r", "path": "p",
        "targetRevision": "HEAD", "destination": "d", "syncStatus": "Synced", "healthStatus": "Healthy",
        "summary": "x".repeat(900), "observedAt": "2026-01-01T00:00:00Z"})
    };
    let send = async |apps: Vec<Value>, number: i64, page: usize, last: bool| {
        let mut body = changes(apps);
        body["sequence"] = json!(number);
        body["complete"] = json!({"page": page, "last": last});
        let (status, said) = platform.call("POST", "/2.0/api/events", &key, Some(body)).await;
        assert_eq!(status, 200, "{said}");
    };
    let count = async || platform.get("/api/runtimes").await[0]["applications"].as_i64();
    send(vec![app(10_001)], sequence(), 0, true).await;
    let number = sequence();
    for page in 0..5 {
        let numbers = page * 2_000..(page + 1) * 2_000;
        let last = page == 4;
        send(numbers.clone().map(app).collect(), number, page, last).await;
        if !last {
            assert_eq!(
                count().await,
                Some(1 + 2_000 * (page as i64 + 1)),
                "nothing is taken away on the way"
            );
        }
    }
    assert_eq!(count().await, Some(10_000), "the one that none named is gone");
}

#[tokio::test]
async fn a_build_that_asks_for_shared_configuration_which_is_not_there_fails_with_a_sentence() {
    let platform = Platform::start().await;
    let steps = json!({"hello": {"image": "busybox", "commands": ["echo hello"]}});
    let body = json!({"metadata": {"name": "demo/lost"}, "spec": {"contexts": ["there", "gone", "also-gone"], "steps": steps}});
    platform.post("/api/pipelines", body).await;
    let context = json!({"metadata": {"name": "there"}, "spec": {"type": "config", "data": {"A": "b"}}});
    platform.post("/api/contexts", context.clone()).await;
    let run = || platform.post("/api/pipelines/run/demo%2Flost", json!({}));
    let id = run().await.as_str().unwrap().to_owned();
    let key = platform.agent(Subject::Runner, "r1").await;
    assert_eq!(
        sync(&platform, &key, json!([])).await["taken"],
        json!([]),
        "no runner can do anything about it"
    );
    let build = platform.get(&format!("/api/builds/{id}")).await;
    assert_eq!(build["status"], "error", "{build}");
    let said = build.to_string();
    assert!(
        said.contains("shared configuration that does not exist: `gone`, `also-gone`; create it"),
        "{said}"
    );
    // Once they are there, so is the build.
    for name in ["gone", "also-gone"] {
        let mut context = context.clone();
        context["metadata"]["name"] = json!(name);
        platform.post("/api/contexts", context).await;
    }
    let id = run().await;
    assert_eq!(sync(&platform, &key, json!([])).await["taken"][0]["id"], id);
}

#[tokio::test]
async fn a_runner_trades_its_token_once_for_a_key_whose_secret_it_keeps() {
    let platform = Platform::start().await;
    let made = platform.post("/api/runners", json!({"name": "r1"})).await;
    let token = made["token"].as_str().unwrap().to_owned();
    let digest =
        |secret: &str| hex::encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, secret.as_bytes()));
    let register = async |token: &str, secret: &str| {
        let body = json!({"token": token, "secretDigest": digest(secret)});
        let answer =
            platform.http().post(format!("{}/api/agent/runner/register", platform.url)).json(&body).send();
        let answer = answer.await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let key = |answer: &Value, secret: &str| format!("{}.{secret}", answer["keyId"].as_str().unwrap());

    // The token itself opens nothing.
    let body =
        json!({"runner": "r1", "version": "1", "executor": "host", "free": 1, "running": [], "waitMs": 0});
    assert_eq!(platform.call("POST", "/api/agent/runner/sync", &token, Some(body)).await.0, 401);

    let (status, first) = register(&token, "runners-own-secret").await;
    assert_eq!((status, &first["name"]), (200, &json!("r1")), "{first}");
    sync(&platform, &key(&first, "runners-own-secret"), json!([])).await;
    // The answer got lost: the same secret gives the same key. Another secret is somebody else.
    assert_eq!(register(&token, "runners-own-secret").await.1, first);
    assert_eq!(register(&token, "somebody-elses").await.0, 409);
    sync(&platform, &key(&first, "runners-own-secret"), json!([])).await;

    // A key is of its own runner only, and stops when the runner is removed.
    let other =
        json!({"runner": "r2", "version": "1", "executor": "host", "free": 1, "running": [], "waitMs": 0});
    let used = key(&first, "runners-own-secret");
    assert_eq!(platform.call("POST", "/api/agent/runner/sync", &used, Some(other)).await.0, 403);
    assert_eq!(platform.call("DELETE", "/api/runners/r1", &platform.admin_key, None).await.0, 200);
    let body =
        json!({"runner": "r1", "version": "1", "executor": "host", "free": 1, "running": [], "waitMs": 0});
    assert_eq!(platform.call("POST", "/api/agent/runner/sync", &used, Some(body)).await.0, 401);

    // An hour later a token is worth nothing.
    let late =
        platform.post("/api/runners", json!({"name": "r3"})).await["token"].as_str().unwrap().to_owned();
    platform.pass(3_600_001);
    let (status, answer) = register(&late, "too-late").await;
    assert_eq!(status, 400);
    assert!(answer["message"].as_str().unwrap().contains("slipway runner token"), "{answer}");
}
