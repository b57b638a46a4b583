//! What may be ordered: an order is a patch of the Application, which its engine carries out.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use slipway_api::application::{OperationOrdered, SyncPolicyRequest, SyncRequest};
use slipway_crd::{Application, Info, InitiatedBy, Operation, SyncOperation, names};
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
    let operation = Operation {
        sync: Some(SyncOperation {
            revision: request.revision.unwrap_or_default(),
            prune: request.prune,
            dry_run: request.dry_run,
            sync_options: app.spec.sync_options().to_vec(),
            ..SyncOperation::default()
        }),
        initiated_by: InitiatedBy { username, ..InitiatedBy::default() },
        retry: app.spec.sync_policy.as_ref().and_then(|policy| policy.retry.clone()).unwrap_or_default(),
        ..Operation::default()
    };
    let patch = json!({});
    proxy.order(&app, operation, patch, "sync requested").await
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RefreshRequest {
    /// Render again even what is in a cache.
    hard: bool,
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

#[derive(Deserialize)]
pub(super) struct RollbackRequest {
    id: i64,
    #[serde(default)]
    prune: bool,
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
