//! Git with the asker's own token: what they see at their provider, and commits that are theirs.
//!
//! In: a provider that the runtime's Secrets know, or a public one, and a token that is given once and kept in the cluster
//! ([`vault`]). Out: lists as the provider gives them, and commits whose author and committer is the token's owner. What they may
//! do there, the provider decides.

mod apps;
mod commit;
mod renew;
mod sign_in;
mod vault;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use slipway_api::git_proxy::{
    GitAccount, GitAccounts, GitBranch, GitBranches, GitForget, GitNames, GitRegister,
};
use slipway_forge::lists::Carrier as _;
use slipway_forge::remote::{Answer, Call, CallError, Provider};
use slipway_model::Secret;
use slipway_net::Trust;

use super::{Asker, Proxy, Refusal, Running, done};
use crate::engines::application_sets::http::{Way, client};
pub(super) use commit::{Reached, Seen, check, commit, make};
pub(crate) use renew::Renewals;
pub(super) use sign_in::{authorize, callback, connect};
use vault::{Kept, Renewable, Vault};

const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// So many pages of a list, of fifty or a hundred each.
const PAGES_MAX: usize = 200;

pub(super) fn refused(name: &'static str, message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, name, message)
}

/// A Git provider at an address.
#[derive(Clone)]
struct Place {
    provider: Provider,
    /// `https://git.example.com`; none: the public one.
    host: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) => write!(f, "{} at {host}", self.provider.name()),
            None => f.write_str(self.provider.name()),
        }
    }
}

impl Place {
    /// A token is sent to no host but a public one, or one that an administrator named in a Secret of the runtime.
    fn read(running: &Running, provider: &str, host: &str) -> Result<Self, Refusal> {
        let known = Provider::of_name(provider).ok_or_else(|| {
            let names: Vec<_> = Provider::ALL.iter().map(|known| known.name()).collect();
            refused(
                "UNKNOWN_PROVIDER",
                format!("`{provider}` is no Git provider: there are {}", names.join(", ")),
            )
        })?;
        let host = host.trim_end_matches('/');
        let place = Self { provider: known, host: (!host.is_empty()).then(|| host.to_owned()) };
        let public =
            place.host.is_none() || known.clone_base(None).is_some_and(|base| base == format!("{host}/"));
        if let (Some(host), false) = (&place.host, public) {
            let plain = host.strip_prefix("https://").or_else(|| host.strip_prefix("http://"));
            let bare =
                plain.is_some_and(|rest| !rest.is_empty() && !rest.contains(['/', '?', '#', '@', ' ', '\\']));
            if !bare {
                return Err(refused(
                    "BAD_HOST",
                    format!("`{host}` is not an address of a host: use https://HOST[:PORT]"),
                ));
            }
            if !running.settings.access().knows_host(host) {
                let message = format!(
                    "this runtime does not know {host}: an administrator names it in a Secret of the runtime's namespace (argocd.argoproj.io/secret-type: repository or repo-creds)"
                );
                return Err(refused("UNKNOWN_HOST", message));
            }
        }
        if place.provider.api(place.host.as_deref()).is_none() {
            return Err(refused(
                "BAD_HOST",
                format!("{} has no public host: give its address", known.name()),
            ));
        }
        Ok(place)
    }

    fn key(&self) -> String {
        let text = format!("{}\n{}", self.provider.name(), self.host.as_deref().unwrap_or_default());
        hex::encode(&Sha256::digest(text.as_bytes())[..16])
    }

    /// Where calls with this token go. One of a sign-in is a bearer's at every provider.
    fn way(
        &self,
        running: &Running,
        token: &Secret<String>,
        renewable: Option<&Renewable>,
    ) -> Result<Way, Refusal> {
        let (name, value) = match renewable {
            None => self.provider.authorization(None, token.expose()),
            Some(_) => ("authorization", format!("Bearer {}", token.expose())),
        };
        let name = if name == "PRIVATE-TOKEN" { "private-token" } else { "authorization" };
        let api = self.provider.api(self.host.as_deref()).unwrap_or_default();
        let client = client(&running.config.egress, ANSWER_WITHIN, Trust::default())
            .map_err(|error| refused("UNREACHABLE", error))?;
        Ok(Way::plain(client, api, vec![(name, value)]))
    }

    async fn ask(&self, way: &Way, call: &Call) -> Result<Answer, Refusal> {
        let answer = way.carry(call).await;
        let answer =
            answer.map_err(|error| Refusal::new(StatusCode::BAD_GATEWAY, "GIT_UNREACHABLE", error))?;
        match self.provider.check(&answer) {
            Ok(()) => Ok(answer),
            Err(error) => Err(self.refusal(error)),
        }
    }

    fn refusal(&self, error: CallError) -> Refusal {
        match error {
            CallError::Refused { status: 401 | 403, .. } => refused(
                "TOKEN_REFUSED",
                format!("{self} refuses the token for this: check its scopes, or register a new one"),
            ),
            CallError::Refused { status: 404, .. } => Refusal::new(
                StatusCode::NOT_FOUND,
                "NOT_FOUND",
                format!("{self} has no such repository, or the token may not see it"),
            ),
            other => Refusal::new(StatusCode::BAD_GATEWAY, "GIT_ERROR", other.to_string()),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct AtPlace {
    provider: String,
    #[serde(default)]
    host: String,
    #[serde(default)]
    repository: String,
}

fn vault<'a>(running: &'a Running, asker: &'a Asker) -> Vault<'a> {
    Vault { cluster: &running.cluster, namespace: running.settings.namespace(), asker }
}

pub(super) async fn tokens(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
) -> Result<Json<GitAccounts>, Refusal> {
    let running = proxy.running()?;
    let tokens = vault(running, &asker).list().await?;
    Ok(Json(GitAccounts { tokens, sign_in: apps::offered(running).await? }))
}

pub(super) async fn register(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
    Json(request): Json<GitRegister>,
) -> Result<Json<GitAccount>, Refusal> {
    let running = proxy.running()?;
    let place = Place::read(running, &request.provider, &request.host)?;
    let token = Secret::new(request.token);
    if token.expose().is_empty() || token.expose().chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(refused("BAD_TOKEN", "the token is empty, or has a space in it"));
    }
    let account =
        account_of(running, &place, &token, None, request.author_name, request.author_email).await?;
    vault(running, &asker).put(&place, &token, None, account).await.map(Json)
}

/// Whose token it is says the provider; a token that it refuses is not kept.
async fn account_of(
    running: &Running,
    place: &Place,
    token: &Secret<String>,
    renewable: Option<&Renewable>,
    name: String,
    email: String,
) -> Result<GitAccount, Refusal> {
    let mut account = GitAccount {
        provider: place.provider.name().to_owned(),
        host: place.host.clone().unwrap_or_default(),
        name,
        email,
        ..GitAccount::default()
    };
    if let Some(call) = place.provider.myself() {
        let answer = place.ask(&place.way(running, token, renewable)?, &call).await?;
        let myself = place.provider.read_myself(&answer).map_err(|error| place.refusal(error))?;
        account.login = myself.login;
        account.name = myself.name;
        if !myself.email.is_empty() {
            account.email = myself.email;
        }
    }
    if account.name.is_empty() || account.email.is_empty() || account.name.contains(['<', '>', '\n']) {
        let message = format!("{place} does not say who you are in commits: give authorName and authorEmail");
        return Err(refused("NO_AUTHOR", message));
    }
    Ok(account)
}

/// The asker's token for that place, as good as it can be.
async fn kept(running: &Arc<Running>, asker: &Asker, place: &Place) -> Result<Kept, Refusal> {
    let found = vault(running, asker).get(place).await?;
    renew::fresh(running, asker, place, found).await
}

pub(super) async fn forget(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
    Json(GitForget { provider, host }): Json<GitForget>,
) -> Result<Json<Value>, Refusal> {
    let running = proxy.running()?;
    // Also where the host is known no more.
    let provider =
        Provider::of_name(&provider).ok_or_else(|| refused("UNKNOWN_PROVIDER", "no such Git provider"))?;
    let host = host.trim_end_matches('/').to_owned();
    let place = Place { provider, host: (!host.is_empty()).then_some(host) };
    match vault(running, &asker).forget(&place).await? {
        true => Ok(done(&format!("the token for {place} is deleted"))),
        false => {
            Err(Refusal::new(StatusCode::NOT_FOUND, "NOT_FOUND", format!("there is no token for {place}")))
        }
    }
}

/// All pages of a list.
async fn all<T>(
    proxy: &Proxy,
    asker: &Asker,
    at: &AtPlace,
    first: impl Fn(&Place) -> Call,
    read: impl Fn(Provider, &Answer) -> Result<Vec<T>, CallError>,
) -> Result<Vec<T>, Refusal> {
    let running = proxy.running()?;
    let place = Place::read(running, &at.provider, &at.host)?;
    let kept = kept(running, asker, &place).await?;
    let way = place.way(running, &kept.token, kept.renewable.as_ref())?;
    let mut found = Vec::new();
    let mut next = Some(first(&place));
    for _ in 0..PAGES_MAX {
        let Some(call) = next else { return Ok(found) };
        let answer = place.ask(&way, &call).await?;
        found.extend(read(place.provider, &answer).map_err(|error| place.refusal(error))?);
        next = place.provider.next_page(&call, &answer);
    }
    Err(refused("TOO_MANY", format!("{place} has more than {PAGES_MAX} pages of these")))
}

pub(super) async fn organizations(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
    Query(at): Query<AtPlace>,
) -> Result<Json<GitNames>, Refusal> {
    let read = |provider: Provider, answer: &Answer| provider.read_organizations(answer);
    let names = all(&proxy, &asker, &at, |place| place.provider.organizations(), read).await?;
    Ok(Json(GitNames { names }))
}

pub(super) async fn repositories(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
    Query(at): Query<AtPlace>,
) -> Result<Json<GitNames>, Refusal> {
    let read = |provider: Provider, answer: &Answer| provider.read_repositories(answer);
    let names = all(&proxy, &asker, &at, |place| place.provider.repositories(), read).await?;
    Ok(Json(GitNames { names }))
}

pub(super) async fn branches(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
    Query(at): Query<AtPlace>,
) -> Result<Json<GitBranches>, Refusal> {
    check_repository(&at.repository)?;
    let read = |provider: Provider, answer: &Answer| provider.read_branches(answer);
    let found = all(&proxy, &asker, &at, |place| place.provider.branches(&at.repository), read).await?;
    let branches = found.into_iter().map(|(name, sha)| GitBranch { name, sha }).collect();
    Ok(Json(GitBranches { branches }))
}

/// It becomes part of addresses.
fn check_repository(name: &str) -> Result<(), Refusal> {
    let part = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
        !part.is_empty() && part != "." && part != ".." && part.chars().all(plain)
    };
    let good = name.contains('/') && name.split('/').all(part) && name.len() <= 300;
    good.then_some(())
        .ok_or_else(|| refused("BAD_REPOSITORY", format!("`{name}` is not a repository: use OWNER/NAME")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_a_name_and_no_address() {
        for good in ["a/b", "group/sub/app.git", "A-1/x_y"] {
            assert!(check_repository(good).is_ok(), "{good}");
        }
        for wrong in
            ["", "a", "a/", "/a", "a/../b", "a/b?x", "a/b#x", "a//b", "https://x/a", "a/b c", "a/%2e%2e"]
        {
            assert!(check_repository(wrong).is_err(), "{wrong}");
        }
    }
}
