//! Rollouts on the embedded cluster, as others see them: routes, messages, metrics.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_runtime::RolloutsConfig;

use crate::rollouts::{HASH, Stage};

/// What is said is what was written: at the moment of each status the Ingress has the weight that it tells of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ingress_gets_the_weight_of_each_step_and_an_abort_takes_it_back() {
    let stage = Stage::new().await;
    stage.start();
    stage.service("stable").await;
    stage.service("canary").await;
    let backend = json!({"service": {"name": "stable", "port": {"number": 80}}});
    let rules = json!([{"host": "shop.example", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}]);
    stage
        .world
        .make(
            "networking.k8s.io/v1",
            "Ingress",
            "shop",
            "shop",
            json!({"spec": {"ingressClassName": "nginx", "rules": rules}}),
        )
        .await;
    let strategy = json!({"canary": {"stableService": "stable", "canaryService": "canary",
        "steps": [{"setWeight": 25}, {"pause": {}}, {"setWeight": 50}, {"pause": {}}],
        "trafficRouting": {"nginx": {"stableIngress": "shop"}}}});
    stage.rollout(4, strategy).await;
    let weight = async || {
        let ingress = stage.world.read("networking.k8s.io/Ingress", "shop", "web-shop-canary").await;
        let annotations = &ingress["metadata"]["annotations"];
        annotations["nginx.ingress.kubernetes.io/canary-weight"].as_str().unwrap_or_default().to_owned()
    };
    let selector =
        async |name: &str| stage.world.read("Service", "shop", name).await["spec"]["selector"][HASH].clone();
    let at_home = async |rollout: &Value| {
        assert_eq!(weight().await, "0", "it says Healthy: {rollout}");
        assert_eq!(rollout["status"]["canary"]["weights"]["canary"]["weight"], 0, "{rollout}");
        for service in ["stable", "canary"] {
            assert_eq!(selector(service).await, rollout["status"]["stableRS"], "{service}");
        }
    };
    let first = stage.until_phase("Healthy").await;
    at_home(&first).await;

    stage.image("two").await;
    let paused = stage.until_phase("Paused").await;
    assert_eq!((weight().await.as_str(), &paused["status"]["currentStepIndex"]), ("25", &json!(1)));
    assert_eq!(selector("canary").await, paused["status"]["currentPodHash"]);
    stage.patch(Some("status"), json!({"status": {"pauseConditions": null}})).await;
    stage.until("at the second pause", |rollout| rollout["status"]["currentStepIndex"] == 3).await;
    stage.until_phase("Paused").await;
    assert_eq!(weight().await, "50");
    stage.patch(Some("status"), json!({"status": {"pauseConditions": null}})).await;
    let healthy = stage.until_phase("Healthy").await;
    assert_eq!(healthy["status"]["stableRS"], paused["status"]["currentPodHash"]);
    at_home(&healthy).await;

    stage.image("three").await;
    stage.until_phase("Paused").await;
    assert_eq!(weight().await, "25");
    let began = Instant::now();
    stage.patch(Some("status"), json!({"status": {"abort": true}})).await;
    let aborted =
        stage.until("back", |rollout| rollout["status"]["canary"]["weights"]["canary"]["weight"] == 0).await;
    assert!(began.elapsed() < Duration::from_secs(10), "it took {:?}", began.elapsed());
    assert_eq!((weight().await.as_str(), &aborted["status"]["phase"]), ("0", &json!("Degraded")));
    assert_eq!(selector("canary").await, aborted["status"]["stableRS"]);
}

type Heard = Arc<Mutex<Vec<String>>>;

async fn hear(axum::extract::State(heard): axum::extract::State<Heard>, body: String) {
    heard.lock().expect("not poisoned").push(body);
}

/// Whoever subscribed hears of it, and dashboards that were drawn for Argo Rollouts find their names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_hear_of_a_rollout_and_metrics_have_the_names_of_argo_rollouts() {
    let stage = Stage::new().await;
    let heard = Heard::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let hook = listener.local_addr().expect("an address");
    let router = axum::Router::new().fallback(hear).with_state(heard.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let settings = json!({"data": {
        "service.webhook.hook": format!("url: http://{hook}/\n"),
        "template.said": "webhook:\n  hook:\n    method: POST\n    body: '{{.rollout.metadata.name}} {{.rollout.status.phase}} {{.recipient}}'\n",
        "trigger.on-rollout-completed": "- send: [said]\n",
        "trigger.on-rollout-paused": "- when: rollout.spec.replicas > 100\n  send: [said]\n",
    }});
    let namespace = stage.world.config().namespace.clone();
    stage.world.make("v1", "ConfigMap", &namespace, "argo-rollouts-notification-configmap", settings).await;
    let mut config = stage.world.config();
    let address = format!("127.0.0.1:{}", slipway_testkit::free_port());
    config.listen = Some(address.parse().expect("an address"));
    config.rollouts = Some(RolloutsConfig::default());
    stage.world.start_with(config);
    stage.rollout(2, json!({"canary": {"steps": [{"setWeight": 50}, {"pause": {}}]}})).await;
    stage
        .patch(
            None,
            json!({"metadata": {"annotations": {
            "notifications.argoproj.io/subscribe.on-rollout-completed.hook": "ada",
            "notifications.argoproj.io/subscribe.on-rollout-paused.hook": "ada"}}}),
        )
        .await;
    stage.until_phase("Healthy").await;
    stage.image("two").await;
    stage.until_phase("Paused").await;
    stage.patch(Some("status"), json!({"status": {"pauseConditions": null}})).await;
    stage.until_phase("Healthy").await;
    // The first version is complete too; whether somebody had subscribed by then is a matter of moments.
    let began = Instant::now();
    let said = |heard: &Heard| heard.lock().expect("not poisoned").clone();
    while said(&heard).is_empty() {
        assert!(began.elapsed() < slipway_testkit::PATIENCE, "nobody heard of it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(
        said(&heard).iter().all(|text| text.starts_with("web ") && text.ends_with(" ada")),
        "{:?}",
        said(&heard)
    );

    let metrics = async || {
        let answer = reqwest::get(format!("http://{address}/metrics")).await.expect("an answer");
        answer.text().await.expect("text")
    };
    let lines = [
        "notification_send_success{namespace=\"shop\",name=\"web\",type=\"Normal\",reason=\"RolloutCompleted\"}",
        "rollout_info{namespace=\"shop\",name=\"web\",strategy=\"canary\",traffic_router=\"\",phase=\"Completed\"} 1",
        "rollout_info_replicas_desired{namespace=\"shop\",name=\"web\"} 2",
        "rollout_info_replicas_available{namespace=\"shop\",name=\"web\"} 2",
        "rollout_phase{namespace=\"shop\",name=\"web\",strategy=\"canary\",phase=\"Completed\"} 1",
        "rollout_phase{namespace=\"shop\",name=\"web\",strategy=\"canary\",phase=\"Paused\"} 0",
        "rollout_reconcile_bucket{namespace=\"shop\",name=\"web\",le=\"0.01\"}",
        "rollout_reconcile_count{namespace=\"shop\",name=\"web\"}",
        "rollout_events_total{namespace=\"shop\",name=\"web\",type=\"Normal\",reason=\"RolloutPaused\"} 1",
    ];
    let began = Instant::now();
    loop {
        let text = metrics().await;
        let missing: Vec<&str> = lines.into_iter().filter(|line| !text.contains(line)).collect();
        if missing.is_empty() {
            break;
        }
        assert!(began.elapsed() < slipway_testkit::PATIENCE, "{missing:?} are not in\n{text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Of what is gone nothing is kept.
    let rollout = slipway_cluster::ObjectKey::new("argoproj.io", "Rollout", "shop", "web");
    stage
        .world
        .client
        .delete(&rollout, None, slipway_cluster::Propagation::Background, false)
        .await
        .expect("deleted");
    let began = Instant::now();
    while metrics().await.contains("name=\"web\"") {
        assert!(began.elapsed() < slipway_testkit::PATIENCE, "it is still there: {}", metrics().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Upstream's controller looks after AnalysisRuns and Experiments too: while it is alive, none of the three kinds is touched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_touched_while_the_controller_of_argo_rollouts_is_alive() {
    let stage = Stage::new().await;
    let world = &stage.world;
    world.make("v1", "Namespace", "", "argo-rollouts", json!({})).await;
    let renewed = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string();
    let lease =
        json!({"spec": {"holderIdentity": "upstream", "leaseDurationSeconds": 3600, "renewTime": renewed}});
    world
        .make("coordination.k8s.io/v1", "Lease", "argo-rollouts", "argo-rollouts-controller-lock", lease)
        .await;
    let metric = json!({"name": "rate", "provider": {"web": {"url": "http://127.0.0.1:9"}}});
    let pods =
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let template = json!({"name": "a", "selector": {"matchLabels": {"app": "a"}}, "template": pods});
    let of = "argoproj.io/v1alpha1";
    world.make(of, "AnalysisRun", "shop", "run", json!({"spec": {"metrics": [metric]}})).await;
    world.make(of, "Experiment", "shop", "try", json!({"spec": {"templates": [template]}})).await;
    stage.rollout(1, json!({"canary": {}})).await;
    let mut config = world.config();
    config.rollouts = Some(RolloutsConfig::default());
    let address = format!("127.0.0.1:{}", slipway_testkit::free_port());
    config.listen = Some(address.parse().expect("an address"));
    world.start_with(config);
    let started = Instant::now();
    loop {
        let answer = reqwest::get(format!("http://{address}/engines")).await;
        let engines: Value = match answer {
            Ok(answer) => answer.json().await.expect("JSON"),
            Err(_) => Value::Null,
        };
        let waits = |name: &str| {
            let mut all = engines.as_array().into_iter().flatten();
            all.any(|one| one["engine"] == name && one.to_string().contains("argo-rollouts-controller-lock"))
        };
        if ["rollouts", "analysis", "experiments"].into_iter().all(waits) {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{engines}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for (kind, name) in [("AnalysisRun", "run"), ("Experiment", "try"), ("Rollout", "web")] {
        let object = world.read(&format!("argoproj.io/{kind}"), "shop", name).await;
        assert!(object["status"].is_null(), "it is somebody else's: {object}");
    }
}

/// After a rename in Git the new Rollout finds Services that still name the old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_of_a_rollout_that_is_gone_are_taken_over_and_those_of_another_are_not() {
    const MANAGED_BY: &str = "argo-rollouts.argoproj.io/managed-by-rollouts";
    let stage = Stage::new().await;
    let world = &stage.world;
    for (name, owner) in [("active", "renamed"), ("preview", "other")] {
        let metadata = json!({"annotations": {MANAGED_BY: owner}});
        let spec = json!({"selector": {"app": "web", HASH: "old"}, "ports": [{"port": 80}]});
        world.make("v1", "Service", "shop", name, json!({"metadata": metadata, "spec": spec})).await;
    }
    let pods = json!({"metadata": {"labels": {"app": "other"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let other = json!({"spec": {"replicas": 0, "selector": {"matchLabels": {"app": "other"}}, "template": pods, "strategy": {"canary": {}}}});
    world.make("argoproj.io/v1alpha1", "Rollout", "shop", "other", other).await;
    stage.start();
    stage.rollout(1, json!({"blueGreen": {"activeService": "active", "previewService": "preview"}})).await;
    let invalid = stage.until_phase("Degraded").await;
    let message = invalid["status"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("service \"preview\" is managed by another Rollout (other)"), "{message}");
    assert!(!message.contains("renamed"), "{message}");
    stage.patch(None, json!({"spec": {"strategy": {"blueGreen": {"previewService": null}}}})).await;
    let healthy = stage.until_phase("Healthy").await;
    let service = world.read("Service", "shop", "active").await;
    assert_eq!(service["metadata"]["annotations"][MANAGED_BY], "web");
    assert_eq!(service["spec"]["selector"][HASH], healthy["status"]["stableRS"]);
}
