//! What an account may set for itself, and what the platform limits it to.

use serde::{Deserialize, Serialize};
use slipway_store::identity::Account;
use utoipa::ToSchema;

const MINUTE_MS: i64 = 60 * 1000;
/// A hundred years.
const KEPT_DAYS_MAX: i64 = 36_500;

/// Anything left out has its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct AccountSettings {
    /// A browser that was quiet for this long signs in again: 5 minutes to 30 days.
    pub(crate) inactivity_minutes: i64,
    /// A session ends after this long however busy it is: 1 hour to 30 days.
    pub(crate) session_hours: i64,
    /// Only e-mails of these domains are invited; empty for any.
    pub(crate) allowed_domains: Vec<String>,
    /// People may sign in with a password; without it, only through an identity provider.
    pub(crate) password_login: bool,
    /// New builds wait; those that run go on.
    pub(crate) pause_builds: bool,
    /// Builds that ended longer ago are deleted, with their logs; for ever when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) keep_builds_days: Option<i64>,
    /// Logs of builds that ended longer ago are deleted; for as long as their builds when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) keep_logs_days: Option<i64>,
}

impl Default for AccountSettings {
    fn default() -> Self {
        Self {
            inactivity_minutes: 12 * 60,
            session_hours: 7 * 24,
            allowed_domains: Vec::new(),
            password_login: true,
            pause_builds: false,
            keep_builds_days: None,
            keep_logs_days: None,
        }
    }
}

impl AccountSettings {
    pub(crate) fn of(account: &Account) -> Self {
        serde_json::from_str(&account.settings).unwrap_or_default()
    }

    pub(crate) fn inactivity_ms(&self) -> i64 {
        self.inactivity_minutes.clamp(5, 30 * 24 * 60) * MINUTE_MS
    }

    pub(crate) fn absolute_ms(&self) -> i64 {
        self.session_hours.clamp(1, 30 * 24) * 60 * MINUTE_MS
    }

    /// All that is wrong, at once.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if !(5..=30 * 24 * 60).contains(&self.inactivity_minutes) {
            wrong.push("inactivityMinutes must be between 5 and 43200 (30 days)".to_owned());
        }
        if !(1..=30 * 24).contains(&self.session_hours) {
            wrong.push("sessionHours must be between 1 and 720 (30 days)".to_owned());
        }
        for (name, days) in [("keepBuildsDays", self.keep_builds_days), ("keepLogsDays", self.keep_logs_days)]
        {
            if days.is_some_and(|days| !(1..=KEPT_DAYS_MAX).contains(&days)) {
                wrong.push(format!(
                    "{name} must be between 1 and {KEPT_DAYS_MAX} days; leave it out to keep them for ever"
                ));
            }
        }
        for domain in &self.allowed_domains {
            if domain.is_empty()
                || domain.contains('@')
                || !domain.contains('.')
                || *domain != domain.to_lowercase()
            {
                wrong.push(format!("allowedDomains: `{domain}` is not a domain such as `example.com`"));
            }
        }
        wrong
    }

    pub(crate) fn admits(&self, email: &str) -> bool {
        let domain = email.rsplit('@').next().unwrap_or_default();
        self.allowed_domains.is_empty() || self.allowed_domains.iter().any(|allowed| allowed == domain)
    }
}
