//! What people are shown of a Rollout.

use serde_json::json;
use slipway_rollout::orders::Order;
use slipway_rollout::player::{Player, State, player};

use crate::routed::gateway;
use crate::sim::Sim;

fn shown(sim: &Sim) -> Player {
    // Readers see neither Services nor routes nor templates.
    let mut observed = sim.observed();
    observed.services.clear();
    observed.routes.objects.clear();
    observed.templates.clear();
    player(&observed, sim.now)
}

fn states(player: &Player) -> Vec<State> {
    player.steps.iter().map(|step| step.state).collect()
}

fn refused<'a>(player: &'a Player, order: &Order) -> Option<&'a str> {
    let offer = player.offers.iter().find(|offer| offer.order == *order).expect("it is offered");
    offer.refused.as_deref()
}

#[test]
fn steps_weights_and_offers_follow_an_update() {
    let steps = json!({"canary": {"maxSurge": 1, "maxUnavailable": 0, "steps": [{"setWeight": 25}, {"pause": {}}, {"setWeight": 50}, {"pause": {"duration": "30s"}}]}});
    let mut sim = Sim::new(4, steps);
    sim.settle();
    let rest = shown(&sim);
    assert_eq!((rest.phase.as_str(), rest.waiting.as_str(), rest.step), ("Healthy", "", Some(4)));
    assert_eq!(states(&rest), [State::Passed; 4]);
    assert_eq!(
        refused(&rest, &Order::Abort),
        Some("web has no update under way that could be aborted; go back with `undo`")
    );
    assert_eq!(rest.weights.map(|weights| (weights.now, weights.wanted)), Some((100, 100)));

    sim.set_image("b");
    let unseen = shown(&sim);
    assert_eq!(unseen.phase, "Progressing");
    assert!(unseen.waiting.contains("does a controller for Rollouts run"), "{}", unseen.waiting);
    sim.settle();
    let paused = shown(&sim);
    assert_eq!(states(&paused), [State::Passed, State::PausedIndefinite, State::Pending, State::Pending]);
    assert_eq!(paused.waiting, sim.waiting, "readers are told what the engine says");
    assert!(paused.waiting.contains("step 2 of 4 waits for a person"), "{}", paused.waiting);
    let weights = paused.weights.expect("a canary has weights");
    assert_eq!(
        (weights.now, weights.wanted, weights.most, weights.routed),
        (25, 25, 100, false),
        "by its pods"
    );
    assert_eq!((refused(&paused, &Order::Resume), refused(&paused, &Order::Abort)), (None, None));
    assert_eq!(refused(&paused, &Order::Retry), Some("web was not aborted"));
    let versions: Vec<_> = paused
        .versions
        .iter()
        .map(|one| (one.revision, one.roles.clone(), one.images.clone(), one.available))
        .collect();
    assert_eq!(
        versions,
        [(2, vec!["canary"], vec!["b".to_owned()], 1), (1, vec!["stable"], vec!["a".to_owned()], 3)]
    );

    sim.order(&Order::Promote);
    sim.settle();
    let timed = shown(&sim);
    assert_eq!(states(&timed), [State::Passed, State::Passed, State::Passed, State::Active]);
    assert!(timed.waiting.contains("pauses until"), "{}", timed.waiting);
    sim.order(&Order::Abort);
    sim.settle();
    let aborted = shown(&sim);
    assert_eq!((aborted.phase.as_str(), states(&aborted)), ("Degraded", vec![State::Terminated; 4]));
    assert_eq!(
        (refused(&aborted, &Order::Retry), refused(&aborted, &Order::Abort)),
        (None, Some("web is aborted already"))
    );
    assert_eq!(aborted.weights.map(|weights| (weights.now, weights.wanted)), Some((0, 0)));
}

#[test]
fn a_router_has_the_true_weights() {
    let route = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "shop", "namespace": "shop", "generation": 1},
        "spec": {"rules": [{"backendRefs": [{"name": "stable", "port": 80, "weight": 100}, {"name": "canary", "port": 80, "weight": 0}]}]}});
    let steps = json!({"steps": [{"setWeight": 10}, {"pause": {}}]});
    let sim = Sim::new(2, gateway(steps)).with_service("stable").with_service("canary");
    let mut sim = sim.with_route(route);
    sim.settle();
    assert_eq!(shown(&sim).weights.map(|weights| (weights.now, weights.routed)), Some((100, true)));
    sim.broken.push("b".into());
    sim.set_image("b");
    sim.settle();
    let held = shown(&sim);
    assert_eq!(
        held.weights.map(|weights| (weights.now, weights.wanted)),
        Some((0, 10)),
        "wanted, and not there yet"
    );
    assert!(held.waiting.contains("0 of 1 pods of revision 2"), "{}", held.waiting);
    sim.broken.clear();
    sim.settle();
    assert_eq!(shown(&sim).weights.map(|weights| (weights.now, weights.wanted)), Some((10, 10)));
}

#[test]
fn runs_are_shown_with_what_they_measured_and_the_step_that_failed() {
    let canary = json!({"canary": {"steps": [{"setWeight": 50}, {"analysis": {"templates": [{"templateName": "rate"}], "args": [{"name": "hash", "value": "x"}]}}]}});
    let mut sim = Sim::new(2, canary).with_template("rate");
    sim.settle();
    sim.set_image("b");
    sim.settle();
    let waiting = shown(&sim);
    assert!(waiting.waiting.contains("step 2 waits for the analysis"), "{}", waiting.waiting);
    let run = sim.runs.last_mut().expect("a run");
    run.status = serde_json::from_value(json!({"phase": "Failed", "message": "too many errors", "metricResults": [{"name": "rate", "phase": "Failed", "failed": 1,
        "measurements": [{"phase": "Successful", "value": "[0.99]", "finishedAt": "2026-01-01T00:00:01Z"}, {"phase": "Failed", "value": "[0.5]", "finishedAt": "2026-01-01T00:00:02Z"}]}]}))
    .expect("a status");
    sim.settle();
    let failed = shown(&sim);
    assert_eq!(states(&failed), [State::Terminated, State::Failed]);
    let [run] = failed.runs.as_slice() else { panic!("one run: {:?}", failed.runs) };
    assert_eq!(
        (run.kind.as_str(), run.step, run.phase.as_str(), run.revision.as_str()),
        ("Step", Some(1), "Failed", "2")
    );
    let metric = &run.metrics[0];
    assert_eq!((metric.provider.as_str(), metric.failed), ("web", 1));
    let numbers: Vec<_> = metric.measurements.iter().map(|one| one.number).collect();
    assert_eq!(numbers, [Some(0.99), Some(0.5)]);
}
