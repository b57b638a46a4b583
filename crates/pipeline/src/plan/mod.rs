//! observe → plan: which steps may start now, which are skipped, what the build waits for.
//!
//! A `Pipeline` and a [`BuildState`](crate::BuildState) come in, a [`Plan`] goes
//! out. The planner is a pure function: the same input gives the same plan, so a runner that crashed
//! between planning and acting simply asks again. It does not know containers, clocks or disks.

mod check;
mod planner;
mod record;
mod terminate;
pub(crate) mod verdict;
pub(crate) mod when;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use check::check;
pub use planner::plan;
pub use record::{Export, Outcome, RecordError, Recorded, apply, finish};

use crate::spec::{FinalState, StepSpec};
use crate::state::{BuildStatus, StepStatus};

/// What to do now, what is waited for, when to ask again.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Plan {
    pub actions: Vec<Action>,
    pub waiting: Vec<Waiting>,
    /// Ask again at this time even if nothing has happened (a timeout, a retry delay, an approval).
    pub wake_at_ms: Option<i64>,
    /// Status of each parallel block, which has no state of its own.
    pub groups: Vec<Group>,
    pub finished: Option<Finished>,
}

/// The end of a build and the sentence that explains it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    pub status: BuildStatus,
    pub reason: String,
}

/// A parallel block, seen as one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub name: String,
    pub status: StepStatus,
    pub children: Vec<String>,
}

/// One effect. The runner does it and records that it did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    Start {
        step: String,
        attempt: u32,
        spec: Box<StepSpec>,
    },
    Skip {
        step: String,
        reason: String,
    },
    /// Stop what runs; the step ends as `terminated` or, after its timeout, as `failure`.
    Cancel {
        step: String,
        reason: CancelReason,
    },
    AwaitApproval {
        step: String,
        spec: Box<StepSpec>,
        deadline_ms: Option<i64>,
        final_state: FinalState,
    },
    /// Give a step a status without running it: an unanswered approval, a step a stop overtook.
    Settle {
        step: String,
        status: StepStatus,
        reason: String,
    },
    /// As `Start`, for a step of a hook: its log goes under the owner, its failure is judged apart.
    RunHook {
        hook: HookRef,
        step: String,
        attempt: u32,
        spec: Box<StepSpec>,
    },
}

impl Action {
    /// The id of the step the action is about.
    pub fn step(&self) -> &str {
        match self {
            Self::Start { step, .. }
            | Self::Skip { step, .. }
            | Self::Cancel { step, .. }
            | Self::AwaitApproval { step, .. }
            | Self::Settle { step, .. }
            | Self::RunHook { step, .. } => step,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// Record the step as `failure`.
    Timeout,
    /// Record the step as `terminated`.
    BuildTerminated,
}

/// A hook: whose, and when it fires. `owner` is `None` for the pipeline's own hooks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HookRef {
    pub owner: Option<String>,
    pub point: HookPoint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookPoint {
    OnElected,
    OnSuccess,
    OnFail,
    OnFinish,
}

/// A step that cannot go on by itself, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    pub step: String,
    pub on: WaitingOn,
    pub since: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "on", rename_all = "snake_case")]
pub enum WaitingOn {
    /// The step itself runs.
    Running { attempt: u32 },
    /// A person has to answer.
    Approval { deadline_ms: Option<i64> },
    /// A failed attempt is tried again later.
    Retry { attempt: u32, max_attempts: u32, at_ms: i64 },
    /// An earlier step has not ended.
    Step { name: String },
    /// `when` does not hold yet (parallel mode looks again after every change).
    Condition { text: String },
    /// A hook runs first.
    Hook { hook: HookRef },
    /// A cancelled step has not stopped yet.
    Stopping,
}

impl WaitingOn {
    /// A plain sentence for people.
    pub fn sentence(&self) -> String {
        match self {
            Self::Running { attempt: 1 } => "is running".to_owned(),
            Self::Running { attempt } => format!("is running, attempt {attempt}"),
            Self::Approval { .. } => "waits for someone to approve or deny".to_owned(),
            Self::Retry { attempt, max_attempts, .. } => {
                format!("waits to be tried again, attempt {attempt} of {max_attempts}")
            }
            Self::Step { name } => format!("waits for step `{name}` to end"),
            Self::Condition { text } => format!("waits until its condition holds: {text}"),
            Self::Hook { hook } => format!("waits for the {} hook", hook.point.as_str()),
            Self::Stopping => "is being stopped".to_owned(),
        }
    }
}

impl HookPoint {
    pub const ALL: [Self; 4] = [Self::OnElected, Self::OnSuccess, Self::OnFail, Self::OnFinish];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::OnElected => "on_elected",
            Self::OnSuccess => "on_success",
            Self::OnFail => "on_fail",
            Self::OnFinish => "on_finish",
        }
    }
}
