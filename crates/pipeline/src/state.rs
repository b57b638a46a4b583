//! What has happened to a build so far: the observed half of observe → plan.
//!
//! The runner keeps one [`BuildState`], writes it to disk after every change, and hands it to
//! [`plan`](crate::plan::plan). Time comes in as `now_ms`; nothing here reads a clock.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::plan::CancelReason;
use crate::spec::FinalState;
use crate::variables::Variables;

/// Where a step stands. The wire words are the ones users write in `when.steps.on`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepStatus {
    #[default]
    Pending,
    Running,
    PendingApproval,
    Success,
    Failure,
    Skipped,
    Approved,
    Denied,
    Terminating,
    Terminated,
}

impl StepStatus {
    /// No further change will come.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Pending | Self::Running | Self::PendingApproval | Self::Terminating)
    }

    /// A container, a clone or an approval exists for it now.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Running | Self::PendingApproval | Self::Terminating)
    }

    /// Ended in a way that counts against the build.
    pub fn is_bad(self) -> bool {
        matches!(self, Self::Failure | Self::Denied | Self::Terminated)
    }

    /// Behind a step's name in a sentence, for those that count against the build.
    pub fn ended(self) -> &'static str {
        match self {
            Self::Denied => "was denied",
            Self::Terminated => "was terminated",
            _ => "failed",
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::PendingApproval => "pending-approval",
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Skipped => "skipped",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Terminating => "terminating",
            Self::Terminated => "terminated",
        }
    }
}

/// How the whole build stands, in the words of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuildStatus {
    Running,
    PendingApproval,
    Success,
    /// A step failed and nothing said that it may.
    Error,
    Denied,
    Terminating,
    Terminated,
}

impl BuildStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::PendingApproval => "pending-approval",
            Self::Success => "success",
            Self::Error => "error",
            Self::Denied => "denied",
            Self::Terminating => "terminating",
            Self::Terminated => "terminated",
        }
    }
}

/// One step of the build. Hook steps live here too, under ids such as `build.hooks.on_fail.notify`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StepState {
    pub status: StepStatus,
    /// Which attempt runs or ran last; 0 before the first.
    pub attempt: u32,
    /// When the current attempt started (for an approval: when it was asked for).
    pub started_at: Option<i64>,
    pub finished_at: Option<i64>,
    pub exit: Option<i32>,
    /// A sentence on why the step is where it is: the failure, the skip, the cancellation.
    pub reason: Option<String>,
    /// Earliest time of the next attempt, while the step is pending after a failed one.
    pub next_attempt_at: Option<i64>,
    /// When the attempt, or the question, runs out of time.
    pub deadline_ms: Option<i64>,
    /// What an unanswered approval becomes at its deadline.
    pub final_state: Option<FinalState>,
    /// Why the step is being stopped.
    pub cancel: Option<CancelReason>,
    /// Variables the step exported with `cf_export`, in the order in which it did.
    pub exports: Vec<(String, String)>,
    /// `${{steps.NAME.member}}` and `${{NAME.member}}`, dotted names allowed (`authEntity.name`).
    pub members: BTreeMap<String, String>,
    /// Typed-step outputs, `${{steps.NAME.output.MEMBER}}`.
    pub output: BTreeMap<String, String>,
    /// The directory the step worked in, for `${{NAME}}` as a working directory.
    pub working_directory: Option<String>,
}

/// What the build runs for: enough to answer `when.branch`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BranchInfo {
    pub branch: Option<String>,
}

/// Everything the planner may look at besides the pipeline itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BuildState {
    pub steps: BTreeMap<String, StepState>,
    pub variables: Variables,
    pub branch: BranchInfo,
    /// Somebody asked the build to stop. Steps whose `when` is about termination still run.
    pub terminate_requested: bool,
    /// Somebody asked twice: those steps stop too.
    pub terminate_forced: bool,
    /// Steps the person who started the build chose to run; empty means all.
    pub only_steps: BTreeSet<String>,
    /// Steps the person who started the build chose to leave out.
    pub skip_steps: BTreeSet<String>,
    pub started_at: Option<i64>,
    pub now_ms: i64,
}

impl BuildState {
    /// The state of a step; a step nobody has touched is pending.
    pub fn step(&self, id: &str) -> StepState {
        self.steps.get(id).cloned().unwrap_or_default()
    }

    pub fn status(&self, id: &str) -> StepStatus {
        self.steps.get(id).map(|step| step.status).unwrap_or_default()
    }
}
