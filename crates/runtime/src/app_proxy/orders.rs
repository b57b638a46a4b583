//! What may be ordered: an order is a patch of the Application, which its engine carries out.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_api::application::{
    OperationOrdered, RefreshRequest, RollbackRequest, SyncPolicyRequest, SyncRequest, SyncRetry,
    SyncStrategy,
};
use slipway_crd::{
    Application, Backoff, Info, InitiatedBy, Operation, RetryStrategy, StrategyForce, SyncOperation,
    SyncResource, SyncStrategy as Strategy, names,
};
use slipway_gitops::compare::rfc3339;

use super::{AppPath, Asker, Proxy, Refusal, app_key, done};
use crate::engines::applications::is_running;
use crate::report::view::{self, OPERATION_ID};

impl Proxy {
    /// Asks for an operation, under an id that whoever asked can wait for.
    async fn order(
        &self,
        app: &Application,
        mut operation: Operation,
        mut patch: Value,
        message: &str,
    ) -> Result<Json<OperationOrdered>, Refusal> {
        let id = operation_id();
        operation.info.push(Info { name: OPERATION_ID.into(), value: id.clone(), ..Info::default() });
        patch["operation"] = json!(operation);
        let requested_at = rfc3339(Timestamp::now());
        self.patch(app, patch).await?;
        let key = crate::engines::key_of(app);
        self.running()?.reporter.ordered(&key, view::pending(&operation)).await;
        Ok(Json(OperationOrdered { message: message.into(), operation_id: id, requested_at }))
    }
}

fn operation_id() -> String {
    let mut bytes = [0; 12];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has randomness");
    hex::encode(bytes)
}

fn busy(app: &Application) -> Result<(), Refusal> {
    if is_running(app) || app.operation.is_some() {
        return Err(Refusal::new(
            StatusCode::CONFLICT,
            "OPERATION_IN_PROGRESS",
            "another operation is already in progress; wait for it or terminate it",
        ));
    }
    Ok(())
}

pub(super) async fn sync_now(
    State(proxy): State<Proxy>,
    Extension(Asker { name: username, .. }): Extension<Asker>,
    path: AppPath,
    body: Option<Json<SyncRequest>>,
) -> Result<Json<OperationOrdered>, Refusal> {
    let request = body.map(|Json(body)| body).unwrap_or_default();
    let app = proxy.application(&app_key(path))?;
    busy(&app)?;
    let retry = match &request.retry {
        Some(retry) => retrying(retry),
        None => app.spec.sync_policy.as_ref().and_then(|policy| policy.retry.clone()).unwrap_or_default(),
    };
    let operation = Operation {
        sync: Some(wanted(&app, request)?),
        initiated_by: InitiatedBy { username, ..InitiatedBy::default() },
        retry,
        ..Operation::default()
    };
    let patch = json!({});
    proxy.order(&app, operation, patch, "sync requested").await
}

/// The sync that is asked for, or all that it cannot be.
fn wanted(app: &Application, request: SyncRequest) -> Result<SyncOperation, Refusal> {
    let mut wrong = Vec::new();
    let sources = app.spec.effective_sources().len();
    if !request.revisions.is_empty() && !app.spec.has_several_sources() {
        wrong.push("revisions: the Application has one source: use revision".to_owned());
    } else if !request.revisions.is_empty() && request.revisions.len() != sources {
        wrong.push(format!("revisions: there are {sources} sources, so give {sources}, in their order"));
    }
    if !request.revisions.is_empty() && request.revision.is_some() {
        wrong.push("revisions: give them or revision, not both".to_owned());
    }
    for (at, resource) in request.resources.iter().enumerate() {
        if resource.kind.is_empty() || resource.name.is_empty() {
            wrong.push(format!("resources[{at}]: give kind and name"));
        }
    }
    for option in request.sync_options.iter().flatten() {
        if !option.split_once('=').is_some_and(|(name, value)| !name.is_empty() && !value.is_empty()) {
            wrong.push(format!("syncOptions: `{option}` is not Name=value"));
        }
    }
    if !wrong.is_empty() {
        return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "BAD_SYNC", wrong.join("; ")));
    }
    let force = Some(StrategyForce { force: request.force, ..StrategyForce::default() });
    let sync_strategy = match (request.strategy, request.force) {
        (None, false) => None,
        (Some(SyncStrategy::Apply), _) => Some(Strategy { apply: force, ..Strategy::default() }),
        (_, _) => Some(Strategy { hook: force, ..Strategy::default() }),
    };
    let resource = |resource: slipway_api::application::SyncResource| SyncResource {
        group: resource.group,
        kind: resource.kind,
        namespace: resource.namespace,
        name: resource.name,
        ..SyncResource::default()
    };
    Ok(SyncOperation {
        revision: request.revision.unwrap_or_default(),
        revisions: request.revisions,
        prune: request.prune,
        dry_run: request.dry_run,
        sync_strategy,
        resources: request.resources.into_iter().map(resource).collect(),
        sync_options: options(app.spec.sync_options(), request.sync_options.unwrap_or_default()),
        ..SyncOperation::default()
    })
}

/// The Application's own options, but for those that were asked for otherwise.
fn options(own: &[String], wanted: Vec<String>) -> Vec<String> {
    let name = |option: &str| option.split('=').next().unwrap_or_default().trim().to_owned();
    let given: Vec<String> = wanted.iter().map(|option| name(option)).collect();
    own.iter().filter(|option| !given.contains(&name(option))).cloned().chain(wanted).collect()
}

fn retrying(retry: &SyncRetry) -> RetryStrategy {
    let SyncRetry { limit, duration, factor, max_duration } = retry.clone();
    let backoff = Backoff {
        duration: duration.unwrap_or_default(),
        factor,
        max_duration: max_duration.unwrap_or_default(),
        ..Backoff::default()
    };
    RetryStrategy { limit, backoff: Some(backoff), ..RetryStrategy::default() }
}

pub(super) async fn refresh(
    State(proxy): State<Proxy>,
    path: AppPath,
    body: Option<Json<RefreshRequest>>,
) -> Result<Json<Value>, Refusal> {
    let app = proxy.application(&app_key(path))?;
    let hard = body.is_some_and(|Json(body)| body.hard);
    let how = if hard { "hard" } else { "normal" };
    proxy.patch(&app, json!({"metadata": {"annotations": {names::REFRESH: how}}})).await?;
    Ok(done(if hard { "hard refresh requested" } else { "refresh requested" }))
}

/// Syncs what was deployed before. Automation would undo it at once, so it is switched off in the same write.
pub(super) async fn rollback(
    State(proxy): State<Proxy>,
    Extension(Asker { name: username, .. }): Extension<Asker>,
    path: AppPath,
    Json(request): Json<RollbackRequest>,
) -> Result<Json<OperationOrdered>, Refusal> {
    let app = proxy.application(&app_key(path))?;
    busy(&app)?;
    let entry = app.status.history.iter().find(|entry| entry.id == request.id).ok_or_else(|| {
        Refusal::new(
            StatusCode::NOT_FOUND,
            "NOT_FOUND",
            format!("there is no deployment {} in the history", request.id),
        )
    })?;
    let operation = Operation {
        sync: Some(SyncOperation {
            revision: entry.revision.clone(),
            revisions: entry.revisions.clone(),
            source: entry.source.clone(),
            sources: entry.sources.clone(),
            prune: request.prune,
            sync_options: app.spec.sync_options().to_vec(),
            ..SyncOperation::default()
        }),
        initiated_by: InitiatedBy { username, ..InitiatedBy::default() },
        ..Operation::default()
    };
    let mut patch = json!({});
    let mut message = "rollback requested";
    if app.spec.automation().is_some() {
        patch["spec"] = json!({"syncPolicy": {"automated": {"enabled": false}}});
        message = "rollback requested; automated sync was disabled so that it is not undone";
    }
    proxy.order(&app, operation, patch, message).await
}

/// Switches automated sync on or off, which a rollback does too. The rest of the policy stays.
pub(super) async fn sync_policy(
    State(proxy): State<Proxy>,
    path: AppPath,
    Json(request): Json<SyncPolicyRequest>,
) -> Result<Json<Value>, Refusal> {
    let app = proxy.application(&app_key(path))?;
    let mut automated = serde_json::Map::new();
    let fields = [("enabled", request.automated), ("selfHeal", request.self_heal), ("prune", request.prune)];
    for (name, value) in fields {
        automated.extend(value.map(|value| (name.to_owned(), Value::Bool(value))));
    }
    if automated.is_empty() {
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "NOTHING_TO_CHANGE",
            "give automated, selfHeal or prune",
        ));
    }
    // A policy that is not there would be switched on by writing it.
    let on = request.automated.unwrap_or_else(|| app.spec.automation().is_some());
    automated.insert("enabled".to_owned(), on.into());
    proxy.write(&app, json!({"spec": {"syncPolicy": {"automated": automated}}})).await?;
    Ok(done(if on { "automated sync is on" } else { "automated sync is off" }))
}

pub(super) async fn terminate(State(proxy): State<Proxy>, path: AppPath) -> Result<Json<Value>, Refusal> {
    let app = proxy.application(&app_key(path))?;
    if !is_running(&app) {
        return Err(Refusal::new(StatusCode::CONFLICT, "NOTHING_RUNNING", "no operation is in progress"));
    }
    proxy.patch(&app, json!({"status": {"operationState": {"phase": "Terminating"}}})).await?;
    Ok(done("the operation is being terminated"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_asked_for_stand_over_those_of_that_name_and_the_others_stay() {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let own = texts(&["CreateNamespace=true", "ServerSideApply=false", "PruneLast=true"]);
        assert_eq!(
            options(&own, texts(&["ServerSideApply=true", "Replace=true"])),
            texts(&["CreateNamespace=true", "PruneLast=true", "ServerSideApply=true", "Replace=true"])
        );
        assert_eq!(options(&own, Vec::new()), own);
    }
}
