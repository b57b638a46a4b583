use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::{ObjectKey, Propagation, WriteOptions};

use crate::world::{World, automated, config_map};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_is_synced_changed_and_pruned_as_its_repository_says() {
    let world = World::new().await;
    let first = world.commit(&[
        (
            "app/a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {one: \"1\", two: \"2\"}\n",
        ),
        ("app/b.yaml", &config_map("b", "1")),
    ]);
    world.application("shop", automated()).await;
    world.start();
    let app = world.until_synced("shop", &first).await;
    assert_eq!(app["status"]["health"]["status"], "Healthy");
    assert_eq!(app["status"]["sourceType"], "Directory");
    assert_eq!(app["status"]["history"].as_array().map(Vec::len), Some(1));
    let a = world.get("ConfigMap", "a").await.expect("made");
    assert!(a["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"].is_string());
    assert_eq!(a["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"], "shop:/ConfigMap:shop/a");

    // A field and a file go, another file comes.
    let second = world.commit(&[
        ("app/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {one: \"1\"}\n"),
        ("app/b.yaml", ""),
        ("app/c.yaml", &config_map("c", "1")),
    ]);
    world.refresh("shop").await;
    let app = world.until_synced("shop", &second).await;
    assert!(app["metadata"]["annotations"]["argocd.argoproj.io/refresh"].is_null());
    assert_eq!(world.get("ConfigMap", "a").await.expect("there")["data"], json!({"one": "1"}));
    assert!(world.get("ConfigMap", "b").await.is_none(), "b was pruned");
    assert!(world.get("ConfigMap", "c").await.is_some());
    let ids: Vec<_> =
        app["status"]["history"].as_array().expect("history").iter().map(|h| h["id"].clone()).collect();
    assert_eq!(ids, [json!(0), json!(1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_is_repaired_and_then_nothing_is_written() {
    let world = World::new().await;
    let revision = world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    world.application("shop", automated()).await;
    world.start();
    world.until_synced("shop", &revision).await;
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "a"}});
    world
        .client
        .merge(&map, &json!({"data": {"key": "hacked", "other": "stays"}}), WriteOptions::default())
        .await
        .expect("patched");
    world
        .until("shop", "healed", |app| {
            app["status"]["operationState"]["operation"]["sync"]["autoHealAttemptsCount"] == 1
                && app["status"]["sync"]["status"] == "Synced"
        })
        .await;
    // A field that nobody declared is left alone, as with kubectl apply.
    assert_eq!(
        world.get("ConfigMap", "a").await.expect("there")["data"],
        json!({"key": "1", "other": "stays"})
    );
    world
        .client
        .delete(&ObjectKey::new("", "ConfigMap", "shop", "a"), None, Propagation::Background, false)
        .await
        .expect("deleted");
    let app = world
        .until("shop", "healed again", |app| {
            app["status"]["operationState"]["operation"]["sync"]["autoHealAttemptsCount"] == 2
                && app["status"]["sync"]["status"] == "Synced"
        })
        .await;
    assert!(world.get("ConfigMap", "a").await.is_some());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let later = world.app("shop").await;
    assert_eq!(
        later["metadata"]["resourceVersion"], app["metadata"]["resourceVersion"],
        "nothing was written"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_manifest_keeps_what_runs_and_says_where() {
    let world = World::new().await;
    let first = world.commit(&[("app/a.yaml", &config_map("a", "1")), ("app/b.yaml", &config_map("b", "1"))]);
    world.application("shop", automated()).await;
    world.start();
    world.until_synced("shop", &first).await;
    world.commit(&[
        ("app/a.yaml", ""),
        ("app/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: [b\n"),
    ]);
    world.refresh("shop").await;
    let app = world.until("shop", "refused", |app| !app["status"]["conditions"][0].is_null()).await;
    let condition = &app["status"]["conditions"][0];
    assert_eq!(condition["type"], "ComparisonError");
    assert!(condition["message"].as_str().unwrap_or_default().starts_with("app/b.yaml:5:"), "{condition}");
    assert_eq!(app["status"]["sync"]["status"], "Unknown");
    assert_eq!(app["status"]["health"]["status"], "Healthy", "what runs is still well");
    assert!(world.get("ConfigMap", "a").await.is_some(), "nothing is pruned in doubt");
    assert!(world.get("ConfigMap", "b").await.is_some());

    let fixed = world.commit(&[("app/b.yaml", &config_map("b", "2"))]);
    world.refresh("shop").await;
    let app = world.until_synced("shop", &fixed).await;
    assert!(app["status"]["conditions"].is_null());
    assert!(world.get("ConfigMap", "a").await.is_none());
}

/// The whole of D1: a broken commit is not hidden by the next event in the cluster, and not synced around.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_head_stays_unreadable_until_it_is_read_again() {
    let world = World::new().await;
    let first = world.commit(&[("app/a.yaml", &config_map("a", "1")), ("app/b.yaml", &config_map("b", "1"))]);
    world.make("v1", "Namespace", "", "shop", json!({})).await;
    world.application("shop", json!({})).await;
    world.start();
    world.until("shop", "compared", |app| app["status"]["sync"]["status"] == "OutOfSync").await;
    world.patch_app("shop", json!({"operation": {"sync": {}}})).await;
    world.until_synced("shop", &first).await;
    world.commit(&[("app/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: [b\n")]);
    world.refresh("shop").await;
    let broken = |app: &Value| {
        app["status"]["sync"]["status"] == "Unknown"
            && app["status"]["conditions"][0]["type"] == "ComparisonError"
            && app["metadata"]["annotations"]["argocd.argoproj.io/refresh"].is_null()
    };
    let app = world.until("shop", "broken", broken).await;
    assert!(app["status"]["sync"]["revision"].is_null(), "nothing was compared: {}", app["status"]["sync"]);

    // Something happens in the cluster: twice, so that the second look begins after the first.
    for value in ["touched", "again"] {
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "a"}});
        let patch = json!({"metadata": {"annotations": {"touched": value}}});
        world.client.merge(&map, &patch, WriteOptions::default()).await.expect("patched");
        // An order is looked at in turn: when it has been answered, the event before it has been too.
        world.patch_app("shop", json!({"metadata": {"labels": {"looked": value}}})).await;
        for _ in 0..25 {
            let app = world.app("shop").await;
            assert!(broken(&app), "hidden by an event in the cluster: {}", app["status"]);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    // A sync of it fails with the sentence, and deploys nothing.
    world.patch_app("shop", json!({"operation": {"initiatedBy": {"username": "me"}, "sync": {}}})).await;
    let app = world.until("shop", "refused", |app| app["status"]["operationState"]["phase"] == "Error").await;
    let state = &app["status"]["operationState"];
    assert!(state["message"].as_str().is_some_and(|m| m.contains("app/b.yaml:5:")), "{state}");
    assert!(state["syncResult"]["revision"].as_str().unwrap_or_default().is_empty(), "{state}");
    assert!(broken(&app), "{}", app["status"]);
    assert_eq!(app["status"]["history"].as_array().map(Vec::len), Some(1));

    // The version before can still be named.
    world.patch_app("shop", json!({"operation": {"sync": {"revision": first}}})).await;
    let app = world
        .until("shop", "synced to what was named", |app| {
            app["status"]["operationState"]["syncResult"]["revision"] == first.as_str()
                && app["status"]["operationState"]["phase"] == "Succeeded"
        })
        .await;
    assert!(broken(&app), "that says nothing about the branch: {}", app["status"]);

    let fixed = world.commit(&[("app/b.yaml", &config_map("b", "2"))]);
    world.refresh("shop").await;
    world.until("shop", "compared again", |app| app["status"]["sync"]["revision"] == fixed.as_str()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_never_ran_is_not_called_healthy() {
    let world = World::new().await;
    world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    world.application_at("nowhere", "no/such/path", "shop", automated()).await;
    world.start();
    let app = world
        .until("nowhere", "refused", |app| app["status"]["conditions"][0]["type"] == "ComparisonError")
        .await;
    assert_eq!(app["status"]["health"]["status"], "Unknown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_automation_it_waits_to_be_asked() {
    let world = World::new().await;
    let first = world.commit(&[("app/a.yaml", &config_map("a", "1")), ("app/b.yaml", &config_map("b", "1"))]);
    world.make("v1", "Namespace", "", "shop", json!({})).await;
    world.application("shop", json!({})).await;
    world.start();
    world.until("shop", "compared", |app| app["status"]["sync"]["status"] == "OutOfSync").await;
    assert!(world.get("ConfigMap", "a").await.is_none());
    world
        .patch_app(
            "shop",
            json!({"operation": {"initiatedBy": {"username": "me"}, "sync": {"dryRun": true}}}),
        )
        .await;
    world
        .until("shop", "tried", |app| {
            app["status"]["operationState"]["message"] == "successfully synced (dry run)"
        })
        .await;
    assert!(world.get("ConfigMap", "a").await.is_none());
    world.patch_app("shop", json!({"operation": {"initiatedBy": {"username": "me"}, "sync": {}}})).await;
    let app = world.until_synced("shop", &first).await;
    assert_eq!(app["status"]["history"][0]["initiatedBy"]["username"], "me");

    // Without prune what is not wanted stays, and is shown.
    let second = world.commit(&[("app/b.yaml", "")]);
    world.patch_app("shop", json!({"operation": {"sync": {}}})).await;
    let app = world
        .until("shop", "synced without prune", |app| {
            app["status"]["operationState"]["syncResult"]["revision"] == second.as_str()
                && app["status"]["operationState"]["phase"] == "Succeeded"
        })
        .await;
    assert_eq!(app["status"]["sync"]["status"], "OutOfSync");
    assert!(world.get("ConfigMap", "b").await.is_some());
    world.patch_app("shop", json!({"operation": {"sync": {"revision": first, "prune": true}}})).await;
    let app = world
        .until("shop", "synced to the first", |app| {
            app["status"]["operationState"]["syncResult"]["revision"] == first.as_str()
                && app["status"]["operationState"]["phase"] == "Succeeded"
        })
        .await;
    assert_eq!(
        app["status"]["sync"]["revision"],
        second.as_str(),
        "compared with the branch, not with the operation"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waves_and_hooks_wait_for_each_other_and_hooks_run_once() {
    let world = World::new().await;
    let hook = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: migrate\n  annotations: {argocd.argoproj.io/hook: PreSync, argocd.argoproj.io/hook-delete-policy: HookSucceeded}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      schedulerName: nobody\n      containers: [{name: m, image: x}]\n";
    let revision = world.commit(&[("app/hook.yaml", hook), ("app/a.yaml", &config_map("a", "1"))]);
    world.application("shop", automated()).await;
    world.start();
    let waiting = world
        .until("shop", "waiting for its hook", |app| {
            app["status"]["operationState"]["message"]
                .as_str()
                .is_some_and(|m| m.contains("waiting for completion of hook"))
        })
        .await;
    assert_eq!(waiting["status"]["operationState"]["phase"], "Running");
    assert!(world.get("ConfigMap", "a").await.is_none(), "the hook comes first");
    let job = world.get("batch/Job", "migrate").await.expect("the hook runs");
    finish_job(&world, &job).await;
    let app = world.until_synced("shop", &revision).await;
    assert!(world.get("ConfigMap", "a").await.is_some());
    assert!(world.get("batch/Job", "migrate").await.is_none(), "deleted after success");
    let results =
        app["status"]["operationState"]["syncResult"]["resources"].as_array().expect("results").clone();
    let hook = results.iter().find(|r| r["kind"] == "Job").expect("the hook's result");
    assert_eq!((&hook["hookPhase"], &hook["hookType"]), (&json!("Succeeded"), &json!("PreSync")));
    assert_eq!(hook["uid"], job["metadata"]["uid"], "it ran once");
}

/// What the job controller does when the pod ends well.
pub(crate) async fn finish_job(world: &World, job: &serde_json::Value) {
    let path = "status";
    let mut done = job.clone();
    done["status"] = json!({"succeeded": 1, "conditions": [
        {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z"});
    world
        .client
        .merge_subresource(job, path, &json!({"status": done["status"]}))
        .await
        .expect("the job's status");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_is_told_and_tried_again() {
    let world = World::new().await;
    world.make("v1", "Namespace", "", "shop", json!({})).await;
    let bad = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n  ports: [{port: 99999999}]\n";
    world.commit(&[("app/a.yaml", bad), ("app/b.yaml", &config_map("b", "1"))]);
    let policy = json!({"automated": {}, "retry": {"limit": 1, "backoff": {"duration": "1s"}}});
    world.application("shop", policy).await;
    world.start();
    let app = world
        .until("shop", "tried again", |app| {
            app["status"]["operationState"]["message"]
                .as_str()
                .is_some_and(|m| m.contains("Retrying attempt #1"))
        })
        .await;
    assert_eq!(app["status"]["operationState"]["phase"], "Running");
    let app = world.until("shop", "failed", |app| app["status"]["operationState"]["phase"] == "Failed").await;
    let message = app["status"]["operationState"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("Service"), "{message}");
    assert!(world.get("ConfigMap", "b").await.is_none(), "the dry run failed, so nothing was applied");
    let app = world.until("shop", "explained", |app| !app["status"]["conditions"].is_null()).await;
    assert_eq!(app["status"]["conditions"][0]["type"], "SyncError");
    let fixed = world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    world.refresh("shop").await;
    world.until_synced("shop", &fixed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_application_takes_its_objects_along_only_when_told_to() {
    let world = World::new().await;
    let revision = world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    world.application("shop", automated()).await;
    world.start();
    world.until_synced("shop", &revision).await;
    let key = ObjectKey::new("argoproj.io", "Application", "argocd", "shop");
    world.client.delete(&key, None, Propagation::Background, false).await.expect("deleted");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(world.get("ConfigMap", "a").await.is_some(), "without finalizer the workload stays");

    world.application("shop", automated()).await;
    world
        .patch_app("shop", json!({"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}}))
        .await;
    world.until("shop", "synced", |app| app["status"]["sync"]["status"] == "Synced").await;
    world.client.delete(&key, None, Propagation::Background, false).await.expect("deleted");
    world.until("shop", "gone", serde_json::Value::is_null).await;
    assert!(world.get("ConfigMap", "a").await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_and_their_objects_come_in_one_sync() {
    let world = World::new().await;
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: ships.example.org}\nspec:\n  group: example.org\n  scope: Namespaced\n  names: {plural: ships, singular: ship, kind: Ship, listKind: ShipList}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}\n";
    let revision = world.commit(&[
        ("app/crd.yaml", definition),
        (
            "app/ship.yaml",
            "apiVersion: example.org/v1\nkind: Ship\nmetadata: {name: argo}\nspec: {oars: 50}\n",
        ),
    ]);
    world.application("shop", automated()).await;
    world.start();
    world.until_synced("shop", &revision).await;
    assert!(world.get("example.org/Ship", "argo").await.is_some());
    let ship = json!({"apiVersion": "example.org/v1", "kind": "Ship", "metadata": {"namespace": "shop", "name": "argo"}});
    world.client.merge(&ship, &json!({"spec": {"oars": 1}}), WriteOptions::default()).await.expect("patched");
    world
        .until("shop", "healed", |app| {
            app["status"]["operationState"]["operation"]["sync"]["autoHealAttemptsCount"] == 1
                && app["status"]["operationState"]["phase"] == "Succeeded"
        })
        .await;
    assert_eq!(world.get("example.org/Ship", "argo").await.expect("there")["spec"]["oars"], 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_spec_is_said() {
    let world = World::new().await;
    world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    let cases = [
        (
            "elsewhere",
            json!({"destination": {"server": "https://other"}}),
            "is not known here; use https://kubernetes.default.svc",
        ),
        ("both", json!({"destination": {"name": "in-cluster"}}), "both a server and a name"),
        ("foreign", json!({"project": "secret"}), "project secret which does not exist"),
        ("nowhere", json!({"source": {"path": "nope"}}), "path `nope` is not in the repository"),
        ("outside", json!({"source": {"path": "../.."}}), "leaves the repository"),
        ("branch", json!({"source": {"targetRevision": "nope"}}), "branches there: main"),
        ("chart", json!({"source": {"chart": "x"}}), "is not a chart repository"),
    ];
    for (name, change, _) in &cases {
        world.application(name, automated()).await;
        world.patch_app(name, json!({"spec": change})).await;
    }
    world.start();
    for (name, _, words) in cases {
        let app = world.until(name, "explained", |app| !app["status"]["conditions"].is_null()).await;
        let message = app["status"]["conditions"][0]["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "{name}: {message}");
        assert_eq!(app["status"]["sync"]["status"], "Unknown");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_waits_for_those_that_it_depends_on() {
    let world = World::new().await;
    world.make("v1", "Namespace", "", "shop", json!({})).await;
    let revision =
        world.commit(&[("app/a.yaml", &config_map("a", "1")), ("database/d.yaml", &config_map("d", "1"))]);
    world.application("shop", automated()).await;
    let annotation = json!({"slipway.io/depends-on": "database"});
    world.patch_app("shop", json!({"metadata": {"annotations": annotation}})).await;
    world.start();
    let waits = |words: &'static str| {
        move |app: &Value| {
            let conditions = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|c| {
                c["type"] == "DependencyWarning"
                    && c["message"].as_str().is_some_and(|text| text.contains(words))
            })
        }
    };
    world.until("shop", "waiting", waits("waiting for database, which does not exist")).await;
    world.application_at("database", "database", "shop", json!({})).await;
    world.until("shop", "waiting", waits("waiting for database, which is OutOfSync and Missing")).await;
    assert!(world.get("ConfigMap", "a").await.is_none());
    world.patch_app("database", json!({"operation": {"sync": {}}})).await;
    world.until_synced("database", &revision).await;
    let app = world.until_synced("shop", &revision).await;
    assert!(!waits("")(&app), "{}", app["status"]["conditions"]);
}
