//! What the cluster serves: one aggregated question on a new API server, one per group on an old one.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::ClusterError;
use crate::connect::Cluster;
use crate::key::group_version;

/// One kind in one version, and how to ask for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiResource {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
}

impl ApiResource {
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    pub(crate) fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }
}

/// Everything that is served, as of one moment.
#[derive(Debug, Clone, Default)]
pub struct Discovery {
    /// Group and kind → versions, the preferred one first.
    kinds: BTreeMap<(String, String), Vec<ApiResource>>,
    /// Every group answered. Without it, a kind that is not here may still exist.
    pub complete: bool,
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

impl Discovery {
    /// The preferred version of a kind.
    pub fn preferred(&self, group: &str, kind: &str) -> Option<&ApiResource> {
        self.kinds.get(&(group.to_owned(), kind.to_owned()))?.first()
    }

    pub fn find(&self, api_version: &str, kind: &str) -> Option<&ApiResource> {
        let (group, version) = group_version(api_version);
        let versions = self.kinds.get(&(group.to_owned(), kind.to_owned()))?;
        versions.iter().find(|resource| resource.version == version)
    }

    /// Every kind in every version.
    pub fn all(&self) -> impl Iterator<Item = &ApiResource> {
        self.kinds.values().flatten()
    }

    pub(crate) fn watchable(&self) -> impl Iterator<Item = &ApiResource> {
        self.kinds
            .values()
            .filter_map(|versions| versions.first())
            .filter(|r| r.can("list") && r.can("watch"))
    }

    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    fn add(&mut self, resource: ApiResource) {
        let versions = self.kinds.entry((resource.group.clone(), resource.kind.clone())).or_default();
        if !versions.iter().any(|known| known.version == resource.version) {
            versions.push(resource);
        }
    }

    pub(crate) async fn fetch(cluster: &Cluster) -> Result<Self, ClusterError> {
        let mut discovery = Self { complete: true, ..Self::default() };
        for root in ["/api", "/apis"] {
            let answer = cluster.get_json(root, Some(AGGREGATED)).await?;
            match answer["kind"].as_str() {
                Some("APIGroupDiscoveryList") => discovery.read_aggregated(&answer),
                _ => discovery.read_one_by_one(cluster, root, &answer).await?,
            }
        }
        Ok(discovery)
    }

    fn read_aggregated(&mut self, list: &Value) {
        for item in items(&list["items"]) {
            let group = item["metadata"]["name"].as_str().unwrap_or_default();
            for version in items(&item["versions"]) {
                if version["freshness"].as_str() == Some("Stale") {
                    self.complete = false;
                }
                for resource in items(&version["resources"]) {
                    let kind = resource["responseKind"]["kind"].as_str().unwrap_or_default();
                    if kind.is_empty() {
                        continue;
                    }
                    self.add(ApiResource {
                        group: group.to_owned(),
                        version: text(&version["version"]),
                        kind: kind.to_owned(),
                        plural: text(&resource["resource"]),
                        namespaced: resource["scope"].as_str() == Some("Namespaced"),
                        verbs: items(&resource["verbs"]).iter().map(text).collect(),
                    });
                }
            }
        }
    }

    async fn read_one_by_one(
        &mut self,
        cluster: &Cluster,
        root: &str,
        answer: &Value,
    ) -> Result<(), ClusterError> {
        let mut paths = Vec::new();
        if root == "/api" {
            paths.extend(
                items(&answer["versions"])
                    .iter()
                    .map(|v| (String::new(), text(v), format!("/api/{}", text(v)))),
            );
        }
        for group in items(&answer["groups"]) {
            let preferred = text(&group["preferredVersion"]["version"]);
            let mut versions: Vec<String> =
                items(&group["versions"]).iter().map(|v| text(&v["version"])).collect();
            versions.sort_by_key(|version| *version != preferred);
            for version in versions {
                let name = text(&group["name"]);
                let path = format!("/apis/{name}/{version}");
                paths.push((name, version, path));
            }
        }
        for (group, version, path) in paths {
            // One group whose server is away must not hide all others.
            let Ok(list) = cluster.get_json(&path, None).await else {
                self.complete = false;
                continue;
            };
            for resource in items(&list["resources"]).iter().filter(|r| !text(&r["name"]).contains('/')) {
                self.add(ApiResource {
                    group: group.clone(),
                    version: version.clone(),
                    kind: text(&resource["kind"]),
                    plural: text(&resource["name"]),
                    namespaced: resource["namespaced"].as_bool().unwrap_or(false),
                    verbs: items(&resource["verbs"]).iter().map(text).collect(),
                });
            }
        }
        Ok(())
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_aggregated_answer_is_read_with_its_preferences() {
        let mut discovery = Discovery { complete: true, ..Discovery::default() };
        discovery.read_aggregated(&json!({"items": [{"metadata": {"name": "autoscaling"}, "versions": [
            {"version": "v2", "freshness": "Current", "resources": [
                {"resource": "hpas", "scope": "Namespaced", "responseKind": {"kind": "HPA"}, "verbs": ["list", "watch"]}]},
            {"version": "v1", "freshness": "Stale", "resources": [
                {"resource": "hpas", "scope": "Namespaced", "responseKind": {"kind": "HPA"}, "verbs": ["list"]}]},
        ]}]}));
        assert_eq!(discovery.preferred("autoscaling", "HPA").map(|r| r.version.as_str()), Some("v2"));
        assert!(discovery.find("autoscaling/v1", "HPA").is_some());
        assert!(discovery.find("autoscaling/v3", "HPA").is_none());
        assert_eq!(discovery.watchable().count(), 1);
        assert!(!discovery.complete);
    }
}
