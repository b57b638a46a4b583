//! How this process fares: its engines, by name, state and reason, never an object. Clusters are entities of their own ([`super::clusters`]).

use std::sync::Mutex;
use std::time::{Duration, Instant};

use slipway_api::health::{ComponentHealth, RuntimeHealth};
use slipway_gitops::compare::rfc3339;
use slipway_reconcile::TaskStatus;

use super::outward::masked;
use crate::context::Context;
use crate::tunnel::TunnelState;

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
        components.extend(
            context.config.tunnel.state().map(|state| tunnel(&state, &context.config.tunnel.last_error())),
        );
        let health = RuntimeHealth {
            namespace: context.settings.namespace().to_owned(),
            components,
            installed_by: context.config.installed_by.clone(),
            chart: context.config.chart.clone(),
        };
        masked(health)
    }
}

/// Without what changes all the time.
fn quiet(health: &RuntimeHealth) -> RuntimeHealth {
    let mut quiet = health.clone();
    quiet.components.iter_mut().for_each(|component| component.last_activity.clear());
    quiet
}

/// While it is open, how it last failed is said without a word of blame.
fn tunnel(state: &TunnelState, last_error: &str) -> ComponentHealth {
    let short = |text: &str| text.chars().take(MESSAGE_CHARS_MAX).collect::<String>();
    let (state, message) = match state {
        TunnelState::Open if last_error.is_empty() => ("healthy", String::new()),
        TunnelState::Open => ("healthy", short(&format!("it is open; before: {last_error}"))),
        other => ("degraded", short(&other.to_string())),
    };
    ComponentHealth { name: "tunnel".into(), state: state.into(), message, ..ComponentHealth::default() }
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
