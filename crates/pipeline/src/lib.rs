//! Room `pipeline`: pipeline YAML → lint → steps → which of them may start now.
//!
//! Text, variables and what has happened so far come in; findings and plans go out. The room does
//! not run anything and knows neither clock, network, disk nor chance.

pub mod annotate;
pub mod conformance;
mod directory;
mod duration;
mod expand;
pub mod expression;
pub mod graph;
pub mod image;
mod interpolate;
pub mod lint;
mod parse;
pub mod pipeline;
pub mod plan;
mod resolve;
pub mod resources;
pub mod signed;
pub mod spec;
pub mod state;
pub mod system;
pub mod unsupported;
pub mod variables;
pub mod volume;

pub use lint::schema;
pub use pipeline::Pipeline;
pub use plan::{Action, Plan, plan};
pub use resolve::services;
pub use spec::{StepKind, StepSpec};
pub use state::{BuildState, BuildStatus, StepState, StepStatus};
pub use variables::Variables;
