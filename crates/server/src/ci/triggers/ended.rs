//! A build has ended: from the fact to the builds of the pipelines that wait for its pipeline.

use slipway_api::agent::TriggerCommit;
use slipway_api::build::Initiator;
use slipway_api::pipeline::{Pipeline, PipelineTrigger, Variable};
use slipway_model::{BuildId, BuildStatus};
use slipway_store::annotations::{self, Annotation};
use slipway_store::builds::Build;
use slipway_store::{Scope, StoreError, Tx, builds};

use super::Candidate;
use crate::ci::orders::{Order, Run};
use crate::ci::queue;
use crate::ci::start::{self, Happened};
use crate::ctx::Server;

/// So many pipelines may start each other one after the other.
const CHAIN_MAX: usize = 5;

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

/// Whether the end of this build starts the pipeline.
pub(super) fn starts(pipeline: &Pipeline, before: &Build, status: BuildStatus) -> bool {
    after_others(pipeline).iter().any(|trigger| waits_for(trigger, before, status))
}

/// The pipelines that wait for its pipeline start.
pub(super) fn carry_out(
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
                    let cause = Happened::Ended { build, trigger: &trigger.name };
                    start::start(server, tx, scope, of, &next, cause)?;
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
const UNSTARTED: &str = "not_started";

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
