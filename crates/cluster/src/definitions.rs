//! The custom resource definitions that the engines need: made when they are not there.

use std::time::Duration;

use serde_json::Value;

use crate::connect::Cluster;
use crate::{ClusterError, ObjectKey, WriteOptions};

/// A definition is served a moment after it was accepted.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(30);

impl Cluster {
    /// Makes the definitions that are missing and waits until the cluster serves them. Definitions that are
    /// there stay as they are: they may be of a newer Argo than we know.
    pub async fn ensure_definitions(&self, definitions: &[Value]) -> Result<(), ClusterError> {
        for definition in definitions {
            if self.read(&ObjectKey::of(definition)).await?.is_some() {
                continue;
            }
            match self.create(definition, WriteOptions::default()).await {
                Ok(_) => {}
                // Somebody else was faster; that is as good.
                Err(error) if error.already_exists() => {}
                Err(error) => return Err(error),
            }
        }
        let deadline = tokio::time::Instant::now() + ESTABLISHED_WITHIN;
        loop {
            let discovery = self.rediscover().await?;
            let missing = definitions.iter().find(|definition| {
                let spec = &definition["spec"];
                let group = spec["group"].as_str().unwrap_or_default();
                let kind = spec["names"]["kind"].as_str().unwrap_or_default();
                discovery.preferred(group, kind).is_none()
            });
            let Some(missing) = missing else { return Ok(()) };
            if tokio::time::Instant::now() > deadline {
                return Err(ClusterError::UnknownKind {
                    api_version: missing["spec"]["group"].as_str().unwrap_or_default().to_owned(),
                    kind: missing["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned(),
                });
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
