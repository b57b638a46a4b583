//! The operation under way: plan, write down, apply, and again, until there is an outcome or something to wait for.
//!
//! Everything that the next step needs is on the Application and in the cluster before the step runs, so that a
//! process that is killed anywhere goes on where it was.

use std::sync::Arc;

use jiff::Timestamp;
use slipway_crd::{ConditionType, OperationPhase, OperationState, SyncOperation, SyncResult};
use slipway_gitops::compare::rfc3339;
use slipway_gitops::sync::{self, Outcome, OutcomePhase, SyncPlan, SyncProgress, WaitingOn};
use slipway_gitops::windows::{self, WindowQuery, WindowVerdict};
use slipway_gitops::{Retry, retried_message, retry_decision, retry_message};
use slipway_reconcile::{Stop, Wake};

use super::batches::{run_steps, try_steps};
use super::manifests::Failure;
use super::observe::{Observed, Observer};
use super::session::{Recorder, Session};
use super::sources::Desired;
use super::{permits, requested, status};
use crate::clusters::IN_CLUSTER;

/// A plan that never ends is a defect; the application is looked at again later instead of for ever.
const ROUNDS: usize = 2_000;

/// Turns the request into an operation under way. Nothing is written yet.
pub(super) fn begin(session: &mut Session<'_>, now: Timestamp) {
    let operation = session.app.operation.clone().unwrap_or_default();
    session.memory.operation.progress = None;
    session.app.status.operation_state = Some(OperationState {
        operation,
        phase: OperationPhase::Running,
        started_at: rfc3339(now),
        ..OperationState::default()
    });
}

/// Who carries operations out.
pub(super) struct Operator {
    pub(super) observer: Arc<Observer>,
    pub(super) recorder: Arc<Recorder>,
}

impl Operator {
    /// Drives the operation as far as it goes now. Gives the last look at the Application.
    pub(super) async fn operate(
        &self,
        session: &mut Session<'_>,
        observed: Observed,
    ) -> Result<Observed, Stop> {
        session.memory.operation.waiting.clear();
        session.memory.operation.awaiting_health = false;
        if self.waits_for_retry(session) || self.waits_for_window(session, &observed) {
            return Ok(observed);
        }
        let Some(sync) = session.app.status.operation_state.as_ref().and_then(|s| s.operation.sync.clone())
        else {
            let outcome = Outcome {
                phase: OutcomePhase::Error,
                message: "the operation has no `sync`; nothing else can be asked for".into(),
            };
            return self.finish(session, observed, None, &outcome, true).await;
        };
        let permits = self.observer.permits();
        let destination = permits.clusters.destination(&session.app);
        if let Err(message) = destination.map_or(Ok(()), |to| permits.writer(&session.app, &to).map(drop)) {
            let outcome = Outcome { phase: OutcomePhase::Error, message };
            return self.finish(session, observed, None, &outcome, true).await;
        }
        let (mut current, is_spec) = self.operation_view(session, &sync, observed).await;
        for _ in 0..ROUNDS {
            let now = Timestamp::now();
            let mut progress = self.progress(session, current.desired.as_deref(), now);
            let plan = sync::plan(&current.comparison, &sync, &progress);
            progress.results.clone_from(&plan.results);
            self.write_down(session, &plan, &current);
            if let Some(outcome) = &plan.outcome {
                let deployed = current.desired.clone().filter(|_| !sync.dry_run);
                return self.finish(session, current, deployed, outcome, is_spec).await;
            }
            if !plan.dry_run.is_empty() && !progress.dry_run_done {
                if let Some(writer) = permits.own_writer(&session.app) {
                    try_steps(&writer, &plan, sync.dry_run, &mut progress).await;
                }
                session.memory.operation.progress = Some(progress);
                continue;
            }
            if plan.ready.is_empty() {
                self.wait(session, &plan, progress);
                // The status shows the spec's comparison, not the operation's.
                let shown = if is_spec {
                    current
                } else {
                    let app = session.app.clone();
                    self.observer.observe(&app, Wake::STATE, session.memory).await
                };
                session.app.status = status::compared(&session.app, &shown, now);
                return Ok(shown);
            }
            self.recorder.save(session).await?;
            // It was there when the plan was made; the next look says what became of it.
            if let Some(writer) = permits.own_writer(&session.app) {
                run_steps(&writer, &plan, &mut progress).await;
            }
            session.memory.operation.progress = Some(progress);
            current = self.observe_again(session, current).await;
        }
        tracing::error!(application = %session.key, "A sync made no progress; it is looked at again later.");
        Ok(current)
    }

    /// Between two attempts: the time of the next one is on the Application.
    fn waits_for_retry(&self, session: &mut Session<'_>) -> bool {
        let now = Timestamp::now();
        let Some(state) = &mut session.app.status.operation_state else { return false };
        let (Some(finished), OperationPhase::Running) = (state.finished_at.clone(), &state.phase) else {
            return false;
        };
        let finished: Timestamp = finished.parse().unwrap_or(now);
        let before = OperationState { retry_count: (state.retry_count - 1).max(0), ..state.clone() };
        if let Retry::Again { at, .. } = retry_decision(&before, finished)
            && at > now
        {
            session.memory.operation.waiting.push(state.message.clone());
            session.requeue_at_time(Some(at));
            return true;
        }
        state.finished_at = None;
        state.sync_result = None;
        if state.operation.retry.refresh
            && let Some(sync) = &mut state.operation.sync
        {
            sync.revision.clear();
            sync.revisions.clear();
        }
        session.memory.operation.progress = None;
        false
    }

    fn waits_for_window(&self, session: &mut Session<'_>, observed: &Observed) -> bool {
        let Some(state) = &mut session.app.status.operation_state else { return false };
        let Some(project) = observed.project.as_ref().filter(|_| state.phase == OperationPhase::Running)
        else {
            return false;
        };
        let began = state.sync_result.as_ref().is_some_and(|result| !result.resources.is_empty());
        let query = WindowQuery {
            now: Timestamp::now(),
            manual: !state.operation.initiated_by.automated,
            running_since: state.started_at.parse().ok().filter(|_| began),
        };
        let matching = windows::matching(
            &project.spec.sync_windows,
            &session.saved,
            &session.memory.destination.as_ref().map_or(IN_CLUSTER, |to| to.names()),
        );
        let WindowVerdict::Closed { why, again_at } = windows::can_sync(&matching, query) else {
            return false;
        };
        state.message = format!("Sync operation blocked by sync window: {why}");
        session.memory.operation.waiting.push(state.message.clone());
        session.requeue_at_time(again_at);
        true
    }

    /// What the operation compares with: its own revision and sources. `true`: they are the spec's.
    async fn operation_view(
        &self,
        session: &mut Session<'_>,
        sync: &SyncOperation,
        observed: Observed,
    ) -> (Observed, bool) {
        let app = session.app.clone();
        let sources = requested::sources(&app, sync);
        let pinned = requested::pinned_revisions(&app, sync);
        if let Some(desired) = &observed.desired
            && sync.manifests.is_empty()
            && desired.sources == sources
            && (desired.revisions() == pinned || pinned.is_empty() && observed.stale.is_none())
        {
            return (observed, true);
        }
        let Some(project) = observed.project.clone() else { return (observed, true) };
        let desired = if sync.manifests.is_empty() {
            let wake = requested::wake(&app, &pinned);
            match self.observer.manifests.desired(&app, &sources, &pinned, wake, session.memory).await {
                Ok(found) if found.stale.is_none() => found.desired,
                Ok(found) => {
                    let message = found.stale.unwrap_or_default();
                    let failure = Failure {
                        condition: ConditionType::ComparisonError,
                        message,
                        again_at: found.again_at,
                    };
                    return (self.observer.failed(&app, failure, Some(project)), false);
                }
                Err(failure) => return (self.observer.failed(&app, failure, Some(project)), false),
            }
        } else if let Err(failure) = permits::check_local(&project) {
            return (self.observer.failed(&app, failure, Some(project)), false);
        } else {
            Arc::new(requested::local_manifests(sync, &sources))
        };
        (self.observer.compare_with(&app, desired, project, observed.again_at, session.memory).await, false)
    }

    async fn observe_again(&self, session: &mut Session<'_>, before: Observed) -> Observed {
        match (before.desired, before.project) {
            (Some(desired), Some(project)) => {
                let app = session.app.clone();
                self.observer.compare_with(&app, desired, project, before.again_at, session.memory).await
            }
            (desired, project) => Observed { desired, project, ..before },
        }
    }

    fn progress(&self, session: &mut Session<'_>, desired: Option<&Desired>, now: Timestamp) -> SyncProgress {
        let state = session.app.status.operation_state.clone().unwrap_or_default();
        let fresh = SyncProgress::from_state(&state, now);
        let mut progress = match session.memory.operation.progress.take() {
            Some(known) if known.operation_id == fresh.operation_id => {
                SyncProgress { now, terminating: fresh.terminating, ..known }
            }
            _ => fresh,
        };
        if progress.revision.is_empty() {
            let revision =
                desired.and_then(|desired| desired.revisions.first()).map(|revision| revision.id.clone());
            progress.revision = revision.unwrap_or_default();
        }
        progress
    }

    /// Puts the plan's view of the operation on the Application.
    fn write_down(&self, session: &mut Session<'_>, plan: &SyncPlan, current: &Observed) {
        let several = session.app.spec.has_several_sources();
        let Some(state) = &mut session.app.status.operation_state else { return };
        let (_, message) = plan.phase_and_message();
        state.message = message;
        let result = state.sync_result.get_or_insert_with(SyncResult::default);
        if let Some(desired) = &current.desired {
            let revisions = desired.revisions();
            if several {
                result.revisions = revisions;
                result.sources = desired.sources.clone();
            } else {
                result.revision = revisions.into_iter().next().unwrap_or_default();
                result.source = desired.sources.first().cloned().unwrap_or_default();
            }
        }
        result.managed_namespace_metadata = current.comparison.context.managed_namespace_metadata.clone();
        result.resources.clone_from(&plan.results);
    }

    fn wait(&self, session: &mut Session<'_>, plan: &SyncPlan, progress: SyncProgress) {
        session.memory.operation.waiting = plan.waiting.iter().map(|waiting| waiting.plain()).collect();
        session.memory.operation.awaiting_health = !plan.waiting.is_empty()
            && plan
                .waiting
                .iter()
                .all(|waiting| matches!(waiting.on, WaitingOn::Health(_) | WaitingOn::Time(_)));
        for waiting in &plan.waiting {
            if let WaitingOn::Time(at) = &waiting.on {
                session.requeue_at_time(Some(*at));
            }
        }
        let settings = self.observer.permits().settings.get();
        for (limit, since) in [
            (settings.sync_timeout_seconds, progress.started_at),
            (settings.wave_timeout_seconds, progress.last_step_at()),
        ] {
            if limit > 0 {
                session.requeue_at_time(since.checked_add(jiff::SignedDuration::from_secs(limit + 1)).ok());
            }
        }
        session.memory.operation.progress = Some(progress);
    }

    /// The end, or the end of this attempt.
    async fn finish(
        &self,
        session: &mut Session<'_>,
        current: Observed,
        deployed: Option<Arc<Desired>>,
        outcome: &Outcome,
        is_spec: bool,
    ) -> Result<Observed, Stop> {
        let now = Timestamp::now();
        session.memory.operation.progress = None;
        session.memory.operation.waiting.clear();
        let Some(state) = &mut session.app.status.operation_state else { return Ok(current) };
        let retry = match outcome.phase {
            OutcomePhase::Succeeded => Retry::Over,
            OutcomePhase::Failed | OutcomePhase::Error => retry_decision(state, now),
        };
        state.finished_at = Some(rfc3339(now));
        if let Retry::Again { at, attempt } = retry {
            state.message = retry_message(&outcome.message, attempt, at);
            state.retry_count = attempt;
            session.memory.operation.waiting.push(state.message.clone());
            session.requeue_at_time(Some(at));
            return Ok(current);
        }
        state.phase = outcome.phase.into();
        state.message = match outcome.phase {
            OutcomePhase::Succeeded => outcome.message.clone(),
            OutcomePhase::Failed | OutcomePhase::Error => {
                retried_message(&outcome.message, state.retry_count)
            }
        };
        let whole = state.operation.sync.as_ref().is_some_and(|sync| sync.resources.is_empty());
        tracing::info!(application = %session.key, phase = %state.phase, message = %state.message, "A sync ended.");
        session.app.operation = None;
        if outcome.phase == OutcomePhase::Succeeded
            && whole
            && let Some(deployed) = &deployed
        {
            let app = session.app.clone();
            status::add_history(&app, &mut session.app.status, deployed, now);
        }
        // The status tells how live compares with the spec now, not with what was synced.
        let observed = if is_spec {
            current
        } else {
            let app = session.app.clone();
            self.observer.observe(&app, Wake::STATE, session.memory).await
        };
        session.app.status = status::compared(&session.app, &observed, now);
        Ok(observed)
    }
}
