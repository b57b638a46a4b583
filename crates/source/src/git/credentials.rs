//! What opens a repository. It travels to git by environment and private files, never by arguments.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use slipway_model::Secret;

use super::mirror::Repository;

/// A name and a password that hold for a while.
#[derive(Clone)]
pub struct Token {
    pub username: String,
    pub password: Secret<String>,
    pub until: Timestamp,
}

/// A token is not used in its last minutes: a fetch takes time.
const REST: Duration = Duration::from_secs(300);

impl Token {
    pub(super) fn holds(&self) -> bool {
        Timestamp::now() + REST < self.until
    }
}

/// Somebody who gives out tokens for repositories: the App of a Git provider.
pub trait Tokens: Send + Sync {
    /// Tells two of them apart, the secrets that they hold included.
    fn fingerprint(&self) -> String;
    /// A token for one repository, or a sentence that says why there is none.
    fn token<'a>(&'a self, repo: &'a Repository) -> Giving<'a>;
}

pub type Giving<'a> = Pin<Box<dyn Future<Output = Result<Token, String>> + Send + 'a>>;

/// Everything is optional; an empty value opens public repositories.
#[derive(Clone, Default)]
pub struct Credentials {
    pub username: String,
    pub password: Option<Secret<String>>,
    pub bearer_token: Option<Secret<String>>,
    pub ssh_private_key: Option<Secret<String>>,
    pub tls_client_cert: Option<Secret<String>>,
    pub tls_client_key: Option<Secret<String>>,
    /// Trust this certificate authority besides the system's.
    pub tls_ca: Option<String>,
    /// Do not check certificates and host keys.
    pub insecure: bool,
    /// Registries without encryption (`insecureOCIForceHttp`).
    pub plain_http: bool,
    pub proxy: String,
    /// Host keys for ssh, as in a `known_hosts` file; they win over the cache's own.
    pub known_hosts: Option<String>,
    /// Who gives the password, where it is one that holds for a while.
    pub tokens: Option<Arc<dyn Tokens>>,
    /// Pointers to large files are read as the files.
    pub lfs: bool,
}

impl Credentials {
    pub fn basic(username: impl Into<String>, password: Secret<String>) -> Self {
        Self { username: username.into(), password: Some(password), ..Self::default() }
    }

    /// Tells two credentials apart without saying anything about them.
    pub(crate) fn fingerprint(&self) -> String {
        use sha2::{Digest, Sha256};
        let secret = |value: &Option<Secret<String>>| value.as_ref().map(|s| s.expose().clone());
        let mut hash = Sha256::new();
        for part in [
            Some(self.username.clone()),
            secret(&self.password),
            secret(&self.bearer_token),
            secret(&self.ssh_private_key),
            secret(&self.tls_client_cert),
            secret(&self.tls_client_key),
            self.tls_ca.clone(),
            Some(self.insecure.to_string()),
            Some(self.plain_http.to_string()),
            Some(self.proxy.clone()),
            self.known_hosts.clone(),
            self.tokens.as_ref().map(|tokens| tokens.fingerprint()),
            Some(self.lfs.to_string()),
        ] {
            let part = part.unwrap_or_default();
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hex::encode(hash.finalize())
    }

    /// The `Authorization` header for git over http, if there is anything to say.
    pub(super) fn authorization(&self) -> Option<Secret<String>> {
        Some(Secret::new(format!("Authorization: {}", self.authorization_value()?)))
    }

    /// What stands behind `Authorization:`.
    pub(crate) fn authorization_value(&self) -> Option<String> {
        use base64::Engine;
        if let Some(token) = &self.bearer_token {
            return Some(format!("Bearer {}", token.expose()));
        }
        let password = self.password.as_ref()?;
        // Tokens are often given without a user name; hosts then want any non-empty one.
        let user = if self.username.is_empty() { "git" } else { &self.username };
        let text = format!("{user}:{}", password.expose());
        Some(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text)))
    }
}
