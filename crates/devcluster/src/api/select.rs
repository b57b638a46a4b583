//! Label and field selectors.

use serde_json::Value;
use slipway_dialect::selector::Selector;

use crate::error::{ApiError, ApiResult};
use crate::kinds::{Resource, not_selectable, selectable};
use crate::value::Json as _;

/// `a=b,c!=d,e in (f,g),h,!i`, as a query has it.
pub(crate) fn label_selector(text: &str) -> ApiResult<Selector> {
    Selector::parse_text(text).map_err(|part| {
        ApiError::bad_request(format!("unable to parse requirement: {part:?} in label selector {text:?}"))
    })
}

/// Does a `spec.selector` object (matchLabels/matchExpressions, or a plain map) select these labels?
/// An empty selector selects nothing here: controllers never mean everything.
pub(crate) fn match_labels(selector: &Value, labels: Option<&serde_json::Map<String, Value>>) -> bool {
    let structured = selector.get("matchLabels").is_some_and(Value::is_object)
        || selector.get("matchExpressions").is_some_and(Value::is_array);
    let parsed = match structured {
        true => Selector::parse(selector),
        false => Selector::parse(&serde_json::json!({"matchLabels": selector})),
    };
    let Some(selector) = parsed.ok().filter(|selector| !selector.is_empty()) else { return false };
    let labels = labels.into_iter().flatten();
    selector
        .matches(&labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect())
}

/// A selector object in its one-line form.
pub(crate) fn selector_text(selector: &Value) -> String {
    let structured = selector.get("matchLabels").is_some() || selector.get("matchExpressions").is_some();
    let plain = if structured { selector.map_at("matchLabels") } else { selector.as_object() };
    let mut parts: Vec<String> =
        plain.into_iter().flatten().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or(""))).collect();
    for e in if structured { selector.list_at("matchExpressions") } else { &[] } {
        let values: Vec<&str> = e.list_at("values").iter().filter_map(Value::as_str).collect();
        parts.push(match e.str_at("operator") {
            "In" => format!("{} in ({})", e.str_at("key"), values.join(",")),
            "NotIn" => format!("{} notin ({})", e.str_at("key"), values.join(",")),
            "DoesNotExist" => format!("!{}", e.str_at("key")),
            _ => e.str_at("key").to_owned(),
        });
    }
    parts.join(",")
}

/// A parsed `fieldSelector`.
#[derive(Debug, Clone, Default)]
pub(crate) struct FieldSelector(Vec<(String, String, bool)>);

impl FieldSelector {
    pub(crate) fn parse(resource: &Resource, text: &str) -> ApiResult<Self> {
        let mut parts = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (path, value, equal) = match part.split_once("!=") {
                Some((path, value)) => (path, value, false),
                None => match part.split_once("==").or_else(|| part.split_once('=')) {
                    Some((path, value)) => (path, value, true),
                    None => {
                        return Err(ApiError::bad_request(format!(
                            "invalid field selector {part:?}: use path=value"
                        )));
                    }
                },
            };
            if !selectable(resource, path) {
                return Err(ApiError::bad_request(not_selectable(resource, path)));
            }
            parts.push((path.to_owned(), value.to_owned(), equal));
        }
        Ok(FieldSelector(parts))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name, when the selector asks for exactly one.
    pub(crate) fn only_name(&self) -> Option<&str> {
        self.0
            .iter()
            .find(|(path, _, equal)| path == "metadata.name" && *equal)
            .map(|(_, value, _)| value.as_str())
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|(path, value, equal)| (field_text(object, path) == *value) == *equal)
    }
}

fn field_text(object: &Value, path: &str) -> String {
    let path = match path {
        "source" => "source.component",
        "status.successful" => "status.succeeded",
        "reportingController" => "reportingComponent",
        other => other,
    };
    let path = path.replace("regarding.", "involvedObject.");
    match object.at(&path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => match path.as_str() {
            "spec.unschedulable" | "spec.hostNetwork" => "false".to_owned(),
            "status.replicas" | "status.succeeded" => "0".to_owned(),
            _ => String::new(),
        },
        Some(other) => other.to_string(),
    }
}
