//! From facts to builds: what happened to a repository, or the end of another build, starts the pipelines that wait for it.
//!
//! Facts come from the bus, each at least once. Noting one in the inbox and making its builds is one transaction,
//! and the bus hears of it after the commit: dying between any two lines of this starts nothing twice and loses
//! nothing.

pub(crate) mod matching;

use std::time::Duration;

use slipway_api::agent::{PullRequest, TriggerCommit};
use slipway_api::build::Initiator;
use slipway_api::pipeline::{Pipeline, Variable};
use slipway_bus::{ATTEMPTS_MAX, Message};
use slipway_model::{AccountId, BuildId, BuildStatus, Fact, Next, PushedCommit, RepoEvent};
use slipway_store::annotations::{self, Annotation};
use slipway_store::facts::Recorded;
use slipway_store::{Scope, Service, StoreError, Tx, builds, hooks, inbox, pipelines, projects};

use crate::access::project_of;
use crate::ctx::Server;
use crate::later::{self, Trouble};
use crate::orders::{Order, Run};
use crate::{jobs, providers, queue, relay};

pub(crate) const CONSUMER: &str = "triggers";
const PAUSE: Duration = Duration::from_millis(200);
/// So many pipelines may start each other one after the other.
const CHAIN_MAX: usize = 5;

pub(crate) async fn run(server: &Server) {
    let mut consumer = server.inner.bus.consume(CONSUMER);
    let shutdown = server.inner.shutdown.clone();
    loop {
        let delivery = tokio::select! {
            () = shutdown.cancelled() => return,
            delivery = consumer.next() => delivery,
        };
        let delivery = match delivery {
            Ok(delivery) => delivery,
            Err(error) => {
                tracing::error!(%error, "Pushes do not start builds: cannot use the message bus.");
                tokio::time::sleep(PAUSE * 10).await;
                continue;
            }
        };
        // The database may be away: that is not this message's fault, and does not count against it.
        let outcome = loop {
            let outcome = match take(server, delivery.message()).await {
                // It is tried again later, and holds nobody up.
                Err(trouble @ Trouble::Away { .. }) => {
                    later::keep(server, CONSUMER, delivery.message(), &trouble, false).await
                }
                Err(Trouble::Store(error))
                    if !matches!(error.next(), Next::Retry) && delivery.attempt() >= ATTEMPTS_MAX =>
                {
                    later::keep(server, CONSUMER, delivery.message(), &error.into(), true).await
                }
                Err(Trouble::Store(error)) => Err(error),
                Ok(()) => Ok(()),
            };
            match outcome {
                Err(error) if matches!(error.next(), Next::Retry) => {
                    jobs::ran(server, CONSUMER, Err::<(), _>(error));
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        () = tokio::time::sleep(PAUSE) => {}
                    }
                }
                other => break other,
            }
        };
        let failed = outcome.is_err();
        jobs::ran(server, CONSUMER, outcome);
        let answered = if failed {
            tokio::time::sleep(PAUSE).await;
            delivery.retry().await
        } else {
            delivery.ack().await
        };
        if let Err(error) = answered {
            tracing::debug!(%error, "Cannot acknowledge a message; the bus will deliver it again.");
        }
    }
}

/// The inbox and what follows from the message are one transaction.
pub(crate) async fn take(server: &Server, message: &Message) -> Result<(), Trouble> {
    let mut recorded = relay::read(message)?;
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
    let (inner, id) = (server.clone(), message.id.clone());
    let store = server.store().acting_as(Service::PipelineManager);
    store
        .write(move |tx| {
            if inbox::first_time(tx, CONSUMER, &id, inner.now_ms())? {
                handle(&inner, tx, &recorded)?;
            }
            Ok(())
        })
        .await?;
    Ok(())
}

/// Whether a trigger of the repository looks at which files changed: most do not, and their provider is not asked.
async fn asks_for_files(server: &Server, account: AccountId, repo: &str) -> Result<bool, StoreError> {
    let repo = repo.to_owned();
    let found = server.store().read(move |tx| {
        let all = pipelines::list(tx, Scope::of(account))?;
        Ok(all.iter().any(|row| row.body.contains("modifiedFilesGlob") && row.body.contains(&repo)))
    });
    found.await
}

fn handle(server: &Server, tx: &mut Tx<'_>, recorded: &Recorded) -> Result<(), StoreError> {
    let scope = Scope::of(recorded.account);
    match &recorded.fact {
        Fact::Pushed { repo, reference, before, after: Some(commit), changed_paths, pusher, .. } => {
            let Some(mut event) = pushed(repo, reference, before.is_none(), commit) else { return Ok(()) };
            // A branch that is new has nothing to be compared with.
            event.changed_paths = before.is_some().then(|| changed_paths.clone());
            event.sender.clone_from(pusher);
            event.cause = format!("fact:{}", recorded.seq);
            happened(server, tx, scope, &event)
        }
        Fact::Repository { event, .. } => happened(server, tx, scope, event),
        Fact::BuildFinished { build, status, .. } => ended(server, tx, scope, *build, *status),
        _ => Ok(()),
    }
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
fn happened(server: &Server, tx: &mut Tx<'_>, scope: Scope, event: &RepoEvent) -> Result<(), StoreError> {
    if matching::is_skipped(event) {
        return Ok(());
    }
    if event.sha.is_empty() && (event.comment.is_some() || event.release.is_some()) {
        // Its commit could not be asked for, and no other is meant.
        let text = "no build for a comment or release: the provider did not say which commit it is about";
        return hooks::note_problem(tx, scope, &event.context, &event.repo, text);
    }
    for row in pipelines::list(tx, scope)? {
        let pipeline: Pipeline = serde_json::from_str(&row.body).map_err(StoreError::corrupt)?;
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
            let project = projects::by_name(tx, scope, project_of(&row.name))?;
            let run = Run {
                project: project.as_ref(),
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
            let order = match Order::new(&pipeline, run) {
                Ok(order) => order,
                Err(error) => {
                    tracing::warn!(pipeline = row.name, %error, "A push matched a pipeline that cannot run.");
                    continue;
                }
            };
            let place = if event.context.is_empty() {
                String::new()
            } else {
                format!("{}:{}:", event.context, event.repo)
            };
            let cause = format!("{place}{}:{}:{}", event.cause, row.id, trigger.name);
            queue::start(server, tx, scope, &row, &pipeline, &order, &cause)?;
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
) -> Result<(), StoreError> {
    let Some(before) = builds::by_id(tx, scope, build)? else { return Ok(()) };
    let order: Order = before.order()?;
    for row in pipelines::list(tx, scope)?.into_iter().filter(|row| row.body.contains("pipelineTriggers")) {
        let pipeline: Pipeline = serde_json::from_str(&row.body).map_err(StoreError::corrupt)?;
        let triggers = pipeline.spec.settings().unwrap_or_default().pipeline_triggers.unwrap_or_default();
        for trigger in triggers.iter().filter(|trigger| !trigger.disabled) {
            let named =
                trigger.pipeline == before.pipeline_name || trigger.pipeline == before.pipeline.to_string();
            let wanted = match trigger.statuses.as_slice() {
                [] => status == BuildStatus::Success,
                some => some.iter().any(|word| word == status.as_str()),
            };
            let branch =
                trigger.branch_regex.as_deref().is_none_or(|pattern| queue::fits(pattern, &before.branch));
            if !named || !wanted || !branch {
                continue;
            }
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
            let project = projects::by_name(tx, scope, project_of(&row.name))?;
            let run = Run {
                project: project.as_ref(),
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
            match Order::new(&pipeline, run) {
                Ok(mut next) => {
                    next.git_context.clone_from(&order.git_context);
                    let cause = format!("after:{build}:{}:{}", row.id, trigger.name);
                    queue::start(server, tx, scope, &row, &pipeline, &next, &cause)?;
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
