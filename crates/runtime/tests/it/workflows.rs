//! Workflows on the embedded cluster, where the test ends pods as a kubelet would; and on the real Kubernetes, where they run.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_cluster::{Cluster, ClusterConfig, ObjectKey, WriteOptions};
use slipway_runtime::WorkflowsConfig;
use slipway_testkit::TEST_IMAGE;

use crate::crash::Process;
use crate::site::Site;
use crate::world::World;

const NODE_NAME: &str = "workflows.argoproj.io/node-name";

pub(crate) struct Stage {
    pub(crate) world: World,
    /// Every uid that a pod of a node ever had.
    pub(crate) uids: Arc<Mutex<BTreeMap<String, HashSet<String>>>>,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let world = World::new().await;
        world.client.ensure_definitions(&slipway_crd::workflow_manifests()).await.expect("definitions");
        world.make("v1", "Namespace", "", "shop", json!({})).await;
        let stage = Self { world, uids: Arc::default() };
        stage.end_pods().await;
        stage
    }

    /// Ends pods: with the code that their image names (`exits-3`; an engine of this machine may have one whose id begins with 3).
    async fn end_pods(&self) {
        let config = ClusterConfig::new(Some(self.world.root.path().join("kubeconfig")));
        let cluster = Cluster::connect(config).await.expect("connected");
        let (stop, uids) = (self.world.stop.clone(), self.uids.clone());
        tokio::spawn(async move {
            while !stop.is_cancelled() {
                let kind = ObjectKey::new("", "Pod", "shop", "");
                let pods =
                    cluster.list_labelled(&kind, "workflows.argoproj.io/workflow").await.expect("listed");
                for pod in pods {
                    let metadata = &pod["metadata"];
                    let node = metadata["annotations"][NODE_NAME].as_str().unwrap_or_default().to_owned();
                    let uid = metadata["uid"].as_str().unwrap_or_default().to_owned();
                    uids.lock().expect("no panic").entry(node).or_default().insert(uid);
                    if pod["status"]["phase"] == "Succeeded" || pod["status"]["phase"] == "Failed" {
                        continue;
                    }
                    let image = pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
                    if image == "runs" {
                        continue;
                    }
                    let code: i64 =
                        image.strip_prefix("exits-").and_then(|code| code.parse().ok()).unwrap_or(0);
                    let phase = if code == 0 { "Succeeded" } else { "Failed" };
                    let target = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": metadata["name"]}});
                    let status = json!({"status": {"phase": phase, "containerStatuses": [{"name": "main", "image": image, "imageID": "", "ready": false,
                        "restartCount": 0, "state": {"terminated": {"exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" }}}}]}});
                    // It may be gone by now.
                    let _ = cluster.merge_subresource(&target, "status", &status).await;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }

    pub(crate) fn start(&self) {
        let mut config = self.world.config();
        config.workflows = Some(WorkflowsConfig::default());
        config.engines_off = slipway_runtime::Config::all_but_workflows();
        self.world.start_with(config);
    }

    /// An engine of its own process that ends before its write of this number.
    pub(crate) fn dies(&self, at: u64) -> Process {
        let at = at.to_string();
        let environment =
            [("SLIPWAY_WORKFLOWS", ""), ("SLIPWAY_ONLY", "workflows"), ("SLIPWAY_DIE_BEFORE_WRITE", &at)];
        Process::start_logged(&self.world, "engine.log", &environment)
    }

    pub(crate) async fn submit(&self, name: &str, spec: Value) {
        self.world.make("argoproj.io/v1alpha1", "Workflow", "shop", name, json!({"spec": spec})).await;
    }

    pub(crate) async fn read(&self, name: &str) -> Value {
        self.world.read("argoproj.io/Workflow", "shop", name).await
    }

    pub(crate) async fn until(&self, name: &str, what: &str, question: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let workflow = self.read(name).await;
            if question(&workflow) {
                return workflow;
            }
            let text = || serde_json::to_string_pretty(&workflow["status"]).unwrap_or_default();
            assert!(started.elapsed() < slipway_testkit::PATIENCE, "{name} never was {what}: {}", text());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn ended(&self, name: &str) -> Value {
        self.until(name, "ended", |workflow| workflow["status"]["finishedAt"].is_string()).await
    }

    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        let target = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"namespace": "shop", "name": name}});
        self.world.client.merge(&target, &patch, WriteOptions::default()).await.expect("patched");
    }
}

/// `name phase` of every node, by name.
pub(crate) fn nodes(workflow: &Value) -> Vec<String> {
    let all = workflow["status"]["nodes"].as_object().into_iter().flatten();
    let mut rows: Vec<String> = all
        .map(|(_, node)| {
            format!("{} {}", node["name"].as_str().unwrap_or("?"), node["phase"].as_str().unwrap_or("?"))
        })
        .collect();
    rows.sort();
    rows
}

fn diamond(image: &str) -> Value {
    let task = |name: &str, depends: &str| json!({"name": name, "template": "run", "depends": depends});
    json!({"entrypoint": "main", "templates": [
        {"name": "main", "dag": {"tasks": [task("a", ""), task("b", "a"), task("c", "a"), task("d", "b && c")]}},
        {"name": "run", "container": {"image": image}}]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graph_of_tasks_runs_to_its_end_and_a_bad_one_says_why() {
    let stage = Stage::new().await;
    stage.start();
    stage.submit("good", diamond("exits-0")).await;
    let good = stage.ended("good").await;
    assert_eq!(good["status"]["phase"], "Succeeded", "{good:#}");
    assert_eq!(
        nodes(&good),
        ["good Succeeded", "good.a Succeeded", "good.b Succeeded", "good.c Succeeded", "good.d Succeeded"]
    );
    assert_eq!(good["metadata"]["labels"]["workflows.argoproj.io/phase"], "Succeeded");
    assert_eq!(good["metadata"]["labels"]["workflows.argoproj.io/completed"], "true");
    assert_eq!(good["metadata"]["annotations"]["workflows.argoproj.io/pod-name-format"], "v2");
    assert_eq!(good["status"]["progress"], "4/4");
    stage.submit("bad", diamond("exits-3")).await;
    let bad = stage.ended("bad").await;
    assert_eq!(bad["status"]["phase"], "Failed");
    assert_eq!(
        nodes(&bad),
        ["bad Failed", "bad.a Failed", "bad.b Omitted", "bad.c Omitted", "bad.d Omitted"]
    );
    let a =
        bad["status"]["nodes"].as_object().into_iter().flatten().find(|(_, node)| node["displayName"] == "a");
    assert_eq!(a.map(|(_, node)| node["outputs"]["exitCode"].clone()), Some("3".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_supported_or_not_ours_is_not_touched() {
    let stage = Stage::new().await;
    stage.start();
    stage
        .submit("later", json!({"entrypoint": "main", "templates": [{"name": "main", "plugin": {"x": {}}}]}))
        .await;
    let later = stage.ended("later").await;
    assert_eq!(later["status"]["phase"], "Error");
    assert_eq!(later["status"]["message"], "template `main`: plugin is not supported yet");
    let metadata = json!({"labels": {"workflows.argoproj.io/controller-instanceid": "theirs"}});
    let object = json!({"metadata": metadata, "spec": diamond("exits-0")});
    stage.world.make("argoproj.io/v1alpha1", "Workflow", "shop", "theirs", object).await;
    stage.submit("ours", diamond("exits-0")).await;
    stage.ended("ours").await;
    assert!(stage.read("theirs").await["status"].is_null(), "another instance looks after it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_waits_for_a_person_and_what_is_terminated_leaves_no_pod() {
    let stage = Stage::new().await;
    stage.start();
    let spec = json!({"entrypoint": "main", "templates": [
        {"name": "main", "steps": [[{"name": "wait", "template": "wait"}], [{"name": "go", "template": "run"}]]},
        {"name": "wait", "suspend": {}}, {"name": "run", "container": {"image": "runs"}}]});
    stage.submit("wf", spec).await;
    let waits = stage
        .until("wf", "waiting", |workflow| nodes(workflow).iter().any(|node| node == "wf[0].wait Running"))
        .await;
    let workflow = serde_json::from_value(waits).expect("a Workflow");
    let patch = slipway_workflow::orders::patch(
        slipway_workflow::orders::Order::Resume,
        &workflow,
        jiff::Timestamp::now(),
    );
    stage.patch("wf", patch.expect("it waits")).await;
    stage
        .until("wf", "running", |workflow| nodes(workflow).iter().any(|node| node.starts_with("wf[1].go ")))
        .await;
    stage.patch("wf", json!({"spec": {"shutdown": "Terminate"}})).await;
    let ended = stage.ended("wf").await;
    assert_eq!(ended["status"]["message"], "Stopped with strategy 'Terminate'");
    let started = Instant::now();
    let kind = ObjectKey::new("", "Pod", "shop", "");
    loop {
        let pods = stage
            .world
            .client
            .list_labelled(&kind, "workflows.argoproj.io/workflow=wf")
            .await
            .expect("listed");
        if pods.is_empty() {
            break;
        }
        assert!(started.elapsed() < slipway_testkit::PATIENCE, "{pods:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_whose_time_is_over_is_deleted() {
    let stage = Stage::new().await;
    stage.start();
    let mut spec = diamond("exits-0");
    spec["ttlStrategy"] = json!({"secondsAfterSuccess": 0});
    stage.submit("short", spec).await;
    stage.until("short", "gone", |workflow| workflow["metadata"].is_null()).await;
}

/// Each write is the last one of some process; no pod is made twice, and the end is the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_is_carried_on_whatever_write_the_engine_dies_before() {
    let stage = Stage::new().await;
    let mut spec = diamond("exits-0");
    spec["templates"][0]["dag"]["tasks"][2]["withSequence"] = json!({"count": 5});
    spec["onExit"] = "run".into();
    stage.submit("wf", spec).await;
    let (mut deaths, started) = (0_u64, Instant::now());
    let mut process = stage.dies(1);
    let ended = loop {
        let workflow = stage.read("wf").await;
        if workflow["status"]["finishedAt"].is_string() {
            break workflow;
        }
        if process.ended() {
            deaths += 1;
            // Six pods are made at the same time, and with the process die those that are still on their way: only one that may write
            // more than six times is certain to get beyond them.
            process = stage.dies(1 + deaths % 8);
        }
        assert!(started.elapsed() < Duration::from_secs(480), "it never ended: {workflow:#}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(deaths >= 3, "it died {deaths} times");
    assert_eq!(ended["status"]["phase"], "Succeeded", "{:#}", ended["status"]);
    let uids = stage.uids.lock().expect("no panic").clone();
    assert_eq!(uids.len(), 9, "a, b, five of c, d and the exit handler: {uids:?}");
    assert!(uids.values().all(|uids| uids.len() == 1), "no pod was made twice: {uids:?}");
}

const EXECUTOR_IMAGE: &str = "localhost/slipway-executor:test";

/// A Workflow on the real Kubernetes, at its end.
pub(crate) fn run_for_real(spec: &str) -> (Site<'static>, Value) {
    let mut site = Site::quiet(&[]);
    let folder = site.folder.path().join("executor");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::copy(slipway_testkit::executor(), folder.join("slipway-executor")).expect("copied");
    slipway_testkit::Kube::shared().image(&folder, EXECUTOR_IMAGE, &["/slipway-executor"]);
    let instance_id = site.target.name().to_owned();
    site.start(|config| {
        config.workflows = Some(WorkflowsConfig {
            instance_id: instance_id.clone(),
            namespace: None,
            executor_image: Some(EXECUTOR_IMAGE.into()),
        });
        config.engines_off = slipway_runtime::Config::all_but_workflows();
    });
    // The definitions are the engine's to make.
    site.target.until("definitions", || site.target.succeeds(&["get", "workflows.argoproj.io"]));
    let spec = spec.replace("IMAGE", &format!("image: \"{TEST_IMAGE}\", imagePullPolicy: Never"));
    let labels = format!("{{workflows.argoproj.io/controller-instanceid: {instance_id}}}");
    site.target.apply(&format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {{name: wf, labels: {labels}}}\nspec:\n{spec}"
    ));
    let started = Instant::now();
    loop {
        let text = site.target.kubectl(&["get", "workflows.argoproj.io", "wf", "-o", "json"]);
        let workflow: Value = serde_json::from_str(&text).expect("JSON");
        if workflow["status"]["finishedAt"].is_string() {
            return (site, workflow);
        }
        assert!(started.elapsed() < Duration::from_secs(120), "it never ended: {workflow:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Real pods: a script, a step that fails, a loop, an exit handler.
#[test]
fn workflows_run_on_the_real_kubernetes() {
    let (site, workflow) = run_for_real(
        r#"
  entrypoint: main
  onExit: bye
  templates:
  - name: main
    steps:
    - - {name: script, template: script}
      - name: loop
        template: says
        withItems: [0, 1]
        arguments: {parameters: [{name: code, value: "0"}]}
    - - name: fails
        template: says
        continueOn: {failed: true}
        arguments: {parameters: [{name: code, value: "3"}]}
  - name: script
    script: {IMAGE, command: [sh], source: "test -r \"$0\" && echo it runs"}
  - name: says
    inputs: {parameters: [{name: code}]}
    container: {IMAGE, command: [sh, -c], args: ["exit {{inputs.parameters.code}}"]}
  - name: bye
    container: {IMAGE, command: [sh, -c], args: ["test {{workflow.status}} = Succeeded"]}
"#,
    );
    assert_eq!(workflow["status"]["phase"], "Succeeded", "{:#}", workflow["status"]);
    assert_eq!(
        nodes(&workflow),
        [
            "wf Succeeded",
            "wf.onExit Succeeded",
            "wf[0] Succeeded",
            "wf[0].loop(0:0) Succeeded",
            "wf[0].loop(1:1) Succeeded",
            "wf[0].script Succeeded",
            "wf[1] Succeeded",
            "wf[1].fails Failed",
        ]
    );
    let logs = site.target.kubectl(&["logs", "-l", "workflows.argoproj.io/workflow=wf", "-c", "main"]);
    assert!(logs.contains("it runs"), "{logs}");
    let table = site.target.kubectl(&["get", "wf", "wf"]);
    assert!(table.contains("STATUS") && table.contains("Succeeded"), "{table}");
}

/// What a container prints and writes reaches the steps that follow, through pods that have no rights in the cluster.
#[test]
fn outputs_of_containers_reach_what_follows_on_the_real_kubernetes() {
    let (site, workflow) = run_for_real(
        r#"
  entrypoint: main
  automountServiceAccountToken: false
  templates:
  - name: main
    dag:
      tasks:
      - {name: make, template: make}
      - name: each
        depends: make
        template: says
        withParam: "{{tasks.make.outputs.result}}"
        arguments: {parameters: [{name: text, value: "{{item}} {{tasks.make.outputs.parameters.word}}"}]}
      - {name: lost, depends: make, template: lost}
      - {name: after, depends: lost.Errored, template: says, arguments: {parameters: [{name: text, value: after}]}}
  - name: make
    script:
      IMAGE
      command: [sh]
      source: |
        echo noise >&2
        echo -n hello > /tmp/word
        echo '["a", "b"]'
    outputs: {parameters: [{name: word, valueFrom: {path: /tmp/word}}]}
  - name: lost
    container: {IMAGE, command: ["true"]}
    outputs: {parameters: [{name: x, valueFrom: {path: /tmp/nothing}}]}
  - name: says
    inputs: {parameters: [{name: text}]}
    container: {IMAGE, command: [echo], args: ["{{inputs.parameters.text}}"]}
"#
        .replace("      IMAGE\n", &format!("      image: \"{TEST_IMAGE}\"\n      imagePullPolicy: Never\n"))
        .as_str(),
    );
    let node = |name: &str| {
        let all = workflow["status"]["nodes"].as_object().into_iter().flatten();
        all.map(|(_, node)| node).find(|node| node["name"] == name).cloned().unwrap_or_default()
    };
    let make = node("wf.make");
    assert_eq!(make["outputs"]["result"], "[\"a\", \"b\"]", "{:#}", workflow["status"]);
    assert_eq!(make["outputs"]["parameters"], json!([{"name": "word", "value": "hello"}]));
    assert_eq!(node("wf.each(0:a)")["phase"], "Succeeded");
    let lost = node("wf.lost");
    assert_eq!(lost["phase"], "Error", "{lost:#}");
    assert!(lost["message"].as_str().is_some_and(|said| said.contains("output parameter x")), "{lost:#}");
    assert_eq!(node("wf.after")["phase"], "Succeeded");
    let logs =
        site.target.kubectl(&["logs", "-l", "workflows.argoproj.io/workflow=wf", "-c", "main", "--tail=-1"]);
    for line in ["noise", "[\"a\", \"b\"]", "a hello", "b hello", "after"] {
        assert!(logs.contains(line), "{line}: {logs}");
    }
}
