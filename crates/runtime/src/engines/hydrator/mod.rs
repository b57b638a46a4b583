//! The source hydrator: manifests are rendered from one place and pushed to another, from which they are synced.
//!
//! In: an Application with `spec.sourceHydrator`. Out: a commit with `manifest.yaml` on the branch it names, and on the
//! Application what became of it. Applications that render the same revision of one repository to the same branch are a
//! group, and a group is one commit: whoever of them is looked at first makes it for all, and the others find it. Where
//! one of them cannot be rendered, nothing of the group is pushed. What is on the branch already is not pushed again, so
//! that a process that is killed between the push and the note pushes nothing twice.

mod push;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use slipway_crd::{Application, ApplicationSource, HydrateOperation, SourceHydrator, names};
use slipway_gitops::compare::rfc3339;
use slipway_gitops::project;
use slipway_reconcile::Stop;
use slipway_source::git::check_path;
use slipway_source::{Commit, Repository, Since, normalise_repo_url};

use crate::engine::{Engine, Memory};
use crate::engines::applications::reconcile::Session;
use crate::engines::applications::sources::Desired;
use slipway_reconcile::{Key, Wake};

/// A hydration that failed is tried again after this time.
const AGAIN: Duration = Duration::from_secs(120);

/// What the Applications of a group have in common: repository and revision of the source, repository and branch of
/// the commit.
type Group = [String; 4];

/// One of a group after the other.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<Group, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    fn of(&self, group: Group) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.lock().expect("no panic while locked");
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        turns.entry(group).or_default().clone()
    }
}

/// The rendered manifests of one Application, and where they go.
struct Hydrated {
    key: Key,
    hydrator: SourceHydrator,
    text: String,
}

impl Engine {
    /// Brings the branch up to date if it is not. The look that follows asks the repository anew when something was
    /// pushed.
    pub(crate) async fn hydrate(&self, session: &mut Session<'_>, wake: Wake) -> Result<Wake, Stop> {
        let Some(hydrator) = session.app.spec.source_hydrator.clone() else { return Ok(wake) };
        let asked = session.app.metadata.annotation(names::HYDRATE).is_some();
        session.hydrate = asked;
        let since = match wake.since {
            Some(since) => Since::Asked(since),
            None if asked => Since::now(),
            None => Since::Within(self.config.resync / 2),
        };
        let dry = match self.dry_commit(&session.app, &hydrator, since).await {
            Ok(dry) => dry,
            Err(why) => {
                self.note(session, &hydrator, "", Err(why));
                return Ok(wake);
            }
        };
        let status = session.app.status.source_hydrator.clone().unwrap_or_default();
        let same = |done: &HydrateOperation| done.dry_sha == dry && done.source_hydrator == hydrator;
        if !asked && status.last_successful_operation.as_ref().is_some_and(same) {
            return Ok(wake);
        }
        let failed = status.current_operation.as_ref().filter(|done| done.phase == "Failed" && same(done));
        let again = failed.and_then(|done| done.finished_at.as_ref()?.parse::<Timestamp>().ok());
        let again = again.and_then(|at| at.checked_add(AGAIN).ok()).filter(|at| *at > Timestamp::now());
        if !asked && again.is_some() {
            session.requeue_at_time(again);
            return Ok(wake);
        }
        let entry = session.app.status.source_hydrator.get_or_insert_default();
        entry.current_operation = Some(HydrateOperation {
            started_at: Some(rfc3339(Timestamp::now())),
            phase: "Hydrating".into(),
            dry_sha: dry.clone(),
            source_hydrator: hydrator.clone(),
            ..HydrateOperation::default()
        });
        self.save(session).await?;
        let app = session.app.clone();
        let outcome = self.render_and_push(&app, &hydrator, &dry, session).await;
        let pushed = outcome.is_ok();
        self.note(session, &hydrator, &dry, outcome);
        Ok(if pushed { Wake { since: Some(Instant::now()), ..wake } } else { wake })
    }

    /// Puts the outcome on the Application; it is written with the rest of the look.
    fn note(
        &self,
        session: &mut Session<'_>,
        hydrator: &SourceHydrator,
        dry: &str,
        outcome: Result<String, String>,
    ) {
        let now = Timestamp::now();
        let status = session.app.status.source_hydrator.get_or_insert_default();
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
                done.phase = "Hydrated".into();
                done.hydrated_sha = sha;
                status.last_successful_operation = Some(done.clone());
            }
            Err(why) => {
                // The same failure again is no news.
                if known.as_ref().is_some_and(|known| known.phase == "Failed" && known.message == why) {
                    status.current_operation = known;
                    return;
                }
                done.phase = "Failed".into();
                done.message = why;
                session.requeue_at_time(now.checked_add(AGAIN).ok());
            }
        }
        let status = session.app.status.source_hydrator.get_or_insert_default();
        status.current_operation = Some(done);
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
        app: &Application,
        hydrator: &SourceHydrator,
        dry: &str,
        session: &mut Session<'_>,
    ) -> Result<String, String> {
        let turn = self.hydrating.of(group(hydrator));
        let _turn = turn.lock().await;
        let own = self.hydrated(session.key, app, hydrator, dry, session.memory).await?;
        let (url, branch) = (hydrator.sync_source().repo_url, wet_branch(hydrator));
        let repository = self.access().writable(&url);
        let tip = self.renderer.git().resolve(&repository, branch, Since::now()).await.ok();
        if let Some(tip) = &tip
            && self.holds(&repository, tip, &own).await
        {
            return Ok(tip.sha.clone());
        }
        let mut changed = vec![own];
        for (key, other, hydrator) in self.companions(session.key, hydrator) {
            let mut memory = Memory { reader: true, ..Memory::default() };
            let made = match self.check_hydrator(&other, &hydrator) {
                Ok(()) => self.hydrated(&key, &other, &hydrator, dry, &mut memory).await,
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
        for made in changed.iter().filter(|made| made.key != *session.key) {
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
        memory: &mut Memory,
    ) -> Result<Hydrated, String> {
        let sources = [dry_source(hydrator)];
        let desired = self.desired(app, &sources, &[dry.to_owned()], Wake::STATE, memory).await;
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
                let goes = app.metadata.deletion_timestamp.is_some()
                    || app.metadata.annotation(names::SKIP_RECONCILE) == Some("true");
                (!goes && group(&of) == ours).then_some((key, app, of))
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
