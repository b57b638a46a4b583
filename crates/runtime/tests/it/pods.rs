//! Logs, deletion and commands in pods through the app-proxy, on a real Kubernetes: of the Application's own tree, and of
//! nothing else.

use std::time::{Duration, Instant};

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use slipway_api::application::{ProxyAbout, ProxyOperation, changes_something};
use slipway_api::proxy::channel;
use slipway_testkit::TEST_IMAGE;
use tokio_tungstenite::tungstenite::{Error, Message, client::IntoClientRequest as _};

use crate::control_plane::{ControlPlane, pass};
use crate::site::{Site, automated};
use crate::world::{World, config_map};

pub(crate) fn talking(name: &str, words: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  selector: {{matchLabels: {{app: {name}}}}}\n  \
         template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      terminationGracePeriodSeconds: 0\n      containers:\n      \
         - name: ui\n        image: {TEST_IMAGE}\n        imagePullPolicy: IfNotPresent\n        \
         command: [sh, -c, \"echo {words}; n=0; while true; do n=$((n+1)); echo tick $n; sleep 0.5; done\"]\n      \
         - name: side\n        image: {TEST_IMAGE}\n        imagePullPolicy: IfNotPresent\n        command: [sh, -c, \"echo from the side; sleep 3600\"]\n"
    )
}

/// An app-proxy of the Application `shop` of a site.
pub(crate) struct Door {
    pub(crate) base: String,
    pub(crate) http: reqwest::Client,
}

impl Door {
    pub(crate) async fn open(handle: slipway_runtime::Handle, namespace: &str) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let router = slipway_runtime::app_proxy_router(handle);
        tokio::spawn(async move { axum::serve(listener, router).await });
        let base = format!("http://{address}/app-proxy/api/applications/{namespace}/shop");
        Self { base, http: reqwest::Client::new() }
    }

    pub(crate) async fn post(&self, who: &str, verb: &str, body: &Value) -> (u16, String) {
        let post =
            self.http.post(format!("{}/{verb}", self.base)).header("authorization", pass(who)).json(body);
        let answer = post.send().await.expect("answered");
        (answer.status().as_u16(), answer.text().await.expect("a text"))
    }

    /// Opens a command, or says with which status it was refused.
    async fn exec(&self, who: &str, request: &Value) -> Result<Socket, u16> {
        let text: String = request.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect();
        let url = format!("{}/exec?request={text}", self.base.replacen("http", "ws", 1));
        let mut asked = url.into_client_request().expect("an address");
        asked.headers_mut().insert("authorization", pass(who).parse().expect("a header"));
        match tokio_tungstenite::connect_async(asked).await {
            Ok((socket, _)) => Ok(socket),
            Err(Error::Http(answer)) => Err(answer.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }
}

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

/// What it printed on each channel until its end.
async fn output(socket: &mut Socket) -> (String, String, Value) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    while let Some(message) = socket.next().await {
        let Message::Binary(bytes) = message.expect("a message") else { continue };
        match bytes.split_first() {
            Some((&channel::STDOUT, text)) => out.extend_from_slice(text),
            Some((&channel::STDERR, text)) => err.extend_from_slice(text),
            Some((&channel::STATUS, text)) => {
                let ended = serde_json::from_slice(text).expect("an end");
                let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
                return (text(out), text(err), ended);
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("it ended without saying how: {}", String::from_utf8_lossy(&out))
}

fn framed(channel: u8, text: &[u8]) -> Message {
    let mut message = vec![channel];
    message.extend_from_slice(text);
    Message::binary(message)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_commands_and_deletion_reach_the_applications_own_pods_and_no_others() {
    let (plane, client) = ControlPlane::start().await;
    let mut site = Site::quiet(&[("shop/web.yaml", talking("web", "hello from web"))]);
    let handle = site.start(|config| config.server = Some(client));
    site.create(&site.application("shop", "shop", automated()));
    // Somebody else's, in the same namespace: nothing of it is the Application's.
    site.target.apply(&talking("stranger", "hello from a stranger"));
    site.wait("shop", "{.status.health.status}=Healthy");
    let pod_of = |name: &str| {
        let selector = format!("app={name}");
        let names = ["get", "pods", "-l", &selector, "-o", "jsonpath={.items[*].metadata.name}"];
        site.target.kubectl(&names).split(' ').next().unwrap_or_default().to_owned()
    };
    site.target.kubectl(&["wait", "deployment/stranger", "--for=condition=Available", "--timeout=180s"]);
    let (web, stranger) = (pod_of("web"), pod_of("stranger"));
    let namespace = site.target.name().to_owned();
    let door = Door::open(handle, site.control.name()).await;
    // The pods are seen a moment after they are there.
    let started = Instant::now();
    while door.post("user", "logs", &json!({"tail": 1})).await.0 == 404 {
        assert!(started.elapsed() < slipway_testkit::PATIENCE, "its pods are never seen");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    // Logs: of all its pods, of a Deployment, of a pod; by container, tail and time.
    let deployment =
        json!({"group": "apps", "kind": "Deployment", "namespace": namespace, "resourceName": "web"});
    for of in
        [json!({}), deployment.clone(), json!({"kind": "Pod", "namespace": namespace, "resourceName": web})]
    {
        let (status, text) = door.post("read", "logs", &of).await;
        assert_eq!(status, 200, "{of}: {text}");
        assert!(
            text.contains("hello from web") && text.ends_with("event: end\ndata: {}\n\n"),
            "{of}: {text}"
        );
        assert!(!text.contains("stranger"), "{of}: {text}");
        let asked = plane.asked().pop().expect("asked");
        assert_eq!((asked.operation.word(), asked.detail), ("logs", Some(of)));
    }
    let with = |name: &str, value: Value| {
        let mut of = deployment.clone();
        of[name] = value;
        of
    };
    let (_, side) = door.post("read", "logs", &with("container", json!("side"))).await;
    assert!(
        side.contains("from the side") && side.contains("\"container\":\"side\"") && !side.contains("hello"),
        "{side}"
    );
    let (_, last) = door.post("read", "logs", &with("tail", json!(1))).await;
    assert!(!last.contains("hello from web") && last.matches("tick").count() == 1, "{last}");
    let (_, timed) = door.post("read", "logs", &with("timestamps", json!(true))).await;
    assert!(timed.contains("Z hello from web"), "{timed}");
    let (_, recent) = door.post("read", "logs", &with("sinceSeconds", json!(1))).await;
    assert!(!recent.contains("hello from web"), "{recent}");
    for (of, expected) in [
        (json!({"kind": "Pod", "namespace": namespace, "resourceName": stranger}), 404),
        (
            json!({"group": "apps", "kind": "Deployment", "namespace": namespace, "resourceName": "stranger"}),
            404,
        ),
        (json!({"kind": "Pod", "namespace": "kube-system", "resourceName": "x"}), 404),
        (with("container", json!("none")), 404),
        (with("previous", json!(true)), 422),
        (with("shell", json!("x")), 422),
    ] {
        let (status, text) = door.post("user", "logs", &of).await;
        assert_eq!(status, expected, "{of}: {text}");
    }
    // Followed: what is printed later comes too, until the bearer may not look any more.
    let follow = door.http.post(format!("{}/logs", door.base)).header("authorization", pass("read"));
    let followed = follow.json(&with("follow", json!(true))).send().await.expect("answered");
    let mut bytes = followed.bytes_stream();
    let (mut text, mut revoked) = (String::new(), false);
    let started = Instant::now();
    while let Some(part) = bytes.next().await {
        text.push_str(&String::from_utf8_lossy(&part.expect("more of the log")));
        if !revoked && text.matches("tick").count() > 3 {
            plane.revoke("read");
            revoked = true;
        }
        assert!(started.elapsed() < slipway_testkit::PATIENCE, "it never ended: {text}");
    }
    assert!(text.contains("event: failed") && !text.contains("event: end"), "{text}");

    // Commands: streams, exit code, input, a terminal of the caller's size; each with its end.
    let request = |command: Value| json!({"namespace": namespace, "pod": web, "command": command});
    let mut socket = door
        .exec("user", &request(json!(["sh", "-c", "echo out; echo err >&2; exit 7"])))
        .await
        .expect("opened");
    let (out, err, ended) = output(&mut socket).await;
    assert_eq!((out.as_str(), err.as_str(), &ended["code"]), ("out\n", "err\n", &json!(7)), "{ended}");
    let (question, outcome) = plane.until_ended(1).await;
    assert_eq!((question.operation.word(), outcome.as_str()), ("exec", "exit code 7"));
    let mut echo = request(json!(["cat"]));
    echo["stdin"] = true.into();
    let mut socket = door.exec("user", &echo).await.expect("opened");
    socket.send(framed(channel::STDIN, b"typed\n")).await.expect("sent");
    socket.send(framed(channel::CLOSE, &[channel::STDIN])).await.expect("sent");
    let (out, _, ended) = output(&mut socket).await;
    assert_eq!((out.as_str(), &ended["code"]), ("typed\n", &json!(0)), "{ended}");
    let mut terminal = request(json!(["sh", "-c", "read line; stty size; tty"]));
    terminal["tty"] = true.into();
    terminal["stdin"] = true.into();
    terminal["container"] = "side".into();
    let mut socket = door.exec("user", &terminal).await.expect("opened");
    socket.send(framed(channel::SIZE, br#"{"columns": 101, "rows": 31}"#)).await.expect("sent");
    tokio::time::sleep(Duration::from_millis(500)).await;
    socket.send(framed(channel::STDIN, b"\n")).await.expect("sent");
    let (out, _, ended) = output(&mut socket).await;
    assert!(out.contains("31 101") && out.contains("/dev/"), "{out} {ended}");
    plane.until_ended(3).await;

    // A page can set no header: its pass is one of the protocols that it names, and nothing of it is said back.
    let by_page = async |protocols: &str| {
        let text = request(json!(["echo", "hello page"])).to_string();
        let text: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let url = format!("{}/exec?request={text}", door.base.replacen("http", "ws", 1));
        let mut asked = url.into_client_request().expect("an address");
        asked.headers_mut().insert("sec-websocket-protocol", protocols.parse().expect("a header"));
        tokio_tungstenite::connect_async(asked).await
    };
    let shown = pass("user").replace("Bearer ", "");
    let (mut socket, answer) = by_page(&format!("slipway.exec, {shown}")).await.expect("opened");
    assert_eq!(answer.headers()["sec-websocket-protocol"], "slipway.exec");
    assert_eq!(output(&mut socket).await.0, "hello page\n");
    plane.until_ended(4).await;
    for protocols in [format!("slipway.exec, {shown}"), shown, "slipway.exec".into(), "x, pass.user-1".into()]
    {
        match by_page(&protocols).await {
            Err(Error::Http(answer)) => assert_eq!(answer.status(), 401, "{protocols}"),
            other => panic!("{protocols}: {other:?}"),
        }
    }

    // Nobody who may only look, no other's pod, nothing without a command.
    for (who, request, status) in [
        ("read", request(json!(["id"])), 401),
        ("nobody", request(json!(["id"])), 401),
        ("user", json!({"namespace": namespace, "pod": stranger, "command": ["id"]}), 404),
        ("user", json!({"namespace": "kube-system", "pod": "x", "command": ["id"]}), 404),
        ("user", request(json!([])), 400),
        ("user", json!({"namespace": namespace, "pod": web, "container": "none", "command": ["id"]}), 404),
    ] {
        assert_eq!(door.exec(who, &request).await.err(), Some(status), "{who} {request}");
    }
    // Those that got as far as the pod have an end too.
    let (_, outcome) = plane.until_ended(8).await;
    assert!(outcome.starts_with("it was not started: "), "{outcome}");
    // One who leaves ends it, and so does a right that ended.
    let socket = door.exec("user", &request(json!(["sleep", "3600"]))).await.expect("opened");
    drop(socket);
    let mut left = plane.until_ended(9).await.1;
    assert_eq!(left, "the caller left");

    // Deletion: of its own, and with its uid; the engine makes it again.
    let delete = |name: &str| json!({"group": "apps", "kind": "Deployment", "namespace": namespace, "resourceName": name});
    assert_eq!(door.post("user", "delete-resource", &delete("stranger")).await.0, 404);
    assert_eq!(door.post("nobody", "delete-resource", &delete("web")).await.0, 401);
    let before = site.target.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.metadata.uid}"]);
    let mut forced = json!({"kind": "Pod", "namespace": namespace, "resourceName": web, "force": true});
    forced["propagation"] = "background".into();
    let (status, said) = door.post("user", "delete-resource", &forced).await;
    assert_eq!(status, 200, "{said}");
    let (status, said) = door.post("user", "delete-resource", &delete("web")).await;
    assert_eq!(status, 200, "{said}");
    site.until("the Deployment is made again", || {
        let uid = ["get", "deployment", "web", "--ignore-not-found", "-o", "jsonpath={.metadata.uid}"];
        let now = site.target.kubectl(&uid);
        !now.is_empty() && now != before
    });
    assert!(site.target.succeeds(&["get", "deployment", "stranger"]));

    site.wait("shop", "{.status.health.status}=Healthy");
    site.until("its new pod is there", || !pod_of("web").is_empty());
    let late = json!({"namespace": namespace, "pod": pod_of("web"), "command": ["sleep", "3600"]});
    let started = Instant::now();
    let mut socket = loop {
        match door.exec("user", &late).await {
            Ok(socket) => break socket,
            Err(status) => assert!(started.elapsed() < slipway_testkit::PATIENCE, "{status}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    plane.revoke("user");
    let (_, _, ended) = output(&mut socket).await;
    assert_eq!(ended["code"], Value::Null, "{ended}");
    let started = Instant::now();
    for count in 10.. {
        left = plane.until_ended(count).await.1;
        if !left.starts_with("it was not started") {
            break;
        }
        assert!(started.elapsed() < slipway_testkit::PATIENCE, "{left}");
    }
    assert_ne!(left, "the caller left");
}

/// Every operation that there is: without a pass, with nobody's, with one that may only look. A new one is here by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_operation_is_done_without_a_pass_for_it() {
    let world = World::new().await;
    let (plane, client) = ControlPlane::start().await;
    world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    world.application("shop", json!({})).await;
    let mut config = world.config();
    config.server = Some(client);
    let door = Door::open(world.start_with(config), "argocd").await;
    plane.until("shop", |app| app.sync_status == "OutOfSync").await;
    for operation in ProxyOperation::ALL.iter().copied() {
        let word = operation.word();
        let method = match operation {
            ProxyOperation::Manifests
            | ProxyOperation::Diff
            | ProxyOperation::Plan
            | ProxyOperation::Tree
            | ProxyOperation::Events
            | ProxyOperation::Resource
            | ProxyOperation::Live
            | ProxyOperation::Actions
            | ProxyOperation::Exec
            | ProxyOperation::GitTokens
            | ProxyOperation::GitOrganizations
            | ProxyOperation::GitRepositories
            | ProxyOperation::GitBranches => reqwest::Method::GET,
            ProxyOperation::Sync
            | ProxyOperation::Refresh
            | ProxyOperation::Rollback
            | ProxyOperation::Terminate
            | ProxyOperation::SyncPolicy
            | ProxyOperation::Action
            | ProxyOperation::Logs
            | ProxyOperation::DeleteResource
            | ProxyOperation::Create
            | ProxyOperation::Edit
            | ProxyOperation::Delete
            | ProxyOperation::RolloutPause
            | ProxyOperation::RolloutResume
            | ProxyOperation::RolloutPromoteFull
            | ProxyOperation::RolloutSkipCurrentStep
            | ProxyOperation::RolloutAbort
            | ProxyOperation::RolloutRetry
            | ProxyOperation::RolloutRestart
            | ProxyOperation::GitRegister
            | ProxyOperation::GitForget
            | ProxyOperation::GitAuthorize
            | ProxyOperation::GitConnect
            | ProxyOperation::ClusterAdd
            | ProxyOperation::ClusterRemove
            | ProxyOperation::RuntimeLogs
            | ProxyOperation::GitCommit => reqwest::Method::POST,
        };
        let ask = async |authorization: &str| {
            let base = match operation.about() {
                ProxyAbout::Application => door.base.clone(),
                ProxyAbout::Git => door.base.replace("/applications/argocd/shop", "/git"),
                ProxyAbout::Cluster => door.base.replace("/applications/argocd/shop", "/clusters"),
                ProxyAbout::Runtime => door.base.replace("/applications/argocd/shop", "/runtime"),
            };
            let asked = door.http.request(method.clone(), format!("{base}/{word}"));
            let asked = asked.header("authorization", authorization).json(&json!({}));
            asked.send().await.expect("answered").status().as_u16()
        };
        let before = plane.asked().len();
        for nothing in ["", "Bearer ", "Basic YWJj", "acacacacacacacacacacacac.00"] {
            assert_eq!(ask(nothing).await, 401, "{word} with `{nothing}`");
        }
        assert_eq!(plane.asked().len(), before, "{word}: nobody was asked about what is no pass");
        assert_eq!(ask(&pass("nobody")).await, 401, "{word}");
        let looked = ask(&pass("read")).await;
        assert_eq!(looked == 403, changes_something(operation), "{word}: {looked}");
        let asked = plane.asked();
        assert!(asked[before..].iter().all(|asked| asked.operation == operation), "{word}: {asked:?}");
        assert_eq!(asked.len(), before + 2, "{word}: each pass was asked about");
    }
    assert!(world.app("shop").await["operation"].is_null(), "nothing was ordered");
}

/// Orders to Rollouts: of the Application's tree, as far as there is something to do, and recorded by what they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_reach_the_applications_own_rollouts_and_no_others() {
    let world = World::new().await;
    world.client.ensure_definitions(&slipway_crd::rollout_manifests()).await.expect("definitions");
    world.make("v1", "Namespace", "", "shop", json!({})).await;
    let (plane, client) = ControlPlane::start().await;
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "one"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "strategy": {"canary": {}}, "template": template});
    let manifest = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "web"}, "spec": spec});
    world.commit(&[("app/web.yaml", &manifest.to_string())]);
    world.application("shop", json!({"automated": {}})).await;
    world.make("argoproj.io/v1alpha1", "Rollout", "shop", "stranger", json!({"spec": spec})).await;
    let mut config = world.config();
    config.server = Some(client);
    let door = Door::open(world.start_with(config), "argocd").await;
    let web = json!({"namespace": "shop", "resourceName": "web"});
    let started = Instant::now();
    while door.post("user", "rollout-abort", &web).await.0 != 409 {
        assert!(started.elapsed() < slipway_testkit::PATIENCE, "its Rollout is never seen");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let rollout = async |name: &str| world.read("argoproj.io/Rollout", "shop", name).await;
    for (operation, status, said) in [
        ("rollout-abort", 409, "no update under way"),
        ("rollout-resume", 409, "is not paused"),
        ("rollout-retry", 409, "was not aborted"),
        ("rollout-promote-full", 409, "no update under way"),
        ("rollout-skip-current-step", 409, "at no step"),
        ("rollout-pause", 200, "is paused"),
        ("rollout-pause", 409, "is paused already"),
        ("rollout-resume", 200, "goes on"),
        ("rollout-restart", 200, "restarts its pods"),
    ] {
        let (found, text) = door.post("user", operation, &web).await;
        assert_eq!(found, status, "{operation}: {text}");
        assert!(text.contains(said), "{operation}: {text}");
        let asked = plane.asked().pop().expect("asked");
        assert_eq!((asked.operation.word(), asked.detail), (operation, Some(web.clone())));
        assert_eq!(door.post("read", operation, &web).await.0, 403, "{operation}");
        for other in ["stranger", "nothing"] {
            let other = json!({"namespace": "shop", "resourceName": other});
            assert_eq!(door.post("user", operation, &other).await.0, 404, "{operation}: {other}");
        }
        if operation == "rollout-pause" {
            assert_eq!(rollout("web").await["spec"]["paused"], true);
        }
    }
    let ordered = rollout("web").await;
    assert_eq!((&ordered["spec"]["paused"], ordered["spec"]["restartAt"].is_string()), (&json!(false), true));
    let stranger = rollout("stranger").await;
    assert!(stranger["spec"]["restartAt"].is_null() && stranger["spec"]["paused"].is_null(), "{stranger}");
    let (status, text) = door
        .post("user", "rollout-pause", &json!({"namespace": "shop", "resourceName": "web", "force": true}))
        .await;
    assert_eq!(status, 422, "{text}");
}
