//! An Experiment: versions side by side for a while, with analyses of them.
//!
//! In: the Experiment, its ReplicaSets, Services and AnalysisRuns, the templates that it names, and the time. Out: what to write, the status
//! after it, events, and when to look again. Like a Rollout's plan it may be interrupted anywhere. Knows no client and no clock.

mod runs;
mod status;
mod templates;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_crd::analysis::{AnalysisRun, AnalysisTemplate, Experiment};

pub use status::{RunStatus, Status, TemplateStatus};

use crate::analysis::{ERROR, FAILED, INCONCLUSIVE, PENDING, RUNNING, SUCCESSFUL, is_completed, is_worse};
use crate::plan::{Action, Event, Target};

pub(crate) const PROGRESSING: &str = "Progressing";
const PROGRESS_DEADLINE: i64 = 600;
const REQUIRED_DONE: &str = "Required AnalysisRuns completed";

/// Everything that a plan is made from.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    pub experiment: Experiment,
    /// Those that it owns.
    pub replica_sets: Vec<Value>,
    pub services: Vec<Value>,
    pub runs: Vec<AnalysisRun>,
    /// The analysis templates that may be named.
    pub templates: Vec<AnalysisTemplate>,
    /// Services that a router still sends requests to: their pods stay.
    pub routed: Vec<String>,
    /// Names of Services and of ReplicaSets of the namespace that it wants and that are somebody else's.
    pub taken: Vec<String>,
    pub taken_sets: Vec<String>,
}

/// What to do.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub actions: Vec<Action>,
    pub status: Status,
    pub events: Vec<Event>,
    pub requeue_at: Option<Timestamp>,
}

struct Play<'a> {
    observed: &'a Observed,
    now: Timestamp,
    prev: Status,
    ends: bool,
    plan: Plan,
}

/// What to do about the Experiment now.
pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let prev = Status::of(&observed.experiment.status);
    if observed.experiment.metadata.deletion_timestamp.is_some() {
        return Plan { status: prev, ..Plan::default() };
    }
    if let Some(why) = wrong(&observed.experiment).filter(|_| prev.phase.is_empty()) {
        let message = format!("Experiment is invalid: {why}");
        let event = Event { reason: "ExperimentError", warning: true, message: message.clone() };
        let status = Status { phase: ERROR.into(), message, ..prev };
        return Plan { status, events: vec![event], ..Plan::default() };
    }
    let ends = ends(&observed.experiment, &prev);
    let plan = Plan { status: prev.clone(), ..Plan::default() };
    let mut play = Play { observed, now, prev, ends, plan };
    for template in &observed.experiment.spec.templates {
        play.template(template);
    }
    for analysis in &observed.experiment.spec.analyses {
        play.analysis(analysis);
    }
    play.conclude();
    play.plan
}

/// What would let it run for ever, succeed without having run, or mix up its versions.
fn wrong(experiment: &Experiment) -> Option<String> {
    let spec = &experiment.spec;
    if spec.templates.is_empty() {
        return Some("spec.templates: at least one template is needed".into());
    }
    let duration = slipway_dialect::duration::parse_or_seconds(&spec.duration);
    if !spec.duration.is_empty() && duration.is_none_or(|milliseconds| milliseconds < 0) {
        return Some(format!("spec.duration: `{}` is not a duration like 30s, 5m or 1h", spec.duration));
    }
    spec.templates.iter().enumerate().find_map(|(at, template)| {
        let twice = spec.templates[..at].iter().any(|earlier| earlier.name == template.name);
        if twice || template.name.is_empty() {
            return Some(format!("spec.templates[{at}].name: `{}` is empty or there twice", template.name));
        }
        let fields = |value: &Value| value.is_null() || value.is_object();
        let pods = template.template.as_ref().filter(|pods| pods.is_object());
        let whole = pods.is_some_and(|pods| fields(&pods["metadata"]) && fields(&pods["metadata"]["labels"]));
        (!whole).then(|| format!("spec.templates[{at}].template: it says which pods are run"))
    })
}

/// Somebody ended it, or something in it did.
fn ends(experiment: &Experiment, status: &Status) -> bool {
    let failed = status.template_statuses.iter().any(|one| matches!(one.status.as_str(), FAILED | ERROR));
    let bad =
        status.analysis_runs.iter().any(|one| matches!(one.phase.as_str(), FAILED | ERROR | INCONCLUSIVE));
    experiment.spec.terminate
        || is_completed(&status.phase)
        || failed
        || bad
        || required_are_good(experiment, status)
}

fn required_are_good(experiment: &Experiment, status: &Status) -> bool {
    let mut required = experiment.spec.analyses.iter().filter(|one| one.required_for_completion).peekable();
    required.peek().is_some()
        && required.all(|one| status.run(&one.name).is_some_and(|run| run.phase == SUCCESSFUL))
}

impl Play<'_> {
    fn experiment(&self) -> &Experiment {
        &self.observed.experiment
    }

    fn owner(&self) -> Value {
        let metadata = &self.experiment().metadata;
        json!({"apiVersion": slipway_crd::names::API_VERSION, "kind": "Experiment", "name": metadata.name, "uid": metadata.uid,
            "controller": true, "blockOwnerDeletion": true})
    }

    fn target(&self, api_version: &str, kind: &str, name: &str) -> Target {
        Target::new(api_version, kind, &self.experiment().metadata.namespace, name)
    }

    fn look_at(&mut self, at: Timestamp) {
        let next = self.plan.requeue_at.map_or(at, |before| before.min(at));
        self.plan.requeue_at = Some(next);
    }

    fn after(&self, seconds: i64) -> Timestamp {
        self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
    }

    fn tell(&mut self, reason: &'static str, warning: bool, message: String) {
        self.plan.events.push(Event { reason, warning, message });
    }

    /// When its time is over, once it has begun.
    fn end(&self) -> Option<Timestamp> {
        let duration = &self.experiment().spec.duration;
        let since: Timestamp = self.prev.available_at.as_deref()?.parse().ok()?;
        let milliseconds =
            slipway_dialect::duration::parse_or_seconds(duration).filter(|_| !duration.is_empty())?;
        since.checked_add(SignedDuration::from_millis(milliseconds)).ok()
    }

    fn is_over(&self) -> bool {
        self.end().is_some_and(|end| self.now >= end)
    }

    fn deadline_seconds(&self) -> i64 {
        self.experiment().spec.progress_deadline_seconds.unwrap_or(PROGRESS_DEADLINE)
    }

    /// The phase that follows from templates and analyses.
    fn conclude(&mut self) {
        let (of_templates, why) = self.worst_template();
        let (of_runs, run_why) = self.worst_run();
        let status = &mut self.plan.status;
        match status.phase.as_str() {
            "" => status.phase = PENDING.into(),
            PENDING | RUNNING => {
                if of_templates == RUNNING && status.available_at.is_none() {
                    status.available_at = Some(written(self.now));
                }
                let asked = &self.observed.experiment.spec.analyses;
                let has_required = asked.iter().any(|one| one.required_for_completion);
                let by_runs = if is_completed(of_templates) {
                    of_templates == SUCCESSFUL && (is_completed(&of_runs) || has_required)
                } else {
                    is_completed(&of_runs) && of_runs != SUCCESSFUL
                        || required_are_good(&self.observed.experiment, status)
                };
                (status.phase, status.message) =
                    if by_runs { (of_runs, run_why) } else { (of_templates.to_owned(), why) };
            }
            _ => {}
        }
        if !is_completed(&self.plan.status.phase) {
            let end = self.plan.status.available_at.clone();
            self.prev.available_at = end;
            if let Some(end) = self.end().filter(|end| *end > self.now) {
                self.look_at(end);
            }
        }
    }

    fn worst_template(&self) -> (&'static str, String) {
        let order = [SUCCESSFUL, RUNNING, PROGRESSING, ERROR, FAILED];
        let mut worst = (0, String::new());
        for template in &self.experiment().spec.templates {
            let known = self.plan.status.template(&template.name);
            let phase = known.map_or(PROGRESSING, |known| known.status.as_str());
            let rank = order.iter().position(|one| *one == phase).unwrap_or(2);
            if rank > worst.0 {
                worst = (rank, known.map(|known| known.message.clone()).unwrap_or_default());
            }
        }
        let phase = match order[worst.0] {
            PROGRESSING => PENDING,
            other => other,
        };
        (phase, worst.1)
    }

    fn worst_run(&self) -> (String, String) {
        let mut worst = (SUCCESSFUL.to_owned(), String::new());
        for analysis in &self.experiment().spec.analyses {
            let Some(run) = self.plan.status.run(&analysis.name) else { continue };
            let phase = if run.phase.is_empty() { PENDING } else { &run.phase };
            if is_worse(phase, &worst.0) {
                worst = (phase.to_owned(), run.message.clone());
            }
        }
        if !is_completed(&worst.0) && required_are_good(self.experiment(), &self.plan.status) {
            return (SUCCESSFUL.into(), REQUIRED_DONE.into());
        }
        if worst.0 == PENDING {
            worst.0 = RUNNING.into();
        }
        worst
    }
}

fn written(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
