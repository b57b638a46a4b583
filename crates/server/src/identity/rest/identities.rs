//! What one is called at the identity providers of one's accounts. Linking is in [`crate::identity::rest::sign_in`].

use axum::Json;
use axum::extract::{Path, State};
use slipway_api::error::ErrorBody;
use slipway_api::sso::LinkedIdentity;
use slipway_store::identity::{self, AccountStatus};
use slipway_store::{Scope, sso};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;
use crate::seams;

/// Identity providers of your accounts, and whether your identity is linked.
#[utoipa::path(get, path = "/api/user/identities", tag = "auth", responses((status = 200, body = [LinkedIdentity]), (status = 401, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Vec<LinkedIdentity>>, ApiError> {
    // Robots have none.
    let Ok((id, _)) = crate::identity::rest::auth::person(&caller) else { return Ok(Json(Vec::new())) };
    let found = server
        .look(move |tx| {
            let linked = identity::identities_of(tx, id)?;
            let mut shown = Vec::new();
            for membership in identity::memberships_of(tx, id)? {
                let hidden = caller.is_vouched() && membership.account != caller.principal.account;
                if hidden || membership.account_status != AccountStatus::Active {
                    continue;
                }
                for client in sso::list(tx, Scope::of(membership.account))? {
                    let own = linked.iter().find(|one| one.client == client.id);
                    shown.push(LinkedIdentity {
                        issuer: own.map_or_else(
                            || crate::identity::sso::settings(&client).issuer,
                            |own| own.issuer.clone(),
                        ),
                        client: client.name,
                        account: membership.account_name.clone(),
                        linked: own.is_some(),
                        subject: own.map(|own| own.subject.clone()),
                        created: own.map(|own| seams::rfc3339(own.created_ms)),
                    });
                }
            }
            Ok(shown)
        })
        .await?;
    Ok(Json(found))
}

/// Unlink an identity; sessions that began with it end.
#[utoipa::path(delete, path = "/api/user/identities/{client}", tag = "auth", params(("client" = String, Path)),
    responses((status = 200, body = String), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn unlink(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<String>, ApiError> {
    crate::identity::rest::auth::browser(&caller)?;
    let (id, _) = crate::identity::rest::auth::person(&caller)?;
    let gone = name.clone();
    server
        .change(move |tx| {
            let what = || ApiError::not_found(format!("identity at `{name}`"));
            let linked = identity::identities_of(tx, id)?;
            let client = sso::by_name(tx, &name)?.ok_or_else(what)?;
            let own = linked.iter().find(|one| one.client == client.id).ok_or_else(what)?;
            if caller.is_vouched() && client.account != caller.principal.account {
                return Err(what());
            }
            let user = identity::user_by_id(tx, id)?.ok_or_else(what)?;
            if user.password_hash.is_empty() && linked.len() == 1 {
                return Err(ApiError::conflict(
                    "this is your only way to sign in: you have no password; link another provider first",
                ));
            }
            let before = serde_json::json!({"issuer": own.issuer, "subject": own.subject});
            identity::unlink_identity(tx, id, client.id)?;
            let entry = Entry::new("unlink", "identity", id, &name).before(before);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            if client.account != caller.principal.account {
                let actor = caller.actor().in_chain(client.account);
                caller.trail.record(tx, &actor, &entry, "allowed", 200)?;
            }
            Ok(())
        })
        .await?;
    Ok(Json(gone))
}
