//! What fails in the background is seen: by whoever runs the platform, and by what watches it.

use std::time::Duration;

use aws_lc_rs::hmac;
use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};
use slipway_server::{Config, EgressRules, Network, Seams, Server};
use slipway_store::Store;

use crate::knock::{Knock, limited};
use crate::support::Platform;
use crate::webhooks::until_builds;

async fn metrics(platform: &Platform) -> String {
    let (status, text) = platform.call("GET", "/metrics", &platform.admin_key, None).await;
    assert_eq!(status, 200, "{text}");
    text.as_str().unwrap().to_owned()
}

fn value(metrics: &str, name: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it did not come to this: {what}");
}

/// S2's other half: a statement that fails for ever is no line in a log that nobody reads.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_keeps_failing_shows_in_readiness_health_and_metrics() {
    let platform = Platform::start().await;
    let ready = async || {
        let (status, text) = platform.call("GET", "/readyz", "", None).await;
        assert_eq!(status, 200, "others are still served: {text}");
        text.as_str().unwrap().to_owned()
    };
    until("schedules were looked at", async || {
        let health = platform.get("/api/admin/health").await;
        let ran = health["jobs"].as_array().unwrap().iter().any(|job| job["name"] == "schedules");
        ran.then_some(())
    })
    .await;
    assert_eq!(ready().await, "ready");
    platform.sql("ALTER TABLE cron_ticks RENAME TO cron_ticks_gone");
    let said = until("the job is failing", async || Some(ready().await).filter(|text| text != "ready")).await;
    assert!(said.contains("background job `schedules` has failed"), "{said}");
    let health = platform.get("/api/admin/health").await;
    let schedules = health["jobs"].as_array().unwrap().iter().find(|job| job["name"] == "schedules").unwrap();
    assert_eq!(schedules["failing"], true, "{schedules}");
    assert!(schedules["error"].as_str().unwrap().contains("cron_ticks"), "{schedules}");
    assert!(value(&metrics(&platform).await, "slipway_job_failures{job=\"schedules\"}").unwrap() >= 3.0);
    platform.sql("ALTER TABLE cron_ticks_gone RENAME TO cron_ticks");
    until("it is well again", async || Some(ready().await).filter(|text| text == "ready")).await;
    let text = metrics(&platform).await;
    for name in [
        "slipway_part_up{part=\"database\"} 1",
        "slipway_part_up{part=\"bus\"} 1",
        "slipway_part_up{part=\"cache\"} 1",
        "slipway_leading{work=\"schedules\"}",
        "slipway_facts_waiting ",
        "slipway_deferred_messages{state=\"dead\"} 0",
        "slipway_store_write_wait_seconds_count",
        "slipway_store_connections",
        "slipway_lease_remaining_seconds{work=\"schedules\"}",
    ] {
        assert!(text.contains(name), "{name} is not in\n{text}");
    }
}

/// One row of the health page.
fn job<'h>(health: &'h Value, name: &str) -> &'h Value {
    health["jobs"].as_array().unwrap().iter().find(|job| job["name"] == name).unwrap()
}

/// What operators ask: what it is for, when it ran, how long it took, when it runs next, how it went, who leads.
#[tokio::test(flavor = "multi_thread")]
async fn every_background_job_is_listed_to_those_who_run_the_platform() {
    let platform = Platform::start().await;
    let health = until("the job waits for its next run", async || {
        let health = platform.get("/api/admin/health").await;
        (job(&health, "schedules")["nextRun"].is_string()).then_some(health)
    })
    .await;
    let schedules = job(&health, "schedules");
    for field in ["lastRun", "lastSuccess", "leader"] {
        assert!(schedules[field].is_string(), "{field}: {schedules}");
    }
    assert!(schedules["tookMs"].is_u64() && schedules["rounds"].as_u64().unwrap() > 0, "{schedules}");
    assert_eq!(
        (&schedules["here"], &schedules["lease"], &schedules["state"]),
        (&json!(true), &json!("schedules"), &json!("waiting"))
    );
    for row in health["jobs"].as_array().unwrap() {
        assert!(row["description"].as_str().unwrap().ends_with('.'), "{row}");
    }
    // Also those that have not run yet.
    assert_eq!(job(&health, "housekeeping")["rounds"], 0);
    assert!(job(&health, "housekeeping")["lastRun"].is_null());
    assert_eq!(job(&health, "key-usage")["lease"], Value::Null, "each process does that");

    let path = "/api/admin/health";
    Knock::new(&platform, "GET", path).needs_somebody().await;
    let (_, stranger) = platform.account("other").await;
    let (_, member) = platform.member("bob@example.com", "Admin").await;
    let narrow = limited(&platform, &["pipeline", "build"]).await;
    for key in [&stranger, &member, &narrow] {
        let (status, text) = platform.call("GET", path, key, None).await;
        assert_eq!(status, 403, "{text}");
        assert!(text["jobs"].is_null(), "{text}");
    }
}

/// Two processes on one database: one runs what is led, and both say which.
#[tokio::test(flavor = "multi_thread")]
async fn one_process_leads_and_every_process_says_which() {
    let database = slipway_testkit::postgres::shared().database();
    let folder = tempfile::tempdir().unwrap();
    let shutdown = tokio_util::sync::CancellationToken::new();
    let (http, mut processes, mut key) = (reqwest::Client::new(), Vec::new(), None);
    for _ in 0..2 {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let config =
            Config { data: folder.path().to_owned(), public_url: url.clone(), network: Network::default() };
        let store = Store::connect(&database.parse().unwrap()).unwrap();
        let server = Server::beside(config, store, Seams::system(), shutdown.clone()).unwrap();
        if let Some(first) = server.first_start("admin@example.com").await.unwrap() {
            key = Some(first.api_key.expose().clone());
        }
        let app = slipway_server::router(&server, None);
        tokio::spawn(slipway_server::serve(listener, app, shutdown.clone()));
        tokio::spawn(async move { server.run().await });
        processes.push(url);
    }
    let key = key.unwrap();
    let health = async |url: &str| -> Value {
        let asked = http.get(format!("{url}/api/admin/health")).header("authorization", &key);
        asked.send().await.unwrap().json().await.unwrap()
    };
    let (one, two) = until("somebody leads", async || {
        let (one, two) = (health(&processes[0]).await, health(&processes[1]).await);
        let led =
            job(&one, "schedules")["leader"].is_string() && job(&two, "schedules")["leader"].is_string();
        led.then_some((one, two))
    })
    .await;
    assert_ne!(one["process"], two["process"]);
    assert_eq!(job(&one, "schedules")["leader"], job(&two, "schedules")["leader"]);
    let (leader, other) = match job(&one, "schedules")["here"].as_bool().unwrap() {
        true => (&one, &two),
        false => (&two, &one),
    };
    assert_eq!(job(leader, "schedules")["leader"], leader["process"]);
    assert_eq!(job(other, "schedules")["here"], false);
    assert_eq!(job(other, "schedules")["state"], "standby");
    assert_eq!(
        (&job(other, "schedules")["rounds"], &job(other, "schedules")["lastRun"]),
        (&json!(0), &Value::Null)
    );
    // What each does for itself both do.
    assert_eq!(
        (&job(&one, "key-usage")["here"], &job(&two, "key-usage")["here"]),
        (&json!(true), &json!(true))
    );
    shutdown.cancel();
}

pub(crate) struct Announcer {
    pub(crate) path: String,
    pub(crate) secret: String,
}

impl Announcer {
    pub(crate) async fn send(&self, platform: &Platform, event: &str, delivery: &str, body: &Value) {
        let bytes = body.to_string();
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_bytes());
        let signature = format!("sha256={}", hex::encode(hmac::sign(&key, bytes.as_bytes())));
        let sent = platform
            .http()
            .post(format!("{}{}", platform.url, self.path))
            .header("x-github-event", event)
            .header("x-github-delivery", delivery)
            .header("content-type", "application/json")
            .header("x-hub-signature-256", signature)
            .body(bytes);
        assert_eq!(sent.send().await.unwrap().status(), 200);
    }
}

/// S4: it is waited for, it holds up nobody, and when it was given up somebody can have it tried again.
#[tokio::test(flavor = "multi_thread")]
async fn an_announcement_whose_provider_is_away_is_not_lost() {
    let egress_allowed = EgressRules::parse(&["127.0.0.1"]).unwrap();
    let platform = Platform::start_with(Network { egress_allowed, ..Network::default() }).await;
    // Taken and let go again: nobody answers there for now.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let context = json!({"metadata": {"name": "gh"}, "spec": {"type": "git.github", "data": {"auth":
        {"type": "basic", "password": "token", "apiHost": format!("http://{address}"), "apiPathPrefix": "/"}}}});
    platform.post("/api/contexts", context).await;
    let trigger = json!({"name": "t", "type": "git", "repo": "acme/app", "context": "gh",
        "events": ["push.heads", "pullrequest.commentAdded"], "pullRequestAllowForkEvents": true});
    let spec = json!({"triggers": [trigger], "steps": {"s": {"image": "x"}}});
    platform.post("/api/pipelines", json!({"metadata": {"name": "w/build"}, "spec": spec})).await;
    let id = platform.get("/api/hooks").await[0]["id"].as_str().unwrap().to_owned();
    let shown = platform.post(&format!("/api/hooks/{id}/secret"), json!({})).await;
    let secret = shown["secret"].as_str().unwrap().to_owned();
    let hook = Announcer { path: format!("/api/webhooks/git/{id}"), secret };

    let repository = json!({"full_name": "acme/app", "id": 1});
    let comment = json!({"action": "created", "repository": repository,
        "issue": {"number": 7, "title": "t", "pull_request": {"url": "x"}},
        "comment": {"id": 1, "body": "please build", "author_association": "OWNER", "user": {"login": "ada"}},
        "sender": {"login": "ada"}});
    hook.send(&platform, "issue_comment", "d1", &comment).await;
    hook.send(&platform, "push", "d2", &crate::webhooks::push("main", "1", "2")).await;
    // What is behind it flows.
    assert_eq!(until_builds(&platform, 1).await.len(), 1);
    let kept = until("it is kept for later", async || {
        let all = platform.get("/api/admin/messages").await;
        all["messages"].get(0).cloned()
    })
    .await;
    let problem = kept["problem"].as_str().unwrap();
    assert!(problem.contains("Git integration `gh`") && !problem.contains("database"), "{kept}");
    assert!(kept["next"].is_string() && kept["dead"].is_null(), "{kept}");
    assert!(kept.get("body").is_none() && !kept.to_string().contains("please build"), "{kept}");
    assert_eq!(value(&metrics(&platform).await, "slipway_deferred_messages{state=\"waiting\"}"), Some(1.0));

    // Days later nobody has answered.
    platform.pass(6 * 24 * 60 * 60 * 1000);
    until("it is given up", async || {
        let health = platform.get("/api/admin/health").await;
        (health["deadMessages"] == 1).then_some(())
    })
    .await;
    assert_eq!(value(&metrics(&platform).await, "slipway_deferred_messages{state=\"dead\"}"), Some(1.0));
    assert_eq!(until_builds(&platform, 1).await.len(), 1);

    // Only who runs the platform has it tried again, and it is recorded.
    let message = kept["id"].as_str().unwrap();
    let one = format!("/api/admin/messages/{message}/retry");
    let (_, stranger) = platform.account("other").await;
    let (_, member) = platform.member("bob@example.com", "Admin").await;
    let narrow = limited(&platform, &["pipeline", "build"]).await;
    for (method, path) in
        [("GET", "/api/admin/messages"), ("POST", one.as_str()), ("POST", "/api/admin/messages/retry")]
    {
        Knock::new(&platform, method, path).needs_somebody().await;
        for key in [&stranger, &member, &narrow] {
            assert_eq!(platform.call(method, path, key, None).await.0, 403, "{method} {path}");
        }
    }
    let (status, unknown) =
        platform.call("POST", "/api/admin/messages/triggers:9999/retry", &platform.admin_key, None).await;
    assert_eq!(status, 404, "{unknown}");

    let pull = json!({"head": {"ref": "feature", "sha": "3".repeat(40), "repo": {"id": 1, "full_name": "acme/app"}},
        "base": {"ref": "main", "repo": {"id": 1}}, "html_url": "http://x"});
    let provider =
        Router::new().route("/repos/acme/app/pulls/7", get(move || async move { axum::Json(pull) }));
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move { axum::serve(listener, provider).await });
    let (status, again) = platform.call("POST", &one, &platform.admin_key, None).await;
    assert_eq!(status, 200, "{again}");
    let made = until_builds(&platform, 2).await;
    assert!(made.iter().any(|build| build["revision"] == json!("3".repeat(40))), "{made:?}");
    until("it is done with", async || {
        let all = platform.get("/api/admin/messages").await;
        all["messages"].as_array().unwrap().is_empty().then_some(())
    })
    .await;
    let trail = platform.get("/api/audit?action=retry&entity=message&outcome=allowed").await;
    assert_eq!(trail["total"], 1, "{trail}");
}

/// S10's neighbour: what "delete one" speaks of can be removed.
#[tokio::test]
async fn a_runtime_is_removed_by_an_administrator_with_what_it_reported() {
    let platform = Platform::start().await;
    let key = platform.agent(slipway_store::identity::Subject::Runtime, "local").await;
    crate::keys::report(&platform, &key, Vec::new()).await;
    assert_eq!(platform.get("/api/runtimes").await.as_array().unwrap().len(), 1);
    let door = Knock::new(&platform, "DELETE", "/api/runtimes/local");
    door.needs_somebody().await;
    let (_, stranger) = platform.account("other").await;
    door.is_hidden_from(&stranger).await;
    let (_, member) = platform.member("bob@example.com", "User").await;
    assert_eq!(door.by(&member).await.0, 403);
    assert_eq!(door.by(&limited(&platform, &["pipeline", "gitops:read"]).await).await.0, 403);
    door.leaves(&platform.admin_key, "delete", "runtime", "allowed").await;
    assert_eq!(platform.get("/api/runtimes").await, json!([]));
    let events = platform.call("GET", "/api/agent/runtime/events?waitMs=0", &key, None).await;
    assert_eq!(events.0, 401, "its key is gone");
    assert_eq!(door.by(&platform.admin_key).await.0, 404);
}

/// S11: whoever asks hears it before they give up themselves, and hears when it is over.
#[tokio::test(flavor = "multi_thread")]
async fn readiness_says_within_a_moment_that_the_database_is_away() {
    let database = std::sync::Arc::new(slipway_testkit::postgres::Server::start(&[]));
    let folder = tempfile::tempdir().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shutdown = tokio_util::sync::CancellationToken::new();
    let config =
        Config { data: folder.path().to_owned(), public_url: url.clone(), network: Network::default() };
    let store = Store::connect(&database.database().parse().unwrap()).unwrap();
    let server = Server::beside(config, store, Seams::system(), shutdown.clone()).unwrap();
    server.first_start("admin@example.com").await.unwrap();
    tokio::spawn(slipway_server::serve(listener, slipway_server::router(&server, None), shutdown.clone()));
    let http = reqwest::Client::new();
    let ready = async || {
        let asked = std::time::Instant::now();
        let answer = http.get(format!("{url}/readyz")).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap(), asked.elapsed())
    };
    assert_eq!(ready().await.0, 200);
    let stopping = database.clone();
    tokio::task::spawn_blocking(move || stopping.stop()).await.unwrap();
    for _ in 0..3 {
        let (status, text, took) = ready().await;
        assert_eq!(status, 503, "{text}");
        assert!(text.contains("the database does not respond"), "{text}");
        // A second, and what a busy machine adds; it used to be fourteen.
        assert!(took < Duration::from_secs(6), "{took:?}");
    }
    let again = database.clone();
    tokio::task::spawn_blocking(move || again.run()).await.unwrap();
    until("it is ready again", async || (ready().await.0 == 200).then_some(())).await;
    shutdown.cancel();
}

/// S11: how long to wait is said where programs look for it.
#[tokio::test]
async fn too_many_failed_sign_ins_say_when_to_come_back() {
    let platform = Platform::start().await;
    let attempt = async || {
        let body = json!({"email": platform.email, "password": "wrong"});
        platform.http().post(format!("{}/api/auth/login", platform.url)).json(&body).send().await.unwrap()
    };
    for _ in 0..20 {
        let answer = attempt().await;
        if answer.status() == 429 {
            let seconds: u64 = answer.headers()["retry-after"].to_str().unwrap().parse().unwrap();
            assert!(seconds > 0);
            return;
        }
    }
    panic!("nobody was told to wait");
}
