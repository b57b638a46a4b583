//! From facts to builds: what happened to a repository, an image, a schedule that was due, or the end of another build starts
//! the pipelines that wait for it.
//!
//! Facts come from the bus, each at least once. Noting one in the inbox and making its builds is one transaction,
//! and the bus hears of it after the commit: dying between any two lines of this starts nothing twice and loses
//! nothing.

mod ended;
pub(crate) mod images;
pub(crate) mod matching;
mod scheduled;

use std::borrow::Cow;

use slipway_api::agent::{PullRequest, TriggerCommit};
use slipway_api::build::Initiator;
use slipway_api::pipeline::Pipeline;
use slipway_bus::Queue;
use slipway_model::{AccountId, BuildId, BuildStatus, Fact, ImageEvent, PushedCommit, RepoEvent};
use slipway_store::facts::Recorded;
use slipway_store::{Ask, Scope, Service, Store, StoreError, Tx, builds, hooks, pipelines, projects};

use crate::ci::orders::Run;
use crate::ci::providers;
use crate::ci::start::{self, Happened};
use crate::ctx::Server;
use crate::facts::consuming::Consumer;
use crate::facts::later::Trouble;
use crate::identity::access::project_of;

pub(crate) const CONSUMER: &str = "triggers";

/// Starts the pipelines that wait for what happened.
pub(crate) struct Triggers;

impl Consumer for Triggers {
    const QUEUE: Queue<'static> = Queue {
        name: CONSUMER,
        topics: &[
            "facts.pushed",
            "facts.repository",
            "facts.imagePushed",
            "facts.scheduled",
            "facts.buildFinished",
        ],
    };
    type Work = Work;

    async fn prepare(server: &Server, facts: Vec<Recorded>) -> Vec<Result<Option<Work>, Trouble>> {
        let count = facts.len();
        let found = match server.store().read(move |tx| find_all(tx, facts)).await {
            Ok(found) => found,
            Err(error) => return (0..count).map(|_| Err(error.again().into())).collect(),
        };
        let mut prepared = Vec::with_capacity(count);
        for one in found {
            prepared.push(match one {
                Found::Follows(work) => Ok(work),
                Found::Asks(fact) => prepare(server, fact).await,
                Found::Fails(error) => Err(error.into()),
            });
        }
        prepared
    }

    fn asks(work: &Work) -> Vec<Ask> {
        match work {
            Work::Happened { scope, event, candidates } => {
                let asks = |candidate: &Candidate| candidate.asks(*scope, event);
                candidates.iter().flat_map(asks).collect()
            }
            _ => Vec::new(),
        }
    }

    fn carry_out(server: &Server, tx: &mut Tx<'_>, work: &Work) -> Result<(), StoreError> {
        match work {
            Work::Note { scope, event, text } => {
                hooks::note_problem(tx, *scope, &event.context, &event.repo, text)
            }
            Work::Happened { scope, event, candidates } => happened(server, tx, *scope, event, candidates),
            Work::Image { scope, image, candidates } => {
                images::carry_out(server, tx, *scope, image, candidates)
            }
            Work::Due(due) => scheduled::carry_out(server, tx, due),
            Work::Ended { scope, build, status, candidates } => {
                ended::carry_out(server, tx, *scope, *build, *status, candidates)
            }
        }
    }

    fn store(server: &Server) -> Store {
        server.store().acting_as(Service::PipelineManager)
    }
}

/// What follows from a fact. Pipelines were read and understood before the transaction, which looks at those alone that
/// may start.
pub(crate) enum Work {
    /// Somebody has to know that nothing was started.
    Note {
        scope: Scope,
        event: Box<RepoEvent>,
        text: String,
    },
    Happened {
        scope: Scope,
        event: Box<RepoEvent>,
        candidates: Vec<Candidate>,
    },
    Image {
        scope: Scope,
        image: Box<ImageEvent>,
        candidates: Vec<Candidate>,
    },
    Due(Box<scheduled::Due>),
    Ended {
        scope: Scope,
        build: BuildId,
        status: BuildStatus,
        candidates: Vec<Candidate>,
    },
}

/// A pipeline that may start, as it was when it was looked at.
pub(crate) struct Candidate {
    pub(super) row: pipelines::Pipeline,
    pub(super) pipeline: Pipeline,
}

impl Candidate {
    pub(super) fn read(row: pipelines::Pipeline) -> Result<Self, StoreError> {
        let pipeline = serde_json::from_str(&row.body).map_err(StoreError::corrupt)?;
        Ok(Self { row, pipeline })
    }

    /// What starting it for this event asks first.
    fn asks(&self, scope: Scope, event: &RepoEvent) -> Vec<Ask> {
        let fired =
            self.pipeline.spec.triggers.iter().filter(|trigger| matching::fires(trigger, event).is_ok());
        let causes = fired.map(|trigger| {
            let cause = Happened::Repository { event, trigger: &trigger.name }.text(self.row.id);
            builds::asks_by_cause(scope, &cause)
        });
        self.asks_now(scope).into_iter().chain(causes).collect()
    }

    /// What [`Self::now`] asks, and for its project, which is asked for next.
    fn asks_now(&self, scope: Scope) -> [Ask; 2] {
        let project = projects::asks_by_name(scope, project_of(&self.row.name));
        [pipelines::asks_by_name(scope, &self.row.id.to_string()), project]
    }

    /// What it is now: somebody may have changed or deleted it since.
    pub(super) fn now(&self, tx: &mut Tx<'_>, scope: Scope) -> Result<Option<Current<'_>>, StoreError> {
        tx.fetch(self.asks_now(scope))?;
        let Some(row) = pipelines::by_name(tx, scope, &self.row.id.to_string())? else { return Ok(None) };
        let pipeline = match row.revision == self.row.revision {
            true => Cow::Borrowed(&self.pipeline),
            false => Cow::Owned(serde_json::from_str(&row.body).map_err(StoreError::corrupt)?),
        };
        Ok(Some((row, pipeline)))
    }
}

type Current<'c> = (pipelines::Pipeline, Cow<'c, Pipeline>);

/// What one snapshot says of a fact.
enum Found {
    Follows(Option<Work>),
    /// Somebody else has to be asked first.
    Asks(Recorded),
    Fails(StoreError),
}

/// Looks at all facts of a batch on one snapshot: they are often about the same repository.
fn find_all(tx: &mut Tx<'_>, facts: Vec<Recorded>) -> Result<Vec<Found>, StoreError> {
    let mut asked = Vec::new();
    for recorded in &facts {
        if let Fact::Repository { event, .. } = &recorded.fact {
            asked.push(pipelines::asks_naming(Scope::of(recorded.account), &event.repo)?);
        }
    }
    tx.fetch(asked)?;
    let one = |recorded: Recorded| {
        let incomplete = match &recorded.fact {
            Fact::Scheduled { .. } => Ok(true),
            Fact::Repository { account, event } => looks_at_files(tx, *account, &event.repo)
                .map(|needs_files| providers::is_incomplete(event, needs_files)),
            _ => Ok(false),
        };
        match incomplete {
            Ok(true) => Found::Asks(recorded),
            Ok(false) => find(tx, recorded).map_or_else(Found::Fails, Found::Follows),
            Err(error) => Found::Fails(error),
        }
    };
    Ok(facts.into_iter().map(one).collect())
}

async fn prepare(server: &Server, mut recorded: Recorded) -> Result<Option<Work>, Trouble> {
    if let Fact::Scheduled { account, pipeline, schedule, due_ms } = &recorded.fact {
        let due = scheduled::prepare(server, *account, *pipeline, schedule, *due_ms).await?;
        return Ok(due.map(|due| Work::Due(Box::new(due))));
    }
    if let Fact::Repository { account, event } = &mut recorded.fact {
        // What the provider left out is asked for before the transaction.
        let context = event.context.clone();
        let (of, repo) = (*account, event.repo.clone());
        let needs_files = event.changed_paths.is_none()
            && server.store().read(move |tx| looks_at_files(tx, of, &repo)).await?;
        match providers::complete(server, *account, &context, event, needs_files).await {
            Ok(()) => {}
            Err(providers::ProviderError::Store(error)) => return Err(error.into()),
            Err(error) if error.may_pass() => {
                let (what, why) = (format!("`{}`", event.repo), error.to_string());
                return Err(Trouble::Away { account: *account, context, what, why });
            }
            Err(error) => {
                tracing::warn!(%error, repo = event.repo, "Cannot process a webhook.")
            }
        }
    }
    Ok(server.store().read(move |tx| find(tx, recorded)).await?)
}

/// Whether a trigger of the repository looks at which files changed: most do not, and their provider is not asked.
fn looks_at_files(tx: &mut Tx<'_>, account: AccountId, repo: &str) -> Result<bool, StoreError> {
    let all = pipelines::naming(tx, Scope::of(account), repo)?;
    Ok(all.iter().any(|row| row.body.contains("modifiedFilesGlob")))
}

/// What follows from a fact, on a snapshot.
fn find(tx: &mut Tx<'_>, recorded: Recorded) -> Result<Option<Work>, StoreError> {
    let scope = Scope::of(recorded.account);
    match recorded.fact {
        Fact::Pushed { repo, reference, before, after: Some(commit), changed_paths, pusher, .. } => {
            let Some(mut event) = pushed(&repo, &reference, before.is_none(), &commit) else {
                return Ok(None);
            };
            // A branch that is new has nothing to be compared with.
            event.changed_paths = before.is_some().then_some(changed_paths);
            event.sender = pusher;
            event.cause = format!("fact:{}", recorded.seq);
            may_start(tx, scope, Box::new(event))
        }
        Fact::Repository { event, .. } => may_start(tx, scope, event),
        Fact::ImagePushed { image, .. } => {
            let candidates = images::candidates(tx, scope, &image)?;
            Ok((!candidates.is_empty()).then_some(Work::Image { scope, image, candidates }))
        }
        Fact::BuildFinished { build, status, .. } => wait_for(tx, scope, build, status),
        _ => Ok(None),
    }
}

/// The pipelines that what happened to a repository may start.
fn may_start(tx: &mut Tx<'_>, scope: Scope, event: Box<RepoEvent>) -> Result<Option<Work>, StoreError> {
    if matching::is_skipped(&event) {
        return Ok(None);
    }
    if event.sha.is_empty() && (event.comment.is_some() || event.release.is_some()) {
        // Its commit could not be asked for, and no other is meant.
        let text = "no build for a comment or release: the provider did not say which commit it is about";
        return Ok(Some(Work::Note { scope, event, text: text.into() }));
    }
    let mut candidates = Vec::new();
    for row in pipelines::naming(tx, scope, &event.repo)? {
        let candidate = Candidate::read(row)?;
        let concerned = candidate.pipeline.spec.triggers.iter().any(|trigger| {
            matching::fires(trigger, &event)
                .map_or_else(|why| why.starts_with(matching::UNKNOWN_FILES), |()| true)
        });
        if concerned {
            candidates.push(candidate);
        }
    }
    Ok((!candidates.is_empty()).then_some(Work::Happened { scope, event, candidates }))
}

/// The pipelines that wait for the end of another's build.
fn wait_for(
    tx: &mut Tx<'_>,
    scope: Scope,
    build: BuildId,
    status: BuildStatus,
) -> Result<Option<Work>, StoreError> {
    let rows = pipelines::chained(tx, scope)?;
    if rows.is_empty() {
        return Ok(None);
    }
    let Some(before) = builds::by_id(tx, scope, build)? else { return Ok(None) };
    let mut candidates = Vec::new();
    for row in rows {
        let candidate = Candidate::read(row)?;
        if ended::starts(&candidate.pipeline, &before, status) {
            candidates.push(candidate);
        }
    }
    Ok((!candidates.is_empty()).then_some(Work::Ended { scope, build, status, candidates }))
}

/// A push to the built-in host in the words of every provider.
fn pushed(repo: &str, reference: &str, new: bool, commit: &PushedCommit) -> Option<RepoEvent> {
    let (kind, branch) = match (reference.strip_prefix("refs/heads/"), reference.strip_prefix("refs/tags/")) {
        (Some(branch), _) => ("push.heads", branch),
        (_, Some(tag)) => ("push.tags", tag),
        _ => return None,
    };
    let mut events = vec!["push".to_owned(), kind.to_owned()];
    if new && kind == "push.heads" {
        events.push("push.newBranch".to_owned());
    }
    Some(RepoEvent {
        provider: "builtin".into(),
        repo: repo.to_owned(),
        events,
        branch: branch.to_owned(),
        sha: commit.sha.clone(),
        author: commit.author.clone(),
        message: commit.message.clone(),
        ..RepoEvent::default()
    })
}

/// A build for each trigger that the event fires.
fn happened(
    server: &Server,
    tx: &mut Tx<'_>,
    scope: Scope,
    event: &RepoEvent,
    candidates: &[Candidate],
) -> Result<(), StoreError> {
    for candidate in candidates {
        let Some((row, pipeline)) = candidate.now(tx, scope)? else { continue };
        for trigger in &pipeline.spec.triggers {
            if let Err(why) = matching::fires(trigger, event) {
                if why.starts_with(matching::UNKNOWN_FILES) {
                    // The only reason that nobody can see in the event or in the trigger: it is told where hooks are listed.
                    let text =
                        format!("pipeline `{}`, trigger `{}` was not started: {why}", row.name, trigger.name);
                    tracing::warn!(pipeline = row.name, why, "A trigger did not start its pipeline.");
                    hooks::note_problem(tx, scope, &event.context, &event.repo, &text)?;
                }
                continue;
            }
            let run = Run {
                trigger: Some(trigger),
                commit: Some(commit(event, &trigger.name)),
                webhook: true,
                initiator: Some(Initiator {
                    kind: "git".into(),
                    name: trigger.name.clone(),
                    by: Some(event.sender.clone()).filter(|sender| !sender.is_empty()),
                }),
                ..Run::default()
            };
            let of = start::Current { row: &row, pipeline: &pipeline };
            match start::order(tx, scope, of, run) {
                Ok(order) => {
                    let cause = Happened::Repository { event, trigger: &trigger.name };
                    start::start(server, tx, scope, of, &order, cause)?;
                }
                Err(error) => {
                    tracing::warn!(pipeline = row.name, %error, "A push matched a pipeline that cannot run.");
                }
            }
        }
    }
    Ok(())
}

fn commit(event: &RepoEvent, trigger: &str) -> TriggerCommit {
    let pull_request = event.pull_request.as_ref().map(|pull_request| PullRequest {
        number: pull_request.number,
        title: pull_request.title.clone(),
        action: pull_request.action.clone(),
        target: pull_request.target.clone(),
        head_repo: pull_request.head_repo.clone(),
        is_fork: pull_request.is_fork,
        merged: pull_request.merged,
        url: pull_request.url.clone(),
        labels: pull_request.labels.clone(),
    });
    TriggerCommit {
        repo: event.repo.clone(),
        branch: event.branch.clone(),
        sha: event.sha.clone(),
        author: event.author.clone(),
        message: event.message.clone(),
        trigger_name: trigger.to_owned(),
        event: event.events.last().cloned().unwrap_or_default(),
        provider: event.provider.clone(),
        url: event.url.clone(),
        pull_request,
    }
}
