//! Statuses of builds and steps, with the words that published clients already read.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $(#[serde(rename = $word)] $variant),* }
        impl $name {
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($word => Some(Self::$variant),)* _ => None }
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// Where a build is.
    BuildStatus {
        Pending = "pending", Elected = "elected", Running = "running", PendingApproval = "pending-approval",
        Success = "success", Error = "error", Terminating = "terminating", Terminated = "terminated",
        Delayed = "delayed",
    }
}

words! {
    /// Where a step is.
    StepStatus {
        Pending = "pending", Running = "running", Success = "success", Error = "error", Skipped = "skipped",
        PendingApproval = "pending-approval", Approved = "approved", Denied = "denied",
        Terminating = "terminating", Terminated = "terminated",
    }
}

impl BuildStatus {
    pub fn is_final(self) -> bool {
        matches!(self, Self::Success | Self::Error | Self::Terminated)
    }
}

impl StepStatus {
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Pending | Self::Running | Self::PendingApproval | Self::Terminating)
    }
}
