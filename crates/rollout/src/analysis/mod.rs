//! Analysis: what is measured now, what the measurements mean, and what becomes of the run.
//!
//! In: an AnalysisRun, the time, and what providers answered. Out: which metrics to measure ([`due`]), the phase of one answer
//! ([`judge`]), and the status of the run after them ([`assess`]). What is missing, not a number or late is never a success. Knows no provider's
//! protocol, no Secret and no client.

mod arguments;
mod assess;
mod compose;
mod due;
mod judge;

pub use arguments::{placeholders, resolved};
pub use assess::{Assessed, assess};
pub use compose::{collect, compose};
pub use due::{Task, due};
pub use judge::{judge, shown};

pub(crate) const PENDING: &str = "Pending";
pub(crate) const RUNNING: &str = "Running";
pub const SUCCESSFUL: &str = "Successful";
pub const FAILED: &str = "Failed";
pub const ERROR: &str = "Error";
pub const INCONCLUSIVE: &str = "Inconclusive";

/// True for a phase that nothing follows.
pub fn is_completed(phase: &str) -> bool {
    matches!(phase, SUCCESSFUL | FAILED | ERROR | INCONCLUSIVE)
}

/// True when the second is worse than the first.
pub(crate) fn is_worse(phase: &str, than: &str) -> bool {
    let rank = |phase: &str| {
        [SUCCESSFUL, RUNNING, PENDING, INCONCLUSIVE, ERROR, FAILED].iter().position(|known| *known == phase)
    };
    rank(than) < rank(phase)
}

/// A number that may be a text, because an argument stood in it.
pub(crate) fn number(value: Option<&serde_json::Value>) -> Option<i64> {
    match value? {
        serde_json::Value::String(text) => text.trim().parse().ok(),
        other => other.as_i64(),
    }
}
