//! What can be wrong with a template, in the words that users of Go templates know.

/// A template that cannot be read or filled. The text names the template, the line and the column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The text is no template.
    #[error("template: {name}:{line}:{column}: {message}")]
    Parse { name: String, line: usize, column: usize, message: String },
    /// It is one, but it cannot be filled with this data.
    #[error("template: {name}:{line}:{column}: executing {template:?} at <{context}>: {message}")]
    Execute {
        /// The text in which the place is.
        name: String,
        /// The (defined) template that was being filled.
        template: String,
        line: usize,
        column: usize,
        context: String,
        message: String,
    },
    /// An option that there is not.
    #[error("unrecognized option: {0}; goTemplateOptions knows missingkey=default, invalid, zero and error")]
    Option(String),
}

impl TemplateError {
    /// The sentence without its place.
    pub fn message(&self) -> &str {
        match self {
            Self::Parse { message, .. } | Self::Execute { message, .. } => message,
            Self::Option(option) => option,
        }
    }
}

/// Line (from 1) and column (bytes, from 0, as Go counts) of a place in a text.
pub(crate) fn line_and_column(text: &str, position: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..position.min(text.len())];
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count();
    (line, column)
}
