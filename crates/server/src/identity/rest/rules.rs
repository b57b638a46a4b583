//! Access rules.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use slipway_access::{TagMatch, goes_by_tags, known_actions, known_attributes, known_kinds, lint};
use slipway_api::access::{Rule, RuleAttribute, RuleKind, RuleSpec, TagOrAttribute};
use slipway_api::error::ErrorBody;
use slipway_model::RuleId;
use slipway_store::{Scope, Tx, identity, rules};
use utoipa::IntoParams;

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::access;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;
use crate::seams;

fn shown(tx: &mut Tx<'_>, scope: Scope, row: &rules::Rule) -> Result<Rule, ApiError> {
    let mut team_names = Vec::new();
    for team in &row.teams {
        team_names
            .push(identity::team_by_name(tx, scope, team)?.map_or_else(|| team.clone(), |team| team.name));
    }
    let attributes = row.attributes.iter().map(|attribute| RuleAttribute {
        name: attribute.name.clone(),
        key: attribute.key.clone(),
        value: attribute.value.clone(),
    });
    Ok(Rule {
        id: row.id.to_string(),
        spec: RuleSpec {
            entity_type: row.kind.clone(),
            resource: Some(row.kind.clone()),
            teams: row.teams.clone(),
            team: row.teams.first().cloned(),
            role: row.teams.first().cloned(),
            actions: row.actions.clone(),
            action: row.actions.first().cloned(),
            related_resource: row.related.clone(),
            tags: row.tags.clone(),
            tag_match: Some(row.tag_match.clone()),
            entity_attributes: attributes.collect(),
            attributes: row.tags.iter().cloned().map(TagOrAttribute::Tag).collect(),
        },
        team_names,
        note: note(row),
        created: seams::rfc3339(row.created_ms),
    })
}

/// What a rule that was kept by an older version does not do.
fn note(row: &rules::Rule) -> Option<String> {
    let problems: Vec<_> = lint(&access::rule(row)).into_iter().map(|problem| problem.0).collect();
    (!problems.is_empty())
        .then(|| format!("this rule would have no effect, or only a part of it: {}", problems.join("; ")))
}

/// Words of published clients for the same kinds.
fn kind(text: &str) -> String {
    match text {
        "pipelines" => "pipeline",
        "projects" => "project",
        "clusters" => "cluster",
        "gitContexts" | "git" => "git-context",
        "sharedConfiguration" | "shared-config" | "context" => "shared-configuration",
        "helmCharts" | "helm-chart" => "chart",
        "executionContext" => "execution-context",
        other => other,
    }
    .to_owned()
}

/// From the wire to a row; everything that is wrong is said at once.
fn row(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: RuleId,
    spec: RuleSpec,
    now_ms: i64,
) -> Result<rules::Rule, ApiError> {
    let mut problems = Vec::new();
    let mut teams = Vec::new();
    let one = spec.team.iter().chain(&spec.role).take(1);
    let wanted: Vec<_> = if spec.teams.is_empty() { one.collect() } else { spec.teams.iter().collect() };
    for &wanted in &wanted {
        match identity::team_by_name(tx, scope, wanted)? {
            Some(team) => teams.push(team.id.to_string()),
            None => problems.push(format!("there is no team `{wanted}`")),
        }
    }
    let (no_team, resource) = (wanted.is_empty(), spec.resource.unwrap_or_default());
    let actions = if spec.actions.is_empty() { spec.action.into_iter().collect() } else { spec.actions };
    let tag_match = spec.tag_match.unwrap_or_else(|| TagMatch::Any.as_str().to_owned());
    if TagMatch::parse(&tag_match).is_none() {
        problems.push(format!("tagMatch must be `any` or `all`, not `{tag_match}`"));
    }
    let (mut tags, mut attributes) = (spec.tags, spec.entity_attributes);
    let said = !tags.is_empty();
    for one in spec.attributes {
        match one {
            TagOrAttribute::Attribute(attribute) => attributes.push(attribute),
            // Somebody read the rule and writes it back.
            TagOrAttribute::Tag(tag) if !said => tags.push(tag),
            TagOrAttribute::Tag(_) => {}
        }
    }
    let attributes = attributes.into_iter().map(|attribute| rules::Attribute {
        name: attribute.name,
        key: attribute.key,
        value: attribute.value,
    });
    let row = rules::Rule {
        id,
        kind: kind(if spec.entity_type.is_empty() { &resource } else { &spec.entity_type }),
        teams,
        actions,
        related: spec.related_resource,
        tags,
        tag_match,
        attributes: attributes.collect(),
        created_ms: now_ms,
    };
    let found = lint(&access::rule(&row)).into_iter().map(|problem| problem.0);
    // That a team is not there was said already.
    problems.extend(found.filter(|text| text != "name at least one team" || no_team));
    if problems.is_empty() { Ok(row) } else { Err(ApiError::findings("this rule is not valid", &problems)) }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListQuery {
    entity_type: Option<String>,
}

/// Access rules of the account.
#[utoipa::path(get, path = "/api/abac", tag = "rules", params(ListQuery),
    responses((status = 200, body = [Rule]), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<Vec<Rule>>, ApiError> {
    let found = server
        .look(move |tx| {
            let (scope, wanted) = (caller.scope(), query.entity_type.as_deref().map(kind));
            let rows = rules::list(tx, scope)?;
            rows.iter()
                .filter(|row| wanted.as_ref().is_none_or(|kind| row.kind == *kind))
                .map(|row| shown(tx, scope, row))
                .collect()
        })
        .await?;
    Ok(Json(found))
}

/// What rules can be about: kinds of entities and their actions.
#[utoipa::path(get, path = "/api/abac/kinds", tag = "rules", responses((status = 200, body = [RuleKind]), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn kinds() -> Json<Vec<RuleKind>> {
    let kinds = known_kinds().map(|kind| RuleKind {
        entity_type: kind.to_owned(),
        actions: known_actions(kind).into_iter().map(str::to_owned).collect(),
        attributes: known_attributes(kind).iter().map(|&name| name.to_owned()).collect(),
        by_tags: goes_by_tags(kind),
    });
    Json(kinds.collect())
}

/// Create a rule. The answer is a list with this rule: published clients create several in one call.
#[utoipa::path(post, path = "/api/abac", tag = "rules", request_body = RuleSpec,
    responses((status = 200, body = [Rule]), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Json(spec): Json<RuleSpec>,
) -> Result<Json<Vec<Rule>>, ApiError> {
    let (id, now_ms) = (server.seams().new_id(), server.now_ms());
    let made = server
        .change(move |tx| {
            let scope = caller.scope();
            let row = row(tx, scope, id, spec, now_ms)?;
            rules::create(tx, scope, &row)?;
            let made = shown(tx, scope, &row)?;
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("create", "rule", id, &row.kind).after(&made),
            )?;
            Ok(made)
        })
        .await?;
    Ok(Json(vec![made]))
}

fn find(tx: &mut Tx<'_>, scope: Scope, id: &str) -> Result<rules::Rule, ApiError> {
    let what = || ApiError::not_found(format!("rule `{id}`"));
    let parsed = id.parse().map_err(|_| what())?;
    rules::one(tx, scope, parsed)?.ok_or_else(what)
}

/// One rule.
#[utoipa::path(get, path = "/api/abac/{id}", tag = "rules", params(("id" = String, Path)),
    responses((status = 200, body = Rule), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Rule>, ApiError> {
    let found = server
        .look(move |tx| {
            let row = find(tx, caller.scope(), &id)?;
            shown(tx, caller.scope(), &row)
        })
        .await?;
    Ok(Json(found))
}

/// Replace a rule.
#[utoipa::path(put, path = "/api/abac/{id}", tag = "rules", params(("id" = String, Path)), request_body = RuleSpec,
    responses((status = 200, body = Rule), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn replace(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Json(spec): Json<RuleSpec>,
) -> Result<Json<Rule>, ApiError> {
    update(server, caller, id, move |_| spec).await
}

/// Replace the tags of a rule.
#[utoipa::path(post, path = "/api/abac/tags/rule/{id}", tag = "rules", params(("id" = String, Path)), request_body = [String],
    responses((status = 200, body = Rule), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn set_tags(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Json(tags): Json<Vec<String>>,
) -> Result<Json<Rule>, ApiError> {
    update(server, caller, id, move |old| RuleSpec { tags, attributes: Vec::new(), ..old }).await
}

async fn update(
    server: Server,
    caller: Caller,
    id: String,
    new: impl FnOnce(RuleSpec) -> RuleSpec + Send + 'static,
) -> Result<Json<Rule>, ApiError> {
    let changed = server
        .change(move |tx| {
            let scope = caller.scope();
            let old = find(tx, scope, &id)?;
            let before = shown(tx, scope, &old)?;
            let new = row(tx, scope, old.id, new(before.spec.clone()), old.created_ms)?;
            rules::replace(tx, scope, &new)?;
            let after = shown(tx, scope, &new)?;
            let entry = Entry::new("update", "rule", new.id, &new.kind).before(before).after(&after);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(after)
        })
        .await?;
    Ok(Json(changed))
}

/// Delete a rule.
#[utoipa::path(delete, path = "/api/abac/{id}", tag = "rules", params(("id" = String, Path)),
    responses((status = 200, body = String), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<String>, ApiError> {
    let gone = id.clone();
    server
        .change(move |tx| {
            let scope = caller.scope();
            let row = find(tx, scope, &id)?;
            let before = shown(tx, scope, &row)?;
            rules::delete(tx, scope, row.id)?;
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("delete", "rule", row.id, &row.kind).before(before),
            )?;
            Ok(())
        })
        .await?;
    Ok(Json(gone))
}
