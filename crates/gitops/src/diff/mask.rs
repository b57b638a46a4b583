//! Masking of Secret values: equal values look equal, different ones different, and none can be read.

use super::normalize::fold_secret;
use crate::object;
use serde_json::Value;
use slipway_crd::names;
use std::collections::BTreeMap;

/// Masks both sides of a difference in place.
pub(super) fn mask(live: &mut Value, predicted: &mut Value, sensitive_annotations: &[String]) {
    let secret = [&*live, &*predicted].iter().any(|side| is_secret(side));
    let mut masks = Masks::default();
    for side in [predicted, live] {
        if secret {
            for field in ["data", "stringData"] {
                match side.get_mut(field) {
                    Some(Value::Object(map)) => {
                        map.values_mut().for_each(|value| masks.replace(value));
                    }
                    // A Secret whose data is no map is broken; its text is a secret all the same.
                    Some(broken) if !broken.is_null() => masks.replace(broken),
                    _ => {}
                }
            }
        }
        if let Some(annotations) = side.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            for name in sensitive_annotations {
                if let Some(value) = annotations.get_mut(name) {
                    masks.replace(value);
                }
            }
            if secret && let Some(value) = annotations.get_mut(names::LAST_APPLIED) {
                masks.replace(value);
            }
        }
    }
}

/// A copy of any object that is safe to show.
pub fn masked(object: &Value, sensitive_annotations: &[String]) -> Value {
    let mut copy = object.clone();
    mask(&mut Value::Null, &mut copy, sensitive_annotations);
    copy
}

/// Both sides of a difference, safe to show: values that are equal look equal, also those that the manifest has in
/// clear and the server in base64.
pub fn masked_pair(mut live: Value, mut target: Value, sensitive_annotations: &[String]) -> (Value, Value) {
    fold_secret(&mut target);
    mask(&mut live, &mut target, sensitive_annotations);
    (live, target)
}

fn is_secret(object: &Value) -> bool {
    object::kind(object) == "Secret" && object::group(object).is_empty()
}

/// Each distinct value gets a mask of its own length, so that a change can be seen and nothing else.
#[derive(Default)]
struct Masks(BTreeMap<String, String>);

impl Masks {
    fn replace(&mut self, value: &mut Value) {
        let next = "+".repeat(8 + 4 * self.0.len());
        let mask = self.0.entry(value.to_string()).or_insert(next);
        *value = mask.clone().into();
    }
}
