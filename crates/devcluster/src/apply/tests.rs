use serde_json::json;

use super::*;
use crate::schema::builtin;

fn deployment() -> &'static Node {
    builtin("apps.v1.Deployment").expect("a built-in type")
}

fn writer<'a>(manager: &'a str) -> Writer<'a> {
    Writer { manager, subresource: "", now: "2026-01-01T00:00:00Z", ignored: &["status"] }
}

fn config(image: &str, replicas: Option<i64>) -> Value {
    let mut value = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"template": {"spec": {"containers": [{"name": "a", "image": image, "ports": [{"containerPort": 80}]}]}}}});
    if let Some(replicas) = replicas {
        value["spec"]["replicas"] = json!(replicas);
    }
    value
}

#[test]
fn an_applier_owns_the_leaves_of_its_configuration() {
    let object = server_side_apply(deployment(), None, &config("x", Some(2)), &writer("one"), false).expect("no conflict");
    let fields = &object["metadata"]["managedFields"][0];
    assert_eq!(fields["operation"], "Apply");
    assert_eq!(
        fields["fieldsV1"],
        json!({"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {
            "k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {},
                "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}}}}})
    );
}

#[test]
fn changing_what_another_applier_owns_is_a_conflict_unless_forced() {
    let first = server_side_apply(deployment(), None, &config("x", Some(2)), &writer("one"), false).expect("no conflict");
    let conflicts = server_side_apply(deployment(), Some(&first), &config("y", None), &writer("two"), false).expect_err("conflicts");
    assert_eq!(conflicts.iter().map(|c| c.field.as_str()).collect::<Vec<_>>(), [".spec.template.spec.containers[name=\"a\"].image"]);
    let forced = server_side_apply(deployment(), Some(&first), &config("y", None), &writer("two"), true).expect("forced");
    assert_eq!(forced["spec"]["template"]["spec"]["containers"][0]["image"], "y");
    let again = server_side_apply(deployment(), Some(&forced), &config("x", Some(2)), &writer("one"), false);
    assert!(again.is_err(), "the first applier has lost the field");
}

#[test]
fn applying_the_same_value_is_shared_ownership() {
    let first = server_side_apply(deployment(), None, &config("x", Some(2)), &writer("one"), false).expect("no conflict");
    let both = server_side_apply(deployment(), Some(&first), &config("x", Some(2)), &writer("two"), false).expect("same value");
    assert_eq!(both["metadata"]["managedFields"].as_array().map(Vec::len), Some(2));
    // Leaving the field out does not remove it while the other one still wants it.
    let left = server_side_apply(deployment(), Some(&both), &config("x", None), &writer("one"), false).expect("no conflict");
    assert_eq!(left["spec"]["replicas"], 2);
    let gone = server_side_apply(deployment(), Some(&left), &config("x", None), &writer("two"), false).expect("no conflict");
    assert_eq!(gone["spec"].get("replicas"), None);
}

#[test]
fn leaving_out_a_list_item_removes_it_but_keeps_items_of_others() {
    let mut two = config("x", None);
    two["spec"]["template"]["spec"]["containers"] = json!([{"name": "b", "image": "side"}]);
    let first = server_side_apply(deployment(), None, &config("x", None), &writer("one"), false).expect("no conflict");
    let both = server_side_apply(deployment(), Some(&first), &two, &writer("two"), false).expect("no conflict");
    assert_eq!(both["spec"]["template"]["spec"]["containers"].as_array().map(Vec::len), Some(2));
    let mut none = config("x", None);
    none["spec"] = json!({"paused": true});
    let left = server_side_apply(deployment(), Some(&both), &none, &writer("one"), false).expect("no conflict");
    assert_eq!(left["spec"]["template"]["spec"]["containers"], json!([{"name": "b", "image": "side"}]));
}

#[test]
fn an_update_takes_ownership_of_what_it_changes_only() {
    let first = server_side_apply(deployment(), None, &config("x", Some(2)), &writer("one"), false).expect("no conflict");
    let mut next = first.clone();
    next["spec"]["replicas"] = json!(5);
    track_update(deployment(), Some(&first), &mut next, &writer("editor"));
    let entries = next["metadata"]["managedFields"].as_array().expect("entries");
    let editor = entries.iter().find(|e| e["manager"] == "editor").expect("the editor is there");
    assert_eq!(editor["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    let one = entries.iter().find(|e| e["manager"] == "one").expect("the applier is there");
    assert_eq!(one["fieldsV1"]["f:spec"].get("f:replicas"), None);
    let conflict = server_side_apply(deployment(), Some(&next), &config("x", Some(2)), &writer("one"), false).expect_err("conflicts");
    assert_eq!(conflict[0].field, ".spec.replicas");
}

#[test]
fn field_sets_survive_the_way_through_json() {
    let object = server_side_apply(deployment(), None, &config("x", Some(2)), &writer("one"), false).expect("no conflict");
    let json = &object["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(FieldSet::from_json(json).to_json(), *json);
}
