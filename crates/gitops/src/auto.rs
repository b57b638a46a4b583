//! Automated sync: is a sync to be started, and what happens after a failed one?

use crate::cluster::Settings;
use crate::compare::{Comparison, ResourceState, SyncCode, rfc3339};
use crate::project::ClusterNames;
use crate::windows::{self, WindowQuery, WindowVerdict};
use jiff::{SignedDuration, Timestamp};
use slipway_crd::{
    Application, Automated, Condition, ConditionType, InitiatedBy, Operation, OperationPhase, OperationState,
    RetryStrategy, SyncOperation, SyncResource, SyncWindow,
};
use slipway_dialect::duration;

/// What the decision is made from.
#[derive(Debug, Clone, Copy)]
pub struct AutoSyncInput<'a> {
    pub application: &'a Application,
    pub comparison: &'a Comparison,
    /// The revisions that were compared to, one per source.
    pub revisions: &'a [String],
    pub windows: &'a [SyncWindow],
    pub cluster: ClusterNames<'a>,
    pub settings: &'a Settings,
    pub in_flight: InFlight,
    pub now: Timestamp,
}

/// What the operation that is under way is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFlight {
    /// There is none, or it is not known.
    Idle,
    /// It has steps to run or waits for a hook, a deletion or a person.
    Working,
    /// It has nothing to run and waits for health alone.
    AwaitingHealth,
}

/// The decision.
#[derive(Debug, Clone, PartialEq)]
pub enum AutoSync {
    Start {
        operation: Box<Operation>,
        why: String,
    },
    /// A newer revision takes the place of an automated operation that gets nowhere.
    Supersede {
        operation: Box<Operation>,
        why: String,
    },
    /// Not yet.
    Wait {
        until: Option<Timestamp>,
        why: String,
    },
    Skip {
        why: String,
    },
    /// It would be wrong; people must know.
    Refuse {
        condition: Condition,
    },
}

/// Decides whether an automated sync starts.
pub fn auto_sync_decision(input: AutoSyncInput<'_>) -> AutoSync {
    let application = input.application;
    let Some(automated) = application.spec.automation() else { return skip("automated sync is off") };
    if application.metadata.deletion_timestamp.is_some() {
        return skip("the application is being deleted");
    }
    match input.comparison.sync_status {
        SyncCode::Unknown => return skip("the comparison failed"),
        SyncCode::Synced => return skip("live is as desired"),
        SyncCode::OutOfSync => {}
    }
    let prune = automated.prune == Some(true);
    let drift = || input.comparison.resources.iter().filter(|r| r.status == Some(SyncCode::OutOfSync));
    if !prune && drift().all(|r| r.requires_pruning) {
        return skip("only pruning is needed, and automated prune is off");
    }
    if prune && automated.allow_empty != Some(true) && wipes_out(input.comparison) {
        let message = format!(
            "Skipping sync attempt to {}: auto-sync will wipe out all resources",
            shown(input.revisions)
        );
        return refuse(&input, message);
    }
    match in_flight(&input) {
        Flight::Free => {}
        Flight::Busy(why) => return skip(why),
        Flight::Stuck(why) => {
            return match closed(&input) {
                Some(wait) => wait,
                None => AutoSync::Supersede {
                    operation: Box::new(operation(&input, automated, Vec::new(), 0)),
                    why,
                },
            };
        }
        Flight::Narrow(attempts) => {
            return match closed(&input) {
                Some(wait) => wait,
                None => AutoSync::Supersede {
                    operation: Box::new(operation(
                        &input,
                        automated,
                        drifted(input.comparison, prune),
                        attempts,
                    )),
                    why: "more has drifted than what is being repaired".into(),
                },
            };
        }
    }
    decide_start(&input, automated)
}

fn decide_start(input: &AutoSyncInput<'_>, automated: &Automated) -> AutoSync {
    let attempted =
        input.application.status.operation_state.as_ref().filter(|state| is_same_attempt(input, state));
    let (resources, attempts) = match attempted {
        None => (Vec::new(), 0),
        // A repair that failed says nothing about the revision: what it stumbled over may have passed, or more of it
        // may have drifted since.
        Some(state) if state.phase != OperationPhase::Succeeded && !is_repair(state) => {
            let message =
                format!("Failed last sync attempt to {}: {}", shown(input.revisions), state.message);
            return refuse(input, message);
        }
        Some(_) if automated.self_heal != Some(true) => {
            return skip("this revision was synced already, and self-heal is off");
        }
        Some(state) => {
            let drift = drifted(input.comparison, automated.prune == Some(true));
            if drift.is_empty() {
                return skip("what is to be pruned is being deleted already");
            }
            match self_heal(input, state) {
                Ok(attempts) => (drift, attempts),
                Err(wait) => return wait,
            }
        }
    };
    if let Some(wait) = closed(input) {
        return wait;
    }
    let why = if attempted.is_some() {
        "live was changed: self-heal".to_string()
    } else {
        format!("Initiated automated sync to '{}'", input.revisions.join(", "))
    };
    AutoSync::Start { operation: Box::new(operation(input, automated, resources, attempts)), why }
}

fn skip(why: &str) -> AutoSync {
    AutoSync::Skip { why: why.into() }
}

fn refuse(input: &AutoSyncInput<'_>, message: String) -> AutoSync {
    let before = input
        .application
        .status
        .conditions
        .iter()
        .find(|c| c.kind == ConditionType::SyncError && c.message == message);
    let time = before.and_then(|c| c.last_transition_time.clone()).unwrap_or_else(|| rfc3339(input.now));
    AutoSync::Refuse {
        condition: Condition {
            kind: ConditionType::SyncError,
            message,
            last_transition_time: Some(time),
            ..Condition::default()
        },
    }
}

fn shown(revisions: &[String]) -> String {
    format!("[{}]", revisions.join(" "))
}

fn wipes_out(comparison: &Comparison) -> bool {
    let mut counted = comparison.resources.iter().filter(|r| !r.hook && r.live.is_some()).peekable();
    counted.peek().is_some()
        && counted.all(|r| r.requires_pruning)
        && !comparison.resources.iter().any(|r| !r.hook && r.target.is_some())
}

fn closed(input: &AutoSyncInput<'_>) -> Option<AutoSync> {
    let windows = windows::matching(input.windows, input.application, &input.cluster);
    let query = WindowQuery { now: input.now, manual: false, running_since: None };
    match windows::can_sync(&windows, query) {
        WindowVerdict::Open => None,
        WindowVerdict::Closed { why, again_at } => Some(AutoSync::Wait { until: again_at, why }),
    }
}

enum Flight {
    Free,
    Busy(&'static str),
    Stuck(String),
    /// A repair that keeps failing and does not hold all that has drifted; its number of attempts.
    Narrow(i64),
}

/// A sync that self-heal began.
fn is_repair(state: &OperationState) -> bool {
    state.operation.sync.as_ref().is_some_and(|sync| sync.auto_heal_attempts_count > 0)
}

/// An operation under way is left alone, unless it is automated, gets nowhere and a newer revision is there.
fn in_flight(input: &AutoSyncInput<'_>) -> Flight {
    let application = input.application;
    let state = application.status.operation_state.as_ref();
    let running = state.filter(|s| s.phase.is_under_way());
    let Some(state) = running else {
        return if application.operation.is_some() {
            Flight::Busy("an operation was asked for already")
        } else {
            Flight::Free
        };
    };
    if state.phase == OperationPhase::Terminating {
        return Flight::Busy("an operation is being ended");
    }
    let automated = state.operation.initiated_by.automated;
    let failing = state.retry_count > 0 || state.finished_at.is_some();
    let stuck = failing || input.in_flight == InFlight::AwaitingHealth;
    if automated && stuck && input.in_flight != InFlight::Working && !is_same_attempt(input, state) {
        let how = if failing { "keeps failing" } else { "waits for health that may never come" };
        return Flight::Stuck(format!("{} takes the place of a sync that {how}", shown(input.revisions)));
    }
    if let Some(sync) = state.operation.sync.as_ref().filter(|_| automated && failing && is_repair(state))
        && input.in_flight != InFlight::Working
        && drifted(input.comparison, sync.prune).iter().any(|drift| !sync.resources.contains(drift))
    {
        return Flight::Narrow(sync.auto_heal_attempts_count);
    }
    Flight::Busy("another operation is in progress")
}

/// The same revisions of the same sources were synced, or are being synced.
fn is_same_attempt(input: &AutoSyncInput<'_>, state: &OperationState) -> bool {
    let spec = &input.application.spec;
    let several = spec.has_several_sources();
    match &state.sync_result {
        Some(result) if several => result.revisions == input.revisions && result.sources == spec.sources,
        Some(result) => {
            Some(&result.revision) == input.revisions.first()
                && Some(&result.source) == spec.effective_sources().first()
        }
        None => state.operation.sync.as_ref().is_some_and(|sync| {
            if several {
                sync.revisions == input.revisions
            } else {
                Some(&sync.revision) == input.revisions.first()
            }
        }),
    }
}

/// Self-heal waits longer after each attempt, and forgets attempts after a quiet time.
fn self_heal(input: &AutoSyncInput<'_>, state: &OperationState) -> Result<i64, AutoSync> {
    let (first, factor, longest) = input.settings.self_heal_backoff;
    let attempts = state.operation.sync.as_ref().map_or(0, |sync| sync.auto_heal_attempts_count);
    let Some(finished) = state.finished_at.as_ref().and_then(|t| t.parse::<Timestamp>().ok()) else {
        return Ok(attempts + 1);
    };
    let since = input.now.duration_since(finished).as_secs();
    if since > longest + longest / 10 {
        return Ok(1);
    }
    let wait = first.saturating_mul(factor.saturating_pow(attempts.clamp(0, 32) as u32)).min(longest);
    if since < wait {
        let until = finished.checked_add(SignedDuration::from_secs(wait)).ok();
        return Err(AutoSync::Wait {
            until,
            why: format!("self-heal waits {wait} seconds after the last sync"),
        });
    }
    Ok(attempts + 1)
}

/// It was pruned, and only waits for its finalizers: nothing more can be done for it.
fn is_leaving(resource: &ResourceState) -> bool {
    resource.requires_pruning
        && resource.live.as_ref().is_some_and(|live| live["metadata"]["deletionTimestamp"].is_string())
}

fn drifted(comparison: &Comparison, prune: bool) -> Vec<SyncResource> {
    comparison
        .resources
        .iter()
        .filter(|r| r.status == Some(SyncCode::OutOfSync) && (prune || !r.requires_pruning))
        .filter(|r| !is_leaving(r))
        .map(|r| SyncResource {
            group: r.key.group.clone(),
            kind: r.key.kind.clone(),
            namespace: r.key.namespace.clone(),
            name: r.key.name.clone(),
            ..SyncResource::default()
        })
        .collect()
}

fn operation(
    input: &AutoSyncInput<'_>,
    automated: &Automated,
    resources: Vec<SyncResource>,
    attempts: i64,
) -> Operation {
    let spec = &input.application.spec;
    let several = spec.has_several_sources();
    let retry = spec.sync_policy.as_ref().and_then(|p| p.retry.clone());
    Operation {
        sync: Some(SyncOperation {
            revision: if several {
                String::new()
            } else {
                input.revisions.first().cloned().unwrap_or_default()
            },
            revisions: if several { input.revisions.to_vec() } else { Vec::new() },
            prune: automated.prune == Some(true),
            sync_options: spec.sync_options().to_vec(),
            resources,
            source: spec.effective_sources().first().filter(|_| !several).cloned(),
            sources: if several { spec.sources.clone() } else { Vec::new() },
            auto_heal_attempts_count: attempts,
            ..SyncOperation::default()
        }),
        initiated_by: InitiatedBy { automated: true, ..InitiatedBy::default() },
        retry: retry.unwrap_or_else(|| RetryStrategy { limit: 5, ..RetryStrategy::default() }),
        ..Operation::default()
    }
}

/// The end of an operation that was tried several times.
pub fn retried_message(message: &str, attempts: i64) -> String {
    if attempts == 0 { message.to_owned() } else { format!("{message} (retried {attempts} times).") }
}

/// What follows a failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retry {
    Again { at: Timestamp, attempt: i64 },
    Over,
}

/// Whether a failed operation is tried again, and when.
pub fn retry_decision(state: &OperationState, now: Timestamp) -> Retry {
    let strategy = &state.operation.retry;
    let allowed = strategy.limit < 0 || state.retry_count < strategy.limit;
    if !allowed || state.phase == OperationPhase::Terminating {
        return Retry::Over;
    }
    let wait = backoff_ms(strategy, state.retry_count);
    let at = now.checked_add(SignedDuration::from_millis(wait)).unwrap_or(Timestamp::MAX);
    Retry::Again { at, attempt: state.retry_count + 1 }
}

/// `min(longest, first × factor^n)`; what cannot be read is as if it were not there.
fn backoff_ms(strategy: &RetryStrategy, retries: i64) -> i64 {
    let backoff = strategy.backoff.as_ref();
    let read = |text: Option<&str>, default: i64| {
        text.filter(|t| !t.is_empty())
            .and_then(duration::parse_or_seconds)
            .filter(|ms| *ms > 0)
            .unwrap_or(default)
    };
    let first = read(backoff.map(|b| b.duration.as_str()), 5_000);
    let longest = read(backoff.map(|b| b.max_duration.as_str()), 180_000);
    let factor = backoff.and_then(|b| b.factor).filter(|f| *f > 0).unwrap_or(2);
    first.saturating_mul(factor.saturating_pow(retries.clamp(0, 62) as u32)).min(longest)
}

/// `operationState.message` while a retry is waited for; clients look for this form.
pub fn retry_message(message: &str, attempt: i64, at: Timestamp) -> String {
    format!("{message}. Retrying attempt #{attempt} at {}.", at.strftime("%-I:%M%p"))
}

#[cfg(test)]
mod tests;
