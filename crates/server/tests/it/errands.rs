//! Integrations behind a firewall: a platform that opens no connection still sets commit statuses, registers webhooks and sends messages,
//! because a runner inside makes the calls. Whose runner, and which, is looked at.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use slipway_server::Network;
use slipway_store::identity::Subject;

use crate::knock::Knock;
use crate::support::Platform;
use crate::webhooks::{Hook, push, until_builds};

const INSIDE: &str = "127.0.0.1 is behind a firewall and was not asked from inside";

/// What the provider inside was asked: method, path, who asked, body.
type Asked = Arc<Mutex<Vec<(String, String, String, Value)>>>;

/// A Git provider that only the runner reaches: it knows no repository and takes everything.
async fn provider() -> (String, Asked) {
    async fn answer(State(asked): State<Asked>, request: Request) -> (StatusCode, String) {
        let (parts, body) = request.into_parts();
        let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let header = parts.headers.get("authorization").and_then(|value| value.to_str().ok());
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        let path = parts.uri.path().to_owned();
        let method = parts.method.to_string();
        let known = (method.clone(), path, header.unwrap_or_default().to_owned(), body);
        asked.lock().unwrap().push(known);
        match method.as_str() {
            "GET" => (StatusCode::OK, "[]".into()),
            _ => (StatusCode::CREATED, r#"{"id": 7}"#.into()),
        }
    }
    let asked = Asked::default();
    let app = axum::Router::new().fallback(answer).with_state(asked.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (address, asked)
}

fn runner(name: &str, wait_ms: u64) -> Value {
    json!({"runner": name, "version": "1", "executor": "host", "free": 0, "running": [], "waitMs": wait_ms, "errands": true})
}

const SYNC: &str = "/api/agent/runner/sync";

/// As `slipway runner` does: takes errands and makes their calls.
async fn inside(url: String, key: String) {
    let http = reqwest::Client::new();
    loop {
        let held =
            http.post(format!("{url}{SYNC}")).header("authorization", &key).json(&runner("r1", 5_000)).send();
        let Ok(answer) = held.await else { return };
        let answer: Value = answer.json().await.unwrap_or_default();
        for errand in answer["errands"].as_array().into_iter().flatten() {
            let method = errand["method"].as_str().unwrap().parse().unwrap();
            let mut call = http.request(method, errand["url"].as_str().unwrap());
            for (name, value) in errand["headers"].as_object().unwrap() {
                call = call.header(name, value.as_str().unwrap());
            }
            if !errand["body"].is_null() {
                call = call.json(&errand["body"]);
            }
            let got = call.send().await.unwrap();
            let (status, body) = (got.status().as_u16(), STANDARD.encode(got.bytes().await.unwrap()));
            let path = format!("{url}/api/agent/runner/errands/{}", errand["id"].as_str().unwrap());
            let told = http.post(path).header("authorization", &key);
            let told = told.json(&json!({"status": status, "body": body})).send().await.unwrap();
            assert_eq!(told.status().as_u16(), 200);
        }
    }
}

fn behind(name: &str, kind: &str, mut data: Value) -> Value {
    data["behindFirewall"] = json!(true);
    json!({"metadata": {"name": name}, "spec": {"type": kind, "data": data}})
}

fn auth(address: &str) -> Value {
    json!({"auth": {"type": "basic", "password": "canary-token", "apiHost": address}})
}

async fn until(asked: &Asked, what: &str, found: impl Fn(&(String, String, String, Value)) -> bool) -> Value {
    let started = Instant::now();
    loop {
        if let Some((_, _, _, body)) = asked.lock().unwrap().iter().find(|one| found(one)) {
            return body.clone();
        }
        assert!(started.elapsed() < Duration::from_secs(120), "{what}: {asked:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_behind_a_firewall_is_asked_by_a_runner_and_never_by_the_platform() {
    let platform = Platform::start_with(Network { egress_none: true, ..Network::default() }).await;
    let (address, asked) = provider().await;
    platform.post("/api/contexts", behind("gh", "git.github", auth(&address))).await;
    // Nobody is there who could ask.
    let tested = platform.post("/api/contexts/gh/test", json!({})).await;
    assert_eq!(tested["ok"], false, "{tested}");
    let said = tested["message"].as_str().unwrap();
    assert_eq!(said, format!("{INSIDE}: no runner of the account is connected"));

    let key = platform.agent(Subject::Runner, "r1").await;
    let running = tokio::spawn(inside(platform.url.clone(), key));
    let started = Instant::now();
    loop {
        let tested = platform.post("/api/contexts/gh/test", json!({})).await;
        if tested["ok"] == true {
            break;
        }
        assert!(started.elapsed() < slipway_testkit::PATIENCE, "{tested}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    {
        let asked = asked.lock().unwrap();
        assert!(asked.iter().all(|(.., token, _)| token.ends_with("canary-token")), "{asked:?}");
    }

    // The webhook is registered, and a push that it announces has a status at its commit.
    let slack = json!({"url": format!("{address}/chat"), "on": ["terminated"]});
    platform.post("/api/contexts", behind("chat", "notification.slack", slack)).await;
    let hook = Hook::on_context(&platform, "gh", &["push.heads"]).await;
    let registered =
        |one: &(String, String, String, Value)| one.0 == "POST" && one.1.ends_with("/repos/acme/app/hooks");
    until(&asked, "the webhook", registered).await;
    assert_eq!(hook.send("push", "d1", &push("main", "0", "a")).await.0, 200);
    let build = until_builds(&platform, 1).await[0]["id"].as_str().unwrap().to_owned();
    let sha = "a".repeat(40);
    let told = |one: &(String, String, String, Value)| {
        one.1.ends_with(&format!("/repos/acme/app/statuses/{sha}")) && one.3["state"] == "pending"
    };
    until(&asked, "the status of the commit", told).await;
    platform.call("DELETE", &format!("/api/progress/{build}"), &platform.admin_key, None).await;
    let message = until(&asked, "the message", |one| one.1 == "/chat").await;
    assert!(message["text"].as_str().unwrap().contains("terminated"), "{message}");
    // What was asked is kept nowhere, and was never in the open.
    running.abort();
    assert!(!platform.holds("canary-token"), "a credential lies in the open");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_errand_is_given_to_a_runner_of_the_account_and_answered_by_that_one_once() {
    let platform = Platform::start_with(Network { egress_none: true, ..Network::default() }).await;
    platform.post("/api/contexts", behind("gh", "git.github", auth("http://127.0.0.1:9"))).await;
    let mail = json!({"host": "mail.example.com", "from": "a@example.com", "to": ["b@example.com"]});
    let mail = behind("mail", "notification.email", mail);
    let (status, refused) = platform.call("POST", "/api/contexts", &platform.admin_key, Some(mail)).await;
    assert_eq!(status, 400, "{refused}");
    assert!(refused.to_string().contains("sends no mail"), "{refused}");
    let (first, second) =
        (platform.agent(Subject::Runner, "r1").await, platform.agent(Subject::Runner, "r2").await);
    let (_, elsewhere) = platform.account("elsewhere").await;
    let (status, answer) = platform.call("POST", SYNC, &first, Some(runner("r1", 0))).await;
    assert_eq!(status, 200, "{answer}");
    let test = async { platform.post("/api/contexts/gh/test", json!({})).await };
    let talk = async {
        // A runner that does not know of errands gets none.
        let started = Instant::now();
        let errand = loop {
            let mut old = runner("r2", 0);
            old.as_object_mut().unwrap().remove("errands");
            let (_, answer) = platform.call("POST", SYNC, &second, Some(old)).await;
            assert!(answer.get("errands").is_none(), "{answer}");
            let (_, answer) = platform.call("POST", SYNC, &first, Some(runner("r1", 1_000))).await;
            if let Some(errand) = answer["errands"].get(0) {
                break errand.clone();
            }
            assert!(started.elapsed() < slipway_testkit::PATIENCE, "no errand came");
        };
        assert!(errand["url"].as_str().unwrap().starts_with("http://127.0.0.1:9/"), "{errand}");
        let path = format!("/api/agent/runner/errands/{}", errand["id"].as_str().unwrap());
        let (_, none) = platform.call("POST", SYNC, &second, Some(runner("r2", 0))).await;
        assert!(none.get("errands").is_none(), "it is given once: {none}");
        let door =
            Knock::new(&platform, "POST", &path).body(json!({"status": 200, "body": STANDARD.encode("[]")}));
        door.needs_somebody().await;
        assert_eq!(door.by(&elsewhere).await.0, 403, "not a runner, and of another account");
        assert_eq!(door.by(&platform.admin_key).await.0, 403, "a person is no runner");
        assert_eq!(door.by(&second).await.0, 404, "it is another runner's");
        assert_eq!(door.by(&first).await, (200, json!(true)));
        assert_eq!(door.by(&first).await.0, 404, "it is answered once");
    };
    let (tested, ()) = tokio::join!(test, talk);
    assert_eq!(tested["ok"], true, "{tested}");
    // What a runner could not reach is said in its words.
    let talk = async {
        let started = Instant::now();
        loop {
            let (_, answer) = platform.call("POST", SYNC, &first, Some(runner("r1", 1_000))).await;
            if let Some(id) = answer["errands"][0]["id"].as_str() {
                let told = json!({"problem": "cannot reach 127.0.0.1: \u{1b}[31mrefused"});
                let path = format!("/api/agent/runner/errands/{id}");
                assert_eq!(platform.call("POST", &path, &first, Some(told)).await.0, 200);
                return;
            }
            assert!(started.elapsed() < slipway_testkit::PATIENCE, "no errand came");
        }
    };
    let test = async { platform.post("/api/contexts/gh/test", json!({})).await };
    let (tested, ()) = tokio::join!(test, talk);
    assert_eq!(tested["message"], format!("{INSIDE}: cannot reach 127.0.0.1: [31mrefused"), "{tested}");
}
