//! InfluxDB: the column `_value` of a Flux query, which comes as annotated CSV.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use slipway_dialect::percent::encode;

use super::{Answer, Question, number, text};

const TIMEOUT: u64 = 30;

pub(super) fn question(config: &Value, secret: &BTreeMap<String, String>) -> Result<Question, String> {
    let field =
        |name: &str| secret.get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let (Some(token), Some(address), Some(organisation)) =
        (field("authToken"), field("address"), field("org"))
    else {
        return Err("the Secret of influxdb has no authToken, no org or no address".into());
    };
    let dialect = json!({"annotations": ["datatype", "group", "default"], "delimiter": ",", "header": true});
    Ok(Question {
        method: "POST",
        url: format!("{}/api/v2/query?org={}", address.trim_end_matches('/'), encode(&organisation)),
        headers: vec![
            ("authorization".into(), format!("Token {token}")),
            ("content-type".into(), "application/json".into()),
            ("accept".into(), "application/csv".into()),
        ],
        body: Some(
            json!({"query": text(&config["query"]), "type": "flux", "dialect": dialect})
                .to_string()
                .into_bytes(),
        ),
        timeout_seconds: TIMEOUT,
        ..Question::default()
    })
}

pub(super) fn answer(body: &[u8]) -> Result<Answer, String> {
    let body = String::from_utf8_lossy(body);
    let (mut kinds, mut names): (Vec<String>, Option<Vec<String>>) = (Vec::new(), None);
    let mut values = Vec::new();
    for row in rows(&body) {
        match row.first().map(String::as_str) {
            _ if row.iter().all(String::is_empty) => (kinds, names) = (Vec::new(), None),
            Some("#datatype") => (kinds, names) = (row, None),
            Some(first) if first.starts_with('#') => {}
            _ => match &names {
                None => names = Some(row),
                Some(known) => {
                    if let Some(at) = known.iter().position(|name| name == "error") {
                        return Err(format!("InfluxDB says: {}", row.get(at).cloned().unwrap_or_default()));
                    }
                    let at = known
                        .iter()
                        .position(|name| name == "_value")
                        .ok_or("the query has no column _value")?;
                    let kind = kinds.get(at).map(String::as_str).unwrap_or("string");
                    values.push(typed(kind, row.get(at).map(String::as_str).unwrap_or_default())?);
                }
            },
        }
    }
    if values.is_empty() {
        return Err("no results returned from flux query".into());
    }
    let shown = values.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    let shown = format!("[{}]", shown.collect::<Vec<_>>().join(" "));
    Ok(Answer { value: values.into(), shown: Some(shown), ..Answer::default() })
}

fn typed(kind: &str, text: &str) -> Result<Value, String> {
    let wrong = || format!("a value of InfluxDB is {text}");
    match kind {
        _ if text.is_empty() => Ok(Value::Null),
        "double" => text.parse().map(number).map_err(|_| wrong()),
        "long" | "unsignedLong" => text.parse::<i64>().map(Value::from).map_err(|_| wrong()),
        "boolean" => Ok(Value::Bool(text == "true")),
        _ => Ok(text.into()),
    }
}

/// Rows of CSV; a field in quotes may hold commas, quotes and lines. An empty line is an empty row.
fn rows(text: &str) -> Vec<Vec<String>> {
    let (mut all, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                field.push('"');
                letters.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                all.push(std::mem::take(&mut row));
            }
            letter => field.push(letter),
        }
    }
    if !field.is_empty() || !row.is_empty() {
        row.push(field);
        all.push(row);
    }
    all
}
