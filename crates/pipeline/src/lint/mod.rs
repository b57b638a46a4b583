//! Findings about a pipeline file: everything at once, each with its place.

use serde::{Deserialize, Serialize};
use slipway_yaml::{Dialect, Node};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
}

/// One thing to change in a pipeline file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub severity: Severity,
    pub message: String,
    /// What to do about it, in a sentence.
    pub hint: Option<String>,
    /// The step it is about.
    pub step: Option<String>,
    /// The part of the language, in the validator's words: `workflow`, `steps`, `registry`, `git`, …
    pub area: Option<String>,
    /// The field inside the step or the root, dotted.
    pub key: Option<String>,
    pub code: Option<u32>,
    pub suggestion: Option<Suggestion>,
    /// 0 when the finding is about a value that did not come from text.
    pub line: usize,
    pub column: usize,
}

/// A spelling that was probably meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suggestion {
    pub from: String,
    pub to: String,
}

impl Finding {
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

#[derive(Debug, Clone, Default)]
pub struct LintOptions {}

pub fn lint_text(text: &str, _options: &LintOptions) -> (Option<Node>, Vec<Finding>) {
    match slipway_yaml::parse(text, Dialect::Pipeline) {
        Ok(documents) => (documents.into_iter().next(), Vec::new()),
        Err(errors) => (
            None,
            errors
                .into_iter()
                .map(|error| Finding {
                    severity: Severity::Error,
                    message: error.message,
                    hint: None,
                    step: None,
                    area: None,
                    key: None,
                    code: None,
                    suggestion: None,
                    line: error.line,
                    column: error.column,
                })
                .collect(),
        ),
    }
}
