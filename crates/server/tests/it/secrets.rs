use serde_json::{Value, json};

use crate::support::Platform;

fn holds(platform: &Platform, needle: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(platform.folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file()
            && std::fs::read(&path).unwrap().windows(needle.len()).any(|part| part == needle.as_bytes())
        {
            found.push(path);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn contexts_are_masked_kept_sealed_and_opened_for_those_who_may() {
    let platform = Platform::start().await;
    let (_, key) = platform.member("ada@example.com", "User").await;
    let secret = json!({"apiVersion": "v1", "kind": "context", "metadata": {"name": "creds"},
        "spec": {"type": "secret", "data": {"TOKEN": "hunter2-canary"}}});
    platform.post("/api/contexts/", secret).await;
    let git = json!({"metadata": {"name": "github"}, "spec": {"type": "git.github", "data": {"sharingPolicy": "AllUsersInAccount",
        "auth": {"type": "basic", "password": "git-canary-12", "apiHost": "api.github.com"}}}});
    platform.post("/api/contexts", git).await;
    let config = json!({"metadata": {"name": "plain"}, "spec": {"type": "config", "data": {"A": "b"}}});
    platform.post("/api/contexts/", config).await;
    let all = platform.get("/api/contexts").await;
    assert_eq!(all.as_array().unwrap().len(), 3);
    assert!(!all.to_string().contains("canary"), "{all}");
    assert_eq!(
        platform.get("/api/contexts?type=git").await[0]["spec"]["data"]["auth"]["apiHost"],
        "api.github.com"
    );
    for canary in ["hunter2-canary", "git-canary-12"] {
        assert_eq!(holds(&platform, canary), Vec::<std::path::PathBuf>::new());
    }

    let opened = platform.get("/api/contexts/creds?decrypt=true").await;
    assert_eq!(opened["spec"]["data"]["TOKEN"], "hunter2-canary");
    let (status, refused) = platform.call("GET", "/api/contexts/creds?decrypt=true", &key, None).await;
    assert_eq!(status, 403, "{refused}");
    let (status, seen) = platform.call("GET", "/api/contexts/creds", &key, None).await;
    assert_eq!((status, &seen["spec"]["data"]["TOKEN"]), (200, &json!("*****")));
    let decrypted = platform.get("/api/audit?action=decrypt").await;
    assert_eq!(decrypted["total"], 1, "each time is recorded");

    // Read masked, sent back changed elsewhere: the secret stays.
    let mut masked = platform.get("/api/contexts/creds").await;
    masked["spec"]["data"]["OTHER"] = json!("second-canary");
    let (status, changed) =
        platform.call("PATCH", "/api/contexts/creds", &platform.admin_key, Some(masked)).await;
    assert_eq!(status, 200, "{changed}");
    let opened = platform.get("/api/contexts/creds?decrypt=true").await;
    assert_eq!(opened["spec"]["data"], json!({"TOKEN": "hunter2-canary", "OTHER": "second-canary"}));

    // Forbidden for everybody, and it cannot be taken back.
    let mut shut = platform.get("/api/contexts/creds").await;
    shut["metadata"]["forbidDecrypt"] = json!(true);
    platform.call("PUT", "/api/contexts/creds", &platform.admin_key, Some(shut.clone())).await;
    assert_eq!(
        platform.call("GET", "/api/contexts/creds?decrypt=true", &platform.admin_key, None).await.0,
        403
    );
    shut["metadata"]["forbidDecrypt"] = json!(false);
    platform.call("PUT", "/api/contexts/creds", &platform.admin_key, Some(shut)).await;
    assert_eq!(
        platform.call("GET", "/api/contexts/creds?decrypt=true", &platform.admin_key, None).await.0,
        403
    );

    let bad = json!({"metadata": {"name": "a\nb"}, "spec": {"type": "nonsense", "data": {}}});
    let (_, refused) = platform.call("POST", "/api/contexts/", &platform.admin_key, Some(bad)).await;
    for part in ["metadata.name", "spec.type `nonsense`"] {
        assert!(refused["message"].as_str().unwrap().contains(part), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_that_pipelines_use_cannot_be_deleted_and_the_answer_says_which() {
    let platform = Platform::start().await;
    let config = json!({"metadata": {"name": "plain"}, "spec": {"type": "config", "data": {"A": "b"}}});
    platform.post("/api/contexts/", config).await;
    let body =
        json!({"metadata": {"name": "demo/uses"}, "spec": {"contexts": ["plain"], "steps": {"a": {}}}});
    platform.post("/api/pipelines", body).await;
    let (status, refused) = platform.call("DELETE", "/api/contexts/plain", &platform.admin_key, None).await;
    assert_eq!(status, 409);
    assert!(refused["message"].as_str().unwrap().contains("pipelines use it: `demo/uses`"), "{refused}");
    platform.call("DELETE", "/api/pipelines/demo%2Fuses", &platform.admin_key, None).await;
    assert_eq!(platform.call("DELETE", "/api/contexts/plain", &platform.admin_key, None).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_rotated_while_secrets_are_read_and_written() {
    let platform = Platform::start().await;
    let secret = json!({"metadata": {"name": "creds"}, "spec": {"type": "secret", "data": {"T": "first"}}});
    platform.post("/api/contexts/", secret).await;
    let master = || std::fs::read(platform.folder.path().join("master.key")).unwrap();
    let mut seen = vec![master()];
    for turn in 0..20 {
        let write = async {
            let body = json!({"metadata": {"name": "creds"}, "spec": {"type": "secret", "data": {"T": format!("value {turn}")}}});
            platform.call("PUT", "/api/contexts/creds", &platform.admin_key, Some(body)).await
        };
        let rotate = platform.call("POST", "/api/admin/secrets/rotate", &platform.admin_key, None);
        let (written, rotated): ((u16, Value), (u16, Value)) = tokio::join!(write, rotate);
        assert_eq!((written.0, rotated.0), (200, 200), "{} {}", written.1, rotated.1);
        let read = platform.get("/api/contexts/creds?decrypt=true").await;
        assert_eq!(read["spec"]["data"]["T"], format!("value {turn}"));
        assert!(!seen.contains(&master()), "a new key each time");
        seen.push(master());
    }
    assert_eq!(platform.get("/api/admin/health").await["rotating"], false);
    assert_eq!(platform.get("/api/admin/audit?entity=master-key").await["total"], 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_gets_the_shared_configuration_that_its_pipeline_names() {
    let platform = Platform::start().await;
    for (name, kind, data) in [
        ("plain", "config", json!({"A": "from config", "B": "b"})),
        ("hidden", "secret", json!({"A": "canary-shared"})),
        ("unused", "secret", json!({"C": "canary-unused"})),
    ] {
        let body =
            json!({"metadata": {"name": name, "forbidDecrypt": true}, "spec": {"type": kind, "data": data}});
        platform.post("/api/contexts/", body).await;
    }
    let spec = json!({"contexts": ["plain", {"name": "hidden"}], "steps": {"a": {}}, "variables": [{"key": "B", "value": "own"}]});
    platform.post("/api/pipelines", json!({"metadata": {"name": "demo/p"}, "spec": spec})).await;
    platform.post("/api/pipelines/run/demo%2Fp", json!({})).await;
    let key = platform.agent(slipway_store::identity::Subject::Runner, "r1").await;
    let body =
        json!({"runner": "r1", "version": "1", "executor": "host", "free": 1, "running": [], "waitMs": 0});
    let (_, answer) = platform.call("POST", "/api/agent/runner/sync", &key, Some(body)).await;
    let layers = answer["taken"][0]["variables"].as_array().unwrap();
    let place = |name: &str| layers.iter().position(|layer| layer["name"] == name).unwrap();
    let shared = place("shared-configuration");
    assert!(shared < place("pipeline"), "what comes later wins: {layers:?}");
    let expected = json!([{"key": "A", "value": "from config"}, {"key": "B", "value": "b"}, {"key": "A", "value": "canary-shared", "encrypted": true}]);
    assert_eq!(layers[shared]["variables"], expected);
    assert!(!answer.to_string().contains("canary-unused"));
    let used = platform.get("/api/audit?action=use&entity=context").await;
    assert_eq!(
        (&used["total"], &used["docs"][0]["userName"]),
        (&json!(1), &json!("runner r1")),
        "each use of a secret is recorded"
    );
}

/// Whoever may change an integration may not send its hidden secret to a host of their own, nor have it shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_masked_secret_stays_with_the_host_it_was_given_for() {
    let platform = Platform::start().await;
    let git = json!({"metadata": {"name": "work", "forbidDecrypt": true}, "spec": {"type": "git.gitea",
        "data": {"auth": {"type": "basic", "password": "canary-tok", "apiHost": "git.example.com"}}}});
    platform.post("/api/contexts", git).await;
    let registry = json!({"name": "r", "provider": "other", "domain": "r.example.com", "username": "u", "password": "p"});
    platform.post("/api/registries", registry).await;
    let hidden = json!({"metadata": {"name": "shut", "forbidDecrypt": true}, "spec": {"type": "secret", "data": {"A": "canary-a"}}});
    platform.post("/api/contexts", hidden).await;
    let put = async |name: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let mut sent = platform.get(&format!("/api/contexts/{name}")).await;
        change(&mut sent);
        platform.call("PUT", &format!("/api/contexts/{name}"), &platform.admin_key, Some(sent)).await
    };

    let (status, refused) =
        put("work", &|sent| sent["spec"]["data"]["auth"]["apiHost"] = json!("evil.example")).await;
    assert_eq!(status, 400, "{refused}");
    let said = refused["message"].as_str().unwrap();
    assert!(said.contains("spec.data.auth.apiHost") && said.contains("spec.data.auth.password"), "{said}");
    assert_eq!(
        platform.get("/api/contexts/work").await["spec"]["data"]["auth"]["apiHost"],
        "git.example.com"
    );
    let (status, refused) = put("work", &|sent| sent["spec"]["type"] = json!("git.github")).await;
    assert_eq!(status, 400, "{refused}");
    let given_again = |sent: &mut serde_json::Value| {
        sent["spec"]["data"]["auth"]["apiHost"] = json!("new.example");
        sent["spec"]["data"]["auth"]["password"] = json!("new");
    };
    assert_eq!(put("work", &given_again).await.0, 200);
    assert_eq!(put("work", &|sent| sent["spec"]["data"]["auth"]["username"] = json!("bot")).await.0, 200);

    let (status, shown) = put("shut", &|sent| sent["spec"]["type"] = json!("config")).await;
    assert_eq!(status, 400, "{shown}");
    assert!(!platform.get("/api/contexts").await.to_string().contains("canary"));

    let patch =
        async |body| platform.call("PATCH", "/api/registries/r", &platform.admin_key, Some(body)).await;
    let (status, refused) = patch(json!({"domain": "evil.example"})).await;
    assert_eq!(status, 400, "{refused}");
    let (status, refused) = patch(json!({"provider": "dockerhub"})).await;
    assert_eq!(status, 400, "{refused}");
    assert_eq!(patch(json!({"domain": "new.example", "password": "q"})).await.0, 200);
    assert_eq!(patch(json!({"default": true})).await.0, 200);
    let bare = json!({"metadata": {"name": "bare"}, "spec": {"type": "registry", "data": {"provider": "other", "domain": "r.example"}}});
    let (status, refused) = platform.call("POST", "/api/contexts", &platform.admin_key, Some(bare)).await;
    assert!(status == 400 && refused.to_string().contains("password"), "{refused}");
}

/// The published CLI writes the sharing policy into the data.
#[tokio::test(flavor = "multi_thread")]
async fn an_integration_for_administrators_is_hidden_from_others() {
    let platform = Platform::start().await;
    let (_, member) = platform.member("ada@example.com", "User").await;
    for (name, in_data) in [("one", true), ("two", false)] {
        let mut git = json!({"metadata": {"name": name}, "spec": {"type": "git.github",
            "data": {"auth": {"type": "basic", "password": "t"}}}});
        let place = if in_data { "/spec/data" } else { "/spec" };
        git.pointer_mut(place).unwrap()["sharingPolicy"] = json!("AccountAdmins");
        platform.post("/api/contexts", git).await;
        let path = format!("/api/contexts/{name}");
        assert_eq!(platform.call("GET", &path, &member, None).await.0, 404, "{name}");
        assert_eq!(platform.call("GET", &path, &platform.admin_key, None).await.0, 200, "{name}");
    }
    let (_, seen) = platform.call("GET", "/api/contexts", &member, None).await;
    assert_eq!(seen, json!([]));
}
