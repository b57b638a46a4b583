//! What somebody put into a cluster carries their mark, so that it can be found and taken out again without anything else.
//!
//! Definitions of custom resources are the delicate part: taking one away takes all of its objects with it, so it goes only
//! when there are none left.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_cluster::{Cluster, ObjectKey, Propagation, WriteOptions};

/// Whose it is, on everything that is made.
pub(crate) const MARK: &str = "slipway.io/made-by";
pub(crate) const DEFINITIONS: &str = "apiextensions.k8s.io";
/// For a namespace or a definition to be emptied.
const GONE_WITHIN: Duration = Duration::from_secs(120);

pub(crate) fn marked(object: &mut Value, mark: &str) {
    object["metadata"]["labels"][MARK] = mark.into();
}

pub(crate) fn selector(mark: &str) -> String {
    format!("{MARK}={mark}")
}

/// The mark of an object that is there; none: it is nobody's of ours.
pub(crate) fn mark_of(object: &Value) -> Option<&str> {
    object["metadata"]["labels"][MARK].as_str()
}

/// Makes the definitions that are missing; their names.
pub(crate) async fn make_definitions(cluster: &Cluster, mark: &str) -> anyhow::Result<Vec<String>> {
    let (mut made, mut missing) = (Vec::new(), Vec::new());
    let all = [slipway_crd::manifests(), slipway_crd::rollout_manifests(), slipway_crd::workflow_manifests()];
    for mut definition in all.into_iter().flatten() {
        if cluster.read(&ObjectKey::of(&definition)).await?.is_none() {
            made.push(definition["metadata"]["name"].as_str().unwrap_or_default().to_owned());
            marked(&mut definition, mark);
            missing.push(definition);
        }
    }
    cluster.ensure_definitions(&missing).await?;
    Ok(made)
}

/// Makes the namespace if it is not there; `true`: it was made.
pub(crate) async fn make_namespace(
    cluster: &Cluster,
    name: &str,
    labels: &Value,
    mark: &str,
) -> anyhow::Result<bool> {
    let mut place =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    if cluster.read(&ObjectKey::of(&place)).await?.is_some() {
        return Ok(false);
    }
    marked(&mut place, mark);
    match cluster.create(&place, WriteOptions::default()).await {
        Err(error) if !error.already_exists() => Err(error.into()),
        made => Ok(made.is_ok()),
    }
}

/// Takes away those definitions of ours of which nobody has objects; `told` hears of each.
pub(crate) async fn remove_definitions(
    cluster: &Cluster,
    mark: &str,
    mut told: impl FnMut(String),
) -> anyhow::Result<()> {
    let kind = ObjectKey::new(DEFINITIONS, "CustomResourceDefinition", "", "");
    // One that stays keeps its mark: whoever comes back and leaves again takes it along then.
    for definition in cluster.list_labelled(&kind, &selector(mark)).await? {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let spec = &definition["spec"];
        let of = ObjectKey::new(
            spec["group"].as_str().unwrap_or_default(),
            spec["names"]["kind"].as_str().unwrap_or_default(),
            "",
            "",
        );
        let left = match cluster.discovery().preferred(&of.group, &of.kind) {
            Some(_) => cluster.list_labelled(&of, "").await?.len(),
            None => 0,
        };
        if left > 0 {
            told(format!("definition {name} stays: the cluster has {left} objects of it"));
            continue;
        }
        let key = ObjectKey::new(DEFINITIONS, "CustomResourceDefinition", "", &name);
        cluster.delete(&key, None, Propagation::Background, false).await?;
        until_gone(cluster, &key).await?;
        told(format!("definition {name} removed"));
    }
    Ok(())
}

pub(crate) async fn until_gone(cluster: &Cluster, key: &ObjectKey) -> anyhow::Result<()> {
    let end = Instant::now() + GONE_WITHIN;
    while cluster.read(key).await?.is_some() {
        anyhow::ensure!(
            Instant::now() < end,
            "{key} is not gone after {} s: `kubectl describe` says what it waits for; then run this again",
            GONE_WITHIN.as_secs()
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// Deletes objects of a kind without what their finalizers would do: nobody is there to do it, and what was deployed stays.
pub(crate) async fn let_go(
    cluster: &Cluster,
    kind: &ObjectKey,
    selector: &str,
    mut told: impl FnMut(String),
) -> anyhow::Result<()> {
    let discovery = cluster.discovery();
    let Some(api_version) = discovery.preferred(&kind.group, &kind.kind).map(|found| found.api_version())
    else {
        return Ok(());
    };
    for object in cluster.list_labelled(kind, selector).await? {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        let key = ObjectKey::new(&kind.group, &kind.kind, namespace, name);
        if metadata["finalizers"].as_array().is_some_and(|all| !all.is_empty()) {
            let target = json!({"apiVersion": api_version, "kind": kind.kind,
                "metadata": {"namespace": namespace, "name": name}});
            let none = json!({"metadata": {"finalizers": null}});
            match cluster.merge(&target, &none, WriteOptions::default()).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        if cluster.delete(&key, None, Propagation::Orphan, false).await? {
            told(format!("{key} removed"));
        }
    }
    Ok(())
}

/// Two engines would change the same Applications by turns: who looks after those of a namespace already, in words.
pub(crate) async fn other_engine(
    cluster: &Cluster,
    namespace: &str,
    mark: &str,
) -> anyhow::Result<Option<String>> {
    let Some(place) = cluster.read(&ObjectKey::new("", "Namespace", "", namespace)).await? else {
        return Ok(None);
    };
    if !place["metadata"]["deletionTimestamp"].is_null() {
        return Ok(Some(format!("namespace {namespace} is being deleted: wait until it is gone")));
    }
    if let Some(known) = mark_of(&place).filter(|known| *known != mark) {
        let who = if known.starts_with("up-") {
            "another `slipway up`"
        } else {
            "another `slipway runtime install`"
        };
        return Ok(Some(format!("{who} uses namespace {namespace} of this cluster")));
    }
    for (kind, label, who) in [
        (
            "StatefulSet",
            "app.kubernetes.io/name=argocd-application-controller",
            "Argo CD's application controller",
        ),
        (
            "Deployment",
            "app.kubernetes.io/name=argocd-application-controller",
            "Argo CD's application controller",
        ),
        ("Deployment", RUNTIMES, "a runtime of Slipway"),
    ] {
        let found = cluster.list_labelled(&ObjectKey::new("apps", kind, namespace, ""), label).await?;
        if found.iter().any(|one| one["spec"]["replicas"] != 0 && mark_of(one) != Some(mark)) {
            return Ok(Some(format!(
                "{who} runs in namespace {namespace} of this cluster, and two of them would change the same Applications"
            )));
        }
    }
    Ok(None)
}

/// Deployments of runtimes, by whichever way they were installed.
pub(crate) const RUNTIMES: &str = "app.kubernetes.io/name=slipway,app.kubernetes.io/component=runtime";
