//! Server-side diff: where it is asked for, the API server says by a dry run what an apply would change. One question
//! for each object and version of it; the answers are kept as long as neither the manifest nor the object changes.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use serde_json::Value;
use slipway_cluster::{ClusterError, WriteOptions};
use slipway_crd::Application;
use slipway_gitops::compare::{Comparison, ResourceState};
use slipway_gitops::object::{self, ResourceKey};
use slipway_gitops::{Settings, options};

use super::live::cluster_key;
use super::memory::Memory;
use crate::clusters::Destination;

/// Questions of one Application at once.
const PARALLEL: usize = 8;

/// The server's answers by object; the number stands for the manifest and the live version that it was asked about.
pub(crate) type Answers = HashMap<ResourceKey, (u64, Arc<Value>)>;

/// The comparison as the API server sees it, if the Application or the operator wants that.
pub(crate) async fn judged_by_server(
    app: &Application,
    settings: &Settings,
    destination: &Destination,
    comparison: Comparison,
    memory: &mut Memory,
) -> Comparison {
    let Some(mutations) = options::server_side_diff(app, settings.server_side_diff) else {
        memory.answers.clear();
        return comparison;
    };
    let mut known = std::mem::take(&mut memory.answers);
    let mut asked = Vec::new();
    for resource in comparison.asks_server() {
        let about = question(resource);
        let answer = known.remove(&resource.key).filter(|(of, _)| *of == about);
        asked.push(
            async move {
                match answer {
                    Some(answer) => (resource.key.clone(), Ok(Some(answer))),
                    None => {
                        let found = ask(destination, resource).await;
                        (resource.key.clone(), found.map(|found| found.map(|found| (about, Arc::new(found)))))
                    }
                }
            }
            .boxed(),
        );
    }
    let outcomes: Vec<_> = futures::stream::iter(asked).buffer_unordered(PARALLEL).collect().await;
    let mut problems = BTreeMap::new();
    for (key, outcome) in outcomes {
        match outcome {
            Ok(Some(answer)) => {
                memory.answers.insert(key, answer);
            }
            Ok(None) => {}
            Err(error) => {
                problems.insert(key, error.to_string());
            }
        }
    }
    let answers = memory.answers.iter().map(|(key, (_, answer))| (key.clone(), answer.clone())).collect();
    comparison.judged_by_server(app, &answers, &problems, mutations, jiff::Timestamp::now())
}

fn question(resource: &ResourceState) -> u64 {
    let mut hasher = DefaultHasher::new();
    resource.target.as_ref().map(|target| target.to_string()).hash(&mut hasher);
    for field in ["uid", "resourceVersion"] {
        let value = resource.live.as_ref().map(|live| object::text(live, &["metadata", field]).to_owned());
        value.hash(&mut hasher);
    }
    hasher.finish()
}

/// `None`: our copy of the object is behind the server's; the next look compares.
async fn ask(destination: &Destination, resource: &ResourceState) -> Result<Option<Value>, ClusterError> {
    let (Some(target), Some(live)) = (&resource.target, &resource.live) else { return Ok(None) };
    let options = WriteOptions { dry_run: true, validate: false };
    let answer = destination.cluster.apply(target, options).await?;
    let version = |object: &Value| object::text(object, &["metadata", "resourceVersion"]).to_owned();
    if version(&answer) != version(live) {
        destination.cluster.read(&cluster_key(&resource.key)).await?;
        return Ok(None);
    }
    Ok(Some(answer))
}
