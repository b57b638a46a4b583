//! Which service owns which table, and what it may do with the others'.
//!
//! On PostgreSQL each service has a schema and a role of its own; the role may touch its own tables and
//! what [`Service::also`] lists, and the database refuses the rest. On SQLite there is one file and this
//! table is documentation. A table that is not listed stays in the schema `slipway`, which only the owner
//! of the database reads.

/// The services that own something now, by their names in `slipway server --roles`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Service {
    PipelinesApi,
    PipelineManager,
    RuntimeManager,
    ContextManager,
    AuditManager,
    EventHandler,
}

/// Facts, how far each consumer has come, what it has seen, and who leads: what services share on purpose.
pub(crate) const OUTBOX: &str = "outbox";
pub(crate) const OUTBOX_TABLES: [&str; 4] = ["facts", "cursors", "inbox", "leases"];

/// What every service may do in the outbox: append facts, never edit them; keep its own books.
pub(crate) const OUTBOX_GRANTS: [(&str, &str); 4] = [
    ("facts", "SELECT, INSERT"),
    ("cursors", "SELECT, INSERT, UPDATE"),
    ("inbox", "SELECT, INSERT, DELETE"),
    ("leases", "SELECT, INSERT, UPDATE"),
];

impl Service {
    pub const ALL: [Self; 6] = [
        Self::PipelinesApi,
        Self::PipelineManager,
        Self::RuntimeManager,
        Self::ContextManager,
        Self::AuditManager,
        Self::EventHandler,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::PipelinesApi => "pipelines-api",
            Self::PipelineManager => "pipeline-manager",
            Self::RuntimeManager => "runtime-manager",
            Self::ContextManager => "context-manager",
            Self::AuditManager => "audit-manager",
            Self::EventHandler => "event-handler",
        }
    }

    pub fn schema(self) -> String {
        self.name().replace('-', "_")
    }

    /// Roles belong to a PostgreSQL server, not to one database: the prefix keeps them apart from others'.
    pub fn role(self) -> String {
        format!("slipway_{}", self.schema())
    }

    pub fn tables(self) -> &'static [&'static str] {
        match self {
            Self::PipelinesApi => &[
                "accounts",
                "users",
                "sessions",
                "api_keys",
                "repos",
                "repo_refs",
                "quarantined_names",
                "memberships",
                "identities",
                "account_domains",
                "known_browsers",
                "login_failures",
                "invitations",
                "teams",
                "team_members",
                "service_accounts",
                "rules",
                "sso_clients",
                "sso_logins",
            ],
            Self::PipelineManager => &[
                "projects",
                "pipelines",
                "pipeline_revisions",
                "builds",
                "build_counts",
                "build_numbers",
                "approvals",
                "debug_orders",
                "annotations",
                "images",
                "step_types",
                "log_chunks",
                "step_logs",
                "hooks",
                "hook_refs",
                "cron_ticks",
                "trigger_events",
                "event_triggers",
                "outgoing",
                "errands",
                "deferred",
            ],
            Self::RuntimeManager => &[
                "runners",
                "agents",
                "agent_tasks",
                "agent_builds",
                "runtime_environments",
                "default_runtimes",
            ],
            Self::ContextManager => &["contexts", "data_keys", "authorities"],
            Self::AuditManager => &["audit", "audit_heads"],
            Self::EventHandler => &["runtimes", "entities", "complete_reports"],
        }
    }

    /// Rights on tables of other services, each for a reason that a reader can check.
    pub fn also(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // A runner is told its account's name.
            Self::RuntimeManager => &[("accounts", "SELECT")],
            // Which shared configuration messages go by.
            Self::PipelineManager => &[("contexts", "SELECT")],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_one_owner() {
        let mut seen = std::collections::BTreeSet::new();
        for table in Service::ALL.iter().flat_map(|service| service.tables()).chain(&OUTBOX_TABLES) {
            assert!(seen.insert(*table), "`{table}` is listed twice");
        }
        for table in crate::migrations::tables() {
            assert!(
                seen.contains(table.as_str()),
                "`{table}` has no owner: give it one in `Service::tables`"
            );
        }
    }
}
