//! Who may read and push what on the built-in Git host.
//!
//! In: a caller, a repository, the references that a push names. Out: allow, or why not. Members read every repository
//! until a rule restricts that, and push nothing until a rule lets them; Administrators do both. A build reads what members
//! read, and pushes where a rule names its pipeline; one of a fork reads what it builds and pushes nowhere. A runtime reads.

use slipway_access::{Attribute, Entity, Rule, Who, decide_on};
use slipway_api::agent::PipelineSource;
use slipway_forge::builtin::RefCommand;
use slipway_store::{StoreError, Tx, builds, pipelines};

use crate::ci::orders::Order;
use crate::http::error::ApiError;
use crate::identity::access;
use crate::identity::auth::Caller;

/// Of a caller that is a build: what decides for it.
struct OfBuild {
    pipeline: String,
    from_fork: bool,
    /// The repositories that its order names: it cannot be without them.
    own: Vec<String>,
}

fn of_build(tx: &mut Tx<'_>, caller: &Caller) -> Result<Option<OfBuild>, StoreError> {
    let Who::Build { id } = &caller.principal.who else { return Ok(None) };
    let Some(build) = builds::by_id(tx, caller.scope(), *id)? else {
        return Ok(Some(OfBuild { pipeline: String::new(), from_fork: true, own: Vec::new() }));
    };
    let order: Order = build.order()?;
    let mut own: Vec<String> = order.commit.iter().map(|commit| commit.repo.clone()).collect();
    if let PipelineSource::Git { repo, .. } = &order.source {
        own.push(repo.clone());
    }
    // By the name that it has now: rules are about those. One that is gone has none.
    let row = pipelines::by_name(tx, caller.scope(), &build.pipeline.to_string())?;
    let pipeline = row.map(|row| row.name).unwrap_or_default();
    Ok(Some(OfBuild { pipeline, from_fork: order.from_fork, own }))
}

fn asked<'a>(name: &'a str, reference: Option<&str>, build: Option<&OfBuild>) -> Entity<'a> {
    let mut entity = access::repository_entity(name, reference);
    entity.attributes.extend(build.map(|build| Attribute::new("PIPELINE", build.pipeline.as_str())));
    entity
}

/// Who may not read a repository hears that it is not there.
pub(crate) fn require_read(tx: &mut Tx<'_>, caller: &Caller, name: &str) -> Result<(), ApiError> {
    let what = format!("repository `{name}`");
    let build = of_build(tx, caller)?;
    match (&caller.principal.who, &build) {
        (Who::Runtime { .. }, _) => return Ok(()),
        (_, Some(build)) if build.own.iter().any(|own| own == name) => return Ok(()),
        (_, Some(build)) if build.from_fork => {
            return Err(ApiError::hidden(
                what,
                "a build of a fork can only read the repositories that it builds",
            ));
        }
        _ => {}
    }
    access::require(tx, caller, "read", "read", &asked(name, None, build.as_ref()), &what)?.map(drop)
}

/// Before anything is pushed: is there any reference of it that the caller may move?
pub(crate) fn require_any_push(tx: &mut Tx<'_>, caller: &Caller, name: &str) -> Result<(), ApiError> {
    let build = pusher(tx, caller)?;
    let mut rules = access::rules_about(tx, caller, "gitRepository")?;
    for rule in &mut rules {
        // Some branch, some tag.
        rule.attributes.retain(|attribute| !matches!(attribute.name.as_str(), "BRANCH" | "TAG"));
    }
    decided(caller, &rules, &asked(name, None, build.as_ref())).map_err(ApiError::forbidden)
}

/// The references that the caller may not move, each with the reason; none when all is well.
pub(crate) fn refused_pushes(
    tx: &mut Tx<'_>,
    caller: &Caller,
    name: &str,
    commands: &[RefCommand],
) -> Result<Vec<(String, String)>, ApiError> {
    let build = pusher(tx, caller)?;
    let rules = access::rules_about(tx, caller, "gitRepository")?;
    let refused = commands.iter().filter_map(|command| {
        let entity = asked(name, Some(&command.reference), build.as_ref());
        decided(caller, &rules, &entity).err().map(|reason| (command.reference.clone(), reason))
    });
    Ok(refused.collect())
}

fn pusher(tx: &mut Tx<'_>, caller: &Caller) -> Result<Option<OfBuild>, ApiError> {
    if matches!(caller.principal.who, Who::Runtime { .. }) {
        return Err(ApiError::forbidden("a runtime may fetch, not push"));
    }
    let build = of_build(tx, caller)?;
    match &build {
        Some(build) if build.from_fork => Err(ApiError::forbidden("a build of a fork may not push")),
        _ => Ok(build),
    }
}

fn decided(caller: &Caller, rules: &[Rule], entity: &Entity<'_>) -> Result<(), String> {
    let decision = decide_on(&caller.principal, rules, "push", entity);
    if decision.allowed { Ok(()) } else { Err(decision.reason) }
}
