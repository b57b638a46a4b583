//! Web: a value in the JSON that an address answers with.

use serde_json::Value;
use slipway_dialect::jsonpath;

use super::{Answer, FilterEmpty as _, Question, authenticate, headers, text};

const TIMEOUT: u64 = 10;

pub(super) fn question(config: &Value) -> Result<Question, String> {
    let mut headers = headers(config);
    let body = match (&config["body"], &config["jsonBody"]) {
        (Value::String(body), _) if !body.is_empty() => Some(body.clone().into_bytes()),
        (_, Value::Null) => None,
        (_, json) => {
            headers.push(("content-type".into(), "application/json".into()));
            Some(json.to_string().into_bytes())
        }
    };
    let method = match text(&config["method"]).filter_empty().unwrap_or("GET") {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        other => return Err(format!("web.method is {other}; GET, POST and PUT are known")),
    };
    let timeout_seconds = config["timeoutSeconds"].as_u64().filter(|seconds| *seconds > 0).unwrap_or(TIMEOUT);
    let url = text(&config["url"]).to_owned();
    let insecure = config["insecure"] == true;
    let mut question =
        Question { method, url, headers, body, timeout_seconds, insecure, ..Question::default() };
    authenticate(&mut question, &config["authentication"], "web")?;
    Ok(question)
}

/// The first value that the path finds; an answer that is no JSON is a text.
pub(super) fn answer(config: &Value, body: &[u8]) -> Result<Answer, String> {
    let path = text(&config["jsonPath"]);
    let text = String::from_utf8_lossy(body);
    let of = |value: Value, shown: String| Answer { value, shown: Some(shown), ..Answer::default() };
    let Ok(answer) = serde_json::from_str::<Value>(&text) else {
        return Ok(of(Value::from(text.as_ref()), text.into_owned()));
    };
    let path = path.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
    if path.is_empty() {
        let shown = answer.to_string();
        return Ok(of(answer, shown));
    }
    let found = jsonpath::find(&answer, path).into_iter().next().cloned();
    let found = found.ok_or_else(|| format!("the answer has nothing at {path}"))?;
    let shown = found.to_string();
    Ok(of(found, shown))
}
