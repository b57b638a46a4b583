//! Variables: layers, precedence, and `${{NAME}}` in text.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Where a variable was set, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    System,
    Project,
    SharedConfig,
    Pipeline,
    Trigger,
    BuildRun,
    CfExport,
}

impl Layer {
    pub const ALL: [Layer; 7] = [
        Layer::System,
        Layer::Project,
        Layer::SharedConfig,
        Layer::Pipeline,
        Layer::Trigger,
        Layer::BuildRun,
        Layer::CfExport,
    ];
}

/// Layered variables of one build. A stronger layer hides a weaker one, name by name.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Variables {
    layers: BTreeMap<Layer, BTreeMap<String, String>>,
    /// Names whose values must never be shown.
    encrypted: BTreeSet<String>,
}

impl std::fmt::Debug for Variables {
    /// Names only: a value may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.layers.iter().map(|(layer, values)| (layer, values.keys().collect::<Vec<_>>())))
            .finish()
    }
}

impl Variables {
    pub fn set(&mut self, layer: Layer, name: impl Into<String>, value: impl Into<String>) {
        self.layers.entry(layer).or_default().insert(name.into(), value.into());
    }

    pub fn set_encrypted(&mut self, layer: Layer, name: impl Into<String>, value: impl Into<String>) {
        let name = name.into();
        self.encrypted.insert(name.clone());
        self.set(layer, name, value);
    }

    /// The value in effect and the layer that gives it.
    pub fn lookup(&self, name: &str) -> Option<(Layer, &str)> {
        self.layers.iter().rev().find_map(|(layer, values)| Some((*layer, values.get(name)?.as_str())))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.lookup(name).map(|(_, value)| value)
    }

    /// Every name with the value in effect.
    pub fn effective(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for values in self.layers.values() {
            all.extend(values.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        all
    }

    pub fn is_encrypted(&self, name: &str) -> bool {
        self.encrypted.contains(name)
    }
}
