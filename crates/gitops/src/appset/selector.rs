//! Label selectors over labels and over flattened parameters. Values need not be valid label values here.

use std::collections::BTreeMap;

use serde_json::Value;

/// Whether a `LabelSelector` takes these labels.
pub fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> Result<bool, String> {
    Selector::parse(selector).map(|selector| selector.matches(labels))
}

pub(super) struct Selector {
    requirements: Vec<Requirement>,
}

struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(PartialEq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Reads a `LabelSelector`; an empty one takes everything.
    pub(super) fn parse(selector: &Value) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let values = vec![value.as_str().unwrap_or_default().to_owned()];
            requirements.push(Requirement { key: key.clone(), operator: Operator::In, values });
        }
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let key = expression["key"].as_str().unwrap_or_default().to_owned();
            let values: Vec<String> = expression["values"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|value| value.as_str().map(str::to_owned))
                .collect();
            let operator = match expression["operator"].as_str().unwrap_or_default() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(format!(
                        "{other:?} is not a valid label selector operator; use In, NotIn, Exists or DoesNotExist"
                    ));
                }
            };
            if matches!(operator, Operator::In | Operator::NotIn) && values.is_empty() {
                return Err(format!(
                    "the selector's expression on {key} has no values; In and NotIn need some"
                ));
            }
            requirements.push(Requirement { key, operator, values });
        }
        Ok(Self { requirements })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    pub(super) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match requirement.operator {
                Operator::In => value.is_some_and(|value| requirement.values.contains(value)),
                Operator::NotIn => value.is_none_or(|value| !requirement.values.contains(value)),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }
}
