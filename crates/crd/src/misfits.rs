//! What of an object a kind does not know or reads differently: for those who check manifests before a cluster sees them.
//!
//! In: a kind's name and an object. Out: the places that do not fit its schema. The schema of a definition lets unknown fields
//! pass, so that an object of a newer version survives; a person who mistyped a field wants to be told.

use serde_json::Value;

use crate::analysis::{AnalysisRun, AnalysisTemplate, Experiment};
use crate::rollout::Rollout;
use crate::schema::root;
use crate::workflow::{CronWorkflow, Workflow};

/// A place in an object: names of fields and numbers of items.
pub type Place = Vec<String>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    pub place: Place,
    pub message: String,
}

/// Of workflows, their templates and schedules; `None`: not one of these kinds.
pub fn workflow_misfits(kind: &str, object: &Value) -> Option<Vec<Misfit>> {
    match kind {
        "Workflow" | "WorkflowTemplate" | "ClusterWorkflowTemplate" => {
            Some(against(&root::<Workflow>(), object))
        }
        "CronWorkflow" => Some(against(&root::<CronWorkflow>(), object)),
        _ => None,
    }
}

/// Of Rollouts and what belongs to them; `None`: not one of these kinds.
pub fn misfits(kind: &str, object: &Value) -> Option<Vec<Misfit>> {
    let schema = match kind {
        "Rollout" => root::<Rollout>(),
        "AnalysisTemplate" | "ClusterAnalysisTemplate" => root::<AnalysisTemplate>(),
        "AnalysisRun" => root::<AnalysisRun>(),
        "Experiment" => root::<Experiment>(),
        _ => return None,
    };
    Some(against(&schema, object))
}

fn against(schema: &Value, object: &Value) -> Vec<Misfit> {
    let mut found = Vec::new();
    compare(schema, object, &mut Vec::new(), &mut found);
    found
}

fn compare(schema: &Value, value: &Value, place: &mut Place, found: &mut Vec<Misfit>) {
    // Go reads `null` as nothing.
    if value.is_null() {
        return;
    }
    if schema["x-kubernetes-int-or-string"] == true {
        if !(is_whole(value) || value.is_string()) {
            found.push(Misfit { place: place.clone(), message: "expected a whole number or a text".into() });
        }
        return;
    }
    let expected = match schema["type"].as_str() {
        Some("string") if !value.is_string() => "a text",
        Some("integer") if !is_whole(value) => "a whole number",
        Some("boolean") if !value.is_boolean() => "true or false",
        Some("array") if !value.is_array() => "a list",
        Some("object") if !value.is_object() => "a map",
        _ => return below(schema, value, place, found),
    };
    found.push(Misfit { place: place.clone(), message: format!("expected {expected}") });
}

/// As Go reads it in these kinds: 32 bits, so that whoever counts with it cannot overflow.
fn is_whole(value: &Value) -> bool {
    value.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

fn below(schema: &Value, value: &Value, place: &mut Place, found: &mut Vec<Misfit>) {
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                place.push(at.to_string());
                compare(&schema["items"], item, place, found);
                place.pop();
            }
        }
        Value::Object(fields) => {
            let known = schema["properties"].as_object().filter(|known| !known.is_empty());
            for (name, value) in fields {
                place.push(name.clone());
                match known.map(|known| known.get(name)) {
                    Some(Some(schema)) => compare(schema, value, place, found),
                    Some(None) => found
                        .push(Misfit { place: place.clone(), message: format!("unknown field `{name}`") }),
                    None => compare(&schema["additionalProperties"], value, place, found),
                }
                place.pop();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_and_other_types_are_found_where_they_stand() {
        let object = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "a", "anything": 1},
            "spec": {
                "replicas": "3",
                "minReadySeconds": 9_000_000_000_000_000_000_i64,
                "template": {"spec": {"whatever": true}},
                "strategy": {"canary": {"maxSurge": "25%", "maxUnavailable": 0, "steps": [{"setWeigth": 1}, {"pause": {"duration": true}}]}},
                "paused": null,
            },
        });
        let found: Vec<_> = misfits("Rollout", &object)
            .expect("a kind that is checked")
            .into_iter()
            .map(|misfit| (misfit.place.join("."), misfit.message))
            .collect();
        assert_eq!(
            found,
            [
                ("spec.minReadySeconds".into(), "expected a whole number".into()),
                ("spec.replicas".into(), "expected a whole number".into()),
                ("spec.strategy.canary.steps.0.setWeigth".into(), "unknown field `setWeigth`".into()),
                (
                    "spec.strategy.canary.steps.1.pause.duration".into(),
                    "expected a whole number or a text".to_owned()
                ),
            ] as [(String, String); 4]
        );
        assert_eq!(misfits("Deployment", &object), None);
    }
}
