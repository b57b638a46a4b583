//! A real Gitea: its webhook is registered, a push there builds here, and Gitea hears how it went.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use slipway_server::{EgressRules, Network};
use slipway_store::identity::Subject;
use slipway_testkit::gitea;

use crate::support::Platform;

async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let end = std::time::Instant::now() + slipway_testkit::PATIENCE;
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(std::time::Instant::now() < end, "{what}: not within {:?}", slipway_testkit::PATIENCE);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// A commit by Gitea's own API; its id.
fn commit(server: &gitea::Server, repo: &str, path: &str, branch: &str, message: &str) -> String {
    let body = json!({"content": STANDARD.encode(message), "message": message, "branch": branch});
    let made = server.api("POST", &format!("/repos/{repo}/contents/{path}"), Some(body));
    made["commit"]["sha"].as_str().expect("a commit has an id").to_owned()
}

async fn builds(platform: &Platform) -> Vec<Value> {
    platform.get("/api/workflow?limit=100").await["workflows"]["docs"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_to_gitea_is_built_once_also_when_nobody_announced_it() {
    let server = tokio::task::spawn_blocking(gitea::shared).await.unwrap();
    let owner = server.name("owner");
    let (repo, token) = tokio::task::block_in_place(|| {
        server.user(&owner);
        server.repo(&owner, "app");
        (format!("{owner}/app"), server.token(&owner))
    });
    let network =
        Network { egress_allowed: EgressRules::parse(&["127.0.0.1"]).unwrap(), ..Network::default() };
    let platform = Platform::start_with(network).await;
    let data = json!({"auth": {"type": "basic", "password": token, "apiHost": server.url()}});
    platform
        .post(
            "/api/contexts",
            json!({"metadata": {"name": "forge"}, "spec": {"type": "git.gitea", "data": data}}),
        )
        .await;
    let trigger = json!({"name": "push", "type": "git", "repo": repo, "context": "forge", "events": ["push.heads"],
        "modifiedFilesGlob": "src/**", "commitStatusTitle": "slipway/build"});
    let spec = json!({"triggers": [trigger], "specTemplate": {"location": "git", "repo": repo, "path": "codefresh.yml"}});
    platform.post("/api/pipelines", json!({"metadata": {"name": "g/build"}, "spec": spec})).await;

    let hook = until("the webhook is registered", async || {
        let all = platform.get("/api/hooks").await;
        assert!(all[0]["problem"].is_null(), "{all}");
        (all[0]["registered"] == true).then(|| all[0].clone())
    })
    .await;
    let registered = tokio::task::block_in_place(|| server.api("GET", &format!("/repos/{repo}/hooks"), None));
    assert_eq!(registered[0]["config"]["url"], hook["url"], "{registered}");

    // A file that the trigger does not wait for, then one that it does.
    tokio::task::block_in_place(|| commit(server, &repo, "docs/a.md", "main", "Only words"));
    let sha = tokio::task::block_in_place(|| commit(server, &repo, "src/a.rs", "main", "Code"));
    let build = until("the build", async || builds(&platform).await.pop()).await;
    assert_eq!((&build["revision"], &build["commitMessage"]), (&json!(sha), &json!("Code")));

    // The runner is told where to clone from, and with what.
    let key = platform.agent(Subject::Runner, "r1").await;
    let sync =
        json!({"runner": "r1", "version": "1", "executor": "host", "free": 1, "running": [], "waitMs": 0});
    let (_, answer) = platform.call("POST", "/api/agent/runner/sync", &key, Some(sync)).await;
    let taken = &answer["taken"][0];
    assert_eq!(
        (&taken["git"]["baseUrl"], &taken["git"]["password"]),
        (&json!(format!("{}/", server.url())), &json!(token))
    );

    // Gitea hears of the start and of the end.
    let states = || {
        let all = server.api("GET", &format!("/repos/{repo}/commits/{sha}/statuses"), None);
        let all = all.as_array().unwrap().clone();
        all.into_iter()
            .filter(|status| status["context"] == "slipway/build")
            .map(|status| status["status"].clone())
            .collect::<Vec<_>>()
    };
    until("pending", async || tokio::task::block_in_place(states).contains(&json!("pending")).then_some(()))
        .await;
    let path = format!("/api/agent/runner/builds/{}/state", taken["id"].as_str().unwrap());
    let report =
        json!({"epoch": taken["epoch"], "revision": 1, "status": "success", "startedMs": 1, "steps": []});
    assert_eq!(platform.call("PUT", &path, &key, Some(report)).await.0, 200);
    until("success", async || tokio::task::block_in_place(states).contains(&json!("success")).then_some(()))
        .await;

    // Nobody announces the next one: Gitea lost its hook. Looking finds it.
    let id = registered[0]["id"].as_i64().unwrap();
    let missed = tokio::task::block_in_place(|| {
        server.api("DELETE", &format!("/repos/{repo}/hooks/{id}"), None);
        commit(server, &repo, "src/b.rs", "main", "Unannounced")
    });
    platform.pass(3 * 60 * 1000);
    let found = until("the missed push", async || {
        builds(&platform).await.into_iter().find(|build| build["revision"] == json!(missed))
    })
    .await;
    assert_eq!(found["commitMessage"], "Unannounced");
    // Looked at again, nothing new is found.
    platform.pass(3 * 60 * 1000);
    platform.post("/api/pipelines/run/g%2Fbuild", json!({"branch": "main"})).await;
    until("a run by hand of the provider's branch", async || {
        (builds(&platform).await.len() == 3).then_some(())
    })
    .await;
    assert_eq!(builds(&platform).await[0]["revision"], json!(missed));
}

/// Gitea answers 50 at a time. What is on the second page counts as much: a hook that is there is not registered again, and a
/// push to a branch there is found when nobody announced it.
#[tokio::test(flavor = "multi_thread")]
async fn lists_of_a_provider_are_read_to_their_last_page() {
    const BRANCHES: usize = 51;
    let server = tokio::task::spawn_blocking(gitea::shared).await.unwrap();
    let owner = server.name("pages");
    let (repo, token) = tokio::task::block_in_place(|| {
        server.user(&owner);
        server.repo(&owner, "app");
        (format!("{owner}/app"), server.token(&owner))
    });
    tokio::task::block_in_place(|| {
        commit(server, &repo, "a.md", "main", "First");
        for number in 0..BRANCHES {
            let body =
                json!({"new_branch_name": format!("branch-number-{number:03}"), "old_branch_name": "main"});
            server.api("POST", &format!("/repos/{repo}/branches"), Some(body));
        }
        for number in 0..BRANCHES {
            let config = json!({"url": format!("http://127.0.0.1:9/{number}"), "content_type": "json"});
            let body = json!({"type": "gitea", "active": false, "events": ["push"], "config": config});
            server.api("POST", &format!("/repos/{repo}/hooks"), Some(body));
        }
    });
    let network =
        Network { egress_allowed: EgressRules::parse(&["127.0.0.1"]).unwrap(), ..Network::default() };
    let platform = Platform::start_with(network).await;
    let data = json!({"auth": {"type": "basic", "password": token, "apiHost": server.url()}});
    let context = json!({"metadata": {"name": "forge"}, "spec": {"type": "git.gitea", "data": data}});
    platform.post("/api/contexts", context).await;
    let trigger =
        json!({"name": "push", "type": "git", "repo": repo, "context": "forge", "events": ["push.heads"]});
    let spec = json!({"triggers": [trigger], "steps": {"a": {"image": "x", "commands": ["true"]}}});
    platform.post("/api/pipelines", json!({"metadata": {"name": "g/pages"}, "spec": spec})).await;
    let registered = async || {
        until("the webhook is registered", async || {
            let all = platform.get("/api/hooks").await;
            (all[0]["registered"] == true).then(|| all[0]["url"].as_str().unwrap().to_owned())
        })
        .await
    };
    let url = registered().await;
    let ours = || {
        let pages = ["1", "2"]
            .map(|page| server.api("GET", &format!("/repos/{repo}/hooks?limit=50&page={page}"), None));
        let all = pages.iter().flat_map(|page| page.as_array().unwrap().clone());
        all.filter(|hook| hook["config"]["url"] == json!(url)).count()
    };
    assert_eq!(tokio::task::block_in_place(ours), 1);

    // The platform died before it wrote down what it registered: it finds its hook, which is the last of all.
    platform.sql("UPDATE hooks SET remote = NULL");
    registered().await;
    assert_eq!(tokio::task::block_in_place(ours), 1, "it was not registered a second time");

    // The first look takes note of every branch; then nobody announces a push to the last one.
    let last = format!("branch-number-{:03}", BRANCHES - 1);
    until("every branch is known", async || platform.holds(&last).then_some(())).await;
    let missed = tokio::task::block_in_place(|| {
        let (first, second) = (
            server.api("GET", &format!("/repos/{repo}/hooks?limit=50&page=1"), None),
            server.api("GET", &format!("/repos/{repo}/hooks?limit=50&page=2"), None),
        );
        for hook in first.as_array().unwrap().iter().chain(second.as_array().unwrap()) {
            server.api("DELETE", &format!("/repos/{repo}/hooks/{}", hook["id"]), None);
        }
        commit(server, &repo, "b.md", &last, "Unannounced")
    });
    platform.pass(3 * 60 * 1000);
    let found = until("the missed push", async || builds(&platform).await.pop()).await;
    assert_eq!((&found["revision"], &found["branchName"]), (&json!(missed), &json!(last)));
}
