//! The live objects of an Application: what it deployed and what those own, in namespaces that its project permits.
//!
//! Nothing else is reached through the app-proxy: an object is named by its key, and looked for here first. A label or an
//! annotation that only claims to be the Application's, in a namespace that is none of its project's, does not count.

use std::sync::Arc;

use axum::http::StatusCode;
use slipway_cluster::{Live, ObjectKey};
use slipway_crd::{AppProject, Application};
use slipway_gitops::project;

use super::{AppPath, Proxy, Refusal, app_key};
use crate::clusters::Destination;

pub(super) struct Tree {
    pub(super) app: Application,
    pub(super) to: Arc<Destination>,
    pub(super) project: Arc<AppProject>,
    roots: Vec<Arc<Live>>,
    owned: Vec<Arc<Live>>,
}

fn unprocessable(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "NOT_PERMITTED", message)
}

impl Tree {
    pub(super) fn of(proxy: &Proxy, path: AppPath) -> Result<Self, Refusal> {
        let running = proxy.running()?;
        let app = proxy.application(&app_key(path))?;
        let to =
            running.permits().clusters.destination(&app).map_err(|error| unprocessable(error.message()))?;
        let project = running.permits().project(&app).map_err(|failure| unprocessable(failure.message))?;
        let permitted = |live: &Arc<Live>| {
            let ObjectKey { group, kind, namespace, name } = &live.key;
            match namespace.is_empty() {
                true => project::permits_kind(&project, group, kind, name, false),
                false => project::permits_destination(&project, &to.names(), namespace),
            }
        };
        let mut roots = to.cluster.tracked(&running.inventory.instance(&crate::engines::key_of(&app)));
        roots.retain(&permitted);
        let mut owned = to.cluster.descendants(&roots);
        owned.retain(&permitted);
        Ok(Self { app, to, project, roots, owned })
    }

    /// All of them.
    pub(super) fn uids(&self) -> impl Iterator<Item = (&ObjectKey, &str)> {
        self.roots.iter().chain(&self.owned).map(|live| (&live.key, &*live.uid))
    }

    pub(super) fn find(&self, wanted: &ObjectKey) -> Result<&Arc<Live>, Refusal> {
        let found = self.roots.iter().chain(&self.owned).find(|live| live.key == *wanted);
        found.ok_or_else(|| self.nothing(wanted))
    }

    pub(super) fn nothing(&self, wanted: &ObjectKey) -> Refusal {
        let message =
            format!("application {} has no {}/{}", self.app.metadata.name, wanted.kind, wanted.name);
        Refusal::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }

    /// The pods of one of its objects, or all of them; by name.
    pub(super) fn pods(&self, of: Option<&ObjectKey>) -> Result<Vec<ObjectKey>, Refusal> {
        let all: Vec<Arc<Live>> = match of {
            None => self.roots.iter().chain(&self.owned).cloned().collect(),
            Some(wanted) => {
                let root = self.find(wanted)?.clone();
                let below = self.to.cluster.descendants(std::slice::from_ref(&root));
                let known = |live: &Arc<Live>| self.owned.iter().any(|owned| owned.key == live.key);
                let below = below.into_iter().filter(known);
                std::iter::once(root.clone()).chain(below).collect()
            }
        };
        let is_pod = |live: &&Arc<Live>| live.key.group.is_empty() && live.key.kind == "Pod";
        let mut pods: Vec<ObjectKey> = all.iter().filter(is_pod).map(|live| live.key.clone()).collect();
        pods.sort();
        pods.dedup();
        Ok(pods)
    }
}
