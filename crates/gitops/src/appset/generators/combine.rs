//! Generators of generators: every pair (matrix), or one set laid over another (merge).

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Failure, Outcome, World};
use crate::appset::params::{Params, combine, overlay};

impl World<'_> {
    /// What one inner generator gives; inner templates do not count.
    fn inner(&self, generator: &Value, before: Option<&Params>, depth: usize) -> Outcome<Vec<Params>> {
        let mut parts = self.transform(generator, None, before, depth + 1)?;
        if parts.len() > 1 {
            return Err(Failure::Problem(
                "an entry of a matrix or merge holds more than one generator; make them two entries".into(),
            ));
        }
        Ok(parts.pop().map(|part| part.params).unwrap_or_default())
    }

    pub(super) fn matrix(&self, block: &Value, depth: usize) -> Outcome<Vec<Params>> {
        let [first, second] = inner_generators(block) else {
            return Err(Failure::Problem(format!(
                "matrix needs exactly two generators and has {}",
                inner_generators(block).len()
            )));
        };
        let firsts = self.inner(first, None, depth).map_err(at("first generator of the matrix"))?;
        let mut all = Vec::new();
        let mut waiting = false;
        for a in &firsts {
            match self.inner(second, Some(a), depth).map_err(at("second generator of the matrix")) {
                // The other questions are asked in the same round.
                Err(Failure::Waiting) => waiting = true,
                Err(problem) => return Err(problem),
                Ok(seconds) => {
                    for b in &seconds {
                        all.push(if self.filler.go {
                            let mut both = b.clone();
                            overlay(&mut both, a);
                            both
                        } else {
                            combine(a, b)?
                        });
                    }
                }
            }
        }
        if waiting { Err(Failure::Waiting) } else { Ok(all) }
    }

    pub(super) fn merge(&self, block: &Value, depth: usize) -> Outcome<Vec<Params>> {
        let generators = inner_generators(block);
        if generators.len() < 2 {
            return Err(Failure::Problem(
                "found less than two generators, Merge requires two or more".into(),
            ));
        }
        let keys: Vec<&str> =
            block["mergeKeys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if keys.is_empty() {
            return Err(Failure::Problem("no merge keys were specified, Merge requires at least one".into()));
        }
        let mut sets = Vec::new();
        let mut waiting = false;
        for (index, generator) in generators.iter().enumerate() {
            let place = format!("generator {} of {} of the merge", index + 1, generators.len());
            match self.inner(generator, None, depth).map_err(at(&place)) {
                Err(Failure::Waiting) => waiting = true,
                Err(problem) => return Err(problem),
                Ok(params) => sets.push(by_key(&keys, params)?),
            }
        }
        if waiting {
            return Err(Failure::Waiting);
        }
        let mut sets = sets.into_iter();
        let mut base = sets.next().unwrap_or_default();
        for over in sets {
            for (key, params) in &over {
                if let Some(known) = base.iter_mut().find(|(known, _)| known == key) {
                    if self.filler.go {
                        overlay(&mut known.1, params);
                    } else {
                        known.1.extend(params.clone());
                    }
                }
            }
        }
        Ok(base.into_iter().map(|(_, params)| params).collect())
    }
}

fn inner_generators(block: &Value) -> &[Value] {
    block["generators"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn at(place: &str) -> impl Fn(Failure) -> Failure + '_ {
    move |failure| match failure {
        Failure::Problem(message) => Failure::Problem(format!("{place}: {message}")),
        waiting => waiting,
    }
}

/// Each set under the values of the merge keys, in the order of the generator; two under the same is a fault.
fn by_key(keys: &[&str], params: Vec<Params>) -> Result<Vec<(String, Params)>, String> {
    let mut all: Vec<(String, Params)> = Vec::new();
    for params in params {
        let values: BTreeMap<&str, Value> = keys
            .iter()
            .map(|key| (*key, params.get(*key).map_or(Value::Null, slipway_template::Data::to_json)))
            .collect();
        let key = serde_json::to_string(&values).unwrap_or_default();
        if all.iter().any(|(known, _)| *known == key) {
            return Err(format!(
                "the parameters from a generator were not unique by the given mergeKeys, Merge requires all param \
                 sets to be unique. Duplicate key was {key}"
            ));
        }
        all.push((key, params));
    }
    Ok(all)
}
