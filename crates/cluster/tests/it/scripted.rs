//! A server that does what real ones do on bad days: pages, expired watches, forbidden kinds, broken streams.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use slipway_cluster::{Cluster, ClusterConfig, ObjectKey};
use tokio_util::sync::CancellationToken;

#[derive(Clone, Default)]
struct Script {
    /// Answers to watches of config maps, in order; afterwards they hang.
    watches: Arc<Mutex<Vec<Vec<Value>>>>,
    /// What a list finds.
    maps: Arc<Mutex<Vec<Value>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

fn map(name: &str, version: u64) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": version.to_string(),
        "labels": {"of": "shop"}}})
}

fn event(kind: &str, object: Value) -> Value {
    let mut object = object;
    object["apiVersion"] = "v1".into();
    object["kind"] = "ConfigMap".into();
    json!({"type": kind, "object": object})
}

async fn roots() -> Json<Value> {
    Json(json!({"kind": "APIVersions", "versions": ["v1"], "groups": []}))
}

async fn core() -> Json<Value> {
    let resource = |name: &str, kind: &str| json!({"name": name, "kind": kind, "namespaced": true, "verbs": ["list", "watch", "get"]});
    Json(json!({"resources": [resource("configmaps", "ConfigMap"), resource("secrets", "Secret")]}))
}

async fn list(
    State(script): State<Script>,
    Path(plural): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    if plural == "secrets" {
        let status = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no"});
        return (StatusCode::FORBIDDEN, Json(status)).into_response();
    }
    if query.contains_key("watch") {
        script.asked.lock().unwrap().push(format!("watch {}", query["resourceVersion"]));
        let next = {
            let mut watches = script.watches.lock().unwrap();
            if watches.is_empty() { None } else { Some(watches.remove(0)) }
        };
        let Some(events) = next else { return std::future::pending().await };
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        return lines.into_response();
    }
    let maps = script.maps.lock().unwrap().clone();
    let page: usize = query.get("continue").and_then(|text| text.parse().ok()).unwrap_or(0);
    script.asked.lock().unwrap().push(format!("list {page}"));
    // One object a page.
    let next = if page + 1 < maps.len() { (page + 1).to_string() } else { String::new() };
    let items: Vec<&Value> = maps.get(page).into_iter().collect();
    Json(json!({"metadata": {"resourceVersion": "10", "continue": next}, "items": items})).into_response()
}

async fn start(script: Script) -> (Cluster, tempfile::TempDir, CancellationToken) {
    let router = axum::Router::new()
        .route("/api", axum::routing::get(roots))
        .route("/apis", axum::routing::get(roots))
        .route("/api/v1", axum::routing::get(core))
        .route("/api/v1/{plural}", axum::routing::get(list))
        .with_state(script);
    connect(router).await
}

async fn connect(router: axum::Router) -> (Cluster, tempfile::TempDir, CancellationToken) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    let root = tempfile::tempdir().expect("a temporary folder");
    let file = root.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: \"http://{address}\"}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{token: x}}}}]\n"
    );
    std::fs::write(&file, text).expect("written");
    let cluster =
        Cluster::connect(ClusterConfig { tracking: super::by_label(), ..ClusterConfig::new(Some(file)) })
            .await
            .expect("connected");
    let stop = CancellationToken::new();
    cluster.start(stop.clone()).await;
    (cluster, root, stop)
}

fn names(cluster: &Cluster) -> Vec<String> {
    let mut names: Vec<_> = cluster.tracked("shop").iter().map(|live| live.key.name.clone()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_watch_is_answered_by_a_new_list() {
    let script = Script::default();
    *script.maps.lock().unwrap() = vec![map("a", 3), map("b", 4)];
    *script.watches.lock().unwrap() = vec![
        vec![event("ADDED", map("c", 11)), event("BOOKMARK", json!({"metadata": {"resourceVersion": "15"}}))],
        vec![
            event("DELETED", map("a", 16)),
            json!({"type": "ERROR", "object": {"code": 410, "message": "too old"}}),
        ],
    ];
    let (cluster, _root, stop) = start(script.clone()).await;
    tokio::time::timeout(slipway_testkit::PATIENCE, async {
        while script.asked.lock().unwrap().len() < 6 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("six questions");
    let asked = script.asked.lock().unwrap().clone();
    assert_eq!(asked[..6], ["list 0", "list 1", "watch 10", "watch 15", "list 0", "list 1"]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    // `a` was deleted and a late list must not bring it back; `c` is newer than the list, so it stays.
    assert_eq!(names(&cluster), ["b", "c"]);
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forbidden_kind_is_unknown_and_keeps_nobody_waiting() {
    let script = Script::default();
    *script.maps.lock().unwrap() = vec![map("a", 3)];
    let (cluster, _root, stop) = start(script).await;
    assert!(cluster.is_read("", "ConfigMap"));
    assert!(!cluster.is_read("", "Secret"), "what cannot be read is not known to be absent");
    assert_eq!(cluster.unread_kinds(), ["/Secret"]);
    assert!(cluster.live(&ObjectKey::new("", "ConfigMap", "n", "a")).is_some());
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_stream_is_taken_up_where_it_was() {
    let script = Script::default();
    *script.maps.lock().unwrap() = vec![map("a", 3)];
    *script.watches.lock().unwrap() =
        vec![vec![event("ADDED", map("b", 11)), json!("half an event")], vec![event("ADDED", map("c", 12))]];
    let (cluster, _root, stop) = start(script.clone()).await;
    tokio::time::timeout(slipway_testkit::PATIENCE, async {
        while names(&cluster).len() < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("all three");
    let asked = script.asked.lock().unwrap().clone();
    assert_eq!(asked[1..3], ["watch 10", "watch 11"]);
    stop.cancel();
}

/// Servers establish a definition first and say that they serve its kind later; nothing announces that moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_is_served_after_its_definition_is_established_is_watched() {
    const ASKED: usize = 3;
    let asked = Arc::new(Mutex::new(0));
    let group = |name: &str| json!({"name": name, "versions": [{"groupVersion": format!("{name}/v1"), "version": "v1"}], "preferredVersion": {"groupVersion": format!("{name}/v1"), "version": "v1"}});
    let groups = move || {
        let asked = asked.clone();
        async move {
            let mut count = asked.lock().unwrap();
            *count += 1;
            let mut groups = vec![group("apiextensions.k8s.io")];
            groups.extend((*count > ASKED).then(|| group("example.org")));
            Json(json!({"kind": "APIGroupList", "groups": groups}))
        }
    };
    let resource = |name: &str, kind: &str| {
        Json(
            json!({"resources": [{"name": name, "kind": kind, "namespaced": false, "verbs": ["list", "watch", "get"]}]}),
        )
    };
    let definition = json!({"metadata": {"name": "ships.example.org", "uid": "d", "resourceVersion": "3"},
        "spec": {"group": "example.org", "names": {"plural": "ships", "kind": "Ship"}, "versions": [{"name": "v1", "served": true}]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]}});
    let listing = |items: Vec<Value>| {
        move |Query(query): Query<BTreeMap<String, String>>| async move {
            if query.contains_key("watch") {
                return std::future::pending().await;
            }
            Json(json!({"metadata": {"resourceVersion": "10"}, "items": items}))
        }
    };
    use axum::routing::get;
    let router = axum::Router::new()
        .route("/api", get(roots))
        .route("/apis", get(groups))
        .route("/api/v1", get(|| async { Json(json!({"resources": []})) }))
        .route(
            "/apis/apiextensions.k8s.io/v1",
            get(move || async move { resource("customresourcedefinitions", "CustomResourceDefinition") }),
        )
        .route("/apis/example.org/v1", get(move || async move { resource("ships", "Ship") }))
        .route("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", get(listing(vec![definition])))
        .route("/apis/example.org/v1/ships", get(listing(Vec::new())));
    let (cluster, _root, stop) = connect(router).await;
    tokio::time::timeout(slipway_testkit::PATIENCE, async {
        while !cluster.is_read("example.org", "Ship") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("the kind is watched");
    stop.cancel();
}
