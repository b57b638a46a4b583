//! Two controllers on the same Rollouts would undo each other's work: while Argo Rollouts' own one is alive, this one waits.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use slipway_cluster::{Cluster, ClusterError};
use slipway_model::Next;
use slipway_reconcile::Stop;
use tokio::sync::Mutex;

/// The lease of Argo Rollouts' controller, in whatever namespace it runs.
const LEASE: &str = "argo-rollouts-controller-lock";
/// How long an answer counts.
const WITHIN: Duration = Duration::from_secs(30);
/// Leases that are looked at; a cluster has one for each node, and a few.
const LEASES_MAX: usize = 5_000;

#[derive(Default)]
pub(super) struct Guard(Mutex<Option<(Instant, Option<String>)>>);

impl Guard {
    /// Ends the reconcile while somebody else looks after the same Rollouts. With an instance id they are others.
    pub(super) async fn check(&self, cluster: &Cluster, instance_id: &str) -> Result<(), Stop> {
        if !instance_id.is_empty() {
            return Ok(());
        }
        let mut known = self.0.lock().await;
        let fresh = known.as_ref().filter(|(at, _)| at.elapsed() < WITHIN);
        let holder = match fresh {
            Some((_, holder)) => holder.clone(),
            None => {
                let holder = holder(cluster).await?;
                *known = Some((Instant::now(), holder.clone()));
                holder
            }
        };
        match holder {
            None => Ok(()),
            Some(holder) => Err(Stop::failed(
                format!(
                    "the Argo Rollouts controller runs in this cluster (lease {holder}); stop it, or give each an instance id of its own"
                ),
                Next::NeedsHuman,
            )),
        }
    }
}

async fn holder(cluster: &Cluster) -> Result<Option<String>, ClusterError> {
    let discovery = cluster.discovery();
    let Some(resource) = discovery.preferred("coordination.k8s.io", "Lease") else { return Ok(None) };
    let leases = cluster.ask(resource, "", None, LEASES_MAX).await?;
    let now = Timestamp::now();
    let alive = leases["items"].as_array().into_iter().flatten().find(|lease| is_alive(lease, now));
    Ok(alive.map(|lease| {
        let metadata = &lease["metadata"];
        format!("{}/{LEASE}", metadata["namespace"].as_str().unwrap_or_default())
    }))
}

fn is_alive(lease: &Value, now: Timestamp) -> bool {
    let spec = &lease["spec"];
    let renewed: Option<Timestamp> = spec["renewTime"].as_str().and_then(|time| time.parse().ok());
    let seconds = spec["leaseDurationSeconds"].as_i64().unwrap_or(15);
    let held = spec["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty());
    let end = renewed.and_then(|renewed| renewed.checked_add(SignedDuration::from_secs(seconds)).ok());
    lease["metadata"]["name"] == LEASE && held && end.is_some_and(|end| end > now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_lease_counts_while_it_is_renewed() {
        let now: Timestamp = "2026-01-01T00:00:20Z".parse().expect("a time");
        let lease = |renewed: &str, holder: &str| {
            json!({"metadata": {"name": LEASE, "namespace": "argo-rollouts"},
                "spec": {"renewTime": renewed, "leaseDurationSeconds": 15, "holderIdentity": holder}})
        };
        assert!(is_alive(&lease("2026-01-01T00:00:10.000000Z", "a"), now));
        assert!(!is_alive(&lease("2026-01-01T00:00:01.000000Z", "a"), now), "it ran out");
        assert!(!is_alive(&lease("2026-01-01T00:00:10.000000Z", ""), now), "it was given back");
        assert!(!is_alive(&json!({"metadata": {"name": "other"}}), now));
    }
}
