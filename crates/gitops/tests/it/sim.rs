//! A simulated cluster and a shell around the planner that can be killed before or after any call.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_crd::{Application, ResourceResult, SyncOperation, names};
use slipway_gitops::sync::{
    self, Action, ApplyHow, Outcome, PlannedStep, StepResult, SyncPlan, SyncProgress,
};
use slipway_gitops::{
    ClusterInfo, CompareInput, Comparison, ResourceKey, Settings, compare, object, set_tracking,
};
use std::collections::BTreeMap;

/// Objects in a map; Jobs end and Deployments become ready some ticks after they were written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cluster {
    objects: BTreeMap<ResourceKey, Value>,
    ages: BTreeMap<ResourceKey, u32>,
    next_uid: u32,
    /// How often each hook object was made, by name and operation.
    pub(crate) hook_runs: BTreeMap<String, u32>,
    /// Verbs and names in the order they were done.
    pub(crate) log: Vec<String>,
}

impl Cluster {
    pub(crate) fn with(objects: &[Value]) -> Self {
        let mut cluster = Self::default();
        for object in objects {
            cluster.write(object);
        }
        for _ in 0..4 {
            cluster.tick();
        }
        cluster.log.clear();
        cluster.hook_runs.clear();
        cluster
    }

    pub(crate) fn live(&self) -> Vec<Value> {
        self.objects.values().cloned().collect()
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Option<&Value> {
        self.objects.iter().find(|(key, _)| key.kind == kind && key.name == name).map(|(_, object)| object)
    }

    pub(crate) fn edit(&mut self, kind: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let (_, object) = self
            .objects
            .iter_mut()
            .find(|(key, _)| key.kind == kind && key.name == name)
            .expect("it is there");
        change(object);
    }

    fn write(&mut self, object: &Value) {
        let key = ResourceKey::of(object);
        let mut written = object.clone();
        written["metadata"]["annotations"][names::LAST_APPLIED] = json!(object.to_string());
        match self.objects.get(&key) {
            Some(old) => {
                written["metadata"]["uid"] = old["metadata"]["uid"].clone();
                if let Some(status) = old.get("status") {
                    written["status"] = status.clone();
                }
                let generation = object::integer(old, &["metadata", "generation"]).unwrap_or(0);
                written["metadata"]["generation"] =
                    json!(generation + i64::from(old["spec"] != written["spec"]));
            }
            None => {
                self.next_uid += 1;
                written["metadata"]["uid"] = json!(format!("uid-{}", self.next_uid));
                written["metadata"]["generation"] = json!(1);
                if let Some(operation) = object::annotation(object, names::HOOK_OPERATION) {
                    *self.hook_runs.entry(format!("{} in {operation}", key.name)).or_default() += 1;
                }
            }
        }
        self.ages.insert(key.clone(), 0);
        self.objects.insert(key, written);
    }

    fn delete(&mut self, key: &ResourceKey, uid: &str) {
        let Some(object) = self.objects.get_mut(key).filter(|o| object::uid(o) == uid) else { return };
        if object::list(object, &["metadata", "finalizers"]).is_empty() {
            self.objects.remove(key);
        } else {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
    }

    fn release(&mut self, key: &ResourceKey, uid: &str) {
        let Some(object) = self.objects.get_mut(key).filter(|o| object::uid(o) == uid) else { return };
        if let Some(meta) = object["metadata"].as_object_mut() {
            meta.remove("finalizers");
        }
        if object::is_being_deleted(object) {
            self.objects.remove(key);
        }
    }

    /// Time passes: controllers work.
    pub(crate) fn tick(&mut self) {
        for (key, object) in &mut self.objects {
            let age = self.ages.entry(key.clone()).or_default();
            *age += 1;
            let generation = object["metadata"]["generation"].clone();
            let broken = object["spec"]["broken"] == json!(true);
            match key.kind.as_str() {
                "Deployment" if *age >= 2 => {
                    object["status"] = if broken {
                        json!({"observedGeneration": generation, "conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]})
                    } else {
                        json!({"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1})
                    };
                }
                "Job" if *age >= 2 => {
                    let end = if broken { "Failed" } else { "Complete" };
                    object["status"] = json!({"conditions": [{"type": end, "status": "True", "message": format!("{} {end}", key.name)}]});
                }
                _ => {}
            }
        }
    }

    /// What is left of the objects when all that a run decides by chance is taken out.
    pub(crate) fn canonical(&self) -> String {
        let mut text = String::new();
        for (key, object) in &self.objects {
            let mut object = object.clone();
            if let Some(meta) = object["metadata"].as_object_mut() {
                for field in ["uid", "generation"] {
                    meta.remove(field);
                }
                if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
                    annotations.remove(names::LAST_APPLIED);
                }
            }
            text.push_str(&format!("{key}: {object}\n"));
        }
        text
    }

    pub(crate) fn run(&mut self, step: &PlannedStep) -> StepResult {
        let done = |message: &str, uid: String| StepResult::Done { message: message.into(), uid };
        match &step.action {
            Action::Apply { object, how, .. } | Action::RunHook { object, how, .. } => {
                let verb = if matches!(step.action, Action::RunHook { .. }) { "hook" } else { "apply" };
                self.log.push(format!("{verb} {}", step.key.name));
                if object["spec"]["rejected"] == json!(true) {
                    return StepResult::Failed { message: format!("{} was rejected", step.key.name) };
                }
                assert!(
                    *how != ApplyHow::Replace || self.objects.contains_key(&step.key),
                    "{} is replaced but not there",
                    step.key
                );
                self.write(object);
                done("configured", object::uid(&self.objects[&step.key]).to_string())
            }
            Action::Prune { key, uid, .. } => {
                self.log.push(format!("prune {}", key.name));
                self.delete(key, uid);
                done("pruned", String::new())
            }
            Action::ReleaseHook { key, uid } => {
                self.log.push(format!("release {}", key.name));
                self.release(key, uid);
                done("", String::new())
            }
            Action::DeleteHook { key, uid, .. } => {
                self.log.push(format!("delete {}", key.name));
                self.release(key, uid);
                self.delete(key, uid);
                done("", String::new())
            }
        }
    }
}

/// At which call the shell dies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kill {
    pub(crate) at_call: usize,
    pub(crate) when: When,
}

/// Before the cluster saw the call, after it, or after its result was written down as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Before,
    After,
    Recorded,
}

/// One application and the shell that syncs it.
pub(crate) struct Shell {
    pub(crate) application: Application,
    pub(crate) desired: Vec<Value>,
    pub(crate) settings: Settings,
    pub(crate) operation: SyncOperation,
    pub(crate) cluster_info: ClusterInfo,
    pub(crate) started_at: Timestamp,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) outcome: Outcome,
    pub(crate) results: Vec<ResourceResult>,
    pub(crate) calls: usize,
}

impl Run {
    pub(crate) fn result(&self, name: &str) -> &ResourceResult {
        self.results.iter().find(|r| r.name == name).expect("a result of that name")
    }
}

impl Shell {
    pub(crate) fn new(options: &[&str], desired: Vec<Value>) -> Self {
        let application = serde_json::from_value(json!({
            "metadata": {"name": "shop", "namespace": "argocd"},
            "spec": {"destination": {"server": "https://one", "namespace": "web"}, "project": "default", "source": {"repoURL": "r"},
                     "syncPolicy": {"syncOptions": options}},
        }))
        .expect("readable");
        Self {
            application,
            desired,
            settings: Settings { wave_delay_ms: 0, ..Settings::default() },
            operation: SyncOperation { prune: true, ..SyncOperation::default() },
            cluster_info: ClusterInfo::default(),
            started_at: "2026-01-01T00:00:00Z".parse().expect("a time"),
        }
    }

    /// An object as a former sync of this application left it.
    pub(crate) fn tracked(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if object::namespace(&object).is_empty() {
            object["metadata"]["namespace"] = json!("web");
        }
        set_tracking(&mut object, "shop", &self.settings);
        object
    }

    pub(crate) fn compare(&self, cluster: &Cluster) -> Comparison {
        compare(CompareInput {
            application: &self.application,
            desired: &self.desired,
            live: &cluster.live(),
            cluster: &self.cluster_info,
            settings: &self.settings,
            project: None,
            now: self.started_at,
        })
    }

    /// A plan, checked.
    #[track_caller]
    pub(crate) fn plan(&self, cluster: &Cluster, progress: &SyncProgress) -> SyncPlan {
        let comparison = self.compare(cluster);
        let plan = sync::plan(&comparison, &self.operation, progress);
        let wrong = sync::check(&plan, &comparison);
        assert!(wrong.is_empty(), "{wrong:?}\n{}", sync::explain(&plan));
        plan
    }

    /// Runs the operation to its end.
    #[track_caller]
    pub(crate) fn sync(&self, cluster: &mut Cluster, kill: Option<Kill>) -> Run {
        let mut kill = kill;
        let mut progress = SyncProgress::start(self.started_at, "abcdef0123");
        let mut calls = 0;
        for round in 0..400 {
            progress.now = self.started_at + SignedDuration::from_secs(round);
            let plan = self.plan(cluster, &progress);
            let mut written_down = plan.results.clone();
            progress.results = plan.results.clone();
            if let Some(outcome) = plan.outcome {
                return Run { outcome, results: written_down, calls };
            }
            let mut died = false;
            for step in plan.ready.iter().map(|index| &plan.steps[*index]) {
                let kill_now = kill.filter(|k| k.at_call == calls);
                calls += 1;
                if kill_now.is_none_or(|k| k.when != When::Before) {
                    let result = cluster.run(step);
                    progress.record(step, &result);
                }
                if let Some(now) = kill_now {
                    (died, kill) = (true, None);
                    if now.when == When::Recorded {
                        written_down = progress.results.clone();
                    }
                    break;
                }
            }
            if died {
                // What was only in memory is gone.
                progress = SyncProgress::start(self.started_at, "abcdef0123");
                progress.results = written_down;
            }
            cluster.tick();
        }
        panic!("no end in sight: {}", sync::explain(&self.plan(cluster, &progress)));
    }
}

/// Manifests for tests.
pub(crate) fn object_of(api_version: &str, kind: &str, name: &str, annotations: &[(&str, &str)]) -> Value {
    let map: serde_json::Map<_, _> = annotations.iter().map(|(k, v)| (k.to_string(), json!(v))).collect();
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "annotations": map}})
}

pub(crate) fn config(name: &str, value: &str, annotations: &[(&str, &str)]) -> Value {
    let mut object = object_of("v1", "ConfigMap", name, annotations);
    object["data"] = json!({"value": value});
    object
}

pub(crate) fn deployment(name: &str, broken: bool, annotations: &[(&str, &str)]) -> Value {
    let mut object = object_of("apps/v1", "Deployment", name, annotations);
    object["spec"] = json!({"replicas": 1, "broken": broken});
    object
}

pub(crate) fn job(name: &str, broken: bool, annotations: &[(&str, &str)]) -> Value {
    let mut object = object_of("batch/v1", "Job", name, annotations);
    object["spec"] = json!({"broken": broken});
    object
}

pub(crate) fn wave(number: &str) -> (&str, &str) {
    (names::SYNC_WAVE, number)
}

pub(crate) fn hook(types: &str) -> (&str, &str) {
    (names::HOOK, types)
}

pub(crate) fn policy(policies: &str) -> (&str, &str) {
    (names::HOOK_DELETE_POLICY, policies)
}
