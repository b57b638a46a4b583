//! From facts to builds: what happened to a repository, an image, a schedule that was due, or the end of another build starts
//! the pipelines that wait for it.
//!
//! Facts come from the bus, each at least once. Noting one in the inbox and making its builds is one transaction,
//! and the bus hears of it after the commit: dying between any two lines of this starts nothing twice and loses
//! nothing.

pub(crate) mod images;
pub(crate) mod matching;
mod scheduled;

use std::borrow::Cow;

use slipway_api::agent::{PullRequest, TriggerCommit};
use slipway_api::build::Initiator;
use slipway_api::pipeline::{Pipeline, PipelineTrigger, Variable};
use slipway_bus::Queue;
use slipway_model::{AccountId, BuildId, BuildStatus, Fact, ImageEvent, PushedCommit, RepoEvent};
use slipway_store::annotations::{self, Annotation};
use slipway_store::builds::Build;
use slipway_store::facts::Recorded;
use slipway_store::{Scope, Service, Store, StoreError, Tx, builds, hooks, pipelines, projects};

use crate::ci::orders::{Order, Run};
use crate::ci::start::{self, Cause};
use crate::ci::{providers, queue};
use crate::ctx::Server;
use crate::facts::consuming::Consumer;
use crate::facts::later::Trouble;
use crate::identity::access::project_of;

pub(crate) const CONSUMER: &str = "triggers";
/// So many pipelines may start each other one after the other.
const CHAIN_MAX: usize = 5;

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
        let mut prepared = Vec::with_capacity(facts.len());
        for fact in facts {
            prepared.push(prepare(server, fact).await);
        }
        prepared
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
                ended(server, tx, *scope, *build, *status, candidates)
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

    /// What it is now: somebody may have changed or deleted it since.
    pub(super) fn now(&self, tx: &mut Tx<'_>, scope: Scope) -> Result<Option<Current<'_>>, StoreError> {
        // Its project is asked for next.
        let project = projects::asks_by_name(scope, project_of(&self.row.name));
        tx.fetch([pipelines::asks_by_name(scope, &self.row.id.to_string()), project])?;
        let Some(row) = pipelines::by_name(tx, scope, &self.row.id.to_string())? else { return Ok(None) };
        let pipeline = match row.revision == self.row.revision {
            true => Cow::Borrowed(&self.pipeline),
            false => Cow::Owned(serde_json::from_str(&row.body).map_err(StoreError::corrupt)?),
        };
        Ok(Some((row, pipeline)))
    }
}

type Current<'c> = (pipelines::Pipeline, Cow<'c, Pipeline>);

async fn prepare(server: &Server, mut recorded: Recorded) -> Result<Option<Work>, Trouble> {
    if let Fact::Scheduled { account, pipeline, schedule, due_ms } = &recorded.fact {
        let due = scheduled::prepare(server, *account, *pipeline, schedule, *due_ms).await?;
        return Ok(due.map(|due| Work::Due(Box::new(due))));
    }
    if let Fact::Repository { account, event } = &mut recorded.fact {
        // What the provider left out is asked for before the transaction.
        let context = event.context.clone();
        let needs_files =
            event.changed_paths.is_none() && asks_for_files(server, *account, &event.repo).await?;
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
async fn asks_for_files(server: &Server, account: AccountId, repo: &str) -> Result<bool, StoreError> {
    let repo = repo.to_owned();
    let found = server.store().read(move |tx| {
        let all = pipelines::naming(tx, Scope::of(account), &repo)?;
        Ok(all.iter().any(|row| row.body.contains("modifiedFilesGlob")))
    });
    found.await
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
        if after_others(&candidate.pipeline).iter().any(|trigger| waits_for(trigger, &before, status)) {
            candidates.push(candidate);
        }
    }
    Ok((!candidates.is_empty()).then_some(Work::Ended { scope, build, status, candidates }))
}

fn after_others(pipeline: &Pipeline) -> Vec<PipelineTrigger> {
    let mut triggers = pipeline.spec.settings().unwrap_or_default().pipeline_triggers.unwrap_or_default();
    triggers.retain(|trigger| !trigger.disabled);
    triggers
}

fn waits_for(trigger: &PipelineTrigger, before: &Build, status: BuildStatus) -> bool {
    let named = trigger.pipeline == before.pipeline_name || trigger.pipeline == before.pipeline.to_string();
    let wanted = match trigger.statuses.as_slice() {
        [] => status == BuildStatus::Success,
        some => some.iter().any(|word| word == status.as_str()),
    };
    let branch = trigger.branch_regex.as_deref().is_none_or(|pattern| queue::fits(pattern, &before.branch));
    named && wanted && branch
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
                    let cause = Cause::Repository { event, trigger: &trigger.name };
                    start::start(server, tx, scope, of, &order, cause, None)?;
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

/// A build has ended: the pipelines that wait for its pipeline start.
fn ended(
    server: &Server,
    tx: &mut Tx<'_>,
    scope: Scope,
    build: BuildId,
    status: BuildStatus,
    candidates: &[Candidate],
) -> Result<(), StoreError> {
    let Some(before) = builds::by_id(tx, scope, build)? else { return Ok(()) };
    let order: Order = before.order()?;
    for candidate in candidates {
        let Some((row, pipeline)) = candidate.now(tx, scope)? else { continue };
        for trigger in after_others(&pipeline).iter().filter(|trigger| waits_for(trigger, &before, status)) {
            let mut chain = order.chain.clone();
            chain.push(before.pipeline_name.clone());
            if chain.len() > CHAIN_MAX || chain.contains(&row.name) {
                let again = chain.contains(&row.name);
                let chain = chain.join(" → ");
                let why = if again {
                    "it is already in this chain"
                } else {
                    "the chain has reached its maximum length"
                };
                let text = format!("pipeline `{}` was not started after {chain}: {why}", row.name);
                tracing::warn!(
                    chain,
                    pipeline = row.name,
                    "Pipelines trigger each other in a loop; not starting this one."
                );
                note_unstarted(server, tx, scope, build, &text)?;
                continue;
            }
            let text = |key: &str, value: String| Variable { key: key.into(), value, encrypted: false };
            let run = Run {
                commit: order
                    .commit
                    .clone()
                    .map(|commit| TriggerCommit { trigger_name: trigger.name.clone(), ..commit }),
                trigger_variables: vec![
                    text("PREDECESSOR_BUILD_ID", build.to_string()),
                    text("PREDECESSOR_PIPELINE", before.pipeline_name.clone()),
                    text("PREDECESSOR_STATUS", status.as_str().into()),
                ],
                annotations: [(queue::PREDECESSOR.to_owned(), build.to_string().into())].into(),
                chain,
                initiator: Some(Initiator {
                    kind: "pipeline".into(),
                    name: before.pipeline_name.clone(),
                    by: None,
                }),
                ..Run::default()
            };
            let of = start::Current { row: &row, pipeline: &pipeline };
            match start::order(tx, scope, of, run) {
                Ok(mut next) => {
                    next.git_context.clone_from(&order.git_context);
                    let cause = Cause::Ended { build, trigger: &trigger.name };
                    start::start(server, tx, scope, of, &next, cause, None)?;
                }
                Err(error) => {
                    tracing::warn!(pipeline = row.name, %error, "A pipeline that another one triggers cannot run.");
                    let text = format!("pipeline `{}` was not started after this build: {error}", row.name);
                    note_unstarted(server, tx, scope, build, &text)?;
                }
            }
        }
    }
    Ok(())
}

/// The annotation of a build that says which pipelines did not start after it, and why.
pub(crate) const UNSTARTED: &str = "not_started";

/// Where people look: the build that would have started it.
fn note_unstarted(
    server: &Server,
    tx: &mut Tx<'_>,
    scope: Scope,
    build: BuildId,
    text: &str,
) -> Result<(), StoreError> {
    let entity = build.to_string();
    let known =
        annotations::of(tx, scope, "build", &entity)?.into_iter().find(|known| known.name == UNSTARTED);
    let mut all: Vec<String> =
        known.and_then(|known| serde_json::from_str(&known.value).ok()).unwrap_or_default();
    if all.iter().any(|known| known == text) {
        return Ok(());
    }
    all.push(text.to_owned());
    let value = serde_json::to_string(&all).map_err(StoreError::corrupt)?;
    let annotation = Annotation { name: UNSTARTED.into(), value, at_ms: server.now_ms() };
    annotations::set(tx, scope, "build", &entity, &annotation)
}
