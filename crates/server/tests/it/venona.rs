//! Agents of the published runner: how they are made, and the three calls that they make.

use serde_json::{Value, json};

use crate::support::Platform;

async fn made(platform: &Platform, name: &str) -> (String, String) {
    let agent = platform.post("/api/agents", json!({"name": name, "runtimes": ["ctx/ns"]})).await;
    (agent["id"].as_str().unwrap().to_owned(), agent["token"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn an_agent_is_made_found_attached_and_deleted_as_the_published_installer_does_it() {
    let platform = Platform::start().await;
    let (id, token) = made(&platform, "ctx_ns").await;
    let admin = platform.admin_key.clone();
    // The published CLI looks for these words.
    let (status, twice) = platform.call("POST", "/api/agents", &admin, Some(json!({"name": "ctx_ns"}))).await;
    assert!(
        status >= 400 && twice["message"].as_str().unwrap().contains("Agent name duplication"),
        "{twice}"
    );
    let found = platform.get("/api/agents/name/ctx_ns").await;
    assert_eq!((&found["id"], &found["runtimes"]), (&json!(id), &json!(["ctx/ns"])));
    assert!(found.get("token").is_none(), "it is shown once");
    let body = json!({"agentId": id, "runtimes": ["ctx/ns", "ctx/other"]});
    let (status, changed) = platform.call("PUT", &format!("/api/agent/{id}"), &admin, Some(body)).await;
    assert_eq!((status, &changed["runtimes"]), (200, &json!(["ctx/ns", "ctx/other"])));
    assert_eq!(platform.get("/api/agents?name=ctx_ns").await.as_array().unwrap().len(), 1);
    assert_eq!(platform.call("DELETE", &format!("/api/agent/{id}"), &admin, None).await.0, 200);
    let path = "/api/agent/ctx_ns/tasks?waitForStatusReport=true";
    assert_eq!(platform.call("GET", path, &token, None).await.0, 401, "its key goes with it");
}

#[tokio::test]
async fn an_agent_says_that_it_lives_and_asks_for_tasks_under_its_name_or_its_id_and_no_others() {
    let platform = Platform::start().await;
    let (id, token) = made(&platform, "a1").await;
    let (other_id, other) = made(&platform, "a2").await;
    let health = async |platform: &Platform| platform.get("/api/agent/a1").await["status"].clone();
    assert_eq!(health(&platform).await["healthStatus"], "unhealthy", "it has said nothing yet");
    // The chart passes the name where an id is asked for.
    for named in ["a1", id.as_str()] {
        let path = format!("/api/agent/{named}");
        let (status, _) = platform
            .call("PUT", &format!("{path}/status"), &token, Some(json!({"message": "All good"})))
            .await;
        assert_eq!(status, 200, "{named}");
        let (status, tasks) =
            platform.call("GET", &format!("{path}/tasks?waitForStatusReport=true"), &token, None).await;
        assert_eq!((status, tasks), (200, json!([])), "{named}");
    }
    let well = health(&platform).await;
    assert_eq!((&well["healthStatus"], &well["message"]), (&json!("healthy"), &json!("All good")));
    platform.pass(61_000);
    assert_eq!(health(&platform).await["healthStatus"], "unhealthy", "nothing was heard for a minute");

    // Neither another agent's tasks, nor its health, nor a task that is not there.
    for (method, path, body) in [
        ("GET", format!("/api/agent/{other_id}/tasks"), None),
        ("PUT", "/api/agent/a2/status".to_owned(), Some(json!({"message": "x"}))),
    ] {
        assert_eq!(platform.call(method, &path, &token, body).await.0, 404, "{path}");
    }
    let report = |status: &str| -> Option<Value> {
        Some(
            json!({"status": status, "occurredAt": "2026-01-01T00:00:00Z", "statusRevision": 1, "isRetriable": false}),
        )
    };
    let path = "/api/agent/a1/tasks/0123456789abcdef01234567/statuses";
    assert_eq!(platform.call("POST", path, &token, report("Success")).await.0, 404);
    assert_eq!(platform.call("POST", path, &token, report("Perhaps")).await.0, 400);
    assert_eq!(platform.call("GET", "/api/agent/a1/tasks", &platform.admin_key, None).await.0, 403);
    assert_eq!(platform.call("GET", "/api/agent/a2/tasks", &other, None).await.0, 200);
}
