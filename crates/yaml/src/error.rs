//! One finding about a YAML text: what is wrong, and where.

use crate::Span;

/// A problem at a place; lines and columns count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct YamlError {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

impl YamlError {
    pub(crate) fn at(span: Span, message: impl Into<String>) -> Self {
        Self { line: span.line, column: span.column, message: message.into() }
    }
}
