//! Generators: what each kind makes of its block and of the world.

mod combine;
mod git;
mod simple;

use std::cell::RefCell;

use serde_json::Value;

use super::fill::Filler;
use super::needs::{Answer, Answers, Need};
use super::params::{Params, flatten, to_json};
use super::patch::fill_empty;
use slipway_dialect::selector::Selector;

/// Why a generator gave nothing.
pub(super) enum Failure {
    /// It asked something; ask it again when that was answered.
    Waiting,
    Problem(String),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Problem(message)
    }
}

pub(super) type Outcome<T> = Result<T, Failure>;

/// What one generator gave.
pub(super) struct Part {
    pub(super) kind: &'static str,
    pub(super) params: Vec<Params>,
    /// Its own template over the common one.
    pub(super) template: Value,
    /// Being empty is what the user wrote, or in the nature of the thing.
    pub(super) may_be_empty: bool,
}

pub(super) struct World<'a> {
    pub(super) answers: &'a Answers,
    pub(super) filler: &'a Filler<'a>,
    needs: RefCell<Vec<Need>>,
}

const KINDS: [&str; 9] = [
    "list",
    "clusters",
    "git",
    "scmProvider",
    "clusterDecisionResource",
    "pullRequest",
    "matrix",
    "merge",
    "plugin",
];

/// Matrix and merge may hold each other once.
const NESTING_MAX: usize = 2;

impl<'a> World<'a> {
    pub(super) fn new(answers: &'a Answers, filler: &'a Filler<'a>) -> Self {
        Self { answers, filler, needs: RefCell::default() }
    }

    pub(super) fn into_needs(self) -> Vec<Need> {
        self.needs.into_inner()
    }

    /// The answer, if there is one; else the question is noted.
    pub(super) fn ask(&self, need: Need) -> Outcome<&'a Answer> {
        match self.answers.get(&need) {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(message)) => Err(Failure::Problem(message.clone())),
            None => {
                let mut needs = self.needs.borrow_mut();
                if !needs.contains(&need) {
                    needs.push(need);
                }
                Err(Failure::Waiting)
            }
        }
    }

    /// Runs one entry of `generators`: fills it with what came before it, runs it, selects.
    pub(super) fn transform(
        &self,
        generator: &Value,
        template: Option<&Value>,
        before: Option<&Params>,
        depth: usize,
    ) -> Outcome<Vec<Part>> {
        let entries = generator.as_object().ok_or_else(|| "a generator must be an object".to_owned())?;
        let unknown: Vec<&str> = entries
            .keys()
            .map(String::as_str)
            .filter(|key| *key != "selector" && !KINDS.contains(key))
            .collect();
        if !unknown.is_empty() {
            return Err(Failure::Problem(format!(
                "there is no generator called {}; there are {}",
                unknown.join(", "),
                KINDS.join(", ")
            )));
        }
        let selector = match generator.get("selector").filter(|selector| !selector.is_null()) {
            Some(selector) => Some(
                Selector::parse(selector)
                    .map_err(|error| format!("error parsing label selector: {error}"))?,
            ),
            None => None,
        };
        let filled;
        let generator = match before.filter(|params| !params.is_empty()) {
            Some(params) => {
                filled = self.filler.generator(generator, &Filler::data(params))?;
                &filled
            }
            None => generator,
        };
        let mut parts = Vec::new();
        for kind in KINDS {
            let Some(block) = generator.get(kind).filter(|block| !block.is_null()) else { continue };
            let mut params = self.run(kind, block, depth)?;
            if let Some(selector) = &selector {
                params.retain(|params| selector.matches(&flatten(&to_json(params))));
            }
            let template = fill_empty(&block["template"], template.unwrap_or(&Value::Null));
            parts.push(Part { kind, params, template, may_be_empty: may_be_empty(kind, block) });
        }
        if parts.is_empty() {
            return Err(Failure::Problem(format!(
                "a generator is empty; give it one of {}",
                KINDS.join(", ")
            )));
        }
        Ok(parts)
    }

    fn run(&self, kind: &str, block: &Value, depth: usize) -> Outcome<Vec<Params>> {
        match kind {
            "list" => self.list(block),
            "clusters" => self.clusters(block),
            "git" => self.git(block),
            "scmProvider" => self.repositories(block),
            "clusterDecisionResource" => self.decisions(block),
            "pullRequest" => self.pull_requests(block),
            "plugin" => self.plugin(block),
            _ if depth >= NESTING_MAX => Err(Failure::Problem(format!(
                "{kind} is nested too deep: a matrix or merge may hold one more matrix or merge, and that one none"
            ))),
            "matrix" => self.matrix(block, depth),
            _ => self.merge(block, depth),
        }
    }
}

/// A list is empty because the user wrote it so. The last pull request that is closed leaves none behind, which is
/// what pull request generators are for.
fn may_be_empty(kind: &str, block: &Value) -> bool {
    match kind {
        "list" => block["elementsYaml"].as_str().unwrap_or_default().is_empty(),
        "pullRequest" => true,
        "matrix" | "merge" => {
            let inner = block["generators"].as_array().into_iter().flatten();
            let kinds: Vec<(&String, &Value)> = inner
                .filter_map(Value::as_object)
                .flat_map(|generator| generator.iter().filter(|(kind, _)| *kind != "selector"))
                .collect();
            kinds.iter().any(|(kind, _)| *kind == "pullRequest")
                || kinds.iter().all(|(kind, block)| may_be_empty(kind, block))
        }
        _ => false,
    }
}

/// How long an answer is good for when nothing is heard.
pub(super) fn requeue_after_seconds(generator: &Value) -> Option<i64> {
    let mut soonest = None;
    for (kind, block) in generator.as_object().into_iter().flatten() {
        let default = match kind.as_str() {
            "git" | "clusterDecisionResource" => Some(180),
            "scmProvider" | "pullRequest" | "plugin" => Some(1800),
            _ => None,
        };
        let own = default.map(|default| {
            block["requeueAfterSeconds"].as_i64().filter(|seconds| *seconds > 0).unwrap_or(default)
        });
        soonest = super::generate::sooner(soonest, own);
        for inner in block["generators"].as_array().into_iter().flatten() {
            soonest = super::generate::sooner(soonest, requeue_after_seconds(inner));
        }
    }
    soonest
}

/// A text of a block.
pub(super) fn text<'v>(block: &'v Value, field: &str) -> &'v str {
    block[field].as_str().unwrap_or_default()
}
