//! Where a build is, on disk: written before anything is done, read after a restart.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use slipway_api::agent::{AnnotationChange, ApprovalDecision, BuiltImage};
use slipway_api::build::TestCounts;
use slipway_api::debug::Breakpoints;
use slipway_pipeline::BuildState;
use slipway_pipeline::spec::{Annotate, Breakpoint};

use crate::layout::{BuildDir, Lasting, read_json, write_json};
use crate::task::Exit;

/// The first step of every build: reading the pipeline.
pub(crate) const INIT: &str = "Initializing Process";

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Journal {
    pub(crate) epoch: i64,
    /// Grows with every change; the server ignores reports older than one it has.
    pub(crate) revision: i64,
    /// The pipeline's text, once it has been read: a restart goes on with the same.
    pub(crate) yaml: Option<String>,
    pub(crate) started_ms: i64,
    pub(crate) init: Init,
    pub(crate) state: BuildState,
    /// What each log consists of, in order.
    pub(crate) logs: BTreeMap<String, Vec<Segment>>,
    /// Where each step works, known when it starts.
    pub(crate) directories: BTreeMap<String, String>,
    /// How often a step was lost with the machine.
    pub(crate) interruptions: BTreeMap<String, u32>,
    /// Answers to steps that wait for one, by step.
    #[serde(default)]
    pub(crate) decisions: BTreeMap<String, ApprovalDecision>,
    /// Where steps leave reports of tests, and what was in them.
    #[serde(default)]
    pub(crate) junit: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) tests: BTreeMap<String, TestCounts>,
    /// Pipelines inside of typed steps, by the step.
    #[serde(default)]
    pub(crate) inner: BTreeMap<String, Inner>,
    /// What image steps say about themselves, for when they have succeeded.
    #[serde(default)]
    pub(crate) noted: BTreeMap<String, Annotate>,
    #[serde(default)]
    pub(crate) annotations: Vec<AnnotationChange>,
    #[serde(default)]
    pub(crate) images: Vec<BuiltImage>,
    /// Somebody has set a breakpoint since the build began.
    #[serde(default)]
    pub(crate) debugging: bool,
    /// Set since then, by step.
    #[serde(default)]
    pub(crate) breakpoints: Breakpoints,
    /// Those of the pipeline's text, of steps that have begun.
    #[serde(default)]
    pub(crate) written: BTreeMap<String, Breakpoint>,
    /// Steps that stand at one now.
    #[serde(default)]
    pub(crate) pauses: BTreeMap<String, Pause>,
    /// The last breakpoint that each step has been let past.
    #[serde(default)]
    pub(crate) passed: BTreeMap<String, (u32, Phase)>,
    /// Orders of people who debug the build.
    #[serde(default)]
    pub(crate) debug_heard: Vec<String>,
    /// Steps of an earlier build that this one did not run again.
    #[serde(default)]
    pub(crate) taken_over: Vec<String>,
    pub(crate) finished: Option<Finished>,
    /// The server has the end and every line.
    pub(crate) reported: bool,
    /// The build is no longer assigned to this runner.
    pub(crate) lost: bool,
}

/// Where a step stops when its build is debugged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    Before,
    Override,
    After,
}

impl Phase {
    /// As files and the wire have it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Override => "override",
            Self::After => "after",
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Pause {
    pub(crate) attempt: u32,
    pub(crate) phase: Phase,
    pub(crate) since_ms: i64,
    pub(crate) until_ms: i64,
    /// How the attempt ended, where it stands after its end.
    pub(crate) exit: Option<Exit>,
}

/// The pipeline inside of an attempt of a typed step.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Inner {
    pub(crate) attempt: u32,
    pub(crate) yaml: String,
    pub(crate) state: BuildState,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Init {
    pub(crate) finished_ms: Option<i64>,
    pub(crate) error: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Finished {
    pub(crate) status: String,
    pub(crate) message: String,
    pub(crate) at_ms: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Segment {
    /// The runner's own words.
    Text(String),
    /// What an attempt printed.
    Output { step: String, attempt: u32 },
}

impl Journal {
    pub(crate) fn load(dir: &BuildDir) -> io::Result<Option<Self>> {
        read_json(&dir.journal())
    }

    /// After this returns the change outlives a power cut.
    pub(crate) fn save(&mut self, dir: &BuildDir) -> io::Result<()> {
        self.revision += 1;
        write_json(&dir.journal(), self, Lasting::Now)
    }

    pub(crate) fn say(&mut self, log: &str, line: &str) {
        let mut text = line.trim_end().to_owned();
        text.push('\n');
        self.logs.entry(log.to_owned()).or_default().push(Segment::Text(text));
    }

    /// What the attempt prints comes next.
    pub(crate) fn print(&mut self, step: &str, attempt: u32) {
        let output = Segment::Output { step: step.to_owned(), attempt };
        self.logs.entry(log_of(step).to_owned()).or_default().push(output);
    }

    /// Forgets what is of no use after the end: variables are secrets.
    pub(crate) fn scrub(&mut self) {
        self.state.variables = Default::default();
        for step in self.state.steps.values_mut() {
            step.exports.clear();
        }
        self.inner.clear();
        self.pauses.clear();
        self.noted.clear();
    }
}

/// The log that a step writes to: hooks write to their owner's, those of the pipeline to the first.
pub(crate) fn log_of(step: &str) -> &str {
    match step.split_once(".hooks.") {
        Some((owner, _)) => owner,
        None if step.starts_with("hooks.") => INIT,
        None => step,
    }
}
