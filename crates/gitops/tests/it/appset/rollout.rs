use jiff::Timestamp;
use serde_json::json;
use slipway_crd::ApplicationSet;
use slipway_gitops::appset::{Change, SetPlan, plan_deletion};

use super::{Live, Tree, nobody, plan_for, set, settle};

/// Three applications in three environments, each environment a step.
fn rolling(max_update: serde_json::Value) -> ApplicationSet {
    let step = |env: &str| json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [env]}]});
    let mut dev = step("dev");
    dev["maxUpdate"] = max_update;
    let mut set = set(json!({
        "goTemplate": true,
        "generators": [{"list": {"elements": [
            {"name": "d1", "env": "dev"}, {"name": "d2", "env": "dev"}, {"name": "p1", "env": "prod"}, {"name": "x", "env": "other"}]}}],
        "strategy": {"type": "RollingSync", "rollingSync": {"steps": [dev, step("prod")]}}}));
    set.spec.template.metadata.name = "{{.name}}".into();
    set.spec.template.metadata.labels.insert("env".into(), "{{.env}}".into());
    set.spec.template.spec["source"]["path"] = json!("x");
    set.spec.template.spec["syncPolicy"] = json!({"automated": {"prune": true}, "syncOptions": ["A=b"]});
    set
}

/// A world in which time goes on and the Application loop does its part.
struct World {
    set: ApplicationSet,
    live: Live,
    time: Timestamp,
}

impl World {
    fn new(set: ApplicationSet) -> Self {
        Self { set, live: Live::default(), time: "2026-01-01T00:00:00Z".parse().expect("a time") }
    }

    fn look(&mut self) -> SetPlan {
        self.time += jiff::SignedDuration::from_secs(10);
        let generation = settle(&self.set, vec![], &Tree::new(), &nobody);
        let plan = plan_for(&self.set, &generation, &self.live, self.time);
        self.live.apply(&plan);
        self.set.status = plan.status.clone();
        plan
    }

    /// `name status` of every application.
    fn statuses(&self) -> Vec<String> {
        let all = &self.set.status.application_status;
        all.iter().map(|s| format!("{} {} {}", s.application, s.step, s.status)).collect()
    }

    /// The Application loop compared it.
    fn compared(&mut self, name: &str, sync: &str, health: &str, revision: &str) {
        self.time += jiff::SignedDuration::from_secs(10);
        let time = self.time.to_string();
        let application = self.live.get(name);
        application["status"]["sync"] = json!({"status": sync, "revision": revision});
        application["status"]["health"] = json!({"status": health});
        application["status"]["reconciledAt"] = json!(time);
    }

    /// The Application loop took the operation and ended it.
    fn synced(&mut self, name: &str, health: &str) {
        self.time += jiff::SignedDuration::from_secs(10);
        let time = self.time.to_string();
        let application = self.live.get(name);
        assert!(application["operation"].is_object(), "{name} was not asked to sync");
        application.as_object_mut().expect("a map").remove("operation");
        application["status"]["operationState"] =
            json!({"operation": {}, "phase": "Succeeded", "startedAt": time, "finishedAt": time});
        let revision = application["status"]["sync"]["revision"].as_str().unwrap_or_default().to_owned();
        self.compared(name, "Synced", health, &revision);
    }

    fn asked(&self) -> Vec<&str> {
        let asked = self.live.0.iter().filter(|a| a["operation"].is_object());
        asked.filter_map(|a| a["metadata"]["name"].as_str()).collect()
    }
}

#[test]
fn steps_follow_each_other_and_each_waits_for_health() {
    let mut world = World::new(rolling(json!("100%")));
    let first = world.look();
    assert_eq!(world.live.names(), ["d1", "d2", "p1", "x"]);
    assert!(first.notes.is_empty(), "nothing is there yet: {:?}", first.notes);
    for name in ["d1", "d2", "p1", "x"] {
        let automated = &world.live.get(name)["spec"]["syncPolicy"]["automated"];
        assert_eq!(*automated, json!({"prune": true, "enabled": false}), "automation is off");
        world.compared(name, "OutOfSync", "Missing", "r1");
    }
    let second = world.look();
    assert_eq!(world.statuses(), ["d1 1 Pending", "d2 1 Pending", "p1 2 Waiting", "x -1 Waiting"]);
    assert_eq!(world.asked(), ["d1", "d2"]);
    let operation = world.live.get("d1")["operation"].clone();
    assert_eq!(operation["sync"], json!({"prune": true, "syncOptions": ["A=b"]}));
    assert_eq!(operation["retry"], json!({"limit": 5}));
    assert!(
        second.notes.iter().any(|note| note.contains("1 applications match no step")),
        "{:?}",
        second.notes
    );
    world.synced("d1", "Healthy");
    world.synced("d2", "Progressing");
    world.look();
    assert_eq!(world.statuses()[..3], ["d1 1 Progressing", "d2 1 Progressing", "p1 2 Waiting"]);
    world.look();
    assert_eq!(world.statuses()[..3], ["d1 1 Healthy", "d2 1 Progressing", "p1 2 Waiting"]);
    assert!(world.asked().is_empty(), "the second step waits for the first");
    world.compared("d2", "Synced", "Healthy", "r1");
    world.look();
    assert_eq!(world.statuses()[..3], ["d1 1 Healthy", "d2 1 Healthy", "p1 2 Pending"]);
    world.synced("p1", "Healthy");
    world.look();
    let end = world.look();
    assert_eq!(world.statuses()[..3], ["d1 1 Healthy", "d2 1 Healthy", "p1 2 Healthy"]);
    let progress =
        end.status.conditions.iter().find(|c| c.kind == "RolloutProgressing").expect("it is there");
    assert_eq!(
        (progress.status.as_str(), progress.message.as_str()),
        ("False", "ApplicationSet Rollout has completed")
    );
    // A new revision starts over.
    world.compared("d1", "OutOfSync", "Healthy", "r2");
    world.look();
    assert_eq!(world.statuses()[0], "d1 1 Pending");
}

#[test]
fn an_application_that_has_its_turn_before_it_was_compared_is_asked_once() {
    let mut world = World::new(rolling(json!("100%")));
    world.look();
    world.look();
    assert_eq!(world.asked(), ["d1", "d2"]);
    world.compared("d1", "OutOfSync", "Missing", "r1");
    world.look();
    assert_eq!(world.statuses()[0], "d1 1 Pending");
    world.synced("d1", "Healthy");
    for status in ["Progressing", "Healthy"] {
        world.look();
        assert_eq!(world.statuses()[0], format!("d1 1 {status}"));
        assert_eq!(world.asked(), ["d2"], "d1 was asked already");
    }
}

#[test]
fn a_step_updates_only_so_many_at_once() {
    for (max_update, at_once) in
        [(json!(1), 1), (json!("50%"), 1), (json!("1%"), 1), (json!("0%"), 0), (json!(0), 0), (json!(2), 2)]
    {
        let mut world = World::new(rolling(max_update.clone()));
        world.look();
        for name in ["d1", "d2", "p1", "x"] {
            world.compared(name, "OutOfSync", "Missing", "r1");
        }
        world.look();
        assert_eq!(world.asked().len(), at_once, "{max_update}");
    }
}

#[test]
fn a_changed_template_waits_for_its_turn() {
    let mut world = World::new(rolling(json!("100%")));
    world.look();
    for name in ["d1", "d2", "p1", "x"] {
        world.compared(name, "Synced", "Healthy", "r1");
    }
    world.look();
    assert!(world.statuses()[..3].iter().all(|status| status.ends_with("Healthy")), "{:?}", world.statuses());
    world.set.spec.template.spec["source"]["path"] = json!("elsewhere");
    let changed = world.look();
    assert_eq!(changed.changes.iter().filter(|change| matches!(change, Change::Update { .. })).count(), 4);
    // They were synced to what was there before; the comparison finds the change, and the rollout starts.
    for name in ["d1", "d2", "p1"] {
        world.compared(name, "OutOfSync", "Healthy", "r2");
    }
    world.look();
    assert_eq!(world.statuses()[..3], ["d1 1 Pending", "d2 1 Pending", "p1 2 Waiting"]);
}

#[test]
fn leaving_the_strategy_clears_the_statuses() {
    let mut world = World::new(rolling(json!(1)));
    world.look();
    world.look();
    assert!(!world.set.status.application_status.is_empty());
    world.set.spec.strategy = None;
    let plan = world.look();
    assert!(plan.status.application_status.is_empty());
    assert!(plan.status.conditions.iter().all(|c| c.kind != "RolloutProgressing"));
}

#[test]
fn a_reverse_deletion_takes_the_last_step_first_and_one_at_a_time() {
    let mut set = rolling(json!("100%"));
    set.spec.strategy.as_mut().expect("a strategy")["deletionOrder"] = json!("Reverse");
    let mut world = World::new(set);
    let plan = world.look();
    assert_eq!(plan.finalizers, Some(vec!["resources-finalizer.argocd.argoproj.io".to_owned()]));
    world.set.metadata.finalizers = plan.finalizers.expect("just seen");
    world.set.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    let mut order = Vec::new();
    for _ in 0..10 {
        let plan = plan_deletion(&world.set, &world.live.0, None);
        if plan.changes.is_empty() {
            assert_eq!(plan.finalizers, Some(vec![]), "the set itself goes last");
            break;
        }
        order.extend(plan.changes.iter().map(|change| change.name().to_owned()));
        world.live.apply(&plan);
    }
    assert_eq!(order, ["p1", "d2", "d1", "x"]);
}
