//! The pipeline as a graph of the steps that run: whom each one waits for, and the stage it is shown under.
//!
//! For pictures: what may start is decided by the planner, which also looks at results and conditions.

use std::collections::{HashMap, HashSet};

use crate::pipeline::{Mode, Pipeline, Scope, Step};

/// After a wide matrix each step waits for all of it; a picture does not become clearer by hundreds of lines.
const NEEDS_MAX: usize = 24;

/// One step that runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Place<'p> {
    pub step: &'p Step,
    /// Its own, or that of the block around it.
    pub stage: Option<&'p str>,
    /// Names of steps that run, the first few of them.
    pub needs: Vec<&'p str>,
}

impl Pipeline {
    /// Every step that runs, in file order.
    pub fn graph(&self) -> Vec<Place<'_>> {
        let mut walk = Walk { by_name: HashMap::new(), places: Vec::new() };
        walk.index(&self.scope);
        walk.scope(&self.scope, None, &[]);
        walk.places
    }
}

struct Walk<'p> {
    by_name: HashMap<&'p str, &'p Step>,
    places: Vec<Place<'p>>,
}

impl<'p> Walk<'p> {
    fn index(&mut self, scope: &'p Scope) {
        for step in &scope.steps {
            self.by_name.insert(&step.name, step);
            if let Some(children) = &step.children {
                self.index(children);
            }
        }
    }

    /// Gives the steps that whoever comes after the scope waits for.
    fn scope(&mut self, scope: &'p Scope, stage: Option<&'p str>, before: &[&'p str]) -> Vec<&'p str> {
        let mut last = before.to_vec();
        let (mut ends, mut needed) = (Vec::new(), HashSet::new());
        for step in &scope.steps {
            let needs = match scope.mode {
                Mode::Sequential => std::mem::take(&mut last),
                Mode::Parallel => match self.named(step) {
                    Some(names) => {
                        needed.extend(names.iter().copied());
                        names
                    }
                    None => before.to_vec(),
                },
            };
            let stage = step.stage.as_deref().or(stage);
            let done = match &step.children {
                Some(children) => self.scope(children, stage, &needs),
                None => {
                    self.places.push(Place { step, stage, needs });
                    vec![step.name.as_str()]
                }
            };
            match scope.mode {
                Mode::Sequential => last = done,
                Mode::Parallel => ends.extend(done),
            }
        }
        if scope.mode == Mode::Parallel {
            ends.retain(|end| !needed.contains(end));
            last = if ends.is_empty() { before.to_vec() } else { ends };
        }
        last.truncate(NEEDS_MAX);
        last
    }

    /// The steps that a step names in its `when`, each block as the steps in it.
    fn named(&self, step: &Step) -> Option<Vec<&'p str>> {
        let clause = step.when.as_ref()?.steps.as_ref()?;
        let mut names = Vec::new();
        for dependency in clause.dependencies().iter().take(NEEDS_MAX) {
            let Some(wanted) = self.by_name.get(dependency.name.as_str()) else { continue };
            let mut leaves = Vec::new();
            match &wanted.children {
                Some(children) => children.collect_leaves(&mut leaves),
                None => leaves.push(*wanted),
            }
            names.extend(leaves.into_iter().map(|leaf| leaf.name.as_str()));
        }
        names.truncate(NEEDS_MAX);
        Some(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn graph(text: &str, expected: &[(&str, &str, &[&str])]) {
        let (pipeline, findings) = Pipeline::parse(text);
        let pipeline = pipeline.unwrap_or_else(|| panic!("{findings:?}"));
        let places = pipeline.graph();
        let shown: Vec<_> = places
            .iter()
            .map(|place| (place.step.name.as_str(), place.stage.unwrap_or_default(), place.needs.as_slice()))
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn steps_in_a_row_wait_for_the_one_before_and_for_all_of_a_block() {
        graph(
            "version: '1.0'\nstages: [a, b]\nsteps:\n  one: {image: x, stage: a}\n  block:\n    type: parallel\n    stage: b\n    steps:\n      two: {image: x}\n      three: {image: x, stage: a}\n  four: {image: x}\n",
            &[
                ("one", "a", &[]),
                ("two", "b", &["one"]),
                ("three", "a", &["one"]),
                ("four", "", &["two", "three"]),
            ],
        );
    }

    #[test]
    fn in_parallel_mode_each_waits_for_those_that_it_names() {
        graph(
            "version: '1.0'\nmode: parallel\nsteps:\n  one: {image: x}\n  two: {image: x}\n  block:\n    type: parallel\n    when: {steps: [{name: one}]}\n    steps:\n      three: {image: x}\n      four: {image: x}\n  five: {image: x, when: {steps: {all: [{name: block}, {name: two}, {name: nobody}]}}}\n",
            &[
                ("one", "", &[]),
                ("two", "", &[]),
                ("three", "", &["one"]),
                ("four", "", &["one"]),
                ("five", "", &["three", "four", "two"]),
            ],
        );
    }

    #[test]
    fn a_wide_matrix_and_a_long_list_of_names_stay_small() {
        let children: String = (0..300).map(|n| format!("      w{n}: {{image: x}}\n")).collect();
        let names = "{name: wide}, ".repeat(5_000);
        let (pipeline, _) = Pipeline::parse(&format!(
            "version: '1.0'\nmode: parallel\nsteps:\n  wide:\n    type: parallel\n    steps:\n{children}  end: {{image: x, when: {{steps: [{names}]}}}}\n"
        ));
        let pipeline = pipeline.expect("reads");
        let places = pipeline.graph();
        assert_eq!(places.len(), 301);
        assert_eq!(places[300].needs.len(), NEEDS_MAX);
    }
}
