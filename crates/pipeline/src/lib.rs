//! Room `pipeline`: pipeline YAML → lint → steps → which of them may start now.
//!
//! Text, variables and what has happened so far come in; findings and plans go out. The room does
//! not run anything and knows neither clock, network, disk nor chance.

pub mod plan;
pub mod spec;
pub mod state;
pub mod variables;

pub use plan::{Action, Plan};
pub use spec::{StepKind, StepSpec};
pub use state::{BuildState, BuildStatus, StepState, StepStatus};
pub use variables::Variables;
