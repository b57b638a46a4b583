//! Domains that the platform verified for an account: its identity providers may bring in people with such addresses.
//! An administrator of the platform has checked that the company owns the domain; nothing here asks the network.

use axum::Json;
use axum::extract::{Path, State};
use slipway_api::error::ErrorBody;
use slipway_api::sso::{VerifiedDomain, VerifyDomain};
use slipway_store::identity::{self, Domain, User};
use slipway_store::{Scope, Tx};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::accounts::find;
use crate::identity::auth::Caller;
use crate::identity::rest::admin::record;
use crate::identity::trail::Entry;
use crate::seams;

fn shown(row: Domain) -> VerifiedDomain {
    VerifiedDomain {
        domain: row.domain,
        verified_by: row.verified_by,
        created: seams::rfc3339(row.created_ms),
    }
}

/// Lowercase letters, digits, hyphens and dots, at least one of them: no address, no pattern.
fn checked(domain: &str) -> Result<String, ApiError> {
    let domain = domain.trim().to_lowercase();
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    if domain.len() <= 253 && domain.contains('.') && domain.split('.').all(label) {
        return Ok(domain);
    }
    Err(ApiError::bad_request(format!(
        "`{domain}` is not a domain such as `example.com`: write the part after the @, in ASCII (xn--… for others)"
    )))
}

/// Verified domains: your account's identity providers are trusted for their addresses.
#[utoipa::path(get, path = "/api/account/domains", tag = "account", responses((status = 200, body = [VerifiedDomain]), (status = 401, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Vec<VerifiedDomain>>, ApiError> {
    let scope = caller.scope();
    let rows = server.store().read(move |tx| identity::domains_of(tx, scope)).await?;
    Ok(Json(rows.into_iter().map(shown).collect()))
}

/// Record that a domain belongs to an account, after you have verified it. A domain belongs to one account.
#[utoipa::path(post, path = "/api/admin/accounts/{account}/domains", tag = "platform", params(("account" = String, Path)), request_body = VerifyDomain,
    responses((status = 200, body = VerifiedDomain), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn verify(
    State(server): State<Server>,
    caller: Caller,
    Path(wanted): Path<String>,
    Json(request): Json<VerifyDomain>,
) -> Result<Json<VerifiedDomain>, ApiError> {
    let (domain, now_ms) = (checked(&request.domain)?, server.now_ms());
    let made = server
        .change(move |tx| {
            let account = find(tx, &wanted)?;
            let verified_by = caller.principal.display_name();
            let row = Domain { domain, account: account.id, verified_by, created_ms: now_ms };
            identity::add_domain(tx, &row)?;
            let entry = Entry::new("verify-domain", "account", account.id, &account.name).after(&row.domain);
            record(tx, &caller, account.id, &entry)?;
            Ok(shown(row))
        })
        .await?;
    Ok(Json(made))
}

/// Remove a domain from an account. Users with such addresses stay.
#[utoipa::path(delete, path = "/api/admin/accounts/{account}/domains/{domain}", tag = "platform", params(("account" = String, Path), ("domain" = String, Path)),
    responses((status = 200, body = String), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn take_back(
    State(server): State<Server>,
    caller: Caller,
    Path((wanted, domain)): Path<(String, String)>,
) -> Result<Json<String>, ApiError> {
    let domain = domain.to_lowercase();
    let gone = domain.clone();
    server
        .change(move |tx| {
            let account = find(tx, &wanted)?;
            if identity::remove_domain(tx, Scope::of(account.id), &domain)? == 0 {
                return Err(ApiError::not_found(format!("domain `{domain}`")));
            }
            let entry = Entry::new("unverify-domain", "account", account.id, &account.name).before(&domain);
            record(tx, &caller, account.id, &entry)
        })
        .await?;
    Ok(Json(gone))
}

/// Whether somebody's address is known to be theirs: of a domain that is verified for an account that they are in.
/// Anybody could have been invited under an address that is not theirs, so an address alone opens nothing.
pub(crate) fn proven(tx: &mut Tx<'_>, user: &User) -> Result<bool, ApiError> {
    if user.platform_admin {
        return Ok(true);
    }
    let domain = user.email.rsplit('@').next().unwrap_or_default();
    let Some(row) = identity::domain(tx, domain)? else { return Ok(false) };
    Ok(identity::member(tx, Scope::of(row.account), user.id)?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_a_domain() {
        for good in ["example.com", " Example.COM ", "a-b.example.co.uk", "xn--bcher-kva.example"] {
            assert!(checked(good).is_ok(), "{good:?}");
        }
        for bad in [
            "",
            "com",
            "*.example.com",
            "ada@example.com",
            "exa mple.com",
            ".example.com",
            "a..b",
            "-a.b",
            "bücher.example",
        ] {
            assert!(checked(bad).is_err(), "{bad:?}");
        }
    }
}
