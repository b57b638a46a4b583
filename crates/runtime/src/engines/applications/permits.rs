//! What its project permits an Application: where it may live, come from and go to, in whose name it is written to, and who
//! must have signed what it deploys.
//!
//! In: an Application and the control plane's settings. Out: the project and the cluster, or a sentence that says which
//! rule stands against it. Knows no manifests and changes nothing.

use std::sync::Arc;
use std::time::Instant;

use slipway_cluster::{Cluster, ObjectKey};
use slipway_crd::{AppProject, Application, ApplicationSource, ConditionType, names};
use slipway_gitops::{ResourceKey, appset, orphans, project};

use super::manifests::{Failure, RETRY};
use super::memory::Memory;
use crate::clusters::{Clusters, Destination, NoCluster};
use crate::context::Context;
use crate::settings::CurrentSettings;

/// Every source must be one that the project permits, those that an operation brings along too.
pub(crate) fn check_sources(
    project: &AppProject,
    app: &Application,
    sources: &[ApplicationSource],
) -> Result<(), Failure> {
    match sources.iter().find(|source| !project::permits_source(project, &source.repo_url)) {
        None => Ok(()),
        Some(source) => Err(Failure::spec(format!(
            "application repo {} is not permitted in project '{}'",
            source.repo_url,
            app.spec.project_name()
        ))),
    }
}

/// Manifests that come with an operation have no commit that anybody could have signed.
pub(crate) fn check_local(project: &AppProject) -> Result<(), Failure> {
    if project.spec.signature_keys.is_empty() && project.spec.source_integrity.is_none() {
        return Ok(());
    }
    Err(Failure::spec(format!(
        "project '{}' asks for signed commits, so that manifests cannot come with the operation; push them",
        project.metadata.name
    )))
}

/// Who is asked what is permitted.
pub(crate) struct Permits {
    pub(crate) clusters: Arc<Clusters>,
    pub(crate) settings: Arc<CurrentSettings>,
}

impl Permits {
    pub(crate) fn new(context: &Context) -> Self {
        Self { clusters: context.clusters.clone(), settings: context.settings.clone() }
    }

    /// What can be said without looking anywhere: destination, project, permissions.
    pub(crate) fn check_spec(
        &self,
        app: &Application,
    ) -> Result<(Arc<AppProject>, Arc<Destination>), Failure> {
        let destination = &app.spec.destination;
        let to = self.clusters.destination(app).map_err(|error| match error {
            NoCluster::Unknown(message) => Failure::spec(message),
            NoCluster::Away(message) => Failure {
                condition: ConditionType::ComparisonError,
                message,
                again_at: Some(Instant::now() + RETRY),
            },
        })?;
        let project = self.project(app)?;
        check_sources(&project, app, &app.spec.effective_sources())?;
        if !project::permits_destination(&project, &to.names(), &destination.namespace) {
            return Err(Failure::spec(format!(
                "application destination server '{}' and namespace '{}' do not match any of the allowed destinations in project '{}'",
                to.server,
                destination.namespace,
                app.spec.project_name()
            )));
        }
        Ok((project, to))
    }

    /// The project, if it lets Applications of this namespace in, with what global projects add.
    pub(crate) fn project(&self, app: &Application) -> Result<Arc<AppProject>, Failure> {
        let name = app.spec.project_name();
        let found = match self.project_named(name) {
            Some(found) => {
                found.map_err(|error| Failure::spec(format!("AppProject {name} is not readable: {error}")))?
            }
            None if name == "default" => project::default_project(self.settings.namespace()),
            None => {
                return Err(Failure::spec(format!(
                    "Application referencing project {name} which does not exist"
                )));
            }
        };
        let namespace = &app.metadata.namespace;
        if !project::permits_application_namespace(&found, namespace, self.settings.namespace()) {
            return Err(Failure::spec(format!(
                "application '{}' in namespace '{namespace}' is not permitted to use project '{name}'; add the namespace to its sourceNamespaces",
                app.metadata.name
            )));
        }
        let settings = self.settings.get();
        let mut globals = Vec::new();
        for global in &settings.global_projects {
            let selected = appset::selects(&global.label_selector, &found.metadata.labels);
            if global.project_name != name && selected.is_ok_and(|selected| selected) {
                globals.extend(self.project_named(&global.project_name).and_then(Result::ok));
            }
        }
        Ok(Arc::new(project::with_globals(found, &globals.iter().collect::<Vec<_>>())))
    }

    fn project_named(&self, name: &str) -> Option<Result<AppProject, serde_json::Error>> {
        let key = ObjectKey::new(names::GROUP, "AppProject", self.settings.namespace(), name);
        Some(serde_json::from_value(self.clusters.home().cluster.live(&key)?.object()?))
    }

    /// The cluster, written to in the name that is used for this Application: our own, or the service account's that its
    /// project names where impersonation is on.
    pub(crate) fn writer(&self, app: &Application, to: &Destination) -> Result<Cluster, String> {
        if !self.settings.get().impersonation {
            return Ok(to.cluster.clone());
        }
        let project = self.project(app).map_err(|failure| failure.message)?;
        let destination = &app.spec.destination;
        let account =
            project::service_account(&project, destination, &to.server).filter(|name| !name.is_empty());
        let account = account.ok_or_else(|| {
            format!(
                "no service account is named for server {} and namespace {} in project '{}'; add one to its destinationServiceAccounts",
                to.server,
                destination.namespace,
                app.spec.project_name()
            )
        })?;
        let (namespace, name) = account.split_once(':').unwrap_or((&destination.namespace, &account));
        Ok(to.cluster.acting_as(&format!("system:serviceaccount:{namespace}:{name}")))
    }

    /// The same for the Application's own destination; `None` while it cannot be written to.
    pub(crate) fn own_writer(&self, app: &Application) -> Option<Cluster> {
        self.writer(app, &*self.clusters.destination(app).ok()?).ok()
    }

    /// Where the project wants to know of orphans, whatever comes and goes there is looked at.
    pub(crate) fn watch_orphans(
        &self,
        app: &Application,
        project: &AppProject,
        to: &Destination,
        memory: &mut Memory,
    ) {
        let namespace = &app.spec.destination.namespace;
        let wanted =
            project.spec.orphaned_resources.as_ref().map(|_| namespace).filter(|name| !name.is_empty());
        if memory.watched_for_orphans.as_ref() != wanted && !memory.read_only {
            to.cluster
                .watch_unowned(&app.instance_name(self.settings.namespace()), wanted.map(String::as_str));
            memory.watched_for_orphans = wanted.cloned();
        }
    }

    /// What lies in the destination's namespace and belongs to nobody.
    pub(crate) fn orphans(
        &self,
        app: &Application,
        project: &AppProject,
        to: &Destination,
    ) -> Vec<ResourceKey> {
        let namespace = &app.spec.destination.namespace;
        if project.spec.orphaned_resources.is_none() || namespace.is_empty() {
            return Vec::new();
        }
        let settings = self.settings.get();
        let unowned = to.cluster.unowned(namespace);
        let keys = unowned.into_iter().filter(|key| !settings.is_excluded(&key.group, &key.kind, &to.server));
        orphans::orphans(
            project,
            keys.map(|key| ResourceKey {
                group: key.group,
                kind: key.kind,
                namespace: key.namespace,
                name: key.name,
            }),
        )
    }
}
