//! Calls of `http` templates: made beside the reconciles, with the egress rules of the runtime; an answer wakes the workflow.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Map, Value};
use slipway_cluster::{Cluster, ObjectKey};
use slipway_crd::workflow::{Http, WorkflowStatus};
use slipway_net::{Client, Limits, Request, Rules, Settings, Trust};
use slipway_reconcile::{Key, Task, Wake};
use slipway_workflow::plan::{Action, Answer, is_completed};
use tokio::sync::Semaphore;

/// All workflows together.
const TOGETHER: usize = 64;
/// Whoever asks keeps one of them so long at most.
const SECONDS_MAX: u64 = 3600;
/// A body is a result, which is a part of the Workflow.
const BODY_MAX: u64 = 256 << 10;
const HIDDEN: &str = "*****";

type Outcome = Result<Answer, String>;

#[derive(Clone)]
pub(super) struct Calls(Arc<Inner>);

struct Inner {
    cluster: Cluster,
    egress: Rules,
    task: Arc<Task>,
    slots: Semaphore,
    known: Mutex<HashMap<Key, Called>>,
}

/// Of one workflow: its uid, and its calls by their nodes; `None`: under way.
#[derive(Default)]
struct Called {
    uid: String,
    nodes: HashMap<String, Option<Outcome>>,
}

impl Calls {
    pub(super) fn new(cluster: Cluster, egress: Rules, task: Arc<Task>) -> Self {
        let slots = Semaphore::new(TOGETHER);
        Self(Arc::new(Inner { cluster, egress, task, slots, known: Mutex::default() }))
    }

    /// What has come back.
    pub(super) fn answers(&self, key: &Key, uid: &str) -> BTreeMap<String, Outcome> {
        let known = self.0.known.lock().expect("no panic while locked");
        let called = known.get(key).filter(|called| called.uid == uid);
        let nodes = called.into_iter().flat_map(|called| &called.nodes);
        nodes.filter_map(|(node, outcome)| Some((node.clone(), outcome.clone()?))).collect()
    }

    /// Begins what is not under way, and forgets what is written down. After the status was written.
    pub(super) fn go_on(&self, key: &Key, uid: &str, actions: &[Action], status: &WorkflowStatus) {
        let mut known = self.0.known.lock().expect("no panic while locked");
        if let Some(called) = known.get_mut(key) {
            called.nodes.retain(|node, _| status.nodes.get(node).is_some_and(|node| !is_completed(node)));
            if called.nodes.is_empty() || called.uid != uid {
                known.remove(key);
            }
        }
        for action in actions {
            let Action::Call { node, http } = action else { continue };
            let called = known.entry(key.clone()).or_default();
            uid.clone_into(&mut called.uid);
            if called.nodes.contains_key(node) {
                continue;
            }
            called.nodes.insert(node.clone(), None);
            let (calls, key, node, http) = (self.clone(), key.clone(), node.clone(), http.clone());
            let uid = uid.to_owned();
            tokio::spawn(async move {
                let outcome = calls.ask(&key.namespace, &http).await;
                calls.came_back(&key, &uid, &node, outcome);
            });
        }
    }

    pub(super) fn forget(&self, key: &Key) {
        self.0.known.lock().expect("no panic while locked").remove(key);
    }

    fn came_back(&self, key: &Key, uid: &str, node: &str, outcome: Outcome) {
        let mut known = self.0.known.lock().expect("no panic while locked");
        // Nobody waits for it any more; another workflow of the same name has nodes of the same names.
        let called = known.get_mut(key).filter(|called| called.uid == uid);
        let Some(place) = called.and_then(|called| called.nodes.get_mut(node)) else { return };
        *place = Some(outcome);
        drop(known);
        self.0.task.wake(key.clone(), Wake::STATE);
    }

    async fn ask(&self, namespace: &str, http: &Http) -> Outcome {
        let _slot = self.0.slots.acquire().await.map_err(|error| error.to_string())?;
        let (headers, hidden) = self.headers(namespace, http).await?;
        let seconds = http.timeout_seconds.filter(|seconds| *seconds > 0).unwrap_or(30);
        let limits = Limits {
            whole: Duration::from_secs(u64::try_from(seconds).unwrap_or(30).min(SECONDS_MAX)),
            bytes: BODY_MAX,
            redirects: 10,
            ..Limits::default()
        };
        let trust = Trust { insecure: http.insecure_skip_verify, ..Trust::default() };
        let settings = Settings { rules: self.0.egress.clone(), limits, trust, ..Settings::default() };
        let client = Client::new(settings).map_err(|error| error.to_string())?;
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let request = Request {
            method: if http.method.is_empty() { "GET" } else { &http.method },
            url: &http.url,
            secrets: &headers,
            body: Some(http.body.as_bytes()).filter(|body| !body.is_empty()),
            ..Request::default()
        };
        let answer = client.send(request).await.map_err(|error| without(&error.to_string(), &hidden))?;
        let mut all = Map::new();
        for (name, value) in &answer.headers {
            let value = without(value.to_str().unwrap_or_default(), &hidden);
            let values = all.entry(name.as_str()).or_insert_with(|| Value::Array(Vec::new()));
            values.as_array_mut().expect("made just now").push(value.into());
        }
        let body = without(&String::from_utf8_lossy(&answer.body), &hidden);
        Ok(Answer { status: answer.status, headers: Value::Object(all), body })
    }

    /// Values of Secrets of the workflow's own namespace, which any pod there may mount as well.
    async fn headers(
        &self,
        namespace: &str,
        http: &Http,
    ) -> Result<(Vec<(String, String)>, Vec<String>), String> {
        let (mut headers, mut hidden) = (Vec::new(), Vec::new());
        for header in &http.headers {
            let name = header["name"].as_str().unwrap_or_default().to_owned();
            let reference = &header["valueFrom"]["secretKeyRef"];
            if reference.is_null() {
                headers.push((name, header["value"].as_str().unwrap_or_default().to_owned()));
                continue;
            }
            let (secret, key) = (
                reference["name"].as_str().unwrap_or_default(),
                reference["key"].as_str().unwrap_or_default(),
            );
            let object = ObjectKey::new("", "Secret", namespace, secret);
            let found =
                self.0.cluster.read_version("v1", &object).await.map_err(|error| error.to_string())?;
            let value = found.as_ref().and_then(|found| found["data"][key].as_str());
            let value = value.and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok());
            let value = value.and_then(|bytes| String::from_utf8(bytes).ok());
            let value = value.ok_or_else(|| format!("secret '{secret}' has no key '{key}'"))?;
            hidden.push(value.trim().to_owned());
            headers.push((name, value.trim().to_owned()));
        }
        Ok((headers, hidden))
    }
}

/// Whoever is asked may say what he was asked with.
fn without(text: &str, hidden: &[String]) -> String {
    let long = hidden.iter().filter(|value| value.len() > 2);
    long.fold(text.to_owned(), |text, value| text.replace(value.as_str(), HIDDEN))
}
