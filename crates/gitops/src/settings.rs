//! `argocd-cm`: what an installation set, as [`Settings`].
//!
//! Comes in: the ConfigMap's data. Goes out: settings and a sentence for each entry that cannot be used; such an entry
//! counts as not set.

use crate::cluster::{
    CustomActions, Customization, IgnoreStatus, KustomizeSettings, ResourceFilter, Settings, TrackingMethod,
};
use serde::Deserialize;
use serde_json::Value;
use slipway_crd::IgnoreDifference;
use std::collections::BTreeMap;

const IGNORE_PREFIX: &str = "resource.customizations.ignoreDifferences.";
const HEALTH_PREFIX: &str = "resource.customizations.health.";
const ACTIONS_PREFIX: &str = "resource.customizations.actions.";

/// Reads the ConfigMap's data.
pub fn from_config_map(
    data: &BTreeMap<String, String>,
    control_plane_namespace: &str,
) -> (Settings, Vec<String>) {
    let mut settings =
        Settings { control_plane_namespace: control_plane_namespace.into(), ..Settings::default() };
    let mut problems = Vec::new();
    let text = |key: &str| data.get(key).map(|value| value.trim()).filter(|value| !value.is_empty());
    if let Some(label) = text("application.instanceLabelKey") {
        settings.instance_label = label.to_string();
    }
    settings.installation_id = text("installationID").map(str::to_string);
    match text("application.resourceTrackingMethod") {
        None | Some("annotation") => {}
        Some("label") => settings.tracking = TrackingMethod::Label,
        Some("annotation+label") => settings.tracking = TrackingMethod::AnnotationAndLabel,
        Some(other) => problems.push(format!(
            "application.resourceTrackingMethod is `{other}`; use annotation, label or annotation+label"
        )),
    }
    if let Some(list) = text("resource.sensitive.mask.annotations") {
        settings.sensitive_annotations = list.split(',').map(|name| name.trim().to_string()).collect();
    }
    if let Some(options) = read::<CompareOptions>(data, "resource.compareoptions", &mut problems) {
        settings.ignore_aggregated_roles = options.ignore_aggregated_roles;
        match options.ignore_resource_status_field.as_str() {
            "" | "all" => {}
            "crd" => settings.ignore_status = IgnoreStatus::CustomResources,
            "none" | "off" | "false" => settings.ignore_status = IgnoreStatus::None,
            other => problems.push(format!(
                "resource.compareoptions: ignoreResourceStatusField is `{other}`; use all, crd or none"
            )),
        }
    }
    settings.exclusions = read(data, "resource.exclusions", &mut problems).unwrap_or_default();
    settings.inclusions = read(data, "resource.inclusions", &mut problems).unwrap_or_default();
    settings.ignore_differences = ignore_differences(data, &mut problems);
    settings.customizations = customizations(data, &mut problems);
    settings.impersonation = text("application.sync.impersonation.enabled") == Some("true");
    settings.helm_lookup = text("helm.lookup.enabled") == Some("true");
    settings.global_projects = read(data, "globalProjects", &mut problems).unwrap_or_default();
    settings.kustomize = kustomize(data, &mut problems);
    settings.commit_message = text("sourceHydrator.commitMessageTemplate").map(str::to_string);
    let mut duration = |key: &str| {
        let given = text(key)?;
        let found = slipway_dialect::duration::parse_or_seconds(given).filter(|millis| *millis >= 0);
        if found.is_none() {
            problems.push(format!("{key} is `{given}`; use a duration such as 180s, or 0s to switch it off"));
        }
        found.map(jiff::SignedDuration::from_millis)
    };
    settings.reconciliation = duration("timeout.reconciliation");
    settings.reconciliation_jitter = duration("timeout.reconciliation.jitter").unwrap_or_default();
    settings.hard_reconciliation = duration("timeout.hard.reconciliation").unwrap_or_default();
    (settings, problems)
}

/// What would let a repository's kustomization fetch or run things here.
const REFUSED_OPTIONS: [&str; 4] = ["--helm-command", "--enable-exec", "--enable-alpha-plugins", "--network"];

fn kustomize(data: &BTreeMap<String, String>, problems: &mut Vec<String>) -> KustomizeSettings {
    let mut settings = KustomizeSettings::default();
    for (key, value) in data {
        let mut options = || -> Vec<String> {
            let refused = |word: &&str| REFUSED_OPTIONS.iter().any(|option| word.starts_with(option));
            let (bad, good): (Vec<&str>, Vec<&str>) = value.split_whitespace().partition(refused);
            problems.extend(bad.iter().map(|word| {
                format!("{key}: {word} is left out; a kustomization neither fetches nor runs anything here")
            }));
            good.into_iter().map(str::to_owned).collect()
        };
        if key == "kustomize.buildOptions" {
            settings.build_options = options();
        } else if let Some(version) = key.strip_prefix("kustomize.buildOptions.") {
            let options = options();
            settings.versions.entry(version.to_owned()).or_default().build_options = Some(options);
        } else if let Some(version) =
            key.strip_prefix("kustomize.path.").or_else(|| key.strip_prefix("kustomize.version."))
        {
            value.trim().clone_into(&mut settings.versions.entry(version.to_owned()).or_default().path);
        }
    }
    settings
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CompareOptions {
    ignore_aggregated_roles: bool,
    ignore_resource_status_field: String,
}

/// One entry that holds YAML.
fn read<T: serde::de::DeserializeOwned>(
    data: &BTreeMap<String, String>,
    key: &str,
    problems: &mut Vec<String>,
) -> Option<T> {
    let value = match yaml(data.get(key)?) {
        Ok(value) => value?,
        Err(problem) => {
            problems.push(format!("{key} cannot be read: {problem}"));
            return None;
        }
    };
    serde_json::from_value(value)
        .map_err(|error| problems.push(format!("{key} cannot be used: {error}")))
        .ok()
}

fn yaml(text: &str) -> Result<Option<Value>, String> {
    let documents = slipway_yaml::load_all_json(text)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    Ok(documents.into_iter().next().map(|(value, _)| value))
}

/// Both notations: one entry per kind, and one entry with all.
fn ignore_differences(data: &BTreeMap<String, String>, problems: &mut Vec<String>) -> Vec<IgnoreDifference> {
    let mut rules = Vec::new();
    for key in data.keys() {
        let Some(name) = key.strip_prefix(IGNORE_PREFIX) else { continue };
        if let Some(rule) = read::<IgnoreDifference>(data, key, problems) {
            let (group, kind) = group_and_kind(name);
            rules.push(named(rule, group, kind));
        }
    }
    let together: Option<BTreeMap<String, Value>> = read(data, "resource.customizations", problems);
    for (name, entry) in together.into_iter().flatten() {
        let Some(text) = entry.get("ignoreDifferences").and_then(Value::as_str) else { continue };
        let (group, kind) = name.rsplit_once('/').unwrap_or(("", name.as_str()));
        match yaml(text).map(|value| value.map(serde_json::from_value::<IgnoreDifference>)) {
            Ok(Some(Ok(rule))) => rules.push(named(rule, group, kind)),
            Ok(None) => {}
            Ok(Some(Err(error))) => problems.push(format!("resource.customizations {name}: {error}")),
            Err(problem) => problems.push(format!("resource.customizations {name}: {problem}")),
        }
    }
    rules
}

/// The name after the prefix: `group_Kind`, `Kind` of the core group, or `all`.
fn group_and_kind(name: &str) -> (&str, &str) {
    match name.rsplit_once('_') {
        _ if name == "all" => ("*", "*"),
        Some((group, kind)) => (group, kind),
        None => ("", name),
    }
}

/// Health and actions in Lua, in both notations.
fn customizations(data: &BTreeMap<String, String>, problems: &mut Vec<String>) -> Vec<Customization> {
    let mut found = Vec::new();
    let of = |(group, kind): (&str, &str)| Customization {
        group: group.into(),
        kind: kind.into(),
        ..Customization::default()
    };
    for (key, text) in data {
        if let Some(name) = key.strip_prefix(HEALTH_PREFIX) {
            found.push(Customization { health_script: Some(text.clone()), ..of(group_and_kind(name)) });
        } else if let Some(name) = key.strip_prefix(ACTIONS_PREFIX)
            && let Some(actions) = read(data, key, problems)
        {
            found.push(Customization { actions: Some(actions), ..of(group_and_kind(name)) });
        }
    }
    // An unreadable whole was named already, with the ignore rules.
    let together: Option<BTreeMap<String, Value>> = read(data, "resource.customizations", &mut Vec::new());
    for (name, entry) in together.into_iter().flatten() {
        let script = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_string);
        let group_kind = name.rsplit_once('/').unwrap_or(("", name.as_str()));
        let actions = script("actions").and_then(|text| {
            let data = [("actions".to_string(), text)].into();
            read(&data, "actions", problems)
        });
        if script("health.lua").is_some() || actions.is_some() {
            found.push(Customization { health_script: script("health.lua"), actions, ..of(group_kind) });
        }
    }
    found
}

fn named(rule: IgnoreDifference, group: &str, kind: &str) -> IgnoreDifference {
    IgnoreDifference { group: group.into(), kind: kind.into(), ..rule }
}

impl ResourceFilter {
    fn fits(&self, group: &str, kind: &str, server: &str) -> bool {
        let any = |patterns: &[String], text: &str| {
            patterns.is_empty()
                || patterns.iter().any(|pattern| slipway_dialect::glob::matches(pattern, text))
        };
        any(&self.api_groups, group) && any(&self.kinds, kind) && any(&self.clusters, server)
    }
}

impl Settings {
    /// The health script for a kind: one that names it first, then one with a pattern.
    pub fn health_script(&self, group: &str, kind: &str) -> Option<&str> {
        let script = |c: &'_ Customization| c.health_script.is_some();
        let exact = self.customizations.iter().find(|c| script(c) && c.group == group && c.kind == kind);
        let fits = |c: &&Customization| {
            script(c)
                && slipway_dialect::glob::matches(&c.group, group)
                && slipway_dialect::glob::matches(&c.kind, kind)
        };
        exact.or_else(|| self.customizations.iter().find(fits))?.health_script.as_deref()
    }

    /// The custom actions for a kind.
    pub fn custom_actions(&self, group: &str, kind: &str) -> Option<&CustomActions> {
        self.customizations
            .iter()
            .filter(|c| {
                slipway_dialect::glob::matches(&c.group, group)
                    && slipway_dialect::glob::matches(&c.kind, kind)
            })
            .find_map(|c| c.actions.as_ref())
    }

    /// Kinds that the engine does not look at: too busy to watch, or taken out by the installation.
    pub fn is_excluded(&self, group: &str, kind: &str, server: &str) -> bool {
        let built_in = matches!(
            (group, kind),
            ("events.k8s.io" | "metrics.k8s.io", _) | ("", "Event") | ("coordination.k8s.io", "Lease")
        );
        let included =
            self.inclusions.is_empty() || self.inclusions.iter().any(|f| f.fits(group, kind, server));
        built_in || !included || self.exclusions.iter().any(|f| f.fits(group, kind, server))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(entries: &[(&str, &str)]) -> (Settings, Vec<String>) {
        let data = entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        from_config_map(&data, "argocd")
    }

    #[test]
    fn what_is_set_is_read() {
        let (settings, problems) = parse(&[
            ("application.resourceTrackingMethod", "annotation+label"),
            ("installationID", "blue"),
            ("resource.compareoptions", "ignoreAggregatedRoles: true\nignoreResourceStatusField: crd\n"),
            ("resource.exclusions", "- apiGroups: [cilium.io]\n  kinds: ['*']\n  clusters: ['*']\n"),
            ("resource.customizations.ignoreDifferences.apps_Deployment", "jsonPointers: [/spec/replicas]\n"),
            ("resource.customizations.ignoreDifferences.Secret", "jsonPointers: [/data]\n"),
            ("resource.customizations.ignoreDifferences.all", "managedFieldsManagers: [other]\n"),
            (
                "resource.customizations",
                "admissionregistration.k8s.io/MutatingWebhookConfiguration:\n  ignoreDifferences: |\n    jqPathExpressions: ['.webhooks[]?.clientConfig.caBundle']\n",
            ),
            ("resource.sensitive.mask.annotations", "a/b, c/d"),
        ]);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(settings.tracking, TrackingMethod::AnnotationAndLabel);
        assert_eq!(settings.ignore_status, IgnoreStatus::CustomResources);
        assert_eq!(settings.sensitive_annotations, ["a/b", "c/d"]);
        let kinds: Vec<_> =
            settings.ignore_differences.iter().map(|r| (r.group.as_str(), r.kind.as_str())).collect();
        assert_eq!(
            kinds,
            [
                ("", "Secret"),
                ("*", "*"),
                ("apps", "Deployment"),
                ("admissionregistration.k8s.io", "MutatingWebhookConfiguration")
            ]
        );
        assert!(settings.is_excluded("cilium.io", "CiliumIdentity", "https://one"));
        assert!(settings.is_excluded("", "Event", "https://one"));
        assert!(!settings.is_excluded("apps", "Deployment", "https://one"));
    }

    #[test]
    fn scripts_are_found_by_kind() {
        let (settings, problems) = parse(&[
            ("resource.customizations.health.example.com_Widget", "return {status = 'Healthy'}"),
            (
                "resource.customizations.actions.apps_Deployment",
                "discovery.lua: return {}\ndefinitions:\n- name: restart\n  action.lua: return obj\n",
            ),
            ("resource.customizations", "'*.example.com/*':\n  health.lua: return nil\n"),
        ]);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(settings.health_script("example.com", "Widget"), Some("return {status = 'Healthy'}"));
        assert_eq!(settings.health_script("a.example.com", "Other"), Some("return nil"));
        assert_eq!(settings.health_script("apps", "Deployment"), None);
        let actions = settings.custom_actions("apps", "Deployment").expect("actions");
        assert_eq!(
            (actions.definitions[0].name.as_str(), actions.definitions[0].script.as_str()),
            ("restart", "return obj")
        );
    }

    #[test]
    fn kustomizes_are_known_by_their_version() {
        let (settings, problems) = parse(&[
            (
                "kustomize.buildOptions",
                "--load-restrictor LoadRestrictionsNone --enable-helm --helm-command=./x",
            ),
            ("kustomize.buildOptions.v4.5.7", "--reorder none"),
            ("kustomize.path.v4.5.7", "/tools/kustomize-4.5.7\n"),
            ("kustomize.version.v3.5.1", "/tools/kustomize-3.5.1"),
        ]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("--helm-command"), "{problems:?}");
        let kustomize = settings.kustomize;
        assert_eq!(kustomize.build_options, ["--load-restrictor", "LoadRestrictionsNone", "--enable-helm"]);
        let old = &kustomize.versions["v4.5.7"];
        assert_eq!(
            (old.path.as_str(), old.build_options.as_deref().map(<[_]>::len)),
            ("/tools/kustomize-4.5.7", Some(2))
        );
        assert_eq!(kustomize.versions["v3.5.1"].path, "/tools/kustomize-3.5.1");
    }

    #[test]
    fn what_cannot_be_used_is_named_and_left_out() {
        let (settings, problems) = parse(&[
            ("application.resourceTrackingMethod", "magic"),
            ("resource.exclusions", "- ["),
            ("resource.inclusions", "apiGroups: [x]\n"),
            ("resource.compareoptions", "ignoreResourceStatusField: maybe\n"),
        ]);
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert_eq!(settings.tracking, TrackingMethod::Annotation);
        assert!(!settings.is_excluded("apps", "Deployment", ""));
    }
}
