//! What providers of metrics are asked, and what their answers mean.
//!
//! In: a metric's settings with all arguments put in, the credentials that stand beside them, the time. Out: an HTTP request as a value
//! ([`Question`]), and from the body that came back the value that conditions are about ([`Answer`]). An answer without data is an error or
//! `nil`, never a number. No request is sent here, and no Secret is read: [`credentials`] says which one is needed.

mod basic;
mod cloud_watch;
mod datadog;
mod graphite;
mod influx;
mod kayenta;
mod new_relic;
mod prometheus;
mod sky_walking;
mod wavefront;
mod web;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

pub use cloud_watch::{TARGET as CLOUD_WATCH_TARGET, input as cloud_watch_input};
pub use kayenta::{Progress as KayentaProgress, progress as kayenta_progress};

/// Ten years.
const SECONDS_MAX: i64 = 10 * 366 * 86_400;

/// An HTTP request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Question {
    pub method: &'static str,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    pub timeout_seconds: u64,
    pub insecure: bool,
    /// A token has to be fetched before.
    pub oauth2: Option<OAuth2>,
}

/// The way to a token of one's own (client credentials).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OAuth2 {
    pub token_url: String,
    pub client_id: String,
    pub client_secret: String,
    pub scopes: Vec<String>,
}

/// What was measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// `result` in conditions.
    pub value: Value,
    /// As the status shows it; none: as conditions see it.
    pub shown: Option<String>,
    pub metadata: BTreeMap<String, String>,
}

/// A Secret with what a provider is to be asked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialRef {
    pub name: String,
    /// In the run's namespace; otherwise in the engine's own, and who asks whom with it stands in it.
    pub namespaced: bool,
}

/// The Secret that has to be read before it can be asked.
pub fn credentials(provider: &str, config: &Value) -> Option<CredentialRef> {
    let of_engine = |name: &str| Some(CredentialRef { name: name.to_owned(), namespaced: false });
    let profile = |otherwise: &str| of_engine(text(&config["profile"]).filter_empty().unwrap_or(otherwise));
    match provider {
        "datadog" => {
            let at = &config["secretRef"];
            let name = text(&at["name"]).filter_empty().unwrap_or("datadog");
            Some(CredentialRef { name: name.to_owned(), namespaced: at["namespaced"] == true })
        }
        "newRelic" => profile("newrelic"),
        "influxdb" => profile("influxdb"),
        "wavefront" => of_engine("wavefront-api-tokens"),
        _ => None,
    }
}

/// The providers that are asked by one request.
pub fn is_known(provider: &str) -> bool {
    ["prometheus", "web", "datadog", "newRelic", "wavefront", "graphite", "influxdb", "skywalking"]
        .contains(&provider)
}

/// What to ask.
pub fn question(
    provider: &str,
    config: &Value,
    secret: &BTreeMap<String, String>,
    now: Timestamp,
) -> Result<Question, String> {
    match provider {
        "prometheus" => prometheus::question(config, now),
        "web" => web::question(config),
        "datadog" => datadog::question(config, secret, now),
        "newRelic" => new_relic::question(config, secret),
        "wavefront" => wavefront::question(config, secret, now),
        "graphite" => graphite::question(config),
        "influxdb" => influx::question(config, secret),
        "skywalking" => sky_walking::question(config, now),
        other => Err(format!("provider {other} is not supported by Slipway yet")),
    }
}

/// What the body of an answer of 2xx says.
pub fn answer(provider: &str, config: &Value, body: &[u8], now: Timestamp) -> Result<Answer, String> {
    match provider {
        "prometheus" => prometheus::answer(body),
        "web" => web::answer(config, body),
        "datadog" => datadog::answer(config, body),
        "newRelic" => new_relic::answer(body),
        "wavefront" => wavefront::answer(body, now),
        "graphite" => graphite::answer(body),
        "influxdb" => influx::answer(body),
        "skywalking" => sky_walking::answer(body),
        "cloudWatch" => cloud_watch::answer(body),
        other => Err(format!("provider {other} is not supported by Slipway yet")),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

trait FilterEmpty: Sized {
    fn filter_empty(self) -> Option<Self>;
}

impl FilterEmpty for &str {
    fn filter_empty(self) -> Option<Self> {
        Some(self).filter(|text| !text.is_empty())
    }
}

fn json(body: &[u8], of: &str) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|_| format!("the answer of {of} is not JSON"))
}

/// A duration in seconds, `otherwise` when none is given. Times are counted with it, so it has an end.
fn seconds(value: &Value, otherwise: i64) -> Result<i64, String> {
    let given = match value {
        Value::Null => Some(otherwise),
        Value::Number(number) => number.as_i64(),
        other if text(other).is_empty() => Some(otherwise),
        other => slipway_dialect::duration::parse_or_seconds(text(other)).map(|ms| ms / 1_000),
    };
    let given = given.filter(|seconds| (0..=SECONDS_MAX).contains(seconds));
    given.ok_or_else(|| format!("{value} is no duration of at most ten years"))
}

/// A number as conditions see it: whole ones are whole, and what JSON has no number for is a text.
fn number(number: f64) -> Value {
    match number {
        number if number.is_nan() => "NaN".into(),
        number if number.is_infinite() => if number > 0.0 { "+Inf" } else { "-Inf" }.into(),
        number if number.fract() == 0.0 && number.abs() < 9e15 => Value::from(number as i64),
        number => number.into(),
    }
}

/// `[{key, value}]` of a provider.
fn headers(config: &Value) -> Vec<(String, String)> {
    let all = config["headers"].as_array().into_iter().flatten();
    all.map(|header| (text(&header["key"]).to_owned(), text(&header["value"]).to_owned())).collect()
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_nothing),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(is) => !is,
        Value::Number(_) => false,
    }
}

/// `authentication` of Prometheus and web: one of the ways that are known, and no other beside it.
fn authenticate(question: &mut Question, authentication: &Value, of: &str) -> Result<(), String> {
    let given = authentication.as_object().into_iter().flatten().filter(|(_, value)| !is_nothing(value));
    let given: Vec<&str> = given.map(|(name, _)| name.as_str()).collect();
    match given.as_slice() {
        [] => Ok(()),
        ["oauth2"] => {
            let at = &authentication["oauth2"];
            let field = |name: &str| text(&at[name]).to_owned();
            let oauth2 = OAuth2 {
                token_url: field("tokenUrl"),
                client_id: field("clientId"),
                client_secret: field("clientSecret"),
                scopes: at["scopes"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|one| text(one).to_owned())
                    .collect(),
            };
            if [&oauth2.token_url, &oauth2.client_id, &oauth2.client_secret]
                .iter()
                .any(|text| text.is_empty())
            {
                return Err(format!("{of}.authentication.oauth2 needs tokenUrl, clientId and clientSecret"));
            }
            question.oauth2 = Some(oauth2);
            Ok(())
        }
        ["basicAuth"] => {
            let at = &authentication["basicAuth"];
            let (user, password) = (text(&at["username"]), text(&at["password"]));
            if user.is_empty() || password.is_empty() {
                return Err(format!("{of}.authentication.basicAuth needs username and password"));
            }
            question.headers.push(("authorization".into(), basic::authorization(user, password)));
            Ok(())
        }
        ["sigv4"] => Err(format!("{of}.authentication.sigv4 is not supported by Slipway yet")),
        several => Err(format!("{of}.authentication has {}: one way is enough", several.join(", "))),
    }
}
