//! Health of live objects: is what was deployed working?
//!
//! Comes in: one live object. Goes out: a [`Health`] with the rule that spoke, or None for objects that have no
//! health (a ConfigMap is never unwell). Built-in kinds are judged in Rust, well-known custom resources by the rule
//! files in `crates/gitops/health`, all others by their conditions. In doubt the answer is not "Healthy".

mod builtin;
mod generic;
mod rules;
mod special;

use crate::cluster::Settings;
use crate::object;
use jiff::Timestamp;
use serde_json::Value;
use slipway_crd::names;
pub use slipway_model::HealthCode;

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    pub status: HealthCode,
    pub message: String,
    /// Which rule spoke, for people who wonder why.
    pub reason: String,
}

impl Health {
    pub(crate) fn new(status: HealthCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), reason: String::new() }
    }

    fn by(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }
}

/// The health of a live object under an installation's settings: its own Lua scripts come first.
pub fn assess_with(object: &Value, settings: &Settings, now: Timestamp) -> Option<Health> {
    if let Some(leaving) = pending_deletion(object) {
        return Some(leaving);
    }
    match custom(object, settings, now) {
        Some(answer) => answer,
        None => assess(object),
    }
}

/// What a script of the installation says; the outer None means that there is no script.
fn custom(object: &Value, settings: &Settings, now: Timestamp) -> Option<Option<Health>> {
    let script = settings.health_script(object::group(object), object::kind(object))?;
    let answer = crate::lua::health(script, object, now)
        .unwrap_or_else(|error| Some(Health::new(HealthCode::Unknown, error.to_string())));
    Some(answer.map(|health| health.by("custom health script")))
}

fn pending_deletion(object: &Value) -> Option<Health> {
    let leaving = object::is_being_deleted(object) && !object::has_finalizer(object, names::HOOK_FINALIZER);
    leaving.then(|| Health::new(HealthCode::Progressing, "Pending deletion").by("deletionTimestamp is set"))
}

/// The health of a live object, or None if objects of its kind have none.
pub fn assess(object: &Value) -> Option<Health> {
    if let Some(leaving) = pending_deletion(object) {
        return Some(leaving);
    }
    let kind = format!("{}/{}", object::group(object), object::kind(object));
    if let Some(health) = builtin::assess(object).or_else(|| special::assess(object)) {
        return Some(health.by(format!("built-in rule for {kind}")));
    }
    if let Some(health) = rules::assess(object) {
        return Some(health.by(format!("rule file for {kind}")));
    }
    generic::assess(object).map(|health| {
        health.by(format!("no rule for {kind}; judged by its conditions, observedGeneration and phase"))
    })
}
