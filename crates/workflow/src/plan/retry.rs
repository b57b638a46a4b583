//! A node that is tried again: its children are the attempts.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use slipway_crd::workflow::{NodeStatus, RetryStrategy};
use slipway_dialect::duration;

use super::execute::{Call, Found};
use super::nodes::{Fresh, has_failed, is_fulfilled};
use super::{Halt, Run};
use crate::scope::{Scope, text_of};

/// So many attempts may end where they begin, without a pod that ran: those that follow wait, or a plan would never end.
const AT_ONCE_MAX: i64 = 10;

/// What follows from the last attempt.
enum Verdict {
    Again,
    Later(Timestamp, String),
    End(String),
}

impl Run<'_> {
    pub(super) fn execute_with_retries(
        &mut self,
        call: &Call,
        found: &Found,
        strategy: &RetryStrategy,
    ) -> Result<Option<String>, Halt> {
        let (_, scope) = self.inputs(&found.template, &call.arguments)?;
        let is_new = self.node(&call.name).is_none();
        if is_new && !self.may_run_a_pod(&found.template) {
            return Err(Halt::Limit);
        }
        let id = self.make_node(call, &Fresh { kind: "Retry", phase: "Running", message: "" });
        loop {
            let attempts = self.status.nodes[&id].children.clone();
            let last = attempts.last().and_then(|last| self.status.nodes.get(last)).cloned();
            let at = match &last {
                None => 0,
                Some(last) if !is_fulfilled(last) => attempts.len() - 1,
                Some(last) if !has_failed(last) => {
                    if let Some(node) = self.status.nodes.get_mut(&id) {
                        node.outputs.clone_from(&last.outputs);
                        node.daemoned = last.daemoned;
                        node.pod_ip.clone_from(&last.pod_ip);
                        if last.daemoned == Some(true) {
                            return Ok(Some(id));
                        }
                    }
                    self.mark(&call.name, &last.phase, &last.message);
                    return Ok(Some(id));
                }
                Some(last) => match self.judge(call, strategy, &attempts, last, &scope)? {
                    Verdict::Again => attempts.len(),
                    Verdict::Later(at, message) => {
                        if let Some(node) = self.status.nodes.get_mut(&id) {
                            node.message = message;
                        }
                        self.look_again_at(at);
                        return Ok(Some(id));
                    }
                    Verdict::End(message) => {
                        self.mark(&call.name, &last.phase, &message);
                        return Ok(Some(id));
                    }
                },
            };
            // One that goes on is told of the one before it.
            let before = at.checked_sub(1).and_then(|before| self.status.nodes.get(attempts.get(before)?));
            let attempt = self.attempt(call, at, before);
            if let Some(node) = self.status.nodes.get_mut(&id) {
                node.message.clear();
            }
            let child = match self.dispatch(&attempt, found) {
                Ok(child) => child,
                Err(Halt::Limit) => return Ok(Some(id)),
                Err(Halt::Error(why)) => {
                    self.fail_node(&attempt, &why);
                    self.node_id_of(&attempt.name)
                }
            };
            let Some(child) = child else { return Ok(Some(id)) };
            self.link(&id, &child);
            if !is_fulfilled(&self.status.nodes[&child]) {
                return Ok(Some(id));
            }
        }
    }

    fn attempt(&self, call: &Call, at: usize, last: Option<&NodeStatus>) -> Call {
        let mut local = call.local.clone();
        local.set("retries", at.to_string());
        about_last(&mut local, last, self.now);
        Call { name: format!("{}({at})", call.name), retried: true, local, ..call.clone() }
    }

    fn judge(
        &self,
        call: &Call,
        strategy: &RetryStrategy,
        attempts: &[String],
        last: &NodeStatus,
        scope: &Scope,
    ) -> Result<Verdict, Halt> {
        if self.is_ending() && !call.on_exit {
            return Ok(Verdict::End(format!("Stopped with strategy '{}'", self.spec.shutdown)));
        }
        let number = |value: &Option<Value>| -> Result<Option<i64>, String> {
            let Some(value) = value else { return Ok(None) };
            let text = scope.fill_text(&text_of(value), self.now)?;
            text.trim().parse().map(Some).map_err(|_| format!("retryStrategy: `{text}` is no number"))
        };
        let made = i64::try_from(attempts.len()).unwrap_or(i64::MAX);
        let policy = match strategy.retry_policy.as_str() {
            "" if strategy.expression.is_empty() => "OnFailure",
            "" => "Always",
            policy => policy,
        };
        let allowed = match policy {
            "Always" => true,
            "OnError" => last.phase == "Error",
            "OnTransientError" => last.phase == "Error" && is_transient(&last.message),
            _ => last.phase == "Failed",
        };
        if !allowed {
            return Ok(Verdict::End(last.message.clone()));
        }
        if number(&strategy.limit)?.is_some_and(|limit| made > limit) {
            return Ok(Verdict::End("No more retries left".into()));
        }
        if !strategy.expression.is_empty() {
            let mut scope = scope.clone();
            scope.set("retries", (made - 1).to_string());
            about_last(&mut scope, Some(last), self.now);
            match scope.holds(&strategy.expression, self.now) {
                Ok(true) => {}
                Ok(false) => {
                    return Ok(Verdict::End("retryStrategy.expression evaluated to false".into()));
                }
                Err(why) => return Ok(Verdict::End(format!("retryStrategy.expression: {why}"))),
            }
        }
        let least = match last.started_at == last.finished_at && made >= AT_ONCE_MAX {
            true => SignedDuration::from_secs(made.min(60)),
            false => SignedDuration::ZERO,
        };
        let backoff = strategy.backoff.clone().unwrap_or_default();
        let text = |value: &Option<Value>| value.as_ref().map(text_of).unwrap_or_default();
        let wait = seconds(&scope.fill_text(&text(&backoff.duration), self.now)?)?;
        let factor = number(&backoff.factor)?.unwrap_or(1).max(1);
        let mut wait =
            (1..made).fold(wait, |wait, _| wait.saturating_mul(i32::try_from(factor).unwrap_or(i32::MAX)));
        if !backoff.cap.is_empty() {
            wait = wait.min(seconds(&backoff.cap)?);
        }
        let wait = wait.max(least);
        let time = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
        let ended = time(&last.finished_at).unwrap_or(self.now);
        let next = ended.checked_add(wait).unwrap_or(Timestamp::MAX);
        if !backoff.max_duration.is_empty() {
            let first = attempts.first().and_then(|first| self.status.nodes.get(first));
            let began = first.and_then(|first| time(&first.started_at)).unwrap_or(self.now);
            let limit = began.checked_add(seconds(&backoff.max_duration)?).unwrap_or(Timestamp::MAX);
            if self.now > limit {
                return Ok(Verdict::End("Max duration limit exceeded".into()));
            }
            if next > limit {
                return Ok(Verdict::End("Backoff would exceed max duration limit".into()));
            }
        }
        Ok(if next > self.now {
            Verdict::Later(next, format!("Backoff for {}", shown(wait)))
        } else {
            Verdict::Again
        })
    }
}

fn about_last(scope: &mut Scope, last: Option<&NodeStatus>, now: Timestamp) {
    let exit_code = last.and_then(|last| last.outputs.as_ref()).and_then(|outputs| outputs.exit_code.clone());
    scope.set("lastRetry.exitCode", exit_code.unwrap_or_else(|| "0".into()));
    scope.set("lastRetry.status", last.map(|last| last.phase.clone()).unwrap_or_default());
    scope.set("lastRetry.message", last.map(|last| last.message.clone()).unwrap_or_default());
    let time = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
    let lasted = last.and_then(|last| {
        Some(time(&last.finished_at).unwrap_or(now).duration_since(time(&last.started_at)?).as_secs())
    });
    scope.set("lastRetry.duration", lasted.unwrap_or_default().to_string());
}

/// Seconds alone, or a duration of Go.
pub(super) fn seconds(text: &str) -> Result<SignedDuration, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(SignedDuration::ZERO);
    }
    let milliseconds = duration::parse_or_seconds(text).ok_or_else(|| format!("`{text}` is no duration"))?;
    Ok(SignedDuration::from_millis(milliseconds.max(0)))
}

fn shown(wait: SignedDuration) -> String {
    format!("{} minutes {} seconds", wait.as_secs() / 60, wait.as_secs() % 60)
}

/// What may be better the next time, as messages of the API server and of nodes say it.
fn is_transient(message: &str) -> bool {
    let message = message.to_lowercase();
    [
        "timeout",
        "timed out",
        "connection reset",
        "connection refused",
        "too many requests",
        "evicted",
        "preempt",
    ]
    .iter()
    .any(|part| message.contains(part))
}
