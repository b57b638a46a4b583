//! The Applications and ApplicationSets that are ours to look after, as the copy of the home cluster has them.
//!
//! In: the copy and the settings, which say in which namespaces they may live. Out: keys, and objects as they were read.
//! Changes nothing, and knows no engine.

use std::sync::Arc;

use serde_json::Value;
use slipway_cluster::{Cluster, ObjectKey};
use slipway_crd::{Application, ApplicationSet, names};
use slipway_reconcile::Key;

use crate::engines::{APPLICATION, APPLICATION_SET};
use crate::settings::CurrentSettings;

pub(crate) struct Inventory {
    cluster: Cluster,
    settings: Arc<CurrentSettings>,
}

impl Inventory {
    pub(crate) fn new(cluster: Cluster, settings: Arc<CurrentSettings>) -> Self {
        Self { cluster, settings }
    }

    /// Every Application that is ours.
    pub(crate) fn applications(&self) -> Vec<Key> {
        let applications = self.cluster.live_of_kind(names::GROUP, APPLICATION.kind);
        let ours = applications.iter().filter(|live| self.settings.governs(&live.key.namespace));
        ours.filter_map(|live| Key::of(APPLICATION, &live.key)).collect()
    }

    /// The Application, and the object that it was read from.
    pub(crate) fn application(&self, key: &Key) -> Option<(Application, Value)> {
        let object = self.cluster.live(&key.object())?.object()?;
        Some((serde_json::from_value(object.clone()).ok()?, object))
    }

    /// Every ApplicationSet that is ours.
    pub(crate) fn application_sets(&self) -> Vec<Key> {
        let sets = self.cluster.live_of_kind(names::GROUP, APPLICATION_SET.kind);
        let ours = sets.iter().filter(|live| self.settings.governs_sets(&live.key.namespace));
        ours.filter_map(|live| Key::of(APPLICATION_SET, &live.key)).collect()
    }

    pub(crate) fn application_set(&self, key: &Key) -> Option<ApplicationSet> {
        serde_json::from_value(self.cluster.live(&key.object())?.object()?).ok()
    }

    /// The sets that an Application names as its owners.
    pub(crate) fn sets_of(&self, application: &ObjectKey) -> Vec<Key> {
        let live = self.cluster.live(application).filter(|live| !live.is_root());
        let Some(object) = live.and_then(|live| live.object()) else { return Vec::new() };
        let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let owners = owners.filter(|owner| owner["kind"] == APPLICATION_SET.kind);
        owners
            .map(|owner| {
                let name = owner["name"].as_str().unwrap_or_default();
                Key::new(APPLICATION_SET, &application.namespace, name)
            })
            .collect()
    }

    /// The name that the objects of an Application are tracked by.
    pub(crate) fn instance(&self, key: &Key) -> String {
        if key.namespace == self.settings.namespace() {
            key.name.clone()
        } else {
            format!("{}_{}", key.namespace, key.name)
        }
    }

    /// The Application that objects call by this name.
    pub(crate) fn key_of_instance(&self, instance: &str) -> Key {
        match instance.split_once('_') {
            Some((namespace, name)) => Key::new(APPLICATION, namespace, name),
            None => Key::new(APPLICATION, self.settings.namespace(), instance),
        }
    }

    /// The same, if it is there and ours.
    pub(crate) fn by_instance(&self, instance: &str) -> Option<(Key, Application)> {
        let key = self.key_of_instance(instance);
        let (app, _) = self.application(&key).filter(|_| self.settings.governs(&key.namespace))?;
        Some((key, app))
    }
}
