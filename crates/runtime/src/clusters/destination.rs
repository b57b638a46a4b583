//! One cluster that is connected, and what it serves.

use std::sync::{Arc, RwLock};

use slipway_cluster::{Cluster, Discovery};
use slipway_gitops::ClusterInfo;
use slipway_gitops::project::ClusterNames;

/// What a cluster is, for renderers and comparisons.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) kube_version: String,
    pub(crate) api_versions: Vec<String>,
}

/// A cluster that is connected.
pub(crate) struct Destination {
    pub(crate) cluster: Cluster,
    pub(crate) server: String,
    pub(crate) name: String,
    kube_version: String,
    known: RwLock<(Arc<Discovery>, Arc<ClusterInfo>, Arc<Facts>)>,
}

impl Destination {
    pub(crate) fn new(cluster: Cluster, server: &str, name: &str, kube_version: String) -> Self {
        let facts = Facts { kube_version: kube_version.clone(), api_versions: Vec::new() };
        let known = RwLock::new((Arc::default(), Arc::default(), Arc::new(facts)));
        Self { cluster, server: server.to_owned(), name: name.to_owned(), kube_version, known }
    }

    pub(crate) fn names(&self) -> ClusterNames<'_> {
        ClusterNames { server: &self.server, name: &self.name }
    }

    /// What is served, in the planner's words; made anew when discovery was.
    pub(crate) fn info(&self) -> Arc<ClusterInfo> {
        self.served().0
    }

    pub(crate) fn facts(&self) -> Arc<Facts> {
        self.served().1
    }

    fn served(&self) -> (Arc<ClusterInfo>, Arc<Facts>) {
        let discovery = self.cluster.discovery();
        {
            let known = self.known.read().expect("no panic while locked");
            if Arc::ptr_eq(&known.0, &discovery) {
                return (known.1.clone(), known.2.clone());
            }
        }
        let mut info = ClusterInfo::new(discovery.complete);
        let mut api_versions: Vec<String> = Vec::new();
        for resource in discovery.all() {
            info.add(&resource.group, &resource.version, &resource.kind, resource.namespaced);
            api_versions.push(resource.api_version());
            api_versions.push(format!("{}/{}", resource.api_version(), resource.kind));
        }
        api_versions.sort();
        api_versions.dedup();
        let info = Arc::new(info);
        let facts = Arc::new(Facts { kube_version: self.kube_version.clone(), api_versions });
        *self.known.write().expect("no panic while locked") = (discovery, info.clone(), facts.clone());
        (info, facts)
    }
}
