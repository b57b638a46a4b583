//! What the engine serves by itself: metrics, webhooks, and messages to people.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use base64::Engine as _;
use serde_json::{Value, json};

use crate::world::{World, automated, config_map};

fn data(entries: &[(&str, &str)]) -> Value {
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    entries.iter().map(|(key, value)| ((*key).to_owned(), Value::from(encode(value)))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_brings_a_push_at_once_and_metrics_have_the_known_names() {
    let world = World::new().await;
    let first = world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    world
        .make(
            "v1",
            "Secret",
            "argocd",
            "argocd-secret",
            json!({"data": data(&[("webhook.gitlab.secret", "canary")])}),
        )
        .await;
    world.application("shop", automated()).await;
    let mut config = world.config();
    let address = format!("127.0.0.1:{}", slipway_testkit::free_port());
    config.listen = Some(address.parse().expect("an address"));
    world.start_with(config);
    world.until_synced("shop", &first).await;
    let second = world.commit(&[("app/a.yaml", &config_map("a", "2"))]);
    let push = json!({"object_kind": "push", "ref": "refs/heads/main", "project": {"git_http_url": world.url()},
        "commits": [{"modified": ["app/a.yaml"]}], "total_commits_count": 1});
    let client = reqwest::Client::new();
    let send = |token: &'static str| {
        let request =
            client.post(format!("http://{address}/api/webhook")).header("x-gitlab-event", "Push Hook");
        request.header("x-gitlab-token", token).json(&push).send()
    };
    assert_eq!(send("wrong").await.expect("an answer").status(), 401);
    assert_eq!(send("canary").await.expect("an answer").status(), 200);
    world.until_synced("shop", &second).await;
    // By a client of its own: a connection that is closed while its body is still written is not one for the next question.
    let huge = reqwest::Client::new().post(format!("http://{address}/api/webhook"));
    let huge = huge.body(vec![b' '; 26 << 20]).send().await;
    assert!(huge.map_or(true, |answer| answer.status() == 413), "a giant body is not read");

    let text = client
        .get(format!("http://{address}/metrics"))
        .send()
        .await
        .expect("an answer")
        .text()
        .await
        .expect("text");
    for line in [
        "argocd_app_info{namespace=\"argocd\",name=\"shop\",project=\"default\",autosync_enabled=\"true\",",
        "sync_status=\"Synced\",health_status=\"Healthy\",operation=\"\"} 1",
        "argocd_app_sync_total{namespace=\"argocd\",name=\"shop\",project=\"default\",dest_server=\"https://kubernetes.default.svc\",phase=\"Succeeded\",dry_run=\"false\"} 2",
        "argocd_app_reconcile_bucket{namespace=\"argocd\",dest_server=\"https://kubernetes.default.svc\",le=\"+Inf\"}",
        "argocd_cluster_info{server=\"https://kubernetes.default.svc\",k8s_version=",
        "argocd_cluster_api_resource_objects{",
        "argocd_cluster_events_total{",
        "argocd_git_request_total ",
        "argocd_webhook_requests_total{provider=\"gitlab\",accepted=\"true\"} 1",
        "workqueue_depth{name=\"app_reconciliation_queue\"}",
        "slipway_engine_failing{engine=\"applications\"} 0",
        "slipway_engine_runs_total{engine=\"application-sets\"} 0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("canary"));

    let engines = client.get(format!("http://{address}/engines")).send().await.expect("an answer");
    let engines: Value = engines.json().await.expect("JSON");
    let applications = &engines[1];
    assert_eq!(applications["engine"], "applications", "{engines}");
    assert_eq!(applications["kind"], "argoproj.io/Application");
    assert!(applications["runs"].as_u64() > Some(1) && applications["lastRun"].is_string(), "{engines}");
}

type Heard = Arc<Mutex<Vec<(String, Option<String>, String)>>>;

async fn hear(State(heard): State<Heard>, uri: Uri, headers: HeaderMap, body: String) -> &'static str {
    let authorization = headers.get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned);
    heard.lock().expect("not poisoned").push((uri.path().to_owned(), authorization, body));
    "{\"ok\": true}"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_hear_of_a_deployment_once() {
    let world = World::new().await;
    let heard = Heard::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let router = Router::new().fallback(hear).with_state(heard.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let settings = json!({"data": {
        "service.slack": format!("token: $slack-token\napiURL: http://{address}/slack\n"),
        "service.webhook.ci": format!("url: http://{address}/ci\n"),
        "template.deployed": "message: \"{{.app.metadata.name}} is at {{.app.status.sync.revision}}\"\nwebhook:\n  ci:\n    method: POST\n    body: '{{.app.status.sync.revision}}'\n",
        "trigger.on-deployed": "- when: app.status.operationState.phase in ['Succeeded'] and app.status.health.status == 'Healthy'\n  oncePer: app.status.sync.revision\n  send: [deployed]\n",
        "subscriptions": "- recipients: [ci]\n  triggers: [on-deployed]\n",
    }});
    world.make("v1", "ConfigMap", "argocd", "argocd-notifications-cm", settings).await;
    let secret = json!({"data": data(&[("slack-token", "canary")])});
    world.make("v1", "Secret", "argocd", "argocd-notifications-secret", secret).await;
    let first = world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    world.application("shop", automated()).await;
    let subscribe = json!({"notifications.argoproj.io/subscribe.on-deployed.slack": "ops"});
    world.patch_app("shop", json!({"metadata": {"annotations": subscribe}})).await;
    world.start();
    let told = |app: &Value, revision: &str| {
        let state =
            app["metadata"]["annotations"]["notified.notifications.argoproj.io"].as_str().unwrap_or_default();
        state.matches(revision).count() == 2
    };
    world.until("shop", "told", |app| told(app, &first)).await;
    let second = world.commit(&[("app/a.yaml", &config_map("a", "2"))]);
    world.refresh("shop").await;
    world.until("shop", "told again", |app| told(app, &second)).await;
    let mut said = heard.lock().expect("not poisoned").clone();
    said.sort();
    let slack = |revision: &str| {
        let body = json!({"channel": "ops", "text": format!("shop is at {revision}")}).to_string();
        ("/slack/chat.postMessage".to_owned(), Some("Bearer canary".to_owned()), body)
    };
    let mut expected = vec![
        ("/ci".to_owned(), None, first.clone()),
        ("/ci".to_owned(), None, second.clone()),
        slack(&first),
        slack(&second),
    ];
    expected.sort();
    assert_eq!(said, expected);
}
