//! Prometheus: the answer to an instant query, as a list of numbers or one number.

use std::time::Duration;

use serde_json::Value;
use slipway_crd::analysis::{Measurement, Metric};

use super::Analysis;
use super::provider::{Question, failed, headers, judged};

const TIMEOUT: u64 = 30;

impl Analysis {
    pub(super) async fn prometheus(&self, metric: &Metric, config: &Value) -> Measurement {
        for name in ["authentication", "rangeQuery"] {
            let given = &config[name];
            let empty = given.is_null() || given.as_object().is_some_and(serde_json::Map::is_empty);
            if !empty {
                return failed(format!("prometheus.{name} is not supported by Slipway yet"));
            }
        }
        let (address, query) =
            (config["address"].as_str().unwrap_or_default(), config["query"].as_str().unwrap_or_default());
        if address.is_empty() || query.is_empty() {
            return failed("prometheus needs an address and a query");
        }
        let body = format!("query={}", slipway_dialect::percent::encode(query)).into_bytes();
        let url = format!("{}/api/v1/query", address.trim_end_matches('/'));
        let mut headers = headers(config);
        headers.push(("content-type".into(), "application/x-www-form-urlencoded".into()));
        let timeout = Duration::from_secs(config["timeout"].as_u64().unwrap_or(TIMEOUT));
        let insecure = config["insecure"] == true;
        let question = Question { method: "POST", url: &url, headers, body: Some(body), timeout, insecure };
        match self.fetch(question).await.and_then(|body| numbers(&body)) {
            Ok(answer) => judged(metric, &answer, None),
            Err(why) => failed(why),
        }
    }
}

/// The numbers of an answer. Those that JSON does not have are texts.
fn numbers(body: &[u8]) -> Result<Value, String> {
    let answer: Value =
        serde_json::from_slice(body).map_err(|_| "the answer of Prometheus is not JSON".to_owned())?;
    if answer["status"] != "success" {
        return Err(format!("Prometheus says: {}", answer["error"].as_str().unwrap_or("nothing")));
    }
    let data = &answer["data"];
    match data["resultType"].as_str() {
        Some("scalar") => number(&data["result"][1]),
        Some("vector") => {
            let items = data["result"].as_array().into_iter().flatten();
            items.map(|item| number(&item["value"][1])).collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        other => Err(format!("Prometheus metric type {} not supported", other.unwrap_or("nothing"))),
    }
}

fn number(value: &Value) -> Result<Value, String> {
    let text = value.as_str().ok_or("a sample of Prometheus is no text")?;
    let number: f64 = text.parse().map_err(|_| format!("a sample of Prometheus is {text}"))?;
    Ok(match number {
        number if number.is_nan() => "NaN".into(),
        number if number.is_infinite() => {
            if number > 0.0 {
                "+Inf".into()
            } else {
                "-Inf".into()
            }
        }
        number if number.fract() == 0.0 && number.abs() < 9e15 => Value::from(number as i64),
        number => number.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn samples_are_numbers_and_what_is_none_is_said() {
        let answer = |data: Value| json!({"status": "success", "data": data}).to_string();
        let vector = answer(
            json!({"resultType": "vector", "result": [{"value": [1, "0.5"]}, {"value": [1, "NaN"]}, {"value": [1, "3"]}]}),
        );
        assert_eq!(numbers(vector.as_bytes()), Ok(json!([0.5, "NaN", 3])));
        assert_eq!(numbers(answer(json!({"resultType": "vector", "result": []})).as_bytes()), Ok(json!([])));
        assert_eq!(
            numbers(answer(json!({"resultType": "scalar", "result": [1, "+Inf"]})).as_bytes()),
            Ok(json!("+Inf"))
        );
        for wrong in [
            "",
            "{}",
            "<html>",
            r#"{"status": "error", "error": "bad"}"#,
            r#"{"status":"success","data":{"resultType":"matrix"}}"#,
        ] {
            assert!(numbers(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
