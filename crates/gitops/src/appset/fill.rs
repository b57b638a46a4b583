//! Filling texts, generators and templates with parameters, in either language.

use jiff::Timestamp;
use serde_json::{Map, Value};
use slipway_template::{Data, Environment, Functions, Limits, Template, fasttemplate};

use super::params::Params;

/// How an ApplicationSet wants its texts filled.
pub(super) struct Filler<'a> {
    pub(super) go: bool,
    pub(super) options: &'a [String],
    pub(super) now: Timestamp,
    /// The same for the same ApplicationSet, so that what is random does not change at every look.
    pub(super) seed: u64,
}

impl Filler<'_> {
    /// The data of a parameter set, made once for all the texts that it fills.
    pub(super) fn data(params: &Params) -> Data {
        Data::Map(params.clone())
    }

    pub(super) fn text(&self, text: &str, data: &Data) -> Result<String, String> {
        self.text_with(text, data, self.options)
    }

    fn text_with(&self, text: &str, data: &Data, options: &[String]) -> Result<String, String> {
        if !text.contains("{{") {
            return Ok(text.to_owned());
        }
        if !self.go {
            let Data::Map(params) = data else { return Ok(text.to_owned()) };
            let lookup = |key: &str| match params.get(key) {
                Some(Data::Json(Value::String(value))) => Some(value.as_str()),
                _ => None,
            };
            return fasttemplate::render(text, lookup)
                .map_err(|problem| format!("invalid template: {problem}"));
        }
        let template = Template::parse("base", text, options, Functions::application_set())
            .map_err(|error| format!("failed to parse template {text}: {error}"))?;
        let mut state = self.seed;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 11
        };
        let mut environment = Environment { now: self.now, random: &mut random, limits: Limits::default() };
        template
            .render(data, &mut environment)
            .map_err(|error| format!("failed to execute go template {text}: {error}"))
    }

    /// Every text and every key in a tree.
    pub(super) fn tree(&self, value: &Value, data: &Data) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => Value::String(self.text(text, data)?),
            Value::Array(items) => {
                items.iter().map(|item| self.tree(item, data)).collect::<Result<Value, String>>()?
            }
            Value::Object(entries) => {
                let mut filled = Map::new();
                for (key, value) in entries {
                    if value.is_null() {
                        continue;
                    }
                    filled.insert(self.text(key, data)?, self.tree(value, data)?);
                }
                Value::Object(filled)
            }
            other => other.clone(),
        })
    }

    /// The second generator of a matrix, filled with what the first gave. Texts in `values` that speak of what is
    /// not known yet stay as they are: they are filled again when the generator has run.
    pub(super) fn generator(&self, generator: &Value, data: &Data) -> Result<Value, String> {
        let problem = |error: String| format!("failed to replace parameters in generator: {error}");
        let mut filled = Map::new();
        for (kind, block) in generator.as_object().into_iter().flatten() {
            let Some(entries) = block.as_object() else {
                filled.insert(kind.clone(), self.tree(block, data).map_err(problem)?);
                continue;
            };
            let mut inner = Map::new();
            for (key, value) in entries {
                let value = match (key.as_str(), value.as_object()) {
                    ("values", Some(values)) => self.known_values(values, data).map_err(problem)?,
                    _ => self.tree(value, data).map_err(problem)?,
                };
                inner.insert(key.clone(), value);
            }
            filled.insert(kind.clone(), Value::Object(inner));
        }
        Ok(Value::Object(filled))
    }

    fn known_values(&self, values: &Map<String, Value>, data: &Data) -> Result<Value, String> {
        let strict = ["missingkey=error".to_owned()];
        let mut filled = Map::new();
        for (key, value) in values {
            let text = value.as_str().unwrap_or_default();
            let result = match self.text_with(text, data, &strict) {
                Err(error)
                    if error.contains("map has no entry for key")
                        || error.contains("can't evaluate field") =>
                {
                    text.to_owned()
                }
                other => other?,
            };
            filled.insert(key.clone(), Value::String(result));
        }
        Ok(Value::Object(filled))
    }

    /// Adds a generator's `values`, each filled with what the generator gave. They do not see each other, so that
    /// they cannot grow without end.
    pub(super) fn add_values(&self, values: &Value, params: &mut Params) -> Result<(), String> {
        let Some(values) = values.as_object().filter(|values| !values.is_empty()) else { return Ok(()) };
        let data = Self::data(params);
        let mut filled = std::collections::BTreeMap::new();
        for (key, value) in values {
            let text =
                value.as_str().ok_or_else(|| format!("values.{key} is not a text; put it into quotes"))?;
            let result = self.text(text, &data).map_err(|error| {
                format!("failed to replace templated string with rendered values: {error}")
            })?;
            filled.insert(key.clone(), result);
        }
        if self.go {
            params.insert("values".into(), Data::StringMap(filled));
        } else {
            params
                .extend(filled.into_iter().map(|(key, value)| (format!("values.{key}"), Data::from(value))));
        }
        Ok(())
    }
}
