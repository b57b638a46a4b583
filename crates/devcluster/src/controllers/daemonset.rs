//! DaemonSet: one pod on the one node, if its selector fits.

use serde_json::{Value, json};

use super::{Again, pods, scheduler, statefulset};
use crate::api::Cluster;
use crate::bootstrap::NODE;
use crate::error::ApiResult;
use crate::value::Json as _;

const HASH: &str = "controller-revision-hash";

pub(super) async fn reconcile(cluster: &Cluster, namespace: &str, name: &str) -> ApiResult<Again> {
    let Some(set) = cluster.get("apps/daemonsets", namespace, name) else { return Ok(None) };
    let revision = statefulset::revision_of(cluster, &set).await?;
    let hash = revision.strip_prefix(&format!("{name}-")).unwrap_or(&revision).to_owned();
    let all = pods::claim(cluster, &set).await?;
    let fits = cluster.get("nodes", "", NODE).is_some_and(|node| scheduler::fits(&node, &set["spec"]["template"]["spec"]).is_ok());
    let wanted = usize::from(fits);
    let min_ready = set.int_at("spec.minReadySeconds").unwrap_or(0);
    if !pods::is_deleting(&set) {
        for pod in all.iter().filter(|pod| pods::is_finished(pod) && !pods::is_deleting(pod)) {
            pods::delete(cluster, &set, pod).await?;
        }
        let live: Vec<&Value> = all.iter().filter(|pod| !pods::is_finished(pod)).collect();
        if live.is_empty() && wanted == 1 {
            let mut pod = pods::from_template(&set, &set["spec"]["template"], &format!("{name}-"));
            pod["metadata"]["labels"][HASH] = json!(hash);
            pods::create(cluster, &set, pod).await?;
        }
        let outdated = set.str_at("spec.updateStrategy.type") != "OnDelete";
        for pod in live {
            let old = outdated && pod["metadata"]["labels"][HASH] != json!(hash);
            if (old || wanted == 0) && !pods::is_deleting(pod) {
                pods::delete(cluster, &set, pod).await?;
            }
        }
    }
    let live: Vec<Value> =
        cluster.controlled_by("pods", namespace, set.uid()).into_iter().filter(|p| pods::is_active(p)).collect();
    let ready = live.iter().filter(|p| pods::is_ready(p)).count();
    let available = live.iter().filter(|p| pods::available_in(p, min_ready) == Some(0)).count();
    let updated = live.iter().filter(|p| p["metadata"]["labels"][HASH] == json!(hash)).count();
    let mut status = json!({
        "observedGeneration": set["metadata"]["generation"], "desiredNumberScheduled": wanted,
        "currentNumberScheduled": live.len().min(wanted), "numberMisscheduled": 0, "numberReady": ready,
    });
    for (field, count) in [("numberAvailable", available), ("updatedNumberScheduled", updated), ("numberUnavailable", wanted.saturating_sub(available))] {
        if count > 0 {
            status[field] = json!(count);
        }
    }
    pods::write_status(cluster, "apps/daemonsets", &set, status).await?;
    Ok(None)
}
