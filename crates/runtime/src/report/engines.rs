//! Reporting from custom resources alone: a kind whose engine is switched off, or of which nothing but the resource is reported.
//!
//! They stand on the shell as engines do, and write nothing.

use std::time::Duration;

use slipway_api::report::{ApplicationSet, EntityState, SetApplication, SetCondition};
use slipway_cluster::Change;
use slipway_crd::names;
use slipway_reconcile::{Key, Kind, Reconciler, Requeue, Stop, Wake, Watch};

use super::{Body, Known, report_resource};
use crate::context::Context;
use crate::engines::{APPLICATION, APPLICATION_SET, Applications, Engine, Peers};

/// What is not there yet is asked for again.
const UNREAD: Duration = Duration::from_millis(200);

/// Applications that our own engine does not look after.
pub(crate) struct ReportedApplications(Context);

impl Engine for ReportedApplications {
    fn new(context: &Context, _: &Peers) -> Self {
        Self(context.clone())
    }
}

impl ReportedApplications {
    /// Their own engine reports more of them than their resources say.
    fn is_on(&self) -> bool {
        self.0.reporter.is_enabled() && self.0.config.is_off(Applications::NAME)
    }
}

impl Reconciler for ReportedApplications {
    const NAME: &'static str = "report-applications";
    const KIND: Kind = APPLICATION;
    const MANAGER: &'static str = names::FIELD_MANAGER;
    const FENCED: bool = false;

    fn watches() -> Vec<Watch<Self>> {
        vec![Watch::map(APPLICATION, changed_application).with(Wake::OBJECT)]
    }

    fn keys(&self) -> Vec<Key> {
        if self.is_on() { self.0.inventory.applications() } else { Vec::new() }
    }

    async fn reconcile(&self, key: &Key, _: Wake) -> Result<Requeue, Stop> {
        let context = &self.0;
        match context.inventory.application(key) {
            Some((app, _)) => report_resource(context, &app).await,
            // One that cannot be read is there; what is known of it stays.
            None if context.cluster().live(&key.object()).is_some() => {}
            None if context.cluster().is_waiting(names::GROUP, APPLICATION.kind) => {
                return Ok(Requeue::Again(UNREAD));
            }
            None => context.reporter.removed(key),
        }
        Ok(Requeue::Never)
    }

    fn finished(&self, key: &Key, _: Duration) {
        self.0.reporter.reconciled(key);
    }
}

fn changed_application(reported: &ReportedApplications, change: &Change) -> Vec<Key> {
    let key = Key::of(APPLICATION, &change.key).filter(|_| reported.is_on());
    key.into_iter().filter(|key| reported.0.settings.governs(&key.namespace)).collect()
}

/// ApplicationSets: conditions, and the Applications that they made.
pub(crate) struct ReportedSets(Context);

impl Engine for ReportedSets {
    fn new(context: &Context, _: &Peers) -> Self {
        Self(context.clone())
    }
}

impl Reconciler for ReportedSets {
    const NAME: &'static str = "report-application-sets";
    const KIND: Kind = APPLICATION_SET;
    const MANAGER: &'static str = names::FIELD_MANAGER;
    const FENCED: bool = false;

    fn watches() -> Vec<Watch<Self>> {
        vec![Watch::map(APPLICATION_SET, changed_set).with(Wake::OBJECT)]
    }

    fn keys(&self) -> Vec<Key> {
        if self.0.reporter.is_enabled() { self.0.inventory.application_sets() } else { Vec::new() }
    }

    async fn reconcile(&self, key: &Key, _: Wake) -> Result<Requeue, Stop> {
        let context = &self.0;
        let Some(live) = context.cluster().live(&key.object()) else {
            if context.cluster().is_waiting(names::GROUP, APPLICATION_SET.kind) {
                return Ok(Requeue::Again(UNREAD));
            }
            context.reporter.removed(key);
            return Ok(Requeue::Never);
        };
        let read = serde_json::from_value::<slipway_crd::ApplicationSet>(live.object().unwrap_or_default());
        if let Ok(set) = read {
            let body = Body::ApplicationSet(application_set(&set));
            context.reporter.changed(key.clone(), Known::new(&set.metadata, body));
        }
        Ok(Requeue::Never)
    }

    fn finished(&self, key: &Key, _: Duration) {
        self.0.reporter.reconciled(key);
    }
}

fn changed_set(reported: &ReportedSets, change: &Change) -> Vec<Key> {
    let context = &reported.0;
    let key = Key::of(APPLICATION_SET, &change.key).filter(|_| context.reporter.is_enabled());
    key.into_iter().filter(|key| context.settings.governs_sets(&key.namespace)).collect()
}

fn application_set(set: &slipway_crd::ApplicationSet) -> ApplicationSet {
    let status = &set.status;
    let conditions = status.conditions.iter().map(|condition| SetCondition {
        kind: condition.kind.to_string(),
        status: condition.status.clone(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        last_transition_time: condition.last_transition_time.clone().unwrap_or_default(),
    });
    let applications = status.resources.iter().map(|resource| SetApplication {
        name: resource.name.clone(),
        sync: resource.status.to_string(),
        health: resource.health.as_ref().map(|health| health.status.to_string()).unwrap_or_default(),
    });
    ApplicationSet { conditions: conditions.collect(), applications: applications.collect() }
}

/// A set is well when it could make its Applications; how these are is theirs to say.
pub(super) fn set_state(set: &ApplicationSet) -> EntityState {
    let holds = |kind: &str| set.conditions.iter().find(|c| c.kind == kind && c.status == "True");
    let (health, message) = match (holds("ErrorOccurred"), holds("RolloutProgressing")) {
        (Some(error), _) => ("Degraded", error.message.clone()),
        (None, Some(rolling)) => ("Progressing", rolling.message.clone()),
        (None, None) if set.conditions.is_empty() => ("Unknown", String::new()),
        (None, None) => ("Healthy", String::new()),
    };
    EntityState { health: health.into(), message, ..EntityState::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_set_is_told_by_its_conditions() {
        let set: slipway_crd::ApplicationSet = serde_json::from_value(json!({"status": {
            "conditions": [{"type": "ErrorOccurred", "status": "True", "reason": "x", "message": "no such repository"}],
            "resources": [{"name": "shop-dev", "status": "Synced", "health": {"status": "Healthy"}}]}}))
        .expect("readable");
        let reported = application_set(&set);
        assert_eq!(reported.applications[0].health, "Healthy");
        let state = set_state(&reported);
        assert_eq!((state.health.as_str(), state.message.as_str()), ("Degraded", "no such repository"));
        assert_eq!(set_state(&ApplicationSet::default()).health, "Unknown");
    }
}
