//! The condition language of `when`, `success_criteria` and annotations.
//!
//! An expression and the values it may name come in; a boolean or the reason why there is none goes
//! out. The grammar is jsep's and the rules are those of Codefresh's evaluator, kept to the letter
//! where users depend on them: `&&` and `||` look at both sides, operands are never converted, an
//! unknown name is an error. Callers treat an error as `false` and show it.
//!
//! Cost is bounded: the text, the nesting, the values and the regular expressions all have limits,
//! and nothing of the host can be reached.

mod function;
mod js_regex;
mod machine;
mod parser;
mod value;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value as Json};

pub use js_regex::JsRegex;

/// Longest expression, before and after `${{ }}` has been filled in.
pub const EXPRESSION_CHARS_MAX: usize = 12_000;
/// Deepest nesting of parentheses, calls and unary operators.
pub const DEPTH_MAX: usize = 200;
/// Longest string an operator or a function may make.
pub const STRING_BYTES_MAX: usize = 1 << 20;

/// Why an expression has no result, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {reason}")]
pub struct ExpressionError {
    /// Counts characters from 1.
    pub column: usize,
    pub reason: String,
}

impl ExpressionError {
    pub(crate) fn new(column: usize, reason: impl Into<String>) -> Self {
        Self { column, reason: reason.into() }
    }
}

/// A name that an expression reads: `steps.build.result` is three parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    pub column: usize,
    pub path: Vec<String>,
}

/// Evaluates an expression to the truth of its result.
pub fn evaluate(expression: &str, scope: &Map<String, Json>) -> Result<bool, ExpressionError> {
    let program = parser::parse(expression)?;
    machine::run(&program, scope)
}

/// As [`evaluate`], for a person who tries a condition out: a result that is neither true nor false is an error.
/// In a pipeline such a condition counts by its truth, as the language has it.
pub fn evaluate_strictly(expression: &str, scope: &Map<String, Json>) -> Result<bool, ExpressionError> {
    let program = parser::parse(expression)?;
    machine::run_strictly(&program, scope)
}

/// Checks what can be known without values: the grammar, function names and their number of arguments.
pub fn check(expression: &str) -> Result<Vec<Reference>, ExpressionError> {
    let program = parser::parse(expression)?;
    machine::check(&program)
}
