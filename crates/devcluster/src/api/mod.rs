//! The cluster's state and the operations on it, as both the HTTP server and the controllers use them.
//!
//! Comes in: a resource, a place and an object or patch. Goes out: the object as the cluster keeps it, or an
//! [`ApiError`]. Does not know: HTTP, containers.

mod change;
mod convert;
mod delete;
mod select;
mod strategy;
mod validate;

use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use serde_json::Value;

pub(crate) use change::{Patch, PatchBody};
pub(crate) use convert::to_version;
pub(crate) use delete::DeleteOptions;
pub(crate) use select::{FieldSelector, label_selector, match_labels};

use crate::error::{ApiError, ApiResult};
use crate::kinds::{Kinds, Resource};
use crate::store::{Key, Store, Stored};
use crate::value::Json as _;

/// What to do with fields the shape does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// Who asks, and how.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) manager: String,
    pub(crate) dry_run: bool,
    pub(crate) validation: FieldValidation,
    pub(crate) warnings: Vec<String>,
}

impl Caller {
    pub(crate) fn internal(manager: &str) -> Self {
        Caller {
            manager: manager.to_owned(),
            dry_run: false,
            validation: FieldValidation::Ignore,
            warnings: Vec::new(),
        }
    }
}

/// The cluster: store, kinds and the few facts that everything shares.
pub(crate) struct Cluster {
    pub(crate) store: Store,
    kinds: RwLock<Arc<Kinds>>,
    /// Held from reading the CRDs until they are known: who read earlier must not have the last word.
    reloading: std::sync::Mutex<()>,
    pub(crate) data: PathBuf,
    /// First three bytes of the range that ClusterIPs come from, such as `10.112.7`.
    pub(crate) service_net: [u8; 2],
    pub(crate) ca_pem: String,
    pub(crate) tokens: crate::auth::Tokens,
    pub(crate) node: crate::node::NodeLink,
}

impl Cluster {
    pub(crate) fn new(
        store: Store,
        data: PathBuf,
        service_net: [u8; 2],
        ca_pem: String,
        tokens: crate::auth::Tokens,
    ) -> Arc<Self> {
        let kinds = RwLock::new(Arc::new(load_kinds(&store)));
        Arc::new(Cluster {
            store,
            kinds,
            reloading: std::sync::Mutex::new(()),
            data,
            service_net,
            ca_pem,
            tokens,
            node: crate::node::NodeLink::default(),
        })
    }

    pub(crate) fn kinds(&self) -> Arc<Kinds> {
        self.kinds.read().expect("kinds lock").clone()
    }

    /// Reads the CRDs again. Called after each commit that touched one, before the answer goes out.
    pub(crate) fn reload_kinds(&self) {
        let _reloading = self.reloading.lock().expect("no panic while reloading");
        let fresh = Arc::new(load_kinds(&self.store));
        *self.kinds.write().expect("kinds lock") = fresh;
    }

    /// The built-in resource by its storage name; for controllers, whose kinds always exist.
    pub(crate) fn resource(&self, storage: &str) -> Arc<Resource> {
        self.kinds().by_storage(storage).cloned().expect("controllers name built-in kinds")
    }

    pub(crate) fn key(&self, resource: &Resource, namespace: &str, name: &str) -> Key {
        let namespace = if resource.namespaced { namespace.to_owned() } else { String::new() };
        Key { kind: resource.storage.clone(), namespace, name: name.to_owned() }
    }

    pub(crate) fn get(&self, storage: &str, namespace: &str, name: &str) -> Option<Value> {
        self.store.get(storage, namespace, name).map(|stored| stored.value())
    }

    pub(crate) fn fetch(&self, resource: &Resource, namespace: &str, name: &str) -> ApiResult<Arc<Stored>> {
        let key = self.key(resource, namespace, name);
        self.store
            .get(&key.kind, &key.namespace, &key.name)
            .ok_or_else(|| ApiError::not_found(&resource.group, &resource.plural, name))
    }

    /// All objects of a kind as values; for controllers.
    pub(crate) fn list(&self, storage: &str, namespace: Option<&str>) -> Vec<Value> {
        self.store.list(storage, namespace).1.iter().map(|stored| stored.value()).collect()
    }

    /// The objects that `owner` controls (`controller: true`), of one kind.
    pub(crate) fn controlled_by(&self, storage: &str, namespace: &str, uid: &str) -> Vec<Value> {
        let keys = self.store.dependents(uid);
        let mut objects: Vec<Value> = keys
            .iter()
            .filter(|key| &*key.kind == storage && key.namespace == namespace)
            .filter_map(|key| self.get(storage, namespace, &key.name))
            .filter(|object| controller_of(object).is_some_and(|owner| owner.str_at("uid") == uid))
            .collect();
        objects.sort_by(|a, b| a.name().cmp(b.name()));
        objects
    }
}

/// The owner reference with `controller: true`.
pub(crate) fn controller_of(object: &Value) -> Option<&Value> {
    object.list_at("metadata.ownerReferences").iter().find(|owner| owner.bool_at("controller"))
}

fn load_kinds(store: &Store) -> Kinds {
    let crds: Vec<Value> = store
        .list("apiextensions.k8s.io/customresourcedefinitions", None)
        .1
        .iter()
        .map(|s| s.value())
        .collect();
    Kinds::new(&crds)
}
