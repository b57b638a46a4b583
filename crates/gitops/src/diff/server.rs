//! Server-side diff: what the API server answered to a dry run of the apply, made comparable with the live object.
//!
//! Comes in: the live object with the fields that we own, and the answer with its managedFields. Goes out: the object
//! as an apply would leave it. Nobody is asked here.

use super::ignore::fields_owned_by;
use super::{DiffMode, merge, remembered, schema};
use crate::object;
use serde_json::Value;
use slipway_crd::names;

type Object = serde_json::Map<String, Value>;

/// What is made of fields that a mutating webhook changed in the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mutations {
    /// They are as they are live: the webhook would change them at every apply.
    #[default]
    Ignored,
    /// They count (`IncludeMutationWebhook=true`).
    Included,
}

/// The object after the apply of the manifest `target`.
pub(super) fn predicted(
    target: &Value,
    live: &Value,
    answer: &Value,
    mutations: Mutations,
    mode: DiffMode,
) -> Value {
    if mutations == Mutations::Included {
        return answer.clone();
    }
    // What admission changed is noted as an update, even under our own name.
    let Some(mut applied) = fields_owned_by(&applied_alone(answer), names::FIELD_MANAGER) else {
        return answer.clone();
    };
    // What was applied before and is not wanted any more goes. The dry run alone would not say so of what a client
    // applied. What is still wanted and not in the answer was dropped by the server, which is its right.
    let owned = || remembered(live, DiffMode::ServerSide);
    let before = match (remembered(live, mode).or_else(owned), target, &mut applied) {
        (Some(Value::Object(before)), Value::Object(target), Value::Object(applied)) => {
            Value::Object(not_wanted(before, target, applied))
        }
        _ => applied.clone(),
    };
    merge::three_way(&before, &applied, live, &schema::Context::of(live))
}

/// What of `before` has no place in `target`. Lists stay: their elements are told apart when they are merged.
/// What encloses it is put into `applied`, so that no more than it goes.
fn not_wanted(before: Object, target: &Object, applied: &mut Object) -> Object {
    let mut left = Object::new();
    for (key, value) in before {
        match (value, target.get(&key)) {
            (Value::Object(value), Some(Value::Object(wanted))) => {
                let mut inside = applied.get(&key).and_then(Value::as_object).cloned().unwrap_or_default();
                let inner = not_wanted(value, wanted, &mut inside);
                if !inner.is_empty() {
                    applied.insert(key.clone(), Value::Object(inside));
                    left.insert(key, Value::Object(inner));
                }
            }
            (value @ Value::Array(_), Some(_)) if applied.contains_key(&key) => {
                left.insert(key, value);
            }
            (_, Some(_)) => {}
            (value, None) => {
                left.insert(key, value);
            }
        }
    }
    left
}

/// The answer with those managedFields only that an apply wrote.
fn applied_alone(answer: &Value) -> Value {
    let mut answer = answer.clone();
    let applied: Vec<Value> = object::list(&answer, &["metadata", "managedFields"])
        .iter()
        .filter(|entry| entry["operation"] == "Apply")
        .cloned()
        .collect();
    if let Some(metadata) = object::metadata_mut(&mut answer) {
        metadata.insert("managedFields".into(), Value::Array(applied));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::{Diff, IgnoreRules, diff_by_server};
    use serde_json::json;

    fn owned(operation: &str, fields: &Value) -> Value {
        json!({"manager": names::FIELD_MANAGER, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn map(data: &Value, owners: &[Value]) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": "m", "namespace": "n", "resourceVersion": "7", "managedFields": owners}})
    }

    fn judge(live: &Value, answer: &Value, mutations: Mutations) -> Diff {
        judge_of(answer, live, answer, mutations)
    }

    fn judge_of(target: &Value, live: &Value, answer: &Value, mutations: Mutations) -> Diff {
        diff_by_server(target, live, answer, mutations, &IgnoreRules::default(), DiffMode::ThreeWay)
    }

    #[test]
    fn what_a_webhook_changes_is_no_difference_unless_asked_for() {
        let ours = owned("Apply", &json!({"f:data": {"f:a": {}}}));
        let admission = owned("Update", &json!({"f:data": {"f:stamp": {}}}));
        let live = map(&json!({"a": "1", "stamp": "monday"}), std::slice::from_ref(&ours));
        let answer = map(&json!({"a": "1", "stamp": "tuesday"}), &[ours, admission]);
        assert!(!judge(&live, &answer, Mutations::Ignored).modified);
        assert!(judge(&live, &answer, Mutations::Included).modified);
    }

    #[test]
    fn changed_added_and_dropped_fields_are_differences() {
        let fields = |names: &[&str]| {
            let inner: serde_json::Map<String, Value> =
                names.iter().map(|name| (format!("f:{name}"), json!({}))).collect();
            json!({"f:data": inner})
        };
        let live = map(&json!({"a": "1", "b": "1", "theirs": "1"}), &[owned("Apply", &fields(&["a", "b"]))]);
        for (data, names, modified) in [
            (json!({"a": "1", "b": "1", "theirs": "1"}), vec!["a", "b"], false),
            (json!({"a": "2", "b": "1", "theirs": "1"}), vec!["a", "b"], true),
            (json!({"a": "1", "b": "1", "c": "1", "theirs": "1"}), vec!["a", "b", "c"], true),
            (json!({"a": "1", "theirs": "1"}), vec!["a"], true),
        ] {
            let answer = map(&data, &[owned("Apply", &fields(&names))]);
            assert_eq!(judge(&live, &answer, Mutations::Ignored).modified, modified, "{data}");
        }
        // Applied by a client before: the server alone would not take the dropped field out, a sync does.
        let live = map(&json!({"a": "1", "b": "1"}), &[owned("Update", &fields(&["a", "b"]))]);
        let both = [owned("Update", &fields(&["a", "b"])), owned("Apply", &fields(&["a"]))];
        let target = map(&json!({"a": "1"}), &[]);
        let answer = map(&json!({"a": "1", "b": "1"}), &both);
        assert!(judge_of(&target, &live, &answer, Mutations::Ignored).modified);
    }

    #[test]
    fn what_the_server_throws_away_is_no_difference() {
        let set = |update: &Value, more: &Value| {
            let mut set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
                "metadata": {"name": "s", "namespace": "n"}, "spec": {"replicas": 1, "updateStrategy": update}});
            for (key, value) in more.as_object().unwrap() {
                set["metadata"][key] = value.clone();
            }
            set
        };
        let wanted = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}});
        let kept = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
        let target = set(&wanted, &json!({}));
        let live = set(&kept, &json!({"annotations": {names::LAST_APPLIED: target.to_string()}}));
        let fields = json!({"f:spec": {"f:replicas": {}, "f:updateStrategy": {"f:type": {},
            "f:rollingUpdate": {"f:maxUnavailable": {}}}}});
        let mut answer = live.clone();
        answer["metadata"]["managedFields"] = json!([owned("Apply", &fields)]);
        let diff = judge_of(&target, &live, &answer, Mutations::Ignored);
        assert!(!diff.modified, "{diff:?}");
    }

    #[test]
    fn secrets_are_masked_here_too() {
        let secret = |value: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "managedFields":
                [owned("Apply", &json!({"f:data": {"f:key": {}}}))]}, "data": {"key": value}})
        };
        for mutations in [Mutations::Ignored, Mutations::Included] {
            let diff = judge(&secret("b2xk"), &secret("bmV3"), mutations);
            let text = format!("{diff:?}");
            assert!(diff.modified && !text.contains("b2xk") && !text.contains("bmV3"), "{text}");
        }
    }
}
