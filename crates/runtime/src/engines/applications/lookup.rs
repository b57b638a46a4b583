//! What a chart's `lookup` may see: discovery, and objects of the destination that the Application's project permits.
//!
//! In: a path of the Kubernetes API. Out: an answer as the API server would give it. Nothing of the path is passed on: it
//! is taken apart, held against the project and asked anew, in the name that writes for the Application. Knows no charts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use slipway_cluster::{ApiResource, Cluster, ClusterError, ObjectKey};
use slipway_crd::{AppProject, Application, ApplicationSource, names};
use slipway_gitops::project;
use slipway_source::{Lookup, LookupAnswer};

use super::manifests::Failure;
use super::memory::Memory;
use super::permits::Permits;
use crate::clusters::Destination;

/// Objects in one answer.
const OBJECTS_MAX: usize = 500;

/// Who answers the charts of this Application; `None`: nobody, as in Argo CD.
pub(crate) fn for_charts(
    permits: &Permits,
    app: &Application,
    sources: &[ApplicationSource],
    project: &Arc<AppProject>,
    to: &Arc<Destination>,
    memory: &Memory,
) -> Result<Option<Arc<ChartLookup>>, Failure> {
    let annotation = names::HELM_LOOKUP;
    if app.metadata.annotation(annotation) != Some("true") {
        return Ok(None);
    }
    if !permits.settings.get().helm_lookup {
        return Err(Failure::spec(format!(
            "the annotation {annotation} is set, but charts may not look at clusters here; an operator permits it with `helm.lookup.enabled: \"true\"` in argocd-cm"
        )));
    }
    if app.spec.source_hydrator.is_some() {
        return Err(Failure::spec(format!(
            "the annotation {annotation} does not go with sourceHydrator: what is looked up would be pushed; remove one of them"
        )));
    }
    // Whoever only asks what some source would give may not look anything up by that.
    let own = app.spec.effective_sources();
    let is_own = |source: &ApplicationSource| {
        let same = |own: &ApplicationSource| {
            (&own.repo_url, &own.path, &own.chart) == (&source.repo_url, &source.path, &source.chart)
        };
        own.iter().any(same)
    };
    if memory.read_only && !sources.first().is_some_and(is_own) {
        return Ok(None);
    }
    let writer = permits.writer(app, to).map_err(Failure::spec)?;
    let own_namespace =
        Arc::ptr_eq(to, permits.clusters.home()).then(|| permits.settings.namespace().to_owned());
    let (project, to, seen) = (project.clone(), to.clone(), Mutex::default());
    Ok(Some(Arc::new(ChartLookup { project, to, writer, own_namespace, seen })))
}

/// Objects that were looked up by name, each with its version in the copy of the cluster; empty: it is not there.
pub(crate) type Seen = BTreeMap<ObjectKey, String>;

/// Whether something that was looked up is another than it was.
pub(crate) fn moved(seen: &Seen, cluster: &Cluster) -> bool {
    seen.iter().any(|(key, version)| version_in_copy(cluster, key) != *version)
}

fn version_in_copy(cluster: &Cluster, key: &ObjectKey) -> String {
    cluster.live(key).map(|live| live.resource_version.clone()).unwrap_or_default()
}

pub(crate) struct ChartLookup {
    project: Arc<AppProject>,
    to: Arc<Destination>,
    writer: Cluster,
    /// Where the engine's own credentials are, if that is in this cluster.
    own_namespace: Option<String>,
    seen: Mutex<Seen>,
}

impl Lookup for ChartLookup {
    fn answer<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<LookupAnswer, String>> {
        async move {
            let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
            let (group, version, rest) = match parts.as_slice() {
                ["api", version, rest @ ..] => ("", *version, rest),
                ["apis", group, version, rest @ ..] => (*group, *version, rest),
                _ => return Ok(missing(path)),
            };
            let (namespace, plural, name) = match rest {
                [] => return Ok(self.kinds(group, version)),
                ["namespaces", namespace, plural] => (*namespace, *plural, None),
                ["namespaces", namespace, plural, name] => (*namespace, *plural, Some(*name)),
                [plural] => ("", *plural, None),
                [plural, name] => ("", *plural, Some(*name)),
                _ => return Ok(missing(path)),
            };
            let discovery = self.to.cluster.discovery();
            let served = |resource: &&ApiResource| {
                (&*resource.group, &*resource.version, &*resource.plural) == (group, version, plural)
            };
            match discovery.all().find(served) {
                Some(resource) => self.ask(resource, namespace, name).await,
                None => Ok(missing(path)),
            }
        }
        .boxed()
    }
}

impl ChartLookup {
    fn kinds(&self, group: &str, version: &str) -> LookupAnswer {
        let discovery = self.to.cluster.discovery();
        let of = |resource: &&ApiResource| resource.group == group && resource.version == version;
        let resources: Vec<Value> = discovery
            .all()
            .filter(of)
            .map(|resource| {
                json!({"name": resource.plural, "singularName": "", "kind": resource.kind,
                    "namespaced": resource.namespaced, "verbs": ["get", "list"]})
            })
            .collect();
        let named = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        if resources.is_empty() {
            return missing(&format!("the cluster serves no kinds of `{named}`"));
        }
        answered(
            &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": named, "resources": resources}),
        )
    }

    async fn ask(
        &self,
        resource: &ApiResource,
        namespace: &str,
        name: Option<&str>,
    ) -> Result<LookupAnswer, String> {
        let everywhere = resource.namespaced && namespace.is_empty();
        if (everywhere && name.is_some()) || (!resource.namespaced && !namespace.is_empty()) {
            return Ok(missing(&resource.kind));
        }
        // Of a list over all namespaces, what is not permitted is left out.
        if !everywhere && !self.permits(resource, namespace, name.unwrap_or_default()) {
            return Ok(self.forbidden(resource, namespace));
        }
        if let Some(name) = name {
            self.record(ObjectKey::new(&resource.group, &resource.kind, namespace, name));
        }
        let mut found = match self.writer.ask(resource, namespace, name, OBJECTS_MAX).await {
            Ok(found) => found,
            Err(ClusterError::Refused { code, reason, message, .. }) if code < 500 && code != 429 => {
                return Ok(LookupAnswer::refused(code, &reason, &message));
            }
            Err(error) => return Err(error.to_string()),
        };
        if name.is_none() {
            if found["metadata"]["continue"].as_str().is_some_and(|more| !more.is_empty()) {
                let message =
                    format!("there are more than {OBJECTS_MAX} {}; look them up by name", resource.kind);
                return Ok(LookupAnswer::refused(413, "RequestEntityTooLarge", &message));
            }
            let mut items = found["items"].take();
            for item in items.as_array_mut().into_iter().flatten() {
                forget_managers(item);
            }
            if let Some(items) = items.as_array_mut() {
                let text = |item: &Value, field: &str| {
                    item["metadata"][field].as_str().unwrap_or_default().to_owned()
                };
                items.retain(|item| self.permits(resource, &text(item, "namespace"), &text(item, "name")));
            }
            // The version of a list changes with everything that happens in the cluster.
            found = json!({"apiVersion": resource.api_version(), "kind": format!("{}List", resource.kind),
                "metadata": {}, "items": items});
        }
        forget_managers(&mut found);
        let sensitive = resource.group.is_empty() && resource.kind == "Secret";
        Ok(LookupAnswer { sensitive, ..answered(&found) })
    }

    /// Before it is asked for: what changes meanwhile counts as changed. Only what is watched anyway is followed.
    fn record(&self, key: ObjectKey) {
        let cluster = &self.to.cluster;
        if cluster.is_read(&key.group, &key.kind) {
            let version = version_in_copy(cluster, &key);
            self.seen.lock().expect("no panic while locked").insert(key, version);
        }
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().expect("no panic while locked").clone()
    }

    fn permits(&self, resource: &ApiResource, namespace: &str, name: &str) -> bool {
        let (project, ApiResource { group, kind, namespaced, .. }) = (&*self.project, resource);
        let secret = group.is_empty() && kind == "Secret";
        if secret && self.own_namespace.as_deref() == Some(namespace) {
            return false;
        }
        project::permits_kind(project, group, kind, name, *namespaced)
            && (!namespaced || project::permits_destination(project, &self.to.names(), namespace))
    }

    fn forbidden(&self, resource: &ApiResource, namespace: &str) -> LookupAnswer {
        let place = if resource.namespaced { format!(" in namespace '{namespace}'") } else { String::new() };
        let message = format!(
            "project '{}' does not permit {}{place}, so that charts may not look it up",
            self.project.metadata.name, resource.kind
        );
        LookupAnswer::refused(403, "Forbidden", &message)
    }
}

fn answered(value: &Value) -> LookupAnswer {
    LookupAnswer { status: 200, body: value.to_string().into_bytes(), sensitive: false }
}

fn missing(what: &str) -> LookupAnswer {
    LookupAnswer::refused(404, "NotFound", &format!("not found: {what}"))
}

/// Who wrote which field is no business of a chart, and changes when nothing else does.
fn forget_managers(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}
