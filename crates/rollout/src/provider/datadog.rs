//! Datadog: the last point of a series (v1), or the columns of a scalar question (v2).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_dialect::percent::encode;

use super::{Answer, FilterEmpty as _, Question, json as read, number, seconds, text};

const INTERVAL: i64 = 300;
const TIMEOUT: i64 = 10;
/// Of the groups that are shown; conditions see all of them.
const GROUPS_MAX: usize = 100;

fn is_v1(config: &Value) -> bool {
    !matches!(text(&config["apiVersion"]), "v2")
}

pub(super) fn question(
    config: &Value,
    secret: &BTreeMap<String, String>,
    now: Timestamp,
) -> Result<Question, String> {
    let key =
        |name: &str| secret.get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let (Some(api_key), Some(app_key)) = (key("api-key"), key("app-key")) else {
        return Err("the Secret of datadog has no api-key or no app-key".into());
    };
    let address = key("address").unwrap_or_else(|| "https://api.datadoghq.com".into());
    let address = address.trim_end_matches('/');
    let interval = seconds(&config["interval"], INTERVAL)?;
    let (from, to) = (now.as_second() - interval, now.as_second());
    let query = text(&config["query"]);
    let mut question = Question {
        method: "GET",
        headers: vec![
            ("content-type".into(), "application/json".into()),
            ("DD-API-KEY".into(), api_key),
            ("DD-APPLICATION-KEY".into(), app_key),
        ],
        timeout_seconds: u64::try_from(seconds(&config["requestTimeout"], TIMEOUT)?).unwrap_or(1).max(1),
        ..Question::default()
    };
    if is_v1(config) {
        if query.is_empty() {
            return Err("datadog needs a query; queries are for apiVersion v2".into());
        }
        question.url = format!("{address}/api/v1/query?from={from}&query={}&to={to}", encode(query));
        return Ok(question);
    }
    let aggregator = text(&config["aggregator"]).filter_empty().unwrap_or("last");
    let one = |(name, query): (&str, &str)| json!({"aggregator": aggregator, "data_source": "metrics", "name": name, "query": query});
    let queries: Vec<Value> = match config["queries"].as_object().filter(|all| !all.is_empty()) {
        Some(all) => all.iter().map(|(name, query)| one((name, text(query)))).collect(),
        None if query.is_empty() => return Err("datadog needs a query or queries".into()),
        None => vec![one(("query", query))],
    };
    let formula = text(&config["formula"]).filter_empty();
    if queries.len() > 1 && formula.is_none() {
        return Err("datadog with several queries needs a formula".into());
    }
    let formulas: Vec<Value> = formula.into_iter().map(|formula| json!({"formula": formula})).collect();
    let attributes =
        json!({"from": from * 1_000, "to": to * 1_000, "queries": queries, "formulas": formulas});
    question.method = "POST";
    question.url = format!("{address}/api/v2/query/scalar");
    question.body =
        Some(json!({"data": {"type": "scalar_request", "attributes": attributes}}).to_string().into_bytes());
    Ok(question)
}

pub(super) fn answer(config: &Value, body: &[u8]) -> Result<Answer, String> {
    let answer = read(body, "Datadog")?;
    let of = |value: Value, shown: String| Answer { value, shown: Some(shown), ..Answer::default() };
    if is_v1(config) {
        let points = answer["series"][0]["pointlist"].as_array();
        let Some(last) = points.and_then(|points| points.last()) else {
            // Nothing is nothing: a condition may ask for it.
            return Ok(of(Value::Null, answer["series"].to_string()));
        };
        let value = last[1].as_f64().ok_or("the last point of Datadog has no value")?;
        return Ok(Answer { value: number(value), ..Answer::default() });
    }
    if let Some(errors) = text(&answer["data"]["errors"]).filter_empty() {
        return Err(format!("Datadog says: {errors}"));
    }
    let columns = answer["data"]["attributes"]["columns"].as_array().map(Vec::as_slice).unwrap_or_default();
    let groups: Vec<&Value> = columns.iter().filter(|column| column["type"] == "group").collect();
    let numbers = columns.iter().find(|column| matches!(text(&column["type"]), "" | "number"));
    let (mut values, mut named) = (Vec::new(), Vec::new());
    for (index, value) in
        numbers.and_then(|column| column["values"].as_array()).into_iter().flatten().enumerate()
    {
        if value.is_null() {
            continue;
        }
        let value =
            value.as_f64().ok_or_else(|| format!("Datadog answered {value} where a number should be"))?;
        values.push(value);
        if !groups.is_empty() {
            named.push((label(&groups, index)?, value));
        }
    }
    if values.is_empty() {
        return Ok(of(Value::Null, "[]".into()));
    }
    if groups.is_empty() {
        return Ok(Answer { value: number(values[0]), ..Answer::default() });
    }
    let mut metadata = BTreeMap::new();
    if named.len() > GROUPS_MAX {
        // Both ends: whichever is the bad one is among them.
        named.sort_by(|a, b| a.1.total_cmp(&b.1));
        let tail = named.split_off(named.len() - GROUPS_MAX / 2);
        named.truncate(GROUPS_MAX / 2);
        named.extend(tail);
        metadata.insert("groups_truncated".into(), "true".into());
    }
    let shown: Vec<Value> =
        named.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    metadata.insert("groups".into(), Value::from(shown).to_string());
    Ok(Answer { value: values.into_iter().map(number).collect(), shown: None, metadata })
}

fn label(groups: &[&Value], index: usize) -> Result<String, String> {
    let mut parts = Vec::new();
    for column in groups {
        let tags = column["values"][index].as_array().filter(|tags| !tags.is_empty());
        let tags = tags.ok_or_else(|| format!("Datadog's group {index} has no label"))?;
        parts.extend(tags.iter().map(text));
    }
    Ok(parts.join(","))
}
