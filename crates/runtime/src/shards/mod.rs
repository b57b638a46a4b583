//! Several engines share the Applications of one namespace. Names are dealt into 64 shards; a ConfigMap says who holds
//! which, and each engine keeps a Lease that says that it lives. A dead engine's shards are taken by the others, a
//! living one's never: it gives back what is more than its share when a new engine comes.
//!
//! No Application is worked on by two at once. The table changes only by compare-and-swap. An engine stops writing
//! (the fence around every look) well before others may think it dead: it counts from before its last renewal was
//! sent, they count from when they saw it. One that was late has to swap the table again before it goes on, so that
//! whoever decided meanwhile to take from it fails. What remains: a request that is under way when the lease ends has
//! a third of the lease to arrive.

mod identity;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::{ClusterError, Gate, ObjectKey, Propagation, WriteOptions};
use slipway_crd::names;

use crate::engine::Engine;
use crate::queue::{AppKey, Wake};
pub use identity::{Sharing, SharingError};
use table::{Table, Witness, shard_of};

const LABEL: &str = "slipway.io/engine";
const TABLE: &str = "slipway-gitops-shards";
const LEASES: &str = "coordination.k8s.io";
/// Tries to swap the table before the next renewal is due.
const SWAPS: usize = 5;
/// How long an engine that stops may take to say so.
const LEAVE_WITHIN: Duration = Duration::from_secs(3);

/// What this engine holds.
pub(crate) struct Shards {
    /// None: there is one engine, and everything is its own.
    sharing: Option<Sharing>,
    held: RwLock<Held>,
}

#[derive(Default)]
struct Held {
    shards: BTreeSet<u16>,
    /// Until then it is certain that nobody else thinks so too.
    until: Option<Instant>,
}

impl Shards {
    pub(crate) fn new(sharing: Option<Sharing>) -> Self {
        Self { sharing, held: RwLock::default() }
    }

    /// True when this engine looks after it.
    pub(crate) fn is_ours(&self, key: &AppKey) -> bool {
        if self.sharing.is_none() {
            return true;
        }
        let held = self.held.read().expect("no panic while locked");
        held.until.is_some_and(|until| Instant::now() < until) && held.shards.contains(&shard_of(key))
    }

    /// Closes when it is no longer ours.
    pub(crate) fn gate(self: &Arc<Self>, key: &AppKey) -> Gate {
        if self.sharing.is_none() {
            return Arc::new(|| true);
        }
        let (shards, key) = (self.clone(), key.clone());
        Arc::new(move || shards.is_ours(&key))
    }

    fn lapsed(&self) -> bool {
        let held = self.held.read().expect("no panic while locked");
        held.until.is_none_or(|until| Instant::now() >= until)
    }

    /// Gives the shards that are new and those that are gone.
    fn hold(&self, shards: BTreeSet<u16>, until: Instant) -> BTreeSet<u16> {
        let mut held = self.held.write().expect("no panic while locked");
        // After a gap everything is new: somebody may have had it meanwhile.
        let before = match held.until {
            Some(until) if Instant::now() < until => std::mem::take(&mut held.shards),
            _ => BTreeSet::new(),
        };
        let moved = before.symmetric_difference(&shards).copied().collect();
        *held = Held { shards, until: Some(until) };
        moved
    }
}

impl Engine {
    /// Renews the lease and takes or gives back shards, for ever.
    pub(crate) async fn share_work(self: Arc<Self>) {
        let Some(sharing) = self.shards.sharing.clone() else { return std::future::pending().await };
        let mut witness = Witness::default();
        let mut failures = 0_u32;
        loop {
            let round = tokio::time::timeout(sharing.lease / 2, self.share(&sharing, &mut witness)).await;
            match round {
                Ok(Ok(())) => failures = 0,
                Ok(Err(error)) => {
                    failures += 1;
                    tracing::warn!(%error, failures, "The lease of this engine cannot be renewed; trying again.");
                }
                Err(_) => failures += 1,
            }
            let pause = if failures == 0 { sharing.lease / 5 } else { sharing.lease / 15 };
            tokio::time::sleep(pause).await;
        }
    }

    async fn share(&self, sharing: &Sharing, witness: &mut Witness) -> Result<(), ClusterError> {
        let me = sharing.id.as_str();
        let sent = Instant::now();
        self.renew(sharing).await?;
        let until = sent + sharing.lease * 2 / 3;
        for _ in 0..SWAPS {
            let (table, version) = self.read_table().await?;
            let leases = self.read_leases(&table).await?;
            let now = Instant::now();
            witness.see(&leases, now);
            let mut living = witness.living(sharing.lease, now);
            living.insert(me.to_owned());
            let share = table.share_of(me, &living);
            let had = table.of(me);
            if share == had && !self.shards.lapsed() {
                self.take(share, until);
                self.bury(&leases, &living, &table).await;
                return Ok(());
            }
            if !had.is_subset(&share) {
                // Whoever works on what is given back stops first: the fence closes, and the looks end.
                let kept: BTreeSet<u16> = had.intersection(&share).copied().collect();
                let given: BTreeSet<u16> = had.difference(&share).copied().collect();
                if !self.shards.lapsed() {
                    self.take(kept, until);
                }
                let idle = |key: &AppKey| given.contains(&shard_of(key));
                while !(self.queue.is_idle(idle) && self.sets.is_idle(idle)) {
                    if sent.elapsed() > sharing.lease / 3 {
                        // Something takes long; it is still ours in the table, and nobody works on it.
                        return Ok(());
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            let next = table.with(me, share.clone());
            if self.swap_table(&next, version).await? {
                tracing::info!(
                    engine = me,
                    shards = share.len(),
                    engines = living.len(),
                    "The Applications are shared anew."
                );
                self.take(share, until);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Holds these from now on, and looks at what moved: to begin with it, or to forget it.
    fn take(&self, shards: BTreeSet<u16>, until: Instant) {
        let moved = self.shards.hold(shards, until);
        if moved.is_empty() {
            return;
        }
        for (keys, queue) in [(self.applications(), &self.queue), (self.application_sets(), &self.sets)] {
            for key in keys.into_iter().filter(|key| moved.contains(&shard_of(key))) {
                queue.add(key, Wake::STATE);
            }
        }
    }

    /// An engine that stops in order leaves at once what others would wait for.
    pub(crate) async fn leave(&self) {
        let Some(sharing) = &self.shards.sharing else { return };
        let gone = async {
            for _ in 0..SWAPS {
                let (table, version) = self.read_table().await?;
                if self.swap_table(&table.without(&sharing.id), version).await? {
                    break;
                }
            }
            self.cluster.delete(&self.lease_key(&sharing.id), None, Propagation::Background, false).await
        };
        if !matches!(tokio::time::timeout(LEAVE_WITHIN, gone).await, Ok(Ok(_))) {
            tracing::warn!(
                "This engine could not give its Applications back; others take them when its lease has run out."
            );
        }
    }

    /// A push was heard here that concerns another engine's Application: it is told as a person would tell it.
    pub(crate) fn hand_on(&self, kind: &'static str, key: &AppKey) {
        if self.shards.is_ours(key) {
            return;
        }
        let annotation = match kind {
            "Application" => json!({names::REFRESH: "normal"}),
            _ => json!({names::APPLICATION_SET_REFRESH: "true"}),
        };
        let target = json!({"apiVersion": names::API_VERSION, "kind": kind,
            "metadata": {"namespace": key.namespace, "name": key.name}});
        let cluster = self.cluster.clone();
        tokio::spawn(async move {
            let patch = json!({"metadata": {"annotations": annotation}});
            if let Err(error) = cluster.merge(&target, &patch, WriteOptions::default()).await {
                tracing::warn!(%error, "A push could not be handed on; the next poll finds it.");
            }
        });
    }

    fn lease_key(&self, engine: &str) -> ObjectKey {
        ObjectKey::new(LEASES, "Lease", &self.config.namespace, &lease_name(engine))
    }

    async fn renew(&self, sharing: &Sharing) -> Result<(), ClusterError> {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let seconds = sharing.lease.as_secs().max(1);
        let spec = json!({"holderIdentity": sharing.id, "renewTime": now, "leaseDurationSeconds": seconds});
        let lease = json!({"apiVersion": format!("{LEASES}/v1"), "kind": "Lease", "spec": spec,
            "metadata": {"namespace": self.config.namespace, "name": lease_name(&sharing.id),
                "labels": {LABEL: "gitops"}}});
        match self.cluster.merge(&lease, &json!({"spec": spec}), WriteOptions::default()).await {
            Err(error) if error.is_not_found() => {
                self.cluster.create(&lease, WriteOptions::default()).await.map(drop)
            }
            answer => answer.map(drop),
        }
    }

    /// The last renewal of every engine that has a lease or stands in the table.
    async fn read_leases(&self, table: &Table) -> Result<BTreeMap<String, String>, ClusterError> {
        let kind = ObjectKey::new(LEASES, "Lease", &self.config.namespace, "");
        let found = self.cluster.list_labelled(&kind, &format!("{LABEL}=gitops")).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut leases: BTreeMap<String, String> =
            table.engines().map(|engine| (engine.clone(), String::new())).collect();
        let read = found.iter().map(|one| &one["spec"]);
        leases.extend(read.map(|spec| (text(&spec["holderIdentity"]), text(&spec["renewTime"]))));
        Ok(leases)
    }

    /// Takes the leases of the dead away, once they hold nothing.
    async fn bury(&self, leases: &BTreeMap<String, String>, living: &BTreeSet<String>, table: &Table) {
        for engine in leases.keys().filter(|engine| !living.contains(*engine)) {
            if table.of(engine).is_empty() {
                let _ =
                    self.cluster.delete(&self.lease_key(engine), None, Propagation::Background, false).await;
            }
        }
    }

    /// The table and its version; no version where there is none yet.
    async fn read_table(&self) -> Result<(Table, Option<Value>), ClusterError> {
        let key = ObjectKey::new("", "ConfigMap", &self.config.namespace, TABLE);
        Ok(match self.cluster.read(&key).await? {
            Some(object) => {
                (Table::parse(&object["data"]), Some(object["metadata"]["resourceVersion"].clone()))
            }
            None => (Table::default(), None),
        })
    }

    /// False: somebody else was faster.
    async fn swap_table(&self, table: &Table, version: Option<Value>) -> Result<bool, ClusterError> {
        // The time makes every swap a change, so that it always makes an older one fail.
        let at = Timestamp::now().to_string();
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": table.data(),
            "metadata": {"namespace": self.config.namespace, "name": TABLE, "labels": {LABEL: "gitops"},
                "annotations": {"slipway.io/swapped-at": at}}});
        let written = match version {
            Some(version) => {
                object["metadata"]["resourceVersion"] = version;
                self.cluster.replace(&object, WriteOptions::default()).await
            }
            None => self.cluster.create(&object, WriteOptions::default()).await,
        };
        match written {
            Ok(_) => Ok(true),
            Err(error) if error.is_conflict() || error.already_exists() || error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn lease_name(engine: &str) -> String {
    format!("slipway-gitops-{engine}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_ours_before_it_was_taken_or_after_the_lease_ran_out() {
        let key = AppKey { namespace: "argocd".into(), name: "shop".into() };
        assert!(Shards::new(None).is_ours(&key));
        let sharing = Sharing { id: "a".into(), lease: Duration::from_secs(15), _lock: None };
        let shards = Arc::new(Shards::new(Some(sharing)));
        assert!(!shards.is_ours(&key) && !shards.gate(&key)());
        let all: BTreeSet<u16> = (0..64).collect();
        assert_eq!(shards.hold(all.clone(), Instant::now() + Duration::from_secs(60)), all);
        assert!(shards.is_ours(&key) && shards.gate(&key)());
        assert!(shards.hold(all.clone(), Instant::now()).is_empty());
        assert!(!shards.is_ours(&key), "the lease ran out");
        let moved = shards.hold(all.clone(), Instant::now() + Duration::from_secs(60));
        assert_eq!(moved, all, "after a gap everything is looked at again");
        assert_eq!(shards.hold([1, 2].into(), Instant::now() + Duration::from_secs(60)).len(), 62);
    }
}
