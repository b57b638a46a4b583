//! Which runner a build is for.

use serde_json::{Value, json};
use slipway_store::identity::Subject;

use crate::support::Platform;

/// A runner's name is the runtime environment that pipelines ask for.
#[tokio::test]
async fn a_build_goes_to_the_runner_that_its_pipeline_names() {
    let platform = Platform::start().await;
    let (east, west) =
        (platform.agent(Subject::Runner, "east").await, platform.agent(Subject::Runner, "west").await);
    let sync = async |key: &str, runner: &str, running: Value| {
        let body = json!({"runner": runner, "version": "1", "executor": "host", "free": 5, "running": running, "waitMs": 0});
        let (status, answer) = platform.call("POST", "/api/agent/runner/sync", key, Some(body)).await;
        assert_eq!(status, 200, "{answer}");
        let taken = answer["taken"].as_array().unwrap();
        taken.iter().map(|build| build["pipelineName"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (key, name) in [(&east, "east"), (&west, "west")] {
        assert!(sync(key, name, json!([])).await.is_empty());
    }
    let mut ids = Vec::new();
    for (name, runtime) in [("r/east", "east"), ("r/gone", "never-was-here"), ("r/west", "west")] {
        let spec =
            json!({"steps": {"s": {"image": "x"}}, "runtimeEnvironment": {"name": runtime, "cpu": "400m"}});
        platform.post("/api/pipelines", json!({"metadata": {"name": name}, "spec": spec})).await;
        let path = format!("/api/pipelines/run/{}", name.replace('/', "%2F"));
        ids.push(platform.post(&path, json!({})).await.as_str().unwrap().to_owned());
    }
    assert_eq!(sync(&west, "west", json!([])).await, ["r/gone", "r/west"]);
    let waits = platform.get(&format!("/api/builds/{}", ids[0])).await.to_string();
    assert!(waits.contains("its runner `east` has no free slot"), "{waits}");
    let held = json!([{"id": ids[1], "epoch": 1}, {"id": ids[2], "epoch": 1}]);
    assert!(sync(&west, "west", held).await.is_empty());
    assert_eq!(sync(&east, "east", json!([])).await, ["r/east"]);
    // One that its runner let go waits for it; when the runner is removed, others go on with it.
    assert!(sync(&west, "west", json!([])).await.iter().all(|name| name != "r/east"));
    platform.pass(24 * 60 * 60 * 1000);
    assert!(sync(&west, "west", json!([])).await.iter().all(|name| name != "r/east"));
    let (status, said) = platform.call("DELETE", "/api/runners/east", &platform.admin_key, None).await;
    assert_eq!(status, 200, "{said}");
    assert!(sync(&west, "west", json!([])).await.contains(&"r/east".to_owned()));
}
