//! Findings about a pipeline file: everything at once, each with its place.
//!
//! Text or a parsed tree comes in, with what is known about the account; findings go out, in file
//! order. Errors are what the pipeline language forbids; warnings and advice are what will probably
//! not do what was meant. The linter never stops at the first finding and never fixes anything.

mod account;
mod advice;
mod model;
mod reach;
mod schema;
mod shape;
mod steps;
mod suggest;
mod text;
mod wire;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use slipway_yaml::{Dialect, Limits, Node, Span};

use crate::expand::expand;

pub use crate::parse::KNOWN_TYPES;
pub use account::{Account, Cluster, GitIntegration, Registry};
pub use schema::schema;
pub use wire::{Report, report};

pub(crate) use suggest::nearest;

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
    /// The step it is about; for a hook's step, that step's own name when it has one.
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
    fn new(severity: Severity, message: impl Into<String>, span: Span) -> Self {
        Self {
            severity,
            message: message.into(),
            hint: None,
            step: None,
            area: None,
            key: None,
            code: None,
            suggestion: None,
            line: span.line,
            column: span.column,
        }
    }

    fn error(message: impl Into<String>, span: Span) -> Self {
        Self::new(Severity::Error, message, span)
    }

    fn warning(message: impl Into<String>, span: Span) -> Self {
        Self::new(Severity::Warning, message, span)
    }

    fn area(mut self, area: &str) -> Self {
        self.area = Some(area.to_owned());
        self
    }

    fn step(mut self, step: &str) -> Self {
        self.step = Some(step.to_owned());
        self
    }

    fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn code(mut self, code: u32) -> Self {
        self.code = Some(code);
        self
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let severity = if self.is_error() { "error" } else { "warning" };
        write!(f, "{severity}: {}", self.message.trim_end())?;
        if let Some(step) = &self.step {
            write!(f, " (step `{step}`")?;
            if self.line > 0 {
                write!(f, ", {}:{}", self.line, self.column)?;
            }
            write!(f, ")")?;
        } else if self.line > 0 {
            write!(f, " ({}:{})", self.line, self.column)?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

/// What the linter should know and do.
#[derive(Debug, Clone)]
pub struct LintOptions {
    /// Build steps know `tags`, `registry` and `disable_push`; the file's `build_version` wins.
    pub build_v2: bool,
    /// `tag` must be given on build steps.
    pub tag_required: bool,
    /// Integrations of the account; without them nothing is said about names of integrations.
    pub account: Option<Account>,
    /// Say nothing about defaults that were taken silently (codes 103, 203, 303) and old Helm (601).
    pub quiet_defaults: bool,
    /// Expand `scale` and `matrix` before looking.
    pub expand: bool,
    /// Look at steps inside blocks as closely as at others. The reference validator reads their
    /// `arguments` as foreign and does not look into a block inside a block.
    pub deep: bool,
    /// Add our own advice to what the validator says.
    pub advice: bool,
}

impl Default for LintOptions {
    fn default() -> Self {
        Self {
            build_v2: true,
            tag_required: false,
            account: None,
            quiet_defaults: false,
            expand: true,
            deep: true,
            advice: true,
        }
    }
}

impl LintOptions {
    /// Exactly what the reference validator looks at, no more.
    pub fn reference() -> Self {
        Self { build_v2: false, expand: false, deep: false, advice: false, ..Self::default() }
    }
}

/// No pipeline that a person writes comes near this.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Reads a text and says everything about it. The tree is there when the text is YAML at all.
pub fn lint_text(text: &str, options: &LintOptions) -> (Option<Node>, Vec<Finding>) {
    let limits = Limits { text_bytes: TEXT_BYTES_MAX, ..Limits::default() };
    let documents = match slipway_yaml::parse_with(text, Dialect::Pipeline, &limits) {
        Ok(documents) => documents,
        Err(errors) => {
            let place = |error: &slipway_yaml::YamlError| Span {
                line: error.line,
                column: error.column,
                ..Span::default()
            };
            let findings = errors.iter().map(|error| {
                Finding::error(format!("this is not valid YAML: {}", error.message), place(error))
            });
            return (None, findings.collect());
        }
    };
    let mut documents = documents.into_iter();
    let Some(root) = documents.next() else {
        let finding = Finding::error("the file is empty", Span { line: 1, column: 1, ..Span::default() });
        return (None, vec![finding.hint("start with `version: '1.0'` and `steps:`")]);
    };
    if let Some(second) = documents.next() {
        let finding = Finding::error("the file has more than one YAML document", second.span);
        return (
            None,
            vec![finding.hint("a pipeline is one document; remove the `---` line and what follows")],
        );
    }
    let findings = lint_model(&root, Some(text), options);
    (Some(root), findings)
}

/// Looks at a tree that somebody else read; `text`, when there is one, is looked at for layout.
pub fn lint_model(root: &Node, text: Option<&str>, options: &LintOptions) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !root.is_mapping() {
        let message = "a pipeline is a map with `version` and `steps`";
        return vec![Finding::error(message, root.span).area("workflow")];
    }
    if let Some(finding) = model::version(root) {
        return vec![finding];
    }
    if let (Some(text), Some(_)) = (text, &options.account) {
        findings = text::mixed_tabs(text);
        if !findings.is_empty() {
            // Nothing else can be judged while the indentation is not what it looks like.
            return findings;
        }
        findings.extend(text::folded_indentation(text));
    }
    let expanded;
    let root = if options.expand {
        expanded = expand(root);
        &expanded
    } else {
        root
    };
    model::lint(root, options, &mut findings);
    if let Some(account) = &options.account {
        account::lint(root, account, options, &mut findings);
    }
    if options.advice {
        advice::lint(root, &mut findings);
        reach::lint(root, &mut findings);
    }
    sort(&mut findings);
    findings
}

fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| (finding.line, finding.column));
}
