//! What an Application wants: manifests from memory, or from its sources.

use std::sync::Arc;
use std::time::{Duration, Instant};

use slipway_crd::{Application, ApplicationSource, ConditionType, names};
use slipway_gitops::refresh::Standing;
use slipway_model::Next;
use slipway_reconcile::Wake;
use slipway_source::{Lookup, Renderer, Since};

use super::lookup;
use super::memory::Memory;
use super::permits::{self, Permits};
use super::sources::{self, Desired, SourceError, Surroundings};
use crate::context::Context;
use crate::settings::CurrentSettings;

/// How long a repository that cannot be reached is forgiven: the last manifests stay in force.
const GRACE: Duration = Duration::from_secs(180);
/// A chart that looked something up is rendered again for its changes, but not more often than this.
const LOOKED_UP_AGAIN: Duration = Duration::from_secs(10);
/// After a failure that may pass by itself.
pub(crate) const RETRY: Duration = Duration::from_secs(10);

/// What the sources gave.
pub(crate) struct Found {
    pub(crate) desired: Arc<Desired>,
    pub(crate) again_at: Option<Instant>,
    /// As in [`super::observe::Observed`].
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
    pub(crate) condition: ConditionType,
    pub(crate) message: String,
    pub(crate) again_at: Option<Instant>,
}

impl Failure {
    pub(crate) fn spec(message: impl Into<String>) -> Self {
        Self { condition: ConditionType::InvalidSpecError, message: message.into(), again_at: None }
    }
}

pub(crate) struct Manifests {
    pub(crate) permits: Permits,
    pub(crate) renderer: Arc<Renderer>,
    settings: Arc<CurrentSettings>,
    /// An answer of a repository that is younger than this is not asked for again without a reason.
    poll_within: Duration,
}

impl Manifests {
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            permits: Permits::new(context),
            renderer: context.renderer.clone(),
            settings: context.settings.clone(),
            poll_within: context.config.resync / 2,
        }
    }

    /// Changes with the settings, the credentials and what the home cluster serves.
    pub(crate) fn surroundings(&self) -> (usize, usize) {
        (self.settings.generation(), Arc::as_ptr(&self.permits.clusters.home().info()) as usize)
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
        let (now, settings, surroundings) = (Instant::now(), self.settings.get(), self.surroundings());
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
            None => Since::Within(self.poll_within),
        };
        let last = last.map(|(_, desired)| desired.clone());
        let project = self.permits.project(app)?;
        permits::check_sources(&project, app, sources)?;
        let access = self.settings.access();
        let destination =
            self.permits.clusters.destination(app).map_err(|error| Failure::spec(error.message()))?;
        let facts = destination.facts();
        let looking = lookup::for_charts(&self.permits, app, sources, &project, &destination, memory)?;
        let around = Surroundings {
            renderer: &self.renderer,
            access: &access,
            project,
            kustomize: &settings.kustomize,
            submodules: settings.submodules,
            kube_version: &facts.kube_version,
            api_versions: &facts.api_versions,
            lookup: looking.clone().map(|looking| looking as Arc<dyn Lookup>),
            files: None,
            files_everywhere: false,
            fresh: wake.hard,
        };
        match sources::load(&around, app, sources, pinned, since).await {
            Ok(desired) => {
                let desired = Arc::new(desired);
                if pinned.is_empty() {
                    memory.head.read(now, desired.clone());
                    memory.looked_up = looking.map(|looking| looking.seen()).unwrap_or_default();
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
}

fn failure(error: &SourceError, again_at: Option<Instant>) -> Failure {
    Failure { condition: error.condition(), message: error.to_string(), again_at }
}
