//! Two controllers on the same objects would undo each other's work: while upstream's own one is alive, ours waits.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use slipway_cluster::{Cluster, ClusterError};
use slipway_model::Next;
use slipway_reconcile::Stop;
use tokio::sync::Mutex;

/// How long an answer counts.
const WITHIN: Duration = Duration::from_secs(30);

pub(super) struct Guard {
    /// The lease of upstream's controller, in whatever namespace it runs.
    lease: &'static str,
    /// What that is called.
    controller: &'static str,
    known: Mutex<Option<(Instant, Option<String>)>>,
}

impl Guard {
    pub(super) fn new(lease: &'static str, controller: &'static str) -> Self {
        Self { lease, controller, known: Mutex::default() }
    }

    /// Ends the reconcile while somebody else looks after the same objects. With an instance id they are others.
    pub(super) async fn check(&self, cluster: &Cluster, instance_id: &str) -> Result<(), Stop> {
        if !instance_id.is_empty() {
            return Ok(());
        }
        let mut known = self.known.lock().await;
        let fresh = known.as_ref().filter(|(at, _)| at.elapsed() < WITHIN);
        let holder = match fresh {
            Some((_, holder)) => holder.clone(),
            None => {
                let holder = self.holder(cluster).await?;
                *known = Some((Instant::now(), holder.clone()));
                holder
            }
        };
        match holder {
            None => Ok(()),
            Some(holder) => Err(Stop::failed(
                format!(
                    "{} runs in this cluster (lease {holder}); stop it, or give each an instance id of its own",
                    self.controller
                ),
                Next::NeedsHuman,
            )),
        }
    }

    async fn holder(&self, cluster: &Cluster) -> Result<Option<String>, ClusterError> {
        const GROUP: &str = "coordination.k8s.io";
        if cluster.discovery().preferred(GROUP, "Lease").is_none() {
            return Ok(None);
        }
        // By its name: a cluster has a lease for each node, which are renewed all the time.
        let leases = cluster.list_named(GROUP, "Lease", self.lease).await?;
        let now = Timestamp::now();
        let alive = leases.iter().find(|lease| is_alive(lease, now));
        Ok(alive.map(|lease| {
            let metadata = &lease["metadata"];
            format!("{}/{}", metadata["namespace"].as_str().unwrap_or_default(), self.lease)
        }))
    }
}

fn is_alive(lease: &Value, now: Timestamp) -> bool {
    let spec = &lease["spec"];
    let renewed: Option<Timestamp> = spec["renewTime"].as_str().and_then(|time| time.parse().ok());
    let seconds = spec["leaseDurationSeconds"].as_i64().unwrap_or(15);
    let held = spec["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty());
    let end = renewed.and_then(|renewed| renewed.checked_add(SignedDuration::from_secs(seconds)).ok());
    held && end.is_some_and(|end| end > now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_lease_counts_while_it_is_renewed() {
        let now: Timestamp = "2026-01-01T00:00:20Z".parse().expect("a time");
        let lease = |renewed: &str, holder: &str| json!({"spec": {"renewTime": renewed, "leaseDurationSeconds": 15, "holderIdentity": holder}});
        assert!(is_alive(&lease("2026-01-01T00:00:10.000000Z", "a"), now));
        assert!(!is_alive(&lease("2026-01-01T00:00:01.000000Z", "a"), now), "it ran out");
        assert!(!is_alive(&lease("2026-01-01T00:00:10.000000Z", ""), now), "it was given back");
        assert!(!is_alive(&json!({}), now));
    }
}
