//! Status, scale and finalizers of built-in kinds.

use serde_json::json;

use crate::client::{MERGE, Test, deployment};

#[tokio::test]
async fn status_is_ignored_on_the_main_path() {
    let t = Test::api().await;
    let mut body = deployment("d", 0, "true");
    body["status"] = json!({"replicas": 7});
    let object = t.create(&t.group("apps/v1", "deployments"), body).await;
    assert_eq!(object["status"].get("replicas"), None);
}

#[tokio::test]
async fn the_status_path_changes_status_only() {
    let t = Test::api().await;
    let service = t
        .create(&t.core("services"), json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}))
        .await;
    let mut changed = service.clone();
    changed["spec"]["ports"][0]["port"] = json!(99);
    changed["status"] = json!({"conditions": [{"type": "Tested", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    changed["metadata"].as_object_mut().expect("a map").remove("resourceVersion");
    let (code, object) = t.put(&t.core("services/s/status"), changed).await;
    assert_eq!(code, 200, "{object}");
    assert_eq!(object["spec"]["ports"][0]["port"], 80);
    assert_eq!(object["status"]["conditions"][0]["type"], "Tested");
}

#[tokio::test]
async fn scale_reads_and_writes_replicas() {
    let t = Test::api().await;
    let path = t.group("apps/v1", "deployments");
    let mut body = deployment("d", 0, "true");
    body["spec"]["paused"] = json!(true);
    t.create(&path, body).await;
    let (code, scale) = t.get(&format!("{path}/d/scale")).await;
    assert_eq!((code, scale["apiVersion"].as_str()), (200, Some("autoscaling/v1")));
    assert_eq!(scale["status"]["selector"], "app=d");
    let mut wanted = scale.clone();
    wanted["spec"]["replicas"] = json!(4);
    wanted["metadata"].as_object_mut().expect("a map").remove("resourceVersion");
    let (code, after) = t.put(&format!("{path}/d/scale"), wanted).await;
    assert_eq!((code, after["spec"]["replicas"].as_i64()), (200, Some(4)));
    let (_, object) = t.get(&format!("{path}/d")).await;
    assert_eq!(
        (object["spec"]["replicas"].as_i64(), object["metadata"]["generation"].as_i64()),
        (Some(4), Some(2))
    );
}

#[tokio::test]
async fn scale_checks_the_resource_version() {
    let t = Test::api().await;
    let path = t.group("apps/v1", "deployments");
    t.create(&path, deployment("d", 0, "true")).await;
    let wanted = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "namespace": t.ns, "resourceVersion": "1"}, "spec": {"replicas": 2}});
    assert_eq!(t.put(&format!("{path}/d/scale"), wanted).await.0, 409);
}

#[tokio::test]
async fn negative_replicas_are_refused() {
    let t = Test::api().await;
    let path = t.group("apps/v1", "deployments");
    t.create(&path, deployment("d", 0, "true")).await;
    assert_eq!(t.patch(&format!("{path}/d/scale"), MERGE, json!({"spec": {"replicas": -1}})).await.0, 422);
}

#[tokio::test]
async fn kinds_without_a_subresource_do_not_have_one() {
    let t = Test::api().await;
    t.config_map("a", json!({})).await;
    assert_eq!(t.get(&t.core("configmaps/a/status")).await.0, 404);
    assert_eq!(t.get(&t.core("configmaps/a/scale")).await.0, 404);
}

#[tokio::test]
async fn a_finalizer_holds_the_object_until_it_is_removed() {
    let t = Test::api().await;
    t.create(&t.core("configmaps"), json!({"metadata": {"name": "a", "finalizers": ["example.com/wait"]}}))
        .await;
    let (code, object) = t.delete(&t.core("configmaps/a")).await;
    assert_eq!(code, 200);
    assert!(object["metadata"]["deletionTimestamp"].is_string() || object["status"] == "Success", "{object}");
    let (code, object) = t.get(&t.core("configmaps/a")).await;
    assert_eq!(code, 200);
    assert!(object["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(
        t.patch(&t.core("configmaps/a"), MERGE, json!({"metadata": {"finalizers": null}})).await.0,
        200
    );
    assert_eq!(t.get(&t.core("configmaps/a")).await.0, 404);
}

#[tokio::test]
async fn the_mark_of_deletion_cannot_be_taken_back() {
    let t = Test::api().await;
    t.create(&t.core("configmaps"), json!({"metadata": {"name": "a", "finalizers": ["example.com/wait"]}}))
        .await;
    t.delete(&t.core("configmaps/a")).await;
    let (_, object) = t
        .patch(
            &t.core("configmaps/a"),
            MERGE,
            json!({"metadata": {"deletionTimestamp": null, "labels": {"x": "y"}}}),
        )
        .await;
    assert!(object["metadata"]["deletionTimestamp"].is_string(), "{object}");
    t.patch(&t.core("configmaps/a"), MERGE, json!({"metadata": {"finalizers": null}})).await;
}
