use serde_json::{Value, json};

use crate::support::Platform;

/// Rules by tag, seen through every door that a pipeline has.
#[tokio::test(flavor = "multi_thread")]
async fn tags_decide_what_a_member_may_with_a_pipeline() {
    let platform = Platform::start().await;
    let (user, key) = platform.member("ada@example.com", "User").await;
    platform.post("/api/team", json!({"name": "devs", "users": [user]})).await;
    for (name, tags) in [("demo/open", json!(["dev"])), ("demo/prod", json!(["prod"]))] {
        let steps = json!({"hello": {"image": "busybox", "commands": ["echo"]}});
        let body = json!({"metadata": {"name": name, "labels": {"tags": tags}}, "spec": {"steps": steps}});
        platform.post("/api/pipelines", body).await;
    }
    let names = |list: Value| -> Vec<String> {
        list["docs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|doc| doc["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        names(platform.call("GET", "/api/pipelines", &key, None).await.1),
        ["demo/open", "demo/prod"],
        "open at first"
    );

    // The rules of a new account go; then one that opens `dev` for the team, read only.
    for rule in platform.get("/api/abac?entityType=pipeline").await.as_array().unwrap() {
        platform
            .call("DELETE", &format!("/api/abac/{}", rule["id"].as_str().unwrap()), &platform.admin_key, None)
            .await;
    }
    assert!(
        names(platform.call("GET", "/api/pipelines", &key, None).await.1).is_empty(),
        "closed without rules"
    );
    let rule = json!({"entityType": "pipeline", "teams": ["devs"], "actions": ["read"], "tags": ["dev"]});
    platform.post("/api/abac", rule).await;
    assert_eq!(names(platform.call("GET", "/api/pipelines", &key, None).await.1), ["demo/open"]);
    let (status, refused) =
        platform.call("POST", "/api/pipelines/run/demo%2Fopen", &key, Some(json!({}))).await;
    assert_eq!(status, 403);
    let why = refused["message"].as_str().unwrap();
    assert!(
        why.contains(
            "may not run pipeline `demo/open` (tags dev): no rule of the account allows run on pipeline"
        ),
        "{why}"
    );
    let (status, hidden) = platform.call("GET", "/api/pipelines/demo%2Fprod", &key, None).await;
    assert_eq!(
        (status, &hidden["message"]),
        (404, &json!("Pipeline `demo/prod` not found: it does not exist, or you may not see it"))
    );
    let (_, absent) = platform.call("GET", "/api/pipelines/demo%2Fnone", &key, None).await;
    assert_eq!(hidden["code"], absent["code"]);

    let build = platform.post("/api/pipelines/run/demo%2Fprod", json!({})).await.as_str().unwrap().to_owned();
    let seen = platform.post("/api/pipelines/run/demo%2Fopen", json!({})).await.as_str().unwrap().to_owned();
    let (_, builds) = platform.call("GET", "/api/workflow", &key, None).await;
    let ids: Vec<_> = builds["workflows"]["docs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|doc| doc["id"].as_str().unwrap())
        .collect();
    assert_eq!((ids, &builds["workflows"]["total"]), (vec![seen.as_str()], &json!(1)));
    for path in [
        format!("/api/builds/{build}"),
        format!("/api/builds/{build}/logs"),
        format!("/api/builds/{build}/logs/stream"),
    ] {
        assert_eq!(platform.call("GET", &path, &key, None).await.0, 404, "{path}");
    }
    let query = json!({"query": "{ builds { id } }"});
    let (_, answer) = platform.call("POST", "/2.0/api/graphql", &key, Some(query)).await;
    assert_eq!(answer["data"]["builds"], json!([{"id": seen}]), "the same through GraphQL");

    // Tagging a pipeline out of reach needs the right on what it becomes.
    let rule = json!({"entityType": "pipeline", "teams": ["devs"], "actions": ["update"], "tags": ["dev"]});
    platform.post("/api/abac", rule).await;
    let (_, mut whole) = platform.call("GET", "/api/pipelines/demo%2Fopen", &key, None).await;
    whole["metadata"]["labels"]["tags"] = json!(["prod"]);
    let (status, refused) = platform.call("PUT", "/api/pipelines/demo%2Fopen", &key, Some(whole)).await;
    assert_eq!(status, 403, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_the_same_as_the_door() {
    let platform = Platform::start().await;
    let (user, key) = platform.member("ada@example.com", "User").await;
    platform.post("/api/team", json!({"name": "devs", "users": [user]})).await;
    platform.pipeline("demo/build", "demo/app").await;
    let explain = |user: &str, action: &str| {
        let path = format!("/api/access/explain?user={user}&action={action}&entity=pipeline/demo/build");
        let path: &'static str = Box::leak(path.into_boxed_str());
        platform.get(path)
    };
    let yes = explain("ada@example.com", "run").await;
    assert_eq!(yes["allowed"], true);
    assert_eq!(yes["reason"], "a rule lets team `users` run pipeline with any tag");
    assert!(yes["rule"].is_string());
    let admin = explain(&platform.email, "delete").await;
    assert!(admin["reason"].as_str().unwrap().contains("is an Administrator"), "{admin}");
    let no = explain("ada@example.com", "fly").await;
    assert_eq!(no["allowed"], false);
    // Oneself without being an Administrator; others not.
    let own = "/api/access/explain?action=run&entity=pipeline/demo/build";
    assert_eq!(platform.call("GET", own, &key, None).await.1["allowed"], true);
    let others = format!("/api/access/explain?user={}&action=run&entity=pipeline/demo/build", platform.email);
    assert_eq!(platform.call("GET", &others, &key, None).await.0, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn attributes_decide_who_sees_and_syncs_an_application() {
    let platform = Platform::start().await;
    let runtime = platform.agent(slipway_store::identity::Subject::Runtime, "local").await;
    let (user, key) = platform.member("ada@example.com", "User").await;
    platform.post("/api/team", json!({"name": "devs", "users": [user]})).await;
    let app = |namespace: &str| {
        json!({"namespace": namespace, "name": "app", "project": "default", "repoUrl": "r", "path": "p",
        "targetRevision": "HEAD", "destination": "d", "syncStatus": "Synced", "healthStatus": "Healthy",
        "summary": "all is well", "observedAt": "2026-01-01T00:00:00Z"})
    };
    let report = crate::reports::everything(vec![app("prod"), app("dev")]);
    assert_eq!(platform.call("POST", "/2.0/api/events", &runtime, Some(report)).await.0, 200);
    let seen = || async {
        let (_, list) = platform.call("GET", "/api/applications", &key, None).await;
        let apps = list["applications"]
            .as_array()
            .unwrap()
            .iter()
            .map(|app| app["namespace"].as_str().unwrap().to_owned());
        let mut apps: Vec<_> = apps.collect();
        apps.sort();
        apps
    };
    assert_eq!(seen().await, ["dev", "prod"], "open until a rule restricts it");
    let rule = json!({"entityType": "gitopsApplications", "teams": ["devs"], "actions": ["VIEW", "SYNC"],
        "attributes": [{"name": "NAMESPACE", "value": "dev*"}]});
    platform.post("/api/abac", rule).await;
    assert_eq!(seen().await, ["dev"]);
    assert_eq!(platform.call("GET", "/api/applications/local/prod/app", &key, None).await.0, 404);

    // For the app-proxy somebody asks for a pass.
    let ask = async |key: &str, operation: &str, namespace: &str| {
        let question = json!({"operation": operation, "namespace": namespace, "name": "app"});
        platform.call("POST", "/api/runtimes/local/pass", key, Some(question)).await
    };
    assert_eq!(ask(&key, "sync", "dev").await.0, 200);
    assert_eq!(ask(&key, "refresh", "dev").await.0, 200, "SYNC brings REFRESH");
    assert_eq!(ask(&key, "sync", "prod").await.0, 404);
    assert_eq!(ask(&key, "fly", "dev").await.0, 400, "nothing that can be done");
    let (_, elsewhere) = platform.account("elsewhere").await;
    assert_eq!(ask(&elsewhere, "diff", "dev").await.0, 404, "belongs to another account");
    // Only a runtime asks about a pass, and only what it was given for.
    let pass = ask(&key, "sync", "dev").await.1["token"].as_str().unwrap().to_owned();
    let shown = async |key: &str, namespace: &str| {
        let question = json!({"operation": "sync", "namespace": namespace, "name": "app", "pass": pass});
        platform.call("POST", "/api/access/application", key, Some(question)).await.0
    };
    assert_eq!(shown(&runtime, "dev").await, 200);
    assert_eq!(shown(&runtime, "prod").await, 401);
    assert_eq!(shown(&key, "dev").await, 403, "a person is no runtime");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_wrong_with_a_rule_is_said_at_once() {
    let platform = Platform::start().await;
    let bad = json!({"entityType": "pipeline", "teams": ["nobody"], "actions": ["create", "fly"], "tagMatch": "some"});
    let (status, refused) = platform.call("POST", "/api/abac", &platform.admin_key, Some(bad)).await;
    assert_eq!(status, 400);
    for part in [
        "no team `nobody`",
        "tagMatch",
        "`fly` is not a valid action",
        "`create` needs a rule of its own",
        "name tags",
    ] {
        assert!(refused["message"].as_str().unwrap().contains(part), "{part}: {refused}");
    }
    // As the Terraform provider sends it.
    let published =
        json!({"team": "users", "resource": "pipeline", "action": "debug", "tags": ["*", "untagged"]});
    assert_eq!(platform.post("/api/abac", published).await[0]["teamNames"], json!(["users"]));
}
