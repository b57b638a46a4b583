//! Kubernetes Events about what engines look after. They are for people: one that cannot be written is dropped, and they
//! are written beside the loops, so that they never slow one down.

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::Cluster;
use tokio::sync::{Mutex, mpsc};

/// Events that wait to be written; what comes beyond is dropped instead of flooding the cluster.
const WAITING_MAX: usize = 1_000;
/// What the API server takes as a message.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// Something that happened to an object.
#[derive(Debug, PartialEq, Eq)]
pub struct Note {
    pub reason: &'static str,
    pub warning: bool,
    pub message: String,
}

pub struct EventWriter {
    sender: mpsc::Sender<Value>,
    waiting: Mutex<mpsc::Receiver<Value>>,
}

impl Default for EventWriter {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        Self { sender, waiting: Mutex::new(receiver) }
    }
}

impl EventWriter {
    /// `about`: apiVersion, kind, and the metadata of the object. `component`: the controller, in the name that users know.
    pub fn record(&self, about: &Value, component: &str, note: &Note) {
        // Full: the oldest are still to be read.
        let _ = self.sender.try_send(event(about, component, note, Timestamp::now()));
    }

    /// Writes events until it is dropped.
    pub async fn run(&self, cluster: &Cluster) {
        let mut waiting = self.waiting.lock().await;
        while let Some(event) = waiting.recv().await {
            if let Err(error) = cluster.post(&event).await {
                tracing::debug!(%error, "An event could not be written.");
            }
        }
    }
}

fn event(about: &Value, component: &str, note: &Note, now: Timestamp) -> Value {
    let metadata = &about["metadata"];
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut message = note.message.clone();
    if let Some((end, _)) = message.char_indices().nth(MESSAGE_CHARS_MAX) {
        message.truncate(end);
    }
    let name = metadata["name"].as_str().unwrap_or_default();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "namespace": metadata["namespace"],
            "name": format!("{name}.{:x}", now.as_nanosecond()),
        },
        "involvedObject": {
            "apiVersion": about["apiVersion"], "kind": about["kind"], "namespace": metadata["namespace"],
            "name": metadata["name"], "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
        },
        "reason": note.reason,
        "message": message,
        "type": if note.warning { "Warning" } else { "Normal" },
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_the_object_and_is_cut_between_letters() {
        let about = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
            "metadata": {"namespace": "n", "name": "web", "uid": "u", "resourceVersion": "7"}});
        let note = Note { reason: "Paused", warning: true, message: "é".repeat(2_000) };
        let event = event(&about, "rollouts-controller", &note, Timestamp::UNIX_EPOCH);
        assert_eq!(event["involvedObject"]["uid"], "u");
        assert_eq!(event["type"], "Warning");
        assert_eq!(event["firstTimestamp"], "1970-01-01T00:00:00Z");
        assert_eq!(event["message"].as_str().map(|text| text.chars().count()), Some(MESSAGE_CHARS_MAX));
    }
}
