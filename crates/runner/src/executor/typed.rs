//! Typed steps: a definition with arguments becomes the step that it stands for.
//!
//! In: the definitions of a folder (`kind: step-type`), a step's arguments. Out: a freestyle step, or everything that
//! is wrong with the arguments at once. A definition has one step: `spec.steps` with `${{NAME}}` for arguments, or
//! `spec.stepsTemplate` in Go's template language with `.Arguments.NAME`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use slipway_pipeline::spec::{Freestyle, Shell, Typed, WorkingDirectory};
use slipway_pipeline::{StepKind, StepSpec};
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

    /// The step that it stands for.
    pub(super) fn expand(&self, step: &StepSpec, spec: &Typed) -> Result<StepSpec, Refusal> {
        let refuse = |why: String| {
            Refusal::Unsupported(format!("step `{}` of type `{}`: {why}", step.name, spec.type_name))
        };
        let versions = self.0.get(&spec.type_name).map(Vec::as_slice).unwrap_or_default();
        let found = match &spec.version {
            Some(wanted) => versions.iter().find(|definition| definition.version == *wanted),
            None => versions.last(),
        };
        let definition = found.ok_or_else(|| {
            let known: Vec<&str> = versions.iter().map(|definition| definition.version.as_str()).collect();
            refuse(format!(
                "there is no version {}, only {}",
                spec.version.as_deref().unwrap_or("?"),
                known.join(", ")
            ))
        })?;
        let arguments =
            arguments(&definition.arguments, &spec.arguments).map_err(|all| refuse(all.join("; ")))?;
        let steps = definition.steps.filled(&arguments).map_err(refuse)?;
        let all = steps.as_object().ok_or_else(|| refuse("its steps are no map".to_owned()))?;
        let mut inner = all.values();
        let (Some(only), None) = (inner.next(), inner.next()) else {
            return Err(refuse(format!(
                "its definition has {} steps, and this runner runs those with one",
                all.len()
            )));
        };
        Ok(stand_in(step, spec, only, &arguments))
    }
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
