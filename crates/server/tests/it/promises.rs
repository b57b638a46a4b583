//! What the platform takes has an effect, or it says that it has none.

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::get;
use serde_json::{Value, json};
use slipway_server::{EgressRules, Network};
use slipway_store::identity::Subject;

use crate::health::Announcer;
use crate::knock::{Knock, limited};
use crate::pipeline_attacks::{run, sync};
use crate::support::Platform;
use crate::webhooks::until_builds;

async fn platform() -> Platform {
    let egress_allowed = EgressRules::parse(&["127.0.0.1"]).unwrap();
    Platform::start_with(Network { egress_allowed, ..Network::default() }).await
}

/// A GitHub of the test's own; it knows one token, one pull request with one changed file, and nothing else.
async fn provider() -> String {
    let files =
        get(async || axum::Json(json!([{"filename": "docs/a.md", "previous_filename": "docs/b.md"}])));
    let repositories = get(async |headers: HeaderMap| {
        let known =
            headers.get("authorization").is_some_and(|value| value.to_str().unwrap().ends_with("good"));
        match known {
            true => Ok(axum::Json(json!([{"full_name": "acme/app"}]))),
            false => Err(axum::http::StatusCode::UNAUTHORIZED),
        }
    });
    let registry = get(async |headers: HeaderMap| {
        // u:good
        match headers.get("authorization").is_some_and(|value| value == "Basic dTpnb29k") {
            true => axum::http::StatusCode::OK,
            false => axum::http::StatusCode::UNAUTHORIZED,
        }
    });
    let router = Router::new()
        .route("/repos/acme/app/pulls/7/files", files)
        .route("/user/repos", repositories)
        .route("/v2/", registry);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address.to_string()
}

fn git_context(name: &str, address: &str, token: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": "git.github", "data": {"auth":
        {"type": "basic", "password": token, "apiHost": format!("http://{address}"), "apiPathPrefix": "/"}}}})
}

/// A pull request passed every trigger that asks for files, because its announcement names none.
#[tokio::test(flavor = "multi_thread")]
async fn a_pull_request_goes_by_the_files_that_its_provider_names() {
    let (platform, address) = (platform().await, provider().await);
    platform.post("/api/contexts", git_context("gh", &address, "good")).await;
    let trigger = |name: &str, glob: &str| {
        json!({"name": name, "type": "git", "repo": "acme/app", "context": "gh", "modifiedFilesGlob": glob,
            "events": ["pullrequest.opened"]})
    };
    let triggers = [trigger("code", "src/**"), trigger("docs", "docs/**")];
    let spec = json!({"triggers": triggers, "steps": {"s": {"image": "x"}}});
    platform.post("/api/pipelines", json!({"metadata": {"name": "w/build"}, "spec": spec})).await;
    let id = platform.get("/api/hooks").await[0]["id"].as_str().unwrap().to_owned();
    let shown = platform.post(&format!("/api/hooks/{id}/secret"), json!({})).await;
    let secret = shown["secret"].as_str().unwrap().to_owned();
    let hook = Announcer { path: format!("/api/webhooks/git/{id}"), secret };
    let pull = |number: i64| {
        let side =
            json!({"ref": "feature", "sha": "4".repeat(40), "repo": {"id": 1, "full_name": "acme/app"}});
        let base = json!({"ref": "main", "sha": "5".repeat(40), "repo": {"id": 1, "full_name": "acme/app"}});
        json!({"action": "opened", "number": number, "repository": {"full_name": "acme/app", "id": 1},
            "pull_request": {"number": number, "title": "t", "html_url": "http://x", "head": side, "base": base, "user": {"login": "ada"}},
            "sender": {"login": "ada"}})
    };
    // Of the second nobody knows the files: it starts nothing, and the list of hooks says why.
    hook.send(&platform, "pull_request", "d1", &pull(8)).await;
    hook.send(&platform, "pull_request", "d2", &pull(7)).await;
    let made = until_builds(&platform, 1).await;
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(made[0]["pipelineTriggerName"], "docs", "{made:?}");
    assert_eq!((&made[0]["initiator"]["kind"], &made[0]["initiator"]["by"]), (&json!("git"), &json!("ada")));
    let why = platform.get("/api/hooks").await[0]["problem"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("not known which files changed"), "{why}");
}

/// D12.
#[tokio::test(flavor = "multi_thread")]
async fn an_integration_needs_a_credential_and_can_be_tried_out() {
    let (platform, address) = (platform().await, provider().await);
    let (status, refused) = platform
        .call("POST", "/api/contexts", &platform.admin_key, Some(git_context("gh", &address, "")))
        .await;
    assert_eq!(status, 400, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("password is required"), "{refused}");
    let mut tagged = git_context("good", &address, "good");
    // One without tags is open to every member.
    tagged["metadata"]["labels"] = json!({"tags": ["private"]});
    platform.post("/api/contexts", tagged).await;
    platform.post("/api/contexts", git_context("bad", &address, "wrong")).await;
    let tried = |path: &'static str| platform.post(path, json!({}));
    let answer = tried("/api/contexts/good/test").await;
    assert_eq!(answer["ok"], true, "{answer}");
    let answer = tried("/api/contexts/bad/test").await;
    assert_eq!(answer["ok"], false, "{answer}");
    assert!(!answer.to_string().contains("wrong"), "{answer}");
    // What may not be called is not called by way of this.
    platform.post("/api/contexts", git_context("inside", "169.254.169.254", "x")).await;
    let answer = tried("/api/contexts/inside/test").await;
    assert_eq!(answer["ok"], false, "{answer}");

    let registry = |password: &str| json!({"name": "r", "provider": "other", "domain": address, "username": "u", "password": password});
    let (status, refused) =
        platform.call("POST", "/api/registries", &platform.admin_key, Some(registry(""))).await;
    assert_eq!(status, 400, "{refused}");
    platform.post("/api/registries", registry("good")).await;
    let answer = tried("/api/registries/r/test").await;
    assert_eq!(answer["ok"], true, "{answer}");
    platform.call("PATCH", "/api/registries/r", &platform.admin_key, Some(json!({"password": "old"}))).await;
    let answer = tried("/api/registries/r/test").await;
    assert_eq!(answer["ok"], false, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("401"), "{answer}");

    let (_, stranger) = platform.account("other").await;
    let (_, member) = platform.member("bob@example.com", "User").await;
    crate::knock::without_rules(&platform).await;
    for (path, entity) in [("/api/contexts/good/test", "context"), ("/api/registries/r/test", "registry")] {
        let door = Knock::new(&platform, "POST", path);
        door.needs_somebody().await;
        door.is_hidden_from(&stranger).await;
        let (status, answer) = door.by(&member).await;
        assert!(matches!(status, 403 | 404), "{path}: {status} {answer}");
        assert_eq!(door.by(&limited(&platform, &["pipeline", "context:read"]).await).await.0, 403, "{path}");
        door.leaves(&platform.admin_key, "test", entity, "allowed").await;
    }
}

/// Over-claim 8: a context of a type that nothing reads is refused; one of before says so, and a build that names it ends.
#[tokio::test]
async fn a_context_has_an_effect_or_is_refused() {
    let platform = Platform::start().await;
    let context = |name: &str, kind: &str, data: Value| json!({"metadata": {"name": name}, "spec": {"type": kind, "data": data}});
    for kind in
        ["storage.s3", "secret-store.hashicorp-vault", "helm-repository", "storage.gc", "storage.minio"]
    {
        let (status, refused) = platform
            .call("POST", "/api/contexts", &platform.admin_key, Some(context("x", kind, json!({}))))
            .await;
        assert_eq!(status, 400, "{kind}");
        assert!(refused["message"].as_str().unwrap().contains("are not used here"), "{refused}");
    }
    platform.post("/api/contexts", context("values", "yaml", json!({"REGION": "eu", "LIST": ["a"]}))).await;
    platform.post("/api/contexts", context("hidden", "secret-yaml", json!({"TOKEN": "canary-9x"}))).await;
    platform.post("/api/contexts", context("old", "config", json!({"A": "1"}))).await;
    platform.sql("UPDATE contexts SET type = 'storage.s3' WHERE name = 'old'");
    let kept = platform.get("/api/contexts/old").await;
    assert!(kept["note"].as_str().unwrap().contains("storage.s3"), "{kept}");
    assert!(platform.get("/api/contexts/values").await["note"].is_null());
    let pipeline = |name: &str, contexts: Value| {
        json!({"metadata": {"name": name}, "spec": {"contexts": contexts, "steps": {"s": {"image": "x"}},
            "externalResources": [{"type": "git"}], "packId": "", "scopes": []}})
    };
    let made = platform.post("/api/pipelines", pipeline("d/yaml", json!(["values", "hidden"]))).await;
    assert_eq!(made["warnings"], json!(["spec.externalResources is stored but has no effect"]), "{made}");
    let again = platform.get("/api/pipelines/d%2Fyaml").await;
    let (status, put) =
        platform.call("PUT", "/api/pipelines/d%2Fyaml", &platform.admin_key, Some(again.clone())).await;
    assert_eq!(
        (status, &put["warnings"]),
        (200, &again["warnings"]),
        "what was read can be sent back: {put}"
    );
    platform.post("/api/pipelines", pipeline("d/old", json!(["old"]))).await;
    let runner = platform.agent(Subject::Runner, "r1").await;
    run(&platform, "d/yaml").await;
    let taken = sync(&platform, &runner, "r1", 1, json!([])).await["taken"][0].clone();
    let layer =
        taken["variables"].as_array().unwrap().iter().find(|layer| layer["name"] == "shared-configuration");
    let layer = layer.unwrap_or_else(|| panic!("{taken}"));
    let has = |key: &str, value: &str, secret: bool| {
        layer["variables"].as_array().unwrap().iter().any(|one| {
            one["key"] == key
                && one["value"] == value
                && one["encrypted"].as_bool().unwrap_or(false) == secret
        })
    };
    assert!(
        has("REGION", "eu", false) && has("LIST", "[\"a\"]", false) && has("TOKEN", "canary-9x", true),
        "{layer}"
    );
    let id = run(&platform, "d/old").await;
    sync(&platform, &runner, "r1", 2, json!([{"id": taken["id"], "epoch": 1}])).await;
    let build = platform.get(&format!("/api/builds/{id}")).await;
    assert_eq!(build["status"], "error", "{build}");
    assert!(
        build["message"].as_str().unwrap().contains("`old`: contexts of type `storage.s3` are not used here"),
        "{build}"
    );
}
