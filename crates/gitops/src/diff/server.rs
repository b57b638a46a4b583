//! Server-side diff: what the API server answered to a dry run of the apply, made comparable with the live object.
//!
//! Comes in: the live object with the fields that we own, and the answer with its managedFields. Goes out: the object
//! as an apply would leave it. Nobody is asked here.

use super::ignore::fields_owned_by;
use super::{DiffMode, merge, remembered, schema};
use crate::object;
use serde_json::Value;
use slipway_crd::names;

/// What is made of fields that a mutating webhook changed in the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mutations {
    /// They are as they are live: the webhook would change them at every apply.
    #[default]
    Ignored,
    /// They count (`IncludeMutationWebhook=true`).
    Included,
}

/// The object after the apply.
pub(super) fn predicted(live: &Value, answer: &Value, mutations: Mutations, mode: DiffMode) -> Value {
    if mutations == Mutations::Included {
        return answer.clone();
    }
    // What admission changed is noted as an update, even under our own name.
    let Some(applied) = fields_owned_by(&applied_alone(answer), names::FIELD_MANAGER) else {
        return answer.clone();
    };
    // What was applied before and is not any more goes. The dry run alone would not say so of what a client applied.
    let owned = || remembered(live, DiffMode::ServerSide);
    let before = remembered(live, mode).or_else(owned).unwrap_or_else(|| applied.clone());
    merge::three_way(&before, &applied, live, &schema::Context::of(live))
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
        diff_by_server(live, answer, mutations, &IgnoreRules::default(), DiffMode::ThreeWay)
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
        assert!(judge(&live, &map(&json!({"a": "1", "b": "1"}), &both), Mutations::Ignored).modified);
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
