//! What was ordered when a build was made: everything a runner needs to know, except credentials.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_access::{Principal, Who};
use slipway_api::agent::{Machine, PipelineSource, TriggerCommit, VariableLayer};
use slipway_api::build::{BuildVariable, Initiator};
use slipway_api::debug::{Breakpoints, Phases};
use slipway_api::pipeline::{GitTrigger, Pipeline, RunOptions, Variable};
use slipway_model::AccountId;
use slipway_store::projects::Project;

use crate::http::error::ApiError;
use crate::http::redact::MASK;
use crate::seal::{DataKey, is_sealed};
use crate::seams::Seams;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) source: PipelineSource,
    /// Encrypted ones are sealed here too.
    pub(crate) variables: Vec<VariableLayer>,
    pub(crate) commit: Option<TriggerCommit>,
    pub(crate) webhook: bool,
    /// Names of shared configuration; what is in it is looked up when a runner takes the build.
    #[serde(default)]
    pub(crate) contexts: Vec<String>,
    #[serde(default)]
    pub(crate) options: RunOptions,
    /// The Git context that the commit is of; none for the built-in host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) git_context: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status_title: Option<String>,
    #[serde(default)]
    pub(crate) machine: Machine,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) restart: Option<Restart>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) from_fork: bool,
    /// The text came with the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) own_text: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, Value>,
    /// The pipelines whose ends led here, first to last: a chain that grows without end is cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) chain: Vec<String>,
    /// Absent in orders of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) initiator: Option<Initiator>,
}

/// The person or robot behind a call that starts a build.
pub(crate) fn initiator(principal: &Principal) -> Initiator {
    let (kind, name) = match &principal.who {
        Who::User { name, .. } => ("user", name.clone()),
        Who::ServiceAccount { name, .. } => ("service-account", name.clone()),
        Who::Build { id } => ("build", id.to_string()),
        Who::Runner { .. } | Who::Runtime { .. } => ("agent", principal.display_name()),
    };
    Initiator { kind: kind.into(), name, by: None }
}

impl Order {
    /// What the build was started with, for people: secrets are masked.
    pub(crate) fn shown_variables(&self) -> Vec<BuildVariable> {
        let of_layer = |layer: &VariableLayer| {
            let from = layer.name.clone();
            let mut variables = layer.variables.clone();
            mask_variables(&mut variables);
            variables.into_iter().map(move |Variable { key, value, encrypted }| BuildVariable {
                key,
                value,
                encrypted,
                from: from.clone(),
            })
        };
        self.variables.iter().flat_map(of_layer).collect()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Restart {
    pub(crate) build: String,
    /// Absent: the same again from the start.
    pub(crate) from: Option<RestartPoint>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum RestartPoint {
    FirstFailed,
    Step(String),
}

/// What one run is made of besides its pipeline.
#[derive(Default)]
pub(crate) struct Run<'a> {
    pub(crate) project: Option<&'a Project>,
    pub(crate) trigger: Option<&'a GitTrigger>,
    pub(crate) commit: Option<TriggerCommit>,
    /// Of whoever or whatever started it; encrypted ones are sealed already.
    pub(crate) variables: Vec<Variable>,
    /// Of a trigger that is no Git trigger.
    pub(crate) trigger_variables: Vec<Variable>,
    pub(crate) options: Option<RunOptions>,
    pub(crate) machine: Machine,
    pub(crate) contexts: Vec<String>,
    pub(crate) webhook: bool,
    pub(crate) yaml: Option<String>,
    pub(crate) annotations: BTreeMap<String, Value>,
    pub(crate) chain: Vec<String>,
    pub(crate) initiator: Option<Initiator>,
}

impl Order {
    pub(crate) fn new(pipeline: &Pipeline, run: Run<'_>) -> Result<Self, ApiError> {
        let wrong =
            |error: String| ApiError::bad_request(format!("pipeline `{}`: {error}", pipeline.metadata.name));
        let settings = pipeline.spec.settings().map_err(wrong)?;
        let trigger = run.trigger.map(GitTrigger::settings).transpose().map_err(wrong)?.unwrap_or_default();
        let own_text = run.yaml.is_some();
        let mut source = match run.yaml {
            Some(yaml) => PipelineSource::Inline { yaml },
            None => source(pipeline)?,
        };
        let pull_request = run.commit.as_ref().and_then(|commit| commit.pull_request.as_ref());
        let from_fork = pull_request.is_some_and(|pull_request| pull_request.is_fork);
        let mut contexts: Vec<String> =
            run.project.map(|project| project.contexts.clone()).unwrap_or_default();
        contexts.extend(self::contexts(pipeline));
        contexts.extend(run.contexts);
        let project: Vec<Variable> = run
            .project
            .map(|project| serde_json::from_str(&project.variables))
            .transpose()
            .map_err(|error| wrong(error.to_string()))?
            .unwrap_or_default();
        let mut of_trigger = trigger.variables.unwrap_or_default();
        of_trigger.extend(run.trigger_variables);
        let layer = |name: &str, variables: Vec<Variable>| VariableLayer { name: name.into(), variables };
        let mut variables = vec![
            layer("project", project),
            layer("pipeline", pipeline.spec.variables.clone()),
            layer("trigger", of_trigger),
            layer("build-run", run.variables),
        ];
        if let (true, Some(pull_request)) = (from_fork, pull_request) {
            // Whoever may open a pull request would read what builds may read: a fork's build gets no secret, and
            // the file that says what runs is the one of the branch it wants to go to.
            contexts.clear();
            for layer in &mut variables {
                layer.variables.retain(|variable| !variable.encrypted);
            }
            if let PipelineSource::Git { revision, .. } = &mut source {
                revision.get_or_insert_with(|| pull_request.target.clone());
            }
        }
        let kept =
            trigger.options.or_else(|| settings.options.map(|options| options.run)).unwrap_or_default();
        // Only a person who is there to look stops a build: what a trigger starts runs through.
        let kept = RunOptions { debug: false, breakpoints: Breakpoints::default(), ..kept };
        let options = run.options.unwrap_or(kept);
        Ok(Self {
            source,
            own_text,
            variables,
            git_context: run.trigger.and_then(GitTrigger::context).map(str::to_owned),
            status_title: trigger.commit_status_title,
            commit: run.commit,
            webhook: run.webhook,
            contexts,
            options,
            machine: run
                .machine
                .or(Machine::read(trigger.runtime_environment.as_ref()))
                .or(Machine::read(settings.runtime_environment.as_ref())),
            restart: None,
            from_fork,
            annotations: run.annotations,
            chain: run.chain,
            initiator: run.initiator,
        })
    }
}

/// `spec.debug.steps.NAME.phases`: breakpoints that are kept with the pipeline, for runs that stop at them.
pub(crate) fn breakpoints(pipeline: &Pipeline) -> Breakpoints {
    let steps = pipeline.spec.other.get("debug").and_then(|debug| debug.get("steps")?.as_object());
    let phases = |step: &Value| serde_json::from_value::<Phases>(step.get("phases")?.clone()).ok();
    steps
        .map(|steps| steps.iter().filter_map(|(name, step)| Some((name.clone(), phases(step)?))).collect())
        .unwrap_or_default()
}

/// `spec.contexts`: names, or objects with a name.
fn contexts(pipeline: &Pipeline) -> Vec<String> {
    let list = pipeline.spec.other.get("contexts").and_then(|list| list.as_array());
    let name =
        |item: &serde_json::Value| item.as_str().or_else(|| item.get("name")?.as_str()).map(str::to_owned);
    list.map(|list| list.iter().filter_map(name).collect()).unwrap_or_default()
}

fn source(pipeline: &Pipeline) -> Result<PipelineSource, ApiError> {
    let name = &pipeline.metadata.name;
    if let Some(template) = &pipeline.spec.spec_template {
        return match (template.location.as_str(), &template.repo, &template.path) {
            ("git", Some(repo), Some(path)) => Ok(PipelineSource::Git {
                repo: repo.clone(),
                path: path.clone(),
                revision: template.revision.clone().filter(|revision| !revision.is_empty()),
            }),
            ("url", _, _) if template.url.as_deref().is_some_and(is_web_address) => {
                Ok(PipelineSource::Url { url: template.url.clone().unwrap_or_default() })
            }
            _ => Err(ApiError::bad_request(format!(
                "pipeline `{name}`: specTemplate needs location `git` with a repo and a path, or location `url` with a url"
            ))),
        };
    }
    let Some(steps) = &pipeline.spec.steps else {
        return Err(ApiError::bad_request(format!(
            "pipeline `{name}` has no steps: give it `spec.steps`, or a `spec.specTemplate` that points to them"
        )));
    };
    // JSON is YAML: the text goes to the runner in the order in which it came in.
    let mut yaml = format!(r#"{{"version":"1.0","steps":{}"#, steps.get());
    for key in
        ["stages", "mode", "fail_fast", "strict_fail_fast", "success_criteria", "services", "build_version"]
    {
        if let Some(value) = pipeline.spec.other.get(key) {
            yaml += &format!(",{}:{value}", serde_json::Value::from(key));
        }
    }
    if let Some(hooks) = &pipeline.spec.hooks {
        yaml += &format!(r#","hooks":{}"#, hooks.get());
    }
    yaml.push('}');
    // It comes with the text that the steps were made from, and is for the runner to judge.
    let text = pipeline.metadata.other.get("originalYamlString").and_then(Value::as_str).unwrap_or_default();
    if let Some(signature) = slipway_pipeline::signed::line(text) {
        yaml += &format!("\n{signature}\n");
    }
    Ok(PipelineSource::Inline { yaml })
}

fn is_web_address(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

fn place(account: AccountId, key: &str) -> String {
    format!("variable/{account}/{key}")
}

/// Seals what is marked encrypted. A value that a client read masked and sends back keeps what it was.
pub(crate) fn seal_variables(
    key: &DataKey,
    seams: &Seams,
    account: AccountId,
    new: &mut [Variable],
    old: &[Variable],
) {
    for variable in new.iter_mut().filter(|variable| variable.encrypted) {
        if variable.value == MASK
            && let Some(kept) = old.iter().find(|kept| kept.key == variable.key && kept.encrypted)
        {
            variable.value.clone_from(&kept.value);
        } else if !is_sealed(&variable.value) {
            variable.value = key.seal(seams, &place(account, &variable.key), &variable.value);
        }
    }
}

pub(crate) fn mask_variables(variables: &mut [Variable]) {
    for variable in variables.iter_mut().filter(|variable| variable.encrypted) {
        variable.value = MASK.into();
    }
}

/// For the runner that has taken the build, and for nobody else.
pub(crate) fn unseal_variables(key: &DataKey, account: AccountId, layers: &mut [VariableLayer]) {
    for layer in layers {
        unseal(key, account, &mut layer.variables);
    }
}

/// For somebody who may see the secrets of what they could change.
pub(crate) fn disclose(
    _may_see: &crate::identity::access::Disclosure,
    key: &DataKey,
    account: AccountId,
    variables: &mut [Variable],
) {
    unseal(key, account, variables);
}

fn unseal(key: &DataKey, account: AccountId, variables: &mut [Variable]) {
    for variable in variables.iter_mut().filter(|variable| variable.encrypted) {
        if let Some(opened) = key.unseal(&place(account, &variable.key), &variable.value) {
            variable.value.clone_from(opened.expose());
        }
    }
}
