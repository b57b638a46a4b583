use serde_json::{Value, json};
use slipway_store::identity::Subject;

use crate::support::Platform;

#[tokio::test]
async fn a_browser_signs_in_needs_its_token_to_change_things_and_signs_out() {
    let platform = Platform::start().await;
    let client = reqwest::Client::new();
    let login = |password: String| {
        let body = json!({"email": platform.email, "password": password});
        client.post(format!("{}/api/auth/login", platform.url)).json(&body).send()
    };
    assert_eq!(login("wrong".into()).await.unwrap().status(), 401);
    let answer = login(platform.password.clone()).await.unwrap();
    assert_eq!(answer.status(), 200);
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let csrf = answer.json::<Value>().await.unwrap()["csrfToken"].as_str().unwrap().to_owned();

    let send = |method: reqwest::Method, path: &str, csrf: &str| {
        let request = client.request(method, format!("{}{path}", platform.url));
        request
            .header("cookie", cookie.clone())
            .header("x-csrf-token", csrf)
            .json(&json!({"name": "k"}))
            .send()
    };
    let (get, post) = (reqwest::Method::GET, reqwest::Method::POST);
    assert_eq!(send(get.clone(), "/api/user", "").await.unwrap().status(), 200);
    assert_eq!(send(post.clone(), "/api/auth/key", "").await.unwrap().status(), 403);
    assert_eq!(send(post.clone(), "/api/auth/key", "wrong").await.unwrap().status(), 403);
    // A GET that changes something is guarded too.
    let rebuild = "/api/builds/rebuild/acacacacacacacacacacacac";
    assert_eq!(send(get.clone(), rebuild, "").await.unwrap().status(), 403);
    assert_eq!(send(get.clone(), rebuild, &csrf).await.unwrap().status(), 404);
    let key = send(post.clone(), "/api/auth/key", &csrf).await.unwrap().json::<String>().await.unwrap();
    assert_eq!(platform.call("GET", "/api/user", &key, None).await.0, 200);

    // Revoked: at once.
    let id = key.split('.').next().unwrap();
    assert_eq!(
        platform.call("DELETE", &format!("/api/auth/key/{id}"), &platform.admin_key, None).await.0,
        200
    );
    assert_eq!(platform.call("GET", "/api/user", &key, None).await.0, 401);
    assert_eq!(send(post, "/api/auth/logout", &csrf).await.unwrap().status(), 204);
    assert_eq!(send(get, "/api/user", "").await.unwrap().status(), 401);
}

#[tokio::test]
async fn encrypted_variables_are_never_given_back_or_kept_in_clear() {
    let platform = Platform::start().await;
    let variables =
        json!([{"key": "TOKEN", "value": "hunter2-canary", "encrypted": true}, {"key": "A", "value": "b"}]);
    let body = json!({"metadata": {"name": "demo/p"}, "spec": {"variables": variables, "steps": {"z": {}, "a": {}}}});
    platform.post("/api/pipelines", body).await;
    let shown = platform.get("/api/pipelines/demo%2Fp").await;
    assert_eq!(shown["spec"]["variables"][0]["value"], "*****");
    // Sent back as it was read, it keeps its value.
    let (status, body) =
        platform.call("PUT", "/api/pipelines/demo%2Fp", &platform.admin_key, Some(shown.clone())).await;
    assert_eq!(status, 200, "{body}");
    // On an old revision it is refused.
    let (status, _) = platform.call("PUT", "/api/pipelines/demo%2Fp", &platform.admin_key, Some(shown)).await;
    assert_eq!(status, 409);
    platform.post("/api/pipelines/run/demo%2Fp", json!({})).await;
    let key = platform.agent(Subject::Runner, "r1").await;
    let body =
        json!({"runner": "r1", "version": "1", "executor": "host", "free": 1, "running": [], "waitMs": 0});
    let (_, answer) = platform.call("POST", "/api/agent/runner/sync", &key, Some(body)).await;
    assert_eq!(answer["taken"][0]["variables"][2]["variables"][0]["value"], "hunter2-canary");
    for entry in std::fs::read_dir(platform.folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            assert!(
                !bytes.windows(14).any(|part| part == b"hunter2-canary"),
                "{path:?} holds a secret in clear"
            );
        }
    }
}
