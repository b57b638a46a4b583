//! The image of a container: on this machine, or pulled, or why not.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{BACKOFF_FIRST, BACKOFF_MAX, Worker, field_path, tell};
use crate::api::Cluster;
use crate::node::status::waiting;
use crate::value::Json as _;

impl Worker {
    /// Makes sure that the image is there. The error is how long to wait before the next try.
    pub(super) async fn ensure_image(&mut self, pod: &Value, container: &Value) -> Result<(), Duration> {
        let (name, image) = (container.str_at("name").to_owned(), container.str_at("image").to_owned());
        let policy = container.str_at("imagePullPolicy");
        let local = self.engine.image_id(&image).await;
        if let (Some(id), Some(unit)) = (&local, self.units.get_mut(&name)) {
            unit.image_id.clone_from(id);
        }
        let wants_fresh = policy == "Always" && !image.starts_with("localhost/");
        if local.is_some() && !wants_fresh {
            return Ok(());
        }
        let field = field_path(pod, &name);
        let unit = self.units.get_mut(&name).ok_or(Duration::from_secs(1))?;
        if policy == "Never" {
            let text = format!("Container image \"{image}\" is not present with pull policy of Never");
            unit.state = waiting("ErrImageNeverPull", &text);
            tell(&self.cluster, pod, &field, "Warning", "ErrImageNeverPull", &text).await;
            return Err(Duration::from_secs(10));
        }
        let limit = if local.is_some() { Duration::from_secs(5) } else { Duration::from_secs(600) };
        tell(&self.cluster, pod, &field, "Normal", "Pulling", &format!("Pulling image \"{image}\"")).await;
        let auth = pull_auth(&self.cluster, pod, &self.folder);
        let started = Instant::now();
        match self.engine.pull(&image, auth.as_deref(), limit).await {
            Ok(()) => {
                let text =
                    format!("Successfully pulled image \"{image}\" in {}ms", started.elapsed().as_millis());
                tell(&self.cluster, pod, &field, "Normal", "Pulled", &text).await;
                Ok(())
            }
            Err(why) if local.is_some() => {
                // No registry answers, but the image is on this machine: on one machine that is what was meant.
                let text =
                    format!("Container image \"{image}\" already present on machine (pulling failed: {why})");
                tell(&self.cluster, pod, &field, "Normal", "Pulled", &text).await;
                Ok(())
            }
            Err(why) => {
                let first = unit.pull_backoff.is_zero();
                unit.pull_backoff =
                    if first { BACKOFF_FIRST } else { (unit.pull_backoff * 2).min(BACKOFF_MAX) };
                let text = format!("Failed to pull image \"{image}\": {why}");
                tell(&self.cluster, pod, &field, "Warning", "Failed", &text).await;
                let delay = unit.pull_backoff;
                unit.retry_at = Some(Instant::now() + delay);
                unit.state = waiting("ErrImagePull", &why);
                self.write(pod, None).await;
                if let Some(unit) = self.units.get_mut(&name) {
                    unit.state = waiting(
                        "ImagePullBackOff",
                        &format!("Back-off pulling image \"{image}\": ErrImagePull: {why}"),
                    );
                }
                let text = format!("Back-off pulling image \"{image}\"");
                tell(&self.cluster, pod, &field, "Normal", "BackOff", &text).await;
                Err(delay)
            }
        }
    }
}

/// The pod's image pull secrets as one registry configuration.
fn pull_auth(cluster: &Cluster, pod: &Value, folder: &std::path::Path) -> Option<PathBuf> {
    let mut auths = serde_json::Map::new();
    for reference in pod.list_at("spec.imagePullSecrets") {
        let secret = cluster.get("secrets", pod.namespace(), reference.str_at("name"))?;
        let text = secret["data"].get(".dockerconfigjson").and_then(Value::as_str)?;
        let config: Value = serde_json::from_slice(&crate::value::base64_decode(text)?).ok()?;
        auths.extend(config.map_at("auths").cloned().unwrap_or_default());
    }
    if auths.is_empty() {
        return None;
    }
    let folder = folder.join("pull");
    std::fs::create_dir_all(&folder).ok()?;
    crate::tls::write_private(&folder.join("config.json"), json!({"auths": auths}).to_string()).ok()?;
    Some(folder)
}
