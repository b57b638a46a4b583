//! Graphite: the points of the first target.

use serde_json::Value;

use super::{Answer, Question, json as read, number, text};

const TIMEOUT: u64 = 10;

pub(super) fn question(config: &Value) -> Result<Question, String> {
    let (address, query) = (text(&config["address"]), text(&config["query"]));
    if address.is_empty() || query.is_empty() {
        return Err("graphite needs an address and a query".into());
    }
    let query: String = query.chars().filter(|letter| !letter.is_whitespace()).collect();
    let url = format!("{}/render?{query}&format=json", address.trim_end_matches('/'));
    Ok(Question { method: "GET", url, timeout_seconds: TIMEOUT, ..Question::default() })
}

pub(super) fn answer(body: &[u8]) -> Result<Answer, String> {
    let answer = read(body, "Graphite")?;
    let points = answer[0]["datapoints"].as_array().filter(|points| !points.is_empty());
    let points = points.ok_or("no values found")?;
    let mut values = Vec::new();
    for point in points {
        let value = match &point[0] {
            Value::Null => continue,
            Value::String(text) => text.parse().ok(),
            other => other.as_f64(),
        };
        values.push(value.ok_or_else(|| format!("a point of Graphite is {}", point[0]))?);
    }
    let shown = values.iter().map(|value: &f64| format!("{value:.6}")).collect::<Vec<_>>().join(",");
    let value = values.into_iter().map(number).collect();
    Ok(Answer { value, shown: Some(format!("[{shown}]")), ..Answer::default() })
}
