//! The analyses of an Experiment: they begin when all versions are there, and a bad one ends it.

use serde_json::{Map, Value, json};
use slipway_crd::analysis::{AnalysisRun, Argument, ExperimentAnalysis};
use slipway_crd::rollout::AnalysisTemplateRef;

use super::{Play, RunStatus};
use crate::analysis::{ERROR, FAILED, INCONCLUSIVE, PENDING, SUCCESSFUL, collect, compose, is_completed};
use crate::names;
use crate::plan::Action;

impl Play<'_> {
    pub(super) fn analysis(&mut self, analysis: &ExperimentAnalysis) {
        let before = self.prev.run(&analysis.name).cloned().unwrap_or_default();
        let mut now = RunStatus { name: analysis.name.clone(), ..before.clone() };
        let named = [reference(analysis)];
        if self.prev.available_at.is_none() {
            if let Err(why) = collect(&named, &self.observed.templates) {
                let kind =
                    if analysis.cluster_scope { "ClusterAnalysisTemplate" } else { "AnalysisTemplate" };
                now.phase = ERROR.into();
                now.message = format!("{kind} verification failed for analysis '{}': {why}", analysis.name);
            }
        } else if now.analysis_run.is_empty() {
            if !self.ends {
                self.start(analysis, &mut now);
            }
        } else if !is_completed(&now.phase) {
            self.follow(analysis, &mut now);
        }
        self.tell_of_run(&before, &now);
        match self.plan.status.analysis_runs.iter_mut().find(|one| one.name == analysis.name) {
            Some(known) => *known = now,
            None => self.plan.status.analysis_runs.push(now),
        }
    }

    fn start(&mut self, analysis: &ExperimentAnalysis, now: &mut RunStatus) {
        match self.new_run(analysis) {
            Ok((name, run)) => {
                self.plan.actions.extend(run.map(Action::Create));
                (now.phase, now.analysis_run) = (PENDING.into(), name);
            }
            Err(why) => {
                now.phase = ERROR.into();
                now.message = format!("Failed to create AnalysisRun for analysis '{}': {why}", analysis.name);
            }
        }
    }

    fn follow(&mut self, analysis: &ExperimentAnalysis, now: &mut RunStatus) {
        let run = self.observed.runs.iter().find(|run| run.metadata.name == now.analysis_run);
        let Some(run) = run else {
            now.phase = ERROR.into();
            now.message = format!("the AnalysisRun {} is gone", now.analysis_run);
            return;
        };
        if self.ends && !is_completed(&run.status.phase) {
            if !run.spec.terminate {
                let name = run.metadata.name.clone();
                let target = self.target(slipway_crd::names::API_VERSION, "AnalysisRun", &name);
                self.plan.actions.push(Action::patch(target, json!({"spec": {"terminate": true}})));
                self.tell("AnalysisRunTerminating", false, format!("Terminating {} ({name})", analysis.name));
            }
            return;
        }
        if !run.status.phase.is_empty() {
            (now.phase, now.message) = (run.status.phase.clone(), run.status.message.clone());
        }
    }

    /// A run under a name that is free; one that was made a moment ago is taken as it is.
    fn new_run(&self, analysis: &ExperimentAnalysis) -> Result<(String, Option<Value>), String> {
        let experiment = self.experiment();
        let templates = collect(&[reference(analysis)], &self.observed.templates)?;
        let arguments: Result<Vec<Argument>, String> =
            analysis.args.iter().map(|one| self.argument(one)).collect();
        let spec = &experiment.spec;
        let spec = compose(&templates, &arguments?, &spec.dry_run, &spec.measurement_retention)?;
        let base = format!("{}-{}", experiment.metadata.name, analysis.name);
        let mut name = base.clone();
        let usable = |run: &AnalysisRun| !is_completed(&run.status.phase) && !run.spec.terminate;
        for counter in 1.. {
            match self.observed.runs.iter().find(|run| run.metadata.name == name) {
                Some(run) if usable(run) => return Ok((name, None)),
                Some(_) => name = format!("{base}.{counter}"),
                None => break,
            }
        }
        let metadata = experiment.spec.analysis_run_metadata.clone().unwrap_or_default();
        let mut labels: Map<String, Value> =
            metadata.labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        if let Some(id) = experiment.metadata.labels.get(names::INSTANCE_ID) {
            labels.insert(names::INSTANCE_ID.into(), id.as_str().into());
        }
        let run = json!({"apiVersion": slipway_crd::names::API_VERSION, "kind": "AnalysisRun",
            "metadata": {"name": name, "namespace": experiment.metadata.namespace, "labels": labels, "annotations": metadata.annotations,
                "ownerReferences": [self.owner()]},
            "spec": spec});
        Ok((name, Some(run)))
    }

    /// `{{templates.baseline.podTemplateHash}}`, `{{templates.baseline.replicaset.name}}`, `{{experiment.availableAt}}`, `{{experiment.finishedAt}}`.
    fn argument(&self, argument: &Argument) -> Result<Argument, String> {
        let Some(value) = &argument.value else { return Ok(argument.clone()) };
        let mut whole = String::new();
        let mut rest = value.as_str();
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((inside, behind)) = after.split_once("}}") else { break };
            let found = self.word(inside.trim());
            whole += before;
            whole += &found.ok_or_else(|| format!("failed to resolve {{{{{inside}}}}}"))?;
            rest = behind;
        }
        whole += rest;
        Ok(Argument { value: Some(whole), ..argument.clone() })
    }

    fn word(&self, path: &str) -> Option<String> {
        match path.split('.').collect::<Vec<_>>().as_slice() {
            ["templates", name, "podTemplateHash"] => {
                let set = self
                    .observed
                    .replica_sets
                    .iter()
                    .find(|set| set["metadata"]["annotations"][names::EXPERIMENT_TEMPLATE] == *name)?;
                Some(set["metadata"]["labels"][names::HASH].as_str()?.to_owned())
            }
            ["templates", name, "replicaset", "name"] => {
                let set = self
                    .observed
                    .replica_sets
                    .iter()
                    .find(|set| set["metadata"]["annotations"][names::EXPERIMENT_TEMPLATE] == *name)?;
                Some(set["metadata"]["name"].as_str()?.to_owned())
            }
            ["experiment", "availableAt"] => self.prev.available_at.clone(),
            ["experiment", "finishedAt"] => self.end().map(super::written),
            _ => None,
        }
    }

    fn tell_of_run(&mut self, before: &RunStatus, now: &RunStatus) {
        if before.phase == now.phase || now.phase.is_empty() {
            return;
        }
        let reason = match now.phase.as_str() {
            PENDING => "AnalysisRunPending",
            SUCCESSFUL => "AnalysisRunSuccessful",
            FAILED => "AnalysisRunFailed",
            ERROR => "AnalysisRunError",
            INCONCLUSIVE => "AnalysisRunInconclusive",
            _ => "AnalysisRunRunning",
        };
        let mut message =
            format!("AnalysisRun '{}' transitioned from {} -> {}", now.name, before.phase, now.phase);
        if !now.message.is_empty() {
            message += &format!(": {}", now.message);
        }
        self.tell(reason, matches!(now.phase.as_str(), FAILED | ERROR | INCONCLUSIVE), message);
    }
}

fn reference(analysis: &ExperimentAnalysis) -> AnalysisTemplateRef {
    AnalysisTemplateRef {
        template_name: analysis.template_name.clone(),
        cluster_scope: analysis.cluster_scope,
        ..AnalysisTemplateRef::default()
    }
}
