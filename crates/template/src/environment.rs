//! What a template may use up, and where time and chance come from.

use jiff::Timestamp;

/// What filling one template may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of the result.
    pub output_bytes: usize,
    /// Bytes that functions make on the way, all together.
    pub work_bytes: usize,
    /// Nodes walked, rounds of loops, elements made.
    pub steps: usize,
    /// Templates in templates, blocks in blocks, parentheses in parentheses.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { output_bytes: 4 << 20, work_bytes: 64 << 20, steps: 2_000_000, depth: 100 }
    }
}

/// The surroundings of one filling: the clock, the dice, the limits.
pub struct Environment<'a> {
    /// What `now` says.
    pub now: Timestamp,
    /// The next random number. The same sequence gives the same text.
    pub random: &'a mut dyn FnMut() -> u64,
    pub limits: Limits,
}
