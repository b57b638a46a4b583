//! What every entity of the GitOps API says in the same way: which object it is, how it fares, what is wrong with it.

use std::collections::BTreeMap;

use async_graphql::{Enum, SimpleObject};
use slipway_model::{HealthCode, SyncCode, Word};

/// Which object of which cluster.
#[derive(Debug, Clone, Default, SimpleObject)]
pub(crate) struct ObjectMeta {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) runtime: String,
    pub(crate) cluster: Option<String>,
    /// The account's id.
    pub(crate) account: String,
    pub(crate) labels: Vec<StringPair>,
    /// When what is said here last changed; RFC 3339.
    pub(crate) last_updated: Option<String>,
    pub(crate) created: Option<String>,
}

#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct StringPair {
    key: String,
    value: String,
}

pub(crate) fn pairs(labels: &BTreeMap<String, String>) -> Vec<StringPair> {
    labels.iter().map(|(key, value)| StringPair { key: key.clone(), value: value.clone() }).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum SyncStatus {
    OutOfSync,
    Synced,
    /// A sync is under way.
    Syncing,
    Unknown,
}

impl SyncStatus {
    pub(crate) fn of(word: &Word<SyncCode>) -> Self {
        match word.known() {
            Some(SyncCode::Synced) => Self::Synced,
            Some(SyncCode::OutOfSync) => Self::OutOfSync,
            Some(SyncCode::Unknown) | None => Self::Unknown,
        }
    }

    /// As a list is filtered by it; a sync under way is no state that is compared.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Self::Synced => Some("Synced"),
            Self::OutOfSync => Some("OutOfSync"),
            Self::Unknown => Some("Unknown"),
            Self::Syncing => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum HealthStatus {
    Degraded,
    Healthy,
    Missing,
    Progressing,
    Suspended,
    Terminated,
    Unknown,
}

impl HealthStatus {
    pub(crate) fn of(word: &Word<HealthCode>) -> Self {
        match word.known() {
            Some(HealthCode::Healthy) => Self::Healthy,
            Some(HealthCode::Progressing) => Self::Progressing,
            Some(HealthCode::Degraded) => Self::Degraded,
            Some(HealthCode::Suspended) => Self::Suspended,
            Some(HealthCode::Missing) => Self::Missing,
            // A word that nobody knows is nothing that anybody should rely on.
            Some(HealthCode::Unknown) | None => Self::Unknown,
        }
    }

    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Self::Healthy => Some("Healthy"),
            Self::Progressing => Some("Progressing"),
            Self::Degraded => Some("Degraded"),
            Self::Suspended => Some("Suspended"),
            Self::Missing => Some("Missing"),
            Self::Unknown => Some("Unknown"),
            Self::Terminated => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum ErrorLevels {
    Error,
    Warning,
}

/// Something that keeps an entity from what it should be.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct SyncError {
    pub(crate) level: ErrorLevels,
    pub(crate) title: String,
    pub(crate) message: String,
    /// What to do about it, where that is known.
    pub(crate) suggestion: Option<String>,
    pub(crate) last_seen: String,
}
