//! What the planners must be told about the cluster and the installation.

use slipway_crd::{IgnoreDifference, names};
use std::collections::BTreeMap;

/// What discovery said.
#[derive(Debug, Clone, Default)]
pub struct ClusterInfo {
    kinds: BTreeMap<(String, String), KindInfo>,
    /// Discovery answered in full. Without it a kind that is not listed is unknown, not missing.
    pub complete: bool,
}

/// One kind that the cluster serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KindInfo {
    pub namespaced: bool,
    pub versions: Vec<String>,
}

impl ClusterInfo {
    pub fn new(complete: bool) -> Self {
        Self { kinds: BTreeMap::new(), complete }
    }

    /// Adds a kind, or a version of it.
    pub fn add(&mut self, group: &str, version: &str, kind: &str, namespaced: bool) {
        let info = self.kinds.entry((group.into(), kind.into())).or_default();
        info.namespaced = namespaced;
        if !info.versions.iter().any(|v| v == version) {
            info.versions.push(version.into());
        }
    }

    pub fn kind(&self, group: &str, kind: &str) -> Option<&KindInfo> {
        self.kinds.get(&(group.to_string(), kind.to_string()))
    }

    /// Whether the kind lives in namespaces; None when neither discovery nor we know.
    pub fn is_namespaced(&self, group: &str, kind: &str) -> Option<bool> {
        self.kind(group, kind).map(|info| info.namespaced).or_else(|| well_known_scope(group, kind))
    }
}

/// Scope of kinds that every cluster has, for comparisons before discovery and in tests.
fn well_known_scope(group: &str, kind: &str) -> Option<bool> {
    let cluster = matches!(
        (group, kind),
        ("", "Namespace" | "Node" | "PersistentVolume")
            | ("apiextensions.k8s.io", "CustomResourceDefinition")
            | ("apiregistration.k8s.io", "APIService")
            | ("rbac.authorization.k8s.io", "ClusterRole" | "ClusterRoleBinding")
            | ("storage.k8s.io", "StorageClass" | "CSIDriver" | "CSINode" | "VolumeAttachment")
            | ("scheduling.k8s.io", "PriorityClass")
            | ("networking.k8s.io", "IngressClass")
            | ("node.k8s.io", "RuntimeClass")
            | ("admissionregistration.k8s.io", _)
    );
    let namespaced = matches!(
        (group, kind),
        (
            "",
            "ConfigMap"
                | "Secret"
                | "Service"
                | "ServiceAccount"
                | "Pod"
                | "PersistentVolumeClaim"
                | "ReplicationController"
                | "ResourceQuota"
                | "LimitRange"
                | "Endpoints"
                | "Event"
        ) | ("apps" | "batch" | "autoscaling", _)
            | ("networking.k8s.io", "Ingress" | "NetworkPolicy")
            | ("policy", "PodDisruptionBudget")
            | ("rbac.authorization.k8s.io", "Role" | "RoleBinding")
            | ("argoproj.io", _)
    );
    if cluster {
        Some(false)
    } else if namespaced {
        Some(true)
    } else {
        None
    }
}

/// How an object says which application it belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TrackingMethod {
    #[default]
    Annotation,
    Label,
    /// The annotation decides; the label is for people.
    AnnotationAndLabel,
}

/// Whether `status` in a manifest counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IgnoreStatus {
    #[default]
    All,
    CustomResources,
    None,
}

/// Kinds that are looked at, or not; globs, and an empty list means all.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceFilter {
    pub api_groups: Vec<String>,
    pub kinds: Vec<String>,
    pub clusters: Vec<String>,
}

/// What an installation says of one kind in Lua.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Customization {
    /// Globs.
    pub group: String,
    pub kind: String,
    pub health_script: Option<String>,
    pub actions: Option<CustomActions>,
}

/// Actions of a kind: a script that says which there are, and one for each.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub struct CustomActions {
    #[serde(rename = "discovery.lua")]
    pub discovery: String,
    pub definitions: Vec<CustomAction>,
    #[serde(rename = "mergeBuiltinActions")]
    pub merge_built_in: bool,
}

/// One action.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub struct CustomAction {
    pub name: String,
    #[serde(rename = "action.lua")]
    pub script: String,
}

/// What argocd-cm and the installation say.
#[derive(Debug, Clone)]
pub struct Settings {
    pub control_plane_namespace: String,
    pub tracking: TrackingMethod,
    pub instance_label: String,
    pub installation_id: Option<String>,
    /// `sourceHydrator.commitMessageTemplate`.
    pub commit_message: Option<String>,
    pub ignore_status: IgnoreStatus,
    pub ignore_aggregated_roles: bool,
    /// `resource.customizations.ignoreDifferences.*`; group and kind are globs.
    pub ignore_differences: Vec<IgnoreDifference>,
    /// `resource.sensitive.mask.annotations`.
    pub sensitive_annotations: Vec<String>,
    /// `resource.customizations`: health and actions.
    pub customizations: Vec<Customization>,
    /// `resource.exclusions`.
    pub exclusions: Vec<ResourceFilter>,
    /// `resource.inclusions`; empty: all.
    pub inclusions: Vec<ResourceFilter>,
    /// Wait between waves, so that controllers see what was applied before their health is read.
    pub wave_delay_ms: i64,
    /// A sync that runs longer is ended. Zero: never.
    pub sync_timeout_seconds: i64,
    /// A sync in which nothing happens for so long is ended; 0: never.
    pub wave_timeout_seconds: i64,
    /// The API server is asked what an apply would change, unless an Application says otherwise.
    pub server_side_diff: bool,
    pub kustomize: KustomizeSettings,
    /// Applications of these namespaces are looked after too, where their project allows it: globs and `/regex/`.
    pub application_namespaces: Vec<String>,
    /// ApplicationSets of these namespaces are followed too: globs and `/regex/`.
    pub application_set_namespaces: Vec<String>,
    /// Files of git's submodules belong to a source.
    pub submodules: bool,
    /// Charts of Applications that want it may look at the cluster: `helm.lookup.enabled`.
    pub helm_lookup: bool,
    /// Syncs run as the service account that the project names.
    pub impersonation: bool,
    /// Projects that add their rules to others: the labels that these must have, and the project's name.
    pub global_projects: Vec<GlobalProject>,
    /// First wait of self-heal, factor and longest wait.
    pub self_heal_backoff: (i64, i64, i64),
    /// `timeout.reconciliation`: every Application is compared again this often; zero: only when something happens.
    pub reconciliation: Option<jiff::SignedDuration>,
    /// `timeout.reconciliation.jitter`: up to this much is added, a different share for each Application.
    pub reconciliation_jitter: jiff::SignedDuration,
    /// `timeout.hard.reconciliation`: the same without any cache; zero: never.
    pub hard_reconciliation: jiff::SignedDuration,
}

/// An entry of `globalProjects`.
#[derive(Debug, Clone, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GlobalProject {
    pub project_name: String,
    /// As Kubernetes writes selectors.
    pub label_selector: serde_json::Value,
}

/// Which kustomize builds, and how: `kustomize.path.*` and `kustomize.buildOptions[.*]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KustomizeSettings {
    pub build_options: Vec<String>,
    /// By the version that a source may ask for.
    pub versions: BTreeMap<String, KustomizeVersion>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KustomizeVersion {
    /// A program on the machine of the engine.
    pub path: String,
    /// Instead of the ones for all.
    pub build_options: Option<Vec<String>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            control_plane_namespace: "argocd".into(),
            tracking: TrackingMethod::default(),
            instance_label: names::INSTANCE_LABEL.into(),
            installation_id: None,
            ignore_status: IgnoreStatus::default(),
            ignore_aggregated_roles: false,
            ignore_differences: Vec::new(),
            sensitive_annotations: Vec::new(),
            customizations: Vec::new(),
            exclusions: Vec::new(),
            inclusions: Vec::new(),
            wave_delay_ms: 2000,
            sync_timeout_seconds: 0,
            wave_timeout_seconds: 0,
            server_side_diff: false,
            kustomize: KustomizeSettings::default(),
            commit_message: None,
            application_namespaces: Vec::new(),
            application_set_namespaces: Vec::new(),
            submodules: true,
            helm_lookup: false,
            impersonation: false,
            global_projects: Vec::new(),
            self_heal_backoff: (2, 3, 300),
            reconciliation: None,
            reconciliation_jitter: jiff::SignedDuration::ZERO,
            hard_reconciliation: jiff::SignedDuration::ZERO,
        }
    }
}
