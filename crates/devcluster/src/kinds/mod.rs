//! Which resources are served: the built-in table and the CRDs of the moment.
//!
//! Comes in: `BUILTIN` and CRD objects. Goes out: `Resource` by path, and everything discovery tells.

mod builtin;
mod custom;
mod defaults;
mod fieldpaths;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::schema::Node;

pub(crate) use builtin::type_name;
pub(crate) use custom::{crd_findings, custom_resources, established_status};
pub(crate) use defaults::apply_builtin_defaults;
pub(crate) use fieldpaths::{not_selectable, selectable};

/// Where a `scale` subresource reads and writes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    pub(crate) replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) selector: String,
}

/// A printer column of a CRD.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) ty: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    pub(crate) path: String,
}

#[derive(Debug, Clone)]
pub(crate) enum Shape {
    Builtin(&'static Node, &'static str),
    /// With the schema that is served, as text: it is read when somebody asks for it, and its values would be ten times as large.
    Custom(Arc<Node>, Arc<str>),
}

/// One version of one kind, as it is served.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// The shelf in the store; all versions of a kind share one.
    pub(crate) storage: Arc<str>,
    /// apiVersion of what is kept.
    pub(crate) stored_as: String,
    pub(crate) shape: Shape,
    pub(crate) status: bool,
    pub(crate) scale: Option<Scale>,
    pub(crate) columns: Vec<Column>,
    pub(crate) selectable: Vec<String>,
    pub(crate) subresources: Vec<&'static str>,
    /// Only POST: reviews and the like, which are answered and not kept.
    pub(crate) virtual_only: bool,
    pub(crate) deprecation: Option<String>,
}

impl Resource {
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    pub(crate) fn node(&self) -> &Node {
        match &self.shape {
            Shape::Builtin(node, _) => node,
            Shape::Custom(node, _) => node,
        }
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.shape, Shape::Custom(..))
    }

    pub(crate) fn verbs(&self) -> Vec<&'static str> {
        if self.virtual_only {
            return vec!["create"];
        }
        vec!["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    }
}

/// All resources at one moment. Replaced as a whole when a CRD changes.
pub(crate) struct Kinds {
    by_path: BTreeMap<(String, String, String), Arc<Resource>>,
}

impl Kinds {
    pub(crate) fn new(crds: &[Value]) -> Self {
        let mut by_path = BTreeMap::new();
        for resource in builtin::resources().into_iter().chain(crds.iter().flat_map(custom_resources)) {
            let path = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
            by_path.entry(path).or_insert_with(|| Arc::new(resource));
        }
        Kinds { by_path }
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_path.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.by_path.values()
    }

    /// The version under which a shelf is kept.
    pub(crate) fn by_storage(&self, storage: &str) -> Option<&Arc<Resource>> {
        self.all()
            .find(|r| &*r.storage == storage && r.api_version() == r.stored_as)
            .or_else(|| self.all().find(|r| &*r.storage == storage))
    }

    /// Groups in the order discovery shows them, each with its versions, the preferred one first.
    pub(crate) fn groups(&self) -> Vec<(String, Vec<String>)> {
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for resource in self.all() {
            let versions = groups.entry(resource.group.clone()).or_default();
            if !versions.contains(&resource.version) {
                versions.push(resource.version.clone());
            }
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        }
        groups.into_iter().collect()
    }

    pub(crate) fn of_version<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.all().filter(move |r| r.group == group && r.version == version)
    }
}

/// Kubernetes' order: v2 before v1, stable before beta before alpha, everything else last.
fn version_rank(version: &str) -> (u8, u32, u32) {
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    for (word, stage) in [("alpha", 1), ("beta", 2)] {
        if let Some((major, minor)) = rest.split_once(word)
            && let (Ok(major), Ok(minor)) = (major.parse(), minor.parse())
        {
            return (stage, major, minor);
        }
    }
    rest.parse().map(|major| (3, major, 0)).unwrap_or((0, 0, 0))
}
