//! What a sync consists of: one task per resource, one per hook and phase, in the order they run.

use super::ApplyHow;
use super::progress::{SyncProgress, hook_mark, key_of};
use crate::compare::{Comparison, ResourceState, SyncCode, namespace_manifest};
use crate::hooks::{self, SyncPhase};
use crate::object::{self, Manifest, ResourceKey};
use crate::options::SyncOptions;
use crate::order::kind_rank;
use crate::{diff, tracking};
use serde_json::Value;
use slipway_crd::{SyncOperation, SyncResource, names};
use std::collections::{BTreeMap, BTreeSet};

/// What a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskKind {
    Apply,
    Prune,
    Hook,
}

/// One task.
#[derive(Debug, Clone)]
pub(super) struct Task<'a> {
    pub(super) kind: TaskKind,
    pub(super) phase: SyncPhase,
    pub(super) wave: i64,
    pub(super) key: ResourceKey,
    pub(super) version: String,
    /// What is written; None for prunes.
    pub(super) object: Option<Manifest>,
    pub(super) live: Option<&'a Manifest>,
    /// Live is as desired already.
    pub(super) unchanged: bool,
    pub(super) forbidden: Option<&'a str>,
}

impl Task<'_> {
    pub(super) fn group(&self) -> (SyncPhase, i64) {
        (self.phase, self.wave)
    }

    pub(super) fn is_hook(&self) -> bool {
        self.kind == TaskKind::Hook
    }
}

/// The options that hold for an operation: its own, else the application's.
pub(super) fn effective_options(comparison: &Comparison, operation: &SyncOperation) -> SyncOptions {
    if operation.sync_options.is_empty() {
        comparison.context.sync_options.clone()
    } else {
        SyncOptions::new(&operation.sync_options)
    }
}

pub(super) fn is_forced(operation: &SyncOperation) -> bool {
    operation
        .sync_strategy
        .as_ref()
        .is_some_and(|s| s.apply.as_ref().or(s.hook.as_ref()).is_some_and(|strategy| strategy.force))
}

/// All tasks in the order they run.
pub(super) fn tasks<'a>(
    comparison: &'a Comparison,
    operation: &SyncOperation,
    progress: &SyncProgress,
    options: &SyncOptions,
) -> Vec<Task<'a>> {
    let mut tasks = Vec::new();
    let selective = !operation.resources.is_empty();
    let runs_hooks = !selective && operation.sync_strategy.as_ref().is_none_or(|s| s.apply.is_none());
    for resource in &comparison.resources {
        if resource.hook {
            if runs_hooks {
                tasks.extend(hook_tasks(resource, comparison, progress));
            }
        } else if is_selected(&resource.key, &operation.resources) {
            tasks.extend(resource_task(resource, comparison, operation, progress, options));
        }
    }
    order_prunes(&mut tasks, options, progress);
    tasks.extend(create_namespace(comparison, options, &tasks));
    tasks.sort_by(|a, b| {
        (a.phase, a.wave, rank(a), &a.key.name, &a.key).cmp(&(b.phase, b.wave, rank(b), &b.key.name, &b.key))
    });
    move_before_users(
        &mut tasks,
        |o| {
            (object::kind(o) == "Namespace" && object::group(o).is_empty())
                .then(|| object::name(o).to_string())
        },
        |o| {
            let namespace = object::namespace(o);
            (!namespace.is_empty()).then(|| namespace.to_string())
        },
    );
    move_before_users(
        &mut tasks,
        |o| {
            object::is_crd(o).then(|| {
                format!(
                    "{}/{}",
                    object::text(o, &["spec", "group"]),
                    object::text(o, &["spec", "names", "kind"])
                )
            })
        },
        |o| Some(format!("{}/{}", object::group(o), object::kind(o))),
    );
    tasks
}

/// Prunes come first in their wave, and those that depend on others before what they depend on.
fn rank(task: &Task<'_>) -> (bool, i64) {
    let rank = kind_rank(&task.key.kind) as i64;
    match task.kind {
        TaskKind::Prune => (false, -rank),
        _ => (true, rank),
    }
}

fn is_selected(key: &ResourceKey, resources: &[SyncResource]) -> bool {
    let fits = |r: &&SyncResource| {
        r.kind == key.kind
            && r.group == key.group
            && r.name == key.name
            && (r.namespace.is_empty() || r.namespace == key.namespace)
    };
    let (excluded, included): (Vec<_>, Vec<_>) = resources.iter().partition(|r| r.exclude);
    (included.is_empty() || included.iter().any(fits)) && !excluded.iter().any(fits)
}

fn resource_task<'a>(
    resource: &'a ResourceState,
    comparison: &'a Comparison,
    operation: &SyncOperation,
    progress: &SyncProgress,
    options: &SyncOptions,
) -> Option<Task<'a>> {
    let base = Task {
        kind: TaskKind::Prune,
        phase: SyncPhase::Sync,
        wave: resource.wave,
        key: resource.key.clone(),
        version: resource.version.clone(),
        object: None,
        live: resource.live.as_ref(),
        unchanged: false,
        forbidden: resource.forbidden.as_deref(),
    };
    let Some(target) = &resource.target else {
        return resource.requires_pruning.then_some(base);
    };
    if hooks::is_skipped(target) {
        return None;
    }
    let synced = resource.status == Some(SyncCode::Synced);
    let only = options.for_object(target, "ApplyOutOfSyncOnly");
    let recorded = || progress.results.iter().any(|r| key_of(r) == resource.key);
    if synced && only == Some("true") && !recorded() {
        return None;
    }
    let respects = options.is_true("RespectIgnoreDifferences");
    let object = match &resource.live {
        Some(live) if respects => {
            Manifest::new(diff::with_ignored_from_live(target, live, &comparison.context.rules))
        }
        _ => target.clone(),
    };
    Some(Task {
        kind: TaskKind::Apply,
        object: Some(object),
        // An apply that changes nothing is not worth a request, unless someone insists.
        unchanged: synced && only != Some("false") && !is_forced(operation),
        ..base
    })
}

fn hook_tasks<'a>(
    resource: &'a ResourceState,
    comparison: &'a Comparison,
    progress: &SyncProgress,
) -> Vec<Task<'a>> {
    let Some(target) = &resource.target else { return Vec::new() };
    hooks::phases(target)
        .into_iter()
        .map(|phase| {
            let object = hook_object(target, phase, comparison, progress);
            let key = ResourceKey::of(&object);
            let live = comparison.resources.iter().find(|r| r.key == key && r.live.is_some());
            Task {
                kind: TaskKind::Hook,
                phase,
                wave: resource.wave,
                version: resource.version.clone(),
                live: live.and_then(|r| r.live.as_ref()),
                key,
                object: Some(Manifest::new(object)),
                unchanged: false,
                forbidden: resource.forbidden.as_deref(),
            }
        })
        .collect()
}

/// The hook as it is made: named, tracked, held by our finalizer and marked with its operation.
fn hook_object(target: &Value, phase: SyncPhase, comparison: &Comparison, progress: &SyncProgress) -> Value {
    let mut object = target.clone();
    let generated = object::text(&object, &["metadata", "generateName"]).to_string();
    if object::name(&object).is_empty() && !generated.is_empty() {
        let short: String = progress.revision.chars().take(7).collect();
        let name = format!("{generated}{short}-{}-{}", phase.as_str(), progress.started_at.as_second())
            .to_lowercase();
        if let Some(meta) = object::metadata_mut(&mut object) {
            meta.remove("generateName");
            meta.insert("name".into(), name.into());
        }
        let context = &comparison.context;
        tracking::set_tracking_in(
            &mut object,
            &context.application,
            &context.destination_namespace,
            &context.settings,
        );
    }
    object::set_annotation(&mut object, names::HOOK_OPERATION, &hook_mark(&progress.operation_id, phase));
    if let Some(meta) = object::metadata_mut(&mut object) {
        let finalizers = meta.entry("finalizers").or_insert_with(|| Value::Array(Vec::new()));
        if let Some(list) = finalizers.as_array_mut()
            && !list.iter().any(|f| f.as_str() == Some(names::HOOK_FINALIZER))
        {
            list.push(names::HOOK_FINALIZER.into());
        }
    }
    object
}

/// Removal goes the other way round: the waves of prunes are mirrored, and PruneLast comes after all else.
fn order_prunes(tasks: &mut [Task<'_>], options: &SyncOptions, progress: &SyncProgress) {
    // Objects that are gone already still count, or the waves would move while the sync runs.
    let mut waves: BTreeSet<i64> = progress.results.iter().filter_map(|r| r.wave).collect();
    waves.extend(tasks.iter().filter(|t| t.kind == TaskKind::Prune).map(|t| t.wave));
    let mirror: BTreeMap<i64, i64> = waves.iter().copied().zip(waves.iter().rev().copied()).collect();
    let last = tasks
        .iter()
        .filter(|t| t.phase == SyncPhase::Sync)
        .map(|t| t.wave)
        .chain(waves.iter().copied())
        .max()
        .unwrap_or(0)
        + 1;
    for task in tasks.iter_mut().filter(|t| t.kind == TaskKind::Prune) {
        let is_last = task.live.is_some_and(|live| options.is_true_for(live, "PruneLast"));
        task.wave = if is_last { last } else { mirror.get(&task.wave).copied().unwrap_or(task.wave) };
    }
}

/// CreateNamespace: the destination's namespace, when it is neither there nor in the manifests.
fn create_namespace<'a>(
    comparison: &Comparison,
    options: &SyncOptions,
    tasks: &[Task<'_>],
) -> Option<Task<'a>> {
    let context = &comparison.context;
    let name = context.destination_namespace.as_str();
    let wanted =
        options.is_true("CreateNamespace") && !name.is_empty() && !context.destination_namespace_exists;
    let key = ResourceKey::new("", "Namespace", "", name);
    if !wanted || tasks.iter().any(|t| t.key == key) {
        return None;
    }
    let phase = SyncPhase::PreSync;
    // Before every hook that may want to be in it.
    let earliest = tasks.iter().map(Task::group).filter(|(of, _)| *of == phase).map(|(_, wave)| wave).min();
    let wave = earliest.unwrap_or(0).min(0);
    Some(Task {
        kind: TaskKind::Apply,
        phase,
        wave,
        key,
        version: "v1".into(),
        object: Some(Manifest::new(namespace_manifest(name, context.managed_namespace_metadata.as_ref()))),
        live: None,
        unchanged: false,
        forbidden: None,
    })
}

/// Moves what others need (a Namespace, a definition) before its first user, into that user's phase and wave.
fn move_before_users<'a>(
    tasks: &mut Vec<Task<'a>>,
    provides: impl Fn(&Value) -> Option<String>,
    needs: impl Fn(&Value) -> Option<String>,
) {
    let mut first_user: BTreeMap<String, usize> = BTreeMap::new();
    for i in 0..tasks.len() {
        let Some(object) = tasks[i].object.clone() else { continue };
        if let Some(provided) = provides(&object) {
            if let Some(index) = first_user.get(&provided).copied() {
                let mut task = tasks.remove(i);
                (task.phase, task.wave) = tasks[index].group();
                tasks.insert(index, task);
                first_user.values_mut().filter(|at| **at >= index).for_each(|at| *at += 1);
            }
        } else if let Some(needed) = needs(&object) {
            first_user.entry(needed).or_insert(i);
        }
    }
}

/// How an object is written.
pub(super) fn apply_how(object: &Value, live: Option<&Manifest>, options: &SyncOptions) -> ApplyHow {
    if options.is_true_for(object, "Replace") {
        return if live.is_some() { ApplyHow::Replace } else { ApplyHow::Create };
    }
    if options.is_true_for(object, "ServerSideApply") { ApplyHow::ServerSide } else { ApplyHow::ClientSide }
}
