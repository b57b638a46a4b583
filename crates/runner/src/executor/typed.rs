//! Typed steps: a definition with arguments becomes the step that it stands for.
//!
//! In: the definitions of a folder (`kind: step-type`), a step's arguments. Out: the steps that it stands for, or
//! everything that is wrong with the arguments at once. A definition has `spec.steps` with `${{NAME}}` for arguments,
//! or `spec.stepsTemplate` in Go's template language with `.Arguments.NAME`. A plain freestyle step takes the place of
//! the typed one; one of another type, or with conditions, retries or hooks, is a pipeline inside of it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use slipway_pipeline::spec::{Freestyle, Shell, Typed, WorkingDirectory};
use slipway_pipeline::{Pipeline, StepKind, StepSpec};
use slipway_template::{Data, Environment, Functions, Limits, Template};

use super::Refusal;

/// Every definition that this runner has, by name; several versions of one name, the highest last.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepTypes(BTreeMap<String, Vec<Definition>>);

#[derive(Debug, Clone)]
struct Definition {
    version: String,
    arguments: Value,
    steps: Steps,
}

#[derive(Debug, Clone)]
enum Steps {
    Written(Value),
    Template { text: String, left: String, right: String },
}

impl StepTypes {
    /// Reads a folder of YAML files; all that is wrong with them is told at once.
    pub(crate) fn load(folder: &Path) -> anyhow::Result<Self> {
        let mut all = Self::default();
        let mut findings = Vec::new();
        let entries = std::fs::read_dir(folder)
            .with_context(|| format!("cannot read the step types in {}", folder.display()))?;
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        for file in
            files.iter().filter(|file| file.extension().is_some_and(|end| end == "yaml" || end == "yml"))
        {
            let text =
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            match slipway_yaml::load_all_json(&text) {
                Ok(documents) => {
                    for (document, _) in documents {
                        if let Err(why) = all.add(&document) {
                            findings.push(format!("{}: {why}", file.display()));
                        }
                    }
                }
                Err(errors) => {
                    findings.extend(errors.iter().map(|error| format!("{}: {error}", file.display())))
                }
            }
        }
        if findings.is_empty() { Ok(all) } else { anyhow::bail!("step types: {}", findings.join("; ")) }
    }

    /// These, and the account's; where both have the same version, the runner's own counts.
    pub(crate) fn with(&self, documents: &[Value]) -> Self {
        let mut all = Self::default();
        for document in documents {
            // The server has checked them; what is wrong with one is told when a step asks for it.
            if let Err(why) = all.add(document) {
                tracing::warn!(%why, "A step type of the account cannot be used.");
            }
        }
        for (name, own) in &self.0 {
            let versions = all.0.entry(name.clone()).or_default();
            versions.retain(|given| own.iter().all(|kept| kept.version != given.version));
            versions.extend(own.iter().cloned());
            versions.sort_by_key(|definition| ordering(&definition.version));
        }
        all
    }

    fn add(&mut self, document: &Value) -> Result<(), String> {
        if document["kind"] != "step-type" {
            return Err("`kind` is not `step-type`".to_owned());
        }
        let name = document["metadata"]["name"].as_str().ok_or("`metadata.name` is missing")?;
        let version = document["metadata"]["version"].as_str().unwrap_or("0.0.0").to_owned();
        let spec = &document["spec"];
        let arguments = match &spec["arguments"] {
            Value::String(text) => serde_json::from_str(text)
                .map_err(|error| format!("`spec.arguments` is not JSON: {error}"))?,
            other => other.clone(),
        };
        let steps = match (&spec["steps"], spec["stepsTemplate"].as_str()) {
            (_, Some(text)) => Steps::Template {
                text: text.to_owned(),
                left: spec["delimiters"]["left"].as_str().unwrap_or("{{").to_owned(),
                right: spec["delimiters"]["right"].as_str().unwrap_or("}}").to_owned(),
            },
            (steps @ Value::Object(_), None) => Steps::Written(steps.clone()),
            _ => return Err("it has neither `spec.steps` nor `spec.stepsTemplate`".to_owned()),
        };
        let versions = self.0.entry(name.to_owned()).or_default();
        versions.push(Definition { version, arguments, steps });
        versions.sort_by_key(|definition| ordering(&definition.version));
        Ok(())
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The step that it stands for; `None` from [`Self::inside`] says that there is one.
    pub(super) fn expand(&self, step: &StepSpec, spec: &Typed) -> Result<StepSpec, Refusal> {
        let (steps, arguments) = self.filled(step, spec)?;
        let only = steps.values().next().cloned().unwrap_or_default();
        Ok(stand_in(step, spec, &only, &arguments))
    }

    /// The text of the pipeline inside of a typed step, and its arguments as variables. `None` when the type is not
    /// known here, or stands for one freestyle step.
    pub(crate) fn inside(&self, step: &StepSpec, spec: &Typed) -> Result<Option<Inside>, Refusal> {
        if !self.knows(&spec.type_name) {
            return Ok(None);
        }
        let (mut steps, arguments) = self.filled(step, spec)?;
        let simple = |step: &Value| {
            let plain = step.get("type").is_none_or(|kind| kind == "freestyle");
            plain && ["when", "retry", "hooks", "timeout"].iter().all(|key| step.get(key).is_none())
        };
        if steps.len() > 1 {
            // Definitions are read into maps that do not keep the order of their text: the wrong order is worse than none.
            return Err(refuse(
                step,
                spec,
                &format!("its definition has {} steps, and this runner runs those with one", steps.len()),
            ));
        }
        if steps.values().all(simple) {
            return Ok(None);
        }
        for inner in steps.values_mut().filter_map(Value::as_object_mut) {
            // Definitions spell it in their own way.
            if let Some(flag) = inner.remove("failFast") {
                inner.insert("fail_fast".to_owned(), flag);
            }
        }
        let forbidden: Vec<String> = steps
            .iter()
            .filter(|(_, inner)| inner["type"] == "parallel" || inner.get("services").is_some())
            .map(|(name, _)| format!("`{name}`"))
            .collect();
        if !forbidden.is_empty() {
            return Err(refuse(
                step,
                spec,
                &format!(
                    "no parallel block and no services inside of a definition: {}",
                    forbidden.join(", ")
                ),
            ));
        }
        let yaml = json!({"version": "1.0", "steps": steps}).to_string();
        let (pipeline, findings) = Pipeline::parse(&yaml);
        if pipeline.is_none() {
            let all: Vec<&str> = findings
                .iter()
                .filter(|found| found.is_error())
                .map(|found| found.message.as_str())
                .collect();
            return Err(refuse(step, spec, &format!("its definition is no pipeline: {}", all.join("; "))));
        }
        let plain = arguments.into_iter().filter(|(_, value)| !value.is_object() && !value.is_array());
        Ok(Some(Inside { yaml, variables: plain.map(|(name, value)| (name, shown(&value))).collect() }))
    }

    /// The steps of the definition with the arguments in their places.
    fn filled(&self, step: &StepSpec, spec: &Typed) -> Result<Filled, Refusal> {
        let versions = self.0.get(&spec.type_name).map(Vec::as_slice).unwrap_or_default();
        let found = match &spec.version {
            Some(wanted) => versions.iter().find(|definition| definition.version == *wanted),
            None => versions.last(),
        };
        let definition = found.ok_or_else(|| {
            let known: Vec<&str> = versions.iter().map(|definition| definition.version.as_str()).collect();
            let wanted = spec.version.as_deref().unwrap_or("?");
            refuse(step, spec, &format!("there is no version {wanted}, only {}", known.join(", ")))
        })?;
        let arguments = arguments(&definition.arguments, &spec.arguments)
            .map_err(|all| refuse(step, spec, &all.join("; ")))?;
        match definition.steps.filled(&arguments).map_err(|why| refuse(step, spec, &why))? {
            Value::Object(steps) if !steps.is_empty() => Ok((steps, arguments)),
            _ => Err(refuse(step, spec, "its steps are no map with at least one step")),
        }
    }
}

/// The steps of a definition, and its arguments with their defaults.
type Filled = (Map<String, Value>, Map<String, Value>);

/// A typed step that is a pipeline of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) yaml: String,
    pub(crate) variables: BTreeMap<String, String>,
}

fn refuse(step: &StepSpec, spec: &Typed, why: &str) -> Refusal {
    Refusal::Unsupported(format!("step `{}` of type `{}`: {why}", step.name, spec.type_name))
}

impl Steps {
    fn filled(&self, arguments: &Map<String, Value>) -> Result<Value, String> {
        match self {
            Self::Written(steps) => Ok(substituted(steps, arguments)),
            Self::Template { text, left, right } => {
                let text = rendered(text, left, right, arguments)?;
                let documents = slipway_yaml::load_all_json(&text).map_err(|errors| {
                    let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
                    format!("its template gave no YAML: {}", all.join("; "))
                })?;
                let filled = documents.into_iter().next().map(|(value, _)| value).unwrap_or_default();
                Ok(substituted(&filled, arguments))
            }
        }
    }
}

/// The engine knows one pair of delimiters; another pair takes its place, and the braces of the text stay what they are.
fn rendered(text: &str, left: &str, right: &str, arguments: &Map<String, Value>) -> Result<String, String> {
    const OPEN: &str = "\u{1}open\u{1}";
    const CLOSE: &str = "\u{1}close\u{1}";
    let own = left == "{{" && right == "}}";
    let text = if own {
        text.to_owned()
    } else {
        text.replace("{{", OPEN).replace("}}", CLOSE).replace(left, "{{").replace(right, "}}")
    };
    let no_options: [&str; 0] = [];
    let template = Template::parse("steps", &text, &no_options, Functions::application_set())
        .map_err(|error| format!("its template cannot be read: {error}"))?;
    let data = Data::Json(json!({"Arguments": arguments}));
    let mut chance = || 0;
    let mut environment =
        Environment { now: jiff::Timestamp::UNIX_EPOCH, random: &mut chance, limits: Limits::default() };
    let filled =
        template.render(&data, &mut environment).map_err(|error| format!("its template failed: {error}"))?;
    Ok(filled.replace(OPEN, "{{").replace(CLOSE, "}}"))
}

/// Defaults filled in; what is missing and what nobody knows comes back, all of it.
fn arguments(schema: &Value, given: &Value) -> Result<Map<String, Value>, Vec<String>> {
    let mut all = given.as_object().cloned().unwrap_or_default();
    let mut findings = Vec::new();
    let none = Map::new();
    let known = schema["properties"].as_object().unwrap_or(&none);
    for (name, property) in known {
        if let Some(default) = property.get("default") {
            all.entry(name.clone()).or_insert_with(|| default.clone());
        }
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !all.contains_key(name) {
            findings.push(format!("the argument `{name}` is missing"));
        }
    }
    if schema["additionalProperties"] == false {
        let unknown = all.keys().filter(|name| !known.contains_key(*name));
        findings.extend(unknown.map(|name| format!("it has no argument `{name}`")));
    }
    if findings.is_empty() { Ok(all) } else { Err(findings) }
}

/// `${{NAME}}` for the arguments; a text that is nothing else becomes the argument itself.
fn substituted(value: &Value, arguments: &Map<String, Value>) -> Value {
    match value {
        Value::String(text) => {
            let name = text.trim().strip_prefix("${{").and_then(|rest| rest.strip_suffix("}}"));
            if let Some(whole) = name.and_then(|name| arguments.get(name.trim())) {
                return whole.clone();
            }
            let mut text = text.clone();
            for (name, value) in arguments {
                let shown = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                text = text.replace(&format!("${{{{{name}}}}}"), &shown);
            }
            Value::String(text)
        }
        Value::Array(list) => list.iter().map(|item| substituted(item, arguments)).collect(),
        Value::Object(map) => Value::Object(
            map.iter().map(|(name, item)| (name.clone(), substituted(item, arguments))).collect(),
        ),
        other => other.clone(),
    }
}

fn stand_in(step: &StepSpec, spec: &Typed, inner: &Value, arguments: &Map<String, Value>) -> StepSpec {
    let texts = |name: &str| match &inner[name] {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(list) => Some(list.iter().map(shown).collect::<Vec<String>>()),
        _ => None,
    };
    let mut environment = spec.environment.clone();
    environment.extend(
        arguments
            .iter()
            .filter(|(_, value)| !value.is_object() && !value.is_array())
            .map(|(name, value)| (name.clone(), shown(value))),
    );
    for pair in texts("environment").unwrap_or_default() {
        if let Some((name, value)) = pair.split_once('=') {
            environment.insert(name.to_owned(), value.to_owned());
        }
    }
    let mut whole = step.clone();
    if let Some(directory) = inner["working_directory"].as_str() {
        whole.working_directory = if directory.starts_with('/') {
            WorkingDirectory::Absolute(directory.to_owned())
        } else {
            WorkingDirectory::UnderVolume(directory.to_owned())
        };
    }
    whole.kind = StepKind::Freestyle(Freestyle {
        image: shown(&inner["image"]),
        commands: texts("commands"),
        cmd: texts("cmd"),
        entry_point: texts("entry_point"),
        shell: if inner["shell"] == "bash" { Shell::Bash } else { Shell::Sh },
        environment,
        ..Freestyle::default()
    });
    whole
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Numbers by value, everything else as text.
fn ordering(version: &str) -> Vec<(u64, String)> {
    version.split(['.', '-', '+']).map(|part| (part.parse().unwrap_or(0), part.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = r#"
kind: step-type
metadata: {name: team/greet, version: 1.2.0}
spec:
  arguments: '{"type":"object","additionalProperties":false,"required":["WHO"],"properties":{"WHO":{"type":"string"},"WORDS":{"type":"array","default":["hello"]}}}'
  delimiters: {left: '[[', right: ']]'}
  stepsTemplate: |
    greet:
      image: alpine
      environment: ["GREETING=${{WHO}}"]
      commands:
    [[ range $word := .Arguments.WORDS ]]
        - echo "[[ $word ]] {{literal}} [[ $.Arguments.WHO ]]"
    [[ end ]]
"#;

    fn types() -> StepTypes {
        let mut types = StepTypes::default();
        for (document, _) in slipway_yaml::load_all_json(TYPE).unwrap() {
            types.add(&document).unwrap();
        }
        types
    }

    fn filled(given: &Value) -> Result<Value, Vec<String>> {
        let types = types();
        let definition = &types.0["team/greet"][0];
        let arguments = arguments(&definition.arguments, given)?;
        Ok(definition.steps.filled(&arguments).unwrap())
    }

    #[test]
    fn a_definition_becomes_the_step_that_it_stands_for() {
        let steps = filled(&json!({"WHO": "Ada", "WORDS": ["good", "day"]})).unwrap();
        assert_eq!(
            steps["greet"]["commands"],
            json!(["echo \"good {{literal}} Ada\"", "echo \"day {{literal}} Ada\""])
        );
        assert_eq!(steps["greet"]["environment"], json!(["GREETING=Ada"]));
        assert_eq!(filled(&json!({"WHO": "x"})).unwrap()["greet"]["commands"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn everything_wrong_with_the_arguments_is_told_at_once() {
        let findings = filled(&json!({"WHOM": "Ada", "ODD": 1})).unwrap_err();
        assert_eq!(findings.len(), 3, "{findings:?}");
    }

    #[test]
    fn without_a_version_the_highest_is_meant() {
        let mut versions = ["1.10.0", "1.9.0", "0.1"].map(str::to_owned);
        versions.sort_by_key(|version| ordering(version));
        assert_eq!(versions.last().unwrap(), "1.10.0");
    }
}
