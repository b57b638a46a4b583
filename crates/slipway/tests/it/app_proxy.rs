//! Every operation of a runtime's app-proxy, by both of its doors, at a real control plane: who gets in, who does not, and what is
//! recorded. A new operation has no row and does not compile.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use slipway_api::application::{ProxyAbout, ProxyOperation as Op, changes_something};
use slipway_api::git_proxy::told;
use slipway_cluster::{Cluster, ClusterConfig, WriteOptions};
use slipway_model::Secret;
use slipway_server::{Network, Seams, Server};
use slipway_store::identity::Subject;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_util::sync::CancellationToken;

/// How an operation is asked for: what is sent, and the field of GraphQL with the type of its `request`.
struct Row {
    request: Option<Value>,
    field: Option<(&'static str, &'static str, &'static str)>,
}

/// Requests that are whole, so that nothing but the pass decides, and lead to nothing.
fn row(operation: Op) -> Row {
    let of = |field, kind, select, request: Value| Row {
        request: (!request.is_null()).then_some(request),
        field: Some((field, kind, select)),
    };
    let none = Value::Null;
    let object = json!({"kind": "ConfigMap", "namespace": "shop", "resourceName": "none"});
    let rollout = json!({"namespace": "shop", "resourceName": "none"});
    let place = json!({"provider": "gitea"});
    let declaration = json!({"provider": "gitea", "repository": "a/b", "file": "a.yaml"});
    match operation {
        Op::Manifests => of("query applicationManifests", "", "revisions", none),
        Op::Diff => of("query applicationDiff", "", "resources { kind }", none),
        Op::Plan => of("query applicationPlan", "", "text", none),
        Op::Tree => of("query resourceTree", "", "resources { kind }", none),
        Op::Events => of("query applicationEvents", "", "events { reason }", none),
        Op::Resource => of("query resource", "ResourceRef!", "yaml", object),
        Op::Live => of("subscription liveState", "", "summary", none),
        Op::Actions => of("query resourceActions", "ResourceRef!", "actions { name }", object),
        Op::Sync => of("mutation sync", "SyncRequest", "message", json!({"dryRun": true})),
        Op::Refresh => of("mutation refresh", "RefreshRequest", "message", json!({"hard": false})),
        Op::Rollback => of("mutation rollback", "RollbackRequest!", "message", json!({"id": 77})),
        Op::Terminate => of("mutation terminateSync", "", "message", none),
        Op::SyncPolicy => of("mutation setSyncPolicy", "SyncPolicyRequest!", "message", json!({})),
        Op::Action => {
            let mut action = object;
            action["action"] = "mark".into();
            of("mutation runResourceAction", "ActionRequest!", "message", action)
        }
        Op::Logs => of("subscription logs", "LogsRequest", "text failed", json!({"tail": 1})),
        Op::DeleteResource => of("mutation deleteResource", "DeleteResourceRequest!", "message", object),
        Op::Exec => {
            Row { request: Some(json!({"namespace": "shop", "pod": "none", "command": ["id"]})), field: None }
        }
        Op::Create => {
            let mut made = declaration;
            made["application"] = json!({"spec": {"project": "default"}});
            of("mutation createApplication", "Declaration!", "outcome", made)
        }
        Op::Edit => {
            let mut changed = declaration;
            changed["application"] = json!({"spec": {"project": "default"}});
            of("mutation editApplication", "Declaration!", "outcome", changed)
        }
        Op::Delete => of("mutation deleteApplication", "Declaration!", "outcome", declaration),
        Op::RolloutPause => of("mutation pauseRollout", "RolloutRequest!", "message", rollout),
        Op::RolloutResume => of("mutation resumeRollout", "RolloutRequest!", "message", rollout),
        Op::RolloutPromoteFull => of("mutation promoteRolloutFull", "RolloutRequest!", "message", rollout),
        Op::RolloutSkipCurrentStep => {
            of("mutation skipRolloutCurrentStep", "RolloutRequest!", "message", rollout)
        }
        Op::RolloutAbort => of("mutation abortRollout", "RolloutRequest!", "message", rollout),
        Op::RolloutRetry => of("mutation retryRollout", "RolloutRequest!", "message", rollout),
        Op::RolloutRestart => of("mutation restartRollout", "RolloutRequest!", "message", rollout),
        Op::GitTokens => of("query gitTokens", "", "tokens { login }", none),
        Op::GitRegister => of(
            "mutation registerToGitIntegration",
            "GitRegister!",
            "login",
            json!({"provider": "gitea", "token": "canary"}),
        ),
        Op::GitForget => of("mutation deregisterFromGitIntegration", "GitForget!", "message", place),
        Op::GitAuthorize => of(
            "mutation authorizeGit",
            "GitAuthorize!",
            "url",
            json!({"provider": "gitea", "challenge": "0".repeat(64)}),
        ),
        Op::GitConnect => of(
            "mutation connectGit",
            "GitConnect!",
            "login",
            json!({"state": "0".repeat(64), "code": "canary", "word": "canary"}),
        ),
        Op::GitOrganizations => of("query gitOrganizations", "GitPlace!", "names", place),
        Op::GitRepositories => of("query gitRepositories", "GitPlace!", "names", place),
        Op::GitBranches => of(
            "query gitBranches",
            "GitRepository!",
            "branches { name }",
            json!({"provider": "gitea", "repository": "a/b"}),
        ),
        Op::GitCommit => of(
            "mutation commitFiles",
            "GitCommit!",
            "commit",
            json!({"provider": "gitea", "repository": "a/b", "message": "m",
                "files": [{"path": "a", "content": "canary"}]}),
        ),
        Op::ClusterAdd => of(
            "mutation addCluster",
            "ClusterAdd!",
            "name",
            json!({"name": "none", "server": "nowhere", "token": "canary"}),
        ),
        Op::ClusterRemove => of("mutation removeCluster", "ClusterRemove!", "name", json!({"name": "none"})),
        Op::RuntimeLogs => of("query runtimeLogs", "RuntimeLogsRequest", "process", json!({"tail": 5})),
    }
}

fn in_address(operation: Op) -> bool {
    operation == Op::Exec
        || (!changes_something(operation) && !matches!(operation, Op::Logs | Op::RuntimeLogs))
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum DoorKind {
    Rest,
    GraphQl,
}

struct Scene {
    url: String,
    admin: String,
    ahead_ms: Arc<AtomicI64>,
    /// The app-proxy of the runtime `prod`.
    proxy: String,
    http: reqwest::Client,
    stop: CancellationToken,
    _root: tempfile::TempDir,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

const PASSWORD: &str = "correct horse battery staple";

impl Scene {
    async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let stop = CancellationToken::new();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (ahead_ms, system) = (Arc::new(AtomicI64::new(0)), Seams::system());
        let ahead = ahead_ms.clone();
        let seams = Seams::with_clock(move || system.now_ms() + ahead.load(Ordering::SeqCst));
        let config = slipway_server::Config {
            data: root.path().join("server"),
            public_url: url.clone(),
            network: Network::default(),
        };
        std::fs::create_dir(root.path().join("server")).unwrap();
        let server = Server::open(config, seams, stop.clone()).unwrap();
        let first = server.first_start("admin@example.com").await.unwrap().expect("an empty database");
        let account = server.first_account().await.unwrap().unwrap();
        let router = slipway_server::router(&server);
        tokio::spawn(slipway_server::serve(listener, router, stop.clone()));
        let background = server.clone();
        tokio::spawn(async move { background.run().await });

        let cluster = slipway_devcluster::Config {
            data: root.path().join("cluster"),
            listen: "127.0.0.1:0".parse().unwrap(),
            kubeconfig: root.path().join("kubeconfig"),
            engine: Some(slipway_devcluster::EngineChoice::Off),
        };
        slipway_devcluster::start(cluster, stop.clone()).await.expect("a cluster");
        let client =
            Cluster::connect(ClusterConfig::new(Some(root.path().join("kubeconfig")))).await.unwrap();
        client.ensure_definitions(&slipway_crd::manifests()).await.unwrap();
        for name in ["argocd", "shop"] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            client.create(&namespace, WriteOptions::default()).await.unwrap();
        }
        let app = |name: &str| {
            json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"namespace": "argocd", "name": name},
            "spec": {"project": "default", "destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"},
                "source": {"repoURL": "file:///nowhere", "path": "app"}}})
        };
        for name in ["shop", "till"] {
            client.create(&app(name), WriteOptions::default()).await.unwrap();
        }
        let key = server.agent_key(account, Subject::Runtime, "prod").await.unwrap();
        let west = server.agent_key(account, Subject::Runtime, "west").await.unwrap();
        let mut config = slipway_runtime::Config::new(
            "prod",
            Some(root.path().join("kubeconfig")),
            root.path().join("runtime"),
        );
        config.server = Some(slipway_api::Client::new(url.clone(), Secret::new(key.expose().clone())));
        let runtime = slipway_runtime::Runtime::new(config);
        let handle = runtime.handle();
        let stopping = stop.clone();
        tokio::spawn(async move { runtime.run(stopping).await.expect("the runtime runs") });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://{}/app-proxy/api", listener.local_addr().unwrap());
        let router = slipway_runtime::app_proxy_router(handle);
        tokio::spawn(async move { axum::serve(listener, router).await });
        let scene = Self {
            url,
            admin: first.api_key.expose().clone(),
            ahead_ms,
            proxy,
            http: reqwest::Client::new(),
            stop,
            _root: root,
        };
        scene.report("west", west.expose()).await;
        let started = Instant::now();
        while scene.call("GET", "/api/applications/prod/argocd/till", &scene.admin, None).await.0 != 200
            || scene.call("GET", "/api/applications/prod/argocd/shop", &scene.admin, None).await.0 != 200
        {
            assert!(started.elapsed() < slipway_testkit::PATIENCE, "the Application is never reported");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        scene
    }

    async fn call(&self, method: &str, path: &str, key: &str, body: Option<Value>) -> (u16, Value) {
        let mut request = self.http.request(method.parse().unwrap(), format!("{}{path}", self.url));
        if !key.is_empty() {
            request = request.header("authorization", key);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// A runtime that nobody runs says that it has an Application of that name too.
    async fn report(&self, runtime: &str, key: &str) {
        let app = json!({"namespace": "argocd", "name": "shop", "project": "default", "repoUrl": "r", "path": "p",
            "targetRevision": "HEAD", "destination": "shop", "syncStatus": "Synced", "healthStatus": "Healthy",
            "summary": "all is well", "observedAt": "2026-01-01T00:00:00Z"});
        let entity =
            json!({"kind": "argoproj.io/Application", "namespace": "argocd", "name": "shop", "body": app});
        let report = json!({"runtime": runtime, "version": "1", "cluster": "c", "sequence": 1,
            "complete": {"page": 0, "last": true}, "entities": [entity]});
        let (status, answer) = self.call("POST", "/2.0/api/events", key, Some(report)).await;
        assert_eq!(status, 200, "{answer}");
    }

    async fn good(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.call(method, path, &self.admin, body).await;
        assert_eq!(status, 200, "{method} {path}: {answer}");
        answer
    }

    /// Somebody who comes by an invitation: a key of theirs.
    async fn enter(&self, token: &str, name: &str) -> String {
        let body = json!({"token": token, "name": name, "password": PASSWORD});
        let post = self.http.post(format!("{}/api/auth/invitation/accept", self.url)).json(&body);
        let answer = post.send().await.unwrap();
        let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let user: Value = answer.json().await.unwrap();
        let post = self.http.post(format!("{}/api/auth/key", self.url)).json(&json!({"name": "k"}));
        let post = post.header("cookie", cookie).header("x-csrf-token", user["csrfToken"].as_str().unwrap());
        post.send().await.unwrap().json::<String>().await.unwrap()
    }

    async fn key_of(&self, key: &str, name: &str) -> String {
        let (status, made) = self.call("POST", "/api/auth/key", key, Some(json!({"name": name}))).await;
        assert_eq!(status, 200, "{made}");
        made.as_str().unwrap().to_owned()
    }

    /// What the platform is asked for a pass: for that operation, on the Application where it is about one.
    fn question(operation: Op, request: Option<&Value>) -> Value {
        let mut question = json!({"operation": operation.word()});
        if operation.about() == ProxyAbout::Application {
            question["namespace"] = "argocd".into();
            question["name"] = "shop".into();
        }
        // What stands in the address of a read is not bound; a command's is.
        if let Some(request) = request.filter(|_| !in_address(operation) || operation == Op::Exec) {
            question["detail"] = told(operation, request);
        }
        question
    }

    async fn pass_for(&self, key: &str, runtime: &str, question: Value) -> (u16, Value) {
        self.call("POST", &format!("/api/runtimes/{runtime}/pass"), key, Some(question)).await
    }

    async fn pass(&self, key: &str, operation: Op) -> String {
        let request = row(operation).request;
        let (status, pass) = self.pass_for(key, "prod", Self::question(operation, request.as_ref())).await;
        assert_eq!(status, 200, "{operation:?}: {pass}");
        pass["token"].as_str().unwrap().to_owned()
    }

    /// Shows a pass at a door: the status, and which refusal it is.
    async fn show(&self, door: DoorKind, operation: Op, pass: &str) -> (u16, String) {
        let row = row(operation);
        match door {
            DoorKind::Rest => self.show_rest(operation, row.request.as_ref(), pass).await,
            DoorKind::GraphQl => self.show_graphql(operation, &row, pass).await,
        }
    }

    async fn show_rest(&self, operation: Op, request: Option<&Value>, pass: &str) -> (u16, String) {
        let word = operation.word();
        let base = match operation.about() {
            ProxyAbout::Application => format!("{}/applications/argocd/shop", self.proxy),
            ProxyAbout::Git => format!("{}/git", self.proxy),
            ProxyAbout::Cluster => format!("{}/clusters", self.proxy),
            ProxyAbout::Runtime => format!("{}/runtime", self.proxy),
        };
        let mut asked = match in_address(operation) {
            false => self.http.post(format!("{base}/{word}")),
            true => {
                let mut url = reqwest::Url::parse(&format!("{base}/{word}")).unwrap();
                if operation == Op::Exec {
                    url.query_pairs_mut().append_pair("request", &request.unwrap().to_string());
                } else {
                    for (name, value) in request.and_then(Value::as_object).into_iter().flatten() {
                        url.query_pairs_mut().append_pair(name, value.as_str().unwrap());
                    }
                }
                self.http.get(url)
            }
        };
        if let Some(request) = request.filter(|_| !in_address(operation)) {
            asked = asked.json(request);
        }
        if !pass.is_empty() {
            asked = asked.header("authorization", format!("Bearer {pass}"));
        }
        let answer = asked.send().await.unwrap();
        let status = answer.status().as_u16();
        // What goes on is not waited for.
        if operation == Op::Live && status == 200 {
            return (status, String::new());
        }
        let said: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default();
        (status, said["name"].as_str().unwrap_or_default().to_owned())
    }

    async fn show_graphql(&self, operation: Op, row: &Row, pass: &str) -> (u16, String) {
        let (field, kind, select) = row.field.expect("a field");
        let (root, name) = field.split_once(' ').unwrap();
        let mut arguments = Vec::new();
        if operation.about() == ProxyAbout::Application {
            arguments.push("namespace: \"argocd\", name: \"shop\"".to_owned());
        }
        let mut variables = json!({});
        let mut head = String::new();
        if let Some(request) = &row.request {
            arguments.push("request: $request".to_owned());
            head = format!("($request: {kind})");
            variables["request"] = request.clone();
        }
        let arguments = match arguments.is_empty() {
            true => String::new(),
            false => format!("({})", arguments.join(", ")),
        };
        let document = format!("{root} Q{head} {{ {name}{arguments} {{ {select} }} }}");
        let body = json!({"query": document, "variables": variables});
        let answer = match root {
            "subscription" => self.subscribe(&body, pass).await,
            _ => {
                let mut post = self.http.post(format!("{}/graphql", self.proxy)).json(&body);
                if !pass.is_empty() {
                    post = post.header("authorization", format!("Bearer {pass}"));
                }
                let answer = post.send().await.unwrap();
                let status = answer.status().as_u16();
                let said: Value = answer.json().await.unwrap();
                // Refused before any GraphQL.
                if said.get("errors").is_none() && status != 200 {
                    return (status, said["name"].as_str().unwrap_or_default().to_owned());
                }
                said
            }
        };
        let error = &answer["errors"][0];
        if error.is_null() {
            return (200, String::new());
        }
        let extensions = &error["extensions"];
        let status = extensions["status"].as_u64().unwrap_or_else(|| panic!("{document}: {answer}"));
        (status as u16, extensions["code"].as_str().unwrap().to_owned())
    }

    /// The first thing that a subscription says.
    async fn subscribe(&self, body: &Value, pass: &str) -> Value {
        let mut asked =
            format!("{}/graphql", self.proxy.replacen("http", "ws", 1)).into_client_request().unwrap();
        asked.headers_mut().insert("sec-websocket-protocol", "graphql-transport-ws".parse().unwrap());
        let (mut socket, _) = tokio_tungstenite::connect_async(asked).await.unwrap();
        let payload = match pass {
            "" => json!({}),
            pass => json!({"authorization": format!("Bearer {pass}")}),
        };
        let init = json!({"type": "connection_init", "payload": payload}).to_string();
        socket.send(Message::text(init)).await.unwrap();
        let subscribe = json!({"id": "1", "type": "subscribe", "payload": body}).to_string();
        socket.send(Message::text(subscribe)).await.unwrap();
        while let Some(message) = socket.next().await {
            let Ok(Message::Text(text)) = message else { break };
            let said: Value = serde_json::from_str(&text).unwrap();
            match said["type"].as_str().unwrap() {
                "next" => return said["payload"].clone(),
                "error" => return json!({"errors": said["payload"]}),
                "complete" => return json!({}),
                _ => {}
            }
        }
        panic!("it was closed without a word");
    }

    fn doors(operation: Op) -> Vec<DoorKind> {
        match row(operation).field {
            Some(_) => vec![DoorKind::Rest, DoorKind::GraphQl],
            None => vec![DoorKind::Rest],
        }
    }

    async fn records(&self, filter: &str) -> i64 {
        self.good("GET", &format!("/api/audit?limit=1&{filter}"), None).await["total"].as_i64().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_operation_by_each_door_needs_a_pass_of_its_own_and_is_recorded() {
    let scene = Scene::new().await;
    let started = Instant::now();
    let made = scene
        .good(
            "POST",
            "/api/admin/accounts",
            Some(json!({"name": "elsewhere", "adminEmail": "a@elsewhere.example"})),
        )
        .await;
    let elsewhere =
        scene.enter(made["invitationUrl"].as_str().unwrap().split_once('#').unwrap().1, "else").await;
    let (status, made) = scene.call("POST", "/api/runtimes", &elsewhere, Some(json!({"name": "prod"}))).await;
    assert_eq!(status, 200, "{made}");
    scene.report("prod", made["token"].as_str().unwrap()).await;
    let mut shown = 0;
    let mut refused = async |what: &str, operation: Op, pass: &str, status: u16| {
        for door in Scene::doors(operation) {
            let (answered, name) = scene.show(door, operation, pass).await;
            assert_eq!(answered, status, "{operation:?} by {door:?} with {what}: {name}");
            shown += 1;
        }
    };
    for operation in Op::ALL.iter().copied() {
        let request = row(operation).request;
        let question = Scene::question(operation, request.as_ref());
        let token = |(status, pass): (u16, Value)| {
            assert_eq!(status, 200, "{operation:?}: {pass}");
            pass["token"].as_str().unwrap().to_owned()
        };
        refused("no pass", operation, "", 401).await;
        refused("nonsense", operation, "pass.nonsense", 401).await;
        refused("a key", operation, &scene.admin, 401).await;
        // Another runtime's, another operation's, another Application's, another body's.
        let other = token(scene.pass_for(&scene.admin, "west", question.clone()).await);
        refused("another runtime's pass", operation, &other, 401).await;
        let neighbour = match operation.about() {
            ProxyAbout::Application if operation == Op::Diff => Op::Plan,
            ProxyAbout::Application => Op::Diff,
            ProxyAbout::Git if operation == Op::GitTokens => Op::GitForget,
            ProxyAbout::Git => Op::GitTokens,
            ProxyAbout::Cluster if operation == Op::ClusterAdd => Op::ClusterRemove,
            ProxyAbout::Cluster => Op::ClusterAdd,
            ProxyAbout::Runtime => Op::ClusterAdd,
        };
        let mut about_another = question.clone();
        about_another["operation"] = neighbour.word().into();
        let other = token(scene.pass_for(&scene.admin, "prod", about_another).await);
        refused("another operation's pass", operation, &other, 401).await;
        let mut other_body = question.clone();
        other_body["detail"] = json!({"name": "another"});
        let other = token(scene.pass_for(&scene.admin, "prod", other_body).await);
        refused("another body's pass", operation, &other, 401).await;
        if operation.about() == ProxyAbout::Application {
            let mut elsewhere = question.clone();
            elsewhere["name"] = "till".into();
            let other = token(scene.pass_for(&scene.admin, "prod", elsewhere).await);
            refused("another Application's pass", operation, &other, 401).await;
        }
        // Of another account, for its own runtime of the same name.
        let theirs = scene.pass_for(&elsewhere, "prod", question.clone()).await;
        refused("another account's pass", operation, &token(theirs), 401).await;
        let (status, _) = scene.pass_for(&elsewhere, "west", question.clone()).await;
        assert_eq!(status, 404, "{operation:?}: another account's runtime");
        // Too narrow a key, and one that reads where something changes.
        let narrow = if changes_something(operation) { "gitops:read" } else { "build" };
        let body = json!({"name": operation.word(), "scopes": [narrow]});
        let narrow = scene.good("POST", "/api/auth/key", Some(body)).await.as_str().unwrap().to_owned();
        let denied = format!("action={}&outcome=denied", operation.word());
        let before = scene.records(&denied).await;
        assert_eq!(scene.pass_for(&narrow, "prod", question.clone()).await.0, 403, "{operation:?}");
        assert_eq!(scene.records(&denied).await, before + 1, "{operation:?}: the refusal is recorded");
        let id = narrow.split('.').next().unwrap();
        scene.good("DELETE", &format!("/api/auth/key/{id}"), None).await;
        // A key that was revoked between pass and showing.
        let key = scene.key_of(&scene.admin, operation.word()).await;
        let pass = scene.pass(&key, operation).await;
        let id = key.split('.').next().unwrap();
        scene.good("DELETE", &format!("/api/auth/key/{id}"), None).await;
        refused("a revoked key's pass", operation, &pass, 401).await;
        // A good one: in once where it changes something, and recorded once.
        for door in Scene::doors(operation) {
            let allowed = format!("action={}&outcome=allowed", operation.word());
            let before = scene.records(&allowed).await;
            let pass = scene.pass(&scene.admin, operation).await;
            assert_eq!(
                scene.records(&allowed).await - before,
                i64::from(operation.is_recorded()),
                "{operation:?} by {door:?}: its record"
            );
            let (status, name) = scene.show(door, operation, &pass).await;
            assert!(!matches!(status, 401 | 403 | 502 | 503), "{operation:?} by {door:?}: {status} {name}");
            if changes_something(operation) {
                for again in Scene::doors(operation) {
                    let (status, _) = scene.show(again, operation, &pass).await;
                    assert_eq!(status, 401, "{operation:?}: used by {door:?}, again by {again:?}");
                }
            }
        }
    }
    // What was given and not shown in time.
    let mut late = Vec::new();
    for operation in Op::ALL.iter().copied() {
        late.push((operation, scene.pass(&scene.admin, operation).await));
    }
    scene.ahead_ms.fetch_add(3 * 60 * 1000, Ordering::SeqCst);
    for (operation, pass) in &late {
        refused("an expired pass", *operation, pass, 401).await;
    }
    let trail = scene.good("GET", "/api/audit?limit=1000", None).await.to_string();
    assert!(!trail.contains("canary"), "no token, no content, no code is recorded");
    println!("{} operations, {shown} passes refused in {:?}", Op::ALL.len(), started.elapsed());
}

/// A right that ended between pass and showing, for each operation that a rule or a role decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_ends_takes_its_passes_along_by_either_door() {
    let scene = Scene::new().await;
    let invited = scene
        .good("POST", "/api/invitations", Some(json!({"email": "ada@example.com", "role": "User"})))
        .await;
    let ada = scene.enter(invited["url"].as_str().unwrap().split_once('#').unwrap().1, "ada").await;
    let (_, me) = scene.call("GET", "/api/user", &ada, None).await;
    scene.good("POST", "/api/team", Some(json!({"name": "devs", "users": [me["_id"]]}))).await;
    scene.good("POST", "/api/team", Some(json!({"name": "nobody"}))).await;
    for operation in Op::ALL.iter().copied() {
        let request = row(operation).request;
        let question = Scene::question(operation, request.as_ref());
        let Some(action) = operation.action() else {
            // Every member's own, or an Administrator's.
            let is_own = operation.about() == ProxyAbout::Git;
            let (status, _) = scene.pass_for(&ada, "prod", question).await;
            assert_eq!(status, if is_own { 200 } else { 403 }, "{operation:?}");
            continue;
        };
        let rule = |team: &str| {
            json!({"entityType": "gitopsApplications", "teams": [team], "actions": [action],
                "entityAttributes": [{"name": "NAMESPACE", "value": "shop"}, {"name": "NAMESPACE", "value": "argocd"}]})
        };
        let taken = scene.good("POST", "/api/abac", Some(rule("nobody"))).await;
        let hidden = if action == "VIEW" { 404 } else { 403 };
        let (status, answer) = scene.pass_for(&ada, "prod", question.clone()).await;
        assert_eq!(status, hidden, "{operation:?} without the right: {answer}");
        let own = scene.good("POST", "/api/abac", Some(rule("devs"))).await;
        let mut passes = Vec::new();
        for door in Scene::doors(operation) {
            passes.push((door, scene.pass(&ada, operation).await));
        }
        scene.good("DELETE", &format!("/api/abac/{}", own[0]["id"].as_str().unwrap()), None).await;
        for (door, pass) in passes {
            let (status, name) = scene.show(door, operation, &pass).await;
            assert_eq!((status, &*name), (hidden, "FORBIDDEN"), "{operation:?} by {door:?}");
        }
        scene.good("DELETE", &format!("/api/abac/{}", taken[0]["id"].as_str().unwrap()), None).await;
    }
}
