//! A GitHub App as a reader of repositories: its key signs who it is, and GitHub gives it a token for an hour.
//!
//! In: the App and the repository's address. Out: a password for git. It knows nothing of mirrors.

use std::time::Duration;

use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::{Deserialize, Serialize};
use slipway_model::Secret;

use super::mirror::{Repository, display_url};
use super::{Credentials, GitError};
use crate::chart::{Ask, Http};

/// Who the App is; kept in a repository Secret as Argo CD names it.
#[derive(Clone)]
pub struct GithubApp {
    pub id: String,
    /// Empty: the one that has the repository is looked for.
    pub installation: String,
    pub private_key: Secret<String>,
    /// `https://api.github.com`, or an Enterprise's own.
    pub api: String,
}

pub(super) struct Token {
    pub(super) value: Secret<String>,
    until: Timestamp,
}

/// As git wants it with a token of an App.
pub(super) const USER: &str = "x-access-token";
/// GitHub takes at most ten minutes, and clocks differ.
const CLAIM: Duration = Duration::from_secs(540);
const SKEW: Duration = Duration::from_secs(60);
/// A token is not used in its last minutes: a fetch takes time.
const REST: Duration = Duration::from_secs(300);
const ANSWER_BYTES: u64 = 64 * 1024;

impl Token {
    pub(super) fn holds(&self) -> bool {
        Timestamp::now() + REST < self.until
    }
}

#[derive(Serialize)]
struct Claims<'a> {
    iat: i64,
    exp: i64,
    iss: &'a str,
}

#[derive(Deserialize)]
struct Installation {
    id: u64,
}

#[derive(Deserialize)]
struct Granted {
    token: String,
    expires_at: Timestamp,
}

impl GithubApp {
    /// A token for everything that the installation may read; whoever asks often keeps it.
    pub async fn access_token(&self) -> Result<Secret<String>, GitError> {
        let reach = Repository::public(&self.api);
        Ok(self.token(&Http::default(), &reach).await?.value)
    }

    pub(super) async fn token(&self, http: &Http, repo: &Repository) -> Result<Token, GitError> {
        let failed = |detail: String| GitError::GithubApp { repo: display_url(&repo.url), detail };
        let installation = match self.installation.as_str() {
            "" | "0" => {
                let name = repository_name(&repo.url).ok_or_else(|| {
                    failed("the address has no owner and name; set githubAppInstallationID".into())
                })?;
                let path = format!("/repos/{name}/installation");
                let found: Installation = self.ask(http, repo, &path, None).await.map_err(failed)?;
                found.id.to_string()
            }
            known => known.to_owned(),
        };
        let path = format!("/app/installations/{installation}/access_tokens");
        let granted: Granted = self.ask(http, repo, &path, Some(b"{}".to_vec())).await.map_err(failed)?;
        Ok(Token { value: Secret::new(granted.token), until: granted.expires_at })
    }

    async fn ask<A: serde::de::DeserializeOwned>(
        &self,
        http: &Http,
        repo: &Repository,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<A, String> {
        let url = format!("{}{path}", self.api.trim_end_matches('/'));
        let bearer = format!("Bearer {}", self.claim()?);
        let reach = Credentials {
            tls_ca: repo.credentials.tls_ca.clone(),
            insecure: repo.credentials.insecure,
            proxy: repo.credentials.proxy.clone(),
            ..Credentials::default()
        };
        let ask = Ask {
            url: &url,
            credentials: Some(&reach),
            authorization: Some(&bearer),
            headers: &[("accept", "application/vnd.github+json"), ("x-github-api-version", "2022-11-28")],
            body,
        };
        let bytes = http.answer(ask, ANSWER_BYTES).await.map_err(|error| error.to_string())?;
        serde_json::from_slice(&bytes).map_err(|_| format!("{url} gave an answer that is not GitHub's"))
    }

    /// Says who asks, signed with the App's key.
    fn claim(&self) -> Result<String, String> {
        let now = Timestamp::now();
        let claims = Claims { iat: (now - SKEW).as_second(), exp: (now + CLAIM).as_second(), iss: &self.id };
        let key = EncodingKey::from_rsa_pem(self.private_key.expose().as_bytes())
            .map_err(|_| "githubAppPrivateKey is not an RSA key in PEM form".to_owned())?;
        jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &key).map_err(|error| error.to_string())
    }
}

/// `owner/name` of an address.
fn repository_name(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let mut parts = rest.split('/').skip(1).filter(|part| !part.is_empty());
    let (owner, name) = (parts.next()?, parts.next()?);
    let plain = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let name = name.strip_suffix(".git").unwrap_or(name);
    (plain(owner) && plain(name)).then(|| format!("{owner}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_owner_and_nothing_else() {
        assert_eq!(repository_name("https://github.com/team/app.git").as_deref(), Some("team/app"));
        assert_eq!(repository_name("https://github.com/team"), None);
        assert_eq!(repository_name("https://github.com/te%2Fam/app"), None);
    }
}
