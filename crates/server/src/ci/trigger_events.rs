//! Names of events that triggers listen to.

/// How the names of schedules begin.
pub(crate) const CRON: &str = "cron:codefresh:";
