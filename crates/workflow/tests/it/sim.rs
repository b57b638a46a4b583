//! A cluster without a cluster: what a plan says is done, pods are as the test says, and time goes on when the test lets it.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_crd::workflow::{NodeStatus, Workflow};
use slipway_workflow::plan::locks::Locks;
use slipway_workflow::plan::{Action, Observed, Plan, Refusal, plan};

pub(crate) const NODE_NAME: &str = "workflows.argoproj.io/node-name";

pub(crate) fn yaml(text: &str) -> Value {
    slipway_yaml::load_all_json(text).expect("YAML").remove(0).0
}

/// What an API server says to a pod; nothing: it is made.
pub(crate) type Says = Box<dyn Fn(&Value) -> Option<Refusal>>;

pub(crate) struct Sim {
    pub(crate) observed: Observed,
    pub(crate) now: Timestamp,
    /// Every pod that was ever made, by its node.
    pub(crate) made: Vec<String>,
    /// What the API server says to a pod.
    pub(crate) says: Says,
    /// When the last plan wants to be called again.
    pub(crate) again: Option<Timestamp>,
}

impl Sim {
    pub(crate) fn new(name: &str, spec: &str) -> Self {
        let object = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
            "metadata": {"name": name, "namespace": "n", "uid": format!("uid-{name}"), "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": yaml(spec),
        });
        let workflow: Workflow = serde_json::from_value(object).expect("a Workflow");
        let observed = Observed {
            workflow,
            executor_image: Some("executor".into()),
            locks: Some(Locks::default()),
            ..Observed::default()
        };
        Self { observed, now: Timestamp::UNIX_EPOCH, made: Vec::new(), says: Box::new(|_| None), again: None }
    }

    /// One reconcile, as the engine does it.
    pub(crate) fn step(&mut self) -> Plan {
        self.observed.refused.clear();
        let mut next = plan(&self.observed, self.now);
        loop {
            let mut refused = Vec::new();
            for action in &next.actions {
                let Action::CreatePod(pod) = action else { continue };
                let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                if self.observed.pods.iter().any(|known| known["metadata"]["name"] == name.as_str()) {
                    continue;
                }
                match (self.says)(pod) {
                    Some(why) => refused.push((name, why)),
                    None => {
                        let node = pod["metadata"]["annotations"][NODE_NAME].as_str().unwrap_or_default();
                        self.made.push(node.to_owned());
                        self.observed.pods.push((**pod).clone());
                    }
                }
            }
            if refused.is_empty() {
                break;
            }
            self.observed.refused.extend(refused);
            next = plan(&self.observed, self.now);
        }
        self.observed.workflow.status = next.status.clone();
        for action in &next.actions {
            match action {
                Action::DeletePod(name) => {
                    self.observed.pods.retain(|pod| pod["metadata"]["name"] != name.as_str());
                }
                Action::Remember { config_map, key, entry } => {
                    let map = self.observed.config_maps.entry(config_map.clone()).or_insert_with(
                        || json!({"metadata": {"labels": {"workflows.argoproj.io/configmap-type": "Cache"}}}),
                    );
                    map["data"][key] = entry.as_str().into();
                }
                _ => {}
            }
        }
        self.again = next.requeue_at;
        next
    }

    pub(crate) fn after(&mut self, seconds: i64) -> Plan {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).expect("a time");
        self.step()
    }

    pub(crate) fn pod(&mut self, node: &str) -> &mut Value {
        let of = |pod: &&mut Value| pod["metadata"]["annotations"][NODE_NAME] == node;
        self.observed.pods.iter_mut().find(of).unwrap_or_else(|| panic!("there is no pod of {node}"))
    }

    pub(crate) fn run(&mut self, node: &str) {
        self.pod(node)["status"] = json!({"phase": "Running", "containerStatuses": [{"name": "main", "ready": true, "state": {"running": {}}}]});
    }

    pub(crate) fn end(&mut self, node: &str, code: i64) {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        self.pod(node)["status"] = json!({"phase": phase, "containerStatuses": [
            {"name": "main", "state": {"terminated": {"exitCode": code, "reason": "Error"}}}]});
    }

    /// Ends every pod that runs, until nothing moves any more.
    pub(crate) fn finish(&mut self) {
        for _ in 0..200 {
            self.step();
            if self.observed.workflow.status.finished_at.is_some() {
                return;
            }
            let open = self
                .observed
                .pods
                .iter()
                .filter(|pod| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")));
            let nodes: Vec<String> = open
                .filter_map(|pod| pod["metadata"]["annotations"][NODE_NAME].as_str().map(str::to_owned))
                .collect();
            nodes.iter().for_each(|node| self.end(node, 0));
        }
        panic!("it does not end: {:#?}", self.observed.workflow.status);
    }

    pub(crate) fn phase(&self) -> (&str, &str) {
        let status = &self.observed.workflow.status;
        (&status.phase, &status.message)
    }

    pub(crate) fn node(&self, name: &str) -> &NodeStatus {
        let mut nodes = self.observed.workflow.status.nodes.values();
        nodes.find(|node| node.name == name).unwrap_or_else(|| panic!("there is no node {name}"))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::to_value(&self.observed.workflow).expect("JSON")
    }
}
