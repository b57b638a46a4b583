//! Experiments, played on counted pods: alone, and as steps of a canary.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_crd::analysis::{AnalysisRun, AnalysisTemplate, Experiment};
use slipway_rollout::experiment::{Observed, Status, plan};
use slipway_rollout::names::HASH;
use slipway_rollout::orders::Order;
use slipway_rollout::plan::Action;

use crate::sim::{Sim, merge};

/// A cluster with one Experiment.
struct Lab {
    observed: Observed,
    now: Timestamp,
    broken: bool,
    reasons: Vec<&'static str>,
}

fn template(name: &str, more: Value) -> Value {
    let mut template = json!({"name": name, "replicas": 2, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "web", "image": name, "ports": [{"containerPort": 8080, "name": "http"}]}]}}});
    merge(&mut template, &more);
    template
}

impl Lab {
    fn new(spec: Value) -> Self {
        let experiment = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Experiment", "metadata": {"name": "try", "namespace": "shop", "uid": "uid"}, "spec": spec});
        let analysis = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AnalysisTemplate", "metadata": {"name": "rate"}, "spec": {
            "args": [{"name": "hash"}], "metrics": [{"name": "rate", "provider": {"web": {"url": "http://{{args.hash}}"}}}]}});
        let templates: Vec<AnalysisTemplate> = vec![serde_json::from_value(analysis).expect("a template")];
        let experiment: Experiment = serde_json::from_value(experiment).expect("an Experiment");
        let observed = Observed { experiment, templates, ..Observed::default() };
        Self {
            observed,
            now: "2026-01-01T00:00:00Z".parse().expect("a time"),
            broken: false,
            reasons: Vec::new(),
        }
    }

    fn status(&self) -> Status {
        Status::of(&self.observed.experiment.status)
    }

    /// Engine and pods take turns until nothing changes any more.
    fn settle(&mut self) {
        for _ in 0..50 {
            let next = plan(&self.observed, self.now);
            let status = serde_json::to_value(&next.status).expect("writable");
            let idle = next.actions.is_empty() && status == self.observed.experiment.status;
            next.actions.into_iter().for_each(|action| self.act(action));
            self.observed.experiment.status = status;
            self.reasons.extend(next.events.iter().map(|event| event.reason));
            let broken = self.broken;
            let mut changed = false;
            for set in &mut self.observed.replica_sets {
                let wanted = set["spec"]["replicas"].clone();
                let available = if broken { json!(0) } else { wanted.clone() };
                let after =
                    json!({"replicas": wanted, "readyReplicas": available, "availableReplicas": available});
                changed |= set["status"] != after;
                set["status"] = after;
            }
            if idle && !changed {
                return;
            }
        }
        panic!("it does not come to rest: {:?}", self.status());
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Create(object) => match object["kind"].as_str() {
                Some("ReplicaSet") => self.observed.replica_sets.push(object),
                Some("Service") => self.observed.services.push(object),
                _ => self.observed.runs.push(serde_json::from_value(object).expect("a run")),
            },
            Action::Patch { target, patch } if target.kind == "AnalysisRun" => {
                let run = self.observed.runs.iter_mut().find(|run| run.metadata.name == target.name);
                run.expect("a run").spec.terminate = patch["spec"]["terminate"] == true;
            }
            Action::Patch { target, patch } => {
                let set = self
                    .observed
                    .replica_sets
                    .iter_mut()
                    .find(|set| set["metadata"]["name"] == target.name.as_str());
                merge(set.expect("a ReplicaSet"), &patch);
            }
            Action::Delete { target, .. } => {
                self.observed.services.retain(|service| service["metadata"]["name"] != target.name.as_str());
            }
            Action::Evict { .. } => {}
        }
    }

    fn conclude(&mut self, phase: &str, message: &str) {
        let run: &mut AnalysisRun = self.observed.runs.last_mut().expect("there is a run");
        (run.status.phase, run.status.message) = (phase.to_owned(), message.to_owned());
    }

    fn sizes(&self) -> Vec<i64> {
        self.observed.replica_sets.iter().map(|set| set["spec"]["replicas"].as_i64().unwrap_or(-1)).collect()
    }

    fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
        self.settle();
    }
}

#[test]
fn versions_run_for_their_time_and_leave() {
    let mut lab = Lab::new(
        json!({"duration": "5m", "scaleDownDelaySeconds": 10, "templates": [template("a", json!({})), template("b", json!({"service": {}}))]}),
    );
    lab.settle();
    let status = lab.status();
    assert_eq!(
        (status.phase.as_str(), status.available_at.as_deref()),
        ("Running", Some("2026-01-01T00:00:00Z"))
    );
    assert_eq!(lab.sizes(), [2, 2]);
    let set = &lab.observed.replica_sets[1];
    assert_eq!(
        (&set["metadata"]["name"], &set["metadata"]["annotations"]["experiment.argoproj.io/template-name"]),
        (&json!("try-b"), &json!("b"))
    );
    let service = &lab.observed.services[0];
    assert_eq!(
        (&service["metadata"]["name"], &service["spec"]["selector"][HASH]),
        (&json!("try-b"), &set["metadata"]["labels"][HASH])
    );
    assert_eq!(service["spec"]["ports"], json!([{"port": 8080, "targetPort": 8080, "name": "http"}]));
    assert_eq!(status.template_statuses[1].service_name, "try-b");
    assert_eq!(
        plan(&lab.observed, lab.now).requeue_at,
        Some("2026-01-01T00:05:00Z".parse().expect("a time"))
    );
    lab.pass(300);
    assert_eq!(
        (lab.status().phase.as_str(), lab.sizes()),
        ("Successful", vec![2, 2]),
        "they stay for a moment"
    );
    lab.pass(11);
    assert_eq!((lab.sizes(), lab.observed.services.len()), (vec![0, 0], 0));
    assert!(
        lab.reasons.contains(&"TemplateRunning") && lab.reasons.contains(&"TemplateSuccessful"),
        "{:?}",
        lab.reasons
    );
}

#[test]
fn an_analysis_decides_about_an_experiment() {
    let analyses = json!([{"name": "rate", "templateName": "rate", "args": [{"name": "hash", "value": "{{templates.a.podTemplateHash}}"}]}]);
    let mut lab =
        Lab::new(json!({"duration": "5m", "templates": [template("a", json!({}))], "analyses": analyses}));
    lab.settle();
    let run = &lab.observed.runs[0];
    assert_eq!(run.metadata.name, "try-rate");
    let hash = lab.observed.replica_sets[0]["metadata"]["labels"][HASH].as_str();
    assert_eq!(run.spec.args[0].value.as_deref(), hash);
    lab.conclude("Failed", "too slow");
    lab.settle();
    assert_eq!((lab.status().phase.as_str(), lab.status().message.as_str()), ("Failed", "too slow"));
    assert!(lab.reasons.contains(&"AnalysisRunFailed"));

    let analyses = json!([{"name": "rate", "templateName": "rate", "requiredForCompletion": true, "args": [{"name": "hash", "value": "x"}]}]);
    let mut lab = Lab::new(json!({"templates": [template("a", json!({}))], "analyses": analyses}));
    lab.settle();
    assert_eq!(lab.status().phase, "Running", "without a duration it waits for what is required");
    lab.conclude("Successful", "");
    lab.settle();
    assert_eq!(lab.status().phase, "Successful");

    let missing = json!([{"name": "rate", "templateName": "nothing"}]);
    let mut lab = Lab::new(json!({"templates": [template("a", json!({}))], "analyses": missing}));
    lab.settle();
    assert_eq!(lab.status().phase, "Error");
    assert!(
        lab.status().message.contains("AnalysisTemplate 'nothing' not found"),
        "{}",
        lab.status().message
    );
}

#[test]
fn pods_that_do_not_come_fail_it_and_somebody_may_end_it() {
    let mut lab = Lab::new(json!({"progressDeadlineSeconds": 60, "templates": [template("a", json!({}))]}));
    lab.broken = true;
    lab.settle();
    assert_eq!(lab.status().phase, "Pending");
    lab.pass(62);
    assert_eq!(lab.status().message, "Template 'a' exceeded its progressDeadlineSeconds (60)");
    assert_eq!(lab.status().phase, "Failed");

    let mut lab = Lab::new(json!({"templates": [template("a", json!({}))]}));
    lab.settle();
    assert_eq!(lab.status().phase, "Running");
    lab.observed.experiment.spec.terminate = true;
    lab.settle();
    assert_eq!(lab.status().phase, "Successful");
    lab.pass(31);
    assert_eq!(lab.sizes(), [0]);
}

#[test]
fn a_service_that_is_somebody_elses_is_not_taken() {
    let mut lab = Lab::new(json!({"templates": [template("a", json!({"service": {"name": "shop"}}))]}));
    lab.observed.taken = vec!["shop".into()];
    lab.settle();
    assert_eq!(lab.status().phase, "Error");
    assert!(lab.status().message.contains("service shop already exists"), "{}", lab.status().message);
}

#[test]
fn a_replica_set_that_is_somebody_elses_is_not_asked_for_for_ever() {
    let mut lab = Lab::new(json!({"templates": [template("a", json!({})), template("b", json!({}))]}));
    lab.observed.taken_sets = vec!["try-b".into()];
    lab.settle();
    assert_eq!((lab.status().phase.as_str(), lab.observed.replica_sets.len()), ("Error", 1));
    assert!(lab.status().message.contains("ReplicaSet try-b"), "{}", lab.status().message);
}

#[test]
fn an_experiment_that_is_tried_again_keeps_its_pods_as_long_as_the_first_time() {
    let spec =
        json!({"duration": "1m", "scaleDownDelaySeconds": 20, "templates": [template("a", json!({}))]});
    // Again while its pods are there, and after they left.
    for later in [10, 25] {
        let mut lab = Lab::new(spec.clone());
        lab.settle();
        lab.pass(60);
        lab.pass(later);
        lab.observed.experiment.status = Value::Null;
        lab.settle();
        assert_eq!((lab.status().phase.as_str(), lab.sizes()), ("Running", vec![2]));
        lab.pass(60);
        assert_eq!((lab.status().phase.as_str(), lab.sizes()), ("Successful", vec![2]), "after {later}");
        lab.pass(21);
        assert_eq!(lab.sizes(), [0]);
    }
}

#[test]
fn an_experiment_that_cannot_be_meant_is_an_error_and_runs_nothing() {
    let pods = |pods: Value| json!({"name": "a", "template": pods});
    for (spec, why) in [
        (json!({"templates": []}), "spec.templates: at least one"),
        (json!({"duration": "soon", "templates": [template("a", json!({}))]}), "spec.duration: `soon`"),
        (
            json!({"templates": [template("a", json!({})), template("a", json!({}))]}),
            "spec.templates[1].name",
        ),
        (json!({"templates": [pods(Value::Null)]}), "spec.templates[0].template"),
        (json!({"templates": [pods(json!("text"))]}), "spec.templates[0].template"),
        (json!({"templates": [pods(json!({"metadata": {"labels": "text"}}))]}), "spec.templates[0].template"),
    ] {
        let mut lab = Lab::new(spec);
        lab.settle();
        let status = lab.status();
        assert_eq!((status.phase.as_str(), lab.observed.replica_sets.len()), ("Error", 0), "{why}");
        assert!(status.message.contains(why), "{}", status.message);
    }
}

#[test]
fn requests_leave_before_the_pods_of_an_experiment() {
    let mut lab = Lab::new(
        json!({"duration": "1m", "scaleDownDelaySeconds": 0, "templates": [template("a", json!({"service": {}}))]}),
    );
    lab.settle();
    lab.observed.routed = vec!["try-a".into()];
    lab.pass(61);
    assert_eq!(
        (lab.status().phase.as_str(), lab.sizes(), lab.observed.services.len()),
        ("Successful", vec![2], 1)
    );
    lab.observed.routed.clear();
    lab.settle();
    assert_eq!((lab.sizes(), lab.observed.services.len()), (vec![0], 0));
}

fn rollout_with_experiment() -> Sim {
    let step = json!({"experiment": {"duration": "5m", "templates": [{"name": "baseline", "specRef": "stable", "weight": 10, "metadata": {"labels": {"role": "baseline"}}}, {"name": "candidate", "specRef": "canary", "replicas": 2}],
        "analyses": [{"name": "compare", "templateName": "rate", "args": [{"name": "hash", "valueFrom": {"podTemplateHashValue": "Latest"}}]}]}});
    let route = json!({"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": {"name": "shop", "namespace": "shop"},
        "spec": {"http": [{"route": [{"destination": {"host": "stable"}, "weight": 100}, {"destination": {"host": "canary"}, "weight": 0}]}]}});
    let strategy = json!({"canary": {"canaryService": "canary", "stableService": "stable", "steps": [{"setWeight": 20}, step, {"setWeight": 50}, {"pause": {}}],
        "trafficRouting": {"istio": {"virtualService": {"name": "shop"}}}}});
    let sim = Sim::new(4, strategy).with_service("stable").with_service("canary").with_template("rate");
    let mut sim = sim.with_route(route);
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""), "{}", sim.waiting);
    sim.set_image("b");
    sim.settle();
    sim
}

fn tell(sim: &mut Sim, phase: &str) {
    let experiment = sim.experiments.last_mut().expect("there is an experiment");
    experiment.status = json!({"phase": phase, "message": "because", "templateStatuses": [{"name": "baseline", "serviceName": "web-1-baseline", "podTemplateHash": "xyz"}]});
    sim.settle();
}

#[test]
fn a_step_runs_an_experiment_with_its_share() {
    let mut sim = rollout_with_experiment();
    assert_eq!(sim.rollout.status.current_step_index, Some(1));
    let made = sim.experiments[0].clone();
    assert_eq!(made.metadata.name, format!("web-{}-2-1", sim.hash("b")));
    assert_eq!(sim.rollout.status.canary.current_experiment, made.metadata.name);
    assert_eq!(sim.waiting, format!("the experiment {} runs", made.metadata.name));
    let baseline = &made.spec.templates[0];
    let pod = baseline.template.clone().unwrap_or_default();
    assert_eq!(
        (&pod["spec"]["containers"][0]["image"], &pod["metadata"]["labels"]["role"]),
        (&json!("a"), &json!("baseline"))
    );
    assert!(pod["metadata"]["labels"][HASH].is_null());
    assert!(baseline.service.is_some() && made.spec.templates[1].service.is_none());
    assert_eq!(made.spec.analyses[0].args[0].value, Some(sim.hash("b")));

    tell(&mut sim, "Running");
    let destinations = |sim: &Sim| sim.route("VirtualService", "shop")["spec"]["http"][0]["route"].clone();
    assert_eq!(destinations(&sim)[0]["weight"], 70);
    assert_eq!(destinations(&sim)[2], json!({"destination": {"host": "web-1-baseline"}, "weight": 10}));
    assert_eq!(sim.rollout.status.canary.weights.clone().map(|weights| weights.additional.len()), Some(1));
    tell(&mut sim, "Successful");
    assert_eq!(sim.rollout.status.current_step_index, Some(3), "{}", sim.waiting);
    assert_eq!(destinations(&sim).as_array().map(Vec::len), Some(2), "nobody is sent to what leaves");
    assert_eq!(sim.rollout.status.canary.current_experiment, "");
}

#[test]
fn a_bad_experiment_aborts_and_one_that_cannot_tell_waits() {
    let mut sim = rollout_with_experiment();
    tell(&mut sim, "Failed");
    assert_eq!(sim.phase().0, "Degraded");
    assert!(
        sim.phase().1.contains("Experiment analysis phase is error/failed: because"),
        "{}",
        sim.phase().1
    );
    sim.order(&Order::Retry);
    sim.settle();
    assert_eq!(sim.experiments.len(), 2, "it is tried again");
    tell(&mut sim, "Inconclusive");
    assert_eq!(sim.phase(), ("Paused", "InconclusiveExperiment"));
    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!((sim.experiments.len(), sim.phase().0), (3, "Progressing"), "it is asked again");

    let mut sim = rollout_with_experiment();
    sim.order(&Order::Abort);
    sim.settle();
    assert!(sim.experiments[0].spec.terminate, "an abort ends it");
}
