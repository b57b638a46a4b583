//! The loop of ApplicationSets killed before each of its writes, on an embedded cluster: whatever was left undone is
//! done by the next engine, and nothing is done twice.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::crash::Process;
use crate::world::{World, automated, config_map};

const SET: &str = "argoproj.io/ApplicationSet";
const APP: &str = "argoproj.io/Application";

/// One Application to make, one to change and one to delete, rolled out in two steps: every kind of write that a set
/// has. The two that are there were made by an engine before.
async fn rehearsal() -> World {
    let world = World::new().await;
    world.commit(&[("apps/a/map.yaml", &config_map("a", "1")), ("apps/b/map.yaml", &config_map("b", "1"))]);
    let step = |name: &str| json!({"matchExpressions": [{"key": "of", "operator": "In", "values": [name]}]});
    let template = |name: &str, path: &str| {
        json!({
            "metadata": {"name": name, "labels": {"of": path.rsplit('/').next()}},
            "spec": {
                "project": "default",
                "source": {"repoURL": world.url(), "path": path, "targetRevision": "main"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"},
                "syncPolicy": automated(),
            },
        })
    };
    let mut wanted = template("shop-{{ .path.basename }}", "{{ .path.path }}");
    wanted["metadata"]["labels"]["of"] = "{{ .path.basename }}".into();
    let spec = json!({
        "goTemplate": true,
        "generators": [{"git": {"repoURL": world.url(), "revision": "main", "directories": [{"path": "apps/*"}]}}],
        "strategy": {"type": "RollingSync", "rollingSync": {"steps": [step("a"), step("b")]}},
        "template": wanted,
    });
    world.make("argoproj.io/v1alpha1", "ApplicationSet", "argocd", "shops", json!({"spec": spec})).await;
    let uid = world.read(SET, "argocd", "shops").await["metadata"]["uid"].clone();
    for (name, path) in [("shop-b", "apps/gone"), ("shop-old", "apps/old")] {
        let mut left = template(name, path);
        left["metadata"]["ownerReferences"] = json!([{"apiVersion": "argoproj.io/v1alpha1", "blockOwnerDeletion": true,
            "controller": true, "kind": "ApplicationSet", "name": "shops", "uid": uid}]);
        left["spec"]["syncPolicy"] = json!({});
        world.make("argoproj.io/v1alpha1", "Application", "argocd", name, left).await;
    }
    world
}

/// What is left at the end, without what differs between any two runs.
async fn outcome(world: &World) -> Value {
    let mut applications = Vec::new();
    for name in ["shop-a", "shop-b", "shop-old"] {
        let app = world.app(name).await;
        let (metadata, status) = (&app["metadata"], &app["status"]);
        applications.push(json!([
            name,
            metadata["labels"],
            metadata["finalizers"],
            metadata["ownerReferences"].as_array().map(Vec::len),
            app["spec"]["source"]["path"],
            app["spec"]["syncPolicy"],
            app["operation"],
            status["sync"]["status"],
            status["operationState"]["phase"],
            status["operationState"]["operation"]["initiatedBy"],
            status["history"].as_array().map(Vec::len),
        ]));
    }
    let set = world.read(SET, "argocd", "shops").await;
    let conditions: Vec<String> = set["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| format!("{} {} {}", one["type"], one["status"], one["reason"]))
        .collect();
    // In the order in which they came up, which a kill may change.
    let mut steps: Vec<String> = set["status"]["applicationStatus"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| format!("{} {} {}", one["application"], one["status"], one["step"]))
        .collect();
    steps.sort();
    json!({"applications": applications, "conditions": conditions, "steps": steps,
        "resources": set["status"]["resources"], "count": set["status"]["resourcesCount"],
        "deployed": [world.get("ConfigMap", "a").await.map(|map| map["data"].clone()),
            world.get("ConfigMap", "b").await.map(|map| map["data"].clone())]})
}

async fn is_done(world: &World) -> bool {
    let set = world.read(SET, "argocd", "shops").await;
    let status = &set["status"];
    let all = |field: &str, wanted: &dyn Fn(&Value) -> bool| {
        status[field].as_array().is_some_and(|all| all.len() == 2 && all.iter().all(wanted))
    };
    let old = world.read(APP, "argocd", "shop-old").await;
    old.is_null()
        && all("applicationStatus", &|one| one["status"] == "Healthy")
        && all("resources", &|one| one["status"] == "Synced" && one["health"]["status"] == "Healthy")
        && status["conditions"].as_array().is_some_and(|all| {
            all.iter().any(|one| one["type"] == "RolloutProgressing" && one["status"] == "False")
        })
}

async fn until_done(world: &World, when: &str, log: &str) {
    let started = Instant::now();
    while !is_done(world).await {
        if started.elapsed() > Duration::from_secs(120) {
            let log = std::fs::read_to_string(world.root.path().join(log)).expect("readable");
            let set = world.read(SET, "argocd", "shops").await;
            panic!("{when}: the rollout never ended: {:#}\n{log}", set["status"]);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Kills before one write, lets another engine end it, and says whether the kill happened.
async fn killed_before(at: usize, expected: &Value) -> bool {
    let world = rehearsal().await;
    let mut process =
        Process::start_logged(&world, "first.log", &[("SLIPWAY_DIE_BEFORE_WRITE", &at.to_string())]);
    // The last writes are events, whose number differs: it may be done before it dies.
    let started = Instant::now();
    while !process.ended() && !is_done(&world).await {
        assert!(started.elapsed() < Duration::from_secs(120), "neither dead nor done before write {at}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let hit = process.ended();
    drop(process);
    let first = world.app("shop-a").await["metadata"]["uid"].clone();
    let _process = Process::start_logged(&world, "second.log", &[]);
    until_done(&world, &format!("killed before write {at}"), "second.log").await;
    let found = outcome(&world).await;
    if found != *expected {
        let log = |name: &str| std::fs::read_to_string(world.root.path().join(name)).expect("readable");
        panic!(
            "killed before write {at}:\n{found:#}\ninstead of\n{expected:#}\n{}\n--- and then\n{}",
            log("first.log"),
            log("second.log")
        );
    }
    if !first.is_null() {
        assert_eq!(world.app("shop-a").await["metadata"]["uid"], first, "shop-a was made twice");
    }
    hit
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_killed_before_each_of_its_writes_comes_to_the_same_end() {
    let calm = rehearsal().await;
    let process = Process::start_logged(&calm, "calm.log", &[]);
    until_done(&calm, "undisturbed", "calm.log").await;
    let expected = outcome(&calm).await;
    drop(process);
    let log = std::fs::read_to_string(calm.root.path().join("calm.log")).expect("readable");
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("A write goes out.")).collect();
    let writes = lines.len();
    assert!(writes >= 10, "a rollout of two Applications has more than {writes} writes:\n{log}");
    let done = &expected["applications"];
    assert_eq!((&done[0][10], &done[1][10]), (&json!(1), &json!(1)), "each was deployed once: {expected:#}");
    // Nothing hangs on an event; which write has which number differs a little from run to run.
    let chosen = (1..=writes).filter(|at| !lines[at - 1].contains("what=\"Event "));
    // Some at once: most of the time is spent waiting.
    let expected = &expected;
    let hits: Vec<bool> = futures::stream::iter(chosen)
        .map(|at| killed_before(at, expected))
        .buffer_unordered(3)
        .collect()
        .await;
    let hit = hits.into_iter().filter(|hit| *hit).count();
    println!("{writes} writes with events, killed before {hit} of them");
    assert!(hit >= 10, "only {hit} kills of {writes} happened");
}
