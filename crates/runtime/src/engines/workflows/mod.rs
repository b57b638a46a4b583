//! Workflows: pods that follow each other.
//!
//! In: Workflows, the templates that they name, and their pods. Out: what the plan of the pure room `workflow` says: pods are created, then the status
//! is written, then pods are deleted. Decides nothing: a reconcile that was killed anywhere is planned again from what the cluster holds
//! then.

mod calls;
mod carry_out;
mod create;
mod gather;
mod locks;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use slipway_cluster::Cluster;
use slipway_crd::names::GROUP;
use slipway_crd::workflow::Workflow;
use slipway_reconcile::{EventWriter, Key, Kind, Reconciler, Requeue, Retry, Stop, Wake, Watch};
use slipway_workflow::plan::expires_at;

use super::guard::Guard;
use super::{Engine, Peers};
use crate::context::Context;

pub(crate) const WORKFLOW: Kind = Kind::new(GROUP, "Workflow");
const TEMPLATE: Kind = Kind::new(GROUP, "WorkflowTemplate");
const CLUSTER_TEMPLATE: Kind = Kind::new(GROUP, "ClusterWorkflowTemplate");
pub(super) const INSTANCE_ID: &str = "workflows.argoproj.io/controller-instanceid";

/// The safety net, in case that something was not heard.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(600);

pub(crate) struct Workflows {
    cluster: Cluster,
    events: Arc<EventWriter>,
    /// Only Workflows with this label are ours; empty: those without one.
    instance_id: String,
    namespace: Option<String>,
    executor_image: Option<String>,
    guard: Guard,
    locking: locks::Locking,
    calls: calls::Calls,
    /// Several processes share the Workflows: none of them sees what another one writes at once.
    shares: bool,
    readers: Mutex<HashMap<Key, Readers>>,
}

/// Which printed results are read, and of which versions that is known.
type Readers = (String, Arc<BTreeSet<String>>);

impl Engine for Workflows {
    fn new(context: &Context, _: &Peers) -> Self {
        let config = context.config.workflows.clone().unwrap_or_default();
        let task = context.tasks.of::<Self>();
        Self {
            calls: calls::Calls::new(context.cluster().clone(), context.config.egress.clone(), task.clone()),
            locking: locks::Locking::new(task),
            cluster: context.cluster().clone(),
            events: context.events.clone(),
            instance_id: config.instance_id,
            namespace: config.namespace,
            executor_image: config.executor_image,
            guard: guard(),
            shares: context.config.sharing.is_some(),
            readers: Mutex::default(),
        }
    }
}

impl Reconciler for Workflows {
    const NAME: &'static str = "workflows";
    const KIND: Kind = WORKFLOW;
    const MANAGER: &'static str = "workflow-controller";
    const RETRY: Retry = Retry { first: Duration::from_millis(200), max: Duration::from_secs(30) };

    fn workers(&self) -> usize {
        16
    }

    fn watches() -> Vec<Watch<Self>> {
        vec![
            Watch::itself(),
            Watch::owned(),
            // Read when a Workflow names them; one that has begun goes on with what it began with.
            Watch::map(TEMPLATE, |_, _| Vec::new()),
            Watch::map(CLUSTER_TEMPLATE, |_, _| Vec::new()),
        ]
    }

    fn keys(&self) -> Vec<Key> {
        self.cluster
            .live_of_kind(GROUP, WORKFLOW.kind)
            .iter()
            .filter_map(|live| Key::of(WORKFLOW, &live.key))
            .collect()
    }

    async fn reconcile(&self, key: &Key, _: Wake) -> Result<Requeue, Stop> {
        let kinds =
            [(GROUP, WORKFLOW.kind), (GROUP, TEMPLATE.kind), (GROUP, CLUSTER_TEMPLATE.kind), ("", "Pod")];
        if kinds.iter().any(|(group, kind)| self.cluster.is_waiting(group, kind)) {
            // What is not read yet is not gone.
            return Ok(Requeue::Again(Duration::from_millis(200)));
        }
        let Some((workflow, _)) = self.ours(key) else {
            // One that is being deleted keeps what it has until it is gone.
            if self.cluster.live(&key.object()).is_none() {
                self.forget(key);
            }
            return Err(Stop::Gone);
        };
        self.guard.check(&self.cluster, &self.instance_id).await?;
        let library = self.library(&key.namespace, &workflow);
        let wants_locks = locks::wants(&workflow, &library.0);
        let _turn = match wants_locks {
            true => Some(self.locking.turn.lock().await),
            false => None,
        };
        // It may have changed while it waited for its turn.
        let (workflow, version) = self.ours(key).ok_or(Stop::Gone)?;
        let now = Timestamp::now();
        let mut observed = self.gather(key, workflow, library).await?;
        if wants_locks && !self.shares {
            observed.locks = Some(self.locks(key));
        }
        let (observed, next) = self.carry_out(key, observed, &version, now).await?;
        self.locking.wrote(key, &observed.workflow.status, &next.status);
        self.calls.go_on(key, &observed.workflow.metadata.uid, &next.actions, &next.status);
        if next.status.finished_at.is_none() {
            return Ok(Requeue::due(next.requeue_at, now, LOOK_AGAIN));
        }
        let ended = Workflow { status: next.status, ..observed.workflow };
        match expires_at(&ended, &observed.library) {
            Some(at) if at <= now => self.remove(key, &ended).await,
            at => Ok(Requeue::due(at, now, LOOK_AGAIN)),
        }
    }

    async fn released(&self, key: &Key) {
        self.forget(key);
    }
}

/// Of upstream's controller, which looks after CronWorkflows too.
pub(super) fn guard() -> Guard {
    Guard::new("workflow-controller", "the Argo Workflows controller")
}

impl Workflows {
    /// The Workflow, if it is ours to look after, and the version that was read.
    fn ours(&self, key: &Key) -> Option<(Workflow, String)> {
        let live = self.cluster.live(&key.object())?;
        let workflow: Workflow = serde_json::from_value(live.object()?).ok()?;
        let id = workflow.metadata.labels.get(INSTANCE_ID).map(String::as_str).unwrap_or_default();
        let here = self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace);
        (here && id == self.instance_id && workflow.metadata.deletion_timestamp.is_none())
            .then(|| (workflow, live.resource_version.clone()))
    }
}

impl Workflows {
    fn forget(&self, key: &Key) {
        self.readers.lock().expect("no panic while locked").remove(key);
        self.locking.gone(key);
        self.calls.forget(key);
    }
}
