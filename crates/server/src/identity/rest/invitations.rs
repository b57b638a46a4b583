//! Invitations: sent by an Administrator, accepted by the invited person with the token in the link.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use slipway_api::auth::User;
use slipway_api::error::ErrorBody;
use slipway_api::identity::{
    AcceptInvitation, CreateInvitation, CreatedInvitation, Invitation, InvitationToken, InvitationView,
};
use slipway_model::{AccountId, Secret};
use slipway_store::identity::{self, AccountStatus};
use slipway_store::{Scope, Tx, sso};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::http::limits;
use crate::identity::auth::{self, Caller};
use crate::identity::sessions::{self, SignIn};
use crate::identity::tokens;
use crate::identity::trail::{Actor, Entry, Trail};
use crate::seams;
use crate::settings::AccountSettings;

const GOOD_FOR_MS: i64 = 7 * 24 * 60 * 60 * 1000;

fn shown(server: &Server, row: &identity::Invitation) -> Invitation {
    Invitation {
        id: row.id.to_string(),
        email: row.email.clone(),
        role: row.role.clone(),
        teams: row.teams.clone(),
        invited_by: row.invited_by.clone(),
        created: seams::rfc3339(row.created_ms),
        expires: seams::rfc3339(row.expires_ms),
        expired: row.expires_ms < server.now_ms(),
    }
}

/// The token stands behind `#`, so that it is in no server's log.
fn link(server: &Server, token: &str) -> String {
    format!("{}/invitation#{token}", server.public_url())
}

/// Open invitations.
#[utoipa::path(get, path = "/api/invitations", tag = "invitations", responses((status = 200, body = [Invitation]), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Vec<Invitation>>, ApiError> {
    let scope = caller.scope();
    let rows = server.store().read(move |tx| identity::invitations(tx, scope)).await?;
    Ok(Json(rows.iter().map(|row| shown(&server, row)).collect()))
}

/// Invite a user by e-mail. The answer has the link to send them; it is shown once.
#[utoipa::path(post, path = "/api/invitations", tag = "invitations", request_body = CreateInvitation,
    responses((status = 200, body = CreatedInvitation), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Json(request): Json<CreateInvitation>,
) -> Result<Json<CreatedInvitation>, ApiError> {
    let email = crate::http::input::email(&request.email)?;
    let role = crate::http::input::role_by(&caller, request.role.as_deref())?;
    let inner = server.clone();
    let made = server
        .change(move |tx| {
            let scope = caller.scope();
            may_be_invited(tx, scope, &email)?;
            if let Some(refusal) = limits::refusal(tx, scope, "seats")? {
                return Err(ApiError::over_limit(refusal));
            }
            let teams = teams(tx, scope, &request.teams)?;
            let by = caller.principal.display_name();
            let (row, token) = invite(tx, &inner, scope.account(), &email, role.as_str(), teams, &by)?;
            let entry = Entry::new("create", "invitation", row.id, &email)
                .after(serde_json::json!({"role": row.role, "teams": row.teams}));
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(CreatedInvitation { invitation: shown(&inner, &row), url: link(&inner, &token) })
        })
        .await?;
    Ok(Json(made))
}

/// An address that the account admits, of somebody who is not in it.
pub(crate) fn may_be_invited(tx: &mut Tx<'_>, scope: Scope, email: &str) -> Result<(), ApiError> {
    let account = identity::account_by_id(tx, scope.account())?;
    let settings = AccountSettings::of(&account.ok_or_else(|| ApiError::not_found("the account"))?);
    if !settings.admits(email) {
        return Err(ApiError::bad_request(format!(
            "`{email}` does not belong to an allowed domain ({}): invite another address, or change the account's allowedDomains",
            settings.allowed_domains.join(", ")
        )));
    }
    if let Some(known) = identity::user_by_email(tx, email)?
        && identity::member(tx, scope, known.id)?.is_some()
    {
        return Err(ApiError::conflict(format!("`{email}` is already a member")));
    }
    Ok(())
}

/// Ids of teams that were named, all unknown ones said at once.
pub(crate) fn teams(tx: &mut Tx<'_>, scope: Scope, names: &[String]) -> Result<Vec<String>, ApiError> {
    let (mut ids, mut unknown) = (Vec::new(), Vec::new());
    for name in names {
        match identity::team_by_name(tx, scope, name)? {
            Some(team) if team.kind == "custom" => ids.push(team.id.to_string()),
            // Everybody is in `users`, and `admins` goes by role.
            Some(_) => {}
            None => unknown.push(format!("`{name}`")),
        }
    }
    match unknown.as_slice() {
        [] => Ok(ids),
        unknown => Err(ApiError::not_found(format!("team {}", unknown.join(", ")))),
    }
}

pub(crate) fn invite(
    tx: &mut Tx<'_>,
    server: &Server,
    account: AccountId,
    email: &str,
    role: &str,
    teams: Vec<String>,
    by: &str,
) -> Result<(identity::Invitation, String), ApiError> {
    let (token, now_ms) = (tokens::random_token(server.seams()), server.now_ms());
    let row = identity::Invitation {
        id: server.seams().new_id(),
        account,
        email: email.to_owned(),
        role: role.to_owned(),
        teams,
        token_hash: tokens::digest(&token),
        invited_by: by.to_owned(),
        created_ms: now_ms,
        expires_ms: now_ms + GOOD_FOR_MS,
    };
    identity::create_invitation(tx, &row)?;
    Ok((row, token))
}

pub(crate) fn invitation_url(server: &Server, token: &str) -> String {
    link(server, token)
}

fn find(tx: &mut Tx<'_>, scope: Scope, id: &str) -> Result<identity::Invitation, ApiError> {
    let what = || ApiError::not_found(format!("invitation `{id}`"));
    let parsed = id.parse().map_err(|_| what())?;
    identity::invitation(tx, scope, parsed)?.ok_or_else(what)
}

/// Create a new link that is valid for a week; the old one becomes invalid.
#[utoipa::path(post, path = "/api/invitations/{id}/resend", tag = "invitations", params(("id" = String, Path)),
    responses((status = 200, body = CreatedInvitation), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn resend(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<CreatedInvitation>, ApiError> {
    let inner = server.clone();
    let made = server
        .change(move |tx| {
            let row = find(tx, caller.scope(), &id)?;
            let token = tokens::random_token(inner.seams());
            let expires_ms = inner.now_ms() + GOOD_FOR_MS;
            identity::renew_invitation(tx, caller.scope(), row.id, &tokens::digest(&token), expires_ms)?;
            let row = find(tx, caller.scope(), &id)?;
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("resend", "invitation", row.id, &row.email),
            )?;
            Ok(CreatedInvitation { invitation: shown(&inner, &row), url: link(&inner, &token) })
        })
        .await?;
    Ok(Json(made))
}

/// Revoke an invitation.
#[utoipa::path(delete, path = "/api/invitations/{id}", tag = "invitations", params(("id" = String, Path)),
    responses((status = 200, body = String), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn revoke(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<String>, ApiError> {
    let gone = id.clone();
    server
        .change(move |tx| {
            let row = find(tx, caller.scope(), &id)?;
            identity::delete_invitation(tx, caller.scope(), row.id)?;
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("delete", "invitation", row.id, &row.email),
            )?;
            Ok(())
        })
        .await?;
    Ok(Json(gone))
}

/// One that is still good, of an account that is open. Everything else is the same to whoever asks.
pub(crate) fn by_token(
    tx: &mut Tx<'_>,
    server: &Server,
    token: &str,
) -> Result<(identity::Invitation, identity::Account), ApiError> {
    let refused =
        || ApiError::not_found("this invitation: it was accepted, revoked or has expired; ask for a new one");
    let row = identity::invitation_by_token(tx, &tokens::digest(token))?
        .filter(|row| row.expires_ms >= server.now_ms())
        .ok_or_else(refused)?;
    let account =
        identity::account_by_id(tx, row.account)?.filter(|account| account.status == AccountStatus::Active);
    Ok((row, account.ok_or_else(refused)?))
}

/// Details of an invitation, for the holder of its token.
#[utoipa::path(post, path = "/api/auth/invitation/look", tag = "auth", request_body = InvitationToken,
    responses((status = 200, body = InvitationView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn look(
    State(server): State<Server>,
    Json(request): Json<InvitationToken>,
) -> Result<Json<InvitationView>, ApiError> {
    let inner = server.clone();
    let view = server
        .look(move |tx| {
            let (row, account) = by_token(tx, &inner, &request.token)?;
            let known = identity::user_by_email(tx, &row.email)?.is_some();
            let clients = sso::list(tx, Scope::of(account.id))?;
            let clients = clients.iter().filter(|client| client.enabled);
            Ok(InvitationView {
                password: AccountSettings::of(&account).password_login,
                sso: clients.map(crate::identity::rest::auth::sso_option).collect(),
                account_name: account.name,
                email: row.email,
                role: row.role,
                known,
            })
        })
        .await?;
    Ok(Json(view))
}

/// Accept an invitation: a new user chooses a password, an existing one enters theirs. The answer sets a session cookie.
#[utoipa::path(post, path = "/api/auth/invitation/accept", tag = "auth", request_body = AcceptInvitation,
    responses((status = 200, body = User), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody), (status = 429, body = ErrorBody)))]
pub(crate) async fn accept(
    State(server): State<Server>,
    trail: Trail,
    headers: HeaderMap,
    Json(request): Json<AcceptInvitation>,
) -> Result<impl IntoResponse, ApiError> {
    let (inner, token) = (server.clone(), request.token.clone());
    let (email, known) = server
        .look(move |tx| {
            let (row, account) = by_token(tx, &inner, &token)?;
            entered_by_password(&account)?;
            let known = identity::user_by_email(tx, &row.email)?;
            Ok((row.email, known))
        })
        .await?;
    let new_hash = match &known {
        Some(_) => {
            let browser = auth::cookie(&headers, auth::BROWSER_COOKIE);
            let from = auth::From { address: trail.address(), browser: browser.as_deref() };
            auth::check_password(&server, &email, Secret::new(request.password), &from).await?;
            None
        }
        None => {
            crate::identity::passwords::check_new_password(&request.password)?;
            Some(crate::identity::passwords::hash_of(&server, request.password).await?)
        }
    };
    let (inner, agent) = (server.clone(), sessions::agent(&headers).to_owned());
    let (opened, user, account) = server
        .change(move |tx| {
            // Looked up again in the transaction: two who come with one token do not both get in.
            let (row, account) = by_token(tx, &inner, &request.token)?;
            entered_by_password(&account)?;
            let user = match (identity::user_by_email(tx, &row.email)?, new_hash) {
                (Some(user), _) if user.enabled => user,
                (Some(_), _) => return Err(ApiError::wrong_credentials()),
                (None, Some(hash)) => {
                    let name = request.name.as_deref().map(str::trim).filter(|name| !name.is_empty());
                    let name = name.map_or_else(
                        || row.email.split('@').next().unwrap_or_default().to_owned(),
                        str::to_owned,
                    );
                    let new =
                        Newcomer { email: &row.email, name: &name, password_hash: hash, account: account.id };
                    new_user(tx, &inner, new, Some(&row))?
                }
                (None, None) => {
                    return Err(ApiError::conflict("this user was removed in the meantime: try again"));
                }
            };
            join(tx, &inner, &row, &user)?;
            let sign_in = SignIn {
                user: user.id,
                account: account.id,
                method: "password",
                client: None,
                address: trail.address(),
                agent: &agent,
            };
            let opened = sessions::open(tx, &inner, &sign_in)?;
            let entry = Entry::new("accept", "invitation", row.id, &row.email)
                .after(serde_json::json!({"role": row.role}));
            trail.allowed(tx, &Actor::person(account.id, user.id, &user.name), &entry)?;
            Ok((opened, user.id, account.id))
        })
        .await?;
    let csrf = opened.csrf.clone();
    let body =
        server.look(move |tx| crate::identity::rest::user::shown(tx, user, account, Some(&csrf))).await?;
    Ok(([(header::SET_COOKIE, opened.cookie)], Json(body)))
}

fn entered_by_password(account: &identity::Account) -> Result<(), ApiError> {
    match AccountSettings::of(account).password_login {
        true => Ok(()),
        false => Err(ApiError::forbidden(
            "this account requires its identity provider: open the invitation's link and choose it there",
        )),
    }
}

/// Somebody who was never here.
pub(crate) struct Newcomer<'a> {
    pub(crate) email: &'a str,
    pub(crate) name: &'a str,
    /// Empty: they sign in by an identity provider.
    pub(crate) password_hash: String,
    pub(crate) account: AccountId,
}

/// With the id of their invitation: whoever kept that as the person's keeps the right one.
pub(crate) fn new_user(
    tx: &mut Tx<'_>,
    server: &Server,
    new: Newcomer<'_>,
    invitation: Option<&identity::Invitation>,
) -> Result<identity::User, ApiError> {
    let kept = invitation.and_then(|row| row.id.to_string().parse().ok());
    let kept = match kept {
        Some(id) if identity::user_by_id(tx, id)?.is_none() => Some(id),
        _ => None,
    };
    let user = identity::User {
        id: kept.unwrap_or_else(|| server.seams().new_id()),
        email: new.email.to_owned(),
        name: new.name.chars().filter(|c| !c.is_control()).take(100).collect(),
        password_hash: new.password_hash,
        platform_admin: false,
        enabled: true,
        active_account: new.account,
        created_ms: server.now_ms(),
        last_login_ms: None,
    };
    identity::create_user(tx, &user)?;
    Ok(user)
}

/// Membership and teams as invited; the invitation is used up.
pub(crate) fn join(
    tx: &mut Tx<'_>,
    server: &Server,
    row: &identity::Invitation,
    user: &identity::User,
) -> Result<(), ApiError> {
    let scope = Scope::of(row.account);
    identity::delete_invitation(tx, scope, row.id)?;
    if identity::member(tx, scope, user.id)?.is_none() {
        identity::add_member(tx, scope, user.id, &row.role, server.now_ms())?;
    }
    for team in &row.teams {
        if let Some(team) = identity::team_by_name(tx, scope, team)? {
            identity::add_to_team(tx, team.id, &user.id.to_string(), "manual")?;
        }
    }
    identity::set_active_account(tx, user.id, row.account)?;
    Ok(())
}
