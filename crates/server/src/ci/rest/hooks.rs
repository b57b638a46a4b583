//! Webhooks of Git providers: taking them in, and showing people what is registered where.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use serde::Serialize;
use serde_json::{Value, json};
use slipway_api::error::ErrorBody;
use slipway_forge::remote::{Headers, Provider};
use slipway_model::HookId;
use slipway_store::hooks::{self, Hook};
use slipway_store::{contexts, inbox};
use utoipa::ToSchema;

use crate::ci::announcements::note;
use crate::ci::providers;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;
use crate::seams;

/// One push moves no more references than this.
const EVENTS_MAX: usize = 100;

/// A provider announces something. Believed when it is signed with this hook's own secret, written down before the
/// answer, and known again when it is repeated.
pub(crate) async fn receive(
    State(server): State<Server>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let unknown = || ApiError::not_found("this webhook");
    let wanted: HookId = id.parse().map_err(|_| unknown())?;
    let found = server.store().read(move |tx| {
        tx.fetch_last([hooks::asks_by_id(wanted), contexts::asks_of_hook(wanted)])?;
        let Some(hook) = hooks::by_id(tx, wanted)? else { return Ok(None) };
        Ok(Some((hook, contexts::of_hook(tx, wanted)?)))
    });
    let (hook, context) = found.await?.ok_or_else(unknown)?;
    let provider = context.and_then(|context| Provider::of_context(&context.kind)).ok_or_else(unknown)?;
    let headers = Headers::new(
        headers
            .iter()
            .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))),
    );
    let key = server.data_key(hook.account).await?;
    let secret = key
        .unseal(&providers::secret_place(hook.account, &hook.context, &hook.repo), &hook.secret)
        .ok_or_else(unknown)?;
    provider
        .verify(&headers, &body, secret.expose())
        .map_err(|error| ApiError::refused_announcement(error.to_string()))?;
    let events = provider.parse(&headers, &body).map_err(|error| ApiError::bad_request(error.to_string()))?;
    if events.len() > EVENTS_MAX {
        return Err(ApiError::bad_request(format!("the webhook names more than {EVENTS_MAX} references")));
    }
    if let Some(other) = events.iter().find(|event| !event.repo.eq_ignore_ascii_case(&hook.repo)) {
        return Err(ApiError::bad_request(format!(
            "this webhook belongs to `{}`, but the event is about `{}`",
            hook.repo, other.repo
        )));
    }
    // Without a name of its own an announcement is known by what it says.
    let delivery = provider
        .delivery(&headers)
        .unwrap_or_else(|| hex::encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &body)));
    let now_ms = server.now_ms();
    let of_hook = format!("hook:{}", hook.id);
    let noted = server
        .change_asking(vec![inbox::asks_known(&of_hook, &delivery)], move |tx| {
            if !inbox::first_time(tx, &of_hook, &delivery, now_ms)? {
                return Ok(0);
            }
            hooks::heard(tx, hook.id, now_ms)?;
            let count = events.len();
            for mut event in events {
                if event.cause.is_empty() {
                    event.cause = format!("delivery:{delivery}");
                }
                note(tx, &hook, event, now_ms)?;
            }
            Ok(count)
        })
        .await?;
    Ok(Json(json!({"accepted": noted})))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownHook {
    id: String,
    context: String,
    repo: String,
    /// Where the provider sends its announcements.
    url: String,
    registered: bool,
    /// Why it is not registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_heard: Option<String>,
    /// For registering it by hand; shown by the call that asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

fn shown(server: &Server, hook: &Hook, secret: Option<String>) -> ShownHook {
    ShownHook {
        id: hook.id.to_string(),
        context: hook.context.clone(),
        repo: hook.repo.clone(),
        url: providers::hook_url(server, hook),
        registered: hook.remote.is_some(),
        problem: hook.problem.clone(),
        last_heard: hook.heard_ms.map(seams::rfc3339),
        secret,
    }
}

/// Webhooks of the account.
#[utoipa::path(get, path = "/api/hooks", tag = "triggers", responses((status = 200, body = [ShownHook])))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Vec<ShownHook>>, ApiError> {
    let scope = caller.scope();
    let rows = server.store().read(move |tx| hooks::list(tx, scope)).await?;
    Ok(Json(rows.iter().map(|hook| shown(&server, hook, None)).collect()))
}

/// The secret of a webhook, for registering it manually; every access is recorded.
#[utoipa::path(post, path = "/api/hooks/{id}/secret", tag = "triggers", params(("id" = String, Path)),
    responses((status = 200, body = ShownHook), (status = 404, body = ErrorBody)))]
pub(crate) async fn secret(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<ShownHook>, ApiError> {
    let may_see = crate::identity::access::disclose(&caller, slipway_access::Resource::Pipelines)?;
    let key = server.data_key(caller.principal.account).await?;
    let inner = server.clone();
    let found = server
        .change(move |tx| {
            let what = format!("webhook `{id}`");
            let wanted: HookId = id.parse().map_err(|_| ApiError::not_found(&what))?;
            let hook = hooks::by_id(tx, wanted)?
                .filter(|hook| hook.account == caller.principal.account)
                .ok_or_else(|| ApiError::not_found(&what))?;
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("decrypt", "webhook", hook.id, &hook.repo),
            )?;
            let place = providers::secret_place(hook.account, &hook.context, &hook.repo);
            let secret = may_see.open(&key, &place, &hook.secret);
            Ok(shown(&inner, &hook, secret))
        })
        .await?;
    Ok(Json(found))
}
