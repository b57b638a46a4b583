//! Rules that let builds push: those a demo starts with, and those that an older version's practice is taken over as.
//!
//! Before there were rights to push, every build pushed everywhere. What builds did is in the facts: at the first start of a
//! version that asks, each pipeline whose builds have pushed to a repository gets a rule for that repository, once, and the
//! log says so. Whoever deletes such a rule keeps it deleted.

use std::collections::BTreeSet;

use slipway_model::{AccountId, BuildId, Fact};
use slipway_store::{Scope, StoreError, Tx, builds, facts, pipelines, rules};

use crate::ctx::Server;
use crate::identity::trail::{Actor, Entry, Trail};

/// A cursor that is there says that it was done.
const DONE: &str = "push-rights";
const BATCH: i64 = 500;

pub(crate) fn take_over(tx: &mut Tx<'_>, server: &Server) -> Result<(), StoreError> {
    if facts::cursor(tx, DONE)? > 0 {
        return Ok(());
    }
    let (mut seq, mut pushed) = (0, BTreeSet::new());
    loop {
        let batch = facts::after(tx, seq, None, BATCH)?;
        let Some(last) = batch.last() else { break };
        seq = last.seq;
        for recorded in batch {
            if let Fact::Pushed { account, repo, pusher, .. } = recorded.fact
                && let Some(build) = pusher.strip_prefix("build ").and_then(|id| id.parse::<BuildId>().ok())
                && let Some(pipeline) = pipeline_of(tx, Scope::of(account), build)?
            {
                pushed.insert((account, pipeline, repo));
            }
        }
    }
    for (account, pipeline, repo) in pushed {
        tracing::warn!(
            pipeline,
            repo,
            "Builds of this pipeline have pushed to this repository, so an access rule was created that still allows it. Delete the rule if they should not push."
        );
        let rule = allow(tx, server, account, &pipeline, &repo)?;
        let none = String::new;
        let trail = Trail::new(server.clone(), none(), none(), none(), none());
        let entry = Entry::new("create", "rule", rule, "gitRepository")
            .after(serde_json::json!({"pipeline": pipeline, "repository": repo}))
            .because("its builds pushed there before push rights existed");
        trail.record(tx, &Actor::operator(&account.to_string()), &entry, "allowed", 200)?;
    }
    facts::move_cursor(tx, DONE, seq.max(1))
}

fn pipeline_of(tx: &mut Tx<'_>, scope: Scope, build: BuildId) -> Result<Option<String>, StoreError> {
    let Some(build) = builds::by_id(tx, scope, build)? else { return Ok(None) };
    Ok(pipelines::by_name(tx, scope, &build.pipeline.to_string())?.map(|row| row.name))
}

/// Lets builds of the pipeline push to the repository.
pub(crate) fn allow(
    tx: &mut Tx<'_>,
    server: &Server,
    account: AccountId,
    pipeline: &str,
    repo: &str,
) -> Result<slipway_model::RuleId, StoreError> {
    let attribute = |name: &str, value: &str| rules::Attribute {
        name: name.into(),
        key: String::new(),
        value: value.into(),
    };
    let rule = rules::Rule {
        id: server.seams().new_id(),
        kind: "gitRepository".into(),
        teams: Vec::new(),
        actions: vec!["push".into()],
        related: None,
        tags: Vec::new(),
        tag_match: "any".into(),
        attributes: vec![attribute("REPOSITORY", repo), attribute("PIPELINE", pipeline)],
        created_ms: server.now_ms(),
    };
    rules::create(tx, Scope::of(account), &rule)?;
    Ok(rule.id)
}
