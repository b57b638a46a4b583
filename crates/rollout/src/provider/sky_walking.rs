//! SkyWalking: a GraphQL query over the last minutes.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Answer, Question, json as read, seconds, text};

const TIMEOUT: u64 = 30;
const INTERVAL: i64 = 300;

pub(super) fn question(config: &Value, now: Timestamp) -> Result<Question, String> {
    let address = text(&config["address"]);
    if address.is_empty() || text(&config["query"]).is_empty() {
        return Err("skywalking needs an address and a query".into());
    }
    let interval = seconds(&config["interval"], INTERVAL)?;
    let start = now.checked_sub(SignedDuration::from_secs(interval)).map_err(|error| error.to_string())?;
    let minute = |at: Timestamp| at.strftime("%Y-%m-%d %H%M").to_string();
    let duration = json!({"start": minute(start), "end": minute(now), "step": "MINUTE"});
    Ok(Question {
        method: "POST",
        url: format!("{}/graphql", address.trim_end_matches('/')),
        headers: vec![("content-type".into(), "application/json".into())],
        body: Some(
            json!({"query": text(&config["query"]), "variables": {"duration": duration}})
                .to_string()
                .into_bytes(),
        ),
        timeout_seconds: TIMEOUT,
        ..Question::default()
    })
}

pub(super) fn answer(body: &[u8]) -> Result<Answer, String> {
    let answer = read(body, "SkyWalking")?;
    if let Some(error) = answer["errors"].as_array().and_then(|errors| errors.first()) {
        return Err(format!("SkyWalking says: {}", text(&error["message"])));
    }
    let value = answer["data"].clone();
    if value.is_null() {
        return Err("no results returned from SkyWalking query".into());
    }
    let shown = Some(value.to_string());
    Ok(Answer { value, shown, ..Answer::default() })
}
