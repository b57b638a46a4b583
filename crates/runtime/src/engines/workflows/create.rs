//! What a plan creates, some of it at the same time; and what the API server says to it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;
use serde_json::{Value, json};
use slipway_cluster::{ClusterError, ObjectKey, WriteOptions};
use slipway_reconcile::{Key, Stop};
use slipway_workflow::plan::{Action, Observed, Refusal};

use super::Workflows;

/// Objects of one workflow that are created at the same time.
const TOGETHER: usize = 8;
const MAP_TYPE: &str = "workflows.argoproj.io/configmap-type";

/// What became of one object.
enum Outcome {
    Made(Value),
    Refused(Refusal),
}

impl Workflows {
    /// Gives what was made, and what was refused by its name. A server that cannot be reached at all ends the reconcile.
    pub(super) async fn create(
        &self,
        observed: &Observed,
        actions: &[Action],
    ) -> Result<(Vec<Value>, BTreeMap<String, Refusal>), Stop> {
        let uid = observed.workflow.metadata.uid.as_str();
        // Once there is no room nothing more is tried: a thousand refusals help nobody.
        let full = AtomicBool::new(false);
        let objects = actions.iter().filter_map(|action| match action {
            Action::CreatePod(object) | Action::CreateClaim(object) => Some(object.as_ref()),
            _ => None,
        });
        let full = &full;
        let making: Vec<_> =
            objects.map(|object| async move { (object, self.create_one(object, uid, full).await) }).collect();
        let mut making = futures::stream::iter(making).buffer_unordered(TOGETHER);
        let (mut made, mut refused) = (Vec::new(), BTreeMap::new());
        while let Some((object, outcome)) = making.next().await {
            match outcome? {
                Outcome::Made(object) => made.push(object),
                Outcome::Refused(why) => {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    refused.insert(name.to_owned(), why);
                }
            }
        }
        Ok((made, refused))
    }

    async fn create_one(&self, object: &Value, uid: &str, full: &AtomicBool) -> Result<Outcome, Stop> {
        if full.load(Ordering::Relaxed) {
            return Ok(Outcome::Refused(Refusal::ForNow(
                "others of this workflow are refused for now".into(),
            )));
        }
        match self.cluster.create(object, WriteOptions::default()).await {
            Ok(answer) => Ok(Outcome::Made(answer)),
            Err(error) if error.already_exists() => self.found(object, uid).await,
            Err(error) => match judged(&error) {
                Some(refusal) => {
                    if matches!(refusal, Refusal::ForNow(_)) {
                        full.store(true, Ordering::Relaxed);
                    }
                    Ok(Outcome::Refused(refusal))
                }
                None => Err(error.into()),
            },
        }
    }

    /// Made before its node was written down; it is read into the copy, so that the next plan knows it.
    async fn found(&self, object: &Value, uid: &str) -> Result<Outcome, Stop> {
        let key = ObjectKey::of(object);
        let Some(known) = self.cluster.read(&key).await? else {
            return Ok(Outcome::Refused(Refusal::ForNow(format!(
                "another {} of its name was there",
                key.kind
            ))));
        };
        let mut owners = known["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        if !owners.any(|owner| owner["uid"] == uid) {
            return Ok(Outcome::Refused(Refusal::ForGood(format!(
                "there is a {} {} that belongs to somebody else",
                key.kind, key.name
            ))));
        }
        if !known["metadata"]["deletionTimestamp"].is_null() {
            return Ok(Outcome::Refused(Refusal::ForNow(format!(
                "an older {} of its name is being deleted",
                key.kind
            ))));
        }
        Ok(Outcome::Made(known))
    }

    /// Entries of caches. A cache is a help: one that cannot be written to ends nothing.
    pub(super) async fn remember(&self, key: &Key, actions: &[Action]) -> Result<(), Stop> {
        for action in actions {
            let Action::Remember { config_map, key: entry_key, entry } = action else { continue };
            let object = ObjectKey::new("", "ConfigMap", &key.namespace, config_map);
            let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": key.namespace, "name": config_map}});
            let written = match self.cluster.read(&object).await? {
                // Whoever may write a Workflow may not write into any ConfigMap.
                Some(known) if known["metadata"]["labels"][MAP_TYPE] != "Cache" => {
                    tracing::warn!(config_map, namespace = %key.namespace, "A ConfigMap that is no cache is not written to.");
                    continue;
                }
                Some(_) => {
                    let patch = json!({"data": {(entry_key.as_str()): entry}});
                    self.cluster.merge(&map, &patch, WriteOptions::default()).await
                }
                None => {
                    map["metadata"]["labels"][MAP_TYPE] = "Cache".into();
                    map["data"][entry_key.as_str()] = entry.as_str().into();
                    self.cluster.create(&map, WriteOptions::default()).await
                }
            };
            match written {
                Ok(_) => {}
                Err(error) if error.is_fenced() => return Err(error.into()),
                Err(error) => {
                    tracing::warn!(%error, config_map, "What a node left is not kept in its cache.")
                }
            }
        }
        Ok(())
    }
}

/// What an answer means for the one object; `None`: the server could not be asked.
fn judged(error: &ClusterError) -> Option<Refusal> {
    let ClusterError::Refused { code, message, .. } = error else { return None };
    let text = error.to_string();
    match code {
        403 if message.contains("exceeded quota") => Some(Refusal::ForNow(text)),
        409 | 429 | 500.. => Some(Refusal::ForNow(text)),
        _ => Some(Refusal::ForGood(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_refused_for_good_and_what_passes_for_now() {
        let refused = |code, message: &str| {
            judged(&ClusterError::Refused {
                what: "Pod n/x".into(),
                code,
                reason: String::new(),
                message: message.into(),
            })
        };
        for (code, message, for_good) in [
            (422, "Pod \"x\" is invalid: spec.containers[0].image: Required value", true),
            (403, "pods \"x\" is forbidden: exceeded quota: small", false),
            (403, "pods \"x\" is forbidden: User cannot create resource", true),
            (400, "bad", true),
            (429, "later", false),
            (500, "failed calling webhook", false),
        ] {
            let wanted = format!("Pod n/x: {message}");
            let wanted = if for_good { Refusal::ForGood(wanted) } else { Refusal::ForNow(wanted) };
            assert_eq!(refused(code, message), Some(wanted), "{code} {message}");
        }
        assert_eq!(judged(&ClusterError::Deadline { seconds: 1 }), None);
    }
}
