//! Desired against live for a whole application: which resources are in sync, which are healthy, what is odd.
//!
//! Comes in: the application, the rendered manifests, the live objects that it tracks or that the manifests name,
//! and what is known of the cluster. Goes out: a [`Comparison`], from which the status is written and a sync is
//! planned. Nothing is fetched and no time passes here.

mod server;
mod summary;

use crate::cluster::{ClusterInfo, Settings};
use crate::diff::{self, Diff, DiffMode, IgnoreRules};
use crate::health::{self, Health, HealthCode};
use crate::hooks;
use crate::object::{self, Manifest, ResourceKey};
use crate::options::{self, Deletion, SyncOptions};
use crate::{project, tracking};
use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_crd::{AppProject, Application, Condition, ConditionType, NamespaceMetadata};
pub use slipway_model::SyncCode;
use std::collections::{BTreeMap, BTreeSet};
use summary::{application_health, condition};

/// What a comparison is made from.
#[derive(Debug, Clone, Copy)]
pub struct CompareInput<'a> {
    pub application: &'a Application,
    /// Rendered manifests. Tracking metadata is written by `compare` itself.
    pub desired: &'a [Value],
    /// Live objects that this application tracks or that `desired` names, and the destination namespace.
    pub live: &'a [Value],
    pub cluster: &'a ClusterInfo,
    pub settings: &'a Settings,
    /// None: the project permits everything (it was checked elsewhere).
    pub project: Option<&'a AppProject>,
    pub now: Timestamp,
}

/// One resource of the application: desired, live or both.
#[derive(Debug, Clone)]
pub struct ResourceState {
    pub key: ResourceKey,
    pub version: String,
    /// None for hooks, skipped objects and objects whose tracking was written for another: they do not count.
    pub status: Option<SyncCode>,
    pub health: Option<Health>,
    pub requires_pruning: bool,
    pub requires_deletion_confirmation: bool,
    pub hook: bool,
    pub wave: i64,
    pub diff: Option<Diff>,
    /// The manifest with namespace and tracking filled in.
    pub target: Option<Manifest>,
    pub live: Option<Manifest>,
    /// The project does not allow it here.
    pub forbidden: Option<String>,
}

/// The outcome.
#[derive(Debug, Clone)]
pub struct Comparison {
    pub sync_status: SyncCode,
    pub health: Health,
    /// Sorted by group, kind, namespace and name.
    pub resources: Vec<ResourceState>,
    pub conditions: Vec<Condition>,
    /// What a plan needs besides.
    pub context: PlanContext,
}

/// What a plan must know of the application and the cluster.
#[derive(Debug, Clone, Default)]
pub struct PlanContext {
    pub application: String,
    pub destination_namespace: String,
    pub sync_options: SyncOptions,
    pub managed_namespace_metadata: Option<NamespaceMetadata>,
    pub destination_namespace_exists: bool,
    pub rules: IgnoreRules,
    pub cluster: ClusterInfo,
    /// Objects that another application says are its own, as sentences.
    pub shared: Vec<String>,
    /// Why nothing may be done at all: the comparison failed.
    pub error: Option<String>,
    /// `deletion-approved` on the Application.
    pub deletion_approved: Option<Timestamp>,
    pub wave_delay_ms: i64,
    pub sync_timeout_seconds: i64,
    pub settings: Settings,
}

/// A comparison that could not be made: everything is Unknown and a plan of it does nothing.
pub fn failed(
    application: &Application,
    settings: &Settings,
    kind: ConditionType,
    message: &str,
    now: Timestamp,
) -> Comparison {
    let input = Context::new(application, settings);
    let mut context = input.plan_context(&ClusterInfo::default(), false);
    context.error = Some(message.to_string());
    Comparison {
        sync_status: SyncCode::Unknown,
        health: Health::new(HealthCode::Unknown, ""),
        resources: Vec::new(),
        conditions: vec![condition(application, kind, message, now)],
        context,
    }
}

/// Compares.
pub fn compare(input: CompareInput<'_>) -> Comparison {
    Comparer::new(input).run()
}

struct Context<'a> {
    application: &'a Application,
    settings: &'a Settings,
    instance: String,
    options: SyncOptions,
}

impl<'a> Context<'a> {
    fn new(application: &'a Application, settings: &'a Settings) -> Self {
        Self {
            application,
            settings,
            instance: application.instance_name(&settings.control_plane_namespace),
            options: SyncOptions::new(application.spec.sync_options()),
        }
    }

    fn plan_context(&self, cluster: &ClusterInfo, namespace_exists: bool) -> PlanContext {
        let spec = &self.application.spec;
        PlanContext {
            application: self.instance.clone(),
            destination_namespace: spec.destination.namespace.clone(),
            sync_options: self.options.clone(),
            managed_namespace_metadata: spec
                .sync_policy
                .as_ref()
                .and_then(|p| p.managed_namespace_metadata.clone()),
            destination_namespace_exists: namespace_exists,
            rules: IgnoreRules::new(&spec.ignore_differences, self.settings),
            cluster: cluster.clone(),
            shared: Vec::new(),
            error: None,
            deletion_approved: self
                .application
                .metadata
                .annotation(slipway_crd::names::DELETION_APPROVED)
                .and_then(|text| text.parse().ok()),
            wave_delay_ms: self.settings.wave_delay_ms,
            sync_timeout_seconds: self.settings.sync_timeout_seconds,
            settings: self.settings.clone(),
        }
    }
}

struct Comparer<'a> {
    input: CompareInput<'a>,
    context: Context<'a>,
    rules: IgnoreRules,
    conditions: Vec<Condition>,
    shared: Vec<String>,
    failed: bool,
}

impl<'a> Comparer<'a> {
    fn new(input: CompareInput<'a>) -> Self {
        let context = Context::new(input.application, input.settings);
        let rules = IgnoreRules::new(&input.application.spec.ignore_differences, input.settings);
        Self { input, context, rules, conditions: Vec::new(), shared: Vec::new(), failed: false }
    }

    fn run(mut self) -> Comparison {
        // What was meant to be ignored must not be reverted because we cannot read it: nothing is done until it is clear.
        for problem in self.rules.problems().to_vec() {
            self.failed = true;
            self.warn(ConditionType::ComparisonError, format!("ignoreDifferences: {problem}"));
        }
        let targets = self.targets();
        let pairs = self.pair(targets);
        let mut resources: Vec<ResourceState> =
            pairs.into_iter().map(|(target, live)| self.state(target, live)).collect();
        resources.sort_by(|a, b| a.key.cmp(&b.key));
        let out_of_sync = resources.iter().any(counts_as_drift);
        let sync_status = match (self.failed, out_of_sync) {
            (true, _) => SyncCode::Unknown,
            (false, true) => SyncCode::OutOfSync,
            (false, false) => SyncCode::Synced,
        };
        let health = application_health(&resources, &self.input.application.metadata.name);
        let mut context = self.context.plan_context(self.input.cluster, self.namespace_exists());
        context.shared = self.shared;
        if self.failed {
            context.error = self.conditions.iter().find(|c| c.kind.is_error()).map(|c| c.message.clone());
        }
        Comparison { sync_status, health, resources, conditions: self.conditions, context }
    }

    fn namespace_exists(&self) -> bool {
        let wanted = &self.context.application.spec.destination.namespace;
        self.input.live.iter().any(|o| is_namespace(o) && object::name(o) == wanted)
    }

    fn warn(&mut self, kind: ConditionType, message: String) {
        self.conditions.push(condition(self.context.application, kind, &message, self.input.now));
    }

    /// Manifests with namespaces set, duplicates and unknown hooks taken out and tracking written.
    fn targets(&mut self) -> Vec<Value> {
        let mut order: Vec<(ResourceKey, bool)> = Vec::new();
        let mut by_key: BTreeMap<(ResourceKey, bool), Value> = BTreeMap::new();
        let mut counts: BTreeMap<ResourceKey, usize> = BTreeMap::new();
        for manifest in self.input.desired {
            if manifest.is_null() || hooks::is_ignored(manifest) {
                continue;
            }
            let server = &self.context.application.spec.destination.server;
            if self.input.settings.is_excluded(object::group(manifest), object::kind(manifest), server) {
                self.warn(
                    ConditionType::ExcludedResourceWarning,
                    format!(
                        "Resource {} {} is excluded in the settings",
                        slashed(&ResourceKey::of(manifest)),
                        object::version(manifest)
                    ),
                );
                continue;
            }
            let mut target = manifest.clone();
            self.place(&mut target);
            let named = !object::name(&target).is_empty();
            let key = ResourceKey::of(&target);
            // Objects with generateName alone are different objects each time.
            let slot = if named {
                (key.clone(), hooks::is_hook(&target))
            } else {
                (ResourceKey { name: format!("?{}", order.len()), ..key.clone() }, true)
            };
            if named {
                *counts.entry(key).or_default() += 1;
            }
            if by_key.insert(slot.clone(), target).is_none() {
                order.push(slot);
            }
        }
        for (key, count) in counts.iter().filter(|(_, count)| **count > 1) {
            self.warn(
                ConditionType::RepeatedResourceWarning,
                format!("Resource {} appeared {count} times among application resources.", slashed(key)),
            );
        }
        let mut targets: Vec<Value> = order.iter().filter_map(|slot| by_key.remove(slot)).collect();
        targets.extend(self.managed_namespace(&targets));
        for target in &mut targets {
            let destination = &self.input.application.spec.destination.namespace;
            tracking::set_tracking_in(target, &self.context.instance, destination, self.input.settings);
        }
        targets
    }

    fn place(&mut self, target: &mut Value) {
        let (group, kind) = (object::group(target).to_string(), object::kind(target).to_string());
        let namespaced = self.input.cluster.is_namespaced(&group, &kind);
        let destination = self.context.application.spec.destination.namespace.clone();
        match namespaced {
            Some(false) => {
                if let Some(meta) = object::metadata_mut(target) {
                    meta.remove("namespace");
                }
            }
            // An unknown kind is most likely a custom resource whose definition comes with this sync.
            Some(true) | None if object::namespace(target).is_empty() => {
                if destination.is_empty() {
                    if namespaced == Some(true) {
                        let name = object::name(target).to_string();
                        self.failed = true;
                        self.warn(
                            ConditionType::InvalidSpecError,
                            format!(
                                "Namespace for {name} {group}/{}, Kind={kind} is missing.",
                                object::version(target)
                            ),
                        );
                    }
                } else if (namespaced == Some(true) || !self.defines_cluster_scope(&group, &kind))
                    && let Some(meta) = object::metadata_mut(target)
                {
                    meta.insert("namespace".into(), destination.into());
                }
            }
            _ => {}
        }
    }

    /// A definition among the manifests says that the kind is cluster-scoped.
    fn defines_cluster_scope(&self, group: &str, kind: &str) -> bool {
        self.input.desired.iter().filter(|o| object::is_crd(o)).any(|crd| {
            object::text(crd, &["spec", "group"]) == group
                && object::text(crd, &["spec", "names", "kind"]) == kind
                && object::text(crd, &["spec", "scope"]) == "Cluster"
        })
    }

    /// With CreateNamespace and metadata for it the namespace is a resource like the others.
    fn managed_namespace(&self, targets: &[Value]) -> Option<Value> {
        let spec = &self.context.application.spec;
        let name = spec.destination.namespace.as_str();
        let metadata = spec.sync_policy.as_ref()?.managed_namespace_metadata.as_ref()?;
        let create = self.context.options.is_true("CreateNamespace");
        let present = targets.iter().any(|o| is_namespace(o) && object::name(o) == name);
        (create && !present && !name.is_empty()).then(|| namespace_manifest(name, Some(metadata)))
    }

    /// Pairs manifests and live objects by key; live objects that are ours and not wanted are left over.
    fn pair(&mut self, targets: Vec<Value>) -> Vec<(Option<Value>, Option<&'a Value>)> {
        let mut by_key: BTreeMap<ResourceKey, &'a Value> = BTreeMap::new();
        let mut uids = BTreeSet::new();
        for object in self.input.live {
            let uid = object::uid(object);
            if uid.is_empty() || uids.insert(uid) || !by_key.contains_key(&ResourceKey::of(object)) {
                by_key.insert(ResourceKey::of(object), object);
            }
        }
        let mut pairs = Vec::new();
        let mut matched: BTreeSet<String> = BTreeSet::new();
        let rollouts: Vec<Value> =
            targets.iter().filter(|target| object::kind(target) == "Rollout").cloned().collect();
        for mut target in targets {
            let key = ResourceKey::of(&target);
            let unscoped = ResourceKey { namespace: String::new(), ..key.clone() };
            let live = by_key.get(&key).or_else(|| by_key.get(&unscoped)).copied();
            if let Some(live) = live {
                matched.insert(object::uid(live).to_string());
                by_key.remove(&ResourceKey::of(live));
                self.check_shared(live);
                diff::left_to_rollouts(&mut target, live, &rollouts);
            }
            pairs.push((Some(target), live));
        }
        let destination = self.context.application.spec.destination.namespace.clone();
        let creates_namespace = self.context.options.is_true("CreateNamespace");
        for live in by_key.into_values() {
            let uid = object::uid(live);
            // One object may be served under two groups; its manifest has claimed it already.
            let claimed = !uid.is_empty() && matched.contains(uid);
            let own_namespace = creates_namespace && is_namespace(live) && object::name(live) == destination;
            // What is not looked at is not known to be unwanted.
            let server = &self.context.application.spec.destination.server;
            if self.input.settings.is_excluded(object::group(live), object::kind(live), server) {
                continue;
            }
            let ours =
                tracking::tracked_by(live, self.input.settings) == Some(self.context.instance.as_str());
            if ours && !claimed && !own_namespace && !object::has_owner(live) && self.permitted(live) {
                pairs.push((None, Some(live)));
            }
        }
        pairs
    }

    fn check_shared(&mut self, live: &Value) {
        let Some(other) = tracking::tracked_by(live, self.input.settings) else { return };
        if other != self.context.instance && tracking::is_self_reference(live, self.input.settings) {
            let message = format!(
                "{}/{} is part of applications {} and {other}",
                object::kind(live),
                object::name(live),
                self.context.instance
            );
            self.shared.push(message.clone());
            self.warn(ConditionType::SharedResourceWarning, message);
        }
    }

    fn permitted(&self, object: &Value) -> bool {
        let Some(project) = self.input.project else { return true };
        let (group, kind) = (object::group(object), object::kind(object));
        let namespaced =
            self.input.cluster.is_namespaced(group, kind).unwrap_or(!object::namespace(object).is_empty());
        let destination = &self.context.application.spec.destination;
        let cluster = project::ClusterNames { server: &destination.server, name: &destination.name };
        project::permits_kind(project, group, kind, object::name(object), namespaced)
            && (!namespaced || project::permits_destination(project, &cluster, object::namespace(object)))
    }

    fn state(&self, target: Option<Value>, live: Option<&Value>) -> ResourceState {
        let any = target.as_ref().or(live).unwrap_or(&Value::Null);
        let key = ResourceKey::of(any);
        let hook = hooks::is_hook(any);
        let skipped = target.as_ref().is_some_and(hooks::is_skipped);
        let self_reference = live.is_none_or(|o| tracking::is_self_reference(o, self.input.settings));
        let permitted = target.as_ref().is_none_or(|target| self.permitted(target));
        let diff = (!hook).then(|| diff::diff(target.as_ref(), live, &self.rules, self.diff_mode(any)));
        let status = if hook || skipped || (target.is_none() && !self_reference) {
            None
        } else if !permitted {
            Some(SyncCode::Unknown)
        } else {
            let same = target.is_some() && live.is_some() && diff.as_ref().is_some_and(|d| !d.modified);
            Some(if same { SyncCode::Synced } else { SyncCode::OutOfSync })
        };
        let requires_pruning = target.is_none() && status.is_some();
        // Two bodies per object are kept only where someone will want to see them.
        let diff = diff.filter(|diff| diff.modified || requires_pruning);
        let confirm = live.is_some_and(|o| {
            requires_pruning && self.context.options.prune_of(o) == Deletion::Confirm
                || self.context.options.delete_of(o) == Deletion::Confirm
        });
        ResourceState {
            version: object::version(any).to_string(),
            status,
            health: self.health(live, hook),
            requires_pruning,
            requires_deletion_confirmation: confirm,
            hook,
            wave: hooks::wave(any),
            diff,
            forbidden: (!permitted)
                .then(|| forbidden_sentence(&key, self.input.application.spec.project_name())),
            key,
            target: target.map(Manifest::new),
            live: live.cloned().map(Manifest::new),
        }
    }

    fn health(&self, live: Option<&Value>, hook: bool) -> Option<Health> {
        match live {
            Some(live) => health::assess_with(live, self.input.settings, self.input.now),
            None if hook => None,
            None => Some(Health::new(HealthCode::Missing, "")),
        }
    }

    fn diff_mode(&self, object: &Value) -> DiffMode {
        if self.context.options.is_true_for(object, "ServerSideApply") {
            DiffMode::ServerSide
        } else {
            DiffMode::ThreeWay
        }
    }
}

fn counts_as_drift(resource: &ResourceState) -> bool {
    let ignored_extra = resource.requires_pruning
        && resource.live.as_ref().is_some_and(|live| options::compare_option(live, "IgnoreExtraneous"));
    resource.status == Some(SyncCode::OutOfSync) && !ignored_extra
}

fn forbidden_sentence(key: &ResourceKey, project: &str) -> String {
    format!("resource {}:{} is not permitted in project {project}", key.group, key.kind)
}

fn is_namespace(object: &Value) -> bool {
    object::kind(object) == "Namespace" && object::group(object).is_empty()
}

/// The Namespace that CreateNamespace makes.
pub(crate) fn namespace_manifest(name: &str, metadata: Option<&NamespaceMetadata>) -> Value {
    let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    for (key, value) in metadata.iter().flat_map(|m| &m.labels) {
        object::set_label(&mut namespace, key, value);
    }
    for (key, value) in metadata.iter().flat_map(|m| &m.annotations) {
        object::set_annotation(&mut namespace, key, value);
    }
    namespace
}

fn slashed(key: &ResourceKey) -> String {
    format!("{}/{}/{}/{}", key.group, key.kind, key.namespace, key.name)
}

/// Whole seconds, as Kubernetes writes times.
pub fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
