//! How this process fares: its engines, by name, state and reason, never an object. Clusters are entities of their own ([`super::clusters`]).

use std::sync::Mutex;
use std::time::{Duration, Instant};

use slipway_api::health::{ComponentHealth, RuntimeHealth};
use slipway_gitops::compare::rfc3339;
use slipway_reconcile::TaskStatus;

use crate::context::Context;

/// As long as nothing changed, it is said no more often.
const AGAIN: Duration = Duration::from_secs(15);
const MESSAGE_CHARS_MAX: usize = 300;

pub(super) struct Health {
    context: Context,
    said: Mutex<Option<(Instant, RuntimeHealth)>>,
}

impl Health {
    pub(super) fn new(context: &Context) -> Self {
        Self { context: context.clone(), said: Mutex::default() }
    }

    /// How it fares now, when that is another than was said, or was said long ago.
    pub(super) fn news(&self) -> Option<RuntimeHealth> {
        let now = self.now();
        let mut said = self.said.lock().expect("no panic while locked");
        if let Some((at, last)) = &*said
            && at.elapsed() < AGAIN
            && quiet(last) == quiet(&now)
        {
            return None;
        }
        *said = Some((Instant::now(), now.clone()));
        Some(now)
    }

    fn now(&self) -> RuntimeHealth {
        let context = &self.context;
        let engines =
            context.tasks.status().into_iter().filter(|status| !status.engine.starts_with("report-"));
        let mut components: Vec<_> =
            engines.map(|status| component(&status, context.config.is_off(status.engine))).collect();
        components.push(ComponentHealth {
            name: "app-proxy".into(),
            state: "healthy".into(),
            ..ComponentHealth::default()
        });
        RuntimeHealth {
            namespace: context.settings.namespace().to_owned(),
            components,
            installed_by: context.config.installed_by.clone(),
            chart: context.config.chart.clone(),
        }
    }
}

/// Without what changes all the time.
fn quiet(health: &RuntimeHealth) -> RuntimeHealth {
    let mut quiet = health.clone();
    quiet.components.iter_mut().for_each(|component| component.last_activity.clear());
    quiet
}

fn component(status: &TaskStatus, is_off: bool) -> ComponentHealth {
    let (state, message) = match status.errors.first() {
        _ if is_off => ("off", String::new()),
        None => ("healthy", String::new()),
        Some(first) => {
            let error: String = first.error.chars().take(MESSAGE_CHARS_MAX).collect();
            ("degraded", format!("{} of its objects fail; {}: {error}", status.failing, first.object))
        }
    };
    ComponentHealth {
        name: status.engine.into(),
        state: state.into(),
        message,
        last_activity: status.last_run.map(rfc3339).unwrap_or_default(),
    }
}
