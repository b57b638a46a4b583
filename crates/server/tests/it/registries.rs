//! Registries of images: under the addresses of published clients, sealed like every secret, given to builds.

use serde_json::{Value, json};
use slipway_store::identity::Subject;

use crate::support::Platform;

async fn change(platform: &Platform, name: &str, body: Value) -> Value {
    let path = format!("/api/registries/{name}");
    let (status, changed) = platform.call("PATCH", &path, &platform.admin_key, Some(body)).await;
    assert_eq!(status, 200, "{changed}");
    changed
}

#[tokio::test(flavor = "multi_thread")]
async fn registries_are_connected_changed_shown_masked_and_given_to_builds() {
    let platform = Platform::start().await;
    let (_, member) = platform.member("ada@example.com", "User").await;
    let hub = json!({"name": "hub", "provider": "dockerhub", "username": "u", "password": "hub-canary", "default": true});
    let made = platform.post("/api/registries", hub).await;
    assert_eq!(
        (&made["name"], &made["password"], &made["default"]),
        (&json!("hub"), &json!("*****"), &json!(true))
    );
    let own = json!({"name": "own", "provider": "other", "domain": "r.example:5000", "username": "v", "password": "own-canary",
        "repositoryPrefix": "team", "kind": "standard", "behindFirewall": false});
    let id = platform.post("/api/registries", own).await["_id"].as_str().unwrap().to_owned();
    assert_eq!(
        platform.get(&format!("/api/registries/{id}")).await["kind"],
        "standard",
        "what we do not read stays"
    );

    // One default; what is left out or sent back masked stays.
    let changed = change(&platform, &id, json!({"default": true, "password": "*****"})).await;
    assert_eq!((&changed["default"], &changed["domain"]), (&json!(true), &json!("r.example:5000")));
    let all = platform.get("/api/registries").await;
    assert_eq!(all[0]["default"], false, "{all}");
    assert!(!all.to_string().contains("canary"), "{all}");

    // Everybody may see that they are there, an Administrator connects them.
    let (status, _) = platform.call("GET", "/api/registries", &member, None).await;
    assert_eq!(status, 200);
    let (status, refused) = platform
        .call("POST", "/api/registries", &member, Some(json!({"name": "x", "domain": "x.example"})))
        .await;
    assert_eq!(status, 403, "{refused}");
    for bad in [json!({"name": "x"}), json!({"name": "x", "domain": "a b"}), json!({"domain": "x.example"})] {
        let (status, why) =
            platform.call("POST", "/api/registries", &platform.admin_key, Some(bad.clone())).await;
        assert_eq!(status, 400, "{bad}: {why}");
    }
    let (status, why) = platform
        .call(
            "POST",
            "/api/registries",
            &platform.admin_key,
            Some(json!({"name": "own", "domain": "x.example", "username": "u", "password": "p"})),
        )
        .await;
    assert_eq!(status, 409, "{why}");

    // A build gets them; that the pull request of a fork does not is among the attacks on pipelines.
    let runner = platform.agent(Subject::Runner, "r1").await;
    platform.pipeline("demo/build", "demo/app").await;
    platform.post("/api/pipelines/run/demo%2Fbuild", json!({})).await;
    let sync =
        json!({"runner": "r1", "version": "1", "executor": "host", "free": 1, "running": [], "waitMs": 0});
    let (_, answer) = platform.call("POST", "/api/agent/runner/sync", &runner, Some(sync)).await;
    let given = &answer["taken"][0]["registries"];
    assert_eq!(
        given[0],
        json!({"name": "hub", "domain": "docker.io", "username": "u", "password": "hub-canary", "default": false, "primary": false})
    );
    assert_eq!(given[1]["prefix"], "team");
    assert_eq!((&given[1]["password"], &given[1]["default"]), (&json!("own-canary"), &json!(true)));

    let (status, _) = platform.call("DELETE", "/api/registries/own", &platform.admin_key, None).await;
    assert_eq!(status, 200);
    assert_eq!(platform.get("/api/registries").await.as_array().unwrap().len(), 1);
    let recorded = platform.get("/api/audit?entityType=registry").await.to_string();
    assert!(!recorded.contains("canary"), "{recorded}");
}
