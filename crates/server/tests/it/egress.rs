//! A platform that opens no connection: what would need one is refused, in a sentence that says why, where people look for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_server::{EgressRules, Network};

use crate::support::Platform;
use crate::webhooks::hook_on;

const SAID: &str = "127.0.0.1 was not asked: this platform opens no connections (--egress none)";

/// Somebody who could be asked, and counts who comes.
async fn somebody() -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let came = Arc::new(AtomicUsize::new(0));
    let counted = came.clone();
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (address, came)
}

#[tokio::test(flavor = "multi_thread")]
async fn with_egress_none_nobody_is_asked_and_everything_that_needs_it_says_so() {
    let network = Network {
        egress_allowed: EgressRules::parse(&["127.0.0.1"]).unwrap(),
        egress_none: true,
        ..Network::default()
    };
    let platform = Platform::start_with(network).await;
    let (address, came) = somebody().await;
    let context = |name: &str, kind: &str, data: Value| json!({"metadata": {"name": name}, "spec": {"type": kind, "data": data}});
    let auth = json!({"auth": {"type": "basic", "password": "canary-token", "apiHost": format!("http://{address}")}});
    platform.post("/api/contexts", context("inside", "git.gitea", auth)).await;
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let hook = json!({"url": format!("http://{address}/hook"), "on": ["terminated"]});
    platform.post("/api/contexts", context("chat", "notification.slack", hook)).await;
    let mail = json!({"host": "127.0.0.1", "port": port, "tls": "none", "from": "ci@example.com", "to": ["ada@example.com"], "on": ["terminated"]});
    platform.post("/api/contexts", context("mail", "notification.email", mail)).await;

    // What somebody asks for is refused at once.
    let tested = platform.post("/api/contexts/inside/test", json!({})).await;
    assert_eq!((&tested["ok"], &tested["message"]), (&json!(false), &json!(SAID)));
    let settings = json!({"displayName": "Corp", "issuer": format!("http://{address}"), "clientId": "x", "scopes": [],
        "createMembers": false});
    let settings = json!({"name": "corp", "settings": settings});
    let (status, refused) = platform.call("POST", "/api/idp", &platform.admin_key, Some(settings)).await;
    assert_eq!(status, 400, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains(SAID), "{refused}");

    // What is sent by itself says so where it is shown: messages at the build, webhooks in their list.
    platform.pipeline("m/told", "demo/app").await;
    let build = platform.post("/api/pipelines/run/m%2Ftold", json!({})).await;
    let build = build.as_str().unwrap();
    platform.call("DELETE", &format!("/api/progress/{build}"), &platform.admin_key, None).await;
    let until = async |path: &str, question: &dyn Fn(&Value) -> bool| {
        let started = Instant::now();
        loop {
            let shown = platform.get(path).await;
            if question(&shown) {
                return shown;
            }
            assert!(started.elapsed() < slipway_testkit::PATIENCE, "{path}: {shown}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let all_said = |shown: &Value| {
        let rows = shown.as_array().unwrap();
        rows.len() == 2 && rows.iter().all(|row| row.to_string().contains(SAID))
    };
    until(&format!("/api/builds/{build}/reports"), &all_said).await;
    hook_on(&platform, &["push.heads"]).await;
    let said =
        |shown: &Value| shown.to_string().contains("was not asked: this platform opens no connections");
    until("/api/hooks", &said).await;

    let health = platform.get("/api/admin/health").await;
    let without = health["withoutEgress"].as_array().unwrap();
    assert!(without.iter().any(|what| what.as_str().unwrap().contains("commit statuses")), "{health}");
    assert_eq!(came.load(Ordering::SeqCst), 0, "nobody came");
    // One that may: the same question is asked.
    let network =
        Network { egress_allowed: EgressRules::parse(&["127.0.0.1"]).unwrap(), ..Network::default() };
    let open = Platform::start_with(network).await;
    let auth = json!({"auth": {"type": "basic", "password": "x", "apiHost": format!("http://{address}")}});
    open.post("/api/contexts", context("inside", "git.gitea", auth)).await;
    let tested = open.post("/api/contexts/inside/test", json!({})).await;
    assert_eq!(tested["ok"], false, "{tested}");
    assert!(came.load(Ordering::SeqCst) > 0, "somebody came");
    assert_eq!(open.get("/api/admin/health").await["withoutEgress"], json!([]));
}
