//! `deploy`: manifests of the volume to a cluster that the runner knows, and patience until they are rolled out.
//!
//! In: a kubeconfig, the text of a file or the name of a Deployment with its new image. Out: what was applied, line by
//! line. Applying is declarative, so an attempt that was cut off is simply done again.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_cluster::{Cluster, ClusterConfig, ObjectKey, WriteOptions};

use crate::layout::VOLUME;
use crate::task::{Deploy, Outcome};

const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn deploy(work: &Deploy, place: &Path) -> Result<Outcome, String> {
    // The client reads a file; this one is gone when the step is.
    let scratch = place.join("kubeconfig");
    crate::layout::create_private_dir(&scratch).map_err(|error| error.to_string())?;
    let done = perform(work, &scratch).await;
    let _ = std::fs::remove_dir_all(&scratch);
    done.map(|()| Outcome { members: BTreeMap::new(), ..Outcome::default() })
}

async fn perform(work: &Deploy, scratch: &Path) -> Result<(), String> {
    let kubeconfig = match &work.kubeconfig {
        Some(text) => {
            let file = scratch.join("kubeconfig");
            std::fs::write(&file, text).map_err(|error| error.to_string())?;
            Some(file)
        }
        None => None,
    };
    let cluster = Cluster::connect(ClusterConfig::new(kubeconfig))
        .await
        .map_err(|error| format!("cluster {}: {error}", work.cluster))?;
    let objects = match (&work.file, &work.service) {
        (Some(file), _) => manifests(work, file)?,
        (None, Some(service)) => vec![with_image(&cluster, work, service).await?],
        (None, None) => return Err("the step has neither file_path nor service".to_owned()),
    };
    let until = Instant::now() + Duration::from_millis(work.timeout_ms);
    for object in &objects {
        let key = ObjectKey::of(object);
        let options = WriteOptions { dry_run: false, validate: true };
        cluster.apply(object, options).await.map_err(|error| format!("{key} was not applied: {error}"))?;
        println!("{key} applied");
    }
    for object in &objects {
        rolled_out(&cluster, object, until).await?;
    }
    Ok(())
}

fn manifests(work: &Deploy, file: &Path) -> Result<Vec<Value>, String> {
    let shown = format!("{VOLUME}/{}", file.display());
    let mut text = work.text.clone().ok_or_else(|| format!("{shown} was not read"))?;
    // The template mechanism of deploy files: variables of the build, by name.
    for (name, value) in &work.variables {
        text = text.replace(&format!("{{{{{name}}}}}"), value).replace(&format!("${{{{{name}}}}}"), value);
    }
    let documents = slipway_yaml::load_all_json(&text).map_err(|errors| {
        let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
        format!("{shown}: {}", all.join("; "))
    })?;
    let objects = documents.into_iter().map(|(object, _)| object).filter(|object| !object.is_null());
    Ok(objects
        .map(|mut object| {
            if object["metadata"]["namespace"].is_null() {
                object["metadata"]["namespace"] = json!(work.namespace);
            }
            object
        })
        .collect())
}

/// The Deployment as little as apply needs to know of it: its containers with the new image.
async fn with_image(cluster: &Cluster, work: &Deploy, service: &str) -> Result<Value, String> {
    let key = ObjectKey::new("apps", "Deployment", &work.namespace, service);
    let found = cluster.read(&key).await.map_err(|error| error.to_string())?;
    let found = found.ok_or_else(|| {
        format!(
            "there is no {key} in cluster {}: make it first, or deploy a file with file_path",
            work.cluster
        )
    })?;
    let image = work.image.as_deref().ok_or("the step has no candidate with an image")?;
    let containers = found["spec"]["template"]["spec"]["containers"].as_array().cloned().unwrap_or_default();
    let name = containers
        .first()
        .and_then(|container| container["name"].as_str())
        .ok_or_else(|| format!("{key} has no container"))?;
    println!("{key} gets image {image} in its container {name}");
    Ok(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": service, "namespace": work.namespace},
        "spec": {
            "selector": found["spec"]["selector"],
            "template": {
                "metadata": {"labels": found["spec"]["template"]["metadata"]["labels"]},
                "spec": {"containers": [{"name": name, "image": image}]},
            },
        },
    }))
}

/// Waits for what rolls out; everything else is there when it is applied.
async fn rolled_out(cluster: &Cluster, object: &Value, until: Instant) -> Result<(), String> {
    let key = ObjectKey::of(object);
    if key.group != "apps" || !matches!(key.kind.as_str(), "Deployment" | "StatefulSet" | "DaemonSet") {
        return Ok(());
    }
    loop {
        let why = match cluster.read(&key).await {
            Ok(Some(live)) => match progress(&live) {
                None => {
                    println!("{key} is rolled out");
                    return Ok(());
                }
                Some(why) => why,
            },
            Ok(None) => return Err(format!("{key} was deleted while it rolled out")),
            Err(error) => error.to_string(),
        };
        if Instant::now() > until {
            return Err(format!(
                "{key} is not rolled out: {why}. The step's timeout is over; look at its pods"
            ));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What is still missing.
fn progress(live: &Value) -> Option<String> {
    let number = |path: &str| live.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    if number("/status/observedGeneration") < number("/metadata/generation") {
        return Some("the cluster has not looked at it yet".to_owned());
    }
    let daemons = live["kind"] == "DaemonSet";
    let (wanted, updated, ready) = if daemons {
        (
            number("/status/desiredNumberScheduled"),
            number("/status/updatedNumberScheduled"),
            number("/status/numberAvailable"),
        )
    } else {
        let wanted = live.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
        let ready =
            if live["kind"] == "StatefulSet" { "/status/readyReplicas" } else { "/status/availableReplicas" };
        (wanted, number("/status/updatedReplicas"), number(ready))
    };
    (updated < wanted || ready < wanted)
        .then(|| format!("{updated} of {wanted} pods are new and {ready} of them are ready"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_is_over_when_every_pod_is_new_and_ready() {
        let live = |observed: i64, updated: i64, available: i64| {
            json!({"kind": "Deployment", "metadata": {"generation": 2}, "spec": {"replicas": 2},
                "status": {"observedGeneration": observed, "updatedReplicas": updated, "availableReplicas": available}})
        };
        assert!(progress(&live(1, 2, 2)).is_some());
        assert!(progress(&live(2, 1, 2)).is_some());
        assert!(progress(&live(2, 2, 1)).is_some());
        assert_eq!(progress(&live(2, 2, 2)), None);
    }
}
