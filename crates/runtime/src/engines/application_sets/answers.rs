//! Answers to what generators ask: clusters from Secrets, trees and files from repositories, and the rest by HTTP. What
//! a set may read at all is decided in `reach`.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use serde_json::Value;
use slipway_cluster::Cluster;
use slipway_crd::{ApplicationSet, names};
use slipway_gitops::appset::{Answer, ClusterEntry, Decisions, IN_CLUSTER_NAME, IN_CLUSTER_SERVER, Need};
use slipway_source::{EntryKind, GitCache, Renderer, Repository, Since};

use super::reach::Reach;
use super::{http, provider};
use crate::context::Context;

/// All files of one question together may have so many bytes.
const FILES_BYTES_MAX: usize = 32 << 20;

/// Who answers what generators ask.
pub(super) struct Answerer {
    pub(super) reach: Reach,
    cluster: Cluster,
    namespace: String,
    renderer: Arc<Renderer>,
}

impl Answerer {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            reach: Reach::new(context),
            cluster: context.cluster().clone(),
            namespace: context.config.namespace.clone(),
            renderer: context.renderer.clone(),
        }
    }

    pub(super) async fn answer(
        &self,
        set: &ApplicationSet,
        need: &Need,
        since: Since,
    ) -> Result<Answer, String> {
        match need {
            Need::GitTree { repo_url, revision } => {
                let repository = self.reach.repository_for(set, repo_url)?;
                tree(self.renderer.git(), &repository, revision, since).await
            }
            Need::GitFiles { repo_url, commit, paths } => {
                let repository = self.reach.repository_for(set, repo_url)?;
                files(self.renderer.git(), &repository, commit, paths).await
            }
            Need::Decisions { config_map, name, label_selector } => {
                self.decisions(set, config_map, name, label_selector).await
            }
            Need::Plugin { config_map, parameters } => {
                let settings = self.reach.plugin_settings(set, config_map).await?;
                http::ask_plugin(&self.reach.egress, &settings, &set.metadata.name, parameters).await
            }
            Need::Repositories { provider } => {
                let question = self.reach.question(set, provider).await?;
                provider::repositories(&question).await.map(Answer::Repositories)
            }
            Need::PullRequests { provider } => {
                let question = self.reach.question(set, provider).await?;
                provider::pull_requests(&question).await
            }
        }
    }

    /// Every cluster that is known, the local one among them even without a Secret.
    pub(super) fn cluster_entries(&self) -> Vec<ClusterEntry> {
        let secrets = self.cluster.live_of_kind("", "Secret");
        let mut entries: Vec<ClusterEntry> = secrets
            .iter()
            .filter(|live| live.key.namespace == self.namespace)
            .filter_map(|live| live.object())
            .filter_map(|secret| cluster_entry(&secret))
            .collect();
        entries.sort_by(|a, b| (&a.name, &a.server).cmp(&(&b.name, &b.server)));
        entries
    }

    async fn decisions(
        &self,
        set: &ApplicationSet,
        config_map: &str,
        name: &str,
        selector: &Value,
    ) -> Result<Answer, String> {
        let data = self.reach.config_map(set, config_map).await?;
        let field = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (field("apiVersion"), field("kind"));
        let Some((group, _)) = api_version.split_once('/').filter(|_| !kind.is_empty()) else {
            return Err(format!(
                "the ConfigMap {config_map} must name apiVersion (group/version) and kind of the decision resource"
            ));
        };
        // Upstream's ConfigMap holds the plural as `kind`; the kind itself is understood too.
        let kinds = self.cluster.discovery();
        let kind = kinds
            .all()
            .find(|resource| {
                resource.group == group && (resource.plural == kind.to_lowercase() || resource.kind == kind)
            })
            .map(|resource| resource.kind.clone())
            .ok_or_else(|| {
                format!("the cluster has no kind {kind} in {api_version}; install its definition")
            })?;
        let labels = |object: &Value| -> BTreeMap<String, String> {
            serde_json::from_value(object["metadata"]["labels"].clone()).unwrap_or_default()
        };
        let mut resources: Vec<Value> = Vec::new();
        for live in self.cluster.live_of_kind(group, &kind) {
            let key = &live.key;
            if key.namespace != set.metadata.namespace || !(name.is_empty() || key.name == name) {
                continue;
            }
            // The copy holds the whole of few things, and decisions are seldom among them.
            let read = self.cluster.read_version(&api_version, key).await;
            let Some(object) =
                read.map_err(|error| format!("{kind} {} cannot be read: {error}", key.name))?
            else {
                continue;
            };
            if !name.is_empty()
                || slipway_gitops::appset::selects(selector, &labels(&object)).unwrap_or(false)
            {
                resources.push(object);
            }
        }
        resources.sort_by_key(|object| object["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        Ok(Answer::Decisions(Decisions {
            status_list_key: field("statusListKey"),
            match_key: field("matchKey"),
            resources,
        }))
    }
}

pub(super) fn decode(value: &Value) -> Option<String> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(value.as_str()?).ok()?;
    String::from_utf8(bytes).ok()
}

/// A Secret with the cluster label.
fn cluster_entry(secret: &Value) -> Option<ClusterEntry> {
    if secret["metadata"]["labels"]["argocd.argoproj.io/secret-type"] != "cluster" {
        return None;
    }
    let field = |name: &str| decode(&secret["data"][name]).unwrap_or_default();
    let map = |name: &str| serde_json::from_value(secret["metadata"][name].clone()).unwrap_or_default();
    let server = field("server");
    let name = match field("name") {
        name if !name.is_empty() => name,
        _ if server == IN_CLUSTER_SERVER => IN_CLUSTER_NAME.to_owned(),
        _ => server.clone(),
    };
    let mut annotations: BTreeMap<String, String> = map("annotations");
    // It holds the credential in clear where somebody used `kubectl apply`.
    annotations.remove(names::LAST_APPLIED);
    Some(ClusterEntry { name, server, project: field("project"), labels: map("labels"), annotations })
}

async fn tree(
    git: &GitCache,
    repository: &Repository,
    revision: &str,
    since: Since,
) -> Result<Answer, String> {
    let commit = git.resolve(repository, revision, since).await.map_err(|error| error.to_string())?;
    let tree = git.tree(repository, &commit, "", true).await.map_err(|error| error.to_string())?;
    let files = tree.entries.into_iter().filter(|(_, entry)| entry.kind != EntryKind::Link);
    Ok(Answer::Tree { commit: commit.sha, paths: files.map(|(path, _)| path).collect() })
}

async fn files(
    git: &GitCache,
    repository: &Repository,
    commit: &str,
    paths: &[String],
) -> Result<Answer, String> {
    // A full commit id never means anything else, however old the answer is.
    let commit = git.resolve(repository, commit, Since::now()).await.map_err(|error| error.to_string())?;
    let mut contents = BTreeMap::new();
    let mut bytes = 0;
    for path in paths {
        let content = git.file(repository, &commit, path).await.map_err(|error| error.to_string())?;
        let Some(content) = content else { continue };
        bytes += content.len();
        if bytes > FILES_BYTES_MAX {
            return Err(format!(
                "the files that the generator names have more than {FILES_BYTES_MAX} bytes; name fewer"
            ));
        }
        contents.insert(path.clone(), String::from_utf8_lossy(&content).into_owned());
    }
    Ok(Answer::Files(contents))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_labelled_secret_is_a_cluster_without_its_credential() {
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let secret = |labels: Value, name: &str, server: &str| {
            json!({"metadata": {"labels": labels, "annotations": {names::LAST_APPLIED: "secret", "a": "b"}},
                "data": {"name": encode(name), "server": encode(server), "config": encode("token")}})
        };
        let label = json!({"argocd.argoproj.io/secret-type": "cluster", "env": "prod"});
        let entry = cluster_entry(&secret(label.clone(), "eu", "https://eu")).expect("a cluster");
        assert_eq!((entry.name.as_str(), entry.server.as_str()), ("eu", "https://eu"));
        assert_eq!(entry.labels["env"], "prod");
        assert_eq!(entry.annotations, BTreeMap::from([("a".to_owned(), "b".to_owned())]));
        assert_eq!(
            cluster_entry(&secret(label, "", IN_CLUSTER_SERVER)).expect("a cluster").name,
            "in-cluster"
        );
        assert!(cluster_entry(&secret(json!({}), "eu", "https://eu")).is_none());
    }
}
