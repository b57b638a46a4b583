//! Rollouts on the embedded cluster. Pods are nobody's to schedule; the test says when they are ready, as a kubelet would.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};
use slipway_cluster::{Cluster, ClusterConfig, ObjectKey, WriteOptions};
use slipway_runtime::RolloutsConfig;

use crate::crash::Process;
use crate::world::World;

pub(crate) const HASH: &str = "rollouts-pod-template-hash";

pub(crate) struct Stage {
    pub(crate) world: World,
    kubelet: Kubelet,
}

/// Marks pods as ready, and counts those that are, every so often.
struct Kubelet {
    fewest: Arc<AtomicI64>,
    counts: Arc<AtomicBool>,
}

impl Kubelet {
    async fn start(world: &World) -> Self {
        let kubelet =
            Self { fewest: Arc::new(AtomicI64::new(i64::MAX)), counts: Arc::new(AtomicBool::new(false)) };
        let config = ClusterConfig::new(Some(world.root.path().join("kubeconfig")));
        let cluster = Cluster::connect(config).await.expect("connected");
        let (fewest, counts, stop) = (kubelet.fewest.clone(), kubelet.counts.clone(), world.stop.clone());
        tokio::spawn(async move {
            while !stop.is_cancelled() {
                let ready = look(&cluster).await;
                if counts.load(Ordering::SeqCst) {
                    fewest.fetch_min(ready, Ordering::SeqCst);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        kubelet
    }

    /// From now on the fewest pods that are ready at once are remembered.
    fn watch(&self) {
        self.counts.store(true, Ordering::SeqCst);
    }

    fn fewest(&self) -> i64 {
        self.fewest.load(Ordering::SeqCst)
    }
}

/// Makes pods ready that are not, those of experiments too; gives how many of the Rollout's were.
async fn look(cluster: &Cluster) -> i64 {
    let kind = ObjectKey::new("", "Pod", "shop", "");
    let pods = cluster.list_labelled(&kind, HASH).await.expect("listed");
    let mut ready = 0;
    for pod in pods {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if pod["metadata"]["deletionTimestamp"].is_string() {
            continue;
        }
        if conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True") {
            ready += i64::from(pod["metadata"]["labels"]["app"] == "web");
            continue;
        }
        if pod["spec"]["containers"][0]["image"].as_str().is_some_and(|image| image.starts_with("broken")) {
            continue;
        }
        let target = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": pod["metadata"]["name"]}});
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}]}});
        // It may be gone by now.
        let _ = cluster.merge_subresource(&target, "status", &status).await;
    }
    ready
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let world = World::new().await;
        world.client.ensure_definitions(&slipway_crd::rollout_manifests()).await.expect("definitions");
        world.make("v1", "Namespace", "", "shop", json!({})).await;
        let kubelet = Kubelet::start(&world).await;
        Self { world, kubelet }
    }

    pub(crate) fn start(&self) {
        let mut config = self.world.config();
        config.rollouts = Some(RolloutsConfig::default());
        self.world.start_with(config);
    }

    pub(crate) async fn service(&self, name: &str) {
        let spec = json!({"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
        self.world.make("v1", "Service", "shop", name, spec).await;
    }

    pub(crate) async fn rollout(&self, replicas: i64, strategy: Value) {
        let spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "strategy": strategy, "template": template("one")});
        self.world.make("argoproj.io/v1alpha1", "Rollout", "shop", "web", json!({"spec": spec})).await;
    }

    pub(crate) async fn patch(&self, subresource: Option<&str>, patch: Value) {
        let target = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"namespace": "shop", "name": "web"}});
        match subresource {
            Some(name) => self.world.client.merge_subresource(&target, name, &patch).await.map(drop),
            None => self.world.client.merge(&target, &patch, WriteOptions::default()).await.map(drop),
        }
        .expect("patched");
    }

    pub(crate) async fn image(&self, image: &str) {
        self.patch(None, json!({"spec": {"template": template(image)}})).await;
    }

    async fn read(&self) -> Value {
        self.world.read("argoproj.io/Rollout", "shop", "web").await
    }

    pub(crate) async fn until(&self, what: &str, question: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let rollout = self.read().await;
            if question(&rollout) {
                return rollout;
            }
            let late = started.elapsed() > slipway_testkit::PATIENCE;
            assert!(
                !late,
                "it never was {what}: {}",
                serde_json::to_string_pretty(&rollout).unwrap_or_default()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn until_phase(&self, phase: &str) -> Value {
        self.until(phase, |rollout| {
            let seen = rollout["status"]["observedGeneration"].as_str()
                == rollout["metadata"]["generation"].as_i64().map(|n| n.to_string()).as_deref();
            let resumed = rollout["status"]["controllerPause"] != true
                || rollout["status"]["pauseConditions"].is_array();
            seen && resumed && rollout["status"]["phase"] == phase
        })
        .await
    }

    /// Images and how many pods each version should have, versions without any left out.
    async fn sizes(&self) -> Vec<(String, i64)> {
        let kind = ObjectKey::new("apps", "ReplicaSet", "shop", "");
        let sets = self.world.client.list_labelled(&kind, HASH).await.expect("listed");
        let mut sizes: Vec<(String, i64)> = sets
            .iter()
            .map(|set| {
                let image =
                    set["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
                (image.to_owned(), set["spec"]["replicas"].as_i64().unwrap_or(0))
            })
            .filter(|(_, size)| *size > 0)
            .collect();
        sizes.sort();
        sizes
    }
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"schedulerName": "nobody", "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "web", "image": image}]}})
}

fn pauses() -> Value {
    json!({"canary": {"maxSurge": 1, "maxUnavailable": 0, "steps": [{"setWeight": 25}, {"pause": {}}, {"setWeight": 50}]}})
}

fn some(sizes: &[(&str, i64)]) -> Vec<(String, i64)> {
    sizes.iter().map(|(image, size)| ((*image).to_owned(), *size)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_pauses_is_promoted_and_another_is_aborted_within_seconds() {
    let stage = Stage::new().await;
    stage.start();
    stage.rollout(4, pauses()).await;
    let first = stage.until_phase("Healthy").await;
    assert_eq!(first["metadata"]["annotations"]["rollout.argoproj.io/revision"], "1");
    assert_eq!(first["status"]["currentStepIndex"], 3);
    stage.kubelet.watch();

    stage.image("two").await;
    let paused = stage.until_phase("Paused").await;
    assert_eq!(paused["status"]["pauseConditions"][0]["reason"], "CanaryPauseStep");
    assert_eq!(stage.sizes().await, some(&[("one", 3), ("two", 1)]));
    stage.patch(Some("status"), json!({"status": {"pauseConditions": null}})).await;
    let healthy = stage.until_phase("Healthy").await;
    assert_eq!(healthy["status"]["stableRS"], healthy["status"]["currentPodHash"]);
    assert_eq!(stage.sizes().await, some(&[("two", 4)]));

    stage.image("three").await;
    stage.until_phase("Paused").await;
    let began = Instant::now();
    stage.patch(Some("status"), json!({"status": {"abort": true}})).await;
    let aborted = stage
        .until("back at the stable version", |rollout| {
            rollout["status"]["phase"] == "Degraded" && rollout["status"]["availableReplicas"] == 4
        })
        .await;
    stage
        .until("without pods of the aborted version", |rollout| {
            rollout["status"]["updatedReplicas"].is_null()
        })
        .await;
    assert!(began.elapsed() < Duration::from_secs(10), "it took {:?}", began.elapsed());
    assert_eq!(aborted["status"]["message"], "RolloutAborted: Rollout aborted update to revision 3");
    assert_eq!(stage.sizes().await, some(&[("two", 4)]));
    assert!(stage.kubelet.fewest() >= 4, "{} pods were ready", stage.kubelet.fewest());

    let events =
        stage.world.client.list_labelled(&ObjectKey::new("", "Event", "shop", ""), "").await.expect("listed");
    let reasons: Vec<&str> = events.iter().filter_map(|event| event["reason"].as_str()).collect();
    for reason in [
        "RolloutUpdated",
        "NewReplicaSetCreated",
        "ScalingReplicaSet",
        "RolloutPaused",
        "RolloutStepCompleted",
        "RolloutCompleted",
        "RolloutAborted",
    ] {
        assert!(reasons.contains(&reason), "{reason} is missing in {reasons:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blue_green_switch_waits_for_a_person_and_the_services_follow() {
    let stage = Stage::new().await;
    stage.start();
    let strategy = json!({"blueGreen": {"activeService": "active", "previewService": "preview", "autoPromotionEnabled": false, "scaleDownDelaySeconds": 1}});
    stage.rollout(2, strategy).await;
    // The Services come later: it says what is missing, and goes on.
    let invalid = stage.until_phase("Degraded").await;
    assert!(
        invalid["status"]["message"]
            .as_str()
            .is_some_and(|text| text.contains("service \"active\" not found")),
        "{invalid}"
    );
    stage.service("active").await;
    stage.service("preview").await;
    let first = stage.until_phase("Healthy").await;
    let old = first["status"]["stableRS"].clone();
    let selector =
        async |name: &str| stage.world.read("Service", "shop", name).await["spec"]["selector"][HASH].clone();
    assert_eq!(selector("active").await, old);
    stage.image("two").await;
    let paused = stage.until_phase("Paused").await;
    assert_eq!(selector("active").await, old);
    assert_eq!(selector("preview").await, paused["status"]["currentPodHash"]);
    stage.patch(Some("status"), json!({"status": {"pauseConditions": null}})).await;
    let healthy = stage.until_phase("Healthy").await;
    assert_eq!(selector("active").await, healthy["status"]["currentPodHash"]);
    assert_eq!(healthy["status"]["blueGreen"]["activeSelector"], healthy["status"]["stableRS"]);
    let started = Instant::now();
    while stage.sizes().await != some(&[("two", 2)]) {
        assert!(
            started.elapsed() < slipway_testkit::PATIENCE,
            "the old version stays: {:?}",
            stage.sizes().await
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_looks_after_its_own_instance_alone() {
    let stage = Stage::new().await;
    let mut config = stage.world.config();
    config.rollouts = Some(RolloutsConfig { instance_id: "blue".into() });
    stage.world.start_with(config);
    stage.rollout(1, json!({"canary": {}})).await;
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "strategy": {"canary": {}}, "template": template("one")});
    let labels = json!({"argo-rollouts.argoproj.io/controller-instance-id": "blue"});
    let ours = json!({"metadata": {"labels": labels}, "spec": spec});
    stage.world.make("argoproj.io/v1alpha1", "Rollout", "shop", "ours", ours).await;
    let started = Instant::now();
    while stage.world.read("argoproj.io/Rollout", "shop", "ours").await["status"]["phase"] != "Healthy" {
        assert!(started.elapsed() < slipway_testkit::PATIENCE, "its own is not looked after");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(stage.read().await["status"].is_null(), "it is somebody else's");
}

/// Answers with these texts by path; a path that is not there is a 404.
async fn answers(texts: &'static [(&'static str, &'static str)]) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let router = texts.iter().fold(axum::Router::new(), |router, (path, text)| {
        let answer = move |headers: axum::http::HeaderMap| async move {
            // Only who knows the secret is answered.
            let known = headers.get("authorization").is_some_and(|value| value == "Bearer hunter2");
            if known { Ok(*text) } else { Err(axum::http::StatusCode::UNAUTHORIZED) }
        };
        router.route(path, axum::routing::any(answer))
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_analysis_lets_a_good_version_pass_and_sends_a_bad_one_back() {
    let stage = Stage::new().await;
    stage.start();
    let good = r#"{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"0.97"]}]}}"#;
    let nan = r#"{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"NaN"]}]}}"#;
    let url = answers(Box::leak(Box::new([
        ("/good/api/v1/query", good),
        ("/nan/api/v1/query", nan),
        ("/web", r#"{"rate": 0.98}"#),
    ])))
    .await;
    stage
        .world
        .make(
            "v1",
            "Secret",
            "shop",
            "token",
            json!({"stringData": {"key": "hunter2"}, "data": {"key": "aHVudGVyMg=="}}),
        )
        .await;
    let header = json!([{"key": "Authorization", "value": "Bearer {{args.token}}"}]);
    let metric = |name: &str, provider: Value| json!({"name": name, "provider": provider});
    let mut rate = metric(
        "rate",
        json!({"prometheus": {"address": format!("{url}/{{{{args.source}}}}"), "query": "up{job=\"a b\"}", "headers": header}}),
    );
    rate["successCondition"] = "result[0] >= 0.95".into();
    let mut web = metric(
        "web",
        json!({"web": {"url": format!("{url}/web"), "headers": header, "jsonPath": "{$.rate}"}}),
    );
    web["successCondition"] = "result > 0.9".into();
    let secret = json!({"name": "token", "valueFrom": {"secretKeyRef": {"name": "token", "key": "key"}}});
    let spec = json!({"args": [{"name": "source"}, secret], "metrics": [rate, web]});
    stage.world.make("argoproj.io/v1alpha1", "AnalysisTemplate", "shop", "rate", json!({"spec": spec})).await;
    let field = json!({"fieldRef": {"fieldPath": "metadata.labels['source']"}});
    let analysis =
        json!({"templates": [{"templateName": "rate"}], "args": [{"name": "source", "valueFrom": field}]});
    let strategy = json!({"canary": {"maxSurge": 1, "maxUnavailable": 0, "steps": [{"setWeight": 50}, {"analysis": analysis}]}});
    stage.rollout(2, strategy).await;
    stage.patch(None, json!({"metadata": {"labels": {"source": "good"}}})).await;
    stage.until_phase("Healthy").await;
    stage.image("two").await;
    let healthy = stage.until_phase("Healthy").await;
    let name = format!("web-{}-2-1", healthy["status"]["stableRS"].as_str().expect("a hash"));
    let run = stage.world.read("argoproj.io/AnalysisRun", "shop", &name).await;
    assert_eq!(run["status"]["phase"], "Successful", "{run}");
    assert_eq!(run["status"]["metricResults"][0]["measurements"][0]["value"], "[0.97]");
    assert!(!run.to_string().contains("hunter2"), "the secret stays where it is");

    stage
        .patch(
            None,
            json!({"metadata": {"labels": {"source": "nan"}}, "spec": {"template": template("three")}}),
        )
        .await;
    let aborted = stage
        .until("sent back", |rollout| {
            rollout["status"]["abort"] == true && rollout["status"]["availableReplicas"] == 2
        })
        .await;
    let message = aborted["status"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("Step-based analysis phase error/failed: Metric \"rate\" assessed Failed due to failed (1) > failureLimit (0)"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_is_carried_on_whatever_write_the_engine_dies_before() {
    let stage = Stage::new().await;
    stage.rollout(4, json!({"canary": {"maxSurge": 1, "maxUnavailable": 1, "steps": [{"setWeight": 25}, {"setWeight": 50}]}})).await;
    let dies = |at: u64| {
        Process::start_logged(
            &stage.world,
            "engine.log",
            &[
                ("SLIPWAY_ROLLOUTS", ""),
                ("SLIPWAY_ONLY", "rollouts"),
                ("SLIPWAY_DIE_BEFORE_WRITE", &at.to_string()),
            ],
        )
    };
    let run = async |image: &str, deaths: &mut u64| {
        let started = Instant::now();
        let mut process = dies(1 + *deaths % 7);
        loop {
            let rollout = stage.read().await;
            let now = rollout["spec"]["template"]["spec"]["containers"][0]["image"] == image;
            if now && rollout["status"]["phase"] == "Healthy" && stage.sizes().await == some(&[(image, 4)]) {
                return;
            }
            if process.ended() {
                *deaths += 1;
                process = dies(1 + *deaths % 7);
            }
            assert!(started.elapsed() < Duration::from_secs(240), "{image} never was healthy: {rollout}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut deaths = 0;
    run("one", &mut deaths).await;
    stage.kubelet.watch();
    for image in ["two", "three"] {
        stage.image(image).await;
        run(image, &mut deaths).await;
    }
    assert!(deaths >= 5, "it died {deaths} times");
    assert!(stage.kubelet.fewest() >= 3, "{} pods were ready", stage.kubelet.fewest());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_runs_an_experiment_and_goes_on_when_its_time_is_over() {
    let stage = Stage::new().await;
    stage.start();
    let templates = json!([{"name": "baseline", "specRef": "stable", "metadata": {"labels": {"app": "baseline"}}, "selector": {"matchLabels": {"app": "baseline"}}},
        {"name": "candidate", "specRef": "canary", "metadata": {"labels": {"app": "candidate"}}, "selector": {"matchLabels": {"app": "candidate"}}}]);
    let step = json!({"experiment": {"duration": "1s", "scaleDownDelaySeconds": 0, "templates": templates}});
    let strategy = json!({"canary": {"maxSurge": 1, "maxUnavailable": 0, "steps": [step, {"setWeight": 50}, {"pause": {}}]}});
    stage.rollout(2, strategy).await;
    stage.until_phase("Healthy").await;
    stage.image("two").await;
    let paused = stage.until_phase("Paused").await;
    assert_eq!(paused["status"]["currentStepIndex"], 2);
    let name = format!("web-{}-2-0", paused["status"]["currentPodHash"].as_str().expect("a hash"));
    let experiment = stage.world.read("argoproj.io/Experiment", "shop", &name).await;
    assert_eq!(experiment["status"]["phase"], "Successful", "{experiment}");
    let images: Vec<&Value> = (0..2)
        .map(|at| &experiment["spec"]["templates"][at]["template"]["spec"]["containers"][0]["image"])
        .collect();
    assert_eq!(images, [&json!("one"), &json!("two")]);
    let set = stage.world.read("apps/ReplicaSet", "shop", &format!("{name}-baseline")).await;
    assert_eq!(set["metadata"]["annotations"]["experiment.argoproj.io/template-name"], "baseline");
}

/// Datadog, as far as it is asked here: only who knows the key gets a number, and others are told which key they have.
async fn datadog() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let answer = |headers: axum::http::HeaderMap| async move {
        let key = headers.get("dd-api-key").and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned();
        if key == "hunter2" {
            r#"{"series":[{"pointlist":[[1,0.99]]}]}"#.to_owned()
        } else {
            format!("{{\"key\": \"{key}\"")
        }
    };
    let router = axum::Router::new().route("/api/v1/query", axum::routing::get(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_is_asked_with_credentials_that_nobody_sees() {
    let stage = Stage::new().await;
    stage.start();
    let url = datadog().await;
    let namespace = stage.world.config().namespace.clone();
    let coded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let secret = |key: &str| json!({"data": {"address": coded(&url), "api-key": coded(key), "app-key": coded("hunter3")}});
    stage.world.make("v1", "Secret", &namespace, "datadog", secret("hunter2")).await;
    stage.world.make("v1", "Secret", "shop", "wrong", secret("hunter4")).await;
    for (name, at, phase) in [
        ("right", json!(null), "Successful"),
        ("wrong", json!({"name": "wrong", "namespaced": true}), "Error"),
    ] {
        let mut provider = json!({"datadog": {"query": "avg:x{*}", "apiVersion": "v1", "interval": "5m"}});
        if !at.is_null() {
            provider["datadog"]["secretRef"] = at;
        }
        let metric = json!({"name": "rate", "provider": provider, "successCondition": "result > 0.9", "consecutiveErrorLimit": 0});
        stage
            .world
            .make("argoproj.io/v1alpha1", "AnalysisRun", "shop", name, json!({"spec": {"metrics": [metric]}}))
            .await;
        let started = Instant::now();
        let run = loop {
            let run = stage.world.read("argoproj.io/AnalysisRun", "shop", name).await;
            if run["status"]["phase"] == phase {
                break run;
            }
            assert!(started.elapsed() < slipway_testkit::PATIENCE, "{name} is {run}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert!(!run.to_string().contains("hunter"), "{run}");
    }
}
