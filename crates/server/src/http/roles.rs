//! What a process of the control plane does. `slipway up` does all of it; `slipway server --roles` a part.
//!
//! The names are those of the platform's services. A role is listed here when it does something: answers paths,
//! or works in the background.

use std::collections::BTreeSet;

use crate::gitops::peers;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    PipelinesApi,
    GitopsApi,
    Broadcaster,
    RuntimeManager,
    ApiEvents,
    PipelineManager,
    EventHandler,
    CronExecutor,
    TunnelServer,
}

impl Role {
    pub const ALL: [Self; 9] = [
        Self::PipelinesApi,
        Self::GitopsApi,
        Self::Broadcaster,
        Self::RuntimeManager,
        Self::ApiEvents,
        Self::PipelineManager,
        Self::EventHandler,
        Self::CronExecutor,
        Self::TunnelServer,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::PipelinesApi => "pipelines-api",
            Self::GitopsApi => "gitops-api",
            Self::Broadcaster => "broadcaster",
            Self::RuntimeManager => "runtime-manager",
            Self::ApiEvents => "api-events",
            Self::PipelineManager => "pipeline-manager",
            Self::EventHandler => "event-handler",
            Self::CronExecutor => "cron-executor",
            Self::TunnelServer => "tunnel-server",
        }
    }

    /// One line for `--help`.
    pub fn about(self) -> &'static str {
        match self {
            Self::PipelinesApi => "REST under /api, sign-in, the Git host and the web UI",
            Self::GitopsApi => "GraphQL: queries and a stream of changes; read-only",
            Self::Broadcaster => "logs and changes, live",
            Self::RuntimeManager => "what runners and runtimes connect to",
            Self::ApiEvents => "receives reports of runtimes",
            Self::PipelineManager => "creates builds for pushes that match a trigger",
            Self::EventHandler => "publishes events from the database to the bus, one process at a time",
            Self::TunnelServer => "tunnels of runtimes, and requests through them",
            Self::CronExecutor => {
                "recurring work: cron triggers, webhooks, reports to others, unannounced pushes, tidying up; one process at a time"
            }
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Who answers this path. GraphQL subscriptions come over the same path as queries, as an upgrade.
    pub(crate) fn of(path: &str, upgrade: bool) -> Self {
        if path.starts_with("/2.0/api/graphql") {
            return if upgrade { Self::Broadcaster } else { Self::GitopsApi };
        }
        if path.starts_with("/2.0/api/events") {
            return Self::ApiEvents;
        }
        if path == slipway_tunnel::PATH || path == peers::PATH || path.starts_with("/tunnels/") {
            return Self::TunnelServer;
        }
        if path.starts_with("/api/agent/") {
            return Self::RuntimeManager;
        }
        if path.starts_with("/ws/") || path.starts_with("/api/builds/") && path.ends_with("/logs/stream") {
            return Self::Broadcaster;
        }
        Self::PipelinesApi
    }
}

/// Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles(BTreeSet<Role>);

impl Roles {
    pub fn all() -> Self {
        Self(Role::ALL.into_iter().collect())
    }

    /// `None` when there is none.
    pub fn of(roles: impl IntoIterator<Item = Role>) -> Option<Self> {
        let roles: BTreeSet<_> = roles.into_iter().collect();
        (!roles.is_empty()).then_some(Self(roles))
    }

    pub fn has(&self, role: Role) -> bool {
        self.0.contains(&role)
    }

    pub fn iter(&self) -> impl Iterator<Item = Role> + '_ {
        self.0.iter().copied()
    }

    /// Health, metrics and the API's description are answered by everybody.
    pub(crate) fn answers(&self, path: &str, upgrade: bool) -> Result<(), Role> {
        let anybody = ["/healthz", "/readyz", "/metrics", "/api/openapi.json"].contains(&path);
        let role = Role::of(path, upgrade);
        if anybody || self.has(role) { Ok(()) } else { Err(role) }
    }
}

impl std::fmt::Display for Roles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.iter().map(Role::name).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_a_role_and_a_process_answers_only_its_own() {
        for (path, upgrade, role) in [
            ("/api/pipelines", false, Role::PipelinesApi),
            ("/git/demo/app.git/info/refs", false, Role::PipelinesApi),
            ("/", false, Role::PipelinesApi),
            ("/2.0/api/graphql", false, Role::GitopsApi),
            ("/2.0/api/graphql", true, Role::Broadcaster),
            ("/2.0/api/events", false, Role::ApiEvents),
            ("/api/agent/runner/sync", false, Role::RuntimeManager),
            ("/api/agent/tunnel", true, Role::TunnelServer),
            ("/api/agent/peer", true, Role::TunnelServer),
            ("/tunnels/65f0c0ffee0ddba11deadbee-prod/app-proxy/x", false, Role::TunnelServer),
            ("/api/builds/5/logs/stream", false, Role::Broadcaster),
            ("/api/builds/5/logs", false, Role::PipelinesApi),
        ] {
            assert_eq!(Role::of(path, upgrade), role, "{path}");
            assert!(Roles::of([role]).unwrap().answers(path, upgrade).is_ok());
        }
        let only_events = Roles::of([Role::ApiEvents]).unwrap();
        assert_eq!(only_events.answers("/api/pipelines", false), Err(Role::PipelinesApi));
        assert!(only_events.answers("/healthz", false).is_ok());
        assert!(Role::ALL.into_iter().all(|role| Role::parse(role.name()) == Some(role)));
    }
}
