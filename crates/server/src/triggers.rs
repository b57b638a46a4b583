//! From facts to builds: a push starts the pipelines whose triggers match it.
//!
//! Facts come from the bus, each at least once. Noting one in the inbox and making its builds is one transaction,
//! and the bus hears of it after the commit: dying between any two lines of this starts nothing twice and loses
//! nothing.

use std::time::Duration;

use slipway_api::agent::TriggerCommit;
use slipway_api::pipeline::{GitTrigger, Pipeline};
use slipway_bus::Delivery;
use slipway_model::{Fact, Next, PushedCommit};
use slipway_store::builds::NewBuild;
use slipway_store::facts::Recorded;
use slipway_store::{Scope, Service, StoreError, Tx, builds, inbox, pipelines};

use crate::ctx::Server;
use crate::orders::Order;
use crate::relay;

pub(crate) const CONSUMER: &str = "triggers";
const SKIP_MARKS: [&str; 5] = ["[skip ci]", "[ci skip]", "[no ci]", "[skip codefresh]", "[codefresh skip]"];
const PAUSE: Duration = Duration::from_millis(200);

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
                tracing::error!(%error, "Pushes are not followed up: the bus cannot be used.");
                tokio::time::sleep(PAUSE * 10).await;
                continue;
            }
        };
        // The database may be away: that is not this message's fault, and does not count against it.
        let mut outcome = take(server, &delivery).await;
        while let Err(error) = &outcome
            && matches!(error.next(), Next::Retry)
        {
            tracing::warn!(%error, "Could not follow up on what happened; trying again.");
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
            outcome = take(server, &delivery).await;
        }
        let answered = match outcome {
            Ok(()) => delivery.ack().await,
            Err(error) => {
                tracing::error!(%error, message = delivery.message().id, "Could not follow up on what happened.");
                tokio::time::sleep(PAUSE).await;
                delivery.retry().await
            }
        };
        if let Err(error) = answered {
            tracing::debug!(%error, "An answer did not reach the bus; the message comes again.");
        }
    }
}

/// The inbox and what follows from the message are one transaction.
async fn take(server: &Server, delivery: &Delivery) -> Result<(), StoreError> {
    let recorded = relay::read(delivery.message())?;
    let (inner, id) = (server.clone(), delivery.message().id.clone());
    let store = server.store().acting_as(Service::PipelineManager);
    store
        .write(move |tx| {
            if inbox::first_time(tx, CONSUMER, &id, inner.now_ms())? {
                handle(&inner, tx, &recorded)?;
            }
            Ok(())
        })
        .await
}

fn handle(server: &Server, tx: &mut Tx<'_>, recorded: &Recorded) -> Result<(), StoreError> {
    let Fact::Pushed { repo, reference, after: Some(commit), .. } = &recorded.fact else { return Ok(()) };
    if SKIP_MARKS.iter().any(|mark| commit.message.contains(mark)) {
        return Ok(());
    }
    let scope = Scope::of(recorded.account);
    for row in pipelines::list(tx, scope)? {
        let pipeline: Pipeline = serde_json::from_str(&row.body).map_err(StoreError::corrupt)?;
        for trigger in &pipeline.spec.triggers {
            let Some(branch) = matches(trigger, repo, reference) else { continue };
            let cause = format!("fact:{}:{}:{}", recorded.seq, row.id, trigger.name);
            let order = match Order::new(
                &pipeline,
                Some(started_by(repo, branch, commit, trigger)),
                Vec::new(),
                true,
            ) {
                Ok(order) => order,
                Err(error) => {
                    tracing::warn!(pipeline = row.name, ?error, "A push matched a pipeline that cannot run.");
                    continue;
                }
            };
            let new = NewBuild {
                id: server.seams().new_id(),
                pipeline: row.id,
                pipeline_name: &row.name,
                order: &order,
                cause: &cause,
            };
            builds::create(tx, scope, &new, server.now_ms())?;
        }
    }
    Ok(())
}

fn started_by(repo: &str, branch: &str, commit: &PushedCommit, trigger: &GitTrigger) -> TriggerCommit {
    TriggerCommit {
        repo: repo.to_owned(),
        branch: branch.to_owned(),
        sha: commit.sha.clone(),
        author: commit.author.clone(),
        message: commit.message.clone(),
        trigger_name: trigger.name.clone(),
    }
}

/// The branch or tag, when this push is one that the trigger waits for.
fn matches<'r>(trigger: &GitTrigger, repo: &str, reference: &'r str) -> Option<&'r str> {
    let (event, branch) = match (reference.strip_prefix("refs/heads/"), reference.strip_prefix("refs/tags/"))
    {
        (Some(branch), _) => ("push.heads", branch),
        (_, Some(tag)) => ("push.tags", tag),
        _ => return None,
    };
    let wanted = trigger.events.iter().any(|name| name == event || name == "push");
    let fits = trigger.branch_regex.as_deref().is_none_or(|pattern| branch_fits(pattern, branch));
    (!trigger.disabled && trigger.kind == "git" && trigger.repo == repo && wanted && fits).then_some(branch)
}

/// `/regex/flags`, or a bare regex. One that does not compile matches nothing.
fn branch_fits(pattern: &str, branch: &str) -> bool {
    let (body, flags) =
        pattern.strip_prefix('/').and_then(|rest| rest.rsplit_once('/')).unwrap_or((pattern, ""));
    regex::RegexBuilder::new(body)
        .case_insensitive(flags.contains('i'))
        .multi_line(flags.contains('m'))
        .size_limit(1 << 20)
        .build()
        .is_ok_and(|regex| regex.is_match(branch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(events: &[&str], branch_regex: Option<&str>) -> GitTrigger {
        GitTrigger {
            name: "t".into(),
            kind: "git".into(),
            repo: "demo/app".into(),
            events: events.iter().map(|&event| event.to_owned()).collect(),
            branch_regex: branch_regex.map(str::to_owned),
            disabled: false,
            other: Default::default(),
        }
    }

    #[test]
    fn a_trigger_waits_for_its_repository_its_event_and_its_branch() {
        let heads = trigger(&["push.heads"], Some("/^(main|release-.*)$/i"));
        for (repo, reference, expected) in [
            ("demo/app", "refs/heads/main", Some("main")),
            ("demo/app", "refs/heads/Release-1", Some("Release-1")),
            ("demo/app", "refs/heads/feature", None),
            ("demo/app", "refs/tags/main", None),
            ("demo/other", "refs/heads/main", None),
            ("demo/app", "refs/notes/x", None),
        ] {
            assert_eq!(matches(&heads, repo, reference), expected, "{repo} {reference}");
        }
        assert_eq!(matches(&trigger(&["push.tags"], None), "demo/app", "refs/tags/v1"), Some("v1"));
        assert_eq!(matches(&trigger(&["push"], None), "demo/app", "refs/tags/v1"), Some("v1"));
        assert_eq!(matches(&trigger(&["push"], Some("/(/")), "demo/app", "refs/heads/main"), None);
        let off = GitTrigger { disabled: true, ..trigger(&["push"], None) };
        assert_eq!(matches(&off, "demo/app", "refs/heads/main"), None);
    }
}
