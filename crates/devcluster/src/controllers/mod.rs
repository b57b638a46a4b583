//! The loops that make objects mean something.
//!
//! Each controller is a reconcile function over one object's key and a list of what wakes it. A loop reads the whole
//! state again each time and never acts on the contents of what woke it. Writes are visible when they return, so
//! there is nothing to expect and nothing to remember between rounds.

mod cronjob;
mod daemonset;
mod deployment;
mod endpoints;
mod garbage;
mod job;
mod namespace;
mod pods;
mod queue;
mod replicaset;
mod rollout;
mod scheduler;
mod statefulset;
mod volumes;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::api::{Caller, Cluster, controller_of};
use crate::error::ApiResult;
use crate::value::{Json as _, now};

pub(crate) const MANAGER: &str = "kube-controller-manager";

/// What to do next with a key: nothing until something changes, or look again after a while.
pub(crate) type Again = Option<Duration>;
type Reconcile = fn(Arc<Cluster>, String, String) -> BoxFuture<'static, ApiResult<Again>>;
/// From a changed object to the keys that have to be looked at.
type Wakes = fn(&Cluster, &Value) -> Vec<(String, String)>;

struct Controller {
    name: &'static str,
    wakes: Vec<(&'static str, Wakes)>,
    reconcile: Reconcile,
}

fn itself(_: &Cluster, object: &Value) -> Vec<(String, String)> {
    vec![(object.namespace().to_owned(), object.name().to_owned())]
}

macro_rules! owner {
    ($kind:literal) => {
        |_: &Cluster, object: &Value| {
            let owner = controller_of(object).filter(|owner| owner.str_at("kind") == $kind);
            owner.map(|o| (object.namespace().to_owned(), o.str_at("name").to_owned())).into_iter().collect()
        }
    };
}

/// Pods without a controller may be adopted by any set in their namespace.
macro_rules! owner_or_matching {
    ($kind:literal, $storage:literal) => {
        |cluster: &Cluster, object: &Value| match controller_of(object) {
            Some(owner) if owner.str_at("kind") == $kind => {
                vec![(object.namespace().to_owned(), owner.str_at("name").to_owned())]
            }
            Some(_) => Vec::new(),
            None => pods::selecting(cluster, $storage, object),
        }
    };
}

macro_rules! boxed {
    ($function:path) => {
        |cluster, namespace, name| Box::pin(async move { $function(&cluster, &namespace, &name).await })
    };
}

fn controllers() -> Vec<Controller> {
    vec![
        Controller {
            name: "deployment",
            wakes: vec![
                ("apps/deployments", itself),
                ("apps/replicasets", owner!("Deployment")),
                ("pods", deployment::of_pod),
            ],
            reconcile: boxed!(deployment::reconcile),
        },
        Controller {
            name: "replicaset",
            wakes: vec![
                ("apps/replicasets", itself),
                ("pods", owner_or_matching!("ReplicaSet", "apps/replicasets")),
            ],
            reconcile: boxed!(replicaset::reconcile),
        },
        Controller {
            name: "replicationcontroller",
            wakes: vec![
                ("replicationcontrollers", itself),
                ("pods", owner_or_matching!("ReplicationController", "replicationcontrollers")),
            ],
            reconcile: boxed!(replicaset::reconcile_controller),
        },
        Controller {
            name: "statefulset",
            wakes: vec![("apps/statefulsets", itself), ("pods", owner!("StatefulSet"))],
            reconcile: boxed!(statefulset::reconcile),
        },
        Controller {
            name: "daemonset",
            wakes: vec![("apps/daemonsets", itself), ("pods", owner!("DaemonSet"))],
            reconcile: boxed!(daemonset::reconcile),
        },
        Controller {
            name: "job",
            wakes: vec![("batch/jobs", itself), ("pods", owner!("Job"))],
            reconcile: boxed!(job::reconcile),
        },
        Controller {
            name: "cronjob",
            wakes: vec![("batch/cronjobs", itself), ("batch/jobs", owner!("CronJob"))],
            reconcile: boxed!(cronjob::reconcile),
        },
        Controller {
            name: "endpoints",
            wakes: vec![("services", itself), ("pods", endpoints::of_pod)],
            reconcile: boxed!(endpoints::reconcile),
        },
        Controller {
            name: "namespace",
            wakes: vec![
                ("namespaces", itself),
                ("serviceaccounts", namespace::of_member),
                ("configmaps", namespace::of_member),
            ],
            reconcile: boxed!(namespace::reconcile),
        },
        Controller {
            name: "definitions",
            wakes: vec![("apiextensions.k8s.io/customresourcedefinitions", itself)],
            reconcile: boxed!(namespace::reconcile_definition),
        },
        Controller {
            name: "volumes",
            wakes: vec![("persistentvolumeclaims", itself), ("persistentvolumes", volumes::of_volume)],
            reconcile: boxed!(volumes::reconcile),
        },
        Controller {
            name: "scheduler",
            wakes: vec![("pods", itself)],
            reconcile: boxed!(scheduler::reconcile),
        },
        Controller {
            name: "events",
            wakes: vec![("events", itself)],
            reconcile: boxed!(namespace::expire_event),
        },
    ]
}

/// Runs all controllers until `shutdown`.
pub(crate) async fn run(cluster: Arc<Cluster>, shutdown: CancellationToken) {
    let mut tasks = tokio::task::JoinSet::new();
    for controller in controllers() {
        let queue = Arc::new(queue::Queue::default());
        for (storage, wakes) in controller.wakes {
            tasks.spawn(feed(cluster.clone(), storage, wakes, queue.clone(), shutdown.clone()));
        }
        tasks.spawn(work(cluster.clone(), controller.name, controller.reconcile, queue, shutdown.clone()));
    }
    tasks.spawn(garbage::run(cluster.clone(), shutdown.clone()));
    while tasks.join_next().await.is_some() {}
}

async fn feed(
    cluster: Arc<Cluster>,
    storage: &'static str,
    wakes: Wakes,
    queue: Arc<queue::Queue>,
    shutdown: CancellationToken,
) {
    loop {
        let (version, objects) = cluster.store.list(storage, None);
        for object in objects {
            wakes(&cluster, &object.value()).into_iter().for_each(|key| queue.add(key));
        }
        let Some(mut watcher) = cluster.store.watch(storage, version) else { continue };
        loop {
            let events = tokio::select! {
                () = shutdown.cancelled() => return,
                events = watcher.next() => events,
            };
            let Some(events) = events else { break };
            for event in events {
                wakes(&cluster, &event.object.value()).into_iter().for_each(|key| queue.add(key));
                if let Some(before) = event.before {
                    wakes(&cluster, &before.value()).into_iter().for_each(|key| queue.add(key));
                }
            }
        }
    }
}

async fn work(
    cluster: Arc<Cluster>,
    name: &'static str,
    reconcile: Reconcile,
    queue: Arc<queue::Queue>,
    shutdown: CancellationToken,
) {
    loop {
        let key = tokio::select! {
            () = shutdown.cancelled() => return,
            key = queue.next() => key,
        };
        match reconcile(cluster.clone(), key.0.clone(), key.1.clone()).await {
            Ok(None) => queue.succeeded(&key),
            Ok(Some(after)) => {
                queue.succeeded(&key);
                queue.add_after(key, after);
            }
            Err(error) => {
                let after = queue.failed(&key);
                if !error.is_conflict() && !error.is_not_found() {
                    tracing::warn!(controller = name, namespace = %key.0, name = %key.1, %error, "A reconciliation failed; retrying.");
                }
                queue.add_after(key, after);
            }
        }
    }
}

/// Writes an Event about an object, counting up when the same one was written before.
pub(crate) async fn record(
    cluster: &Cluster,
    on: &Value,
    ty: &str,
    reason: &str,
    message: &str,
    component: &str,
) {
    record_at(cluster, on, "", ty, reason, message, component).await;
}

/// As [`record`], about a part of the object, such as one container of a pod.
pub(crate) async fn record_at(
    cluster: &Cluster,
    on: &Value,
    field: &str,
    ty: &str,
    reason: &str,
    message: &str,
    component: &str,
) {
    let namespace = if on.namespace().is_empty() { "default" } else { on.namespace() };
    let mut involved = json!({"kind": on["kind"], "apiVersion": on["apiVersion"], "name": on.name(), "namespace": on.namespace(),
        "uid": on.uid(), "resourceVersion": on["metadata"]["resourceVersion"]});
    if !field.is_empty() {
        involved["fieldPath"] = json!(field);
    }
    // One event per object, reason and message: its name is a digest of them.
    let digest = crate::value::hash(&json!([on.uid(), field, reason, message]), 0);
    let name =
        format!("{}.{digest:08x}{:08x}", on.name(), crate::value::hash(&json!([message, on.uid()]), 7));
    let time = now();
    let repeated = cluster
        .modify("events", namespace, &name, "", component, |event| {
            let count = event.int_at("count").unwrap_or(1) + 1;
            event.set_at("count", json!(count));
            event.set_at("lastTimestamp", json!(time));
        })
        .await;
    if repeated.is_ok() {
        return;
    }
    let event = json!({
        "metadata": {"name": name}, "involvedObject": involved, "type": ty, "reason": reason, "message": message,
        "count": 1, "firstTimestamp": time, "lastTimestamp": time, "eventTime": Value::Null,
        "source": {"component": component}, "reportingComponent": component, "reportingInstance": "",
    });
    let mut caller = Caller::internal(component);
    if let Err(error) = cluster.create(&cluster.resource("events"), namespace, event, &mut caller).await {
        tracing::debug!(%error, "Cannot write an event.");
    }
}

/// The owner reference by which a controller marks what it made.
pub(crate) fn owner_reference(owner: &Value) -> Value {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner.name(), "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true})
}

/// Sets or replaces a condition the way Kubernetes does: the transition time moves only when the status does.
pub(crate) fn set_condition(conditions: &mut Vec<Value>, mut condition: Value) {
    let time = now();
    let ty = condition.str_at("type").to_owned();
    match conditions.iter_mut().find(|c| c.str_at("type") == ty) {
        Some(old) => {
            let same = old.str_at("status") == condition.str_at("status");
            let since = if same { old["lastTransitionTime"].clone() } else { json!(time) };
            condition.set_at("lastTransitionTime", since);
            *old = condition;
        }
        None => {
            condition.set_at("lastTransitionTime", json!(time));
            conditions.push(condition);
        }
    }
}

pub(crate) fn condition<'a>(object: &'a Value, ty: &str) -> Option<&'a Value> {
    object.list_at("status.conditions").iter().find(|c| c.str_at("type") == ty)
}

pub(crate) fn is_true(object: &Value, ty: &str) -> bool {
    condition(object, ty).is_some_and(|c| c.str_at("status") == "True")
}
