//! A GitHub App as somebody who may read repositories: its key signs who it is, and GitHub gives it a token for an hour.
//!
//! In: the App, a repository's address, and somebody who carries calls. Out: a password for git and for the API.

use std::time::Duration;

use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::{Deserialize, Serialize};
use slipway_model::Secret;

use crate::lists::{AskError, Carrier};
use crate::remote::Call;

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

/// What an installation was granted.
#[derive(Clone)]
pub struct AppToken {
    pub value: Secret<String>,
    pub until: Timestamp,
}

/// The user name that git wants with a token of an App.
pub const APP_USER: &str = "x-access-token";
/// Headers of every call to GitHub's API.
pub const HEADERS: [(&str, &str); 2] =
    [("accept", "application/vnd.github+json"), ("x-github-api-version", "2022-11-28")];
/// GitHub takes at most ten minutes, and clocks differ.
const CLAIM: Duration = Duration::from_secs(540);
const SKEW: Duration = Duration::from_secs(60);

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
    /// A token for everything that the installation may read; whoever asks often keeps it. The repository is needed
    /// where no installation is named.
    pub async fn token<C: Carrier>(&self, carrier: &C, repository: &str) -> Result<AppToken, String> {
        let installation = match self.installation.as_str() {
            "" | "0" => {
                let name = repository_name(repository)
                    .ok_or("the address has no owner and name; set githubAppInstallationID")?;
                let call = Call::get(format!("/repos/{name}/installation"));
                let found: Installation = self.ask(carrier, call).await?;
                found.id.to_string()
            }
            known => known.to_owned(),
        };
        let path = format!("/app/installations/{installation}/access_tokens");
        let granted: Granted = self.ask(carrier, Call::post(path, serde_json::json!({}))).await?;
        Ok(AppToken { value: Secret::new(granted.token), until: granted.expires_at })
    }

    /// Everything that makes two Apps differ, the key included: for a digest.
    pub fn identity(&self) -> String {
        let parts = [&self.id, &self.installation, &self.api, self.private_key.expose()];
        parts.map(|part| format!("{}:{part}", part.len())).concat()
    }

    async fn ask<C: Carrier, A: serde::de::DeserializeOwned>(
        &self,
        carrier: &C,
        call: Call,
    ) -> Result<A, String> {
        let call = Call { bearer: Some(self.claim()?), ..call };
        let address = format!("{}{}", carrier.api(), call.path);
        let answer = carrier.carry(&call).await?;
        let value = answer.read(&address).map_err(AskError::into_message)?;
        serde_json::from_value(value).map_err(|_| format!("{address} gave an answer that is not GitHub's"))
    }

    /// Says who asks, signed with the App's key.
    fn claim(&self) -> Result<Secret<String>, String> {
        let now = Timestamp::now();
        let claims = Claims { iat: (now - SKEW).as_second(), exp: (now + CLAIM).as_second(), iss: &self.id };
        let key = EncodingKey::from_rsa_pem(self.private_key.expose().as_bytes())
            .map_err(|_| "githubAppPrivateKey is not an RSA key in PEM form".to_owned())?;
        let claim = jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &key);
        claim.map(Secret::new).map_err(|error| error.to_string())
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
