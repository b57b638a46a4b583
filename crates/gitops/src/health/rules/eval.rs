//! Trying rules on an object.

use super::{Expression, Operand, Operator, Path, Rule};
use crate::health::{Health, HealthCode};
use crate::object::{self, integer, text};
use serde_json::Value;
use slipway_dialect::glob;

/// Where an expression stands: the object, the element at hand, and the last condition that was found.
struct Scope<'a> {
    root: &'a Value,
    here: &'a Value,
    is_root: bool,
}

/// The first verdict that holds.
pub(super) fn run(rules: &[Rule], object: &Value) -> Option<Health> {
    let mut health = run_in(rules, &Scope { root: object, here: object, is_root: true })?;
    if health.0.status == HealthCode::Healthy && is_stale(object, health.1) {
        // A status that does not speak of the newest spec says nothing about it.
        health.0.status = HealthCode::Progressing;
        health.0.message = "waiting for the newest spec to be observed".into();
    }
    Some(health.0)
}

fn is_stale(object: &Value, found: Option<&Value>) -> bool {
    let Some(generation) = integer(object, &["metadata", "generation"]) else { return false };
    let behind = |value: Option<i64>| value.is_some_and(|observed| observed < generation);
    behind(integer(object, &["status", "observedGeneration"]))
        || behind(found.and_then(|condition| integer(condition, &["observedGeneration"])))
}

fn run_in<'a>(rules: &[Rule], scope: &Scope<'a>) -> Option<(Health, Option<&'a Value>)> {
    for rule in rules {
        match rule {
            Rule::Verdict { status, when, message } => {
                let mut found = None;
                if holds(when, scope, &mut found) {
                    let message = match message {
                        Some(template) => fill(template, scope),
                        None => default_message(scope, found),
                    };
                    return Some((Health::new(*status, message), found));
                }
            }
            Rule::Each { path, rules } => {
                for element in elements(resolve(path, scope)) {
                    let inner = Scope { root: scope.root, here: element, is_root: false };
                    if let Some((health, found)) = run_in(rules, &inner) {
                        return Some((health, found.or(Some(element))));
                    }
                }
            }
        }
    }
    None
}

/// What the condition says, else what the status says.
fn default_message(scope: &Scope<'_>, found: Option<&Value>) -> String {
    let element = found.or((!scope.is_root).then_some(scope.here));
    let places: [(Option<&Value>, &[&str]); 6] = [
        (element, &["message"]),
        (element, &["reason"]),
        (Some(scope.root), &["status", "message"]),
        (Some(scope.root), &["status", "reason"]),
        (Some(scope.root), &["status", "phase"]),
        (Some(scope.root), &["status", "state"]),
    ];
    places
        .into_iter()
        .filter_map(|(value, path)| Some(text(value?, path)))
        .find(|text| !text.is_empty())
        .unwrap_or_default()
        .to_string()
}

/// Puts values in the place of `{path}`.
fn fill(template: &str, scope: &Scope<'_>) -> String {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (path, tail) = after.split_once('}').unwrap_or((after, ""));
        filled.push_str(before);
        match resolve(&Path::parse(path), scope) {
            Some(Value::String(text)) => filled.push_str(text),
            Some(Value::Null) | None => {}
            Some(other) => filled.push_str(&other.to_string()),
        }
        rest = tail;
    }
    filled.push_str(rest);
    filled
}

fn resolve<'a>(path: &Path, scope: &Scope<'a>) -> Option<&'a Value> {
    let start = if path.from_root { scope.root } else { scope.here };
    path.fields.iter().try_fold(start, |value, field| match value {
        Value::Array(list) if field == "last" => list.last(),
        Value::Array(list) => field.parse::<usize>().ok().and_then(|index| list.get(index)),
        _ => value.get(field),
    })
}

/// The elements of a list or the values of a map.
fn elements(value: Option<&Value>) -> Vec<&Value> {
    match value {
        Some(Value::Array(list)) => list.iter().collect(),
        Some(Value::Object(map)) => map.values().collect(),
        _ => Vec::new(),
    }
}

fn holds<'a>(expression: &Expression, scope: &Scope<'a>, found: &mut Option<&'a Value>) -> bool {
    match expression {
        Expression::Always => true,
        Expression::Not(inner) => !holds(inner, scope, &mut None),
        Expression::All(parts) => parts.iter().all(|part| holds(part, scope, found)),
        Expression::Any(parts) => parts.iter().any(|part| holds(part, scope, found)),
        Expression::Condition { kind, statuses, negated, reasons } => {
            let path: &[&str] = if scope.is_root { &["status", "conditions"] } else { &["conditions"] };
            let hit = object::list(scope.here, path).iter().find(|condition| {
                let status = truth(condition.get("status"));
                let right_status = statuses.is_empty() || statuses.contains(&status) != *negated;
                let reason = text(condition, &["reason"]);
                let right_reason = reasons.is_empty() || reasons.iter().any(|r| r == reason);
                text(condition, &["type"]) == kind && right_status && right_reason
            });
            if hit.is_some() {
                *found = hit;
            }
            hit.is_some()
        }
        Expression::Present(path) => {
            resolve(path, scope).is_some_and(|value| !value.is_null() && value.as_bool() != Some(false))
        }
        Expression::Empty(path) => resolve(path, scope).is_none_or(|value| match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        }),
        Expression::Compare { left, operator, right } => {
            let left = operand(left, scope);
            if *operator == Operator::NotEqual {
                return right.iter().all(|r| !compare(&left, Operator::Equal, &operand(r, scope)));
            }
            right.iter().any(|r| compare(&left, *operator, &operand(r, scope)))
        }
        Expression::AnyOf { path, inner } => elements(resolve(path, scope)).into_iter().any(|element| {
            let mut deeper = None;
            let hit = holds(inner, &Scope { root: scope.root, here: element, is_root: false }, &mut deeper);
            if hit {
                *found = deeper.or(Some(element));
            }
            hit
        }),
        Expression::AllOf { path, inner } => elements(resolve(path, scope)).into_iter().all(|element| {
            holds(inner, &Scope { root: scope.root, here: element, is_root: false }, &mut None)
        }),
        Expression::Count { path, inner, operator, right } => {
            let hits = elements(resolve(path, scope))
                .into_iter()
                .filter(|element| {
                    holds(inner, &Scope { root: scope.root, here: element, is_root: false }, found)
                })
                .count();
            compare(&Some(Scalar::Number(hits as f64)), *operator, &operand(right, scope))
        }
    }
}

/// A status as the API writes it; some manifests have a bare `true`.
fn truth(status: Option<&Value>) -> String {
    match status {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(true)) => "True".into(),
        Some(Value::Bool(false)) => "False".into(),
        _ => String::new(),
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Scalar {
    Number(f64),
    Text(String),
    Bool(bool),
    /// A list or map: equal to nothing.
    Whole,
}

fn operand(operand: &Operand, scope: &Scope<'_>) -> Option<Scalar> {
    match operand {
        Operand::Literal(word) => Some(match word.as_str() {
            "true" => Scalar::Bool(true),
            "false" => Scalar::Bool(false),
            other => other.parse().map_or_else(|_| Scalar::Text(word.clone()), Scalar::Number),
        }),
        Operand::Minus(left, right) => match (self::operand(left, scope)?, self::operand(right, scope)?) {
            (Scalar::Number(left), Scalar::Number(right)) => Some(Scalar::Number(left - right)),
            _ => None,
        },
        Operand::Length(path) => Some(Scalar::Number(elements(resolve(path, scope)).len() as f64)),
        Operand::Path(path) => match resolve(path, scope) {
            Some(Value::Number(number)) => number.as_f64().map(Scalar::Number),
            Some(Value::String(text)) => Some(Scalar::Text(text.clone())),
            Some(Value::Bool(flag)) => Some(Scalar::Bool(*flag)),
            Some(Value::Null) | None => path.default.map(Scalar::Number),
            Some(_) => Some(Scalar::Whole),
        },
    }
}

fn compare(left: &Option<Scalar>, operator: Operator, right: &Option<Scalar>) -> bool {
    let as_number = |scalar: &Scalar| match scalar {
        Scalar::Number(number) => Some(*number),
        Scalar::Text(text) => text.parse().ok(),
        _ => None,
    };
    let (Some(left), Some(right)) = (left, right) else {
        // Two values that are both not there are the same.
        return operator == Operator::Equal && left.is_none() && right.is_none();
    };
    let order = match (as_number(left), as_number(right)) {
        (Some(a), Some(b)) => a.partial_cmp(&b),
        _ => match (left, right) {
            (Scalar::Text(a), Scalar::Text(b)) => Some(a.cmp(b)),
            (Scalar::Bool(a), Scalar::Bool(b)) => Some(a.cmp(b)),
            (Scalar::Bool(a), Scalar::Text(b)) | (Scalar::Text(b), Scalar::Bool(a)) => {
                Some(truth(Some(&Value::Bool(*a))).cmp(b))
            }
            _ => None,
        },
    };
    let Some(order) = order else { return false };
    match operator {
        Operator::Equal => order.is_eq(),
        Operator::NotEqual => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterOrEqual => order.is_ge(),
        Operator::Like => match (left, right) {
            (Scalar::Text(text), Scalar::Text(pattern)) => glob::matches(pattern, text),
            _ => false,
        },
    }
}
