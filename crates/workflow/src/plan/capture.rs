//! What a container leaves: asked for when its pod is made, read from its last words when it has ended.
//!
//! A program of ours runs the container's own command and writes what is wanted where Kubernetes reads the last words of a container. It
//! needs no rights in the cluster, and it is there only where something has to be captured.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use slipway_crd::workflow::{Outputs, Parameter, Template, Workflow, WorkflowSpec};

use super::execute::Call;
use super::library::effective;
use super::{Library, Run};
use crate::scope::text_of;

const FOLDER: &str = "/slipway";
const PROGRAM: &str = "/slipway/executor";
const VOLUME: &str = "slipway-executor";
const WANTED: &str = "SLIPWAY_OUTPUTS";

impl Run<'_> {
    /// What has to be captured of a container of this template; `None`: nothing.
    fn wanted(&self, call: &Call, template: &Template) -> Option<Value> {
        let parameters: Vec<Value> = template.outputs.parameters.iter().map(wanted_parameter).collect();
        let result = call.result_is_read;
        (result || !parameters.is_empty()).then(|| json!({"result": result, "parameters": parameters}))
    }

    /// Puts the program around the command of the main container.
    pub(super) fn capture(
        &self,
        call: &Call,
        template: &Template,
        spec: &mut Value,
        main: &mut Value,
    ) -> Result<(), String> {
        let Some(wanted) = self.wanted(call, template) else { return Ok(()) };
        let Some(image) = &self.observed.executor_image else {
            return Err(format!(
                "what template `{}` leaves cannot be captured: the engine has no executor image",
                template.name
            ));
        };
        let command = main["command"].as_array().cloned().unwrap_or_default();
        if command.is_empty() {
            return Err(format!(
                "what template `{}` leaves can be captured only where `command` says what runs",
                template.name
            ));
        }
        let around = [PROGRAM, "run", "--"].map(Value::from);
        main["command"] = around.into_iter().chain(command).collect();
        let mount = json!({"name": VOLUME, "mountPath": FOLDER});
        super::compose::push(&mut main["volumeMounts"], mount.clone());
        super::compose::push(&mut main["env"], json!({"name": WANTED, "value": wanted.to_string()}));
        super::compose::push(&mut spec["volumes"], json!({"name": VOLUME, "emptyDir": {}}));
        let mut first = vec![json!({
            "name": "slipway-init",
            "image": image,
            "command": ["/slipway-executor", "copy", PROGRAM],
            "volumeMounts": [mount],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        })];
        first.extend(spec["initContainers"].as_array().cloned().unwrap_or_default());
        spec["initContainers"] = first.into();
        Ok(())
    }
}

fn wanted_parameter(parameter: &Parameter) -> Value {
    let from = parameter.value_from.clone().unwrap_or_default();
    let mut wanted = json!({"name": parameter.name, "path": from.path});
    if let Some(default) = from.default.as_ref().or(parameter.default.as_ref()) {
        wanted["default"] = text_of(default).into();
    }
    wanted
}

impl Run<'_> {
    /// What this step prints is read by others.
    pub(super) fn is_read(&self, step: &str) -> bool {
        let found = || readers_in(self.observed.library.specs.values().chain([&self.spec])).into();
        self.readers.get_or_init(found).contains(step)
    }
}

/// The steps and tasks of a workflow whose printed result is read by others. It does not change while the workflow runs, and costs as much as
/// the workflow is long: worth keeping.
pub fn readers(workflow: &Workflow, library: &Library) -> BTreeSet<String> {
    let whole = effective(workflow, library).unwrap_or_else(|_| workflow.spec.clone());
    readers_in(library.specs.values().chain([&whole]))
}

fn readers_in<'a>(specs: impl Iterator<Item = &'a WorkflowSpec>) -> BTreeSet<String> {
    let texts = specs.filter_map(|spec| serde_json::to_string(spec).ok());
    texts.flat_map(|text| results_read_in(&text)).collect()
}

/// What the container said at its end: its outputs, or why they are not there.
pub(super) fn last_words(pod: &Value) -> Option<Result<Outputs, String>> {
    let statuses = pod["status"]["containerStatuses"].as_array()?;
    let main = statuses.iter().find(|one| one["name"] == "main")?;
    let words: Value = serde_json::from_str(main["state"]["terminated"]["message"].as_str()?).ok()?;
    if let Some(error) = words["error"].as_str() {
        return Some(Err(error.to_owned()));
    }
    serde_json::from_value(words["outputs"].clone()).ok().map(Ok)
}

/// The steps and tasks whose printed result is read somewhere in a text: `steps.NAME.outputs.result`, `tasks['NAME'].outputs.result`.
pub(super) fn results_read_in(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices(".outputs.result") {
        let before = text[..at].trim_end_matches(['\'', '"', '\\', ']']);
        let start =
            before.rfind(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-' || letter == '_'));
        found.insert(before[start.map_or(0, |start| start + 1)..].to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_of_results_are_found_in_tags_and_expressions() {
        let text = r#"{"when":"{{steps.flip-coin.outputs.result}} == x","e":"tasks['a-b'].outputs.result","f":"{{=steps[\"c\"].outputs.result}}"}"#;
        let found: Vec<String> = results_read_in(text).into_iter().collect();
        assert_eq!(found, ["a-b", "c", "flip-coin"]);
    }
}
