//! Every route of the document × everybody who might ask: who must not get in is refused before the handler sees the call.

use serde_json::{Value, json};
use slipway_store::identity::Subject;

use crate::keys::{app, proxied, report};
use crate::knock::{Knock, SCOPES, limited};
use crate::socket::Socket;
use crate::support::Platform;

/// One operation of the document, with who it says it is for.
struct Route {
    method: String,
    path: String,
    policy: String,
    scope: Option<String>,
}

async fn routes(platform: &Platform) -> Vec<Route> {
    let document = platform.get("/api/openapi.json").await;
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            routes.push(Route {
                method: method.to_uppercase(),
                path: path.clone(),
                policy: operation["x-access"]["policy"]
                    .as_str()
                    .expect("every route names its policy")
                    .to_owned(),
                scope: operation["x-access"]["scope"].as_str().map(str::to_owned),
            });
        }
    }
    routes
}

/// Something that is nowhere: an admitted call finds nothing and changes nothing.
fn nowhere(path: &str) -> String {
    let mut concrete = String::new();
    for part in path.split('/').skip(1) {
        concrete += "/";
        concrete += if part.starts_with('{') { "acacacacacacacacacacacac" } else { part };
    }
    concrete + if path.ends_with("/explain") { "?action=run&entity=pipeline/x" } else { "" }
}

/// Calls that an admitted caller may be refused inside for another reason than who they are.
fn refuses_inside(route: &Route) -> bool {
    // Rotating for every principal would take its time; it is tested by itself.
    route.path == "/api/admin/secrets/rotate" || route.path.starts_with("/api/auth/log")
}

async fn admitted(platform: &Platform, route: &Route, key: &str) -> bool {
    let body = (route.method != "GET").then(|| json!({}));
    let (status, answer) = platform.call(&route.method, &nowhere(&route.path), key, body).await;
    assert!(status < 500, "{} {}: {status} {answer}", route.method, route.path);
    !matches!(status, 401 | 403)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_opens_for_those_it_names_and_for_nobody_else() {
    let platform = Platform::start().await;
    let runner = platform.agent(Subject::Runner, "r1").await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    let (_, member) = platform.member("member@example.com", "User").await;
    let (_, admin) = platform.member("second@example.com", "Admin").await;
    let (_, elsewhere) = platform.account("elsewhere").await;
    let (_, revoked) = platform.member("revoked@example.com", "Admin").await;
    let id = revoked.split('.').next().unwrap().to_owned();
    assert_eq!(platform.call("DELETE", &format!("/api/auth/key/{id}"), &revoked, None).await.0, 200);
    platform.post("/api/service-users", json!({"name": "bot"})).await;
    let robot = "/api/auth/key?subjectType=service-account&subjectReference=bot";
    let robot = platform.post(robot, json!({"name": "k"})).await.as_str().unwrap().to_owned();

    let callers = [
        ("nobody", String::new(), &["public"][..]),
        ("a made-up key", "acacacacacacacacacacacac.00".into(), &["public"]),
        ("a revoked key", revoked, &["public"]),
        ("a member", member, &["public", "known", "oneself", "proxied", "member"]),
        ("an administrator", admin, &["public", "known", "oneself", "proxied", "member", "administrator"]),
        ("a service account", robot, &["public", "known", "oneself", "proxied", "member"]),
        (
            "an administrator elsewhere",
            elsewhere,
            &["public", "known", "oneself", "proxied", "member", "administrator"],
        ),
        (
            "a platform administrator",
            platform.admin_key.clone(),
            &["public", "known", "oneself", "proxied", "member", "administrator", "platform"],
        ),
        ("a runner", runner, &["public", "runner"]),
        ("a runtime", runtime, &["public", "runtime"]),
    ];
    let (mut seen, mut wrong) = (0, Vec::new());
    let routes = routes(&platform).await;
    for route in routes.iter().filter(|route| !refuses_inside(route)) {
        for (who, key, opens) in &callers {
            let expected = opens.contains(&route.policy.as_str());
            if admitted(&platform, route, key).await != expected {
                wrong.push(format!(
                    "{who}: {} {} ({}), expected {expected}",
                    route.method, route.path, route.policy
                ));
            }
            seen += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen > 700, "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_scope_opens_its_own_routes_and_no_others() {
    let platform = Platform::start().await;
    let routes = routes(&platform).await;
    let by_scope =
        |route: &&Route| route.scope.is_some() || matches!(route.policy.as_str(), "known" | "oneself");
    let scoped: Vec<_> = routes.iter().filter(by_scope).filter(|route| !refuses_inside(route)).collect();
    let (mut seen, mut wrong) = (0, Vec::new());
    for word in SCOPES {
        for scope in [word.to_owned(), format!("{word}:read")] {
            let key = platform.post("/api/auth/key", json!({"name": scope, "scopes": [scope]})).await;
            let key = key.as_str().unwrap().to_owned();
            for route in &scoped {
                // Who one is, any key may ask; nothing is done to oneself with a limited one.
                let expected = match &route.scope {
                    Some(needed) => *needed == scope || *needed == format!("{scope}:read"),
                    None => route.policy == "known" && route.method == "GET",
                };
                if admitted(&platform, route, &key).await != expected {
                    wrong.push(format!("`{scope}`: {} {}, expected {expected}", route.method, route.path));
                }
                seen += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen > 1500, "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_or_idle_session_opens_nothing() {
    let platform = Platform::start().await;
    let routes = routes(&platform).await;
    let hours = |count: i64| count * 60 * 60 * 1000;
    for (pass_each, times) in [(hours(13), 1), (hours(8), 21)] {
        let browser = platform.sign_in(&platform.email, &platform.password).await.unwrap();
        for turn in 0..times {
            let (status, _) = browser.send(&platform, "GET", "/api/user", None).await;
            assert_eq!(status, 200, "turn {turn} of {times}");
            platform.pass(pass_each);
        }
        for route in routes.iter().filter(|route| route.policy != "public") {
            let body = (route.method != "GET").then(|| json!({}));
            let (status, _) = browser.send(&platform, &route.method, &nowhere(&route.path), body).await;
            assert_eq!(status, 401, "{} {}", route.method, route.path);
        }
    }
}

/// Ids of one account, asked for by the administrator of another: the same answer as for what is nowhere.
#[tokio::test(flavor = "multi_thread")]
async fn another_account_finds_nothing_of_this_one() {
    let platform = Platform::start().await;
    let (_, elsewhere) = platform.account("elsewhere").await;
    let (user, _) = platform.member("member@example.com", "User").await;
    let id = |value: &Value, key: &str| value[key].as_str().unwrap().to_owned();
    let team = id(&platform.post("/api/team", json!({"name": "devs"})).await, "_id");
    let robot = id(&platform.post("/api/service-users", json!({"name": "bot"})).await, "_id");
    let rule = json!({"entityType": "pipeline", "team": "devs", "action": "run", "tags": ["*"]});
    let rule = id(&platform.post("/api/abac", rule).await[0], "id");
    let context = json!({"metadata": {"name": "shared"}, "spec": {"type": "config", "data": {"A": "b"}}});
    platform.post("/api/contexts/", context).await;
    platform.pipeline("demo/build", "demo/app").await;
    let pipeline = id(&platform.get("/api/pipelines/demo%2Fbuild").await["metadata"], "id");
    let build =
        platform.post("/api/pipelines/run/demo%2Fbuild", json!({})).await.as_str().unwrap().to_owned();
    let project = id(&platform.get("/api/projects/name/demo").await, "id");
    let key = platform.admin_key.split('.').next().unwrap().to_owned();
    let invitation = platform.post("/api/invitations", json!({"email": "x@example.com"})).await;
    let invitation = id(&invitation["invitation"], "_id");
    let spec = json!({"entityType": "pipeline", "team": "users", "action": "run", "tags": ["*"]});
    let context = json!({"metadata": {"name": "shared"}, "spec": {"type": "config", "data": {}}});
    let whole = json!({"metadata": {"name": "x"}, "spec": {}});
    let mut seen = 0;
    for (method, path, body) in [
        ("GET", format!("/api/users/{user}"), None),
        ("PATCH", format!("/api/users/{user}"), Some(json!({"role": "Admin"}))),
        ("DELETE", format!("/api/users/{user}"), None),
        ("GET", format!("/api/team/{team}"), None),
        ("PUT", format!("/api/team/{team}"), Some(json!({"name": "mine"}))),
        ("DELETE", format!("/api/team/{team}"), None),
        ("PUT", format!("/api/team/{team}/{user}/assignUserToTeam"), None),
        ("GET", format!("/api/service-users/{robot}"), None),
        ("PATCH", format!("/api/service-users/{robot}"), Some(json!({"enabled": false}))),
        ("DELETE", format!("/api/service-users/{robot}"), None),
        (
            "POST",
            format!("/api/auth/key?subjectType=service-account&subjectReference={robot}"),
            Some(json!({"name": "k"})),
        ),
        ("GET", format!("/api/abac/{rule}"), None),
        ("PUT", format!("/api/abac/{rule}"), Some(spec)),
        ("DELETE", format!("/api/abac/{rule}"), None),
        ("GET", "/api/contexts/shared".into(), None),
        ("GET", "/api/contexts/shared?decrypt=true".into(), None),
        ("PUT", "/api/contexts/shared".into(), Some(context)),
        ("DELETE", "/api/contexts/shared".into(), None),
        ("GET", format!("/api/pipelines/{pipeline}"), None),
        ("PUT", format!("/api/pipelines/{pipeline}"), Some(whole)),
        ("DELETE", format!("/api/pipelines/{pipeline}"), None),
        ("POST", format!("/api/pipelines/run/{pipeline}"), Some(json!({}))),
        ("POST", format!("/api/pipelines/debug/{pipeline}"), Some(json!({}))),
        ("GET", format!("/api/pipelines/{pipeline}/revisions"), None),
        ("GET", format!("/api/pipelines/{pipeline}/diff?from=0"), None),
        ("POST", format!("/api/pipelines/{pipeline}/revisions/0/restore"), None),
        ("POST", format!("/api/pipelines/{pipeline}/triggers/try"), Some(json!({"event": "push.heads"}))),
        ("GET", format!("/api/hermes/triggers/pipeline/{pipeline}"), None),
        ("GET", format!("/api/projects/{project}"), None),
        ("PATCH", format!("/api/projects/{project}"), Some(json!({"tags": ["mine"]}))),
        ("DELETE", format!("/api/projects/{project}"), None),
        ("GET", format!("/api/annotations?entityType=build&entityId={build}"), None),
        ("POST", format!("/api/builds/{build}/approvals"), Some(json!({"answer": "approve"}))),
        ("GET", format!("/api/workflow/{build}/pending-approval/approve"), None),
        ("GET", format!("/api/workflow/{build}/pending-approval/deny"), None),
        ("POST", format!("/api/builds/{build}/restart"), Some(json!({}))),
        ("GET", format!("/api/builds/{build}/reports"), None),
        ("GET", format!("/api/builds/{build}"), None),
        ("GET", format!("/api/builds/{build}/logs"), None),
        ("GET", format!("/api/builds/{build}/logs/stream"), None),
        ("GET", format!("/api/builds/rebuild/{build}"), None),
        ("GET", format!("/api/progress/{build}"), None),
        ("DELETE", format!("/api/progress/{build}"), None),
        ("GET", format!("/api/auth/key/{key}"), None),
        ("PATCH", format!("/api/auth/key/{key}"), Some(json!({"name": "mine"}))),
        ("DELETE", format!("/api/auth/key/{key}"), None),
        ("DELETE", format!("/api/invitations/{invitation}"), None),
        ("POST", format!("/api/invitations/{invitation}/resend"), None),
        ("GET", format!("/api/access/explain?action=run&entity=pipeline/{pipeline}"), None),
    ] {
        let (status, there) = platform.call(method, &path, &elsewhere, body.clone()).await;
        assert_eq!(status, 404, "{method} {path}: {there}");
        // Word for word what is said of something that is nowhere (K105).
        let swap = |text: &str| {
            [&user, &team, &robot, &rule, &pipeline, &project, &build, &key, &invitation]
                .iter()
                .fold(text.to_owned(), |text, id| text.replace(id.as_str(), "acacacacacacacacacacacac"))
        };
        let (absent_status, absent) =
            platform.call(method, &swap(&path).replace("shared", "absent"), &elsewhere, body).await;
        assert_eq!(absent_status, 404, "{method} {path}: {absent}");
        let plain = |value: &Value| swap(value["message"].as_str().unwrap()).replace("shared", "absent");
        assert_eq!(plain(&there), plain(&absent), "{method} {path}");
        seen += 1;
    }
    assert!(seen > 30);
    for (path, field) in [
        ("/api/users", None),
        ("/api/team", None),
        ("/api/service-users", None),
        ("/api/abac", None),
        ("/api/contexts", None),
        ("/api/auth/keys", None),
        ("/api/pipelines", Some("docs")),
    ] {
        let (status, all) = platform.call("GET", path, &elsewhere, None).await;
        assert_eq!(status, 200, "{path}: {all}");
        let text = field.map_or(&all, |field| &all[field]).to_string();
        for foreign in [&user, &team, &robot, &rule, &pipeline, &build, &key, &invitation] {
            assert!(!text.contains(foreign.as_str()), "{path} shows {foreign} of another account");
        }
    }
    // What they asked for is in their own trail, and nothing that anybody else did.
    let (_, trail) = platform.call("GET", "/api/audit?limit=1000", &elsewhere, None).await;
    assert!(
        trail["docs"].as_array().unwrap().iter().all(|record| record["userName"] != "member@example.com")
    );
}

/// What the described API does not list: the Git host, the sockets and an app-proxy's questions, × everybody × scopes.
#[tokio::test(flavor = "multi_thread")]
async fn git_sockets_and_the_app_proxy_open_for_those_they_name_and_for_nobody_else() {
    let platform = Platform::start().await;
    platform.pipeline("demo/build", "demo/app").await;
    let build = platform.post("/api/pipelines/run/demo%2Fbuild", json!({})).await;
    let build = build.as_str().unwrap().to_owned();
    platform.post("/api/repos", json!({"name": "demo/app"})).await;
    let runner = platform.agent(Subject::Runner, "r1").await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    report(&platform, &runtime, vec![app("dev", json!({}))]).await;
    let (_, member) = platform.member("member@example.com", "User").await;
    let (_, admin) = platform.member("second@example.com", "Admin").await;
    let (_, elsewhere) = platform.account("elsewhere").await;
    platform.post("/api/service-users", json!({"name": "bot"})).await;
    let robot = "/api/auth/key?subjectType=service-account&subjectReference=bot";
    let robot = platform.post(robot, json!({"name": "k"})).await.as_str().unwrap().to_owned();

    let ask = async |key: &str| {
        let git = async |service: &str| {
            let path = format!("/git/demo/app.git/info/refs?service={service}");
            Knock::new(&platform, "GET", &path).by(key).await.0
        };
        let socket = |path: &str, headers: &[(&str, &str)]| {
            tokio::task::block_in_place(|| Socket::open(&platform, path, headers)).0
        };
        let line = format!("/ws/{}/{build}?authorization={key}", platform.account);
        let mut headers = vec![("sec-websocket-protocol", "graphql-transport-ws")];
        headers.extend(Some(("authorization", key)).filter(|_| !key.is_empty()));
        [
            git("git-upload-pack").await,
            git("git-receive-pack").await,
            socket(&line, &[]),
            socket("/2.0/api/graphql", &headers),
            proxied(&platform, "diff", "dev").by(key).await.0,
            proxied(&platform, "sync", "dev").by(key).await.0,
        ]
    };
    for (who, key, expected) in [
        ("nobody", "", [401, 401, 401, 401, 401, 401]),
        ("a made-up key", "acacacacacacacacacacacac.00", [401, 401, 401, 401, 401, 401]),
        ("a member", &member, [200, 403, 101, 101, 200, 200]),
        ("an administrator", &admin, [200, 200, 101, 101, 200, 200]),
        ("a service account", &robot, [200, 403, 101, 101, 200, 200]),
        ("an administrator elsewhere", &elsewhere, [404, 404, 404, 101, 404, 404]),
        ("a platform administrator", &platform.admin_key, [200, 200, 101, 101, 200, 200]),
        ("a runner", &runner, [403, 403, 403, 403, 403, 403]),
        ("a runtime", &runtime, [200, 403, 403, 403, 403, 403]),
    ] {
        assert_eq!(ask(key).await, expected, "{who}");
    }
    for word in SCOPES {
        for scope in [word.to_owned(), format!("{word}:read")] {
            let is = |open: u16, scopes: &[&str]| if scopes.contains(&scope.as_str()) { open } else { 403 };
            let expected = [
                is(200, &["repos", "repos:read"]),
                is(200, &["repos"]),
                is(101, &["build", "build:read"]),
                // Everybody may listen; what they hear is decided change by change.
                101,
                is(200, &["gitops", "gitops:read"]),
                is(200, &["gitops"]),
            ];
            assert_eq!(ask(&limited(&platform, &[&scope]).await).await, expected, "`{scope}`");
        }
    }
}
