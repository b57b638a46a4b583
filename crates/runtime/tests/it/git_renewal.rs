//! Signing in at Git providers that are strict, slow or hostile: a token is exchanged once however many want it, belongs to the
//! provider that it came from, and nobody can begin so much that others cannot.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use slipway_cluster::{ObjectKey, WriteOptions};
use tokio::sync::Semaphore;

use crate::control_plane::{ControlPlane, pass};
use crate::git_tokens::Door;
use crate::world::{World, config_map};

/// A Gitea of its own kind: each refresh token is good once, and whatever it gave before ends with it.
#[derive(Clone)]
struct Provider {
    host: String,
    inner: Arc<Inner>,
}

struct Inner {
    /// The number in the tokens that are good.
    good: Mutex<usize>,
    refreshes: Mutex<usize>,
    /// Answers to refreshes.
    may_answer: Semaphore,
}

impl Provider {
    async fn start() -> Self {
        let inner = Inner { good: Mutex::new(0), refreshes: Mutex::new(0), may_answer: Semaphore::new(0) };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let host = format!("http://{}", listener.local_addr().expect("an address"));
        let provider = Self { host, inner: Arc::new(inner) };
        let router = axum::Router::new()
            .route("/login/oauth/access_token", post(token))
            .route("/api/v1/user", get(myself))
            .route("/api/v1/user/orgs", get(organizations))
            .with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        provider
    }

    fn refreshes(&self) -> usize {
        *self.inner.refreshes.lock().unwrap()
    }

    async fn until_asked(&self, count: usize) {
        let started = Instant::now();
        while self.refreshes() < count {
            assert!(started.elapsed() < slipway_testkit::PATIENCE, "asked {} times", self.refreshes());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn token(State(provider): State<Provider>, body: String) -> (StatusCode, Json<Value>) {
    let fields = reqwest::Url::parse(&format!("http://x/?{body}")).expect("a form");
    let fields: BTreeMap<_, _> = fields.query_pairs().into_owned().collect();
    let refresh = fields["grant_type"] == "refresh_token";
    let given = {
        let mut good = provider.inner.good.lock().unwrap();
        if refresh {
            *provider.inner.refreshes.lock().unwrap() += 1;
            if fields["refresh_token"] != format!("r{good}") {
                return (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"})));
            }
        }
        *good += 1;
        *good
    };
    if refresh {
        provider.inner.may_answer.acquire().await.expect("open").forget();
    }
    // As long as there are numbers.
    let answer = json!({"access_token": format!("t{given}"), "refresh_token": format!("r{given}"), "expires_in": i64::MAX});
    (StatusCode::OK, Json(answer))
}

async fn myself() -> Json<Value> {
    Json(json!({"login": "ada", "full_name": "Ada", "email": "ada@example.com"}))
}

async fn organizations(State(provider): State<Provider>, headers: HeaderMap) -> (StatusCode, Json<Value>) {
    let good = format!("Bearer t{}", provider.inner.good.lock().unwrap());
    match headers["authorization"] == *good {
        true => (StatusCode::OK, Json(json!([]))),
        false => (StatusCode::UNAUTHORIZED, Json(json!({}))),
    }
}

struct Scene {
    world: World,
    door: Arc<Door>,
    first: Provider,
    second: Provider,
}

const CALLBACK: &str = "https://rt.example/app-proxy/api/git-auth";

impl Scene {
    async fn new() -> Self {
        let (first, second) = (Provider::start().await, Provider::start().await);
        let world = World::new().await;
        let (plane, client) = ControlPlane::start().await;
        world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
        for (name, provider) in [("first", &first), ("second", &second)] {
            let known = json!({"metadata": {"labels": {"argocd.argoproj.io/secret-type": "repo-creds"}},
                "stringData": {"url": provider.host}});
            world.make("v1", "Secret", "argocd", &format!("known-{name}"), known).await;
        }
        world.application("shop", json!({})).await;
        let mut config = world.config();
        config.server = Some(client);
        let door = Arc::new(Door::open(world.start_with(config)).await);
        plane.until("shop", |app| app.sync_status == "OutOfSync").await;
        let scene = Self { world, door, first, second };
        scene.describe("first", &scene.first, "gitea").await;
        scene
    }

    async fn describe(&self, name: &str, provider: &Provider, at: &str) {
        let described = json!({"metadata": {"labels": {"slipway.io/git-oauth": "true"}},
            "stringData": {"provider": "gitea", "host": provider.host, "clientId": "id", "clientSecret": "s",
                "redirectUri": format!("{CALLBACK}/{at}/callback")}});
        self.world.make("v1", "Secret", "argocd", &format!("sign-in-{name}"), described).await;
    }

    async fn begin(&self, who: &str, provider: &Provider) -> (u16, Value) {
        let digest: String = Sha256::digest(b"word").iter().map(|byte| format!("{byte:02x}")).collect();
        let asked = json!({"provider": "gitea", "host": provider.host, "challenge": digest});
        self.door.post(who, "git-authorize", &asked).await
    }

    async fn end(&self, begun: &Value, code: &str) -> (u16, Value) {
        let asked = json!({"state": begun["state"], "code": code, "word": "word"});
        self.door.post("user", "git-connect", &asked).await
    }

    async fn pending(&self) -> usize {
        let kind = ObjectKey::new("", "Secret", "argocd", "");
        self.world.client.list_labelled(&kind, "slipway.io/git-sign-in=true").await.unwrap().len()
    }

    /// What is kept of Ada at the first provider, and the key of its Secret.
    async fn kept(&self) -> (Value, String, Value) {
        let kind = ObjectKey::new("", "Secret", "argocd", "");
        let all =
            self.world.client.list_labelled(&kind, "slipway.io/git-tokens-of-a-person=true").await.unwrap();
        let (place, data) = all[0]["data"].as_object().unwrap().iter().next().unwrap();
        let text = STANDARD.decode(data.as_str().unwrap()).unwrap();
        (all[0].clone(), place.clone(), serde_json::from_slice(&text).expect("what is stored"))
    }

    /// Its time has come.
    async fn run_out(&self) {
        let (object, place, mut stored) = self.kept().await;
        stored["renewable"]["expires"] = "2020-01-01T00:00:00Z".into();
        let target = json!({"apiVersion": "v1", "kind": "Secret", "metadata":
            {"namespace": "argocd", "name": object["metadata"]["name"]}});
        let patch = json!({"stringData": {place: stored.to_string()}});
        self.world.client.merge(&target, &patch, WriteOptions::default()).await.unwrap();
    }

    fn lists(&self) -> impl Future<Output = (u16, Value)> + use<> {
        let (door, host) = (self.door.clone(), self.first.host.clone());
        async move { door.get("user", &format!("git-organizations?provider=gitea&host={host}")).await }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_ends_is_exchanged_once_and_what_comes_of_it_is_kept() {
    let scene = Scene::new().await;
    let (_, begun) = scene.begin("user", &scene.first).await;
    let (status, account) = scene.end(&begun, "gitea:c").await;
    assert_eq!((status, &account["login"]), (200, &json!("ada")), "{account}");
    assert_eq!(scene.lists().await.0, 200, "it may be said to be good for ever");

    // Several want it at once, as a page does.
    scene.run_out().await;
    let all = [tokio::spawn(scene.lists()), tokio::spawn(scene.lists()), tokio::spawn(scene.lists())];
    scene.first.until_asked(1).await;
    scene.first.inner.may_answer.add_permits(1);
    for one in all {
        let (status, said) = one.await.unwrap();
        assert_eq!(status, 200, "{said}");
    }
    assert_eq!(scene.first.refreshes(), 1);

    // Who wanted it hangs up before the provider answers.
    scene.run_out().await;
    let lists = tokio::spawn(scene.lists());
    scene.first.until_asked(2).await;
    lists.abort();
    assert!(lists.await.unwrap_err().is_cancelled());
    let again = tokio::spawn(scene.lists());
    scene.first.inner.may_answer.add_permits(1);
    let (status, said) = again.await.unwrap();
    assert_eq!((status, scene.first.refreshes()), (200, 2), "{said}");

    // A token that is given meanwhile stays.
    scene.run_out().await;
    let lists = tokio::spawn(scene.lists());
    scene.first.until_asked(3).await;
    let mine = json!({"provider": "gitea", "host": scene.first.host, "token": "mine"});
    assert_eq!(scene.door.post("user", "git-register", &mine).await.0, 200);
    scene.first.inner.may_answer.add_permits(1);
    lists.await.unwrap();
    let (_, _, stored) = scene.kept().await;
    assert_eq!((&stored["token"], &stored["renewable"]), (&json!("mine"), &Value::Null));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_is_for_the_provider_it_came_from_and_nobody_begins_for_everybody() {
    let scene = Scene::new().await;
    // Two providers to which browsers come back in the same way cannot be told apart.
    scene.describe("second", &scene.second, "gitea").await;
    for provider in [&scene.first, &scene.second] {
        let (status, said) = scene.begin("user", provider).await;
        assert_eq!((status, &said["name"]), (422, &json!("NO_SIGN_IN")), "{said}");
        assert!(said["message"].as_str().unwrap().contains("the same redirect address"), "{said}");
    }
    let second = ObjectKey::new("", "Secret", "argocd", "sign-in-second");
    scene.world.client.delete(&second, None, slipway_cluster::Propagation::Background, false).await.unwrap();
    scene.describe("second", &scene.second, "gitea.second").await;
    let (status, begun) = scene.begin("user", &scene.second).await;
    assert!(status == 200 && begun["url"].as_str().unwrap().contains("gitea.second"), "{begun}");
    // What the callback gives says where it came in.
    let callback = format!(
        "{}-auth/gitea.second/callback?code=c&state={}",
        scene.door.base(),
        begun["state"].as_str().unwrap()
    );
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let answer = http.get(callback).header("authorization", pass("user")).send().await.unwrap();
    assert!(answer.headers()["location"].to_str().unwrap().contains("code=gitea.second%3Ac&"));
    assert!(answer.text().await.unwrap().contains("\n\ngitea.second:c\n"));
    // Not at the provider that it did not come from, and not when nobody knows.
    for code in ["gitea:c", "c", "gitea.second:", ":c"] {
        let (status, said) = scene.end(&begun, code).await;
        assert_eq!((status, &said["name"]), (422, &json!("OTHER_CODE")), "{code}: {said}");
    }
    assert_eq!(*scene.second.inner.good.lock().unwrap(), 0, "it was asked for no token");
    assert_eq!(scene.end(&begun, "gitea.second:c").await.0, 200);

    // One person has a few under way: with more, their oldest is over; others do not notice.
    let (_, bobs) = scene.begin("user.bob", &scene.first).await;
    let mut mine = Vec::new();
    for _ in 0..7 {
        mine.push(scene.begin("user", &scene.first).await.1);
    }
    assert!(bobs["url"].is_string(), "{bobs}");
    assert_eq!(scene.pending().await, 6);
    assert_eq!(scene.end(&mine[0], "gitea:c").await.1["name"], "NO_SIGN_IN_UNDER_WAY");
    assert_eq!(scene.end(&mine[6], "gitea:c").await.0, 200);
}
