//! The Rollouts of an Application: what the pure room says of each, in the words of the wire.
//!
//! In: the live objects of the Application with all that they own, wherever it deploys to. Which controller carries the Rollouts out does not
//! matter: everything is read from what is written about them.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use slipway_api::application::ProxyOperation;
use slipway_api::rollout as wire;
use slipway_crd::names::GROUP;
use slipway_gitops::object;
use slipway_rollout::orders::Order;
use slipway_rollout::plan::Observed;
use slipway_rollout::player::{self, Player};

pub(super) fn of(family: &[Value]) -> Vec<wire::Rollout> {
    let is =
        |live: &&Value, group: &str, kind: &str| object::group(live) == group && object::kind(live) == kind;
    let rollouts = family.iter().filter(|live| is(live, GROUP, "Rollout"));
    let all = rollouts.filter_map(|live| {
        let rollout: slipway_crd::rollout::Rollout = serde_json::from_value(live.clone()).ok()?;
        let uid = rollout.metadata.uid.clone();
        let owned = |group: &'static str, kind: &'static str| {
            let (uid, is_of_kind) = (uid.clone(), move |live: &&Value| is(live, group, kind));
            family.iter().filter(is_of_kind).filter(move |live| is_owned_by(live, &uid))
        };
        let observed = Observed {
            replica_sets: owned("apps", "ReplicaSet").cloned().collect(),
            runs: read(owned(GROUP, "AnalysisRun")),
            experiments: read(owned(GROUP, "Experiment")),
            rollout,
            ..Observed::default()
        };
        Some(shown(player::player(&observed, Timestamp::now())))
    });
    let mut all: Vec<wire::Rollout> = all.collect();
    all.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    all
}

fn read<'a, T: DeserializeOwned>(objects: impl Iterator<Item = &'a Value>) -> Vec<T> {
    objects.filter_map(|object| serde_json::from_value(object.clone()).ok()).collect()
}

fn is_owned_by(live: &Value, uid: &str) -> bool {
    let owners = live["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.into_iter().any(|owner| owner["controller"] == true && owner["uid"] == uid)
}

fn operation(order: &Order) -> Option<ProxyOperation> {
    Some(match order {
        Order::Pause => ProxyOperation::RolloutPause,
        Order::Resume => ProxyOperation::RolloutResume,
        Order::PromoteFull => ProxyOperation::RolloutPromoteFull,
        Order::SkipStep => ProxyOperation::RolloutSkipCurrentStep,
        Order::Abort => ProxyOperation::RolloutAbort,
        Order::Retry => ProxyOperation::RolloutRetry,
        Order::Restart => ProxyOperation::RolloutRestart,
        // What changes the pod template is Git's to say.
        Order::Promote | Order::Undo(_) | Order::SetImage(_) => return None,
    })
}

fn shown(player: Player) -> wire::Rollout {
    let actions = player.offers.into_iter().filter_map(|offer| {
        let operation = operation(&offer.order)?.word().to_owned();
        Some(wire::RolloutAction { operation, disabled_reason: offer.refused })
    });
    wire::Rollout {
        namespace: player.namespace,
        name: player.name,
        uid: player.uid,
        strategy: player.strategy.to_owned(),
        phase: player.phase,
        message: player.message,
        waiting: player.waiting,
        step: player.step,
        steps: player
            .steps
            .into_iter()
            .map(|step| wire::RolloutStep { words: step.words, state: step.state.word().to_owned() })
            .collect(),
        weights: player.weights.map(|weights| wire::RolloutWeights {
            now: weights.now,
            wanted: weights.wanted,
            most: weights.most,
            routed: weights.routed,
            verified: weights.verified,
        }),
        revisions: player.versions.into_iter().map(revision).collect(),
        runs: player.runs.into_iter().map(run).collect(),
        desired: player.desired,
        updated: player.updated,
        ready: player.ready,
        available: player.available,
        actions: actions.collect(),
    }
}

fn revision(version: player::Version) -> wire::RolloutRevision {
    wire::RolloutRevision {
        revision: version.revision,
        name: version.name,
        hash: version.hash,
        roles: version.roles.into_iter().map(str::to_owned).collect(),
        images: version.images,
        desired: version.desired,
        ready: version.ready,
        available: version.available,
        created: version.created,
        leaves: version.leaves,
    }
}

fn run(run: player::Run) -> wire::RolloutRun {
    let metric = |metric: player::Metric| wire::RolloutMetric {
        name: metric.name,
        provider: metric.provider,
        phase: metric.phase,
        message: metric.message,
        success_condition: metric.success_condition,
        failure_condition: metric.failure_condition,
        dry_run: metric.dry_run,
        successful: metric.successful,
        failed: metric.failed,
        inconclusive: metric.inconclusive,
        error: metric.error,
        measurements: metric.measurements.into_iter().map(measurement).collect(),
    };
    wire::RolloutRun {
        name: run.name,
        kind: run.kind,
        step: run.step,
        revision: run.revision,
        phase: run.phase,
        message: run.message,
        started_at: run.started_at,
        completed_at: run.completed_at,
        metrics: run.metrics.into_iter().map(metric).collect(),
    }
}

fn measurement(one: player::Measured) -> wire::RolloutMeasurement {
    wire::RolloutMeasurement {
        at: one.at,
        phase: one.phase,
        value: one.value,
        number: one.number,
        message: one.message,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rollout_is_told_with_what_it_owns_and_with_nothing_of_others() {
        let owner = |uid: &str| json!([{"controller": true, "uid": uid, "kind": "Rollout", "name": "web"}]);
        let rollout = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "generation": 2},
            "spec": {"replicas": 4, "strategy": {"canary": {"steps": [{"setWeight": 25}, {"pause": {}}]}}},
            "status": {"phase": "Paused", "message": "CanaryPauseStep", "observedGeneration": "2", "currentStepIndex": 1,
                "stableRS": "a", "currentPodHash": "b", "controllerPause": true,
                "pauseConditions": [{"reason": "CanaryPauseStep", "startTime": "2026-01-01T00:00:00Z"}]}});
        let set = |name: &str, hash: &str, uid: &str, pods: i64| {
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": {"name": name, "namespace": "shop", "labels": {"rollouts-pod-template-hash": hash}, "ownerReferences": owner(uid),
                    "annotations": {"rollout.argoproj.io/revision": if hash == "a" { "1" } else { "2" }}},
                "spec": {"replicas": pods, "template": {"spec": {"containers": [{"name": "c", "image": format!("web:{hash}")}]}}},
                "status": {"availableReplicas": pods, "readyReplicas": pods}})
        };
        let family =
            [rollout, set("web-a", "a", "u", 3), set("web-b", "b", "u", 1), set("other", "x", "v", 9)];
        let all = of(&family);
        let [web] = all.as_slice() else { panic!("one Rollout: {all:?}") };
        assert_eq!((web.phase.as_str(), web.step, web.steps.len()), ("Paused", Some(1), 2));
        let names: Vec<_> =
            web.revisions.iter().map(|one| (one.revision, one.name.as_str(), one.roles.join(","))).collect();
        assert_eq!(names, [(2, "web-b", "canary".to_owned()), (1, "web-a", "stable".to_owned())]);
        assert_eq!(web.weights.as_ref().map(|weights| (weights.now, weights.wanted)), Some((25, 25)));
        let resume =
            web.actions.iter().find(|action| action.operation == "rollout-resume").expect("it is offered");
        assert_eq!(resume.disabled_reason, None);
        let retry =
            web.actions.iter().find(|action| action.operation == "rollout-retry").expect("it is offered");
        assert_eq!(retry.disabled_reason.as_deref(), Some("web was not aborted"));
        assert!(web.waiting.contains("step 2 of 2 waits for a person"), "{}", web.waiting);
    }
}
