//! The objects of a revision: applied, what is no longer among them taken away, and waited for.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;
use slipway_api::Client;
use slipway_api::runtime::RuntimeDetail;
use slipway_cluster::{Cluster, ObjectKey, Propagation, WriteOptions};

use super::progress::Progress;
use super::state::Site;
use crate::cli::nouns::part;
use crate::kube::marks;

/// Kinds that the chart can make, the workload first: whoever takes them away stops it before its rights go.
pub(super) const KINDS: [(&str, &str); 14] = [
    ("apps", "Deployment"),
    ("policy", "PodDisruptionBudget"),
    ("networking.k8s.io", "Ingress"),
    ("gateway.networking.k8s.io", "HTTPRoute"),
    ("monitoring.coreos.com", "ServiceMonitor"),
    ("", "Service"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("", "ServiceAccount"),
    ("", "ConfigMap"),
    ("", "Secret"),
];

/// What is there of this installation: keys of everything that has its mark.
pub(super) async fn there(cluster: &Cluster, site: &Site) -> anyhow::Result<Vec<ObjectKey>> {
    let selector = marks::selector(&site.mark());
    let mut found = Vec::new();
    for (group, kind) in KINDS {
        let discovery = cluster.discovery();
        let Some(resource) = discovery.preferred(group, kind) else { continue };
        let namespace = if resource.namespaced { site.namespace.as_str() } else { "" };
        for object in cluster.list_labelled(&ObjectKey::new(group, kind, namespace, ""), &selector).await? {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            found.push(ObjectKey::new(group, kind, namespace, name));
        }
    }
    Ok(found)
}

/// Applies all, then takes away what earlier revisions had and this one has not. How many were applied and taken away.
pub(super) async fn objects(
    cluster: &Cluster,
    site: &Site,
    objects: &[Value],
) -> anyhow::Result<(usize, usize)> {
    let options = WriteOptions { dry_run: false, validate: true };
    let mut wanted = BTreeSet::from([site.record().to_string(), site.token_secret().to_string()]);
    for object in objects {
        let mut object = object.clone();
        marks::marked(&mut object, &site.mark());
        let key = ObjectKey::of(&object);
        wanted.insert(key.to_string());
        cluster.apply(&object, options).await.with_context(|| format!("{key} was not applied"))?;
    }
    let mut removed = 0;
    for key in there(cluster, site).await? {
        if !wanted.contains(&key.to_string()) {
            removed += usize::from(cluster.delete(&key, None, Propagation::Background, false).await?);
        }
    }
    Ok((objects.len(), removed))
}

/// Until the pods of this revision run and the platform hears of the runtime.
pub(super) async fn online(
    cluster: &Cluster,
    site: &Site,
    client: &Client,
    within: Duration,
    progress: &Progress,
) -> anyhow::Result<()> {
    let end = Instant::now() + within;
    let mut said = String::new();
    loop {
        let waiting = match rolled_out(cluster, site).await? {
            None => match connected(client, site).await {
                None => return Ok(()),
                Some(why) => why,
            },
            Some(why) => why,
        };
        if waiting != said {
            progress.waits("online", &waiting);
            said.clone_from(&waiting);
        }
        if Instant::now() > end {
            bail!(
                "the runtime is not online after {} s: {waiting}. `slipway runtime logs {}` and `slipway runtime doctor {}` say more; run this again to go on waiting, or `slipway runtime uninstall {}` to take it back",
                within.as_secs(),
                site.name,
                site.name,
                site.name
            );
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Why the Deployment is not there yet; none: it is.
pub(super) async fn rolled_out(cluster: &Cluster, site: &Site) -> anyhow::Result<Option<String>> {
    let Some(deployment) = cluster.read(&site.deployment()).await? else {
        return Ok(Some("there is no Deployment".to_owned()));
    };
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let (status, wanted) = (&deployment["status"], number(&deployment["spec"]["replicas"]));
    let seen = number(&status["observedGeneration"]) >= number(&deployment["metadata"]["generation"]);
    let current = number(&status["updatedReplicas"]) == wanted && number(&status["replicas"]) == wanted;
    if seen && current && number(&status["availableReplicas"]) == wanted {
        return Ok(None);
    }
    let ready = number(&status["availableReplicas"]);
    Ok(Some(match stuck(cluster, site).await? {
        Some(why) => format!("{ready} of {wanted} pods are ready; {why}"),
        None => format!("{ready} of {wanted} pods are ready"),
    }))
}

/// Why a pod does not start, as Kubernetes says it.
async fn stuck(cluster: &Cluster, site: &Site) -> anyhow::Result<Option<String>> {
    for pod in pods(cluster, site).await? {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        for container in pod["status"]["containerStatuses"].as_array().into_iter().flatten() {
            let waiting = &container["state"]["waiting"];
            if let Some(reason) = waiting["reason"].as_str().filter(|reason| *reason != "ContainerCreating") {
                let message = waiting["message"].as_str().unwrap_or_default();
                return Ok(Some(format!("pod {name}: {reason} {message}").trim_end().to_owned()));
            }
        }
        for condition in pod["status"]["conditions"].as_array().into_iter().flatten() {
            if condition["type"] == "PodScheduled" && condition["status"] == "False" {
                let message = condition["message"].as_str().unwrap_or_default();
                return Ok(Some(format!("pod {name} is not scheduled: {message}")));
            }
        }
    }
    Ok(None)
}

pub(super) async fn pods(cluster: &Cluster, site: &Site) -> anyhow::Result<Vec<Value>> {
    let selector = format!("{},app.kubernetes.io/instance={}", marks::RUNTIMES, site.name);
    Ok(cluster.list_labelled(&ObjectKey::new("", "Pod", &site.namespace, ""), &selector).await?)
}

/// Why the platform does not know it to be online; none: it does.
async fn connected(client: &Client, site: &Site) -> Option<String> {
    let asked = client.get::<RuntimeDetail>(&format!("/api/runtimes/{}", part(&site.name))).await;
    match asked {
        Err(error) => Some(format!("the platform does not answer ({error})")),
        Ok(detail) if !detail.runtime.online => {
            Some(format!("the platform has it as {}", detail.runtime.state))
        }
        Ok(detail) if detail.runtime.access_mode == "tunnel" && detail.runtime.tunnels == 0 => {
            Some("its tunnel is not open yet".to_owned())
        }
        Ok(_) => None,
    }
}
