use serde_json::{Value, json};
use slipway_crd::ApplicationSet;
use slipway_gitops::appset::{Answer, Change, Generation, Need, SetPlan, plan_deletion};

use super::{Live, Tree, at, names, nobody, now, plan_for, set, settle};

fn listed(elements: &[&str]) -> ApplicationSet {
    let elements: Vec<Value> = elements.iter().map(|name| json!({"name": name})).collect();
    set(json!({"generators": [{"list": {"elements": elements}}]}))
}

fn look(set: &ApplicationSet, live: &Live) -> SetPlan {
    plan_for(set, &settle(set, vec![], &Tree::new(), &nobody), live, now())
}

fn made(elements: &[&str]) -> Live {
    let mut live = Live::default();
    live.apply(&look(&listed(elements), &live));
    assert_eq!(live.names(), elements);
    live
}

fn kinds(plan: &SetPlan) -> Vec<String> {
    plan.changes
        .iter()
        .map(|change| match change {
            Change::Create { name, .. } => format!("create {name}"),
            Change::Update { name, patch, .. } => format!("update {name} {patch}"),
            Change::Delete { name, .. } => format!("delete {name}"),
        })
        .collect()
}

fn condition<'p>(plan: &'p SetPlan, kind: &str) -> (&'p str, &'p str, &'p str) {
    let found = plan.status.conditions.iter().find(|c| c.kind == kind).expect("the condition is there");
    (&found.status, &found.reason, &found.message)
}

#[test]
fn what_is_generated_is_made_and_then_at_rest() {
    let mut live = Live::default();
    let set = listed(&["a", "b"]);
    let first = look(&set, &live);
    assert_eq!(kinds(&first), ["create a", "create b"]);
    live.apply(&first);
    let second = look(&set, &live);
    assert!(second.changes.is_empty(), "{:?}", second.changes);
    assert_eq!(second.status.resources_count, 2);
    assert_eq!(condition(&second, "ResourcesUpToDate").0, "True");
    assert_eq!(condition(&second, "ErrorOccurred").0, "False");
    assert_eq!(condition(&second, "ParametersGenerated").1, "ParametersGenerated");
    assert_eq!(second.status.health.as_ref().expect("health")["status"], "Healthy");
}

#[test]
fn differences_are_patched_and_what_left_the_list_is_deleted() {
    let mut live = made(&["a", "b"]);
    let mut set = listed(&["b"]);
    set.spec.template.spec["source"]["targetRevision"] = json!("v2");
    let plan = look(&set, &live);
    assert_eq!(kinds(&plan), ["update b {\"spec\":{\"source\":{\"targetRevision\":\"v2\"}}}", "delete a"]);
    live.apply(&plan);
    assert_eq!(live.names(), ["b"]);
    set.spec.template.spec["source"].as_object_mut().expect("a map").remove("targetRevision");
    assert_eq!(kinds(&look(&set, &live)), ["update b {\"spec\":{\"source\":{\"targetRevision\":null}}}"]);
}

#[test]
fn an_emptied_list_is_the_users_word() {
    let live = made(&["a", "b"]);
    assert_eq!(kinds(&look(&listed(&[]), &live)), ["delete a", "delete b"]);
}

fn with_folders(folders: &[&'static str]) -> (ApplicationSet, Generation) {
    let mut set = set(
        json!({"generators": [{"git": {"repoURL": "r", "revision": "HEAD", "directories": [{"path": "*"}]}}]}),
    );
    set.spec.template.metadata.name = "{{path.basename}}".into();
    let paths: Vec<String> = folders.iter().map(|folder| format!("{folder}/x")).collect();
    let answer = move |_: &Need| Ok(Answer::Tree { commit: "c".into(), paths: paths.clone() });
    let generation = settle(&set, vec![], &Tree::new(), &answer);
    (set, generation)
}

#[test]
fn a_generator_that_comes_back_empty_deletes_nothing_and_says_so() {
    let mut live = Live::default();
    let (set, generation) = with_folders(&["a", "b"]);
    live.apply(&plan_for(&set, &generation, &live, now()));
    let (mut set, generation) = with_folders(&[]);
    let plan = plan_for(&set, &generation, &live, now());
    assert!(plan.changes.is_empty(), "{:?}", plan.changes);
    let (status, reason, message) = condition(&plan, "ResourcesUpToDate");
    assert_eq!((status, reason), ("False", "EmptyGenerator"));
    assert!(message.contains("spec.generators[0].git came back empty, so 2 applications"), "{message}");
    assert!(message.contains("slipway.io/allow-empty=true"), "{message}");
    set.metadata.annotations.insert("slipway.io/allow-empty".into(), "true".into());
    assert_eq!(kinds(&plan_for(&set, &generation, &live, now())), ["delete a", "delete b"]);
    // One folder less is no emptiness.
    let (set, generation) = with_folders(&["b"]);
    assert_eq!(kinds(&plan_for(&set, &generation, &live, now())), ["delete a"]);
}

#[test]
fn the_last_pull_request_that_closes_takes_its_application_along() {
    let of = |count: usize| {
        let mut set = set(json!({"generators": [{"pullRequest": {"gitea": {}}}]}));
        set.spec.template.metadata.name = "pr-{{number}}".into();
        let answer = move |_: &Need| {
            let one = |number| slipway_gitops::appset::PullRequest { number, ..Default::default() };
            Ok(Answer::PullRequests((0..count as i64).map(one).collect()))
        };
        let generation = settle(&set, vec![], &Tree::new(), &answer);
        (set, generation)
    };
    let mut live = Live::default();
    let (set, generation) = of(1);
    live.apply(&plan_for(&set, &generation, &live, now()));
    let (set, generation) = of(0);
    assert_eq!(kinds(&plan_for(&set, &generation, &live, now())), ["delete pr-0"]);
}

#[test]
fn a_generator_that_fails_touches_nothing_and_says_so() {
    let live = made(&["a", "b"]);
    let set = set(json!({"generators": [
        {"list": {"elements": [{"name": "new"}]}},
        {"git": {"repoURL": "r", "revision": "HEAD", "directories": [{"path": "*"}]}}]}));
    let down = |_: &Need| Err("the repository does not answer".to_owned());
    let plan = plan_for(&set, &settle(&set, vec![], &Tree::new(), &down), &live, now());
    assert!(plan.changes.is_empty());
    let (status, reason, message) = condition(&plan, "ErrorOccurred");
    assert_eq!((status, reason), ("True", "ApplicationGenerationFromParamsError"));
    assert!(message.contains("the repository does not answer"), "{message}");
    assert_eq!(condition(&plan, "ResourcesUpToDate").0, "False");
    assert_eq!(condition(&plan, "ParametersGenerated").0, "False");
    assert_eq!(plan.status.health.as_ref().expect("health")["status"], "Degraded");
    assert_eq!(plan.requeue_after_seconds, Some(180));
}

#[test]
fn policies_hold_hands_back() {
    let live = made(&["a", "b"]);
    let of = |policy: &str| {
        let mut set = listed(&["b", "c"]);
        set.spec.template.spec["source"]["targetRevision"] = json!("v2");
        set.spec.sync_policy =
            Some(serde_json::from_value(json!({"applicationsSync": policy})).expect("a policy"));
        kinds(&look(&set, &live)).into_iter().map(|kind| kind[..8].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(of("create-only"), ["create c"]);
    assert_eq!(of("create-update"), ["update b", "create c"]);
    assert_eq!(of("create-delete"), ["create c", "delete a"]);
    assert_eq!(of("sync"), ["update b", "create c", "delete a"]);
}

#[test]
fn what_others_wrote_stays() {
    let mut live = made(&["a"]);
    let application = live.get("a");
    application["metadata"]["annotations"] = json!({"argocd.argoproj.io/refresh": "hard", "mine": "1", "other": "x",
        "notified.notifications.argoproj.io": "{}"});
    application["metadata"]["labels"] = json!({"team": "x", "gone": "y"});
    application["metadata"]["finalizers"] =
        json!(["resources-finalizer.argocd.argoproj.io", "post-delete-finalizer.argocd.argoproj.io/cleanup"]);
    application["operation"] = json!({"sync": {}});
    application["status"] = json!({"sync": {"status": "Synced"}});
    let mut set = listed(&["a"]);
    set.spec.preserved_fields =
        Some(serde_json::from_value(json!({"annotations": ["mine"], "labels": ["team"]})).expect("fields"));
    let plan = look(&set, &live);
    assert_eq!(
        kinds(&plan),
        ["update a {\"metadata\":{\"annotations\":{\"other\":null},\"labels\":{\"gone\":null}}}"]
    );
}

#[test]
fn differences_may_be_ignored() {
    let mut live = made(&["a", "b"]);
    for name in ["a", "b"] {
        live.get(name)["spec"]["source"]["targetRevision"] = json!("pinned-by-hand");
        live.get(name)["spec"]["syncPolicy"] = json!({"automated": {"enabled": false}});
    }
    let mut set = listed(&["a", "b"]);
    set.spec.ignore_application_differences = serde_json::from_value(json!([
        {"jsonPointers": ["/spec/source/targetRevision"]},
        {"name": "a", "jqPathExpressions": [".spec.syncPolicy"]}]))
    .expect("rules");
    assert_eq!(kinds(&look(&set, &live)), ["update b {\"spec\":{\"syncPolicy\":null}}"]);
    // The ignored field is left as it is when something else changes.
    set.spec.template.spec["source"]["path"] = json!("elsewhere");
    assert!(kinds(&look(&set, &live))[0].contains("{\"path\":\"elsewhere\"}"));
}

#[test]
fn a_name_twice_a_missing_project_and_a_missing_cluster_are_said_and_the_rest_goes_on() {
    let mut set = set(json!({"generators": [{"list": {"elements": [
        {"name": "ok", "project": "default", "server": "https://staging"},
        {"name": "twice", "project": "default", "server": "https://staging"},
        {"name": "twice", "project": "default", "server": "https://staging"},
        {"name": "lost", "project": "default", "server": "https://nowhere"},
        {"name": "odd", "project": "none", "server": "https://staging"}]}}]}));
    set.spec.template.spec["project"] = json!("{{project}}");
    set.spec.template.spec["destination"]["server"] = json!("{{server}}");
    let plan = look(&set, &Live::default());
    assert_eq!(kinds(&plan), ["create ok"]);
    let (status, reason, message) = condition(&plan, "ErrorOccurred");
    assert_eq!((status, reason), ("True", "ApplicationValidationError"));
    assert!(message.ends_with("(and 2 more)"), "{message}");
    assert_eq!(condition(&plan, "ParametersGenerated").0, "True");
}

#[test]
fn what_belongs_to_another_is_left_to_it() {
    let live = made(&["a"]);
    let mut other = listed(&["a"]);
    other.metadata.name = "other".into();
    let plan = look(&other, &live);
    assert!(plan.changes.is_empty());
    assert!(
        condition(&plan, "ErrorOccurred").2.contains("application a already belongs to ApplicationSet set")
    );
}

#[test]
fn an_application_whose_cluster_is_gone_goes_without_its_finalizer() {
    let mut live = made(&["a"]);
    live.get("a")["spec"]["destination"] = json!({"server": "https://gone"});
    let plan = look(&listed(&[]), &live);
    assert_eq!(kinds(&plan), ["update a {\"metadata\":{\"finalizers\":[]}}", "delete a"]);
}

#[test]
fn times_of_conditions_move_only_when_they_say_something_else() {
    let mut set = listed(&["a"]);
    let first = plan_for(
        &set,
        &settle(&set, vec![], &Tree::new(), &nobody),
        &Live::default(),
        at("2026-01-01T00:00:00Z"),
    );
    set.status = first.status.clone();
    let second = plan_for(
        &set,
        &settle(&set, vec![], &Tree::new(), &nobody),
        &Live::default(),
        at("2026-01-02T00:00:00Z"),
    );
    assert_eq!(
        first.status, second.status,
        "a status that says the same is the same, and need not be written"
    );
    let failed = second.failed(&set, "CreateApplicationError", "the API said no", at("2026-01-03T00:00:00Z"));
    let error = failed.conditions.iter().find(|c| c.kind == "ErrorOccurred").expect("it is there");
    assert_eq!(
        (error.status.as_str(), error.last_transition_time.as_deref()),
        ("True", Some("2026-01-03T00:00:00Z"))
    );
}

#[test]
fn deleting_the_set_keeps_its_applications_if_the_policy_says_so() {
    let live = made(&["a", "b"]);
    let mut set = listed(&["a", "b"]);
    set.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    set.metadata.finalizers = vec!["resources-finalizer.argocd.argoproj.io".into()];
    let plain = plan_deletion(&set, &live.0, None);
    assert!(plain.changes.is_empty(), "the owner references do it");
    assert_eq!(plain.finalizers, Some(vec![]));
    set.spec.sync_policy =
        Some(serde_json::from_value(json!({"applicationsSync": "create-update"})).expect("a policy"));
    let kept = plan_deletion(&set, &live.0, None);
    assert_eq!(
        kinds(&kept),
        [
            "update a {\"metadata\":{\"ownerReferences\":[]}}",
            "update b {\"metadata\":{\"ownerReferences\":[]}}"
        ]
    );
}

#[test]
fn preserved_resources_mean_no_finalizer() {
    let mut set = listed(&["a"]);
    set.spec.sync_policy =
        Some(serde_json::from_value(json!({"preserveResourcesOnDeletion": true})).expect("a policy"));
    let generation = settle(&set, vec![], &Tree::new(), &nobody);
    assert_eq!(names(&generation), ["a"]);
    let application = &generation.outcome.as_ref().expect("generated").applications[0];
    assert!(application["metadata"]["finalizers"].is_null());
}

/// A small generator of whole worlds, from a seed.
#[test]
fn any_two_looks_in_a_row_end_at_rest() {
    let mut state: u64 = 5;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize) % bound
    };
    let mut live = Live::default();
    for _ in 0..300 {
        let count = below(6);
        let elements: Vec<Value> = (0..count)
            .map(|_| json!({"name": format!("app-{}", below(8)), "rev": format!("v{}", below(3))}))
            .collect();
        let mut set = set(json!({"goTemplate": true, "generators": [{"list": {"elements": elements}}]}));
        set.spec.template.metadata.name = "{{.name}}".into();
        set.spec.template.spec["source"]["path"] = json!("x");
        set.spec.template.spec["source"]["targetRevision"] = json!("{{.rev}}");
        if below(2) == 0 {
            set.spec.template.metadata.labels.insert("l".into(), "{{.rev}}".into());
        }
        if below(3) == 0 && !live.0.is_empty() {
            // Somebody else touches an Application.
            let index = below(live.0.len());
            live.0[index]["spec"]["source"]["path"] = json!("drifted");
        }
        let generation = settle(&set, vec![], &Tree::new(), &nobody);
        let first = plan_for(&set, &generation, &live, now());
        live.apply(&first);
        let second = plan_for(&set, &generation, &live, now());
        assert!(second.changes.is_empty(), "{:?}", second.changes);
    }
}
