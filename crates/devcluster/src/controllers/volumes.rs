//! Persistent volumes as folders under the cluster's data.

use serde_json::{Value, json};
use slipway_dialect::quantity;

use super::{Again, MANAGER, pods, record};
use crate::api::{Caller, Cluster, DeleteOptions};
use crate::error::{ApiError, ApiResult};
use crate::value::Json as _;

const CLAIMS: &str = "persistentvolumeclaims";
const VOLUMES: &str = "persistentvolumes";
const PROVISIONER: &str = "slipway.io/local-folder";
const COMPONENT: &str = "persistentvolume-controller";

/// A volume wakes the claim it is bound to, and otherwise every claim that still waits.
pub(super) fn of_volume(cluster: &Cluster, volume: &Value) -> Vec<(String, String)> {
    let claim = volume.at("spec.claimRef");
    if let Some(claim) = claim {
        return vec![(claim.str_at("namespace").to_owned(), claim.str_at("name").to_owned())];
    }
    let waiting = cluster.list(CLAIMS, None);
    waiting
        .iter()
        .filter(|c| c.str_at("spec.volumeName").is_empty())
        .map(|c| (c.namespace().to_owned(), c.name().to_owned()))
        .collect()
}

pub(super) async fn reconcile(cluster: &Cluster, namespace: &str, name: &str) -> ApiResult<Again> {
    let Some(claim) = cluster.get(CLAIMS, namespace, name) else {
        return release(cluster, namespace, name).await.map(|()| None);
    };
    if pods::is_deleting(&claim) {
        return Ok(None);
    }
    let volume = match claim.str_at("spec.volumeName") {
        "" => match find_volume(cluster, &claim) {
            Some(volume) => Some(volume),
            None => provision(cluster, &claim).await?,
        },
        bound => cluster.get(VOLUMES, "", bound),
    };
    let Some(volume) = volume else { return Ok(None) };
    bind(cluster, &claim, &volume).await?;
    Ok(None)
}

fn find_volume(cluster: &Cluster, claim: &Value) -> Option<Value> {
    let asked = claim.at("spec.resources.requests.storage").and_then(quantity::amount).unwrap_or(0.0);
    cluster.list(VOLUMES, None).into_iter().find(|volume| {
        let reserved = volume.at("spec.claimRef");
        let mine = reserved
            .is_some_and(|c| c.str_at("namespace") == claim.namespace() && c.str_at("name") == claim.name());
        let size = volume.at("spec.capacity.storage").and_then(quantity::amount).unwrap_or(0.0);
        let modes =
            claim.list_at("spec.accessModes").iter().all(|m| volume.list_at("spec.accessModes").contains(m));
        let class = volume.str_at("spec.storageClassName") == claim.str_at("spec.storageClassName");
        mine || (reserved.is_none() && size >= asked && modes && class)
    })
}

async fn provision(cluster: &Cluster, claim: &Value) -> ApiResult<Option<Value>> {
    let class_name = claim.str_at("spec.storageClassName");
    let class = cluster.get("storage.k8s.io/storageclasses", "", class_name);
    let Some(class) = class.filter(|c| c.str_at("provisioner") == PROVISIONER) else {
        let text = if class_name.is_empty() {
            "no persistent volumes available for this claim and no storage class is set".to_owned()
        } else {
            format!(
                "storageclass.storage.k8s.io \"{class_name}\" is not one of this cluster; use local-folder"
            )
        };
        record(cluster, claim, "Warning", "ProvisioningFailed", &text, COMPONENT).await;
        return Ok(None);
    };
    let name = format!("pvc-{}", claim.uid());
    let folder = cluster.data.join("volumes").join(&name);
    crate::node::open_folders(&folder).map_err(|e| {
        ApiError::new(500, "InternalError", format!("{} cannot be made: {e}", folder.display()))
    })?;
    let volume = json!({
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {
            "capacity": {"storage": claim.at("spec.resources.requests.storage").cloned().unwrap_or(json!("1Gi"))},
            "accessModes": claim["spec"]["accessModes"], "storageClassName": class_name,
            "persistentVolumeReclaimPolicy": class.at("reclaimPolicy").cloned().unwrap_or(json!("Delete")),
            "volumeMode": claim["spec"]["volumeMode"],
            "hostPath": {"path": folder.display().to_string(), "type": "DirectoryOrCreate"},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace(), "name": claim.name(), "uid": claim.uid()},
        },
    });
    let mut caller = Caller::internal(MANAGER);
    match cluster.create(&cluster.resource(VOLUMES), "", volume, &mut caller).await {
        Ok(volume) => {
            record(
                cluster,
                claim,
                "Normal",
                "ProvisioningSucceeded",
                &format!("Successfully provisioned volume {name}"),
                PROVISIONER,
            )
            .await;
            Ok(Some(volume))
        }
        Err(ApiError { reason: "AlreadyExists", .. }) => Ok(cluster.get(VOLUMES, "", &name)),
        Err(error) => Err(error),
    }
}

async fn bind(cluster: &Cluster, claim: &Value, volume: &Value) -> ApiResult<()> {
    let reference = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace(), "name": claim.name(), "uid": claim.uid()});
    if volume.str_at("spec.claimRef.uid") != claim.uid() {
        cluster
            .modify(VOLUMES, "", volume.name(), "", MANAGER, |v| v.set_at("spec.claimRef", reference))
            .await?;
    }
    if volume.str_at("status.phase") != "Bound" {
        cluster
            .modify(VOLUMES, "", volume.name(), "status", MANAGER, |v| {
                v.set_at("status", json!({"phase": "Bound"}))
            })
            .await?;
    }
    let name = volume.name().to_owned();
    if claim.str_at("spec.volumeName") != name {
        cluster
            .modify(CLAIMS, claim.namespace(), claim.name(), "", MANAGER, |c| {
                c.set_at("spec.volumeName", json!(name))
            })
            .await?;
    }
    let status = json!({"phase": "Bound", "accessModes": volume["spec"]["accessModes"], "capacity": volume["spec"]["capacity"]});
    cluster
        .modify(CLAIMS, claim.namespace(), claim.name(), "status", MANAGER, |c| c.set_at("status", status))
        .await?;
    Ok(())
}

/// The claim is gone: its volume is deleted with the folder, or stays as Released.
async fn release(cluster: &Cluster, namespace: &str, name: &str) -> ApiResult<()> {
    for volume in cluster.list(VOLUMES, None) {
        let Some(claim) = volume.at("spec.claimRef") else { continue };
        if claim.str_at("namespace") != namespace
            || claim.str_at("name") != name
            || claim.str_at("uid").is_empty()
        {
            continue;
        }
        let provisioned = volume
            .map_at("metadata.annotations")
            .is_some_and(|a| a.get("pv.kubernetes.io/provisioned-by") == Some(&json!(PROVISIONER)));
        if volume.str_at("spec.persistentVolumeReclaimPolicy") == "Delete" && provisioned {
            let folder = cluster.data.join("volumes").join(volume.name());
            if folder.exists() {
                std::fs::remove_dir_all(&folder).map_err(|e| {
                    ApiError::new(
                        500,
                        "InternalError",
                        format!("{} cannot be removed: {e}", folder.display()),
                    )
                })?;
            }
            let mut caller = Caller::internal(MANAGER);
            match cluster
                .delete(&cluster.resource(VOLUMES), "", volume.name(), &DeleteOptions::default(), &mut caller)
                .await
            {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        } else if volume.str_at("status.phase") != "Released" {
            cluster
                .modify(VOLUMES, "", volume.name(), "status", MANAGER, |v| {
                    v.set_at("status.phase", json!("Released"))
                })
                .await?;
        }
    }
    Ok(())
}
