//! Trying out whether an integration works: one call to a Git provider or a registry, with the credential that is kept.
//!
//! In: the name of an integration, from somebody who may change it. Out: whether it answered, in a sentence. The call goes out
//! through [`crate::http::egress`], under its rules; nothing that the other side says is given back but its status.

use axum::Json;
use axum::extract::{Path, State};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use slipway_api::error::ErrorBody;
use slipway_model::AccountId;
use utoipa::ToSchema;

use crate::ci::contexts;
use crate::ci::errands::{self, Ask};
use crate::ci::providers;
use crate::ci::rest::registries;
use crate::ctx::Server;
use crate::http::egress::{Answer, EgressError};
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Connection {
    ok: bool,
    /// What happened, and what to do when it is not well.
    message: String,
}

fn good(message: impl Into<String>) -> Connection {
    Connection { ok: true, message: message.into() }
}

fn bad(message: impl Into<String>) -> Connection {
    Connection { ok: false, message: message.into() }
}

/// Test the credential of an integration.
#[utoipa::path(post, path = "/api/contexts/{name}/test", tag = "contexts", params(("name" = String, Path)),
    responses((status = 200, body = Connection), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn test_context(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Connection>, ApiError> {
    let (asking, wanted) = (caller.clone(), name.clone());
    let row = server.look(move |tx| contexts::find(tx, &asking, &wanted, "update")).await?;
    if !row.kind.starts_with("git.") {
        return Err(ApiError::bad_request(format!(
            "context `{name}` is of type `{}`: only Git integrations and registries can be tested",
            row.kind
        )));
    }
    recorded(&server, &caller, "context", row.id.to_string(), row.name.clone()).await?;
    let connection = providers::connect(&server, caller.principal.account, &row.name).await?;
    let call = connection.provider.repositories();
    let outcome = match connection.send(&server, &call).await {
        Ok(answer) => connection.provider.read_repositories(&answer).map_err(Into::into),
        Err(error) => Err(error),
    };
    Ok(Json(match outcome {
        Ok(seen) if seen.is_empty() => good("the provider accepted the token, but it can see no repository"),
        Ok(seen) => {
            good(format!("the provider accepted the token; it can see {} repositories or more", seen.len()))
        }
        Err(error) => bad(error.to_string()),
    }))
}

/// Test the credential of a registry.
#[utoipa::path(post, path = "/api/registries/{name}/test", tag = "registries", params(("name" = String, Path)),
    responses((status = 200, body = Connection), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn test_registry(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Connection>, ApiError> {
    let asking = caller.clone();
    let row = server.look(move |tx| registries::find(tx, &asking, &name, "update")).await?;
    recorded(&server, &caller, "registry", row.id.to_string(), row.name.clone()).await?;
    let key = server.data_key(caller.principal.account).await?;
    let (host, user, secret) = crate::ci::registries::login(&contexts::opened(&key, caller.scope(), &row))?;
    let login = format!("Basic {}", STANDARD.encode(format!("{user}:{secret}")));
    let inside = contexts::is_behind_firewall(&row).then_some(caller.principal.account);
    Ok(Json(match sign_in(&server, &host, &login, inside).await {
        Ok(200..=299) => good(format!("{host} accepted the credentials of `{user}`")),
        Ok(status @ (401 | 403)) => bad(format!(
            "{host} rejected the credentials of `{user}` (status {status}): check the name and the password"
        )),
        Ok(status) => bad(format!("{host} answered {status}: is this the host of a registry?")),
        Err(error) => bad(error.to_string()),
    }))
}

async fn recorded(
    server: &Server,
    caller: &Caller,
    entity: &'static str,
    id: String,
    name: String,
) -> Result<(), ApiError> {
    let caller = caller.clone();
    server
        .change(move |tx| {
            let entry = Entry::new("test", entity, id, &name);
            Ok(caller.trail.allowed(tx, &caller.actor(), &entry)?)
        })
        .await
}

/// As `docker login` does: the registry itself, or the service that it sends one to for a token. `inside`: a runner of this account asks.
async fn sign_in(
    server: &Server,
    host: &str,
    login: &str,
    inside: Option<AccountId>,
) -> Result<u16, EgressError> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let here =
        name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    let base = match host {
        "docker.io" => "https://registry-1.docker.io".to_owned(),
        _ if here => format!("http://{host}"),
        _ => format!("https://{host}"),
    };
    let call = async |url: &str| -> Result<Answer, EgressError> {
        let headers = [("authorization", login)];
        match inside {
            Some(account) => {
                errands::ask(server, account, Ask { method: "GET", url, headers: &headers, body: None }).await
            }
            None => server.inner.egress.call("GET", url, &headers, None).await,
        }
    };
    let answer = call(&format!("{base}/v2/")).await?;
    // The registry says where its tokens come from; the password goes there encrypted, or stays on this machine.
    let service = answer.challenge.as_deref().filter(|_| answer.status == 401).and_then(token_service);
    match service.filter(|url| url.starts_with("https://") || here) {
        Some(url) => Ok(call(&url).await?.status),
        None => Ok(answer.status),
    }
}

/// `Bearer realm="https://auth.example/token",service="registry.example"` as an address to ask. Basic is none.
fn token_service(challenge: &str) -> Option<String> {
    let fields = challenge.strip_prefix("Bearer ")?;
    let field = |name: &str| {
        fields.split(',').find_map(|field| {
            let (key, value) = field.trim().split_once('=')?;
            (key == name).then(|| value.trim_matches('"').to_owned())
        })
    };
    let mut url = reqwest::Url::parse(&field("realm")?).ok()?;
    if let Some(service) = field("service") {
        url.query_pairs_mut().append_pair("service", &service);
    }
    Some(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_names_the_service_that_gives_tokens() {
        let challenge = r#"Bearer realm="https://auth.example/token",service="registry.example",scope="x""#;
        assert_eq!(token_service(challenge).unwrap(), "https://auth.example/token?service=registry.example");
        assert_eq!(token_service(r#"Basic realm="x""#), None);
    }
}
