//! Why somebody may or may not.
//!
//! What the caller may not see is answered as what is not there: this tells nobody that something is.

use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use slipway_access::{Entity, Principal, Role, Scopes, Who, decide_on, known_kinds};
use slipway_api::access::Explanation;
use slipway_api::application::Application;
use slipway_api::error::ErrorBody;
use slipway_api::pipeline::Pipeline;
use slipway_store::{StoreError, Tx, applications, contexts, git, identity, pipelines, projects, rules};
use utoipa::IntoParams;

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::access;
use crate::identity::auth::{self, Caller};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExplainQuery {
    /// E-mail, id or unambiguous name of a member, or name or id of a service account. Oneself when left out.
    user: Option<String>,
    /// For example `run` or `SYNC`.
    action: String,
    /// `kind/name`, for example `pipeline/demo/build`, `gitopsApplications/RUNTIME/NAMESPACE/NAME`, or `gitRepository/OWNER/NAME#BRANCH`.
    entity: String,
}

/// Explain whether a user may do something, and why.
#[utoipa::path(get, path = "/api/access/explain", tag = "rules", params(ExplainQuery),
    responses((status = 200, body = Explanation), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn explain(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<ExplainQuery>,
) -> Result<Json<Explanation>, ApiError> {
    let answer = server
        .look(move |tx| {
            let subject = match query.user.as_deref() {
                // About the person; which of their keys asks is another question.
                None => Principal { scopes: Scopes::unlimited(), ..caller.principal.clone() },
                // What others may is an Administrator's business.
                Some(_) if caller.principal.role() != Some(Role::Administrator) => {
                    return Err(ApiError::forbidden(
                        "only an Administrator can ask about others: omit `user` to ask about yourself",
                    ));
                }
                Some(wanted) => principal(tx, &caller, wanted)?,
            };
            let shut_out = match query.user.as_deref() {
                Some(wanted) => shut_out(tx, &caller, wanted)?,
                None => None,
            };
            let Some((kind, name)) = query.entity.split_once('/') else {
                return Err(ApiError::bad_request(
                    "enter the entity as `kind/name`, for example `pipeline/demo/build`",
                ));
            };
            let Some(look) = looks(kind) else {
                let known: Vec<_> = known_kinds().collect();
                return Err(ApiError::bad_request(format!(
                    "no access rules apply to `{kind}`: use one of {}",
                    known.join(", ")
                )));
            };
            let rules: Vec<_> = rules::about(tx, caller.scope(), kind)?.iter().map(access::rule).collect();
            let what = || ApiError::not_found(format!("{kind} `{name}`"));
            let asking = Principal { scopes: Scopes::unlimited(), ..caller.principal.clone() };
            let decide = |entity: &Entity<'_>| {
                let seen = decide_on(&asking, &rules, look, entity);
                if !seen.allowed {
                    return Err(ApiError::hidden(format!("{kind} `{name}`"), seen.reason));
                }
                Ok(decide_on(&subject, &rules, &query.action, entity))
            };
            let decision = match kind {
                "pipeline" => {
                    let row = pipelines::by_name(tx, caller.scope(), name)?.ok_or_else(what)?;
                    let body: Pipeline = serde_json::from_str(&row.body).map_err(StoreError::corrupt)?;
                    let projects = access::ProjectTags::load(tx, caller.scope())?;
                    decide(&access::pipeline_entity(&row.name, &body, &projects))?
                }
                "gitopsApplications" => {
                    decide(&access::application_entity(&load(tx, &caller, name)?.ok_or_else(what)?))?
                }
                "shared-configuration" | "git-context" => {
                    let row = contexts::by_name(tx, caller.scope(), name)?.ok_or_else(what)?;
                    let entity = crate::ci::contexts::entity(&row);
                    // Asked about as another kind it is not there; nor is what its sharing policy hides.
                    if entity.kind != kind || crate::ci::contexts::require(tx, &caller, "read", &row).is_err()
                    {
                        return Err(what());
                    }
                    decide(&entity)?
                }
                "project" => {
                    let row = projects::by_name(tx, caller.scope(), name)?.ok_or_else(what)?;
                    decide(&crate::ci::projects::entity(&row))?
                }
                // A repository: `gitRepository/OWNER/NAME`, or with `#BRANCH` after it.
                _ => {
                    let (repo, branch) = name.split_once('#').map_or((name, None), |(r, b)| (r, Some(b)));
                    git::by_name(tx, caller.scope(), repo)?.ok_or_else(what)?;
                    let reference = branch.map(|branch| format!("refs/heads/{branch}"));
                    decide(&access::repository_entity(repo, reference.as_deref()))?
                }
            };
            Ok(Explanation {
                user: subject.display_name(),
                action: query.action,
                entity: query.entity,
                allowed: decision.allowed && shut_out.is_none(),
                rule: decision.rule.filter(|_| shut_out.is_none()).map(|rule| rule.to_string()),
                reason: shut_out.unwrap_or(decision.reason),
            })
        })
        .await?;
    Ok(Json(answer))
}

/// What somebody has to be allowed to know that an entity is there.
fn looks(kind: &str) -> Option<&'static str> {
    match kind {
        "pipeline" | "project" | "shared-configuration" | "gitRepository" => Some("read"),
        "git-context" => Some("use"),
        "gitopsApplications" => Some("VIEW"),
        _ => None,
    }
}

/// Why nothing of theirs works here now, whatever the rules say.
fn shut_out(tx: &mut Tx<'_>, caller: &Caller, wanted: &str) -> Result<Option<String>, ApiError> {
    let scope = caller.scope();
    let Ok(member) = crate::identity::rest::users::find(tx, scope, wanted) else {
        let robot = identity::service_account(tx, scope, wanted)?.filter(|robot| !robot.enabled);
        return Ok(robot.map(|robot| {
            format!(
                "service account `{}` is disabled: an Administrator of the account can enable it",
                robot.name
            )
        }));
    };
    let name = &member.user.name;
    Ok(match (member.user.enabled, member.suspended) {
        (false, _) => Some(format!(
            "{name} is disabled on the platform: an administrator of the platform can enable them"
        )),
        (true, true) => Some(format!(
            "{name} is suspended in this account: an Administrator of the account can restore them"
        )),
        (true, false) => None,
    })
}

/// Another person or service account of the account, as the decision sees it.
fn principal(tx: &mut Tx<'_>, caller: &Caller, wanted: &str) -> Result<Principal, ApiError> {
    let (scope, account) = (caller.scope(), caller.principal.account);
    let who = match crate::identity::rest::users::find(tx, scope, wanted) {
        Ok(member) => auth::person(tx, scope, &member.user, &member.role, true)?,
        Err(unknown) => {
            let robot = identity::service_account(tx, scope, wanted)?.ok_or(unknown)?;
            let role = Role::parse(&robot.role).unwrap_or(Role::User);
            let teams = identity::teams_of(tx, scope, &robot.id.to_string(), role == Role::Administrator)?;
            let teams =
                teams.into_iter().map(|team| slipway_access::TeamRef { id: team.id, name: team.name });
            Who::ServiceAccount { id: robot.id, name: robot.name, role, teams: teams.collect() }
        }
    };
    Ok(Principal { account, who, scopes: Scopes::unlimited() })
}

/// `RUNTIME/NAMESPACE/NAME`.
fn load(tx: &mut Tx<'_>, caller: &Caller, path: &str) -> Result<Option<Application>, ApiError> {
    let mut parts = path.splitn(3, '/');
    let (Some(runtime), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(ApiError::bad_request("an application is `gitopsApplications/RUNTIME/NAMESPACE/NAME`"));
    };
    let body = applications::one(tx, caller.scope(), runtime, namespace, name)?;
    Ok(body.and_then(|body| serde_json::from_str(&body).ok()))
}
