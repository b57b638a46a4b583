use super::*;
use crate::cluster::ClusterInfo;
use crate::compare::{CompareInput, compare};
use crate::tracking::set_tracking;
use serde_json::{Value, json};

fn application(automated: Value, status: Value) -> Application {
    serde_json::from_value(json!({
        "metadata": {"name": "shop", "namespace": "argocd"},
        "spec": {
            "source": {"repoURL": "r"}, "destination": {"server": "https://one", "namespace": "web"},
            "syncPolicy": {"automated": automated, "syncOptions": ["A=b"]},
        },
        "status": status,
    }))
    .expect("readable")
}

fn config(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "web", "uid": name}, "data": {"v": value}})
}

fn tracked(mut object: Value) -> Value {
    set_tracking(&mut object, "shop", &Settings::default());
    object
}

fn state(phase: &str, extra: Value) -> Value {
    let mut operation_state = json!({
        "operation": {"sync": {"revision": "one"}, "initiatedBy": {"automated": true}},
        "phase": phase, "message": "no", "startedAt": "2026-01-01T00:00:00Z",
        "syncResult": {"revision": "one", "source": {"repoURL": "r"}},
    });
    for (key, value) in extra.as_object().into_iter().flatten() {
        operation_state[key] = value.clone();
    }
    json!({"operationState": operation_state})
}

struct Case {
    application: Application,
    desired: Vec<Value>,
    live: Vec<Value>,
    revision: &'static str,
    windows: Vec<SyncWindow>,
    in_flight: InFlight,
    now: &'static str,
}

impl Case {
    fn new(automated: Value, status: Value) -> Self {
        Self {
            application: application(automated, status),
            desired: vec![config("a", "new"), config("b", "same")],
            live: vec![tracked(config("a", "old")), tracked(config("b", "same"))],
            revision: "one",
            windows: Vec::new(),
            in_flight: InFlight::Idle,
            now: "2026-01-01T00:10:00Z",
        }
    }

    fn decide(&self) -> AutoSync {
        let now = self.now.parse().expect("a time");
        let settings = Settings::default();
        let comparison = compare(CompareInput {
            application: &self.application,
            desired: &self.desired,
            live: &self.live,
            cluster: &ClusterInfo::default(),
            settings: &settings,
            project: None,
            now,
        });
        auto_sync_decision(AutoSyncInput {
            application: &self.application,
            comparison: &comparison,
            revisions: &[self.revision.to_string()],
            windows: &self.windows,
            cluster: ClusterNames { server: "https://one", name: "" },
            settings: &settings,
            in_flight: self.in_flight,
            now,
        })
    }

    #[track_caller]
    fn starts(&self) -> Operation {
        match self.decide() {
            AutoSync::Start { operation, .. } => *operation,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn skips(&self, word: &str) {
        match self.decide() {
            AutoSync::Skip { why } | AutoSync::Wait { why, .. } => assert!(why.contains(word), "{why}"),
            AutoSync::Refuse { condition } => {
                assert!(condition.message.contains(word), "{}", condition.message)
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn drift_starts_a_pinned_sync_with_the_options_of_the_application() {
    let operation = Case::new(json!({"prune": true}), json!({})).starts();
    let sync = operation.sync.expect("a sync");
    assert_eq!((sync.revision.as_str(), sync.prune, sync.resources.len()), ("one", true, 0));
    assert_eq!(sync.sync_options, ["A=b"]);
    assert_eq!(operation.retry.limit, 5);
    assert!(operation.initiated_by.automated);
}

#[test]
fn off_synced_busy_and_deleted_applications_are_left_alone() {
    Case::new(json!({"enabled": false}), json!({})).skips("off");
    let mut synced = Case::new(json!({}), json!({}));
    synced.desired = vec![config("a", "old"), config("b", "same")];
    synced.skips("as desired");
    let mut deleted = Case::new(json!({}), json!({}));
    deleted.application.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    deleted.skips("deleted");
    Case::new(json!({}), state("Running", json!({}))).skips("in progress");
    let mut asked = Case::new(json!({}), json!({}));
    asked.application.operation = Some(Operation::default());
    asked.skips("asked for");
}

#[test]
fn nothing_is_wiped_out_unless_that_is_allowed() {
    let mut case = Case::new(json!({"prune": true}), json!({}));
    case.desired.clear();
    case.skips("auto-sync will wipe out all resources");
    case.application = application(json!({"prune": true, "allowEmpty": true}), json!({}));
    assert!(case.starts().sync.expect("a sync").prune);
    case.application = application(json!({}), json!({}));
    case.skips("only pruning");
}

#[test]
fn a_failed_revision_is_not_tried_again_but_a_newer_one_is() {
    let mut case = Case::new(json!({}), state("Failed", json!({})));
    case.skips("Failed last sync attempt to [one]: no");
    case.revision = "two";
    assert_eq!(case.starts().sync.expect("a sync").revision, "two");
}

#[test]
fn a_newer_revision_takes_the_place_of_a_sync_that_gets_nowhere() {
    let mut retrying = Case::new(
        json!({}),
        state("Running", json!({"retryCount": 1, "finishedAt": "2026-01-01T00:05:00Z"})),
    );
    retrying.skips("in progress");
    retrying.revision = "two";
    assert!(matches!(retrying.decide(), AutoSync::Supersede { .. }));
    let mut waiting = Case::new(json!({}), state("Running", json!({})));
    waiting.revision = "two";
    waiting.skips("in progress");
    waiting.in_flight = InFlight::Working;
    waiting.skips("in progress");
    waiting.in_flight = InFlight::AwaitingHealth;
    assert!(matches!(waiting.decide(), AutoSync::Supersede { .. }));
    // A person's sync is theirs.
    waiting.application.status.operation_state.as_mut().expect("a state").operation.initiated_by.automated =
        false;
    waiting.skips("in progress");
}

#[test]
fn self_heal_syncs_only_what_drifted_and_waits_longer_each_time() {
    let done = |attempts: i64, finished: &str| {
        state(
            "Succeeded",
            json!({"finishedAt": finished, "operation": {"sync": {"revision": "one", "autoHealAttemptsCount": attempts}}}),
        )
    };
    Case::new(json!({}), done(0, "2026-01-01T00:09:00Z")).skips("self-heal is off");
    let heal = json!({"selfHeal": true});
    let sync = Case::new(heal.clone(), done(0, "2026-01-01T00:09:00Z")).starts().sync.expect("a sync");
    let names: Vec<_> = sync.resources.iter().map(|r| r.name.as_str()).collect();
    assert_eq!((names, sync.auto_heal_attempts_count), (vec!["a"], 1));
    Case::new(heal.clone(), done(0, "2026-01-01T00:09:59Z")).skips("waits 2 seconds");
    Case::new(heal.clone(), done(3, "2026-01-01T00:09:10Z")).skips("waits 54 seconds");
    Case::new(heal.clone(), done(30, "2026-01-01T00:09:00Z")).skips("waits 300 seconds");
    // After a quiet time it starts from the beginning.
    let after = Case::new(heal, done(30, "2026-01-01T00:00:00Z")).starts().sync.expect("a sync");
    assert_eq!(after.auto_heal_attempts_count, 1);
}

#[test]
fn a_repair_that_failed_is_tried_again_and_widened() {
    let failed = |phase: &str, resources: Value| {
        state(
            phase,
            json!({"finishedAt": "2026-01-01T00:09:00Z", "retryCount": 2, "operation": {"initiatedBy": {"automated": true},
                "sync": {"revision": "one", "autoHealAttemptsCount": 1, "resources": resources}}}),
        )
    };
    let heal = json!({"selfHeal": true});
    let other = json!([{"group": "", "kind": "ConfigMap", "namespace": "default", "name": "other"}]);
    let again = Case::new(heal.clone(), failed("Failed", other.clone())).starts().sync.expect("a sync");
    assert_eq!((again.resources.len(), again.auto_heal_attempts_count), (1, 2));
    // Between two attempts of its own it is widened by what has drifted since, and left alone otherwise.
    match Case::new(heal.clone(), failed("Running", other)).decide() {
        AutoSync::Supersede { operation, .. } => {
            let sync = operation.sync.expect("a sync");
            assert_eq!(sync.resources.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), ["a"]);
        }
        decided => panic!("{decided:?}"),
    }
    let same = serde_json::to_value(&again.resources).expect("plain data");
    Case::new(heal, failed("Running", same)).skips("another operation is in progress");
}

#[test]
fn windows_hold_it_back() {
    let mut case = Case::new(json!({}), json!({}));
    case.windows = vec![
        serde_json::from_value(
            json!({"kind": "deny", "schedule": "0 0 * * *", "duration": "1h", "applications": ["*"]}),
        )
        .expect("readable"),
    ];
    case.skips("blocked by sync window");
    case.now = "2026-01-01T02:00:00Z";
    case.starts();
}

#[test]
fn retries_back_off_and_end() {
    let with = |retry: Value, count: i64| -> OperationState {
        serde_json::from_value(json!({"operation": {"retry": retry}, "phase": "Failed", "startedAt": "2026-01-01T00:00:00Z", "retryCount": count}))
            .expect("readable")
    };
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let seconds = |retry: Value, count: i64| match retry_decision(&with(retry, count), now) {
        Retry::Again { at, attempt } => Some((at.duration_since(now).as_secs(), attempt)),
        Retry::Over => None,
    };
    assert_eq!(seconds(json!({"limit": 5}), 0), Some((5, 1)));
    assert_eq!(seconds(json!({"limit": 5}), 3), Some((40, 4)));
    assert_eq!(seconds(json!({"limit": 5}), 5), None);
    assert_eq!(seconds(json!({}), 0), None);
    assert_eq!(seconds(json!({"limit": -1}), 40), Some((180, 41)));
    let own = json!({"limit": 9, "backoff": {"duration": "10", "factor": 3, "maxDuration": "1m"}});
    assert_eq!(seconds(own.clone(), 1), Some((30, 2)));
    assert_eq!(seconds(own, 2), Some((60, 3)));
    assert_eq!(retry_message("failed", 2, now), "failed. Retrying attempt #2 at 12:00AM.");
}
