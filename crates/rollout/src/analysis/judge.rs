//! What one answer means, by the conditions of its metric.

use jiff::Timestamp;
use serde_json::Value;
use slipway_crd::analysis::Metric;
use slipway_dialect::expr::Expression;

use super::{ERROR, FAILED, INCONCLUSIVE, SUCCESSFUL};

/// The phase of a measurement, and why where there is something to say. Numbers that JSON does not have are texts: `NaN`, `+Inf`, `-Inf`.
pub fn judge(metric: &Metric, result: &Value, now: Timestamp) -> (&'static str, String) {
    let holds = |kind: &str, text: &str| -> Result<Option<bool>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let outcome = Expression::parse(text).and_then(|condition| condition.holds_for(result, now));
        outcome.map(Some).map_err(|error| {
            let nothing = result.is_null() || result.as_array().is_some_and(Vec::is_empty);
            let why = if nothing {
                "metric result is nil or empty: no data returned from the metric provider".into()
            } else {
                error
            };
            format!("could not evaluate {kind} \"{text}\": {why}")
        })
    };
    let success = holds("successCondition", &metric.success_condition);
    let failure = holds("failureCondition", &metric.failure_condition);
    match (success, failure) {
        (Err(error), _) | (_, Err(error)) => (ERROR, error),
        // Nothing was asked, but nothing was answered either.
        (Ok(None), Ok(None)) if is_nothing(result) => {
            (ERROR, "no data returned from the metric provider".into())
        }
        (Ok(None), Ok(None)) => (SUCCESSFUL, String::new()),
        (_, Ok(Some(true))) | (Ok(Some(false)), Ok(None)) => (FAILED, String::new()),
        // `all(result, # < 1)` holds for a list without items, and `result != 5` for what is no number.
        (Ok(Some(true)), _) if is_nothing(result) && !asks_for_nothing(&metric.success_condition) => {
            (ERROR, "no data returned from the metric provider".into())
        }
        (Ok(Some(true)), _) => (SUCCESSFUL, String::new()),
        // It did not fail because there was nothing to look at.
        (Ok(None), Ok(Some(false))) if is_nothing(result) => {
            (ERROR, "no data returned from the metric provider".into())
        }
        (Ok(None), Ok(Some(false))) => (SUCCESSFUL, String::new()),
        (Ok(Some(false)), Ok(Some(false))) => (INCONCLUSIVE, String::new()),
    }
}

/// Whoever wrote the condition thought of an answer without data.
fn asks_for_nothing(condition: &str) -> bool {
    ["isNil", "isNaN", "default", "len(", "nil", "??"].iter().any(|word| condition.contains(word))
}

/// No answer, or only answers that are no numbers.
fn is_nothing(result: &Value) -> bool {
    match result {
        // A series of CloudWatch without points.
        Value::Object(fields) => fields.get("Values").is_some_and(is_nothing),
        Value::Null => true,
        Value::String(text) => matches!(text.as_str(), "NaN" | ""),
        Value::Array(items) => items.iter().all(is_nothing),
        _ => false,
    }
}

/// The answer as the status shows it: `[0.95]`.
pub fn shown(result: &Value) -> String {
    match result {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("[{}]", items.join(","))
        }
        Value::String(text) if matches!(text.as_str(), "NaN" | "+Inf" | "-Inf") => text.clone(),
        other => other.to_string(),
    }
}
