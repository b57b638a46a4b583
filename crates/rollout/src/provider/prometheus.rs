//! Prometheus: instant queries and ranges. Samples are numbers; a range is a list of them.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use slipway_dialect::percent::encode;

use super::{Answer, Question, authenticate, headers, is_nothing, json, number, seconds, text};

const TIMEOUT: u64 = 30;

pub(super) fn question(config: &Value, now: Timestamp) -> Result<Question, String> {
    let (address, query) = (text(&config["address"]), text(&config["query"]));
    if address.is_empty() || query.is_empty() {
        return Err("prometheus needs an address and a query".into());
    }
    let address = address.trim_end_matches('/');
    let range = &config["rangeQuery"];
    let (url, body) = if is_nothing(range) {
        (format!("{address}/api/v1/query"), format!("query={}", encode(query)))
    } else {
        let at = |name: &str| {
            moment(text(&range[name]), now).map_err(|why| format!("prometheus.rangeQuery.{name}: {why}"))
        };
        let (start, end) = (at("start")?, at("end")?);
        let step = seconds(&range["step"], 0)?;
        if step <= 0 {
            return Err("prometheus.rangeQuery needs a step of at least a second".into());
        }
        let body = format!(
            "query={}&start={}&end={}&step={step}",
            encode(query),
            start.as_second(),
            end.as_second()
        );
        (format!("{address}/api/v1/query_range"), body)
    };
    let mut headers = headers(config);
    headers.push(("content-type".into(), "application/x-www-form-urlencoded".into()));
    let timeout_seconds = config["timeout"].as_u64().filter(|seconds| *seconds > 0).unwrap_or(TIMEOUT);
    let insecure = config["insecure"] == true;
    let body = Some(body.into_bytes());
    let mut question =
        Question { method: "POST", url, headers, body, timeout_seconds, insecure, ..Question::default() };
    authenticate(&mut question, &config["authentication"], "prometheus")?;
    Ok(question)
}

/// `now()`, `now() - duration("5m")`, or a time.
fn moment(given: &str, now: Timestamp) -> Result<Timestamp, String> {
    let plain: String = given.chars().filter(|letter| !letter.is_whitespace()).collect();
    if plain == "now()" {
        return Ok(now);
    }
    for (way, sign) in [("now()-duration(", -1), ("now()+duration(", 1)] {
        let quoted = plain.strip_prefix(way).and_then(|rest| rest.strip_suffix(')'));
        if let Some(quoted) = quoted {
            let duration = quoted.trim_matches(['"', '\'']);
            let milliseconds = slipway_dialect::duration::parse_or_seconds(duration)
                .ok_or_else(|| format!("{duration} is no duration"))?;
            let by = SignedDuration::from_millis(sign * milliseconds);
            return now.checked_add(by).map_err(|error| error.to_string());
        }
    }
    given.parse().map_err(|_| format!("{given:?} is neither now(), now() - duration(\"5m\") nor a time"))
}

pub(super) fn answer(body: &[u8]) -> Result<Answer, String> {
    let answer = json(body, "Prometheus")?;
    if answer["status"] != "success" {
        return Err(format!("Prometheus says: {}", answer["error"].as_str().unwrap_or("nothing")));
    }
    let data = &answer["data"];
    let items = || data["result"].as_array().into_iter().flatten();
    let value = match data["resultType"].as_str() {
        Some("scalar") => sample(&data["result"][1])?,
        Some("vector") => {
            items().map(|item| sample(&item["value"][1])).collect::<Result<Vec<_>, _>>()?.into()
        }
        Some("matrix") => {
            let points = items().flat_map(|item| item["values"].as_array().into_iter().flatten());
            points.map(|point| sample(&point[1])).collect::<Result<Vec<_>, _>>()?.into()
        }
        other => return Err(format!("Prometheus metric type {} not supported", other.unwrap_or("nothing"))),
    };
    Ok(Answer { value, ..Answer::default() })
}

fn sample(value: &Value) -> Result<Value, String> {
    let text = value.as_str().ok_or("a sample of Prometheus is no text")?;
    let sample: f64 = text.parse().map_err(|_| format!("a sample of Prometheus is {text}"))?;
    Ok(number(sample))
}
