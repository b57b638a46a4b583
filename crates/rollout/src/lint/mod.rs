//! Manifests → everything that is wrong with them, with its place.
//!
//! In: a text with any number of documents. Out: findings, in the order of the text. What upstream's own validation refuses is
//! refused here, and besides what it lets pass although it cannot work. Services, Ingresses and VirtualServices in the same text
//! are compared with the Rollouts that name them; what is not in the text is not missed.

mod analysis;
mod canary;
mod references;
mod rollout;

use serde_json::Value;
use slipway_crd::analysis::{AnalysisRun, AnalysisTemplate, Experiment};
use slipway_crd::rollout::Rollout;
use slipway_yaml::{Dialect, Node};

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
    /// `Rollout/guestbook`; empty where the text itself cannot be read.
    pub object: String,
    /// `spec.strategy.canary.steps[0].setWeight`.
    pub path: String,
    pub message: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { level, line, column, object, path, message } = self;
        write!(f, "{line}:{column}: {}: ", level.as_str())?;
        if !object.is_empty() {
            write!(f, "{object}: ")?;
        }
        if !path.is_empty() {
            write!(f, "{path}: ")?;
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
}

/// A place in an object and what is wrong there.
pub(crate) struct Wrong {
    level: Level,
    place: Vec<String>,
    message: String,
}

/// Collects what is wrong below a place.
pub(crate) struct Wrongs<'a> {
    all: &'a mut Vec<Wrong>,
    base: Vec<String>,
}

impl Wrongs<'_> {
    /// A dotted path below the base: `steps.0.pause`.
    pub(crate) fn add(&mut self, path: &str, message: impl Into<String>) {
        self.put(Level::Error, path, message.into());
    }

    pub(crate) fn warn(&mut self, path: &str, message: impl Into<String>) {
        self.put(Level::Warning, path, message.into());
    }

    fn put(&mut self, level: Level, path: &str, message: String) {
        let mut place = self.base.clone();
        place.extend(path.split('.').filter(|part| !part.is_empty()).map(str::to_owned));
        self.all.push(Wrong { level, place, message });
    }

    pub(crate) fn below(&mut self, path: &str) -> Wrongs<'_> {
        let mut base = self.base.clone();
        base.extend(path.split('.').map(str::to_owned));
        Wrongs { all: self.all, base }
    }
}

struct Document {
    node: Node,
    value: Value,
}

impl Document {
    fn kind(&self) -> &str {
        self.value["kind"].as_str().unwrap_or_default()
    }

    fn is_ours(&self) -> bool {
        self.value["apiVersion"].as_str().is_some_and(|version| version.starts_with("argoproj.io/"))
    }

    fn name(&self) -> &str {
        let metadata = &self.value["metadata"];
        metadata["name"].as_str().or_else(|| metadata["generateName"].as_str()).unwrap_or_default()
    }
}

pub fn check(text: &str) -> Report {
    let nodes = match slipway_yaml::parse(text, Dialect::Kubernetes) {
        Ok(nodes) => nodes,
        Err(errors) => {
            let findings = errors.into_iter().map(|error| Finding {
                level: Level::Error,
                line: error.line,
                column: error.column,
                object: String::new(),
                path: String::new(),
                message: error.message,
            });
            return Report { checked: 0, findings: findings.collect() };
        }
    };
    let documents: Vec<Document> = nodes
        .into_iter()
        .filter(|node| !node.is_null())
        .map(|node| Document { value: node.to_json(), node })
        .collect();
    let mut report = Report::default();
    for document in documents.iter().filter(|document| document.is_ours()) {
        let Some(misfits) = slipway_crd::misfits(document.kind(), &document.value) else { continue };
        report.checked += 1;
        // Upstream reads Rollouts strictly, and of the other kinds drops what it does not know.
        let level = if document.kind() == "Rollout" { Level::Error } else { Level::Warning };
        let mut wrongs: Vec<Wrong> = misfits
            .into_iter()
            .map(|misfit| Wrong { level, place: misfit.place, message: misfit.message })
            .collect();
        judge(document, &documents, &mut wrongs);
        report.findings.extend(wrongs.into_iter().map(|wrong| found(document, wrong)));
    }
    report.findings.sort_by_key(|finding| (finding.line, finding.column));
    report.findings.dedup();
    report
}

/// Beyond its shape. What cannot be read as its kind has been found by its shape already.
fn judge(document: &Document, all: &[Document], wrongs: &mut Vec<Wrong>) {
    let mut wrongs = Wrongs { all: wrongs, base: Vec::new() };
    if document.name().is_empty() {
        wrongs.add("metadata", "`name` or `generateName` is missing");
    }
    match document.kind() {
        "Rollout" => {
            let Ok(rollout) = serde_json::from_value::<Rollout>(document.value.clone()) else { return };
            rollout::check(&rollout, &mut wrongs);
            references::check(&rollout, all.iter().map(|document| &document.value), &mut wrongs);
        }
        "AnalysisTemplate" | "ClusterAnalysisTemplate" => {
            let Ok(template) = serde_json::from_value::<AnalysisTemplate>(document.value.clone()) else {
                return;
            };
            analysis::check_template(&template.spec, &mut wrongs.below("spec"));
        }
        "AnalysisRun" => {
            let Ok(run) = serde_json::from_value::<AnalysisRun>(document.value.clone()) else { return };
            analysis::check_run(&run.spec, &mut wrongs.below("spec"));
        }
        "Experiment" => {
            let Ok(experiment) = serde_json::from_value::<Experiment>(document.value.clone()) else { return };
            analysis::check_experiment(&experiment.spec, &mut wrongs.below("spec"));
        }
        _ => {}
    }
}

fn found(document: &Document, wrong: Wrong) -> Finding {
    let place: Vec<&str> = wrong.place.iter().map(String::as_str).collect();
    let span = document.node.key_span_at(&place);
    Finding {
        level: wrong.level,
        line: span.line,
        column: span.column,
        object: format!("{}/{}", document.kind(), document.name()),
        path: dotted(&wrong.place),
        message: wrong.message,
    }
}

/// `steps[0].pause`, as Kubernetes writes it.
fn dotted(place: &[String]) -> String {
    let mut text = String::new();
    for part in place {
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
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
