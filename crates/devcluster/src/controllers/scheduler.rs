//! The scheduler of a cluster with one node: a pod fits, or says why not.

use serde_json::{Value, json};

use super::{Again, record, set_condition};
use crate::api::Cluster;
use crate::bootstrap::NODE;
use crate::error::ApiResult;
use crate::value::Json as _;

const COMPONENT: &str = "default-scheduler";

pub(super) async fn reconcile(cluster: &Cluster, namespace: &str, name: &str) -> ApiResult<Again> {
    let Some(pod) = cluster.get("pods", namespace, name) else { return Ok(None) };
    let waiting = pod.str_at("spec.nodeName").is_empty() && pod.at("metadata.deletionTimestamp").is_none();
    if !waiting || !pod.list_at("spec.schedulingGates").is_empty() || pod.str_at("spec.schedulerName") != COMPONENT {
        return Ok(None);
    }
    let verdict = match cluster.node.unavailable() {
        Some(reason) => Err(reason),
        None => match cluster.get("nodes", "", NODE) {
            Some(node) => fits(&node, &pod["spec"]),
            None => return Ok(Some(std::time::Duration::from_millis(100))),
        },
    };
    let condition = match &verdict {
        Ok(()) => json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null}),
        Err(message) => json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message, "lastProbeTime": null}),
    };
    if verdict.is_ok() {
        cluster.modify("pods", namespace, name, "", COMPONENT, |pod| pod.set_at("spec.nodeName", json!(NODE))).await?;
    }
    cluster
        .modify("pods", namespace, name, "status", COMPONENT, |pod| {
            let mut conditions = pod.list_at("status.conditions").to_vec();
            let same = conditions.iter().any(|c| c.str_at("type") == "PodScheduled" && c.str_at("message") == condition.str_at("message") && c.str_at("status") == condition.str_at("status"));
            if !same {
                set_condition(&mut conditions, condition);
                pod.set_at("status.conditions", Value::Array(conditions));
            }
        })
        .await?;
    match verdict {
        Ok(()) => {
            let text = format!("Successfully assigned {namespace}/{name} to {NODE}");
            record(cluster, &pod, "Normal", "Scheduled", &text, COMPONENT).await;
            Ok(None)
        }
        Err(message) => {
            record(cluster, &pod, "Warning", "FailedScheduling", &message, COMPONENT).await;
            Ok(Some(std::time::Duration::from_secs(10)))
        }
    }
}

/// Can this node take such a pod? Only what a single node can be wrong about: selectors, taints, cordons.
pub(super) fn fits(node: &Value, spec: &Value) -> Result<(), String> {
    let labels = node.map_at("metadata.labels").cloned().unwrap_or_default();
    let selected = spec.map_at("nodeSelector").into_iter().flatten().all(|(k, v)| labels.get(k) == Some(v));
    let affinity = spec.list_at("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    let has = |expression: &Value| {
        let have = labels.get(expression.str_at("key")).and_then(Value::as_str);
        let values = expression.list_at("values");
        let listed = have.is_some_and(|v| values.iter().any(|w| w == v));
        let number = |text: Option<&str>| text.and_then(|t| t.parse::<i64>().ok());
        match expression.str_at("operator") {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => have.is_some(),
            "DoesNotExist" => have.is_none(),
            "Gt" => number(have) > number(values.first().and_then(Value::as_str)) && have.is_some(),
            "Lt" => have.is_some() && number(have) < number(values.first().and_then(Value::as_str)),
            _ => false,
        }
    };
    let affine = affinity.is_empty() || affinity.iter().any(|term| term.list_at("matchExpressions").iter().all(has));
    if !selected || !affine {
        return Err("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.".to_owned());
    }
    if node.bool_at("spec.unschedulable") {
        return Err("0/1 nodes are available: 1 node(s) were unschedulable.".to_owned());
    }
    for taint in node.list_at("spec.taints").iter().filter(|t| t.str_at("effect") != "PreferNoSchedule") {
        let tolerated = spec.list_at("tolerations").iter().any(|t| {
            let key = t.str_at("key").is_empty() || t.str_at("key") == taint.str_at("key");
            let effect = t.str_at("effect").is_empty() || t.str_at("effect") == taint.str_at("effect");
            key && effect && (t.str_at("operator") == "Exists" || t.str_at("value") == taint.str_at("value"))
        });
        if !tolerated {
            let text = format!("{}: {}", taint.str_at("key"), taint.str_at("value"));
            return Err(format!("0/1 nodes are available: 1 node(s) had untolerated taint {{{text}}}."));
        }
    }
    Ok(())
}
