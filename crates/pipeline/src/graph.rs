//! The pipeline as a graph of the steps that run: whom each one waits for, and the stage it is shown under.
//!
//! For pictures: what may start is decided by the planner, which also looks at results and conditions.

use crate::pipeline::{Mode, Pipeline, Scope, Step};

/// One step that runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Place<'p> {
    pub step: &'p Step,
    /// Its own, or that of the block around it.
    pub stage: Option<&'p str>,
    /// Names of steps that run.
    pub needs: Vec<&'p str>,
}

impl Pipeline {
    /// Every step that runs, in file order.
    pub fn graph(&self) -> Vec<Place<'_>> {
        let mut places = Vec::new();
        self.walk(&self.scope, None, &[], &mut places);
        places
    }

    /// Gives the steps that whoever comes after the scope waits for.
    fn walk<'p>(
        &'p self,
        scope: &'p Scope,
        stage: Option<&'p str>,
        before: &[&'p str],
        places: &mut Vec<Place<'p>>,
    ) -> Vec<&'p str> {
        let mut last = before.to_vec();
        let (mut ends, mut needed) = (Vec::new(), Vec::new());
        for step in &scope.steps {
            let needs = match scope.mode {
                Mode::Sequential => last.clone(),
                Mode::Parallel => self.named(step).unwrap_or_else(|| before.to_vec()),
            };
            needed.extend(needs.iter().copied());
            let stage = step.stage.as_deref().or(stage);
            let done = match &step.children {
                Some(children) => self.walk(children, stage, &needs, places),
                None => {
                    places.push(Place { step, stage, needs });
                    vec![step.name.as_str()]
                }
            };
            ends.extend(done.iter().copied());
            last = done;
        }
        match scope.mode {
            Mode::Sequential => last,
            Mode::Parallel => {
                ends.retain(|end| !needed.contains(end));
                if ends.is_empty() { before.to_vec() } else { ends }
            }
        }
    }

    /// The steps that a step names in its `when`, each block as the steps in it.
    fn named<'p>(&'p self, step: &Step) -> Option<Vec<&'p str>> {
        let clause = step.when.as_ref()?.steps.as_ref()?;
        let mut names = Vec::new();
        for wanted in clause.dependencies().iter().filter_map(|dependency| self.step(&dependency.name)) {
            match &wanted.children {
                Some(children) => {
                    let mut leaves = Vec::new();
                    children.collect_leaves(&mut leaves);
                    names.extend(leaves.into_iter().map(|leaf| leaf.name.as_str()));
                }
                None => names.push(wanted.name.as_str()),
            }
        }
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
}
