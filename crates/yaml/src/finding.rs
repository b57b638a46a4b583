//! What is wrong with a manifest, and where: for rooms that check objects before a cluster sees them.
//!
//! In: places in an object, collected while its parts are judged ([`Wrongs`]). Out: findings with line and column ([`Finding`]). Does
//! not know what is judged.

use serde_json::Value;

use crate::{Dialect, Node};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// It is refused.
    Error,
    /// It is taken, and hardly what was meant.
    Warning,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    pub line: usize,
    pub column: usize,
    /// `Workflow/hello`; empty where the text itself cannot be read.
    pub object: String,
    /// `spec.templates[0].container.image`.
    pub path: String,
    pub message: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { level, line, column, object, path, message } = self;
        write!(f, "{line}:{column}: {}: ", level.as_str())?;
        for part in [object, path].into_iter().filter(|part| !part.is_empty()) {
            write!(f, "{part}: ")?;
        }
        f.write_str(message)
    }
}

/// What was looked at, and what was found.
#[derive(Debug, Default)]
pub struct Report {
    /// Objects of the kinds that are checked.
    pub checked: usize,
    pub findings: Vec<Finding>,
}

impl Report {
    pub fn errors(&self) -> usize {
        self.findings.iter().filter(|finding| finding.level == Level::Error).count()
    }

    /// In the order of the text, each once.
    pub fn settle(&mut self) {
        self.findings.sort_by_key(|finding| (finding.line, finding.column));
        self.findings.dedup();
    }
}

/// A place in an object and what is wrong there.
pub struct Wrong {
    pub level: Level,
    pub place: Vec<String>,
    pub message: String,
}

/// Collects what is wrong below a place.
pub struct Wrongs<'a> {
    all: &'a mut Vec<Wrong>,
    base: Vec<String>,
}

impl<'a> Wrongs<'a> {
    pub fn new(all: &'a mut Vec<Wrong>) -> Self {
        Self { all, base: Vec::new() }
    }

    /// A dotted path below the base: `steps.0.pause`.
    pub fn add(&mut self, path: &str, message: impl Into<String>) {
        self.put(Level::Error, path, message.into());
    }

    pub fn warn(&mut self, path: &str, message: impl Into<String>) {
        self.put(Level::Warning, path, message.into());
    }

    fn put(&mut self, level: Level, path: &str, message: String) {
        let mut place = self.base.clone();
        place.extend(path.split('.').filter(|part| !part.is_empty()).map(str::to_owned));
        self.all.push(Wrong { level, place, message });
    }

    pub fn below(&mut self, path: &str) -> Wrongs<'_> {
        let mut base = self.base.clone();
        base.extend(path.split('.').filter(|part| !part.is_empty()).map(str::to_owned));
        Wrongs { all: self.all, base }
    }

    /// One part, whatever is in it: names that people choose may have dots.
    pub fn part(&mut self, name: impl ToString) -> Wrongs<'_> {
        self.place(&[name.to_string()])
    }

    pub fn place(&mut self, parts: &[String]) -> Wrongs<'_> {
        let base = self.base.iter().chain(parts).cloned().collect();
        Wrongs { all: self.all, base }
    }
}

/// One document of a text.
pub struct Document {
    pub node: Node,
    pub value: Value,
}

impl Document {
    pub fn kind(&self) -> &str {
        self.value["kind"].as_str().unwrap_or_default()
    }

    pub fn is_of_group(&self, group: &str) -> bool {
        self.value["apiVersion"]
            .as_str()
            .and_then(|version| version.split_once('/'))
            .is_some_and(|(found, _)| found == group)
    }

    /// Its name, or what its name will begin with.
    pub fn name(&self) -> &str {
        let metadata = &self.value["metadata"];
        metadata["name"].as_str().or_else(|| metadata["generateName"].as_str()).unwrap_or_default()
    }

    pub fn found(&self, wrong: Wrong) -> Finding {
        let place: Vec<&str> = wrong.place.iter().map(String::as_str).collect();
        let span = self.node.key_span_at(&place);
        Finding {
            level: wrong.level,
            line: span.line,
            column: span.column,
            object: format!("{}/{}", self.kind(), self.name()),
            path: dotted(&wrong.place),
            message: wrong.message,
        }
    }
}

/// The documents of a text, or what is wrong with the text itself.
pub fn documents(text: &str) -> Result<Vec<Document>, Vec<Finding>> {
    let unreadable = |error: crate::YamlError| Finding {
        level: Level::Error,
        line: error.line,
        column: error.column,
        object: String::new(),
        path: String::new(),
        message: error.message,
    };
    let nodes = crate::parse(text, Dialect::Kubernetes)
        .map_err(|errors| errors.into_iter().map(unreadable).collect::<Vec<_>>())?;
    let there = nodes.into_iter().filter(|node| !node.is_null());
    Ok(there.map(|node| Document { value: node.to_json(), node }).collect())
}

/// `steps[0].pause`, as Kubernetes writes it.
fn dotted(place: &[String]) -> String {
    let mut text = String::new();
    for part in place {
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            text += &format!("[{part}]");
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text += part;
        }
    }
    text
}
