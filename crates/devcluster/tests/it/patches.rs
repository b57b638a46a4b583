//! JSON patch, merge patch, strategic merge patch.

use serde_json::json;

use crate::client::{APPLY, JSON, MERGE, STRATEGIC, Test, deployment};

#[tokio::test]
async fn json_patch_adds_replaces_and_removes() {
    let t = Test::api().await;
    t.config_map("a", json!({"k": "v", "gone": "x"})).await;
    let ops = json!([{"op": "add", "path": "/data/new", "value": "1"}, {"op": "replace", "path": "/data/k", "value": "w"}, {"op": "remove", "path": "/data/gone"}]);
    let (code, object) = t.patch(&t.core("configmaps/a"), JSON, ops).await;
    assert_eq!((code, &object["data"]), (200, &json!({"k": "w", "new": "1"})));
}

#[tokio::test]
async fn a_json_patch_whose_test_fails_changes_nothing() {
    let t = Test::api().await;
    t.config_map("a", json!({"k": "v"})).await;
    let ops = json!([{"op": "test", "path": "/data/k", "value": "other"}, {"op": "replace", "path": "/data/k", "value": "w"}]);
    assert_eq!(t.patch(&t.core("configmaps/a"), JSON, ops).await.0, 422);
    assert_eq!(t.get(&t.core("configmaps/a")).await.1["data"]["k"], "v");
}

#[tokio::test]
async fn a_json_patch_must_find_its_path() {
    let t = Test::api().await;
    t.config_map("a", json!({})).await;
    assert_eq!(
        t.patch(&t.core("configmaps/a"), JSON, json!([{"op": "remove", "path": "/data/none"}])).await.0,
        422
    );
}

#[tokio::test]
async fn merge_patch_merges_and_null_removes() {
    let t = Test::api().await;
    t.config_map("a", json!({"k": "v", "gone": "x"})).await;
    let (code, object) =
        t.patch(&t.core("configmaps/a"), MERGE, json!({"data": {"gone": null, "new": "1"}})).await;
    assert_eq!((code, &object["data"]), (200, &json!({"k": "v", "new": "1"})));
}

#[tokio::test]
async fn merge_patch_with_an_old_resource_version_is_a_conflict() {
    let t = Test::api().await;
    let old = t.config_map("a", json!({"k": "1"})).await;
    t.patch(&t.core("configmaps/a"), MERGE, json!({"data": {"k": "2"}})).await;
    let patch =
        json!({"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"k": "3"}});
    assert_eq!(t.patch(&t.core("configmaps/a"), MERGE, patch).await.0, 409);
}

#[tokio::test]
async fn merge_patch_replaces_lists_whole() {
    let t = Test::api().await;
    let path = t.group("apps/v1", "deployments");
    t.create(&path, deployment("d", 0, "true")).await;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "other", "image": "x:1"}]}}}});
    let (code, object) = t.patch(&format!("{path}/d"), MERGE, patch).await;
    assert_eq!(code, 200, "{object}");
    let containers = object["spec"]["template"]["spec"]["containers"].as_array().expect("a list").clone();
    assert_eq!(containers.len(), 1);
    assert_eq!(containers[0]["name"], "other");
}

#[tokio::test]
async fn strategic_merge_merges_containers_by_name() {
    let t = Test::api().await;
    let path = t.group("apps/v1", "deployments");
    t.create(&path, deployment("d", 0, "true")).await;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}, {"name": "side", "image": "x:1"}]}}}});
    let (code, object) = t.patch(&format!("{path}/d"), STRATEGIC, patch).await;
    assert_eq!(code, 200, "{object}");
    let containers = &object["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers.as_array().map(Vec::len), Some(2));
    let main =
        containers.as_array().expect("a list").iter().find(|c| c["name"] == "main").expect("main").clone();
    assert_eq!(main["command"][0], "/bin/sh");
    assert_eq!(main["env"][0]["value"], "1");
}

#[tokio::test]
async fn strategic_merge_deletes_by_directive() {
    let t = Test::api().await;
    let path = t.group("apps/v1", "deployments");
    let mut body = deployment("d", 0, "true");
    body["spec"]["template"]["spec"]["containers"]
        .as_array_mut()
        .expect("a list")
        .push(json!({"name": "side", "image": "x:1"}));
    t.create(&path, body).await;
    let patch =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}});
    let (code, object) = t.patch(&format!("{path}/d"), STRATEGIC, patch).await;
    assert_eq!(code, 200, "{object}");
    assert_eq!(object["spec"]["template"]["spec"]["containers"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn strategic_merge_replaces_by_directive() {
    let t = Test::api().await;
    t.create(&t.core("configmaps"), json!({"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}}})).await;
    let patch = json!({"metadata": {"labels": {"$patch": "replace", "z": "3"}}});
    let (code, object) = t.patch(&t.core("configmaps/a"), STRATEGIC, patch).await;
    assert_eq!((code, &object["metadata"]["labels"]), (200, &json!({"z": "3"})));
}

#[tokio::test]
async fn strategic_merge_keeps_order_by_directive() {
    let t = Test::api().await;
    let path = t.group("apps/v1", "deployments");
    let mut body = deployment("d", 0, "true");
    body["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
    t.create(&path, body).await;
    let patch = json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "main"}], "containers": [
        {"name": "main", "$setElementOrder/env": [{"name": "B"}, {"name": "A"}], "env": [{"name": "A", "value": "3"}]}]}}}});
    let (code, object) = t.patch(&format!("{path}/d"), STRATEGIC, patch).await;
    assert_eq!(code, 200, "{object}");
    assert_eq!(
        object["spec"]["template"]["spec"]["containers"][0]["env"],
        json!([{"name": "B", "value": "2"}, {"name": "A", "value": "3"}])
    );
}

#[tokio::test]
async fn strategic_merge_retains_keys_of_a_union() {
    let t = Test::api().await;
    let path = t.group("apps/v1", "deployments");
    t.create(&path, deployment("d", 0, "true")).await;
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let (code, object) = t.patch(&format!("{path}/d"), STRATEGIC, patch).await;
    assert_eq!((code, &object["spec"]["strategy"]), (200, &json!({"type": "Recreate"})), "{object}");
}

#[tokio::test]
async fn strategic_merge_removes_from_a_primitive_list() {
    let t = Test::api().await;
    t.create(
        &t.core("configmaps"),
        json!({"metadata": {"name": "a", "finalizers": ["example.com/a", "example.com/b"]}}),
    )
    .await;
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}});
    let (code, object) = t.patch(&t.core("configmaps/a"), STRATEGIC, patch).await;
    assert_eq!((code, &object["metadata"]["finalizers"]), (200, &json!(["example.com/b"])));
    t.patch(&t.core("configmaps/a"), MERGE, json!({"metadata": {"finalizers": null}})).await;
}

#[tokio::test]
async fn strategic_merge_is_not_for_custom_resources() {
    let t = Test::api().await;
    let kind = crate::crd::widgets(&t, json!({})).await;
    t.create(&kind.path(&t), json!({"apiVersion": kind.version(), "kind": kind.kind, "metadata": {"name": "a"}, "spec": {"size": 1}})).await;
    assert_eq!(
        t.patch(&format!("{}/a", kind.path(&t)), STRATEGIC, json!({"spec": {"size": 2}})).await.0,
        415
    );
}

#[tokio::test]
async fn an_unknown_patch_type_is_refused() {
    let t = Test::api().await;
    t.config_map("a", json!({})).await;
    assert_eq!(t.patch(&t.core("configmaps/a"), "application/json", json!({})).await.0, 415);
}

#[tokio::test]
async fn a_patch_of_a_missing_object_is_not_found_unless_it_applies() {
    let t = Test::api().await;
    assert_eq!(t.patch(&t.core("configmaps/a"), MERGE, json!({"data": {}})).await.0, 404);
    let mut body = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}});
    let (code, status) = t.patch(&t.core("configmaps/a?fieldManager=m"), APPLY, body.clone()).await;
    assert_eq!(code, 400, "to create, the name must be in the body too: {status}");
    body["metadata"] = json!({"name": "a"});
    assert_eq!(t.patch(&t.core("configmaps/a?fieldManager=m"), APPLY, body).await.0, 201);
}

#[tokio::test]
async fn a_patch_that_changes_nothing_keeps_the_resource_version() {
    let t = Test::api().await;
    let object = t.config_map("a", json!({"k": "v"})).await;
    let (_, after) = t.patch(&t.core("configmaps/a"), MERGE, json!({"data": {"k": "v"}})).await;
    assert_eq!(after["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn a_dry_run_patch_shows_and_does_not_keep() {
    let t = Test::api().await;
    t.config_map("a", json!({"k": "v"})).await;
    let (code, object) =
        t.patch(&t.core("configmaps/a?dryRun=All"), MERGE, json!({"data": {"k": "w"}})).await;
    assert_eq!((code, object["data"]["k"].as_str()), (200, Some("w")));
    assert_eq!(t.get(&t.core("configmaps/a")).await.1["data"]["k"], "v");
}

#[tokio::test]
async fn many_patches_at_once_are_all_kept() {
    let t = Test::api().await;
    t.config_map("a", json!({})).await;
    let path = t.core("configmaps/a");
    let patches = (0..40).map(|n| {
        let (t, path) = (&t, &path);
        async move { t.patch(path, MERGE, json!({"data": {format!("k{n}"): "v"}})).await.0 }
    });
    let codes = futures::future::join_all(patches).await;
    assert!(codes.iter().all(|code| *code == 200), "{codes:?}");
    assert_eq!(t.get(&path).await.1["data"].as_object().map(|m| m.len()), Some(40));
}
