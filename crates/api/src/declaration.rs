//! Applications as Git declares them: created, edited and deleted by a commit of whoever asks, through a runtime's app-proxy.
//!
//! The platform hears where and under which name, and what rules look at (destination, labels); of the rest no more than a digest.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use slipway_access::Operation;
use utoipa::ToSchema;

/// `POST /app-proxy/api/applications/{namespace}/{name}/create`, `…/edit` and `…/delete`: one commit with the asker's own token,
/// after everything that can be wrong with the Application was looked at.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Declaration {
    /// Of the token, as in [`crate::git_proxy`].
    pub provider: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The repository that declares it, `owner/name`.
    pub repository: String,
    /// The default branch when absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub branch: String,
    /// The commit that was looked at; the newest one when absent. Whatever others changed in the file since then is a conflict.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub base: String,
    /// The file in that repository.
    pub file: String,
    /// A sentence of our own when absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// `create`: the Application. `edit`: a merge patch of what stands in the file. Absent with `delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub application: Option<Value>,
    /// Look at everything and commit nothing.
    #[serde(default)]
    pub dry_run: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Declared {
    /// `committed`, `first-commit` (the repository was empty), `no-change`, or `valid` after a dry run.
    pub outcome: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub commit: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub branch: String,
    /// `Name <address>`
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub author: String,
    /// The Applications of the runtime that sync this file, `namespace/name`: they were asked to look at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub synced_by: Vec<String>,
    /// What is not wrong and yet worth knowing, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What the platform hears of a [`Declaration`].
pub(crate) fn told(operation: Operation, body: &Value) -> Value {
    let mut told = body.clone();
    if let Some(application) = told.as_object_mut().and_then(|fields| fields.remove("application")) {
        told["sha256"] = digest(&application).into();
        if operation.declares() {
            told["declares"] = declares(&application);
        }
    }
    told
}

/// What rules look at, and nothing that is not said: what is absent here stays as it is.
fn declares(application: &Value) -> Value {
    let mut out = Map::new();
    if let Some(destination) = application["spec"].get("destination") {
        let kept = destination.as_object().map(|fields| {
            let known =
                |(name, _): &(&String, &Value)| ["name", "server", "namespace"].contains(&name.as_str());
            fields
                .iter()
                .filter(known)
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect::<Map<_, _>>()
        });
        out.insert("destination".into(), kept.map_or(Value::Null, Value::Object));
    }
    if let Some(labels) = application["metadata"].get("labels") {
        out.insert("labels".into(), labels.clone());
    }
    Value::Object(out)
}

/// Of compact JSON with sorted names, so that other writers can make the same.
fn digest(value: &Value) -> String {
    let text = value.to_string();
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_hear_where_it_goes_and_nothing_else_of_it() {
        let application = json!({"metadata": {"labels": {"team": "a"}, "annotations": {"x": "canary"}},
            "spec": {"project": "canary", "destination": {"server": "https://a", "other": "canary"},
                "source": {"helm": {"values": "password: canary"}}}});
        let body = json!({"file": "apps/a.yaml", "application": application});
        let said = told(Operation::Create, &body);
        assert_eq!(
            said["declares"],
            json!({"destination": {"server": "https://a"}, "labels": {"team": "a"}})
        );
        assert!(!said.to_string().contains("canary") && said["file"] == "apps/a.yaml", "{said}");
        assert_eq!(said["sha256"].as_str().map(str::len), Some(64));
        // What an edit does not touch is not said, so that it stays as the platform knows it.
        let patch = json!({"application": {"spec": {"source": {"targetRevision": "v2"}}}});
        assert_eq!(told(Operation::Edit, &patch)["declares"], json!({}));
        let gone = json!({"application": {"spec": {"destination": null}, "metadata": {"labels": null}}});
        assert_eq!(told(Operation::Edit, &gone)["declares"], json!({"destination": null, "labels": null}));
        assert_eq!(told(Operation::Delete, &json!({"file": "a"})), json!({"file": "a"}));
    }
}
