//! From a caller and an entity of the store to the one access decision.

use std::collections::{BTreeMap, HashMap};

use slipway_access::{
    Attribute, Decision, Entity, Resource, Role, Rule, TagMatch, Verb, decide_on, lacks_scope, looks_at,
};
use slipway_api::application::{Application, ApplicationRow};
use slipway_api::pipeline::Pipeline;
use slipway_store::{Ask, Scope, StoreError, Tx, projects, rules};

use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::seal::DataKey;

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

/// Proof that a caller may be shown a secret. Whatever puts one into an answer asks for it.
pub(crate) struct Disclosure(());

/// To see a secret is no reading: the key has to hold what it would take to change it, and a browser to be fresh.
pub(crate) fn disclose(caller: &Caller, resource: Resource) -> Result<Disclosure, ApiError> {
    if let Some(reason) = lacks_scope(&caller.principal, resource, Verb::Write) {
        return Err(ApiError::forbidden(reason));
    }
    caller.check_fresh(caller.trail.now_ms())?;
    Ok(Disclosure(()))
}

impl Disclosure {
    /// A sealed value, for the answer.
    pub(crate) fn open(&self, key: &DataKey, place: &str, sealed: &str) -> Option<String> {
        key.unseal(place, sealed).map(|secret| secret.expose().clone())
    }
}

/// The rules that a decision about this kind looks at. An administrator needs none.
pub(crate) fn rules_about(tx: &mut Tx<'_>, caller: &Caller, kind: &str) -> Result<Vec<Rule>, StoreError> {
    if caller.principal.role() == Some(Role::Administrator) {
        return Ok(Vec::new());
    }
    Ok(rules::about(tx, caller.scope(), kind)?.iter().map(rule).collect())
}

/// What [`rules_about`] asks.
pub(crate) fn asks_rules_about(caller: &Caller, kind: &str) -> Option<Ask> {
    (caller.principal.role() != Some(Role::Administrator)).then(|| rules::asks_about(caller.scope(), kind))
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

/// Proof that the one access decision allowed an action on an entity. Nothing else can make one.
#[derive(Debug)]
pub(crate) struct Granted {
    action: String,
    kind: String,
    name: String,
}

impl Granted {
    /// Whether it is about one of these actions on this entity.
    pub(crate) fn covers(&self, kind: &str, name: &str, actions: &[&str]) -> bool {
        self.kind == kind && self.name == name && actions.contains(&self.action.as_str())
    }

    /// Of a build whose pipeline is gone, about which rules can say nothing by name.
    pub(crate) fn covers_gone(&self, kind: &str, actions: &[&str]) -> bool {
        self.covers(kind, GONE, actions)
    }
}

/// The name under which a pipeline is asked about that is not there any more.
pub(crate) const GONE: &str = "(deleted)";

/// `read` of the kind decides whether it is visible, then `action` is asked for.
pub(crate) fn require(
    tx: &mut Tx<'_>,
    caller: &Caller,
    action: &str,
    look: &str,
    entity: &Entity<'_>,
    what: &str,
) -> Result<Result<Granted, ApiError>, StoreError> {
    let rules = rules_about(tx, caller, entity.kind)?;
    let sees = action == look || decide_on(&caller.principal, &rules, look, entity).allowed;
    let decision = decide_on(&caller.principal, &rules, action, entity);
    let granted = || Granted { action: action.into(), kind: entity.kind.into(), name: entity.name.into() };
    Ok(refuse(decision, sees && action != look, what).map(|()| granted()))
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

/// What is not reported is not an attribute, so that a rule which needs it does not fit.
pub(crate) fn application_entity(app: &Application) -> Entity<'_> {
    let clusters = [&*app.destination_name, &*app.destination_server];
    application_at(&app.runtime, &app.namespace, &app.name, clusters, &app.git_sources, &app.labels)
}

/// The same of a row of a list: a row holds all that rules look at.
pub(crate) fn row_entity(app: &ApplicationRow) -> Entity<'_> {
    let clusters = [&*app.destination_name, &*app.destination_server];
    application_at(&app.runtime, &app.namespace, &app.name, clusters, &app.git_sources, &app.labels)
}

fn application_at<'a>(
    runtime: &'a str,
    namespace: &'a str,
    name: &'a str,
    clusters: [&'a str; 2],
    git_sources: &'a [String],
    labels: &'a BTreeMap<String, String>,
) -> Entity<'a> {
    let mut attributes = vec![Attribute::new("RUNTIME", runtime), Attribute::new("NAMESPACE", namespace)];
    let clusters = clusters.into_iter().filter(|text| !text.is_empty());
    attributes.extend(clusters.map(|cluster| Attribute::new("CLUSTER", cluster)));
    attributes.extend(git_sources.iter().map(|source| Attribute::new("GIT_SOURCE", source.as_str())));
    attributes.extend(labels.iter().map(|(key, value)| Attribute::label(key, value)));
    Entity { kind: "gitopsApplications", name, attributes, ..Entity::default() }
}

/// A repository of the built-in Git host; with a reference, that branch or tag of it.
pub(crate) fn repository_entity<'a>(name: &'a str, reference: Option<&str>) -> Entity<'a> {
    let mut attributes = vec![Attribute::new("REPOSITORY", name)];
    let named = |prefix: &str, kind: &str| Some(Attribute::new(kind, reference?.strip_prefix(prefix)?));
    attributes.extend(named("refs/heads/", "BRANCH").or_else(|| named("refs/tags/", "TAG")));
    Entity { kind: "gitRepository", name, attributes, ..Entity::default() }
}

/// An Application that was not reported, or not any more, goes by where it is.
pub(crate) fn unreported_application<'a>(runtime: &str, namespace: &str, name: &'a str) -> Entity<'a> {
    let attributes = vec![Attribute::new("RUNTIME", runtime), Attribute::new("NAMESPACE", namespace)];
    Entity { kind: "gitopsApplications", name, attributes, ..Entity::default() }
}

/// Who changes what rules look at changes who may what: only those for whom rules are no limit do.
pub(crate) fn keep_what_rules_look_at(
    tx: &mut Tx<'_>,
    caller: &Caller,
    before: &Entity<'_>,
    after: &Entity<'_>,
) -> Result<(), ApiError> {
    if caller.principal.role() == Some(Role::Administrator) {
        return Ok(());
    }
    let rules: Vec<_> = rules::list(tx, caller.scope())?.iter().map(rule).collect();
    match looks_at(&rules, before, after) {
        None => Ok(()),
        Some(what) => Err(ApiError::forbidden(format!(
            "access rules depend on {what} of {} `{}`: only an Administrator of the account can change it",
            before.kind, before.name
        ))),
    }
}

/// The same of names: rules that let builds push go by the name of their pipeline.
pub(crate) fn keep_names_that_rules_look_at(
    tx: &mut Tx<'_>,
    caller: &Caller,
    names: &[&str],
) -> Result<(), ApiError> {
    if caller.principal.role() == Some(Role::Administrator) {
        return Ok(());
    }
    for row in rules::about(tx, caller.scope(), "gitRepository")? {
        let patterns = row.attributes.iter().filter(|attribute| attribute.name == "PIPELINE");
        for pattern in patterns {
            if let Some(name) = names.iter().find(|name| slipway_access::like(&pattern.value, name)) {
                return Err(ApiError::forbidden(format!(
                    "an access rule lets builds of pipeline `{name}` push: only an Administrator of the account can create, rename or move a pipeline of that name"
                )));
            }
        }
    }
    Ok(())
}
