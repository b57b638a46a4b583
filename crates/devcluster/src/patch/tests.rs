use serde_json::json;

use super::*;
use crate::schema::builtin;

fn check(kind: &str, object: Value, patch: Value, expected: Value) {
    let mut result = object;
    strategic_merge(builtin(kind).expect("a built-in type"), &mut result, &patch).expect("patches");
    assert_eq!(result, expected);
}

#[test]
fn lists_with_a_merge_key_are_merged_item_by_item() {
    check(
        "core.v1.PodSpec",
        json!({"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}),
        json!({"containers": [{"name": "b", "image": "z"}, {"name": "c", "image": "w"}]}),
        json!({"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "z"}, {"name": "c", "image": "w"}]}),
    );
}

#[test]
fn delete_directive_removes_the_item_with_that_key() {
    check(
        "core.v1.PodSpec",
        json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        json!({"containers": [{"name": "a", "$patch": "delete"}]}),
        json!({"containers": [{"name": "b"}]}),
    );
}

#[test]
fn replace_directive_replaces_the_whole() {
    check(
        "core.v1.PodSpec",
        json!({"securityContext": {"runAsUser": 1, "fsGroup": 2}}),
        json!({"securityContext": {"$patch": "replace", "runAsUser": 3}}),
        json!({"securityContext": {"runAsUser": 3}}),
    );
}

#[test]
fn element_order_is_followed() {
    check(
        "core.v1.PodSpec",
        json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        json!({"$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}], "containers": [{"name": "c", "image": "i"}]}),
        json!({"containers": [{"name": "c", "image": "i"}, {"name": "b"}, {"name": "a"}]}),
    );
}

#[test]
fn retain_keys_drops_the_other_keys() {
    check(
        "apps.v1.DeploymentSpec",
        json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}),
        json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
        json!({"strategy": {"type": "Recreate"}}),
    );
}

#[test]
fn primitive_lists_are_united_and_thinned() {
    check(
        "meta.v1.ObjectMeta",
        json!({"finalizers": ["a/x", "b/y"]}),
        json!({"finalizers": ["c/z"], "$deleteFromPrimitiveList/finalizers": ["a/x"]}),
        json!({"finalizers": ["b/y", "c/z"]}),
    );
}

#[test]
fn atomic_lists_are_replaced_and_nulls_remove() {
    check(
        "core.v1.Container",
        json!({"args": ["a"], "command": ["b"]}),
        json!({"args": ["c", "d"], "command": null}),
        json!({"args": ["c", "d"]}),
    );
}
