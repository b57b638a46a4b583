//! The source hydrator: manifests are rendered from one place and pushed to another, from which they are synced.
//!
//! In: an Application with `spec.sourceHydrator`. Out: a commit with `manifest.yaml` on the branch it names, and on the
//! Application what became of it. Applications that render the same revision of one repository to the same branch are a
//! group, and a group is one commit: whoever of them is reconciled first makes it for all, and the others find it. Where
//! one of them cannot be rendered, nothing of the group is pushed. What is on the branch already is not pushed again, so
//! that a process that is killed between the push and the note pushes nothing twice.

mod push;
mod state;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::Live;
use slipway_crd::{Application, ApplicationSource, HydrateOperation, HydratePhase, SourceHydrator, names};
use slipway_gitops::compare::rfc3339;
use slipway_gitops::project;
use slipway_reconcile::{Key, Kind, Reconciler, Requeue, Retry, Stop, Wake, Watch, merge_patch, save};
use slipway_source::git::check_path;
use slipway_source::{Commit, Repository, Since, normalise_repo_url};

pub(crate) use state::Hydrating;
use state::{Group, Known};

use super::APPLICATION;
use super::applications::sources::Desired;
use crate::engine::{Engine, Memory};

/// A hydration that failed is tried again after this time.
const AGAIN: Duration = Duration::from_secs(120);

/// The rendered manifests of one Application, and where they go.
struct Hydrated {
    key: Key,
    hydrator: SourceHydrator,
    text: String,
}

pub(crate) struct Hydrator(Arc<Engine>);

impl From<Arc<Engine>> for Hydrator {
    fn from(engine: Arc<Engine>) -> Self {
        Self(engine)
    }
}

impl Reconciler for Hydrator {
    const NAME: &'static str = "hydrator";
    const KIND: Kind = APPLICATION;
    const MANAGER: &'static str = names::FIELD_MANAGER;
    const RETRY: Retry = Retry::every(Duration::from_secs(2));

    fn workers(&self) -> usize {
        self.0.config.workers
    }

    /// An Application that has to be hydrated first wakes it, and is woken when that is done.
    fn watches() -> Vec<Watch<Self>> {
        Vec::new()
    }

    fn keys(&self) -> Vec<Key> {
        Vec::new()
    }

    async fn reconcile(&self, key: &Key, wake: Wake) -> Result<Requeue, Stop> {
        let requeue = self.0.hydrate(key, wake).await?;
        self.0.hydrating.arrived(key);
        self.0.apps.wake(key.clone(), Wake { state: true, ..wake });
        Ok(requeue)
    }

    async fn released(&self, key: &Key) {
        self.0.hydrating.forget(key);
    }

    fn finished(&self, key: &Key, _: Duration) {
        // It failed: nobody shall wait for its first comparison.
        if self.0.hydrating.arrived(key) {
            self.0.reporter.reconciled(key);
        }
    }
}

/// An Application on its way through the hydrator.
struct Hydration<'a> {
    key: &'a Key,
    /// As the cluster has it.
    saved: Application,
    /// As it is to be.
    app: Application,
    /// A person asked for it; the annotation goes when it is done.
    asked: bool,
    /// When a failure is tried again.
    again: Option<Timestamp>,
}

impl Hydration<'_> {
    fn requeue(&self) -> Requeue {
        let wait =
            |at: Timestamp| Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
        self.again.map_or(Requeue::Never, |at| Requeue::At(Instant::now() + wait(at)))
    }
}

impl Engine {
    /// True when the branch may be behind: what would be compared now is about to be replaced. Changes of what runs are
    /// no reason; the Application itself, the settings and news of a repository are. `written`: the object is as we
    /// left it.
    pub(crate) fn owes_hydration(&self, key: &Key, wake: Wake, live: &Live, written: bool) -> bool {
        self.hydrating.is_owed(key, |known| {
            wake.since.is_some_and(|since| since > known.at)
                || !(written || live.resource_version == known.version)
                || known.surroundings != self.surroundings().0
        })
    }

    /// Wakes the hydrator; it wakes the Application when it is done.
    pub(crate) fn hydrate_first(&self, key: &Key, wake: Wake) {
        self.hydrating.wait(key);
        self.hydrations.wake(key.clone(), wake);
    }

    /// Brings the branch up to date if it is not.
    async fn hydrate(&self, key: &Key, wake: Wake) -> Result<Requeue, Stop> {
        let (began, surroundings) = (Instant::now(), self.surroundings().0);
        let found = self.application(key).map(|(app, _)| app).filter(|app| !is_left_alone(app));
        let hydrator = found.as_ref().and_then(|app| app.spec.source_hydrator.clone());
        let (Some(app), Some(hydrator)) = (found, hydrator) else {
            self.hydrating.forget(key);
            return Ok(Requeue::Never);
        };
        let asked = app.metadata.annotation(names::HYDRATE).is_some();
        let mut hydration = Hydration { key, saved: app.clone(), app, asked, again: None };
        let pushed = self.bring_up_to_date(&mut hydration, &hydrator, wake).await?;
        self.save_hydration(&mut hydration).await?;
        let version = hydration.saved.metadata.resource_version.clone();
        let pushed = pushed.then(Instant::now).or_else(|| self.hydrating.pushed(key));
        let known = Known { at: began, version, surroundings, pushed };
        self.hydrating.note(key, known);
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
            None => Since::Within(self.config.resync / 2),
        };
        let dry = match self.dry_commit(&hydration.app, hydrator, since).await {
            Ok(dry) => dry,
            Err(why) => {
                note(hydration, hydrator, "", Err(why));
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
        note(hydration, hydrator, &dry, outcome);
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
        let answer = save(&self.cluster, hydration.key, names::API_VERSION, patch, version).await?;
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
        let repository = self.access().repository(&hydrator.dry_source.repo_url);
        let wanted = &hydrator.dry_source.target_revision;
        let commit = self.renderer.git().resolve(&repository, wanted, since).await;
        commit.map(|commit| commit.sha).map_err(|error| error.to_string())
    }

    fn check_hydrator(&self, app: &Application, hydrator: &SourceHydrator) -> Result<(), String> {
        let project = self.project(app).map_err(|failure| failure.message)?;
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
        if let Some(other) = self.shares_path(app, hydrator) {
            return Err(format!(
                "application {other} writes to the same path of the same branch; give each its own"
            ));
        }
        Ok(())
    }

    /// Another Application whose manifests would overwrite ours.
    fn shares_path(&self, app: &Application, hydrator: &SourceHydrator) -> Option<String> {
        let place = |hydrator: &SourceHydrator| {
            let path = hydrator.sync_source.path.trim_matches('/').to_owned();
            (normalise_repo_url(&hydrator.sync_source().repo_url), wet_branch(hydrator).to_owned(), path)
        };
        let ours = place(hydrator);
        let own = (&app.metadata.namespace, &app.metadata.name);
        self.applications().into_iter().find_map(|key| {
            let (other, _) = self.application(&key).filter(|_| (&key.namespace, &key.name) != own)?;
            (place(other.spec.source_hydrator.as_ref()?) == ours).then(|| key.to_string())
        })
    }

    /// Gives the commit that holds the rendered manifests.
    async fn render_and_push(
        &self,
        own_key: &Key,
        app: &Application,
        hydrator: &SourceHydrator,
        dry: &str,
    ) -> Result<String, String> {
        let turn = self.hydrating.turns.of(group(hydrator));
        let _turn = turn.lock().await;
        let own = self.hydrated(own_key, app, hydrator, dry).await?;
        let (url, branch) = (hydrator.sync_source().repo_url, wet_branch(hydrator));
        let repository = self.access().writable(&url);
        let tip = self.renderer.git().resolve(&repository, branch, Since::now()).await.ok();
        if let Some(tip) = &tip
            && self.holds(&repository, tip, &own).await
        {
            return Ok(tip.sha.clone());
        }
        let mut changed = vec![own];
        for (key, other, hydrator) in self.companions(own_key, hydrator) {
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
        let sha = self.push(&repository, branch, dry, &changed).await?;
        for made in changed.iter().filter(|made| made.key != *own_key) {
            // They find that it is done.
            self.apps.wake(made.key.clone(), Wake { since: Some(Instant::now()), ..Wake::STATE });
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
        let mut memory = Memory { reader: true, ..Memory::default() };
        let sources = [dry_source(hydrator)];
        let desired = self.desired(app, &sources, &[dry.to_owned()], Wake::STATE, &mut memory).await;
        let desired = desired.map_err(|failure| failure.message)?.desired;
        Ok(Hydrated { key: key.clone(), hydrator: hydrator.clone(), text: manifest(&desired) })
    }

    /// The others of the group.
    fn companions(&self, own: &Key, hydrator: &SourceHydrator) -> Vec<(Key, Application, SourceHydrator)> {
        let ours = group(hydrator);
        let mut found: Vec<_> = self
            .applications()
            .into_iter()
            .filter(|key| key != own)
            .filter_map(|key| {
                let (app, _) = self.application(&key)?;
                let of = app.spec.source_hydrator.clone()?;
                (!is_left_alone(&app) && group(&of) == ours).then_some((key, app, of))
            })
            .collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }

    /// True when a commit of the branch has these manifests.
    async fn holds(&self, repository: &Repository, tip: &Commit, made: &Hydrated) -> bool {
        let path = format!("{}/manifest.yaml", made.hydrator.sync_source.path.trim_matches('/'));
        let there = self.renderer.git().file(repository, tip, &path).await;
        there.is_ok_and(|there| there.is_some_and(|there| there == made.text.as_bytes()))
    }
}

/// It is being deleted, or a person said that it is not to be touched.
fn is_left_alone(app: &Application) -> bool {
    app.metadata.deletion_timestamp.is_some()
        || app.metadata.annotation(names::SKIP_RECONCILE) == Some("true")
}

/// Puts the outcome on the Application, to be written down.
fn note(
    hydration: &mut Hydration<'_>,
    hydrator: &SourceHydrator,
    dry: &str,
    outcome: Result<String, String>,
) {
    let now = Timestamp::now();
    let status = hydration.app.status.source_hydrator.get_or_insert_default();
    let known = status.current_operation.take().filter(|known| known.dry_sha == dry);
    let started = known.as_ref().and_then(|known| known.started_at.clone());
    let mut done = HydrateOperation {
        started_at: started.or_else(|| Some(rfc3339(now))),
        finished_at: Some(rfc3339(now)),
        dry_sha: dry.to_owned(),
        source_hydrator: hydrator.clone(),
        ..HydrateOperation::default()
    };
    match outcome {
        Ok(sha) => {
            done.phase = HydratePhase::Hydrated;
            done.hydrated_sha = sha;
            status.last_successful_operation = Some(done.clone());
        }
        Err(why) => {
            // The same failure again is no news.
            if known.as_ref().is_some_and(|known| known.phase == HydratePhase::Failed && known.message == why)
            {
                status.current_operation = known;
                return;
            }
            done.phase = HydratePhase::Failed;
            done.message = why;
            hydration.again = now.checked_add(AGAIN).ok();
        }
    }
    status.current_operation = Some(done);
}

fn group(hydrator: &SourceHydrator) -> Group {
    [
        normalise_repo_url(&hydrator.dry_source.repo_url),
        hydrator.dry_source.target_revision.clone(),
        normalise_repo_url(&hydrator.sync_source().repo_url),
        wet_branch(hydrator).to_owned(),
    ]
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

/// Where manifests are written to: the branch that is synced, or one that somebody merges into it.
fn wet_branch(hydrator: &SourceHydrator) -> &str {
    hydrator.hydrate_to.as_ref().map_or(&hydrator.sync_source.target_branch, |to| &to.target_branch)
}

fn manifest(desired: &Desired) -> String {
    desired.objects().iter().map(|object| format!("---\n{}", slipway_yaml::to_yaml(object))).collect()
}
