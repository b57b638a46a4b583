//! Web: a value in the JSON that an address answers with.

use std::time::Duration;

use serde_json::Value;
use slipway_crd::analysis::{Measurement, Metric};
use slipway_dialect::jsonpath;

use super::Analysis;
use super::provider::{Question, failed, headers, judged};

const TIMEOUT: u64 = 10;

impl Analysis {
    pub(super) async fn web(&self, metric: &Metric, config: &Value) -> Measurement {
        let given = &config["authentication"];
        if !(given.is_null() || given.as_object().is_some_and(serde_json::Map::is_empty)) {
            return failed("web.authentication is not supported by Slipway yet");
        }
        let mut headers = headers(config);
        let body = match (&config["body"], &config["jsonBody"]) {
            (Value::String(body), _) if !body.is_empty() => Some(body.clone().into_bytes()),
            (_, Value::Null) => None,
            (_, json) => {
                headers.push(("content-type".into(), "application/json".into()));
                Some(json.to_string().into_bytes())
            }
        };
        let seconds = config["timeoutSeconds"].as_u64().filter(|seconds| *seconds > 0).unwrap_or(TIMEOUT);
        let question = Question {
            method: config["method"].as_str().filter(|method| !method.is_empty()).unwrap_or("GET"),
            url: config["url"].as_str().unwrap_or_default(),
            headers,
            body,
            timeout: Duration::from_secs(seconds),
            insecure: config["insecure"] == true,
        };
        match self
            .fetch(question)
            .await
            .and_then(|body| value(&body, config["jsonPath"].as_str().unwrap_or_default()))
        {
            Ok((answer, text)) => judged(metric, &answer, Some(text)),
            Err(why) => failed(why),
        }
    }
}

/// The first value that the path finds; an answer that is no JSON is a text.
fn value(body: &[u8], path: &str) -> Result<(Value, String), String> {
    let text = String::from_utf8_lossy(body);
    let Ok(answer) = serde_json::from_str::<Value>(&text) else {
        return Ok((Value::from(text.as_ref()), text.into_owned()));
    };
    let path = path.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
    if path.is_empty() {
        return Ok((answer.clone(), answer.to_string()));
    }
    let found = jsonpath::find(&answer, path).into_iter().next().cloned();
    found
        .map(|found| (found.clone(), found.to_string()))
        .ok_or_else(|| format!("the answer has nothing at {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_found_by_its_path_and_nothing_is_an_error() {
        let body = br#"{"data": {"rate": 0.97, "items": [1, 2]}}"#;
        assert_eq!(value(body, "{$.data.rate}").map(|found| found.0), Ok(json!(0.97)));
        assert_eq!(value(body, "{$.data.items[1]}").map(|found| found.0), Ok(json!(2)));
        assert_eq!(value(body, "{$}").map(|found| found.0["data"]["rate"].clone()), Ok(json!(0.97)));
        assert!(value(body, "{$.data.nothing}").is_err());
        assert_eq!(value(b"ok", "").map(|found| found.0), Ok(json!("ok")));
    }
}
