//! Server-side apply: owners, conflicts, removal.

use serde_json::{Value, json};

use crate::client::{APPLY, MERGE, Test, fields};

async fn apply(t: &Test, manager: &str, force: bool, data: Value) -> (u16, Value) {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
    t.patch(&t.core(&format!("configmaps/a?fieldManager={manager}&force={force}")), APPLY, body).await
}

fn managers(object: &Value) -> Vec<String> {
    let list = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<String> = list
        .iter()
        .map(|e| format!("{} {}", e["manager"].as_str().unwrap_or(""), e["operation"].as_str().unwrap_or("")))
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn apply_creates_and_owns() {
    let t = Test::api().await;
    let (code, object) = apply(&t, "one", false, json!({"k": "v"})).await;
    assert_eq!(code, 201);
    assert_eq!(managers(&object), ["one Apply"]);
    let owned = &object["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(*owned, json!({"f:data": {"f:k": {}}}));
    assert_eq!(apply(&t, "one", false, json!({"k": "w"})).await.0, 200);
}

#[tokio::test]
async fn a_field_manager_is_required() {
    let t = Test::api().await;
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let (code, _) = t.patch(&t.core("configmaps/a"), APPLY, body).await;
    assert!(code == 400 || code == 422, "{code}");
}

#[tokio::test]
async fn apply_needs_kind_and_version() {
    let t = Test::api().await;
    assert_eq!(
        t.patch(&t.core("configmaps/a?fieldManager=m"), APPLY, json!({"data": {"k": "v"}})).await.0,
        400
    );
}

#[tokio::test]
async fn a_changed_field_of_another_is_a_conflict() {
    let t = Test::api().await;
    apply(&t, "one", false, json!({"k": "v"})).await;
    let (code, status) = apply(&t, "two", false, json!({"k": "w"})).await;
    assert_eq!((code, status["reason"].as_str()), (409, Some("Conflict")));
    assert_eq!(fields(&status), [".data.k"]);
    assert_eq!(status["details"]["causes"][0]["reason"], "FieldManagerConflict");
    assert!(status["message"].as_str().is_some_and(|m| m.contains("conflict with \"one\"")), "{status}");
}

#[tokio::test]
async fn force_takes_the_field() {
    let t = Test::api().await;
    apply(&t, "one", false, json!({"k": "v"})).await;
    let (code, object) = apply(&t, "two", true, json!({"k": "w"})).await;
    assert_eq!((code, object["data"]["k"].as_str()), (200, Some("w")));
    assert_eq!(managers(&object), ["two Apply"]);
    assert_eq!(apply(&t, "one", false, json!({"k": "v"})).await.0, 409);
}

#[tokio::test]
async fn the_same_value_is_shared() {
    let t = Test::api().await;
    apply(&t, "one", false, json!({"k": "v"})).await;
    let (code, object) = apply(&t, "two", false, json!({"k": "v"})).await;
    assert_eq!(code, 200);
    assert_eq!(managers(&object), ["one Apply", "two Apply"]);
}

#[tokio::test]
async fn a_field_left_out_goes_when_nobody_else_owns_it() {
    let t = Test::api().await;
    apply(&t, "one", false, json!({"k": "v", "l": "v"})).await;
    apply(&t, "two", false, json!({"l": "v"})).await;
    let (_, object) = apply(&t, "one", false, json!({})).await;
    assert_eq!(object["data"], json!({"l": "v"}));
}

#[tokio::test]
async fn fields_of_others_are_left_alone() {
    let t = Test::api().await;
    apply(&t, "one", false, json!({"k": "v"})).await;
    let (code, object) = apply(&t, "two", false, json!({"l": "w"})).await;
    assert_eq!((code, &object["data"]), (200, &json!({"k": "v", "l": "w"})));
}

#[tokio::test]
async fn an_update_takes_fields_and_apply_then_conflicts() {
    let t = Test::api().await;
    apply(&t, "one", false, json!({"k": "v"})).await;
    let (_, object) =
        t.patch(&t.core("configmaps/a?fieldManager=editor"), MERGE, json!({"data": {"k": "w"}})).await;
    assert_eq!(managers(&object), ["editor Update"]);
    let (code, status) = apply(&t, "one", false, json!({"k": "v"})).await;
    assert_eq!(code, 409);
    assert!(status["message"].as_str().is_some_and(|m| m.contains("\"editor\" using v1")), "{status}");
}

#[tokio::test]
async fn applying_again_without_a_change_is_no_write() {
    let t = Test::api().await;
    let (_, first) = apply(&t, "one", false, json!({"k": "v"})).await;
    let (_, second) = apply(&t, "one", false, json!({"k": "v"})).await;
    assert_eq!(first["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn a_dry_run_apply_keeps_nothing() {
    let t = Test::api().await;
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let (code, object) = t.patch(&t.core("configmaps/a?fieldManager=m&dryRun=All"), APPLY, body).await;
    assert_eq!((code, object["data"]["k"].as_str()), (201, Some("v")));
    assert_eq!(t.get(&t.core("configmaps/a")).await.0, 404);
}

#[tokio::test]
async fn managed_fields_may_not_be_applied() {
    let t = Test::api().await;
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "managedFields": [{"manager": "x"}]}});
    assert_eq!(t.patch(&t.core("configmaps/a?fieldManager=m"), APPLY, body).await.0, 400);
}

#[tokio::test]
async fn list_items_are_owned_by_their_key() {
    let t = Test::api().await;
    let path = t.group("apps/v1", "deployments/d");
    let config = |containers: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 0,
        "selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": containers}}}})
    };
    let (code, _) = t
        .patch(
            &format!("{path}?fieldManager=one"),
            APPLY,
            config(json!([{"name": "a", "image": "x:1", "ports": [{"containerPort": 80}]}])),
        )
        .await;
    assert_eq!(code, 201);
    let mut side = config(json!([{"name": "b", "image": "y:1"}]));
    side["spec"] = json!({"template": {"spec": {"containers": [{"name": "b", "image": "y:1"}]}}});
    let (code, object) = t.patch(&format!("{path}?fieldManager=two"), APPLY, side).await;
    assert_eq!(code, 200, "{object}");
    let names: Vec<&str> = object["spec"]["template"]["spec"]["containers"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|c| c["name"].as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    let (code, status) = t.patch(&format!("{path}?fieldManager=two"), APPLY, json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": {"containers": [{"name": "a", "image": "z:1"}]}}}})).await;
    assert_eq!(code, 409, "{status}");
    assert_eq!(fields(&status), [".spec.template.spec.containers[name=\"a\"].image"]);
}

#[tokio::test]
async fn ports_are_keyed_by_number_and_protocol() {
    let t = Test::api().await;
    let body = |port: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": [port]}});
    let path = t.core("services/s?fieldManager=one");
    t.patch(&path, APPLY, body(json!({"port": 80, "name": "http"}))).await;
    let (code, object) = t.patch(&path, APPLY, body(json!({"port": 81, "name": "http"}))).await;
    assert_eq!(code, 200, "{object}");
    let ports = object["spec"]["ports"].as_array().expect("ports");
    assert_eq!(ports.len(), 1, "{ports:?}");
    assert_eq!(ports[0]["port"], 81);
}

#[tokio::test]
async fn giving_up_a_field_to_its_new_owner_keeps_it() {
    let t = Test::api().await;
    apply(&t, "one", false, json!({"k": "v"})).await;
    t.patch(&t.core("configmaps/a?fieldManager=editor"), MERGE, json!({"data": {"k": "w"}})).await;
    let (code, object) = apply(&t, "one", false, json!({})).await;
    assert_eq!((code, object["data"]["k"].as_str()), (200, Some("w")));
}

#[tokio::test]
async fn status_and_spec_have_their_own_owners() {
    let t = Test::api().await;
    let path = t.group("apps/v1", "deployments");
    t.create(&path, crate::client::deployment("d", 0, "true")).await;
    let object = t
        .until(&format!("{path}/d"), "the controller writing the status", |d| {
            d["status"]["observedGeneration"] == 1
        })
        .await;
    let entries = object["metadata"]["managedFields"].as_array().expect("entries").clone();
    let status = entries.iter().find(|e| e["subresource"] == "status").expect("an entry for status");
    assert!(
        status["fieldsV1"].get("f:status").is_some() && status["fieldsV1"].get("f:spec").is_none(),
        "{status}"
    );
    let creator = entries.iter().find(|e| e["manager"] == "behaviour").expect("the creator");
    assert!(creator["fieldsV1"].get("f:status").is_none(), "{creator}");
}

#[tokio::test]
async fn apply_with_a_stale_resource_version_is_a_conflict() {
    let t = Test::api().await;
    apply(&t, "one", false, json!({"k": "v"})).await;
    apply(&t, "one", false, json!({"k": "w"})).await;
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "1"}, "data": {"k": "x"}});
    assert_eq!(t.patch(&t.core("configmaps/a?fieldManager=one"), APPLY, body).await.0, 409);
}

#[tokio::test]
async fn labels_are_owned_one_by_one() {
    let t = Test::api().await;
    let body = |labels: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": labels}});
    t.patch(&t.core("configmaps/a?fieldManager=one"), APPLY, body(json!({"x": "1"}))).await;
    let (_, object) = t.patch(&t.core("configmaps/a?fieldManager=two"), APPLY, body(json!({"y": "2"}))).await;
    assert_eq!(object["metadata"]["labels"], json!({"x": "1", "y": "2"}));
    let (_, object) = t.patch(&t.core("configmaps/a?fieldManager=two"), APPLY, body(json!({}))).await;
    assert_eq!(object["metadata"]["labels"], json!({"x": "1"}));
}
