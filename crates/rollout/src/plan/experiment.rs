//! A step that is an experiment: it is made from the versions that there are, followed, and ended with the step.

use serde_json::{Value, json};
use slipway_crd::analysis::{Argument, Experiment};
use slipway_crd::rollout::{ExperimentStep, ExperimentTemplateRef, WeightDestination};

use super::{Action, Play, Target, pause};
use crate::analysis::{ERROR, FAILED, INCONCLUSIVE, RUNNING, SUCCESSFUL, is_completed};
use crate::experiment::Status;
use crate::names::{self, pause as reasons};

const HISTORY: i64 = 5;

impl<'a> Play<'a> {
    /// The experiment of the step that is under way, and the step.
    fn current_experiment(&self) -> Option<(&'a ExperimentStep, &'a Experiment)> {
        let (step, _) = self.step();
        let step = step?.experiment.as_ref()?;
        let known = &self.prev().canary.current_experiment;
        let by_name = self.observed.experiments.iter().find(|one| one.metadata.name == *known);
        by_name.filter(|_| !known.is_empty()).or_else(|| self.experiment_by_name()).map(|found| (step, found))
    }

    fn experiment_name(&self) -> Option<String> {
        let (new, (_, index)) = (self.new?, self.step());
        let revision = self.revision();
        Some(format!("{}-{}-{revision}-{}", self.ro.metadata.name, self.sets[new].hash, index?))
    }

    /// Made a moment ago, without the status telling of it.
    fn experiment_by_name(&self) -> Option<&'a Experiment> {
        let base = self.experiment_name()?;
        let numbered = |name: &str| {
            let rest = name.strip_prefix(base.as_str())?;
            if rest.is_empty() { Some(0) } else { rest.strip_prefix('-')?.parse::<u32>().ok() }
        };
        let all = self.observed.experiments.iter();
        let of_step = all.filter_map(|one| Some((numbered(&one.metadata.name)?, one)));
        let runs = |one: &Experiment| !one.spec.terminate && !is_completed(&Status::of(&one.status).phase);
        of_step.filter(|(_, one)| runs(one)).max_by_key(|(number, _)| *number).map(|(_, one)| one)
    }

    pub(super) fn is_experiment_successful(&self) -> bool {
        self.current_experiment().is_some_and(|(_, one)| Status::of(&one.status).phase == SUCCESSFUL)
    }

    /// The shares of the experiment's versions, while they run.
    pub(super) fn experiment_weights(&self) -> Vec<WeightDestination> {
        let Some((step, experiment)) = self.current_experiment() else { return Vec::new() };
        let status = Status::of(&experiment.status);
        if status.phase != RUNNING {
            return Vec::new();
        }
        let mut all = Vec::new();
        for one in &status.template_statuses {
            let asked = step.templates.iter().find(|template| template.name == one.name);
            if let Some(weight) =
                asked.and_then(|template| template.weight).filter(|_| !one.service_name.is_empty())
            {
                all.push(WeightDestination {
                    weight,
                    service_name: one.service_name.clone(),
                    pod_template_hash: one.pod_template_hash.clone(),
                    ..WeightDestination::default()
                });
            }
        }
        all
    }

    /// Starts, follows and ends experiments. The name of the one that runs goes into the status.
    pub(super) fn experiments(&mut self) {
        let over = self.is_aborted() || self.prev().promote_full || self.is_fully_promoted();
        if over {
            let all: Vec<&Experiment> = self.observed.experiments.iter().collect();
            return self.end_experiments(&all);
        }
        if pause::condition_of(self.prev(), reasons::INCONCLUSIVE_RUN).is_some() {
            self.experiment.clone_from(&self.prev().canary.current_experiment);
            return;
        }
        let (step, _) = self.step();
        let asked = step.and_then(|step| step.experiment.as_ref());
        let mut current = None;
        if let (Some(step), Some(_)) = (asked, self.stable) {
            match self.current_experiment().filter(|(_, experiment)| !self.is_to_be_repeated(experiment)) {
                Some((_, experiment)) => {
                    self.follow_experiment(experiment);
                    current = Some(experiment.metadata.name.clone());
                }
                None => self.start_experiment(step),
            }
        }
        let others: Vec<&Experiment> = self
            .observed
            .experiments
            .iter()
            .filter(|one| Some(&one.metadata.name) != current.as_ref())
            .collect();
        self.end_experiments(&others);
    }

    /// Somebody went on although it could not tell: it is asked again.
    fn is_to_be_repeated(&self, experiment: &Experiment) -> bool {
        let prev = self.prev();
        prev.controller_pause
            && prev.pause_conditions.is_empty()
            && Status::of(&experiment.status).phase == INCONCLUSIVE
    }

    fn follow_experiment(&mut self, experiment: &Experiment) {
        let status = Status::of(&experiment.status);
        self.experiment.clone_from(&experiment.metadata.name);
        match status.phase.as_str() {
            INCONCLUSIVE => self.pause.add.push(reasons::INCONCLUSIVE_EXPERIMENT),
            ERROR | FAILED => {
                let why =
                    if status.message.is_empty() { String::new() } else { format!(": {}", status.message) };
                self.pause.abort = Some(format!("Experiment analysis phase is error/failed{why}"));
                self.experiment.clear();
                self.plan.again = true;
            }
            _ => {}
        }
    }

    fn start_experiment(&mut self, step: &ExperimentStep) {
        let Some(base) = self.experiment_name() else { return };
        let mut name = base.clone();
        let mut number = 0;
        while self.observed.experiments.iter().any(|one| one.metadata.name == name) {
            number += 1;
            name = format!("{base}-{number}");
        }
        match self.new_experiment(step, &name) {
            Ok(experiment) => {
                self.plan.actions.push(Action::Create(experiment));
                self.tell("ExperimentCreated", format!("Created Experiment '{name}'"));
                self.experiment = name;
            }
            Err(why) => self.pause.abort = Some(format!("the experiment cannot be started: {why}")),
        }
    }

    fn new_experiment(&self, step: &ExperimentStep, name: &str) -> Result<Value, String> {
        let new = self.new.ok_or("there is no new version")?;
        let hash = self.sets[new].hash.clone();
        let metadata = &self.ro.metadata;
        let mut labels: serde_json::Map<String, Value> =
            metadata.labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        labels.insert(names::HASH.into(), hash.as_str().into());
        let templates: Result<Vec<Value>, String> =
            step.templates.iter().map(|template| self.experiment_template(template)).collect();
        let mut analyses = Vec::new();
        for analysis in &step.analyses {
            let args: Result<Vec<Argument>, String> =
                analysis.args.iter().map(|argument| self.argument(argument, &hash)).collect();
            analyses.push(json!({"name": analysis.name, "templateName": analysis.template_name, "clusterScope": analysis.cluster_scope,
                "args": args?, "requiredForCompletion": analysis.required_for_completion}));
        }
        let mut spec = json!({"templates": templates?});
        let mut set = |field: &str, value: Value, given: bool| {
            if given {
                spec[field] = value;
            }
        };
        set("duration", step.duration.as_str().into(), !step.duration.is_empty());
        set("analyses", analyses.into(), !step.analyses.is_empty());
        set(
            "progressDeadlineSeconds",
            json!(self.ro.spec.progress_deadline_seconds),
            self.ro.spec.progress_deadline_seconds.is_some(),
        );
        set(
            "scaleDownDelaySeconds",
            json!(step.scale_down_delay_seconds),
            step.scale_down_delay_seconds.is_some(),
        );
        set("dryRun", json!(step.dry_run), !step.dry_run.is_empty());
        set("analysisRunMetadata", json!(step.analysis_run_metadata), step.analysis_run_metadata.is_some());
        Ok(json!({"apiVersion": slipway_crd::names::API_VERSION, "kind": "Experiment", "spec": spec,
            "metadata": {"name": name, "namespace": metadata.namespace, "labels": labels, "annotations": {names::REVISION: self.revision().to_string()},
                "ownerReferences": [self.owner()]}}))
    }

    fn experiment_template(&self, asked: &ExperimentTemplateRef) -> Result<Value, String> {
        let at = match asked.spec_ref.as_str() {
            "canary" => self.new,
            "stable" => self.stable,
            other => {
                return Err(format!(
                    "template {} refers to {other}, which is neither canary nor stable",
                    asked.name
                ));
            }
        };
        let set = &self.sets[at.ok_or("the version is not there")?];
        let mut template = set.template.clone();
        let mut selector = match &asked.selector {
            Some(selector) => serde_json::to_value(selector).unwrap_or_default(),
            None => set.selector.clone(),
        };
        if let Some(metadata) = &asked.metadata {
            for (key, value) in &metadata.labels {
                template["metadata"]["labels"][key.as_str()] = value.as_str().into();
                selector["matchLabels"][key.as_str()] = value.as_str().into();
            }
            for (key, value) in &metadata.annotations {
                template["metadata"]["annotations"][key.as_str()] = value.as_str().into();
            }
        }
        // It is another version than those of the Rollout: its pods are selected by a hash of their own.
        for labels in [&mut template["metadata"]["labels"], &mut selector["matchLabels"]] {
            if let Some(labels) = labels.as_object_mut() {
                labels.remove(names::HASH);
            }
        }
        let mut made = json!({"name": asked.name, "template": template, "selector": selector, "minReadySeconds": set.min_ready_seconds});
        if let Some(replicas) = asked.replicas {
            made["replicas"] = replicas.into();
        }
        if asked.weight.is_some() || asked.service.is_some() {
            let name = asked.service.as_ref().map(|service| service.name.as_str()).unwrap_or_default();
            made["service"] = if name.is_empty() { json!({}) } else { json!({"name": name}) };
        }
        Ok(made)
    }

    /// Those that are not needed any more; of those that are over a few are kept.
    fn end_experiments(&mut self, all: &[&Experiment]) {
        let limits = self.ro.spec.analysis.clone().unwrap_or_default();
        let mut good = limits.successful_run_history_limit.unwrap_or(HISTORY);
        let mut bad = limits.unsuccessful_run_history_limit.unwrap_or(HISTORY);
        let mut all = all.to_vec();
        all.sort_by(|a, b| {
            (&b.metadata.creation_timestamp, &b.metadata.name)
                .cmp(&(&a.metadata.creation_timestamp, &a.metadata.name))
        });
        for one in all {
            let phase = Status::of(&one.status).phase;
            let target = Target::new(
                slipway_crd::names::API_VERSION,
                "Experiment",
                &self.ro.metadata.namespace,
                &one.metadata.name,
            );
            if !is_completed(&phase) {
                if !one.spec.terminate {
                    self.plan.actions.push(Action::patch(target, json!({"spec": {"terminate": true}})));
                }
                continue;
            }
            if one.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let left = if phase == SUCCESSFUL { &mut good } else { &mut bad };
            if *left > 0 {
                *left -= 1;
                continue;
            }
            self.plan.actions.push(Action::Delete { target, uid: one.metadata.uid.clone() });
        }
    }
}
