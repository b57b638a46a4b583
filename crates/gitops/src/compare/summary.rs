//! What a comparison says in the Application's status: health, resources, conditions.

use super::{Comparison, ResourceState, rfc3339};
use crate::health::{Health, HealthCode};
use crate::object;
use jiff::Timestamp;
use slipway_crd::{Application, Condition, ConditionType, HealthStatus, ResourceStatus, SyncStatus};

/// A condition; its time stays when the same one stood there before.
pub(super) fn condition(
    application: &Application,
    kind: ConditionType,
    message: &str,
    now: Timestamp,
) -> Condition {
    let before = application.status.conditions.iter().find(|c| c.kind == kind && c.message == message);
    let time = before.and_then(|c| c.last_transition_time.clone()).unwrap_or_else(|| rfc3339(now));
    Condition { kind, message: message.into(), last_transition_time: Some(time), ..Condition::default() }
}

/// The worst health of what counts. Missing resources count only when nothing at all is live.
pub(super) fn application_health(resources: &[ResourceState], own_name: &str) -> Health {
    let mut worst = Health::new(HealthCode::Healthy, "");
    let mut culprits: Vec<String> = Vec::new();
    let anything_live = resources.iter().any(|r| r.live.is_some() && !r.hook);
    for resource in resources {
        let Some(health) = &resource.health else { continue };
        let any = resource.live.as_ref().or(resource.target.as_ref());
        let ignored = any
            .is_some_and(|o| object::annotation(o, slipway_crd::names::IGNORE_HEALTHCHECK) == Some("true"));
        let is_application =
            resource.key.group == slipway_crd::names::GROUP && resource.key.kind == "Application";
        let own = is_application && resource.key.name == own_name;
        // A child application that is not there or cannot be judged says so itself.
        let child = is_application && matches!(health.status, HealthCode::Missing | HealthCode::Unknown);
        let missing = health.status == HealthCode::Missing && resource.live.is_none() && anything_live;
        let not_counted = resource.hook || resource.status.is_none() || ignored || own || child || missing;
        if not_counted {
            continue;
        }
        if health.status > worst.status {
            worst.status = health.status;
            culprits.clear();
        }
        if health.status == worst.status && health.status != HealthCode::Healthy {
            culprits.push(format!("{}/{}", resource.key.kind, resource.key.name));
        }
    }
    if !culprits.is_empty() {
        let named = culprits.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        let more = culprits.len().saturating_sub(3);
        worst.message = if more > 0 {
            format!("Caused by {named} and {more} more")
        } else {
            format!("Caused by {named}")
        };
    }
    worst
}

impl Comparison {
    /// `status.sync`: what is claimed, and of which revisions. `compared` are those of the manifests that were compared;
    /// without them nothing was, and no revision is named.
    pub fn claim(&self, application: &Application, compared: Option<&[String]>) -> SyncStatus {
        let spec = &application.spec;
        let several = spec.has_several_sources();
        let mut sync = application.status.sync.clone();
        sync.status = self.sync_status.into();
        sync.compared_to.source = spec.effective_sources().first().cloned().filter(|_| !several);
        sync.compared_to.sources = if several { spec.sources.clone() } else { Vec::new() };
        sync.compared_to.destination = spec.destination.clone();
        sync.compared_to.ignore_differences = spec.ignore_differences.clone();
        let revisions = compared.unwrap_or_default();
        sync.revision = if several { String::new() } else { revisions.first().cloned().unwrap_or_default() };
        sync.revisions = if several { revisions.to_vec() } else { Vec::new() };
        sync
    }

    /// `status.resources`. Hooks stand there only while they are live.
    pub fn resource_statuses(&self) -> Vec<ResourceStatus> {
        self.resources
            .iter()
            .filter(|r| !r.hook || r.live.is_some())
            .map(|r| ResourceStatus {
                group: r.key.group.clone(),
                version: r.version.clone(),
                kind: r.key.kind.clone(),
                namespace: r.key.namespace.clone(),
                name: r.key.name.clone(),
                status: r.status.map(Into::into).unwrap_or_default(),
                // Of what is left out on purpose nobody asks how it is.
                health: r.health.as_ref().filter(|_| r.hook || r.status.is_some()).map(|h| HealthStatus {
                    status: h.status.into(),
                    message: h.message.clone(),
                    ..HealthStatus::default()
                }),
                hook: r.hook,
                requires_pruning: r.requires_pruning,
                sync_wave: r.wave,
                requires_deletion_confirmation: r.requires_deletion_confirmation,
                ..ResourceStatus::default()
            })
            .collect()
    }

    /// `status.health`; its time moves only when the status changes.
    pub fn health_status(&self, before: &HealthStatus, now: Timestamp) -> HealthStatus {
        let status = self.health.status;
        let kept = before.last_transition_time.clone().filter(|_| before.status == status);
        HealthStatus {
            status: status.into(),
            message: self.health.message.clone(),
            last_transition_time: Some(kept.unwrap_or_else(|| rfc3339(now))),
            ..HealthStatus::default()
        }
    }
}
