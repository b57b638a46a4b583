//! GraphQL on the app-proxy: the same operations as REST has, by the same passes.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use slipway_api::application::{ProxyAbout, ProxyOperation};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::control_plane::{ControlPlane, pass};
use crate::world::{World, config_map};

/// The committed schema is the served one; `UPDATE=1 cargo test -p slipway-runtime --test it graphql::` rewrites it.
#[test]
fn the_committed_schema_is_the_served_one() {
    let (served, path) = (slipway_runtime::app_proxy_graphql(), "../../openapi/app-proxy.graphql");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &served).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == served,
        "openapi/app-proxy.graphql is out of date: run UPDATE=1 cargo test -p slipway-runtime --test it graphql::"
    );
}

/// The same for REST: every operation has its path in the document that clients are generated from, and there is no other.
#[test]
fn every_operation_is_in_the_document_of_the_app_proxy() {
    let text = std::fs::read_to_string("../../openapi/app-proxy.json").unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let wanted: std::collections::BTreeSet<String> = ProxyOperation::ALL
        .iter()
        .map(|operation| {
            let word = operation.word();
            match operation.about() {
                ProxyAbout::Application => {
                    format!("/app-proxy/api/applications/{{namespace}}/{{name}}/{word}")
                }
                ProxyAbout::Git => format!("/app-proxy/api/git/{word}"),
                ProxyAbout::Cluster => format!("/app-proxy/api/clusters/{word}"),
                ProxyAbout::Runtime => format!("/app-proxy/api/runtime/{word}"),
            }
        })
        .collect();
    assert_eq!(paths.keys().cloned().collect::<std::collections::BTreeSet<_>>(), wanted);
}

/// An app-proxy, both doors of it.
pub(crate) struct Door {
    base: String,
    http: reqwest::Client,
}

impl Door {
    pub(crate) async fn open(handle: slipway_runtime::Handle) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base = format!("http://{}/app-proxy/api", listener.local_addr().expect("an address"));
        let router = slipway_runtime::app_proxy_router(handle);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { base, http: reqwest::Client::new() }
    }

    async fn send(&self, authorization: &str, query: &str, variables: &Value) -> (u16, Value) {
        let body = json!({"query": query, "variables": variables});
        let post = self.http.post(format!("{}/graphql", self.base)).header("authorization", authorization);
        let answer = post.json(&body).send().await.expect("answered");
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or_default())
    }

    async fn ask(&self, who: &str, query: &str, variables: &Value) -> (u16, Value) {
        self.send(&pass(who), query, variables).await
    }

    async fn rest(&self, who: &str, path: &str) -> Value {
        let get = self.http.get(format!("{}/applications/argocd/shop/{path}", self.base));
        get.header("authorization", pass(who)).send().await.expect("answered").json().await.expect("JSON")
    }

    pub(crate) async fn socket(&self) -> Socket {
        let url = format!("{}/graphql", self.base.replacen("http", "ws", 1));
        let mut asked = url.into_client_request().expect("an address");
        asked.headers_mut().insert("sec-websocket-protocol", "graphql-transport-ws".parse().unwrap());
        let (socket, answer) = tokio_tungstenite::connect_async(asked).await.expect("opened");
        assert_eq!(answer.headers()["sec-websocket-protocol"], "graphql-transport-ws");
        Socket(socket)
    }
}

pub(crate) struct Socket(
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>,
);

impl Socket {
    pub(crate) async fn say(&mut self, message: Value) {
        self.0.send(Message::text(message.to_string())).await.expect("sent");
    }

    /// The next message that is no ping; none: it was closed.
    pub(crate) async fn hear(&mut self) -> Option<Value> {
        loop {
            let heard = tokio::time::timeout(slipway_testkit::PATIENCE, self.0.next()).await;
            match heard.expect("something is said") {
                Some(Ok(Message::Text(text))) => {
                    let said: Value = serde_json::from_str(&text).expect("JSON");
                    if said["type"] == "ping" {
                        self.say(json!({"type": "pong"})).await;
                        continue;
                    }
                    return Some(said);
                }
                Some(Ok(Message::Close(_))) | Some(Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    pub(crate) async fn init(&mut self, payload: Value) {
        self.say(json!({"type": "connection_init", "payload": payload})).await;
        assert_eq!(self.hear().await.expect("acknowledged")["type"], "connection_ack");
    }

    /// Begins many at once: how many of them were answered.
    async fn flood(&mut self, payload: &Value, many: usize) -> usize {
        for id in 0..many {
            let message = json!({"id": id.to_string(), "type": "subscribe", "payload": payload});
            if self.0.feed(Message::text(message.to_string())).await.is_err() {
                break;
            }
        }
        let _ = self.0.flush().await;
        let mut answered = 0;
        while answered < many
            && let Some(said) = self.hear().await
        {
            answered += usize::from(said["type"] == "complete");
        }
        answered
    }

    pub(crate) async fn subscribe(&mut self, id: &str, payload: Value) {
        self.say(json!({"id": id, "type": "subscribe", "payload": payload})).await;
    }
}

const OF: &str = "namespace: \"argocd\", name: \"shop\"";

fn code(answer: &Value) -> (&Value, &Value) {
    let extensions = &answer["errors"][0]["extensions"];
    (&extensions["code"], &extensions["status"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn graphql_says_and_does_what_rest_does_by_the_same_passes() {
    let world = World::new().await;
    let (plane, client) = ControlPlane::start().await;
    world.make("v1", "Namespace", "", "shop", json!({})).await;
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter2}\n";
    let first = world.commit(&[("app/a.yaml", &config_map("a", "1")), ("app/s.yaml", secret)]);
    world.application("shop", json!({})).await;
    let mut config = world.config();
    config.server = Some(client);
    let door = Door::open(world.start_with(config)).await;
    plane.until("shop", |app| app.sync_status == "OutOfSync").await;

    // What REST answers, by the fields that were asked for.
    let query = format!("{{ applicationDiff({OF}) {{ resources {{ kind name change unified live }} }} }}");
    let (status, diff) = door.ask("read", &query, &json!({})).await;
    assert_eq!((status, &diff["errors"]), (200, &Value::Null), "{diff}");
    let by_rest = door.rest("read", "diff").await;
    let resources = diff["data"]["applicationDiff"]["resources"].as_array().expect("a list");
    assert_eq!(resources.len(), by_rest["resources"].as_array().unwrap().len());
    for (one, other) in resources.iter().zip(by_rest["resources"].as_array().unwrap()) {
        for field in ["kind", "name", "change", "unified", "live"] {
            assert_eq!(one[field], other[field], "{field}");
        }
    }
    assert!(!diff.to_string().contains("hunter2"), "{diff}");
    let query = format!("{{ applicationManifests({OF}) {{ revisions manifests {{ file line yaml }} }} }}");
    let (_, manifests) = door.ask("read", &query, &json!({})).await;
    assert_eq!(manifests["data"]["applicationManifests"], {
        let by_rest = door.rest("read", "manifests").await;
        let kept = by_rest["manifests"].as_array().unwrap().iter();
        let kept: Vec<_> =
            kept.map(|m| json!({"file": m["file"], "line": m["line"], "yaml": m["yaml"]})).collect();
        json!({"revisions": by_rest["revisions"], "manifests": kept})
    });
    let query =
        format!("{{ applicationPlan({OF}, request: {{prune: true}}) {{ revision text steps {{ why }} }} }}");
    let (_, plan) = door.ask("read", &query, &json!({})).await;
    assert_eq!(plan["data"]["applicationPlan"]["revision"], json!(first), "{plan}");

    // An order: the request is what the platform hears, and what a pass is bound to.
    let sync = "mutation S($request: SyncRequest) { sync(namespace: \"argocd\", name: \"shop\", request: $request) { message operationId } }";
    let only_a = json!({"request": {"resources": [{"kind": "ConfigMap", "name": "a"}], "strategy": "apply",
        "syncOptions": ["Validate=false"], "retry": {"limit": 2, "duration": "1s"}}});
    let (status, refused) = door.ask("read", sync, &only_a).await;
    assert_eq!((status, code(&refused)), (403, (&json!("FORBIDDEN"), &json!(403))), "{refused}");
    let once = pass("user");
    let (status, ordered) = door.send(&once, sync, &only_a).await;
    assert_eq!((status, &ordered["errors"]), (200, &Value::Null), "{ordered}");
    assert_eq!(plane.asked().last().expect("asked").detail, Some(only_a["request"].clone()));
    let (status, again) = door.send(&once, sync, &only_a).await;
    assert_eq!((status, code(&again)), (401, (&json!("PASS_USED"), &json!(401))), "{again}");
    let post = door.http.post(format!("{}/applications/argocd/shop/sync", door.base));
    let other_door = post.header("authorization", &once).json(&only_a["request"]).send().await.unwrap();
    assert_eq!(other_door.status(), 401, "used up for the other door too");
    let app = world
        .until("shop", "synced in part", |app| app["status"]["operationState"]["phase"] == "Succeeded")
        .await;
    let asked = &app["status"]["operationState"]["operation"];
    assert_eq!(asked["sync"]["resources"], json!([{"kind": "ConfigMap", "name": "a"}]), "{asked}");
    assert_eq!(asked["sync"]["syncOptions"], json!(["Validate=false"]));
    assert_eq!(asked["retry"]["limit"], 2);
    assert!(asked["sync"]["syncStrategy"]["apply"].is_object(), "{asked}");
    assert!(world.get("ConfigMap", "a").await.is_some() && world.get("Secret", "s").await.is_none());
    // All that is wrong with it at once, as REST says it.
    let wrong = json!({"request": {"revisions": ["x"], "revision": "y", "syncOptions": ["Validate"],
        "resources": [{"kind": "", "name": "a"}]}});
    let (status, said) = door.ask("user", sync, &wrong).await;
    assert_eq!((status, code(&said)), (200, (&json!("BAD_SYNC"), &json!(422))), "{said}");
    let sentence = said["errors"][0]["message"].as_str().unwrap();
    assert_eq!(sentence.split("; ").count(), 4, "{sentence}");

    // Its live objects, and what was noted about them.
    let query = format!("{{ resourceTree({OF}) {{ resources {{ kind name status }} }} }}");
    let (_, tree) = door.ask("read", &query, &json!({})).await;
    let kinds: Vec<_> = tree["data"]["resourceTree"]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["kind"].clone())
        .collect();
    assert_eq!(kinds, ["ConfigMap", "Secret"], "{tree}");
    let query = format!("{{ applicationEvents({OF}) {{ events {{ kind name type reason message }} }} }}");
    let (_, events) = door.ask("read", &query, &json!({})).await;
    let noted = events["data"]["applicationEvents"]["events"].as_array().expect("a list");
    assert!(noted.iter().any(|event| event["kind"] == "Application" && event["name"] == "shop"), "{events}");
    let rest = door.rest("read", "events?kind=ConfigMap&namespace=shop&resourceName=a").await;
    assert_eq!(rest, json!({"events": []}), "nothing was noted about it");
    assert_eq!(door.rest("read", "events?kind=ConfigMap&namespace=shop&resourceName=z").await["status"], 404);

    // Other fields of GraphQL do what their sisters do.
    let (_, done) = door
        .ask(
            "user",
            &format!("mutation {{ refresh({OF}, request: {{hard: true}}) {{ message }} }}"),
            &json!({}),
        )
        .await;
    assert_eq!(done["data"]["refresh"]["message"], "hard refresh requested", "{done}");
    let (status, said) = door
        .ask("user", &format!("mutation {{ rollback({OF}, request: {{id: 77}}) {{ message }} }}"), &json!({}))
        .await;
    assert_eq!((status, code(&said)), (200, (&json!("NOT_FOUND"), &json!(404))), "{said}");
    let (status, said) = door.ask("user", "{ gitBranches(request: {provider: \"gitea\", host: \"http://x\", repository: \"a/b\"}) { branches { name } } }", &json!({})).await;
    assert_eq!((status, code(&said).0), (200, &json!("UNKNOWN_HOST")), "{said}");
    let (_, tokens) = door.ask("user", "{ gitTokens { tokens { login } } }", &json!({})).await;
    assert_eq!(tokens["data"]["gitTokens"]["tokens"], json!([]), "{tokens}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_is_small_one_field_and_needs_a_pass() {
    let (plane, client) = ControlPlane::start().await;
    let world = World::new().await;
    world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    world.application("shop", json!({})).await;
    let mut config = world.config();
    config.server = Some(client);
    let door = Door::open(world.start_with(config)).await;
    plane.until("shop", |app| app.sync_status == "OutOfSync").await;
    let before = plane.asked().len();
    let terminate = format!("mutation {{ terminateSync({OF}) {{ message }} }}");
    for header in ["", "Bearer", "Bearer ", "Basic YWJj", "acacacacacacacacacacacac.00"] {
        assert_eq!(door.send(header, &terminate, &json!({})).await.0, 401, "{header}");
    }
    let with_cookie = door.http.post(format!("{}/graphql", door.base)).header("cookie", "session=good");
    let with_cookie = with_cookie.json(&json!({"query": terminate})).send().await.unwrap();
    assert_eq!(with_cookie.status(), 401, "a cookie is nobody here");
    // Batches are no requests, and what runs is asked for by POST.
    let batch = door.http.post(format!("{}/graphql", door.base)).header("authorization", pass("user"));
    let batch = batch.json(&json!([{"query": terminate}, {"query": terminate}])).send().await.unwrap();
    assert_eq!(batch.status(), 422);
    let by_address = format!("{}/graphql?query=%7B__typename%7D", door.base);
    let get = door.http.get(by_address).header("authorization", pass("user")).send().await.unwrap();
    assert!(get.status().is_client_error());
    // Too much for one document, each with its sentence; none of it runs.
    let aliases: String = (0..40).map(|n| format!("a{n}: kind ")).collect();
    let deep = format!("{{ applicationDiff({OF}) {}{} }}", "{ resources ".repeat(20), "}".repeat(20));
    for (document, words) in [
        (
            format!(
                "{{ a: applicationDiff({OF}) {{ resources {{ kind }} }} b: applicationPlan({OF}) {{ text }} }}"
            ),
            "one field",
        ),
        (
            format!("mutation {{ refresh({OF}) {{ message }} terminateSync({OF}) {{ message }} }}"),
            "one field",
        ),
        (
            format!(
                "query A {{ applicationPlan({OF}) {{ text }} }} mutation B {{ refresh({OF}) {{ message }} }}"
            ),
            "one field",
        ),
        (format!("{{ ...F }} fragment F on Query {{ applicationPlan({OF}) {{ text }} }}"), "one field"),
        (format!("{{ applicationDiff({OF}) {{ resources {{ {aliases} }} }} }}"), "30 aliases"),
        (format!("{{ applicationDiff({OF}) {{ resources {{ a: kind b: kind }} }} }}"), "once"),
        (deep, "too deep"),
        (
            format!("{{ applicationDiff({OF}) {{ resources {{ {} }} }} }}", "kind ".repeat(2100)),
            "2000 tokens",
        ),
        (
            format!("{{ applicationDiff({OF}, x: \"{}\") {{ resources {{ kind }} }} }}", "y".repeat(40_000)),
            "32768 bytes",
        ),
        ("{ __schema { types { name } } }".to_owned(), "__schema"),
        (format!("mutation {{ sync({OF}, request: {{prune: \"yes\"}}) {{ message }} }}"), "Boolean"),
        (format!("mutation {{ sync({OF}, request: {{purge: true}}) {{ message }} }}"), "purge"),
        ("mutation { refresh(namespace: \"argocd\") { message } }".to_owned(), "name"),
        ("{ applicationPlan(namespace: \"argocd\"".to_owned(), "expected"),
    ] {
        let (status, answer) = door.ask("user", &document, &json!({})).await;
        let said = answer["errors"][0]["message"].as_str().unwrap_or_default();
        let start: String = document.chars().take(80).collect();
        assert!(status == 200 && said.contains(words), "{start}: {status} {answer}");
    }
    assert_eq!(plane.asked().len(), before, "the control plane was asked about none of these");
    // A name is a name and leads nowhere else.
    for name in ["../argocd/shop", "shop/sync", "shop?x=", "", ".."] {
        let query =
            "query Q($name: String!) { applicationPlan(namespace: \"argocd\", name: $name) { text } }";
        let (_, answer) = door.ask("user", query, &json!({"name": name})).await;
        assert_eq!(code(&answer).1, &json!(404), "{name}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_tells_of_changes_until_its_bearer_may_not_any_more() {
    let world = World::new().await;
    let (plane, client) = ControlPlane::start().await;
    world.make("v1", "Namespace", "", "shop", json!({})).await;
    let first = world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    world.application("shop", json!({})).await;
    let mut config = world.config();
    config.server = Some(client);
    let door = Door::open(world.start_with(config)).await;
    plane.until("shop", |app| app.sync_status == "OutOfSync").await;
    let query = format!("subscription {{ liveState({OF}) {{ syncStatus summary revision {{ sha }} }} }}");

    // One that listens, and says nothing from here on.
    let mut quiet = door.socket().await;
    quiet.init(json!({"authorization": pass("user")})).await;
    quiet.subscribe("q", json!({"query": query})).await;
    assert_eq!(quiet.hear().await.expect("the state")["type"], "next");
    let quiet_since = std::time::Instant::now();
    // Who begins more than any page does is let go of, before it is read what they begin.
    let mut flood = door.socket().await;
    flood.init(json!({})).await;
    let answered = flood.flood(&json!({"query": query}), 2_000).await;
    assert!(answered < 2_000, "{answered}");

    // Nothing, or nothing good, opens nothing.
    let mut nobody = door.socket().await;
    nobody.init(json!({})).await;
    nobody.subscribe("1", json!({"query": query})).await;
    let said = nobody.hear().await.expect("an answer");
    assert!(said.to_string().contains("show a pass"), "{said}");
    nobody.subscribe("2", json!({"query": query, "extensions": {"pass": "nonsense"}})).await;
    let said = loop {
        let said = nobody.hear().await.expect("an answer");
        if said["id"] == "2" {
            break said;
        }
    };
    assert!(said.to_string().contains("401"), "{said}");
    let started = std::time::Instant::now();
    while nobody.hear().await.is_some() {}
    assert!(started.elapsed() < Duration::from_secs(25), "a connection on which nothing goes on is closed");

    // One connection, a pass of its own for each subscription; or one pass for the connection.
    let mut socket = door.socket().await;
    socket.init(json!({"authorization": pass("user")})).await;
    socket.subscribe("a", json!({"query": query})).await;
    let said = socket.hear().await.expect("the state");
    assert_eq!(said["payload"]["data"]["liveState"]["syncStatus"], "OutOfSync", "{said}");
    let own = pass("user.bob").replace("Bearer ", "");
    socket.subscribe("b", json!({"query": query, "extensions": {"pass": own}})).await;
    let said = socket.hear().await.expect("the state");
    assert_eq!((&said["id"], &said["type"]), (&json!("b"), &json!("next")), "{said}");
    // A change is told to both, without asking.
    world.patch_app("shop", json!({"operation": {"sync": {}}})).await;
    let mut synced = std::collections::BTreeSet::new();
    while synced.len() < 2 {
        let said = socket.hear().await.expect("a change");
        let state = &said["payload"]["data"]["liveState"];
        if state["syncStatus"] == "Synced" && state["revision"]["sha"] == first.as_str() {
            synced.insert(said["id"].to_string());
        }
    }
    // One of them may not any more: it ends within the time, the other goes on.
    plane.revoke("user.bob");
    let started = std::time::Instant::now();
    let mut last = Value::Null;
    loop {
        let said = socket.hear().await.expect("an end");
        if said["id"] == "b" && matches!(said["type"].as_str(), Some("complete" | "error")) {
            break;
        }
        last = said;
    }
    println!("a subscription ended {} ms after its bearer's right", started.elapsed().as_millis());
    assert!(started.elapsed() < Duration::from_secs(12), "{last}");
    // Longer than anybody takes for gone who is only quiet.
    tokio::time::sleep(Duration::from_secs(25).saturating_sub(quiet_since.elapsed())).await;
    let second = world.commit(&[("app/a.yaml", &config_map("a", "2"))]);
    world.refresh("shop").await;
    loop {
        let said = quiet.hear().await.expect("who only listens goes on to hear");
        if said["payload"]["data"]["liveState"]["revision"]["sha"] == second.as_str() {
            break;
        }
    }
    loop {
        let said = socket.hear().await.expect("the other goes on");
        assert_eq!(said["id"], "a", "{said}");
        if said["payload"]["data"]["liveState"]["revision"]["sha"] == second.as_str() {
            break;
        }
    }
    // It is deleted: that is the end of it.
    let key = slipway_cluster::ObjectKey::new("argoproj.io", "Application", "argocd", "shop");
    world.client.delete(&key, None, slipway_cluster::Propagation::Background, false).await.expect("deleted");
    while socket.hear().await.expect("an end")["type"] != "complete" {}
}
