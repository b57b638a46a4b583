//! Objects that nobody owns.

use crate::object::ResourceKey;
use slipway_crd::{AppProject, Condition, ConditionType};
use slipway_dialect::glob;

/// Which of the objects of a namespace that neither an application nor another object owns are worth a word.
pub fn orphans(project: &AppProject, unowned: impl IntoIterator<Item = ResourceKey>) -> Vec<ResourceKey> {
    let Some(watch) = &project.spec.orphaned_resources else { return Vec::new() };
    let ignored = |key: &ResourceKey| {
        watch.ignore.iter().any(|rule| {
            let fits = |pattern: &str, text: &str| pattern.is_empty() || glob::matches(pattern, text);
            glob::matches(&rule.group, &key.group)
                && fits(&rule.kind, &key.kind)
                && fits(&rule.name, &key.name)
        })
    };
    let mut found: Vec<ResourceKey> =
        unowned.into_iter().filter(|key| !is_of_kubernetes(key) && !ignored(key)).collect();
    found.sort();
    found
}

/// What every namespace has from the start.
fn is_of_kubernetes(key: &ResourceKey) -> bool {
    match (key.group.as_str(), key.kind.as_str(), key.name.as_str()) {
        ("", "ServiceAccount", "default") | ("", "ConfigMap", "kube-root-ca.crt") => true,
        ("", "Service", "kubernetes") => key.namespace == "default",
        _ => false,
    }
}

/// The warning about orphans, where the project asks for it.
pub fn warning(project: &AppProject, orphans: &[ResourceKey]) -> Option<Condition> {
    let warn = project.spec.orphaned_resources.as_ref()?.warn == Some(true);
    (warn && !orphans.is_empty()).then(|| Condition {
        kind: ConditionType::OrphanedResourceWarning,
        message: format!("Application has {} orphaned resources", orphans.len()),
        ..Condition::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn orphans_are_what_nobody_owns_and_nobody_ignores() {
        let project: AppProject = serde_json::from_value(
            json!({"spec": {"orphanedResources": {"warn": true, "ignore": [{"kind": "Secret", "name": "tmp-*"}]}}}),
        )
        .expect("readable");
        let key = |kind: &str, name: &str| ResourceKey {
            group: String::new(),
            kind: kind.into(),
            namespace: "n".into(),
            name: name.into(),
        };
        let unowned = [
            key("Secret", "tmp-1"),
            key("Secret", "lost"),
            key("ServiceAccount", "default"),
            key("ConfigMap", "kube-root-ca.crt"),
        ];
        let found = orphans(&project, unowned);
        assert_eq!(found.iter().map(|k| k.name.as_str()).collect::<Vec<_>>(), ["lost"]);
        assert_eq!(
            warning(&project, &found).expect("a warning").message,
            "Application has 1 orphaned resources"
        );
        assert!(warning(&AppProject::default(), &found).is_none());
    }
}
