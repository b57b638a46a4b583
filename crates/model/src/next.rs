//! What a loop does after an error: every error that can reach one answers with this.

/// Decided by the type of the error, not by whoever happens to catch it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Passing trouble: try again soon, with backoff.
    Retry,
    /// Nothing to gain before this many milliseconds have passed.
    WaitMs(u64),
    /// Trying again changes nothing until a person changes something.
    NeedsHuman,
}
