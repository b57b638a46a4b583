use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_forge::builtin::SeedFile;

use crate::support::{Platform, commit, git, working_copy};

async fn builds(platform: &Platform) -> Vec<Value> {
    platform.get("/api/workflow").await["workflows"]["docs"].as_array().unwrap().clone()
}

async fn wait_for_builds(platform: &Platform, count: usize) -> Vec<Value> {
    let until = Instant::now() + slipway_testkit::PATIENCE;
    loop {
        let found = builds(platform).await;
        if found.len() >= count || Instant::now() > until {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_makes_one_build_with_its_commit_and_a_fetch_gives_it_back() {
    let platform = Platform::start().await;
    platform.post("/api/repos", json!({"name": "demo/app"})).await;
    platform.pipeline("demo/build", "demo/app").await;
    let remote = platform.clone_url("demo/app", &platform.admin_key);
    let work = working_copy(platform.folder.path(), &remote);
    let (good, output) = git(&work, &["push", "origin", "main"]);
    assert!(good, "{output}");
    let found = wait_for_builds(&platform, 1).await;
    assert_eq!(found.len(), 1, "{found:?}");
    let build = &found[0];
    assert_eq!(build["commitMessage"], "first");
    assert_eq!((&build["committer"], &build["branchName"]), (&json!("Ada"), &json!("main")));
    assert_eq!(build["webhookTriggered"], true);
    assert_eq!(build["status"], "pending");

    // Pushing nothing new starts nothing; a skip mark starts nothing; the next real one starts one.
    git(&work, &["push", "origin", "main"]);
    commit(&work, "docs [skip ci]");
    assert!(git(&work, &["push", "origin", "main"]).0);
    commit(&work, "second");
    assert!(git(&work, &["push", "origin", "main"]).0);
    let found = wait_for_builds(&platform, 2).await;
    assert_eq!(found.len(), 2);
    assert_eq!(found[0]["commitMessage"], "second");

    let (good, output) = git(platform.folder.path(), &["clone", "-q", &remote, "copy"]);
    assert!(good, "{output}");
    assert_eq!(std::fs::read_to_string(platform.folder.path().join("copy/file.txt")).unwrap(), "second");
    let repos = platform.get("/api/repos").await;
    assert_eq!(repos[0]["head"]["message"], "second");
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_and_made_up_names_get_nowhere() {
    let platform = Platform::start().await;
    platform.post("/api/repos", json!({"name": "demo/app"})).await;
    let wrong = platform.clone_url("demo/app", "acacacacacacacacacacacac.nonsense");
    let (good, output) = git(platform.folder.path(), &["clone", "-q", &wrong, "copy"]);
    assert!(!good && output.contains("Authentication failed"), "{output}");
    let missing = platform.clone_url("demo/none", &platform.admin_key);
    let (good, output) = git(platform.folder.path(), &["clone", "-q", &missing, "copy"]);
    assert!(!good && output.contains("not found"), "{output}");
    for name in ["../etc", "demo", "a/b/c", "demo/app.git"] {
        let (status, body) =
            platform.call("POST", "/api/repos", &platform.admin_key, Some(json!({"name": name}))).await;
        assert_eq!(status, 400, "{name}: {body}");
    }
    let (status, _) =
        platform.call("POST", "/api/repos", &platform.admin_key, Some(json!({"name": "demo/app"}))).await;
    assert_eq!(status, 409);
    let (status, _) = platform.call("GET", "/git/demo/app.git/HEAD", &platform.admin_key, None).await;
    assert_eq!(status, 404);
}

/// A killed server's `git receive-pack` may end its work later: the branch has moved and nobody has said so.
#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_nobody_announced_is_found_when_somebody_pushes_again() {
    let platform = Platform::start().await;
    platform.post("/api/repos", json!({"name": "demo/app"})).await;
    platform.pipeline("demo/build", "demo/app").await;
    let remote = platform.clone_url("demo/app", &platform.admin_key);
    let work = working_copy(platform.folder.path(), &remote);
    let id = platform.get("/api/repos").await[0]["id"].as_str().unwrap().to_owned();
    let bare = platform.folder.path().join("repos").join(format!("{id}.git"));
    // Past the server, into the repository itself.
    let (good, output) = git(&work, &["push", "-q", bare.to_str().unwrap(), "main"]);
    assert!(good, "{output}");
    let (good, output) = git(&work, &["push", "origin", "main"]);
    assert!(good && output.contains("up-to-date"), "{output}");
    let found = wait_for_builds(&platform, 1).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["commitMessage"], "first");
}

/// The server was killed after Git took a push and before it was announced; then it starts, with its demo again.
#[tokio::test(flavor = "multi_thread")]
async fn seeding_again_does_not_swallow_what_was_pushed_meanwhile() {
    let platform = Platform::start().await;
    let files = [SeedFile { path: "file.txt", content: "seed", executable: false }];
    let seed = || platform.server.seed_repository(platform.account, "demo/app", "seed", &files);
    seed().await.unwrap();
    platform.pipeline("demo/build", "demo/app").await;
    let remote = platform.clone_url("demo/app", &platform.admin_key);
    assert!(git(platform.folder.path(), &["clone", "-q", &remote, "work"]).0);
    let work = platform.folder.path().join("work");
    commit(&work, "pushed");
    let id = platform.get("/api/repos").await[0]["id"].as_str().unwrap().to_owned();
    let bare = platform.folder.path().join("repos").join(format!("{id}.git"));
    assert!(git(&work, &["push", "-q", bare.to_str().unwrap(), "main"]).0);
    seed().await.unwrap();
    let found = wait_for_builds(&platform, 1).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["commitMessage"], "pushed");
}
