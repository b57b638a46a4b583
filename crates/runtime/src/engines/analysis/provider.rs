//! Whom a metric asks. What is asked and what an answer means is decided in the pure room; here requests are sent, and Secrets are put into
//! them. A provider that nobody here can ask gives an error that names it, which is never a success.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::Value;
use slipway_cluster::ObjectKey;
use slipway_crd::analysis::{AnalysisRun, Measurement, Metric};
use slipway_net::{Client, Limits, Request, Settings, Trust};
use slipway_rollout::analysis::{ERROR, Task, judge, shown};
use slipway_rollout::provider::{
    self, Answer, CLOUD_WATCH_TARGET, CredentialRef, KayentaProgress, OAuth2, Question, cloud_watch_input,
    kayenta_progress,
};

use super::Analysis;
use super::secrets::hide;
use crate::engines::application_sets::aws;

/// Requests until a judgement of Kayenta is under way, and one more.
const KAYENTA_MAX: usize = 3;
/// Seconds that an answer is waited for, whatever a metric says: the runs of everybody share a few workers.
const TIMEOUT_MAX: u64 = 300;

pub(super) fn written(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A measurement that could not be taken.
pub(super) fn failed(why: impl Into<String>) -> Measurement {
    Measurement { phase: ERROR.into(), message: why.into(), ..Measurement::default() }
}

/// What an answer means.
fn judged(metric: &Metric, answer: Answer) -> Measurement {
    let (phase, message) = judge(metric, &answer.value, Timestamp::now());
    let value = answer.shown.unwrap_or_else(|| shown(&answer.value));
    Measurement { phase: phase.into(), message, value, metadata: answer.metadata, ..Measurement::default() }
}

/// What proves who asks, as it is sent: a password is coded there.
fn authorizations(question: &Question) -> Vec<String> {
    let all = question.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    all.map(|(_, value)| value.rsplit(' ').next().unwrap_or_default().to_owned()).collect()
}

impl Analysis {
    pub(super) async fn ask(&self, run: &AnalysisRun, metric: &Metric, task: &Task) -> Measurement {
        let mut providers = metric.provider.iter().filter(|(_, config)| !config.is_null());
        let (Some((name, config)), None) = (providers.next(), providers.next()) else {
            return failed("a metric needs exactly one provider");
        };
        let outcome = match name.as_str() {
            "job" => return self.job(run, metric, config, task).await,
            _ if task.terminate => return failed("the run was ended before it was measured"),
            "kayenta" => self.kayenta(run, metric, config, task).await,
            "cloudWatch" => self.cloud_watch(config).await.map(|answer| judged(metric, answer)),
            known if provider::is_known(known) => self.ask_once(run, metric, known, config).await,
            other => Err(format!("provider {other} is not supported by Slipway yet")),
        };
        outcome.unwrap_or_else(failed)
    }

    async fn ask_once(
        &self,
        run: &AnalysisRun,
        metric: &Metric,
        name: &str,
        config: &Value,
    ) -> Result<Measurement, String> {
        let secret = match provider::credentials(name, config) {
            Some(at) => self.secret(run, &at).await?,
            None => BTreeMap::new(),
        };
        let mut hidden: Vec<String> = secret.values().map(|value| value.trim().to_owned()).collect();
        let now = Timestamp::now();
        let outcome = match provider::question(name, config, &secret, now) {
            Ok(question) => {
                hidden.extend(authorizations(&question));
                self.fetch(question, &mut hidden).await
            }
            Err(why) => Err(why),
        };
        let outcome = outcome.and_then(|body| provider::answer(name, config, &body, now));
        let mut measurement = outcome.map_or_else(failed, |answer| judged(metric, answer));
        // Whoever was asked may say what he was asked with.
        hidden.retain(|value| value.len() > 2);
        hide(&mut measurement, &hidden);
        Ok(measurement)
    }

    /// Credentials of a provider: of the engine's own namespace, or of the run's where the metric says so.
    async fn secret(
        &self,
        run: &AnalysisRun,
        at: &CredentialRef,
    ) -> Result<BTreeMap<String, String>, String> {
        let namespace = if at.namespaced { &run.metadata.namespace } else { &self.namespace };
        let key = ObjectKey::new("", "Secret", namespace, &at.name);
        let found = self.cluster.read_version("v1", &key).await.map_err(|error| error.to_string())?;
        let found =
            found.ok_or_else(|| format!("secret '{}' not found in namespace '{namespace}'", at.name))?;
        let mut all = BTreeMap::new();
        for (name, value) in found["data"].as_object().into_iter().flatten() {
            let bytes =
                value.as_str().and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok());
            all.extend(
                bytes.and_then(|bytes| String::from_utf8(bytes).ok()).map(|text| (name.clone(), text)),
            );
        }
        Ok(all)
    }

    async fn kayenta(
        &self,
        run: &AnalysisRun,
        metric: &Metric,
        config: &Value,
        task: &Task,
    ) -> Result<Measurement, String> {
        let metadata = task.under_way.as_ref().map(|before| before.metadata.clone()).unwrap_or_default();
        let started = run.status.started_at.as_deref();
        let mut answers: Vec<Vec<u8>> = Vec::new();
        while answers.len() < KAYENTA_MAX {
            match kayenta_progress(config, &metric.interval, started, &metadata, &answers, Timestamp::now())?
            {
                KayentaProgress::Ask(question) => answers.push(self.fetch(question, &mut Vec::new()).await?),
                KayentaProgress::Later { metadata, resume_at } => {
                    let resume_at = Some(written(resume_at));
                    let phase = "Running".to_owned();
                    return Ok(Measurement { phase, metadata, resume_at, ..Measurement::default() });
                }
                KayentaProgress::Done { phase, value, metadata } => {
                    return Ok(Measurement {
                        phase: phase.into(),
                        value,
                        metadata,
                        ..Measurement::default()
                    });
                }
            }
        }
        Err("Kayenta does not come to an end".into())
    }

    /// With the engine's own credentials of Amazon, and in its region.
    async fn cloud_watch(&self, config: &Value) -> Result<Answer, String> {
        let now = Timestamp::now();
        let input = cloud_watch_input(config, now)?;
        let environment = |name: &str| std::env::var(name).ok();
        let session = aws::Session::open(&self.egress, &environment, "", "").await?;
        let answer =
            session.act_in("application/x-amz-json-1.0", "monitoring", CLOUD_WATCH_TARGET, &input).await?;
        if !(200..300).contains(&answer.status) {
            return Err(format!("received non 2xx response code: {}", answer.status));
        }
        provider::answer("cloudWatch", config, &answer.body, now)
    }

    /// The body of an answer of 2xx, or a sentence. What must not be shown is added to `hidden`.
    async fn fetch(&self, mut question: Question, hidden: &mut Vec<String>) -> Result<Vec<u8>, String> {
        if let Some(way) = question.oauth2.take() {
            hidden.push(way.client_secret.clone());
            let token = self.token(&way, question.timeout_seconds, question.insecure).await?;
            hidden.push(token.clone());
            question.headers.push(("authorization".into(), format!("Bearer {token}")));
        }
        self.send(&question).await
    }

    async fn token(&self, way: &OAuth2, timeout_seconds: u64, insecure: bool) -> Result<String, String> {
        let client = format!("{}:{}", way.client_id, way.client_secret);
        let client = base64::engine::general_purpose::STANDARD.encode(client);
        let mut form = "grant_type=client_credentials".to_owned();
        if !way.scopes.is_empty() {
            form += &format!("&scope={}", slipway_dialect::percent::encode(&way.scopes.join(" ")));
        }
        let question = Question {
            method: "POST",
            url: way.token_url.clone(),
            headers: vec![
                ("authorization".into(), format!("Basic {client}")),
                ("content-type".into(), "application/x-www-form-urlencoded".into()),
            ],
            body: Some(form.into_bytes()),
            timeout_seconds,
            insecure,
            ..Question::default()
        };
        let body = self.send(&question).await.map_err(|why| format!("no token: {why}"))?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        let token = answer["access_token"].as_str().filter(|token| !token.is_empty());
        token.map(str::to_owned).ok_or_else(|| "no token: the answer has no access_token".into())
    }

    async fn send(&self, question: &Question) -> Result<Vec<u8>, String> {
        let whole = Duration::from_secs(question.timeout_seconds.clamp(1, TIMEOUT_MAX));
        let limits = Limits { whole, ..Limits::default() };
        let trust = Trust { insecure: question.insecure, ..Trust::default() };
        let settings = Settings { rules: self.egress.clone(), limits, trust, ..Settings::default() };
        let client = Client::new(settings).map_err(|error| error.to_string())?;
        let headers: Vec<(&str, &str)> =
            question.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let request = Request {
            method: question.method,
            url: &question.url,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever answers with the headers that he got shows the password as it was sent.
    #[test]
    fn a_password_is_hidden_as_it_is_sent() {
        let config = serde_json::json!({"address": "http://p", "query": "x",
            "authentication": {"basicAuth": {"username": "me", "password": "hunter2"}}});
        let question = provider::question("prometheus", &config, &BTreeMap::new(), Timestamp::UNIX_EPOCH);
        let hidden = authorizations(&question.expect("a question"));
        let mut measurement =
            Measurement { value: "\"Basic bWU6aHVudGVyMg==\"".into(), ..Measurement::default() };
        hide(&mut measurement, &hidden);
        assert_eq!(measurement.value, "\"Basic *****\"");
    }
}
