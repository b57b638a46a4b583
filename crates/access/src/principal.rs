//! Who asks.

use slipway_model::{AccountId, BuildId, ServiceAccountId, TeamId, UserId};

use crate::scope::Scopes;

/// Somebody, in one account. A person of two accounts is two principals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    pub account: AccountId,
    pub who: Who,
    /// What the key that was used is limited to.
    pub scopes: Scopes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    User {
        id: UserId,
        name: String,
        email: String,
        role: Role,
        /// Administers the platform, above its accounts.
        platform: bool,
        teams: Vec<TeamRef>,
    },
    /// A robot of the account: it has keys, no password and no session.
    ServiceAccount { id: ServiceAccountId, name: String, role: Role, teams: Vec<TeamRef> },
    /// A runner, by the name that its key is bound to.
    Runner { name: String },
    /// A GitOps runtime, by the name that its key is bound to.
    Runtime { name: String },
    /// A running build: it may use the Git host and nothing else.
    Build { id: BuildId },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamRef {
    pub id: TeamId,
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    User,
    Administrator,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Administrator => "Admin",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::User, Self::Administrator].into_iter().find(|role| role.as_str() == text)
    }
}

impl Principal {
    /// For commits, audit and messages.
    pub fn display_name(&self) -> String {
        match &self.who {
            Who::User { name, .. } => name.clone(),
            Who::ServiceAccount { name, .. } => format!("service account {name}"),
            Who::Runner { name } => format!("runner {name}"),
            Who::Runtime { name } => format!("runtime {name}"),
            Who::Build { id } => format!("build {id}"),
        }
    }

    /// The role in the account; agents and builds have none.
    pub fn role(&self) -> Option<Role> {
        match &self.who {
            Who::User { role, .. } | Who::ServiceAccount { role, .. } => Some(*role),
            _ => None,
        }
    }

    pub fn is_platform(&self) -> bool {
        matches!(self.who, Who::User { platform: true, .. })
    }

    pub fn teams(&self) -> &[TeamRef] {
        match &self.who {
            Who::User { teams, .. } | Who::ServiceAccount { teams, .. } => teams,
            _ => &[],
        }
    }

    /// Word and id for records: stable, unlike names.
    pub fn reference(&self) -> (&'static str, String) {
        match &self.who {
            Who::User { id, .. } => ("user", id.to_string()),
            Who::ServiceAccount { id, .. } => ("service-account", id.to_string()),
            Who::Runner { name } => ("runner", name.clone()),
            Who::Runtime { name } => ("runtime", name.clone()),
            Who::Build { id } => ("build", id.to_string()),
        }
    }
}
