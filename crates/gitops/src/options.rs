//! Sync and compare options: `Name=value` lists on the application and on resources.

use crate::diff::Mutations;
use crate::object;
use serde_json::Value;
use slipway_crd::{Application, names};

/// The options of one application.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncOptions(Vec<String>);

/// How prune deletes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Propagation {
    #[default]
    Foreground,
    Background,
    Orphan,
}

impl Propagation {
    /// As the Kubernetes API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Foreground => "Foreground",
            Self::Background => "Background",
            Self::Orphan => "Orphan",
        }
    }
}

/// Whether an object may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    Allowed,
    /// A person has to approve it first.
    Confirm,
    Never,
}

impl SyncOptions {
    pub fn new(options: &[String]) -> Self {
        Self(options.iter().map(|o| o.trim().to_string()).collect())
    }

    /// The option as the application sets it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find_map(|option| value_of(option, name))
    }

    pub fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// The option for one object: its annotation first, then the application.
    pub fn for_object<'a>(&'a self, object: &'a Value, name: &str) -> Option<&'a str> {
        of_object(object, name).or_else(|| self.get(name))
    }

    pub fn is_true_for(&self, object: &Value, name: &str) -> bool {
        self.for_object(object, name) == Some("true")
    }

    pub fn propagation(&self) -> Propagation {
        match self.get("PrunePropagationPolicy") {
            Some("background") => Propagation::Background,
            Some("orphan") => Propagation::Orphan,
            _ => Propagation::Foreground,
        }
    }

    /// May this live object be pruned?
    pub fn prune_of(&self, object: &Value) -> Deletion {
        self.deletion(object, "Prune")
    }

    /// May this live object be deleted with its application?
    pub fn delete_of(&self, object: &Value) -> Deletion {
        self.deletion(object, "Delete")
    }

    fn deletion(&self, object: &Value, name: &str) -> Deletion {
        if object::annotation(object, names::HELM_RESOURCE_POLICY) == Some("keep") {
            return Deletion::Never;
        }
        match self.for_object(object, name) {
            Some("false") => Deletion::Never,
            Some("confirm") => Deletion::Confirm,
            _ => Deletion::Allowed,
        }
    }
}

/// The option as an object's annotation sets it.
pub fn of_object<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object::annotation_parts(object, names::SYNC_OPTIONS).find_map(|option| value_of(option, name))
}

/// True when the compare option stands on the object.
pub fn compare_option(object: &Value, option: &str) -> bool {
    object::annotation_parts(object, names::COMPARE_OPTIONS).any(|part| part == option)
}

/// Whether the API server is asked what an apply would change, and what is made of webhooks: the Application's compare
/// options, or else the operator's setting.
pub fn server_side_diff(app: &Application, by_default: bool) -> Option<Mutations> {
    let annotation = app.metadata.annotation(names::COMPARE_OPTIONS).unwrap_or_default();
    let get = |name: &str| annotation.split(',').rev().find_map(|option| value_of(option.trim(), name));
    let wanted = match get("ServerSideDiff") {
        Some("true") => true,
        Some("false") => false,
        _ => by_default,
    };
    let included = get("IncludeMutationWebhook") == Some("true");
    wanted.then_some(if included { Mutations::Included } else { Mutations::Ignored })
}

fn value_of<'a>(option: &'a str, name: &str) -> Option<&'a str> {
    option.split_once('=').filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with(options: &str) -> Value {
        json!({"metadata": {"annotations": {"argocd.argoproj.io/sync-options": options}}})
    }

    #[test]
    fn the_annotation_wins_over_the_application() {
        let options = SyncOptions::new(&["ServerSideApply=true".into(), "Prune=confirm".into()]);
        assert!(options.is_true_for(&with(""), "ServerSideApply"));
        assert!(!options.is_true_for(&with("Replace=true, ServerSideApply=false"), "ServerSideApply"));
        assert!(options.is_true_for(&with("Replace=true, ServerSideApply=false"), "Replace"));
        assert_eq!(options.prune_of(&with("")), Deletion::Confirm);
        assert_eq!(options.prune_of(&with("Prune=false")), Deletion::Never);
    }

    #[test]
    fn the_application_says_whether_the_server_is_asked() {
        for (options, by_default, expected) in [
            ("", false, None),
            ("", true, Some(Mutations::Ignored)),
            ("ServerSideDiff=true", false, Some(Mutations::Ignored)),
            ("ServerSideDiff=false", true, None),
            ("ServerSideDiff=true, IncludeMutationWebhook=true", false, Some(Mutations::Included)),
            ("IncludeMutationWebhook=true", false, None),
        ] {
            let app = json!({"metadata": {"name": "a", "annotations": {(names::COMPARE_OPTIONS): options}}, "spec": {}});
            let app: Application = serde_json::from_value(app).expect("readable");
            assert_eq!(server_side_diff(&app, by_default), expected, "{options} {by_default}");
        }
    }

    #[test]
    fn helm_keep_means_never() {
        let kept = json!({"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}});
        assert_eq!(SyncOptions::default().prune_of(&kept), Deletion::Never);
        assert_eq!(SyncOptions::default().delete_of(&kept), Deletion::Never);
    }
}
