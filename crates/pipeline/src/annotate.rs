//! `annotations` and `metadata` of a step or hook → the changes they ask for.
//!
//! In: both blocks with variables filled in, the pipeline and the state for `evaluate`. Out: changes in the order in
//! which they are written, and a sentence for each that cannot be one. A value `file:PATH` stays as it is: whoever
//! has the file reads it. Nothing is changed here.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::expression::evaluate;
use crate::pipeline::Pipeline;
use crate::plan::when::build_scope;
use crate::spec::Annotate;
use crate::state::BuildState;

/// What is annotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entity {
    Build,
    Pipeline,
    Project,
    Image,
}

impl Entity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Pipeline => "pipeline",
            Self::Project => "project",
            Self::Image => "image",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        match word {
            "build" | "workflow" => Some(Self::Build),
            "pipeline" => Some(Self::Pipeline),
            "project" => Some(Self::Project),
            "image" => Some(Self::Image),
            _ => None,
        }
    }
}

/// One annotation, set or taken away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub entity: Entity,
    /// The build's own when absent: the build itself, its pipeline, its project, the image it has just made.
    pub id: Option<String>,
    pub name: String,
    /// A text, a number, yes or no; `None` takes the annotation away.
    pub value: Option<Value>,
}

/// All changes that are asked for, and what is wrong with the others.
pub fn changes(spec: &Annotate, pipeline: &Pipeline, state: &BuildState) -> (Vec<Change>, Vec<String>) {
    let mut reading = Reading { pipeline, state, changes: Vec::new(), findings: Vec::new() };
    for group in list(&spec.annotations["set"]) {
        reading.set(group);
    }
    for group in list(&spec.annotations["unset"]) {
        reading.unset(group);
    }
    for entry in list(&spec.metadata["set"]) {
        reading.metadata(entry);
    }
    (reading.changes, reading.findings)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

struct Reading<'a> {
    pipeline: &'a Pipeline,
    state: &'a BuildState,
    changes: Vec<Change>,
    findings: Vec<String>,
}

impl Reading<'_> {
    fn target(&mut self, group: &Value) -> Option<(Entity, Option<String>)> {
        let word = group["entity_type"].as_str().unwrap_or("build");
        let Some(entity) = Entity::parse(word) else {
            self.findings
                .push(format!("`{word}` cannot be annotated: there are build, pipeline, project and image"));
            return None;
        };
        let id = group["entity_id"].as_str().map(str::trim).filter(|id| !id.is_empty());
        Some((entity, id.map(str::to_owned)))
    }

    fn set(&mut self, group: &Value) {
        let Some((entity, id)) = self.target(group) else { return };
        for annotation in list(&group["annotations"]) {
            match annotation {
                // A bare name is a mark: it is there or it is not.
                Value::String(name) => self.push(entity, id.clone(), name, Value::Bool(true)),
                Value::Object(named) => {
                    for (name, value) in named {
                        if let Some(value) = self.value(name, value) {
                            self.push(entity, id.clone(), name, value);
                        }
                    }
                }
                other => self.findings.push(format!("`{other}` is neither a name nor a name with a value")),
            }
        }
    }

    fn unset(&mut self, group: &Value) {
        let Some((entity, id)) = self.target(group) else { return };
        for name in list(&group["annotations"]).iter().filter_map(Value::as_str) {
            self.changes.push(Change { entity, id: id.clone(), name: name.to_owned(), value: None });
        }
    }

    /// `{name: value}` for the image of the step itself, `{image: [{name: value}]}` for any.
    fn metadata(&mut self, entry: &Value) {
        for (key, value) in entry.as_object().into_iter().flatten() {
            let Value::Array(pairs) = value else {
                if let Some(value) = self.value(key, value) {
                    self.push(Entity::Image, None, key, value);
                }
                continue;
            };
            for (name, value) in pairs.iter().filter_map(Value::as_object).flatten() {
                if let Some(value) = self.value(name, value) {
                    self.push(Entity::Image, Some(key.clone()), name, value);
                }
            }
        }
    }

    fn value(&mut self, name: &str, value: &Value) -> Option<Value> {
        match value {
            Value::String(_) | Value::Number(_) | Value::Bool(_) => Some(value.clone()),
            Value::Object(fields) => {
                let Some(expression) = fields.get("evaluate").and_then(Value::as_str) else {
                    self.findings.push(format!("`{name}` has neither a value nor `evaluate`"));
                    return None;
                };
                match evaluate(expression, &build_scope(self.pipeline, self.state)) {
                    Ok(held) => Some(Value::Bool(held)),
                    Err(error) => {
                        self.findings.push(format!("`{name}` counts as false, {error}: {expression}"));
                        Some(Value::Bool(false))
                    }
                }
            }
            _ => {
                self.findings.push(format!("`{name}` is a text, a number, yes or no"));
                None
            }
        }
    }

    fn push(&mut self, entity: Entity, id: Option<String>, name: &str, value: Value) {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || !name.chars().all(plain) {
            self.findings
                .push(format!("`{name}` is no name of an annotation: use letters, digits, `_`, `-` and `.`"));
            return;
        }
        self.changes.push(Change { entity, id, name: name.to_owned(), value: Some(value) });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_form_of_the_two_blocks_is_a_change() {
        let spec = Annotate {
            annotations: json!({
                "set": [
                    {"annotations": ["marked", {"coverage": "85%"}, {"count": 3}, {"good": {"evaluate": "1 == 1"}}]},
                    {"entity_type": "pipeline", "entity_id": "demo/app", "annotations": [{"owner": "team"}]},
                ],
                "unset": [{"entity_type": "workflow", "annotations": ["old"]}],
            }),
            metadata: json!({"set": [{"sha256:1": [{"CF_QUALITY": true}]}, {"own": "x"}]}),
        };
        let (changes, findings) = changes(&spec, &Pipeline::default(), &BuildState::default());
        assert_eq!(findings, Vec::<String>::new());
        let told: Vec<String> = changes
            .iter()
            .map(|change| {
                let id = change.id.as_deref().unwrap_or("-");
                let value = change.value.as_ref().map_or("gone".to_owned(), Value::to_string);
                format!("{} {id} {}={value}", change.entity.as_str(), change.name)
            })
            .collect();
        assert_eq!(
            told,
            [
                "build - marked=true",
                "build - coverage=\"85%\"",
                "build - count=3",
                "build - good=true",
                "pipeline demo/app owner=\"team\"",
                "build - old=gone",
                "image sha256:1 CF_QUALITY=true",
                "image - own=\"x\"",
            ]
        );
    }

    #[test]
    fn everything_that_is_no_annotation_is_told_at_once() {
        let spec = Annotate {
            annotations: json!({"set": [
                {"entity_type": "cluster", "annotations": ["x"]},
                {"annotations": [{"bad name": 1}, {"list": [1]}, 7, {"broken": {"evaluate": "1 =="}}]},
            ]}),
            metadata: Value::Null,
        };
        let (changes, findings) = changes(&spec, &Pipeline::default(), &BuildState::default());
        assert_eq!(findings.len(), 5, "{findings:?}");
        assert_eq!((changes.len(), &changes[0].value), (1, &Some(json!(false))));
    }
}
