//! What a template is filled with. Typed where Go's types can be seen through the template.

use std::collections::BTreeMap;

use serde_json::Value as Json;

/// Data for a template. Numbers in [`Data::Json`] become float64, as encoding/json makes them.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    Json(Json),
    /// `[]string`: what a path's segments are.
    Strings(Vec<String>),
    /// `map[string]string`: what labels are. A key that is missing is the empty text under `missingkey=zero`.
    StringMap(BTreeMap<String, String>),
    /// `map[string]interface{}` with typed values inside.
    Map(BTreeMap<String, Data>),
}

impl Default for Data {
    fn default() -> Self {
        Self::Map(BTreeMap::new())
    }
}

impl From<Json> for Data {
    fn from(value: Json) -> Self {
        Self::Json(value)
    }
}

impl From<&str> for Data {
    fn from(text: &str) -> Self {
        Self::Json(Json::String(text.to_owned()))
    }
}

impl From<String> for Data {
    fn from(text: String) -> Self {
        Self::Json(Json::String(text))
    }
}

impl Data {
    /// The same as plain JSON, without Go's types.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Json(value) => value.clone(),
            Self::Strings(items) => items.iter().cloned().map(Json::String).collect(),
            Self::StringMap(entries) => {
                Json::Object(entries.iter().map(|(k, v)| (k.clone(), Json::String(v.clone()))).collect())
            }
            Self::Map(entries) => {
                Json::Object(entries.iter().map(|(k, v)| (k.clone(), v.to_json())).collect())
            }
        }
    }
}
