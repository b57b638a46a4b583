//! Label selectors, as objects (`matchLabels`, `matchExpressions`) and as texts (`a=b,c!=d,e in (f,g),h,!i`).
//!
//! Values of objects need not be valid label values: ApplicationSets select over flattened parameters too.

use std::collections::BTreeMap;

use serde_json::Value;

/// Whether a `LabelSelector` takes these labels.
pub fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> Result<bool, String> {
    Selector::parse(selector).map(|selector| selector.matches(labels))
}

/// What has to hold of the labels, all of it. An empty one takes everything.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Reads a `LabelSelector`; an empty one takes everything.
    pub fn parse(selector: &Value) -> Result<Self, String> {
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

    /// Reads the form of one line. What is no requirement is given back.
    pub fn parse_text(text: &str) -> Result<Self, String> {
        let parts =
            split_outside_parentheses(text).into_iter().map(str::trim).filter(|part| !part.is_empty());
        let requirements = parts.map(|part| requirement(part).ok_or_else(|| part.to_owned()));
        Ok(Self { requirements: requirements.collect::<Result<_, _>>()? })
    }

    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
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

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (index, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn requirement(part: &str) -> Option<Requirement> {
    let key = |text: &str| {
        let text = text.trim();
        let name = text.rsplit('/').next().unwrap_or("");
        (!name.is_empty() && is_label_word(name)).then(|| text.to_owned())
    };
    let value = |text: &str| Some(text.trim().to_owned()).filter(|text| is_label_word(text));
    let all = |operator: Operator, name: &str, values: Vec<String>| {
        Some(Requirement { key: key(name)?, operator, values })
    };
    for (sign, operator) in [("!=", Operator::NotIn), ("==", Operator::In), ("=", Operator::In)] {
        if let Some((left, right)) = part.split_once(sign) {
            return all(operator, left, vec![value(right)?]);
        }
    }
    if let Some(list) = part.strip_suffix(')') {
        let (left, right) = list.split_once('(')?;
        let values = right.split(',').map(value).collect::<Option<Vec<_>>>()?;
        let left = left.trim();
        return match left.strip_suffix(" notin") {
            Some(name) => all(Operator::NotIn, name, values),
            None => all(Operator::In, left.strip_suffix(" in")?, values),
        };
    }
    match part.strip_prefix('!') {
        Some(name) => all(Operator::DoesNotExist, name, Vec::new()),
        None => all(Operator::Exists, part, Vec::new()),
    }
}

/// A label value or the name part of a label key.
pub fn is_label_word(text: &str) -> bool {
    text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && text.bytes().next().is_none_or(|b| b.is_ascii_alphanumeric())
        && text.bytes().last().is_none_or(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels() -> BTreeMap<String, String> {
        [("app", "web"), ("tier", "front")].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    #[test]
    fn texts_and_objects_say_the_same() {
        for (text, object, expected) in [
            ("app=web", json!({"matchLabels": {"app": "web"}}), true),
            (
                "app==web,tier!=back",
                json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["back"]}]}),
                true,
            ),
            (
                "tier in (back, front)",
                json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["back", "front"]}]}),
                true,
            ),
            (
                "tier notin (front)",
                json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["front"]}]}),
                false,
            ),
            ("!zone", json!({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}), true),
            ("zone", json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}), false),
            ("", json!({}), true),
        ] {
            assert_eq!(
                Selector::parse_text(text).map(|selector| selector.matches(&labels())),
                Ok(expected),
                "{text}"
            );
            assert_eq!(selects(&object, &labels()), Ok(expected), "{object}");
        }
        assert_eq!(Selector::parse_text("app=web,a b=c"), Err("a b=c".to_owned()));
        assert!(selects(&json!({"matchExpressions": [{"key": "a", "operator": "Is"}]}), &labels()).is_err());
    }
}
