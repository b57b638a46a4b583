//! Whom a metric asks. One that nobody here can ask gives an error that names it, which is never a success.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use slipway_crd::analysis::{AnalysisRun, Measurement, Metric};
use slipway_net::{Client, Limits, Request, Settings, Trust};
use slipway_rollout::analysis::{ERROR, Task, judge, shown};

use super::Analysis;

pub(super) fn written(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A measurement that could not be taken.
pub(super) fn failed(why: impl Into<String>) -> Measurement {
    Measurement { phase: ERROR.into(), message: why.into(), ..Measurement::default() }
}

/// What an answer means.
pub(super) fn judged(metric: &Metric, answer: &Value, value: Option<String>) -> Measurement {
    let (phase, message) = judge(metric, answer, Timestamp::now());
    Measurement {
        phase: phase.into(),
        message,
        value: value.unwrap_or_else(|| shown(answer)),
        ..Measurement::default()
    }
}

/// How a question is put.
pub(super) struct Question<'a> {
    pub(super) method: &'a str,
    pub(super) url: &'a str,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<Vec<u8>>,
    pub(super) timeout: Duration,
    pub(super) insecure: bool,
}

/// `[{key, value}]` of a provider.
pub(super) fn headers(config: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = config["headers"].as_array().into_iter().flatten();
    all.map(|header| (text(&header["key"]), text(&header["value"]))).collect()
}

impl Analysis {
    pub(super) async fn ask(&self, run: &AnalysisRun, metric: &Metric, task: &Task) -> Measurement {
        let mut providers = metric.provider.iter().filter(|(_, config)| !config.is_null());
        let (Some((name, config)), None) = (providers.next(), providers.next()) else {
            return failed("a metric needs exactly one provider");
        };
        match name.as_str() {
            "job" => self.job(run, metric, config, task).await,
            _ if task.terminate => failed("the run was ended before it was measured"),
            "prometheus" => self.prometheus(metric, config).await,
            "web" => self.web(metric, config).await,
            other => failed(format!(
                "provider {other} is not supported by Slipway yet; prometheus, web and job are"
            )),
        }
    }

    /// The body of an answer of 2xx, or a sentence.
    pub(super) async fn fetch(&self, question: Question<'_>) -> Result<Vec<u8>, String> {
        let limits = Limits { whole: question.timeout, ..Limits::default() };
        let trust = Trust { insecure: question.insecure, ..Trust::default() };
        let settings = Settings { rules: self.egress.clone(), limits, trust, ..Settings::default() };
        let client = Client::new(settings).map_err(|error| error.to_string())?;
        let headers: Vec<(&str, &str)> =
            question.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let request = Request {
            method: question.method,
            url: question.url,
            secrets: &headers,
            body: question.body.as_deref(),
            ..Request::default()
        };
        let answer = client.send(request).await.map_err(|error| error.to_string())?;
        if !answer.is_success() {
            return Err(format!("received non 2xx response code: {}", answer.status));
        }
        Ok(answer.body)
    }
}
