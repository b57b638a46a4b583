//! Registries that announce images: which builds they start, and who may announce.

use serde_json::{Value, json};

use crate::pipeline_attacks::sync;
use crate::support::Platform;
use slipway_store::identity::Subject;

/// Makes an event of `acme/app`, connects the pipeline and gives back the address to announce at, without its origin.
async fn connected(platform: &Platform, kind: &str, filters: Value) -> (String, String) {
    let values = json!({"namespace": "acme", "name": "app", "action": "push"});
    let event = json!({"type": "registry", "kind": kind, "secret": "!generate", "values": values});
    let uri = platform.post("/api/hermes/events", event).await.as_str().unwrap().to_owned();
    let twice = uri.replace(':', "%253A");
    let pipeline = platform.get("/api/pipelines/demo%2Fbuild").await["metadata"]["id"].clone();
    let path = format!("/api/hermes/triggers/{twice}/{}", pipeline.as_str().unwrap());
    platform.post(&path, json!({"filters": filters})).await;
    let shown = platform.get(&format!("/api/hermes/events/{twice}/endpoint")).await;
    let endpoint = shown["endpoint"].as_str().unwrap();
    (uri, endpoint[endpoint.find("/nomios").unwrap()..].to_owned())
}

async fn builds(platform: &Platform) -> Vec<Value> {
    platform.get("/api/workflow?limit=50").await["workflows"]["docs"].as_array().unwrap().clone()
}

#[tokio::test]
async fn an_announced_image_starts_a_build_that_knows_it_once() {
    let platform = Platform::start().await;
    platform.pipeline("demo/build", "demo/app").await;
    let bodies = [
        (
            "dockerhub",
            json!({"repository": {"repo_name": "acme/app"}, "push_data": {"tag": "v7", "pusher": "ada", "pushed_at": 1_700_000_000}}),
        ),
        ("quay", json!({"repository": "acme/app", "updated_tags": ["v7"]})),
        ("azure", json!({"target": {"repository": "acme/app", "tag": "v7"}})),
        ("jfrog", json!({"data": {"image_name": "acme/app", "tag": "v7"}})),
    ];
    for (number, (kind, body)) in bodies.into_iter().enumerate() {
        let (uri, at) = connected(&platform, kind, json!({"tag": "/^v[0-9]+$/"})).await;
        for (round, started) in [(0, 1), (1, 0)] {
            let (status, answer) = platform.call("POST", &at, "", Some(body.clone())).await;
            assert_eq!((status, &answer["started"]), (200, &json!(started)), "{kind} {round}: {answer}");
        }
        crate::webhooks::until_builds(&platform, number + 1).await;
        assert_eq!(builds(&platform).await.len(), number + 1, "{kind}: a repetition starts nothing");
        // A tag that the filter does not want, and an image that nobody waits for.
        let text = body.to_string();
        let (status, answer) =
            platform.call("POST", &at, "", serde_json::from_str(&text.replace("v7", "nightly")).ok()).await;
        assert_eq!((status, &answer["started"]), (200, &json!(0)), "{kind}: {answer}");
        let other = serde_json::from_str(&text.replace("acme/app", "acme/other")).ok();
        assert_eq!(platform.call("POST", &at, "", other).await.0, 404, "{kind}");
        // Whoever does not know the secret of the event starts nothing.
        let wrong = format!("{}secret=wrong", at.split("secret=").next().unwrap());
        assert_eq!(platform.call("POST", &wrong, "", Some(body.clone())).await.0, 401, "{kind}");
        assert_eq!(builds(&platform).await.len(), number + 1, "{kind}");
        // What the build is given.
        let key = platform.agent(Subject::Runner, &format!("r{number}")).await;
        let taken = sync(&platform, &key, &format!("r{number}"), 1, json!([])).await["taken"][0].clone();
        let variables: Vec<&Value> = taken["variables"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|layer| layer["variables"].as_array().unwrap())
            .collect();
        let value =
            |name: &str| variables.iter().find(|one| one["key"] == name).map(|one| one["value"].clone());
        assert_eq!(value("TAG"), Some(json!("v7")), "{kind}: {taken}");
        assert_eq!((value("NAME"), value("NAMESPACE")), (Some(json!("app")), Some(json!("acme"))));
        assert_eq!(value("EVENT"), Some(json!(uri)));
        // By their published names too.
        let published = [("EVENT_TAG", "v7"), ("EVENT_NAME", "app"), ("EVENT_NAMESPACE", "acme")];
        for (name, expected) in published {
            assert_eq!(value(name), Some(json!(expected)), "{kind}: {name}");
        }
        let pusher = if kind == "dockerhub" { "ada" } else { "" };
        assert_eq!(value("EVENT_PUSHER"), Some(json!(pusher)), "{kind}");
        assert!(value("EVENT_PUSHED_AT").unwrap().as_str().unwrap().contains('T'), "{kind}");
        let payload: Value = serde_json::from_str(value("EVENT_PAYLOAD").unwrap().as_str().unwrap()).unwrap();
        assert_eq!(payload, body, "{kind}");
    }
}
