//! From facts to builds: a push starts the pipelines whose triggers match it.
//!
//! Handling facts and moving the cursor is one transaction, and a build is made once for each (fact,
//! pipeline, trigger): dying between any two lines of this starts nothing twice and loses nothing.

use slipway_api::agent::TriggerCommit;
use slipway_api::pipeline::{GitTrigger, Pipeline};
use slipway_model::{Fact, PushedCommit};
use slipway_store::builds::NewBuild;
use slipway_store::facts::{self, Recorded};
use slipway_store::{Scope, StoreError, Tx, builds, pipelines};
use tokio::sync::broadcast::error::RecvError;

use crate::ctx::Server;
use crate::orders::Order;

const CONSUMER: &str = "triggers";
const BATCH: i64 = 100;
const SKIP_MARKS: [&str; 5] = ["[skip ci]", "[ci skip]", "[no ci]", "[skip codefresh]", "[codefresh skip]"];

pub(crate) async fn run(server: &Server) {
    let mut commits = server.store().subscribe();
    let shutdown = server.inner.shutdown.clone();
    loop {
        match handle_batch(server).await {
            Ok(0) => {}
            Ok(_) => continue,
            Err(error) => {
                tracing::error!(%error, "Could not follow up on what happened; trying again.");
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                continue;
            }
        }
        loop {
            let heard = tokio::select! {
                () = shutdown.cancelled() => return,
                heard = commits.recv() => heard,
            };
            match heard {
                Ok(commit) if commit.facts => break,
                // Missed some: look.
                Err(RecvError::Lagged(_)) => break,
                Err(RecvError::Closed) => return,
                Ok(_) => {}
            }
        }
    }
}

async fn handle_batch(server: &Server) -> Result<usize, StoreError> {
    let cursor = server.store().read(|tx| facts::cursor(tx, CONSUMER)).await?;
    if server.store().read(move |tx| facts::after(tx, cursor, None, 1)).await?.is_empty() {
        return Ok(0);
    }
    let server_in = server.clone();
    server
        .store()
        .write(move |tx| {
            let cursor = facts::cursor(tx, CONSUMER)?;
            let batch = facts::after(tx, cursor, None, BATCH)?;
            for recorded in &batch {
                handle(&server_in, tx, recorded)?;
            }
            if let Some(last) = batch.last() {
                facts::move_cursor(tx, CONSUMER, last.seq)?;
            }
            Ok(batch.len())
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
