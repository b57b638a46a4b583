//! Several processes share the objects of one namespace. Names are dealt into 64 shards; a ConfigMap says who holds
//! which, and each process keeps a Lease that says that it lives. A dead one's shards are taken by the others, a
//! living one's never: it gives back what is more than its share when a new one comes.
//!
//! No object is worked on by two at once. The table changes only by compare-and-swap. A process stops writing
//! (the fence around every reconcile) well before others may think it dead: it counts from before its last renewal was
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
use slipway_cluster::{Cluster, ClusterError, Gate, ObjectKey, Propagation, WriteOptions};

use crate::{Key, Shell};
pub use identity::{Sharing, SharingError};
use table::{Table, Witness, shard_of};

const LABEL: &str = "slipway.io/engine";
const TABLE: &str = "slipway-gitops-shards";
const LEASES: &str = "coordination.k8s.io";
/// Tries to swap the table before the next renewal is due.
const SWAPS: usize = 5;
/// How long an engine that stops may take to say so.
const LEAVE_WITHIN: Duration = Duration::from_secs(3);

/// What a process looks after at a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Share {
    /// Its lease has run out, or it has not got any yet.
    #[default]
    Nothing,
    /// Nobody else is there.
    Everything,
    /// Of the parts of `model::share_of`.
    Parts(BTreeSet<u16>),
}

impl Share {
    pub fn holds(&self, key: &Key) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Parts(parts) => parts.contains(&shard_of(key)),
        }
    }
}

/// What this process holds.
pub struct Shards {
    /// None: there is one engine, and everything is its own.
    sharing: Option<Sharing>,
    held: RwLock<Held>,
    /// The reference to [`Sharing::owner`], once it was found.
    owner: tokio::sync::OnceCell<Value>,
}

#[derive(Default)]
struct Held {
    shards: BTreeSet<u16>,
    /// Until then it is certain that nobody else thinks so too.
    until: Option<Instant>,
}

impl Shards {
    pub fn new(sharing: Option<Sharing>) -> Self {
        Self { sharing, held: RwLock::default(), owner: tokio::sync::OnceCell::new() }
    }

    /// True when this engine looks after it.
    pub fn is_ours(&self, key: &Key) -> bool {
        if self.sharing.is_none() {
            return true;
        }
        let held = self.held.read().expect("no panic while locked");
        held.until.is_some_and(|until| Instant::now() < until) && held.shards.contains(&shard_of(key))
    }

    /// What this engine looks after now.
    pub fn share(&self) -> Share {
        if self.sharing.is_none() {
            return Share::Everything;
        }
        let held = self.held.read().expect("no panic while locked");
        // Who was given none yet, as beside one that it takes over from, has nothing to say of anything.
        match held.until.is_some_and(|until| Instant::now() < until) && !held.shards.is_empty() {
            true => Share::Parts(held.shards.clone()),
            false => Share::Nothing,
        }
    }

    /// What this engine is called among those that share; empty: it is alone.
    pub fn replica(&self) -> &str {
        self.sharing.as_ref().map(|sharing| sharing.id.as_str()).unwrap_or_default()
    }

    /// Closes when it is no longer ours.
    pub fn gate(self: &Arc<Self>, key: &Key) -> Gate {
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

/// Keeps the shares of a process up to date.
struct Sharer<'a> {
    shards: &'a Shards,
    sharing: &'a Sharing,
    cluster: &'a Cluster,
    namespace: &'a str,
}

impl Shards {
    fn sharer<'a>(&'a self, cluster: &'a Cluster, namespace: &'a str) -> Option<Sharer<'a>> {
        self.sharing.as_ref().map(|sharing| Sharer { shards: self, sharing, cluster, namespace })
    }

    /// Renews the lease and takes or gives back shards until it is dropped.
    pub async fn renew(&self, cluster: &Cluster, namespace: &str, shell: &Shell) {
        let Some(sharer) = self.sharer(cluster, namespace) else { return std::future::pending().await };
        let lease = sharer.sharing.lease;
        let mut witness = Witness::default();
        let mut failures = 0_u32;
        loop {
            let round = tokio::time::timeout(lease / 2, sharer.share(shell, &mut witness)).await;
            match round {
                Ok(Ok(())) => failures = 0,
                Ok(Err(error)) => {
                    failures += 1;
                    tracing::warn!(%error, failures, "The lease of this engine cannot be renewed; trying again.");
                }
                Err(_) => failures += 1,
            }
            let pause = if failures == 0 { lease / 5 } else { lease / 15 };
            tokio::time::sleep(pause).await;
        }
    }

    /// A process that stops in order releases at once what others would wait for.
    pub async fn release(&self, cluster: &Cluster, namespace: &str) {
        let Some(sharer) = self.sharer(cluster, namespace) else { return };
        if !matches!(tokio::time::timeout(LEAVE_WITHIN, sharer.release()).await, Ok(Ok(()))) {
            tracing::warn!(
                "This engine could not give its Applications back; others take them when its lease has run out."
            );
        }
    }
}

impl Sharer<'_> {
    async fn share(&self, shell: &Shell, witness: &mut Witness) -> Result<(), ClusterError> {
        let (me, lease) = (self.sharing.id.as_str(), self.sharing.lease);
        let sent = Instant::now();
        self.renew().await?;
        let until = sent + lease * 2 / 3;
        for _ in 0..SWAPS {
            let (table, version) = self.read_table().await?;
            let leases = self.read_leases(&table).await?;
            let now = Instant::now();
            witness.see(&leases, now);
            let mut living = witness.living(lease, now);
            living.insert(me.to_owned());
            let share = table.share_of(me, &living);
            let had = table.of(me);
            if share == had && !self.shards.lapsed() {
                self.take(share, until, shell);
                self.remove_dead(&leases, &living, &table).await;
                return Ok(());
            }
            if !had.is_subset(&share) {
                // Whoever works on what is given back stops first: the fence closes, and the reconciles end.
                let kept: BTreeSet<u16> = had.intersection(&share).copied().collect();
                let given: BTreeSet<u16> = had.difference(&share).copied().collect();
                if !self.shards.lapsed() {
                    self.take(kept, until, shell);
                }
                while !shell.is_idle(&|key| given.contains(&shard_of(key))) {
                    if sent.elapsed() > lease / 3 {
                        // A reconcile takes long: the shard is still ours in the table, and nobody else works on it.
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
                self.take(share, until, shell);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Holds these from now on, and wakes what moved: to begin with it, or to forget it.
    fn take(&self, shards: BTreeSet<u16>, until: Instant, shell: &Shell) {
        let moved = self.shards.hold(shards, until);
        if !moved.is_empty() {
            shell.wake_all(&|key| moved.contains(&shard_of(key)));
        }
    }

    async fn release(&self) -> Result<(), ClusterError> {
        for _ in 0..SWAPS {
            let (table, version) = self.read_table().await?;
            // Somebody took it away: there is nothing to give back, and nothing is to be left.
            let Some(version) = version else { break };
            let rest = table.without(&self.sharing.id);
            let released = match version.as_str() {
                // The last one leaves nothing behind. Whoever comes meanwhile has changed the table, and it stays.
                Some(version) if rest.engines().next().is_none() => {
                    self.cluster.delete_unchanged(&self.table_key(), version).await?
                }
                _ => self.swap_table(&rest, Some(version)).await?,
            };
            if released {
                break;
            }
        }
        let lease = self.lease_key(&self.sharing.id);
        self.cluster.delete(&lease, None, Propagation::Background, false).await.map(drop)
    }

    fn table_key(&self) -> ObjectKey {
        ObjectKey::new("", "ConfigMap", self.namespace, TABLE)
    }

    /// What table and lease are owned by, so that they go with it, also when this process has no time or right to clean up.
    async fn owners(&self) -> Vec<Value> {
        let Some(name) = &self.sharing.owner else { return Vec::new() };
        let key = ObjectKey::new("apps", "Deployment", self.namespace, name);
        let found = self.shards.owner.get_or_try_init(|| async {
            let deployment = self.cluster.read(&key).await.ok().flatten().ok_or(())?;
            let uid = &deployment["metadata"]["uid"];
            Ok::<_, ()>(json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid}))
        });
        found.await.ok().cloned().into_iter().collect()
    }

    fn lease_key(&self, engine: &str) -> ObjectKey {
        ObjectKey::new(LEASES, "Lease", self.namespace, &lease_name(engine))
    }

    async fn renew(&self) -> Result<(), ClusterError> {
        let sharing = self.sharing;
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let seconds = sharing.lease.as_secs().max(1);
        let spec = json!({"holderIdentity": sharing.id, "renewTime": now, "leaseDurationSeconds": seconds});
        let lease = json!({"apiVersion": format!("{LEASES}/v1"), "kind": "Lease", "spec": spec,
            "metadata": {"namespace": self.namespace, "name": lease_name(&sharing.id),
                "labels": {LABEL: "gitops"}, "ownerReferences": self.owners().await}});
        match self.cluster.merge(&lease, &json!({"spec": spec}), WriteOptions::default()).await {
            Err(error) if error.is_not_found() => {
                self.cluster.create(&lease, WriteOptions::default()).await.map(drop)
            }
            answer => answer.map(drop),
        }
    }

    /// The last renewal of every engine that has a lease or stands in the table.
    async fn read_leases(&self, table: &Table) -> Result<BTreeMap<String, String>, ClusterError> {
        let kind = ObjectKey::new(LEASES, "Lease", self.namespace, "");
        let found = self.cluster.list_labelled(&kind, &format!("{LABEL}=gitops")).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut leases: BTreeMap<String, String> =
            table.engines().map(|engine| (engine.clone(), String::new())).collect();
        let read = found.iter().map(|one| &one["spec"]);
        leases.extend(read.map(|spec| (text(&spec["holderIdentity"]), text(&spec["renewTime"]))));
        Ok(leases)
    }

    /// Takes the leases of the dead away, once they hold nothing.
    async fn remove_dead(&self, leases: &BTreeMap<String, String>, living: &BTreeSet<String>, table: &Table) {
        for engine in leases.keys().filter(|engine| !living.contains(*engine)) {
            if table.of(engine).is_empty() {
                let _ =
                    self.cluster.delete(&self.lease_key(engine), None, Propagation::Background, false).await;
            }
        }
    }

    /// The table and its version; no version where there is none yet.
    async fn read_table(&self) -> Result<(Table, Option<Value>), ClusterError> {
        Ok(match self.cluster.read(&self.table_key()).await? {
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
            "metadata": {"namespace": self.namespace, "name": TABLE, "labels": {LABEL: "gitops"},
                "annotations": {"slipway.io/swapped-at": at}, "ownerReferences": self.owners().await}});
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
        let key = Key::new(crate::Kind::new("argoproj.io", "Application"), "argocd", "shop");
        assert!(Shards::new(None).is_ours(&key));
        let sharing = Sharing { id: "a".into(), lease: Duration::from_secs(15), owner: None, _lock: None };
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
        assert_eq!(shards.share(), Share::Parts([1, 2].into()));
        shards.hold([].into(), Instant::now() + Duration::from_secs(60));
        assert_eq!(
            shards.share(),
            Share::Nothing,
            "parts of which there are none would be all of them to whoever hears it"
        );
    }
}
