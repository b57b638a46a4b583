//! Whole syncs: order, hooks, pruning, options, failures.

use crate::sim::{Cluster, Shell, config, deployment, hook, job, object_of, policy, wave};
use serde_json::json;
use slipway_crd::{NamespaceMetadata, SyncPolicy, SyncResource, SyncStrategy, names};
use slipway_gitops::sync::{Action, ApplyHow, OutcomePhase, SyncProgress, WaitingOn, explain};
use slipway_gitops::{SyncCode, object};

#[test]
fn a_plain_application_is_applied_in_kind_order_and_ends_without_waiting() {
    let shell = Shell::new(
        &[],
        vec![
            deployment("web", false, &[]),
            config("settings", "1", &[]),
            object_of("v1", "Service", "web", &[]),
        ],
    );
    let mut cluster = Cluster::default();
    let run = shell.sync(&mut cluster, None);
    assert_eq!(cluster.log, ["apply settings", "apply web", "apply web"]);
    assert_eq!(run.outcome.message, "successfully synced (all tasks run)");
    assert_eq!(run.result("settings").hook_phase, "Running");
    assert_eq!(shell.compare(&cluster).sync_status, SyncCode::Synced);
}

#[test]
fn a_synced_application_has_an_empty_plan() {
    let shell = Shell::new(&[], vec![config("a", "1", &[]), config("b", "1", &[wave("2")])]);
    let mut cluster = Cluster::default();
    shell.sync(&mut cluster, None);
    cluster.log.clear();
    let plan = shell.plan(&cluster, &SyncProgress::start(shell.started_at, "r"));
    assert!(plan.steps.is_empty());
    assert_eq!(plan.outcome.expect("an end").phase, OutcomePhase::Succeeded);
    assert_eq!(plan.results[0].message, "configmap/a unchanged");
}

#[test]
fn waves_wait_for_health() {
    let desired = vec![
        config("late", "1", &[wave("5")]),
        deployment("early", false, &[wave("-1")]),
        config("middle", "1", &[]),
    ];
    let shell = Shell::new(&[], desired);
    let mut cluster = Cluster::default();
    let progress = SyncProgress::start(shell.started_at, "r");
    let plan = shell.plan(&cluster, &progress);
    let order: Vec<_> = plan.steps.iter().map(|s| s.key.name.as_str()).collect();
    assert_eq!((order, plan.ready.len()), (vec!["early", "middle", "late"], 1));
    let run = shell.sync(&mut cluster, None);
    assert_eq!(cluster.log, ["apply early", "apply middle", "apply late"]);
    assert_eq!(run.result("early").hook_phase, "Succeeded");
}

#[test]
fn a_wave_that_waits_says_for_whom() {
    let shell = Shell::new(
        &[],
        vec![deployment("a", false, &[]), deployment("b", false, &[]), config("c", "1", &[wave("1")])],
    );
    let mut cluster = Cluster::with(&[
        shell.tracked(&deployment("a", false, &[])),
        shell.tracked(&deployment("b", false, &[])),
    ]);
    for name in ["a", "b"] {
        cluster.edit("Deployment", name, |o| o["status"] = json!({}));
    }
    let plan = shell.plan(&cluster, &SyncProgress::start(shell.started_at, "r"));
    assert_eq!(
        plan.phase_and_message(),
        ("Running", "waiting for healthy state of apps/Deployment/a and 1 more resources".into())
    );
    assert!(explain(&plan).contains("then apply ConfigMap web/c (it does not exist)"), "{}", explain(&plan));
}

#[test]
fn a_degraded_resource_in_an_early_wave_ends_the_sync() {
    let shell = Shell::new(&[], vec![deployment("a", true, &[]), config("c", "1", &[wave("1")])]);
    let mut cluster = Cluster::default();
    let run = shell.sync(&mut cluster, None);
    assert_eq!(run.outcome.phase, OutcomePhase::Failed);
    assert!(
        run.outcome
            .message
            .starts_with("one or more synchronization tasks completed unsuccessfully, reason: "),
        "{}",
        run.outcome.message
    );
    assert!(cluster.get("ConfigMap", "c").is_none());
}

#[test]
fn a_rejected_object_ends_the_sync_but_not_its_neighbours() {
    let mut bad = config("bad", "1", &[]);
    bad["spec"] = json!({"rejected": true});
    let shell = Shell::new(&[], vec![bad, config("good", "1", &[]), config("later", "1", &[wave("1")])]);
    let mut cluster = Cluster::default();
    let run = shell.sync(&mut cluster, None);
    assert_eq!(run.outcome.phase, OutcomePhase::Failed);
    assert_eq!(run.result("bad").status, "SyncFailed");
    assert_eq!(run.result("good").status, "Synced");
    assert!(cluster.get("ConfigMap", "later").is_none());
}

#[test]
fn hooks_run_in_their_phases_once_each() {
    let desired = vec![
        job("after", false, &[hook("PostSync"), policy("HookSucceeded")]),
        job("before", false, &[hook("PreSync")]),
        job("both", false, &[hook("PreSync,PostSync"), policy("BeforeHookCreation")]),
        job("never", false, &[hook("SyncFail")]),
        job("test", false, &[(names::HELM_HOOK, "test")]),
        deployment("web", false, &[]),
    ];
    let shell = Shell::new(&[], desired);
    let mut cluster = Cluster::default();
    let run = shell.sync(&mut cluster, None);
    let hooks: Vec<_> =
        cluster.log.iter().filter(|l| !l.starts_with("release")).map(String::as_str).collect();
    assert_eq!(hooks[..2], ["hook before", "hook both"]);
    assert_eq!(run.outcome.message, "successfully synced (no more tasks)");
    assert!(cluster.get("Job", "after").is_none(), "deleted after success");
    let kept = cluster.get("Job", "before").expect("kept until the next sync");
    assert!(!object::has_finalizer(kept, names::HOOK_FINALIZER), "released");
    assert!(cluster.get("Job", "never").is_none());
    assert_eq!(
        run.results.iter().filter(|r| r.hook_phase == "Succeeded" && !r.hook_type.is_empty()).count(),
        4
    );
}

#[test]
fn the_hook_of_an_earlier_sync_makes_room() {
    let shell = Shell::new(&[], vec![job("before", false, &[hook("PreSync")]), config("a", "1", &[])]);
    let mut cluster = Cluster::default();
    shell.sync(&mut cluster, None);
    let first = object::uid(cluster.get("Job", "before").expect("there")).to_string();
    let second = Shell { started_at: "2026-02-02T00:00:00Z".parse().expect("a time"), ..shell };
    cluster.log.clear();
    second.sync(&mut cluster, None);
    assert_eq!(cluster.log[..2], ["delete before", "hook before"]);
    assert_ne!(object::uid(cluster.get("Job", "before").expect("there")), first);
}

#[test]
fn a_job_that_failed_in_the_last_attempt_does_not_fail_this_one() {
    let failing = Shell::new(&[], vec![job("migrate", true, &[hook("PreSync"), policy("HookSucceeded")])]);
    let mut cluster = Cluster::default();
    assert_eq!(failing.sync(&mut cluster, None).outcome.phase, OutcomePhase::Failed);
    assert!(cluster.get("Job", "migrate").is_some(), "kept for people to look at");
    let mut fixed = Shell::new(&[], vec![job("migrate", false, &[hook("PreSync"), policy("HookSucceeded")])]);
    fixed.started_at = "2026-02-02T00:00:00Z".parse().expect("a time");
    assert_eq!(fixed.sync(&mut cluster, None).outcome.phase, OutcomePhase::Succeeded);
}

#[test]
fn generated_hook_names_are_the_same_after_a_restart() {
    let mut generated = job("", false, &[hook("PreSync")]);
    generated["metadata"] =
        json!({"generateName": "Migrate-", "annotations": generated["metadata"]["annotations"]});
    let shell = Shell::new(&[], vec![generated]);
    let mut cluster = Cluster::default();
    shell.sync(&mut cluster, None);
    assert_eq!(cluster.log[0], "hook migrate-abcdef0-presync-1767225600");
    assert_eq!(cluster.hook_runs.values().sum::<u32>(), 1);
}

#[test]
fn a_failed_hook_runs_the_sync_fail_hooks_and_ends_the_sync() {
    let desired = vec![
        job("migrate", true, &[hook("PreSync"), policy("HookFailed")]),
        job("alarm", false, &[hook("SyncFail")]),
        config("a", "1", &[]),
    ];
    let shell = Shell::new(&[], desired);
    let mut cluster = Cluster::default();
    let run = shell.sync(&mut cluster, None);
    assert_eq!(
        run.outcome.message,
        "one or more synchronization tasks completed unsuccessfully, reason: migrate Failed"
    );
    assert!(cluster.log.contains(&"hook alarm".to_string()));
    assert!(cluster.get("Job", "migrate").is_none(), "HookFailed deletes it");
    assert!(cluster.get("ConfigMap", "a").is_none());
}

#[test]
fn a_hook_that_someone_deletes_does_not_hang_the_sync() {
    let shell = Shell::new(&[], vec![job("migrate", false, &[hook("PreSync")]), config("a", "1", &[])]);
    let mut cluster = Cluster::default();
    let mut progress = SyncProgress::start(shell.started_at, "r");
    let plan = shell.plan(&cluster, &progress);
    let mut first = Cluster::default();
    first.clone_from(&cluster);
    // Made, and then deleted by a person while it runs: our finalizer holds it.
    let step = plan.ready_steps().next().expect("the hook").clone();
    let Action::RunHook { object: made, .. } = &step.action else { panic!("no hook") };
    cluster = Cluster::with(&[made.to_value()]);
    cluster.edit("Job", "migrate", |o| {
        o["status"] = json!({});
        o["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:01Z");
    });
    progress.results = plan.results;
    let plan = shell.plan(&cluster, &progress);
    assert_eq!(plan.results[0].hook_phase, "Failed");
    assert!(plan.results[0].message.contains("was deleted before it finished"));
}

#[test]
fn a_hook_of_a_former_operation_is_let_go() {
    let shell = Shell::new(&[], vec![config("a", "1", &[])]);
    let mut old = shell.tracked(&job(
        "gone-from-git",
        false,
        &[hook("PreSync"), (names::HOOK_OPERATION, "2025-01-01T00:00:00Z#0/PreSync")],
    ));
    old["metadata"]["finalizers"] = json!([names::HOOK_FINALIZER]);
    let mut cluster = Cluster::with(&[old]);
    shell.sync(&mut cluster, None);
    let left = cluster.get("Job", "gone-from-git").expect("hooks are never pruned");
    assert!(!object::has_finalizer(left, names::HOOK_FINALIZER));
}

#[test]
fn a_terminated_sync_deletes_its_running_hooks() {
    let shell = Shell::new(&[], vec![job("migrate", false, &[hook("PreSync")])]);
    let empty = Cluster::default();
    let mut progress = SyncProgress::start(shell.started_at, "r");
    let plan = shell.plan(&empty, &progress);
    let Action::RunHook { object: made, .. } = &plan.steps[0].action else { panic!("no hook") };
    let mut cluster = Cluster::with(&[made.to_value()]);
    cluster.edit("Job", "migrate", |o| o["status"] = json!({}));
    progress.terminating = true;
    let plan = shell.plan(&cluster, &progress);
    assert!(matches!(plan.steps[0].action, Action::DeleteHook { .. }));
    assert_eq!(plan.ready, [0]);
    let plan = shell.plan(&empty, &progress);
    assert_eq!(plan.outcome.expect("an end").message, "Operation terminated");
}

#[test]
fn a_sync_that_takes_too_long_is_ended_when_a_limit_is_set() {
    let mut shell = Shell::new(&[], vec![deployment("a", false, &[]), config("c", "1", &[wave("1")])]);
    shell.settings.sync_timeout_seconds = 60;
    let mut progress = SyncProgress::start(shell.started_at, "r");
    progress.now = "2026-01-01T00:01:01Z".parse().expect("a time");
    let outcome = shell.plan(&Cluster::default(), &progress).outcome.expect("an end");
    assert_eq!(outcome.message, "sync did not finish within 60 seconds and was ended");
}

#[test]
fn a_wave_that_never_gets_ready_is_ended_when_a_limit_is_set() {
    let mut shell = Shell::new(&[], vec![deployment("a", false, &[]), config("c", "1", &[wave("1")])]);
    shell.settings.wave_timeout_seconds = 60;
    let mut progress = SyncProgress::start(shell.started_at, "r");
    let time = |text: &str| text.parse().expect("a time");
    progress.now = time("2026-01-01T00:05:00Z");
    progress.last_change_at = Some(time("2026-01-01T00:04:30Z"));
    assert!(shell.plan(&Cluster::default(), &progress).outcome.is_none(), "something happened a moment ago");
    progress.now = time("2026-01-01T00:05:31Z");
    let outcome = shell.plan(&Cluster::default(), &progress).outcome.expect("an end");
    assert_eq!(outcome.message, "a wave did not get ready within 60 seconds and the sync was ended");
    // An engine that was started a moment ago gives it its time.
    let state =
        slipway_crd::OperationState { started_at: "2026-01-01T00:00:00Z".into(), ..Default::default() };
    let progress = SyncProgress::from_state(&state, progress.now);
    assert!(shell.plan(&Cluster::default(), &progress).outcome.is_none());
}

#[test]
fn prunes_run_in_mirrored_waves_and_prune_last_after_all() {
    let old = [
        ("a", "0", ""),
        ("b", "1", ""),
        ("c", "2", ""),
        ("d", "0", "PruneLast=true"),
        ("e", "0", "Prune=false"),
    ];
    let shell = Shell::new(&[], vec![config("new", "1", &[wave("1")])]);
    let objects: Vec<_> = old
        .iter()
        .map(|(name, number, options)| {
            shell.tracked(&config(name, "1", &[wave(number), (names::SYNC_OPTIONS, options)]))
        })
        .collect();
    let mut cluster = Cluster::with(&objects);
    let run = shell.sync(&mut cluster, None);
    assert_eq!(cluster.log, ["prune c", "prune b", "apply new", "prune a", "prune d"]);
    assert_eq!(
        (run.result("e").status.as_str(), run.result("e").message.as_str()),
        ("PruneSkipped", "ignored (no prune)")
    );
    assert_eq!(run.result("a").status, "Pruned");
}

#[test]
fn nothing_is_pruned_when_prune_was_not_asked_for() {
    let mut shell = Shell::new(&[], vec![config("new", "1", &[])]);
    shell.operation.prune = false;
    let mut cluster = Cluster::with(&[shell.tracked(&config("old", "1", &[]))]);
    let run = shell.sync(&mut cluster, None);
    assert_eq!(run.result("old").message, "ignored (requires pruning)");
    assert!(cluster.get("ConfigMap", "old").is_some());
}

#[test]
fn pruning_waits_for_a_person_where_that_is_asked() {
    let mut shell = Shell::new(&["Prune=confirm"], vec![]);
    let cluster = Cluster::with(&[shell.tracked(&config("old", "1", &[]))]);
    let progress = SyncProgress::start(shell.started_at, "r");
    let plan = shell.plan(&cluster, &progress);
    assert!(matches!(plan.waiting[0].on, WaitingOn::Confirmation(_)) && plan.ready.is_empty());
    assert!(shell.compare(&cluster).resources[0].requires_deletion_confirmation);
    let approve = |shell: &mut Shell, at: &str| {
        shell.application.metadata.annotations.insert(names::DELETION_APPROVED.into(), at.into());
    };
    approve(&mut shell, "2025-12-31T00:00:00Z");
    assert!(shell.plan(&cluster, &progress).ready.is_empty(), "an approval of the past does not count");
    approve(&mut shell, "2026-01-01T00:00:00Z");
    assert_eq!(shell.plan(&cluster, &progress).ready.len(), 1);
}

#[test]
fn an_object_that_is_slow_to_go_holds_up_the_next_wave() {
    let shell = Shell::new(&["PruneLast=false"], vec![config("new", "1", &[wave("1")])]);
    let mut slow = shell.tracked(&config("old", "1", &[]));
    slow["metadata"]["finalizers"] = json!(["example.com/slow"]);
    let mut cluster = Cluster::with(&[slow]);
    let mut progress = SyncProgress::start(shell.started_at, "r");
    let plan = shell.plan(&cluster, &progress);
    let step = plan.ready_steps().next().expect("the prune").clone();
    progress.record(
        &step,
        &slipway_gitops::sync::StepResult::Done { message: "pruned".into(), uid: String::new() },
    );
    cluster.edit("ConfigMap", "old", |o| o["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    let plan = shell.plan(&cluster, &progress);
    assert_eq!(plan.waiting[0].sentence, "waiting for deletion of /ConfigMap/old");
    assert!(plan.ready.is_empty());
}

#[test]
fn the_way_of_writing_follows_the_options() {
    let desired = vec![
        config("client", "1", &[(names::SYNC_OPTIONS, "ServerSideApply=false")]),
        config("server", "1", &[]),
        config("new", "1", &[(names::SYNC_OPTIONS, "Replace=true")]),
        config("there", "2", &[(names::SYNC_OPTIONS, "Replace=true,Force=true,Validate=false")]),
    ];
    let shell = Shell::new(&["ServerSideApply=true"], desired);
    let cluster = Cluster::with(&[shell.tracked(&config("there", "1", &[]))]);
    let plan = shell.plan(&cluster, &SyncProgress::start(shell.started_at, "r"));
    let how = |name: &str| match &plan.steps.iter().find(|s| s.key.name == name).expect("a step").action {
        Action::Apply { how, force, validate, .. } => (*how, *force, *validate),
        other => panic!("{other:?}"),
    };
    assert_eq!(how("client"), (ApplyHow::ClientSide, false, true));
    assert_eq!(how("server"), (ApplyHow::ServerSide, false, true));
    assert_eq!(how("new"), (ApplyHow::Create, false, true));
    assert_eq!(how("there"), (ApplyHow::Replace, true, false));
}

#[test]
fn a_selective_sync_touches_what_it_names_and_runs_no_hooks() {
    let mut shell = Shell::new(
        &[],
        vec![config("a", "1", &[]), config("b", "1", &[]), job("h", false, &[hook("PreSync")])],
    );
    shell.operation.resources =
        vec![SyncResource { kind: "ConfigMap".into(), name: "b".into(), ..SyncResource::default() }];
    let mut cluster = Cluster::default();
    shell.sync(&mut cluster, None);
    assert_eq!(cluster.log, ["apply b"]);
    shell.operation.resources[0].exclude = true;
    let mut cluster = Cluster::default();
    shell.sync(&mut cluster, None);
    assert_eq!(cluster.log, ["apply a"]);
}

#[test]
fn the_apply_strategy_runs_no_hooks() {
    let mut shell = Shell::new(&[], vec![config("a", "1", &[]), job("h", false, &[hook("PreSync")])]);
    shell.operation.sync_strategy =
        Some(SyncStrategy { apply: Some(Default::default()), ..SyncStrategy::default() });
    let mut cluster = Cluster::default();
    shell.sync(&mut cluster, None);
    assert_eq!(cluster.log, ["apply a"]);
}

#[test]
fn the_namespace_comes_first_when_it_is_to_be_made() {
    let mut shell = Shell::new(
        &["CreateNamespace=true"],
        vec![config("a", "1", &[]), job("h", false, &[hook("PreSync"), wave("-3")])],
    );
    let mut cluster = Cluster::default();
    let run = shell.sync(&mut cluster, None);
    assert_eq!(cluster.log[..2], ["apply web", "hook h"]);
    assert_eq!(run.outcome.phase, OutcomePhase::Succeeded);
    cluster.log.clear();
    shell.application.spec.sync_policy = Some(SyncPolicy {
        sync_options: vec!["CreateNamespace=true".into()],
        managed_namespace_metadata: Some(NamespaceMetadata {
            labels: [("team".to_string(), "a".to_string())].into(),
            ..NamespaceMetadata::default()
        }),
        ..SyncPolicy::default()
    });
    assert_eq!(shell.compare(&cluster).sync_status, SyncCode::OutOfSync);
    shell.started_at = "2026-02-02T00:00:00Z".parse().expect("a time");
    shell.sync(&mut cluster, None);
    assert_eq!(object::label(cluster.get("Namespace", "web").expect("there"), "team"), Some("a"));
}

#[test]
fn namespaces_and_definitions_come_before_what_needs_them() {
    let mut crd =
        object_of("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.example.com", &[wave("3")]);
    crd["spec"] = json!({"group": "example.com", "names": {"kind": "Widget"}, "scope": "Namespaced"});
    let mut elsewhere = config("c", "1", &[wave("-2")]);
    elsewhere["metadata"]["namespace"] = json!("other");
    let desired = vec![
        object_of("example.com/v1", "Widget", "w", &[]),
        crd,
        object_of("v1", "Namespace", "other", &[]),
        elsewhere,
    ];
    let mut shell = Shell::new(&[], desired);
    shell.cluster_info = ClusterInfo::new(true);
    for (group, kind, namespaced) in [
        ("", "ConfigMap", true),
        ("", "Namespace", false),
        ("apiextensions.k8s.io", "CustomResourceDefinition", false),
    ] {
        shell.cluster_info.add(group, "v1", kind, namespaced);
    }
    let plan = shell.plan(&Cluster::default(), &SyncProgress::start(shell.started_at, "r"));
    let order: Vec<_> = plan.steps.iter().map(|s| (s.key.name.as_str(), s.wave)).collect();
    assert_eq!(order, [("other", -2), ("c", -2), ("widgets.example.com", 0), ("w", 0)]);
    let tried: Vec<_> = plan.dry_run.iter().map(|i| plan.steps[*i].key.name.as_str()).collect();
    assert!(!tried.contains(&"w"), "its kind is not served yet");
}

use slipway_gitops::ClusterInfo;

#[test]
fn a_kind_that_nobody_serves_ends_the_sync_before_it_starts() {
    let mut shell =
        Shell::new(&[], vec![object_of("example.com/v1", "Widget", "w", &[]), config("a", "1", &[])]);
    shell.cluster_info = ClusterInfo::new(true);
    shell.cluster_info.add("", "v1", "ConfigMap", true);
    let plan = shell.plan(&Cluster::default(), &SyncProgress::start(shell.started_at, "r"));
    let outcome = plan.outcome.expect("an end");
    assert!(
        outcome.message.starts_with("one or more synchronization tasks are not valid: "),
        "{}",
        outcome.message
    );
    shell.operation.sync_options = vec!["SkipDryRunOnMissingResource=true".into()];
    assert!(shell.plan(&Cluster::default(), &SyncProgress::start(shell.started_at, "r")).outcome.is_none());
}

#[test]
fn a_failed_dry_run_applies_nothing() {
    let shell = Shell::new(&[], vec![config("a", "1", &[]), config("b", "1", &[])]);
    let cluster = Cluster::default();
    let mut progress = SyncProgress::start(shell.started_at, "r");
    let plan = shell.plan(&cluster, &progress);
    assert_eq!(plan.dry_run, [0, 1]);
    progress.record_dry_run_failure(&plan.steps[1], "spec.x: unknown field");
    let plan = shell.plan(&cluster, &progress);
    assert_eq!(
        plan.outcome.expect("an end").message,
        "one or more objects failed to apply (dry run), reason: spec.x: unknown field"
    );
}

#[test]
fn a_dry_run_operation_ends_after_the_dry_run() {
    let mut shell = Shell::new(&[], vec![config("a", "1", &[])]);
    shell.operation.dry_run = true;
    let mut progress = SyncProgress::start(shell.started_at, "r");
    let plan = shell.plan(&Cluster::default(), &progress);
    assert_eq!((plan.dry_run, plan.ready.len()), (vec![0], 0));
    progress.dry_run_done = true;
    let plan = shell.plan(&Cluster::default(), &progress);
    assert_eq!(plan.outcome.expect("an end").phase, OutcomePhase::Succeeded);
}

#[test]
fn out_of_sync_only_leaves_the_rest_out_of_the_result() {
    let shell = Shell::new(&["ApplyOutOfSyncOnly=true"], vec![config("a", "1", &[]), config("b", "2", &[])]);
    let mut cluster =
        Cluster::with(&[shell.tracked(&config("a", "1", &[])), shell.tracked(&config("b", "1", &[]))]);
    let run = shell.sync(&mut cluster, None);
    assert_eq!(cluster.log, ["apply b"]);
    assert_eq!(run.results.len(), 1);
    let insisting = Shell::new(&["ApplyOutOfSyncOnly=false"], vec![config("a", "1", &[])]);
    cluster.log.clear();
    insisting.operation.resources.is_empty();
    let plan = sync_plan_unchecked(&insisting, &cluster);
    assert_eq!(plan.steps.len(), 2, "a is applied again and b pruned: {}", explain(&plan));
}

fn sync_plan_unchecked(shell: &Shell, cluster: &Cluster) -> slipway_gitops::sync::SyncPlan {
    slipway_gitops::sync::plan(
        &shell.compare(cluster),
        &shell.operation,
        &SyncProgress::start(shell.started_at, "r"),
    )
}

#[test]
fn shared_objects_end_the_sync_where_that_is_asked() {
    let shell = Shell::new(&["FailOnSharedResource=true"], vec![config("a", "1", &[])]);
    let mut foreign = config("a", "1", &[]);
    foreign["metadata"]["namespace"] = json!("web");
    slipway_gitops::set_tracking(&mut foreign, "other", &shell.settings);
    let cluster = Cluster::with(&[foreign]);
    assert_eq!(
        shell.compare(&cluster).conditions[0].message,
        "ConfigMap/a is part of applications shop and other"
    );
    let plan = shell.plan(&cluster, &SyncProgress::start(shell.started_at, "r"));
    assert_eq!(
        plan.outcome.expect("an end").message,
        "Shared resource found: ConfigMap/a is part of applications shop and other"
    );
}

#[test]
fn ignored_fields_are_applied_as_they_are_live_where_that_is_asked() {
    let mut shell = Shell::new(
        &["RespectIgnoreDifferences=true"],
        vec![deployment("web", false, &[]), config("x", "1", &[])],
    );
    shell.application.spec.ignore_differences = vec![
        serde_json::from_value(
            json!({"group": "apps", "kind": "Deployment", "jsonPointers": ["/spec/replicas"]}),
        )
        .expect("readable"),
    ];
    let mut scaled = shell.tracked(&deployment("web", false, &[]));
    scaled["spec"]["replicas"] = json!(7);
    scaled["spec"]["broken"] = json!(true);
    let mut cluster = Cluster::with(&[scaled]);
    shell.sync(&mut cluster, None);
    let web = cluster.get("Deployment", "web").expect("there");
    assert_eq!((&web["spec"]["replicas"], &web["spec"]["broken"]), (&json!(7), &json!(false)));
}

#[test]
fn controllers_get_time_before_health_is_read() {
    let mut shell = Shell::new(&[], vec![config("a", "1", &[]), config("b", "1", &[wave("1")])]);
    shell.settings.wave_delay_ms = 2000;
    let mut cluster = Cluster::default();
    let mut progress = SyncProgress::start(shell.started_at, "r");
    let plan = shell.plan(&cluster, &progress);
    let step = plan.ready_steps().next().expect("a step").clone();
    progress.record(
        &step,
        &slipway_gitops::sync::StepResult::Done { message: "created".into(), uid: "1".into() },
    );
    cluster = Cluster::with(&[shell.tracked(&config("a", "1", &[]))]);
    let plan = shell.plan(&cluster, &progress);
    assert!(plan.waiting.iter().any(|w| matches!(w.on, WaitingOn::Time(_))), "{}", explain(&plan));
    progress.now = "2026-01-01T00:00:02Z".parse().expect("a time");
    assert_eq!(shell.plan(&cluster, &progress).ready.len(), 1);
}
