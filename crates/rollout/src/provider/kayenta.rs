//! Kayenta: a judgement is started and asked about until it is there.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use slipway_dialect::percent::encode;

use super::{Question, json as read, seconds, text};
use crate::analysis::{FAILED, INCONCLUSIVE, SUCCESSFUL};

const TIMEOUT: u64 = 15;
const EXECUTION: &str = "canaryExecutionId";
/// It is asked about again after so many seconds.
pub(super) const PAUSE: i64 = 15;

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Ask this, and come back with the answer.
    Ask(Question),
    /// It runs: with this in its metadata it is asked about later.
    Later {
        metadata: BTreeMap<String, String>,
        resume_at: Timestamp,
    },
    Done {
        phase: &'static str,
        value: String,
        metadata: BTreeMap<String, String>,
    },
}

fn get(url: String) -> Question {
    Question { method: "GET", url, timeout_seconds: TIMEOUT, ..Question::default() }
}

/// From what is known to what comes next. `metadata`: of the measurement under way; `answers`: the bodies so far in this round.
pub fn progress(
    config: &Value,
    interval: &str,
    started_at: Option<&str>,
    metadata: &BTreeMap<String, String>,
    answers: &[Vec<u8>],
    now: Timestamp,
) -> Result<Progress, String> {
    let address = text(&config["address"]).trim_end_matches('/');
    if address.is_empty() {
        return Err("kayenta needs an address".into());
    }
    let of = |name: &str| encode(text(&config[name]));
    if let Some(execution) = metadata.get(EXECUTION) {
        return match answers {
            [] => Ok(Progress::Ask(get(format!("{address}/canary/{}", encode(execution))))),
            [score, ..] => judged(config, score, metadata, now),
        };
    }
    match answers {
        [] => Ok(Progress::Ask(get(format!(
            "{address}/canaryConfig?application={}&configurationAccountName={}",
            of("application"),
            of("storageAccountName")
        )))),
        [configs] => {
            let configs = read(configs, "Kayenta")?;
            let wanted = text(&config["canaryConfigName"]);
            let found = configs.as_array().into_iter().flatten().find(|one| one["name"] == wanted);
            let id = found.and_then(|one| one["id"].as_str()).ok_or("Canary config not found")?;
            let url = format!(
                "{address}/canary/{}?application={}&metricsAccountName={}&configurationAccountName={}&storageAccountName={}",
                encode(id),
                of("application"),
                of("metricsAccountName"),
                of("configurationAccountName"),
                of("storageAccountName")
            );
            let threshold = &config["threshold"];
            let body = json!({"scopes": scopes(config, interval, started_at, now)?,
                "thresholds": {"pass": threshold["pass"], "marginal": threshold["marginal"]}});
            let headers = vec![("content-type".into(), "application/json".into())];
            let body = Some(body.to_string().into_bytes());
            Ok(Progress::Ask(Question { method: "POST", headers, body, ..get(url) }))
        }
        [_, started, ..] => {
            let started = read(started, "Kayenta")?;
            let id = text(&started[EXECUTION]);
            if id.is_empty() {
                return Err("Invalid canaryExecutionId".into());
            }
            Ok(Progress::Later {
                metadata: [(EXECUTION.to_owned(), id.to_owned())].into(),
                resume_at: later(now),
            })
        }
    }
}

fn later(now: Timestamp) -> Timestamp {
    now.checked_add(SignedDuration::from_secs(PAUSE)).unwrap_or(now)
}

fn judged(
    config: &Value,
    body: &[u8],
    metadata: &BTreeMap<String, String>,
    now: Timestamp,
) -> Result<Progress, String> {
    let answer = read(body, "Kayenta")?;
    match answer["complete"].as_bool() {
        None => return Err("Missing Complete Status".into()),
        Some(false) => return Ok(Progress::Later { metadata: metadata.clone(), resume_at: later(now) }),
        Some(true) => {}
    }
    let score = answer["result"]["judgeResult"]["score"]["score"].as_f64().ok_or("Missing Score")? as i64;
    let limit = |name: &str| {
        config["threshold"][name].as_i64().ok_or_else(|| format!("kayenta.threshold.{name} is missing"))
    };
    let (pass, marginal) = (limit("pass")?, limit("marginal")?);
    let phase = match score {
        score if score >= pass => SUCCESSFUL,
        score if score >= marginal => INCONCLUSIVE,
        _ => FAILED,
    };
    Ok(Progress::Done { phase, value: score.to_string(), metadata: metadata.clone() })
}

fn scopes(
    config: &Value,
    interval: &str,
    started_at: Option<&str>,
    now: Timestamp,
) -> Result<Map<String, Value>, String> {
    let written = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut all = Map::new();
    for scope in config["scopes"].as_array().into_iter().flatten() {
        let (control, experiment) = (&scope["controlScope"], &scope["experimentScope"]);
        for field in ["start", "end"] {
            if text(&control[field]).is_empty() != text(&experiment[field]).is_empty() {
                return Err(format!(
                    "controlScope.{field} and experimentScope.{field} must both be set or be empty"
                ));
            }
        }
        let start = if config["lookback"] == true {
            started_at.ok_or("the run has not begun")?.to_owned()
        } else {
            let before = seconds(&interval.into(), 0)?;
            written(now.checked_sub(SignedDuration::from_secs(before)).unwrap_or(now))
        };
        let end = written(now);
        let made = |scope: &Value| {
            let or = |field: &str, otherwise: &str| {
                let given = text(&scope[field]);
                if given.is_empty() { otherwise.to_owned() } else { given.to_owned() }
            };
            json!({"scope": text(&scope["scope"]), "location": text(&scope["region"]), "step": scope["step"],
                "start": or("start", &start), "end": or("end", &end)})
        };
        let name = text(&scope["name"]).to_owned();
        all.insert(name, json!({"controlScope": made(control), "experimentScope": made(experiment)}));
    }
    Ok(all)
}
