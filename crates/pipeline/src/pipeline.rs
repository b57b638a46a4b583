//! The pipeline as a value: ordered steps, conditions, hooks, with `scale` and `matrix` expanded.
//!
//! Nothing is interpolated here; fields stay as written until a step is about to start, because
//! earlier steps export variables.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parse::{ANNOTATE_TYPE, KNOWN_TYPES};
use crate::plan::HookPoint;

/// The clone that gives later steps their working directory.
pub const MAIN_CLONE: &str = "main_clone";

/// How the steps of a scope follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// In the order of the file, one after the other.
    #[default]
    Sequential,
    /// Each as soon as its `when` holds.
    Parallel,
}

/// A whole `codefresh.yml`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pipeline {
    pub version: String,
    pub stages: Vec<String>,
    pub build_version: Option<String>,
    /// Side services for the whole build, as written.
    pub services: Option<Value>,
    pub hooks: Hooks,
    pub scope: Scope,
}

/// Steps that share a mode and a rule for failure: the file, a parallel block, or a hook.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Scope {
    pub mode: Mode,
    /// As written; may be a variable.
    pub fail_fast: Option<Value>,
    pub strict_fail_fast: Option<Value>,
    pub success_criteria: Option<SuccessCriteria>,
    pub steps: Vec<Step>,
}

/// One step, or a parallel block when `children` is there.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    pub name: String,
    /// `freestyle` when the file names none.
    pub type_name: String,
    pub type_version: Option<String>,
    pub title: Option<String>,
    pub stage: Option<String>,
    pub fail_fast: Option<Value>,
    pub strict_fail_fast: Option<Value>,
    pub when: Option<When>,
    pub retry: Option<Value>,
    pub timeout: Option<Value>,
    pub hooks: Hooks,
    /// Every other field, with `arguments` lifted to the step as the planner reads them.
    pub fields: serde_json::Map<String, Value>,
    pub children: Option<Box<Scope>>,
    /// Where the step's name stands in the file; 0 when the step was made, not written.
    pub line: usize,
}

/// `when`: the parts that are there must all hold.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct When {
    pub branch_only: Option<Vec<String>>,
    pub branch_ignore: Option<Vec<String>>,
    pub condition: Option<Condition>,
    pub steps: Option<StepsClause>,
}

/// Named expressions. Both lists may be there; then both must hold.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    pub all: Vec<(String, String)>,
    pub any: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepsClause {
    All(Vec<Dependency>),
    Any(Vec<Dependency>),
}

impl StepsClause {
    pub fn dependencies(&self) -> &[Dependency] {
        match self {
            Self::All(dependencies) | Self::Any(dependencies) => dependencies,
        }
    }
}

/// Another step and the results that count; an empty list means success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    pub name: String,
    pub on: Vec<String>,
}

/// What makes a scope successful, instead of "nothing failed".
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SuccessCriteria {
    pub only: Option<Vec<String>>,
    pub ignore: Option<Vec<String>>,
    pub condition: Option<Condition>,
}

/// The hooks of the pipeline or of a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Hooks {
    pub on_elected: Option<Scope>,
    pub on_success: Option<Scope>,
    pub on_fail: Option<Scope>,
    pub on_finish: Option<Scope>,
}

impl Hooks {
    pub fn at(&self, point: HookPoint) -> Option<&Scope> {
        match point {
            HookPoint::OnElected => self.on_elected.as_ref(),
            HookPoint::OnSuccess => self.on_success.as_ref(),
            HookPoint::OnFail => self.on_fail.as_ref(),
            HookPoint::OnFinish => self.on_finish.as_ref(),
        }
    }

    fn collect_types(&self, named: &mut BTreeSet<String>) {
        for scope in HookPoint::ALL.into_iter().filter_map(|point| self.at(point)) {
            scope.collect_types(named);
        }
    }
}

impl Pipeline {
    /// Every step that runs, in file order, children of blocks in place of the block.
    pub fn leaves(&self) -> Vec<&Step> {
        let mut leaves = Vec::new();
        self.scope.collect_leaves(&mut leaves);
        leaves
    }

    /// A step of the file by name, blocks included.
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.scope.find(name)
    }

    /// Puts the clone of a linked repository in front, unless the file has a step of that name.
    pub fn with_main_clone(mut self, repo: &str, revision: Option<&str>, git: Option<&str>) -> Self {
        if self.step(MAIN_CLONE).is_some() {
            return self;
        }
        let mut fields = serde_json::Map::new();
        let given = [("repo", Some(repo)), ("revision", revision), ("git", git)];
        for (key, value) in given.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            fields.insert(key.to_owned(), Value::String(value.to_owned()));
        }
        let clone = Step {
            name: MAIN_CLONE.to_owned(),
            type_name: "git-clone".to_owned(),
            title: Some("Cloning main repository".to_owned()),
            fields,
            ..Step::default()
        };
        self.scope.steps.insert(0, clone);
        self
    }

    /// Types that are not built in, as steps and hooks write them: `name`, or `name:version`.
    pub fn named_types(&self) -> BTreeSet<String> {
        let mut named = BTreeSet::new();
        self.scope.collect_types(&mut named);
        self.hooks.collect_types(&mut named);
        named
    }

    /// The step behind an id of [`BuildState`](crate::BuildState): a name, or `owner.hooks.point.name`.
    pub fn step_by_id(&self, id: &str) -> Option<&Step> {
        let Some((owner, point, name)) = split_hook_id(id) else { return self.step(id) };
        let hooks = match owner {
            Some(owner) => &self.step(owner)?.hooks,
            None => &self.hooks,
        };
        hooks.at(point)?.find(name)
    }
}

impl Scope {
    pub(crate) fn collect_leaves<'a>(&'a self, leaves: &mut Vec<&'a Step>) {
        for step in &self.steps {
            match &step.children {
                Some(children) => children.collect_leaves(leaves),
                None => leaves.push(step),
            }
        }
    }

    fn collect_types(&self, named: &mut BTreeSet<String>) {
        for step in &self.steps {
            step.hooks.collect_types(named);
            if let Some(children) = &step.children {
                children.collect_types(named);
            } else if step.type_name != ANNOTATE_TYPE && !KNOWN_TYPES.contains(&step.type_name.as_str()) {
                let version = step.type_version.iter().flat_map(|version| [":", version.as_str()]);
                named.insert(std::iter::once(step.type_name.as_str()).chain(version).collect());
            }
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find_map(|step| {
            if step.name == name {
                return Some(step);
            }
            step.children.as_ref().and_then(|children| children.find(name))
        })
    }
}

/// The id of a hook's step. Step names may not contain a dot, so ids never meet names.
pub(crate) fn hook_id(owner: Option<&str>, point: HookPoint, name: &str) -> String {
    match owner {
        Some(owner) => format!("{owner}.hooks.{}.{name}", point.as_str()),
        None => format!("hooks.{}.{name}", point.as_str()),
    }
}

fn split_hook_id(id: &str) -> Option<(Option<&str>, HookPoint, &str)> {
    let parts: Vec<&str> = id.split('.').collect();
    let (owner, point, name) = match parts.as_slice() {
        ["hooks", point, name] => (None, *point, *name),
        [owner, "hooks", point, name] => (Some(*owner), *point, *name),
        _ => return None,
    };
    let point = HookPoint::ALL.into_iter().find(|known| known.as_str() == point)?;
    Some((owner, point, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_wherever_a_step_may_stand() {
        let text = r#"
version: '1.0'
hooks:
  on_finish: {exec: {steps: {tell: {type: team/tell, arguments: {TO: x}}}}}
steps:
  plain: {image: alpine, commands: ["true"]}
  clone: {type: git-clone, repo: a/b, revision: main}
  block:
    type: parallel
    steps:
      one: {type: "team/greet:1.2.0"}
      two: {type: team/greet}
  late:
    image: alpine
    commands: ["true"]
    hooks: {on_fail: {exec: {steps: {mend: {type: mend}}}}}
"#;
        let (pipeline, findings) = Pipeline::parse(text);
        let named = pipeline.unwrap_or_else(|| panic!("{findings:?}")).named_types();
        assert_eq!(
            named.into_iter().collect::<Vec<_>>(),
            ["mend", "team/greet", "team/greet:1.2.0", "team/tell"]
        );
    }
}
