//! Whether a sync is begun, goes on, gives way to a newer one, or waits.

use std::time::Duration;

use jiff::Timestamp;
use slipway_crd::{Application, Condition, ConditionType, Operation, OperationPhase};
use slipway_gitops::compare::rfc3339;
use slipway_gitops::dependencies;
use slipway_gitops::{AutoSync, AutoSyncInput, InFlight, auto_sync_decision};
use slipway_reconcile::{Key, Stop};

use super::observe::Observed;
use super::session::Session;
use super::{Applications, is_running, operate, status};
use crate::clusters::IN_CLUSTER;
use crate::engines::APPLICATION;

/// How often it is looked whether they are ready.
const OTHERS: Duration = Duration::from_secs(2);

impl Applications {
    /// Goes on with the operation under way, or starts the one that is due.
    pub(super) async fn decide(
        &self,
        session: &mut Session<'_>,
        observed: Observed,
    ) -> Result<Observed, Stop> {
        let now = Timestamp::now();
        if is_running(&session.app) {
            if self.superseded(session, &observed, now)
                && let Some(state) = &mut session.app.status.operation_state
            {
                state.phase = OperationPhase::Terminating;
            }
            return self.operator.operate(session, observed).await;
        }
        if session.app.operation.is_some() {
            operate::begin(session, now);
            return self.operator.operate(session, observed).await;
        }
        session.memory.operation.waiting.clear();
        let decision = self.auto_sync(session, &observed, InFlight::Idle, now);
        let mut refused = Vec::new();
        let mut waiting = Vec::new();
        let others = self.waits_for_others(&session.app);
        match decision {
            // What drifted is repaired whoever else is unwell; what is new waits.
            AutoSync::Start { operation, .. } if is_whole(&operation) && !others.is_empty() => {
                session.requeue_after(OTHERS);
                session.memory.operation.waiting.extend(others.iter().map(|waits| waits.message.clone()));
                waiting = others;
            }
            AutoSync::Start { operation, why } => {
                tracing::info!(application = %session.key, %why, "A sync starts.");
                session.app.operation = Some(*operation);
                let over = [ConditionType::SyncError, ConditionType::DependencyWarning];
                status::set_conditions(&mut session.app.status.conditions, &over, &[]);
                operate::begin(session, now);
                return self.operator.operate(session, observed).await;
            }
            AutoSync::Wait { until, why } => {
                session.requeue_at_time(until);
                session.memory.operation.waiting.push(why);
            }
            AutoSync::Refuse { condition } => refused.push(condition),
            AutoSync::Skip { .. } | AutoSync::Supersede { .. } => {}
        }
        status::set_conditions(&mut session.app.status.conditions, &[ConditionType::SyncError], &refused);
        status::set_conditions(
            &mut session.app.status.conditions,
            &[ConditionType::DependencyWarning],
            &waiting,
        );
        Ok(observed)
    }

    /// A condition that names the Applications that this one waits for.
    fn waits_for_others(&self, app: &Application) -> Vec<Condition> {
        let find = |name: &str| {
            let key = Key::new(APPLICATION, &app.metadata.namespace, name);
            self.context.inventory.application(&key).map(|(other, _)| other)
        };
        let Some(message) = dependencies::unmet(app, find) else { return Vec::new() };
        let known = app
            .status
            .conditions
            .iter()
            .find(|c| c.kind == ConditionType::DependencyWarning && c.message == message);
        vec![known.cloned().unwrap_or_else(|| Condition {
            kind: ConditionType::DependencyWarning,
            message,
            last_transition_time: Some(rfc3339(Timestamp::now())),
            ..Condition::default()
        })]
    }

    /// A newer revision takes the place of an automated operation that gets nowhere.
    fn superseded(&self, session: &Session<'_>, observed: &Observed, now: Timestamp) -> bool {
        let retrying = session.app.status.operation_state.as_ref().is_some_and(|s| s.finished_at.is_some());
        let in_flight = match &session.memory.operation.progress {
            _ if retrying => InFlight::Idle,
            Some(_) if session.memory.operation.awaiting_health => InFlight::AwaitingHealth,
            Some(_) => InFlight::Working,
            None => InFlight::Idle,
        };
        let decision = self.auto_sync(session, observed, in_flight, now);
        if let AutoSync::Supersede { why, .. } = &decision {
            tracing::info!(application = %session.key, %why, "The sync under way is ended.");
        }
        matches!(decision, AutoSync::Supersede { .. })
    }

    fn auto_sync(
        &self,
        session: &Session<'_>,
        observed: &Observed,
        in_flight: InFlight,
        now: Timestamp,
    ) -> AutoSync {
        let revisions = observed.desired.as_ref().map(|desired| desired.revisions()).unwrap_or_default();
        auto_sync_decision(AutoSyncInput {
            application: &session.app,
            comparison: &observed.comparison,
            revisions: &revisions,
            windows: observed.project.as_ref().map(|p| p.spec.sync_windows.as_slice()).unwrap_or_default(),
            cluster: session.memory.destination.as_ref().map_or(IN_CLUSTER, |to| to.names()),
            settings: &self.context.settings.get(),
            in_flight,
            now,
        })
    }
}

/// Everything is synced, not only what drifted.
fn is_whole(operation: &Operation) -> bool {
    operation.sync.as_ref().is_none_or(|sync| sync.resources.is_empty())
}
