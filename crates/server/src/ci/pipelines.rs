//! Which pipelines a caller may see, and what is stored of one.

use crate::http::error::ApiError;
use crate::identity::access::{self, Granted, ProjectTags};
use crate::identity::auth::Caller;
use slipway_access::{Entity, Role, Rule, decide_on};
use slipway_api::pipeline::Pipeline;
use slipway_model::PipelineId;
use slipway_store::{StoreError, Tx, pipelines};

pub(crate) fn reads(caller: &Caller, rules: &[Rule], tags: &ProjectTags, row: &pipelines::Pipeline) -> bool {
    let Ok(body) = serde_json::from_str::<Pipeline>(&row.body) else { return false };
    decide_on(&caller.principal, rules, "read", &access::pipeline_entity(&row.name, &body, tags)).allowed
}

/// The pipelines whose builds the caller may see; `None` when it is all of them.
pub(crate) fn readable(tx: &mut Tx<'_>, caller: &Caller) -> Result<Option<Vec<PipelineId>>, StoreError> {
    if caller.principal.role() == Some(Role::Administrator) {
        return Ok(None);
    }
    let rules = access::rules_about(tx, caller, "pipeline")?;
    let tags = ProjectTags::load(tx, caller.scope())?;
    let all = pipelines::list(tx, caller.scope())?;
    let some: Vec<_> = all.iter().filter(|row| reads(caller, &rules, &tags, row)).map(|row| row.id).collect();
    Ok((some.len() < all.len()).then_some(some))
}

/// A build goes by its pipeline. One whose pipeline is gone goes by a pipeline without tags.
pub(crate) fn require_by_id(
    tx: &mut Tx<'_>,
    caller: &Caller,
    pipeline: PipelineId,
    action: &str,
    what: &str,
) -> Result<Granted, ApiError> {
    match pipelines::by_name(tx, caller.scope(), &pipeline.to_string())? {
        Some(row) => {
            let (body, tags) = (stored(&row)?, ProjectTags::load(tx, caller.scope())?);
            access::require(
                tx,
                caller,
                action,
                "read",
                &access::pipeline_entity(&row.name, &body, &tags),
                what,
            )?
        }
        None => {
            let gone = Entity { kind: "pipeline", name: access::GONE, ..Entity::default() };
            access::require(tx, caller, action, "read", &gone, what)?
        }
    }
}

pub(crate) fn stored(row: &pipelines::Pipeline) -> Result<Pipeline, ApiError> {
    let body: Pipeline = serde_json::from_str(&row.body).map_err(slipway_store::StoreError::corrupt)?;
    Ok(body)
}
