//! Why there are no manifests, in words for the person who wrote them.

use slipway_model::Next;

use crate::git::GitError;

/// One thing that is wrong in a file. Lines and columns count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub message: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Chart(#[from] crate::chart::ChartError),
    /// Everything that was found, not only the first.
    #[error("{}", findings_text(.0))]
    Findings(Vec<Finding>),
    #[error("{message}")]
    Options { message: String },
    #[error("`{tool}` is needed for `{path}` and is not installed; {install}")]
    ToolMissing { tool: String, path: String, install: String },
    #[error("{tool} could not render `{path}`: {detail}")]
    Tool { tool: String, path: String, detail: String },
    #[error("what the chart looks up is not known now: {message}")]
    Lookup { message: String },
    #[error("{what} are more than the limit of {limit}; split the source")]
    TooLarge { what: String, limit: String },
    #[error("cannot write {folder}; check its owner and the free space")]
    Folder { folder: String, source: std::io::Error },
}

/// A message in a status must stay readable.
const FINDINGS_SHOWN: usize = 10;

fn findings_text(findings: &[Finding]) -> String {
    let mut lines: Vec<String> = findings.iter().take(FINDINGS_SHOWN).map(Finding::to_string).collect();
    if findings.len() > FINDINGS_SHOWN {
        lines.push(format!("and {} more", findings.len() - FINDINGS_SHOWN));
    }
    lines.join("; ")
}

impl RenderError {
    pub fn next(&self) -> Next {
        match self {
            Self::Git(error) => error.next(),
            Self::Chart(error) => error.next(),
            Self::Folder { .. } | Self::Lookup { .. } => Next::Retry,
            _ => Next::NeedsHuman,
        }
    }
}
