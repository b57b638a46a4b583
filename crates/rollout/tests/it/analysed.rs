//! Updates that are analysed: runs are started, followed and ended, and their outcome decides.

use serde_json::{Value, json};
use slipway_rollout::orders::Order;

use crate::sim::Sim;

fn analysis() -> Value {
    json!({"templates": [{"templateName": "rate"}], "args": [{"name": "hash", "valueFrom": {"podTemplateHashValue": "Latest"}}]})
}

fn updating(strategy: Value) -> Sim {
    let mut sim = Sim::new(2, strategy).with_template("rate").with_service("active").with_service("preview");
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""), "{}", sim.waiting);
    assert!(sim.runs.is_empty(), "the first version is not analysed");
    sim.set_image("b");
    sim.settle();
    sim
}

fn in_a_step() -> Sim {
    let steps = json!([{"setWeight": 50}, {"analysis": analysis()}]);
    let sim = updating(json!({"canary": {"maxSurge": 1, "maxUnavailable": 0, "steps": steps}}));
    assert_eq!(sim.runs.len(), 1);
    sim
}

#[test]
fn a_step_waits_for_its_analysis_and_goes_on_when_it_is_good() {
    let mut sim = in_a_step();
    let name = format!("web-{}-2-1", sim.hash("b"));
    assert_eq!(sim.runs[0].metadata.name, name);
    assert_eq!(sim.runs[0].spec.args[0].value, Some(sim.hash("b")));
    let labels = &sim.runs[0].metadata.labels;
    assert_eq!((labels["rollout-type"].as_str(), labels["step-index"].as_str()), ("Step", "1"));
    assert_eq!(sim.waiting, format!("step 2 waits for the analysis {name} (Pending)"));
    sim.conclude("Running", "");
    sim.settle();
    let known = sim.rollout.status.canary.current_step_analysis_run_status.clone().expect("it is told of");
    assert_eq!((known.name.as_str(), known.status.as_str()), (name.as_str(), "Running"));
    sim.conclude("Successful", "");
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""));
    assert_eq!(sim.runs.len(), 1);
    assert!(sim.rollout.status.canary.current_step_analysis_run_status.is_none());
}

#[test]
fn an_argument_may_be_a_field_whose_name_has_dots() {
    let of = |path: &str| {
        let args = json!([{"name": "hash", "valueFrom": {"fieldRef": {"fieldPath": path}}}]);
        let steps = json!([{"analysis": {"templates": [{"templateName": "rate"}], "args": args}}]);
        let mut sim = Sim::new(2, json!({"canary": {"steps": steps}})).with_template("rate");
        sim.rollout.metadata.labels.insert("app.kubernetes.io/name".into(), "shop".into());
        sim.settle();
        sim.set_image("b");
        sim.settle();
        sim.runs.first().and_then(|run| run.spec.args[0].value.clone())
    };
    assert_eq!(of("metadata.labels['app.kubernetes.io/name']").as_deref(), Some("shop"));
    assert_eq!(of("metadata.name").as_deref(), Some("web"));
    assert_eq!(of("spec.template.spec.containers[0].image").as_deref(), Some("b"));
    assert_eq!(of("metadata.labels['nothing']"), None);
    assert_eq!(of("metadata.labels['broken"), None);
}

#[test]
fn a_bad_analysis_aborts_and_a_retry_measures_again() {
    for phase in ["Failed", "Error"] {
        let mut sim = in_a_step();
        sim.conclude(phase, "it is bad");
        sim.settle();
        let wanted = "RolloutAborted: Rollout aborted update to revision 2: Step-based analysis phase error/failed: it is bad";
        assert_eq!(sim.phase(), ("Degraded", wanted));
        assert_eq!((sim.size("a"), sim.size("b")), (2, 0));
        sim.order(&Order::Retry);
        sim.settle();
        assert_eq!(sim.runs.len(), 2, "another run");
        assert_eq!(sim.runs[1].metadata.name, format!("{}.1", sim.runs[0].metadata.name));
        sim.conclude("Successful", "");
        sim.settle();
        assert_eq!(sim.phase(), ("Healthy", ""), "{}", sim.waiting);
    }
}

#[test]
fn an_analysis_that_cannot_tell_waits_for_a_person() {
    let mut sim = in_a_step();
    sim.conclude("Inconclusive", "");
    sim.settle();
    assert_eq!(sim.phase(), ("Paused", "InconclusiveAnalysisRun"));
    assert_eq!((sim.size("a"), sim.size("b")), (1, 1), "nothing moves");
    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!(sim.runs.len(), 2, "it is measured again: {:?}", sim.phase());
    sim.conclude("Successful", "");
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""));
}

#[test]
fn an_analysis_in_the_background_begins_at_its_step_and_ends_with_the_update() {
    let mut background = analysis();
    background["startingStep"] = 1.into();
    let canary = json!({"canary": {"analysis": background, "steps": [{"pause": {}}, {"setWeight": 50}, {"pause": {}}]}});
    let mut sim = updating(canary.clone());
    assert!(sim.runs.is_empty(), "its step has not come yet");
    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!(sim.runs.len(), 1);
    assert_eq!(sim.runs[0].metadata.labels["rollout-type"], "Background");
    sim.conclude("Running", "");
    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""), "{}", sim.waiting);
    assert!(sim.runs[0].spec.terminate, "it goes on for ever otherwise");

    let mut sim = updating(canary);
    sim.order(&Order::Promote);
    sim.settle();
    sim.conclude("Failed", "");
    sim.settle();
    assert_eq!(sim.phase().0, "Degraded");
    assert!(sim.phase().1.contains("Background analysis phase error/failed"), "{}", sim.phase().1);
}

#[test]
fn a_blue_green_switch_is_analysed_before_and_after() {
    let strategy = json!({"blueGreen": {"activeService": "active", "previewService": "preview",
        "prePromotionAnalysis": analysis(), "postPromotionAnalysis": analysis()}});
    let mut sim = updating(strategy.clone());
    let old = sim.hash("a");
    assert_eq!((sim.selector("active"), sim.runs.len()), (old.clone(), 1));
    assert!(sim.runs[0].metadata.name.ends_with("-pre"));
    sim.conclude("Successful", "");
    sim.settle();
    assert_eq!((sim.selector("active"), sim.runs.len()), (sim.hash("b"), 2));
    assert_eq!(sim.phase(), ("Progressing", "waiting for analysis to complete"));
    sim.conclude("Failed", "it is bad");
    sim.settle();
    assert_eq!(sim.phase().0, "Degraded");
    assert_eq!(sim.selector("active"), old, "back at once");

    let mut sim = updating(strategy);
    sim.conclude("Successful", "");
    sim.settle();
    sim.conclude("Successful", "");
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""));
    assert_eq!(sim.rollout.status.stable_rs, sim.hash("b"));
}

#[test]
fn a_template_that_is_missing_is_named() {
    let mut sim = Sim::new(1, json!({"canary": {"steps": [{"analysis": analysis()}]}}));
    sim.reconcile();
    let message = sim.phase().1;
    assert!(
        message
            .contains("spec.strategy.canary.steps[0].analysis.templates: AnalysisTemplate 'rate' not found"),
        "{message}"
    );
    assert!(sim.sets.is_empty());
}
