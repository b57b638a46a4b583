//! Apply: one planned step becomes one or two requests, and a sentence about what became of it.

use std::time::Duration;

use serde_json::Value;
use slipway_cluster::{Cluster, ClusterError, Propagation, WriteOptions};
use slipway_crd::names;
use slipway_gitops::diff::{self, DiffMode};
use slipway_gitops::object;
use slipway_gitops::options::Propagation as Wanted;
use slipway_gitops::sync::{Action, ApplyHow, PlannedStep, StepResult};
use slipway_reconcile::merge_patch;

use super::live::cluster_key;

/// Somebody else changed the object between our look and our write.
const CONFLICT_TRIES: usize = 5;
/// How long a definition may take until it is served.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(3);
/// How long a forced replacement waits for the old object to go.
const GONE_WITHIN: Duration = Duration::from_secs(30);
/// The API server refuses annotations above 256 KiB in all.
const LAST_APPLIED_MAX: usize = 240 << 10;

/// Runs a step. A failure is a result like any other: the plan decides what follows from it.
pub(crate) async fn run(cluster: &Cluster, step: &PlannedStep) -> StepResult {
    let outcome = match &step.action {
        Action::Apply { object, how, force, validate } | Action::RunHook { object, how, force, validate } => {
            write(cluster, object, *how, *force, WriteOptions { dry_run: false, validate: *validate }).await
        }
        Action::Prune { key, uid, propagation, .. } => cluster
            .delete(&cluster_key(key), Some(uid), propagation_of(*propagation), false)
            .await
            .map(|_| ("pruned".to_owned(), uid.clone())),
        Action::ReleaseHook { key, uid } => {
            release(cluster, &cluster_key(key), uid).await.map(|()| ("released".to_owned(), uid.clone()))
        }
        Action::DeleteHook { key, uid, .. } => delete_hook(cluster, &cluster_key(key), uid).await,
    };
    match outcome {
        Ok((message, uid)) => StepResult::Done { message, uid },
        Err(error) => StepResult::Failed { message: error.to_string() },
    }
}

/// Tries a step without changing anything; says what it would do.
pub(crate) async fn dry_run(cluster: &Cluster, step: &PlannedStep) -> Result<String, String> {
    let (Action::Apply { object, how, force, validate } | Action::RunHook { object, how, force, validate }) =
        &step.action
    else {
        return Ok("pruned".to_owned());
    };
    let replaced = || Ok(format!("{} configured", kubectl_name(object)));
    match write(cluster, object, *how, *force, WriteOptions { dry_run: true, validate: *validate }).await {
        Ok((message, _)) => Ok(message),
        // What a forced apply deletes first cannot be tried.
        Err(error) if *force && error.is_immutable() => replaced(),
        Err(ClusterError::Refused { message, .. }) if message.contains("does not support dry run") => {
            replaced()
        }
        // A hook that is still there from another sync is deleted before this one is made.
        Err(error) if error.already_exists() => replaced(),
        Err(error) => Err(error.to_string()),
    }
}

async fn write(
    cluster: &Cluster,
    object: &Value,
    how: ApplyHow,
    force: bool,
    options: WriteOptions,
) -> Result<(String, String), ClusterError> {
    let name = kubectl_name(object);
    let written = match how {
        ApplyHow::Create => cluster.create(object, options).await.map(|made| (made, "created")),
        ApplyHow::ServerSide => cluster.apply(object, options).await.map(|made| (made, "serverside-applied")),
        ApplyHow::Replace => replace(cluster, object, options).await,
        ApplyHow::ClientSide => apply_client_side(cluster, object, options).await,
    };
    let (made, verb) = match written {
        Err(error) if force && !options.dry_run && (error.is_immutable() || error.is_conflict()) => {
            recreate(cluster, object, options).await?
        }
        written => written?,
    };
    if object::is_crd(object) && !options.dry_run {
        wait_until_established(cluster, object).await;
    }
    Ok((format!("{name} {verb}"), object::uid(&made).to_owned()))
}

/// Three-way: what was applied last, what is wanted, what is there. One request where the copy is right.
async fn apply_client_side(
    cluster: &Cluster,
    object: &Value,
    options: WriteOptions,
) -> Result<(Value, &'static str), ClusterError> {
    let target = with_last_applied(object);
    let Some(target) = target else {
        // Too large to remember: ownership of fields remembers it instead.
        return cluster.apply(object, options).await.map(|made| (made, "serverside-applied"));
    };
    let key = slipway_cluster::ObjectKey::of(object);
    let mut live = live_as(cluster, object, &key).await?;
    for attempt in 0.. {
        let Some(current) = &live else {
            match cluster.create(&target, options).await {
                Err(error) if error.already_exists() && attempt < CONFLICT_TRIES => {
                    live = cluster.read_version(object::api_version(object), &key).await?;
                    continue;
                }
                made => return made.map(|made| (made, "created")),
            }
        };
        let merged = diff::predict(&target, current, DiffMode::ThreeWay);
        let Some(mut patch) = merge_patch(current, &merged) else {
            return Ok((current.clone(), "unchanged"));
        };
        patch["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
        match cluster.merge(object, &patch, options).await {
            Err(error) if error.is_conflict() && attempt < CONFLICT_TRIES => {
                live = cluster.read_version(object::api_version(object), &key).await?;
            }
            Err(error) if error.is_not_found() && attempt < CONFLICT_TRIES => live = None,
            made => return made.map(|made| (made, "configured")),
        }
    }
    unreachable!("the loop returns at the last attempt")
}

/// The live object in the version of the manifest, from the copy when that is the version that is watched.
async fn live_as(
    cluster: &Cluster,
    object: &Value,
    key: &slipway_cluster::ObjectKey,
) -> Result<Option<Value>, ClusterError> {
    match cluster.live(key) {
        Some(live) if live.version == object::version(object) => match live.object() {
            Some(object) => Ok(Some(object)),
            None => cluster.read(key).await,
        },
        None if cluster.is_read(&key.group, &key.kind) => Ok(None),
        _ => match cluster.read_version(object::api_version(object), key).await {
            // Its definition may come with this sync.
            Err(ClusterError::UnknownKind { .. }) => Ok(None),
            read => read,
        },
    }
}

/// The manifest with itself written down in the annotation that `kubectl apply` uses; `None`: it is too large.
fn with_last_applied(object: &Value) -> Option<Value> {
    let mut plain = object.clone();
    if let Some(map) = plain.as_object_mut() {
        map.remove("status");
    }
    if let Some(annotations) = plain.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(names::LAST_APPLIED);
    }
    let text = format!("{plain}\n");
    if text.len() > LAST_APPLIED_MAX {
        return None;
    }
    object::set_annotation(&mut plain, names::LAST_APPLIED, &text);
    Some(plain)
}

async fn replace(
    cluster: &Cluster,
    object: &Value,
    options: WriteOptions,
) -> Result<(Value, &'static str), ClusterError> {
    let key = slipway_cluster::ObjectKey::of(object);
    for _ in 0..CONFLICT_TRIES {
        let Some(live) = cluster.read_version(object::api_version(object), &key).await? else {
            return cluster.create(object, options).await.map(|made| (made, "created"));
        };
        let mut wanted = object.clone();
        wanted["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        match cluster.replace(&wanted, options).await {
            Err(error) if error.is_conflict() => {}
            made => return made.map(|made| (made, "replaced")),
        }
    }
    cluster.replace(object, options).await.map(|made| (made, "replaced"))
}

/// Deletes and makes again what cannot be changed in place.
async fn recreate(
    cluster: &Cluster,
    object: &Value,
    options: WriteOptions,
) -> Result<(Value, &'static str), ClusterError> {
    let key = slipway_cluster::ObjectKey::of(object);
    if let Some(live) = cluster.read(&key).await? {
        let uid = object::uid(&live).to_owned();
        cluster.delete(&key, Some(&uid), Propagation::Foreground, false).await?;
        let deadline = tokio::time::Instant::now() + GONE_WITHIN;
        while cluster.read(&key).await?.is_some_and(|now| object::uid(&now) == uid)
            && tokio::time::Instant::now() < deadline
        {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let target = with_last_applied(object).unwrap_or_else(|| object.clone());
    cluster.create(&target, options).await.map(|made| (made, "replaced"))
}

async fn wait_until_established(cluster: &Cluster, definition: &Value) {
    let spec = &definition["spec"];
    let group = object::text(spec, &["group"]);
    let kind = object::text(spec, &["names", "kind"]);
    let key = slipway_cluster::ObjectKey::of(definition);
    let deadline = tokio::time::Instant::now() + ESTABLISHED_WITHIN;
    while tokio::time::Instant::now() < deadline {
        let established = cluster.live(&key).and_then(|live| live.object()).is_some_and(|live| {
            object::list(&live, &["status", "conditions"])
                .iter()
                .any(|c| c["type"] == "Established" && c["status"] == "True")
        });
        if established && cluster.discovery().preferred(group, kind).is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Takes our finalizer off a hook; a hook that is gone needs nothing.
async fn release(cluster: &Cluster, key: &slipway_cluster::ObjectKey, uid: &str) -> Result<(), ClusterError> {
    let mut known = cluster.live(key).and_then(|live| live.object());
    for _ in 0..CONFLICT_TRIES {
        let live = match known.take() {
            Some(live) => Some(live),
            None => cluster.read(key).await?,
        };
        let Some(live) = live.filter(|live| object::uid(live) == uid) else { return Ok(()) };
        if !object::has_finalizer(&live, names::HOOK_FINALIZER) {
            return Ok(());
        }
        let left: Vec<&Value> = object::list(&live, &["metadata", "finalizers"])
            .iter()
            .filter(|f| *f != names::HOOK_FINALIZER)
            .collect();
        let patch = serde_json::json!({"metadata": {
            "resourceVersion": live["metadata"]["resourceVersion"], "finalizers": left}});
        match cluster.merge(&live, &patch, WriteOptions::default()).await {
            Ok(_) => {
                // The last finalizer of an object that is being deleted was what kept it.
                if object::is_being_deleted(&live) && left.is_empty() {
                    cluster.read(key).await?;
                }
                return Ok(());
            }
            Err(error) if error.is_not_found() => {
                cluster.read(key).await?;
                return Ok(());
            }
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn delete_hook(
    cluster: &Cluster,
    key: &slipway_cluster::ObjectKey,
    uid: &str,
) -> Result<(String, String), ClusterError> {
    release(cluster, key, uid).await?;
    cluster.delete(key, Some(uid), Propagation::Background, false).await?;
    Ok(("deleted".to_owned(), uid.to_owned()))
}

pub(crate) fn propagation_of(wanted: Wanted) -> Propagation {
    match wanted {
        Wanted::Foreground => Propagation::Foreground,
        Wanted::Background => Propagation::Background,
        Wanted::Orphan => Propagation::Orphan,
    }
}

/// `deployment.apps/web`, as kubectl names an object.
fn kubectl_name(object: &Value) -> String {
    let kind = object::kind(object).to_lowercase();
    match object::group(object) {
        "" => format!("{kind}/{}", object::name(object)),
        group => format!("{kind}.{group}/{}", object::name(object)),
    }
}
