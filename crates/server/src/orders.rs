//! What was ordered when a build was made: everything a runner needs to know, except credentials.

use serde::{Deserialize, Serialize};
use slipway_api::agent::{PipelineSource, TriggerCommit, VariableLayer};
use slipway_api::pipeline::{Pipeline, Variable};
use slipway_model::AccountId;

use crate::error::ApiError;
use crate::redact::MASK;
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
}

impl Order {
    pub(crate) fn new(
        pipeline: &Pipeline,
        commit: Option<TriggerCommit>,
        run: Vec<Variable>,
        webhook: bool,
    ) -> Result<Self, ApiError> {
        let source = source(pipeline)?;
        let variables = vec![
            VariableLayer { name: "pipeline".into(), variables: pipeline.spec.variables.clone() },
            VariableLayer { name: "build-run".into(), variables: run },
        ];
        Ok(Self { source, variables, commit, webhook, contexts: contexts(pipeline) })
    }
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
            _ => Err(ApiError::bad_request(format!(
                "pipeline `{name}`: specTemplate needs location `git`, a repo and a path"
            ))),
        };
    }
    let Some(steps) = &pipeline.spec.steps else {
        return Err(ApiError::bad_request(format!(
            "pipeline `{name}` has no steps: give it `spec.steps`, or a `spec.specTemplate` that says where they are"
        )));
    };
    // JSON is YAML: the text goes to the runner in the order in which it came in.
    let mut yaml = format!(r#"{{"version":"1.0","steps":{}"#, steps.get());
    for key in [
        "stages",
        "mode",
        "hooks",
        "fail_fast",
        "strict_fail_fast",
        "success_criteria",
        "services",
        "build_version",
    ] {
        if let Some(value) = pipeline.spec.other.get(key) {
            yaml += &format!(",{}:{value}", serde_json::Value::from(key));
        }
    }
    Ok(PipelineSource::Inline { yaml: yaml + "}" })
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
    for variable in
        layers.iter_mut().flat_map(|layer| &mut layer.variables).filter(|variable| variable.encrypted)
    {
        if let Some(opened) = key.unseal(&place(account, &variable.key), &variable.value) {
            variable.value.clone_from(opened.expose());
        }
    }
}
