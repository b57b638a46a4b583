//! Desired against live: would applying the manifest change the object, and what?
//!
//! Comes in: a manifest, the live object, what is to be ignored. Goes out: a [`Diff`] whose two sides are safe to
//! show, because Secret values are masked before they get in. Nothing is applied here.
//!
//! The live side is predicted: the manifest is merged into the live object as an apply would do it, so what the
//! cluster filled in by itself does not count as a difference, and what was taken out of the manifest does.

pub(crate) mod ignore;
mod mask;
mod merge;
mod normalize;
mod routed;
mod schema;
mod server;
mod text;

pub use ignore::IgnoreRules;
pub use mask::{masked, masked_pair};
pub(crate) use routed::as_live as left_to_rollouts;
pub use server::Mutations;
pub use text::{block_text, unified};

use crate::object;
use serde_json::Value;
use slipway_crd::names;

/// One object's difference.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// Applying the manifest would change the object.
    pub modified: bool,
    /// The live object, normalised and masked; `Null` when there is none.
    pub live: Value,
    /// What it would be after an apply, normalised and masked; `Null` when it would be pruned.
    pub predicted: Value,
    /// Where the two differ.
    pub changes: Vec<Change>,
}

/// One place where live and predicted differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// JSON pointer.
    pub path: String,
    pub live: Option<Value>,
    pub predicted: Option<Value>,
}

/// How the manifest would be applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DiffMode {
    /// The last-applied annotation says what was taken out of the manifest.
    #[default]
    ThreeWay,
    /// Field ownership says it.
    ServerSide,
}

/// Compares a manifest with the live object. Either may be missing, not both.
pub fn diff(target: Option<&Value>, live: Option<&Value>, rules: &IgnoreRules, mode: DiffMode) -> Diff {
    let predicted = match (target, live) {
        (Some(target), Some(live)) => Some(predict(target, live, mode)),
        (Some(target), None) => Some(target.clone()),
        (None, _) => None,
    };
    between(live, predicted.as_ref(), target.or(live), rules)
}

/// Compares with what the API server answered to a dry run of the apply.
pub fn diff_by_server(
    target: &Value,
    live: &Value,
    answer: &Value,
    mutations: Mutations,
    rules: &IgnoreRules,
    mode: DiffMode,
) -> Diff {
    between(Some(live), Some(&server::predicted(target, live, answer, mutations, mode)), Some(live), rules)
}

fn between(
    live: Option<&Value>,
    predicted: Option<&Value>,
    any: Option<&Value>,
    rules: &IgnoreRules,
) -> Diff {
    let any = any.unwrap_or(&Value::Null);
    let normal = |object: &Value| normalize::normalized(object, rules);
    let live_side = live.map(normal);
    let predicted = predicted.map(normal);
    let (mut live_side, mut predicted) = (live_side, predicted);
    if let (Some(live_side), Some(predicted)) = (&mut live_side, &mut predicted) {
        rules.remove_ignored(any, live, live_side, predicted);
    }
    let modified = match (&live_side, &predicted) {
        (Some(live_side), Some(predicted)) => live_side != predicted,
        (None, Some(_)) => true,
        (_, None) => false,
    };
    let mut live_side = live_side.unwrap_or_default();
    let mut predicted = predicted.unwrap_or_default();
    mask::mask(&mut live_side, &mut predicted, rules.sensitive_annotations());
    let mut changes = Vec::new();
    collect_changes("", &live_side, &predicted, &mut changes);
    Diff { modified, live: live_side, predicted, changes }
}

/// The live object as it would be after the manifest was applied: what a client-side apply writes.
pub fn predict(target: &Value, live: &Value, mode: DiffMode) -> Value {
    let target = normalize::without_server_fields(target);
    // Without a memory of what was applied nothing is known to have been taken out.
    let original = remembered(live, mode).unwrap_or_else(|| target.clone());
    let context = schema::Context::of(&target);
    merge::three_way(&original, &target, live, &context)
}

/// What was applied last, as the object itself remembers it.
fn remembered(live: &Value, mode: DiffMode) -> Option<Value> {
    match mode {
        DiffMode::ThreeWay => object::annotation(live, names::LAST_APPLIED)
            .and_then(|text| serde_json::from_str::<Value>(text).ok())
            .map(|value| normalize::without_server_fields(&value)),
        DiffMode::ServerSide => ignore::fields_owned_by(live, names::FIELD_MANAGER),
    }
}

/// The manifest with the ignored fields as they are live (RespectIgnoreDifferences); `status` is never taken.
pub fn with_ignored_from_live(target: &Value, live: &Value, rules: &IgnoreRules) -> Value {
    ignore::restore_ignored(target, live, rules)
}

fn collect_changes(path: &str, live: &Value, predicted: &Value, changes: &mut Vec<Change>) {
    if live == predicted {
        return;
    }
    match (live, predicted) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                let at = format!("{path}/{}", escape(key));
                match b.get(key) {
                    Some(other) => collect_changes(&at, value, other, changes),
                    None => changes.push(Change { path: at, live: Some(value.clone()), predicted: None }),
                }
            }
            for (key, value) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                let at = format!("{path}/{}", escape(key));
                changes.push(Change { path: at, live: None, predicted: Some(value.clone()) });
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (one, other)) in a.iter().zip(b).enumerate() {
                collect_changes(&format!("{path}/{index}"), one, other, changes);
            }
        }
        _ => changes.push(Change {
            path: path.to_string(),
            live: (!live.is_null()).then(|| live.clone()),
            predicted: (!predicted.is_null()).then(|| predicted.clone()),
        }),
    }
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests;
