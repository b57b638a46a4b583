//! The status of a build, with the words that published clients already read. Those of a step are `pipeline`'s.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a build is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuildStatus {
    Pending,
    Elected,
    Running,
    PendingApproval,
    Success,
    Error,
    Terminating,
    Terminated,
    Delayed,
}

impl BuildStatus {
    const ALL: [Self; 9] = [
        Self::Pending,
        Self::Elected,
        Self::Running,
        Self::PendingApproval,
        Self::Success,
        Self::Error,
        Self::Terminating,
        Self::Terminated,
        Self::Delayed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Elected => "elected",
            Self::Running => "running",
            Self::PendingApproval => "pending-approval",
            Self::Success => "success",
            Self::Error => "error",
            Self::Terminating => "terminating",
            Self::Terminated => "terminated",
            Self::Delayed => "delayed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    pub fn is_final(self) -> bool {
        matches!(self, Self::Success | Self::Error | Self::Terminated)
    }
}

impl fmt::Display for BuildStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_as_it_is_written() {
        for status in BuildStatus::ALL {
            assert_eq!(BuildStatus::parse(status.as_str()), Some(status));
            assert_eq!(serde_json::to_value(status).expect("a word"), status.as_str());
        }
        assert_eq!(BuildStatus::parse("failed"), None);
    }
}
