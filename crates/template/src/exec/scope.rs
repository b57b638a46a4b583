//! What one filling uses up and has made.

use jiff::Timestamp;

use crate::environment::Environment;
use crate::value::{List, Map, Value};

/// Lists in lists; dropping one is recursive.
const LIST_DEPTH_MAX: usize = 64;

/// Handed to every function: the clock, the dice, and the counters that end a template which does too much.
pub(crate) struct Scope<'e> {
    pub(crate) now: Timestamp,
    random: &'e mut dyn FnMut() -> u64,
    steps_left: usize,
    steps_max: usize,
    work_left: usize,
    work_max: usize,
    /// Every map that was made. Templates can make maps that hold each other; they are taken apart at the end.
    maps: Vec<Map>,
}

impl<'e> Scope<'e> {
    pub(crate) fn new(environment: &'e mut Environment<'_>) -> Self {
        let limits = environment.limits;
        Self {
            now: environment.now,
            random: &mut *environment.random,
            steps_left: limits.steps,
            steps_max: limits.steps,
            work_left: limits.work_bytes,
            work_max: limits.work_bytes,
            maps: Vec::new(),
        }
    }

    pub(crate) fn step(&mut self) -> Result<(), String> {
        self.steps(1)
    }

    pub(crate) fn steps(&mut self, count: usize) -> Result<(), String> {
        match self.steps_left.checked_sub(count) {
            Some(left) => {
                self.steps_left = left;
                Ok(())
            }
            None => {
                Err(format!("the template takes more than {} steps; let it loop over less", self.steps_max))
            }
        }
    }

    /// Called before so many bytes are made.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), String> {
        match self.work_left.checked_sub(bytes) {
            Some(left) => {
                self.work_left = left;
                Ok(())
            }
            None => Err(format!(
                "the template makes more than {} bytes on the way; let it build less text",
                self.work_max
            )),
        }
    }

    pub(crate) fn new_map(&mut self, of_text: bool) -> Map {
        let map = Map { of_text, entries: Default::default() };
        self.maps.push(map.clone());
        map
    }

    pub(crate) fn map_of(&mut self, entries: impl IntoIterator<Item = (String, Value)>) -> Value {
        let map = self.new_map(false);
        map.entries.borrow_mut().extend(entries);
        Value::Map(map)
    }

    /// Checks and charges what a function gave back.
    pub(crate) fn admit(&mut self, value: Value) -> Result<Value, String> {
        match &value {
            Value::Text(text) => self.charge(text.len())?,
            Value::List(List { items, depth, .. }) => {
                if *depth > LIST_DEPTH_MAX {
                    return Err(format!("lists are nested deeper than {LIST_DEPTH_MAX} levels"));
                }
                self.steps(items.len())?;
            }
            Value::Map(map) => self.steps(map.len())?,
            _ => {}
        }
        Ok(value)
    }

    pub(crate) fn random(&mut self) -> u64 {
        (self.random)()
    }

    /// A number below `bound`.
    pub(crate) fn random_below(&mut self, bound: u64) -> u64 {
        self.random() % bound.max(1)
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        // Maps may hold themselves and may hold each other a million deep; emptied one by one they let go.
        for map in &self.maps {
            let entries = std::mem::take(&mut *map.entries.borrow_mut());
            drop(entries);
        }
    }
}
