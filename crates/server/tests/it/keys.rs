//! What a key may do is decided by what happens: on the app-proxy, with secrets, on oneself, in streams.

use std::time::Duration;

use serde_json::{Value, json};
use slipway_api::application::ProxyOperation;
use slipway_store::identity::Subject;

use crate::knock::{Knock, limited, member_in, without_rules};
use crate::socket::Socket;
use crate::support::Platform;

/// What every operation of the app-proxy has to hold: a new one has no row and does not compile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) word: &'static str,
    /// Needs the scope `gitops`, and from a browser the token of the page; without it `gitops:read` is enough.
    pub(crate) changes: bool,
    /// Leaves a record when it is allowed; refused ones always do.
    pub(crate) recorded: bool,
    /// What a rule has to name; empty where none can: one's own Git token, and clusters, which are an Administrator's.
    pub(crate) action: &'static str,
    /// Every member may until a rule names the action.
    pub(crate) open: bool,
}

pub(crate) fn operations() -> Vec<Row> {
    use ProxyOperation as Op;
    let row = |operation: &Op| {
        let word = operation.word();
        let looks = |action| Row { word, changes: false, recorded: false, action, open: true };
        let changes = |action| Row { word, changes: true, recorded: true, action, open: true };
        match operation {
            Op::Manifests
            | Op::Diff
            | Op::Plan
            | Op::Tree
            | Op::Events
            | Op::Resource
            | Op::Live
            | Op::Actions => looks("VIEW"),
            Op::Sync | Op::SyncPolicy => changes("SYNC"),
            Op::Refresh => changes("REFRESH"),
            Op::Rollback => changes("APP_ROLLBACK"),
            Op::Terminate => changes("TERMINATE_SYNC"),
            Op::Action => changes("RESOURCE_ACTION"),
            Op::Logs => Row { recorded: true, ..looks("VIEW_POD_LOGS") },
            Op::DeleteResource => changes("DELETE_RESOURCE"),
            Op::RolloutPause => changes("ROLLOUT_PAUSE"),
            Op::RolloutResume => changes("ROLLOUT_RESUME"),
            Op::RolloutPromoteFull => changes("ROLLOUT_PROMOTE_FULL"),
            Op::RolloutSkipCurrentStep => changes("ROLLOUT_SKIP_CURRENT_STEP"),
            Op::RolloutAbort => changes("ROLLOUT_ABORT"),
            Op::RolloutRetry => changes("ROLLOUT_RETRY"),
            Op::RolloutRestart => changes("ROLLOUT_RESTART"),
            Op::Exec => Row { open: false, ..changes("EXEC_TO_POD") },
            Op::Create => changes("CREATE"),
            Op::Edit => changes("EDIT"),
            Op::Delete => changes("DELETE"),
            Op::GitTokens | Op::GitOrganizations | Op::GitRepositories | Op::GitBranches => looks(""),
            Op::GitRegister
            | Op::GitForget
            | Op::GitAuthorize
            | Op::GitConnect
            | Op::GitCommit
            | Op::ClusterAdd
            | Op::ClusterRemove => changes(""),
            Op::RuntimeLogs => Row { recorded: true, ..looks("") },
        }
    };
    Op::ALL.iter().map(row).collect()
}

/// Those that are about an Application.
pub(crate) fn of_applications() -> Vec<Row> {
    operations().into_iter().filter(|row| !row.action.is_empty()).collect()
}

/// Everything that a rule about Applications may allow.
pub(crate) fn every_action() -> Vec<&'static str> {
    let mut all: Vec<_> = of_applications().into_iter().map(|row| row.action).collect();
    all.sort_unstable();
    all.dedup();
    all
}

pub(crate) fn app(namespace: &str, extra: Value) -> Value {
    let mut app = json!({"namespace": namespace, "name": "app", "project": "default", "repoUrl": "r",
        "path": "p", "targetRevision": "HEAD", "destination": "d", "syncStatus": "Synced",
        "healthStatus": "Healthy", "summary": "all is well", "observedAt": "2026-01-01T00:00:00Z"});
    for (key, value) in extra.as_object().into_iter().flatten() {
        app[key] = value.clone();
    }
    app
}

pub(crate) async fn report(platform: &Platform, runtime: &str, apps: Vec<Value>) {
    let report = crate::reports::everything(apps);
    let (status, answer) = platform.call("POST", "/2.0/api/events", runtime, Some(report)).await;
    assert_eq!(status, 200, "{answer}");
}

pub(crate) fn question(operation: &str, namespace: &str) -> Value {
    if ["git-", "cluster-", "runtime-"].iter().any(|about| operation.starts_with(about)) {
        return json!({"operation": operation, "detail": {"id": 7}});
    }
    json!({"operation": operation, "namespace": namespace, "name": "app", "detail": {"id": 7}})
}

/// Somebody asks for a pass to the app-proxy of the runtime `local`.
pub(crate) fn proxied<'p>(platform: &'p Platform, operation: &str, namespace: &str) -> Knock<'p> {
    Knock::new(platform, "POST", "/api/runtimes/local/pass").body(question(operation, namespace))
}

/// The app-proxy asks about a pass with the runtime's key: status, and the name or the sentence.
pub(crate) async fn shown(
    platform: &Platform,
    runtime: &str,
    pass: &str,
    operation: &str,
    namespace: &str,
) -> (u16, Value) {
    let mut body = question(operation, namespace);
    body["pass"] = pass.into();
    platform.call("POST", "/api/access/application", runtime, Some(body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn h5_a_limited_key_does_through_the_app_proxy_what_its_scopes_say() {
    let platform = Platform::start().await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    report(&platform, &runtime, vec![app("dev", json!({}))]).await;
    let (_, elsewhere) = platform.account("elsewhere").await;
    for Row { word: operation, changes, .. } in operations() {
        let door = proxied(&platform, operation, "dev");
        door.needs_scope(if changes { "gitops" } else { "gitops:read" }).await;
        door.needs_somebody().await;
        door.is_hidden_from(&elsewhere).await;
        let (status, pass) = door.by(&platform.admin_key).await;
        assert_eq!(status, 200, "{operation}: {pass}");
        let pass = pass["token"].as_str().unwrap();
        let answer = shown(&platform, &runtime, pass, operation, "dev").await;
        assert_eq!((answer.0, &answer.1["userName"]), (200, &json!("admin")), "{operation}");
    }
    // With a cookie, what changes something needs the token of the page, whatever else is sent.
    let browser = platform.sign_in(&platform.email, &platform.password).await.unwrap();
    for Row { word: operation, changes, .. } in operations() {
        let alone = proxied(&platform, operation, "dev").header("cookie", &browser.cookie);
        assert_eq!(alone.by("").await.0, if changes { 403 } else { 200 }, "{operation}");
        assert_eq!(alone.by("Basic YWJj").await.0, 401, "{operation}: a header that names nobody");
        let page = proxied(&platform, operation, "dev")
            .header("cookie", &browser.cookie)
            .header("x-csrf-token", &browser.csrf);
        assert_eq!(page.by("").await.0, 200, "{operation}");
        assert!(!page.by("").await.1.to_string().contains(&browser.csrf), "a runtime learns no token");
    }
}

/// Each operation by itself: a member with the right to everything else, then with the right to this; a key that was revoked
/// between the pass and its showing.
#[tokio::test(flavor = "multi_thread")]
async fn every_operation_of_the_app_proxy_needs_its_own_right_and_a_key_that_is_still_good() {
    let platform = Platform::start().await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    report(&platform, &runtime, vec![app("dev", json!({}))]).await;
    let (_, ada) = member_in(&platform, "ada@example.com", "devs").await;
    for Row { word, action, open, .. } in of_applications() {
        let door = proxied(&platform, word, "dev");
        // Before any rule names it.
        assert_eq!(door.by(&ada).await.0, if open { 200 } else { 403 }, "{word} without a rule");
        // SYNC implies REFRESH.
        let others = every_action()
            .into_iter()
            .filter(|other| *other != action && !(action == "REFRESH" && *other == "SYNC"));
        let rule = |teams: &str, actions: Vec<&str>| {
            json!({"entityType": "gitopsApplications", "teams": [teams], "actions": actions,
                "entityAttributes": [{"name": "NAMESPACE", "value": "dev"}]})
        };
        // Somebody else's team has the action, so that it is not open any more; ada's has all the others.
        platform.post("/api/team", json!({"name": format!("others of {word}")})).await;
        let taken = platform.post("/api/abac", rule(&format!("others of {word}"), vec![action])).await;
        let rest = platform.post("/api/abac", rule("devs", others.collect())).await;
        let (status, answer) = door.by(&ada).await;
        assert_eq!(status, if action == "VIEW" { 404 } else { 403 }, "{word} by another right: {answer}");
        let own = platform.post("/api/abac", rule("devs", vec![action])).await;
        let key = platform.call("POST", "/api/auth/key", &ada, Some(json!({"name": word}))).await.1;
        let key = key.as_str().unwrap().to_owned();
        let (status, pass) = door.by(&key).await;
        assert_eq!(status, 200, "{word} with its right: {pass}");
        let pass = pass["token"].as_str().unwrap();
        assert_eq!(shown(&platform, &runtime, pass, word, "dev").await.0, 200, "{word}");
        // The right ends, then the key: the pass was given before, and is good no more.
        let own = format!("/api/abac/{}", own[0]["id"].as_str().unwrap());
        platform.call("DELETE", &own, &platform.admin_key, None).await;
        let status = shown(&platform, &runtime, pass, word, "dev").await.0;
        assert_eq!(status, if action == "VIEW" { 404 } else { 403 }, "{word} after its right ended");
        let id = key.split('.').next().unwrap();
        assert_eq!(platform.call("DELETE", &format!("/api/auth/key/{id}"), &ada, None).await.0, 200);
        assert_eq!(shown(&platform, &runtime, pass, word, "dev").await.0, 401, "{word} with a revoked key");
        for made in [taken, rest] {
            let path = format!("/api/abac/{}", made[0]["id"].as_str().unwrap());
            assert_eq!(platform.call("DELETE", &path, &platform.admin_key, None).await.0, 200);
        }
    }
}

/// Who may change an Application of one cluster may not send it to another, nor make one there.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_application_would_be_is_asked_about_as_what_it_is() {
    let platform = Platform::start().await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    let at = |name: &str, cluster: &str| {
        let mut at = app("dev", json!({"destinationName": cluster, "labels": {"team": "devs"}}));
        at["name"] = name.into();
        at
    };
    report(&platform, &runtime, vec![at("app", "dev"), at("till", "prod")]).await;
    let (_, ada) = member_in(&platform, "ada@example.com", "devs").await;
    let attributes = [
        json!({"name": "CLUSTER", "value": "dev"}),
        json!({"name": "LABEL", "key": "team", "value": "devs"}),
    ];
    let rule = json!({"entityType": "gitopsApplications", "teams": ["devs"],
        "actions": ["CREATE", "EDIT", "DELETE"], "entityAttributes": attributes});
    platform.post("/api/abac", rule).await;
    let ask = async |operation: &str, name: &str, declares: Value| {
        let body = json!({"operation": operation, "namespace": "dev", "name": name,
            "detail": {"file": "a.yaml", "declares": declares}});
        Knock::new(&platform, "POST", "/api/runtimes/local/pass").body(body).by(&ada).await.0
    };
    let (dev, prod) = (json!({"name": "dev"}), json!({"name": "prod"}));
    let labels = json!({"team": "devs"});
    for (operation, name, declares, status) in [
        ("edit", "app", json!({}), 200),
        ("edit", "app", json!({"destination": {"namespace": "other"}}), 200),
        ("edit", "app", json!({"destination": prod}), 403),
        ("edit", "app", json!({"destination": {"server": "https://dev"}}), 403),
        ("edit", "app", json!({"destination": null}), 403),
        ("edit", "app", json!({"labels": {"team": "ops"}}), 403),
        ("edit", "app", json!({"labels": null}), 403),
        ("edit", "till", json!({"destination": dev}), 403),
        ("delete", "app", json!(null), 200),
        ("delete", "till", json!(null), 403),
        ("create", "new", json!({"destination": dev, "labels": labels}), 200),
        ("create", "new", json!({"destination": dev}), 403),
        ("create", "new", json!({"destination": prod, "labels": labels}), 403),
        ("create", "new", json!(null), 403),
        ("create", "till", json!({"destination": dev, "labels": labels}), 403),
    ] {
        assert_eq!(ask(operation, name, declares.clone()).await, status, "{operation} {name} {declares}");
    }
}

/// One's own Git token at a runtime: for every member of the account, with the scope, and recorded without what it must not
/// hold; each is known to the runtime by an id of their own.
#[tokio::test(flavor = "multi_thread")]
async fn operations_with_ones_own_git_token_are_for_members_with_the_scope_and_recorded() {
    let platform = Platform::start().await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    let other = platform.agent(Subject::Runtime, "west").await;
    report(&platform, &runtime, Vec::new()).await;
    let (_, elsewhere) = platform.account("elsewhere").await;
    let (user, ada) = member_in(&platform, "ada@example.com", "devs").await;
    let (_, bob) = member_in(&platform, "bob@example.com", "ops").await;
    for Row { word, changes, recorded, .. } in
        operations().into_iter().filter(|row| row.word.starts_with("git-"))
    {
        let door = proxied(&platform, word, "");
        door.needs_somebody().await;
        door.is_hidden_from(&elsewhere).await;
        door.needs_scope(if changes { "gitops" } else { "gitops:read" }).await;
        let record = match recorded {
            true => door.leaves(&ada, word, "runtime", "allowed").await,
            false => Value::Null,
        };
        assert!(!recorded || record["userId"] == json!(user), "{word}: {record}");
        let about = json!({"operation": word, "namespace": "dev", "name": "app"});
        let aimed = Knock::new(&platform, "POST", "/api/runtimes/local/pass").body(about);
        assert_eq!(aimed.by(&ada).await.0, 400, "{word} is about no Application");
        let mut ids = std::collections::BTreeSet::new();
        for key in [&ada, &bob] {
            let (_, pass) = door.by(key).await;
            let pass = pass["token"].as_str().unwrap();
            assert_eq!(shown(&platform, &other, pass, word, "").await.0, 401, "{word} elsewhere");
            let (status, answer) = shown(&platform, &runtime, pass, word, "").await;
            assert_eq!(status, 200, "{word}: {answer}");
            ids.insert(answer["userId"].as_str().unwrap().to_owned());
        }
        assert_eq!(ids.len(), 2, "{word}: {ids:?}");
        assert!(ids.contains(&format!("user/{user}")), "{ids:?}");
    }
}

/// A command in a pod has a record of its beginning and one of its end, and goes on for as long as its bearer may.
#[tokio::test(flavor = "multi_thread")]
async fn what_goes_on_is_asked_about_again_and_a_command_is_recorded_at_both_ends() {
    let platform = Platform::start().await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    let other = platform.agent(Subject::Runtime, "west").await;
    report(&platform, &runtime, vec![app("dev", json!({}))]).await;
    let key = platform.post("/api/auth/key", json!({"name": "k"})).await.as_str().unwrap().to_owned();
    let exec = proxied(&platform, "exec", "dev");
    let began = exec.leaves(&key, "exec", "application", "allowed").await;
    let session = began["detail"]["after"]["session"].as_str().unwrap().to_owned();
    assert_eq!(began["detail"]["after"]["request"], json!({"id": 7}), "{began}");
    let (_, pass) = exec.by(&key).await;
    let ask = async |by: &str, operation: &str, moment: &str| {
        let mut body = question(operation, "dev");
        body["pass"] = pass["token"].clone();
        body["moment"] = moment.into();
        body["outcome"] = "exit code 0".repeat(100).into();
        platform.call("POST", "/api/access/application", by, Some(body)).await.0
    };
    assert_eq!(ask(&runtime, "exec", "shown").await, 200);
    platform.pass(3 * 60 * 1000);
    assert_eq!(ask(&runtime, "exec", "shown").await, 401, "nothing new is opened with it");
    assert_eq!(ask(&runtime, "exec", "ongoing").await, 200, "what was opened goes on");
    for (by, operation) in [(&other, "exec"), (&runtime, "logs"), (&runtime, "sync")] {
        for moment in ["ongoing", "ended"] {
            assert_eq!(ask(by, operation, moment).await, 401, "{operation} {moment}");
        }
    }
    assert_eq!(ask(&key, "exec", "ended").await, 403, "a person is no runtime");
    let id = key.split('.').next().unwrap();
    platform.call("DELETE", &format!("/api/auth/key/{id}"), &platform.admin_key, None).await;
    assert_eq!(ask(&runtime, "exec", "ongoing").await, 401, "its key was revoked");
    // Its end is recorded all the same, as the runtime's word.
    let ends = "/api/audit?limit=1000&action=exec-end&entity=application&outcome=allowed";
    assert_eq!(platform.get(ends).await["total"], 0);
    assert_eq!(ask(&runtime, "exec", "ended").await, 200);
    let ended = platform.get(ends).await;
    let ended = &ended["docs"][0];
    assert_eq!(ended["entityId"], "local/dev/app", "{ended}");
    assert_ne!(ended["detail"]["after"]["session"], json!(session), "that was another command");
    assert_eq!(ended["detail"]["after"]["outcome"].as_str().unwrap().len(), 200, "{ended}");
    assert!(ended.to_string().contains("runtime"), "the runtime says so: {ended}");
    // It ended once, whatever the runtime repeats.
    assert_eq!(ask(&runtime, "exec", "ended").await, 200);
    assert_eq!(platform.get(ends).await["total"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn l1_a_header_that_names_nobody_is_never_made_good_by_a_cookie() {
    let platform = Platform::start().await;
    platform.post("/api/repos", json!({"name": "demo/app"})).await;
    let browser = platform.sign_in(&platform.email, &platform.password).await.unwrap();
    for header in ["Basic YWJj", "Basic !!", "Bearer", "Bearer x", "", "nonsense", "Basic"] {
        for (name, value) in [("authorization", header), ("x-access-token", header)] {
            for (method, path) in [
                ("GET", "/api/user"),
                ("POST", "/api/team"),
                ("GET", "/api/applications"),
                ("POST", "/2.0/api/graphql"),
                ("GET", "/git/demo/app.git/info/refs?service=git-upload-pack"),
                ("GET", "/metrics"),
            ] {
                let request = browser.request(&platform, method, path).header(name, value);
                let request = if method == "POST" { request.json(&json!({"name": "x"})) } else { request };
                let status = request.send().await.unwrap().status().as_u16();
                assert_eq!(status, 401, "{method} {path} with `{name}: {value}`");
            }
        }
    }
    assert_eq!(browser.send(&platform, "GET", "/api/user", None).await.0, 200, "the cookie was good");
}

#[tokio::test(flavor = "multi_thread")]
async fn l2_a_limited_key_does_nothing_to_its_owner() {
    let platform = Platform::start().await;
    let browser = platform.sign_in(&platform.email, &platform.password).await.unwrap();
    let sessions = platform.get("/api/auth/sessions").await;
    let id = sessions[0]["id"].as_str().unwrap().to_owned();
    let password = json!({"current": platform.password, "new": "another long password"});
    for scopes in [&["usage:read"][..], &["*:read"], &["account", "auth", "user"], &["*"]] {
        let key = limited(&platform, scopes).await;
        assert_eq!(platform.call("GET", "/api/user", &key, None).await.0, 200, "who one is");
        for (method, path, body) in [
            ("GET", "/api/auth/sessions".to_owned(), None),
            ("DELETE", format!("/api/auth/sessions/{id}"), None),
            ("POST", "/api/auth/password".to_owned(), Some(password.clone())),
            ("POST", "/api/auth/confirm".to_owned(), Some(json!({"password": platform.password}))),
            ("POST", "/api/user/changeaccount/default".to_owned(), None),
        ] {
            let (status, answer) = platform.call(method, &path, &key, body).await;
            assert_eq!(status, 403, "{method} {path} with {scopes:?}: {answer}");
        }
    }
    assert_eq!(browser.send(&platform, "GET", "/api/user", None).await.0, 200, "still signed in");
    assert_eq!(
        platform.call("DELETE", &format!("/api/auth/sessions/{id}"), &platform.admin_key, None).await.0,
        200,
        "a key without limits"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn m4_a_key_that_reads_is_shown_no_secret_by_any_door() {
    let platform = Platform::start().await;
    let secret = json!({"metadata": {"name": "s"}, "spec": {"type": "secret", "data": {"A": "canary-m4"}}});
    platform.post("/api/contexts/", secret).await;
    let variables = json!([{"key": "T", "value": "canary-m4", "encrypted": true}]);
    let steps = json!({"a": {"image": "x", "commands": ["true"]}});
    let pipeline = json!({"metadata": {"name": "demo/p"}, "spec": {"variables": variables, "steps": steps}});
    platform.post("/api/pipelines", pipeline).await;
    let event = json!({"type": "registry", "kind": "dockerhub", "secret": "canary-m4-canary-m4",
        "values": {"namespace": "library", "name": "redis"}});
    let event = platform.post("/api/hermes/events", event).await.as_str().unwrap().to_owned();
    let event = event.replace(':', "%3A");
    for (path, scope) in [
        ("/api/contexts?decrypt=true".to_owned(), "context"),
        ("/api/contexts/s?decrypt=true".to_owned(), "context"),
        ("/api/contexts/s/prepare?decrypt=true".to_owned(), "context"),
        ("/api/pipelines/demo%2Fp?decryptVariables=true".to_owned(), "pipeline"),
        (format!("/api/hermes/events/{event}/endpoint"), "pipeline"),
    ] {
        let door = Knock::new(&platform, "GET", &path);
        door.needs_scope(scope).await;
        for scopes in [&["*:read"][..], &["context:read", "pipeline:read", "build"]] {
            let (status, answer) = door.by(&limited(&platform, scopes).await).await;
            assert_eq!(status, 403, "{path} {scopes:?}");
            assert!(!answer.to_string().contains("canary-m4"), "{path} {scopes:?}");
        }
        let (status, answer) = door.by(&limited(&platform, &[scope]).await).await;
        assert_eq!(status, 200, "{path}: {answer}");
        assert!(answer.to_string().contains("canary-m4"), "{path}: {answer}");
    }
    // The same without the wish to see: masked, with the scope to read.
    let reads = limited(&platform, &["*:read"]).await;
    for path in ["/api/contexts", "/api/contexts/s", "/api/contexts/s/prepare", "/api/pipelines/demo%2Fp"] {
        let (status, answer) = platform.call("GET", path, &reads, None).await;
        assert!(status == 200 && !answer.to_string().contains("canary-m4"), "{path}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_subscription_hears_its_own_account_by_rule_and_by_scope() {
    let platform = Platform::start().await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    let (_, elsewhere) = platform.account("elsewhere").await;
    without_rules(&platform).await;
    let (_, member) = member_in(&platform, "ada@example.com", "devs").await;
    let rule = json!({"entityType": "pipeline", "teams": ["devs"], "actions": ["read"], "tags": ["dev"]});
    platform.post("/api/abac", rule).await;
    let rule = json!({"entityType": "gitopsApplications", "teams": ["devs"], "actions": ["VIEW"],
        "attributes": [{"name": "NAMESPACE", "value": "dev"}]});
    platform.post("/api/abac", rule).await;
    let rule = json!({"entityType": "gitRepository", "teams": ["devs"], "actions": ["read"],
        "attributes": [{"name": "REPOSITORY", "value": "open/*"}]});
    platform.post("/api/abac", rule).await;

    let builds = limited(&platform, &["build:read"]).await;
    let none = limited(&platform, &["usage:read"]).await;
    let listen = |key: &str| {
        let (platform, key) = (&platform, key.to_owned());
        tokio::task::block_in_place(|| Socket::subscribe(platform, &key))
    };
    let mut admin = listen(&platform.admin_key);
    let (mut ada, mut foreign) = (listen(&member), listen(&elsewhere));
    let (mut only_builds, mut nothing) = (listen(&builds), listen(&none));
    let steps = json!({"a": {"image": "x", "commands": ["true"]}});
    let body = |name: &str, tag: &str| json!({"metadata": {"name": name, "labels": {"tags": [tag]}}, "spec": {"steps": steps}});
    platform.post("/api/pipelines", body("probe/p", "dev")).await;
    // A subscription is there once it hears: things happen until it does.
    for (socket, key) in [
        (&mut admin, &platform.admin_key),
        (&mut ada, &platform.admin_key),
        (&mut only_builds, &platform.admin_key),
        (&mut foreign, &elsewhere),
    ] {
        for turn in 0.. {
            assert!(turn < 100, "never hears anything");
            if *key == elsewhere {
                let new = body(&format!("probe/{turn}"), "x");
                platform.call("POST", "/api/pipelines", key, Some(new)).await;
            } else {
                platform.call("POST", "/api/pipelines/run/probe%2Fp", key, Some(json!({}))).await;
            }
            if tokio::task::block_in_place(|| socket.hear(Duration::from_millis(300))).is_some() {
                break;
            }
        }
    }
    let mut ids = Vec::new();
    for (name, tag) in [("demo/hidden", "prod"), ("demo/seen", "dev")] {
        let body = json!({"metadata": {"name": name, "labels": {"tags": [tag]}}, "spec": {"steps": steps}});
        let made = platform.post("/api/pipelines", body).await;
        ids.push(made["metadata"]["id"].as_str().unwrap().to_owned());
        let path = format!("/api/pipelines/run/{}", name.replace('/', "%2F"));
        ids.push(platform.post(&path, json!({})).await.as_str().unwrap().to_owned());
    }
    let [hidden, hidden_build, seen, seen_build] = ids.try_into().unwrap();
    report(&platform, &runtime, vec![app("prod", json!({})), app("dev", json!({}))]).await;
    platform.post("/api/repos", json!({"name": "closed/app"})).await;
    platform.post("/api/repos", json!({"name": "open/app"})).await;
    // Something of its own ends what the other account hears, and a build what the limited keys hear.
    let body = json!({"metadata": {"name": "x/y"}, "spec": {"steps": steps}});
    let (_, theirs) = platform.call("POST", "/api/pipelines", &elsewhere, Some(body)).await;
    let theirs = theirs["metadata"]["id"].as_str().unwrap().to_owned();
    let last = platform.post("/api/pipelines/run/demo%2Fseen", json!({})).await.as_str().unwrap().to_owned();

    tokio::task::block_in_place(|| {
        let heard = admin.changes_until("build", &last);
        for (kind, id) in [
            ("pipeline", hidden.as_str()),
            ("build", &hidden_build),
            ("application", "local/prod/app"),
            ("runtime", "local"),
            ("repository", "closed/app"),
        ] {
            assert!(heard.contains(&(kind.into(), id.into())), "{kind} {id}: {heard:?}");
        }
        assert!(!heard.iter().any(|(_, id)| *id == theirs), "another account's: {heard:?}");

        let heard = ada.changes_until("build", &last);
        for (kind, id) in [
            ("pipeline", seen.as_str()),
            ("build", &seen_build),
            ("application", "local/dev/app"),
            ("repository", "open/app"),
        ] {
            assert!(heard.contains(&(kind.into(), id.into())), "{kind} {id}: {heard:?}");
        }
        for hidden in [hidden.as_str(), &hidden_build, "local/prod/app", "closed/app", &theirs] {
            assert!(!heard.iter().any(|(_, id)| id == hidden), "{hidden}: {heard:?}");
        }
        let heard = foreign.changes_until("pipeline", &theirs);
        let own = |(kind, id): &(String, String)| kind == "pipeline" || (kind == "all" && id.is_empty());
        assert!(heard.iter().all(own), "{heard:?}");
        for foreign in [&hidden, &seen] {
            assert!(!heard.iter().any(|(_, id)| id == foreign), "{heard:?}");
        }
        let heard = only_builds.changes_until("build", &last);
        assert!(heard.iter().all(|(kind, _)| kind == "build" || kind == "all"), "{heard:?}");
        assert_eq!(nothing.hear(Duration::from_secs(2)), None, "a key for something else hears nothing");
    });

    // A right that is taken away is taken away from what is open, too.
    without_rules(&platform).await;
    let after = platform.post("/api/pipelines/run/demo%2Fseen", json!({})).await;
    platform.post("/api/repos", json!({"name": "open/last"})).await;
    let heard = tokio::task::block_in_place(|| ada.changes_until("repository", "open/last"));
    assert!(!heard.iter().any(|(_, id)| after == id.as_str()), "{heard:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_socket_is_for_keys_that_read_builds_of_pipelines_that_they_see() {
    let platform = Platform::start().await;
    platform.pipeline("demo/build", "demo/app").await;
    let build = platform.post("/api/pipelines/run/demo%2Fbuild", json!({})).await;
    let build = build.as_str().unwrap().to_owned();
    let (_, elsewhere) = platform.account("elsewhere").await;
    let (_, member) = member_in(&platform, "ada@example.com", "devs").await;
    let open = |key: &str| {
        let path = format!("/ws/{}/{build}?authorization={key}", platform.account);
        tokio::task::block_in_place(|| Socket::open(&platform, &path, &[]))
    };
    for scopes in [&["usage:read"][..], &["pipeline"], &["gitops"]] {
        assert_eq!(open(&limited(&platform, scopes).await).0, 403, "{scopes:?}");
    }
    assert_eq!((open("").0, open("nonsense").0, open(&elsewhere).0), (401, 401, 404));
    assert_eq!(open(&limited(&platform, &["build:read"]).await).0, 101);
    let (status, socket) = open(&member);
    assert_eq!(status, 101);
    without_rules(&platform).await;
    let closed = tokio::task::spawn_blocking(move || socket.unwrap().closes());
    assert!(closed.await.unwrap(), "closed with the right to look");
    assert_eq!(open(&member).0, 404);
}
