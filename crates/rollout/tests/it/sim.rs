//! A cluster that is only counted: ReplicaSets with pods that become available when the test says so, and an engine that can be killed
//! between any two writes.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_crd::analysis::{AnalysisRun, AnalysisTemplate, Experiment};
use slipway_crd::rollout::Rollout;
use slipway_rollout::names::HASH;
use slipway_rollout::orders::{Order, Patch, writes};
use slipway_rollout::plan::{Action, Event, Observed, Plan, Target, plan};
use slipway_rollout::routing::{Reference, Seen};

/// More plans than this at one moment are a loop.
const PLANS_MAX: usize = 60;

pub(crate) struct Sim {
    pub(crate) rollout: Rollout,
    pub(crate) sets: Vec<Value>,
    pub(crate) services: std::collections::BTreeMap<String, Value>,
    pub(crate) routes: Seen,
    pub(crate) workload: Option<Value>,
    pub(crate) pods: Vec<Value>,
    pub(crate) runs: Vec<AnalysisRun>,
    pub(crate) experiments: Vec<Experiment>,
    pub(crate) templates: Vec<AnalysisTemplate>,
    pub(crate) now: Timestamp,
    pub(crate) events: Vec<Event>,
    pub(crate) waiting: String,
    made: i64,
    /// Pods that were asked to leave.
    pub(crate) evicted: usize,
    /// Pods of these images never become available.
    pub(crate) broken: Vec<String>,
    /// Requests never go where no pod is; and never where too few pods are.
    pub(crate) check_requests: bool,
    pub(crate) check_capacity: bool,
    /// Writes until the engine dies; what is left of the plan is lost.
    pub(crate) writes_left: Option<usize>,
}

pub(crate) fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}})
}

impl Sim {
    pub(crate) fn new(replicas: i64, strategy: Value) -> Self {
        let rollout = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
            "metadata": {"name": "web", "namespace": "shop", "uid": "rollout-uid", "generation": 1},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("a"), "strategy": strategy}});
        Self {
            rollout: serde_json::from_value(rollout).expect("a Rollout"),
            sets: Vec::new(),
            services: std::collections::BTreeMap::new(),
            routes: Seen::default(),
            workload: None,
            pods: Vec::new(),
            runs: Vec::new(),
            experiments: Vec::new(),
            templates: Vec::new(),
            now: "2026-01-01T00:00:00Z".parse().expect("a time"),
            events: Vec::new(),
            waiting: String::new(),
            made: 0,
            evicted: 0,
            broken: Vec::new(),
            check_requests: true,
            check_capacity: true,
            writes_left: None,
        }
    }

    pub(crate) fn with_service(mut self, name: &str) -> Self {
        let service = json!({"metadata": {"name": name}, "spec": {"selector": {"app": "web"}}});
        self.services.insert(name.to_owned(), service);
        self
    }

    /// An object of a router.
    pub(crate) fn with_route(mut self, object: Value) -> Self {
        self.routes.objects.insert(reference_of(&object), object);
        self
    }

    pub(crate) fn route(&self, kind: &str, name: &str) -> &Value {
        let found = self.routes.objects.iter().find(|(at, _)| at.kind == kind && at.name == name);
        found.unwrap_or_else(|| panic!("there is no {kind} {name}")).1
    }

    pub(crate) fn observed(&self) -> Observed {
        Observed {
            rollout: self.rollout.clone(),
            replica_sets: self.sets.clone(),
            services: self.services.clone(),
            routes: self.routes.clone(),
            workload: self.workload.clone(),
            pods: self.pods.clone(),
            runs: self.runs.clone(),
            experiments: self.experiments.clone(),
            templates: self.templates.clone(),
            ..Observed::default()
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        plan(&self.observed(), self.now)
    }

    /// Plans and carries out until there is nothing to write at this moment, or the engine dies.
    pub(crate) fn reconcile(&mut self) {
        for _ in 0..PLANS_MAX {
            let next = self.plan();
            let idle = next.actions.is_empty() && next.status == self.rollout.status;
            self.waiting.clone_from(&next.waiting);
            if !self.carry_out(next) || idle {
                return;
            }
        }
        panic!("plans go round in circles: {:?}", self.plan());
    }

    /// False: the engine died.
    fn carry_out(&mut self, plan: Plan) -> bool {
        for action in plan.actions {
            if self.dies() {
                return false;
            }
            self.act(action);
            self.check_shares();
        }
        if plan.status != self.rollout.status {
            if self.dies() {
                return false;
            }
            self.rollout.status = plan.status;
            self.check_claim();
        }
        self.events.extend(plan.events);
        true
    }

    fn dies(&mut self) -> bool {
        match &mut self.writes_left {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Create(object) if object["kind"] == "AnalysisRun" => {
                self.runs.push(serde_json::from_value(object).expect("a run"));
            }
            Action::Create(object) if object["kind"] == "Experiment" => {
                self.experiments.push(serde_json::from_value(object).expect("an Experiment"));
            }
            Action::Create(object) if object["kind"] != "ReplicaSet" => {
                self.routes.objects.insert(reference_of(&object), object);
            }
            Action::Create(mut object) => {
                self.made += 1;
                let created = self.now + SignedDuration::from_millis(self.made);
                object["metadata"]["uid"] = format!("uid-{}", self.made).into();
                object["metadata"]["creationTimestamp"] = created.to_string().into();
                object["metadata"]["generation"] = 1.into();
                object["status"] = json!({"replicas": 0, "observedGeneration": 1});
                self.sets.push(object);
            }
            Action::Patch { target, patch } => match target.kind.as_str() {
                "ReplicaSet" => {
                    let set =
                        self.sets.iter_mut().find(|set| set["metadata"]["name"] == target.name.as_str());
                    merge(set.expect("the ReplicaSet is there"), &patch);
                }
                "Service" => {
                    merge(self.services.get_mut(&target.name).expect("the Service is there"), &patch)
                }
                "Deployment" => merge(self.workload.as_mut().expect("the Deployment is there"), &patch),
                "Pod" => {
                    let pod =
                        self.pods.iter_mut().find(|pod| pod["metadata"]["name"] == target.name.as_str());
                    merge(pod.expect("the pod is there"), &patch);
                }
                "Rollout" => self.change(&patch, false),
                "Experiment" => {
                    let one = self.experiments.iter_mut().find(|one| one.metadata.name == target.name);
                    one.expect("the Experiment is there").spec.terminate = patch["spec"]["terminate"] == true;
                }
                "AnalysisRun" => {
                    let run = self.runs.iter_mut().find(|run| run.metadata.name == target.name);
                    run.expect("the run is there").spec.terminate = patch["spec"]["terminate"] == true;
                }
                _ => {
                    let object =
                        self.routes.objects.get_mut(&of_target(&target)).expect("the route is there");
                    merge(object, &patch);
                    let generation = object["metadata"]["generation"].as_i64().unwrap_or(1) + 1;
                    object["metadata"]["generation"] = generation.into();
                }
            },
            Action::Delete { target, .. } if target.kind == "AnalysisRun" => {
                self.runs.retain(|run| run.metadata.name != target.name);
            }
            Action::Delete { target, .. } if target.kind != "ReplicaSet" => {
                self.routes.objects.remove(&of_target(&target));
            }
            Action::Delete { target, .. } => {
                self.sets.retain(|set| set["metadata"]["name"] != target.name.as_str())
            }
            Action::Evict { target } => {
                self.evicted += 1;
                self.pods.retain(|pod| pod["metadata"]["name"] != target.name.as_str());
            }
        }
    }

    /// Patches the Rollout as a user would.
    pub(crate) fn change(&mut self, patch: &Value, new_generation: bool) {
        let mut object = serde_json::to_value(&self.rollout).expect("writable");
        merge(&mut object, patch);
        self.rollout = serde_json::from_value(object).expect("a Rollout");
        if new_generation {
            self.rollout.metadata.generation += 1;
        }
    }

    pub(crate) fn set_image(&mut self, image: &str) {
        self.rollout.spec.template = Some(template(image));
        self.rollout.metadata.generation += 1;
    }

    pub(crate) fn order(&mut self, order: &Order) {
        let all = writes(order, &self.rollout, &self.sets, None, self.now).expect("it can be ordered");
        for write in all {
            match write.patch {
                Patch::Merge(patch) => self.change(&patch, write.subresource.is_none()),
                Patch::Json(operations) => {
                    self.rollout.spec.template = Some(operations[0]["value"].clone());
                    self.rollout.metadata.generation += 1;
                }
            }
        }
    }

    /// An analysis template with one metric and one argument.
    pub(crate) fn with_template(mut self, name: &str) -> Self {
        let template = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AnalysisTemplate", "metadata": {"name": name}, "spec": {
            "args": [{"name": "hash"}], "metrics": [{"name": "rate", "provider": {"web": {"url": "http://{{args.hash}}"}}}]}});
        self.templates.push(serde_json::from_value(template).expect("a template"));
        self
    }

    /// The run that was made last has this phase now.
    pub(crate) fn conclude(&mut self, phase: &str, message: &str) {
        let run = self.runs.last_mut().expect("there is a run");
        (run.status.phase, run.status.message) = (phase.to_owned(), message.to_owned());
    }

    fn image_of(set: &Value) -> String {
        set["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned()
    }

    /// The controller of ReplicaSets: pods that are not wanted leave, missing ones are made; `ready`: those that exist are available.
    pub(crate) fn pods(&mut self, ready: bool) {
        for set in &mut self.sets {
            let wanted = set["spec"]["replicas"].as_i64().unwrap_or(0);
            let broken = self.broken.contains(&Self::image_of(set));
            let before = set["status"]["availableReplicas"].as_i64().unwrap_or(0);
            let available = if broken {
                0
            } else if ready {
                wanted
            } else {
                before.min(wanted)
            };
            set["status"]["replicas"] = wanted.into();
            set["status"]["readyReplicas"] = available.into();
            set["status"]["availableReplicas"] = available.into();
            set["status"]["observedGeneration"] = set["metadata"]["generation"].clone();
        }
    }

    /// Engine and pods take turns until nothing changes any more.
    pub(crate) fn settle(&mut self) {
        for _ in 0..200 {
            let before = (serde_json::to_value(&self.rollout).expect("writable"), self.sets.clone());
            self.reconcile();
            self.check();
            self.pods(false);
            self.check();
            self.pods(true);
            self.check();
            if before == (serde_json::to_value(&self.rollout).expect("writable"), self.sets.clone()) {
                return;
            }
        }
        panic!("it does not come to rest: {}", self.waiting);
    }

    pub(crate) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// Never more pods than the surge allows, and never a Service that selects a version without pods.
    pub(crate) fn check(&self) {
        let replicas = self.rollout.replicas();
        if let Some(canary) = self.rollout.canary().filter(|canary| canary.traffic_routing.is_none()) {
            let (surge, _) = slipway_rollout::replicas::bounds(
                canary.max_surge.as_ref(),
                canary.max_unavailable.as_ref(),
                replicas,
            );
            let wanted: i64 = self.sets.iter().map(|set| set["spec"]["replicas"].as_i64().unwrap_or(0)).sum();
            assert!(
                wanted <= replicas + surge,
                "{wanted} pods are wanted, {replicas} and {surge} are allowed"
            );
        }
        for (name, service) in &self.services {
            let Some(hash) = service["spec"]["selector"][HASH].as_str() else { continue };
            let set = self.sets.iter().find(|set| set["metadata"]["labels"][HASH] == hash);
            assert!(set.is_some(), "the Service {name} selects a version that is gone");
        }
    }

    /// Who gets which share of the requests: of an HTTPRoute or a VirtualService, by the Services or subsets that it names.
    pub(crate) fn shares(&self) -> Vec<(String, i64)> {
        let mut all = Vec::new();
        for (at, object) in &self.routes.objects {
            let backends = match at.kind.as_str() {
                "HTTPRoute" => object["spec"]["rules"][0]["backendRefs"].as_array(),
                "VirtualService" => {
                    object["spec"]["http"].as_array().and_then(|routes| routes.last()?["route"].as_array())
                }
                _ => None,
            };
            for one in backends.into_iter().flatten() {
                let weight = one["weight"].as_i64().unwrap_or(1);
                let destination = &one["destination"];
                let hash = match destination["subset"].as_str() {
                    Some(subset) => self.subset(subset),
                    None => {
                        let name = one["name"].as_str().or(destination["host"].as_str()).unwrap_or_default();
                        let name = name.split('.').next().unwrap_or(name);
                        if !self.services.contains_key(name) {
                            continue;
                        }
                        self.selector(name)
                    }
                };
                all.push((hash, weight));
            }
        }
        all
    }

    fn subset(&self, name: &str) -> String {
        let rule = self
            .routes
            .objects
            .iter()
            .find(|(at, _)| at.kind == "DestinationRule")
            .expect("there is a rule")
            .1;
        let subsets = rule["spec"]["subsets"].as_array().into_iter().flatten();
        let found = subsets.into_iter().find(|subset| subset["name"] == name).expect("there is a subset");
        found["labels"][HASH].as_str().unwrap_or_default().to_owned()
    }

    /// After every single write: whoever gets requests has pods that answer, unless no version has any.
    fn check_shares(&self) {
        if self.rollout.status.stable_rs.is_empty() || !self.check_requests || self.available() == 0 {
            return;
        }
        for (hash, weight) in self.shares() {
            if weight == 0 || hash.is_empty() {
                continue;
            }
            let set = self.sets.iter().find(|set| set["metadata"]["labels"][HASH] == hash.as_str());
            let available = set.map_or(0, |set| set["status"]["availableReplicas"].as_i64().unwrap_or(0));
            assert!(
                available > 0,
                "{weight} % of the requests go to {hash}, which has no pod: {:?}",
                self.shares()
            );
            if self.check_capacity {
                let needed = self.rollout.replicas() * weight / 100;
                assert!(available >= needed, "{available} pods of {hash} get {weight} % of the requests");
            }
        }
    }

    /// Whoever is told that it is healthy finds every route and Service as it should be. What is said of an older spec is not said of this one.
    fn check_claim(&self) {
        if slipway_rollout::phase::of(&self.rollout).0 != "Healthy" {
            return;
        }
        for action in self.plan().actions {
            let kind = match &action {
                Action::Create(object) => object["kind"].as_str().unwrap_or_default().to_owned(),
                Action::Patch { target, .. } | Action::Delete { target, .. } | Action::Evict { target } => {
                    target.kind.clone()
                }
            };
            let routes = !["ReplicaSet", "Pod", "Rollout", "AnalysisRun", "Experiment", "Deployment"]
                .contains(&kind.as_str());
            assert!(!routes, "it says that it is healthy, and this is still to be written: {action:?}");
        }
    }

    pub(crate) fn available(&self) -> i64 {
        self.sets.iter().map(|set| set["status"]["availableReplicas"].as_i64().unwrap_or(0)).sum()
    }

    /// Pods that are wanted of the version with this image.
    pub(crate) fn size(&self, image: &str) -> i64 {
        let of = self.sets.iter().filter(|set| Self::image_of(set) == image);
        of.map(|set| set["spec"]["replicas"].as_i64().unwrap_or(0)).sum()
    }

    pub(crate) fn hash(&self, image: &str) -> String {
        let set = self.sets.iter().find(|set| Self::image_of(set) == image).expect("there is such a version");
        set["metadata"]["labels"][HASH].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn selector(&self, service: &str) -> String {
        self.services[service]["spec"]["selector"][HASH].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn phase(&self) -> (&str, &str) {
        (&self.rollout.status.phase, &self.rollout.status.message)
    }

    /// The events since the last time.
    pub(crate) fn reasons(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.events).into_iter().map(|event| event.reason).collect()
    }
}

fn reference_of(object: &Value) -> Reference {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let group =
        text(&object["apiVersion"]).rsplit_once('/').map_or(String::new(), |(group, _)| group.to_owned());
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or("shop").to_owned();
    Reference { group, kind: text(&object["kind"]), namespace, name: text(&metadata["name"]) }
}

fn of_target(target: &Target) -> Reference {
    reference_of(&target.object())
}

pub(crate) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            object.as_object_mut().expect("an object").remove(name);
        } else {
            merge(&mut object[name.as_str()], value);
        }
    }
}
