//! From the planner's state to what the server is told.
//!
//! What steps say about themselves is made of what their authors wrote, variables filled in. A [`Told`] is the only thing
//! that goes out, and it can only be made with a masker: no sentence, title or name reaches the server around it.

use serde_json::Value;
use slipway_api::agent::{AnnotationChange, BuildReport, BuiltImage};
use slipway_api::build::{BuildStep, TestCounts};
use slipway_pipeline::graph::Place;
use slipway_pipeline::{BuildStatus, StepState, StepStatus};

use super::Build;
use crate::journal::INIT;
use crate::mask::Masker;

/// A report without secrets.
#[derive(Debug, Clone)]
pub(crate) struct Told(BuildReport);

impl Told {
    /// Every field is named here: a new one does not go out before somebody has decided about it.
    pub(crate) fn new(report: BuildReport, masker: &Masker) -> Self {
        let BuildReport {
            epoch,
            revision,
            status,
            message,
            started_ms,
            finished_ms,
            steps,
            annotations,
            images,
        } = report;
        let hidden = |text: String| masker.mask_whole(&text);
        Self(BuildReport {
            epoch,
            revision,
            status,
            message: message.map(hidden),
            started_ms,
            finished_ms,
            steps: steps.into_iter().map(|step| of_step(step, masker)).collect(),
            annotations: annotations.into_iter().map(|change| of_annotation(change, masker)).collect(),
            images: images.into_iter().map(|image| of_image(image, masker)).collect(),
        })
    }

    pub(crate) fn with_epoch(&self, epoch: i64) -> BuildReport {
        BuildReport { epoch, ..self.0.clone() }
    }
}

/// Names, stages and types are as they are written in the file, before any variable is filled in.
fn of_step(step: BuildStep, masker: &Masker) -> BuildStep {
    let BuildStep {
        name,
        title,
        kind,
        stage,
        status,
        attempt,
        started,
        finished,
        exit_code,
        message,
        log_bytes,
        previously_executed,
        needs,
        tests,
        paused,
    } = step;
    let hidden = |text: String| masker.mask_whole(&text);
    let all = |names: Vec<String>| names.into_iter().map(hidden).collect();
    BuildStep {
        name,
        title: hidden(title),
        kind,
        stage,
        status,
        attempt,
        started,
        finished,
        exit_code,
        message: message.map(hidden),
        log_bytes,
        previously_executed,
        needs,
        tests: tests.map(|tests| {
            let TestCounts { passed, failed, skipped, failed_cases, passed_cases, skipped_cases } = tests;
            let (failed_cases, passed_cases, skipped_cases) =
                (all(failed_cases), all(passed_cases), all(skipped_cases));
            TestCounts { passed, failed, skipped, failed_cases, passed_cases, skipped_cases }
        }),
        paused,
    }
}

fn of_annotation(change: AnnotationChange, masker: &Masker) -> AnnotationChange {
    let AnnotationChange { entity_type, entity_id, key, value, at_ms } = change;
    let hidden = |text: String| masker.mask_whole(&text);
    let value = value.map(|value| match value {
        Value::String(text) => Value::String(hidden(text)),
        other => other,
    });
    AnnotationChange { entity_type, entity_id: hidden(entity_id), key: hidden(key), value, at_ms }
}

fn of_image(image: BuiltImage, masker: &Masker) -> BuiltImage {
    let BuiltImage { step, id, name, tag, registry, digest, at_ms } = image;
    let hidden = |text: String| masker.mask_whole(&text);
    BuiltImage {
        step,
        id: hidden(id),
        name: hidden(name),
        tag: hidden(tag),
        registry: registry.map(hidden),
        digest,
        at_ms,
    }
}

impl Build {
    /// Tells the server how the build stands, as long as it goes on.
    pub(super) fn publish(&self) {
        let state = &self.journal.state;
        let status = if state.terminate_requested {
            BuildStatus::Terminating
        } else if state.steps.values().any(|step| step.status == StepStatus::PendingApproval) {
            BuildStatus::PendingApproval
        } else {
            BuildStatus::Running
        };
        let mut report = self.report();
        report.status = build_word(status).to_owned();
        self.reports.send_replace(Some(Told::new(report, &self.masker)));
    }

    /// The end, to be told after the last line of log.
    pub(super) fn publish_end(&self) {
        let mut report = self.report();
        // Above all that were sent, and the same if it has to be sent again after a crash.
        report.revision += 1;
        if let Some(finished) = &self.journal.finished {
            report.status = finished.status.clone();
            report.message = Some(finished.message.clone());
            report.finished_ms = Some(finished.at_ms);
        }
        self.reports.send_replace(Some(Told::new(report, &self.masker)));
    }

    fn report(&self) -> BuildReport {
        BuildReport {
            epoch: self.journal.epoch,
            revision: self.journal.revision,
            status: String::new(),
            message: self.sentence(),
            started_ms: Some(self.journal.started_ms),
            finished_ms: None,
            steps: self.steps(),
            annotations: self.journal.annotations.clone(),
            images: self.journal.images.clone(),
        }
    }

    /// What the build is doing, in one sentence.
    fn sentence(&self) -> Option<String> {
        if self.journal.yaml.is_none() {
            return Some("reading the pipeline".to_owned());
        }
        let state = &self.journal.state;
        if let Some((name, pause)) = self.journal.pauses.iter().next() {
            return Some(format!("step `{name}` is paused at its breakpoint `{}`", pause.phase.word()));
        }
        let named = |wanted: StepStatus| {
            state.steps.iter().find(|(_, step)| step.status == wanted).map(|(name, _)| name.clone())
        };
        named(StepStatus::Running)
            .map(|name| format!("step `{name}` is running"))
            .or_else(|| named(StepStatus::Terminating).map(|name| format!("step `{name}` is being stopped")))
            .or_else(|| {
                let waiting = self.plan.waiting.first()?;
                Some(format!("step `{}` {}", waiting.step, waiting.on.sentence()))
            })
    }

    fn steps(&self) -> Vec<BuildStep> {
        let lengths = self.logs.lengths();
        let bytes = |log: &str| lengths.get(log).copied().unwrap_or(0);
        let mut steps = vec![BuildStep {
            name: INIT.to_owned(),
            title: INIT.to_owned(),
            kind: "init".to_owned(),
            status: match &self.journal.init {
                init if init.error.is_some() => "error",
                init if init.finished_ms.is_some() => "success",
                _ if self.journal.finished.is_some() => "terminated",
                _ => "running",
            }
            .to_owned(),
            attempt: 1,
            started: time(Some(self.journal.started_ms)),
            finished: time(self.journal.init.finished_ms),
            message: self.journal.init.error.clone(),
            log_bytes: bytes(INIT),
            ..BuildStep::default()
        }];
        if let Some(pipeline) = &self.pipeline {
            steps.extend(pipeline.graph().iter().map(|place| {
                let step = place.step;
                let shown = build_step(place, &self.journal.state.step(&step.name), bytes(&step.name));
                let previously_executed = self.journal.taken_over.contains(&step.name);
                let tests = self.journal.tests.get(&step.name).cloned();
                self.paused(BuildStep { previously_executed, tests, ..shown })
            }));
        }
        steps
    }
}

fn build_step(place: &Place<'_>, state: &StepState, log_bytes: u64) -> BuildStep {
    let step = place.step;
    BuildStep {
        name: step.name.clone(),
        title: step.title.clone().unwrap_or_else(|| step.name.clone()),
        kind: step.type_name.clone(),
        stage: place.stage.map(str::to_owned),
        needs: place.needs.iter().map(|name| (*name).to_owned()).collect(),
        status: step_word(state.status).to_owned(),
        attempt: state.attempt,
        started: time(state.started_at),
        finished: time(state.finished_at.filter(|_| state.status.is_final())),
        exit_code: state.exit,
        message: state.reason.clone(),
        log_bytes,
        ..BuildStep::default()
    }
}

/// The words of the wire, where they are not the planner's.
pub(super) fn build_word(status: BuildStatus) -> &'static str {
    match status {
        BuildStatus::Denied => "error",
        other => other.as_str(),
    }
}

fn step_word(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Failure => "error",
        other => other.as_str(),
    }
}

fn time(ms: Option<i64>) -> Option<String> {
    jiff::Timestamp::from_millisecond(ms?).ok().map(|time| time.to_string())
}
