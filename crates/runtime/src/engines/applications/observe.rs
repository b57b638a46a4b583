//! Observe: what an Application wants and what is there, put side by side.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::Value;
use slipway_crd::{AppProject, Application, ConditionType};
use slipway_gitops::{CompareInput, Comparison, SyncCode, compare};
use slipway_reconcile::{Key, Wake};

use super::live::live_objects;
use super::manifests::{Failure, Manifests, RETRY};
use super::memory::Memory;
use super::permits::Permits;
use super::server_side::judged_by_server;
use super::sources::Desired;
use crate::clusters::Destination;
use crate::context::Context;
use crate::inventory::Inventory;
use crate::settings::CurrentSettings;

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

pub(crate) struct Observer {
    pub(crate) manifests: Manifests,
    inventory: Arc<Inventory>,
    settings: Arc<CurrentSettings>,
    /// What deployed objects own is looked at too, because somebody is told of it.
    with_descendants: bool,
}

impl Observer {
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            manifests: Manifests::new(context),
            inventory: context.inventory.clone(),
            settings: context.settings.clone(),
            with_descendants: context.reporter.is_enabled(),
        }
    }

    pub(crate) fn permits(&self) -> &Permits {
        &self.manifests.permits
    }

    /// Looks at what the spec wants.
    pub(crate) async fn observe(&self, app: &Application, wake: Wake, memory: &mut Memory) -> Observed {
        let (project, destination) = match self.permits().check_spec(app) {
            Ok(found) => found,
            Err(failure) => return self.failed(app, failure, None),
        };
        self.moved_to(app, &destination, memory).await;
        let sources = app.spec.effective_sources();
        let found = match self.manifests.desired(app, &sources, &[], wake, memory).await {
            Ok(found) => found,
            Err(failure) => return self.failed_but_alive(app, failure, project, memory),
        };
        let observed = self.compare_with(app, found.desired, project, found.again_at, memory).await;
        Observed { stale: found.stale, ..observed }
    }

    /// Whoever moves to another cluster is no longer interested in the one before.
    async fn moved_to(&self, app: &Application, destination: &Arc<Destination>, memory: &mut Memory) {
        let before = memory.destination.replace(destination.clone());
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, destination)) {
            let instance = app.instance_name(self.settings.namespace());
            // Taking interest back asks the cluster nothing.
            let _ = before.cluster.set_interest(&instance, HashSet::new()).await;
            before.cluster.watch_unowned(&instance, None);
            memory.interest.clear();
            memory.looked_up.clear();
            memory.watched_for_orphans = None;
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
        let judged = failure.condition == ConditionType::ComparisonError;
        let failed = self.failed(app, failure, Some(project.clone()));
        if !judged {
            return failed;
        }
        let settings = self.settings.get();
        let instance = app.instance_name(&settings.control_plane_namespace);
        let Ok(destination) = self.permits().clusters.destination(app) else { return failed };
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
        let destination = match self.permits().clusters.destination(app) {
            Ok(destination) => destination,
            Err(error) => {
                let message = error.message().to_owned();
                let again_at = Some(Instant::now() + RETRY);
                return self.failed(
                    app,
                    Failure { condition: ConditionType::ComparisonError, message, again_at },
                    Some(project),
                );
            }
        };
        let settings = self.settings.get();
        let info = destination.info();
        let objects = desired.objects();
        let rules = app.spec.ignore_differences.iter().chain(&settings.ignore_differences);
        let managers: Vec<&str> =
            rules.flat_map(|rule| &rule.managed_fields_managers).map(String::as_str).collect();
        destination.cluster.retain_managers(&managers);
        let key = crate::engines::key_of(app);
        self.permits().watch_orphans(app, &project, &destination, memory);
        let fingerprint = Some(self.fingerprint(&key, memory));
        let orphans = self.permits().orphans(app, &project, &destination);
        let live = match live_objects(app, &destination, &objects, &info, &settings, memory).await {
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
        let mut comparison = judged_by_server(app, &settings, &destination, comparison, memory).await;
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
            &self.settings.get(),
            failure.condition,
            &failure.message,
            Timestamp::now(),
        );
        let again_at = failure.again_at;
        Observed { comparison, desired: None, project, again_at, fingerprint: None, stale: None }
    }

    /// Stands for everything in the cluster that a reconcile depends on, without reading any of it.
    pub(crate) fn fingerprint(&self, key: &Key, memory: &Memory) -> u64 {
        use std::hash::{Hash, Hasher};
        let cluster =
            memory.destination.as_ref().map_or(&self.permits().clusters.home().cluster, |to| &to.cluster);
        let mut roots = cluster.tracked(&self.inventory.instance(key));
        roots.extend(memory.interest.iter().filter_map(|key| cluster.live(key)));
        if self.with_descendants {
            roots.extend(cluster.descendants(&roots));
        }
        let mut versions: Vec<(&str, &str)> =
            roots.iter().map(|live| (live.uid.as_str(), live.resource_version.as_str())).collect();
        versions.sort_unstable();
        versions.dedup();
        let mut hasher = std::hash::DefaultHasher::new();
        versions.hash(&mut hasher);
        if let Some(namespace) = &memory.watched_for_orphans {
            let mut unowned = cluster.unowned(namespace);
            unowned.sort_unstable();
            unowned.hash(&mut hasher);
        }
        self.manifests.surroundings().hash(&mut hasher);
        memory.destination.as_ref().map(|to| Arc::as_ptr(&to.info()) as usize).hash(&mut hasher);
        hasher.finish()
    }
}
