//! The source hydrator: manifests are rendered from one place and pushed to another, from which they are synced.
//!
//! In: an Application with `spec.sourceHydrator`. Out: a commit with `manifest.yaml` on the branch it names, and on the
//! Application what became of it. Applications that render the same revision of one repository to the same branch are a
//! group, and a group is one commit: whoever of them is reconciled first makes it for all, and the others find it. Where
//! one of them cannot be rendered, nothing of the group is pushed. What is on the branch already is not pushed again, so
//! that a process that is killed between the push and the note pushes nothing twice.

mod group;
mod handle;
mod hydration;
mod push;
mod state;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_crd::{Application, ApplicationSource, HydrateOperation, HydratePhase, SourceHydrator, names};
use slipway_gitops::compare::rfc3339;
use slipway_gitops::project;
use slipway_reconcile::{Key, Kind, Reconciler, Requeue, Retry, Stop, Task, Wake, Watch, merge_patch, save};
use slipway_source::git::check_path;
use slipway_source::{Commit, Repository, Since};

use group::{companions, group, is_left_alone, shares_path, wet_branch};
pub(crate) use handle::Hydrations;
use hydration::{AGAIN, Hydration, finish};
use state::{Hydrating, Known};

use super::applications::sources::Desired;
use super::applications::{Applications, Memory, View};
use super::{APPLICATION, Engine, Peers};
use crate::context::Context;

/// The rendered manifests of one Application, and where they go.
struct Hydrated {
    key: Key,
    hydrator: SourceHydrator,
    text: String,
}

pub(crate) struct Hydrator {
    context: Context,
    hydrations: Arc<Hydrations>,
    /// Who renders, and is woken when it is done.
    view: View,
    applications: Arc<Task>,
}

impl Engine for Hydrator {
    fn new(context: &Context, peers: &Peers) -> Self {
        Self {
            context: context.clone(),
            hydrations: peers.hydrations.clone(),
            view: peers.applications.clone(),
            applications: context.tasks.of::<Applications>(),
        }
    }
}

impl Reconciler for Hydrator {
    const NAME: &'static str = "hydrator";
    const KIND: Kind = APPLICATION;
    const MANAGER: &'static str = names::FIELD_MANAGER;
    const RETRY: Retry = Retry::every(Duration::from_secs(2));

    fn workers(&self) -> usize {
        self.context.config.workers
    }

    /// An Application that has to be hydrated first wakes it, and is woken when that is done.
    fn watches() -> Vec<Watch<Self>> {
        Vec::new()
    }

    fn keys(&self) -> Vec<Key> {
        Vec::new()
    }

    async fn reconcile(&self, key: &Key, wake: Wake) -> Result<Requeue, Stop> {
        let requeue = self.hydrate(key, wake).await?;
        self.hydrations.state.arrived(key);
        self.applications.wake(key.clone(), Wake { state: true, ..wake });
        Ok(requeue)
    }

    async fn released(&self, key: &Key) {
        self.hydrations.state.forget(key);
    }

    fn finished(&self, key: &Key, _: Duration) {
        // It failed: nobody shall wait for its first comparison.
        if self.hydrations.state.arrived(key) {
            self.context.reporter.reconciled(key);
        }
    }
}

impl Hydrator {
    /// Brings the branch up to date if it is not.
    async fn hydrate(&self, key: &Key, wake: Wake) -> Result<Requeue, Stop> {
        let (began, generation) = (Instant::now(), self.context.settings.generation());
        let found =
            self.context.inventory.application(key).map(|(app, _)| app).filter(|app| !is_left_alone(app));
        let hydrator = found.as_ref().and_then(|app| app.spec.source_hydrator.clone());
        let (Some(app), Some(hydrator)) = (found, hydrator) else {
            self.hydrations.state.forget(key);
            return Ok(Requeue::Never);
        };
        let asked = app.metadata.annotation(names::HYDRATE).is_some();
        let mut hydration = Hydration { key, saved: app.clone(), app, asked, again: None };
        let pushed = self.bring_up_to_date(&mut hydration, &hydrator, wake).await?;
        self.save_hydration(&mut hydration).await?;
        let version = hydration.saved.metadata.resource_version.clone();
        let pushed = pushed.then(Instant::now).or_else(|| self.hydrations.state.pushed(key));
        let known = Known { at: began, version, generation, pushed };
        self.hydrations.state.record(key, known);
        Ok(hydration.requeue())
    }

    /// True when something was pushed.
    async fn bring_up_to_date(
        &self,
        hydration: &mut Hydration<'_>,
        hydrator: &SourceHydrator,
        wake: Wake,
    ) -> Result<bool, Stop> {
        let asked = hydration.asked;
        let since = match wake.since {
            Some(since) => Since::Asked(since),
            None if asked => Since::now(),
            None => Since::Within(self.context.config.resync / 2),
        };
        let dry = match self.dry_commit(&hydration.app, hydrator, since).await {
            Ok(dry) => dry,
            Err(why) => {
                finish(hydration, hydrator, "", Err(why));
                return Ok(false);
            }
        };
        let status = hydration.app.status.source_hydrator.clone().unwrap_or_default();
        let same = |done: &HydrateOperation| done.dry_sha == dry && done.source_hydrator == *hydrator;
        if !asked && status.last_successful_operation.as_ref().is_some_and(same) {
            return Ok(false);
        }
        let failed =
            status.current_operation.as_ref().filter(|done| done.phase == HydratePhase::Failed && same(done));
        let again = failed.and_then(|done| done.finished_at.as_ref()?.parse::<Timestamp>().ok());
        let again = again.and_then(|at| at.checked_add(AGAIN).ok()).filter(|at| *at > Timestamp::now());
        if !asked && again.is_some() {
            hydration.again = again;
            return Ok(false);
        }
        let entry = hydration.app.status.source_hydrator.get_or_insert_default();
        entry.current_operation = Some(HydrateOperation {
            started_at: Some(rfc3339(Timestamp::now())),
            phase: HydratePhase::Hydrating,
            dry_sha: dry.clone(),
            source_hydrator: hydrator.clone(),
            ..HydrateOperation::default()
        });
        self.save_hydration(hydration).await?;
        let outcome = self.render_and_push(hydration.key, &hydration.app, hydrator, &dry).await;
        let pushed = outcome.is_ok();
        finish(hydration, hydrator, &dry, outcome);
        Ok(pushed)
    }

    /// Writes what differs, if the Application is still the one that was read.
    async fn save_hydration(&self, hydration: &mut Hydration<'_>) -> Result<(), Stop> {
        let part = |app: &Application| json!({"status": {"sourceHydrator": app.status.source_hydrator}});
        let patch = merge_patch(&part(&hydration.saved), &part(&hydration.app));
        if patch.is_none() && !hydration.asked {
            return Ok(());
        }
        let mut patch = patch.unwrap_or_else(|| json!({}));
        if std::mem::take(&mut hydration.asked) {
            patch["metadata"]["annotations"][names::HYDRATE] = Value::Null;
        }
        let version = &hydration.saved.metadata.resource_version;
        let answer = save(self.context.cluster(), hydration.key, names::API_VERSION, patch, version).await?;
        hydration.saved = serde_json::from_value(answer).unwrap_or_else(|_| hydration.app.clone());
        hydration.app = hydration.saved.clone();
        Ok(())
    }

    async fn dry_commit(
        &self,
        app: &Application,
        hydrator: &SourceHydrator,
        since: Since,
    ) -> Result<String, String> {
        self.check_hydrator(app, hydrator)?;
        let repository = self.context.settings.access().repository(&hydrator.dry_source.repo_url);
        let wanted = &hydrator.dry_source.target_revision;
        let commit = self.context.renderer.git().resolve(&repository, wanted, since).await;
        commit.map(|commit| commit.sha).map_err(|error| error.to_string())
    }

    fn check_hydrator(&self, app: &Application, hydrator: &SourceHydrator) -> Result<(), String> {
        let project = self.view.observer.permits().project(app).map_err(|failure| failure.message)?;
        for url in [&hydrator.dry_source.repo_url, &hydrator.sync_source().repo_url] {
            if !project::permits_source(&project, url) {
                return Err(format!(
                    "repository {url} is not permitted in project '{}'",
                    app.spec.project_name()
                ));
            }
        }
        let path = hydrator.sync_source.path.trim_matches('/');
        if path.is_empty() || path == "." {
            return Err("spec.sourceHydrator.syncSource.path is the root; name a folder".into());
        }
        // Files are written there before git sees the path.
        check_path(path).map_err(|error| error.to_string())?;
        if let Some(other) = shares_path(&self.context.inventory, app, hydrator) {
            return Err(format!(
                "application {other} writes to the same path of the same branch; give each its own"
            ));
        }
        Ok(())
    }

    /// Gives the commit that holds the rendered manifests.
    async fn render_and_push(
        &self,
        own_key: &Key,
        app: &Application,
        hydrator: &SourceHydrator,
        dry: &str,
    ) -> Result<String, String> {
        let turn = self.hydrations.state.turns.of(group(hydrator));
        let _turn = turn.lock().await;
        let own = self.hydrated(own_key, app, hydrator, dry).await?;
        let (url, branch) = (hydrator.sync_source().repo_url, wet_branch(hydrator));
        let repository = self.context.settings.access().writable(&url);
        let tip = self.context.renderer.git().resolve(&repository, branch, Since::now()).await.ok();
        if let Some(tip) = &tip
            && self.holds(&repository, tip, &own).await
        {
            return Ok(tip.sha.clone());
        }
        let mut changed = vec![own];
        for (key, other, hydrator) in companions(&self.context.inventory, own_key, hydrator) {
            let made = match self.check_hydrator(&other, &hydrator) {
                Ok(()) => self.hydrated(&key, &other, &hydrator, dry).await,
                Err(why) => Err(why),
            };
            let made =
                made.map_err(|why| format!("cannot hydrate because application {key} cannot: {why}"))?;
            let there = match &tip {
                Some(tip) => self.holds(&repository, tip, &made).await,
                None => false,
            };
            if !there {
                changed.push(made);
            }
        }
        let sha = push::push(&self.context, &repository, branch, dry, &changed).await?;
        for made in changed.iter().filter(|made| made.key != *own_key) {
            // They find that it is done.
            self.applications.wake(made.key.clone(), Wake { since: Some(Instant::now()), ..Wake::STATE });
        }
        Ok(sha)
    }

    async fn hydrated(
        &self,
        key: &Key,
        app: &Application,
        hydrator: &SourceHydrator,
        dry: &str,
    ) -> Result<Hydrated, String> {
        // What is remembered of an Application is of what it syncs from.
        let mut memory = Memory::read_only(Default::default());
        let sources = [dry_source(hydrator)];
        let manifests = &self.view.observer.manifests;
        let desired = manifests.desired(app, &sources, &[dry.to_owned()], Wake::STATE, &mut memory).await;
        let desired = desired.map_err(|failure| failure.message)?.desired;
        Ok(Hydrated { key: key.clone(), hydrator: hydrator.clone(), text: manifest(&desired) })
    }

    /// True when a commit of the branch has these manifests.
    async fn holds(&self, repository: &Repository, tip: &Commit, made: &Hydrated) -> bool {
        let path = format!("{}/manifest.yaml", made.hydrator.sync_source.path.trim_matches('/'));
        let there = self.context.renderer.git().file(repository, tip, &path).await;
        there.is_ok_and(|there| there.is_some_and(|there| there == made.text.as_bytes()))
    }
}

fn dry_source(hydrator: &SourceHydrator) -> ApplicationSource {
    let dry = hydrator.dry_source.clone();
    ApplicationSource {
        repo_url: dry.repo_url,
        target_revision: dry.target_revision,
        path: dry.path,
        helm: dry.helm,
        kustomize: dry.kustomize,
        directory: dry.directory,
        plugin: dry.plugin,
        ..ApplicationSource::default()
    }
}

fn manifest(desired: &Desired) -> String {
    desired.objects().iter().map(|object| format!("---\n{}", slipway_yaml::to_yaml(object))).collect()
}
