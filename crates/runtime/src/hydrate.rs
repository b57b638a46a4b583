//! The source hydrator: manifests are rendered from one place and pushed to another, from which they are synced.
//!
//! In: an Application with `spec.sourceHydrator`. Out: a commit with `manifest.yaml` on the branch it names, and on the
//! Application what became of it. The commit carries a mark of what it was made from, so that a process that is killed
//! between the push and the note finds it again and pushes nothing twice.
//! Each Application is a commit of its own; what is not below its path stays as it is.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use slipway_crd::{Application, ApplicationSource, HydrateOperation, SourceHydrator, names};
use slipway_gitops::compare::rfc3339;
use slipway_gitops::hydration::{self, DryCommit};
use slipway_gitops::project;
use slipway_source::git::{Commit as Change, Credential, Git, Identity, Pushed, Remote, check_path};
use slipway_source::{Repository, Since, normalise_repo_url};

use crate::engine::Engine;
use crate::queue::Wake;
use crate::reconcile::{Session, Stop};
use crate::sources::Desired;

/// A hydration that failed is tried again after this time.
const AGAIN: Duration = Duration::from_secs(120);
const MARK: &str = "Slipway-Hydrated-From";
const AUTHOR: (&str, &str) = ("Slipway", "slipway@localhost");

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
            self.wake_at(session.key, again);
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
                self.wake_at(session.key, now.checked_add(AGAIN).ok());
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
        let repository = self.access().repository(&hydrator.dry_source.repo_url);
        let wanted = &hydrator.dry_source.target_revision;
        let commit = self.renderer.git().resolve(&repository, wanted, since).await;
        commit.map(|commit| commit.sha).map_err(|error| error.to_string())
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
        let sources = [dry_source(hydrator)];
        let (desired, _) = self
            .desired(app, &sources, &[dry.to_owned()], Wake::STATE, session.memory)
            .await
            .map_err(|failure| failure.message)?;
        let text = manifest(&desired);
        let (url, branch) = (hydrator.sync_source().repo_url, wet_branch(hydrator));
        let path = hydrator.sync_source.path.trim_matches('/');
        let repository = self.access().writable(&url);
        if let Some(tip) = self.holds(&repository, branch, path, &text).await {
            return Ok(tip);
        }
        let io = |error: std::io::Error| format!("cannot write the manifests down: {error}");
        let folder = tempfile::tempdir_in(&self.config.data).map_err(io)?;
        let (files, scratch) = (folder.path().join("files"), folder.path().join("git"));
        let place = files.join(path);
        std::fs::create_dir_all(&place).and_then(|()| std::fs::create_dir(&scratch)).map_err(io)?;
        let commit = self.dry_commit_named(hydrator, dry).await;
        let metadata = commit.metadata();
        let message = match &self.settings().commit_message {
            Some(template) => hydration::commit_message(template, &commit, Timestamp::now())?,
            None => format!("{}: manifests of {}", app.metadata.name, &dry[..dry.len().min(7)]),
        };
        for (name, content) in [
            ("manifest.yaml", text),
            ("hydrator.metadata", format!("{metadata:#}\n")),
            ("README.md", readme(hydrator, dry)),
        ] {
            std::fs::write(place.join(name), content).map_err(io)?;
        }
        let credentials = &repository.credentials;
        if credentials.ssh_private_key.is_some() || credentials.bearer_token.is_some() {
            return Err(format!(
                "{url} is written to with a user name and a password; its Secret has neither"
            ));
        }
        let credential = match &credentials.github_app {
            Some(app) => {
                let password = app.access_token().await.map_err(|error| error.to_string())?;
                Some(Credential { username: "x-access-token".into(), password })
            }
            None => credentials
                .password
                .clone()
                .map(|password| Credential { username: credentials.username.clone(), password }),
        };
        let remote = Remote::parse(&url, credential).map_err(|error| error.to_string())?;
        let git = Git::new();
        let git = if self.config.allow_local_repositories { git.allow_file() } else { git };
        let change = Change {
            folder: files,
            add: vec![path.to_owned()],
            branch: Some(branch.to_owned()),
            message,
            author: Identity { name: AUTHOR.0.into(), email: AUTHOR.1.into() },
            mark: Some((MARK.into(), format!("{dry} {}/{}", app.metadata.namespace, app.metadata.name))),
            scratch,
        };
        match git.commit_and_push(&remote, &change).await {
            Ok(Pushed::Pushed { sha, .. } | Pushed::Already { sha, .. }) => Ok(sha),
            Ok(Pushed::Nothing { sha, .. }) => Ok(sha.unwrap_or_default()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// What is known of the commit that is rendered; it was fetched a moment ago.
    async fn dry_commit_named(&self, hydrator: &SourceHydrator, dry: &str) -> DryCommit {
        let url = &hydrator.dry_source.repo_url;
        let known = self.renderer.git().known(&self.access().repository(url), dry).await;
        let named = DryCommit { repo_url: url.clone(), sha: dry.to_owned(), ..DryCommit::default() };
        match known {
            Ok(Some(commit)) => DryCommit {
                author: format!("{} <{}>", commit.author, commit.author_email),
                date: commit.date,
                message: commit.message,
                ..named
            },
            _ => named,
        }
    }

    /// The newest commit of the branch, if it has these manifests already.
    async fn holds(&self, repository: &Repository, branch: &str, path: &str, text: &str) -> Option<String> {
        let git = self.renderer.git();
        let tip = git.resolve(repository, branch, Since::now()).await.ok()?;
        let there = git.file(repository, &tip, &format!("{path}/manifest.yaml")).await.ok()??;
        (there == text.as_bytes()).then_some(tip.sha)
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

/// Where manifests are written to: the branch that is synced, or one that somebody merges into it.
fn wet_branch(hydrator: &SourceHydrator) -> &str {
    hydrator.hydrate_to.as_ref().map_or(&hydrator.sync_source.target_branch, |to| &to.target_branch)
}

fn manifest(desired: &Desired) -> String {
    desired.objects().iter().map(|object| format!("---\n{}", slipway_yaml::to_yaml(object))).collect()
}

fn readme(hydrator: &SourceHydrator, dry: &str) -> String {
    format!(
        "# Rendered manifests\n\nMade by Slipway from `{}` of {} at `{dry}`. Change them there: whatever is changed here is overwritten.\n",
        hydrator.dry_source.path, hydrator.dry_source.repo_url
    )
}
