//! Comparisons of whole applications.

use crate::sim::{Cluster, Shell, config, deployment, hook, job, object_of};
use serde_json::json;
use slipway_crd::{AppProject, names};
use slipway_gitops::health::HealthCode;
use slipway_gitops::{ClusterInfo, CompareInput, SyncCode, compare, object, set_tracking};

#[test]
fn what_is_missing_extra_or_changed_is_out_of_sync() {
    let shell = Shell::new(
        &[],
        vec![config("same", "1", &[]), config("changed", "2", &[]), config("missing", "1", &[])],
    );
    let cluster = Cluster::with(&[
        shell.tracked(&config("same", "1", &[])),
        shell.tracked(&config("changed", "1", &[])),
        shell.tracked(&config("extra", "1", &[])),
    ]);
    let comparison = shell.compare(&cluster);
    let states: Vec<_> =
        comparison.resources.iter().map(|r| (r.key.name.as_str(), r.status, r.requires_pruning)).collect();
    assert_eq!(
        states,
        [
            ("changed", Some(SyncCode::OutOfSync), false),
            ("extra", Some(SyncCode::OutOfSync), true),
            ("missing", Some(SyncCode::OutOfSync), false),
            ("same", Some(SyncCode::Synced), false),
        ]
    );
    assert_eq!(comparison.sync_status, SyncCode::OutOfSync);
    let changed = comparison.resources[0].diff.as_ref().expect("a diff");
    assert_eq!(changed.changes[0].path, "/data/value");
}

#[test]
fn foreign_owned_and_copied_objects_are_never_extra() {
    let shell = Shell::new(&[], vec![config("same", "1", &[])]);
    let mut child = shell.tracked(&config("child", "1", &[]));
    child["metadata"]["ownerReferences"] = json!([{"uid": "x"}]);
    let mut copied = shell.tracked(&config("original", "1", &[]));
    copied["metadata"]["name"] = json!("copy");
    let mut foreign = config("foreign", "1", &[]);
    set_tracking(&mut foreign, "other", &shell.settings);
    let mut untracked = config("untracked", "1", &[]);
    untracked["metadata"]["namespace"] = json!("web");
    let cluster =
        Cluster::with(&[shell.tracked(&config("same", "1", &[])), child, copied, foreign, untracked]);
    let comparison = shell.compare(&cluster);
    assert!(comparison.resources.iter().all(|r| !r.requires_pruning));
    assert_eq!(comparison.sync_status, SyncCode::Synced);
}

#[test]
fn an_extra_object_may_say_that_it_does_not_count() {
    let shell = Shell::new(&[], vec![]);
    let cluster = Cluster::with(&[shell.tracked(&config(
        "extra",
        "1",
        &[(names::COMPARE_OPTIONS, "IgnoreExtraneous")],
    ))]);
    let comparison = shell.compare(&cluster);
    assert_eq!(
        (comparison.sync_status, comparison.resources[0].status),
        (SyncCode::Synced, Some(SyncCode::OutOfSync))
    );
}

#[test]
fn scope_decides_about_namespaces() {
    let mut named = object_of("rbac.authorization.k8s.io/v1", "ClusterRole", "r", &[]);
    named["metadata"]["namespace"] = json!("web");
    let shell = Shell::new(&[], vec![named, config("c", "1", &[])]);
    let comparison = shell.compare(&Cluster::default());
    let spaces: Vec<_> =
        comparison.resources.iter().map(|r| (r.key.kind.as_str(), r.key.namespace.as_str())).collect();
    assert_eq!(spaces, [("ConfigMap", "web"), ("ClusterRole", "")]);
    let mut nowhere = Shell::new(&[], vec![config("c", "1", &[])]);
    nowhere.application.spec.destination.namespace.clear();
    let comparison = nowhere.compare(&Cluster::default());
    assert_eq!(comparison.conditions[0].kind, "InvalidSpecError");
    assert_eq!(comparison.sync_status, SyncCode::Unknown);
}

#[test]
fn the_last_of_two_manifests_wins_with_a_warning() {
    let shell = Shell::new(&[], vec![config("a", "1", &[]), config("a", "2", &[])]);
    let comparison = shell.compare(&Cluster::default());
    assert_eq!(comparison.resources.len(), 1);
    assert_eq!(comparison.resources[0].target.as_ref().expect("a target")["data"]["value"], "2");
    assert_eq!(
        comparison.conditions[0].message,
        "Resource /ConfigMap/web/a appeared 2 times among application resources."
    );
}

#[test]
fn excluded_kinds_are_neither_compared_nor_pruned() {
    let mut shell = Shell::new(&[], vec![config("a", "1", &[]), object_of("v1", "Secret", "s", &[])]);
    let (settings, _) = slipway_gitops::settings::from_config_map(
        &[("resource.exclusions".to_string(), "- kinds: [Secret]\n".to_string())].into(),
        "argocd",
    );
    let cluster = Cluster::with(&[shell.tracked(&object_of("v1", "Secret", "old", &[]))]);
    shell.settings = settings;
    let comparison = shell.compare(&cluster);
    assert_eq!(comparison.resources.iter().map(|r| r.key.name.as_str()).collect::<Vec<_>>(), ["a"]);
    assert_eq!(comparison.conditions[0].kind, "ExcludedResourceWarning");
}

#[test]
fn hooks_do_not_count() {
    let shell =
        Shell::new(&[], vec![job("h", false, &[hook("PreSync")]), job("broken", true, &[hook("PostSync")])]);
    let mut live = shell.tracked(&job("broken", true, &[hook("PostSync")]));
    live["metadata"]["finalizers"] = json!([]);
    let comparison = shell.compare(&Cluster::with(&[live]));
    assert_eq!((comparison.sync_status, comparison.health.status), (SyncCode::Synced, HealthCode::Healthy));
    let shown: Vec<_> = comparison.resource_statuses().into_iter().map(|r| (r.name, r.hook)).collect();
    assert_eq!(shown, [("broken".to_string(), true)]);
}

#[test]
fn the_worst_resource_decides_about_health() {
    let desired = vec![
        deployment("a", true, &[]),
        deployment("b", false, &[]),
        deployment("c", true, &[(names::IGNORE_HEALTHCHECK, "true")]),
        config("gone", "1", &[]),
    ];
    let shell = Shell::new(&[], desired.clone());
    let live: Vec<_> = desired[..3].iter().map(|o| shell.tracked(o)).collect();
    let comparison = shell.compare(&Cluster::with(&live));
    assert_eq!(
        (comparison.health.status, comparison.health.message.as_str()),
        (HealthCode::Degraded, "Caused by Deployment/a")
    );
    assert_eq!(shell.compare(&Cluster::default()).health.status, HealthCode::Missing);
}

#[test]
fn what_the_project_forbids_is_unknown_and_never_applied() {
    let project: AppProject = serde_json::from_value(json!({"spec": {
        "destinations": [{"server": "*", "namespace": "web"}], "namespaceResourceBlacklist": [{"group": "", "kind": "Secret"}]}}))
    .expect("readable");
    let shell = Shell::new(&[], vec![object_of("v1", "Secret", "s", &[]), config("c", "1", &[])]);
    let mut extra = config("x", "1", &[]);
    extra["metadata"]["namespace"] = json!("elsewhere");
    set_tracking(&mut extra, "shop", &shell.settings);
    let comparison = compare(CompareInput {
        application: &shell.application,
        desired: &shell.desired,
        live: &Cluster::with(&[extra]).live(),
        cluster: &ClusterInfo::default(),
        settings: &shell.settings,
        project: Some(&project),
        now: shell.started_at,
    });
    let states: Vec<_> = comparison.resources.iter().map(|r| (r.key.kind.as_str(), r.status)).collect();
    assert_eq!(states, [("ConfigMap", Some(SyncCode::OutOfSync)), ("Secret", Some(SyncCode::Unknown))]);
    let plan = slipway_gitops::sync::plan(
        &comparison,
        &shell.operation,
        &slipway_gitops::sync::SyncProgress::start(shell.started_at, "r"),
    );
    assert!(
        plan.outcome
            .expect("an end")
            .message
            .contains("resource :Secret is not permitted in project default")
    );
}

#[test]
fn times_move_only_with_what_they_are_about() {
    let mut shell = Shell::new(&[], vec![config("a", "1", &[]), config("a", "2", &[])]);
    let first = shell.compare(&Cluster::default());
    shell.application.status.conditions = first.conditions.clone();
    shell.application.status.health = first.health_status(&shell.application.status.health, shell.started_at);
    let health = shell.application.status.health.clone();
    shell.started_at = "2027-01-01T00:00:00Z".parse().expect("a time");
    let second = shell.compare(&Cluster::default());
    assert_eq!(second.conditions, first.conditions);
    assert_eq!(second.health_status(&health, shell.started_at), health);
}

#[test]
fn secrets_are_masked_in_every_diff() {
    let secret = |value: &str| {
        let mut object = object_of("v1", "Secret", "s", &[]);
        object["stringData"] = json!({"password": value, "same": "unchanged-canary"});
        object
    };
    let shell = Shell::new(&[], vec![secret("new-canary")]);
    let mut live = shell.tracked(&secret("old-canary"));
    live["data"] = json!({"password": "b2xkLWNhbmFyeQ==", "same": "dW5jaGFuZ2VkLWNhbmFyeQ=="});
    if let Some(map) = live.as_object_mut() {
        map.remove("stringData");
    }
    let comparison = shell.compare(&Cluster::with(&[live]));
    let resource = &comparison.resources[0];
    let diff = resource.diff.as_ref().expect("a diff");
    assert!(diff.modified);
    let everything =
        format!("{comparison:?} {} {}", diff.unified_text("s"), json!([diff.live, diff.predicted]));
    for canary in ["canary", "b2xkLW", "bmV3LW", "dW5jaG"] {
        assert!(!everything.contains(canary), "{canary} in {everything}");
    }
    assert_eq!(diff.live["data"]["same"], diff.predicted["data"]["same"]);
    assert_ne!(diff.live["data"]["password"], diff.predicted["data"]["password"]);
    assert_eq!(object::name(resource.target.as_ref().expect("a target")), "s");
}
