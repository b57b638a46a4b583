//! Observe: what an Application wants and what is there, put side by side.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use slipway_cluster::{Live, ObjectKey};
use slipway_crd::{AppProject, Application, ApplicationSource, names};
use slipway_gitops::project::ClusterNames;
use slipway_gitops::refresh::Standing;
use slipway_gitops::{
    ClusterInfo, CompareInput, Comparison, ResourceKey, Settings, SyncCode, compare, object,
};
use slipway_model::Next;
use slipway_reconcile::Wake;
use slipway_source::{Lookup, Since};

use super::lookup;
use super::permits;
use super::sources::{self, Desired, SourceError, Surroundings};
use crate::clusters::Destination;
use crate::engine::{Engine, Memory};

/// The cluster that we run in has two names.
pub(crate) const IN_CLUSTER: ClusterNames<'static> =
    ClusterNames { server: "https://kubernetes.default.svc", name: "in-cluster" };

/// How long a repository that cannot be reached is forgiven: the last manifests stay in force.
const GRACE: Duration = Duration::from_secs(180);
/// A chart that looked something up is rendered again for its changes, but not more often than this.
const LOOKED_UP_AGAIN: Duration = Duration::from_secs(10);
/// After a failure that may pass by itself.
pub(crate) const RETRY: Duration = Duration::from_secs(10);

/// One look at an Application.
pub(crate) struct Observed {
    pub(crate) comparison: Comparison,
    /// None when there are no manifests to speak of.
    pub(crate) desired: Option<Arc<Desired>>,
    pub(crate) project: Option<Arc<AppProject>>,
    /// Look again at this time.
    pub(crate) again_at: Option<Instant>,
    /// Stands for what the cluster was like just before it was read.
    pub(crate) fingerprint: Option<u64>,
    /// The manifests are those of the last revision that could be read: the repository is away for a moment, and this
    /// is why. They do not stand for the target revision.
    pub(crate) stale: Option<String>,
}

/// What the sources gave.
pub(crate) struct Found {
    pub(crate) desired: Arc<Desired>,
    pub(crate) again_at: Option<Instant>,
    /// As in [`Observed`].
    pub(crate) stale: Option<String>,
}

/// Why the target revision has no manifests, and what that depends on besides the revision.
#[derive(Clone)]
pub(crate) struct Unreadable {
    sources: Vec<ApplicationSource>,
    surroundings: (usize, usize),
    failure: Failure,
}

/// Why there is nothing to compare with.
#[derive(Clone)]
pub(crate) struct Failure {
    pub(crate) condition: &'static str,
    pub(crate) message: String,
    pub(crate) again_at: Option<Instant>,
}

impl Failure {
    pub(crate) fn spec(message: impl Into<String>) -> Self {
        Self { condition: "InvalidSpecError", message: message.into(), again_at: None }
    }
}

impl Engine {
    /// Looks at what the spec wants.
    pub(crate) async fn observe(&self, app: &Application, wake: Wake, memory: &mut Memory) -> Observed {
        let (project, destination) = match self.check_spec(app) {
            Ok(found) => found,
            Err(failure) => return self.failed(app, failure, None),
        };
        self.went_to(app, &destination, memory).await;
        let sources = app.spec.effective_sources();
        let found = match self.desired(app, &sources, &[], wake, memory).await {
            Ok(found) => found,
            Err(failure) => return self.failed_but_alive(app, failure, project, memory),
        };
        let observed = self.compare_with(app, found.desired, project, found.again_at, memory).await;
        Observed { stale: found.stale, ..observed }
    }

    /// Whoever moves to another cluster is no longer interested in the one before.
    async fn went_to(&self, app: &Application, destination: &Arc<Destination>, memory: &mut Memory) {
        let before = memory.destination.replace(destination.clone());
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, destination)) {
            let instance = app.instance_name(&self.config.namespace);
            // Taking interest back asks the cluster nothing.
            let _ = before.cluster.set_interest(&instance, HashSet::new()).await;
            before.cluster.oversee(&instance, None);
            memory.interest.clear();
            memory.looked_up.clear();
            memory.oversees = None;
        }
    }

    /// What is wanted is not known, but what runs can still be judged: it is compared with the last manifests
    /// that could be read, or with itself, and nothing of that is called synced.
    fn failed_but_alive(
        &self,
        app: &Application,
        failure: Failure,
        project: Arc<AppProject>,
        memory: &Memory,
    ) -> Observed {
        let judged = failure.condition == "ComparisonError";
        let failed = self.failed(app, failure, Some(project.clone()));
        if !judged {
            return failed;
        }
        let settings = self.settings();
        let instance = app.instance_name(&settings.control_plane_namespace);
        let Ok(destination) = self.destination(app) else { return failed };
        let roots = destination.cluster.tracked(&instance).into_iter().filter(|live| live.is_root());
        let live: Vec<Value> = roots.filter_map(|live| live.object()).collect();
        if live.is_empty() {
            // Nothing of it runs, so nothing can be said to be well.
            return failed;
        }
        let desired = memory.head.last().map_or_else(|| live.clone(), |(_, desired)| desired.objects());
        let mut comparison = compare(CompareInput {
            application: app,
            desired: &desired,
            live: &live,
            cluster: &destination.info(),
            settings: &settings,
            project: Some(&project),
            now: Timestamp::now(),
        });
        comparison.sync_status = failed.comparison.sync_status;
        comparison.conditions = failed.comparison.conditions;
        comparison.context = failed.comparison.context;
        for resource in &mut comparison.resources {
            resource.status = resource.status.map(|_| SyncCode::Unknown);
            resource.requires_pruning = false;
            resource.diff = None;
        }
        Observed { comparison, ..failed }
    }

    /// Compares with given manifests.
    pub(crate) async fn compare_with(
        &self,
        app: &Application,
        desired: Arc<Desired>,
        project: Arc<AppProject>,
        again_at: Option<Instant>,
        memory: &mut Memory,
    ) -> Observed {
        let destination = match self.destination(app) {
            Ok(destination) => destination,
            Err(error) => {
                let message = error.message().to_owned();
                let again_at = Some(Instant::now() + RETRY);
                return self.failed(
                    app,
                    Failure { condition: "ComparisonError", message, again_at },
                    Some(project),
                );
            }
        };
        let settings = self.settings();
        let info = destination.info();
        let objects = desired.objects();
        let rules = app.spec.ignore_differences.iter().chain(&settings.ignore_differences);
        let managers: Vec<&str> =
            rules.flat_map(|rule| &rule.managed_fields_managers).map(String::as_str).collect();
        destination.cluster.keep_managers(&managers);
        let key = crate::engines::key_of(app);
        self.oversee(app, &project, &destination, memory);
        let fingerprint = Some(self.fingerprint(&key, memory));
        let orphans = self.orphans(app, &project, &destination);
        let live = match self.live_objects(app, &destination, &objects, &info, &settings, memory).await {
            Ok(live) => live,
            Err(failure) => return self.failed(app, failure, Some(project)),
        };
        let comparison = compare(CompareInput {
            application: app,
            desired: &objects,
            live: &live,
            cluster: &info,
            settings: &settings,
            project: Some(&project),
            now: Timestamp::now(),
        });
        let mut comparison = self.judged_by_server(app, &destination, comparison, memory).await;
        comparison.conditions.extend(slipway_gitops::orphans::warning(&project, &orphans));
        Observed {
            comparison,
            desired: Some(desired),
            project: Some(project),
            again_at,
            fingerprint,
            stale: None,
        }
    }

    pub(crate) fn failed(
        &self,
        app: &Application,
        failure: Failure,
        project: Option<Arc<AppProject>>,
    ) -> Observed {
        let comparison = slipway_gitops::compare::failed(
            app,
            &self.settings(),
            failure.condition,
            &failure.message,
            Timestamp::now(),
        );
        let again_at = failure.again_at;
        Observed { comparison, desired: None, project, again_at, fingerprint: None, stale: None }
    }

    /// The manifests, from memory when neither the sources nor the repositories can have changed. `pinned` are revisions
    /// of an operation; what is read for them says nothing about the target revision.
    pub(crate) async fn desired(
        &self,
        app: &Application,
        sources: &[ApplicationSource],
        pinned: &[String],
        wake: Wake,
        memory: &mut Memory,
    ) -> Result<Found, Failure> {
        let (now, settings, surroundings) = (Instant::now(), self.settings(), self.surroundings());
        let looks_up = app.metadata.annotation(names::HELM_LOOKUP) == Some("true");
        let fits = |desired: &Arc<Desired>| {
            desired.sources == sources
                && desired.kustomize == settings.kustomize
                && desired.looked_up == looks_up
                && desired.local.is_empty()
        };
        let found =
            |desired: &Arc<Desired>, again_at| Ok(Found { desired: desired.clone(), again_at, stale: None });
        let last = memory.head.last().filter(|(_, desired)| fits(desired));
        if !pinned.is_empty() {
            if let Some((_, desired)) = last.filter(|(_, desired)| desired.revisions() == pinned) {
                return found(desired, None);
            }
        } else {
            let still = |why: &Unreadable| why.sources == sources && why.surroundings == surroundings;
            match memory.head.standing(wake.since, fits, still) {
                Standing::Failure(why) => return Err(why.failure.clone()),
                Standing::Manifests(desired) => {
                    let to = memory.destination.as_ref().filter(|_| !memory.looked_up.is_empty());
                    if !to.is_some_and(|to| lookup::moved(&memory.looked_up, &to.cluster)) {
                        return found(desired, None);
                    }
                    // Some objects change all the time.
                    let next = last.map_or(now, |(loaded, _)| loaded + LOOKED_UP_AGAIN);
                    if next > now {
                        return found(desired, Some(next));
                    }
                }
                Standing::Unread => {}
            }
        }
        let since = match wake.since {
            Some(since) => Since::Asked(since),
            // The sources were changed by hand: whoever did that has just pushed.
            None if memory.head.last().is_some() && last.is_none() => Since::now(),
            None => Since::Within(self.config.resync / 2),
        };
        let last = last.map(|(_, desired)| desired.clone());
        let project = self.project(app)?;
        permits::check_sources(&project, app, sources)?;
        let access = self.access();
        let destination = self.destination(app).map_err(|error| Failure::spec(error.message()))?;
        let facts = destination.facts();
        let eyes = self.lookup(app, sources, &project, &destination, memory)?;
        let around = Surroundings {
            renderer: &self.renderer,
            access: &access,
            project,
            kustomize: &settings.kustomize,
            submodules: settings.submodules,
            kube_version: &facts.kube_version,
            api_versions: &facts.api_versions,
            lookup: eyes.clone().map(|eyes| eyes as Arc<dyn Lookup>),
            files: None,
            files_everywhere: false,
            fresh: wake.hard,
        };
        match sources::load(&around, app, sources, pinned, since).await {
            Ok(desired) => {
                let desired = Arc::new(desired);
                if pinned.is_empty() {
                    memory.head.read(now, desired.clone());
                    memory.looked_up = eyes.map(|eyes| eyes.seen()).unwrap_or_default();
                }
                Ok(Found { desired, again_at: None, stale: None })
            }
            Err(error) => {
                let passing = error.next() == Next::Retry;
                let again_at = passing.then(|| now + RETRY);
                let failure = failure(&error, again_at);
                if !pinned.is_empty() {
                    return Err(failure);
                }
                let why = Unreadable { sources: sources.to_vec(), surroundings, failure: failure.clone() };
                let since = memory.head.failed(now, why, !passing);
                match last.filter(|_| passing && now.duration_since(since) < GRACE) {
                    Some(desired) => {
                        tracing::info!(application = %app.metadata.name, %error, "A repository cannot be read; the last manifests stay in force.");
                        Ok(Found { desired, again_at, stale: Some(failure.message) })
                    }
                    None => Err(failure),
                }
            }
        }
    }

    /// Live objects that the application tracks or that its manifests name, and its namespace.
    async fn live_objects(
        &self,
        app: &Application,
        destination: &Destination,
        desired: &[Value],
        info: &ClusterInfo,
        settings: &Settings,
        memory: &mut Memory,
    ) -> Result<Vec<Value>, Failure> {
        let instance = app.instance_name(&settings.control_plane_namespace);
        let cluster = &destination.cluster;
        let namespace = &app.spec.destination.namespace;
        let wanted: Vec<(ObjectKey, &str)> = desired
            .iter()
            .map(|target| (placed_key(target, namespace, info), object::api_version(target)))
            .collect();
        let mut keys: HashSet<ObjectKey> =
            wanted.iter().map(|(key, _)| key.clone()).filter(|key| !key.name.is_empty()).collect();
        if let Some(message) = keys.iter().find_map(|key| cluster.out_of_sight(key)) {
            return Err(Failure { condition: "ComparisonError", message, again_at: None });
        }
        if !namespace.is_empty() && !cluster.is_confined() {
            keys.insert(ObjectKey::new("", "Namespace", "", namespace));
        }
        if !memory.reader {
            let told = match memory.looked_up.is_empty() {
                true => Cow::Borrowed(&keys),
                false => Cow::Owned(keys.iter().chain(memory.looked_up.keys()).cloned().collect()),
            };
            if memory.interest != *told {
                let told = told.into_owned();
                let telling = cluster.set_interest(&instance, told.clone()).await;
                telling.map_err(|error| unreadable(&error))?;
                memory.interest = told;
            }
        }
        let mut found: Vec<Arc<Live>> = cluster.tracked(&instance);
        let tracked: HashSet<String> = found.iter().map(|live| live.uid.clone()).collect();
        let mut objects = Vec::new();
        for key in &keys {
            match cluster.live(key) {
                Some(live) => {
                    if !tracked.contains(&live.uid) {
                        found.push(live);
                    }
                }
                // Not in the copy is not absent, unless the copy has all objects of the kind.
                None if cluster.is_read(&key.group, &key.kind) => {}
                None if cluster.discovery().preferred(&key.group, &key.kind).is_none() => {}
                None => objects.extend(cluster.read(key).await.map_err(|error| unreadable(&error))?),
            }
        }
        for live in found {
            let version = wanted
                .iter()
                .find(|(key, _)| *key == live.key)
                .map(|(_, api_version)| *api_version)
                .filter(|wanted| wanted.rsplit('/').next() != Some(live.version.as_str()));
            let object = match (version, live.object()) {
                // The manifest is written in another version than the one that is watched.
                (Some(api_version), known) => match cluster.read_version(api_version, &live.key).await {
                    Ok(found) => found,
                    Err(_) => known,
                },
                (None, Some(object)) => Some(object),
                (None, None) => cluster.read(&live.key).await.map_err(|error| unreadable(&error))?,
            };
            objects.extend(object);
        }
        Ok(objects)
    }

    /// The live objects of an application and everything they own, for trees.
    pub(crate) fn family(&self, app: &Application, comparison: &Comparison) -> Vec<Value> {
        let Ok(destination) = self.destination(app) else { return Vec::new() };
        let cluster = &destination.cluster;
        let instance = app.instance_name(&self.config.namespace);
        let mut roots = cluster.tracked(&instance);
        let known: HashSet<String> = roots.iter().map(|live| live.uid.clone()).collect();
        for resource in comparison.resources.iter().filter(|r| r.live.is_some()) {
            if let Some(live) = cluster.live(&cluster_key(&resource.key))
                && !known.contains(&live.uid)
            {
                roots.push(live);
            }
        }
        let children = cluster.descendants(&roots);
        roots.iter().chain(&children).filter_map(|live| live.object()).collect()
    }
}

fn failure(error: &SourceError, again_at: Option<Instant>) -> Failure {
    Failure { condition: error.condition(), message: error.to_string(), again_at }
}

fn unreadable(error: &slipway_cluster::ClusterError) -> Failure {
    Failure {
        condition: "ComparisonError",
        message: format!("live objects cannot be read: {error}"),
        again_at: Some(Instant::now() + RETRY),
    }
}

/// The key a manifest will have in the cluster.
fn placed_key(target: &Value, namespace: &str, info: &ClusterInfo) -> ObjectKey {
    let mut key = ObjectKey::of(target);
    match info.is_namespaced(&key.group, &key.kind) {
        Some(false) => key.namespace.clear(),
        _ if key.namespace.is_empty() => namespace.clone_into(&mut key.namespace),
        _ => {}
    }
    key
}

pub(crate) fn cluster_key(key: &ResourceKey) -> ObjectKey {
    ObjectKey::new(&key.group, &key.kind, &key.namespace, &key.name)
}
