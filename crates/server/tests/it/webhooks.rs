//! Announcements of Git providers: who is believed, what is kept, what it starts.

use aws_lc_rs::hmac;
use serde_json::{Value, json};
use slipway_server::{EgressRules, Network};
use slipway_store::identity::Subject;

use crate::support::Platform;

pub(crate) struct Hook<'p> {
    platform: &'p Platform,
    path: String,
    secret: String,
}

/// A pipeline on pushes to `acme/app` at GitHub, and the hook that was made for it.
async fn hook(platform: &Platform) -> Hook<'_> {
    hook_on(platform, &["push.heads", "pullrequest.opened"]).await
}

pub(crate) async fn hook_on<'p>(platform: &'p Platform, events: &[&str]) -> Hook<'p> {
    let context = json!({"metadata": {"name": "gh"}, "spec": {"type": "git.github", "data": {"auth": {"type": "basic", "password": "canary-git-token"}}}});
    platform.post("/api/contexts", context).await;
    Hook::on_context(platform, "gh", events).await
}

impl<'p> Hook<'p> {
    /// The same with an integration that is there.
    pub(crate) async fn on_context(platform: &'p Platform, context: &str, events: &[&str]) -> Hook<'p> {
        let trigger = json!({"name": "push", "type": "git", "repo": "acme/app", "context": context, "events": events,
        "pullRequestAllowForkEvents": true});
        let body = json!({"metadata": {"name": "w/build"}, "spec": {
            "triggers": [trigger], "specTemplate": {"location": "git", "repo": "acme/app", "path": "codefresh.yml"},
            "variables": [{"key": "SECRET", "value": "canary-variable", "encrypted": true}, {"key": "OPEN", "value": "x"}],
        }});
        platform.post("/api/pipelines", body).await;
        let all = platform.get("/api/hooks").await;
        let id = all[0]["id"].as_str().unwrap().to_owned();
        assert!(all[0].get("secret").is_none(), "{all}");
        let shown = platform.post(&format!("/api/hooks/{id}/secret"), json!({})).await;
        Hook {
            platform,
            path: format!("/api/webhooks/git/{id}"),
            secret: shown["secret"].as_str().unwrap().to_owned(),
        }
    }
}

impl Hook<'_> {
    pub(crate) async fn send(&self, event: &str, delivery: &str, body: &Value) -> (u16, Value) {
        let bytes = body.to_string();
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_bytes());
        let signature = format!("sha256={}", hex::encode(hmac::sign(&key, bytes.as_bytes())));
        self.raw(event, delivery, Some(&signature), bytes).await
    }

    async fn raw(&self, event: &str, delivery: &str, signature: Option<&str>, body: String) -> (u16, Value) {
        let mut request = self
            .platform
            .http()
            .post(format!("{}{}", self.platform.url, self.path))
            .header("x-github-event", event)
            .header("x-github-delivery", delivery)
            .header("content-type", "application/json");
        if let Some(signature) = signature {
            request = request.header("x-hub-signature-256", signature);
        }
        let answer = request.body(body).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default())
    }
}

pub(crate) fn push(branch: &str, before: &str, after: &str) -> Value {
    json!({
        "ref": format!("refs/heads/{branch}"), "before": before.repeat(40), "after": after.repeat(40),
        "repository": {"full_name": "acme/app"}, "sender": {"login": "ada"}, "commits": [],
        "head_commit": {"message": "Fix it", "author": {"name": "Ada"}, "url": "https://github.com/acme/app/c"},
    })
}

async fn builds(platform: &Platform) -> Vec<Value> {
    platform.get("/api/workflow?limit=500").await["workflows"]["docs"].as_array().unwrap().clone()
}

pub(crate) async fn until_builds(platform: &Platform, count: usize) -> Vec<Value> {
    let end = std::time::Instant::now() + slipway_testkit::PATIENCE;
    loop {
        let found = builds(platform).await;
        if found.len() == count {
            return found;
        }
        assert!(
            found.len() < count && std::time::Instant::now() < end,
            "{} builds, expected {count}",
            found.len()
        );
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    }
}

/// K24, K25, K26, K30 and H3: refused before it is read, believed once, and known again weeks later.
#[tokio::test]
async fn an_announcement_is_believed_when_it_is_signed_and_counts_once() {
    let platform = Platform::start().await;
    let hook = hook(&platform).await;
    let first = push("main", "1", "2");
    for signature in [
        None,
        Some(""),
        Some("sha1=da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        Some(&*format!("sha256={}", "0".repeat(64))),
    ] {
        let (status, said) = hook.raw("push", "d0", signature, first.to_string()).await;
        assert_eq!((status, &said["name"]), (401, &json!("BAD_SIGNATURE")), "{signature:?}");
    }
    assert_eq!(hook.raw("push", "d0", None, "{".repeat(100_000)).await.0, 401, "not even read");
    assert_eq!(hook.send("push", "d1", &json!({"ref": [], "after": {}})).await.0, 400);
    let mut elsewhere = first.clone();
    elsewhere["repository"]["full_name"] = json!("acme/other");
    assert_eq!(hook.send("push", "d2", &elsewhere).await.0, 400, "this hook is of another repository");
    assert_eq!(hook.raw("push", "d3", None, "x".repeat(9 << 20)).await.0, 413);
    assert!(builds(&platform).await.is_empty());

    assert_eq!(hook.send("push", "d4", &first).await, (200, json!({"accepted": 1})));
    let made = until_builds(&platform, 1).await.remove(0);
    assert_eq!(
        (&made["branchName"], &made["committer"], &made["webhookTriggered"]),
        (&json!("main"), &json!("Ada"), &json!(true))
    );
    assert_eq!(hook.send("push", "d4", &first).await, (200, json!({"accepted": 0})));
    platform.pass(7 * 24 * 60 * 60 * 1000);
    assert_eq!(hook.send("push", "d4", &first).await, (200, json!({"accepted": 0})));
    // Another name for the same push starts nothing either, and a new push does.
    hook.send("push", "d5", &first).await;
    hook.send("push", "d6", &push("main", "2", "3")).await;
    let all = until_builds(&platform, 2).await;
    assert_eq!(all[0]["revision"], json!("3".repeat(40)));
    assert!(!platform.get("/api/audit?limit=1000").await.to_string().contains("canary"));
}

/// K46: a fork's pull request runs the target branch's file, without secrets and without a credential.
#[tokio::test]
async fn a_forks_build_gets_no_secret_and_not_its_own_pipeline() {
    let platform = Platform::start().await;
    let hook = hook(&platform).await;
    let registry =
        json!({"name": "r", "domain": "r.example", "username": "u", "password": "canary-registry"});
    platform.post("/api/registries", registry).await;
    let body = |head: i64| {
        json!({
            "action": "opened", "repository": {"full_name": "acme/app"}, "sender": {"login": "eve"},
            "pull_request": {
                "number": 5, "title": "Better", "html_url": "https://x", "user": {"login": "eve"}, "labels": [],
                "base": {"ref": "main", "repo": {"id": 7}},
                "head": {"ref": "feature", "sha": "4".repeat(40), "repo": {"id": head, "full_name": "acme/app"}},
            },
        })
    };
    hook.send("pull_request", "p1", &body(8)).await;
    until_builds(&platform, 1).await;
    hook.send("pull_request", "p2", &body(7)).await;
    until_builds(&platform, 2).await;
    let key = platform.agent(Subject::Runner, "r1").await;
    let sync =
        json!({"runner": "r1", "version": "1", "executor": "host", "free": 2, "running": [], "waitMs": 0});
    let (_, answer) = platform.call("POST", "/api/agent/runner/sync", &key, Some(sync)).await;
    let (fork, own) = (&answer["taken"][0], &answer["taken"][1]);
    assert_eq!((&fork["fromFork"], &fork["source"]["revision"]), (&json!(true), &json!("main")), "{fork}");
    let text = fork.to_string();
    assert!(!text.contains("canary") && text.contains("OPEN"), "{text}");
    assert_eq!(fork["git"]["password"], "");
    assert_eq!((&own["fromFork"], &own["source"]["revision"]), (&json!(false), &json!(null)));
    assert!(own.to_string().contains("canary-variable") && own.to_string().contains("canary-registry"));
    assert_eq!(own["git"]["baseUrl"], "https://github.com/");
    assert_eq!(own["git"]["password"], "canary-git-token");
    assert_eq!(own["commit"]["pullRequest"]["number"], 5);
}

/// Who names an address inside learns so; nothing is sent there (K118).
#[tokio::test]
async fn messages_go_out_only_where_they_may_and_a_place_inside_is_refused() {
    let platform = Platform::start().await;
    let context = json!({"metadata": {"name": "team"}, "spec": {"type": "notification.slack", "data": {"url": "http://127.0.0.1:9/hook"}}});
    platform.post("/api/contexts", context).await;
    platform.pipeline("m/one", "demo/app").await;
    let build = platform.post("/api/pipelines/run/m%2Fone", json!({})).await.as_str().unwrap().to_owned();
    assert_eq!(
        platform.call("DELETE", &format!("/api/progress/{build}"), &platform.admin_key, None).await.0,
        200
    );
    let end = std::time::Instant::now() + slipway_testkit::PATIENCE;
    loop {
        let sent = platform.get(&format!("/api/builds/{build}/reports")).await;
        if let Some(problem) = sent[0]["problem"].as_str() {
            assert!(problem.contains("internal address") && sent[0]["kind"] == "slack", "{sent}");
            break;
        }
        assert!(std::time::Instant::now() < end, "{sent}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

async fn listener() -> (String, tokio::sync::mpsc::UnboundedReceiver<(Value, Option<String>)>) {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/in", socket.local_addr().unwrap());
    let answered = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let handler = move |headers: axum::http::HeaderMap, body: String| {
        let (sender, answered) = (sender.clone(), answered.clone());
        async move {
            // The first call finds it busy: it must come again.
            if answered.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 {
                return axum::http::StatusCode::SERVICE_UNAVAILABLE;
            }
            let signature =
                headers.get("x-slipway-signature").map(|value| value.to_str().unwrap().to_owned());
            let _ = sender.send((serde_json::from_str(&body).unwrap(), signature));
            axum::http::StatusCode::OK
        }
    };
    let app = axum::Router::new().route("/in", axum::routing::post(handler));
    tokio::spawn(async move { axum::serve(socket, app).await.unwrap() });
    (url, receiver)
}

#[tokio::test]
async fn a_generic_message_is_signed_and_sent_again_until_it_is_taken() {
    let network =
        Network { egress_allowed: EgressRules::parse(&["127.0.0.1"]).unwrap(), ..Network::default() };
    let platform = Platform::start_with(network).await;
    let (url, mut heard) = listener().await;
    let data = json!({"url": url, "secret": "shared-with-the-receiver", "on": ["terminated"]});
    let context =
        json!({"metadata": {"name": "any"}, "spec": {"type": "notification.webhook", "data": data}});
    platform.post("/api/contexts", context).await;
    platform.pipeline("m/two", "demo/app").await;
    let build = platform.post("/api/pipelines/run/m%2Ftwo", json!({})).await.as_str().unwrap().to_owned();
    assert_eq!(
        platform.call("DELETE", &format!("/api/progress/{build}"), &platform.admin_key, None).await.0,
        200
    );
    let got = async {
        loop {
            // Its pauses are of the server's clock.
            platform.pass(5_000);
            if let Ok(Some(got)) =
                tokio::time::timeout(std::time::Duration::from_millis(500), heard.recv()).await
            {
                return got;
            }
        }
    };
    let (body, signature) = tokio::time::timeout(slipway_testkit::PATIENCE, got).await.unwrap();
    assert_eq!((&body["status"], &body["build"]), (&json!("terminated"), &json!(build)));
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"shared-with-the-receiver");
    let expected = format!("sha256={}", hex::encode(hmac::sign(&key, body.to_string().as_bytes())));
    assert_eq!(signature.unwrap(), expected);
}

/// A message whose effect the database refuses is tried alone and set aside; what came with it is followed up once.
#[tokio::test(flavor = "multi_thread")]
async fn one_message_that_cannot_be_handled_holds_up_none_of_its_neighbours() {
    if std::env::var("SLIPWAY_TEST_DATABASE").as_deref() == Ok("postgres") {
        // The poison is in SQLite's words.
        return;
    }
    let platform = Platform::start().await;
    platform.pipeline("demo/good", "demo/app").await;
    platform.pipeline("demo/poison", "demo/poison").await;
    let account = platform.account;
    let pushed = |repo: &str, sha: &str| {
        let fact = json!({"kind": "pushed", "account": account, "repo": repo, "cloneUrl": "x",
            "reference": "refs/heads/main", "before": "0", "changedPaths": [], "pusher": "ada",
            "after": {"sha": sha, "author": "ada", "message": "m"}});
        format!("(1, '{account}', '{fact}')")
    };
    let facts = [pushed("demo/app", "a"), pushed("demo/poison", "b"), pushed("Demo/App", "c")].join(", ");
    platform.sql(&format!(
        "CREATE TRIGGER poison BEFORE INSERT ON builds WHEN NEW.pipeline_name = 'demo/poison' \
         BEGIN SELECT RAISE(ABORT, 'poisoned'); END; INSERT INTO facts (at_ms, account, body) VALUES {facts};"
    ));
    // A commit of the platform's own has somebody look.
    platform.pipeline("demo/wake", "demo/other").await;
    platform.post("/api/pipelines/run/demo%2Fwake", json!({})).await;
    let kept = loop {
        let kept = platform.get("/api/admin/messages").await;
        if kept["messages"].as_array().is_some_and(|messages| !messages.is_empty()) {
            break kept;
        }
        tokio::task::yield_now().await;
    };
    assert!(kept["messages"][0]["problem"].as_str().unwrap().contains("poisoned"), "{kept}");
    assert!(kept["messages"][0]["dead"].is_string(), "{kept}");
    let builds = platform.get("/api/workflow?limit=50").await;
    let names = builds["workflows"]["docs"].as_array().unwrap().iter();
    let good = names.filter(|build| build["pipelineName"] == "demo/good").count();
    assert_eq!(good, 2, "each push once: {builds}");
}
