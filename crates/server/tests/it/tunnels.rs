//! Runtimes that connect: registration with a token that is shown once, tunnels by that token, and requests through them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::IntoResponse;
use serde_json::{Value, json};
use slipway_model::Secret;
use slipway_server::Network;
use slipway_tunnel::{Agent, Carrier, Connection, Dial, Server};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::keys::{app, report};
use crate::knock::{Knock, limited};
use crate::support::Platform;

/// What the runtime's listener saw: method, path and headers of every request.
type Seen = Arc<Mutex<Vec<String>>>;

async fn answer(State(seen): State<Seen>, request: Request) -> impl IntoResponse {
    let headers: Vec<_> = request
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap_or("?")))
        .collect();
    let line = format!("{} {}\n{}", request.method(), request.uri(), headers.join("\n"));
    seen.lock().unwrap().push(line);
    let hostile = [
        ("content-type", "text/html"),
        ("set-cookie", "slipway_session=mine; Path=/"),
        ("location", "https://elsewhere.test"),
    ];
    (hostile, "<script>alert(1)</script>")
}

/// A runtime that is hostile: whatever it is asked, it answers with what it should not.
struct Runtime {
    seen: Seen,
    state: watch::Receiver<Connection>,
    _stop: tokio_util::sync::DropGuard,
}

impl Runtime {
    async fn connect(platform: &Platform, token: &str, carrier: Carrier) -> Self {
        let seen = Seen::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let local: SocketAddr = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(seen.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { seen, ..Self::ending(platform, token, carrier, local) }
    }

    /// With a local address of one's own.
    fn ending(platform: &Platform, token: &str, carrier: Carrier, local: SocketAddr) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let dial = Dial {
            server: Server::parse(&platform.url).unwrap(),
            path: slipway_tunnel::PATH,
            carrier,
            credential: Arc::new(Secret::new(token.to_owned())),
            tls: Arc::new(tls),
            proxy: None,
        };
        let (sender, state) = watch::channel(Connection::Connecting);
        let stop = CancellationToken::new();
        tokio::spawn(
            Agent { dial, local, state: sender, traffic: std::sync::Arc::default() }.run(stop.clone()),
        );
        let _stop = stop.clone().drop_guard();
        Self { seen: Seen::default(), state, _stop }
    }

    async fn until_open(&mut self) {
        let opened = self.state.wait_for(|state| *state == Connection::Open);
        tokio::time::timeout(slipway_testkit::PATIENCE, opened).await.expect("in time").expect("it lives");
    }

    async fn refused(&mut self) -> String {
        let refused = self.state.wait_for(|state| matches!(state, Connection::Waiting { .. }));
        let state = tokio::time::timeout(slipway_testkit::PATIENCE, refused).await.expect("in time");
        match state.expect("it lives").clone() {
            Connection::Waiting { error, .. } => error,
            other => panic!("{other:?}"),
        }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

async fn register(platform: &Platform, name: &str) -> String {
    let made = platform.post("/api/runtimes", json!({"name": name})).await;
    made["token"].as_str().unwrap().to_owned()
}

/// The runtime as the API shows it, as soon as it is as the question wants it.
async fn until(platform: &Platform, name: &str, question: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        let shown = platform.get(&format!("/api/runtimes/{name}")).await;
        if question(&shown) {
            return shown;
        }
        assert!(started.elapsed() < slipway_testkit::PATIENCE, "{shown}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_is_registered_once_with_a_token_that_is_shown_once() {
    let platform = Platform::start().await;
    let (_, member) = platform.member("member@example.com", "User").await;
    let (_, elsewhere) = platform.account("elsewhere").await;
    let create = |name: &str| Knock::new(&platform, "POST", "/api/runtimes").body(json!({"name": name}));
    create("prod").needs_somebody().await;
    assert_eq!(create("prod").by(&member).await.0, 403, "an Administrator's");
    assert_eq!(create("prod").by(&limited(&platform, &["gitops:read", "agent"]).await).await.0, 403);
    let record = create("prod").leaves(&platform.admin_key, "create", "runtime", "allowed").await;
    assert!(!record.to_string().contains("token"), "{record}");
    let (status, refused) = create("prod").by(&platform.admin_key).await;
    assert_eq!(status, 409, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("slipway runtime token prod"), "{refused}");
    assert_eq!(create("prod").by(&elsewhere).await.0, 200, "names are an account's own");
    for wrong in ["", "Prod", "pröd", "a.b", "-a", "a-", "a_b", &"a".repeat(39)] {
        assert_eq!(create(wrong).by(&platform.admin_key).await.0, 400, "{wrong}");
    }
    let unsafe_url = json!({"name": "x", "ingressUrl": "http://runtime.example.com"});
    assert_eq!(platform.call("POST", "/api/runtimes", &platform.admin_key, Some(unsafe_url)).await.0, 400);

    let listed = platform.get("/api/runtimes").await;
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["state"], "never-connected");
    assert!(!listed.to_string().contains("token"), "{listed}");
    let paths = [
        ("GET", "/api/runtimes/prod", json!(null), "gitops:read"),
        ("PATCH", "/api/runtimes/prod", json!({"allowedAddresses": ["10.0.0.0/8"]}), "gitops"),
        ("POST", "/api/runtimes/prod/token", json!({}), "gitops"),
        ("DELETE", "/api/runtimes/prod/token", json!(null), "gitops"),
    ];
    let elsewhere_has_none = elsewhere.clone();
    platform.call("DELETE", "/api/runtimes/prod", &elsewhere, None).await;
    for (method, path, body, scope) in paths {
        let mut door = Knock::new(&platform, method, path);
        if !body.is_null() {
            door = door.body(body);
        }
        door.needs_somebody().await;
        door.needs_scope(scope).await;
        door.is_hidden_from(&elsewhere_has_none).await;
        if method != "GET" {
            assert_eq!(door.by(&member).await.0, 403, "{method} {path}");
        }
    }
    let token = Knock::new(&platform, "POST", "/api/runtimes/prod/token").body(json!({}));
    token.leaves(&platform.admin_key, "create", "runtime-token", "allowed").await;
    let revoke = Knock::new(&platform, "DELETE", "/api/runtimes/prod/token");
    revoke.leaves(&platform.admin_key, "revoke", "runtime-token", "allowed").await;
    assert_eq!(platform.get("/api/runtimes/prod").await["state"], "revoked");
    let rename = Knock::new(&platform, "PATCH", "/api/runtimes/prod").body(json!({"name": "live"}));
    rename.leaves(&platform.admin_key, "update", "runtime", "allowed").await;
    register(&platform, "prod").await;
    let back = Knock::new(&platform, "PATCH", "/api/runtimes/live").body(json!({"name": "prod"}));
    assert_eq!(back.by(&platform.admin_key).await.0, 409, "the name is another's");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_is_who_its_token_says_and_keeps_its_reports_when_it_is_renamed() {
    let platform = Platform::start().await;
    let token = register(&platform, "local").await;
    let (_, member) = platform.member("member@example.com", "User").await;
    assert_eq!(platform.call("GET", "/api/agent/runtime/self", &member, None).await.0, 403);
    let who = async || platform.call("GET", "/api/agent/runtime/self", &token, None).await.1;
    assert_eq!(who().await, json!({"name": "local", "platformUrl": platform.url, "ingressUrl": ""}));
    report(&platform, &token, vec![app("dev", json!({}))]).await;
    let (status, renamed) = platform
        .call("PATCH", "/api/runtimes/local", &platform.admin_key, Some(json!({"name": "east"})))
        .await;
    assert_eq!((status, &renamed["name"], &renamed["applications"]), (200, &json!("east"), &json!(1)));
    assert_eq!(who().await["name"], "east");
    let kept = platform.get("/api/applications/east/dev/app").await;
    assert_eq!(kept["runtime"], "east");
    let listed = platform.get("/api/applications").await;
    assert_eq!(listed["applications"][0]["runtime"], "east");
    let old = platform.call("GET", "/api/applications/local/dev/app", &platform.admin_key, None).await;
    assert_eq!(old.0, 404);
    // The old name says nothing any more, also in a report.
    let (status, _) =
        platform.call("POST", "/2.0/api/events", &token, Some(crate::reports::everything(Vec::new()))).await;
    assert_eq!(status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn k92_k94_requests_reach_the_runtime_without_cookies_and_keys_and_answers_cannot_act() {
    let platform = Platform::start().await;
    let token = register(&platform, "local").await;
    report(&platform, &token, vec![app("dev", json!({}))]).await;
    let mut runtime = Runtime::connect(&platform, &token, Carrier::WebSocket).await;
    runtime.until_open().await;
    let shown = until(&platform, "local", |shown| shown["tunnels"] == 1).await;
    assert_eq!((&shown["state"], &shown["accessMode"]), (&json!("online"), &json!("tunnel")));
    assert_eq!(shown["sessions"][0]["peer"], "127.0.0.1");
    let (_, member) = platform.member("member@example.com", "User").await;
    let (_, seen) = platform.call("GET", "/api/runtimes/local", &member, None).await;
    assert_eq!(
        (&seen["tunnels"], &seen["sessions"]),
        (&json!(1), &json!([])),
        "addresses are for Administrators"
    );

    let question = json!({"operation": "diff", "namespace": "dev", "name": "app"});
    let pass = platform.post("/api/runtimes/local/pass", question).await;
    assert_eq!(pass["url"], format!("/tunnels/{}-local", platform.account));
    let url = format!(
        "{}{}/app-proxy/api/applications/dev/app/diff?x=%2F",
        platform.url,
        pass["url"].as_str().unwrap()
    );
    let bearer = format!("Bearer {}", pass["token"].as_str().unwrap());
    let browser = platform.sign_in(&platform.email, &platform.password).await.unwrap();
    let call = || {
        let call = platform.http().get(&url).header("cookie", &browser.cookie);
        let call = call.header("x-csrf-token", &browser.csrf).header("x-slipway-user", "root");
        call.header("x-forwarded-for", "10.9.9.9")
    };
    let answer = call().header("authorization", &bearer).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let headers = answer.headers().clone();
    assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(headers["content-security-policy"], "sandbox; default-src 'none'");
    assert!(headers.get("set-cookie").is_none() && headers.get("location").is_none(), "{headers:?}");
    let [arrived] = &runtime.seen()[..] else { panic!("{:?}", runtime.seen()) };
    assert!(arrived.starts_with("GET /app-proxy/api/applications/dev/app/diff?x=%2F\n"), "{arrived}");
    assert!(arrived.contains(&bearer) && arrived.contains("x-forwarded-for: 127.0.0.1"), "{arrived}");
    for secret in [browser.cookie.as_str(), &browser.csrf, "slipway_session", "root", "10.9.9.9"] {
        assert!(!arrived.contains(secret), "{secret}: {arrived}");
    }
    // A key is refused before it leaves the platform.
    for key in [platform.admin_key.as_str(), &format!("Bearer {}", platform.admin_key), "Basic YWJj"] {
        let refused = call().header("authorization", key).send().await.unwrap();
        assert_eq!(refused.status(), 401, "{key}");
    }
    assert_eq!(runtime.seen().len(), 1, "nothing of it arrived");
    // What a runtime does not serve is not asked of it.
    let label = format!("{}/tunnels/{}-local", platform.url, platform.account);
    for path in ["/metrics", "/engines", "/app-proxyx/a", "/api/user"] {
        let status = platform.http().get(format!("{label}{path}")).send().await.unwrap().status().as_u16();
        assert_eq!(status, 404, "{path}");
    }
    assert_eq!(runtime.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn k87_k88_a_tunnel_has_the_name_of_its_token_and_a_host_of_its_own() {
    let network = Network { tunnel_domain: Some("tunnels.test".into()), ..Network::default() };
    let platform = Platform::start_with(network).await;
    let token = register(&platform, "local").await;
    let (other, elsewhere) = platform.account("elsewhere").await;
    let (_, theirs) =
        platform.call("POST", "/api/runtimes", &elsewhere, Some(json!({"name": "local"}))).await;
    let mut mine = Runtime::connect(&platform, &token, Carrier::Raw).await;
    let mut other_runtime =
        Runtime::connect(&platform, theirs["token"].as_str().unwrap(), Carrier::WebSocket).await;
    mine.until_open().await;
    other_runtime.until_open().await;
    until(&platform, "local", |shown| shown["tunnels"] == 1).await;
    let _ = other;
    let host = format!("{}-local.tunnels.test", platform.account);
    assert!(platform.get("/api/runtimes/local").await["url"].as_str().unwrap().contains(&host));
    let ask = async |host: &str, path: &str| {
        let answer = platform.http().get(format!("{}{path}", platform.url)).header("host", host).send().await;
        let answer = answer.unwrap();
        (answer.status().as_u16(), answer.headers().clone())
    };
    let (status, headers) = ask(&host, "/webhooks/git").await;
    assert_eq!((status, &headers["content-type"]), (200, &"text/html".parse().unwrap()));
    assert!(headers.get("set-cookie").is_none(), "a cookie could be for the platform's domain");
    assert_eq!((mine.seen().len(), other_runtime.seen().len()), (1, 0), "nobody else's");
    // Nothing of the platform is on that host, and nothing of a runtime on hosts that are not its own.
    assert_eq!(ask(&host, "/api/user").await.0, 200, "the runtime's, whatever it answers");
    assert_eq!(mine.seen().len(), 2);
    for (wrong, expected) in [
        (format!("{}-nobody.tunnels.test", platform.account), 502),
        ("acacacacacacacacacacacac-local.tunnels.test".into(), 502),
        ("evil.tunnels.test".into(), 421),
        (format!("x.{host}"), 421),
    ] {
        assert_eq!(ask(&wrong, "/webhooks/git").await.0, expected, "{wrong}");
    }
    assert_eq!(ask("tunnels.test", "/healthz").await.0, 200, "the platform's own");
    assert_eq!(mine.seen().len() + other_runtime.seen().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_opens_no_tunnel_and_is_recorded() {
    let platform = Platform::start().await;
    let token = register(&platform, "local").await;
    let runner = platform.agent(slipway_store::identity::Subject::Runner, "r1").await;
    let denials = async || {
        let mut total = 0;
        for path in ["/api/audit?limit=1&outcome=denied", "/api/admin/audit?limit=1&outcome=denied"] {
            total += platform.get(path).await["total"].as_i64().unwrap();
        }
        total
    };
    let made_up = format!("{}.{}", token.split('.').next().unwrap(), "0".repeat(40));
    for wrong in [made_up.as_str(), "nonsense", &platform.admin_key, &runner] {
        let before = denials().await;
        let mut runtime = Runtime::connect(&platform, wrong, Carrier::WebSocket).await;
        let error = runtime.refused().await;
        assert!(error.contains("refused the tunnel (40"), "{error}");
        drop(runtime);
        assert!(denials().await > before, "{wrong}");
    }
    let plain = platform.call("GET", "/api/agent/tunnel", &token, None).await;
    assert_eq!(plain.0, 400, "{}", plain.1);
    assert_eq!(platform.get("/api/runtimes/local").await["tunnels"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_ends_tunnels_and_held_calls_at_once() {
    let platform = Platform::start().await;
    let mut token = register(&platform, "local").await;
    for how in ["revoke", "renew", "delete"] {
        let mut runtime = Runtime::connect(&platform, &token, Carrier::WebSocket).await;
        runtime.until_open().await;
        until(&platform, "local", |shown| shown["tunnels"] == 1).await;
        let (_, first) = platform.call("GET", "/api/agent/runtime/events", &token, None).await;
        let held = format!("/api/agent/runtime/events?after={}&waitMs=25000", first["next"]);
        let held = platform.call("GET", &held, &token, None);
        let mut renewed = None;
        let ending = async {
            match how {
                "revoke" => {
                    platform.call("DELETE", "/api/runtimes/local/token", &platform.admin_key, None).await
                }
                "renew" => {
                    let made = platform.post("/api/runtimes/local/token", json!({})).await;
                    renewed = made["token"].as_str().map(str::to_owned);
                    (200, made)
                }
                _ => platform.call("DELETE", "/api/runtimes/local", &platform.admin_key, None).await,
            }
        };
        let started = Instant::now();
        let (held, ended) = tokio::join!(held, ending);
        assert_eq!((held.0, ended.0), (401, 200), "{how}: {} {}", held.1, ended.1);
        let error = runtime.refused().await;
        assert!(started.elapsed() < Duration::from_secs(10), "{how}: {error}");
        let label = format!("{}/tunnels/{}-local/webhooks/git", platform.url, platform.account);
        let through = platform.http().get(label).send().await.unwrap();
        assert_eq!(through.status(), 502, "{how}");
        assert!(runtime.seen().is_empty());
        if how == "revoke" {
            let shown = platform.get("/api/runtimes/local").await;
            assert_eq!((&shown["state"], &shown["online"]), (&json!("revoked"), &json!(false)));
            let made = platform.post("/api/runtimes/local/token", json!({})).await;
            token = made["token"].as_str().unwrap().to_owned();
        }
        if let Some(renewed) = renewed {
            let (status, _) = platform.call("GET", "/api/agent/runtime/self", &token, None).await;
            assert_eq!(status, 401, "the old one");
            token = renewed;
        }
    }
}

/// T6: whoever registers a name first has it, however many try at once; the tunnels of one name are all of the one who got its token.
#[tokio::test(flavor = "multi_thread")]
async fn t6_of_a_hundred_who_register_a_name_at_once_one_gets_it() {
    let platform = Platform::start().await;
    let body = || Some(json!({"name": "prod"}));
    let all = (0..100).map(|_| platform.call("POST", "/api/runtimes", &platform.admin_key, body()));
    let all = futures::future::join_all(all).await;
    let tokens: Vec<_> = all.iter().filter_map(|(_, answer)| answer["token"].as_str()).collect();
    assert_eq!(tokens.len(), 1, "{all:?}");
    let refused = all.iter().filter(|(status, _)| matches!(status, 409 | 429)).count();
    assert_eq!(refused, 99, "{all:?}");
    let mut both = Vec::new();
    for carrier in [Carrier::Raw, Carrier::WebSocket] {
        let mut runtime = Runtime::connect(&platform, tokens[0], carrier).await;
        runtime.until_open().await;
        both.push(runtime);
    }
    until(&platform, "prod", |shown| shown["tunnels"] == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_who_are_not_on_the_list_of_networks_get_403() {
    let platform = Platform::start().await;
    let token = register(&platform, "local").await;
    let mut runtime = Runtime::connect(&platform, &token, Carrier::WebSocket).await;
    runtime.until_open().await;
    until(&platform, "local", |shown| shown["tunnels"] == 1).await;
    let allow = async |networks: Value| {
        let body = json!({"allowedAddresses": networks});
        platform.call("PATCH", "/api/runtimes/local", &platform.admin_key, Some(body)).await.0
    };
    let url = format!("{}/tunnels/{}-local/webhooks/git", platform.url, platform.account);
    let ask = async || platform.http().get(&url).send().await.unwrap().status().as_u16();
    for wrong in [json!(["example.com"]), json!(["10.0.0.0/33"]), json!([""])] {
        assert_eq!(allow(wrong.clone()).await, 400, "{wrong}");
    }
    for (networks, status) in [
        (json!([]), 200),
        (json!(["10.0.0.0/8", "2001:db8::/32"]), 403),
        (json!(["127.0.0.0/8"]), 200),
        (json!(["127.0.0.2"]), 403),
        (json!(["::1", "127.0.0.1"]), 200),
    ] {
        assert_eq!(allow(networks.clone()).await, 200);
        assert_eq!(ask().await, status, "{networks}");
    }
    assert_eq!(runtime.seen().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn k94_a_pass_is_good_for_one_thing_while_its_bearer_may() {
    let platform = Platform::start().await;
    let east = register(&platform, "local").await;
    let west = register(&platform, "west").await;
    report(&platform, &east, vec![app("dev", json!({})), app("prod", json!({}))]).await;
    let (_, elsewhere) = platform.account("elsewhere").await;
    let (_, theirs) =
        platform.call("POST", "/api/runtimes", &elsewhere, Some(json!({"name": "local"}))).await;
    let key = limited(&platform, &["gitops"]).await;
    let asked = json!({"operation": "sync", "namespace": "dev", "name": "app", "detail": {"prune": true}});
    let (_, pass) = platform.call("POST", "/api/runtimes/local/pass", &key, Some(asked.clone())).await;
    let pass = pass["token"].as_str().unwrap().to_owned();
    let mut asked = asked;
    asked["pass"] = json!(pass);
    let shown = async |runtime: &str, body: &Value| {
        platform.call("POST", "/api/access/application", runtime, Some(body.clone())).await
    };
    let (status, named) = shown(&east, &asked).await;
    assert_eq!((status, &named["userName"]), (200, &json!("admin")));
    // Neither another runtime, nor another account's, nor a person has any use of it.
    for (who, status) in [(&west, 401), (&theirs["token"].as_str().unwrap().to_owned(), 401), (&key, 403)] {
        assert_eq!(shown(who, &asked).await.0, status);
    }
    for (field, value) in [
        ("operation", json!("rollback")),
        ("namespace", json!("prod")),
        ("name", json!("other")),
        ("detail", json!({"prune": false})),
        ("detail", json!(null)),
        ("pass", json!(format!("{pass}x"))),
        ("pass", json!("pass.AAAA")),
        ("pass", json!(key)),
    ] {
        let mut other = asked.clone();
        other[field] = value;
        assert_eq!(shown(&east, &other).await.0, 401, "{other}");
    }
    // It opens nothing else.
    for path in ["/api/user", "/api/applications", "/api/runtimes"] {
        for sent in [pass.clone(), format!("Bearer {pass}")] {
            assert_eq!(platform.call("GET", path, &sent, None).await.0, 401, "{path}");
        }
    }
    platform
        .call(
            "DELETE",
            &format!("/api/auth/key/{}", key.split('.').next().unwrap()),
            &platform.admin_key,
            None,
        )
        .await;
    let (status, said) = shown(&east, &asked).await;
    assert_eq!(status, 401, "its bearer's key was revoked: {said}");
    let again = platform
        .post("/api/runtimes/local/pass", json!({"operation": "diff", "namespace": "dev", "name": "app"}))
        .await;
    let late = json!({"operation": "diff", "namespace": "dev", "name": "app", "pass": again["token"]});
    assert_eq!(shown(&east, &late).await.0, 200);
    platform.pass(2 * 60 * 1000 + 1000);
    let (status, said) = shown(&east, &late).await;
    assert_eq!(status, 401, "{said}");
    assert!(said["message"].as_str().unwrap().contains("expired"), "{said}");
}

/// Which addresses a page may ask is said when it is opened: those of its account's runtimes, and to nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_may_ask_the_runtimes_of_its_account_and_nobody_hears_of_others() {
    let network = Network { tunnel_domain: Some("tunnels.test".into()), ..Network::default() };
    let platform = Platform::start_with(network).await;
    register(&platform, "prod").await;
    let own = json!({"name": "edge", "ingressUrl": "https://edge.example.com:8443"});
    platform.post("/api/runtimes", own).await;
    let (other, elsewhere) = platform.account("elsewhere").await;
    let theirs = json!({"name": "theirs", "ingressUrl": "https://theirs.example.com"});
    platform.call("POST", "/api/runtimes", &elsewhere, Some(theirs)).await;
    let browser = platform.sign_in(&platform.email, &platform.password).await.unwrap();
    let asked = async |request: reqwest::RequestBuilder| {
        let answer = request.send().await.unwrap();
        let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
        policy.split("; ").find(|part| part.starts_with("connect-src")).unwrap().to_owned()
    };
    let mine = asked(browser.request(&platform, "GET", "/applications")).await;
    let tunnel = format!("{}-prod.tunnels.test", platform.account);
    assert!(mine.contains("https://edge.example.com:8443") && mine.contains(&tunnel), "{mine}");
    assert!(!mine.contains("theirs") && !mine.contains(&other), "{mine}");
    assert!(!mine.contains(" https: ") && !mine.ends_with(" https:") && !mine.contains('*'), "{mine}");
    let nobody = asked(platform.http().get(format!("{}/", platform.url))).await;
    assert!(!nobody.contains("example.com") && !nobody.contains("tunnels.test"), "{nobody}");
}

/// A call of gRPC that comes by HTTP/2 arrives as one at a backend that knows nothing else, and its trailers come back.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_grpc_goes_through_the_platform_with_its_trailers() {
    use futures::{SinkExt as _, StreamExt as _};
    use http_body_util::{BodyExt as _, BodyStream, StreamBody};
    use hyper::body::{Bytes, Frame, Incoming};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let network = Network { tunnel_domain: Some("tunnels.test".into()), ..Network::default() };
    let platform = Platform::start_with(network).await;
    let token = register(&platform, "prod").await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut runtime = Runtime::ending(&platform, &token, Carrier::WebSocket, listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let echo = hyper::service::service_fn(|request: hyper::Request<Incoming>| async {
                let end = [("grpc-status", "0"), ("grpc-message", "done")]
                    .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
                let end = futures::stream::iter([Ok(Frame::trailers(end.into_iter().collect()))]);
                let mut answer =
                    hyper::Response::new(StreamBody::new(BodyStream::new(request.into_body()).chain(end)));
                answer.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
                Ok::<_, std::convert::Infallible>(answer)
            });
            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(http.serve_connection(TokioIo::new(stream), echo));
        }
    });
    runtime.until_open().await;
    let address = platform.url.trim_start_matches("http://").to_owned();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let (mut say, said) = futures::channel::mpsc::channel::<Result<Frame<Bytes>, std::io::Error>>(1);
    let request = hyper::Request::builder()
        .method("POST")
        .uri(format!("http://{}-prod.tunnels.test/echo.Echo/Converse", platform.account))
        .version(axum::http::Version::HTTP_2)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(StreamBody::new(said))
        .unwrap();
    until(&platform, "prod", |shown| shown["tunnels"] == 1).await;
    let answer = sender.send_request(request).await.unwrap();
    if answer.status() != 200 {
        panic!("{:?}", answer.into_body().collect().await.unwrap().to_bytes());
    }
    assert_eq!(answer.headers()["content-type"], "application/grpc");
    let mut body = answer.into_body();
    for message in ["one", "two"] {
        say.send(Ok(Frame::data(Bytes::from(message)))).await.unwrap();
        let heard =
            tokio::time::timeout(slipway_testkit::PATIENCE, body.frame()).await.expect("while it goes on");
        assert_eq!(heard.unwrap().unwrap().into_data().unwrap(), message);
    }
    say.close_channel();
    let trailers = body.collect().await.unwrap().trailers().cloned().expect("trailers");
    assert_eq!(
        (&trailers["grpc-status"], &trailers["grpc-message"]),
        (&"0".parse().unwrap(), &"done".parse().unwrap())
    );
}
