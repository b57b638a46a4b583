//! From a caller and an entity of the store to the one access decision.

use std::collections::HashMap;

use slipway_access::{Attribute, Decision, Entity, Role, Rule, TagMatch, decide_on};
use slipway_api::application::Application;
use slipway_api::pipeline::Pipeline;
use slipway_store::{Scope, StoreError, Tx, projects, rules};

use crate::auth::Caller;
use crate::error::ApiError;

pub(crate) fn rule(row: &rules::Rule) -> Rule {
    let attribute = |row: &rules::Attribute| Attribute {
        name: row.name.clone(),
        key: row.key.clone(),
        value: row.value.clone(),
    };
    Rule {
        id: row.id,
        teams: row.teams.iter().filter_map(|team| team.parse().ok()).collect(),
        kind: row.kind.clone(),
        actions: row.actions.clone(),
        related: row.related.clone(),
        tags: row.tags.clone(),
        tag_match: TagMatch::parse(&row.tag_match).unwrap_or_default(),
        attributes: row.attributes.iter().map(attribute).collect(),
    }
}

/// The rules that a decision about this kind looks at. An administrator needs none.
pub(crate) fn rules_about(tx: &mut Tx<'_>, caller: &Caller, kind: &str) -> Result<Vec<Rule>, StoreError> {
    if caller.principal.role() == Some(Role::Administrator) {
        return Ok(Vec::new());
    }
    Ok(rules::about(tx, caller.scope(), kind)?.iter().map(rule).collect())
}

pub(crate) fn may(
    tx: &mut Tx<'_>,
    caller: &Caller,
    action: &str,
    entity: &Entity<'_>,
) -> Result<Decision, StoreError> {
    let rules = rules_about(tx, caller, entity.kind)?;
    Ok(decide_on(&caller.principal, &rules, action, entity))
}

/// Who may not even look is told that nothing is there; who may look is told why not.
pub(crate) fn refuse(decision: Decision, visible: bool, what: &str) -> Result<(), ApiError> {
    match (decision.allowed, visible) {
        (true, _) => Ok(()),
        (false, true) => Err(ApiError::forbidden(decision.reason)),
        (false, false) => Err(ApiError::hidden(what, decision.reason)),
    }
}

/// `read` of the kind decides whether it is visible, then `action` is asked for.
pub(crate) fn require(
    tx: &mut Tx<'_>,
    caller: &Caller,
    action: &str,
    look: &str,
    entity: &Entity<'_>,
    what: &str,
) -> Result<Result<(), ApiError>, StoreError> {
    let rules = rules_about(tx, caller, entity.kind)?;
    let sees = action == look || decide_on(&caller.principal, &rules, look, entity).allowed;
    let decision = decide_on(&caller.principal, &rules, action, entity);
    Ok(refuse(decision, sees && action != look, what))
}

pub(crate) fn tags(pipeline: &Pipeline) -> Vec<&str> {
    let tags = pipeline.metadata.other.get("labels").and_then(|labels| labels.get("tags")?.as_array());
    tags.map(|tags| tags.iter().filter_map(|tag| tag.as_str()).collect()).unwrap_or_default()
}

/// Tags of an account's projects, by name: what rules about pipelines may look at.
#[derive(Debug, Default)]
pub(crate) struct ProjectTags(HashMap<String, Vec<String>>);

impl ProjectTags {
    pub(crate) fn load(tx: &mut Tx<'_>, scope: Scope) -> Result<Self, StoreError> {
        Ok(Self(projects::list(tx, scope)?.into_iter().map(|project| (project.name, project.tags)).collect()))
    }

    pub(crate) fn of(&self, pipeline: &str) -> Vec<&str> {
        self.0
            .get(project_of(pipeline))
            .map(|tags| tags.iter().map(String::as_str).collect())
            .unwrap_or_default()
    }
}

/// The project that a pipeline's name says it is in.
pub(crate) fn project_of(pipeline: &str) -> &str {
    pipeline.split_once('/').map_or("default", |(project, _)| project)
}

pub(crate) fn pipeline_entity<'a>(
    name: &'a str,
    pipeline: &'a Pipeline,
    projects: &'a ProjectTags,
) -> Entity<'a> {
    Entity {
        kind: "pipeline",
        name,
        tags: tags(pipeline),
        project_tags: projects.of(name),
        ..Entity::default()
    }
}

pub(crate) fn application_entity(app: &Application) -> Entity<'_> {
    let one =
        |name: &str, value: &str| Attribute { name: name.into(), key: String::new(), value: value.into() };
    let attributes = vec![
        one("RUNTIME", &app.runtime),
        one("NAMESPACE", &app.namespace),
        one("CLUSTER", &app.destination),
    ];
    Entity { kind: "gitopsApplications", name: &app.name, attributes, ..Entity::default() }
}
