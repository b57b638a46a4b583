//! What a plan is made from, out of the copy of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use slipway_cluster::ObjectKey;
use slipway_crd::names::GROUP;
use slipway_crd::workflow::Workflow;
use slipway_reconcile::{Key, Stop};
use slipway_workflow::plan::{Library, Observed, TemplateKey, config_maps, effective, readers};

use super::Workflows;

impl Workflows {
    pub(super) async fn gather(
        &self,
        key: &Key,
        workflow: Workflow,
        (library, stamp): (Library, String),
    ) -> Result<Observed, Stop> {
        let root = self.cluster.live(&key.object());
        let owned = self.cluster.descendants(root.as_slice());
        let pods = owned.iter().filter(|live| live.key.group.is_empty() && live.key.kind == "Pod");
        let pods = pods.filter_map(|live| live.object()).collect();
        let has_ended = workflow.status.finished_at.is_some();
        let config_maps =
            if has_ended { BTreeMap::new() } else { self.config_maps(key, &workflow, &library).await? };
        let readers = (!has_ended).then(|| self.readers(key, &workflow, &library, stamp));
        let answers = self.calls.answers(key, &workflow.metadata.uid);
        Ok(Observed {
            answers,
            workflow,
            library,
            pods,
            executor_image: self.executor_image.clone(),
            readers,
            config_maps,
            ..Observed::default()
        })
    }

    /// Which printed results are read: found out once for a workflow and the templates that it names.
    fn readers(
        &self,
        key: &Key,
        workflow: &Workflow,
        library: &Library,
        stamp: String,
    ) -> Arc<BTreeSet<String>> {
        let stamp = format!("{} {stamp}", workflow.metadata.uid);
        let mut known = self.readers.lock().expect("no panic while locked");
        match known.get(key) {
            Some((of, readers)) if *of == stamp => readers.clone(),
            _ => {
                let readers = Arc::new(readers(workflow, library));
                known.insert(key.clone(), (stamp, readers.clone()));
                readers
            }
        }
    }

    /// Those of its own namespace that it names; what they say of themselves is judged where they are used.
    async fn config_maps(
        &self,
        key: &Key,
        workflow: &Workflow,
        library: &Library,
    ) -> Result<BTreeMap<String, Value>, Stop> {
        let spec = effective(workflow, library).unwrap_or_else(|_| workflow.spec.clone());
        let mut found = BTreeMap::new();
        for name in config_maps(&spec, library) {
            let map = self.cluster.read(&ObjectKey::new("", "ConfigMap", &key.namespace, &name)).await?;
            found.extend(map.map(|map| (name, map)));
        }
        Ok(found)
    }

    /// The templates that it names, and those that they name; and which versions of them.
    pub(super) fn library(&self, namespace: &str, workflow: &Workflow) -> (Library, String) {
        let (mut library, mut stamp) = (Library::default(), String::new());
        let mut named: Vec<TemplateKey> = Library::named_by(&workflow.spec).into_iter().collect();
        while let Some(one) = named.pop() {
            if library.specs.contains_key(&one) {
                continue;
            }
            let (kind, namespace) =
                if one.cluster { ("ClusterWorkflowTemplate", "") } else { ("WorkflowTemplate", namespace) };
            let live = self.cluster.live(&ObjectKey::new(GROUP, kind, namespace, &one.name));
            let version = live.as_ref().map(|live| live.resource_version.clone()).unwrap_or_default();
            let object = live.and_then(|live| live.object());
            let Some(object) = object.and_then(|object| serde_json::from_value::<Workflow>(object).ok())
            else {
                continue;
            };
            named.extend(Library::named_by(&object.spec));
            stamp = format!("{stamp} {}={version}", one.scope());
            library.add(one.cluster, &one.name, object.spec);
        }
        (library, stamp)
    }
}
