//! Typed steps: a definition with arguments becomes the step that it stands for.
//!
//! In: the definitions of the account and of a folder (`kind: step-type`), a step's arguments. Out: the steps that it
//! stands for, in the order of their text, or everything that is wrong with the arguments at once. A definition has
//! `spec.steps` with `${{NAME}}` for arguments, or `spec.stepsTemplate` in Go's template language with
//! `.Arguments.NAME`. One plain freestyle step takes the place of the typed one; several, or one of another type, or with
//! conditions, retries or hooks, are a pipeline inside of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use slipway_pipeline::spec::{Freestyle, Shell, Typed, WorkingDirectory};
use slipway_pipeline::{Pipeline, StepKind, StepSpec};
use slipway_template::{Data, Environment, Functions, Limits, Template};
use slipway_yaml::{Dialect, Node};

use super::Refusal;

/// The runner's own, without a definition.
pub(super) const BUILT_IN: &str = "git-commit";

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
    Written(Ordered),
    Template { text: String, left: String, right: String },
}

/// Steps by name. The order of the text is the order they run in, and maps of JSON do not keep it.
#[derive(Debug, Clone, Default)]
struct Ordered(Vec<(String, Value)>);

impl Ordered {
    fn of(node: &Node) -> Self {
        Self(node.entries().iter().map(|(name, step)| (name.key_text(), step.to_json())).collect())
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Ordered;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("steps by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(Ordered(all))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// The one part of a manifest whose order matters.
#[derive(Default, Deserialize)]
struct InOrder {
    spec: SpecInOrder,
}

#[derive(Default, Deserialize)]
struct SpecInOrder {
    steps: Option<Ordered>,
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
            match slipway_yaml::parse(&text, Dialect::Kubernetes) {
                Ok(documents) => {
                    for document in documents.iter().filter(|document| !document.is_null()) {
                        let steps = document.at(&["spec", "steps"]).map(Ordered::of);
                        if let Err(why) = all.add(&document.to_json(), steps) {
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
    pub(crate) fn with(&self, documents: &[Box<RawValue>]) -> Self {
        let mut all = Self::default();
        for document in documents {
            let steps = serde_json::from_str::<InOrder>(document.get()).unwrap_or_default().spec.steps;
            let read = serde_json::from_str(document.get()).map_err(|error| error.to_string());
            // The server has checked them; what is wrong with one is told when a step asks for it.
            if let Err(why) = read.and_then(|value| all.add(&value, steps)) {
                tracing::warn!(%why, "Cannot use a step type of the account.");
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

    fn add(&mut self, document: &Value, steps: Option<Ordered>) -> Result<(), String> {
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
        let steps = match (steps, spec["stepsTemplate"].as_str()) {
            (_, Some(text)) => Steps::Template {
                text: text.to_owned(),
                left: spec["delimiters"]["left"].as_str().unwrap_or("{{").to_owned(),
                right: spec["delimiters"]["right"].as_str().unwrap_or("}}").to_owned(),
            },
            (Some(steps), None) if spec["steps"].is_object() => Steps::Written(steps),
            _ => return Err("it has neither `spec.steps` nor `spec.stepsTemplate`".to_owned()),
        };
        let versions = self.0.entry(name.to_owned()).or_default();
        versions.push(Definition { version, arguments, steps });
        versions.sort_by_key(|definition| ordering(&definition.version));
        Ok(())
    }

    /// What these names lead to outside of this runner: the names, and those in the runner's own definitions of them.
    pub(crate) fn reached(&self, names: BTreeSet<String>) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<String> = names.into_iter().filter(|name| name != BUILT_IN).collect();
        while let Some(name) = open.pop() {
            let plain = name.split(':').next().unwrap_or_default();
            for definition in self.0.get(plain).into_iter().flatten() {
                open.extend(definition.steps.types().into_iter().filter(|inner| !reached.contains(inner)));
            }
            reached.insert(name);
        }
        reached
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The step that it stands for; `None` from [`Self::inside`] says that there is one.
    pub(super) fn expand(&self, step: &StepSpec, spec: &Typed) -> Result<StepSpec, Refusal> {
        let (steps, arguments) = self.filled(step, spec)?;
        match steps.0.as_slice() {
            [(_, only)] if is_plain(only) => Ok(stand_in(step, spec, only, &arguments)),
            _ => Err(refuse(
                step,
                spec,
                "inside of another definition stands a type with one freestyle step, and this is none",
            )),
        }
    }

    /// The text of the pipeline inside of a typed step, and its arguments as variables. `None` when the type is not
    /// known here, or stands for one freestyle step.
    pub(crate) fn inside(&self, step: &StepSpec, spec: &Typed) -> Result<Option<Inside>, Refusal> {
        if !self.knows(&spec.type_name) {
            return Ok(None);
        }
        let (mut steps, arguments) = self.filled(step, spec)?;
        if matches!(steps.0.as_slice(), [(_, only)] if is_plain(only)) {
            return Ok(None);
        }
        for inner in steps.0.iter_mut().filter_map(|(_, inner)| inner.as_object_mut()) {
            // Definitions spell it in their own way.
            if let Some(flag) = inner.remove("failFast") {
                inner.insert("fail_fast".to_owned(), flag);
            }
        }
        let forbidden: Vec<String> = steps
            .0
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
        let entries: Vec<String> =
            steps.0.iter().map(|(name, inner)| format!("{}:{inner}", Value::from(name.as_str()))).collect();
        let yaml = format!(r#"{{"version":"1.0","steps":{{{}}}}}"#, entries.join(","));
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
            let highest = versions.last().map_or("none", |definition| definition.version.as_str());
            let wanted = spec.version.as_deref().unwrap_or("?");
            refuse(step, spec, &format!("there is no version {wanted}; the highest is {highest}"))
        })?;
        let arguments = arguments(&definition.arguments, &spec.arguments)
            .map_err(|all| refuse(step, spec, &all.join("; ")))?;
        match definition.steps.filled(&arguments).map_err(|why| refuse(step, spec, &why))? {
            steps if !steps.0.is_empty() => Ok((steps, arguments)),
            _ => Err(refuse(step, spec, "its steps are no map with at least one step")),
        }
    }
}

/// The steps of a definition, and its arguments with their defaults.
type Filled = (Ordered, Map<String, Value>);

/// A typed step that is a pipeline of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) yaml: String,
    pub(crate) variables: BTreeMap<String, String>,
}

/// Whether it can take the place of the typed step.
fn is_plain(step: &Value) -> bool {
    let freestyle = step.get("type").is_none_or(|kind| kind == "freestyle");
    freestyle && ["when", "retry", "hooks", "timeout"].iter().all(|key| step.get(key).is_none())
}

fn refuse(step: &StepSpec, spec: &Typed, why: &str) -> Refusal {
    Refusal::Unsupported(format!("step `{}` of type `{}`: {why}", step.name, spec.type_name))
}

impl Steps {
    /// Types that its steps name, as far as they can be seen before the arguments are known.
    fn types(&self) -> Vec<String> {
        fn walk(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(map) => {
                    found.extend(map.get("type").and_then(Value::as_str).map(str::to_owned));
                    map.values().for_each(|inner| walk(inner, found));
                }
                Value::Array(list) => list.iter().for_each(|inner| walk(inner, found)),
                _ => {}
            }
        }
        let mut found = Vec::new();
        match self {
            Self::Written(steps) => steps.0.iter().for_each(|(_, step)| walk(step, &mut found)),
            Self::Template { text, .. } => {
                let named = text.lines().filter_map(|line| line.trim().strip_prefix("type:"));
                found.extend(named.map(|name| name.trim().trim_matches(['"', '\'']).to_owned()));
            }
        }
        found.retain(|name| !name.is_empty() && !matches!(name.as_str(), "freestyle" | BUILT_IN));
        found
    }

    fn filled(&self, arguments: &Map<String, Value>) -> Result<Ordered, String> {
        let steps = match self {
            Self::Written(steps) => steps.clone(),
            Self::Template { text, left, right } => {
                let text = rendered(text, left, right, arguments)?;
                let documents = slipway_yaml::parse(&text, Dialect::Kubernetes).map_err(|errors| {
                    let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
                    format!("its template gave no YAML: {}", all.join("; "))
                })?;
                documents.iter().find(|document| !document.is_null()).map(Ordered::of).unwrap_or_default()
            }
        };
        let filled = |(name, step): (String, Value)| (name, substituted(&step, arguments));
        Ok(Ordered(steps.0.into_iter().map(filled).collect()))
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

    fn types(text: &str) -> StepTypes {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("types.yaml"), text).unwrap();
        StepTypes::load(folder.path()).unwrap()
    }

    fn filled(given: &Value) -> Result<Map<String, Value>, Vec<String>> {
        let types = types(TYPE);
        let definition = &types.0["team/greet"][0];
        let arguments = arguments(&definition.arguments, given)?;
        Ok(definition.steps.filled(&arguments).unwrap().0.into_iter().collect())
    }

    #[test]
    fn steps_keep_the_order_of_their_text_wherever_they_come_from() {
        let names = |types: &StepTypes, name: &str| {
            let filled = types.0[name][0].steps.filled(&Map::new()).unwrap();
            filled.0.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let written = "kind: step-type\nmetadata: {name: w}\nspec: {steps: {z: {image: x}, a: {image: x}, m: {image: x}}}\n";
        let template = "kind: step-type\nmetadata: {name: t}\nspec:\n  stepsTemplate: |\n    z: {image: x}\n    a: {image: x}\n    m: {image: x}\n";
        assert_eq!(names(&types(written), "w"), ["z", "a", "m"]);
        assert_eq!(names(&types(template), "t"), ["z", "a", "m"]);
        let json = r#"{"kind":"step-type","metadata":{"name":"j"},"spec":{"steps":{"z":{"image":"x"},"a":{"image":"x"},"m":{"image":"x"}}}}"#;
        let given = StepTypes::default().with(&[RawValue::from_string(json.to_owned()).unwrap()]);
        assert_eq!(names(&given, "j"), ["z", "a", "m"]);
    }

    #[test]
    fn what_a_runners_own_definition_names_is_asked_for_too() {
        let own = "kind: step-type\nmetadata: {name: own}\nspec: {steps: {a: {type: 'team/greet:1.2.0'}, b: {image: x}, c: {type: git-commit}}}\n";
        let reached = types(own).reached(["own".to_owned(), "git-commit".to_owned()].into());
        assert_eq!(reached.into_iter().collect::<Vec<_>>(), ["own", "team/greet:1.2.0"]);
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
