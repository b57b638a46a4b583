use std::time::Duration;

use futures::StreamExt;
use serde_json::json;

use crate::process::{Shared, anchored, commit, git, working_copy};

/// Two processes on PostgreSQL, RabbitMQ and Redis are one platform: what is done at one is seen at the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_push_to_one_process_is_built_logged_and_followed_through_the_other() {
    let shared = Shared::new();
    // Together, on an empty database: the schema, the key and the administrator are made once.
    let (one, two) = std::thread::scope(|scope| {
        let (one, two) = (scope.spawn(|| shared.start("")), scope.spawn(|| shared.start("")));
        (one.join().unwrap(), two.join().unwrap())
    });
    let keys: Vec<_> = [&one.first_key, &two.first_key].into_iter().flatten().collect();
    assert_eq!(keys.len(), 1, "one administrator");
    let key = keys[0].clone();
    let runner = one.runner_key(&key, "r1").await;
    one.repository_with_pipeline(&key).await;

    let sync = json!({"runner": "r1", "version": "1", "executor": "host", "free": 1, "running": [], "waitMs": 20000});
    let poll = two.good("POST", "/api/agent/runner/sync", &runner, Some(sync));
    let work = working_copy(shared.folder.path());
    commit(&work, "first");
    let push = async {
        // The poll is held by then; should it not be, it finds the build at once.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let remote = one.remote(&key);
        tokio::task::spawn_blocking(move || git(&work, &["push", &remote, "main"])).await.unwrap()
    };
    let (answer, (pushed, output)) = tokio::join!(poll, push);
    assert!(pushed, "{output}");
    let taken = &answer["taken"][0];
    let (id, epoch) = (taken["id"].as_str().expect("a build was taken"), taken["epoch"].as_i64().unwrap());

    // Followed at two while it grows at one: through Redis.
    let stream = reqwest::Client::new()
        .get(format!("{}/api/builds/{id}/logs/stream", two.url))
        .header("authorization", &key)
        .send()
        .await
        .unwrap();
    assert_eq!(stream.status(), 200);
    let mut events = stream.bytes_stream();
    let piece = json!({"epoch": epoch, "pieces": [{"step": "hello", "offset": 0, "text": "it grows\n"}]});
    one.good("POST", &format!("/api/agent/runner/builds/{id}/logs"), &runner, Some(piece)).await;
    let mut seen = String::new();
    while !seen.contains("it grows") {
        let next = tokio::time::timeout(slipway_testkit::PATIENCE, events.next())
            .await
            .expect("the log is followed");
        seen += &String::from_utf8_lossy(&next.expect("the stream goes on").unwrap());
    }
    let report = json!({"epoch": epoch, "revision": 1, "status": "success", "steps": []});
    one.good("PUT", &format!("/api/agent/runner/builds/{id}/state"), &runner, Some(report)).await;
    while !seen.contains("event: end") {
        let next =
            tokio::time::timeout(slipway_testkit::PATIENCE, events.next()).await.expect("the end is told");
        seen += &String::from_utf8_lossy(&next.expect("the stream goes on").unwrap());
    }
    let builds = two.builds(&key).await;
    assert_eq!((builds.len(), &builds[0]["status"]), (1, &json!("success")));

    // One stops: the other leads at once, because leases are given back.
    one.good("POST", "/api/team", &key, Some(json!({"name": "last-words"}))).await;
    let (took, code) = one.stop();
    assert_eq!(code, Some(0));
    // What it wrote last is anchored, whoever led until then.
    let total = two.good("GET", "/api/audit", &key, None).await["total"].as_i64().unwrap();
    assert!(anchored(&shared.data()).contains(&total), "record {total} is not anchored");
    let verified = two.good("GET", "/api/audit/verify", &key, None).await;
    assert_eq!(verified["ok"], true, "{verified}");
    assert!(took < Duration::from_secs(60), "stopping took {took:?}");
    let work = shared.folder.path().join("work");
    commit(&work, "second");
    let (pushed, output) = git(&work, &["push", &two.remote(&key), "main"]);
    assert!(pushed, "{output}");
    let builds = two.wait_for_builds(&key, 2, slipway_testkit::PATIENCE).await;
    assert_eq!(builds.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_answers_its_own_roles_and_names_the_others() {
    let shared = Shared::new();
    let api = shared.start("pipelines-api,runtime-manager");
    let worker = shared.start("event-handler,pipeline-manager,cron-executor");
    let key = api.first_key.clone().expect("it started first");
    let (status, answer) = worker.call("GET", "/api/pipelines", &key, None).await;
    assert_eq!(status, 421, "{answer}");
    let said = answer["message"].as_str().unwrap();
    assert!(said.contains("event-handler") && said.contains("served by pipelines-api"), "{said}");
    assert_eq!(worker.call("GET", "/healthz", &key, None).await.0, 200);
    let (status, _) =
        api.call("POST", "/2.0/api/graphql", &key, Some(json!({"query": "{__typename}"}))).await;
    assert_eq!(status, 421);
    // What one takes the other works on.
    api.repository_with_pipeline(&key).await;
    let work = working_copy(shared.folder.path());
    commit(&work, "first");
    let (pushed, output) = git(&work, &["push", &api.remote(&key), "main"]);
    assert!(pushed, "{output}");
    assert_eq!(api.wait_for_builds(&key, 1, slipway_testkit::PATIENCE).await.len(), 1);
}
