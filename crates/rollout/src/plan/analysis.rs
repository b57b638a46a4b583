//! Analysis of an update: which runs there are to be, and what their outcome means for it.

use serde_json::{Value, json};
use slipway_crd::analysis::{AnalysisRun, Argument};
use slipway_crd::rollout::{RolloutAnalysis, RunArgument, RunStatusRef};

use super::{Action, Play, Target, pause};
use crate::analysis::{ERROR, FAILED, INCONCLUSIVE, SUCCESSFUL, collect, compose, is_completed};
use crate::names::{self, pause as reasons};

/// Runs that are over and kept, when nothing is said.
const HISTORY: i64 = 5;

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Step(i64),
    Background,
    Pre,
    Post,
}

impl Role {
    fn label(self) -> &'static str {
        match self {
            Self::Step(_) => "Step",
            Self::Background => "Background",
            Self::Pre => "PrePromotion",
            Self::Post => "PostPromotion",
        }
    }

    fn suffix(self) -> String {
        match self {
            Self::Step(index) => format!("-{index}"),
            Self::Background => String::new(),
            Self::Pre => "-pre".into(),
            Self::Post => "-post".into(),
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::Step(_) => "Step-based analysis phase error/failed",
            Self::Background => "Background analysis phase error/failed",
            Self::Pre => "Blue/green pre-promotion analysis phase error/failed",
            Self::Post => "Blue/green post-promotion analysis phase error/failed",
        }
    }
}

/// The runs of the update that is under way, as the status tells of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Runs {
    pub(super) step: Option<RunStatusRef>,
    pub(super) background: Option<RunStatusRef>,
    pub(super) pre: Option<RunStatusRef>,
    pub(super) post: Option<RunStatusRef>,
}

impl Runs {
    fn names(&self) -> Vec<&str> {
        let all = [&self.step, &self.background, &self.pre, &self.post];
        all.into_iter().flatten().map(|run| run.name.as_str()).collect()
    }
}

fn told(run: &AnalysisRun) -> RunStatusRef {
    let (name, status, message) =
        (run.metadata.name.clone(), run.status.phase.clone(), run.status.message.clone());
    RunStatusRef { name, status, message, ..RunStatusRef::default() }
}

impl<'a> Play<'a> {
    fn run_of(&self, known: Option<&RunStatusRef>) -> Option<&'a AnalysisRun> {
        let name = &known?.name;
        self.observed.runs.iter().find(|run| run.metadata.name == *name)
    }

    pub(super) fn is_successful(&self, known: Option<&RunStatusRef>) -> bool {
        self.run_of(known).is_some_and(|run| run.status.phase == SUCCESSFUL)
    }

    /// The analysis before the switch was successful, or there is none.
    pub(super) fn is_pre_promotion_done(&self) -> bool {
        let asked = self.blue_green().is_some_and(|blue_green| blue_green.pre_promotion_analysis.is_some());
        !asked || self.is_successful(self.prev().blue_green.pre_promotion_analysis_run_status.as_ref())
    }

    pub(super) fn is_post_promotion_done(&self) -> bool {
        let asked = self.blue_green().is_some_and(|blue_green| blue_green.post_promotion_analysis.is_some());
        !asked || self.is_successful(self.prev().blue_green.post_promotion_analysis_run_status.as_ref())
    }

    /// Starts, follows and ends the runs of the update.
    pub(super) fn analyse(&mut self) {
        let prev = self.prev();
        let over = self.is_fully_promoted()
            || self.is_aborted()
            || prev.promote_full
            || self.is_fast_rollback()
            || prev.stable_rs.is_empty();
        let (canary, blue_green) = (&prev.canary, &prev.blue_green);
        if over {
            for known in
                [&canary.current_step_analysis_run_status, &canary.current_background_analysis_run_status]
            {
                self.end_run(known.as_ref());
            }
            for known in [
                &blue_green.pre_promotion_analysis_run_status,
                &blue_green.post_promotion_analysis_run_status,
            ] {
                self.end_run(known.as_ref());
            }
            self.runs.pre = self.run_of(blue_green.pre_promotion_analysis_run_status.as_ref()).map(told);
            self.runs.post = self.run_of(blue_green.post_promotion_analysis_run_status.as_ref()).map(told);
        } else if self.canary().is_some() {
            self.runs.step = self.step_run(canary.current_step_analysis_run_status.as_ref());
            self.runs.background =
                self.background_run(canary.current_background_analysis_run_status.as_ref());
        } else {
            self.runs.pre =
                self.promotion_run(Role::Pre, blue_green.pre_promotion_analysis_run_status.as_ref());
            self.runs.post =
                self.promotion_run(Role::Post, blue_green.post_promotion_analysis_run_status.as_ref());
        }
        self.end_others();
    }

    fn step_run(&mut self, known: Option<&RunStatusRef>) -> Option<RunStatusRef> {
        let current = self.run_of(known);
        if !self.prev().pause_conditions.is_empty() {
            return current.map(told);
        }
        let (step, index) = self.step();
        let asked = step.and_then(|step| step.analysis.as_ref()).zip(index);
        let Some((asked, index)) = asked else {
            self.end_run(known);
            return None;
        };
        let of_this_step =
            current.filter(|run| run.metadata.labels.get(names::STEP_INDEX) == Some(&index.to_string()));
        if current.is_some() && of_this_step.is_none() {
            self.end_run(known);
        }
        self.follow(Role::Step(index), asked, of_this_step)
    }

    fn background_run(&mut self, known: Option<&RunStatusRef>) -> Option<RunStatusRef> {
        let asked = self.canary().and_then(|canary| canary.analysis.as_ref());
        let Some(asked) = asked else {
            self.end_run(known);
            return None;
        };
        let (_, index) = self.step();
        if asked.starting_step.zip(index).is_some_and(|(from, at)| at < from) {
            return None;
        }
        let current = self.run_of(known);
        if pause::condition_of(self.prev(), reasons::INCONCLUSIVE_RUN).is_some() {
            return current.map(told);
        }
        self.follow(Role::Background, asked, current)
    }

    fn promotion_run(&mut self, role: Role, known: Option<&RunStatusRef>) -> Option<RunStatusRef> {
        let blue_green = self.blue_green()?;
        let asked = if role == Role::Pre {
            &blue_green.pre_promotion_analysis
        } else {
            &blue_green.post_promotion_analysis
        };
        let current = self.run_of(known);
        let Some(asked) = asked.as_ref() else {
            self.end_run(known);
            return None;
        };
        let new = self.new?;
        let (hash, active) = (&self.sets[new].hash, &self.prev().blue_green.active_selector);
        let its_turn = if role == Role::Pre { !active.is_empty() && active != hash } else { active == hash };
        let ready = match blue_green.preview_replica_count.filter(|_| role == Role::Pre) {
            Some(count) => self.sets[new].wanted == count && self.sets[new].available == count,
            None => self.is_saturated(new),
        };
        if !its_turn || (current.is_none() && !ready) {
            self.end_run(known);
            return current.map(told);
        }
        if pause::condition_of(self.prev(), reasons::INCONCLUSIVE_RUN).is_some() {
            return current.map(told);
        }
        self.follow(role, asked, current)
    }

    /// The run that there is, or a new one; its outcome decides about the update.
    fn follow(
        &mut self,
        role: Role,
        asked: &RolloutAnalysis,
        current: Option<&'a AnalysisRun>,
    ) -> Option<RunStatusRef> {
        let Some(run) = current.filter(|run| !self.needs_another(run)) else {
            return self.start_run(role, asked);
        };
        let known = told(run);
        match run.status.phase.as_str() {
            INCONCLUSIVE => self.pause.add.push(reasons::INCONCLUSIVE_RUN),
            ERROR | FAILED => {
                let why = if run.status.message.is_empty() {
                    String::new()
                } else {
                    format!(": {}", run.status.message)
                };
                self.pause.abort = Some(format!("{}{why}", role.in_words()));
                self.plan.again = true;
            }
            _ => {}
        }
        self.tell_of_run(role, &known);
        Some(known)
    }

    fn tell_of_run(&mut self, role: Role, now: &RunStatusRef) {
        let prev = self.prev();
        let before = match role {
            Role::Step(_) => &prev.canary.current_step_analysis_run_status,
            Role::Background => &prev.canary.current_background_analysis_run_status,
            Role::Pre => &prev.blue_green.pre_promotion_analysis_run_status,
            Role::Post => &prev.blue_green.post_promotion_analysis_run_status,
        };
        let before = before.as_ref().filter(|before| before.name == now.name);
        if now.status.is_empty() || before.is_some_and(|before| before.status == now.status) {
            return;
        }
        let reason = match now.status.as_str() {
            "Pending" => "AnalysisRunPending",
            "Running" => "AnalysisRunRunning",
            SUCCESSFUL => "AnalysisRunSuccessful",
            FAILED => "AnalysisRunFailed",
            ERROR => "AnalysisRunError",
            _ => "AnalysisRunInconclusive",
        };
        let earlier = before
            .map(|before| before.status.as_str())
            .filter(|status| !status.is_empty())
            .unwrap_or("NoPreviousStatus");
        let message = format!(
            "{} Analysis Run '{}' Status New: '{}' Previous: '{earlier}'",
            role.label(),
            now.name,
            now.status
        );
        if matches!(now.status.as_str(), FAILED | ERROR) {
            self.warn(reason, message)
        } else {
            self.tell(reason, message)
        }
    }

    /// Somebody went on although it could not tell, or began again after an abort.
    fn needs_another(&self, run: &AnalysisRun) -> bool {
        let prev = self.prev();
        let waits = |reason| pause::condition_of(prev, reason).is_some();
        if prev.controller_pause && !waits(reasons::CANARY_STEP) && !waits(reasons::BLUE_GREEN) {
            return run.status.phase == INCONCLUSIVE;
        }
        prev.aborted_at.is_some()
    }

    fn start_run(&mut self, role: Role, asked: &RolloutAnalysis) -> Option<RunStatusRef> {
        match self.new_run(role, asked) {
            Ok((run, is_new)) => {
                let name = run["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                if is_new {
                    self.plan.actions.push(Action::Create(run));
                }
                Some(RunStatusRef { name, ..RunStatusRef::default() })
            }
            // Without it nobody knows whether the update is good.
            Err(why) => {
                self.pause.abort = Some(format!("the analysis cannot be started: {why}"));
                None
            }
        }
    }

    fn new_run(&self, role: Role, asked: &RolloutAnalysis) -> Result<(Value, bool), String> {
        let new = self.new.ok_or("there is no new version")?;
        let hash = &self.sets[new].hash;
        let templates = collect(&asked.templates, &self.observed.templates)?;
        let arguments: Result<Vec<Argument>, String> =
            asked.args.iter().map(|argument| self.argument(argument, hash)).collect();
        let spec = compose(&templates, &arguments?, &asked.dry_run, &asked.measurement_retention)?;
        let revision = self.revision().to_string();
        let mut labels = serde_json::Map::new();
        let metadata = asked.analysis_run_metadata.clone().unwrap_or_default();
        labels.extend(metadata.labels.iter().map(|(name, value)| (name.clone(), value.as_str().into())));
        let selector = self.selector["matchLabels"].as_object().cloned().unwrap_or_default();
        labels.extend(selector);
        labels.insert(names::HASH.into(), hash.as_str().into());
        labels.insert(names::RUN_TYPE.into(), role.label().into());
        if let Role::Step(index) = role {
            labels.insert(names::STEP_INDEX.into(), index.to_string().into());
        }
        if let Some(id) = self.ro.metadata.labels.get(names::INSTANCE_ID) {
            labels.insert(names::INSTANCE_ID.into(), id.as_str().into());
        }
        let mut annotations = serde_json::Map::new();
        annotations
            .extend(metadata.annotations.iter().map(|(name, value)| (name.clone(), value.as_str().into())));
        annotations.insert(names::REVISION.into(), revision.as_str().into());
        let base = format!("{}-{hash}-{revision}{}", self.ro.metadata.name, role.suffix());
        let mut name = base.clone();
        for counter in 1.. {
            match self.observed.runs.iter().find(|run| run.metadata.name == name) {
                // It was made a moment ago, and the status does not tell of it yet.
                Some(run) if !is_completed(&run.status.phase) && !run.spec.terminate => {
                    return Ok((json!({"metadata": {"name": name}}), false));
                }
                Some(_) => name = format!("{base}.{counter}"),
                None => break,
            }
        }
        Ok((
            json!({"apiVersion": slipway_crd::names::API_VERSION, "kind": "AnalysisRun",
                "metadata": {"name": name, "namespace": self.ro.metadata.namespace, "labels": labels, "annotations": annotations, "ownerReferences": [self.owner()]},
                "spec": spec}),
            true,
        ))
    }

    /// An argument of the Rollout with its value.
    pub(super) fn argument(&self, asked: &RunArgument, hash: &str) -> Result<Argument, String> {
        let source = asked.value_from.as_ref();
        let value = match source.and_then(|source| source.pod_template_hash_value.as_deref()) {
            Some("Stable") => self.prev().stable_rs.clone(),
            Some(_) => hash.to_owned(),
            None => match source.and_then(|source| source.field_ref.as_ref()) {
                Some(field) => self.field(&field.field_path).ok_or_else(|| {
                    format!("the Rollout has no {} for argument {}", field.field_path, asked.name)
                })?,
                None => asked.value.clone().unwrap_or_default(),
            },
        };
        Ok(Argument { name: asked.name.clone(), value: Some(value), ..Argument::default() })
    }

    /// `metadata.labels['app']`, `status.pauseConditions[0].reason`.
    fn field(&self, path: &str) -> Option<String> {
        let object = serde_json::to_value(self.ro).ok()?;
        let mut at = &object;
        let mut rest = path;
        while !rest.is_empty() {
            // In brackets a name may have dots: `metadata.labels['app.kubernetes.io/name']`.
            let (part, behind) = match rest.strip_prefix('[') {
                Some(inside) => inside.split_once(']')?,
                None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
            };
            let part = part.trim_matches(['\'', '"']);
            at = match part.parse::<usize>() {
                Ok(index) if at.is_array() => at.get(index)?,
                _ => at.get(part)?,
            };
            rest = behind.strip_prefix('.').unwrap_or(behind);
        }
        match at {
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            other => Some(other.to_string()),
        }
    }

    fn run_target(&self, name: &str) -> Target {
        Target::new(slipway_crd::names::API_VERSION, "AnalysisRun", &self.ro.metadata.namespace, name)
    }

    fn end_run(&mut self, known: Option<&RunStatusRef>) {
        if let Some(run) = self.run_of(known) {
            self.end(run);
        }
    }

    fn end(&mut self, run: &AnalysisRun) {
        if !run.spec.terminate && !is_completed(&run.status.phase) {
            let action =
                Action::patch(self.run_target(&run.metadata.name), json!({"spec": {"terminate": true}}));
            if !self.plan.actions.contains(&action) {
                self.plan.actions.push(action);
            }
        }
    }

    /// Runs of earlier updates: they are ended, and of those that are over a few are kept.
    fn end_others(&mut self) {
        let current: Vec<String> = self.runs.names().into_iter().map(str::to_owned).collect();
        let mut others: Vec<&AnalysisRun> =
            self.observed.runs.iter().filter(|run| !current.contains(&run.metadata.name)).collect();
        others.sort_by(|a, b| {
            (&b.metadata.creation_timestamp, &b.metadata.name)
                .cmp(&(&a.metadata.creation_timestamp, &a.metadata.name))
        });
        let limits = self.ro.spec.analysis.clone().unwrap_or_default();
        let mut good = limits.successful_run_history_limit.unwrap_or(HISTORY);
        let mut bad = limits.unsuccessful_run_history_limit.unwrap_or(HISTORY);
        for run in others {
            self.end(run);
            if !is_completed(&run.status.phase) || run.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let left = if run.status.phase == SUCCESSFUL { &mut good } else { &mut bad };
            if *left > 0 {
                *left -= 1;
                continue;
            }
            let (target, uid) = (self.run_target(&run.metadata.name), run.metadata.uid.clone());
            self.plan.actions.push(Action::Delete { target, uid });
        }
    }
}
