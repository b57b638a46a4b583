//! New Relic: an NRQL query through NerdGraph.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Answer, Question, json as read, text};

const TIMEOUT: i64 = 5;
const QUERY: &str = "query($query: Nrql!, $accountId: Int!, $timeout: Seconds!) { actor { account(id: $accountId) { nrql(query: $query, timeout: $timeout) { results } } } }";

pub(super) fn question(config: &Value, secret: &BTreeMap<String, String>) -> Result<Question, String> {
    let field =
        |name: &str| secret.get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let (Some(key), Some(account)) = (field("personal-api-key"), field("account-id")) else {
        return Err("the Secret of newRelic has no personal-api-key or no account-id".into());
    };
    let account: i64 = account.parse().map_err(|_| "account-id of newRelic is no number")?;
    let url = field("base-url-nerdgraph").unwrap_or_else(|| {
        match field("region").map(|region| region.to_lowercase()).as_deref() {
            Some("eu") => "https://api.eu.newrelic.com/graphql",
            Some("staging") => "https://staging-api.newrelic.com/graphql",
            _ => "https://api.newrelic.com/graphql",
        }
        .into()
    });
    let timeout = config["timeout"].as_i64().unwrap_or(TIMEOUT);
    if timeout < 0 {
        return Err("newRelic.timeout must not be negative".into());
    }
    let variables = json!({"accountId": account, "query": text(&config["query"]), "timeout": timeout});
    Ok(Question {
        method: "POST",
        url,
        headers: vec![("content-type".into(), "application/json".into()), ("Api-Key".into(), key)],
        body: Some(json!({"query": QUERY, "variables": variables}).to_string().into_bytes()),
        timeout_seconds: u64::try_from(timeout).unwrap_or(0) + 10,
        ..Question::default()
    })
}

pub(super) fn answer(body: &[u8]) -> Result<Answer, String> {
    let answer = read(body, "New Relic")?;
    if let Some(error) = answer["errors"].as_array().and_then(|errors| errors.first()) {
        return Err(format!("New Relic says: {}", text(&error["message"])));
    }
    let results =
        answer["data"]["actor"]["account"]["nrql"]["results"].as_array().cloned().unwrap_or_default();
    let is_empty = |one: &Value| one.as_object().is_none_or(serde_json::Map::is_empty);
    let value = match results.as_slice() {
        [] => return Err("no results returned from NRQL query".into()),
        [one] if is_empty(one) => return Err("no results returned from NRQL query".into()),
        [one] => one.clone(),
        _ => results.into(),
    };
    let shown = Some(value.to_string());
    Ok(Answer { value, shown, ..Answer::default() })
}
