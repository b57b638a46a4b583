//! A small HTTP client for the control plane, used by the CLI, the runner and the runtime.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use slipway_model::{Next, Secret};

use crate::error::ErrorBody;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct Client {
    base: String,
    key: Secret<String>,
    http: reqwest::Client,
    /// Why nobody at an https address can be trusted here.
    distrust: Option<String>,
}

/// How callers of the control plane are set up: whom they trust, and that they follow nobody elsewhere. `ca` is a file of
/// certificates, as PEM, that count besides the system's own.
pub fn http(base: &str, ca: Option<&[u8]>) -> Result<reqwest::Client, String> {
    let builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        // Nobody sends the key elsewhere, nor from https to http.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("slipway/", env!("CARGO_PKG_VERSION")));
    let builder = match ca {
        Some(pem) => {
            let certificates = reqwest::Certificate::from_pem_bundle(pem).unwrap_or_default();
            if certificates.is_empty() {
                return Err("the file of --ca holds no certificate: it is PEM, with BEGIN CERTIFICATE".into());
            }
            builder.tls_certs_merge(certificates)
        }
        // Nothing is verified without TLS, and a machine without certificates has to do.
        None if base.starts_with("http://") => builder.tls_certs_only([]),
        None => builder,
    };
    builder.build().map_err(|_| NO_CERTIFICATES.to_owned())
}

const NO_CERTIFICATES: &str = "this machine has no certificates of authorities, so no https address can be trusted: \
    install its package `ca-certificates`, name a file of them in SSL_CERT_FILE, or give a runner the server's own with --ca FILE";

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot reach {url}: is the server running there?")]
    Unreachable { url: String, source: reqwest::Error },
    #[error(
        "{url} shows a certificate that this machine does not trust, so nothing was said to it: if it is yours, name the file of its authority (a runner's --ca, or SSL_CERT_FILE); if not, somebody is on the way ({why})"
    )]
    Untrusted { url: String, why: String },
    #[error("{}", .0.message)]
    Refused(ErrorBody),
    /// The server has too much to do, and says for how long.
    #[error("{}", .body.message)]
    Later { body: ErrorBody, after: Duration },
    #[error("{0}")]
    Untrusting(String),
    #[error("{url} answered with something that is not what this version of slipway expects")]
    Unexpected { url: String, source: reqwest::Error },
}

impl ClientError {
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(body) | Self::Later { body, .. } => Some(body.status),
            _ => None,
        }
    }

    pub fn next(&self) -> Next {
        match self {
            // A certificate may be mended without us.
            Self::Unreachable { .. }
            | Self::Untrusted { .. }
            | Self::Unexpected { .. }
            | Self::Later { .. } => Next::Retry,
            Self::Refused(body) if body.status >= 500 || body.status == 429 => Next::Retry,
            Self::Refused(_) | Self::Untrusting(_) => Next::NeedsHuman,
        }
    }
}

impl Client {
    /// `base` is the address that the server printed, without `/api`.
    pub fn new(base: impl Into<String>, key: Secret<String>) -> Self {
        let base = base.into().trim_end_matches('/').to_owned();
        match Self::trusting(&base, key.clone(), None) {
            Ok(client) => client,
            // Its calls say so.
            Err(why) => Self { distrust: Some(why), ..Self::bare(&base, key) },
        }
    }

    /// Trusts these certificates besides the system's own.
    pub fn trusting(base: &str, key: Secret<String>, ca: Option<&[u8]>) -> Result<Self, String> {
        Ok(Self { http: http(base, ca)?, ..Self::bare(base, key) })
    }

    fn bare(base: &str, key: Secret<String>) -> Self {
        let http = reqwest::Client::builder()
            .tls_certs_only([])
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .expect("a client with static settings builds");
        Self { base: base.trim_end_matches('/').to_owned(), key, http, distrust: None }
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    /// For who has to show it to the same server in another way than in the Authorization header.
    pub fn key(&self) -> &Secret<String> {
        &self.key
    }

    pub fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).header("authorization", self.key.expose())
    }

    pub async fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, ClientError> {
        self.json(self.request(reqwest::Method::GET, path)).await
    }

    pub async fn post<B: Serialize + ?Sized, A: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<A, ClientError> {
        self.json(self.request(reqwest::Method::POST, path).json(body)).await
    }

    pub async fn put<B: Serialize + ?Sized, A: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<A, ClientError> {
        self.json(self.request(reqwest::Method::PUT, path).json(body)).await
    }

    pub async fn patch<B: Serialize + ?Sized, A: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<A, ClientError> {
        self.json(self.request(reqwest::Method::PATCH, path).json(body)).await
    }

    pub async fn delete<A: DeserializeOwned>(&self, path: &str) -> Result<A, ClientError> {
        self.json(self.request(reqwest::Method::DELETE, path)).await
    }

    /// Sends and gives back the answer unread; an error status becomes an error.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, ClientError> {
        if let Some(why) = &self.distrust {
            return Err(ClientError::Untrusting(why.clone()));
        }
        let response = request.send().await.map_err(|source| match untrusted(&source) {
            Some(why) => ClientError::Untrusted { url: self.base.clone(), why },
            None => ClientError::Unreachable { url: self.base.clone(), source },
        })?;
        let status = response.status().as_u16();
        if status < 300 {
            return Ok(response);
        }
        let after = response.headers().get("retry-after").and_then(|after| after.to_str().ok()?.parse().ok());
        let text = response.text().await.unwrap_or_default();
        let body: ErrorBody = serde_json::from_str(&text).unwrap_or_else(|_| ErrorBody {
            status,
            code: status.to_string(),
            name: "HTTP_ERROR".into(),
            message: format!(
                "{} answered {status}: {}",
                self.base,
                text.chars().take(300).collect::<String>()
            ),
            details: Vec::new(),
            request_id: None,
        });
        match after.filter(|_| status == 429) {
            Some(seconds) => Err(ClientError::Later { body, after: Duration::from_secs(seconds) }),
            None => Err(ClientError::Refused(body)),
        }
    }

    async fn json<A: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<A, ClientError> {
        let response = self.send(request).await?;
        let url = response.url().to_string();
        response.json().await.map_err(|source| ClientError::Unexpected { url, source })
    }
}

/// What is wrong with the other side's certificate, if that is why a call failed.
pub fn untrusted(error: &reqwest::Error) -> Option<String> {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        // The words of the library that checks them; its type is hidden behind two others.
        let text = cause.to_string();
        if text.starts_with("invalid peer certificate") {
            return Some(text);
        }
        source = cause.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_holds_no_certificate_is_told_and_plain_http_needs_none() {
        for text in ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            let refused = http("https://slipway.example", Some(text.as_bytes())).map(drop).unwrap_err();
            assert!(refused.contains("holds no certificate"), "{refused}");
        }
        http("http://slipway.example", None).unwrap();
    }
}
